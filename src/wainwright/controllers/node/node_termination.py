"""The end of a node: taint, drain, volumes, instance; then its finalizer is removed."""

from collections.abc import Iterable
from typing import Any, Final

from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.kubernetes.cluster import Node
from wainwright.api.kubernetes.operations import VolumeAttachment
from wainwright.api.kubernetes.workloads import Pod
from wainwright.backoff import Backoff
from wainwright.clock import format_timestamp
from wainwright.controllers import conditions as condition
from wainwright.controllers.conditions import (
    claim_conditions,
    instance_id,
    write_claim_conditions,
)
from wainwright.controllers.context import ControllerContext
from wainwright.controllers.informer_cache import Change, without_finalizer
from wainwright.controllers.live_state import is_ours
from wainwright.controllers.node.disrupted_taint import taint_patch
from wainwright.controllers.node.drain import (
    drain_step,
    grace_period,
    is_left_alone,
    is_overdue,
    seconds_to,
)
from wainwright.controllers.nodeclaim.claim_deletion import drain_deadline
from wainwright.controllers.nodeclaim.node_registration import TERMINATION_FINALIZER, is_ready
from wainwright.controllers.runtime import (
    AFTER_CONFLICT,
    DONE,
    Again,
    Key,
    Poll,
    Result,
    WorkQueue,
)
from wainwright.errors import (
    CloudProviderError,
    ConflictError,
    EvictionBlockedError,
    InstanceNotFoundError,
    KubernetesError,
    ObjectNotFoundError,
    TooManyRequestsError,
)
from wainwright.metrics import (
    EVICTION_REQUESTS,
    NODES_DRAINED,
    NODES_LIFETIME_SECONDS,
    NODES_TERMINATED,
    NODES_TERMINATION_SECONDS,
    PODS_DRAINED,
)
from wainwright.model.labels import EC2NODECLASS, EXCLUDE_FROM_LOAD_BALANCERS, NODEPOOL
from wainwright.translate.object_metadata import parse_timestamp
from wainwright.translate.pods import is_terminal

MIN_DRAIN_SECONDS: Final = 5.0
"""From the first look at the pods, so that load balancers learn of the taint."""
INSTANCE_POLL: Final = 5.0
FIRST_EVICTION_RETRY: Final = 0.1
MAX_EVICTION_RETRY: Final = 10.0
FORCEFUL: Final = "Forceful Termination"
"""Why pods of a claim were drained that says no reason."""
CREATED: Final = 201


class PodEviction:
    """Evicts pods one by one, and again for as long as their budget does not allow it. A pod that
    has a deadline is deleted instead, with the grace period that is left.

    The key has the pod's uid: a new pod of the same name is not evicted in its place.
    """

    name = "eviction-queue"

    def __init__(self, context: ControllerContext) -> None:
        self._context, self._cache = context, context.cache
        self._queue: WorkQueue | None = None
        self._deadlines: dict[Key, float] = {}
        """Of pods that are to be deleted; what is in the queue without one is to be evicted."""
        self._backoff = Backoff(self.name, first=FIRST_EVICTION_RETRY, most=MAX_EVICTION_RETRY)

    def watch(self, queue: WorkQueue) -> None:
        self._queue = queue

    def add(self, pod: Pod, deadline: float | None = None) -> None:
        """Of two deadlines the earlier counts; once a pod has one it is not evicted any more."""
        assert self._queue is not None
        key = f"{pod.metadata.namespace}/{pod.metadata.name}/{pod.metadata.uid}"
        known = self._deadlines.get(key)
        is_sooner = deadline is not None and (known is None or deadline < known)
        if deadline is not None and is_sooner:
            self._deadlines[key] = deadline
        if is_sooner or key not in self._queue:
            self._queue.add(key)

    async def reconcile(self, key: Key) -> Result:
        namespace, name, uid = key.split("/")
        pod = self._cache.get(Pod, name, namespace)
        deadline = self._deadlines.get(key)
        if pod is None or pod.metadata.uid != uid or self._is_leaving(pod, deadline):
            return self._leave(key)
        try:
            if deadline is None:
                await self._evict(pod)
            else:
                await self._delete(pod, deadline)
        except TooManyRequestsError as error:
            await self._report_blocked(pod, error)
            wait = self._backoff.failed(key)
            # A budget that allows it again shows; a server that is busy no longer does not.
            return Poll(wait) if isinstance(error, EvictionBlockedError) else Again(wait)
        except (ObjectNotFoundError, ConflictError):
            return self._leave(key)  # gone, or another pod by now
        except KubernetesError:
            return Again(self._backoff.failed(key))
        self._count_drained(pod)
        return self._leave(key)

    def _leave(self, key: Key) -> Result:
        self._backoff.succeeded(key)
        self._deadlines.pop(key, None)
        return DONE

    def _is_leaving(self, pod: Pod, deadline: float | None) -> bool:
        if is_terminal(pod):
            return True
        is_deleted = pod.metadata.deletionTimestamp is not None
        now = self._context.clock.now()
        return is_deleted and (deadline is None or not is_overdue(pod, now, deadline))

    async def _evict(self, pod: Pod) -> None:
        metadata = pod.metadata
        try:
            await self._cache.evict(metadata.name, metadata.namespace, uid=metadata.uid)
        except KubernetesError as error:
            self._context.metrics.add(EVICTION_REQUESTS, code=str(error.status))
            raise
        self._context.metrics.add(EVICTION_REQUESTS, code=str(CREATED))
        message = f"Evicted pod: {pod.spec.nodeName} is being removed ({self._reason(pod)})"
        await self._context.events.inform(pod, "Evicted", message)

    async def _delete(self, pod: Pod, deadline: float) -> None:
        seconds = seconds_to(deadline, self._context.clock.now())
        await self._cache.delete(pod, grace_period=seconds)
        message = (
            f"Deleted pod: {pod.spec.nodeName} ends at {format_timestamp(deadline)} whatever "
            f"budgets and annotations say; {seconds} s are left of its grace period of "
            f"{grace_period(pod)} s"
        )
        await self._context.events.inform(pod, "Disrupted", message)

    def _count_drained(self, pod: Pod) -> None:
        if pod.metadata.deletionTimestamp is None:
            self._context.metrics.add(PODS_DRAINED, reason=self._reason(pod))

    def _reason(self, pod: Pod) -> str:
        node = self._cache.get(Node, pod.spec.nodeName)
        for claim in [] if node is None else self._context.state.claims_of_node(node):
            conditions = claim_conditions(claim, self._context.clock.now())
            if conditions.is_true(condition.DISRUPTION_REASON):
                return conditions.reason(condition.DISRUPTION_REASON)
        return FORCEFUL

    async def _report_blocked(self, pod: Pod, error: KubernetesError) -> None:
        node = self._cache.get(Node, pod.spec.nodeName)
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
        if not _is_managed(node, claims):
            return DONE
        try:
            return await self._terminate(node, claims)
        except ConflictError:
            return AFTER_CONFLICT

    async def _terminate(self, node: Node, claims: list[NodeClaim]) -> Result:
        for claim in claims:
            if not claim.metadata.deletionTimestamp:
                await self._cache.delete(claim)
        node = await self._cache.update(node, _leaving_patch)
        if not is_ready(node) and await self._is_instance_gone(claims):
            return await self._release(node)
        return await self._drain_and_end(node, claims[0] if len(claims) == 1 else None)

    async def _drain_and_end(self, node: Node, claim: NodeClaim | None) -> Result:
        """A node of no claim, or of several, is drained and released; its instance is not ours."""
        is_resumed = claim is not None and self._is_between_drain_and_end(claim)
        waiting = await self._drain(node, claim)
        if waiting is None and claim is not None:
            waiting = await self._detach_volumes(node, claim)
        if waiting is None and is_resumed:
            waiting = await self._drain_unseen_pods(node, claim)
        if waiting is None and claim is not None:
            waiting = await self._end_instance(claim)
        return waiting or await self._release(node)

    async def _is_instance_gone(self, claims: list[NodeClaim]) -> bool:
        for claim in claims:
            try:
                await self._cloud.instance(instance_id(claim))
                return False
            except InstanceNotFoundError:
                continue
        return bool(claims)

    async def _drain(self, node: Node, claim: NodeClaim | None) -> Result | None:
        """What to wait for; None once no pod has to leave any more."""
        waiting = self._drain_pods(self._state.pods_by_node.get(node.metadata.name), claim)
        if claim is not None:
            return await self._record_drain(node, claim, waiting)
        return waiting or await self._drain_unseen_pods(node, claim)

    def _drain_pods(self, pods: Iterable[Pod], claim: NodeClaim | None) -> Result | None:
        now = self._context.clock.now()
        deadline = None if claim is None else drain_deadline(claim)
        step = drain_step(pods, now, deadline)
        for pod in step.evict:
            self._eviction.add(pod)
        for pod in step.delete:
            self._eviction.add(pod, deadline)
        return None if step.is_drained else _until(step.next_due, now)

    async def _drain_unseen_pods(self, node: Node, claim: NodeClaim | None) -> Result | None:
        """To be awaited where no known pod has to leave. The watch of pods may be minutes behind,
        and the instance would end with pods on it that nobody evicted: so the API server is asked.
        """
        return self._drain_pods(await self._cache.read_pods_on_node(node.metadata.name), claim)

    def _is_between_drain_and_end(self, claim: NodeClaim) -> bool:
        """Whether it was drained before, and waited for volumes since."""
        conditions = claim_conditions(claim, self._context.clock.now())
        is_ending = conditions.is_true(condition.INSTANCE_TERMINATING)
        return conditions.is_true(condition.DRAINED) and not is_ending

    async def _record_drain(
        self, node: Node, claim: NodeClaim, waiting: Result | None
    ) -> Result | None:
        """What to wait for: the pods, and that the drain has lasted for long enough."""
        now = self._context.clock.now()
        conditions = claim_conditions(claim, now)
        if conditions.is_true(condition.DRAINED):
            return waiting
        began = conditions.since(condition.DRAINED)
        if began is None:
            claim = await self._set(claim, condition.DRAINED, condition.UNKNOWN, "Draining")
            began = now
        left = began + MIN_DRAIN_SECONDS - now
        if waiting is None and left > 0:
            return Again(left)
        waiting = waiting or await self._drain_unseen_pods(node, claim)
        if waiting is not None:
            return waiting
        await self._set(claim, condition.DRAINED, condition.TRUE)
        pool = (claim.metadata.labels or {}).get(NODEPOOL, "")
        self._context.metrics.add(NODES_DRAINED, nodepool=pool)
        return None

    async def _detach_volumes(self, node: Node, claim: NodeClaim) -> Result | None:
        now, deadline = self._context.clock.now(), drain_deadline(claim)
        attached = self._attached_volumes(node)
        if not attached:
            await self._set(claim, condition.VOLUMES_DETACHED, condition.TRUE)
            return None
        if deadline is not None and now >= deadline:
            reason = "TerminationGracePeriodElapsed"
            await self._set(claim, condition.VOLUMES_DETACHED, condition.FALSE, reason)
            return None
        reason = "AwaitingVolumeDetachment"
        await self._set(claim, condition.VOLUMES_DETACHED, condition.UNKNOWN, reason)
        message = f"Awaiting the detachment of {', '.join(attached)}"
        await self._context.events.inform(node, reason, message)
        return _until(deadline, now)

    def _attached_volumes(self, node: Node) -> list[str]:
        """Volumes on the node but those of pods that the drain leaves alone."""
        now = self._context.clock.now()
        staying = {
            name
            for pod in self._state.pods_by_node.get(node.metadata.name)
            if is_left_alone(pod, now)
            for name in self._state.volumes_of_pod(pod)
        }
        attached = (
            attachment.spec.source.persistentVolumeName
            for attachment in self._state.attachments_by_node.get(node.metadata.name)
        )
        return [name for name in attached if name and name not in staying]

    async def _end_instance(self, claim: NodeClaim) -> Result | None:
        instance = instance_id(claim)
        if not instance:
            return None
        try:
            await self._cloud.terminate(instance)
        except InstanceNotFoundError:
            return None
        except CloudProviderError as error:
            await self._context.events.warn(claim, "FailedTermination", str(error))
            raise
        await self._set(claim, condition.INSTANCE_TERMINATING, condition.TRUE)
        return Again(INSTANCE_POLL)

    async def _release(self, node: Node) -> Result:
        await self._cache.update(node, without_finalizer(TERMINATION_FINALIZER))
        self._count(node)
        return DONE

    def _count(self, node: Node) -> None:
        metrics, now = self._context.metrics, self._context.clock.now()
        pool = (node.metadata.labels or {}).get(NODEPOOL, "")
        metrics.add(NODES_TERMINATED, nodepool=pool)
        for metric, since in (
            (NODES_TERMINATION_SECONDS, node.metadata.deletionTimestamp),
            (NODES_LIFETIME_SECONDS, node.metadata.creationTimestamp),
        ):
            began = parse_timestamp(since)
            if began is not None:
                metrics.observe(metric, now - began, nodepool=pool)

    async def _set(self, claim: NodeClaim, kind: str, status: str, reason: str = "") -> NodeClaim:
        conditions = claim_conditions(claim, self._context.clock.now())
        conditions.set(kind, status, reason)
        return await write_claim_conditions(self._cache, claim, conditions)


def _leaving_patch(node: Node) -> dict[str, Any] | None:
    """What keeps pods and load balancers off a node that is drained."""
    patch = taint_patch(node) or {}
    if EXCLUDE_FROM_LOAD_BALANCERS not in (node.metadata.labels or {}):
        patch["metadata"] = {"labels": {EXCLUDE_FROM_LOAD_BALANCERS: "karpenter"}}
    return patch or None


def _is_managed(node: Node, claims: list[NodeClaim]) -> bool:
    """Whether the node is of a class of ours; of a node without a claim its label says so."""
    if claims:
        return all(is_ours(claim.spec.nodeClassRef) for claim in claims)
    return EC2NODECLASS in (node.metadata.labels or {})


def _until(moment: float | None, now: float) -> Result:
    return DONE if moment is None else Again(max(0.0, moment - now))
