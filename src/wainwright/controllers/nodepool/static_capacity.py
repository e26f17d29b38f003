"""Static NodePools: as many nodes as `replicas` says, whatever pods need.

What is lacking is launched from the template as it stands. What is too much goes in the order in
which it does least harm; budgets and PodDisruptionBudgets are not asked, as somebody has decided.
"""

import logging
from collections.abc import Awaitable, Sequence
from typing import Final

import msgspec

from wainwright.api.karpenter.nodeclaim import NodeClaim, NodeClaimStatus
from wainwright.api.karpenter.nodepool import NodePool
from wainwright.controllers import conditions as condition
from wainwright.controllers.context import ControllerContext
from wainwright.controllers.informer_cache import Change, InformerCache
from wainwright.controllers.live_state import is_ours
from wainwright.controllers.nodeclaim.claim_creation import STATIC_REASON, ClaimCreator
from wainwright.controllers.nodeclass.declared_objects import DeclaredObjectsTracker
from wainwright.controllers.nodepool.registration_health import find_condition
from wainwright.controllers.runtime import DONE, Again, Key, Poll, Result, WorkQueue
from wainwright.core.disruption.candidates import is_protected
from wainwright.core.disruption.disruption_cost import evictions_cost, remaining_lifetime
from wainwright.core.launch.claims_within_limits import claims_within_limits
from wainwright.core.static_capacity import new_node_requests, plan_more_nodes
from wainwright.model.resources import Resources
from wainwright.model.snapshot import NODES_LIMIT
from wainwright.translate.node_claim_pairing import pool_of_claim
from wainwright.translate.resources import translate_capacity

LOG: Final = logging.getLogger(__name__)

SYNC_POLL: Final = 1.0  # seconds
FULL_POLL: Final = 30.0
"""Seconds until a NodePool that is at its limit is looked at again."""
PERIOD: Final = 60.0


class StaticPoolClaims(msgspec.Struct, frozen=True, kw_only=True):
    """The NodeClaims of a static NodePool."""

    running: tuple[NodeClaim, ...]
    replaced: int
    """Those that a disruption command replaces: their replacements are among the running."""
    deleting: int

    @property
    def total(self) -> int:
        return len(self.running) + self.replaced + self.deleting


class ClaimCounter:
    def __init__(self, cache: InformerCache) -> None:
        self._by_pool = cache.index(NodeClaim, lambda claim: pool_of_claim(claim) or "")

    def of(self, pool: str) -> StaticPoolClaims:
        claims = self._by_pool.get(pool)
        left = [each for each in claims if not each.metadata.deletionTimestamp]
        running = tuple(each for each in left if not _is_replaced(each))
        return StaticPoolClaims(
            running=running,
            replaced=len(left) - len(running),
            deleting=len(claims) - len(left),
        )


class NodeCountReservations:
    """Nodes that are about to be created: no two decisions may use the same room."""

    def __init__(self) -> None:
        self._reserved: dict[str, int] = {}

    def reserve(self, pool: str, wanted: int, room: int | None) -> int:
        """How many of the wanted may be created; `room` is what the limit leaves, None if there
        is no limit."""
        reserved = self._reserved.get(pool, 0)
        granted = max(0, wanted if room is None else min(wanted, room - reserved))
        if granted:
            self._reserved[pool] = reserved + granted
        return granted

    def release(self, pool: str, count: int) -> None:
        """More than was taken leaves none."""
        left = self._reserved.pop(pool, 0) - count
        if left > 0:
            self._reserved[pool] = left

    def reserved(self, pool: str) -> int:
        return self._reserved.get(pool, 0)


class StaticProvisioning:
    name = "static.provisioning"

    def __init__(
        self, context: ControllerContext, declared: DeclaredObjectsTracker, creator: ClaimCreator
    ) -> None:
        self._context, self._declared, self._creator = context, declared, creator
        self._cache, self._state = context.cache, context.state
        self._claims = ClaimCounter(context.cache)
        self._reservations = NodeCountReservations()

    def watch(self, queue: WorkQueue) -> None:
        def changed_pool(change: Change[NodePool]) -> None:
            if change.is_of_spec or (_is_ready(change.after) and not _is_ready(change.before)):
                queue.add(change.name)

        def changed_claim(change: Change[NodeClaim]) -> None:
            if _is_leaving(change.after) and not _is_leaving(change.before):
                queue.add(pool_of_claim(change.object) or "")

        self._cache.subscribe(NodePool, changed_pool)
        self._cache.subscribe(NodeClaim, changed_claim)

    async def reconcile(self, key: Key) -> Result:
        pool = self._cache.get(NodePool, key)
        if pool is None or not _is_static(pool) or not _is_ready(pool):
            return DONE
        if not self._state.is_synced:
            return Again(SYNC_POLL)
        if self._context.settings.plan_options.cluster_limits.amounts:
            return await self._provision_within_limits(pool)
        requests = await self._requests(pool)
        granted = self._reserve(pool)
        try:
            made = [self._creator.create_static(pool, requests) for _ in range(granted)]
            await self._create(key, made)
        finally:
            self._reservations.release(key, granted)
        return Poll(PERIOD if granted else FULL_POLL)

    async def _provision_within_limits(self, pool: NodePool) -> Result:
        """Nodes of those instance types that the limits of the cluster leave room for, as a plan
        for pods would launch them: the template as it stands may become any type.
        """
        name, creations = pool.metadata.name, self._creator.creations
        catalogs = await self._declared.catalogs()
        seen, snapshot = creations.seen(), self._state.snapshot(catalogs.values())
        if name not in catalogs:
            return Again(SYNC_POLL)
        indexes = {each: catalog.index for each, catalog in catalogs.items()}
        options, wanted = self._context.settings.plan_options, self._reserve(pool)
        try:
            claims = await self._context.compute(
                lambda: claims_within_limits(
                    plan_more_nodes(snapshot, indexes, options, name, wanted),
                    snapshot,
                    indexes,
                    options,
                )
            )
            if not creations.is_current(seen, [name]):
                return Again(SYNC_POLL)
            if len(claims) < wanted:
                LOG.info("%s: limits leave room for %d of %d nodes", name, len(claims), wanted)
            catalog, create = catalogs[name], self._creator.create
            await self._create(
                name, [create(each, catalog, reason=STATIC_REASON) for each in claims]
            )
        finally:
            self._reservations.release(name, wanted)
        return Poll(PERIOD if len(claims) == wanted else FULL_POLL)

    def _reserve(self, pool: NodePool) -> int:
        name, claims = pool.metadata.name, self._claims.of(pool.metadata.name)
        limit = translate_capacity(pool.spec.limits).get(NODES_LIMIT)
        under_way = self._reservations.reserved(name)
        wanted = (pool.spec.replicas or 0) - len(claims.running) - claims.replaced - under_way
        room = None if limit is None else limit - claims.total
        return self._reservations.reserve(name, wanted, room)

    async def _requests(self, pool: NodePool) -> Resources:
        """What DaemonSets need of each node; nothing where no node can be launched now."""
        name = pool.metadata.name
        if len(self._claims.of(name).running) >= (pool.spec.replicas or 0):
            return {}
        catalogs = await self._declared.catalogs()
        indexes = {each: catalog.index for each, catalog in catalogs.items()}
        snapshot = self._state.snapshot(catalogs.values())
        return new_node_requests(snapshot, indexes, self._context.settings.plan_options, name)

    async def _create(self, name: str, creations: Sequence[Awaitable[NodeClaim]]) -> None:
        """All that can be created; an error if not all could."""
        pools = [name] if creations else []
        for result in await self._creator.creations.create_all(pools, creations):
            if isinstance(result, BaseException):
                raise result


class StaticDeprovisioning:
    name = "static.deprovisioning"

    def __init__(self, context: ControllerContext) -> None:
        self._context, self._cache, self._state = context, context.cache, context.state
        self._claims = ClaimCounter(context.cache)

    def watch(self, queue: WorkQueue) -> None:
        def changed_pool(change: Change[NodePool]) -> None:
            if change.is_of_spec:
                queue.add(change.name)

        def changed_claim(change: Change[NodeClaim]) -> None:
            before, after = change.before, change.after
            if after is not None and (before is None or _is_replaced(before)):
                queue.add(pool_of_claim(after) or "")

        self._cache.subscribe(NodePool, changed_pool)
        self._cache.subscribe(NodeClaim, changed_claim)

    async def reconcile(self, key: Key) -> Result:
        pool = self._cache.get(NodePool, key)
        if pool is None or not _is_static(pool):
            return DONE
        running = self._claims.of(key).running
        excess = len(running) - (pool.spec.replicas or 0)
        if excess > 0:
            for claim in self._in_order_of_going(running)[:excess]:
                await self._cache.delete(claim)
        return Poll(PERIOD)

    def _in_order_of_going(self, claims: tuple[NodeClaim, ...]) -> list[NodeClaim]:
        nodes = {
            node.claim.name: node for node in self._state.snapshot().nodes if node.claim is not None
        }
        now = self._context.clock.now()

        def rank(claim: NodeClaim) -> tuple[int, float, str]:
            name, node = claim.metadata.name, nodes.get(claim.metadata.name)
            if node is None or not (claim.status or NodeClaimStatus()).providerID:
                return 0, 0.0, name
            if any(is_protected(pod, now)[0] for pod in node.pods):
                return 3, 0.0, name
            if all(pod.daemonset for pod in node.pods):
                return 1, 0.0, name
            return 2, evictions_cost(node.pods) * remaining_lifetime(node, now), name

        return sorted(claims, key=rank)


def _is_static(pool: NodePool) -> bool:
    is_kept = not pool.metadata.deletionTimestamp and pool.spec.replicas is not None
    return is_kept and is_ours(pool.spec.template.spec.nodeClassRef)


def _is_ready(pool: NodePool | None) -> bool:
    found = None if pool is None else find_condition(pool, condition.READY)
    return found is not None and found.status == condition.TRUE


def _is_leaving(claim: NodeClaim | None) -> bool:
    return claim is None or claim.metadata.deletionTimestamp is not None


def _is_replaced(claim: NodeClaim) -> bool:
    found = find_condition(claim, condition.DISRUPTION_REASON)
    return found is not None and found.status == condition.TRUE
