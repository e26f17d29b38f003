"""Why a placed pod is where it is: what decided on its node, and what else could have been
launched for the NodeClaim.

The plan is made once more and observed at that pod's turn: only then do limits, reservations
and nodes look as they did for it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

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
from wainwright.core.scheduling.drafts import Draft, DraftChange, DraftTable
from wainwright.core.scheduling.existing_nodes import ExistingNodes
from wainwright.core.scheduling.new_node import NewNodeCandidate, NodePoolSelector
from wainwright.core.scheduling.nodeclaim_template import NodeClaimTemplate, pool_order
from wainwright.core.scheduling.placement import PlacementResult, PodPlacement
from wainwright.core.scheduling.pod_classes import PodClasses
from wainwright.core.scheduling.pod_requirements import (
    OptionKind,
    PodClass,
    PodRequirements,
    PoolCompatibility,
    RelaxationLevel,
)
from wainwright.core.scheduling.solver import FIRST_FIT, Strategy
from wainwright.core.scheduling.topology.allowed_domains import AllowedDomains
from wainwright.core.scheduling.topology.topology import Topology
from wainwright.model.bitset import BitSet, iter_bits
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.labels import CAPACITY_TYPE, ON_DEMAND, RESERVED, SPOT
from wainwright.model.offering_groups import OfferingGroupSet
from wainwright.model.plan import MinValuesPolicy, PackingPolicy, PlannedNodeClaim, PlanOptions
from wainwright.model.pod import Pod
from wainwright.model.reasons import NewNodeViolatesTopology, NodeVerdict, PoolReason, PoolUnusable
from wainwright.model.snapshot import Pool, Snapshot


class EarlierPool(msgspec.Struct, frozen=True, kw_only=True):
    """What a pool that comes earlier had to say; None where it would have opened a node."""

    pool: str
    weight: int
    reason: PoolReason | None


class PlacementDecision(msgspec.Struct, frozen=True, kw_only=True):
    """How a pod came to its new node."""

    round: int
    """In which it was placed."""
    joined: tuple[str, ...]
    """The pods that the node was planned for already; none where it was opened for this one."""
    under_way: bool
    """Whether that was in an earlier round."""
    for_reservation: bool
    """Whether it was opened because a reservation had available capacity."""
    earlier: tuple[EarlierPool, ...]
    """The pools that are asked before the one of the node, in that order."""
    nodes: tuple[NodeVerdict, ...]
    """Why no node of the cluster took it, or would have only later."""
    tied: bool
    """Whether it minds where other pods are."""
    has_reservations: bool
    """Whether there are reservations that it could use, so that it may have waited for one."""
    limits: bool
    """Whether a pool that would take it has limits, which count drafts at their worst at first."""


def explain_placement(
    snapshot: Snapshot,
    catalogs: Mapping[str, InstanceTypeIndex],
    options: PlanOptions,
    claim: PlannedNodeClaim,
    pod: str,
) -> PlacementDecision | None:
    """None where pods are packed by cost, and the claim is none that first-fit comes to."""
    for manner in (FIRST_FIT, *FALLBACK_STRATEGIES):
        observer = _PlacementObserver(snapshot, options, pod)
        solution = solve_snapshot(
            snapshot, catalogs, options, Strategy(observer.placing, manner.deferred_kinds)
        )
        if any(_is_claim_of_draft(claim, draft) for draft in solution.rounds.table.drafts):
            assert observer.decision is not None, "whoever is put on a draft is seen"
            return observer.decision
    assert options.packing is PackingPolicy.COST, "made once more, a plan is the same"
    return None


def _is_claim_of_draft(claim: PlannedNodeClaim, draft: Draft) -> bool:
    """Whether the claim came of the draft."""
    pool, pods = draft.template.pool.name, sorted(pod.key for pod in draft.pods)
    return pool == claim.pool and pods == list(claim.pods)


class _PlacementObserver:
    """Observes a plan being made, for one pod."""

    def __init__(self, snapshot: Snapshot, options: PlanOptions, pod: str) -> None:
        self.pod = pod
        self.options = options
        self.unusable = [
            (pool, PoolUnusable(why=pool.unusable))
            for pool in snapshot.pools
            if pool.unusable is not None
        ]
        self.leaving = deleting_node_verdicts(snapshot.nodes)
        self.decision: PlacementDecision | None = None

    def placing(
        self,
        templates: Sequence[NodeClaimTemplate],
        nodes: ExistingNodes,
        table: DraftTable,
        ladder: NodePoolSelector,
        classes: PodClasses,
        topology: Topology | None,
    ) -> PodPlacement:
        made = _ObservedPlacement(templates, nodes, table, ladder, classes, topology)
        made.observer = self
        return made


class _ObservedPlacement(PodPlacement):
    """Places pods as ever, and writes down what it was like for one of them."""

    observer: _PlacementObserver
    _tried: tuple[RelaxationLevel, AllowedDomains | None] | None = None

    def _place_without_topology(
        self, pod: Pod, group: PodClass, stage: RelaxationLevel
    ) -> PlacementResult | None:
        self._tried = stage, None
        return super()._place_without_topology(pod, group, stage)

    def _place_within(
        self, pod: Pod, group: PodClass, stage: RelaxationLevel, limits: AllowedDomains | None
    ) -> PlacementResult | None:
        self._tried = stage, limits
        return super()._place_within(pod, group, stage, limits)

    def _join_existing(
        self, pod: Pod, group: PodClass, stage: RelaxationLevel, limits: AllowedDomains | None
    ) -> bool:
        self._tried = stage, limits
        return super()._join_existing(pod, group, stage, limits)

    def _open(self, pod: Pod, group: PodClass, step: NewNodeCandidate) -> None:
        if pod.key == self.observer.pod:
            attempt, reserved = (
                self._attempt(self._leading()),
                step.option.kind is OptionKind.RESERVED,
            )
            self._record(pod, group, step.template, attempt, reserved=reserved)
        super()._open(pod, group, step)

    def _apply_and_add(
        self, pod: Pod, group: PodClass, wish: PodRequirements, draft: Draft, change: DraftChange
    ) -> None:
        if pod.key == self.observer.pod:
            attempt = self._attempt(self._as_written(wish))
            self._record(pod, group, draft.template, attempt, draft=draft)
        super()._apply_and_add(pod, group, wish, draft, change)

    @property
    def _now(self) -> tuple[RelaxationLevel, AllowedDomains | None]:
        assert self._tried is not None, "a pod is tried stage by stage"
        return self._tried

    def _attempt(self, number: int) -> PlacementAttempt:
        stage, limits = self._now
        return PlacementAttempt(stage=stage, wishes=(stage.alternatives[number],), limits=limits)

    def _leading(self) -> int:
        """The alternative by which a node is opened: the first that any pool says yes to.

        Nodes are not asked for those that come later, though it may be opened for one of them
        that has a reservation.
        """
        stage, limits = self._now
        numbers = range(len(stage.alternatives))
        if limits is None:
            step = self.pool_selector.select
            able = (number for number in numbers if step(stage, stage.alternatives[number]))
        else:
            able = (number for number in numbers if self._best_candidate(stage, limits, number))
        return next(able, len(numbers))

    def _as_written(self, wish: PodRequirements) -> int:
        """Which alternative it is, be it on nodes of which others have more required."""
        stage, _ = self._now
        stages = (stage, *stage.narrowed_levels.values())
        return next(each.alternatives.index(wish) for each in stages if wish in each.alternatives)

    def _record(
        self,
        pod: Pod,
        group: PodClass,
        template: NodeClaimTemplate,
        attempt: PlacementAttempt,
        *,
        draft: Draft | None = None,
        reserved: bool = False,
    ) -> None:
        self.observer.decision = PlacementDecision(
            round=self.round,
            joined=() if draft is None else tuple(sorted(each.key for each in draft.pods)),
            under_way=draft is not None and bool(draft.pinned_type),
            for_reservation=reserved,
            earlier=self._earlier(pod, attempt, template),
            nodes=self._refusals(group, attempt) + self.observer.leaving,
            tied=group.has_topology,
            has_reservations=any(terms.compiled.reserved for _, terms in self._terms()),
            limits=any(template.pool.limits for template, _ in self._terms()),
        )

    def _refusals(self, group: PodClass, attempt: PlacementAttempt) -> tuple[NodeVerdict, ...]:
        last = min(self._leading(), attempt.stage.alternatives.index(attempt.wishes[0]))
        tried, resources = self._attempt(last), self._classes.resources
        return existing_node_verdicts(
            self.nodes, group, tried, resources, untried_attempts(group, tried, self.topology)
        )

    def _terms(self) -> Iterator[tuple[NodeClaimTemplate, PoolCompatibility]]:
        """The pools that would take such a pod, and how."""
        stage, _ = self._now
        for wish in stage.alternatives:
            for template, terms in zip(self.templates, wish.scheduling.compatibility, strict=True):
                if terms is not None:
                    yield template, terms

    def _earlier(
        self, pod: Pod, attempt: PlacementAttempt, chosen: NodeClaimTemplate
    ) -> tuple[EarlierPool, ...]:
        """What the pools said, or would have said, that are asked before the chosen one."""
        state, narrowed_pod = self._state(), attempt.narrow_pod(pod)
        refused = None if attempt.new_node_will_do else NewNodeViolatesTopology()
        verdicts: list[tuple[Pool, PoolReason | None]] = [
            (
                each.pool,
                run_funnel(_with_drafts_in_use(each), narrowed_pod, state).reason or refused,
            )
            for each in self.templates[: chosen.number]
        ]
        verdicts += [
            each for each in self.observer.unusable if pool_order(each[0]) < pool_order(chosen.pool)
        ]
        return tuple(
            EarlierPool(pool=pool.name, weight=pool.weight, reason=reason)
            for pool, reason in sorted(verdicts, key=lambda verdict: pool_order(verdict[0]))
        )

    def _state(self) -> FunnelContext:
        stock, options = self.reservation_manager, self.observer.options
        return FunnelContext(
            free={
                name: stock.available_count(name) if stock.unheld >> number & 1 else 0
                for name, number in stock.numbers.items()
            },
            strict=options.min_values_policy is MinValuesPolicy.STRICT,
            reservations=options.capacity_reservations,
        )


def _with_drafts_in_use(template: NodeClaimTemplate) -> NodeClaimTemplate:
    """The pool with its drafts counted as in use, each at its worst."""
    limits, left = template.pool.limits, template.limits.remaining
    if not limits:
        return template
    twin = template.copy()
    in_use = {name: limits[name] - left[name] for name in limits}
    twin.pool = msgspec.structs.replace(template.pool, in_use=in_use)
    return twin


CAPACITY_TYPE_ORDER: Final = (RESERVED, SPOT, ON_DEMAND)
"""Capacity types as they are taken, as long as spot is not the dearer one."""


class LaunchAlternatives(msgspec.Struct, frozen=True, kw_only=True):
    """What was on offer to a claim."""

    by_pool: tuple[str, ...]
    """Capacity types that the pool allows."""
    allowed: tuple[str, ...]
    """Those among them that its pods allow as well."""
    types: int
    """Instance types that it could be launched as."""
    exotic_types: int
    """Types of bare metal or with accelerators besides these, which nobody asked for."""
    reservations: tuple[str, ...]
    """Those that it might have used, had they had available capacity."""
    spot: float | None
    """USD per hour with fees of the cheapest; None where there is none."""
    on_demand: float | None


def launch_alternatives(
    claim: PlannedNodeClaim, pool: Pool, index: InstanceTypeIndex
) -> LaunchAlternatives:
    left = options_of_claim(claim, index)
    types = without_exotic_types(left)
    kinds = claim.requirements.allowed(CAPACITY_TYPE)
    by_pool = pool.requirements.allowed(CAPACITY_TYPE)
    return LaunchAlternatives(
        by_pool=tuple(filter(by_pool.admits, CAPACITY_TYPE_ORDER)),
        allowed=tuple(
            kind for kind in CAPACITY_TYPE_ORDER if by_pool.admits(kind) and kinds.admits(kind)
        ),
        types=types.bit_count(),
        exotic_types=_types_holding_pods(left).bit_count() - types.bit_count(),
        reservations=_matching_reservations(claim, left),
        spot=_cheapest_price(left, types, left.spot),
        on_demand=_cheapest_price(left, types, left.offering_groups ^ left.spot),
    )


def _types_holding_pods(left: LaunchOptions) -> BitSet:
    """The types that hold all its pods: with a reservation only those that have one."""
    return left.types & left.index.available_in(left.held) if left.held else left.types


def _matching_reservations(claim: PlannedNodeClaim, left: LaunchOptions) -> tuple[str, ...]:
    offering_groups = left.index.offering_groups
    admitted = left.index.compatible_groups(claim.requirements)
    found = {
        offering_groups[number].reservation_id
        for number in iter_bits(admitted)
        if offering_groups[number].offered_types & left.types
    }
    return tuple(sorted(name for name in found if name is not None))


def _cheapest_price(
    left: LaunchOptions, types: BitSet, offering_groups: OfferingGroupSet
) -> float | None:
    best = left.index.find_cheapest(types, offering_groups)
    return None if best is None else hourly_cost(left.index, best[0], best[2])
