"""Whether a large object is all right, asked in one go; only of one that is not are faults listed.

A schema is turned into a type that msgspec checks without stopping at every value to ask what might
be wrong with it. The type is never laxer than the schema: what it lets pass has no faults, and what
it refuses is looked at once more, value by value. A schema that says more than a type can, as with
rules in CEL, has no such type.
"""

from functools import lru_cache
from keyword import iskeyword
from typing import Annotated, Any, Final, Literal

import msgspec

from wainwright.api.crd import root_schema
from wainwright.api.schema import SAYS, Schema
from wainwright.api.structural import INT32, INT64, TIME, anchored
from wainwright.api.wire import Wire

UNDERSTOOD: Final = frozenset(
    {
        *("type", "properties", "required", "additionalProperties", "items", "enum"),
        *("pattern", "format", "minLength", "maxLength", "minItems", "maxItems"),
        *("minProperties", "maxProperties", "minimum", "maximum"),
        *("nullable", "default", "description", "anyOf", SAYS),
        *("x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields"),
    }
)
LARGEST: Final = 1.797e308  # neither infinity nor the lack of a number is a number


class NotSimple(Exception):
    """The schema asks for more than a type can say."""


def is_fine(kind: type[Wire], value: Any) -> bool:
    """True if the object surely has no unknown fields and no faults; False says nothing."""
    strict = _strict(kind)
    if strict is None:
        return False
    try:
        msgspec.convert(value, strict)
    except msgspec.ValidationError:
        return False
    return True


@lru_cache(maxsize=64)
def _strict(kind: type[Wire]) -> Any:
    try:
        return _typed(root_schema(kind))
    except NotSimple:
        return None


def _typed(schema: Schema) -> Any:
    if not schema.keys() <= UNDERSTOOD:
        raise NotSimple
    if schema.get("x-kubernetes-int-or-string"):
        made: Any = _integer(schema) | _text(schema)
    elif "enum" in schema:
        made = Literal[tuple(schema["enum"])]
    else:
        made = MAKERS[schema.get("type", "")](schema)
    return made | None if schema.get("nullable") else made


def _anything(schema: Schema) -> Any:
    if "x-kubernetes-preserve-unknown-fields" not in schema:
        raise NotSimple
    return Any


def _text(schema: Schema) -> Any:
    timed = schema.get("format") == "date-time"
    if timed and "pattern" in schema:
        raise NotSimple
    pattern = rf"^(?:{TIME.pattern})$" if timed else schema.get("pattern")
    return Annotated[
        str,
        msgspec.Meta(
            min_length=schema.get("minLength"),
            max_length=schema.get("maxLength"),
            pattern=None if pattern is None else f"(?a){anchored(pattern)}",
        ),
    ]


def _integer(schema: Schema) -> Any:
    low, high = {"int32": INT32, "int64": INT64}.get(schema.get("format", ""), (None, None))
    least = [bound for bound in (schema.get("minimum"), low) if bound is not None]
    most = [bound for bound in (schema.get("maximum"), high) if bound is not None]
    return Annotated[int, msgspec.Meta(ge=max(least, default=None), le=min(most, default=None))]


def _number(schema: Schema) -> Any:
    least, most = schema.get("minimum", -LARGEST), schema.get("maximum", LARGEST)
    return Annotated[float, msgspec.Meta(ge=float(least), le=float(most))]


def _list(schema: Schema) -> Any:
    items = _typed(schema.get("items", {}))
    size = msgspec.Meta(min_length=schema.get("minItems"), max_length=schema.get("maxItems"))
    return Annotated[list[items], size]  # type: ignore[valid-type]


def _object(schema: Schema) -> Any:
    if "properties" in schema:
        return _struct(schema)
    values = _typed(schema["additionalProperties"]) if "additionalProperties" in schema else Any
    size = msgspec.Meta(
        min_length=schema.get("minProperties"), max_length=schema.get("maxProperties")
    )
    return Annotated[dict[str, values], size]  # type: ignore[valid-type]


def _struct(schema: Schema) -> Any:
    named = all(key.isidentifier() and not iskeyword(key) for key in schema["properties"])
    if not named or schema.keys() & {"additionalProperties", "minProperties", "maxProperties"}:
        raise NotSimple
    needed = set(schema.get("required", ()))
    fields = [
        (key, _typed(inner)) if key in needed else (key, _typed(inner), None)
        for key, inner in schema["properties"].items()
    ]
    lax = "x-kubernetes-preserve-unknown-fields" in schema
    return msgspec.defstruct("Strict", fields, kw_only=True, forbid_unknown_fields=not lax)


MAKERS: Final = {
    "": _anything,
    "string": _text,
    "integer": _integer,
    "number": _number,
    "boolean": lambda _: bool,
    "array": _list,
    "object": _object,
}
