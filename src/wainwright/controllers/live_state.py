"""The state of the cluster that decisions are made on, kept up to date by the cache.

It is what the planner sees, and what only this process knows: the nodes that pods were just planned
onto. Nothing may act before it is in sync.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import msgspec

from wainwright.api.karpenter.ec2nodeclass import EC2NodeClass
from wainwright.api.karpenter.nodeclaim import NodeClaim, NodeClaimStatus
from wainwright.api.karpenter.nodepool import NodePool
from wainwright.api.karpenter.shared_fields import NodeClassRef
from wainwright.api.kubernetes.cluster import (
    Namespace,
    Node,
    PodDisruptionBudget,
    PriorityClass,
    RuntimeClass,
    Service,
)
from wainwright.api.kubernetes.operations import VolumeAttachment
from wainwright.api.kubernetes.storage import (
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from wainwright.api.kubernetes.workloads import (
    DaemonSet,
    Deployment,
    Pod,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
from wainwright.api.wire import WireStruct
from wainwright.clock import Clock
from wainwright.cloud import NodePoolCatalog
from wainwright.controllers.conditions import DISRUPTION_REASON, LAUNCHED, UNKNOWN
from wainwright.controllers.informer_cache import Change, InformerCache
from wainwright.controllers.node.disrupted_taint import is_disrupted
from wainwright.gc_pause import gc_paused
from wainwright.model.instance_type import InstanceType, Offering
from wainwright.model.labels import CAPACITY_TYPE, INSTANCE_TYPE, ZONE
from wainwright.model.plan import PlanOptions
from wainwright.model.pod import Pod as ModelPod
from wainwright.model.requirements import Requirements
from wainwright.model.resources import largest_amounts
from wainwright.model.snapshot import Node as ModelNode
from wainwright.model.snapshot import Pool, Snapshot
from wainwright.translate.cluster_state import ClusterState
from wainwright.translate.node_claim_pairing import pool_of_claim
from wainwright.translate.requirements import translate_requirements
from wainwright.translate.topology import DefaultConstraints
from wainwright.translate.volumes import attach_limits, claim_name, relevant_volumes

PODS_AT_ONCE: Final = 500
"""Translated before others have their turn: some 20 ms."""
SNAPSHOT_KINDS: Final[tuple[type[WireStruct], ...]] = (
    Pod,
    Node,
    NodeClaim,
    NodePool,
    DaemonSet,
    PodDisruptionBudget,
    PersistentVolumeClaim,
    PersistentVolume,
    StorageClass,
    CSINode,
    PriorityClass,
    RuntimeClass,
    Namespace,
    StatefulSet,
)
DEFAULT_CONSTRAINT_KINDS: Final[tuple[type[WireStruct], ...]] = (
    Service,
    Deployment,
    ReplicaSet,
    ReplicationController,
)
"""Only the scheduler's default spread constraints depend on them: they are watched where there are
any, as ReplicaSets are many. Deployments, as those of a simulated cluster own their pods."""


def kinds_for_defaults(constraints: DefaultConstraints) -> tuple[type[WireStruct], ...]:
    """What a snapshot depends on besides, where the scheduler has these default constraints."""
    return DEFAULT_CONSTRAINT_KINDS if constraints else ()


def is_ours(reference: NodeClassRef) -> bool:
    """Whether the class is one that we launch from; objects of others are left alone."""
    return reference.group == "karpenter.k8s.aws" and reference.kind == EC2NodeClass.__name__


class LiveState:
    def __init__(
        self,
        cache: InformerCache,
        clock: Clock,
        default_constraints: DefaultConstraints = (),
    ) -> None:
        self._cache, self._clock = cache, clock
        self._state = ClusterState(default_constraints)
        self._unresolved: dict[str, None] = {}
        """Claims whose instance is not known yet, and whose launch has not failed so far."""
        self._failed_launches: dict[str, NodeClaim] = {}
        """Those whose launch has failed and is tried again."""
        self._largest_nodes: dict[str, tuple[ModelNode, ModelNode]] = {}
        """By name the node as such a claim requests it, and as what it may become."""
        self._raised_pools: dict[str, tuple[Pool, Pool]] = {}
        """By name the NodePool without what such claims may come to use, and with it."""
        self._nominated: dict[str, float] = {}
        """By name of node or claim, until when it is kept for the pods planned onto it."""
        self._keeping_pods: set[str] = set()
        self._disrupted: dict[str, Node] = {}
        """By name the nodes that are tainted to be disrupted."""
        self._taken: set[str] = set()
        """Names of the nodes that commands under way have taken."""
        self._planned_pods: dict[str, tuple[str, ...]] = {}
        """By name of a claim that is not launched yet, the pods that it was made for."""
        self._virtual_pods: Mapping[str, tuple[ModelPod, ...]] = {}
        """Of capacity buffers: by name of node or claim the pods that it has to have room for."""
        self.virtual_pod_count = 0
        """How many there are in all, also on nodes that are not kept for them, or on none."""
        self._nodes_with_virtual_pods: dict[str, tuple[ModelNode, ModelNode]] = {}
        """By name the node without them and with them: the same object as long as both are."""
        self.nodes_by_provider_id = cache.index(Node, lambda node: node.spec.providerID)
        self.claims_by_provider_id = cache.index(NodeClaim, _provider_id)
        self.pods_by_node = cache.index(Pod, lambda pod: pod.spec.nodeName)
        self.attachments_by_node = cache.index(VolumeAttachment, lambda each: each.spec.nodeName)
        for kind in (*SNAPSHOT_KINDS, *kinds_for_defaults(default_constraints)):
            cache.subscribe(kind, self._apply)
        cache.subscribe(NodeClaim, self._track_launch)
        self._attach_limits: tuple[tuple[str, str, int], ...] | None = None
        """What CSINodes say, by instance type and driver; None where it has to be found anew."""
        cache.subscribe(CSINode, self._forget_attach_limits)
        cache.subscribe(Node, self._look_at_type)
        cache.subscribe(Node, self._look_at_taint)

    def _apply(self, change: Change[WireStruct]) -> None:
        if change.after is None:
            assert change.before is not None
            self._state.remove(change.before)
        elif isinstance(change.after, NodePool):
            self._apply_pool(change.before, change.after)
        elif not _is_foreign(change.after):
            self._state.apply(change.after)

    def _apply_pool(self, before: WireStruct | None, pool: NodePool) -> None:
        """Without what its status adds up, which the nodes themselves say, and say at once: the
        status is written seconds later, and as a change it would have all its nodes translated.
        """
        if _is_foreign(pool):
            return
        if not isinstance(before, NodePool) or _without_usage(before) != _without_usage(pool):
            self._state.apply(_without_usage(pool))

    def _track_launch(self, change: Change[NodeClaim]) -> None:
        claim = change.after
        if claim is not None and not _is_foreign(claim) and _is_unresolved(claim):
            self._unresolved[change.name] = None
        else:
            self._unresolved.pop(change.name, None)
        if claim is None or _is_foreign(claim) or not _is_launched_again(claim):
            self._failed_launches.pop(change.name, None)
            self._largest_nodes.pop(change.name, None)
        else:
            self._failed_launches[change.name] = claim
        if claim is None or _provider_id(claim):
            self._planned_pods.pop(change.name, None)

    def with_attach_limits(self, options: PlanOptions) -> PlanOptions:
        """The options of a plan: a new node is expected to attach as many volumes as those of its
        instance type that have reported their limits, of each CSI driver the lowest."""
        if self._attach_limits is None:
            self._attach_limits = self._reported_attach_limits()
        if not self._attach_limits:
            return options
        return msgspec.structs.replace(options, reported_attach_limits=self._attach_limits)

    def _reported_attach_limits(self) -> tuple[tuple[str, str, int], ...]:
        lowest: dict[tuple[str, str], int] = {}
        for name, limits in attach_limits(self._cache.all(CSINode)).items():
            instance_type = _type_label(self._cache.get(Node, name))
            for driver, limit in limits.items():
                key = instance_type, driver
                lowest[key] = min(limit, lowest.get(key, limit))
        return tuple((*key, limit) for key, limit in sorted(lowest.items()))

    def _forget_attach_limits(self, _: Change[CSINode]) -> None:
        self._attach_limits = None

    def _look_at_type(self, change: Change[Node]) -> None:
        """The type of a node may be known only after its limits."""
        if _type_label(change.before) != _type_label(change.after):
            self._attach_limits = None

    def _look_at_taint(self, change: Change[Node]) -> None:
        if change.after is not None and is_disrupted(change.after):
            self._disrupted[change.name] = change.after
        else:
            self._disrupted.pop(change.name, None)

    @property
    def disrupted_nodes(self) -> Collection[str]:
        """Names of the nodes that are tainted to be disrupted, or are drained."""
        return self._disrupted.keys()

    @property
    def is_synced(self) -> bool:
        """Whether every Node and NodeClaim is known, and of each claim the instance.

        A plan made while an instance is on its way would take it for smaller than it is. A claim
        whose launch has failed once does not keep others waiting: pods are planned onto it by its
        requests, and against limits the largest of its instance types counts.
        """
        return self._cache.is_listed and not self._unresolved

    async def prepare_snapshot(self) -> None:
        """Translates pods that have changed, in slices, so that the event loop is not held up by
        the snapshot that follows.
        """
        while self._state.translate_pods(PODS_AT_ONCE):  # noqa: ASYNC110 - it waits for nothing
            await asyncio.sleep(0)

    def snapshot(self, catalogs: Iterable[NodePoolCatalog] = ()) -> Snapshot:
        """The cluster as it is now, with the reservations of these catalogs."""
        known = [*catalogs]
        reservations = {each.id: each for catalog in known for each in catalog.reservations}
        with gc_paused():  # the event loop waits for it
            translated = self._state.snapshot(
                reservations=reservations.values(), now=self._clock.now()
            )
        return self._with_kept_pods(self._with_failed_launches(translated.snapshot, known))

    def _with_failed_launches(
        self, snapshot: Snapshot, catalogs: Iterable[NodePoolCatalog]
    ) -> Snapshot:
        """Claims whose launch is tried again count against limits as what they may become."""
        if not self._failed_launches:
            return snapshot
        types = {each.name: each for known in catalogs for each in known.index.types}
        nodes = tuple(self._as_largest(node, types) for node in snapshot.nodes)
        extra: dict[str, Counter[str]] = defaultdict(Counter)
        for before, after in zip(snapshot.nodes, nodes, strict=True):
            if after is not before:
                extra[after.pool or ""] += Counter(after.capacity) - Counter(before.capacity)
        pools = tuple(
            self._raised(pool, extra[pool.name]) if pool.limits and pool.name in extra else pool
            for pool in snapshot.pools
        )
        return msgspec.structs.replace(snapshot, nodes=nodes, pools=pools)

    def _as_largest(self, node: ModelNode, types: Mapping[str, InstanceType]) -> ModelNode:
        """The largest and dearest node that its claim may become; the same object as long as
        nothing changes, so that nothing is planned again.
        """
        claim = self._failed_launches.get(node.claim.name) if node.claim is not None else None
        if claim is None:
            return node
        possible = [types[name] for name in _instance_types(claim) if name in types]
        largest = largest_amounts([node.capacity, *(each.capacity for each in possible)])
        made = msgspec.structs.replace(
            node, capacity=largest, highest_price=_highest_price(claim, possible)
        )
        known, before = self._largest_nodes.get(node.name, (None, node))
        if known is node and before == made:
            return before
        self._largest_nodes[node.name] = node, made
        return made

    def _raised(self, pool: Pool, extra: Mapping[str, int]) -> Pool:
        """The same object as long as nothing changes, so that nothing is planned again."""
        in_use = {name: pool.in_use.get(name, 0) + extra.get(name, 0) for name in pool.limits}
        known, raised = self._raised_pools.get(pool.name, (None, pool))
        if known is not pool or not in_use.items() <= raised.in_use.items():
            raised = msgspec.structs.replace(pool, in_use={**pool.in_use, **in_use})
            self._raised_pools[pool.name] = pool, raised
        return raised

    def _with_kept_pods(self, snapshot: Snapshot) -> Snapshot:
        abandoned = {name for name, node in self._disrupted.items() if self.is_abandoned(node)}
        kept = self._keeping_pods | abandoned
        if not kept:
            return snapshot
        nodes = tuple(
            msgspec.structs.replace(node, deleting=False) if node.name in kept else node
            for node in snapshot.nodes
        )
        return msgspec.structs.replace(snapshot, nodes=nodes)

    def take_nodes(self, names: Iterable[str]) -> None:
        """A command that is under way removes them."""
        self._taken.update(names)

    def release_nodes(self, names: Iterable[str]) -> None:
        """The command has ended, or was given up."""
        self._taken.difference_update(names)

    def is_abandoned(self, node: Node) -> bool:
        """Whether it is marked for a command that no longer exists, and will be set free: a process
        that was killed has left it so. Until then its pods stay: a node launched for them would not
        be needed.
        """
        claims = self.claims_of_node(node)
        is_leaving = node.metadata.deletionTimestamp or any(
            each.metadata.deletionTimestamp for each in claims
        )
        return (
            bool(claims)
            and not is_leaving
            and node.metadata.name not in self._taken
            and (is_disrupted(node) or any(map(_has_disruption_reason, claims)))
        )

    @contextmanager
    def keep_pods(self, nodes: Iterable[str]) -> Iterator[None]:
        """Meanwhile their pods are planned nowhere else, although the nodes are tainted.

        A command taints its nodes before it launches replacements: a plan made in between would
        launch nodes for the same pods.
        """
        names = [name for name in nodes if name not in self._keeping_pods]
        self._keeping_pods.update(names)
        try:
            yield
        finally:
            self._keeping_pods.difference_update(names)

    def set_virtual_pods(self, kept: Mapping[str, tuple[ModelPod, ...]], count: int) -> bool:
        """By name of node or claim those that keep it, and how many there are in all; whether other
        nodes are kept than before.
        """
        is_other = kept.keys() != self._virtual_pods.keys()
        self._virtual_pods, self.virtual_pod_count = kept, count
        return is_other

    def with_virtual_pods(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot as disruption sees it: nodes of capacity buffers are not empty, and what
        takes their place must have the same room.
        """
        if not self._virtual_pods:
            return snapshot
        nodes = tuple(
            self._with_virtual_pods(node) if node.name in self._virtual_pods else node
            for node in snapshot.nodes
        )
        return msgspec.structs.replace(snapshot, nodes=nodes)

    def _with_virtual_pods(self, node: ModelNode) -> ModelNode:
        pods = (*node.pods, *self._virtual_pods[node.name])
        known, joined = self._nodes_with_virtual_pods.get(node.name, (None, node))
        if known is not node or joined.pods != pods:
            joined = msgspec.structs.replace(node, pods=pods)
            self._nodes_with_virtual_pods[node.name] = node, joined
        return joined

    def claims_of_node(self, node: Node) -> list[NodeClaim]:
        return self.claims_by_provider_id.get(node.spec.providerID)

    def nodes_of_claim(self, claim: NodeClaim) -> list[Node]:
        return self.nodes_by_provider_id.get(_provider_id(claim))

    def volumes_of_pod(self, pod: Pod) -> list[str]:
        """The names of the PersistentVolumes that the pod uses."""
        namespace = pod.metadata.namespace
        names = (claim_name(volume, pod) for volume in relevant_volumes(pod.spec))
        claims = (self._cache.get(PersistentVolumeClaim, name, namespace) for name in names if name)
        return [claim.spec.volumeName for claim in claims if claim and claim.spec.volumeName]

    # Nominations

    def plan_pods(self, claim: str, pods: Iterable[str]) -> None:
        """Remembers whom a claim is about to be created for, by namespace/name, until it is
        launched or gone: if it cannot be launched, they get an event.
        """
        self._planned_pods[claim] = tuple(pods)

    def planned_pods(self, claim: str) -> tuple[str, ...]:
        return self._planned_pods.get(claim, ())

    def nominate(self, name: str, seconds: float) -> None:
        """Keeps the node, or the claim of this name, from being removed for a while."""
        self._nominated[name] = self._clock.now() + seconds

    def nominated_until(self, *names: str) -> float:
        """When the last nomination of a node ends, which goes by these names; 0 without any."""
        return max(self._nominated.get(name, 0.0) for name in names)

    def nominated(self) -> frozenset[str]:
        """The names of nodes and claims that pods were planned onto, and may be on their way to."""
        now = self._clock.now()
        self._nominated = {name: end for name, end in self._nominated.items() if end > now}
        return frozenset(self._nominated)

    @property
    def next_nomination_end(self) -> float | None:
        return min(self._nominated.values(), default=None)


def _provider_id(claim: NodeClaim) -> str:
    return (claim.status or NodeClaimStatus()).providerID


def _is_unresolved(claim: NodeClaim) -> bool:
    if _provider_id(claim) or claim.metadata.deletionTimestamp:
        return False
    conditions = (claim.status or NodeClaimStatus()).conditions or ()
    return not any(each.type == LAUNCHED and each.status == UNKNOWN for each in conditions)


def _is_launched_again(claim: NodeClaim) -> bool:
    """Whether its launch has failed, or nobody knows yet what came of it."""
    is_open = not _provider_id(claim) and not claim.metadata.deletionTimestamp
    return is_open and not _is_unresolved(claim)


def _has_disruption_reason(claim: NodeClaim) -> bool:
    written = (claim.status or NodeClaimStatus()).conditions or ()
    return any(each.type == DISRUPTION_REASON for each in written)


def _pool_of(claim: NodeClaim) -> str:
    return pool_of_claim(claim) or ""


def _instance_types(claim: NodeClaim) -> Iterator[str]:
    for each in claim.spec.requirements or ():
        if each.key == INSTANCE_TYPE:
            yield from each.values or ()


def _highest_price(claim: NodeClaim, types: Iterable[InstanceType]) -> float:
    """Of the offerings that it may be launched with."""
    wanted = translate_requirements(claim.spec.requirements)
    prices = (
        offering.price + each.fee
        for each in types
        for offering in each.offerings
        if _is_allowed(wanted, offering)
    )
    return max(prices, default=0.0)


def _is_allowed(wanted: Requirements, offering: Offering) -> bool:
    """An offering that leaves one of them open is for every value."""
    stated = (ZONE, offering.zone), (CAPACITY_TYPE, offering.capacity_type)
    return all(value is None or wanted.allowed(key).admits(value) for key, value in stated)


def _without_usage(pool: NodePool) -> NodePool:
    metadata = msgspec.structs.replace(pool.metadata, resourceVersion="")
    status = pool.status and msgspec.structs.replace(pool.status, resources=None, nodes=0)
    return msgspec.structs.replace(pool, metadata=metadata, status=status)


def _type_label(node: Node | None) -> str:
    labels = None if node is None else node.metadata.labels
    return (labels or {}).get(INSTANCE_TYPE, "")


def _is_foreign(obj: WireStruct) -> bool:
    if isinstance(obj, NodePool):
        return not is_ours(obj.spec.template.spec.nodeClassRef)
    return isinstance(obj, NodeClaim) and not is_ours(obj.spec.nodeClassRef)
