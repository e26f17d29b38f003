"""Placing: one pod, tried on what stands, on what is under way, and on a node of its own."""

from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import TypeAlias

from wainwright.core.answer import Kind
from wainwright.core.classes import Classes
from wainwright.core.drafts import Change, Draft, DraftTable
from wainwright.core.fit import fit
from wainwright.core.ladder import Ladder, Step
from wainwright.core.nodes import NodeTable
from wainwright.core.patience import Stretch
from wainwright.core.site import Site
from wainwright.core.templates import Template
from wainwright.core.topology.restriction import Restriction
from wainwright.core.topology.topology import Topology
from wainwright.core.wishes import Ask, PodClass, Stage, Wish, both
from wainwright.model.columns import Rows
from wainwright.model.pod import Pod
from wainwright.model.preference import GivenUp
from wainwright.model.requirements import NO_REQUIREMENTS, Requirements

Introduce: TypeAlias = Callable[[Ask], None]
Fit: TypeAlias = Callable[[Draft, Wish], Change | None]


class Found(Enum):
    PLACE = auto()
    NOTHING_YET = auto()
    NOTHING_EVER = auto()


class Placing(Site):
    """Tries one pod after the other."""

    def __init__(
        self,
        templates: Sequence[Template],
        nodes: NodeTable,
        table: DraftTable,
        ladder: Ladder,
        classes: Classes,
        topology: Topology | None = None,
    ) -> None:
        super().__init__(templates, nodes, table, ladder, topology)
        self.strict_weights = False
        self.given_up: list[tuple[Pod, tuple[GivenUp, ...]]] = []
        """Pods that found a place only after they had given up what they would have liked."""
        self.introduce: Introduce = _known
        self._classes = classes
        self._fit: Fit = fit

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

    def _tied(self, pod: Pod, group: PodClass, stage: Stage) -> Found | None:
        assert stage.bound is not None
        assert self.topology is not None
        limits = self.topology.restriction(stage.bound)
        if limits is None:
            return None
        for number, wish in enumerate(stage.wishes):
            if limits.nodes and self._take(pod, group, wish, limits.nodes):
                return Found.PLACE
            step = self._best(self._new(stage, limits), number) if self.strict_weights else None
            forbidden = self._barred(stage, limits, step)
            if self._join_tied(pod, group, (stage, number), limits, forbidden):
                return Found.PLACE
            step = step or self._best(self._new(stage, limits), number)
            if step is not None:
                other = self._alternative(stage, limits, step)
                if other != number and self._join_tied(
                    pod, group, (stage, other), limits, forbidden
                ):
                    return Found.PLACE
                return self._opened(pod, group, step)
        return None

    def _alternative(self, stage: Stage, limits: Restriction, step: Step) -> int:
        """Which of the alternatives the step is for: a slot may be one for another."""
        options = self._options(stage, limits)
        return next(each.wishes.index(step.wish) for each in options if step.wish in each.wishes)

    def _options(self, stage: Stage, limits: Restriction) -> list[Stage]:
        return [self._within(stage, extra) for extra in limits.options]

    def _new(self, stage: Stage, limits: Restriction) -> list[Stage]:
        """As what the pod may ask for a node of its own."""
        return [] if limits.near_a_node else self._options(stage, limits)

    def _barred(self, stage: Stage, limits: Restriction, step: Step | None) -> Rows:
        if not (self.stock.live and self.table.unreserved) and step is None:
            return 0
        return self._forbidden(self._new(stage, limits), step)

    def _opened(self, pod: Pod, group: PodClass, step: Step) -> Found:
        if step.answer.kind is Kind.WAIT:
            if group.needs is None:
                group.needs = self.ladder.needs(group)
            return Found.NOTHING_YET
        self._open(pod, group, step)
        return Found.PLACE

    def _best(self, options: Sequence[Stage], number: int) -> Step | None:
        """The step with the highest weight; at one weight a slot goes before anything else."""
        best: Step | None = None
        for option in options:
            step = self.ladder.step(option, option.wishes[number])
            if step is None:
                continue
            if best is None or _rank(step) < _rank(best):
                best = step
            if not self.stock.live and best.weight == self.ladder.highest:
                return best  # nothing that comes later can be better
        return best

    def _forbidden(self, stages: Sequence[Stage], step: Step | None) -> Rows:
        """The drafts that the pod must not join, although it might fit."""
        found = 0
        if self.stock.live and self.table.unreserved:
            slot = -1
            for stage in stages:  # spelt out, as nearly every pod comes by
                slot = max(slot, self.ladder.slot_weight(stage))
            if slot >= 0:
                found = self._below(slot + 1) & self.table.unreserved
        return found if step is None else found | self._below(step.weight)

    def _below(self, weight: int) -> Rows:
        found = 0
        for template in self.templates:
            if template.pool.weight < weight:
                found |= self.table.of_template[template.number]
        return found

    def _join(self, pod: Pod, group: PodClass, wish: Wish, forbidden: Rows) -> bool:
        table = self.table
        settled = table.settled if wish.barren != self.round else 0
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

    def _join_tied(
        self,
        pod: Pod,
        group: PodClass,
        asked: tuple[Stage, int],
        limits: Restriction,
        forbidden: Rows,
    ) -> bool:
        """As above, where drafts that have not settled have to for the sake of the pod."""
        table, (stage, number) = self.table, asked
        wish = stage.wishes[number]
        for drafts, choice in ((table.settled, table.first), (table.current, table.emptiest)):
            free = drafts ^ (drafts & forbidden)
            decided = table.candidates(wish, free & limits.drafts)
            left, maybe, among = decided, free & limits.undecided, [wish]
            if maybe:
                among = [option.wishes[number] for option in self._options(stage, limits)]
                for option in among:
                    left |= table.candidates(option, maybe)
            while left:
                draft = choice(left)
                tried = (wish,) if draft.bit & decided else among
                if self._join_as(pod, group, tried, draft):
                    return True
                left ^= draft.bit
        return False

    def _join_as(self, pod: Pod, group: PodClass, options: Sequence[Wish], draft: Draft) -> bool:
        for wish in options:
            ask = wish.ask
            if (
                draft.bit & (wish.rejected | ask.rejected)
                or ask.terms[draft.template.number] is None
            ):
                continue
            change = self._fit(draft, wish)
            if change is not None:
                self._apply(pod, group, wish, draft, change)
                return True
        return False

    def _within(self, stage: Stage, extra: Requirements) -> Stage:
        """The same stage where more is required of nodes."""
        if not extra:
            return stage
        found = stage.within.get(extra)
        if found is None:
            wishes = tuple([self._narrowed(wish, extra) for wish in stage.wishes])
            found = stage.within[extra] = Stage(wishes, None, ())
        return found

    def _impossible(self) -> Ask:
        """What nobody can give."""
        ask = Ask(NO_REQUIREMENTS, ())
        ask.terms = [None] * len(self.templates)
        ask.refused_by = tuple(range(len(self.templates)))
        return ask

    def _narrowed(self, wish: Wish, extra: Requirements) -> Wish:
        asked = wish.ask
        wanted = both(asked.requirements, extra)
        if wanted is None:
            ask = self._impossible()
        else:
            ask = self._classes.ask(wanted, asked.tolerations, asked.ports)
        if not ask.terms:
            self.introduce(ask)
        made = Wish(ask, wish.amounts, wish.columns)
        made.short = wish.short
        return made


def _rank(step: Step) -> tuple[int, int]:
    return -step.weight, step.answer.kind


def _known(_: Ask) -> None:
    raise AssertionError("nobody introduced new asks to the pools")
