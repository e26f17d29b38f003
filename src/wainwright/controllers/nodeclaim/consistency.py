"""Consistency: whether a node has what its instance type promises."""

from collections.abc import Iterator
from typing import Final

from wainwright.api.karpenter.nodeclaim import NodeClaim, NodeClaimStatus
from wainwright.api.kubernetes.cluster import Node
from wainwright.controllers import conditions as condition
from wainwright.controllers.conditions import ConditionSet, is_initialized, write_claim_conditions
from wainwright.controllers.context import ControllerContext
from wainwright.controllers.informer_cache import Change
from wainwright.controllers.live_state import is_ours
from wainwright.controllers.runtime import AFTER_CONFLICT, DONE, Again, Key, Result, WorkQueue
from wainwright.errors import ConflictError
from wainwright.model.resources import format_quantity
from wainwright.translate.resources import translate_capacity, translate_requests

PERIOD: Final = 600.0
"""Seconds between two looks at one NodeClaim."""
LEAST_SHARE: Final = 0.9
"""Of what was expected of a resource."""
FAILED: Final = "ConsistencyCheckFailed"


class Consistency:
    name = "nodeclaim.consistency"

    def __init__(self, context: ControllerContext) -> None:
        self._context, self._cache, self._state = context, context.cache, context.state
        self._looked: dict[str, float] = {}
        """By name of the claim when it was looked at last."""

    def watch(self, queue: WorkQueue) -> None:
        def changed_claim(change: Change[NodeClaim]) -> None:
            if change.after is None:
                queue.forget(change.name)
                self._looked.pop(change.name, None)
            elif is_initialized(change.after) and not is_initialized(change.before):
                queue.add(change.name)

        def changed_node(change: Change[Node]) -> None:
            before, after = change.before, change.after
            is_known = before is not None and after is not None
            if is_known and _capacity(before) != _capacity(after):
                for claim in self._state.claims_of_node(change.object):
                    queue.add(claim.metadata.name)

        self._cache.subscribe(NodeClaim, changed_claim)
        self._cache.subscribe(Node, changed_node)

    async def reconcile(self, key: Key) -> Result:
        claim = self._cache.get(NodeClaim, key)
        if claim is None or not is_ours(claim.spec.nodeClassRef):
            return DONE
        nodes = self._state.nodes_of_claim(claim)
        if claim.metadata.deletionTimestamp or not is_initialized(claim) or len(nodes) != 1:
            return DONE
        now = self._context.clock.now()
        left = self._looked.get(key, -PERIOD) + PERIOD - now
        if left > 0:
            return Again(left)
        self._looked[key] = now
        try:
            return await self._check(claim, nodes[0])
        except ConflictError:
            del self._looked[key]
            return AFTER_CONFLICT

    async def _check(self, claim: NodeClaim, node: Node) -> Result:
        conditions = ConditionSet(
            (claim.status or NodeClaimStatus()).conditions,
            now=self._context.clock.now(),
            generation=claim.metadata.generation,
        )
        problems = set_consistent_state(conditions, claim, node)
        await write_claim_conditions(self._cache, claim, conditions)
        if not problems:
            return DONE  # only a change of the node can make it otherwise
        await self._context.events.warn(claim, "FailedConsistencyCheck", problems)
        return Again(PERIOD)


def set_consistent_state(conditions: ConditionSet, claim: NodeClaim, node: Node) -> str:
    """What the node lacks; empty if nothing."""
    problems = "; ".join(_shortfalls(claim, node))
    if problems:
        conditions.set(condition.CONSISTENT_STATE_FOUND, condition.FALSE, FAILED, problems)
    else:
        conditions.set(condition.CONSISTENT_STATE_FOUND, condition.TRUE)
    return problems


def _shortfalls(claim: NodeClaim, node: Node) -> Iterator[str]:
    """Of what the claim requests; the rest of the node is nobody's expectation."""
    requests = claim.spec.resources.requests if claim.spec.resources is not None else None
    expected = translate_capacity((claim.status or NodeClaimStatus()).capacity)
    found = translate_capacity(node.status.capacity)
    for name, amount in translate_requests(requests).items():
        wanted, has = expected.get(name, 0), found.get(name, 0)
        if amount and wanted and has < LEAST_SHARE * wanted:
            share = f"{100 * has / wanted:.1f}%"
            texts = format_quantity(name, wanted), format_quantity(name, has)
            yield f"expected {texts[0]} of resource {name}, but found {texts[1]} ({share})"


def _capacity(node: Node | None) -> object:
    return None if node is None else node.status.capacity
