"""Applies a structural schema to a value as the API server does: prune, default, check, rules.
Every error is reported, not only the first. CEL rules run on parts with valid types only; on others
they would report the same error twice.
Large valid objects take a fast path: the schema is compiled to a type that msgspec checks in one
pass, which saves the walk over every value. The type is never laxer than the schema, so what it
accepts has no errors; what it rejects is checked again, value by value. A schema with more than a
type can express, as CEL rules, has no such type.
"""

import math
import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import lru_cache
from keyword import iskeyword
from typing import Annotated, Any, Final, Literal

import msgspec

from wainwright.api.field_error import (
    FieldError,
    FieldPath,
    did_you_mean,
    format_value,
    invalid_value,
    unknown_field,
)
from wainwright.api.validation import cel
from wainwright.api.wire import EXPECTED_TEXT_KEYWORD, Schema, WireStruct, object_schema

INT32_RANGE: Final = (-(2**31), 2**31 - 1)
INT64_RANGE: Final = (-(2**63), 2**63 - 1)
DATE_TIME_PATTERN: Final = re.compile(
    r"\d{4}-\d\d-\d\d[Tt]([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII
)
UNQUOTED_SCALAR: Final = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?|true|false")
SCALAR_VALUES: Final = (str, int, float)
"""Values without nested defaults; bool is an int."""
TYPE_NAMES: Final = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "object": "a mapping",
    "array": "a list",
}


def find_unknown_fields(value: Any, schema: Schema, path: FieldPath = ()) -> Iterator[FieldError]:
    """Fields that the schema does not have, which strict validation rejects."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from find_unknown_fields(item, schema.get("items", {}), (*path, index))
    elif isinstance(value, dict):
        yield from _unknown_entries(value, schema, path)


def _unknown_entries(
    value: dict[str, Any], schema: Schema, path: FieldPath
) -> Iterator[FieldError]:
    properties, rest = schema.get("properties", {}), schema.get("additionalProperties")
    open_ended = "x-kubernetes-preserve-unknown-fields" in schema or rest is not None
    for key, item in value.items():
        if key in properties:
            yield from find_unknown_fields(item, properties[key], (*path, key))
        elif rest is not None:
            yield from find_unknown_fields(item, rest, (*path, key))
        elif not open_ended and properties:
            yield _unknown_field(key, list(properties), (*path, key))


def _unknown_field(key: str, known: list[str], path: FieldPath) -> FieldError:
    hint = did_you_mean(key, known) or (f"known here: {', '.join(sorted(known))}" if known else "")
    return unknown_field(path, key, hint)


def apply_defaults(value: Any, schema: Schema) -> Any:
    """The value with defaults filled in and nulls dropped; the original is not changed."""
    if isinstance(value, dict):
        return _apply_entry_defaults(value, schema)
    if isinstance(value, list):
        items = schema.get("items", {})
        return [_apply_default(item, items) for item in value]
    return value


def _apply_entry_defaults(value: dict[str, Any], schema: Schema) -> dict[str, Any]:
    properties, rest = schema.get("properties", {}), schema.get("additionalProperties", {})
    result = dict(value)
    for key, item in value.items():
        if isinstance(item, SCALAR_VALUES):
            continue  # most values are scalars and stay as they are
        inner = properties.get(key, rest)
        result[key] = _apply_default(item, inner)
        if result[key] is None and _drops_null(inner):
            del result[key]
    for key, inner in properties.items():
        if key not in result and "default" in inner:
            result[key] = apply_defaults(deepcopy(inner["default"]), inner)
    return result


def _drops_null(schema: Schema) -> bool:
    known = bool(schema) and "x-kubernetes-preserve-unknown-fields" not in schema
    return known and not schema.get("nullable", False)


def _apply_default(item: Any, schema: Schema) -> Any:
    if isinstance(item, dict):
        return _apply_entry_defaults(item, schema)
    if item is None and "default" in schema and not schema.get("nullable", False):
        return apply_defaults(deepcopy(schema["default"]), schema)
    return apply_defaults(item, schema)


def validate_schema(
    value: Any, schema: Schema, path: FieldPath = (), old: Any = cel.ABSENT
) -> list[FieldError]:
    """All violations of the schema and its rules by a value with defaults."""
    found = list(_type_errors(value, schema, path))
    if found:
        return found
    found.extend(_value_errors(value, schema, path))
    inner = list(_nested_errors(value, schema, path, old))
    has_valid_shape = not found and not inner
    return [
        *found,
        *inner,
        *_rule_errors(value, schema, path, old, has_valid_shape=has_valid_shape),
    ]


def _type_errors(value: Any, schema: Schema, path: FieldPath) -> Iterator[FieldError]:
    if value is None and schema.get("nullable", False):
        return
    if schema.get("x-kubernetes-int-or-string"):
        if not (isinstance(value, str) or _is_int64(value)):
            size = " of at most 64 bits" if _is_integer(value) else ""
            yield invalid_value(path, value, f"a whole number{size} or text")
        return
    expected_type = schema.get("type")
    if expected_type is not None and not TYPE_CHECKS[expected_type](value):
        yield invalid_value(
            path, value, TYPE_NAMES[expected_type], hint=_type_hint(value, expected_type)
        )


def _type_hint(value: Any, expected_type: str) -> str:
    if expected_type == "string" and isinstance(value, (bool, int, float)):
        return f'put it in quotes: "{format_value(value)}"'
    if expected_type in ("integer", "number", "boolean") and isinstance(value, str):
        return "remove the quotes" if UNQUOTED_SCALAR.fullmatch(value) else ""
    if expected_type == "array" and isinstance(value, (dict, str)):
        return "begin each entry with '- '"
    return ""


def _is_integer(value: Any) -> bool:
    whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    return whole and not isinstance(value, bool)


def _is_int64(value: Any) -> bool:
    return _is_integer(value) and INT64_RANGE[0] <= value <= INT64_RANGE[1]


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


TYPE_CHECKS: Final[dict[str, Callable[[Any], bool]]] = {
    "string": lambda value: isinstance(value, str),
    "integer": _is_integer,
    "number": _is_number,
    "boolean": lambda value: isinstance(value, bool),
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
}


def _value_errors(value: Any, schema: Schema, path: FieldPath) -> Iterator[FieldError]:
    if "enum" in schema and value not in schema["enum"]:
        yield _enum_error(path, value, schema["enum"])
    if isinstance(value, str):
        yield from _string_errors(value, schema, path)
    elif _is_number(value):
        yield from _number_errors(value, schema, path)
    elif isinstance(value, (list, dict)):
        yield from _size_errors(value, schema, path)


def _enum_error(path: FieldPath, value: Any, allowed: list[Any]) -> FieldError:
    hint = did_you_mean(value, allowed) if isinstance(value, str) else ""
    return invalid_value(path, value, f"one of {', '.join(map(str, allowed))}", hint=hint)


def _string_errors(value: str, schema: Schema, path: FieldPath) -> Iterator[FieldError]:
    if len(value) > schema.get("maxLength", math.inf):
        yield invalid_value(
            path, value, f"at most {schema['maxLength']} characters, not {len(value)}"
        )
    if len(value) < schema.get("minLength", 0):
        yield invalid_value(path, value, f"at least {schema['minLength']} characters")
    if "pattern" in schema and not _compiled_pattern(schema["pattern"]).search(value):
        yield invalid_value(
            path, value, schema.get(EXPECTED_TEXT_KEYWORD) or f"text like {schema['pattern']}"
        )
    if schema.get("format") == "date-time" and not DATE_TIME_PATTERN.fullmatch(value):
        yield invalid_value(path, value, "a time such as 2026-01-31T12:00:00Z")


@lru_cache(maxsize=256)
def _compiled_pattern(pattern: str) -> "re.Pattern[str]":
    return re.compile(anchor_pattern(pattern), re.ASCII)


def anchor_pattern(pattern: str) -> str:
    """Go's `$` is the end of the text; Python's also matches before a last line break."""
    return pattern.removesuffix("$") + (r"\Z" if pattern.endswith("$") else "")


def _number_errors(value: float, schema: Schema, path: FieldPath) -> Iterator[FieldError]:
    low, high = schema.get("minimum", -math.inf), schema.get("maximum", math.inf)
    if not low <= value <= high:
        yield invalid_value(path, value, _range_text(low, high))
        return
    if schema.get("type") != "integer":
        return
    limits = _integer_range(schema)
    if not limits[0] <= value <= limits[1]:
        bits = 32 if limits == INT32_RANGE else 64
        yield invalid_value(path, value, f"a number that fits into {bits} bits")


def _integer_range(schema: Schema) -> tuple[int, int]:
    return INT32_RANGE if schema.get("format") == "int32" else INT64_RANGE


def _range_text(low: float, high: float) -> str:
    if high == math.inf:
        return f"{low} or more"
    return f"at most {high}" if low == -math.inf else f"from {low} to {high}"


def _size_errors(
    value: list[Any] | dict[str, Any], schema: Schema, path: FieldPath
) -> Iterator[FieldError]:
    least, most = ("minItems", "maxItems") if isinstance(value, list) else PROPERTY_BOUNDS
    if schema.get(least, 0) > schema.get(most, math.inf):
        yield invalid_value(path, value, "a single value, not a list or mapping")
        return
    if len(value) < schema.get(least, 0):
        yield invalid_value(path, value, f"at least {schema[least]} entries")
    if len(value) > schema.get(most, math.inf):
        yield invalid_value(path, value, f"at most {schema[most]} entries, not {len(value)}")
    if isinstance(value, list) and schema.get("x-kubernetes-list-type") in ("set", "map"):
        yield from _duplicate_errors(value, schema.get("x-kubernetes-list-map-keys"), path)


PROPERTY_BOUNDS: Final = ("minProperties", "maxProperties")


def _duplicate_errors(
    value: list[Any], keys: list[str] | None, path: FieldPath
) -> Iterator[FieldError]:
    seen: set[bytes] = set()
    for index, item in enumerate(value):
        marks = [item.get(key) for key in keys] if keys and isinstance(item, dict) else item
        mark = msgspec.json.encode(marks, order="sorted")  # lists cannot be in a set
        if mark in seen:
            yield invalid_value((*path, index), item, "an entry that is not there yet")
        seen.add(mark)


def _nested_errors(value: Any, schema: Schema, path: FieldPath, old: Any) -> Iterator[FieldError]:
    if isinstance(value, list):
        items = schema.get("items", {})
        for index, item in enumerate(value):
            yield from validate_schema(item, items, (*path, index))
    elif isinstance(value, dict):
        yield from _entry_errors(value, schema, path, old)


def _entry_errors(
    value: dict[str, Any], schema: Schema, path: FieldPath, old: Any
) -> Iterator[FieldError]:
    properties, rest = schema.get("properties", {}), schema.get("additionalProperties", {})
    for key in schema.get("required", ()):
        if key not in value:
            yield FieldError(
                path=(*path, key),
                message="required field is missing",
                found="nothing",
                expected=TYPE_NAMES.get(properties.get(key, {}).get("type"), "a value"),
            )
    for key, item in value.items():
        before = old.get(key, cel.ABSENT) if isinstance(old, dict) else cel.ABSENT
        yield from validate_schema(item, properties.get(key, rest), (*path, key), before)


def _rule_errors(
    value: Any, schema: Schema, path: FieldPath, old: Any, *, has_valid_shape: bool
) -> Iterator[FieldError]:
    """A rule that cannot be evaluated is violated, unless the value's types are wrong anyway."""
    rules = schema.get("x-kubernetes-validations", ())
    if rules and not has_valid_shape and not _has_valid_types(value, schema):
        return
    evaluation = cel.RuleEvaluation(value, old)
    for rule in rules:
        if cel.is_transition_rule(rule["rule"]) and old is cel.ABSENT:
            continue
        outcome = evaluation.evaluate(rule["rule"])
        if outcome is False or (outcome is None and has_valid_shape):
            yield from _locate_rule_error(rule, value, path)


def _has_valid_types(value: Any, schema: Schema) -> bool:
    if any(_type_errors(value, schema, ())):
        return False
    if isinstance(value, list):
        return all(_has_valid_types(item, schema.get("items", {})) for item in value)
    if not isinstance(value, dict):
        return True
    properties, rest = schema.get("properties", {}), schema.get("additionalProperties", {})
    return all(_has_valid_types(item, properties.get(key, rest)) for key, item in value.items())


def _locate_rule_error(rule: dict[str, str], value: Any, path: FieldPath) -> Iterator[FieldError]:
    """The paths to report: the field that the rule names, or the entries that violate it."""
    message, field = rule["message"], rule.get("fieldPath", "").lstrip(".")
    places: list[tuple[FieldPath, Any]] = [(path, value)]
    if isinstance(value, dict) and field:
        places = [((*path, field), value.get(field))]
    elif isinstance(value, dict) and rule["rule"].startswith("self.all("):
        alone = [key for key in value if not cel.evaluate_rule(rule["rule"], {key: value[key]})]
        places = [((*path, key), value[key]) for key in alone] or places
    for place, at in places:
        yield FieldError(path=place, message=message, found=format_value(at), expected=message)


SUPPORTED_KEYWORDS: Final = frozenset(
    {
        *("type", "properties", "required", "additionalProperties", "items", "enum"),
        *("pattern", "format", "minLength", "maxLength", "minItems", "maxItems"),
        *("minProperties", "maxProperties", "minimum", "maximum"),
        *("nullable", "default", "description", "anyOf", EXPECTED_TEXT_KEYWORD),
        *("x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields"),
    }
)
LARGEST_FLOAT: Final = 1.797e308  # excludes infinity and NaN


class UnsupportedSchema(Exception):
    """The schema cannot be expressed as a type."""


def is_surely_valid(kind: type[WireStruct], value: Any) -> bool:
    """True if the object has no unknown fields and no errors; False means that it is unknown."""
    strict = _strict_type(kind)
    if strict is None:
        return False
    try:
        msgspec.convert(value, strict)
    except msgspec.ValidationError:
        return False
    return True


@lru_cache(maxsize=64)
def _strict_type(kind: type[WireStruct]) -> Any:
    try:
        return _type_of_schema(object_schema(kind))
    except UnsupportedSchema:
        return None


def _type_of_schema(schema: Schema) -> Any:
    if not schema.keys() <= SUPPORTED_KEYWORDS:
        raise UnsupportedSchema
    if schema.get("x-kubernetes-int-or-string"):
        result: Any = _integer_type({**schema, "format": "int64"}) | _string_type(schema)
    elif "enum" in schema:
        result = Literal[tuple(schema["enum"])]
    else:
        result = TYPE_BUILDERS[schema.get("type", "")](schema)
    return result | None if schema.get("nullable") else result


def _any_type(schema: Schema) -> Any:
    if "x-kubernetes-preserve-unknown-fields" not in schema:
        raise UnsupportedSchema
    return Any


def _string_type(schema: Schema) -> Any:
    timed = schema.get("format") == "date-time"
    if timed and "pattern" in schema:
        raise UnsupportedSchema
    pattern = rf"^(?:{DATE_TIME_PATTERN.pattern})$" if timed else schema.get("pattern")
    return Annotated[
        str,
        msgspec.Meta(
            min_length=schema.get("minLength"),
            max_length=schema.get("maxLength"),
            pattern=None if pattern is None else f"(?a){anchor_pattern(pattern)}",
        ),
    ]


def _integer_type(schema: Schema) -> Any:
    low, high = _integer_range(schema)
    least, most = max(schema.get("minimum", low), low), min(schema.get("maximum", high), high)
    return Annotated[int, msgspec.Meta(ge=least, le=most)]


def _number_type(schema: Schema) -> Any:
    least, most = schema.get("minimum", -LARGEST_FLOAT), schema.get("maximum", LARGEST_FLOAT)
    return Annotated[float, msgspec.Meta(ge=float(least), le=float(most))]


def _list_type(schema: Schema) -> Any:
    items = _type_of_schema(schema.get("items", {}))
    size = msgspec.Meta(min_length=schema.get("minItems"), max_length=schema.get("maxItems"))
    return Annotated[list[items], size]  # type: ignore[valid-type]


def _object_type(schema: Schema) -> Any:
    if "properties" in schema:
        return _struct_type(schema)
    values = (
        _type_of_schema(schema["additionalProperties"]) if "additionalProperties" in schema else Any
    )
    size = msgspec.Meta(
        min_length=schema.get("minProperties"), max_length=schema.get("maxProperties")
    )
    return Annotated[dict[str, values], size]  # type: ignore[valid-type]


def _struct_type(schema: Schema) -> Any:
    name_pattern = all(key.isidentifier() and not iskeyword(key) for key in schema["properties"])
    if not name_pattern or schema.keys() & {
        "additionalProperties",
        "minProperties",
        "maxProperties",
    }:
        raise UnsupportedSchema
    needed = set(schema.get("required", ()))
    fields = [
        (key, _type_of_schema(inner)) if key in needed else (key, _type_of_schema(inner), None)
        for key, inner in schema["properties"].items()
    ]
    optional = "x-kubernetes-preserve-unknown-fields" in schema
    return msgspec.defstruct("Strict", fields, kw_only=True, forbid_unknown_fields=not optional)


TYPE_BUILDERS: Final = {
    "": _any_type,
    "string": _string_type,
    "integer": _integer_type,
    "number": _number_type,
    "boolean": lambda _: bool,
    "array": _list_type,
    "object": _object_type,
}
