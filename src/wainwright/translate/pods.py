"""Pods and DaemonSets in the planner's model; pods of equal spec are translated once."""

from collections.abc import Iterable
from enum import Enum
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
from wainwright.model.requirements import Contradiction, Requirements
from wainwright.model.resources import Resources
from wainwright.model.taints import Toleration
from wainwright.translate.disruption import EvictionFactsTranslator
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


class PodRole(Enum):
    """What a pod means to the scheduler."""

    PENDING = "pending"
    """To be scheduled."""
    GATED = "gated"
    """To be scheduled once its scheduling gates are removed."""
    BOUND = "bound"
    """On a node."""
    IGNORED = "ignored"
    """Finished, or gone before it was bound; or it comes with a node, as DaemonSet pods do."""


def pod_role(pod: Pod) -> PodRole:
    if is_terminal(pod):
        return PodRole.IGNORED
    if pod.spec.nodeName:
        return PodRole.BOUND
    if pod.metadata.deletionTimestamp or _is_node_overhead(pod):
        return PodRole.IGNORED
    return PodRole.GATED if pod.spec.schedulingGates else PodRole.PENDING


def _is_node_overhead(pod: Pod) -> bool:
    """DaemonSet pods count as overhead of their node; static pods belong to their kubelet."""
    return has_owner_kind(pod.metadata, "DaemonSet") or has_owner_kind(pod.metadata, "Node")


def unsupported_features(spec: PodSpec) -> tuple[UnsupportedFeature, ...]:
    return (UnsupportedFeature.RESOURCE_CLAIMS,) if spec.resourceClaims else ()


SYSTEM_PRIORITIES: Final = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}
"""Priority classes that every cluster has."""


class PriorityClasses:
    def __init__(self, classes: Iterable[PriorityClass]) -> None:
        all_classes = list(classes)
        self._by_name = SYSTEM_PRIORITIES | {each.metadata.name: each.value for each in all_classes}
        # Of several global defaults Kubernetes takes the lowest.
        self._default = min((each.value for each in all_classes if each.globalDefault), default=0)

    def lookup(self, spec: PodSpec) -> int:
        if spec.priority is not None:
            return spec.priority
        if spec.priorityClassName:
            return self._by_name.get(spec.priorityClassName, 0)
        return self._default

    def missing_class(self, spec: PodSpec) -> str | None:
        """The pod's PriorityClass where it is not in the input, so that it counts as 0."""
        name = spec.priorityClassName
        known = not name or spec.priority is not None or name in self._by_name
        return None if known else name


ENCODING_ERRORS: Final = (OverflowError, ValueError, TypeError)


class TranslatedSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The part of the translation that pods of equal spec share."""

    spec: PodSpec
    """The spec of the first such pod."""
    requests: Resources
    overhead: Resources | None
    alternatives: tuple[Requirements, ...]
    contradictory: tuple[Contradiction, ...]
    tolerations: tuple[Toleration, ...]
    priority: int
    unsupported: tuple[model.UnsupportedFeature, ...]
    depends: ConstraintDependencies
    constraints: model.PodConstraints | None
    """None where they depend on the pod's metadata as well; volume constraints are added later."""


CachedSpec = tuple[PodSpec, TranslatedSpec, tuple[Volume, ...]]
"""A spec, its translation, and its relevant volumes, which are not part of the translation."""


class PodTranslator:
    """Translates pods. Pods of equal spec share one translation and its objects.

    Two caches save the translation of each pod. The reader gives equal specs one struct, so most
    are found by identity. Pods from a cluster differ in the name of a token volume or in their
    node, so the others are looked up once more by value, without these fields. Without the caches
    twenty thousand pods would be translated twenty thousand times, and would share no objects by
    which the planner groups them.
    """

    def __init__(
        self,
        runtimes: RuntimeClasses,
        priorities: PriorityClasses,
        node_affinity: NodeAffinityTranslator,
        constraint_translator: ConstraintTranslator,
        volumes: VolumeTranslator,
        eviction_facts: EvictionFactsTranslator | None = None,
    ) -> None:
        self._runtimes = runtimes
        self._priorities = priorities
        self._node_affinity = node_affinity
        self._constraint_translator = constraint_translator
        self.volumes = volumes
        """May be replaced when claims or volumes change: no cache depends on it."""
        self._eviction_facts = eviction_facts or EvictionFactsTranslator()
        self._by_identity: dict[int, CachedSpec] = {}
        self._by_value: dict[bytes, TranslatedSpec] = {}
        self._constraints_by_metadata: dict[
            tuple[int, str, tuple[str | None, ...]], model.PodConstraints
        ] = {}

    def translate(self, pod: Pod) -> model.Pod:
        metadata, (_, translated, volumes) = pod.metadata, self._cached_spec(pod)
        constraints = (
            self._constraints_for(translated, metadata)
            if translated.constraints is None
            else translated.constraints
        )
        constraints = self._constraint_translator.with_defaults(constraints, pod)
        problem = None
        named_volumes: tuple[model.PodVolume, ...] = ()
        if volumes:
            pod_volumes = self.volumes.evaluate(volumes, pod)
            constraints = self._constraint_translator.with_volumes(constraints, pod_volumes)
            problem, named_volumes = pod_volumes.problem, pod_volumes.volumes
        return model.Pod(
            namespace=namespace_of(metadata),
            name=metadata.name,
            uid=metadata.uid,
            created=parse_timestamp(metadata.creationTimestamp),
            requests=translated.requests,
            overhead=translated.overhead,
            alternatives=translated.alternatives,
            contradictory=translated.contradictory,
            tolerations=translated.tolerations,
            labels=metadata.labels or {},
            priority=translated.priority,
            daemonset=has_owner_kind(metadata, "DaemonSet"),
            constraints=constraints,
            volume_problem=problem,
            volumes=named_volumes,
            terminating=bool(metadata.deletionTimestamp),
            unsupported=translated.unsupported,
            eviction=self._eviction_facts.translate(pod),
        )

    def translated_spec(self, pod: Pod) -> TranslatedSpec:
        return self._cached_spec(pod)[1]

    @property
    def largest_cache(self) -> int:
        """How many entries its largest cache has."""
        return max(
            len(self._by_value),
            self._constraint_translator.largest_cache,
            self._eviction_facts.cached,
        )

    def forget_identities(self) -> None:
        """Releases the specs that are known by identity; a watch brings a new one each time."""
        self._by_identity.clear()
        self._constraints_by_metadata.clear()

    def _cached_spec(self, pod: Pod) -> CachedSpec:
        spec = pod.spec
        if spec.nodeName:
            spec = spec_after_resize(pod)
        cached = self._by_identity.get(id(spec))
        if cached is None:
            # The cached tuple keeps the spec alive, so that its id is not reused for another.
            cached = self._by_identity[id(spec)] = (
                spec,
                self._spec_by_value(spec),
                relevant_volumes(spec),
            )
        return cached

    def _spec_by_value(self, spec: PodSpec) -> TranslatedSpec:
        key = _spec_key(spec)
        if key is None:
            return self._translate_spec(spec)
        translated = self._by_value.get(key)
        if translated is None:
            translated = self._by_value[key] = self._translate_spec(spec)
        return translated

    def _translate_spec(self, spec: PodSpec) -> TranslatedSpec:
        runtime, depends = self._runtimes.lookup(spec), constraint_dependencies(spec)
        node_terms = self._node_affinity.node_alternatives(
            (spec.nodeSelector, runtime.selector), spec.affinity
        )
        return TranslatedSpec(
            spec=spec,
            requests=pod_requests(spec, runtime.overhead),
            overhead=pod_overhead(spec, runtime.overhead),
            alternatives=node_terms.alternatives,
            contradictory=self._node_affinity.contradictions(
                spec.nodeSelector, runtime.selector, spec.affinity
            )
            if node_terms.contradictory
            else (),
            tolerations=translate_tolerations([*(spec.tolerations or ()), *runtime.tolerations]),
            priority=self._priorities.lookup(spec),
            unsupported=unsupported_features(spec),
            depends=depends,
            constraints=self._constraint_translator.constraints(spec)
            if depends == NO_DEPENDENCIES
            else None,
        )

    def _constraints_for(
        self, translated: TranslatedSpec, metadata: ObjectMeta
    ) -> model.PodConstraints:
        labels, depends = metadata.labels or {}, translated.depends
        namespace = namespace_of(metadata) if depends.namespace else ""
        key = (id(translated), namespace, tuple([labels.get(each) for each in depends.labels]))
        constraints = self._constraints_by_metadata.get(key)
        if constraints is None:
            constraints = self._constraints_by_metadata[key] = (
                self._constraint_translator.constraints(translated.spec, namespace, labels)
            )
        return constraints


def _spec_key(spec: PodSpec) -> bytes | None:
    """Equal for specs with one translation; None where the spec cannot be encoded."""
    bare = msgspec.structs.replace(spec, nodeName="", volumes=None)
    try:
        return msgspec.msgpack.encode(bare)
    except ENCODING_ERRORS:
        return None


class DaemonSetTranslator:
    """Translates DaemonSets; requests come from one of their live pods where there are any."""

    def __init__(self, pods: PodTranslator, runtimes: RuntimeClasses) -> None:
        self._pods = pods
        self._runtimes = runtimes
        # The DaemonSet controller pins each pod to its node by name; the template is for any node.
        self._node_affinity = NodeAffinityTranslator({}, ignored_labels={HOSTNAME})

    def translate(self, daemonset: DaemonSet, live_pods: Iterable[Pod] = ()) -> model.DaemonSet:
        spec = daemonset.spec.template.spec
        selectors = (spec.nodeSelector, self._runtimes.lookup(spec).selector)
        node_terms = self._node_affinity.node_alternatives(selectors, spec.affinity)
        # Only a live pod shows what admission (defaults, autoscalers) made of the template.
        example = max(live_pods, key=_pod_age, default=None) or Pod(spec=spec)
        return model.DaemonSet(
            namespace=namespace_of(daemonset.metadata),
            name=daemonset.metadata.name,
            requests=self._pods.translated_spec(example).requests,
            alternatives=node_terms.alternatives,
            tolerations=self._tolerations(spec),
            ports=host_ports(spec),
        )

    def _tolerations(self, spec: PodSpec) -> tuple[Toleration, ...]:
        own = translate_tolerations(
            [*(spec.tolerations or ()), *self._runtimes.lookup(spec).tolerations]
        )
        added = (
            (*DAEMONSET_TOLERATIONS, HOST_NETWORK_TOLERATION)
            if spec.hostNetwork
            else DAEMONSET_TOLERATIONS
        )
        return tuple(dict.fromkeys((*own, *added)))


def _pod_age(pod: Pod) -> tuple[float, str]:
    """The sort key of the youngest pod."""
    created = parse_timestamp(pod.metadata.creationTimestamp)
    return -inf if created is None else created, pod.metadata.name
