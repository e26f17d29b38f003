"""Provisioning: NodeClaims for pods that have no node.

Pods are collected for a moment, as they seldom come alone. Then everything that has no node is
planned at once against what exists and what is on its way: a pod that an earlier plan has launched
a node for is planned onto that node again, and needs no second one.
"""

import asyncio
import logging
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

import msgspec

from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.karpenter.nodepool import NodePool
from wainwright.api.kubernetes.cluster import Node
from wainwright.api.kubernetes.workloads import Pod
from wainwright.api.wire import WireStruct
from wainwright.clock import format_timestamp
from wainwright.cloud import NodePoolCatalog
from wainwright.controllers.conditions import NODE_CLASS_READY, is_initialized
from wainwright.controllers.context import ControllerContext
from wainwright.controllers.disruption.consolidation_backoff import (
    ConsolidationBackoff,
    undone_annotation,
)
from wainwright.controllers.informer_cache import Change, ChangeHandler, metadata_of
from wainwright.controllers.nodeclaim.claim_creation import ClaimCreator, SeenCreations
from wainwright.controllers.nodeclass.declared_objects import DeclaredObjectsTracker
from wainwright.controllers.nodepool.nodepool_status import READINESS_UNKNOWN
from wainwright.controllers.nodepool.registration_health import find_condition
from wainwright.controllers.provisioning.launch_backoff import LaunchBackoff
from wainwright.controllers.provisioning.pod_metrics import PodMetrics
from wainwright.controllers.provisioning.pod_nominations import PodNominations
from wainwright.controllers.provisioning.provisioning_pause import ProvisioningPause
from wainwright.controllers.runtime import (
    DONE,
    WHOLE_CLUSTER,
    Again,
    Key,
    Poll,
    Result,
    WorkQueue,
)
from wainwright.core.explain.unschedulable import explain_unschedulable, pools_without_types
from wainwright.core.launch.claims_within_limits import claims_within_limits
from wainwright.core.plan import SolvedPlan, solve_plan
from wainwright.errors import KubernetesError
from wainwright.messages.formatting import format_count, format_hourly
from wainwright.messages.unschedulable import describe_pool_reason
from wainwright.messages.unschedulable_answer import answer_for
from wainwright.metrics import (
    LAUNCH_BACKOFF_PODS,
    SCHEDULER_QUEUE,
    SCHEDULER_UNSCHEDULABLE,
    SCHEDULING_SECONDS,
    Sample,
)
from wainwright.model.plan import PlannedNodeClaim, PlanOptions, UnschedulableGroup
from wainwright.model.snapshot import Snapshot
from wainwright.translate.object_metadata import parse_timestamp
from wainwright.translate.pods import PodRole, pod_role

LOG: Final = logging.getLogger(__name__)

SYNC_POLL: Final = 1.0
"""Seconds between two looks at a state that is not in sync."""
UNPLACED_POLL: Final = 10.0
"""Seconds after which pods without a place are planned again."""
FAILED_SCHEDULING_REPEAT: Final = 300.0
MOST_REPORTED: Final = 200
"""Pods that get an event in one round."""
FAILED_SCHEDULING: Final = "Failed to schedule pod"
NOMINATED: Final = "Pod should schedule on"
"""How the messages of the events FailedScheduling and Nominated begin."""
NO_TYPES: Final = "NodePool requirements filtered out all compatible available instance types"
START_SECONDS: Final = 30.0
"""For which pods wait for the first class that is resolved: no pod gets an event about it."""


class PodBatchWindow:
    """Since when a batch is collected, and when it is complete."""

    def __init__(self, idle: float, most: float) -> None:
        self._idle, self._most = idle, most
        self._first: float | None = None
        self._last = 0.0

    def extend(self, moment: float) -> None:
        self._first = moment if self._first is None else min(self._first, moment)
        self._last = max(self._last, moment)

    @property
    def is_open(self) -> bool:
        return self._first is not None

    def seconds_left(self, now: float) -> float:
        if self._first is None:
            return 0.0
        return min(self._last + self._idle, self._first + self._most) - now

    def close(self) -> float | None:
        """Since when the batch was collected."""
        first, self._first = self._first, None
        return first

    def reopen(self, first: float | None) -> None:
        """The batch is complete, and has still to be planned."""
        if self._first is None:
            self._first = first


class ProvisioningInput(msgspec.Struct, frozen=True, kw_only=True):
    """What a plan is made from."""

    snapshot: Snapshot
    catalogs: Mapping[str, NodePoolCatalog]
    seen: SeenCreations = msgspec.field(default_factory=dict)

    @property
    def has_pods(self) -> bool:
        snapshot = self.snapshot
        return bool(snapshot.pods) or any(node.deleting and node.pods for node in snapshot.nodes)

    def is_same(self, other: "ProvisioningInput") -> bool:
        """Whether a plan of it would be the same: everything is the same object."""
        own, their = self._parts(), other._parts()
        is_alike = self.catalogs.keys() == other.catalogs.keys() and len(own) == len(their)
        return is_alike and all(map(operator.is_, own, their))

    def _parts(self) -> list[object]:
        snapshot = self.snapshot
        indexes = [self.catalogs[name].index for name in sorted(self.catalogs)]
        return [*indexes, *snapshot.pods, *snapshot.pools, *snapshot.nodes, *snapshot.daemonsets]


class ReportedPods:
    """Unschedulable pods whose event was written lately, each with the kind of its cause."""

    def __init__(self) -> None:
        self._reported: dict[str, tuple[float, object]] = {}

    def select_due(self, groups: Iterable[UnschedulableGroup], now: float) -> frozenset[str]:
        """The pods that get an event now: another kind of cause, or the last one was long ago.

        Pods that are no longer unschedulable are forgotten. Of thousands only the first get one in
        each round: every event is a request, and the next plan waits for it.
        """
        causes = {pod: _kind_of_cause(group) for group in groups for pod in group.pods}
        kept = {
            pod: (since, kind)
            for pod, (since, kind) in self._reported.items()
            if causes.get(pod) == kind and now - since < FAILED_SCHEDULING_REPEAT
        }
        due = sorted(causes.keys() - kept.keys())[:MOST_REPORTED]
        self._reported = kept | {pod: (now, causes[pod]) for pod in due}
        return frozenset(due)


def _kind_of_cause(group: UnschedulableGroup) -> object:
    """Without its amounts: that a limit is reached by one node more is no news."""
    nearest = next((each for each in group.pools if each.pool == group.nearest_pool), None)
    return type(group.reason), group.nearest_pool, None if nearest is None else type(nearest.reason)


class Provisioner:
    name = "provisioner"

    def __init__(
        self,
        context: ControllerContext,
        declared: DeclaredObjectsTracker,
        creator: ClaimCreator,
        consolidation_backoff: ConsolidationBackoff,
    ) -> None:
        self._context, self._declared, self._creator = context, declared, creator
        self._consolidation_backoff = consolidation_backoff
        self._cache, self._state = context.cache, context.state
        settings = context.settings
        self._window = PodBatchWindow(settings.batch_idle, settings.batch_max)
        self._backoff = LaunchBackoff(context.cache)
        self._nominations = PodNominations(context.cache, context.clock)
        self._pod_metrics = PodMetrics(context)
        self._pause = ProvisioningPause(context)
        context.metrics.add_collector(self._collect_backoff)
        self._planned: ProvisioningInput | None = None
        self._started = context.clock.now()
        self._reported = ReportedPods()

    def watch(self, queue: WorkQueue) -> None:
        clock, window = self._context.clock, self._window
        began = clock.now()

        def extend(moment: float | None = None) -> None:
            now = clock.now()
            window.extend(now if moment is None else moment)
            queue.add_after(WHOLE_CLUSTER, window.seconds_left(now))

        def extend_where(is_reason: Callable[[Change[Any]], bool]) -> ChangeHandler[Any]:
            return lambda change: extend() if is_reason(change) else None

        def changed_pod(change: Change[Pod]) -> None:
            """A pod from before this process has waited for long enough: it is not news."""
            if _becomes_pending(change):
                extend(_created_before(change.object, began))

        def changed_pool(change: Change[NodePool]) -> None:
            """Pods that wait already do not wait for longer because of it."""
            if not _is_changed_pool(change):
                return
            if window.is_open:
                queue.add_after(WHOLE_CLUSTER, window.seconds_left(clock.now()))
            else:
                extend()

        self._cache.subscribe(Pod, changed_pod)
        self._cache.subscribe(Node, extend_where(_begins_to_leave))
        self._cache.subscribe(NodeClaim, extend_where(_begins_to_leave))
        self._cache.subscribe(NodeClaim, extend_where(_becomes_initialized))
        self._cache.subscribe(NodePool, changed_pool)

    async def reconcile(self, _: Key) -> Result:
        left = self._window.seconds_left(self._context.clock.now())
        if left > 0:
            return Again(left)
        if not self._state.is_synced:
            return Again(SYNC_POLL)
        return await self._provision(self._window.close())

    async def _provision(self, since: float | None) -> Result:
        """For a batch that was collected since then."""
        given = await self._input()
        self._context.metrics.set(SCHEDULER_QUEUE, len(given.snapshot.pods))
        if self._is_starting(given):
            self._window.reopen(since)
            return Again(SYNC_POLL)
        if not given.has_pods:
            self._planned = None
            self._context.metrics.set(SCHEDULER_UNSCHEDULABLE, 0)
            self._pod_metrics.nothing_pending()
            return self._wait_for_binding(given.snapshot)
        if self._planned is not None and given.is_same(self._planned):
            return self._wait_for_change(given.snapshot)
        options = self._state.with_attach_limits(self._context.settings.plan_options)
        with self._pod_metrics.planning(given.snapshot.pods):
            solved, claims = await self._context.compute(lambda: self._solve(given, options))
        pools = [claim.pool for claim in claims]
        if not self._creator.creations.is_current(given.seen, pools):
            LOG.debug("other NodeClaims were created meanwhile: the plan is made again")
            self._window.reopen(since)
            return Again(SYNC_POLL)
        self._pod_metrics.planned(given.snapshot.pods, solved.plan.unplaced)
        created = await self._create_claims(claims, given.catalogs)
        await self._nominate(solved, created)
        await self._report_pools(solved)
        await self._pause.report()
        await self._report_unplaced(solved)
        self._context.recorder.plan_made(solved, tuple(self._cache.all(NodePool)))
        if len(claims) < len(solved.plan.claims):
            self._planned = None
            return Again(SYNC_POLL)
        if not solved.plan.unplaced and not solved.plan.placements:
            self._planned = None
            return self._wait_for_binding(given.snapshot)
        self._planned = given
        return self._wait_for_change(given.snapshot)

    def _is_starting(self, given: "ProvisioningInput") -> bool:
        """Whether no NodePool can launch yet since the process was started, because classes have
        still to be resolved.
        """
        age, pools = self._context.clock.now() - self._started, self._cache.all(NodePool)
        if age >= START_SECONDS or any(pool.unusable is None for pool in given.snapshot.pools):
            return False
        return any(map(_awaits_class, pools)) if given.catalogs else bool(pools)

    async def _input(self) -> "ProvisioningInput":
        catalogs = await self._declared.catalogs()
        await self._state.prepare_snapshot()
        seen = self._creator.creations.seen()
        snapshot = self._state.snapshot(catalogs.values())
        pools = self._pause.mark(pool for pool in snapshot.pools if pool.name in catalogs)
        snapshot = self._nominations.apply(snapshot)
        now = self._context.clock.now()
        pods = self._backoff.restrict(snapshot.pods, now)
        nodes = self._backoff.restrict_nodes(snapshot.nodes, now)
        snapshot = msgspec.structs.replace(snapshot, pools=pools, pods=pods, nodes=nodes)
        return ProvisioningInput(snapshot=snapshot, catalogs=catalogs, seen=seen)

    def _wait_for_binding(self, snapshot: Snapshot) -> Result:
        """Pods that are not bound to the node that came up for them are planned again."""
        release = self._nominations.next_release(snapshot)
        return DONE if release is None else Again(release - self._context.clock.now())

    def _wait_for_change(self, snapshot: Snapshot) -> Result:
        """Pods without a place are planned again when something has changed, or may have; so are
        those that were planned onto nodes where the watch of pods shows later that others are.
        """
        now = self._context.clock.now()
        moments = (
            self._context.cloud.next_catalog_change(),
            self._backoff.next_release(now),
            self._nominations.next_release(snapshot),
        )
        return Poll(UNPLACED_POLL, min((each for each in moments if each), default=None))

    def _solve(
        self, given: "ProvisioningInput", options: PlanOptions
    ) -> tuple[SolvedPlan, Sequence[PlannedNodeClaim]]:
        """With those of its claims that are to be created now: others wait until these have been
        launched, and their pods are planned again then.
        """
        indexes = {name: catalog.index for name, catalog in given.catalogs.items()}
        clock, metrics = self._context.clock, self._context.metrics
        began = clock.now()
        solved = solve_plan(given.snapshot, indexes, options)
        metrics.observe(SCHEDULING_SECONDS, clock.now() - began)
        metrics.set(SCHEDULER_UNSCHEDULABLE, len(solved.plan.unplaced))
        return solved, claims_within_limits(solved.plan.claims, given.snapshot, indexes, options)

    # Claims

    async def _create_claims(
        self, planned: Sequence[PlannedNodeClaim], catalogs: Mapping[str, NodePoolCatalog]
    ) -> dict[str, NodeClaim]:
        """By name in the plan; claims that the API server refuses are planned again later."""
        results = await self._creator.creations.create_all(
            (claim.pool for claim in planned),
            (self._create_claim(claim, catalogs[claim.pool]) for claim in planned),
        )
        created = {}
        for claim, result in zip(planned, results, strict=True):
            if isinstance(result, NodeClaim):
                created[claim.name] = result
                LOG.info("%s: %s", result.metadata.name, describe_claim(claim))
                self._backoff.launched(result, self._pods_of(claim))
            elif isinstance(result, KubernetesError):
                LOG.error("NodeClaim for %s was not created: %s", claim.pool, result)
            else:
                raise result
        if len(created) < len(planned):
            raise KubernetesError(f"{len(planned) - len(created)} NodeClaims were not created")
        return created

    async def _create_claim(self, claim: PlannedNodeClaim, catalog: NodePoolCatalog) -> NodeClaim:
        pods, backoff = self._pods_of(claim), self._consolidation_backoff
        undone = backoff.launching(claim.launch.price, pods)
        annotations = undone_annotation(undone)
        created = await self._creator.create(
            claim, catalog, reason="provisioned", annotations=annotations
        )
        if undone:
            await backoff.launched(created, undone, pods)
        return created

    # Pods

    def _pods_of(self, claim: PlannedNodeClaim) -> list[Pod]:
        return [*filter(None, map(self._pod, claim.pods))]

    async def _nominate(self, solved: SolvedPlan, created: Mapping[str, NodeClaim]) -> None:
        seconds = self._context.settings.nomination_seconds
        for placement in solved.plan.placements:
            self._state.nominate(placement.node, seconds)
        for claim in created.values():
            self._state.nominate(claim.metadata.name, seconds)
        self._count_on_claims(solved, created)
        entries = (
            (pod, message)
            for key, message in _nominations(solved, created)
            if (pod := self._pod(key)) is not None
        )
        await self._context.events.inform_each(entries, "Nominated")

    def _count_on_claims(self, solved: SolvedPlan, created: Mapping[str, NodeClaim]) -> None:
        """From now on the pods are counted on the claims that they were planned onto."""
        for planned in solved.plan.claims:
            if planned.name in created:
                name = created[planned.name].metadata.name
                self._nominations.add(name, self._pods_of(planned))
        coming = {
            node.name: node.claim.name
            for node in solved.snapshot.nodes
            if node.claim is not None and not node.initialized
        }
        for placement in solved.plan.placements:
            if placement.node in coming:
                pods = filter(None, map(self._pod, placement.pods))
                self._nominations.add(coming[placement.node], pods)

    async def _report_pools(self, solved: SolvedPlan) -> None:
        """NodePools that can launch nothing, whoever asks."""
        for name, reason in pools_without_types(solved).items():
            pool = self._cache.get(NodePool, name)
            message = f"{NO_TYPES}: {describe_pool_reason(reason)}"
            if pool is not None:
                await self._context.events.warn(pool, "NoCompatibleInstanceTypes", message)

    async def _report_unplaced(self, solved: SolvedPlan) -> None:
        if not solved.plan.unplaced:
            return
        waiting = await self._report_backoff(solved)
        others = [key for key in solved.plan.unplaced if key not in waiting]
        groups = await self._context.compute(lambda: explain_unschedulable(solved, others))
        due = self._reported.select_due(groups, self._context.clock.now())
        if not due:
            return
        # Fixes are tried by planning again: only for pods that get an event now.
        explained = await self._context.compute(
            lambda: explain_unschedulable(solved, due, with_suggestions=True)
        )
        await asyncio.gather(*(self._report(group) for group in explained))

    async def _report(self, group: UnschedulableGroup) -> None:
        """To all its pods at once: the next plan waits for it."""
        answer = self._pause.complete(answer_for(group, with_total=False), group)
        message = f"{FAILED_SCHEDULING}: {'; '.join(answer.lines())}"
        pods = filter(None, map(self._pod, group.pods))
        warn, repeat = self._context.events.warn, FAILED_SCHEDULING_REPEAT
        await asyncio.gather(
            *(warn(pod, "FailedScheduling", message, repeat=repeat) for pod in pods)
        )

    async def _report_backoff(self, solved: SolvedPlan) -> frozenset[str]:
        """Pods that the kube-scheduler does not bind to the nodes that were launched for them, or
        that these have no room for, by key. The plan keeps them off NodePools: what it says of them
        is not why they wait.
        """
        waiting = self._backoff.waiting(self._context.clock.now())
        found = {}
        for key in solved.plan.unplaced if waiting else ():
            pod = self._pod(key)
            if pod is not None and pod.metadata.uid in waiting:
                found[key] = pod
        for pod in islice(found.values(), MOST_REPORTED):
            await self._report_waiting(pod, *waiting[pod.metadata.uid])
        return frozenset(found)

    async def _report_waiting(self, pod: Pod, nodes: int, until: float) -> None:
        moment, is_bound = format_timestamp(until), bool(pod.spec.nodeName)
        why = "none has room for it" if is_bound else "the kube-scheduler bound it to none"
        texts = {
            "FailedScheduling": (
                f"{FAILED_SCHEDULING}: launches for it back off until {moment}: {nodes} nodes were "
                f"launched for it and {why}"
            )
        }
        if not is_bound:
            texts["SchedulingDisagreement"] = (
                f"{nodes} nodes were launched for the pod and it was bound to none; the next "
                f"one not before {moment}. kube-scheduler: {_scheduler_message(pod)}"
            )
        for reason, text in texts.items():
            await self._context.events.warn(pod, reason, text, repeat=FAILED_SCHEDULING_REPEAT)

    def _collect_backoff(self) -> Iterator[Sample]:
        """Computed when it is asked for: pods also cease to wait without a plan."""
        waiting = self._backoff.waiting(self._context.clock.now())
        yield LAUNCH_BACKOFF_PODS, (), len(waiting)

    def _pod(self, key: str) -> Pod | None:
        namespace, _, name = key.partition("/")
        return self._cache.get(Pod, name, namespace)


def describe_claim(claim: PlannedNodeClaim) -> str:
    """c7g.4xlarge or 59 other types, spot in us-east-1a, $0.240/h, for 20 pods"""
    launch, others = claim.launch, len(claim.choices.instance_types) - 1
    types = f" or {format_count(others, 'other type')}" if others else ""
    reserved = f" {launch.reservation_id}" if launch.reservation_id else ""
    place = f"{launch.capacity_type}{reserved} in {launch.zone or 'any zone'}"
    price = format_hourly(launch.price, modelled=launch.modelled_price)
    pods = format_count(len(claim.pods), "pod")
    return f"{launch.instance_type}{types}, {place}, {price}, for {pods}"


def _becomes_pending(change: Change[Pod]) -> bool:
    return _is_pending(change.after) and not _is_pending(change.before)


def _created_before(pod: Pod, moment: float) -> float | None:
    """When the pod was created, if that was before."""
    created = parse_timestamp(pod.metadata.creationTimestamp)
    return created if created is not None and created < moment else None


def _begins_to_leave(change: Change[Any]) -> bool:
    """Whether the pods of a node, or planned onto a claim, need another place from now on."""
    return _is_leaving(change.after) and not _is_leaving(change.before)


def _is_leaving(obj: WireStruct | None) -> bool:
    return obj is None or metadata_of(obj).deletionTimestamp is not None


def _becomes_initialized(change: Change[NodeClaim]) -> bool:
    """Whether the node is now known as it is: it may have less room than planned."""
    return is_initialized(change.after) and not is_initialized(change.before)


def _is_changed_pool(change: Change[NodePool]) -> bool:
    before, after = change.before, change.after
    if before is None or after is None:
        return True
    return change.is_of_spec or _conditions(before) != _conditions(after)


def _awaits_class(pool: NodePool) -> bool:
    """Whether it is not known yet whether its class is ready."""
    ready = find_condition(pool, NODE_CLASS_READY)
    return ready is not None and ready.reason == READINESS_UNKNOWN


def _conditions(pool: NodePool) -> object:
    return None if pool.status is None else pool.status.conditions


def _is_pending(pod: Pod | None) -> bool:
    return pod is not None and pod_role(pod) is PodRole.PENDING


def _scheduler_message(pod: Pod) -> str:
    conditions = pod.status.conditions or ()
    found = next((each for each in conditions if each.type == "PodScheduled"), None)
    return (found.message if found is not None else "") or "it does not say why"


def _nominations(solved: SolvedPlan, created: Mapping[str, NodeClaim]) -> Iterator[tuple[str, str]]:
    for placement in solved.plan.placements:
        for pod in placement.pods:
            yield pod, f"{NOMINATED}: node/{placement.node}"
    claims: Iterable[PlannedNodeClaim] = solved.plan.claims
    for claim in claims:
        if claim.name in created:
            for pod in claim.pods:
                yield pod, f"{NOMINATED}: nodeclaim/{created[claim.name].metadata.name}"
