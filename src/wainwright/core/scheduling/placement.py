"""Placement: one pod, tried on existing nodes, on in-flight nodes, on drafts, and on a new node.

Pods with topology constraints are tried within the domains that other pods leave them. A draft that
could still be in several zones decides on one when such a pod joins it, and a new node is opened in
one: where the fewest pods are that it is spread with, and of domains that are equal in that, where
the node costs least.
"""

from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import TypeAlias

import msgspec

from wainwright.core.launch.launch_choice import LaunchOptions, choose_offering, hourly_cost
from wainwright.core.scheduling.compiled_requirements import CompiledRequirements
from wainwright.core.scheduling.drafts import Draft, DraftChange, DraftTable, narrow_draft, try_fit
from wainwright.core.scheduling.existing_nodes import ExistingNodes
from wainwright.core.scheduling.min_values import MinValues
from wainwright.core.scheduling.new_node import NewNodeCandidate, NodePoolSelector
from wainwright.core.scheduling.nodeclaim_template import NodeClaimTemplate
from wainwright.core.scheduling.pod_classes import PodClasses
from wainwright.core.scheduling.pod_requirements import (
    OptionKind,
    PodClass,
    PodRequirements,
    RelaxationLevel,
    SchedulingRequirements,
    combine_requirements,
)
from wainwright.core.scheduling.queue import QueueSegment
from wainwright.core.scheduling.reservation_manager import ReservationManager
from wainwright.core.scheduling.reservation_wait import ReservationWait
from wainwright.core.scheduling.topology.allowed_domains import AllowedDomains, DomainCounts
from wainwright.core.scheduling.topology.domains import NoValue, launched_value
from wainwright.core.scheduling.topology.groups import ANTI_AFFINITY_KINDS, LabelGroup
from wainwright.core.scheduling.topology.topology import Topology
from wainwright.model.bitset import MAX_CACHED_RESULTS, BitSet
from wainwright.model.pod import Pod
from wainwright.model.reasons import RelaxedPreference
from wainwright.model.requirements import NO_REQUIREMENTS, Requirements, parse_requirement


def launch_price(left: LaunchOptions, free: Callable[[str], int]) -> float:
    """USD per hour with fees; `free` tells how many slots a reservation has left."""
    buy = choose_offering(left, free)
    return hourly_cost(left.index, buy.row, buy.offering)


def options_of_candidate(step: NewNodeCandidate) -> LaunchOptions:
    """What a node that is opened so may be."""
    template, answer = step.template, step.answer
    assert answer.narrowing is not None
    return LaunchOptions(
        index=template.index,
        rows=answer.rows,
        offering_groups=answer.narrowing.offering_groups,
        held=answer.held,
        slots=template.shelf.available_in(answer.held, answer.rows),
        requirements=answer.narrowing.requirements,
        minimums=answer.minimums,
    )


def options_after(draft: Draft, change: DraftChange) -> LaunchOptions:
    """What the draft may be when it has changed."""
    return msgspec.structs.replace(
        draft.left,
        rows=change.rows,
        offering_groups=change.narrowing.offering_groups,
        held=change.held,
        slots=change.reserved_rows,
        requirements=change.narrowing.requirements,
    )


class PlacementResult(Enum):
    PLACE = auto()
    NOTHING_YET = auto()
    NOTHING_EVER = auto()


class PlacementState:
    """Nodes, drafts and stock, and the only ways in which they change."""

    def __init__(
        self,
        templates: Sequence[NodeClaimTemplate],
        nodes: ExistingNodes,
        table: DraftTable,
        ladder: NodePoolSelector,
        topology: Topology | None = None,
    ) -> None:
        self.templates = templates
        self.nodes = nodes
        self.table = table
        self.ladder = ladder
        self.stock: ReservationManager = ladder.stock
        self.patience = ReservationWait(ladder, table)
        self.patient = ANTI_AFFINITY_KINDS
        """Groups of these kinds do not make drafts settle before their round is over."""
        self.passes_over_settled = False
        """Whether the machines under way are too full for whoever is tried now."""
        self.round = 0
        self.topology = topology
        if topology is not None:
            topology.decide = self._decide

    def _take(self, pod: Pod, group: PodClass, wish: PodRequirements, among: BitSet) -> bool:
        number = self.nodes.take(pod, group, wish, among)
        if number is None:
            return False
        if group.counted and self.topology is not None:
            self.topology.put_on_node(group, number)
        return True

    def _opened(self, pod: Pod, group: PodClass, step: NewNodeCandidate) -> PlacementResult:
        if step.answer.kind is OptionKind.WAIT:
            if group.needs is None:
                group.needs = self.ladder.needs(group)
            return PlacementResult.NOTHING_YET
        self._open(pod, group, step)
        return PlacementResult.PLACE

    def _open(self, pod: Pod, group: PodClass, step: NewNodeCandidate) -> None:
        draft = self._begin(step)
        step.template.limits.charge(draft.rows)
        self.stock.touch()
        self.patience.opened()
        self._put(pod, group, step.wish, draft, narrowed=True)

    def _begin(self, step: NewNodeCandidate) -> Draft:
        """A draft that nobody is on, and that no limit has counted yet."""
        draft = Draft(len(self.table.drafts), self.round, step.template, step.answer)
        self.table.add(draft)
        if draft.held:
            self.stock.hold(step.template.shelf.ids(draft.held))
        if self.topology is not None:
            self.topology.opened(draft)
        return draft

    def _put(
        self, pod: Pod, group: PodClass, wish: PodRequirements, draft: Draft, *, narrowed: bool
    ) -> None:
        self.table.put(pod, wish, draft, narrowed=narrowed)
        if group.counted and self.topology is not None:
            self.topology.put_on_draft(group, draft)

    def _apply(
        self, pod: Pod, group: PodClass, wish: PodRequirements, draft: Draft, change: DraftChange
    ) -> None:
        narrowed = self._change(draft, change)
        self._put(pod, group, wish, draft, narrowed=narrowed)

    def _change(self, draft: Draft, change: DraftChange) -> bool:
        """Leaves the draft what the change leaves; says whether it lost types."""
        if change.held != draft.held:
            self._let_go(draft, change)
        fewer, before = change.rows != draft.rows, draft.narrowing
        draft.rows, draft.narrowing = change.rows, change.narrowing
        draft.reserved_rows, draft.witnesses = change.reserved_rows, change.witnesses
        if self.topology is not None and before is not change.narrowing:
            self.topology.narrowed(draft)
        return fewer

    def _let_go(self, draft: Draft, change: DraftChange) -> None:
        """Gives back the reservations that the draft can no longer use."""
        if not draft.pinned:  # else all but the one that it is launched with were given back
            shelf = draft.template.shelf
            before, after = shelf.ids(draft.held), shelf.ids(change.held)
            self.stock.release(before ^ (before & after))
            self.patience.let_go(before ^ (before & after))
        draft.held = change.held

    def _decide(self, draft: Draft, group: LabelGroup) -> "str | NoValue | None":
        """Has the draft settle on what it would be launched with, as somebody must know."""
        if group.kind in self.patient and not draft.pinned:
            return NoValue.UNDECIDED
        key = group.key
        buy = draft.buy or choose_offering(draft.left, self.stock.free)
        value = launched_value(draft, buy, key)
        if value is None:
            return None
        change = narrow_draft(draft, Requirements([parse_requirement(key, "In", (value,))]))
        if change is None:
            return value if draft.pinned else NoValue.UNDECIDED
        if self._change(draft, change) and not draft.pinned:
            self.table.measure(draft)
        return value

    def _forbidden(
        self, stages: Sequence[RelaxationLevel], step: NewNodeCandidate | None
    ) -> BitSet:
        """The drafts that the pod must not join, although it might fit."""
        found = 0
        if self.stock.live and self.table.unreserved:
            slot = -1
            for stage in stages:  # spelt out, as nearly every pod comes by
                slot = max(slot, self.ladder.slot_weight(stage))
            if slot >= 0:
                found = self._below(slot + 1) & self.table.unreserved
        return found if step is None else found | self._below(step.weight)

    def _below(self, weight: int) -> BitSet:
        found = 0
        for template in self.templates:
            if template.pool.weight < weight:
                found |= self.table.of_template[template.number]
        return found


EvaluatePools: TypeAlias = Callable[[SchedulingRequirements], None]
FitFunction: TypeAlias = Callable[[Draft, PodRequirements], DraftChange | None]
RankedOptions: TypeAlias = tuple[tuple[PodRequirements, DomainCounts], ...]
"""What may be asked of one place, and how crowded each is."""


class TopologyPlacement(PlacementState):
    """Tries pods with constraints to others."""

    def __init__(
        self,
        templates: Sequence[NodeClaimTemplate],
        nodes: ExistingNodes,
        table: DraftTable,
        ladder: NodePoolSelector,
        classes: PodClasses,
        topology: Topology | None = None,
    ) -> None:
        super().__init__(templates, nodes, table, ladder, topology)
        self.strict_weights = False
        self.given_up: list[tuple[Pod, tuple[RelaxedPreference, ...]]] = []
        """Pods that found a place only after they had given up what they would have liked."""
        self.introduce: EvaluatePools = _not_evaluated
        self._classes = classes
        self._fit: FitFunction = try_fit
        self._prices: dict[tuple[CompiledRequirements, BitSet, MinValues], float] = {}

    def _tied(self, pod: Pod, group: PodClass, stage: RelaxationLevel) -> PlacementResult | None:
        assert stage.bound is not None
        assert self.topology is not None
        if stage.bound.near:
            if not any(wish.ask.is_possible(self.nodes.standing) for wish in stage.wishes):
                return None  # nobody is to settle for that
            company = self.topology.company(stage.bound)
            if self._joins_any(pod, group, stage, company):
                return PlacementResult.PLACE
        found = self._within_limits(pod, group, stage, self.topology.restriction(stage.bound))
        if found is None and stage.bound.spreads:
            adrift = self.topology.steering(stage.bound)
            return PlacementResult.PLACE if self._joins_any(pod, group, stage, adrift) else None
        return found

    def _within_limits(
        self, pod: Pod, group: PodClass, stage: RelaxationLevel, limits: AllowedDomains | None
    ) -> PlacementResult | None:
        if limits is None:
            return None
        for number, wish in enumerate(stage.wishes):
            if limits.nodes and self._take(pod, group, wish, limits.nodes):
                return PlacementResult.PLACE
            step = self._best(stage, limits, number) if self.strict_weights else None
            forbidden = self._barred(stage, limits, step)
            if self._join_tied(pod, group, (stage, number), limits, forbidden):
                return PlacementResult.PLACE
            step = step or self._best(stage, limits, number)
            if step is not None:
                other = self._alternative(stage, limits, step)
                if other != number and self._join_tied(
                    pod, group, (stage, other), limits, forbidden
                ):
                    return PlacementResult.PLACE
                return self._opened(pod, group, step)
        return None

    def _joins_any(
        self, pod: Pod, group: PodClass, stage: RelaxationLevel, limits: AllowedDomains | None
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

    def _alternative(
        self, stage: RelaxationLevel, limits: AllowedDomains, step: NewNodeCandidate
    ) -> int:
        """Which of the alternatives the step is for: a slot may be one for another."""
        options = self._options(stage, limits)
        return next(each.wishes.index(step.wish) for each in options if step.wish in each.wishes)

    def _options(self, stage: RelaxationLevel, limits: AllowedDomains) -> list[RelaxationLevel]:
        return [self._within(stage, extra) for extra in limits.options]

    def _new(self, stage: RelaxationLevel, limits: AllowedDomains) -> list[RelaxationLevel]:
        """As what the pod may ask for a node of its own."""
        return [] if limits.near_a_node else self._options(stage, limits)

    def _barred(
        self, stage: RelaxationLevel, limits: AllowedDomains, step: NewNodeCandidate | None
    ) -> BitSet:
        if not (self.stock.live and self.table.unreserved) and step is None:
            return 0
        return self._forbidden(self._new(stage, limits), step)

    def _best(
        self, stage: RelaxationLevel, limits: AllowedDomains, number: int
    ) -> NewNodeCandidate | None:
        """The step with the highest weight; at one weight a slot goes before anything else.

        Then comes where the fewest pods are, and then the price.
        """
        equal: list[NewNodeCandidate] = []
        here: DomainCounts = ()
        for option, crowd in zip(self._new(stage, limits), limits.crowds, strict=False):
            if equal and crowd != here and self._is_best(equal[0]):
                break
            step = self.ladder.step(option, option.wishes[number])
            if step is not None and (
                not equal or _candidate_order(step) < _candidate_order(equal[0])
            ):
                equal, here = [step], crowd
            elif (
                step is not None
                and crowd == here
                and _candidate_order(step) == _candidate_order(equal[0])
            ):
                equal.append(step)
        return self._cheapest(equal) if equal else None

    def _is_best(self, step: NewNodeCandidate) -> bool:
        """Whether nothing that comes later can be better."""
        return not self.stock.live and step.weight == self.ladder.highest

    def _cheapest(self, equal: Sequence[NewNodeCandidate]) -> NewNodeCandidate:
        if len(equal) == 1 or equal[0].answer.kind is OptionKind.WAIT:
            return equal[0]
        return min(
            equal, key=lambda step: launch_price(options_of_candidate(step), self.stock.free)
        )

    def _join_tied(
        self,
        pod: Pod,
        group: PodClass,
        asked: tuple[RelaxationLevel, int],
        limits: AllowedDomains,
        forbidden: BitSet,
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
            among: RankedOptions = ()
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

    def _join_one(self, pod: Pod, group: PodClass, draft: Draft, wish: PodRequirements) -> bool:
        change = self._fit(draft, wish)
        if change is None:
            return False
        self._apply(pod, group, wish, draft, change)
        return True

    def _ranked(self, stage: RelaxationLevel, number: int, limits: AllowedDomains) -> RankedOptions:
        """One of the alternatives in all places where it may be, the emptiest first."""
        options = self._options(stage, limits)
        wishes = [option.wishes[number] for option in options]
        return tuple(zip(wishes, limits.crowds, strict=True))

    def _join_as(self, pod: Pod, group: PodClass, draft: Draft, options: RankedOptions) -> bool:
        """Joins the draft in the first way, or in the cheapest of those that are equal to it."""
        ways: list[tuple[PodRequirements, DraftChange]] = []
        here: DomainCounts = ()
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

    def _price(self, draft: Draft, change: DraftChange) -> float:
        if change.held:
            return launch_price(options_after(draft, change), self.stock.free)
        asked = (change.narrowing, change.rows, draft.minimums)
        found = self._prices.get(asked)
        if found is None:
            if len(self._prices) >= MAX_CACHED_RESULTS:
                self._prices.clear()
            found = self._prices[asked] = launch_price(
                options_after(draft, change), self.stock.free
            )
        return found

    def _changed(self, draft: Draft, wish: PodRequirements) -> DraftChange | None:
        ask = wish.ask
        if draft.bit & (wish.rejected | ask.rejected) or ask.terms[draft.template.number] is None:
            return None
        return self._fit(draft, wish)

    def _within(self, stage: RelaxationLevel, extra: Requirements) -> RelaxationLevel:
        """The same stage where more is required of nodes."""
        if not extra:
            return stage
        found = stage.within.get(extra)
        if found is None:
            wishes = tuple([self._narrowed(wish, extra) for wish in stage.wishes])
            found = stage.within[extra] = RelaxationLevel(wishes, None, ())
        return found

    def _impossible(self) -> SchedulingRequirements:
        """What nobody can give."""
        ask = SchedulingRequirements(NO_REQUIREMENTS, ())
        ask.terms = [None] * len(self.templates)
        ask.refused_by = tuple(range(len(self.templates)))
        return ask

    def _narrowed(self, wish: PodRequirements, extra: Requirements) -> PodRequirements:
        asked = wish.ask
        wanted = combine_requirements(asked.requirements, extra)
        if wanted is None:
            ask = self._impossible()
        else:
            ask = self._classes.ask(wanted, asked.tolerations, asked.ports)
        if not ask.terms:
            self.introduce(ask)
        made = PodRequirements(ask, wish.amounts, wish.columns)
        made.short = wish.short
        return made


def _candidate_order(step: NewNodeCandidate) -> tuple[int, int]:
    return -step.weight, step.answer.kind


def _not_evaluated(_: SchedulingRequirements) -> None:
    raise AssertionError("nobody introduced new asks to the pools")


class PodPlacement(TopologyPlacement):
    """Tries one pod after the other."""

    def arrange(self, _: Sequence[QueueSegment]) -> int:
        """Puts pods somewhere together before a round tries them one by one; says how many.

        First-fit does not: there is nothing to gain but the cost.
        """
        return 0

    def place(self, pod: Pod, group: PodClass) -> PlacementResult:
        """Tries the stages in turn; a slot that is merely held makes nobody more modest."""
        for stage in group.stages:
            if stage.bound is None:
                found = self._untied(pod, group, stage)
            else:
                found = self._tied(pod, group, stage)
            if found is PlacementResult.PLACE and stage.given_up:
                self.given_up.append((pod, stage.given_up))
            if found is not None:
                return found
        return self._nothing(group)

    def _nothing(self, group: PodClass) -> PlacementResult:
        if group.is_tied:
            return PlacementResult.NOTHING_YET  # others may move, or have to
        limited = any(self.ladder.limited(wish) for wish in group.wishes)
        return PlacementResult.NOTHING_YET if limited else PlacementResult.NOTHING_EVER

    def _untied(self, pod: Pod, group: PodClass, stage: RelaxationLevel) -> PlacementResult | None:
        for wish in stage.wishes:
            if self._take(pod, group, wish, -1):
                return PlacementResult.PLACE
            step = self.ladder.step(stage, wish) if self.strict_weights else None
            if self._join(pod, group, wish, self._forbidden((stage,), step)):
                return PlacementResult.PLACE
            if self.patience.waits(group):
                return PlacementResult.NOTHING_YET  # as the pools would say, and a slot will come
            step = step or self.ladder.step(stage, wish)
            if step is not None:
                return self._other(pod, group, stage, step, wish) or self._opened(pod, group, step)
        return None

    def _other(
        self,
        pod: Pod,
        group: PodClass,
        stage: RelaxationLevel,
        step: NewNodeCandidate,
        wish: PodRequirements,
    ) -> PlacementResult | None:
        """With a slot for another alternative, that one may find room opened already."""
        if step.wish is wish:
            return None
        higher = self.ladder.step(stage, step.wish) if self.strict_weights else None
        forbidden = self._forbidden((stage,), higher)
        return PlacementResult.PLACE if self._join(pod, group, step.wish, forbidden) else None

    def _join(self, pod: Pod, group: PodClass, wish: PodRequirements, forbidden: BitSet) -> bool:
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
