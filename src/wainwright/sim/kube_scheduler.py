"""The kube-scheduler of a simulated cluster: filters, scores and binds, one pod after the other.

Written apart from the planner and by the kube-scheduler's rules, so that a plan which it refuses
shows up as a pod that stays pending. Pods go by priority, then age. Among the nodes that pass all
filters the one with most cpu and memory left is taken, corrected by preferences (node affinity,
pod affinity, ScheduleAnyway, PreferNoSchedule); of equal ones the first by name.

Nothing is looked at twice without a reason. Pods that filters treat alike form a group; its nodes
are kept in order of their score and follow every change of a node. A group of which one pod fits
nowhere waits, whole, until a change that could help: room on a node, a node, a pod or volume that
its constraints count.

Not there: preemption, extenders, dynamic resource allocation, ReadWriteOncePod, and the default
spread where no default constraints are configured, which affects scores only.
"""

import asyncio
import heapq
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
    Pod,
    PodCondition,
)
from wainwright.clock import Clock, format_timestamp
from wainwright.controllers.runtime import Key
from wainwright.errors import (
    ConflictError,
    ObjectNotFoundError,
    ServerUnavailableError,
    TooManyRequestsError,
)
from wainwright.sim.api_server import InMemoryApiServer
from wainwright.sim.default_spread import DefaultSpread
from wainwright.sim.evictions import with_condition
from wainwright.sim.informers import RETRY_SECONDS, Informers, key_of
from wainwright.sim.node_info import (
    NodeInfo,
    PlacementNeeds,
    is_finished,
)
from wainwright.sim.scheduler_cache import NodeRanking, SchedulerCache
from wainwright.sim.scheduler_topology import PodTopologyTerms
from wainwright.sim.scheduler_volumes import (
    SELECTED_NODE,
    StorageObjects,
    VolumeNeeds,
    claim_keys,
    uses_storage,
)
from wainwright.translate.topology import DefaultConstraints

SCHEDULER_NAME: Final = "default-scheduler"
SCORED_NODES: Final = 100
"""Of the nodes that pass, so many with the most room are compared by preferences."""
GROUPS_LIMIT: Final = 2_000
"""Kept although none of their pods waits, so that the next pod of a template finds its nodes."""
EXPLAINED_NODES: Final = 50
"""In a larger cluster a group that already has its message keeps it."""


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
        self.constraints: PodTopologyTerms | None = None
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

    def __init__(
        self,
        api: InMemoryApiServer,
        clock: Clock,
        informers: Informers,
        default_constraints: DefaultConstraints = (),
    ) -> None:
        self._api, self._clock = api, clock
        self._pods = informers.of(Pod)
        self._defaults = DefaultSpread(default_constraints, informers, self._selectors_changed)
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
            self._selectors_changed()

    def _selectors_changed(self) -> None:
        """Constraints may select other pods than those that were counted."""
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
        group_key = _group_key(key, self._defaults.applied(pod), needs)
        group_key = (*group_key, self._defaults.owner(pod))
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

    def _constraints(self, group: PodGroup) -> PodTopologyTerms | None:
        known = group.constraints
        if known is not None and known.generation == self._cache.topology.generation:
            return known
        head = group.head()
        pod = self._pods.objects.get(head.key) if head is not None else None
        if pod is None:
            return None
        group.constraints = PodTopologyTerms(
            self._defaults.applied(pod), group.needs, self._cache.topology
        )
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
        self, group: PodGroup, constraints: PodTopologyTerms, volumes: VolumeNeeds
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
        self, constraints: PodTopologyTerms, volumes: VolumeNeeds, info: NodeInfo
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

    def _explain(
        self, group: PodGroup, constraints: PodTopologyTerms, volumes: VolumeNeeds
    ) -> None:
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
        self, group: PodGroup, constraints: PodTopologyTerms, volumes: VolumeNeeds
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
            lastTransitionTime=format_timestamp(self._clock.now()),
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


def _best(passed: list[tuple[float, NodeInfo]], constraints: PodTopologyTerms) -> str:
    added = constraints.preference(passed)
    ranked = [
        (-(score + more), info.name) for (score, info), more in zip(passed, added, strict=True)
    ]
    return min(ranked)[1]


def _is_bound(claim: PersistentVolumeClaim) -> bool:
    return bool(claim.spec.volumeName) and claim.status.phase == "Bound"


def _is_on_its_way(claim: PersistentVolumeClaim) -> bool:
    return bool(claim.spec.volumeName) or SELECTED_NODE in (claim.metadata.annotations or {})
