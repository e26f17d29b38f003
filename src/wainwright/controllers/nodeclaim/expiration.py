"""Expiration: NodeClaims that have reached their expireAfter are deleted, whatever budgets say."""

from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.controllers.context import ControllerContext
from wainwright.controllers.informer_cache import Change
from wainwright.controllers.live_state import is_ours
from wainwright.controllers.nodeclaim.claim_deletion import delete_claim
from wainwright.controllers.runtime import DONE, Again, Key, Result, WorkQueue
from wainwright.translate.disruption import parse_duration
from wainwright.translate.object_metadata import parse_timestamp


class Expiration:
    name = "nodeclaim.expiration"

    def __init__(self, context: ControllerContext) -> None:
        self._context, self._cache = context, context.cache

    def watch(self, queue: WorkQueue) -> None:
        def changed_claim(change: Change[NodeClaim]) -> None:
            if change.before is None:  # nothing that it depends on changes later
                queue.add(change.name)
            elif change.after is None:
                queue.forget(change.name)

        self._cache.subscribe(NodeClaim, changed_claim)

    async def reconcile(self, key: Key) -> Result:
        claim = self._cache.get(NodeClaim, key)
        if claim is None or claim.metadata.deletionTimestamp:
            return DONE
        age = parse_duration(claim.spec.expireAfter)
        created = parse_timestamp(claim.metadata.creationTimestamp)
        if age is None or created is None or not is_ours(claim.spec.nodeClassRef):
            return DONE
        left = created + age - self._context.clock.now()
        if left > 0:
            return Again(left)
        await delete_claim(self._context, claim, "expired")
        return DONE
