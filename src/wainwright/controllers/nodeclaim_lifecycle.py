"""The life of a NodeClaim: launch, registration, initialization, time-outs, and its end.

Each step looks at the objects as they are, and can be repeated. A step that has nothing to wait for
is followed by the next one at once; otherwise the claim is looked at again when its Node changes,
or when a time-out is due.
"""

from typing import Any, Final

from wainwright.api.karpenter.nodeclaim import NodeClaim, NodeClaimStatus
from wainwright.api.kubernetes.cluster import Node
from wainwright.controllers import conditions as condition
from wainwright.controllers.cluster_cache import Change
from wainwright.controllers.conditions import ConditionSet, format_timestamp
from wainwright.controllers.context import ControllerContext
from wainwright.controllers.events import truncate
from wainwright.controllers.live_state import is_ours
from wainwright.controllers.node_registration import (
    TERMINATION_FINALIZER,
    initialization_problem,
    registration_patch,
)
from wainwright.controllers.runtime import DONE, Again, Backoff, Key, Result, WorkQueue
from wainwright.errors import (
    CloudProviderError,
    ConflictError,
    InstanceNotFoundError,
    InsufficientCapacityError,
    NodeClassNotReadyError,
    TemporarilyUnavailableError,
)
from wainwright.metrics import NODECLAIMS_DISRUPTED, NODECLAIMS_TERMINATED
from wainwright.model.labels import CAPACITY_TYPE, INITIALIZED, NODEPOOL, ZONE
from wainwright.model.node_claim import Instance
from wainwright.model.resources import Resources, format_quantity
from wainwright.translate.disruption import parse_duration
from wainwright.translate.nodeclaims import launch_record_of, translate_node_claim
from wainwright.translate.object_metadata import parse_timestamp

LAUNCH_TIMEOUT: Final = 300.0  # seconds since the last change of Launched
REGISTRATION_TIMEOUT: Final = 900.0
TERMINATION_POLL: Final = 5.0
"""Seconds between two looks at an instance that is being terminated."""
MAX_CONDITION_MESSAGE: Final = 1024
FIRST_LAUNCH_RETRY: Final = 1.0
MAX_LAUNCH_RETRY: Final = 60.0
TERMINATION_TIMESTAMP_ANNOTATION: Final = "karpenter.sh/nodeclaim-termination-timestamp"


class NodeClaimLifecycle:
    name = "nodeclaim.lifecycle"

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._cache, self._state, self._cloud = context.cache, context.state, context.cloud
        self._launch_backoff = Backoff(
            f"{self.name} launch", first=FIRST_LAUNCH_RETRY, most=MAX_LAUNCH_RETRY
        )

    def watch(self, queue: WorkQueue) -> None:
        def changed_claim(change: Change[NodeClaim]) -> None:
            queue.add(change.name)

        def changed_node(change: Change[Node]) -> None:
            for claim in self._state.claims_of_node(change.object):
                queue.add(claim.metadata.name)

        self._cache.subscribe(NodeClaim, changed_claim)
        self._cache.subscribe(Node, changed_node)

    async def reconcile(self, key: Key) -> Result:
        claim = self._cache.get(NodeClaim, key)
        if claim is None or not is_ours(claim.spec.nodeClassRef):
            return DONE
        try:
            return await self._step(claim)
        except ConflictError:
            return Again(0.0)  # others wrote the claim or its node; the cache will show what

    async def _step(self, claim: NodeClaim) -> Result:
        if claim.metadata.deletionTimestamp:
            return await self._finalize(claim)
        if TERMINATION_FINALIZER not in (claim.metadata.finalizers or ()):
            claim = await self._add_finalizer(claim)
        conditions = self._conditions(claim)
        if not conditions.is_true(condition.LAUNCHED):
            return await self._launch(claim)
        if not conditions.is_true(condition.REGISTERED):
            return await self._register(claim)
        if not conditions.is_true(condition.INITIALIZED):
            return await self._initialize(claim)
        return DONE

    async def _add_finalizer(self, claim: NodeClaim) -> NodeClaim:
        finalizers = [*(claim.metadata.finalizers or ()), TERMINATION_FINALIZER]
        return await self._cache.patch(
            claim, {"metadata": {"finalizers": finalizers}}, any_version=False
        )

    def _conditions(self, claim: NodeClaim) -> ConditionSet:
        return ConditionSet(
            _status(claim).conditions,
            now=self._context.clock.now(),
            generation=claim.metadata.generation,
            readiness=condition.NODE_CLAIM_READINESS,
        )

    # Launch

    async def _launch(self, claim: NodeClaim) -> Result:
        overdue = self._seconds_left(claim, condition.LAUNCHED, LAUNCH_TIMEOUT)
        if overdue <= 0:
            return await self._give_up(claim, "launch_timeout")
        try:
            instance = await self._cloud.launch(translate_node_claim(claim))
        except (InsufficientCapacityError, NodeClassNotReadyError, InstanceNotFoundError) as error:
            return await self._launch_impossible(claim, error)
        except CloudProviderError as error:
            return await self._launch_failed(claim, error, overdue)
        self._launch_backoff.succeeded(claim.metadata.uid)
        claim = await self._record_launch(claim.metadata.name, instance)
        return await self._register(claim)

    async def _launch_impossible(self, claim: NodeClaim, error: CloudProviderError) -> Result:
        """Deletes the claim, so that its pods are planned anew with what is left."""
        await self._context.events.warn(claim, f"{error.reason}Error", str(error))
        reasons = {
            InsufficientCapacityError: "insufficient_capacity",
            NodeClassNotReadyError: "nodeclass_not_ready",
        }
        return await self._give_up(claim, reasons.get(type(error), "garbage_collected"))

    async def _launch_failed(
        self, claim: NodeClaim, error: CloudProviderError, seconds_left: float
    ) -> Result:
        claim = self._cache.get(NodeClaim, claim.metadata.name) or claim
        conditions = self._conditions(claim)
        message = truncate(str(error), MAX_CONDITION_MESSAGE)
        conditions.set(condition.LAUNCHED, condition.UNKNOWN, error.reason, message)
        await self._write(claim, conditions)
        wait = self._launch_backoff.failed(claim.metadata.uid)
        if isinstance(error, TemporarilyUnavailableError):
            wait = error.retry_after or wait
        return Again(min(wait, seconds_left))

    async def _record_launch(self, name: str, instance: Instance) -> NodeClaim:
        """Writes down what was launched, only while the claim's launch record is that of the
        instance: another process may have taken the launch for lost and repeated it.
        """
        claim = self._cache.get(NodeClaim, name)
        record = None if claim is None else launch_record_of(claim)
        if claim is None or record is None or (instance.batch and record.batch != instance.batch):
            raise ConflictError(f"the NodeClaim {name} is being launched by others")
        claim = await self._cache.patch(
            claim,
            {
                "metadata": {
                    "labels": {**instance.labels, **(claim.metadata.labels or {})},
                    "annotations": dict(instance.annotations),
                }
            },
            any_version=False,
        )
        conditions = self._conditions(claim)
        conditions.set(condition.LAUNCHED, condition.TRUE)
        conditions.set(condition.REGISTERED, condition.UNKNOWN, "NodeNotFound")
        launched = {
            "providerID": instance.provider_id,
            "imageID": instance.image_id,
            "capacity": _quantities(instance.capacity),
            "allocatable": _quantities(instance.allocatable),
        }
        return await self._cache.patch_status(claim, {**launched, **(conditions.patch() or {})})

    # Registration and initialization

    async def _register(self, claim: NodeClaim) -> Result:
        nodes = self._state.nodes_of_claim(claim)
        conditions = self._conditions(claim)
        if len(nodes) != 1:
            status = condition.FALSE if nodes else condition.UNKNOWN
            reason = "MultipleNodesFound" if nodes else "NodeNotFound"
            conditions.set(condition.REGISTERED, status, reason)
            await self._write(claim, conditions)
            return await self._await_registration(claim)
        node = await self._sync_node(claim, nodes[0])
        conditions.set(condition.REGISTERED, condition.TRUE)
        conditions.set(condition.INITIALIZED, condition.UNKNOWN, "NodeNotReady")
        changes = {"nodeName": node.metadata.name, **(conditions.patch() or {})}
        claim = await self._cache.patch_status(claim, changes)
        return await self._initialize(claim)

    async def _sync_node(self, claim: NodeClaim, node: Node) -> Node:
        patch = registration_patch(claim, node)
        if patch is None:
            return node
        return await self._cache.patch(node, patch, any_version=False)

    async def _await_registration(self, claim: NodeClaim) -> Result:
        left = self._seconds_left(claim, condition.REGISTERED, REGISTRATION_TIMEOUT)
        if left <= 0:
            return await self._give_up(claim, "registration_timeout")
        return Again(left)

    async def _initialize(self, claim: NodeClaim) -> Result:
        nodes = self._state.nodes_of_claim(claim)
        problem = initialization_problem(claim, nodes)
        conditions = self._conditions(claim)
        if problem is not None:
            conditions.set(
                condition.INITIALIZED, condition.UNKNOWN, problem.reason, problem.message
            )
            await self._write(claim, conditions)
            return DONE  # a change of the node is what it waits for
        await self._cache.patch(nodes[0], {"metadata": {"labels": {INITIALIZED: "true"}}})
        conditions.set(condition.INITIALIZED, condition.TRUE)
        await self._write(claim, conditions)
        return DONE

    def _seconds_left(self, claim: NodeClaim, kind: str, timeout: float) -> float:
        """Counted from the last change of the condition, or from the creation of the claim."""
        stated = {each.type: each for each in _status(claim).conditions or ()}
        since = parse_timestamp(
            stated[kind].lastTransitionTime if kind in stated else claim.metadata.creationTimestamp
        )
        now = self._context.clock.now()
        return timeout - (now - (now if since is None else since))

    async def _give_up(self, claim: NodeClaim, reason: str) -> Result:
        await self._cache.delete(claim)
        self._count_disrupted(claim, reason)
        return DONE

    def _count_disrupted(self, claim: NodeClaim, reason: str) -> None:
        labels = claim.metadata.labels or {}
        self._context.metrics.add(
            NODECLAIMS_DISRUPTED,
            reason=reason,
            nodepool=labels.get(NODEPOOL, ""),
            capacity_type=labels.get(CAPACITY_TYPE, ""),
        )

    # The end

    async def _finalize(self, claim: NodeClaim) -> Result:
        if TERMINATION_FINALIZER not in (claim.metadata.finalizers or ()):
            return DONE
        claim = await self._set_deadline(claim)
        if self._conditions(claim).is_true(condition.REGISTERED):
            nodes = self._state.nodes_of_claim(claim)
            for node in nodes:
                if not node.metadata.deletionTimestamp:
                    await self._cache.delete(node)
            if nodes:
                return DONE  # looked at again when the last of them is gone
        return await self._terminate(claim)

    async def _set_deadline(self, claim: NodeClaim) -> NodeClaim:
        """Until when its node may be drained; one that is there is kept as it is."""
        grace_period = parse_duration(claim.spec.terminationGracePeriod)
        annotations = claim.metadata.annotations or {}
        deleted = parse_timestamp(claim.metadata.deletionTimestamp)
        if (
            grace_period is None
            or deleted is None
            or TERMINATION_TIMESTAMP_ANNOTATION in annotations
        ):
            return claim
        deadline = format_timestamp(deleted + grace_period)
        await self._context.events.warn(
            claim, "TerminationGracePeriodExpiring", f"All pods will be deleted by {deadline}"
        )
        added = {TERMINATION_TIMESTAMP_ANNOTATION: deadline}
        return await self._cache.patch(claim, {"metadata": {"annotations": added}})

    async def _terminate(self, claim: NodeClaim) -> Result:
        try:
            instance = await self._instance_of(claim)
            if instance:
                await self._cloud.terminate(instance)
                conditions = self._conditions(claim)
                conditions.set(condition.INSTANCE_TERMINATING, condition.TRUE)
                await self._write(claim, conditions)
                return Again(TERMINATION_POLL)
        except InstanceNotFoundError:
            pass
        kept = [each for each in claim.metadata.finalizers or () if each != TERMINATION_FINALIZER]
        await self._cache.patch(claim, {"metadata": {"finalizers": kept}}, any_version=False)
        self._count_terminated(claim)
        return DONE

    async def _instance_of(self, claim: NodeClaim) -> str:
        """Its instance, also one whose launch was recorded and whose answer was lost."""
        known = translate_node_claim(claim)
        if known.instance or known.launch_record is None:
            return known.instance
        recovered = await self._cloud.recover([known])
        if known.uid in recovered.unclear:
            raise TemporarilyUnavailableError(f"it is not known yet whether {known.name} launched")
        found = recovered.instances.get(known.uid)
        return "" if found is None else found.id

    def _count_terminated(self, claim: NodeClaim) -> None:
        labels = claim.metadata.labels or {}
        self._context.metrics.add(
            NODECLAIMS_TERMINATED,
            nodepool=labels.get(NODEPOOL, ""),
            capacity_type=labels.get(CAPACITY_TYPE, ""),
            zone=labels.get(ZONE, ""),
        )

    async def _write(self, claim: NodeClaim, conditions: ConditionSet) -> NodeClaim:
        patch = conditions.patch()
        return claim if patch is None else await self._cache.patch_status(claim, patch)


def _status(claim: NodeClaim) -> NodeClaimStatus:
    return claim.status or NodeClaimStatus()


def _quantities(resources: Resources) -> dict[str, Any]:
    return {name: format_quantity(name, amount) for name, amount in resources.items()}
