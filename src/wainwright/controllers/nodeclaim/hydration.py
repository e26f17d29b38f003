"""Hydration: NodeClaims and Nodes made by older versions, or by others, get what new ones have."""

from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.kubernetes.cluster import Node
from wainwright.controllers.context import ControllerContext
from wainwright.controllers.informer_cache import Change
from wainwright.controllers.live_state import is_ours
from wainwright.controllers.runtime import DONE, Key, Result, WorkQueue
from wainwright.translate.node_claim_pairing import NodeWithClaim


class Hydration:
    """Adds the label of the node class, by which pods select and people search."""

    name = "nodeclaim.hydration"

    def __init__(self, context: ControllerContext) -> None:
        self._cache, self._state = context.cache, context.state

    def watch(self, queue: WorkQueue) -> None:
        def changed_claim(change: Change[NodeClaim]) -> None:
            claim = change.after
            if claim is not None and not _has_label(claim, claim):
                queue.add(change.name)

        def changed_node(change: Change[Node]) -> None:
            for claim in () if change.after is None else self._state.claims_of_node(change.after):
                if not _has_label(change.after, claim):
                    queue.add(claim.metadata.name)

        self._cache.subscribe(NodeClaim, changed_claim)
        self._cache.subscribe(Node, changed_node)

    async def reconcile(self, key: Key) -> Result:
        claim = self._cache.get(NodeClaim, key)
        if claim is None or not is_ours(claim.spec.nodeClassRef):
            return DONE
        added = {"metadata": {"labels": _class_label(claim)}}
        if not _has_label(claim, claim):
            claim = await self._cache.patch(claim, added)
        for node in self._state.nodes_of_claim(claim):
            is_registered = NodeWithClaim(node=node, claim=claim).is_registered
            if is_registered and not _has_label(node, claim):
                await self._cache.patch(node, added)
        return DONE


def _class_label(claim: NodeClaim) -> dict[str, str]:
    reference = claim.spec.nodeClassRef
    return {f"{reference.group}/{reference.kind.lower()}": reference.name}


def _has_label(obj: Node | NodeClaim | None, claim: NodeClaim) -> bool:
    labels = {} if obj is None else obj.metadata.labels or {}
    return all(key in labels for key in _class_label(claim))
