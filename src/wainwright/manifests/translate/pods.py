"""Pods as the planner sees them: what decides where each can go, worked out once per spec."""

from typing import Final

import msgspec

from wainwright.api.builtin.pod import Pod, PodSpec
from wainwright.api.builtin.volume import Volume
from wainwright.api.wire import Metadata
from wainwright.manifests.expand import namespace
from wainwright.manifests.translate.affinity import Places
from wainwright.manifests.translate.bonds import INDEPENDENT, Binding, Dependence, dependence
from wainwright.manifests.translate.features import unsupported
from wainwright.manifests.translate.moments import seconds
from wainwright.manifests.translate.priorities import Priorities
from wainwright.manifests.translate.requests import added, effective
from wainwright.manifests.translate.resize import as_given
from wainwright.manifests.translate.runtimes import Runtimes
from wainwright.manifests.translate.taints import tolerations
from wainwright.manifests.translate.volumes import Volumes, relevant
from wainwright.model import pod as model
from wainwright.model.requirements import Requirements
from wainwright.model.resources import Resources
from wainwright.model.taints import Toleration

NOT_ENCODABLE: Final = (OverflowError, ValueError, TypeError)


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """What pods of equal spec have in common."""

    spec: PodSpec
    """The first of them."""
    requests: Resources
    overhead: Resources | None
    alternatives: tuple[Requirements, ...]
    contradictory: tuple[str, ...]
    tolerations: tuple[Toleration, ...]
    priority: int
    unsupported: tuple[model.Feature, ...]
    depends: Dependence
    bonds: model.Bonds | None
    """None where they hang on more of a pod than its spec; those of volumes come on top."""


Seen = tuple[PodSpec, Shape, tuple[Volume, ...]]
"""A spec with its shape and the volumes that matter, which belong to no shape."""


class Pods:
    """Translates pods. Those of equal spec share one shape, object for object.

    The reader gives equal specs one struct. Pods from a cluster differ in the name of a token
    volume or in their node, so those that miss are looked up once more without these.
    """

    def __init__(
        self,
        runtimes: Runtimes,
        priorities: Priorities,
        places: Places,
        binding: Binding,
        volumes: Volumes,
    ) -> None:
        self._runtimes = runtimes
        self._priorities = priorities
        self._places = places
        self._binding = binding
        self._volumes = volumes
        self._by_identity: dict[int, Seen] = {}
        self._by_value: dict[bytes, Shape] = {}
        self._varied: dict[tuple[int, str, tuple[str | None, ...]], model.Bonds] = {}

    def pod(self, written: Pod, *, stays: bool = False) -> model.Pod:
        """The pod; `stays` tells whether it is on a node already and is not to be placed."""
        metadata, (_, shape, volumes) = written.metadata, self._seen(written)
        bonds = self._bonds(shape, metadata) if shape.bonds is None else shape.bonds
        bonds = self._binding.with_defaults(bonds, written)
        problem = None
        if volumes:
            held = self._volumes.held(volumes, written)
            bonds = self._binding.with_volumes(bonds, held)
            problem = None if stays else held.problem
        return model.Pod(
            namespace=namespace(metadata),
            name=metadata.name,
            uid=metadata.uid,
            created=seconds(metadata.creationTimestamp),
            requests=shape.requests,
            overhead=shape.overhead,
            alternatives=shape.alternatives,
            contradictory=shape.contradictory,
            tolerations=shape.tolerations,
            labels=metadata.labels or {},
            priority=shape.priority,
            daemonset=is_owned(metadata, "DaemonSet"),
            bonds=bonds,
            volume_problem=problem,
            terminating=stays and bool(metadata.deletionTimestamp),
            unsupported=shape.unsupported,
        )

    def shape(self, written: Pod) -> Shape:
        return self._seen(written)[1]

    def _seen(self, written: Pod) -> Seen:
        spec = written.spec
        if spec.nodeName:
            spec = as_given(written)
        found = self._by_identity.get(id(spec))
        if found is None:
            # Keeping the spec keeps its identity from being given to another.
            found = self._by_identity[id(spec)] = (spec, self._equal(spec), relevant(spec))
        return found

    def _equal(self, spec: PodSpec) -> Shape:
        key = _value(spec)
        if key is None:
            return self._shape(spec)
        found = self._by_value.get(key)
        if found is None:
            found = self._by_value[key] = self._shape(spec)
        return found

    def _shape(self, spec: PodSpec) -> Shape:
        runtime, depends = self._runtimes.of(spec), dependence(spec)
        wanted = self._places.wanted((spec.nodeSelector, runtime.selector), spec.affinity)
        return Shape(
            spec=spec,
            requests=effective(spec, runtime.overhead),
            overhead=added(spec, runtime.overhead),
            alternatives=wanted.alternatives,
            contradictory=wanted.contradictory,
            tolerations=tolerations([*(spec.tolerations or ()), *runtime.tolerations]),
            priority=self._priorities.of(spec),
            unsupported=unsupported(spec),
            depends=depends,
            bonds=self._binding.bonds(spec) if depends == INDEPENDENT else None,
        )

    def _bonds(self, shape: Shape, metadata: Metadata) -> model.Bonds:
        labels, depends = metadata.labels or {}, shape.depends
        space = namespace(metadata) if depends.namespace else ""
        key = (id(shape), space, tuple([labels.get(each) for each in depends.labels]))
        found = self._varied.get(key)
        if found is None:
            found = self._varied[key] = self._binding.bonds(shape.spec, space, labels)
        return found


def _value(spec: PodSpec) -> bytes | None:
    """Equal for specs of one shape; None where the spec cannot be told apart this way."""
    bare = msgspec.structs.replace(spec, nodeName="", volumes=None)
    try:
        return msgspec.msgpack.encode(bare)
    except NOT_ENCODABLE:
        return None


def is_owned(metadata: Metadata, kind: str) -> bool:
    return any(owner.kind == kind for owner in metadata.ownerReferences or ())
