"""All objects of a cluster as one snapshot: the planner's input besides the catalogs."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Protocol, TypeVar

import msgspec

from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.karpenter.nodepool import NodePool
from wainwright.api.kubernetes.cluster import (
    Namespace,
    Node,
    PodDisruptionBudget,
    PriorityClass,
    RuntimeClass,
)
from wainwright.api.kubernetes.storage import (
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from wainwright.api.kubernetes.workloads import DaemonSet, Pod, StatefulSet
from wainwright.api.wire import WireStruct
from wainwright.model import pod as model
from wainwright.model.snapshot import Node as ModelNode
from wainwright.model.snapshot import Pool, ReservationState, Snapshot
from wainwright.translate.node_claim_pairing import (
    NodeWithClaim,
    is_duplicate_of_claim,
    pair_nodes_with_claims,
)
from wainwright.translate.nodes import NO_ATTACH_LIMITS, node_hostnames, translate_node
from wainwright.translate.object_metadata import assign_names, namespace_of
from wainwright.translate.pod_constraints import ConstraintTranslator
from wainwright.translate.pod_eligibility import ClassifiedPods, DisruptionBudgets, PodClassifier
from wainwright.translate.pods import DaemonSetTranslator, PodTranslator, PriorityClasses
from wainwright.translate.pools import translate_pool
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
)
from wainwright.translate.workload_expansion import expand_workloads

DEFAULT_SCHEDULER: Final = "default-scheduler"
MAX_NAMED_PODS: Final = 10  # enough to identify a workload; the rest is only counted


def snapshot_warnings(
    classified: ClassifiedPods,
    runtimes: RuntimeClasses,
    defaults: DefaultSpreads,
    duplicates: Iterable[NodeWithClaim],
) -> Iterator[str]:
    if classified.gated:
        yield f"not planned while scheduling gates hold them back: {_list_pods(classified.gated)}"
    if classified.stuck:
        why = "not planned, as a disruption budget or annotation keeps them on a node being deleted"
        yield f"{why}: {_list_pods(classified.stuck)}"
    for scheduler, pods in _group_pods(
        (pod.spec.schedulerName, pod) for pod in classified.to_schedule
    ):
        if scheduler != DEFAULT_SCHEDULER:
            yield f"planned as if {scheduler} would do as the default scheduler: {_list_pods(pods)}"
    for runtime, pods in _group_pods(
        (runtimes.missing_class(pod.spec), pod) for pod in classified.to_schedule
    ):
        missing = f"runtime class {runtime} is not in the input, so its overhead is not counted"
        yield f"{missing}: {_list_pods(pods)}"
    for owner, pods in _group_pods(
        (defaults.missing_controller(pod), pod) for pod in classified.to_schedule
    ):
        missing = f"{owner} is not in the input, so its selector has no part in the default spread"
        yield f"{missing}: {_list_pods(pods)}"
    for paired_node in duplicates:
        yield (
            f"node {paired_node.name} is left out: it has no provider id or instance type yet, "
            f"and a claim of pool {paired_node.pool} stands for it"
        )


def _group_pods(labelled: Iterable[tuple[str | None, Pod]]) -> list[tuple[str, list[Pod]]]:
    """Pods by label, sorted by label, without those whose label is empty."""
    groups: dict[str, list[Pod]] = {}
    for label, pod in labelled:
        if label:
            groups.setdefault(label, []).append(pod)
    return sorted(groups.items())


def _list_pods(pods: list[Pod]) -> str:
    names = sorted(f"{namespace_of(pod.metadata)}/{pod.metadata.name}" for pod in pods)
    others = len(names) - MAX_NAMED_PODS
    return ", ".join(names[:MAX_NAMED_PODS]) + (f" and {others} more" if others > 0 else "")


WireType = TypeVar("WireType", bound=WireStruct)


class ClusterObjects(Protocol):
    """Objects of a cluster, from manifests or from a live cache."""

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
    """A snapshot, and warnings about objects that were left out or read with assumptions."""

    snapshot: Snapshot
    warnings: tuple[str, ...] = ()


def translate_snapshot(
    manifests: ClusterObjects, *, reservations: Iterable[ReservationState] = ()
) -> TranslatedSnapshot:
    """The state of the cluster that the input describes, sorted by name."""
    return _SnapshotTranslation(manifests).translate(reservations)


class _SnapshotTranslation:
    """One translation; its parts are used by several of the results."""

    def __init__(self, manifests: ClusterObjects) -> None:
        self.manifests = manifests
        self.by_kind: dict[type[WireStruct], list[Any]] = {}
        for each in manifests.objects:
            self.by_kind.setdefault(type(each), []).append(each)
        self.all_pods = assign_names(expand_workloads(manifests.objects))
        self.paired_nodes, self.duplicates = _split_duplicates(
            pair_nodes_with_claims(self._all(Node), manifests.claims)
        )
        self.runtimes = RuntimeClasses(self._all(RuntimeClass))
        selecting = (each for kind in DEFAULT_SELECTOR_KINDS for each in self.by_kind.get(kind, ()))
        self.defaults = DefaultSpreads(manifests.default_constraints, DefaultSelectors(selecting))
        self.pod_translator = self._pod_translator()
        self.classified = self._classify_pods()

    def translate(self, reservations: Iterable[ReservationState]) -> TranslatedSnapshot:
        snapshot = Snapshot(
            pods=self._pods_to_schedule(),
            pools=self._pools(),
            nodes=self._nodes(),
            daemonsets=self._daemonsets(),
            reservations=tuple(sorted(reservations, key=lambda each: each.id)),
        )
        warnings = snapshot_warnings(self.classified, self.runtimes, self.defaults, self.duplicates)
        return TranslatedSnapshot(snapshot=snapshot, warnings=tuple(warnings))

    def _all(self, kind: type[WireType]) -> list[WireType]:
        """The objects of a kind, from an index: the caller's `all` may scan every object."""
        return self.by_kind.get(kind, [])

    def _pod_translator(self) -> PodTranslator:
        hostnames = node_hostnames(self.paired_nodes)
        node_affinity = NodeAffinityTranslator(hostnames)
        pod_namespaces = (namespace_of(pod.metadata) for pod in self.all_pods)
        namespaces = NamespaceIndex(self._all(Namespace), pod_namespaces)
        claims = VolumeClaims(self._all(PersistentVolumeClaim), self._all(StatefulSet))
        storage = StorageClasses(self._all(StorageClass))
        return PodTranslator(
            self.runtimes,
            PriorityClasses(self._all(PriorityClass)),
            node_affinity,
            ConstraintTranslator(node_affinity, namespaces, self.defaults),
            VolumeTranslator(claims, storage, self._all(PersistentVolume), hostnames),
        )

    def _classify_pods(self) -> ClassifiedPods:
        deleting = {each.node_name for each in self.paired_nodes if each.is_deleting}
        budgets = DisruptionBudgets(self._all(PodDisruptionBudget))
        sets = self._all(StatefulSet)
        names = {(namespace_of(each.metadata), each.metadata.name) for each in sets}
        return PodClassifier(deleting, budgets, names).classify(self.all_pods)

    def _pods_to_schedule(self) -> tuple[model.Pod, ...]:
        return _sort_pods(
            self.pod_translator.translate(each) for each in self.classified.to_schedule
        )

    def _pools(self) -> tuple[Pool, ...]:
        by_pool: dict[str | None, list[NodeWithClaim]] = {}
        for paired_node in self.paired_nodes:
            by_pool.setdefault(paired_node.pool, []).append(paired_node)
        return tuple(
            translate_pool(each, by_pool.get(each.metadata.name, ()))
            for each in sorted(self.manifests.pools, key=lambda each: each.metadata.name)
        )

    def _nodes(self) -> tuple[ModelNode, ...]:
        pools = {each.metadata.name: each for each in self.manifests.pools}
        limits = attach_limits(self._all(CSINode))
        return tuple(
            translate_node(
                each,
                pools.get(each.pool or ""),
                self._pods_on_node(each.node_name),
                limits.get(each.node_name, NO_ATTACH_LIMITS),
            )
            for each in self.paired_nodes
        )

    def _pods_on_node(self, name: str) -> tuple[model.Pod, ...]:
        bound = self.classified.staying.get(name, ())
        return _sort_pods(self.pod_translator.translate(each, is_bound=True) for each in bound)

    def _daemonsets(self) -> tuple[model.DaemonSet, ...]:
        translator = DaemonSetTranslator(self.pod_translator, self.runtimes, self.all_pods)
        snapshot = map(translator.translate, self._all(DaemonSet))
        return tuple(sorted(snapshot, key=lambda each: (each.namespace, each.name)))


def _sort_pods(pods: Iterable[model.Pod]) -> tuple[model.Pod, ...]:
    return tuple(sorted(pods, key=lambda pod: (pod.namespace, pod.name)))


def _split_duplicates(
    paired_nodes: list[NodeWithClaim],
) -> tuple[list[NodeWithClaim], list[NodeWithClaim]]:
    """The nodes that count, and nodes that are counted already as a launching claim."""
    launching_pools = {each.pool for each in paired_nodes if each.node is None}
    are_duplicates = [is_duplicate_of_claim(each, launching_pools) for each in paired_nodes]
    counted = [
        each
        for each, is_duplicate in zip(paired_nodes, are_duplicates, strict=True)
        if not is_duplicate
    ]
    return counted, [
        each
        for each, is_duplicate in zip(paired_nodes, are_duplicates, strict=True)
        if is_duplicate
    ]
