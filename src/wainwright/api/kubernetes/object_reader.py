"""Reads and validates objects of Kubernetes' own kinds, each distinct part once.
Twenty thousand pods have a few hundred distinct specs. Parts are cached by a digest of their
encoding: equal parts are validated once and share one struct, which the translation uses to find
pods of equal spec by identity.
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
    """A part of an object; without a struct it is only checked for types and not kept."""

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
    """Empty for kinds whose fields are at the top level instead of in a spec."""


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
    """A part as read: its struct, field errors, and whether its validation depends on metadata."""

    value: Any
    field_errors: tuple[FieldError, ...]
    depends_on_metadata: bool = False


class ObjectReader:
    """Reads objects, with a cache of parts; one for each run of a command."""

    def __init__(self) -> None:
        self._parts: dict[tuple[str, str, bytes], ReadPart] = {}

    def read(self, value: dict[str, Any]) -> tuple[WireStruct, list[FieldError]]:
        """The object and its field errors.
        The value's apiVersion and kind must be those of a core kind. Where there are errors, the
        object lacks the parts that could not be read.
        """
        layout = kind_layout(value["apiVersion"], value["kind"])
        metadata = _read_metadata(value.get("metadata"), layout)
        if not layout.object_parts:
            return _read_whole(value, layout, metadata)
        field_errors = list(metadata.field_errors)
        values: dict[str, Any] = {"metadata": metadata.value}
        depends_on_metadata = False
        for object_part in layout.object_parts:
            part = self._cached_part(value.get(object_part.name), object_part, layout.kind)
            field_errors.extend(part.field_errors)
            depends_on_metadata = depends_on_metadata or part.depends_on_metadata
            if object_part.struct is not None:
                values[object_part.name] = part.value
        field_errors.extend(
            layout.fields.unknown(key, ()) for key in value if key not in layout.fields.fields
        )
        result = layout.struct(**values)
        if depends_on_metadata and isinstance(result, Pod):
            field_errors.extend(
                _without_consequences(
                    field_errors, list(kind_validation.validate_pod_with_metadata(result))
                )
            )
        return result, field_errors

    def _cached_part(self, value: Any, object_part: ObjectPart, kind: str) -> ReadPart:
        try:
            encoded = msgspec.msgpack.encode(value)
        except ENCODING_ERRORS:
            return _read_part(value, object_part)
        key = (kind, object_part.name, blake2b(encoded, digest_size=16).digest())
        part = self._parts.get(key)
        if part is None:
            part = self._parts[key] = _read_part(value, object_part)
        return part


def validate_kubernetes_object(value: dict[str, Any]) -> list[FieldError]:
    """The field errors of one object of a core kind."""
    return ObjectReader().read(value)[1]


def decode_object(value: dict[str, Any]) -> WireStruct:
    """The object as a struct, not validated; parts that cannot be read are left out."""
    layout = kind_layout(value["apiVersion"], value["kind"])
    try:
        return msgspec.convert(value, layout.struct)
    except msgspec.ValidationError:
        return ObjectReader().read(value)[0]


def _read_part(value: Any, object_part: ObjectPart) -> ReadPart:
    field_errors: list[FieldError] = []
    if value is not None:
        object_part.shape.check_type(value, (object_part.name,), field_errors)
    if object_part.struct is None:
        return ReadPart(None, tuple(field_errors))
    struct_value = _convert(value, object_part.struct, object_part.shape, field_errors)
    if object_part.check is not None:
        field_errors.extend(
            _without_consequences(
                field_errors, list(object_part.check(struct_value, (object_part.name,)))
            )
        )
    return ReadPart(
        struct_value, tuple(field_errors), kind_validation.depends_on_metadata(struct_value)
    )


def _read_whole(
    value: dict[str, Any], layout: KindLayout, metadata: ReadPart
) -> tuple[WireStruct, list[FieldError]]:
    rest = {key: item for key, item in value.items() if key != "metadata"}
    field_errors: list[FieldError] = []
    layout.fields.check_type(rest, (), field_errors)
    struct_value = _convert(rest, layout.struct, layout.fields, field_errors)
    result = msgspec.structs.replace(struct_value, metadata=metadata.value)
    field_errors.extend(
        _without_consequences(
            field_errors, list(kind_validation.OBJECT_CHECKS[layout.kind](result))
        )
    )
    return result, [*metadata.field_errors, *field_errors]


def _read_metadata(value: Any, layout: KindLayout) -> ReadPart:
    field_errors: list[FieldError] = []
    if value is not None:
        layout.metadata.check_type(value, label_validation.METADATA_PATH, field_errors)
    metadata = {} if value is None else value
    try:
        struct_value = msgspec.convert(metadata, ObjectMeta)
    except msgspec.ValidationError:
        metadata = layout.metadata.repair(metadata) or {}
        struct_value = msgspec.convert(
            label_validation.without_incomplete_owners(metadata), ObjectMeta
        )
    field_errors.extend(
        _without_consequences(
            field_errors, list(label_validation.validate_object_metadata(metadata, layout.kind))
        )
    )
    return ReadPart(struct_value, tuple(field_errors))


def _convert(value: Any, struct: type[T], shape: FieldType, field_errors: list[FieldError]) -> T:
    """The struct; values of the wrong type are left out."""
    if value is None:
        return struct()
    if not any(not field_error.warning for field_error in field_errors):
        try:
            return msgspec.convert(value, struct)
        except msgspec.ValidationError:
            pass  # a null where the struct has none: it means absent
    return msgspec.convert(shape.repair(value) or {}, struct)


def _without_consequences(
    field_errors: list[FieldError], later: list[FieldError]
) -> list[FieldError]:
    """The later errors, without consequences of a value that could not be read."""
    invalid_paths = [field_error.path for field_error in field_errors if not field_error.warning]
    if not invalid_paths or not later:
        return later
    return [
        field_error
        for field_error in later
        if not any(_is_consequence(field_error.path, path) for path in invalid_paths)
    ]


def _is_consequence(path: FieldPath, cause: FieldPath) -> bool:
    """Whether one path contains the other, or both are in the same entry of a list."""
    shorter = min(len(path), len(cause))
    in_same_entry = len(cause) > 1 and isinstance(cause[-2], int) and path[:-1] == cause[:-1]
    return in_same_entry or path[:shorter] == cause[:shorter]
