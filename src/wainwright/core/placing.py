"""Placing: one pod, tried on what stands, on what is under way, and on a node of its own."""

from collections.abc import Sequence

from wainwright.core.ladder import Step
from wainwright.core.patience import Stretch
from wainwright.core.site import Found
from wainwright.core.tied import Tied
from wainwright.core.wishes import PodClass, Stage, Wish
from wainwright.model.columns import Rows
from wainwright.model.pod import Pod


class Placing(Tied):
    """Tries one pod after the other."""

    def arrange(self, _: Sequence[Stretch]) -> int:
        """Puts pods somewhere together before a round tries them one by one; says how many.

        First-fit does not: there is nothing to gain but the cost.
        """
        return 0

    def place(self, pod: Pod, group: PodClass) -> Found:
        """Tries the stages in turn; a slot that is merely held makes nobody more modest."""
        for stage in group.stages:
            if stage.bound is None:
                found = self._untied(pod, group, stage)
            else:
                found = self._tied(pod, group, stage)
            if found is Found.PLACE and stage.given_up:
                self.given_up.append((pod, stage.given_up))
            if found is not None:
                return found
        return self._nothing(group)

    def _nothing(self, group: PodClass) -> Found:
        if group.is_tied:
            return Found.NOTHING_YET  # others may move, or have to
        limited = any(self.ladder.limited(wish) for wish in group.wishes)
        return Found.NOTHING_YET if limited else Found.NOTHING_EVER

    def _untied(self, pod: Pod, group: PodClass, stage: Stage) -> Found | None:
        for wish in stage.wishes:
            if self._take(pod, group, wish, -1):
                return Found.PLACE
            step = self.ladder.step(stage, wish) if self.strict_weights else None
            if self._join(pod, group, wish, self._forbidden((stage,), step)):
                return Found.PLACE
            if self.patience.waits(group):
                return Found.NOTHING_YET  # as the pools would say, and a slot will come
            step = step or self.ladder.step(stage, wish)
            if step is not None:
                return self._other(pod, group, stage, step, wish) or self._opened(pod, group, step)
        return None

    def _other(
        self, pod: Pod, group: PodClass, stage: Stage, step: Step, wish: Wish
    ) -> Found | None:
        """With a slot for another alternative, that one may find room opened already."""
        if step.wish is wish:
            return None
        higher = self.ladder.step(stage, step.wish) if self.strict_weights else None
        forbidden = self._forbidden((stage,), higher)
        return Found.PLACE if self._join(pod, group, step.wish, forbidden) else None

    def _join(self, pod: Pod, group: PodClass, wish: Wish, forbidden: Rows) -> bool:
        table = self.table
        tried = self.passes_over_settled or wish.barren == self.round
        settled = 0 if tried else table.settled
        for among, choice in ((settled, table.first), (table.current, table.emptiest)):
            left = table.candidates(wish, among ^ (among & forbidden)) if among else 0
            while left:
                draft = choice(left)
                change = self._fit(draft, wish)
                if change is not None:
                    self._apply(pod, group, wish, draft, change)
                    return True
                left ^= draft.bit
            if among is settled and not forbidden:
                wish.barren = self.round  # what is under way only gets fuller
        return False
