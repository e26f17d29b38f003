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
    return hourly_cost(left.index, buy.type_number, buy.offering)


def options_of_candidate(step: NewNodeCandidate) -> LaunchOptions:
    """What a node that is opened so may be."""
    template, answer = step.template, step.option
    assert answer.compiled is not None
    return LaunchOptions(
        index=template.index,
        types=answer.types,
        offering_groups=answer.compiled.offering_groups,
        held=answer.held,
        reserved_types=template.pool_reservations.available_in(answer.held, answer.types),
        requirements=answer.compiled.requirements,
        min_values=answer.min_values,
    )


def options_after(draft: Draft, change: DraftChange) -> LaunchOptions:
    """What the draft may be when it has changed."""
    return msgspec.structs.replace(
        draft.launch_options,
        types=change.types,
        offering_groups=change.compiled.offering_groups,
        held=change.held,
        reserved_types=change.reserved_types,
        requirements=change.compiled.requirements,
    )


class PlacementResult(Enum):
    PLACED = auto()
    NOT_YET = auto()
    NEVER = auto()


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
        self.pool_selector = ladder
        self.reservation_manager: ReservationManager = ladder.reservation_manager
        self.reservation_wait = ReservationWait(ladder, table)
        self.deferred_kinds = ANTI_AFFINITY_KINDS
        """Groups of these kinds do not make drafts settle before their round is over."""
        self.skip_inflight = False
        """Whether the machines under way are too full for whoever is tried now."""
        self.round = 0
        self.topology = topology
        if topology is not None:
            topology.decide = self._decide

    def _place_on_node(
        self, pod: Pod, group: PodClass, wish: PodRequirements, among: BitSet
    ) -> bool:
        number = self.nodes.place(pod, group, wish, among)
        if number is None:
            return False
        if group.counted_by and self.topology is not None:
            self.topology.count_on_node(group, number)
        return True

    def _open_or_wait(self, pod: Pod, group: PodClass, step: NewNodeCandidate) -> PlacementResult:
        if step.option.kind is OptionKind.WAIT_FOR_RESERVATION:
            if group.awaited_reservations is None:
                group.awaited_reservations = self.pool_selector.awaited_reservations(group)
            return PlacementResult.NOT_YET
        self._open(pod, group, step)
        return PlacementResult.PLACED

    def _open(self, pod: Pod, group: PodClass, step: NewNodeCandidate) -> None:
        draft = self._create_draft(step)
        step.template.limits.charge(draft.types)
        self.reservation_manager.bump_version()
        self.reservation_wait.draft_opened()
        self._add_to_draft(pod, group, step.pod_reqs, draft, narrowed=True)

    def _create_draft(self, step: NewNodeCandidate) -> Draft:
        """A draft that nobody is on, and that no limit has counted yet."""
        draft = Draft(len(self.table.drafts), self.round, step.template, step.option)
        self.table.add(draft)
        if draft.held:
            self.reservation_manager.hold(
                step.template.pool_reservations.reservations_in(draft.held)
            )
        if self.topology is not None:
            self.topology.draft_opened(draft)
        return draft

    def _add_to_draft(
        self, pod: Pod, group: PodClass, wish: PodRequirements, draft: Draft, *, narrowed: bool
    ) -> None:
        self.table.add_pod(pod, wish, draft, narrowed=narrowed)
        if group.counted_by and self.topology is not None:
            self.topology.count_on_draft(group, draft)

    def _apply_and_add(
        self, pod: Pod, group: PodClass, wish: PodRequirements, draft: Draft, change: DraftChange
    ) -> None:
        narrowed = self._apply_change(draft, change)
        self._add_to_draft(pod, group, wish, draft, narrowed=narrowed)

    def _apply_change(self, draft: Draft, change: DraftChange) -> bool:
        """Leaves the draft what the change leaves; says whether it lost types."""
        if change.held != draft.held:
            self._release_reservations(draft, change)
        fewer, before = change.types != draft.types, draft.compiled
        draft.types, draft.compiled = change.types, change.compiled
        draft.reserved_types, draft.witnesses = change.reserved_types, change.witnesses
        if self.topology is not None and before is not change.compiled:
            self.topology.draft_narrowed(draft)
        return fewer

    def _release_reservations(self, draft: Draft, change: DraftChange) -> None:
        """Gives back the reservations that the draft can no longer use."""
        if not draft.pinned_type:  # else all but the one that it is launched with were given back
            shelf = draft.template.pool_reservations
            before, after = shelf.reservations_in(draft.held), shelf.reservations_in(change.held)
            self.reservation_manager.release(before ^ (before & after))
            self.reservation_wait.reservations_released(before ^ (before & after))
        draft.held = change.held

    def _decide(self, draft: Draft, group: LabelGroup) -> "str | NoValue | None":
        """Has the draft settle on what it would be launched with, as somebody must know."""
        if group.kind in self.deferred_kinds and not draft.pinned_type:
            return NoValue.UNDECIDED
        key = group.key
        buy = draft.launch_choice or choose_offering(
            draft.launch_options, self.reservation_manager.available_count
        )
        value = launched_value(draft, buy, key)
        if value is None:
            return None
        change = narrow_draft(draft, Requirements([parse_requirement(key, "In", (value,))]))
        if change is None:
            return value if draft.pinned_type else NoValue.UNDECIDED
        if self._apply_change(draft, change) and not draft.pinned_type:
            self.table.update_capacity(draft)
        return value

    def _forbidden(
        self, stages: Sequence[RelaxationLevel], step: NewNodeCandidate | None
    ) -> BitSet:
        """The drafts that the pod must not join, although it might fit."""
        found = 0
        if self.reservation_manager.available and self.table.unreserved:
            slot = -1
            for stage in stages:  # spelt out, as nearly every pod comes by
                slot = max(slot, self.pool_selector.reserved_weight(stage))
            if slot >= 0:
                found = self._drafts_below(slot + 1) & self.table.unreserved
        return found if step is None else found | self._drafts_below(step.weight)

    def _drafts_below(self, weight: int) -> BitSet:
        found = 0
        for template in self.templates:
            if template.pool.weight < weight:
                found |= self.table.by_template[template.number]
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
        self.evaluate_pools: EvaluatePools = _not_evaluated
        self._classes = classes
        self._fit: FitFunction = try_fit
        self._prices: dict[tuple[CompiledRequirements, BitSet, MinValues], float] = {}

    def _place_with_topology(
        self, pod: Pod, group: PodClass, stage: RelaxationLevel
    ) -> PlacementResult | None:
        assert stage.topology_constraints is not None
        assert self.topology is not None
        if stage.topology_constraints.affinity:
            if not any(
                wish.scheduling.is_satisfiable(self.nodes.remaining) for wish in stage.alternatives
            ):
                return None  # nobody is to settle for that
            company = self.topology.drafts_with_affinity_pods(stage.topology_constraints)
            if self._join_existing(pod, group, stage, company):
                return PlacementResult.PLACED
        found = self._place_within(
            pod, group, stage, self.topology.allowed_domains(stage.topology_constraints)
        )
        if found is None and stage.topology_constraints.spreads:
            adrift = self.topology.drafts_outside_spread(stage.topology_constraints)
            return (
                PlacementResult.PLACED if self._join_existing(pod, group, stage, adrift) else None
            )
        return found

    def _place_within(
        self, pod: Pod, group: PodClass, stage: RelaxationLevel, limits: AllowedDomains | None
    ) -> PlacementResult | None:
        if limits is None:
            return None
        for number, wish in enumerate(stage.alternatives):
            if limits.nodes and self._place_on_node(pod, group, wish, limits.nodes):
                return PlacementResult.PLACED
            step = self._best_candidate(stage, limits, number) if self.strict_weights else None
            forbidden = self._forbidden_within(stage, limits, step)
            if self._join_within(pod, group, (stage, number), limits, forbidden):
                return PlacementResult.PLACED
            step = step or self._best_candidate(stage, limits, number)
            if step is not None:
                other = self._alternative_of(stage, limits, step)
                if other != number and self._join_within(
                    pod, group, (stage, other), limits, forbidden
                ):
                    return PlacementResult.PLACED
                return self._open_or_wait(pod, group, step)
        return None

    def _join_existing(
        self, pod: Pod, group: PodClass, stage: RelaxationLevel, limits: AllowedDomains | None
    ) -> bool:
        """Joins a draft that is left to the pod, but opens none."""
        if limits is None:
            return False
        for number in range(len(stage.alternatives)):
            step = self._best_candidate(stage, limits, number) if self.strict_weights else None
            forbidden = self._forbidden_within(stage, limits, step)
            if self._join_within(pod, group, (stage, number), limits, forbidden):
                return True
        return False

    def _alternative_of(
        self, stage: RelaxationLevel, limits: AllowedDomains, step: NewNodeCandidate
    ) -> int:
        """Which of the alternatives the step is for: a slot may be one for another."""
        options = self._options(stage, limits)
        return next(
            each.alternatives.index(step.pod_reqs)
            for each in options
            if step.pod_reqs in each.alternatives
        )

    def _options(self, stage: RelaxationLevel, limits: AllowedDomains) -> list[RelaxationLevel]:
        return [self._narrowed_level(stage, extra) for extra in limits.options]

    def _new_node_options(
        self, stage: RelaxationLevel, limits: AllowedDomains
    ) -> list[RelaxationLevel]:
        """As what the pod may ask for a node of its own."""
        return [] if limits.existing_only else self._options(stage, limits)

    def _forbidden_within(
        self, stage: RelaxationLevel, limits: AllowedDomains, step: NewNodeCandidate | None
    ) -> BitSet:
        if not (self.reservation_manager.available and self.table.unreserved) and step is None:
            return 0
        return self._forbidden(self._new_node_options(stage, limits), step)

    def _best_candidate(
        self, stage: RelaxationLevel, limits: AllowedDomains, number: int
    ) -> NewNodeCandidate | None:
        """The step with the highest weight; at one weight a slot goes before anything else.

        Then comes where the fewest pods are, and then the price.
        """
        equal: list[NewNodeCandidate] = []
        here: DomainCounts = ()
        for option, crowd in zip(
            self._new_node_options(stage, limits), limits.domain_counts, strict=False
        ):
            if equal and crowd != here and self._is_best(equal[0]):
                break
            step = self.pool_selector.select(option, option.alternatives[number])
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
        return (
            not self.reservation_manager.available
            and step.weight == self.pool_selector.highest_weight
        )

    def _cheapest(self, equal: Sequence[NewNodeCandidate]) -> NewNodeCandidate:
        if len(equal) == 1 or equal[0].option.kind is OptionKind.WAIT_FOR_RESERVATION:
            return equal[0]
        return min(
            equal,
            key=lambda step: launch_price(
                options_of_candidate(step), self.reservation_manager.available_count
            ),
        )

    def _join_within(
        self,
        pod: Pod,
        group: PodClass,
        asked: tuple[RelaxationLevel, int],
        limits: AllowedDomains,
        forbidden: BitSet,
    ) -> bool:
        """As above, where drafts that have not settled have to for the sake of the pod."""
        table, (stage, number) = self.table, asked
        wish = stage.alternatives[number]
        for drafts, choice in ((table.inflight, table.first), (table.current, table.emptiest)):
            free = drafts ^ (drafts & forbidden)
            if not free:
                continue
            decided = table.candidates(wish, free & limits.drafts)
            left, maybe = decided, free & limits.undecided_drafts
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
                    joined = self._join_undecided(pod, group, draft, among)
                if joined:
                    return True
                left ^= draft.bit
        return False

    def _join_one(self, pod: Pod, group: PodClass, draft: Draft, wish: PodRequirements) -> bool:
        change = self._fit(draft, wish)
        if change is None:
            return False
        self._apply_and_add(pod, group, wish, draft, change)
        return True

    def _ranked(self, stage: RelaxationLevel, number: int, limits: AllowedDomains) -> RankedOptions:
        """One of the alternatives in all places where it may be, the emptiest first."""
        options = self._options(stage, limits)
        wishes = [option.alternatives[number] for option in options]
        return tuple(zip(wishes, limits.domain_counts, strict=True))

    def _join_undecided(
        self, pod: Pod, group: PodClass, draft: Draft, options: RankedOptions
    ) -> bool:
        """Joins the draft in the first way, or in the cheapest of those that are equal to it."""
        ways: list[tuple[PodRequirements, DraftChange]] = []
        here: DomainCounts = ()
        for wish, crowd in options:
            if ways and (crowd != here or draft.pinned_type):
                break
            change = self._change_for(draft, wish)
            if change is not None:
                ways.append((wish, change))
                here = crowd
        if not ways:
            return False
        wish, change = ways[0]
        if len(ways) > 1:
            wish, change = min(ways, key=lambda way: self._price(draft, way[1]))
        self._apply_and_add(pod, group, wish, draft, change)
        return True

    def _price(self, draft: Draft, change: DraftChange) -> float:
        if change.held:
            return launch_price(
                options_after(draft, change), self.reservation_manager.available_count
            )
        asked = (change.compiled, change.types, draft.min_values)
        found = self._prices.get(asked)
        if found is None:
            if len(self._prices) >= MAX_CACHED_RESULTS:
                self._prices.clear()
            found = self._prices[asked] = launch_price(
                options_after(draft, change), self.reservation_manager.available_count
            )
        return found

    def _change_for(self, draft: Draft, wish: PodRequirements) -> DraftChange | None:
        ask = wish.scheduling
        if (
            draft.bit & (wish.rejected_by | ask.rejected_by)
            or ask.compatibility[draft.template.number] is None
        ):
            return None
        return self._fit(draft, wish)

    def _narrowed_level(self, stage: RelaxationLevel, extra: Requirements) -> RelaxationLevel:
        """The same stage where more is required of nodes."""
        if not extra:
            return stage
        found = stage.narrowed_levels.get(extra)
        if found is None:
            wishes = tuple(
                [self._narrowed_requirements(wish, extra) for wish in stage.alternatives]
            )
            found = stage.narrowed_levels[extra] = RelaxationLevel(wishes, None, ())
        return found

    def _impossible_requirements(self) -> SchedulingRequirements:
        """What nobody can give."""
        ask = SchedulingRequirements(NO_REQUIREMENTS, ())
        ask.compatibility = [None] * len(self.templates)
        ask.incompatible_pools = tuple(range(len(self.templates)))
        return ask

    def _narrowed_requirements(self, wish: PodRequirements, extra: Requirements) -> PodRequirements:
        asked = wish.scheduling
        wanted = combine_requirements(asked.requirements, extra)
        if wanted is None:
            ask = self._impossible_requirements()
        else:
            ask = self._classes.scheduling_requirements(wanted, asked.tolerations, asked.ports)
        if not ask.compatibility:
            self.evaluate_pools(ask)
        made = PodRequirements(ask, wish.amounts, wish.columns)
        made.too_full_drafts = wish.too_full_drafts
        return made


def _candidate_order(step: NewNodeCandidate) -> tuple[int, int]:
    return -step.weight, step.option.kind


def _not_evaluated(_: SchedulingRequirements) -> None:
    raise AssertionError("nobody introduced new asks to the pools")


class PodPlacement(TopologyPlacement):
    """Tries one pod after the other."""

    def place_together(self, _: Sequence[QueueSegment]) -> int:
        """Puts pods somewhere together before a round tries them one by one; says how many.

        First-fit does not: there is nothing to gain but the cost.
        """
        return 0

    def place(self, pod: Pod, group: PodClass) -> PlacementResult:
        """Tries the stages in turn; a slot that is merely held makes nobody more modest."""
        for stage in group.levels:
            if stage.topology_constraints is None:
                found = self._place_without_topology(pod, group, stage)
            else:
                found = self._place_with_topology(pod, group, stage)
            if found is PlacementResult.PLACED and stage.given_up:
                self.given_up.append((pod, stage.given_up))
            if found is not None:
                return found
        return self._no_place(group)

    def _no_place(self, group: PodClass) -> PlacementResult:
        if group.has_topology:
            return PlacementResult.NOT_YET  # others may move, or have to
        limited = any(self.pool_selector.is_limited_for_now(wish) for wish in group.alternatives)
        return PlacementResult.NOT_YET if limited else PlacementResult.NEVER

    def _place_without_topology(
        self, pod: Pod, group: PodClass, stage: RelaxationLevel
    ) -> PlacementResult | None:
        for wish in stage.alternatives:
            if self._place_on_node(pod, group, wish, -1):
                return PlacementResult.PLACED
            step = self.pool_selector.select(stage, wish) if self.strict_weights else None
            if self._join(pod, group, wish, self._forbidden((stage,), step)):
                return PlacementResult.PLACED
            if self.reservation_wait.is_waiting(group):
                return PlacementResult.NOT_YET  # as the pools would say, and a slot will come
            step = step or self.pool_selector.select(stage, wish)
            if step is not None:
                return self._join_alternative(pod, group, stage, step, wish) or self._open_or_wait(
                    pod, group, step
                )
        return None

    def _join_alternative(
        self,
        pod: Pod,
        group: PodClass,
        stage: RelaxationLevel,
        step: NewNodeCandidate,
        wish: PodRequirements,
    ) -> PlacementResult | None:
        """With a slot for another alternative, that one may find room opened already."""
        if step.pod_reqs is wish:
            return None
        higher = self.pool_selector.select(stage, step.pod_reqs) if self.strict_weights else None
        forbidden = self._forbidden((stage,), higher)
        return PlacementResult.PLACED if self._join(pod, group, step.pod_reqs, forbidden) else None

    def _join(self, pod: Pod, group: PodClass, wish: PodRequirements, forbidden: BitSet) -> bool:
        table = self.table
        tried = self.skip_inflight or wish.inflight_full_round == self.round
        settled = 0 if tried else table.inflight
        for among, choice in ((settled, table.first), (table.current, table.emptiest)):
            left = table.candidates(wish, among ^ (among & forbidden)) if among else 0
            while left:
                draft = choice(left)
                change = self._fit(draft, wish)
                if change is not None:
                    self._apply_and_add(pod, group, wish, draft, change)
                    return True
                left ^= draft.bit
            if among is settled and not forbidden:
                wish.inflight_full_round = self.round  # what is under way only gets fuller
        return False
