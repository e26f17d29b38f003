"""What NodeClaims say about their disruption: when a pod last came or went, and whether they have
been quiet for long enough to be consolidated.
"""

from typing import Final

from wainwright.api.karpenter.nodeclaim import NodeClaim, NodeClaimStatus
from wainwright.api.karpenter.nodepool import NodePool
from wainwright.api.kubernetes.cluster import Node
from wainwright.api.kubernetes.workloads import Pod
from wainwright.clock import format_timestamp
from wainwright.cluster import MergePatch
from wainwright.controllers import conditions as condition
from wainwright.controllers.conditions import ConditionSet
from wainwright.controllers.context import ControllerContext
from wainwright.controllers.informer_cache import Change
from wainwright.controllers.live_state import is_ours
from wainwright.controllers.runtime import AFTER_CONFLICT, DONE, Again, Key, Result, WorkQueue
from wainwright.errors import ConflictError
from wainwright.translate.disruption import parse_duration
from wainwright.translate.node_claim_pairing import pool_of_claim
from wainwright.translate.object_metadata import has_owner_kind, parse_timestamp
from wainwright.translate.pods import is_terminal

POD_EVENT_SECONDS: Final = 10.0
"""Pod events of a node are written at most this often."""


class PodEvents:
    """Writes down when a pod was last bound to a node, finished there, or began to leave it."""

    name = "nodeclaim.podevents"

    def __init__(self, context: ControllerContext) -> None:
        self._context, self._cache, self._state = context, context.cache, context.state

    def watch(self, queue: WorkQueue) -> None:
        is_known = False  # what was there before is not news: a restart would defer consolidation

        def changed_pod(change: Change[Pod]) -> None:
            if is_known and _is_pod_event(change):
                queue.add(change.object.spec.nodeName)

        self._cache.subscribe(Pod, changed_pod)
        is_known = True

    async def reconcile(self, key: Key) -> Result:
        node = self._cache.get(Node, key)
        claims = [] if node is None else self._state.claims_of_node(node)
        if len(claims) != 1 or not is_ours(claims[0].spec.nodeClassRef):
            return DONE
        try:
            await self._cache.update(claims[0], self._stamp, status=True)
        except ConflictError:
            return AFTER_CONFLICT
        return DONE

    def _stamp(self, claim: NodeClaim) -> MergePatch | None:
        """With what follows from it for Consolidatable: in a busy cluster this is a request every
        ten seconds for every node.
        """
        now = self._context.clock.now()
        last = parse_timestamp((claim.status or NodeClaimStatus()).lastPodEventTime)
        if last is not None and now - last < POD_EVENT_SECONDS:
            return None
        conditions = _stated_conditions(claim, now)
        pool = self._cache.get(NodePool, pool_of_claim(claim) or "")
        if pool is not None and parse_duration(pool.spec.disruption.consolidateAfter):
            conditions.clear(condition.CONSOLIDATABLE)
        return {"lastPodEventTime": format_timestamp(now), **(conditions.patch() or {})}


def _is_pod_event(change: Change[Pod]) -> bool:
    pod = change.object
    if not pod.spec.nodeName or has_owner_kind(pod.metadata, "DaemonSet"):
        return False
    before, after = change.before, change.after
    if after is None:  # one that nobody saw leaving; for others it was an event already
        return before is not None and not before.metadata.deletionTimestamp
    return before is None or _phase(before) != _phase(after)


def _phase(pod: Pod) -> tuple[bool, bool, bool]:
    is_leaving = pod.metadata.deletionTimestamp is not None
    return bool(pod.spec.nodeName), is_terminal(pod), is_leaving


class DisruptionConditions:
    """Sets Consolidatable once a node has been quiet for consolidateAfter.

    Not as long as pods may be on their way to it: it is not disrupted then, and when they come the
    condition would have to be cleared again.
    """

    name = "nodeclaim.disruption"

    def __init__(self, context: ControllerContext) -> None:
        self._context, self._cache, self._state = context, context.cache, context.state
        self._by_pool = context.cache.index(NodeClaim, lambda claim: pool_of_claim(claim) or "")

    def watch(self, queue: WorkQueue) -> None:
        def changed_claim(change: Change[NodeClaim]) -> None:
            if change.after is None:
                queue.forget(change.name)
            else:
                queue.add(change.name)

        def changed_pool(change: Change[NodePool]) -> None:
            if change.is_of_spec:
                for claim in self._by_pool.get(change.name):
                    queue.add(claim.metadata.name)

        self._cache.subscribe(NodeClaim, changed_claim)
        self._cache.subscribe(NodePool, changed_pool)

    async def reconcile(self, key: Key) -> Result:
        claim = self._cache.get(NodeClaim, key)
        if claim is None or claim.metadata.deletionTimestamp:
            return DONE
        pool = self._cache.get(NodePool, pool_of_claim(claim) or "")
        if pool is None or not is_ours(claim.spec.nodeClassRef):
            return DONE
        left: float | None = None

        def patch_of(current: NodeClaim) -> MergePatch | None:
            nonlocal left
            conditions = _stated_conditions(current, self._context.clock.now())
            left = self._set_consolidatable(current, pool, conditions)
            return conditions.patch()

        try:
            await self._cache.update(claim, patch_of, status=True)
        except ConflictError:
            return AFTER_CONFLICT
        return DONE if left is None else Again(left)

    def _set_consolidatable(
        self, claim: NodeClaim, pool: NodePool, conditions: ConditionSet
    ) -> float | None:
        """The seconds until it may be set, if time alone is lacking."""
        after = parse_duration(pool.spec.disruption.consolidateAfter)
        if after is None or not conditions.is_true(condition.INITIALIZED):
            conditions.clear(condition.CONSOLIDATABLE)
            return None
        now = self._context.clock.now()
        left = _quiet_since(claim) + after - now
        if left > 0:
            conditions.clear(condition.CONSOLIDATABLE)
            return left
        if not conditions.is_true(condition.CONSOLIDATABLE):
            nominated_until = self._state.nominated_until(*_names_of(claim))
            if nominated_until > now:
                return nominated_until - now
        conditions.set(condition.CONSOLIDATABLE, condition.TRUE)
        return None


def _stated_conditions(claim: NodeClaim, now: float) -> ConditionSet:
    written = (claim.status or NodeClaimStatus()).conditions
    return ConditionSet(written, now=now, generation=claim.metadata.generation)


def _names_of(claim: NodeClaim) -> tuple[str, str]:
    return claim.metadata.name, (claim.status or NodeClaimStatus()).nodeName


def _quiet_since(claim: NodeClaim) -> float:
    status = claim.status or NodeClaimStatus()
    last = parse_timestamp(status.lastPodEventTime)
    if last is not None:
        return last
    stated = {each.type: each for each in status.conditions or ()}
    initialized = stated.get(condition.INITIALIZED)
    since = None if initialized is None else parse_timestamp(initialized.lastTransitionTime)
    return since or parse_timestamp(claim.metadata.creationTimestamp) or 0.0
