"""Wire structs to structural schemas: the rules that a CRD carries, written once beside the fields.

A field says what it is in its annotation: `Annotated[int | None, wire("…", minimum=1)]`. The schema
of a CRD is derived from that, offline validation runs that very schema, and so the three cannot
drift apart. Constraints are kept out of msgspec's own `Meta` arguments on purpose: an object that a
newer API server has stored must still decode.
"""

from typing import Any, Final

import msgspec
from msgspec import inspect

Schema = dict[str, Any]

SAYS: Final = "x-says"
"""What a pattern asks for, in words. It stays here: CRDs are written without it."""


def wire(description: str = "", **keywords: Any) -> msgspec.Meta:
    """What the schema says of a field: its meaning, then keywords of the structural schema."""
    return msgspec.Meta(
        description=description or None,
        extra_json_schema={KEYWORDS.get(key, key): value for key, value in keywords.items()},
    )


KEYWORDS: Final = {
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
    "says": SAYS,
}


def rule(cel: str, message: str, *, at: str = "") -> dict[str, str]:
    """A CEL rule and what to tell whoever breaks it; `at` is the field below that is to blame."""
    made = {"rule": cel, "message": message}
    return {**made, "fieldPath": at} if at else made


def schema_of(kind: Any) -> Schema:
    """The structural schema of a type: no references, no nullable unions, nothing recursive."""
    return _schema(inspect.type_info(kind))


def _schema(info: inspect.Type) -> Schema:
    match info:
        case inspect.Metadata():
            return _annotated(info)
        case inspect.StructType():
            return _struct(info)
        case inspect.ListType() | inspect.VarTupleType():
            return {"type": "array", "items": _schema(info.item_type)}
        case inspect.DictType():
            return {"type": "object", "additionalProperties": _schema(info.value_type)}
        case inspect.UnionType():
            return _union(info)
        case inspect.AnyType():
            return {"x-kubernetes-preserve-unknown-fields": True}
        case _:
            return {"type": SCALARS[type(info)]}


SCALARS: Final[dict[type, str]] = {
    inspect.StrType: "string",
    inspect.IntType: "integer",
    inspect.BoolType: "boolean",
    inspect.FloatType: "number",
}


def _annotated(info: inspect.Metadata) -> Schema:
    inner = _schema(info.type)
    extra = dict(info.extra_json_schema or {})
    described = {"description": extra.pop("description")} if "description" in extra else {}
    return {**described, **inner, **extra}


def _union(info: inspect.UnionType) -> Schema:
    """`T | None` is T left out; `int | str` is what Kubernetes calls int-or-string."""
    kinds = [kind for kind in info.types if not isinstance(kind, inspect.NoneType)]
    if {type(kind) for kind in kinds} == {inspect.IntType, inspect.StrType}:
        return {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "x-kubernetes-int-or-string": True,
        }
    if len(kinds) != 1:
        raise TypeError(f"a schema cannot say one of {[type(kind).__name__ for kind in kinds]}")
    return _schema(kinds[0])


def _struct(info: inspect.StructType) -> Schema:
    made: Schema = {
        "type": "object",
        "properties": {field.encode_name: _schema(field.type) for field in info.fields},
    }
    required = sorted(field.encode_name for field in info.fields if field.required)
    if required:
        made["required"] = required
    return {**made, **getattr(info.cls, "SCHEMA", {})}
