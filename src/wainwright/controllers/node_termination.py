"""The end of a node: taint, drain, volumes, instance; then its finalizer is removed."""

from typing import Any, Final

import msgspec

from wainwright.api.karpenter.nodeclaim import NodeClaim, NodeClaimStatus
from wainwright.api.kubernetes.cluster import Node, Taint
from wainwright.api.kubernetes.operations import VolumeAttachment
from wainwright.api.kubernetes.workloads import Pod
from wainwright.controllers import conditions as condition
from wainwright.controllers.cluster_cache import Change
from wainwright.controllers.conditions import ConditionSet
from wainwright.controllers.context import ControllerContext
from wainwright.controllers.drain import DrainStep, drain_step, is_drainable, is_stuck
from wainwright.controllers.live_state import is_ours
from wainwright.controllers.node_registration import TERMINATION_FINALIZER, is_ready
from wainwright.controllers.nodeclaim_lifecycle import TERMINATION_TIMESTAMP_ANNOTATION
from wainwright.controllers.runtime import DONE, Again, Backoff, Key, Result, WorkQueue
from wainwright.errors import (
    ConflictError,
    EvictionBlockedError,
    InstanceNotFoundError,
    KubernetesError,
    ObjectNotFoundError,
)
from wainwright.model.labels import EXCLUDE_FROM_LOAD_BALANCERS
from wainwright.model.taints import DISRUPTED_TAINT
from wainwright.translate.object_metadata import parse_timestamp

MIN_DRAIN_SECONDS: Final = 5.0
"""From the first look at the pods, so that load balancers learn of the taint."""
INSTANCE_POLL: Final = 5.0
FIRST_EVICTION_RETRY: Final = 0.1
MAX_EVICTION_RETRY: Final = 10.0


class PodEviction:
    """Evicts pods one by one, and again for as long as their budget does not allow it.

    The key has the pod's uid: a new pod of the same name is not evicted in its place.
    """

    name = "eviction-queue"

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._queue: WorkQueue | None = None
        self._backoff = Backoff(self.name, first=FIRST_EVICTION_RETRY, most=MAX_EVICTION_RETRY)

    def watch(self, queue: WorkQueue) -> None:
        self._queue = queue

    def add(self, pod: Pod) -> None:
        assert self._queue is not None
        key = f"{pod.metadata.namespace}/{pod.metadata.name}/{pod.metadata.uid}"
        if key not in self._queue:
            self._queue.add(key)

    async def reconcile(self, key: Key) -> Result:
        namespace, name, uid = key.split("/")
        pod = self._context.cache.get(Pod, name, namespace)
        if pod is None or pod.metadata.uid != uid or pod.metadata.deletionTimestamp:
            self._backoff.succeeded(key)
            return DONE
        try:
            await self._context.cache.evict(name, namespace, uid=uid)
        except (ObjectNotFoundError, ConflictError):
            pass  # gone, or another pod by now
        except EvictionBlockedError as error:
            await self._report_blocked(pod, error)
            return Again(self._backoff.failed(key))
        self._backoff.succeeded(key)
        return DONE

    async def _report_blocked(self, pod: Pod, error: KubernetesError) -> None:
        node = self._context.cache.get(Node, pod.spec.nodeName)
        if node is not None:
            about = f"{pod.metadata.namespace}/{pod.metadata.name}"
            message = f"Failed to drain node, evicting pod {about}: {error.message}"
            await self._context.events.warn(node, "FailedDraining", message)


class NodeTermination:
    name = "node.termination"

    def __init__(self, context: ControllerContext, eviction: PodEviction) -> None:
        self._context, self._eviction = context, eviction
        self._cache, self._state, self._cloud = context.cache, context.state, context.cloud

    def watch(self, queue: WorkQueue) -> None:
        def look_at(name: str) -> None:
            node = self._cache.get(Node, name)
            if node is not None and node.metadata.deletionTimestamp:
                queue.add(name)

        def changed_claim(change: Change[NodeClaim]) -> None:
            for node in self._state.nodes_of_claim(change.object):
                look_at(node.metadata.name)

        subscribe = self._cache.subscribe
        subscribe(Node, lambda change: look_at(change.name))
        subscribe(Pod, lambda change: look_at(change.object.spec.nodeName))
        subscribe(VolumeAttachment, lambda change: look_at(change.object.spec.nodeName))
        subscribe(NodeClaim, changed_claim)

    async def reconcile(self, key: Key) -> Result:
        node = self._cache.get(Node, key)
        if node is None or not node.metadata.deletionTimestamp:
            return DONE
        if TERMINATION_FINALIZER not in (node.metadata.finalizers or ()):
            return DONE
        claims = self._state.claims_of_node(node)
        if claims and not all(is_ours(claim.spec.nodeClassRef) for claim in claims):
            return DONE
        try:
            return await self._terminate(node, claims)
        except ConflictError:
            return Again(0.0)  # others wrote the node; the cache will show what

    async def _terminate(self, node: Node, claims: list[NodeClaim]) -> Result:
        for claim in claims:
            if not claim.metadata.deletionTimestamp:
                await self._cache.delete(claim)
        node = await self._taint(node)
        if not is_ready(node) and await self._is_instance_gone(claims):
            return await self._release(node)
        return await self._drain_and_end(node, claims[0] if len(claims) == 1 else None)

    async def _drain_and_end(self, node: Node, claim: NodeClaim | None) -> Result:
        """A node of no claim, or of several, is drained and released; its instance is not ours."""
        waiting = await self._drain(node, claim)
        if waiting is None and claim is not None:
            waiting = await self._detach_volumes(node, claim)
        if waiting is None and claim is not None:
            waiting = await self._end_instance(claim)
        return waiting or await self._release(node)

    async def _taint(self, node: Node) -> Node:
        patch: dict[str, Any] = {}
        taints = node.spec.taints or []
        if not any(taint.key == DISRUPTED_TAINT.key for taint in taints):
            added = Taint(key=DISRUPTED_TAINT.key, effect=DISRUPTED_TAINT.effect)
            patch["spec"] = {"taints": msgspec.to_builtins([*taints, added])}
        if EXCLUDE_FROM_LOAD_BALANCERS not in (node.metadata.labels or {}):
            patch["metadata"] = {"labels": {EXCLUDE_FROM_LOAD_BALANCERS: "karpenter"}}
        return await self._cache.patch(node, patch, any_version=False) if patch else node

    async def _is_instance_gone(self, claims: list[NodeClaim]) -> bool:
        for claim in claims:
            try:
                await self._cloud.instance(_instance_id(claim))
                return False
            except InstanceNotFoundError:
                continue
        return bool(claims)

    async def _drain(self, node: Node, claim: NodeClaim | None) -> Result | None:
        """What to wait for; None once no pod has to leave any more."""
        now = self._context.clock.now()
        deadline = None if claim is None else _deadline(claim)
        step = drain_step(self._state.pods_by_node.get(node.metadata.name), now, deadline)
        await self._carry_out(step)
        if claim is None:
            return None if step.is_drained else _until(step.next_due, now)
        began = await self._record_draining(claim)
        if not step.is_drained:
            return _until(step.next_due, now)
        if began is not None:
            left = began + MIN_DRAIN_SECONDS - now
            if left > 0:
                return Again(left)
            latest = self._cache.get(NodeClaim, claim.metadata.name) or claim
            await self._set(latest, condition.DRAINED, condition.TRUE)
        return None

    async def _carry_out(self, step: DrainStep) -> None:
        for pod in step.evict:
            self._eviction.add(pod)
        for forced in step.delete:
            await self._cache.delete(forced.pod, grace_period=forced.grace_period)

    async def _record_draining(self, claim: NodeClaim) -> float | None:
        """When the drain began; None once it is over."""
        stated = {each.type: each for each in (claim.status or NodeClaimStatus()).conditions or ()}
        drained = stated.get(condition.DRAINED)
        if drained is None:
            await self._set(claim, condition.DRAINED, condition.UNKNOWN, "Draining")
            return self._context.clock.now()
        is_over = drained.status == condition.TRUE
        return None if is_over else parse_timestamp(drained.lastTransitionTime)

    async def _detach_volumes(self, node: Node, claim: NodeClaim) -> Result | None:
        now, deadline = self._context.clock.now(), _deadline(claim)
        claim = self._cache.get(NodeClaim, claim.metadata.name) or claim
        if not self._attached_volumes(node):
            await self._set(claim, condition.VOLUMES_DETACHED, condition.TRUE)
            return None
        if deadline is not None and now >= deadline:
            reason = "TerminationGracePeriodElapsed"
            await self._set(claim, condition.VOLUMES_DETACHED, condition.FALSE, reason)
            return None
        reason = "AwaitingVolumeDetachment"
        await self._set(claim, condition.VOLUMES_DETACHED, condition.UNKNOWN, reason)
        return _until(deadline, now)

    def _attached_volumes(self, node: Node) -> list[str]:
        """Volumes on the node but those of pods that the drain leaves alone."""
        now = self._context.clock.now()
        staying = {
            name
            for pod in self._state.pods_by_node.get(node.metadata.name)
            if not is_drainable(pod) or is_stuck(pod, now)
            for name in self._state.volumes_of_pod(pod)
        }
        attached = (
            attachment.spec.source.persistentVolumeName
            for attachment in self._state.attachments_by_node.get(node.metadata.name)
        )
        return [name for name in attached if name and name not in staying]

    async def _end_instance(self, claim: NodeClaim) -> Result | None:
        instance = _instance_id(claim)
        if not instance:
            return None
        try:
            await self._cloud.terminate(instance)
        except InstanceNotFoundError:
            return None
        claim = self._cache.get(NodeClaim, claim.metadata.name) or claim
        await self._set(claim, condition.INSTANCE_TERMINATING, condition.TRUE)
        return Again(INSTANCE_POLL)

    async def _release(self, node: Node) -> Result:
        kept = [each for each in node.metadata.finalizers or () if each != TERMINATION_FINALIZER]
        await self._cache.patch(node, {"metadata": {"finalizers": kept}}, any_version=False)
        return DONE

    async def _set(self, claim: NodeClaim, kind: str, status: str, reason: str = "") -> None:
        conditions = ConditionSet(
            (claim.status or NodeClaimStatus()).conditions,
            now=self._context.clock.now(),
            generation=claim.metadata.generation,
        )
        conditions.set(kind, status, reason)
        patch = conditions.patch()
        if patch is not None:
            await self._cache.patch_status(claim, patch)


def _until(moment: float | None, now: float) -> Result:
    return DONE if moment is None else Again(max(0.0, moment - now))


def _instance_id(claim: NodeClaim) -> str:
    return (claim.status or NodeClaimStatus()).providerID.rpartition("/")[2]


def _deadline(claim: NodeClaim) -> float | None:
    annotations = claim.metadata.annotations or {}
    return parse_timestamp(annotations.get(TERMINATION_TIMESTAMP_ANNOTATION))
