"""All objects of a cluster as one snapshot: all that a plan may look at besides catalogues."""

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
MAX_NAMED_PODS: Final = 10  # enough to find them by; the rest is only counted


def snapshot_warnings(
    found: ClassifiedPods,
    runtimes: RuntimeClasses,
    defaults: DefaultSpreads,
    left_out: Iterable[NodeWithClaim],
) -> Iterator[str]:
    if found.gated:
        yield f"not planned while scheduling gates hold them back: {_list_pods(found.gated)}"
    if found.stuck:
        why = "not planned, as a disruption budget or annotation keeps them on a node being deleted"
        yield f"{why}: {_list_pods(found.stuck)}"
    for scheduler, pods in _group_pods((pod.spec.schedulerName, pod) for pod in found.placed):
        if scheduler != DEFAULT_SCHEDULER:
            yield f"planned as if {scheduler} would do as the default scheduler: {_list_pods(pods)}"
    for runtime, pods in _group_pods((runtimes.unknown(pod.spec), pod) for pod in found.placed):
        missing = f"runtime class {runtime} is not in the input, so its overhead is not counted"
        yield f"{missing}: {_list_pods(pods)}"
    for owner, pods in _group_pods((defaults.unknown(pod), pod) for pod in found.placed):
        missing = f"{owner} is not in the input, so its selector has no part in the default spread"
        yield f"{missing}: {_list_pods(pods)}"
    for paired_node in left_out:
        yield (
            f"node {paired_node.name} is left out: it has no provider id or instance type yet, "
            f"and a claim of pool {paired_node.pool} stands for it"
        )


def _group_pods(labelled: Iterable[tuple[str | None, Pod]]) -> list[tuple[str, list[Pod]]]:
    """Pods by what they name, in the order of names, without those that name nothing."""
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
        """What the scheduler asks of pods without topology spread constraints."""


class TranslatedSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot, and what its reader should know besides."""

    snapshot: Snapshot
    warnings: tuple[str, ...] = ()


def translate_snapshot(
    manifests: ClusterObjects, *, reservations: Iterable[ReservationState] = ()
) -> TranslatedSnapshot:
    """The state of the cluster that the input describes, in the order of names."""
    return _SnapshotTranslation(manifests).translated(reservations)


class _SnapshotTranslation:
    """The parts of one translation that others need."""

    def __init__(self, manifests: ClusterObjects) -> None:
        self.manifests = manifests
        self.by_kind: dict[type[WireStruct], list[Any]] = {}
        for each in manifests.objects:
            self.by_kind.setdefault(type(each), []).append(each)
        self.written = assign_names(expand_workloads(manifests.objects))
        self.paired_nodes, self.left_out = _split_duplicates(
            pair_nodes_with_claims(self._all(Node), manifests.claims)
        )
        self.runtimes = RuntimeClasses(self._all(RuntimeClass))
        parties = (each for kind in DEFAULT_SELECTOR_KINDS for each in self.by_kind.get(kind, ()))
        self.defaults = DefaultSpreads(manifests.default_constraints, DefaultSelectors(parties))
        self.pods = self._translating()
        self.found = self._sorted()

    def translated(self, reservations: Iterable[ReservationState]) -> TranslatedSnapshot:
        made = Snapshot(
            pods=self._placed(),
            pools=self._pools(),
            nodes=self._nodes(),
            daemonsets=self._daemonsets(),
            reservations=tuple(sorted(reservations, key=lambda each: each.id)),
        )
        notes = snapshot_warnings(self.found, self.runtimes, self.defaults, self.left_out)
        return TranslatedSnapshot(snapshot=made, warnings=tuple(notes))

    def _all(self, kind: type[WireType]) -> list[WireType]:
        """As the world has them, which takes a look at every object each time it is asked."""
        return self.by_kind.get(kind, [])

    def _translating(self) -> PodTranslator:
        hosts = node_hostnames(self.paired_nodes)
        places = NodeAffinityTranslator(hosts)
        mentioned = (namespace_of(pod.metadata) for pod in self.written)
        spaces = NamespaceIndex(self._all(Namespace), mentioned)
        claims = VolumeClaims(self._all(PersistentVolumeClaim), self._all(StatefulSet))
        storage = StorageClasses(self._all(StorageClass))
        return PodTranslator(
            self.runtimes,
            PriorityClasses(self._all(PriorityClass)),
            places,
            ConstraintTranslator(places, spaces, self.defaults),
            VolumeTranslator(claims, storage, self._all(PersistentVolume), hosts),
        )

    def _sorted(self) -> ClassifiedPods:
        deleting = {each.node_name for each in self.paired_nodes if each.is_deleting}
        budgets = DisruptionBudgets(self._all(PodDisruptionBudget))
        sets = self._all(StatefulSet)
        named = {(namespace_of(each.metadata), each.metadata.name) for each in sets}
        return PodClassifier(deleting, budgets, named).sort(self.written)

    def _placed(self) -> tuple[model.Pod, ...]:
        return _sort_pods(self.pods.pod(each) for each in self.found.placed)

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
                self._staying(each.node_name),
                limits.get(each.node_name, NO_ATTACH_LIMITS),
            )
            for each in self.paired_nodes
        )

    def _staying(self, name: str) -> tuple[model.Pod, ...]:
        there = self.found.staying.get(name, ())
        return _sort_pods(self.pods.pod(each, stays=True) for each in there)

    def _daemonsets(self) -> tuple[model.DaemonSet, ...]:
        translating = DaemonSetTranslator(self.pods, self.runtimes, self.written)
        made = map(translating.daemonset, self._all(DaemonSet))
        return tuple(sorted(made, key=lambda each: (each.namespace, each.name)))


def _sort_pods(pods: Iterable[model.Pod]) -> tuple[model.Pod, ...]:
    return tuple(sorted(pods, key=lambda pod: (pod.namespace, pod.name)))


def _split_duplicates(
    paired_nodes: list[NodeWithClaim],
) -> tuple[list[NodeWithClaim], list[NodeWithClaim]]:
    """The machines that count, and nodes that a claim under way stands for already."""
    under_way = {each.pool for each in paired_nodes if each.node is None}
    doubles = [is_duplicate_of_claim(each, under_way) for each in paired_nodes]
    counted = [each for each, double in zip(paired_nodes, doubles, strict=True) if not double]
    return counted, [each for each, double in zip(paired_nodes, doubles, strict=True) if double]
