"""Tied: pods that mind where others are, tried on what the others leave them.

A draft that could still be in several zones settles on one when such a pod joins it, and a new
node is opened in one: where the fewest pods are that it is spread with, and of places that are
equal in that, where the node costs least.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from wainwright.core.answer import Kind
from wainwright.core.classes import Classes
from wainwright.core.drafts import Change, Draft, DraftTable
from wainwright.core.fit import fit
from wainwright.core.ladder import Ladder, Step
from wainwright.core.minvalues import Minimums
from wainwright.core.narrowing import Narrowing
from wainwright.core.nodes import NodeTable
from wainwright.core.prices import left_after, left_to, price
from wainwright.core.site import Found, Site
from wainwright.core.templates import Template
from wainwright.core.topology.restriction import Crowd, Restriction
from wainwright.core.topology.topology import Topology
from wainwright.core.wishes import Ask, PodClass, Stage, Wish, both
from wainwright.model.columns import REMEMBERED, Rows
from wainwright.model.pod import Pod
from wainwright.model.preference import GivenUp
from wainwright.model.requirements import NO_REQUIREMENTS, Requirements

Introduce: TypeAlias = Callable[[Ask], None]
Fit: TypeAlias = Callable[[Draft, Wish], Change | None]
Ways: TypeAlias = tuple[tuple[Wish, Crowd], ...]
"""What may be asked of one place, and how crowded each is."""


class Tied(Site):
    """Tries pods with bonds to others."""

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
        self._prices: dict[tuple[Narrowing, Rows, Minimums], float] = {}

    def _tied(self, pod: Pod, group: PodClass, stage: Stage) -> Found | None:
        assert stage.bound is not None
        assert self.topology is not None
        if stage.bound.near:
            if not any(wish.ask.is_possible(self.nodes.standing) for wish in stage.wishes):
                return None  # nobody is to settle for that
            company = self.topology.company(stage.bound)
            if self._joins_any(pod, group, stage, company):
                return Found.PLACE
        found = self._within_limits(pod, group, stage, self.topology.restriction(stage.bound))
        if found is None and stage.bound.spreads:
            adrift = self.topology.steering(stage.bound)
            return Found.PLACE if self._joins_any(pod, group, stage, adrift) else None
        return found

    def _within_limits(
        self, pod: Pod, group: PodClass, stage: Stage, limits: Restriction | None
    ) -> Found | None:
        if limits is None:
            return None
        for number, wish in enumerate(stage.wishes):
            if limits.nodes and self._take(pod, group, wish, limits.nodes):
                return Found.PLACE
            step = self._best(stage, limits, number) if self.strict_weights else None
            forbidden = self._barred(stage, limits, step)
            if self._join_tied(pod, group, (stage, number), limits, forbidden):
                return Found.PLACE
            step = step or self._best(stage, limits, number)
            if step is not None:
                other = self._alternative(stage, limits, step)
                if other != number and self._join_tied(
                    pod, group, (stage, other), limits, forbidden
                ):
                    return Found.PLACE
                return self._opened(pod, group, step)
        return None

    def _joins_any(
        self, pod: Pod, group: PodClass, stage: Stage, limits: Restriction | None
    ) -> bool:
        """Joins a draft that is left to the pod, but opens none."""
        if limits is None:
            return False
        for number in range(len(stage.wishes)):
            step = self._best(stage, limits, number) if self.strict_weights else None
            forbidden = self._barred(stage, limits, step)
            if self._join_tied(pod, group, (stage, number), limits, forbidden):
                return True
        return False

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

    def _best(self, stage: Stage, limits: Restriction, number: int) -> Step | None:
        """The step with the highest weight; at one weight a slot goes before anything else.

        Then comes where the fewest pods are, and then the price.
        """
        equal: list[Step] = []
        here: Crowd = ()
        for option, crowd in zip(self._new(stage, limits), limits.crowds, strict=False):
            if equal and crowd != here and self._is_best(equal[0]):
                break
            step = self.ladder.step(option, option.wishes[number])
            if step is not None and (not equal or _rank(step) < _rank(equal[0])):
                equal, here = [step], crowd
            elif step is not None and crowd == here and _rank(step) == _rank(equal[0]):
                equal.append(step)
        return self._cheapest(equal) if equal else None

    def _is_best(self, step: Step) -> bool:
        """Whether nothing that comes later can be better."""
        return not self.stock.live and step.weight == self.ladder.highest

    def _cheapest(self, equal: Sequence[Step]) -> Step:
        if len(equal) == 1 or equal[0].answer.kind is Kind.WAIT:
            return equal[0]
        return min(equal, key=lambda step: price(left_to(step), self.stock.free))

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
            if not free:
                continue
            decided = table.candidates(wish, free & limits.drafts)
            left, maybe = decided, free & limits.undecided
            among: Ways = ()
            if maybe:
                among = self._ranked(stage, number, limits)
                for option, _ in among:
                    left |= table.candidates(option, maybe)
            while left:
                draft = choice(left)
                if draft.bit & decided:
                    joined = self._join_one(pod, group, draft, wish)
                else:
                    joined = self._join_as(pod, group, draft, among)
                if joined:
                    return True
                left ^= draft.bit
        return False

    def _join_one(self, pod: Pod, group: PodClass, draft: Draft, wish: Wish) -> bool:
        change = self._fit(draft, wish)
        if change is None:
            return False
        self._apply(pod, group, wish, draft, change)
        return True

    def _ranked(self, stage: Stage, number: int, limits: Restriction) -> Ways:
        """One of the alternatives in all places where it may be, the emptiest first."""
        options = self._options(stage, limits)
        wishes = [option.wishes[number] for option in options]
        return tuple(zip(wishes, limits.crowds, strict=True))

    def _join_as(self, pod: Pod, group: PodClass, draft: Draft, options: Ways) -> bool:
        """Joins the draft in the first way, or in the cheapest of those that are equal to it."""
        ways: list[tuple[Wish, Change]] = []
        here: Crowd = ()
        for wish, crowd in options:
            if ways and (crowd != here or draft.pinned):
                break
            change = self._changed(draft, wish)
            if change is not None:
                ways.append((wish, change))
                here = crowd
        if not ways:
            return False
        wish, change = ways[0]
        if len(ways) > 1:
            wish, change = min(ways, key=lambda way: self._price(draft, way[1]))
        self._apply(pod, group, wish, draft, change)
        return True

    def _price(self, draft: Draft, change: Change) -> float:
        if change.held:
            return price(left_after(draft, change), self.stock.free)
        asked = (change.narrowing, change.rows, draft.minimums)
        found = self._prices.get(asked)
        if found is None:
            if len(self._prices) >= REMEMBERED:
                self._prices.clear()
            found = self._prices[asked] = price(left_after(draft, change), self.stock.free)
        return found

    def _changed(self, draft: Draft, wish: Wish) -> Change | None:
        ask = wish.ask
        if draft.bit & (wish.rejected | ask.rejected) or ask.terms[draft.template.number] is None:
            return None
        return self._fit(draft, wish)

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
