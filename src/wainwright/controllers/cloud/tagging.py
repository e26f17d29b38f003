"""Tags of instances: Name and NodeClaim are known only when the node has joined."""

from typing import Final

from wainwright.api.karpenter.nodeclaim import NodeClaim, NodeClaimStatus
from wainwright.controllers.context import ControllerContext
from wainwright.controllers.informer_cache import Change
from wainwright.controllers.live_state import is_ours
from wainwright.controllers.runtime import DONE, Key, Result, WorkQueue
from wainwright.errors import InstanceNotFoundError

TAGGED_ANNOTATION: Final = "karpenter.k8s.aws/tagged"


class InstanceTagging:
    """Tags each instance once; the annotation says so to the processes that come after."""

    name = "nodeclaim.tagging"

    def __init__(self, context: ControllerContext) -> None:
        self._cache, self._cloud = context.cache, context.cloud

    def watch(self, queue: WorkQueue) -> None:
        def changed_claim(change: Change[NodeClaim]) -> None:
            if change.after is None:
                queue.forget(change.name)
            elif _is_to_be_tagged(change.after):
                queue.add(change.name)

        self._cache.subscribe(NodeClaim, changed_claim)

    async def reconcile(self, key: Key) -> Result:
        claim = self._cache.get(NodeClaim, key)
        if claim is None or not _is_to_be_tagged(claim):
            return DONE
        status = claim.status or NodeClaimStatus()
        instance = status.providerID.rpartition("/")[2]
        try:
            await self._cloud.tag(instance, node=status.nodeName, claim=claim.metadata.name)
        except InstanceNotFoundError:
            return DONE
        await self._cache.patch(claim, {"metadata": {"annotations": {TAGGED_ANNOTATION: "true"}}})
        return DONE


def _is_to_be_tagged(claim: NodeClaim) -> bool:
    status = claim.status or NodeClaimStatus()
    return (
        bool(status.providerID and status.nodeName)
        and claim.metadata.deletionTimestamp is None
        and TAGGED_ANNOTATION not in (claim.metadata.annotations or {})
        and is_ours(claim.spec.nodeClassRef)
    )
