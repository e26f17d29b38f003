"""The life of a NodeClaim: launch, registration, initialization, time-outs, and its end.

Each step looks at the objects as they are, and can be repeated. A step that has nothing to wait for
is followed by the next one at once; otherwise the claim is looked at again when its Node changes,
or when a time-out is due.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.kubernetes.cluster import Node
from wainwright.backoff import Backoff
from wainwright.cluster import MergePatch
from wainwright.controllers import conditions as condition
from wainwright.controllers.conditions import ConditionSet, claim_conditions, write_claim_conditions
from wainwright.controllers.context import ControllerContext
from wainwright.controllers.informer_cache import Change, with_finalizer
from wainwright.controllers.live_state import is_ours
from wainwright.controllers.nodeclaim.claim_deletion import delete_claim
from wainwright.controllers.nodeclaim.consistency import set_consistent_state
from wainwright.controllers.nodeclaim.liveness import (
    NODE_NOT_FOUND,
    describe_launch_timeout,
    describe_registration_timeout,
)
from wainwright.controllers.nodeclaim.node_registration import (
    TERMINATION_FINALIZER,
    HookResult,
    RegistrationHook,
    RegistrationOutcomes,
    initialization_problem,
    is_initialized_by_registration,
    is_synced,
    is_unregistered,
    registration_patch,
)
from wainwright.controllers.nodeclaim.nodeclaim_deletion import NodeClaimDeletion
from wainwright.controllers.nodeclaim.nodeclaim_launch import LaunchAttempt, NodeClaimLaunch
from wainwright.controllers.runtime import (
    AFTER_CONFLICT,
    DONE,
    Again,
    Key,
    Result,
    WorkQueue,
)
from wainwright.errors import CloudProviderError, ConflictError, InstanceNotFoundError
from wainwright.metrics import NODES_CREATED
from wainwright.model.labels import INITIALIZED, NODEPOOL, node_class_labels
from wainwright.model.node_claim import Instance
from wainwright.translate.object_metadata import parse_timestamp

LOG: Final = logging.getLogger(__name__)

SETTLING_SECONDS: Final = 0.5
"""For which a new node is left as it is: where it becomes Ready and loses its taints meanwhile, one
request registers and initializes it, and none meets those of its kubelet. Pods could not use it any
sooner."""
JOINING_SECONDS: Final = 5.0
"""After registration, for which every other reason why a node is not initialized yet is not worth a
request: it becomes Ready and loses its taints one after the other."""


class NodeClaimLifecycle:
    name = "nodeclaim.lifecycle"

    def __init__(
        self,
        context: ControllerContext,
        outcomes: RegistrationOutcomes | None = None,
        hooks: Sequence[RegistrationHook] = (),
    ) -> None:
        self._context, self._outcomes, self._hooks = context, outcomes, tuple(hooks)
        self._cache, self._state, self._cloud = context.cache, context.state, context.cloud
        self._launches = NodeClaimLaunch(context)
        self._deletion = NodeClaimDeletion(context, self._launches)
        self._hook_backoff = Backoff(f"{self.name} hooks")
        self._settled: dict[Key, float] = {}
        """By name of a claim that has not registered, until when its new node is left as it is."""

    def watch(self, queue: WorkQueue) -> None:
        def changed_claim(change: Change[NodeClaim]) -> None:
            if change.after is None:
                self._launches.forget(change.object)
                self._settled.pop(change.name, None)
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
            return AFTER_CONFLICT

    async def _step(self, claim: NodeClaim) -> Result:
        if claim.metadata.deletionTimestamp:
            return await self._deletion.step(claim)
        claim = await self._cache.update(claim, with_finalizer(TERMINATION_FINALIZER))
        conditions = self._conditions(claim)
        if not conditions.is_true(condition.LAUNCHED):
            return await self._launch(claim)
        claim = await self._hydrate(claim)
        if not conditions.is_true(condition.REGISTERED):
            return await self._register(claim)
        if not conditions.is_true(condition.INITIALIZED):
            return await self._initialize(claim)
        conditions = self._conditions(claim)
        conditions.observe_generation()
        await self._write(claim, conditions)
        return DONE

    async def _hydrate(self, claim: NodeClaim) -> NodeClaim:
        """Adds the label of the class where an older version, or somebody, left it out."""
        labels = node_class_labels(claim.spec.nodeClassRef.name)
        patch = {"metadata": {"labels": labels}}
        for node in self._state.nodes_of_claim(claim):
            if is_synced(node) and not labels.items() <= (node.metadata.labels or {}).items():
                await self._cache.patch(node, patch)
        if labels.items() <= (claim.metadata.labels or {}).items():
            return claim
        return await self._cache.patch(claim, patch)

    def _conditions(self, claim: NodeClaim) -> ConditionSet:
        return claim_conditions(claim, self._context.clock.now())

    # Launch

    async def _launch(self, claim: NodeClaim) -> Result:
        timeout = self._context.settings.launch_timeout
        left = self._seconds_left(claim, condition.LAUNCHED, timeout)
        if left <= 0:
            message = describe_launch_timeout(claim, timeout)
            return await self._time_out(claim, "launch_timeout", "LaunchTimeout", message)
        launched = await self._launches.attempt(claim)
        if isinstance(launched, LaunchAttempt):
            return DONE if launched.again is None else Again(min(launched.again, left))
        return await self._register(launched)

    # Registration

    async def _register(self, claim: NodeClaim) -> Result:
        nodes = self._state.nodes_of_claim(claim)
        if len(nodes) != 1:
            return await self._await_one_node(claim, nodes)
        node = nodes[0]
        left = self._seconds_to_settle(claim, node)
        if left > 0:
            return Again(left)
        if not is_synced(node) and not is_unregistered(node):
            message = f"{node.metadata.name} joined without the taint karpenter.sh/unregistered"
            await self._context.events.warn(claim, "UnregisteredTaintMissing", message)
        waiting = await self._pass_hooks(claim, node) if self._hooks else None
        if waiting is not None:
            return waiting
        return await self._complete_registration(claim)

    def _seconds_to_settle(self, claim: NodeClaim, node: Node) -> float:
        is_new = is_unregistered(node) and not is_synced(node) and not claim.spec.startupTaints
        if not is_new or is_initialized_by_registration(claim, node):
            return 0.0
        now = self._context.clock.now()
        return self._settled.setdefault(claim.metadata.name, now + SETTLING_SECONDS) - now

    async def _await_one_node(self, claim: NodeClaim, nodes: Sequence[Node]) -> Result:
        conditions = self._conditions(claim)
        if nodes:
            names = ", ".join(node.metadata.name for node in nodes)
            message = f"several nodes have its providerID: {names}"
            conditions.set(condition.REGISTERED, condition.FALSE, "MultipleNodesFound", message)
        else:
            conditions.set(condition.REGISTERED, condition.UNKNOWN, "NodeNotFound", NODE_NOT_FOUND)
        return await self._await_registration(await self._write(claim, conditions))

    async def _complete_registration(self, claim: NodeClaim) -> Result:
        claim = self._cache.get(NodeClaim, claim.metadata.name) or claim
        nodes = self._state.nodes_of_claim(claim)
        if len(nodes) != 1:  # hooks take their time
            return await self._await_one_node(claim, nodes)
        node = nodes[0]
        await self._sync_node(claim, node, is_complete=True)
        self._settled.pop(claim.metadata.name, None)
        conditions = self._conditions(claim)
        conditions.set(condition.REGISTERED, condition.TRUE)
        await self._set_initialized(claim, conditions)
        named = {"nodeName": node.metadata.name}
        claim = await write_claim_conditions(self._cache, claim, conditions, named)
        pool = (claim.metadata.labels or {}).get(NODEPOOL, "")
        self._context.metrics.add(NODES_CREATED, nodepool=pool)
        if self._outcomes is not None:
            await self._outcomes.succeeded(claim)
        return DONE

    async def _sync_node(self, claim: NodeClaim, node: Node, *, is_complete: bool) -> None:
        """Where that initializes the node, it gets the label of that too."""

        def patch_of(found: Node) -> MergePatch | None:
            patch = registration_patch(claim, found, is_complete=is_complete)
            if patch is None or not (is_complete and is_initialized_by_registration(claim, found)):
                return patch
            metadata = patch.get("metadata", {})
            labels = {**metadata.get("labels", {}), INITIALIZED: "true"}
            return {**patch, "metadata": {**metadata, "labels": labels}}

        await self._cache.update(node, patch_of)

    async def _pass_hooks(self, claim: NodeClaim, node: Node) -> Result | None:
        """What to wait for; None once all hooks have passed."""
        await self._sync_node(claim, node, is_complete=False)
        results = await asyncio.gather(*(self._check(hook, claim, node) for hook in self._hooks))
        labels = {key: value for result in results for key, value in result.labels.items()}
        if not labels.items() <= (claim.metadata.labels or {}).items():
            claim = await self._cache.patch(claim, {"metadata": {"labels": labels}})
        pending = [
            (hook.name, result)
            for hook, result in zip(self._hooks, results, strict=True)
            if not result.passed
        ]
        if not pending:
            return None
        conditions = self._conditions(claim)
        names = ", ".join(name for name, _ in pending)
        conditions.set(condition.REGISTERED, condition.UNKNOWN, "RegistrationHookPending", names)
        claim = await self._write(claim, conditions)
        delays = [result.again for _, result in pending if result.again is not None]
        return await self._await_registration(claim, min(delays, default=None))

    async def _check(self, hook: RegistrationHook, claim: NodeClaim, node: Node) -> HookResult:
        key = f"{hook.name} {claim.metadata.uid}"
        try:
            result = await hook.check(claim, node)
        except Exception:  # whatever a hook raises, the others are still asked
            LOG.exception("registration hook %s of %s failed", hook.name, claim.metadata.name)
            return HookResult(passed=False, again=self._hook_backoff.failed(key))
        self._hook_backoff.succeeded(key)
        return result

    async def _await_registration(self, claim: NodeClaim, sooner: float | None = None) -> Result:
        timeout = self._context.settings.registration_timeout
        left = self._seconds_left(claim, condition.REGISTERED, timeout)
        if left > 0:
            return Again(left if sooner is None else min(sooner, left))
        nodes = self._state.nodes_of_claim(claim)
        message = describe_registration_timeout(claim, await self._find(claim), nodes, timeout)
        return await self._time_out(claim, "registration_timeout", "RegistrationTimeout", message)

    async def _find(self, claim: NodeClaim) -> Instance | CloudProviderError | None:
        """The claim's instance, None if it is gone, or why that is not known."""
        try:
            return await self._cloud.instance(condition.instance_id(claim))
        except InstanceNotFoundError:
            return None
        except CloudProviderError as error:
            return error

    # Initialization

    async def _initialize(self, claim: NodeClaim) -> Result:
        conditions = self._conditions(claim)
        await self._set_initialized(claim, conditions)
        left = self._seconds_left(claim, condition.REGISTERED, JOINING_SECONDS)
        if left > 0 and not conditions.is_true(condition.INITIALIZED):
            return Again(left)
        await self._write(claim, conditions)
        return DONE  # a change of the node, or of the claim, is what it may wait for

    async def _set_initialized(self, claim: NodeClaim, conditions: ConditionSet) -> None:
        nodes = self._state.nodes_of_claim(claim)
        problem = initialization_problem(claim, nodes)
        if problem is not None:
            conditions.set(
                condition.INITIALIZED, condition.UNKNOWN, problem.reason, problem.message
            )
            return
        if (nodes[0].metadata.labels or {}).get(INITIALIZED) != "true":
            await self._cache.patch(nodes[0], {"metadata": {"labels": {INITIALIZED: "true"}}})
        conditions.set(condition.INITIALIZED, condition.TRUE)
        # With the same request; what it lacks is an event of the controller of consistency.
        set_consistent_state(conditions, claim, nodes[0])

    # Liveness

    def _seconds_left(self, claim: NodeClaim, kind: str, timeout: float) -> float:
        """Counted from the last change of the condition, or from the creation of the claim."""
        now = self._context.clock.now()
        since = self._conditions(claim).since(kind)
        if since is None:
            since = parse_timestamp(claim.metadata.creationTimestamp)
        return timeout - (now - (now if since is None else since))

    async def _time_out(self, claim: NodeClaim, counted: str, reason: str, message: str) -> Result:
        """The event outlives the claim: it is where people read why no node came of it."""
        await self._context.events.warn(claim, reason, message)
        if self._outcomes is not None:
            await self._outcomes.failed(claim)
        await delete_claim(self._context, claim, counted)
        return DONE

    async def _write(self, claim: NodeClaim, conditions: ConditionSet) -> NodeClaim:
        return await write_claim_conditions(self._cache, claim, conditions)
