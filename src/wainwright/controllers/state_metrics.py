"""Metrics of the state that decisions are made on: how much is known, whether it is in sync, what
the nodes of each NodePool cost, and what there is to be launched.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.kubernetes.cluster import Node
from wainwright.controllers.context import ControllerContext
from wainwright.controllers.informer_cache import Change
from wainwright.controllers.nodeclass.declared_objects import DeclaredObjectsTracker
from wainwright.controllers.nodepool.nodepool_counter import PoolUsage
from wainwright.controllers.runtime import (
    CATALOG,
    WHOLE_CLUSTER,
    Again,
    Key,
    Poll,
    Result,
    WorkQueue,
    existence_of,
)
from wainwright.metrics import (
    NODEPOOL_COST,
    NODEPOOL_COST_ERRORS,
    OFFERING_AVAILABLE,
    OFFERING_PRICE,
    STATE_NODES,
    STATE_SYNCED,
    STATE_UNSYNCED_SECONDS,
    TYPE_CPU_CORES,
    TYPE_MEMORY_BYTES,
    Sample,
)
from wainwright.model.instance_type import InstanceType, Offering
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.labels import INSTANCE_TYPE
from wainwright.model.requirements import Requirements
from wainwright.model.resources import CPU, MEMORY, in_units
from wainwright.model.snapshot import find_offering

UNSYNCED_POLL: Final = 1.0  # seconds
COST_PERIOD: Final = 60.0
COST_DEPENDS_ON: Final = dict.fromkeys(
    (
        *("Node", "NodePool", "EC2NodeClass", "NodeOverlay", "InstanceType", CATALOG),
        *map(existence_of, ("Node", "NodeClaim", "NodePool", "NodeOverlay", "InstanceType")),
    ),
    0.0,
)


class StateMetrics:
    name = "state.metrics"

    def __init__(self, context: ControllerContext, declared: DeclaredObjectsTracker) -> None:
        self._context, self._cache, self._state = context, context.cache, context.state
        self._declared = declared
        self._priced: frozenset[str] = frozenset()
        """The NodePools that have a cost."""
        self._usage = PoolUsage(context.state)
        self._unsynced_since: float | None = None
        self._offered: list[tuple[InstanceTypeIndex, Requirements]] = []
        """What each NodePool can launch, of the last time the cost was measured."""

    def watch(self, queue: WorkQueue) -> None:
        def changed_claim(change: Change[NodeClaim]) -> None:
            self._usage.update_claim(change)
            self._look(queue)

        def changed_node(change: Change[Node]) -> None:
            if self._usage.update_node(change):
                self._look(queue)

        self._cache.subscribe(NodeClaim, changed_claim)
        self._cache.subscribe(Node, changed_node)
        if self._context.settings.cluster_state_observability:
            self._context.metrics.add_collector(self._collect_offerings)
        queue.add(WHOLE_CLUSTER)

    async def reconcile(self, _: Key) -> Result:
        now, metrics = self._context.clock.now(), self._context.metrics
        is_synced = self._state.is_synced
        if is_synced:
            self._unsynced_since = None
        elif self._unsynced_since is None:
            self._unsynced_since = now
        since = now if self._unsynced_since is None else self._unsynced_since
        metrics.set(STATE_NODES, self._usage.nodes)
        metrics.set(STATE_SYNCED, int(is_synced))
        metrics.set(STATE_UNSYNCED_SECONDS, now - since)
        if not is_synced:
            return Again(UNSYNCED_POLL)
        await self._measure_cost()
        return Poll(COST_PERIOD, depends_on=COST_DEPENDS_ON)

    async def _measure_cost(self) -> None:
        """At the prices in effect now, overlays and InstanceTypes included."""
        catalogs, metrics = await self._declared.catalogs(), self._context.metrics
        costs = dict.fromkeys(catalogs, 0.0)
        await self._state.prepare_snapshot()
        snapshot = self._state.snapshot(catalogs.values())
        self._offered = [
            (catalogs[pool.name].index, pool.requirements)
            for pool in snapshot.pools
            if pool.name in catalogs
        ]
        for node in snapshot.nodes:
            pool = node.pool or ""
            if node.managed and pool in costs:
                found = catalogs[pool].index.find(node.labels.get(INSTANCE_TYPE, ""))
                offering = None if found is None else find_offering(node, found.offerings)
                costs[pool] += 0.0 if offering is None else offering.price
                if offering is None:
                    metrics.add(NODEPOOL_COST_ERRORS, nodepool=pool)
        for pool, cost in costs.items():
            metrics.set(NODEPOOL_COST, cost, nodepool=pool)
        for pool in self._priced.difference(costs):
            metrics.remove(NODEPOOL_COST, nodepool=pool)
        self._priced = frozenset(costs)

    def _collect_offerings(self) -> Iterator[Sample]:
        """An offering that several NodePools have counts once, at the lowest of their prices. Those
        that no NodePool can launch are left out: a region has more than ten thousand.
        """
        types: dict[str, InstanceType] = {}
        offered: dict[str, list[Offering]] = {}
        for index, wanted in [*self._offered]:
            for each in index.iter_types(index.compatible_types(wanted)):
                types.setdefault(each.name, each)
                offered.setdefault(each.name, []).extend(
                    offering
                    for offering in each.offerings
                    if wanted.is_compatible(offering.requirements, index.keys)
                )
        for name, offerings in offered.items():
            if offerings:
                yield from _samples_of(types[name], offerings)

    def _look(self, queue: WorkQueue) -> None:
        value = self._context.metrics.value
        is_counted = value(STATE_NODES) == self._usage.nodes
        if not is_counted or bool(value(STATE_SYNCED)) != self._state.is_synced:
            queue.add(WHOLE_CLUSTER)


def _samples_of(found: InstanceType, offerings: Iterable[Offering]) -> Iterator[Sample]:
    yield TYPE_CPU_CORES, (found.name,), in_units(CPU, found.capacity.get(CPU, 0))
    yield TYPE_MEMORY_BYTES, (found.name,), float(found.capacity.get(MEMORY, 0))
    for labels, (price, is_available) in _by_zone(offerings).items():
        yield OFFERING_PRICE, (found.name, *labels), price
        yield OFFERING_AVAILABLE, (found.name, *labels), float(is_available)


def _by_zone(offerings: Iterable[Offering]) -> dict[tuple[str, str], tuple[float, bool]]:
    """By capacity type and zone the lowest price, and whether any of them can be launched."""
    found: dict[tuple[str, str], tuple[float, bool]] = {}
    for each in offerings:
        key = each.capacity_type or "", each.zone or ""
        price, is_available = found.get(key, (each.price, False))
        found[key] = min(price, each.price), is_available or each.available > 0
    return found
