"""What keeps the cloud provider and the cloud in order: prices and types that are due, instances
that belong to no NodeClaim, NodeClaims whose instance is gone.
"""

import asyncio
from contextlib import suppress
from typing import Final

from wainwright.api.karpenter.nodeclaim import NodeClaim, NodeClaimStatus
from wainwright.api.wire import Condition
from wainwright.controllers import conditions as condition
from wainwright.controllers.context import ControllerContext
from wainwright.controllers.live_state import is_ours
from wainwright.controllers.node_registration import is_ready
from wainwright.controllers.runtime import WHOLE_CLUSTER, Again, Key, Poll, Result, WorkQueue
from wainwright.errors import InstanceNotFoundError
from wainwright.metrics import NODECLAIMS_DISRUPTED
from wainwright.model.labels import CAPACITY_TYPE, NODEPOOL
from wainwright.translate.nodeclaims import translate_node_claim

REFRESH_PERIOD: Final = 60.0  # seconds
GARBAGE_PERIOD: Final = 120.0
SYNC_POLL: Final = 1.0


class CloudRefresh:
    """Has the provider refresh what is due."""

    name = "cloud.refresh"

    def __init__(self, context: ControllerContext) -> None:
        self._cloud = context.cloud

    def watch(self, queue: WorkQueue) -> None:
        queue.add(WHOLE_CLUSTER)

    async def reconcile(self, _: Key) -> Result:
        await self._cloud.refresh()
        return Poll(REFRESH_PERIOD)


class GarbageCollection:
    """Instances without a claim are terminated; claims without an instance are deleted."""

    name = "nodeclaim.garbagecollection"

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._cache, self._state, self._cloud = context.cache, context.state, context.cloud

    def watch(self, queue: WorkQueue) -> None:
        queue.add(WHOLE_CLUSTER)

    async def reconcile(self, _: Key) -> Result:
        if not self._cache.is_listed:
            return Again(SYNC_POLL)
        claims = [each for each in self._cache.all(NodeClaim) if is_ours(each.spec.nodeClassRef)]
        garbage = await self._cloud.find_garbage(map(translate_node_claim, claims))
        await asyncio.gather(*(self._terminate(instance.id) for instance in garbage))
        await self._delete_claims_without_instance(claims)
        return Poll(GARBAGE_PERIOD)

    async def _terminate(self, instance: str) -> None:
        with suppress(InstanceNotFoundError):
            await self._cloud.terminate(instance)

    async def _delete_claims_without_instance(self, claims: list[NodeClaim]) -> None:
        existing = {each.provider_id for each in await self._cloud.instances()}
        for claim in claims:
            if self._is_lost(claim) and _provider_id(claim) not in existing:
                await self._cache.delete(claim)
                labels = claim.metadata.labels or {}
                self._context.metrics.add(
                    NODECLAIMS_DISRUPTED,
                    reason="garbage_collected",
                    nodepool=labels.get(NODEPOOL, ""),
                    capacity_type=labels.get(CAPACITY_TYPE, ""),
                )

    def _is_lost(self, claim: NodeClaim) -> bool:
        """Whether nothing but the cloud could say that it is alive."""
        stated = {each.type: each.status for each in _conditions(claim)}
        if claim.metadata.deletionTimestamp or stated.get(condition.REGISTERED) != condition.TRUE:
            return False
        return not any(is_ready(node) for node in self._state.nodes_of_claim(claim))


def _provider_id(claim: NodeClaim) -> str:
    return (claim.status or NodeClaimStatus()).providerID


def _conditions(claim: NodeClaim) -> list[Condition]:
    return list((claim.status or NodeClaimStatus()).conditions or ())
