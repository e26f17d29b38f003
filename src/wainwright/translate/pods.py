"""Pods and DaemonSets as the planner sees them: what decides where each can go, once per spec."""

from collections.abc import Iterable
from math import inf
from typing import Final

import msgspec

from wainwright.api.kubernetes.cluster import PriorityClass
from wainwright.api.kubernetes.storage import Volume
from wainwright.api.kubernetes.workloads import DaemonSet, Pod, PodSpec
from wainwright.api.wire import ObjectMeta
from wainwright.model import pod as model
from wainwright.model.labels import HOSTNAME
from wainwright.model.pod import UnsupportedFeature
from wainwright.model.requirements import Requirements
from wainwright.model.resources import Resources
from wainwright.model.taints import Toleration
from wainwright.translate.object_metadata import has_owner_kind, namespace_of, parse_timestamp
from wainwright.translate.pod_constraints import (
    NO_DEPENDENCIES,
    ConstraintDependencies,
    ConstraintTranslator,
    constraint_dependencies,
    host_ports,
)
from wainwright.translate.requirements import (
    DAEMONSET_TOLERATIONS,
    HOST_NETWORK_TOLERATION,
    NodeAffinityTranslator,
    translate_tolerations,
)
from wainwright.translate.resources import (
    RuntimeClasses,
    pod_overhead,
    pod_requests,
    spec_after_resize,
)
from wainwright.translate.volumes import VolumeTranslator, relevant_volumes


def is_terminal(pod: Pod) -> bool:
    return pod.status.phase in ("Succeeded", "Failed")


def unsupported_features(spec: PodSpec) -> tuple[UnsupportedFeature, ...]:
    return (UnsupportedFeature.RESOURCE_CLAIMS,) if spec.resourceClaims else ()


SYSTEM_PRIORITIES: Final = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}
"""Classes that every cluster has."""


class PriorityClasses:
    def __init__(self, classes: Iterable[PriorityClass]) -> None:
        given = list(classes)
        self._by_name = SYSTEM_PRIORITIES | {each.metadata.name: each.value for each in given}
        # Should several claim to be the default, Kubernetes takes the lowest.
        self._default = min((each.value for each in given if each.globalDefault), default=0)

    def of(self, spec: PodSpec) -> int:
        if spec.priority is not None:
            return spec.priority
        if spec.priorityClassName:
            return self._by_name.get(spec.priorityClassName, 0)
        return self._default


ENCODING_ERRORS: Final = (OverflowError, ValueError, TypeError)


class TranslatedSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What pods of equal spec have in common."""

    spec: PodSpec
    """The first of them."""
    requests: Resources
    overhead: Resources | None
    alternatives: tuple[Requirements, ...]
    contradictory: tuple[str, ...]
    tolerations: tuple[Toleration, ...]
    priority: int
    unsupported: tuple[model.UnsupportedFeature, ...]
    depends: ConstraintDependencies
    constraints: model.PodConstraints | None
    """None where they hang on more of a pod than its spec; those of volumes come on top."""


CachedSpec = tuple[PodSpec, TranslatedSpec, tuple[Volume, ...]]
"""A spec with its shape and the volumes that matter, which belong to no shape."""


class PodTranslator:
    """Translates pods. Those of equal spec share one shape, object for object.

    The reader gives equal specs one struct. Pods from a cluster differ in the name of a token
    volume or in their node, so those that miss are looked up once more without these.
    """

    def __init__(
        self,
        runtimes: RuntimeClasses,
        priorities: PriorityClasses,
        places: NodeAffinityTranslator,
        binding: ConstraintTranslator,
        volumes: VolumeTranslator,
    ) -> None:
        self._runtimes = runtimes
        self._priorities = priorities
        self._places = places
        self._binding = binding
        self._volumes = volumes
        self._by_identity: dict[int, CachedSpec] = {}
        self._by_value: dict[bytes, TranslatedSpec] = {}
        self._varied: dict[tuple[int, str, tuple[str | None, ...]], model.PodConstraints] = {}

    def pod(self, written: Pod, *, stays: bool = False) -> model.Pod:
        """The pod; `stays` tells whether it is on a node already and is not to be placed."""
        metadata, (_, shape, volumes) = written.metadata, self._seen(written)
        constraints = (
            self._bonds(shape, metadata) if shape.constraints is None else shape.constraints
        )
        constraints = self._binding.with_defaults(constraints, written)
        problem = None
        if volumes:
            held = self._volumes.held(volumes, written)
            constraints = self._binding.with_volumes(constraints, held)
            problem = None if stays else held.problem
        return model.Pod(
            namespace=namespace_of(metadata),
            name=metadata.name,
            uid=metadata.uid,
            created=parse_timestamp(metadata.creationTimestamp),
            requests=shape.requests,
            overhead=shape.overhead,
            alternatives=shape.alternatives,
            contradictory=shape.contradictory,
            tolerations=shape.tolerations,
            labels=metadata.labels or {},
            priority=shape.priority,
            daemonset=has_owner_kind(metadata, "DaemonSet"),
            constraints=constraints,
            volume_problem=problem,
            terminating=stays and bool(metadata.deletionTimestamp),
            unsupported=shape.unsupported,
        )

    def shape(self, written: Pod) -> TranslatedSpec:
        return self._seen(written)[1]

    def _seen(self, written: Pod) -> CachedSpec:
        spec = written.spec
        if spec.nodeName:
            spec = spec_after_resize(written)
        found = self._by_identity.get(id(spec))
        if found is None:
            # Keeping the spec keeps its identity from being given to another.
            found = self._by_identity[id(spec)] = (spec, self._equal(spec), relevant_volumes(spec))
        return found

    def _equal(self, spec: PodSpec) -> TranslatedSpec:
        key = _spec_key(spec)
        if key is None:
            return self._shape(spec)
        found = self._by_value.get(key)
        if found is None:
            found = self._by_value[key] = self._shape(spec)
        return found

    def _shape(self, spec: PodSpec) -> TranslatedSpec:
        runtime, depends = self._runtimes.of(spec), constraint_dependencies(spec)
        wanted = self._places.wanted((spec.nodeSelector, runtime.selector), spec.affinity)
        return TranslatedSpec(
            spec=spec,
            requests=pod_requests(spec, runtime.overhead),
            overhead=pod_overhead(spec, runtime.overhead),
            alternatives=wanted.alternatives,
            contradictory=wanted.contradictory,
            tolerations=translate_tolerations([*(spec.tolerations or ()), *runtime.tolerations]),
            priority=self._priorities.of(spec),
            unsupported=unsupported_features(spec),
            depends=depends,
            constraints=self._binding.constraints(spec) if depends == NO_DEPENDENCIES else None,
        )

    def _bonds(self, shape: TranslatedSpec, metadata: ObjectMeta) -> model.PodConstraints:
        labels, depends = metadata.labels or {}, shape.depends
        space = namespace_of(metadata) if depends.namespace else ""
        key = (id(shape), space, tuple([labels.get(each) for each in depends.labels]))
        found = self._varied.get(key)
        if found is None:
            found = self._varied[key] = self._binding.constraints(shape.spec, space, labels)
        return found


def _spec_key(spec: PodSpec) -> bytes | None:
    """Equal for specs of one shape; None where the spec cannot be told apart this way."""
    bare = msgspec.structs.replace(spec, nodeName="", volumes=None)
    try:
        return msgspec.msgpack.encode(bare)
    except ENCODING_ERRORS:
        return None


NamespacedName = tuple[str, str]
"""Namespace and name."""


class DaemonSetTranslator:
    """Translates DaemonSets beside the pods that they have already."""

    def __init__(self, pods: PodTranslator, runtimes: RuntimeClasses, live: Iterable[Pod]) -> None:
        self._pods = pods
        self._runtimes = runtimes
        # A DaemonSet gives each of its pods the name of a node, which says nothing of the others.
        self._places = NodeAffinityTranslator({}, without={HOSTNAME})
        self._live = _youngest_pods(live)

    def daemonset(self, written: DaemonSet) -> model.DaemonSet:
        name = (namespace_of(written.metadata), written.metadata.name)
        spec = written.spec.template.spec
        selectors = (spec.nodeSelector, self._runtimes.of(spec).selector)
        wanted = self._places.wanted(selectors, spec.affinity)
        # What admission made of the template (defaults, autoscalers) only a live pod can tell.
        shown = self._live.get(name) or Pod(spec=spec)
        return model.DaemonSet(
            namespace=name[0],
            name=name[1],
            requests=self._pods.shape(shown).requests,
            alternatives=wanted.alternatives,
            tolerations=self._tolerations(spec),
            ports=host_ports(spec),
        )

    def _tolerations(self, spec: PodSpec) -> tuple[Toleration, ...]:
        own = translate_tolerations(
            [*(spec.tolerations or ()), *self._runtimes.of(spec).tolerations]
        )
        given = (
            (*DAEMONSET_TOLERATIONS, HOST_NETWORK_TOLERATION)
            if spec.hostNetwork
            else DAEMONSET_TOLERATIONS
        )
        return tuple(dict.fromkeys((*own, *given)))


def _youngest_pods(live: Iterable[Pod]) -> dict[NamespacedName, Pod]:
    found: dict[NamespacedName, Pod] = {}
    for pod in live:
        for owner in pod.metadata.ownerReferences or ():
            if owner.kind == "DaemonSet" and not is_terminal(pod):
                name = (namespace_of(pod.metadata), owner.name)
                found[name] = max(found.get(name, pod), pod, key=_pod_age)
    return found


def _pod_age(pod: Pod) -> tuple[float, str]:
    created = parse_timestamp(pod.metadata.creationTimestamp)
    return -inf if created is None else created, pod.metadata.name
