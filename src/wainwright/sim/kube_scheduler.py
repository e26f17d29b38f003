"""The kube-scheduler of a simulated cluster: filters, scores and binds, one pod after the other.

Written apart from the planner and by the kube-scheduler's rules, so that a plan which it refuses
shows up as a pod that stays pending. Pods go by priority, then age. Among the nodes that pass all
filters the one with most cpu and memory left is taken, corrected by preferences (node affinity,
pod affinity, ScheduleAnyway, PreferNoSchedule); of equal ones the first by name.

Nothing is looked at twice without a reason. Pods that filters treat alike form a group; its nodes
are kept in order of their score and follow every change of a node. A group of which one pod fits
nowhere waits, whole, until a change that could help: room on a node, a node, a pod or volume that
its constraints count.

Not there: preemption, extenders, dynamic resource allocation, the default spread of Services'
pods, ReadWriteOncePod.
"""

import asyncio
import heapq
from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec

from wainwright.api.kubernetes.cluster import Namespace, Node
from wainwright.api.kubernetes.storage import (
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from wainwright.api.kubernetes.workloads import (
    Affinity,
    Pod,
    PodAffinityTerm,
    PodCondition,
    PodSpec,
    TopologySpreadConstraint,
)
from wainwright.clock import Clock
from wainwright.controllers.runtime import Key
from wainwright.errors import (
    ConflictError,
    ObjectNotFoundError,
    ServerUnavailableError,
    TooManyRequestsError,
)
from wainwright.sim.api_server import InMemoryApiServer
from wainwright.sim.evictions import with_condition
from wainwright.sim.informers import RETRY_SECONDS, Informers, key_of, timestamp
from wainwright.sim.node_matching import (
    PREFER_NO_SCHEDULE,
    first_untolerated,
    matches_term,
)
from wainwright.sim.scheduler_cache import (
    NodeInfo,
    PlacementNeeds,
    is_finished,
    placement_spec,
    required_terms,
)
from wainwright.sim.scheduler_topology import (
    CountedPod,
    DomainCounts,
    Participation,
    PodTerm,
    TopologyCounts,
    affinity_term,
    spread_term,
)
from wainwright.sim.scheduler_volumes import (
    SELECTED_NODE,
    StorageObjects,
    VolumeNeeds,
    claim_keys,
    uses_storage,
)

SCHEDULER_NAME: Final = "default-scheduler"
SCORED_NODES: Final = 100
"""Of the nodes that pass, so many with the most room are compared by preferences."""
GROUPS_LIMIT: Final = 2_000
"""Kept although none of their pods waits, so that the next pod of a template finds its nodes."""
EXPLAINED_NODES: Final = 50
"""In a larger cluster a group that already has its message keeps it."""
PREFERENCE_WEIGHTS: Final = {"node": 2.0, "pod": 2.0, "spread": 2.0, "taint": 3.0}
"""Of scores between 0 and 100, as in the kube-scheduler's default profile."""


class NodeRanking:
    """The nodes that are something for pods of the same needs, most room first.

    Every change of a node is in the scheduler's log; a ranking reads it when it is used. That costs
    one look at each node that has changed since, instead of one at every node for every pod.
    """

    def __init__(self, needs: PlacementNeeds, cache: "SchedulerCache") -> None:
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


class SpreadLimit(NamedTuple):
    """A topology spread constraint of a group, with the counts that it goes by."""

    constraint: TopologySpreadConstraint
    domains: DomainCounts
    counts_itself: bool

    def misfit(self, info: NodeInfo) -> str | None:
        domain = info.labels.get(self.domains.key)
        if domain is None:
            return "node(s) didn't match pod topology spread constraints (missing required label)"
        skew = self.domains.pods.get(domain, 0) + self.counts_itself - self._minimum()
        if skew > self.constraint.maxSkew:
            return "node(s) didn't match pod topology spread constraints"
        return None

    def _minimum(self) -> int:
        if len(self.domains.pods) < (self.constraint.minDomains or 1):
            return 0
        return self.domains.minimum


class PodConstraints:
    """What of a group depends on other pods. Made anew when the counts were forgotten."""

    def __init__(self, pod: Pod, needs: PlacementNeeds, topology: TopologyCounts) -> None:
        self._namespace, self._labels = pod.metadata.namespace, pod.metadata.labels or {}
        self._spec, self._needs, self._topology = pod.spec, needs, topology
        self.generation = topology.generation
        affinity = pod.spec.affinity or Affinity()
        self._affinity = self._all_terms(required_terms(affinity.podAffinity))
        self._anti_affinity = [
            domains
            for term in required_terms(affinity.podAntiAffinity)
            for domains in self._all_terms((term,))
        ]
        terms = [
            affinity_term(term, self._namespace, self._labels)
            for term in required_terms(affinity.podAffinity)
        ]
        self._is_own_affinity = bool(terms) and all(map(self._matches_itself, terms))
        self._spread = [*self._limits("DoNotSchedule")]
        self._soft_spread = [*self._limits("ScheduleAnyway")]
        self._preferred = [*self._preferred_domains(affinity)]
        self._keeping_away: list[DomainCounts] = []
        self._anti_version = -1
        self.has_preferences = bool(self._soft_spread or self._preferred or needs.preferred_terms)

    def _matches_itself(self, term: PodTerm) -> bool:
        return self._topology.matches(term, self._namespace, self._labels)

    def _all_terms(self, written: tuple[PodAffinityTerm, ...]) -> list[DomainCounts]:
        """A pod counts for affinity if it meets all terms together."""
        terms = tuple(affinity_term(each, self._namespace, self._labels) for each in written)
        if not terms:
            return []
        counts = self._topology.counts_of(terms)
        return [self._topology.domains(counts, each.topologyKey) for each in written]

    def _limits(self, kind: str) -> Iterator[SpreadLimit]:
        constraints = [
            each
            for each in self._spec.topologySpreadConstraints or ()
            if each.whenUnsatisfiable == kind
        ]
        keys = tuple(each.topologyKey for each in constraints)
        for each in constraints:
            term = spread_term(each, self._namespace, self._labels)
            domains = self._topology.domains(
                self._topology.counts_of((term,)),
                each.topologyKey,
                Participation(self._needs, each, keys),
            )
            yield SpreadLimit(each, domains, self._matches_itself(term))

    def _preferred_domains(self, affinity: Affinity) -> Iterator[tuple[int, DomainCounts]]:
        for sign, part in ((1, affinity.podAffinity), (-1, affinity.podAntiAffinity)):
            for each in part.preferredDuringSchedulingIgnoredDuringExecution or () if part else ():
                term = affinity_term(each.podAffinityTerm, self._namespace, self._labels)
                counts = self._topology.counts_of((term,))
                key = each.podAffinityTerm.topologyKey
                yield sign * each.weight, self._topology.domains(counts, key)

    def _anti_holders(self) -> list[DomainCounts]:
        if self._anti_version != self._topology.anti_affinity_version:
            self._anti_version = self._topology.anti_affinity_version
            self._keeping_away = self._topology.keeping_away(self._namespace, self._labels)
        return self._keeping_away

    @property
    def version(self) -> int:
        """Changes with every count that the required constraints go by."""
        return sum(
            each.counted_version
            for each in (
                *self._affinity,
                *self._anti_affinity,
                *(limit.domains for limit in self._spread),
                *self._anti_holders(),
            )
        )

    def misfit(self, info: NodeInfo) -> str | None:
        for limit in self._spread:
            found = limit.misfit(info)
            if found is not None:
                return found
        return self._affinity_misfit(info)

    def _affinity_misfit(self, info: NodeInfo) -> str | None:
        if self._affinity and not self._meets_affinity(info):
            return "node(s) didn't match pod affinity rules"
        if any(_has_pods(each, info) for each in self._anti_affinity):
            return "node(s) didn't match pod anti-affinity rules"
        if any(_has_pods(each, info) for each in self._anti_holders()):
            return "node(s) didn't satisfy existing pods anti-affinity rules"
        return None

    def _meets_affinity(self, info: NodeInfo) -> bool:
        if any(each.key not in info.labels for each in self._affinity):
            return False
        if all(_has_pods(each, info) for each in self._affinity):
            return True
        # The first pod of a group that wants to be together may begin anywhere.
        return self._is_own_affinity and not any(each.total for each in self._affinity)

    def preference(self, candidates: list[tuple[float, NodeInfo]]) -> list[float]:
        """What is added to the score of each candidate."""
        totals = [0.0] * len(candidates)
        infos = [info for _, info in candidates]
        for kind, raw, is_reversed in (
            ("node", [self._node_preference(info) for info in infos], False),
            ("pod", [self._pod_preference(info) for info in infos], False),
            ("spread", [self._crowding(info) for info in infos], True),
            ("taint", [_soft_taints(info, self._spec) for info in infos], True),
        ):
            for index, value in enumerate(_normalized(raw, is_reversed=is_reversed)):
                totals[index] += PREFERENCE_WEIGHTS[kind] * value
        return totals

    def _node_preference(self, info: NodeInfo) -> float:
        return sum(
            each.weight
            for each in self._needs.preferred_terms
            if matches_term(each.preference, info.labels, info.name)
        )

    def _pod_preference(self, info: NodeInfo) -> float:
        return sum(
            weight * domains.pods.get(info.labels.get(domains.key, ""), 0)
            for weight, domains in self._preferred
        )

    def _crowding(self, info: NodeInfo) -> float:
        return sum(
            limit.domains.pods.get(info.labels.get(limit.domains.key, ""), 0)
            for limit in self._soft_spread
        )


def _has_pods(domains: DomainCounts, info: NodeInfo) -> bool:
    domain = info.labels.get(domains.key)
    return domain is not None and domains.pods.get(domain, 0) > 0


def _soft_taints(info: NodeInfo, spec: PodSpec) -> float:
    """How many taints of effect PreferNoSchedule the pod does not tolerate."""
    return sum(
        first_untolerated([taint], spec.tolerations, (PREFER_NO_SCHEDULE,)) is not None
        for taint in info.taints
    )


def _normalized(raw: list[float], *, is_reversed: bool) -> list[float]:
    """From 0 to 100; all the same where there is no difference."""
    low, high = min(raw), max(raw)
    if low == high:
        return [0.0] * len(raw)
    scaled = [100.0 * (each - low) / (high - low) for each in raw]
    return [100.0 - each for each in scaled] if is_reversed else scaled


class PodOrder(NamedTuple):
    """The place of a pod in the queue."""

    priority: int
    """Negative, so that the highest comes first."""
    created: str
    arrival: int
    key: Key


class PodGroup:
    """Pods that wait and that all filters treat alike: if one fits nowhere, none does."""

    def __init__(self, key: tuple[object, ...], ranking: NodeRanking, *, has_volumes: bool) -> None:
        self.key, self.ranking, self.needs = key, ranking, ranking.needs
        self.has_volumes = has_volumes
        self.pods: dict[Key, PodOrder] = {}
        self._order: list[PodOrder] = []
        self.queued: PodOrder | None = None
        """The pod that stands for the group in the scheduler's queue."""
        self.constraints: PodConstraints | None = None
        self.blocked_at: tuple[int, ...] | None = None
        """The state of all that could help, when a pod was found to fit nowhere."""
        self.message = ""
        self.reasons: frozenset[str] = frozenset()
        self.unmarked: dict[Key, None] = {}
        """Pods that do not say yet why they wait."""

    @property
    def is_of_one_pod(self) -> bool:
        """Whether no other pod will ever be of this group."""
        return self.has_volumes or self.needs.named_nodes is not None

    def add(self, order: PodOrder) -> None:
        self.pods[order.key] = order
        self.unmarked[order.key] = None
        heapq.heappush(self._order, order)

    def discard(self, key: Key) -> None:
        self.pods.pop(key, None)
        self.unmarked.pop(key, None)

    def head(self) -> PodOrder | None:
        while self._order:
            order = self._order[0]
            if self.pods.get(order.key) is order:
                return order
            heapq.heappop(self._order)
        return None


class KubeScheduler:
    """Binds the pods of the default scheduler, and says of the others why they fit nowhere."""

    def __init__(self, api: InMemoryApiServer, clock: Clock, informers: Informers) -> None:
        self._api, self._clock = api, clock
        self._pods = informers.of(Pod)
        self._claims = informers.of(PersistentVolumeClaim)
        self._cache = SchedulerCache(informers)
        self._storage = StorageObjects(informers)
        self._rankings: dict[PlacementNeeds, NodeRanking] = {}
        self._groups: dict[tuple[object, ...], PodGroup] = {}
        self._group_of: dict[Key, PodGroup] = {}
        self._heads: list[tuple[PodOrder, int, PodGroup]] = []
        self._blocked: dict[PodGroup, None] = {}
        self._assumed: set[Key] = set()
        """Pods that count on a node although the watch has not shown them bound."""
        self._reserved: dict[Key, str] = {}
        """Of the assumed ones those that wait for their volumes, and their nodes."""
        self._arrivals = 0
        self._volume_version = 0
        self._retry_at: float | None = None
        self._woken = asyncio.Event()
        self._follow(informers)

    def _follow(self, informers: Informers) -> None:
        informers.of(Node).add_handler(self._node_changed)
        self._pods.add_handler(self._pod_changed)
        informers.of(Namespace).add_handler(self._namespace_changed)
        for kind in (PersistentVolumeClaim, PersistentVolume, StorageClass, CSINode):
            informers.of(kind).add_handler(self._storage_changed)

    @property
    def next_due(self) -> float | None:
        """It acts on changes alone, but for requests that were not answered."""
        return self._retry_at

    async def run(self) -> None:
        while True:
            await self._woken.wait()
            self._woken.clear()
            try:
                await self._schedule()
            except (ServerUnavailableError, TooManyRequestsError):
                self._retry_at = self._clock.now() + RETRY_SECONDS
                await self._clock.sleep(RETRY_SECONDS)
                self._retry_at = None
                self._woken.set()

    # Changes

    def _node_changed(self, before: Node | None, after: Node | None) -> None:
        self._cache.set_node(before, after)
        self._woken.set()

    def _namespace_changed(self, before: Namespace | None, after: Namespace | None) -> None:
        if (
            before is not None
            and after is not None
            and before.metadata.labels != (after.metadata.labels)
        ):
            self._cache.topology.clear()
            self._woken.set()

    def _storage_changed(self, _before: object, _after: object) -> None:
        self._volume_version += 1
        if self._blocked or self._reserved:
            self._woken.set()

    def _pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        pod = after if after is not None else before
        assert pod is not None
        key = key_of(pod)
        if after is None or is_finished(after):
            self._forget(key)
        elif after.spec.nodeName:
            self._dequeue(key)
            self._assumed.discard(key)
            self._reserved.pop(key, None)
            self._cache.place(after, after.spec.nodeName, self._attached(after))
        elif not _is_to_be_scheduled(after):
            self._forget(key)
        elif key not in self._assumed and key not in self._group_of:
            self._enqueue(key, after)
        self._woken.set()

    def _attached(self, pod: Pod) -> tuple[tuple[str, str], ...]:
        return self._storage.needs_of(pod).attached if uses_storage(pod.spec) else ()

    def _forget(self, key: Key) -> None:
        self._dequeue(key)
        self._assumed.discard(key)
        self._reserved.pop(key, None)
        self._cache.remove(key)

    def _enqueue(self, key: Key, pod: Pod) -> None:
        group = self._find_group(key, pod)
        self._arrivals += 1
        created = pod.metadata.creationTimestamp or ""
        group.add(PodOrder(-(pod.spec.priority or 0), created, self._arrivals, key))
        self._group_of[key] = group
        if group not in self._blocked:
            self._push_head(group)

    def _dequeue(self, key: Key) -> None:
        group = self._group_of.pop(key, None)
        if group is not None:
            group.discard(key)
            if not group.pods:
                self._blocked.pop(group, None)
                if group.is_of_one_pod:
                    self._groups.pop(group.key, None)
                    self._rankings.pop(group.needs, None)

    def _push_head(self, group: PodGroup) -> None:
        """Once for each head: what was pushed for an earlier one is passed over."""
        head = group.head()
        if head is not None and group.queued is not head:
            group.queued = head
            heapq.heappush(self._heads, (head, head.arrival, group))

    def _find_group(self, key: Key, pod: Pod) -> PodGroup:
        if len(self._groups) > GROUPS_LIMIT:
            self._drop_idle_groups()
        needs = self._cache.needs_of(pod.spec)
        group_key = _group_key(key, pod, needs)
        group = self._groups.get(group_key)
        if group is None:
            ranking = self._rankings.get(needs)
            if ranking is None:
                ranking = self._rankings[needs] = NodeRanking(needs, self._cache)
            group = self._groups[group_key] = PodGroup(
                group_key, ranking, has_volumes=uses_storage(pod.spec)
            )
        return group

    def _drop_idle_groups(self) -> None:
        self._groups = {key: group for key, group in self._groups.items() if group.pods}
        in_use = {group.needs: group.ranking for group in self._groups.values()}
        self._rankings = in_use
        self._cache.forget_needs()

    # Scheduling

    async def _schedule(self) -> None:
        await self._bind_reserved()
        await self._release_groups()
        while self._heads:
            order, _, group = heapq.heappop(self._heads)
            if group.queued is not order:
                continue
            group.queued = None
            if group in self._blocked:
                continue
            if group.head() is not order:
                self._push_head(group)
                continue
            try:
                await self._schedule_head(group, order)
            finally:
                if group not in self._blocked:
                    self._push_head(group)

    async def _release_groups(self) -> None:
        for group in list(self._blocked):
            if self._helps(group) != group.blocked_at:
                del self._blocked[group]
                self._push_head(group)
            else:
                await self._mark_pods(group)

    def _helps(self, group: PodGroup) -> tuple[int, ...]:
        """What a blocked group waits for: it changes when a pod of it may fit."""
        group.ranking.update()
        constraints = self._constraints(group)
        return (
            group.ranking.gains,
            constraints.version if constraints is not None else 0,
            self._cache.topology.generation,
            self._volume_version if group.has_volumes else 0,
        )

    def _constraints(self, group: PodGroup) -> PodConstraints | None:
        known = group.constraints
        if known is not None and known.generation == self._cache.topology.generation:
            return known
        head = group.head()
        pod = self._pods.objects.get(head.key) if head is not None else None
        if pod is None:
            return None
        group.constraints = PodConstraints(pod, group.needs, self._cache.topology)
        return group.constraints

    async def _schedule_head(self, group: PodGroup, order: PodOrder) -> None:
        pod = self._pods.objects.get(order.key)
        constraints = self._constraints(group)
        if pod is None or constraints is None:
            self._dequeue(order.key)
            return
        volumes = self._storage.needs_of(pod)
        node = None if volumes.problem else self._choose(group, constraints, volumes)
        if node is not None:
            self._dequeue(order.key)
            await self._assign(order.key, pod, node, volumes)
            return
        group.blocked_at = self._helps(group)
        self._blocked[group] = None
        self._explain(group, constraints, volumes)
        await self._mark_pods(group)

    def _choose(
        self, group: PodGroup, constraints: PodConstraints, volumes: VolumeNeeds
    ) -> str | None:
        group.ranking.update()
        has_preferences = constraints.has_preferences or self._cache.soft_tainted_nodes > 0
        wanted = SCORED_NODES if has_preferences else 1
        taken: list[tuple[float, NodeInfo]] = []
        passed: list[tuple[float, NodeInfo]] = []
        while len(passed) < wanted and (found := group.ranking.take()) is not None:
            taken.append(found)
            if self._misfit(constraints, volumes, found[1]) is None:
                passed.append(found)
        for each in taken:
            group.ranking.give_back(*each)
        if not passed:
            return None
        return _best(passed, constraints) if has_preferences else passed[0][1].name

    def _misfit(
        self, constraints: PodConstraints, volumes: VolumeNeeds, info: NodeInfo
    ) -> str | None:
        found = constraints.misfit(info)
        if found is None and (volumes.bound or volumes.unbound or volumes.attached):
            found = self._storage.misfit(volumes, info)
        return found

    async def _assign(self, key: Key, pod: Pod, node: str, volumes: VolumeNeeds) -> None:
        """Counts the pod on the node at once; binds it when its volumes are there."""
        self._cache.place(pod, node, volumes.attached)
        self._assumed.add(key)
        try:
            for claim, _ in volumes.unbound:
                self._reserved[key] = node
                await self._select_node(claim, node)
            if not volumes.unbound:
                await self._bind(key, pod, node)
        except (ServerUnavailableError, TooManyRequestsError):
            self._forget(key)
            if key in self._pods.objects:
                self._enqueue(key, pod)
            raise

    async def _select_node(self, claim: PersistentVolumeClaim, node: str) -> None:
        patch = {"metadata": {"annotations": {SELECTED_NODE: node}}}
        changed = await self._api.patch(
            PersistentVolumeClaim, claim.metadata.name, patch, claim.metadata.namespace
        )
        self._claims.observe(changed)

    async def _bind(self, key: Key, pod: Pod, node: str) -> None:
        try:
            await self._api.bind(pod.metadata.name, pod.metadata.namespace, node)
        except (ConflictError, ObjectNotFoundError):
            # The pod was deleted, or bound by somebody else: its event says what counts.
            if key in self._assumed:
                self._forget(key)

    async def _bind_reserved(self) -> None:
        """Binds pods whose volumes are there; a claim that lost its node sends its pod back."""
        for key, node in list(self._reserved.items()):
            pod = self._pods.objects.get(key)
            if pod is None:
                continue
            claims = [self._claims.objects.get(each) for each in claim_keys(pod)]
            if all(claim is not None and _is_bound(claim) for claim in claims):
                del self._reserved[key]
                self._cache.remove(key)
                self._cache.place(pod, node, self._attached(pod))
                await self._bind(key, pod, node)
            elif any(claim is None or not _is_on_its_way(claim) for claim in claims):
                self._forget(key)
                self._enqueue(key, pod)

    # What fits nowhere

    def _explain(self, group: PodGroup, constraints: PodConstraints, volumes: VolumeNeeds) -> None:
        count = self._cache.node_count
        if count > EXPLAINED_NODES and group.message and not volumes.problem:
            return
        if volumes.problem:
            reasons = {volumes.problem: 0}
        else:
            reasons = self._misfits(group, constraints, volumes)
        listed = ", ".join(
            sorted(f"{number} {text}" if number else text for text, number in reasons.items())
        )
        if group.reasons != reasons.keys():
            group.reasons = frozenset(reasons)
            group.unmarked = dict.fromkeys(group.pods)
        group.message = (
            f"0/{count} nodes are available: {listed}."
            if count
            else "no nodes available to schedule pods"
        )

    def _misfits(
        self, group: PodGroup, constraints: PodConstraints, volumes: VolumeNeeds
    ) -> dict[str, int]:
        found: dict[str, int] = {}
        for info in self._cache.nodes.values():
            if info.node is not None:
                reason = info.misfit(group.needs) or self._misfit(constraints, volumes, info)
                found[reason or ""] = found.get(reason or "", 0) + 1
        return found

    async def _mark_pods(self, group: PodGroup) -> None:
        """Once for each pod, and again when the reasons are others; numbers do not count."""
        while group.unmarked:
            key = next(iter(group.unmarked))
            pod = self._pods.objects.get(key)
            if pod is not None:
                await self._mark(pod, group.message)
            group.unmarked.pop(key, None)

    async def _mark(self, pod: Pod, message: str) -> None:
        condition = PodCondition(
            type="PodScheduled",
            status="False",
            reason="Unschedulable",
            message=message,
            lastTransitionTime=timestamp(self._clock.now()),
        )
        conditions = msgspec.to_builtins(with_condition(pod, condition).status.conditions)
        try:
            changed = await self._api.patch_status(
                Pod,
                pod.metadata.name,
                {"status": {"conditions": conditions}},
                pod.metadata.namespace,
            )
        except (ConflictError, ObjectNotFoundError):
            return
        self._pods.observe(changed)


def _is_to_be_scheduled(pod: Pod) -> bool:
    return (
        pod.metadata.deletionTimestamp is None
        and not pod.spec.schedulingGates
        and (pod.spec.schedulerName or SCHEDULER_NAME) == SCHEDULER_NAME
    )


def _group_key(key: Key, pod: Pod, needs: PlacementNeeds) -> tuple[object, ...]:
    """Volumes are a pod's own, so one with volumes is a group by itself."""
    spec, labels = pod.spec, pod.metadata.labels or {}
    affinity = spec.affinity
    pod_affinity = (
        (affinity.podAffinity, affinity.podAntiAffinity) if affinity is not None else None
    )
    constraints = (
        msgspec.json.encode((pod_affinity, spec.topologySpreadConstraints))
        if pod_affinity is not None or spec.topologySpreadConstraints
        else b""
    )
    own = key if uses_storage(spec) else ""
    return (pod.metadata.namespace, needs, tuple(sorted(labels.items())), constraints, own)


def _best(passed: list[tuple[float, NodeInfo]], constraints: PodConstraints) -> str:
    added = constraints.preference(passed)
    ranked = [
        (-(score + more), info.name) for (score, info), more in zip(passed, added, strict=True)
    ]
    return min(ranked)[1]


def _is_bound(claim: PersistentVolumeClaim) -> bool:
    return bool(claim.spec.volumeName) and claim.status.phase == "Bound"


def _is_on_its_way(claim: PersistentVolumeClaim) -> bool:
    return bool(claim.spec.volumeName) or SELECTED_NODE in (claim.metadata.annotations or {})
