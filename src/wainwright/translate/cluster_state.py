"""The objects of a cluster, each translated when it changes, and joined into a snapshot.

A watch changes a few objects a second, and every decision needs all of them. So an object is
translated once, when it is applied; `snapshot` translates what has changed since the last one and
joins it with the rest. The result is the same as that of a new ClusterState with the same objects.

A pod depends on few other objects. If its claims or volumes change, or the services and controllers
of its namespace, the pods concerned are translated again. Changes that could concern any pod
(RuntimeClass, PriorityClass, StorageClass, labels of namespaces that pods select, hostnames that
are not node names) are rare, and translate all pods again.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, Protocol, TypeAlias, TypeVar

import msgspec

from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.karpenter.nodepool import NodePool
from wainwright.api.kubernetes.cluster import (
    Namespace,
    Node,
    PodDisruptionBudget,
    PriorityClass,
    RuntimeClass,
    Service,
)
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
from wainwright.model import pod as model
from wainwright.model.input_remarks import InputRemark, RemarkKind
from wainwright.model.snapshot import Node as ModelNode
from wainwright.model.snapshot import Pool, ReservationState, Snapshot
from wainwright.translate.disruption import EvictionFactsTranslator, translate_pod_disruption_budget
from wainwright.translate.node_claim_pairing import (
    NodeWithClaim,
    is_duplicate_of_claim,
    pair_nodes_with_claims,
)
from wainwright.translate.nodes import NO_ATTACH_LIMITS, differing_hostnames, translate_node
from wainwright.translate.object_metadata import assign_names, namespace_of
from wainwright.translate.pod_constraints import ConstraintTranslator
from wainwright.translate.pods import (
    DaemonSetTranslator,
    PodRole,
    PodTranslator,
    PriorityClasses,
    is_terminal,
    pod_role,
)
from wainwright.translate.pools import resources_in_use, translate_pool
from wainwright.translate.requirements import NodeAffinityTranslator
from wainwright.translate.resources import RuntimeClasses
from wainwright.translate.topology import (
    DEFAULT_SELECTOR_KINDS,
    DefaultConstraints,
    DefaultSelectors,
    DefaultSpreads,
    NamespaceIndex,
)
from wainwright.translate.volumes import (
    StorageClasses,
    VolumeClaims,
    VolumeTranslator,
    attach_limits,
    claim_name,
    relevant_volumes,
)
from wainwright.translate.workload_expansion import autoscaling_remarks, expand_workloads

DEFAULT_SCHEDULER: Final = "default-scheduler"
SPARE_CACHED_SPECS: Final = 1024
"""How many specs of deleted pods may stay in the caches, beyond one for each pod."""

ObjectKey: TypeAlias = tuple[str, str]
"""Namespace and name."""

WireType = TypeVar("WireType", bound=WireStruct)


class ClusterObjects(Protocol):
    """Objects of a cluster, as manifests have them."""

    @property
    def objects(self) -> Sequence[WireStruct]: ...

    @property
    def pools(self) -> Sequence[NodePool]: ...

    @property
    def claims(self) -> Sequence[NodeClaim]: ...

    @property
    def default_constraints(self) -> DefaultConstraints:
        """The scheduler's topology spread constraints for pods without their own."""


class TranslatedSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot, and remarks about objects that were left out or read with assumptions."""

    snapshot: Snapshot
    remarks: tuple[InputRemark, ...] = ()


def translate_snapshot(
    manifests: ClusterObjects,
    *,
    reservations: Iterable[ReservationState] = (),
    now: float | None = None,
    maximum_replicas: bool = False,
    pod_limit: int | None = None,
) -> TranslatedSnapshot:
    """The state of the cluster that manifests describe, with the pods that workloads still lack."""
    sets = [each for each in manifests.objects if isinstance(each, StatefulSet)]
    state = ClusterState(
        manifests.default_constraints,
        expanded_sets=[(namespace_of(each.metadata), each.metadata.name) for each in sets],
        assume_missing_classes=True,
    )
    for item in (*manifests.objects, *manifests.pools, *manifests.claims):
        if not isinstance(item, Pod):
            state.apply(item)
    pods = expand_workloads(manifests.objects, maximum=maximum_replicas, limit=pod_limit)
    for pod in assign_names(pods):
        state.apply(pod)
    translated = state.snapshot(reservations=reservations, now=now)
    remarks = autoscaling_remarks(manifests.objects, maximum=maximum_replicas)
    return msgspec.structs.replace(translated, remarks=(*translated.remarks, *remarks))


def _volume_claim_templates(stateful_set: StatefulSet) -> object:
    return stateful_set.spec.selector, stateful_set.spec.volumeClaimTemplates


def _selector(controller: Deployment | ReplicaSet | ReplicationController | Service) -> object:
    return controller.spec.selector


RELEVANT_CONTENT: Final[dict[type[WireStruct], Callable[[Any], object]]] = {
    Namespace: lambda namespace: namespace.metadata.labels,
    Service: _selector,
    Deployment: _selector,
    ReplicaSet: _selector,
    ReplicationController: lambda controller: controller.spec.selected,
    StatefulSet: _volume_claim_templates,
    CSINode: lambda csi_node: csi_node.spec,
}
"""What of an object is used, of kinds whose other content changes often."""

FOUNDATIONS: Final = frozenset({RuntimeClass, PriorityClass, StorageClass})
"""Kinds that any pod may depend on."""
VOLUME_KINDS: Final = frozenset({PersistentVolumeClaim, PersistentVolume, StatefulSet})
NODE_KINDS: Final = frozenset({Node, NodeClaim})


class ClusterState:
    """`expanded_sets`: StatefulSets whose missing pods are applied as well, by namespace and name;
    of a real cluster there are none. `assume_missing_classes`: whether there may be storage classes
    that were not applied; of a real cluster all are known.
    """

    def __init__(
        self,
        default_constraints: DefaultConstraints = (),
        *,
        expanded_sets: Iterable[ObjectKey] = (),
        assume_missing_classes: bool = False,
    ) -> None:
        self._default_constraints = default_constraints
        self._assume_missing_classes = assume_missing_classes
        self._expanded_sets = tuple(expanded_sets)
        self._objects: dict[type[WireStruct], dict[ObjectKey, Any]] = defaultdict(dict)
        self._changed: dict[type[WireStruct], dict[ObjectKey, Any]] = defaultdict(dict)
        """What has changed since the last snapshot, with the object as it was before or is now."""
        self._is_renewed = False
        """Whether translators know of what has changed, but for pods."""
        self._hostnames: dict[str, str] = {}
        self._known_namespaces: tuple[object, ...] = ()
        self._limits: dict[str, dict[str, int]] = {}
        self._nodes = _NodeTable()
        self._pods = _PodTable()
        self._daemonsets: dict[ObjectKey, model.DaemonSet] = {}
        self._sorted: dict[type[WireStruct], tuple[Any, ...]] = {}
        """Translations of kinds that do not depend on any other, sorted by key."""
        self._build_translators()

    def apply(self, item: WireStruct) -> None:
        """Adds an object, or replaces the one of its kind and name."""
        kind, key = type(item), _key(item)
        known = self._objects[kind].get(key)
        if known is None or _differs(kind, known, item):
            self._note(kind, key, known or item)
        self._objects[kind][key] = item

    def remove(self, item: WireStruct) -> None:
        """Removes the object of its kind and name, if there is one."""
        kind, key = type(item), _key(item)
        known = self._objects[kind].pop(key, None)
        if known is not None:
            self._note(kind, key, known)

    def _note(self, kind: type[WireStruct], key: ObjectKey, item: WireStruct) -> None:
        self._changed[kind][key] = item
        if kind is not Pod:
            self._is_renewed = False

    def all(self, kind: type[WireType]) -> Iterable[WireType]:
        """The objects of a kind as they are now."""
        return self._objects[kind].values()

    def snapshot(
        self, *, reservations: Iterable[ReservationState] = (), now: float | None = None
    ) -> TranslatedSnapshot:
        """The cluster as it is now, everything sorted by name."""
        if self._changed:
            self._translate_changes()
            self._changed.clear()
            self._is_renewed = False
        snapshot = Snapshot(
            pods=self._pods.pending(),
            pools=self._nodes.pools,
            nodes=self._nodes.nodes,
            daemonsets=self._sorted.get(DaemonSet, ()),
            reservations=tuple(sorted(reservations, key=lambda each: each.id)),
            claims=self._nodes.claim_names,
            pod_disruption_budgets=self._sorted.get(PodDisruptionBudget, ()),
            now=now,
        )
        return TranslatedSnapshot(snapshot=snapshot, remarks=tuple(self._remarks()))

    def translate_pods(self, most: int) -> bool:
        """Translates so many of the pods that have changed, ahead of the next snapshot; whether
        there are others. Of thousands it would take too long at once.
        """
        if len(self._changed.get(Pod, ())) <= most:
            return False
        self._renew()
        changed = self._changed[Pod]
        for key in [*islice(changed, most)]:
            self._translate_pod(key)
            del changed[key]
        self._pod_translator.forget_identities()
        return True

    def _renew(self) -> None:
        """What translations of pods depend on, once after each change of it."""
        if not self._is_renewed:
            if not NODE_KINDS.isdisjoint(self._changed):
                self._nodes.pair(self.all(Node), self.all(NodeClaim))
            self._renew_translators()
            self._is_renewed = True
        elif Pod in self._changed:
            self._renew_namespaces()

    def _translate_changes(self) -> None:
        self._renew()
        changed_nodes = not NODE_KINDS.isdisjoint(self._changed)
        for key in self._changed.get(Pod, ()):
            self._translate_pod(key)
        self._limit_caches()
        self._translate_daemonsets()
        if changed_nodes or CSINode in self._changed or NodePool in self._changed:
            self._nodes.translate(self._objects[NodePool], self._attach_limits())
        self._nodes.join(self._pods)
        if PodDisruptionBudget in self._changed:
            budgets = self._objects[PodDisruptionBudget]
            self._sorted[PodDisruptionBudget] = tuple(
                translate_pod_disruption_budget(budgets[key]) for key in sorted(budgets)
            )

    def _attach_limits(self) -> dict[str, dict[str, int]]:
        if CSINode in self._changed:
            self._limits = attach_limits(self.all(CSINode))
        return self._limits

    def _renew_translators(self) -> None:
        """Replaces the translators whose input has changed, and marks pods that used them."""
        hostnames = self._hostnames
        if Node in self._changed:
            hostnames = differing_hostnames(self.all(Node))
        if not FOUNDATIONS.isdisjoint(self._changed) or hostnames != self._hostnames:
            self._translate_all_pods(hostnames)
            return
        if not VOLUME_KINDS.isdisjoint(self._changed):
            self._pod_translator.volumes = self._volume_translator()
            self._mark(self._pods.using_claims(set(self._changed_claims())))
        if self._default_constraints and not self._changed.keys().isdisjoint(
            DEFAULT_SELECTOR_KINDS
        ):
            self._constraint_translator.defaults = self._defaults = self._default_spreads()
            self._mark(self._pods.in_namespaces(self._namespaces_with_changed_selectors()))
        if Namespace in self._changed or Pod in self._changed:
            self._renew_namespaces()

    def _renew_namespaces(self) -> None:
        content = self._namespace_labels()
        if content == self._known_namespaces:
            return
        if self._constraint_translator.namespaces.is_selected_from:
            self._translate_all_pods(self._hostnames)
        else:
            self._known_namespaces = content
            self._constraint_translator.namespaces = self._namespace_index()

    def _translate_all_pods(self, hostnames: dict[str, str]) -> None:
        self._hostnames = hostnames
        self._build_translators()
        self._mark(self._objects[Pod])
        self._changed[DaemonSet].update(self._objects[DaemonSet])

    def _mark(self, keys: Iterable[ObjectKey]) -> None:
        """Has these pods translated again; the list is complete before the table changes."""
        changed, pods = self._changed[Pod], self._objects[Pod]
        for key in list(keys):
            if key in pods:
                changed.setdefault(key, pods[key])

    def _changed_claims(self) -> Iterator[ObjectKey | str]:
        """The claims whose volume may be different now; a namespace for all claims in it."""
        yield from self._changed.get(PersistentVolumeClaim, ())
        yield from (namespace for namespace, _ in self._changed.get(StatefulSet, ()))
        changed_volumes = {name for _, name in self._changed.get(PersistentVolume, ())}
        if changed_volumes:
            for key, claim in self._objects[PersistentVolumeClaim].items():
                if claim.spec.volumeName in changed_volumes:
                    yield key

    def _namespaces_with_changed_selectors(self) -> set[str]:
        return {
            namespace
            for kind in DEFAULT_SELECTOR_KINDS
            for namespace, _ in self._changed.get(kind, ())
        }

    def _build_translators(self) -> None:
        self._runtimes: RuntimeClasses = RuntimeClasses(self.all(RuntimeClass))
        self._priorities: PriorityClasses = PriorityClasses(self.all(PriorityClass))
        self._defaults = self._default_spreads()
        self._known_namespaces = self._namespace_labels()
        node_affinity = NodeAffinityTranslator(self._hostnames)
        self._constraint_translator: ConstraintTranslator = ConstraintTranslator(
            node_affinity, self._namespace_index(), self._defaults
        )
        self._pod_translator: PodTranslator = PodTranslator(
            self._runtimes,
            self._priorities,
            node_affinity,
            self._constraint_translator,
            self._volume_translator(),
            EvictionFactsTranslator(self._expanded_sets),
        )
        self._daemonset_translator = DaemonSetTranslator(self._pod_translator, self._runtimes)

    def _default_spreads(self) -> DefaultSpreads:
        objects = (each for kind in DEFAULT_SELECTOR_KINDS for each in self._objects[kind].values())
        return DefaultSpreads(self._default_constraints, DefaultSelectors(objects))

    def _volume_translator(self) -> VolumeTranslator:
        claims = VolumeClaims(self.all(PersistentVolumeClaim), self.all(StatefulSet))
        storage = StorageClasses(
            self.all(StorageClass), assume_missing=self._assume_missing_classes
        )
        return VolumeTranslator(claims, storage, self.all(PersistentVolume), self._hostnames)

    def _namespace_index(self) -> NamespaceIndex:
        return NamespaceIndex(self.all(Namespace), self._pods.namespaces)

    def _namespace_labels(self) -> tuple[object, ...]:
        labels = {each.metadata.name: each.metadata.labels for each in self.all(Namespace)}
        self._pods.count_namespaces(self._changed.get(Pod, ()), self._objects[Pod])
        return labels, frozenset(self._pods.namespaces)

    def _translate_pod(self, key: ObjectKey) -> None:
        wire = self._objects[Pod].get(key)
        if wire is None:
            self._pods.remove(key)
            return
        role = pod_role(wire)
        if role in (PodRole.PENDING, PodRole.BOUND):
            pod = self._pod_translator.translate(wire)
            self._pods.put(key, wire, role, pod, tuple(self._pod_remarks(wire)))
        else:
            remarks = ((RemarkKind.SCHEDULING_GATED, ""),) if role is PodRole.GATED else ()
            self._pods.put(key, wire, role, None, remarks)

    def _pod_remarks(self, pod: Pod) -> Iterator[tuple[RemarkKind, str]]:
        if pod.spec.schedulerName and pod.spec.schedulerName != DEFAULT_SCHEDULER:
            yield RemarkKind.OTHER_SCHEDULER, pod.spec.schedulerName
        runtime = self._runtimes.missing_class(pod.spec)
        if runtime:
            yield RemarkKind.MISSING_RUNTIME_CLASS, runtime
        priority = self._priorities.missing_class(pod.spec)
        if priority:
            yield RemarkKind.MISSING_PRIORITY_CLASS, priority
        for name in sorted(self._pod_translator.volumes.assumed_classes(pod)):
            yield (
                (RemarkKind.MISSING_STORAGE_CLASS, name)
                if name
                else (RemarkKind.MISSING_DEFAULT_STORAGE_CLASS, "")
            )
        controller = self._defaults.missing_controller(pod)
        if controller:
            yield RemarkKind.MISSING_CONTROLLER, controller

    def _limit_caches(self) -> None:
        """Without it every pod that ever existed would stay in memory, with its spec."""
        allowed = len(self._objects[Pod]) + SPARE_CACHED_SPECS
        if self._pod_translator.largest_cache > allowed:
            self._build_translators()
        self._pod_translator.forget_identities()

    def _translate_daemonsets(self) -> None:
        changed = {**self._changed.get(DaemonSet, {}), **self._pods.changed_daemonsets()}
        for key in changed:
            daemonset = self._objects[DaemonSet].get(key)
            if daemonset is None:
                self._daemonsets.pop(key, None)
            else:
                live = self._pods.of_daemonset(key)
                self._daemonsets[key] = self._daemonset_translator.translate(daemonset, live)
        if changed:
            self._sorted[DaemonSet] = tuple(
                self._daemonsets[key] for key in sorted(self._daemonsets)
            )

    def _remarks(self) -> Iterator[InputRemark]:
        deleting = {node.name for node in self._nodes.nodes if node.deleting and node.pods}
        grouped: dict[tuple[RemarkKind, str], list[str]] = defaultdict(list)
        for key, remarks in self._pods.remarks(self._nodes.node_names(deleting)):
            for remark in remarks:
                grouped[remark].append(f"{key[0]}/{key[1]}")
        for (kind, subject), pods in grouped.items():
            yield InputRemark(kind=kind, subject=subject, pods=tuple(sorted(pods)))
        for paired_node in self._nodes.duplicates:
            yield InputRemark(
                kind=RemarkKind.NODE_COUNTED_AS_CLAIM,
                subject=paired_node.name,
                pool=paired_node.pool or "",
            )


def _key(item: WireStruct) -> ObjectKey:
    metadata = item.metadata  # type: ignore[attr-defined] # every kind of object has metadata
    return namespace_of(metadata), metadata.name


def _differs(kind: type[WireStruct], known: WireStruct, item: WireStruct) -> bool:
    relevant = RELEVANT_CONTENT.get(kind)
    return known != item if relevant is None else relevant(known) != relevant(item)


class _PodEntry(msgspec.Struct, frozen=True, kw_only=True):
    wire: Pod
    role: PodRole
    pod: model.Pod | None
    node: str
    daemonset: ObjectKey | None
    claims: tuple[ObjectKey, ...]


class _PodTable:
    """The translated pods, and the indexes by which they are found again."""

    def __init__(self) -> None:
        self._entries: dict[ObjectKey, _PodEntry] = {}
        self._pending: dict[ObjectKey, model.Pod] = {}
        self._pending_tuple: tuple[model.Pod, ...] | None = ()
        self._on_node: dict[str, dict[ObjectKey, model.Pod]] = defaultdict(dict)
        self._node_tuples: dict[str, tuple[model.Pod, ...]] = {}
        self._remarks: dict[ObjectKey, tuple[tuple[RemarkKind, str], ...]] = {}
        self._by_daemonset: dict[ObjectKey, dict[ObjectKey, Pod]] = defaultdict(dict)
        self._changed_daemonsets: dict[ObjectKey, None] = {}
        self._with_claims: dict[ObjectKey, tuple[ObjectKey, ...]] = {}
        self._namespace_counts: Counter[str] = Counter()
        self._counted: set[ObjectKey] = set()

    @property
    def namespaces(self) -> list[str]:
        return [name for name, count in self._namespace_counts.items() if count]

    def count_namespaces(self, keys: Iterable[ObjectKey], pods: dict[ObjectKey, Pod]) -> None:
        for key in keys:
            if (key in pods) != (key in self._counted):
                self._namespace_counts[key[0]] += 1 if key in pods else -1
                self._counted ^= {key}

    def put(
        self,
        key: ObjectKey,
        wire: Pod,
        role: PodRole,
        pod: model.Pod | None,
        remarks: tuple[tuple[RemarkKind, str], ...],
    ) -> None:
        self.remove(key)
        entry = _PodEntry(
            wire=wire,
            role=role,
            pod=pod,
            node=wire.spec.nodeName,
            daemonset=_daemonset_of(wire),
            claims=_claims_of(wire),
        )
        self._entries[key] = entry
        if remarks:
            self._remarks[key] = remarks
        if entry.claims:
            self._with_claims[key] = entry.claims
        if entry.daemonset is not None:
            self._by_daemonset[entry.daemonset][key] = wire
            self._changed_daemonsets[entry.daemonset] = None
        if pod is not None and role is PodRole.PENDING:
            self._pending[key] = pod
            self._pending_tuple = None
        elif pod is not None:
            self._on_node[entry.node][key] = pod
            self._node_tuples.pop(entry.node, None)

    def remove(self, key: ObjectKey) -> None:
        entry = self._entries.pop(key, None)
        if entry is None:
            return
        self._remarks.pop(key, None)
        self._with_claims.pop(key, None)
        if entry.daemonset is not None:
            del self._by_daemonset[entry.daemonset][key]
            self._changed_daemonsets[entry.daemonset] = None
        if entry.pod is not None and entry.role is PodRole.PENDING:
            del self._pending[key]
            self._pending_tuple = None
        elif entry.pod is not None:
            bound = self._on_node[entry.node]
            del bound[key]
            if not bound:
                del self._on_node[entry.node]  # nodes come and go, and names are seldom used again
            self._node_tuples.pop(entry.node, None)

    def pending(self) -> tuple[model.Pod, ...]:
        if self._pending_tuple is None:
            # Sorting keys that are mostly in order already takes one pass over them.
            self._pending = {key: self._pending[key] for key in sorted(self._pending)}
            self._pending_tuple = tuple(self._pending.values())
        return self._pending_tuple

    def on_node(self, name: str) -> tuple[model.Pod, ...]:
        """The pods bound to a node, sorted; the same tuple as long as they are the same."""
        bound = self._on_node.get(name)
        if bound is None:
            return ()
        pods = self._node_tuples.get(name)
        if pods is None:
            pods = self._node_tuples[name] = tuple(bound[key] for key in sorted(bound))
        return pods

    def changed_daemonsets(self) -> dict[ObjectKey, None]:
        """Those whose live pods have changed since the last call."""
        changed, self._changed_daemonsets = self._changed_daemonsets, {}
        return changed

    def of_daemonset(self, key: ObjectKey) -> Iterable[Pod]:
        return self._by_daemonset.get(key, {}).values()

    def using_claims(self, claims: set[ObjectKey | str]) -> Iterator[ObjectKey]:
        """The pods with one of these claims; a namespace stands for all claims in it."""
        for key, own in self._with_claims.items():
            if key[0] in claims or not claims.isdisjoint(own):
                yield key

    def in_namespaces(self, namespaces: set[str]) -> Iterator[ObjectKey]:
        return (key for key in self._entries if key[0] in namespaces)

    def remarks(
        self, deleting: set[str]
    ) -> Iterator[tuple[ObjectKey, tuple[tuple[RemarkKind, str], ...]]]:
        """The remarks on pods that are to be scheduled, or will be: their node is deleted."""
        for key, remarks in self._remarks.items():
            entry = self._entries[key]
            moves = entry.node in deleting and entry.pod is not None and entry.pod.is_rescheduled
            if entry.role is not PodRole.BOUND or moves:
                yield key, remarks


def _daemonset_of(pod: Pod) -> ObjectKey | None:
    """The DaemonSet that a live pod shows the requests of."""
    for owner in pod.metadata.ownerReferences or ():
        if owner.kind == "DaemonSet" and not is_terminal(pod):
            return namespace_of(pod.metadata), owner.name
    return None


def _claims_of(pod: Pod) -> tuple[ObjectKey, ...]:
    if not pod.spec.volumes:
        return ()
    names = (claim_name(volume, pod) for volume in relevant_volumes(pod.spec))
    return tuple((namespace_of(pod.metadata), name) for name in names if name)


class _NodeEntry:
    """A node without its pods, and with those that it had at the last snapshot."""

    __slots__ = ("bare", "joined", "limits", "paired", "pool")

    def __init__(
        self, paired: NodeWithClaim, pool: NodePool | None, limits: Mapping[str, int]
    ) -> None:
        self.paired = paired
        self.pool = pool
        self.limits = limits
        self.bare = translate_node(paired, pool, (), limits)
        self.joined = self.bare

    def join(self, pods: tuple[model.Pod, ...]) -> ModelNode:
        if self.joined.pods is not pods:
            self.joined = msgspec.structs.replace(self.bare, pods=pods)
        return self.joined


class _NodeTable:
    """Nodes with their NodeClaims, and the NodePools with what their nodes use."""

    def __init__(self) -> None:
        self.nodes: tuple[ModelNode, ...] = ()
        self.pools: tuple[Pool, ...] = ()
        self.claim_names: frozenset[str] = frozenset()
        self.duplicates: list[NodeWithClaim] = []
        """Nodes that are counted already as a launching claim."""
        self._paired: list[NodeWithClaim] = []
        self._known_pairs: dict[tuple[int, int], NodeWithClaim] = {}
        self._entries: list[_NodeEntry] = []
        self._pools: dict[str, tuple[NodePool, Pool]] = {}

    def pair(self, nodes: Iterable[Node], claims: Iterable[NodeClaim]) -> None:
        claims = list(claims)
        self.claim_names = frozenset(claim.metadata.name for claim in claims)
        pairs = [self._known(each) for each in pair_nodes_with_claims(nodes, claims)]
        self._known_pairs = {(id(each.node), id(each.claim)): each for each in pairs}
        launching_pools = {each.pool for each in pairs if each.node is None}
        duplicates = {id(each) for each in pairs if is_duplicate_of_claim(each, launching_pools)}
        self._paired = [each for each in pairs if id(each) not in duplicates]
        self.duplicates = [each for each in pairs if id(each) in duplicates]

    def _known(self, pair: NodeWithClaim) -> NodeWithClaim:
        """The pair of the last snapshot if it is of the same objects: it has its values cached."""
        return self._known_pairs.get((id(pair.node), id(pair.claim)), pair)

    def translate(
        self, pools: dict[ObjectKey, NodePool], limits: dict[str, dict[str, int]]
    ) -> None:
        by_name = {name: pool for (_, name), pool in pools.items()}
        known = {id(entry.paired): entry for entry in self._entries}
        self._entries = [
            self._entry(
                known.get(id(paired)),
                paired,
                by_name.get(paired.pool or ""),
                limits.get(paired.node_name) or NO_ATTACH_LIMITS,
            )
            for paired in self._paired
        ]
        self._translate_pools(by_name)

    def _entry(
        self,
        known: _NodeEntry | None,
        paired: NodeWithClaim,
        pool: NodePool | None,
        limits: Mapping[str, int],
    ) -> _NodeEntry:
        if known is not None and known.pool is pool and known.limits == limits:
            return known
        return _NodeEntry(paired, pool, limits)

    def _translate_pools(self, node_pools: dict[str, NodePool]) -> None:
        members: dict[str | None, list[NodeWithClaim]] = defaultdict(list)
        for paired in self._paired:
            members[paired.pool].append(paired)
        self._pools = {
            name: self._pool(node_pool, members.get(name, []))
            for name, node_pool in sorted(node_pools.items())
        }
        self.pools = tuple(pool for _, pool in self._pools.values())

    def _pool(self, node_pool: NodePool, members: list[NodeWithClaim]) -> tuple[NodePool, Pool]:
        known = self._pools.get(node_pool.metadata.name)
        pool = (
            known[1] if known is not None and known[0] is node_pool else translate_pool(node_pool)
        )
        in_use = resources_in_use(node_pool, members)
        if pool.in_use != in_use:
            pool = msgspec.structs.replace(pool, in_use=in_use)
        return node_pool, pool

    def join(self, pods: _PodTable) -> None:
        self.nodes = tuple(
            [entry.join(pods.on_node(entry.paired.node_name)) for entry in self._entries]
        )

    def node_names(self, names: set[str]) -> set[str]:
        """The names that pods bound to these nodes and claims have in spec.nodeName."""
        if not names:
            return set()
        return {entry.paired.node_name for entry in self._entries if entry.bare.name in names}
