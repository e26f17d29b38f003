"""Verdicts on pods without a place: the reason of the pod itself, of other pods (topology), of
every NodePool with its funnel and nearest miss, and of the existing nodes.

Made once per class of pods that failed, after the solver is done.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import msgspec

from wainwright.core.explain.existing_node_reasons import (
    PlacementAttempt,
    deleting_node_verdicts,
    existing_node_verdicts,
)
from wainwright.core.explain.instance_type_funnel import FunnelContext, run_funnel
from wainwright.core.scheduling.nodeclaim_template import (
    NodeClaimTemplate,
    compile_templates,
    pool_order,
)
from wainwright.core.scheduling.pod_requirements import PodClass
from wainwright.core.scheduling.solver import Solution
from wainwright.core.scheduling.topology.constraints import TopologyConstraints
from wainwright.core.scheduling.topology.groups import (
    AnyGroup,
    ConstraintKind,
    HostGroup,
    LabelGroup,
    counts_by_domain,
    domains_within_skew,
)
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.plan import UnschedulableGroup
from wainwright.model.pod import Pod
from wainwright.model.reasons import (
    ContradictoryRequirements,
    DaemonSetsExceedCapacity,
    DomainCount,
    Funnel,
    InstanceTypesTooSmall,
    LabelConflict,
    LaunchesTakenByOtherPods,
    LimitExceeded,
    MinValuesUnsatisfied,
    NearestMiss,
    NewNodeViolatesTopology,
    NoCompatiblePool,
    NodeVerdict,
    NoInstanceTypes,
    NoMatchingInstanceType,
    NoMatchingOffering,
    NoNodePools,
    OfferingsUnavailable,
    PodAffinityUnsatisfied,
    PodAntiAffinityUnsatisfied,
    PodReason,
    PoolReason,
    PoolUnusable,
    PoolVerdict,
    TopologyReason,
    TopologySpreadUnsatisfied,
    TopologyUnsatisfied,
    UnsupportedFeatures,
    VolumeTopologyConflict,
    VolumeUnusable,
)
from wainwright.model.requirements import ValueSet
from wainwright.model.snapshot import Pool, Snapshot


def topology_reasons(bound: TopologyConstraints) -> tuple[TopologyReason, ...]:
    """Every constraint that rules out some place."""
    return tuple(_iter_topology_reasons(bound))


def _iter_topology_reasons(bound: TopologyConstraints) -> Iterator[TopologyReason]:
    for group, itself in bound.spreads:
        found = _spread_reason(group, itself=itself)
        if len(found.allowed_domains) < len(found.counts) or not found.counts:
            yield found
    for groups, itself in bound.near:
        if not itself or any(map(_occupied_domains, groups)):
            yield from (
                PodAffinityUnsatisfied(
                    key=g.key, pods=_selectors_of(g), allowed_domains=_occupied_domains(g)
                )
                for g in groups
            )
    yield from sorted(
        _anti_affinity_reasons(bound), key=lambda found: (found.key, found.pods, found.theirs)
    )


def _anti_affinity_reasons(bound: TopologyConstraints) -> Iterator[PodAntiAffinityUnsatisfied]:
    shunning: tuple[AnyGroup, ...] = (*bound.away, *bound.full)
    for group in shunning:
        taken = _occupied_domains(group)
        if taken:
            theirs = group.kind is ConstraintKind.SHUNNED
            yield PodAntiAffinityUnsatisfied(
                key=group.key, pods=_selectors_of(group), taken=taken, theirs=theirs
            )


def _spread_reason(group: LabelGroup, *, itself: bool) -> TopologySpreadUnsatisfied:
    assert group.spread is not None
    counts = counts_by_domain(group)
    return TopologySpreadUnsatisfied(
        key=group.key,
        max_skew=group.spread.max_skew,
        counts=tuple(DomainCount(domain=place, pods=counts[place]) for place in sorted(counts)),
        allowed_domains=tuple(sorted(domains_within_skew(group, itself=itself))),
        min_domains=group.spread.min_domains,
        by_default=group.spread.by_default,
    )


def _selectors_of(group: AnyGroup) -> str:
    return ",".join(str(term.selector) for term in group.meaning)


def _occupied_domains(group: AnyGroup) -> tuple[str, ...]:
    """The values with any of the pods; of nodes only how many there are."""
    if isinstance(group, HostGroup):
        count = group.full.bit_count() + group.full_nodes.bit_count()
        return (f"{count:,} {'node' if count == 1 else 'nodes'}",) if count else ()
    return tuple(sorted(value for value, count in group.counts.items() if count))


EMPTY_FUNNEL = Funnel(types=0, requirements=0, resources=0, offerings=0, min_values=0, limits=0)

PoolRejection: TypeAlias = tuple[NodeClaimTemplate, PoolReason]
"""A pool, and why it does not take the pod."""


class PodVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """Pods that cannot be told apart, and why they have no place."""

    pods: tuple[Pod, ...]
    verdict: UnschedulableGroup
    narrowed_pod: Pod
    """One of them, as if it asked for the places that others leave it."""
    refused: tuple[PoolRejection, ...] = ()
    """By the order of pools; none where a change of pod or pool would not help."""


class VerdictBuilder:
    """The pools, asked once more by those who found no place."""

    def __init__(
        self,
        snapshot: Snapshot,
        catalogs: Mapping[str, InstanceTypeIndex],
        state: FunnelContext,
        solution: Solution,
    ) -> None:
        self.state = state
        self.solution = solution
        self.pools = sorted(snapshot.pools, key=pool_order)
        self._leaving = deleting_node_verdicts(snapshot.nodes)
        gate = state.reservations
        usable = compile_templates(snapshot.pools, catalogs, snapshot.daemonsets, gate=gate)
        self.templates = {template.pool.name: template for template in usable}

    def evaluate(self, pods: Sequence[Pod], group: PodClass | None) -> PodVerdict:
        pod, keys = pods[0], tuple(sorted(each.key for each in pods))
        reason = self._outright(pod)
        if reason is None and group is not None and not group.stages:
            reason = VolumeTopologyConflict()
        if reason is not None:
            verdict = UnschedulableGroup(pods=keys, reason=reason)
            return PodVerdict(pods=tuple(pods), verdict=verdict, narrowed_pod=pod)
        kept = self._kept(group) if group is not None else ()
        attempt = self._attempt(group) if group is not None else None
        narrowed_pod = attempt.narrow_pod(pod) if attempt is not None else pod
        verdicts = [self._verdict(pool, narrowed_pod, tied=bool(kept)) for pool in self.pools]
        verdict = UnschedulableGroup(
            pods=keys,
            reason=TopologyUnsatisfied(by=kept)
            if kept
            else NoCompatiblePool()
            if self.pools
            else NoNodePools(),
            pools=tuple(sorted(verdicts, key=lambda one: one.pool)),
            nodes=self._nodes(group, attempt) if group is not None and attempt is not None else (),
        )
        refused = () if kept else tuple(self._refused(verdicts))
        return PodVerdict(
            pods=tuple(pods), verdict=verdict, narrowed_pod=narrowed_pod, refused=refused
        )

    def _refused(self, verdicts: Sequence[PoolVerdict]) -> Iterator[PoolRejection]:
        for one in verdicts:
            if one.pool in self.templates:
                yield self.templates[one.pool], one.reason

    def _nodes(self, group: PodClass, attempt: PlacementAttempt) -> tuple[NodeVerdict, ...]:
        resources = self.solution.classes.resources
        return (
            existing_node_verdicts(self.solution.placing.nodes, group, attempt, resources)
            + self._leaving
        )

    def _kept(self, group: PodClass) -> tuple[TopologyReason, ...]:
        stage = group.stages[-1] if group.stages else None
        return (
            topology_reasons(stage.bound) if stage is not None and stage.bound is not None else ()
        )

    def _attempt(self, group: PodClass) -> PlacementAttempt:
        """What its pods ask for at last, in any way: nothing came of it."""
        stage, topology = group.stages[-1], self.solution.placing.topology
        limits = None
        if stage.bound is not None and topology is not None:
            limits = topology.restriction(stage.bound)
        return PlacementAttempt(stage=stage, wishes=stage.wishes, limits=limits)

    def _outright(self, pod: Pod) -> PodReason | None:
        if pod.unsupported:
            return UnsupportedFeatures(features=pod.unsupported)
        if pod.volume_problem is not None:
            return VolumeUnusable(claim=pod.volume_problem.claim, why=pod.volume_problem.why)
        if not pod.alternatives:
            return ContradictoryRequirements(keys=pod.contradictory)
        return None

    def _verdict(self, pool: Pool, pod: Pod, *, tied: bool) -> PoolVerdict:
        template = self.templates.get(pool.name)
        if template is None:
            why = pool.unusable
            none = NoInstanceTypes() if why is None else PoolUnusable(why=why)
            return PoolVerdict(pool=pool.name, reason=none, funnel=EMPTY_FUNNEL)
        found = run_funnel(template, pod, self.state)
        reason = found.reason or (NewNodeViolatesTopology() if tied else LaunchesTakenByOtherPods())
        return PoolVerdict(
            pool=pool.name, reason=reason, funnel=found.funnel, nearest_miss=_nearest_miss(reason)
        )


def _nearest_miss(reason: PoolReason) -> NearestMiss | None:
    """What was needed, and the best that there is."""
    match reason:
        case (
            InstanceTypesTooSmall(resource=what, needed=needed, best=best)
            | DaemonSetsExceedCapacity(resource=what, needed=needed, best=best)
        ):
            kind = reason.instance_type
            return NearestMiss(what=what, needed=needed, best=best, instance_type=kind)
        case MinValuesUnsatisfied(key=key, needed=needed, found=found):
            return NearestMiss(what=f"minValues of {key}", needed=str(needed), best=str(found))
        case LimitExceeded(resource=what, limit=limit, in_use=used, needed=more):
            return NearestMiss(
                what=what, needed=used + more, best=limit, instance_type=reason.instance_type
            )
        case LabelConflict(key=key, wanted=wanted, offered=offered):
            return NearestMiss(what=key, needed=str(wanted), best=_format_offered(offered))
        case NoMatchingOffering(key=key, wanted=wanted, offered=offered, instance_type=kind):
            there = _format_offered(None if offered.is_empty else offered)
            return NearestMiss(what=key, needed=str(wanted), best=there, instance_type=kind)
        case NoMatchingInstanceType(key=key, wanted=wanted):
            return NearestMiss(what=key, needed=str(wanted), best="no type")
        case OfferingsUnavailable(instance_type=kind):
            return NearestMiss(what="offering", needed="1", best="0", instance_type=kind)
        case _:
            return None


def _format_offered(offered: ValueSet | None) -> str:
    return "nothing" if offered is None else str(offered)
