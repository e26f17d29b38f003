"""What the nodes of each NodePool add up to, in its status and as metrics."""

from typing import Any, Final

from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.karpenter.nodepool import NodePool, NodePoolStatus
from wainwright.api.kubernetes.cluster import Node
from wainwright.controllers.context import ControllerContext
from wainwright.controllers.informer_cache import Change
from wainwright.controllers.live_state import LiveState, is_ours
from wainwright.controllers.runtime import DONE, Again, Key, Result, WorkQueue
from wainwright.metrics import NODEPOOL_LIMIT, NODEPOOL_USAGE, resource_type
from wainwright.model.resources import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    PODS,
    Resources,
    format_quantity,
    in_units,
    sort_resources,
)
from wainwright.model.snapshot import NODES_LIMIT
from wainwright.translate.node_claim_pairing import NodeWithClaim
from wainwright.translate.resources import translate_capacity

COUNT_PERIOD: Final = 5.0
"""Seconds between two writes of one NodePool's status at least."""
SYNC_POLL: Final = 1.0
ALWAYS_SHOWN: Final = (CPU, MEMORY, PODS, EPHEMERAL_STORAGE, NODES_LIMIT)
"""Written as 0 where a NodePool has none."""


class PoolUsage:
    """The capacity of the nodes of each NodePool, added up as they come, change and go.

    An instance counts once: by its NodeClaim until its Node is initialized, then by the Node. One
    that is being deleted counts no more, so that what replaces it may be launched.
    """

    def __init__(self, state: LiveState) -> None:
        self._state = state
        self._instances: dict[str, tuple[str, Resources]] = {}
        self._totals: dict[str, dict[str, int]] = {}

    def total(self, pool: str) -> Resources:
        return self._totals.get(pool, {})

    @property
    def nodes(self) -> int:
        """Nodes of all pools that are not being deleted."""
        return len(self._instances)

    def update_claim(self, change: Change[NodeClaim]) -> list[str]:
        """The NodePools whose totals have changed."""
        before, after = _provider_id(change.before), _provider_id(change.after)
        is_launching = change.after is not None and not after
        launching = NodeWithClaim(claim=change.after) if is_launching else None
        changed = self._put(f"claim {change.name}", launching)
        for provider_id in dict.fromkeys((before, after)):
            changed += self._update_instance(provider_id) if provider_id else []
        return changed

    def update_node(self, change: Change[Node]) -> list[str]:
        """A node without provider id cannot be told from the claim that it belongs to."""
        before, after = change.before, change.after
        if before is not None and after is not None and _counts(before) == _counts(after):
            return []
        stated = (each.spec.providerID for each in (before, after) if each is not None)
        changed = (self._update_instance(each) for each in dict.fromkeys(stated) if each)
        return [pool for pools in changed for pool in pools]

    def _update_instance(self, provider_id: str) -> list[str]:
        nodes = self._state.nodes_by_provider_id.get(provider_id)
        claims = self._state.claims_by_provider_id.get(provider_id)
        if not nodes and not claims:
            return self._put(provider_id, None)
        paired = NodeWithClaim(
            node=nodes[0] if nodes else None, claim=claims[0] if claims else None
        )
        return self._put(provider_id, paired)

    def _put(self, key: str, paired: NodeWithClaim | None) -> list[str]:
        before = self._instances.pop(key, None)
        if paired is not None and paired.pool and not paired.is_deleting:
            self._instances[key] = paired.pool, {**paired.capacity, NODES_LIMIT: 1}
        after = self._instances.get(key)
        if before == after:
            return []
        if before is not None:
            self._add(*before, sign=-1)
        if after is not None:
            self._add(*after)
        return [each[0] for each in (before, after) if each is not None]

    def _add(self, pool: str, amounts: Resources, *, sign: int = 1) -> None:
        total = self._totals.setdefault(pool, {})
        for name, amount in amounts.items():
            left = total.pop(name, 0) + sign * amount
            if left:
                total[name] = left
        if not total:
            del self._totals[pool]


class NodePoolCounter:
    name = "nodepool.counter"

    def __init__(self, context: ControllerContext) -> None:
        self._context, self._cache, self._state = context, context.cache, context.state
        self._usage = PoolUsage(context.state)
        self._written: dict[str, float] = {}
        """By NodePool when its status was written last."""
        self._measured: dict[str, tuple[Resources, Resources]] = {}
        """By NodePool the usage and limits that the metrics have."""

    def watch(self, queue: WorkQueue) -> None:
        def changed_claim(change: Change[NodeClaim]) -> None:
            _add_all(queue, self._usage.update_claim(change))

        def changed_node(change: Change[Node]) -> None:
            _add_all(queue, self._usage.update_node(change))

        def changed_pool(change: Change[NodePool]) -> None:
            before, after = change.before, change.after
            if before is None or after is None or _relevant(before) != _relevant(after):
                queue.add(change.name)

        self._cache.subscribe(NodeClaim, changed_claim)
        self._cache.subscribe(Node, changed_node)
        self._cache.subscribe(NodePool, changed_pool)

    async def reconcile(self, key: Key) -> Result:
        pool = self._cache.get(NodePool, key)
        if pool is None or not is_ours(pool.spec.template.spec.nodeClassRef):
            self._written.pop(key, None)
            self._measure(key, {}, {})
            return DONE
        if not self._state.is_synced:
            return Again(SYNC_POLL)
        left = self._written.get(key, -COUNT_PERIOD) + COUNT_PERIOD - self._context.clock.now()
        if left > 0:
            return Again(left)
        await self._write(pool)
        return DONE

    async def _write(self, pool: NodePool) -> None:
        usage = {**dict.fromkeys(ALWAYS_SHOWN, 0), **self._usage.total(pool.metadata.name)}
        self._measure(pool.metadata.name, usage, translate_capacity(pool.spec.limits))
        patch = _patch(pool.status or NodePoolStatus(), usage)
        if patch:
            await self._cache.patch_status(pool, patch, any_version=True)
            self._written[pool.metadata.name] = self._context.clock.now()

    def _measure(self, pool: str, usage: Resources, limits: Resources) -> None:
        metrics, known = self._context.metrics, self._measured.get(pool, ({}, {}))
        for metric, before, after in (
            (NODEPOOL_USAGE, known[0], usage),
            (NODEPOOL_LIMIT, known[1], limits),
        ):
            for name in before.keys() - after.keys():
                metrics.remove(metric, nodepool=pool, resource_type=resource_type(name))
            for name, amount in after.items():
                labels = {"nodepool": pool, "resource_type": resource_type(name)}
                metrics.set(metric, in_units(name, amount), **labels)
        self._measured[pool] = usage, limits
        if not usage:
            del self._measured[pool]


def _provider_id(claim: NodeClaim | None) -> str:
    status = None if claim is None else claim.status
    return "" if status is None else status.providerID


def _counts(node: Node) -> object:
    """What its part of the total depends on: kubelets write the rest all the time."""
    metadata = node.metadata
    return metadata.labels, metadata.deletionTimestamp, node.spec, node.status.capacity


def _patch(status: NodePoolStatus, usage: Resources) -> dict[str, Any]:
    written = status.resources or {}
    wanted = {name: format_quantity(name, usage[name]) for name in sort_resources(usage)}
    patch: dict[str, Any] = {}
    if {name: str(amount) for name, amount in written.items()} != wanted:
        patch["resources"] = {**dict.fromkeys(written.keys() - wanted.keys()), **wanted}
    if status.nodes != usage[NODES_LIMIT]:
        patch["nodes"] = usage[NODES_LIMIT]
    return patch


def _add_all(queue: WorkQueue, pools: list[str]) -> None:
    for pool in pools:
        queue.add(pool)


def _relevant(pool: NodePool) -> object:
    status = pool.status or NodePoolStatus()
    return pool.metadata.uid, pool.metadata.generation, status.resources, status.nodes
