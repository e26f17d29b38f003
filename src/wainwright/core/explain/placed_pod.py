"""Why a placed pod is where it is: what decided on its node, and what else could have been
launched for the NodeClaim.

The plan is made once more and observed when that pod is placed: only then are limits,
reservations and nodes in the state that decided on it.
"""

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from wainwright.core.disruption.eviction import evict_from_deleting_nodes
from wainwright.core.explain.existing_node_reasons import (
    PlacementAttempt,
    deleting_node_verdicts,
    existing_node_verdicts,
    untried_attempts,
)
from wainwright.core.explain.instance_type_funnel import FunnelContext, run_funnel
from wainwright.core.launch.launch_choice import (
    LaunchOptions,
    hourly_cost,
    options_of_claim,
    without_exotic_types,
)
from wainwright.core.plan import FALLBACK_STRATEGIES, solve_snapshot
from wainwright.core.scheduling.drafts import Draft
from wainwright.core.scheduling.new_node import NewNodeCandidate
from wainwright.core.scheduling.nodeclaim_template import NodeClaimTemplate, pool_order
from wainwright.core.scheduling.placement import PlacementObserver, PodPlacement
from wainwright.core.scheduling.pod_classes import (
    OptionKind,
    PodClass,
    PodRequirements,
    PoolCompatibility,
    RelaxationLevel,
)
from wainwright.core.scheduling.solver import FIRST_FIT
from wainwright.core.scheduling.topology.allowed_domains import AllowedDomains
from wainwright.model.bitset import BitSet, iter_bits
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.labels import CAPACITY_TYPE, ON_DEMAND, RESERVED, SPOT
from wainwright.model.offering_groups import OfferingGroupSet
from wainwright.model.plan import MinValuesPolicy, PackingPolicy, PlannedNodeClaim, PlanOptions
from wainwright.model.pod import Pod
from wainwright.model.reasons import NewNodeViolatesTopology, NodeVerdict, PoolReason, PoolUnusable
from wainwright.model.snapshot import Pool, Snapshot


class EarlierPool(msgspec.Struct, frozen=True, kw_only=True):
    """A pool that comes before the chosen one, and why it did not open a node; None if it could."""

    pool: str
    weight: int
    reason: PoolReason | None


class EqualPool(msgspec.Struct, frozen=True, kw_only=True):
    """A pool of the same weight as the chosen one that could have opened the node as well."""

    pool: str
    price: float
    """USD per hour of its node, with fees."""
    modelled: bool = False
    """Whether that is an estimate."""


class PlacementDecision(msgspec.Struct, frozen=True, kw_only=True):
    """What decided on the new node of a pod."""

    round: int
    """In which it was placed."""
    joined: tuple[str, ...]
    """The pods that the node was planned for already; none where it was opened for this one."""
    joined_earlier_round: bool
    """Whether the node was opened in an earlier round."""
    for_reservation: bool
    """Whether it was opened because a reservation had available capacity."""
    earlier_pools: tuple[EarlierPool, ...]
    """The pools that come before the one of the node, in order."""
    price: float | None
    """USD per hour, with fees, of the node when it was opened; None where the pod joined it."""
    modelled_price: bool
    """Whether that is an estimate."""
    equal_pools: tuple[EqualPool, ...]
    """The other pools of its weight that could have opened the node, in order."""
    nodes: tuple[NodeVerdict, ...]
    """Why no existing node took it, or would have only in a later attempt."""
    has_topology: bool
    """Whether it has topology constraints."""
    has_reservations: bool
    """Whether there are reservations that it could use, so that it may have waited for one."""
    has_limits: bool
    """Whether a pool that would take it has limits: these count drafts of the same round as their
    largest type."""


def explain_placement(
    snapshot: Snapshot,
    catalogs: Mapping[str, InstanceTypeIndex],
    options: PlanOptions,
    claim: PlannedNodeClaim,
    pod: str,
) -> PlacementDecision | None:
    """None where pods are packed by cost, and first-fit has no such claim."""
    snapshot = evict_from_deleting_nodes(snapshot).snapshot
    for strategy in (FIRST_FIT, *FALLBACK_STRATEGIES):
        recorder = _DecisionRecorder(snapshot, options, pod)
        observed = strategy._replace(observer=recorder.observe)
        solution = solve_snapshot(snapshot, catalogs, options, observed)
        if any(_is_claim_of_draft(claim, draft) for draft in solution.drafts):
            assert recorder.decision is not None, "every pod on a draft was observed"
            return recorder.decision
    assert options.packing is PackingPolicy.COST, "the same input gives the same plan"
    return None


def _is_claim_of_draft(claim: PlannedNodeClaim, draft: Draft) -> bool:
    """Whether the claim is that of the draft."""
    pool, pods = draft.template.pool.name, sorted(pod.key for pod in draft.pods)
    return pool == claim.pool and pods == list(claim.pods)


class _DecisionRecorder:
    """Observes a plan being made, and records the decision on one pod."""

    def __init__(self, snapshot: Snapshot, options: PlanOptions, pod: str) -> None:
        self._pod = pod
        self._options = options
        self._unusable = [
            (pool, PoolUnusable(why=pool.unusable))
            for pool in snapshot.pools
            if pool.unusable is not None
        ]
        self._deleting_nodes = deleting_node_verdicts(snapshot.nodes)
        self._last_tried: tuple[RelaxationLevel, AllowedDomains | None] | None = None
        self.decision: PlacementDecision | None = None

    def observe(self, placement: PodPlacement) -> PlacementObserver:
        """Watches this placement from now on."""
        self._placement, self._state = placement, placement.state
        return self

    def level_tried(self, level: RelaxationLevel, allowed: AllowedDomains | None) -> None:
        self._last_tried = level, allowed

    def opening(self, pod: Pod, pod_class: PodClass, candidate: NewNodeCandidate) -> None:
        if pod.key == self._pod:
            attempt = self._attempt(self._opening_alternative())
            self._record(pod, pod_class, candidate.template, attempt, opened=candidate)

    def joining(
        self, pod: Pod, pod_class: PodClass, pod_reqs: PodRequirements, draft: Draft
    ) -> None:
        if pod.key == self._pod:
            attempt = self._attempt(self._alternative_number(pod_reqs))
            self._record(pod, pod_class, draft.template, attempt, draft=draft)

    @property
    def _current(self) -> tuple[RelaxationLevel, AllowedDomains | None]:
        assert self._last_tried is not None, "a pod is tried level by level"
        return self._last_tried

    def _attempt(self, number: int) -> PlacementAttempt:
        level, domains = self._current
        return PlacementAttempt(
            level=level, alternatives=(level.alternatives[number],), domains=domains
        )

    def _opening_alternative(self) -> int:
        """The alternative by which a node is opened: the first that any pool takes.

        Existing nodes are not tried for later ones, though the node may be opened for one of these
        that has a reservation.
        """
        level, domains = self._current
        numbers = range(len(level.alternatives))
        if domains is None:
            select = self._state.pool_selector.select
            taken = (number for number in numbers if select(level, level.alternatives[number]))
        else:
            taken = (
                number
                for number in numbers
                if self._placement.best_candidate(level, domains, number)
            )
        return next(taken, len(numbers))

    def _alternative_number(self, pod_reqs: PodRequirements) -> int:
        """Which alternative of the level it is, with or without requirements of topology."""
        level, _ = self._current
        levels = (level, *level.narrowed_levels.values())
        return next(
            each.alternatives.index(pod_reqs) for each in levels if pod_reqs in each.alternatives
        )

    def _record(
        self,
        pod: Pod,
        pod_class: PodClass,
        template: NodeClaimTemplate,
        attempt: PlacementAttempt,
        *,
        draft: Draft | None = None,
        opened: NewNodeCandidate | None = None,
    ) -> None:
        self.decision = PlacementDecision(
            round=self._state.round,
            joined=() if draft is None else tuple(sorted(each.key for each in draft.pods)),
            joined_earlier_round=draft is not None and bool(draft.pinned_type),
            for_reservation=opened is not None and opened.option.kind is OptionKind.RESERVED,
            earlier_pools=self._earlier_pools(pod, attempt, template),
            price=None if opened is None else self._state.pool_selector.price(opened),
            modelled_price=opened is not None
            and self._state.pool_selector.launched_offering(opened).modelled,
            equal_pools=() if opened is None else self._equal_pools(opened),
            nodes=self._node_verdicts(pod_class, attempt) + self._deleting_nodes,
            has_topology=pod_class.has_topology,
            has_reservations=any(each.compiled.reserved for _, each in self._compatible_pools()),
            has_limits=any(each.limits.is_limited for each, _ in self._compatible_pools()),
        )

    def _equal_pools(self, opened: NewNodeCandidate) -> tuple[EqualPool, ...]:
        selector = self._state.pool_selector
        return tuple(
            EqualPool(
                pool=each.template.pool.name,
                price=selector.price(each),
                modelled=selector.launched_offering(each).modelled,
            )
            for each in selector.equal_candidates(opened)
            if each.template is not opened.template
        )

    def _node_verdicts(
        self, pod_class: PodClass, attempt: PlacementAttempt
    ) -> tuple[NodeVerdict, ...]:
        chosen = attempt.level.alternatives.index(attempt.alternatives[0])
        last = min(self._opening_alternative(), chosen)
        tried = self._attempt(last)
        return existing_node_verdicts(
            self._state.nodes,
            pod_class,
            tried,
            untried_attempts(pod_class, tried, self._state.topology),
        )

    def _compatible_pools(self) -> Iterator[tuple[NodeClaimTemplate, PoolCompatibility]]:
        """The pools that would take such a pod, for each of its alternatives."""
        level, _ = self._current
        for pod_reqs in level.alternatives:
            for template, compatibility in zip(
                self._state.templates, pod_reqs.scheduling.compatibility, strict=True
            ):
                if compatibility is not None:
                    yield template, compatibility

    def _earlier_pools(
        self, pod: Pod, attempt: PlacementAttempt, chosen: NodeClaimTemplate
    ) -> tuple[EarlierPool, ...]:
        """The pools before the chosen one, with their reasons at this moment."""
        context, narrowed_pod = self._funnel_context(), attempt.narrow_pod(pod)
        topology = None if attempt.can_use_new_node else NewNodeViolatesTopology()
        verdicts: list[tuple[Pool, PoolReason | None]] = [
            (
                each.pool,
                run_funnel(_with_drafts_in_use(each), narrowed_pod, context).reason or topology,
            )
            for each in self._state.templates[: chosen.number]
        ]
        verdicts += [
            each for each in self._unusable if pool_order(each[0]) < pool_order(chosen.pool)
        ]
        return tuple(
            EarlierPool(pool=pool.name, weight=pool.weight, reason=reason)
            for pool, reason in sorted(verdicts, key=lambda verdict: pool_order(verdict[0]))
        )

    def _funnel_context(self) -> FunnelContext:
        manager, options = self._state.reservation_manager, self._options
        return FunnelContext(
            available_counts={
                name: manager.available_count(name) if manager.unheld >> number & 1 else 0
                for name, number in manager.numbers.items()
            },
            strict_min_values=options.min_values_policy is MinValuesPolicy.STRICT,
            reservations=options.capacity_reservations,
        )


def _with_drafts_in_use(template: NodeClaimTemplate) -> NodeClaimTemplate:
    """The pool with its drafts counted as in use, each as its largest type."""
    limits, remaining = template.pool.limits, template.limits.remaining
    if not limits:
        return template
    copy = template.copy()
    in_use = {name: limits[name] - remaining[name] for name in limits}
    copy.pool = msgspec.structs.replace(template.pool, in_use=in_use)
    return copy


CAPACITY_TYPE_ORDER: Final = (RESERVED, SPOT, ON_DEMAND)
"""Capacity types in the order of preference, unless spot costs more than on-demand."""


class LaunchAlternatives(msgspec.Struct, frozen=True, kw_only=True):
    """What could have been launched for a claim."""

    by_pool: tuple[str, ...]
    """Capacity types that the pool allows."""
    allowed: tuple[str, ...]
    """Those of them that its pods allow as well."""
    types: int
    """Number of instance types that it could be launched as."""
    exotic_types: int
    """Number of types besides these: bare metal or accelerators that no pod requires."""
    reservations: tuple[str, ...]
    """Those that match it, with or without available capacity."""
    spot: "AlternativePrice | None"
    """Of the cheapest offering; None where there is none."""
    on_demand: "AlternativePrice | None"


class AlternativePrice(msgspec.Struct, frozen=True, kw_only=True):
    usd: float
    """Per hour, with fees."""
    modelled: bool
    """Whether it is an estimate."""


def launch_alternatives(
    claim: PlannedNodeClaim, pool: Pool, index: InstanceTypeIndex
) -> LaunchAlternatives:
    options = options_of_claim(claim, index)
    types = without_exotic_types(options)
    by_claim = claim.requirements.allowed(CAPACITY_TYPE)
    by_pool = pool.requirements.allowed(CAPACITY_TYPE)
    return LaunchAlternatives(
        by_pool=tuple(filter(by_pool.admits, CAPACITY_TYPE_ORDER)),
        allowed=tuple(
            each for each in CAPACITY_TYPE_ORDER if by_pool.admits(each) and by_claim.admits(each)
        ),
        types=types.bit_count(),
        exotic_types=_types_holding_pods(options).bit_count() - types.bit_count(),
        reservations=_matching_reservations(claim, options),
        spot=_cheapest_price(options, types, options.spot),
        on_demand=_cheapest_price(options, types, options.offering_groups ^ options.spot),
    )


def _types_holding_pods(options: LaunchOptions) -> BitSet:
    """The types that hold all pods; of a claim with reservations only types that have one."""
    if not options.held:
        return options.types
    return options.types & options.index.available_in(options.held)


def _matching_reservations(claim: PlannedNodeClaim, options: LaunchOptions) -> tuple[str, ...]:
    offering_groups = options.index.offering_groups
    reservation_ids = {
        offering_groups[number].reservation_id
        for number in iter_bits(options.index.compatible_groups(claim.requirements))
        if offering_groups[number].offered_types & options.types
    }
    return tuple(sorted(name for name in reservation_ids if name is not None))


def _cheapest_price(
    options: LaunchOptions, types: BitSet, offering_groups: OfferingGroupSet
) -> AlternativePrice | None:
    best = options.index.find_cheapest(types, offering_groups)
    if best is None:
        return None
    number, _, offering = best
    usd = hourly_cost(options.index, number, offering)
    return AlternativePrice(usd=usd, modelled=offering.modelled)
