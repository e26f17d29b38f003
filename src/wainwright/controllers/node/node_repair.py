"""Node repair: nodes whose condition has shown for too long that they are broken are replaced.

Waiting does not get their pods anywhere: the NodeClaim is deleted forcefully, whatever budgets and
do-not-disrupt say. If many nodes are unhealthy at once the cause is rarely in the nodes, and
nothing is deleted.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from wainwright.api.karpenter.nodeclaim import NodeClaim, NodeClaimStatus
from wainwright.api.karpenter.nodepool import NodePool
from wainwright.api.kubernetes.cluster import Node
from wainwright.controllers.context import ControllerContext
from wainwright.controllers.informer_cache import Change
from wainwright.controllers.live_state import is_ours
from wainwright.controllers.nodeclaim.claim_deletion import delete_claim_forcefully
from wainwright.controllers.runtime import DONE, Again, Key, Poll, Result, WorkQueue
from wainwright.metrics import NODECLAIMS_UNHEALTHY
from wainwright.model.labels import CAPACITY_TYPE, NODEPOOL
from wainwright.translate.object_metadata import parse_timestamp

MAX_UNHEALTHY_PERCENT: Final = 20
"""Of the nodes of a NodePool, or of the cluster for NodeClaims without one; rounded up."""
BLOCKED_RETRY: Final = 300.0
"""Seconds until a node that may not be repaired is looked at again."""
CLUSTER: Final = "cluster"
"""The key of all unhealthy nodes in their index."""


class UnhealthyCondition(msgspec.Struct, frozen=True, kw_only=True):
    type: str
    due: float
    """When it has lasted for longer than is tolerated."""


class NodeRepair:
    name = "node.health"

    def __init__(self, context: ControllerContext) -> None:
        self._context, self._cache, self._state = context, context.cache, context.state
        self._tolerations = {
            (policy.condition, policy.status): policy.toleration
            for policy in context.cloud.repair_policies()
        }
        index = context.cache.index
        self._by_pool = index(Node, _pool)
        self._unhealthy_by_pool = index(
            Node, lambda node: _pool(node) if self._condition(node) else ""
        )
        self._unhealthy = index(Node, lambda node: CLUSTER if self._condition(node) else "")

    def watch(self, queue: WorkQueue) -> None:
        def changed_node(change: Change[Node]) -> None:
            before, after = self._condition(change.before), self._condition(change.after)
            if after is None:
                queue.forget(change.name)
            elif after != before:
                queue.add(change.name)

        self._cache.subscribe(Node, changed_node)

    async def reconcile(self, key: Key) -> Result:
        node = self._cache.get(Node, key)
        unhealthy = self._condition(node)
        claims = [] if node is None else self._state.claims_of_node(node)
        if node is None or unhealthy is None or len(claims) != 1:
            return DONE
        if not is_ours(claims[0].spec.nodeClassRef):
            return DONE
        left = unhealthy.due - self._context.clock.now()
        if left > 0:
            return Again(left)
        if self._is_blocked(node):
            await self._report_blocked(node, claims[0])
            return Poll(BLOCKED_RETRY)  # as nodes recover, it may go
        await self._replace(claims[0], unhealthy)
        return DONE

    async def _replace(self, claim: NodeClaim, unhealthy: UnhealthyCondition) -> None:
        await delete_claim_forcefully(self._context, claim, "unhealthy")
        if claim.metadata.deletionTimestamp is None:
            labels = claim.metadata.labels or {}
            self._context.metrics.add(
                NODECLAIMS_UNHEALTHY,
                condition=unhealthy.type,
                nodepool=labels.get(NODEPOOL, ""),
                capacity_type=labels.get(CAPACITY_TYPE, ""),
                image_id=(claim.status or NodeClaimStatus()).imageID,
            )

    def _condition(self, node: Node | None) -> UnhealthyCondition | None:
        """Of several the one that is due first."""
        found = () if node is None else self._conditions(node)
        return min(found, key=lambda each: (each.due, each.type), default=None)

    def _conditions(self, node: Node) -> Iterator[UnhealthyCondition]:
        for each in node.status.conditions or ():
            toleration = self._tolerations.get((each.type, each.status))
            if toleration is not None:
                stated = each.lastTransitionTime or node.metadata.creationTimestamp
                yield UnhealthyCondition(
                    type=each.type, due=(parse_timestamp(stated) or 0.0) + toleration
                )

    # Too many at once

    def _is_blocked(self, node: Node) -> bool:
        """Whether more nodes are unhealthy than a few; those that are still tolerated count."""
        pool = _pool(node)
        if pool:
            unhealthy, total = self._unhealthy_by_pool.count(pool), self._by_pool.count(pool)
        else:
            unhealthy, total = self._unhealthy.count(CLUSTER), len(self._cache.all(Node))
        return unhealthy > -(-MAX_UNHEALTHY_PERCENT * total // 100)

    async def _report_blocked(self, node: Node, claim: NodeClaim) -> None:
        pool = self._cache.get(NodePool, _pool(node))
        scope = "the cluster" if pool is None else f"the NodePool {pool.metadata.name}"
        message = f"more than {MAX_UNHEALTHY_PERCENT}% of the nodes of {scope} are unhealthy"
        for about in (node, claim, pool):
            if about is not None:
                await self._context.events.warn(about, "NodeRepairBlocked", message)


def _pool(node: Node) -> str:
    return (node.metadata.labels or {}).get(NODEPOOL, "")
