"""What keeps the cloud provider and the cloud in order: prices and types that are due, instances
that belong to no NodeClaim, NodeClaims whose instance is gone.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Final, TypeVar

from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.kubernetes.cluster import Node
from wainwright.controllers import conditions as condition
from wainwright.controllers.conditions import claim_conditions, status_of
from wainwright.controllers.context import ControllerContext
from wainwright.controllers.live_state import is_ours
from wainwright.controllers.nodeclaim.claim_deletion import delete_claim
from wainwright.controllers.nodeclaim.node_registration import is_ready
from wainwright.controllers.runtime import (
    ACCOUNT,
    INSTANCES,
    WHOLE_CLUSTER,
    Again,
    Key,
    Poll,
    Result,
    WorkQueue,
    existence_of,
)
from wainwright.errors import InstanceNotFoundError
from wainwright.model.labels import NODEPOOL
from wainwright.model.node_claim import Instance
from wainwright.translate.nodeclaims import translate_node_claim

REFRESH_DEPENDS_ON: Final = {ACCOUNT: 0.0}
GARBAGE_PERIOD: Final = 120.0
GARBAGE_DEPENDS_ON: Final = dict.fromkeys(
    (INSTANCES, existence_of("NodeClaim"), existence_of("Node"), "Node"), 2 * GARBAGE_PERIOD
)
"""Young instances are left for later."""
GARBAGE_WORKERS: Final = 20
"""Objects that are deleted at the same time."""
ENDING_STATES: Final = ("shutting-down", "terminated")
SYNC_POLL: Final = 1.0

Subject = TypeVar("Subject")


class CloudRefresh:
    """Has the provider refresh what is due."""

    name = "cloud.refresh"

    def __init__(self, context: ControllerContext) -> None:
        self._context, self._cloud = context, context.cloud

    def watch(self, queue: WorkQueue) -> None:
        queue.add(WHOLE_CLUSTER)

    async def reconcile(self, _: Key) -> Result:
        refreshed = await self._cloud.refresh()
        if refreshed.is_changed:
            self._context.learnt()
        left = max(refreshed.due - self._context.clock.now(), SYNC_POLL)
        if not refreshed.is_complete:
            return Again(left)
        return Poll(left, depends_on=REFRESH_DEPENDS_ON)


class GarbageCollection:
    """Instances without a claim are terminated; claims without an instance are deleted, and so are
    Nodes without either: those that join when their claim has just been given up.
    """

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
        await self._for_each(self._terminate, filter(self._is_unnamed, garbage.instances))
        await self._for_each(self._delete_lost, await self._lost_claims(claims))
        unclaimed = [*filter(self._is_unclaimed, self._cache.all(Node))]
        await self._for_each(self._delete_if_gone, unclaimed)
        due = None if garbage.is_complete else self._context.clock.now() + GARBAGE_PERIOD
        return Poll(GARBAGE_PERIOD, due=due, depends_on=GARBAGE_DEPENDS_ON)

    async def _for_each(
        self, action: Callable[[Subject], Awaitable[None]], subjects: Iterable[Subject]
    ) -> None:
        """All of them, a few at a time; the first error is raised once all were tried."""
        free = asyncio.Semaphore(GARBAGE_WORKERS)

        async def limited(subject: Subject) -> None:
            async with free:
                await action(subject)

        outcomes = await asyncio.gather(*map(limited, subjects), return_exceptions=True)
        for error in filter(None, outcomes):
            raise error

    def _is_unnamed(self, instance: Instance) -> bool:
        """An instance that a claim of another provider names is theirs, whatever its tags say."""
        return not self._state.claims_by_provider_id.get(instance.provider_id)

    async def _terminate(self, instance: Instance) -> None:
        """The node goes with it: nothing will answer for it any more."""
        with suppress(InstanceNotFoundError):
            await self._cloud.terminate(instance.id)
        for node in self._state.nodes_by_provider_id.get(instance.provider_id):
            await self._cache.delete(node)

    async def _lost_claims(self, claims: list[NodeClaim]) -> list[NodeClaim]:
        """Those whose instance is gone, or going."""
        silent = [claim for claim in claims if self._is_silent(claim)]
        if not silent:
            return []  # as almost always: the cloud need not be asked
        existing = {
            each.provider_id
            for each in await self._cloud.instances()
            if each.state not in ENDING_STATES
        }
        return [
            claim
            for claim in silent
            if status_of(claim).providerID not in existing and self._is_silent(claim)
        ]

    async def _delete_if_gone(self, node: Node) -> None:
        try:
            await self._cloud.instance(node.spec.providerID.rpartition("/")[2])
        except InstanceNotFoundError:
            if self._is_unclaimed(node):  # the cloud took its time
                await self._cache.delete(node)

    def _is_unclaimed(self, node: Node) -> bool:
        """Whether it is an instance of a NodePool, and no NodeClaim has it."""
        return (
            NODEPOOL in (node.metadata.labels or {})
            and bool(node.spec.providerID)
            and node.metadata.deletionTimestamp is None
            and not self._state.claims_of_node(node)
        )

    async def _delete_lost(self, claim: NodeClaim) -> None:
        latest = self._cache.get(NodeClaim, claim.metadata.name)  # the cloud took its time
        if latest is not None and latest.metadata.uid == claim.metadata.uid:
            await delete_claim(self._context, latest, "garbage_collected")

    def _is_silent(self, claim: NodeClaim) -> bool:
        """Whether nothing but the cloud could say that it is alive."""
        conditions = claim_conditions(claim, self._context.clock.now())
        if claim.metadata.deletionTimestamp or not conditions.is_true(condition.REGISTERED):
            return False
        return not any(is_ready(node) for node in self._state.nodes_of_claim(claim))
