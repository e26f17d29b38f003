"""Wire structs and the structural schema that is derived from their fields.
A field's annotation has its description and constraints: `Annotated[int | None, field_meta("…",
minimum=1)]`. The schema of a CRD is derived from it and offline validation runs the same schema, so
the three cannot differ. Constraints are not msgspec `Meta` arguments on purpose: an object that a
newer API server has stored must still decode.
"""

from functools import lru_cache
from typing import Annotated, Any, Final

import msgspec
from msgspec import inspect

Schema = dict[str, Any]

EXPECTED_TEXT_KEYWORD: Final = "x-says"
"""Describes a pattern in words. For our messages only; removed from CRDs."""


def field_meta(description: str = "", **keywords: Any) -> msgspec.Meta:
    """The schema of a field: its description, then keywords of the structural schema."""
    return msgspec.Meta(
        description=description or None,
        extra_json_schema={SCHEMA_KEYWORDS.get(key, key): value for key, value in keywords.items()},
    )


SCHEMA_KEYWORDS: Final = {
    "min_length": "minLength",
    "max_length": "maxLength",
    "min_items": "minItems",
    "max_items": "maxItems",
    "max_properties": "maxProperties",
    "min_properties": "minProperties",
    "list_type": "x-kubernetes-list-type",
    "list_map_keys": "x-kubernetes-list-map-keys",
    "map_type": "x-kubernetes-map-type",
    "rules": "x-kubernetes-validations",
    "expected": EXPECTED_TEXT_KEYWORD,
}


def cel_rule(cel: str, message: str, *, at: str = "") -> dict[str, str]:
    """A CEL rule and its message; `at` is the nested field to report."""
    schema = {"rule": cel, "message": message}
    return {**schema, "fieldPath": at} if at else schema


def schema_of(kind: Any) -> Schema:
    """The structural schema of a type: no references, no nullable unions, nothing recursive."""
    return _type_schema(inspect.type_info(kind))


def _type_schema(info: inspect.Type) -> Schema:
    match info:
        case inspect.Metadata():
            return _annotated_schema(info)
        case inspect.StructType():
            return _struct_schema(info)
        case inspect.ListType() | inspect.VarTupleType():
            return {"type": "array", "items": _type_schema(info.item_type)}
        case inspect.DictType():
            return {"type": "object", "additionalProperties": _type_schema(info.value_type)}
        case inspect.UnionType():
            return _union_schema(info)
        case inspect.AnyType():
            return {"x-kubernetes-preserve-unknown-fields": True}
        case _:
            return {"type": SCALAR_TYPES[type(info)]}


SCALAR_TYPES: Final[dict[type, str]] = {
    inspect.StrType: "string",
    inspect.IntType: "integer",
    inspect.BoolType: "boolean",
    inspect.FloatType: "number",
}


def _annotated_schema(info: inspect.Metadata) -> Schema:
    inner = _type_schema(info.type)
    extra = dict(info.extra_json_schema or {})
    described = {"description": extra.pop("description")} if "description" in extra else {}
    return {**described, **inner, **extra}


def _union_schema(info: inspect.UnionType) -> Schema:
    """`T | None` is T left out; `int | str` is what Kubernetes calls int-or-string."""
    kinds = [kind for kind in info.types if not isinstance(kind, inspect.NoneType)]
    if {type(kind) for kind in kinds} == {inspect.IntType, inspect.StrType}:
        return {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "x-kubernetes-int-or-string": True,
        }
    if len(kinds) != 1:
        raise TypeError(f"a schema cannot say one of {[type(kind).__name__ for kind in kinds]}")
    return _type_schema(kinds[0])


def _struct_schema(info: inspect.StructType) -> Schema:
    schema: Schema = {
        "type": "object",
        "properties": {field.encode_name: _type_schema(field.type) for field in info.fields},
    }
    required = sorted(field.encode_name for field in info.fields if field.required)
    if required:
        schema["required"] = required
    return {**schema, **getattr(info.cls, "SCHEMA", {})}


class WireStruct(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A part of a manifest. Fields have their wire names; absent fields are not encoded."""


DNS_LABEL_PATTERN: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
DNS_NAME_PATTERN: Final = rf"{DNS_LABEL_PATTERN}(\.{DNS_LABEL_PATTERN})*"
LABEL_KEY_PATTERN: Final = rf"^({DNS_NAME_PATTERN}(\/))?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$"
LABEL_VALUE_PATTERN: Final = r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$"
NUMBER_PATTERN: Final = "([0-9]+([.][0-9]*)?|[.][0-9]+)"
AMOUNT_PATTERN: Final = f"{NUMBER_PATTERN}([KMGTPE]i|[numkMGTPE]|[eE][+-]?{NUMBER_PATTERN})?"
QUANTITY_PATTERN: Final = f"^[+-]?{AMOUNT_PATTERN}$"
NON_NEGATIVE_QUANTITY_PATTERN: Final = f"^[+]?{AMOUNT_PATTERN}$"

EXPECTED_LABEL_KEY: Final = "a label key such as team or example.com/team"
EXPECTED_LABEL_VALUE: Final = (
    "a label value: at most 63 letters, digits, '-', '_' or '.', a letter or digit at both ends"
)
EXPECTED_QUANTITY: Final = "a quantity such as 2, 500m or 4Gi"

QuantityMap = dict[
    str, Annotated[int | str, field_meta(pattern=QUANTITY_PATTERN, expected=EXPECTED_QUANTITY)]
]
NonNegativeQuantityMap = dict[
    str,
    Annotated[
        int | str,
        field_meta(
            pattern=NON_NEGATIVE_QUANTITY_PATTERN,
            expected=f"{EXPECTED_QUANTITY}, not negative",
            minimum=0,
        ),
    ],
]
LabelValue = Annotated[
    str, field_meta(max_length=63, pattern=LABEL_VALUE_PATTERN, expected=EXPECTED_LABEL_VALUE)
]


class OwnerReference(WireStruct, frozen=True, kw_only=True):
    apiVersion: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None
    blockOwnerDeletion: bool | None = None


SNAPSHOT_ANNOTATION: Final = "wainwright.dev/snapshot"
"""On a List that was taken from a cluster: nobody wrote its lines."""


class ObjectMeta(WireStruct, frozen=True, kw_only=True):
    """Metadata of every object; only the fields that are used here."""

    name: str = ""
    generateName: str = ""
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    creationTimestamp: str | None = None
    deletionTimestamp: str | None = None
    deletionGracePeriodSeconds: int | None = None
    ownerReferences: list[OwnerReference] | None = None
    finalizers: list[str] | None = None
    generation: int | None = None
    resourceVersion: str = ""


Timestamp = Annotated[str, field_meta(format="date-time")]


class Condition(WireStruct, frozen=True, kw_only=True):
    """One aspect of an object's state, as Kubernetes writes it."""

    type: Annotated[str, field_meta("Which aspect.", max_length=316)]
    status: Annotated[str, field_meta("True, False or Unknown.", enum=["True", "False", "Unknown"])]
    lastTransitionTime: Annotated[Timestamp, field_meta("When the status last changed.")]
    reason: Annotated[str, field_meta("Why, in one word.", max_length=1024)] = ""
    message: Annotated[str, field_meta("Why, in a sentence.", max_length=32768)] = ""
    observedGeneration: Annotated[
        int | None, field_meta("The generation this was said of.", minimum=0, format="int64")
    ] = None


Conditions = Annotated[
    list[Condition],
    field_meta("What is known of this object's state.", list_type="map", list_map_keys=["type"]),
]


def to_manifest(value: msgspec.Struct) -> dict[str, Any]:
    """The object as plain JSON values, kind first, defaults left out."""
    schema: dict[str, Any] = msgspec.to_builtins(value)
    head = {key: getattr(value, key) for key in ("apiVersion", "kind") if getattr(value, key, None)}
    return {**head, **{key: item for key, item in schema.items() if key not in head}}


@lru_cache(maxsize=64)
def object_schema(kind: type[WireStruct]) -> Schema:
    """The schema of a whole object; metadata is validated by the API server itself."""
    schema = schema_of(kind)
    own = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}}
    properties = {**schema["properties"], **own, "metadata": {"type": "object"}}
    description = {"description": " ".join((kind.__doc__ or "").split())}
    return {**description, **schema, "properties": properties}


def publishable_schema(schema: Any) -> Any:
    """The schema for a CRD: without our own keywords."""
    if isinstance(schema, dict):
        return {
            key: publishable_schema(item)
            for key, item in schema.items()
            if key != EXPECTED_TEXT_KEYWORD
        }
    if isinstance(schema, list):
        return [publishable_schema(item) for item in schema]
    return schema
