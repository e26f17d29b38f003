"""Provisioning: NodeClaims for pods that have no node.

Pods are collected for a moment, as they seldom come alone. Then everything that has no node is
planned at once against what exists and what is on its way: a pod that an earlier plan has launched
a node for is planned onto that node again, and needs no second one.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from random import Random
from typing import Any, Final

import msgspec

from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.karpenter.nodepool import NodePool
from wainwright.api.kubernetes.cluster import Node
from wainwright.api.kubernetes.workloads import Pod
from wainwright.api.wire import OwnerReference, WireStruct
from wainwright.cloud import NodePoolCatalog
from wainwright.controllers.cluster_cache import Change, ChangeHandler, metadata_of
from wainwright.controllers.context import ControllerContext
from wainwright.controllers.declared_objects import DeclaredObjectsTracker
from wainwright.controllers.node_registration import TERMINATION_FINALIZER
from wainwright.controllers.runtime import DONE, WHOLE_CLUSTER, Again, Key, Result, WorkQueue
from wainwright.core.disruption.drift import pool_hash_annotations
from wainwright.core.explain.unschedulable import explain_plan
from wainwright.core.launch.instance_type_truncation import claim_instance_types
from wainwright.core.plan import SolvedPlan, solve_plan
from wainwright.errors import KubernetesError
from wainwright.gc_pause import gc_paused
from wainwright.messages.unschedulable import describe_pod_reason
from wainwright.metrics import NODECLAIMS_CREATED
from wainwright.model.plan import PlannedNodeClaim
from wainwright.model.snapshot import Snapshot
from wainwright.translate.nodeclaims import (
    MIN_VALUES_RELAXED_ANNOTATION,
    translate_planned_claim,
)
from wainwright.translate.pods import PodRole, pod_role

LOG: Final = logging.getLogger(__name__)

SYNC_POLL: Final = 1.0
"""Seconds between two looks at a state that is not in sync."""
UNPLACED_POLL: Final = 10.0
"""Seconds after which pods without a place are planned again."""
FAILED_SCHEDULING_REPEAT: Final = 300.0
SUFFIX_CHARACTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
SUFFIX_LENGTH: Final = 5


class BatchWindow:
    """Since when a batch is collected, and when it is complete."""

    def __init__(self, idle: float, most: float) -> None:
        self._idle, self._most = idle, most
        self._first: float | None = None
        self._last = 0.0

    def extend(self, now: float) -> None:
        self._first = now if self._first is None else self._first
        self._last = now

    @property
    def is_open(self) -> bool:
        return self._first is not None

    def seconds_left(self, now: float) -> float:
        if self._first is None:
            return 0.0
        return min(self._last + self._idle, self._first + self._most) - now

    def close(self) -> None:
        self._first = None


class Provisioner:
    name = "provisioner"

    def __init__(
        self, context: ControllerContext, declared: DeclaredObjectsTracker, random: Random
    ) -> None:
        self._context, self._declared, self._random = context, declared, random
        self._cache, self._state = context.cache, context.state
        settings = context.settings
        self._window = BatchWindow(settings.batch_idle, settings.batch_max)

    def watch(self, queue: WorkQueue) -> None:
        def extend() -> None:
            now = self._context.clock.now()
            self._window.extend(now)
            queue.add_after(WHOLE_CLUSTER, self._window.seconds_left(now))

        def extend_where(is_reason: Callable[[Change[Any]], bool]) -> ChangeHandler[Any]:
            return lambda change: extend() if is_reason(change) else None

        self._cache.subscribe(Pod, extend_where(_becomes_pending))
        self._cache.subscribe(Node, extend_where(_begins_to_leave))
        self._cache.subscribe(NodeClaim, extend_where(_begins_to_leave))
        self._cache.subscribe(NodePool, extend_where(_is_changed_pool))

    async def reconcile(self, _: Key) -> Result:
        left = self._window.seconds_left(self._context.clock.now())
        if left > 0:
            return Again(left)
        if not self._state.is_synced:
            return Again(SYNC_POLL)
        self._window.close()
        return await self._provision()

    async def _provision(self) -> Result:
        catalogs = await self._declared.catalogs()
        snapshot = self._state.snapshot(catalogs.values())
        snapshot = _with_pools(snapshot, catalogs)
        if not snapshot.pods and not any(node.deleting for node in snapshot.nodes):
            return DONE
        solved = self._solve(snapshot, catalogs)
        created = await self._create_claims(solved, catalogs)
        await self._nominate(solved, created)
        await self._report_unplaced(solved)
        return Again(UNPLACED_POLL) if solved.plan.unplaced else DONE

    def _solve(self, snapshot: Snapshot, catalogs: Mapping[str, NodePoolCatalog]) -> SolvedPlan:
        indexes = {name: catalog.index for name, catalog in catalogs.items()}
        with gc_paused():
            return solve_plan(snapshot, indexes, self._context.settings.plan_options)

    # Claims

    async def _create_claims(
        self, solved: SolvedPlan, catalogs: Mapping[str, NodePoolCatalog]
    ) -> dict[str, NodeClaim]:
        """By name in the plan; claims that the API server refuses are planned again later."""
        planned = solved.plan.claims
        made = [self._claim_object(claim, solved, catalogs[claim.pool]) for claim in planned]
        for claim, obj in zip(planned, made, strict=True):
            self._state.plan_pods(obj.metadata.name, claim.pods)
        results = await asyncio.gather(
            *(self._cache.create(claim) for claim in made), return_exceptions=True
        )
        created = {}
        for claim, result in zip(planned, results, strict=True):
            if isinstance(result, NodeClaim):
                created[claim.name] = result
                self._count_created(claim)
            elif isinstance(result, KubernetesError):
                LOG.error("NodeClaim for %s was not created: %s", claim.pool, result)
            else:
                raise result
        if len(created) < len(planned):
            raise KubernetesError(f"{len(planned) - len(created)} NodeClaims were not created")
        return created

    def _claim_object(
        self, claim: PlannedNodeClaim, solved: SolvedPlan, catalog: NodePoolCatalog
    ) -> NodeClaim:
        node_pool = self._cache.get(NodePool, claim.pool)
        assert node_pool is not None
        pool = next(each for each in solved.snapshot.pools if each.name == claim.pool)
        annotations = dict(pool_hash_annotations(pool))
        if claim.relaxed_min_values:
            annotations[MIN_VALUES_RELAXED_ANNOTATION] = "true"
        types = claim_instance_types(claim, catalog.index)
        made = translate_planned_claim(claim, node_pool, types, annotations)
        metadata = msgspec.structs.replace(
            made.metadata,
            name=self._new_name(claim.pool),
            finalizers=[TERMINATION_FINALIZER],
            ownerReferences=[_owner(node_pool)],
        )
        return msgspec.structs.replace(made, metadata=metadata)

    def _new_name(self, pool: str) -> str:
        while True:
            suffix = "".join(self._random.choices(SUFFIX_CHARACTERS, k=SUFFIX_LENGTH))
            name = f"{pool}-{suffix}"
            if self._cache.get(NodeClaim, name) is None:
                return name

    def _count_created(self, claim: PlannedNodeClaim) -> None:
        self._context.metrics.add(
            NODECLAIMS_CREATED,
            reason="provisioned",
            nodepool=claim.pool,
            min_values_relaxed=str(bool(claim.relaxed_min_values)).lower(),
        )

    # Pods

    async def _nominate(self, solved: SolvedPlan, created: Mapping[str, NodeClaim]) -> None:
        seconds = self._context.settings.nomination_seconds
        for placement in solved.plan.placements:
            self._state.nominate(placement.node, seconds)
        for claim in created.values():
            self._state.nominate(claim.metadata.name, seconds)
        for pod, message in _nominations(solved, created):
            found = self._pod(pod)
            if found is not None:
                await self._context.events.inform(found, "Nominated", message)

    async def _report_unplaced(self, solved: SolvedPlan) -> None:
        if not solved.plan.unplaced:
            return
        for group in explain_plan(solved).unschedulable:
            message = f"Failed to schedule pod: {describe_pod_reason(group.reason)}"
            for key in group.pods:
                pod = self._pod(key)
                if pod is not None:
                    await self._context.events.warn(
                        pod, "FailedScheduling", message, repeat=FAILED_SCHEDULING_REPEAT
                    )

    def _pod(self, key: str) -> Pod | None:
        namespace, _, name = key.partition("/")
        return self._cache.get(Pod, name, namespace)


def _becomes_pending(change: Change[Pod]) -> bool:
    return _is_pending(change.after) and not _is_pending(change.before)


def _begins_to_leave(change: Change[Any]) -> bool:
    """Whether the pods of a node, or planned onto a claim, need another place from now on."""
    return _is_leaving(change.after) and not _is_leaving(change.before)


def _is_leaving(obj: WireStruct | None) -> bool:
    return obj is None or metadata_of(obj).deletionTimestamp is not None


def _is_changed_pool(change: Change[NodePool]) -> bool:
    before, after = change.before, change.after
    if before is None or after is None:
        return True
    return before.spec is not after.spec or _conditions(before) != _conditions(after)


def _conditions(pool: NodePool) -> object:
    return None if pool.status is None else pool.status.conditions


def _is_pending(pod: Pod | None) -> bool:
    return pod is not None and pod_role(pod) is PodRole.PENDING


def _with_pools(snapshot: Snapshot, catalogs: Mapping[str, NodePoolCatalog]) -> Snapshot:
    pools = tuple(pool for pool in snapshot.pools if pool.name in catalogs)
    return msgspec.structs.replace(snapshot, pools=pools)


def _owner(pool: NodePool) -> OwnerReference:
    return OwnerReference(
        apiVersion=pool.apiVersion,
        kind=pool.kind,
        name=pool.metadata.name,
        uid=pool.metadata.uid,
        blockOwnerDeletion=True,
    )


def _nominations(solved: SolvedPlan, created: Mapping[str, NodeClaim]) -> Iterator[tuple[str, str]]:
    for placement in solved.plan.placements:
        for pod in placement.pods:
            yield pod, f"Pod should schedule on: node/{placement.node}"
    claims: Iterable[PlannedNodeClaim] = solved.plan.claims
    for claim in claims:
        for pod in claim.pods:
            yield pod, f"Pod should schedule on: nodeclaim/{created[claim.name].metadata.name}"
