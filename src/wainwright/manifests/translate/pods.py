"""Pods as the planner sees them: what decides where each can go, worked out once per spec."""

from datetime import datetime
from typing import Final

import msgspec

from wainwright.api.builtin.pod import Pod, PodSpec
from wainwright.api.wire import Metadata
from wainwright.manifests.expand import namespace
from wainwright.manifests.translate.affinity import Places
from wainwright.manifests.translate.features import has_volumes, unsupported
from wainwright.manifests.translate.priorities import Priorities
from wainwright.manifests.translate.requests import effective
from wainwright.manifests.translate.resize import as_given
from wainwright.manifests.translate.runtimes import Runtimes
from wainwright.manifests.translate.taints import tolerations
from wainwright.model import pod as model
from wainwright.model.requirements import Requirements
from wainwright.model.resources import Resources
from wainwright.model.taints import Toleration

NOT_ENCODABLE: Final = (OverflowError, ValueError, TypeError)


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """What pods of equal spec have in common."""

    requests: Resources
    alternatives: tuple[Requirements, ...]
    contradictory: tuple[str, ...]
    tolerations: tuple[Toleration, ...]
    priority: int
    unsupported: tuple[model.Feature, ...]


class Pods:
    """Translates pods. Those of equal spec share one shape, object for object.

    The reader gives equal specs one struct. Pods from a cluster differ in the name of a token
    volume or in their node, so those that miss are looked up once more without these.
    """

    def __init__(self, runtimes: Runtimes, priorities: Priorities, places: Places) -> None:
        self._runtimes = runtimes
        self._priorities = priorities
        self._places = places
        self._by_identity: dict[int, tuple[PodSpec, Shape]] = {}
        self._by_value: dict[tuple[bytes, bool], Shape] = {}

    def pod(self, written: Pod) -> model.Pod:
        metadata, shape = written.metadata, self.shape(written)
        return model.Pod(
            namespace=namespace(metadata),
            name=metadata.name,
            uid=metadata.uid,
            created=seconds(metadata.creationTimestamp),
            requests=shape.requests,
            alternatives=shape.alternatives,
            contradictory=shape.contradictory,
            tolerations=shape.tolerations,
            labels=metadata.labels or {},
            priority=shape.priority,
            daemonset=is_owned(metadata, "DaemonSet"),
            unsupported=shape.unsupported,
        )

    def shape(self, written: Pod) -> Shape:
        spec = written.spec
        if spec.nodeName:
            spec = as_given(written)
        found = self._by_identity.get(id(spec))
        if found is None:
            # Keeping the spec keeps its identity from being given to another.
            found = self._by_identity[id(spec)] = (spec, self._equal(spec))
        return found[1]

    def _equal(self, spec: PodSpec) -> Shape:
        key = _value(spec)
        if key is None:
            return self._shape(spec)
        found = self._by_value.get(key)
        if found is None:
            found = self._by_value[key] = self._shape(spec)
        return found

    def _shape(self, spec: PodSpec) -> Shape:
        runtime = self._runtimes.of(spec)
        wanted = self._places.wanted((spec.nodeSelector, runtime.selector), spec.affinity)
        return Shape(
            requests=effective(spec, runtime.overhead),
            alternatives=wanted.alternatives,
            contradictory=wanted.contradictory,
            tolerations=tolerations([*(spec.tolerations or ()), *runtime.tolerations]),
            priority=self._priorities.of(spec),
            unsupported=unsupported(spec),
        )


def _value(spec: PodSpec) -> tuple[bytes, bool] | None:
    """Equal for specs of one shape; None where the spec cannot be told apart this way."""
    bare = msgspec.structs.replace(spec, nodeName="", volumes=None)
    try:
        return msgspec.msgpack.encode(bare), has_volumes(spec)
    except NOT_ENCODABLE:
        return None


def is_owned(metadata: Metadata, kind: str) -> bool:
    return any(owner.kind == kind for owner in metadata.ownerReferences or ())


def seconds(written: str | None) -> float | None:
    """A moment as Kubernetes writes it, in seconds since 1970; None where it is none."""
    if not written:
        return None
    try:
        moment = datetime.fromisoformat(written)
    except ValueError:
        return None
    # Without an offset the answer would hang on where this machine stands.
    return moment.timestamp() if moment.tzinfo is not None else None
