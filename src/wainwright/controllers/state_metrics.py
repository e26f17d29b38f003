"""Metrics of the state that decisions are made on: how much is known, and whether it is in sync."""

from typing import Final

from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.kubernetes.cluster import Node
from wainwright.controllers.cluster_cache import Change
from wainwright.controllers.context import ControllerContext
from wainwright.controllers.nodepool.nodepool_counter import PoolUsage
from wainwright.controllers.runtime import DONE, WHOLE_CLUSTER, Again, Key, Result, WorkQueue
from wainwright.metrics import STATE_NODES, STATE_SYNCED, STATE_UNSYNCED_SECONDS

UNSYNCED_POLL: Final = 1.0  # seconds


class StateMetrics:
    name = "state.metrics"

    def __init__(self, context: ControllerContext) -> None:
        self._context, self._cache, self._state = context, context.cache, context.state
        self._usage = PoolUsage(context.state)
        self._unsynced_since: float | None = None

    def watch(self, queue: WorkQueue) -> None:
        def changed_claim(change: Change[NodeClaim]) -> None:
            self._usage.update_claim(change)
            self._look(queue)

        def changed_node(change: Change[Node]) -> None:
            if self._usage.update_node(change):
                self._look(queue)

        self._cache.subscribe(NodeClaim, changed_claim)
        self._cache.subscribe(Node, changed_node)
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
        return DONE if is_synced else Again(UNSYNCED_POLL)

    def _look(self, queue: WorkQueue) -> None:
        value = self._context.metrics.value
        is_counted = value(STATE_NODES) == self._usage.nodes
        if not is_counted or bool(value(STATE_SYNCED)) != self._state.is_synced:
            queue.add(WHOLE_CLUSTER)
