"""Verdicts on pods without a place: a reason of the pod itself or of topology constraints, one for
every NodePool with its funnel and nearest miss, and those of existing nodes.

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
from wainwright.core.scheduling.constraints.limits import ClusterLimits
from wainwright.core.scheduling.nodeclaim_template import (
    NodeClaimTemplate,
    compile_templates,
    pool_order,
)
from wainwright.core.scheduling.pod_classes import PodClass
from wainwright.core.scheduling.solver import Solution
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.plan import PRICE_LIMIT, PRICE_UNITS, UnschedulableGroup
from wainwright.model.pod import Pod
from wainwright.model.reasons import (
    ContradictoryRequirements,
    DaemonSetsExceedCapacity,
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
    PodReason,
    PoolReason,
    PoolUnusable,
    PoolVerdict,
    TopologyReason,
    TopologyUnsatisfied,
    UnsupportedFeatures,
    VolumeTopologyConflict,
    VolumeUnusable,
)
from wainwright.model.requirements import ValueSet
from wainwright.model.snapshot import Pool, Snapshot

EMPTY_FUNNEL = Funnel(types=0, requirements=0, resources=0, offerings=0, min_values=0, limits=0)

PoolRejection: TypeAlias = tuple[NodeClaimTemplate, PoolReason]
"""A pool, and the reason why it does not take the pod."""


class PodVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """Equal pods, and why they have no place."""

    pods: tuple[Pod, ...]
    verdict: UnschedulableGroup
    narrowed_pod: Pod
    """One of them, with the requirements of the attempt that failed last as its own."""
    rejections: tuple[PoolRejection, ...] = ()
    """In the order of pools; empty where no change of pod or pool would help."""


class VerdictBuilder:
    """Makes the verdicts, with the pools as the plan leaves them."""

    def __init__(
        self,
        snapshot: Snapshot,
        catalogs: Mapping[str, InstanceTypeIndex],
        context: FunnelContext,
        solution: Solution,
        cluster_limits: ClusterLimits | None = None,
    ) -> None:
        self.context = context
        self.solution = solution
        self.pools = sorted(snapshot.pools, key=pool_order)
        self._deleting_nodes = deleting_node_verdicts(snapshot.nodes)
        gate = context.reservations
        usable = compile_templates(
            snapshot.pools, catalogs, snapshot.daemonsets, gate=gate, cluster_limits=cluster_limits
        )
        self.templates = {template.pool.name: template for template in usable}

    def evaluate(
        self, pods: Sequence[Pod], pod_class: PodClass | None, explained_pools: int | None = None
    ) -> PodVerdict:
        """The verdict on equal pods; `pod_class` is None where they were not tried.

        Of the pools only the first `explained_pools` in order of weight are evaluated.
        """
        pod, keys = pods[0], tuple(sorted(each.key for each in pods))
        reason = self._pod_reason(pod)
        if reason is None and pod_class is not None and not pod_class.levels:
            reason = VolumeTopologyConflict()
        if reason is not None:
            verdict = UnschedulableGroup(pods=keys, reason=reason)
            return PodVerdict(pods=tuple(pods), verdict=verdict, narrowed_pod=pod)
        topology: tuple[TopologyReason, ...] = ()
        nodes: tuple[NodeVerdict, ...] = ()
        narrowed_pod = pod
        if pod_class is not None:
            topology = self._topology_reasons(pod_class)
            attempt = self._last_attempt(pod_class)
            nodes = self._node_verdicts(pod_class, attempt)
            narrowed_pod = attempt.narrow_pod(pod)
        verdicts = [
            self._pool_verdict(pool, narrowed_pod, has_topology=bool(topology))
            for pool in self.pools[:explained_pools]
        ]
        verdict = UnschedulableGroup(
            pods=keys,
            unexplained_pools=len(self.pools) - len(verdicts),
            reason=TopologyUnsatisfied(by=topology)
            if topology
            else NoCompatiblePool()
            if self.pools
            else NoNodePools(),
            pools=tuple(sorted(verdicts, key=lambda each: each.pool)),
            nodes=nodes,
        )
        rejections = () if topology else tuple(self._rejections(verdicts))
        return PodVerdict(
            pods=tuple(pods), verdict=verdict, narrowed_pod=narrowed_pod, rejections=rejections
        )

    def _rejections(self, verdicts: Sequence[PoolVerdict]) -> Iterator[PoolRejection]:
        for verdict in verdicts:
            if verdict.pool in self.templates:
                yield self.templates[verdict.pool], verdict.reason

    def _node_verdicts(
        self, pod_class: PodClass, attempt: PlacementAttempt
    ) -> tuple[NodeVerdict, ...]:
        nodes = self.solution.state.nodes
        return existing_node_verdicts(nodes, pod_class, attempt) + self._deleting_nodes

    def _topology_reasons(self, pod_class: PodClass) -> tuple[TopologyReason, ...]:
        level, topology = pod_class.levels[-1], self.solution.state.topology
        if level.topology_constraints is None or topology is None:
            return ()
        return topology.why(level.topology_constraints)

    def _last_attempt(self, pod_class: PodClass) -> PlacementAttempt:
        """The last attempt, with every preference relaxed that may be; it failed as well."""
        level, topology = pod_class.levels[-1], self.solution.state.topology
        domains = None
        if level.topology_constraints is not None and topology is not None:
            domains = topology.allowed_domains(level.topology_constraints)
        return PlacementAttempt(level=level, alternatives=level.alternatives, domains=domains)

    def _pod_reason(self, pod: Pod) -> PodReason | None:
        """Why the pod cannot be scheduled whatever the pools and nodes."""
        if pod.unsupported:
            return UnsupportedFeatures(features=pod.unsupported)
        if pod.volume_problem is not None:
            return VolumeUnusable(claim=pod.volume_problem.claim, why=pod.volume_problem.why)
        if not pod.alternatives:
            return ContradictoryRequirements(keys=pod.contradictory)
        return None

    def _pool_verdict(self, pool: Pool, pod: Pod, *, has_topology: bool) -> PoolVerdict:
        template = self.templates.get(pool.name)
        if template is None:
            why = pool.unusable
            unusable = NoInstanceTypes() if why is None else PoolUnusable(why=why)
            return PoolVerdict(pool=pool.name, reason=unusable, funnel=EMPTY_FUNNEL)
        result = run_funnel(template, pod, self.context)
        by_other_pods = NewNodeViolatesTopology() if has_topology else LaunchesTakenByOtherPods()
        reason = result.reason or by_other_pods
        return PoolVerdict(
            pool=pool.name, reason=reason, funnel=result.funnel, nearest_miss=_nearest_miss(reason)
        )


def _nearest_miss(reason: PoolReason) -> NearestMiss | None:
    """What is needed, and the most that there is."""
    match reason:
        case (
            InstanceTypesTooSmall(resource=what, needed=needed, best=best)
            | DaemonSetsExceedCapacity(resource=what, needed=needed, best=best)
        ):
            name = reason.instance_type
            return NearestMiss(what=what, needed=needed, best=best, instance_type=name)
        case MinValuesUnsatisfied(key=key, needed=needed, found=found):
            return NearestMiss(what=f"minValues of {key}", needed=str(needed), best=str(found))
        case LimitExceeded():
            return _nearest_to_limit(reason)
        case LabelConflict(key=key, wanted=wanted, offered=offered):
            return NearestMiss(what=key, needed=str(wanted), best=_format_offered(offered))
        case NoMatchingOffering(key=key, wanted=wanted, offered=offered, instance_type=name):
            values = _format_offered(None if offered.is_empty else offered)
            return NearestMiss(what=key, needed=str(wanted), best=values, instance_type=name)
        case NoMatchingInstanceType(key=key, wanted=wanted):
            return NearestMiss(what=key, needed=str(wanted), best="no type")
        case OfferingsUnavailable(instance_type=name):
            return NearestMiss(what="offering", needed="1", best="0", instance_type=name)
        case _:
            return None


def _nearest_to_limit(reason: LimitExceeded) -> NearestMiss:
    needed: int | str = reason.in_use + reason.needed
    best: int | str = reason.limit
    if reason.resource == PRICE_LIMIT:
        needed, best = (
            f"{amount / PRICE_UNITS:.3f}"
            for amount in (reason.in_use + reason.needed, reason.limit)
        )
    return NearestMiss(
        what=reason.resource, needed=needed, best=best, instance_type=reason.instance_type
    )


def _format_offered(offered: ValueSet | None) -> str:
    return "nothing" if offered is None else str(offered)
