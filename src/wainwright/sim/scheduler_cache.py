"""The nodes of the simulated kube-scheduler with the pods on them, and its order of nodes."""

import heapq
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from wainwright.api.kubernetes.cluster import Namespace, Node
from wainwright.api.kubernetes.workloads import Pod, PodSpec
from wainwright.controllers.runtime import Key
from wainwright.sim.informers import Informers, key_of
from wainwright.sim.node_info import NodeInfo, PlacementNeeds, placement_spec
from wainwright.sim.node_matching import PREFER_NO_SCHEDULE
from wainwright.sim.scheduler_topology import CountedPod, TopologyCounts


class BoundPod(NamedTuple):
    """A pod that counts on a node."""

    counted: CountedPod
    needs: PlacementNeeds
    volumes: tuple[tuple[str, str], ...]


class SchedulerCache:
    """Nodes and the pods on them, with the log of their changes."""

    def __init__(self, informers: Informers) -> None:
        self.nodes: dict[str, NodeInfo] = {}
        self._bound: dict[Key, BoundPod] = {}
        self._log: list[tuple[str, bool]] = []
        self.log_start = 0
        self._needs: dict[bytes, PlacementNeeds] = {}
        self._needs_by_spec: dict[int, tuple[PodSpec, PlacementNeeds]] = {}
        self.topology = TopologyCounts(
            self.nodes,
            lambda: [each.counted for each in self._bound.values()],
            informers.of(Namespace).objects,
        )
        self.node_count = 0
        self.soft_tainted_nodes = 0

    @property
    def log_end(self) -> int:
        return self.log_start + len(self._log)

    def log_since(self, position: int) -> list[tuple[str, bool]]:
        return self._log[position - self.log_start :]

    def _changed(self, name: str, *, helps: bool) -> None:
        self._log.append((name, helps))
        if len(self._log) > 2 * len(self.nodes) + 2_000:
            half = len(self._log) // 2
            del self._log[:half]
            self.log_start += half

    def _node(self, name: str) -> NodeInfo:
        found = self.nodes.get(name)
        if found is None:
            found = self.nodes[name] = NodeInfo(name)
        return found

    def set_node(self, before: Node | None, after: Node | None) -> None:
        name = _required(before, after).metadata.name
        if before is not None and after is not None and _is_same_place(before, after):
            return
        info = self._node(name)
        self.node_count += (after is not None) - (info.node is not None)
        self.soft_tainted_nodes += _is_soft_tainted(after) - _is_soft_tainted(info.node)
        info.set_node(after)
        self.topology.set_node(info)
        if after is None and not info.pods:
            del self.nodes[name]
        self._changed(name, helps=True)

    def needs_of(self, spec: PodSpec) -> PlacementNeeds:
        """Shared by pods whose placement needs are the same."""
        known = self._needs_by_spec.get(id(spec))
        if known is not None:
            return known[1]
        own = placement_spec(spec)
        key = msgspec.json.encode(own)
        needs = self._needs.get(key)
        if needs is None:
            needs = self._needs[key] = PlacementNeeds(own)
        if len(self._needs_by_spec) > 50_000:
            self._needs_by_spec.clear()
        # The spec is kept, so that nothing else gets its identity.
        self._needs_by_spec[id(spec)] = (spec, needs)
        return needs

    def forget_needs(self) -> None:
        """Counts and needs that nobody may ask for again are dropped; the rest is made anew."""
        self._needs.clear()
        self._needs_by_spec.clear()
        self.topology.clear()

    def place(self, pod: Pod, node: str, volumes: tuple[tuple[str, str], ...]) -> None:
        """Counts the pod on the node, in place of where and how it counted before."""
        key = key_of(pod)
        before = self._bound.get(key)
        needs = before.needs if before is not None else self.needs_of(pod.spec)
        is_deleting = pod.metadata.deletionTimestamp is not None
        metadata = pod.metadata
        counted = CountedPod(metadata.namespace, metadata.labels or {}, node, is_deleting, pod.spec)
        if before is not None and before.counted.node == node:
            self._recount(key, before, counted)
            return
        self.remove(key)
        info = self._node(node)
        info.count(needs, 1)
        info.count_volumes(volumes, 1)
        info.pods[key] = None
        self._bound[key] = BoundPod(counted, needs, volumes)
        self.topology.count_pod(counted, 1)
        self._changed(node, helps=False)

    def _recount(self, key: Key, before: BoundPod, counted: CountedPod) -> None:
        """The pod stays where it is; whether it is being deleted and its labels may differ."""
        old = before.counted
        self._bound[key] = before._replace(counted=counted)
        if old.is_deleting != counted.is_deleting or old.labels != counted.labels:
            self.topology.count_pod(old, -1)
            self.topology.count_pod(counted, 1)

    def remove(self, key: Key) -> None:
        bound = self._bound.pop(key, None)
        if bound is None:
            return
        node = bound.counted.node
        info = self.nodes[node]
        info.count(bound.needs, -1)
        info.count_volumes(bound.volumes, -1)
        del info.pods[key]
        self.topology.count_pod(bound.counted, -1)
        if info.node is None and not info.pods:
            del self.nodes[node]
        self._changed(node, helps=True)

    def node_of(self, key: Key) -> str | None:
        bound = self._bound.get(key)
        return None if bound is None else bound.counted.node


def _is_soft_tainted(node: Node | None) -> bool:
    taints = node.spec.taints or () if node is not None else ()
    return any(taint.effect == PREFER_NO_SCHEDULE for taint in taints)


def _is_same_place(before: Node, after: Node) -> bool:
    """Whether nothing has changed that the scheduler looks at, such as a condition."""
    return (
        before.spec == after.spec
        and before.metadata.labels == after.metadata.labels
        and before.status.allocatable == after.status.allocatable
        and before.status.capacity == after.status.capacity
    )


def _required(before: Node | None, after: Node | None) -> Node:
    found = after if after is not None else before
    assert found is not None
    return found


class NodeRanking:
    """The nodes that are something for pods of the same needs, most room first.

    Every change of a node is in the scheduler's log; a ranking reads it when it is used. That costs
    one look at each node that has changed since, instead of one at every node for every pod.
    """

    def __init__(self, needs: PlacementNeeds, cache: SchedulerCache) -> None:
        self.needs, self._cache = needs, cache
        self._heap: list[tuple[float, str, int]] = []
        self._position = -1
        self.gains = 0
        """How often a node has become better for these pods."""

    def update(self) -> None:
        cache = self._cache
        if self._position < cache.log_start or len(self._heap) > 4 * len(cache.nodes) + 100:
            self._heap = []
            self._position = cache.log_end
            for info in self._candidates():
                self._enter(info)
            heapq.heapify(self._heap)
            self.gains += 1
            return
        if self._position < cache.log_end:
            self._read_log()

    def _read_log(self) -> None:
        changed: dict[str, bool] = {}
        for name, helps in self._cache.log_since(self._position):
            changed[name] = changed.get(name, False) or helps
        self._position = self._cache.log_end
        named = self.needs.named_nodes
        for name, helps in changed.items():
            info = self._cache.nodes.get(name)
            if info is None or (named is not None and name not in named):
                continue
            entry = self._entry(info)
            if entry is not None:
                heapq.heappush(self._heap, entry)
                self.gains += helps

    def _candidates(self) -> Iterator[NodeInfo]:
        named = self.needs.named_nodes
        if named is None:
            yield from self._cache.nodes.values()
            return
        for name in named:
            if name in self._cache.nodes:
                yield self._cache.nodes[name]

    def _enter(self, info: NodeInfo) -> None:
        entry = self._entry(info)
        if entry is not None:
            self._heap.append(entry)

    def _entry(self, info: NodeInfo) -> tuple[float, str, int] | None:
        if info.node is None or info.misfit(self.needs) is not None:
            return None
        return -info.least_allocated(self.needs), info.name, info.version

    def take(self) -> tuple[float, NodeInfo] | None:
        """The best node that is left, and its score; it is to be given back."""
        while self._heap:
            score, name, version = heapq.heappop(self._heap)
            info = self._cache.nodes.get(name)
            if info is not None and info.version == version:
                return -score, info
        return None

    def give_back(self, score: float, info: NodeInfo) -> None:
        heapq.heappush(self._heap, (-score, info.name, info.version))
