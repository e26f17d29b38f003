"""Objects of Kubernetes' own kinds, validated and read, each distinct part once.

Twenty thousand pods are mostly a few hundred specs. Every part is cached by a digest of its bytes:
equal parts are validated once and share one struct.
"""

from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from typing import Any, Final, TypeVar

import msgspec

from wainwright.api.field_error import FieldError, FieldPath
from wainwright.api.kubernetes import kind_validation, label_validation
from wainwright.api.kubernetes.cluster import (
    Namespace,
    Node,
    PodDisruptionBudget,
    PriorityClass,
    RuntimeClass,
    Service,
)
from wainwright.api.kubernetes.field_types import FieldType, ObjectFieldType, kind_type
from wainwright.api.kubernetes.storage import (
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from wainwright.api.kubernetes.workloads import (
    DaemonSet,
    Deployment,
    Job,
    Pod,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
from wainwright.api.wire import ObjectMeta, WireStruct

KUBERNETES_KINDS: Final[dict[tuple[str, str], type[WireStruct]]] = {
    ("v1", "Pod"): Pod,
    ("v1", "Node"): Node,
    ("v1", "Namespace"): Namespace,
    ("v1", "PersistentVolume"): PersistentVolume,
    ("v1", "PersistentVolumeClaim"): PersistentVolumeClaim,
    ("v1", "ReplicationController"): ReplicationController,
    ("v1", "Service"): Service,
    ("apps/v1", "Deployment"): Deployment,
    ("apps/v1", "ReplicaSet"): ReplicaSet,
    ("apps/v1", "StatefulSet"): StatefulSet,
    ("apps/v1", "DaemonSet"): DaemonSet,
    ("batch/v1", "Job"): Job,
    ("policy/v1", "PodDisruptionBudget"): PodDisruptionBudget,
    ("storage.k8s.io/v1", "StorageClass"): StorageClass,
    ("storage.k8s.io/v1", "CSINode"): CSINode,
    ("scheduling.k8s.io/v1", "PriorityClass"): PriorityClass,
    ("node.k8s.io/v1", "RuntimeClass"): RuntimeClass,
}
"""By apiVersion and kind."""


@dataclass(frozen=True, slots=True)
class ObjectPart:
    """A part of an object; without a struct, nothing in it matters and only its shape is held."""

    name: str
    shape: FieldType
    struct: Any
    check: kind_validation.PartCheck | None


@dataclass(frozen=True, slots=True)
class KindLayout:
    kind: str
    struct: type[WireStruct]
    fields: ObjectFieldType
    metadata: FieldType
    object_parts: tuple[ObjectPart, ...]
    """Empty where a kind has its fields at the top instead of in a spec."""


@cache
def kind_layout(api_version: str, kind: str) -> KindLayout:
    struct, fields = KUBERNETES_KINDS[api_version, kind], kind_type(api_version, kind)
    types = {field.name: field.type for field in msgspec.structs.fields(struct)}
    names = ("spec", "status") if "spec" in fields.fields else ()
    object_parts = tuple(
        ObjectPart(
            name,
            fields.fields[name],
            types.get(name),
            kind_validation.PART_CHECKS.get((kind, name)),
        )
        for name in names
        if name in fields.fields
    )
    return KindLayout(kind, struct, fields, fields.fields["metadata"], object_parts)


ENCODING_ERRORS: Final = (OverflowError, ValueError, TypeError, RecursionError)

T = TypeVar("T")


class ReadPart(msgspec.Struct, frozen=True, gc=False):
    """A part as read: its struct, what is wrong with it, and whether metadata matters to it."""

    value: Any
    field_errors: tuple[FieldError, ...]
    depends_on_metadata: bool = False


class ObjectReader:
    """Reads objects, and remembers the parts that it has seen; one for each run of a command."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str, bytes], ReadPart] = {}

    def read(self, value: dict[str, Any]) -> tuple[WireStruct, list[FieldError]]:
        """The object and everything that is wrong with it.

        The value's apiVersion and kind must be those of a core kind. With an error among the
        faults, the object lacks whatever could not be read.
        """
        plan = kind_layout(value["apiVersion"], value["kind"])
        metadata = _read_metadata(value.get("metadata"), plan)
        if not plan.object_parts:
            return _read_whole(value, plan, metadata)
        found = list(metadata.field_errors)
        made: dict[str, Any] = {"metadata": metadata.value}
        depends = False
        for object_part in plan.object_parts:
            part = self._part(value.get(object_part.name), object_part, plan.kind)
            found.extend(part.field_errors)
            depends = depends or part.depends_on_metadata
            if object_part.struct is not None:
                made[object_part.name] = part.value
        found.extend(plan.fields.unknown(key, ()) for key in value if key not in plan.fields.fields)
        whole = plan.struct(**made)
        if depends and isinstance(whole, Pod):
            found.extend(
                _without_consequences(
                    found, list(kind_validation.validate_pod_with_metadata(whole))
                )
            )
        return whole, found

    def _part(self, value: Any, object_part: ObjectPart, kind: str) -> ReadPart:
        try:
            packed = msgspec.msgpack.encode(value)
        except ENCODING_ERRORS:
            return _read_part(value, object_part)
        key = (kind, object_part.name, blake2b(packed, digest_size=16).digest())
        part = self._seen.get(key)
        if part is None:
            part = self._seen[key] = _read_part(value, object_part)
        return part


def validate_kubernetes_object(value: dict[str, Any]) -> list[FieldError]:
    """Everything that is wrong with one object of a core kind."""
    return ObjectReader().read(value)[1]


def decode_object(value: dict[str, Any]) -> WireStruct:
    """The object as a struct, unchecked; what cannot be read is left out."""
    plan = kind_layout(value["apiVersion"], value["kind"])
    try:
        return msgspec.convert(value, plan.struct)
    except msgspec.ValidationError:
        return ObjectReader().read(value)[0]


def _read_part(value: Any, object_part: ObjectPart) -> ReadPart:
    found: list[FieldError] = []
    if value is not None:
        object_part.shape.check_type(value, (object_part.name,), found)
    if object_part.struct is None:
        return ReadPart(None, tuple(found))
    made = _convert(value, object_part.struct, object_part.shape, found)
    if object_part.check is not None:
        found.extend(
            _without_consequences(found, list(object_part.check(made, (object_part.name,))))
        )
    return ReadPart(made, tuple(found), kind_validation.depends_on_metadata(made))


def _read_whole(
    value: dict[str, Any], plan: KindLayout, metadata: ReadPart
) -> tuple[WireStruct, list[FieldError]]:
    rest = {key: item for key, item in value.items() if key != "metadata"}
    found: list[FieldError] = []
    plan.fields.check_type(rest, (), found)
    made = _convert(rest, plan.struct, plan.fields, found)
    whole = msgspec.structs.replace(made, metadata=metadata.value)
    found.extend(
        _without_consequences(found, list(kind_validation.OBJECT_CHECKS[plan.kind](whole)))
    )
    return whole, [*metadata.field_errors, *found]


def _read_metadata(value: Any, plan: KindLayout) -> ReadPart:
    found: list[FieldError] = []
    if value is not None:
        plan.metadata.check_type(value, label_validation.METADATA_PATH, found)
    given = {} if value is None else value
    try:
        made = msgspec.convert(given, ObjectMeta)
    except msgspec.ValidationError:
        given = plan.metadata.repair(given) or {}
        made = msgspec.convert(label_validation.without_incomplete_owners(given), ObjectMeta)
    found.extend(
        _without_consequences(
            found, list(label_validation.validate_object_metadata(given, plan.kind))
        )
    )
    return ReadPart(made, tuple(found))


def _convert(value: Any, struct: type[T], shape: FieldType, found: list[FieldError]) -> T:
    """The struct; where some value does not fit, of the rest."""
    if value is None:
        return struct()
    if not any(not field_error.warning for field_error in found):
        try:
            return msgspec.convert(value, struct)
        except msgspec.ValidationError:
            pass  # a null where the struct has none: it means absent
    return msgspec.convert(shape.repair(value) or {}, struct)


def _without_consequences(found: list[FieldError], later: list[FieldError]) -> list[FieldError]:
    """The later faults without those that only follow from a value that could not be read."""
    unread = [field_error.path for field_error in found if not field_error.warning]
    if not unread or not later:
        return later
    return [
        field_error
        for field_error in later
        if not any(_is_consequence(field_error.path, path) for path in unread)
    ]


def _is_consequence(path: FieldPath, cause: FieldPath) -> bool:
    """Whether one place is within or around the other, or in the same entry of a list."""
    shorter = min(len(path), len(cause))
    beside = len(cause) > 1 and isinstance(cause[-2], int) and path[:-1] == cause[:-1]
    return beside or path[:shorter] == cause[:shorter]
