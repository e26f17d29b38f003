"""Placement: one pod, tried on existing nodes, on in-flight nodes, on drafts, and on a new node.

Pods with topology constraints are tried within the domains that the constraints allow. A draft that
could still be in several zones decides on one when such a pod joins it, and a new node is opened in
one: in the domain with the fewest pods of the same spread, and among equal domains where the node
costs least.
"""

from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import Final, Protocol, TypeAlias

import msgspec

from wainwright.core.launch.launch_choice import LaunchOptions
from wainwright.core.scheduling.compiled_requirements import CompiledRequirements
from wainwright.core.scheduling.constraints.min_values import MinValues
from wainwright.core.scheduling.draft_fit import try_fit
from wainwright.core.scheduling.drafts import Draft, DraftChange
from wainwright.core.scheduling.new_node import NewNodeCandidate, launch_price
from wainwright.core.scheduling.pod_classes import (
    OptionKind,
    PodClass,
    PodClasses,
    PodRequirements,
    RelaxationLevel,
    SchedulingRequirements,
    combine_requirements,
)
from wainwright.core.scheduling.queue import QueueSegment
from wainwright.core.scheduling.state import SchedulingState
from wainwright.core.scheduling.topology.allowed_domains import AllowedDomains, DomainCounts
from wainwright.core.scheduling.topology.groups import LabelGroup
from wainwright.model.bitset import MAX_CACHED_RESULTS, BitSet
from wainwright.model.pod import Pod
from wainwright.model.reasons import RelaxedPreference
from wainwright.model.requirements import NO_REQUIREMENTS, Requirements


def options_after(draft: Draft, change: DraftChange) -> LaunchOptions:
    """What the draft could be launched as after the change."""
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


EvaluatePools: TypeAlias = Callable[[SchedulingRequirements], None]
FitFunction: TypeAlias = Callable[[Draft, PodRequirements], DraftChange | None]
RankedOptions: TypeAlias = tuple[tuple[PodRequirements, DomainCounts], ...]
"""The requirements in each allowed domain, with the pod counts of the domain."""


class PlacementPolicy(Protocol):
    """What decides where pods go, beyond whether they fit."""

    def begin_round(self, segments: Sequence[QueueSegment]) -> int:
        """Places pods as a set before the round tries them one by one; returns how many."""
        ...

    def defers(self, pod: Pod) -> bool:
        """Whether the pod is not to be tried now."""
        ...

    def fit(self, draft: Draft, pod_reqs: PodRequirements) -> DraftChange | None:
        """What becomes of the draft with one more such pod; None if it is not to take it."""
        ...


class FirstFit:
    """Pods go where they fit first, as Karpenter places them."""

    fit = staticmethod(try_fit)

    def begin_round(self, _: Sequence[QueueSegment]) -> int:
        return 0

    def defers(self, _: Pod) -> bool:
        return False


class PlacementObserver(Protocol):
    """Sees every decision about new nodes just before it is carried out; changes nothing."""

    def level_tried(self, level: RelaxationLevel, allowed: AllowedDomains | None) -> None: ...

    def opening(self, pod: Pod, pod_class: PodClass, candidate: NewNodeCandidate) -> None: ...

    def joining(
        self, pod: Pod, pod_class: PodClass, pod_reqs: PodRequirements, draft: Draft
    ) -> None: ...


FIRST_FIT_POLICY: Final = FirstFit()


class PodPlacement:
    """Places one pod after the other."""

    def __init__(
        self,
        state: SchedulingState,
        classes: PodClasses,
        evaluate_pools: EvaluatePools,
        *,
        policy: PlacementPolicy = FIRST_FIT_POLICY,
        observer: PlacementObserver | None = None,
    ) -> None:
        self.state = state
        self.given_up: list[tuple[Pod, tuple[RelaxedPreference, ...]]] = []
        """Pods that were placed only after these preferences were given up."""
        self.skip_inflight = False
        """Whether all in-flight nodes are too full for the pods that are tried now."""
        self.classes = classes
        self._evaluate_pools = evaluate_pools
        self._strict_weights = state.strict_weights
        self._policy = policy
        self.observer = observer
        self._prices: dict[tuple[CompiledRequirements, BitSet, MinValues], float] = {}
        # Looked up once: these are used for every pod, and often for every draft tried.
        self._table, self._topology = state.table, state.topology
        self._pool_selector = state.pool_selector
        self._reservation_manager = state.reservation_manager
        self._reservation_wait = state.reservation_wait
        self._place_on_node, self._forbidden = state.place_on_node, state.forbidden_drafts
        self._has_nodes = bool(state.nodes.nodes)
        self._fit: FitFunction = policy.fit
        self._without_domain: LabelGroup | None = None
        """A spread of the pod that has no domain at all, which is known once a level was tried: no
        level that still has it has a place. Of thousands of preferences, most levels are of these.
        """

    def begin_round(self, segments: Sequence[QueueSegment]) -> int:
        """What the policy places before pods are tried one by one: how many pods."""
        self.skip_inflight = False
        return self._policy.begin_round(segments)

    def place(self, pod: Pod, pod_class: PodClass) -> PlacementResult:  # noqa: C901 - saves a call
        """Tries the relaxation levels in turn; pods that wait for a reservation are not relaxed."""
        if self._policy.defers(pod):
            return PlacementResult.NOT_YET
        self._without_domain = None
        for level in pod_class.levels:
            if level.topology_constraints is None:
                outcome = self._place_without_topology(pod, pod_class, level)
            else:
                outcome = self._place_with_topology(pod, pod_class, level)
            if isinstance(outcome, NewNodeCandidate):
                if outcome.option.kind is OptionKind.WAIT_FOR_RESERVATION:
                    return self._wait_for_reservation(pod_class)
                if self.observer is not None:
                    self.observer.opening(pod, pod_class, outcome)
                self.state.open_draft(pod, pod_class, outcome)
                outcome = PlacementResult.PLACED
            if outcome is PlacementResult.PLACED and level.given_up:
                self.given_up.append((pod, level.given_up))
            if outcome is not None:
                return outcome
        return self._no_place(pod_class)

    def _no_place(self, pod_class: PodClass) -> PlacementResult:
        if pod_class.has_topology:
            # May become possible when other pods are placed or drafts decide.
            return PlacementResult.NOT_YET
        limited = any(
            self._pool_selector.is_limited_for_now(pod_reqs) for pod_reqs in pod_class.alternatives
        )
        return PlacementResult.NOT_YET if limited else PlacementResult.NEVER

    def _wait_for_reservation(self, pod_class: PodClass) -> PlacementResult:
        if pod_class.awaited_reservations is None:
            awaited = self._pool_selector.awaited_reservations(pod_class)
            pod_class.awaited_reservations = awaited
        return PlacementResult.NOT_YET

    def _join_draft(
        self,
        pod: Pod,
        pod_class: PodClass,
        pod_reqs: PodRequirements,
        draft: Draft,
        change: DraftChange,
    ) -> None:
        if self.observer is not None:
            self.observer.joining(pod, pod_class, pod_reqs, draft)
        self.state.join_draft(pod, pod_class, pod_reqs, draft, change)

    # The methods below place the pod, or return the new node that is to be opened for it, or None
    # if this level has no place for it.

    def _place_without_topology(
        self, pod: Pod, pod_class: PodClass, level: RelaxationLevel
    ) -> PlacementResult | NewNodeCandidate | None:
        if self.observer is not None:
            self.observer.level_tried(level, None)
        for pod_reqs in level.alternatives:
            if self._has_nodes and self._place_on_node(pod, pod_class, pod_reqs, -1):
                return PlacementResult.PLACED
            candidate = (
                self._pool_selector.select(level, pod_reqs) if self._strict_weights else None
            )
            if self._join(pod, pod_class, pod_reqs, self._forbidden((level,), candidate)):
                return PlacementResult.PLACED
            if self._reservation_wait.is_waiting(pod_class):
                # What evaluating the pools would return; saves doing so for every waiting pod.
                return PlacementResult.NOT_YET
            candidate = candidate or self._pool_selector.select(level, pod_reqs)
            if candidate is not None:
                joined = self._join_alternative(pod, pod_class, level, candidate, pod_reqs)
                return joined or candidate
        return None

    def _join_alternative(
        self,
        pod: Pod,
        pod_class: PodClass,
        level: RelaxationLevel,
        candidate: NewNodeCandidate,
        pod_reqs: PodRequirements,
    ) -> PlacementResult | None:
        """If the candidate is for another alternative, tries that one on open drafts first."""
        if candidate.pod_reqs is pod_reqs:
            return None
        best = (
            self._pool_selector.select(level, candidate.pod_reqs) if self._strict_weights else None
        )
        forbidden = self._forbidden((level,), best)
        return (
            PlacementResult.PLACED
            if self._join(pod, pod_class, candidate.pod_reqs, forbidden)
            else None
        )

    def _join(
        self, pod: Pod, pod_class: PodClass, pod_reqs: PodRequirements, forbidden: BitSet
    ) -> bool:
        table = self._table
        round_id = self._reservation_manager.round
        skip_inflight = self.skip_inflight or pod_reqs.inflight_full_round == round_id
        inflight = 0 if skip_inflight else table.inflight
        for among, choose in ((inflight, table.first), (table.current, table.emptiest)):
            candidates = table.candidates(pod_reqs, among ^ (among & forbidden)) if among else 0
            while candidates:
                draft = choose(candidates)
                change = self._fit(draft, pod_reqs)
                if change is not None:
                    self._join_draft(pod, pod_class, pod_reqs, draft, change)
                    return True
                candidates ^= draft.bit
            if among is inflight and not forbidden:
                # In-flight nodes only get fuller: saves trying them again in this round.
                pod_reqs.inflight_full_round = round_id
        return False

    def _place_with_topology(
        self, pod: Pod, pod_class: PodClass, level: RelaxationLevel
    ) -> PlacementResult | NewNodeCandidate | None:
        assert level.topology_constraints is not None
        assert self._topology is not None
        if not any(
            pod_reqs.scheduling.is_satisfiable(self.state.nodes.open)
            for pod_reqs in level.alternatives
        ):
            return None  # no draft is made to decide on a domain for a pod that fits nowhere
        without_domain = self._without_domain
        if without_domain is not None and without_domain in level.topology_constraints.groups:
            return None
        if level.topology_constraints.affinity:
            near = self._topology.drafts_with_affinity_pods(level.topology_constraints)
            if self._join_existing(pod, pod_class, level, near):
                return PlacementResult.PLACED
        result = self._place_within(
            pod, pod_class, level, self._topology.allowed_domains(level.topology_constraints)
        )
        if result is None and level.topology_constraints.spreads:
            outside = self._topology.drafts_outside_spread(level.topology_constraints)
            if self._join_existing(pod, pod_class, level, outside):
                return PlacementResult.PLACED
            if self.observer is None:
                self._without_domain = self._topology.spread_without_domain(
                    level.topology_constraints
                )
        return result

    def _place_within(
        self, pod: Pod, pod_class: PodClass, level: RelaxationLevel, allowed: AllowedDomains | None
    ) -> PlacementResult | NewNodeCandidate | None:
        if self.observer is not None:
            self.observer.level_tried(level, allowed)
        if allowed is None:
            return None
        nodes = allowed.nodes if self._has_nodes else 0
        for number, pod_reqs in enumerate(level.alternatives):
            if nodes and self._place_on_node(pod, pod_class, pod_reqs, nodes):
                return PlacementResult.PLACED
            candidate = (
                self.best_candidate(level, allowed, number) if self._strict_weights else None
            )
            forbidden = self._forbidden_within(level, allowed, candidate)
            if self._join_within(pod, pod_class, (level, number), allowed, forbidden):
                return PlacementResult.PLACED
            candidate = candidate or self.best_candidate(level, allowed, number)
            if candidate is not None:
                other = self._alternative_of(level, allowed, candidate)
                if other != number and self._join_within(
                    pod, pod_class, (level, other), allowed, forbidden
                ):
                    return PlacementResult.PLACED
                return candidate
        return None

    def _join_existing(
        self, pod: Pod, pod_class: PodClass, level: RelaxationLevel, allowed: AllowedDomains | None
    ) -> bool:
        """Joins an allowed draft, but opens none."""
        if self.observer is not None:
            self.observer.level_tried(level, allowed)
        if allowed is None:
            return False
        for number in range(len(level.alternatives)):
            candidate = (
                self.best_candidate(level, allowed, number) if self._strict_weights else None
            )
            forbidden = self._forbidden_within(level, allowed, candidate)
            if self._join_within(pod, pod_class, (level, number), allowed, forbidden):
                return True
        return False

    def _alternative_of(
        self, level: RelaxationLevel, allowed: AllowedDomains, candidate: NewNodeCandidate
    ) -> int:
        """Which alternative the candidate is for: a reservation may be usable for another one."""
        options = self._options(level, allowed)
        return next(
            each.alternatives.index(candidate.pod_reqs)
            for each in options
            if candidate.pod_reqs in each.alternatives
        )

    def _options(self, level: RelaxationLevel, allowed: AllowedDomains) -> list[RelaxationLevel]:
        return [self._narrowed_level(level, extra) for extra in allowed.options]

    def _new_node_options(
        self, level: RelaxationLevel, allowed: AllowedDomains
    ) -> list[RelaxationLevel]:
        """The requirements of a new node for the pod, one level for each allowed domain."""
        return [] if allowed.existing_only else self._options(level, allowed)

    def _forbidden_within(
        self, level: RelaxationLevel, allowed: AllowedDomains, candidate: NewNodeCandidate | None
    ) -> BitSet:
        if (
            not (self._reservation_manager.available and self._table.unreserved)
            and candidate is None
        ):
            return 0
        return self._forbidden(self._new_node_options(level, allowed), candidate)

    def best_candidate(
        self, level: RelaxationLevel, allowed: AllowedDomains, number: int
    ) -> NewNodeCandidate | None:
        """The candidate with the highest weight; at equal weight reserved capacity comes first.

        Then the domain with the fewest pods, then the price.
        """
        equal: list[NewNodeCandidate] = []
        best_counts: DomainCounts = ()
        for option, counts in zip(
            self._new_node_options(level, allowed), allowed.domain_counts, strict=False
        ):
            # Options are sorted by counts: the rest need not be evaluated.
            if equal and counts != best_counts and self._is_best(equal[0]):
                break
            candidate = self._pool_selector.select(option, option.alternatives[number])
            if candidate is not None and (
                not equal or _candidate_order(candidate) < _candidate_order(equal[0])
            ):
                equal, best_counts = [candidate], counts
            elif (
                candidate is not None
                and counts == best_counts
                and _candidate_order(candidate) == _candidate_order(equal[0])
            ):
                equal.append(candidate)
        return self._cheapest(equal) if equal else None

    def _is_best(self, candidate: NewNodeCandidate) -> bool:
        """Whether no later candidate can be better."""
        return (
            not self._reservation_manager.available
            and candidate.weight == self._pool_selector.highest_weight
        )

    def _cheapest(self, equal: Sequence[NewNodeCandidate]) -> NewNodeCandidate:
        if len(equal) == 1 or equal[0].option.kind is OptionKind.WAIT_FOR_RESERVATION:
            return equal[0]
        return min(equal, key=self._pool_selector.price)

    def _join_within(
        self,
        pod: Pod,
        pod_class: PodClass,
        alternative: tuple[RelaxationLevel, int],
        allowed: AllowedDomains,
        forbidden: BitSet,
    ) -> bool:
        """Joins a draft; one that has not decided on a domain decides on one that is allowed."""
        table, (level, number) = self._table, alternative
        pod_reqs = level.alternatives[number]
        for drafts, choose in ((table.inflight, table.first), (table.current, table.emptiest)):
            free = drafts ^ (drafts & forbidden)
            if not free:
                continue
            decided = table.candidates(pod_reqs, free & allowed.drafts)
            candidates, undecided = decided, free & allowed.undecided_drafts
            ranked: RankedOptions = ()
            if undecided:
                ranked = self._ranked(level, number, allowed)
                for option, _ in ranked:
                    candidates |= table.candidates(option, undecided)
            while candidates:
                draft = choose(candidates)
                if draft.bit & decided:
                    joined = self._join_one(pod, pod_class, draft, pod_reqs)
                else:
                    joined = self._join_undecided(pod, pod_class, draft, ranked)
                if joined:
                    return True
                candidates ^= draft.bit
        return False

    def _join_one(
        self, pod: Pod, pod_class: PodClass, draft: Draft, pod_reqs: PodRequirements
    ) -> bool:
        change = self._fit(draft, pod_reqs)
        if change is None:
            return False
        self._join_draft(pod, pod_class, pod_reqs, draft, change)
        return True

    def _ranked(
        self, level: RelaxationLevel, number: int, allowed: AllowedDomains
    ) -> RankedOptions:
        """One of the alternatives in all allowed domains, the emptiest first."""
        options = self._options(level, allowed)
        requirements = [option.alternatives[number] for option in options]
        return tuple(zip(requirements, allowed.domain_counts, strict=True))

    def _join_undecided(
        self, pod: Pod, pod_class: PodClass, draft: Draft, options: RankedOptions
    ) -> bool:
        """Joins the draft in the first domain that fits, or the cheapest of equal ones."""
        ways: list[tuple[PodRequirements, DraftChange]] = []
        best_counts: DomainCounts = ()
        for pod_reqs, counts in options:
            if ways and (counts != best_counts or draft.pinned_type):
                break
            change = self._change_for(draft, pod_reqs)
            if change is not None:
                ways.append((pod_reqs, change))
                best_counts = counts
        if not ways:
            return False
        pod_reqs, change = ways[0]
        if len(ways) > 1:
            pod_reqs, change = min(ways, key=lambda way: self._price(draft, way[1]))
        self._join_draft(pod, pod_class, pod_reqs, draft, change)
        return True

    def _price(self, draft: Draft, change: DraftChange) -> float:
        if change.held:
            return launch_price(
                options_after(draft, change), self._reservation_manager.available_count
            )
        # Without held reservations the price depends on these alone: drafts of one pool repeat
        # them.
        key = (change.compiled, change.types, draft.min_values)
        price = self._prices.get(key)
        if price is None:
            if len(self._prices) >= MAX_CACHED_RESULTS:
                self._prices.clear()
            price = self._prices[key] = launch_price(
                options_after(draft, change), self._reservation_manager.available_count
            )
        return price

    def _change_for(self, draft: Draft, pod_reqs: PodRequirements) -> DraftChange | None:
        scheduling = pod_reqs.scheduling
        if (
            draft.bit & (pod_reqs.rejected_by | scheduling.rejected_by)
            or scheduling.compatibility[draft.template.number] is None
        ):
            return None
        return self._fit(draft, pod_reqs)

    def _narrowed_level(self, level: RelaxationLevel, extra: Requirements) -> RelaxationLevel:
        """The same level with further requirements on the node."""
        if extra is NO_REQUIREMENTS or not extra:
            return level
        narrowed = level.narrowed_levels.get(extra)
        if narrowed is None:
            alternatives = tuple(
                [self._narrowed_requirements(pod_reqs, extra) for pod_reqs in level.alternatives]
            )
            narrowed = level.narrowed_levels[extra] = RelaxationLevel(alternatives, None, ())
        return narrowed

    def _impossible_requirements(self) -> SchedulingRequirements:
        """Requirements that no pool and no node satisfies."""
        scheduling = SchedulingRequirements(NO_REQUIREMENTS, ())
        scheduling.compatibility = [None] * len(self.state.templates)
        scheduling.incompatible_pools = tuple(range(len(self.state.templates)))
        return scheduling

    def _narrowed_requirements(
        self, pod_reqs: PodRequirements, extra: Requirements
    ) -> PodRequirements:
        scheduling_before = pod_reqs.scheduling
        requirements = combine_requirements(scheduling_before.requirements, extra)
        if requirements is None:
            scheduling = self._impossible_requirements()
        else:
            scheduling = self.classes.scheduling_requirements(
                requirements, scheduling_before.tolerations, scheduling_before.ports
            )
        if not scheduling.compatibility:
            self._evaluate_pools(scheduling)
        narrowed = PodRequirements(scheduling, pod_reqs.amounts, pod_reqs.columns)
        narrowed.too_full_drafts = pod_reqs.too_full_drafts
        narrowed.attachments = pod_reqs.attachments
        return narrowed


def _candidate_order(candidate: NewNodeCandidate) -> tuple[int, int]:
    return -candidate.weight, candidate.option.kind
