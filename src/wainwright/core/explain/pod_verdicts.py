"""Verdicts on pods without a place: a reason of the pod itself or of topology constraints, one for
every NodePool with its funnel and nearest miss, and those of existing nodes.

Made once per class of pods that failed, after the solver is done.
"""

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Final, TypeAlias

import msgspec

from wainwright.core.explain.existing_node_reasons import (
    PlacementAttempt,
    deleting_node_verdicts,
    existing_node_verdicts,
)
from wainwright.core.explain.instance_type_funnel import FunnelContext, run_funnel
from wainwright.core.scheduling.constraints.limits import ClusterLimits
from wainwright.core.scheduling.constraints.node_affinity import admits_pool
from wainwright.core.scheduling.nodeclaim_template import (
    NodeClaimTemplate,
    compile_templates,
    pool_order,
)
from wainwright.core.scheduling.pod_classes import PodClass
from wainwright.core.scheduling.solver import Solution
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.labels import ZONE
from wainwright.model.plan import PRICE_LIMIT, PRICE_UNITS, UnschedulableGroup
from wainwright.model.pod import Pod, PodVolume
from wainwright.model.reasons import (
    ContradictoryRequirements,
    DaemonSetsExceedCapacity,
    Funnel,
    HostPortsTaken,
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
    RestrictedLabel,
    TooManyVolumes,
    TopologyReason,
    TopologyUnsatisfied,
    UnsupportedFeatures,
    UntoleratedTaint,
    VolumeTopologyConflict,
    VolumeUnusable,
)
from wainwright.model.requirements import ValueSet
from wainwright.model.snapshot import Pool, Snapshot
from wainwright.model.taints import Toleration, TolerationOperator

EMPTY_FUNNEL = Funnel(types=0, requirements=0, resources=0, offerings=0, min_values=0, limits=0)

TOLERATE_EVERYTHING: Final = Toleration(operator=TolerationOperator.EXISTS)

PoolRejection: TypeAlias = tuple[NodeClaimTemplate, PoolReason]
"""A pool, and the reason why it does not take the pod."""


class PodVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """Equal pods, and why they have no place."""

    pods: tuple[Pod, ...]
    verdict: UnschedulableGroup
    narrowed_pod: Pod
    """One of them, with the requirements of the attempt that failed last as its own."""
    rejections: tuple[PoolRejection, ...] = ()
    """The pool that came nearest first; empty where no change of pod or pool would help."""
    topology: tuple[TopologyReason, ...] = ()
    """The constraints between pods that rule out some domain."""


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
            reason = VolumeTopologyConflict(volumes=pod.volumes)
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
        judged = [
            self._judge(pool, pod, narrowed_pod, topology) for pool in self.pools[:explained_pools]
        ]
        verdict = UnschedulableGroup(
            pods=keys,
            unexplained_pools=len(self.pools) - len(judged),
            reason=TopologyUnsatisfied(by=topology)
            if topology
            else NoCompatiblePool()
            if self.pools
            else NoNodePools(),
            pools=tuple(sorted((each.verdict for each in judged), key=lambda each: each.pool)),
            nearest_pool=max(judged, key=_nearness).verdict.pool if judged else None,
            nodes=nodes,
        )
        return PodVerdict(
            pods=tuple(pods),
            verdict=verdict,
            narrowed_pod=narrowed_pod,
            rejections=tuple(self._rejections(judged)),
            topology=topology,
        )

    def _judge(
        self, pool: Pool, pod: Pod, narrowed_pod: Pod, topology: Sequence[TopologyReason]
    ) -> "JudgedPool":
        verdict = self._pool_verdict(pool, narrowed_pod, has_topology=bool(topology))
        reason = _with_source(verdict.reason, pod, {each.key for each in topology})
        is_only_taint = isinstance(reason, UntoleratedTaint) and self._passes_tolerated(
            pool, narrowed_pod
        )
        return JudgedPool(
            verdict=msgspec.structs.replace(verdict, reason=reason, is_only_taint=is_only_taint),
            has_devices=self._has_devices(pool, pod),
            label_conflicts=self._label_conflicts(pool, narrowed_pod),
        )

    def _label_conflicts(self, pool: Pool, pod: Pod) -> int:
        """How many labels that the pod requires nodes of the pool cannot have."""
        template = self.templates.get(pool.name)
        if template is None:
            return 0
        offered, well_known = template.base.requirements, template.well_known
        conflicts = (
            sum(not admits_pool(wanted.only(key), offered, well_known) for key in wanted)
            for wanted in pod.alternatives
        )
        return min(conflicts, default=0)

    def _has_devices(self, pool: Pool, pod: Pod) -> bool:
        """Whether instance types of the pool have the extended resources that the pod requests."""
        template = self.templates.get(pool.name)
        devices = {name: 1 for name, amount in pod.requests.items() if "/" in name and amount}
        if template is None or not devices:
            return False
        return bool(template.base.types & template.allocatable.fitting(devices))

    def _passes_tolerated(self, pool: Pool, pod: Pod) -> bool:
        """Whether the pool would take the pod if that tolerated its taints."""
        tolerations = (*pod.tolerations, TOLERATE_EVERYTHING)
        tolerant = msgspec.structs.replace(pod, tolerations=tolerations)
        return run_funnel(self.templates[pool.name], tolerant, self.context).reason is None

    def _rejections(self, judged: Sequence["JudgedPool"]) -> Iterator[PoolRejection]:
        for each in sorted(judged, key=_nearness, reverse=True):
            if each.verdict.pool in self.templates:
                yield self.templates[each.verdict.pool], each.verdict.reason

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
            problem = pod.volume_problem
            volumes = pod.volumes if problem.is_apart else ()
            return VolumeUnusable(claim=problem.claim, why=problem.why, volumes=volumes)
        if not pod.alternatives:
            return ContradictoryRequirements(labels=pod.contradictory)
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


class JudgedPool(msgspec.Struct, frozen=True, kw_only=True):
    verdict: PoolVerdict
    has_devices: bool = False
    """Whether it has the GPUs or other devices that the pod requests: it is meant for such pods."""
    label_conflicts: int = 0
    """Labels that the pod requires and nodes of the pool cannot have."""


NEARNESS: Final[Mapping[type[PoolReason], int]] = {
    LaunchesTakenByOtherPods: 9,
    NewNodeViolatesTopology: 9,
    LimitExceeded: 8,
    MinValuesUnsatisfied: 7,
    OfferingsUnavailable: 6,
    InstanceTypesTooSmall: 5,
    HostPortsTaken: 5,
    TooManyVolumes: 5,
    DaemonSetsExceedCapacity: 5,
    NoMatchingOffering: 3,
    NoMatchingInstanceType: 2,
    LabelConflict: 2,
    RestrictedLabel: 2,
    UntoleratedTaint: 1,
}
"""How near a NodePool came by its reason; one that cannot launch anything is the furthest."""
ONLY_TAINT: Final = 4
LACKS_RESOURCE: Final = 1


def _nearness(judged: JudgedPool) -> tuple[int, bool, bool, int, bool, tuple[int, ...]]:
    """A sort key, the nearest last; of equal ones `max` and a stable sort take the first by weight.

    A NodePool that lacks a resource altogether, as GPUs, is not one that the pod was meant for; nor
    is one without the labels that the pod selects, where another has them with other values.
    """
    reason, funnel = judged.verdict.reason, judged.verdict.funnel
    rank = ONLY_TAINT if judged.verdict.is_only_taint else NEARNESS.get(type(reason), 0)
    if isinstance(reason, InstanceTypesTooSmall) and not reason.best:
        rank = LACKS_RESOURCE
    is_misspelt = getattr(reason, "meant", None) is not None
    sets_label = not isinstance(reason, LabelConflict) or reason.offered is not None
    passed = tuple(min(each, 1) for each in msgspec.structs.astuple(funnel)[1:])
    conflicts = -judged.label_conflicts
    return rank, is_misspelt, judged.has_devices, conflicts, sets_label, passed


def _with_source(reason: PoolReason, pod: Pod, topology_keys: Set[str]) -> PoolReason:
    """The reason with the volume, or the constraint between pods, that requires the label."""
    if isinstance(reason, OfferingsUnavailable):
        return msgspec.structs.replace(reason, volume=_volume_requiring(ZONE, pod))
    if not isinstance(reason, LabelConflict | NoMatchingInstanceType | NoMatchingOffering):
        return reason
    volume = _volume_requiring(reason.key, pod)
    is_own = any(reason.key in wanted for wanted in pod.alternatives)
    by_topology = reason.key in topology_keys and not is_own and volume is None
    return msgspec.structs.replace(reason, volume=volume, by_topology=by_topology)


def _volume_requiring(key: str, pod: Pod) -> PodVolume | None:
    for volume in pod.volumes:
        if any(key in wanted for wanted in volume.topology):
            return volume
    return None


def _nearest_miss(reason: PoolReason) -> NearestMiss | None:  # noqa: C901, PLR0911 - one case each
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
        case TooManyVolumes(driver=driver, needed=needed, best=best, instance_type=name):
            what = f"volumes of {driver}"
            return NearestMiss(what=what, needed=needed, best=best, instance_type=name)
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
