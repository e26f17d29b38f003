"""A structural schema applied to a value, as the API server does it: prune, default, check, rules.

Every fault is reported, not the first only. Rules in CEL are run on the parts whose shape is right;
running them on broken parts would only tell the same news twice.
"""

import math
import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import lru_cache
from typing import Any, Final

from wainwright.api import cel
from wainwright.api.fault import Fault, Path, did_you_mean, shown
from wainwright.api.schema import SAYS, Schema

INT32: Final = (-(2**31), 2**31 - 1)
INT64: Final = (-(2**63), 2**63 - 1)
TIME: Final = re.compile(
    r"\d{4}-\d\d-\d\d[Tt]([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII
)
UNQUOTED: Final = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?|true|false")
SCALARS: Final = (str, int, float)
"""Values that no default is put into, or in the place of; bool is an int."""
NAMES: Final = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "object": "a mapping",
    "array": "a list",
}


def unknown_fields(value: Any, schema: Schema, path: Path = ()) -> Iterator[Fault]:
    """Fields that the schema does not have: strict validation refuses them."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from unknown_fields(item, schema.get("items", {}), (*path, index))
    elif isinstance(value, dict):
        yield from _unknown_entries(value, schema, path)


def _unknown_entries(value: dict[str, Any], schema: Schema, path: Path) -> Iterator[Fault]:
    properties, rest = schema.get("properties", {}), schema.get("additionalProperties")
    open_ended = "x-kubernetes-preserve-unknown-fields" in schema or rest is not None
    for key, item in value.items():
        if key in properties:
            yield from unknown_fields(item, properties[key], (*path, key))
        elif rest is not None:
            yield from unknown_fields(item, rest, (*path, key))
        elif not open_ended and properties:
            yield _unknown(key, list(properties), (*path, key))


def _unknown(key: str, known: list[str], path: Path) -> Fault:
    hint = did_you_mean(key, known) or (f"known here: {', '.join(sorted(known))}" if known else "")
    return Fault(
        path=path, message="unknown field", found=key, expected="a field that is known", hint=hint
    )


def defaulted(value: Any, schema: Schema) -> Any:
    """The value with defaults filled in and meaningless nulls taken out; the original stays."""
    if isinstance(value, dict):
        return _defaulted_entries(value, schema)
    if isinstance(value, list):
        items = schema.get("items", {})
        return [_default_for(item, items) for item in value]
    return value


def _defaulted_entries(value: dict[str, Any], schema: Schema) -> dict[str, Any]:
    properties, rest = schema.get("properties", {}), schema.get("additionalProperties", {})
    made = dict(value)
    for key, item in value.items():
        if isinstance(item, SCALARS):
            continue  # most are, and stay as they are
        inner = properties.get(key, rest)
        made[key] = _default_for(item, inner)
        if made[key] is None and _is_null_meaningless(inner):
            del made[key]
    for key, inner in properties.items():
        if key not in made and "default" in inner:
            made[key] = defaulted(deepcopy(inner["default"]), inner)
    return made


def _is_null_meaningless(schema: Schema) -> bool:
    known = bool(schema) and "x-kubernetes-preserve-unknown-fields" not in schema
    return known and not schema.get("nullable", False)


def _default_for(item: Any, schema: Schema) -> Any:
    if isinstance(item, dict):
        return _defaulted_entries(item, schema)
    if item is None and "default" in schema and not schema.get("nullable", False):
        return defaulted(deepcopy(schema["default"]), schema)
    return defaulted(item, schema)


def faults(value: Any, schema: Schema, path: Path = (), old: Any = cel.ABSENT) -> list[Fault]:
    """Everything that the schema and its rules find wrong with a defaulted value."""
    found = list(_type_faults(value, schema, path))
    if found:
        return found
    found.extend(_own_faults(value, schema, path))
    inner = list(_inner_faults(value, schema, path, old))
    shaped = not found and not inner
    return [*found, *inner, *_broken_rules(value, schema, path, old, shaped=shaped)]


def _type_faults(value: Any, schema: Schema, path: Path) -> Iterator[Fault]:
    if value is None and schema.get("nullable", False):
        return
    if schema.get("x-kubernetes-int-or-string"):
        if not (isinstance(value, str) or _is_integer(value)):
            yield _wrong(path, value, "a whole number or text")
        return
    wanted = schema.get("type")
    if wanted is not None and not TYPES[wanted](value):
        yield _wrong(path, value, NAMES[wanted], hint=_type_hint(value, wanted))


def _type_hint(value: Any, wanted: str) -> str:
    if wanted == "string" and isinstance(value, (bool, int, float)):
        return f'put it in quotes: "{shown(value)}"'
    if wanted in ("integer", "number", "boolean") and isinstance(value, str):
        return "remove the quotes" if UNQUOTED.fullmatch(value) else ""
    if wanted == "array" and isinstance(value, (dict, str)):
        return "begin each entry with '- '"
    return ""


def _is_integer(value: Any) -> bool:
    whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    return whole and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


TYPES: Final[dict[str, Callable[[Any], bool]]] = {
    "string": lambda value: isinstance(value, str),
    "integer": _is_integer,
    "number": _is_number,
    "boolean": lambda value: isinstance(value, bool),
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
}


def _own_faults(value: Any, schema: Schema, path: Path) -> Iterator[Fault]:
    if "enum" in schema and value not in schema["enum"]:
        yield _not_among(path, value, schema["enum"])
    if isinstance(value, str):
        yield from _text_faults(value, schema, path)
    elif _is_number(value):
        yield from _number_faults(value, schema, path)
    elif isinstance(value, (list, dict)):
        yield from _size_faults(value, schema, path)


def _not_among(path: Path, value: Any, allowed: list[Any]) -> Fault:
    hint = did_you_mean(value, allowed) if isinstance(value, str) else ""
    return _wrong(path, value, f"one of {', '.join(map(str, allowed))}", hint=hint)


def _text_faults(value: str, schema: Schema, path: Path) -> Iterator[Fault]:
    if len(value) > schema.get("maxLength", math.inf):
        yield _wrong(path, value, f"at most {schema['maxLength']} characters, not {len(value)}")
    if len(value) < schema.get("minLength", 0):
        yield _wrong(path, value, f"at least {schema['minLength']} characters")
    if "pattern" in schema and not _regex(schema["pattern"]).search(value):
        yield _wrong(path, value, schema.get(SAYS) or f"text like {schema['pattern']}")
    if schema.get("format") == "date-time" and not TIME.fullmatch(value):
        yield _wrong(path, value, "a time such as 2026-01-31T12:00:00Z")


@lru_cache(maxsize=256)
def _regex(pattern: str) -> "re.Pattern[str]":
    return re.compile(anchored(pattern), re.ASCII)


def anchored(pattern: str) -> str:
    """Go's `$` is the very end; Python's also stands before a last line break."""
    return pattern.removesuffix("$") + (r"\Z" if pattern.endswith("$") else "")


def _number_faults(value: float, schema: Schema, path: Path) -> Iterator[Fault]:
    low, high = schema.get("minimum", -math.inf), schema.get("maximum", math.inf)
    if not low <= value <= high:
        yield _wrong(path, value, _range(low, high))
        return
    limits = {"int32": INT32, "int64": INT64}.get(schema.get("format", ""))
    if limits is not None and not limits[0] <= value <= limits[1]:
        yield _wrong(path, value, f"a number that fits into {schema['format'][3:]} bits")


def _range(low: float, high: float) -> str:
    if high == math.inf:
        return f"{low} or more"
    return f"at most {high}" if low == -math.inf else f"from {low} to {high}"


def _size_faults(value: list[Any] | dict[str, Any], schema: Schema, path: Path) -> Iterator[Fault]:
    least, most = ("minItems", "maxItems") if isinstance(value, list) else PROPERTIES
    if schema.get(least, 0) > schema.get(most, math.inf):
        yield _wrong(path, value, "a single value, not a list or mapping")
        return
    if len(value) < schema.get(least, 0):
        yield _wrong(path, value, f"at least {schema[least]} entries")
    if len(value) > schema.get(most, math.inf):
        yield _wrong(path, value, f"at most {schema[most]} entries, not {len(value)}")
    if isinstance(value, list) and schema.get("x-kubernetes-list-type") in ("set", "map"):
        yield from _repeats(value, schema.get("x-kubernetes-list-map-keys"), path)


PROPERTIES: Final = ("minProperties", "maxProperties")


def _repeats(value: list[Any], keys: list[str] | None, path: Path) -> Iterator[Fault]:
    seen: list[Any] = []
    for index, item in enumerate(value):
        mark = [item.get(key) for key in keys] if keys and isinstance(item, dict) else item
        if mark in seen:
            yield _wrong((*path, index), item, "an entry that is not there yet")
        seen.append(mark)


def _inner_faults(value: Any, schema: Schema, path: Path, old: Any) -> Iterator[Fault]:
    if isinstance(value, list):
        items = schema.get("items", {})
        for index, item in enumerate(value):
            yield from faults(item, items, (*path, index))
    elif isinstance(value, dict):
        yield from _entry_faults(value, schema, path, old)


def _entry_faults(value: dict[str, Any], schema: Schema, path: Path, old: Any) -> Iterator[Fault]:
    properties, rest = schema.get("properties", {}), schema.get("additionalProperties", {})
    for key in schema.get("required", ()):
        if key not in value:
            yield Fault(
                path=(*path, key),
                message="required field is missing",
                found="nothing",
                expected=NAMES.get(properties.get(key, {}).get("type"), "a value"),
            )
    for key, item in value.items():
        before = old.get(key, cel.ABSENT) if isinstance(old, dict) else cel.ABSENT
        yield from faults(item, properties.get(key, rest), (*path, key), before)


def _broken_rules(
    value: Any, schema: Schema, path: Path, old: Any, *, shaped: bool
) -> Iterator[Fault]:
    """A rule that cannot be computed is broken, unless the parts' shape already tells why."""
    for rule in schema.get("x-kubernetes-validations", ()):
        if cel.about_change(rule["rule"]) and old is cel.ABSENT:
            continue
        outcome = cel.holds(rule["rule"], value, old)
        if outcome is False or (outcome is None and shaped):
            yield from _blamed(rule, value, path)


def _blamed(rule: dict[str, str], value: Any, path: Path) -> Iterator[Fault]:
    """The place to look at: the field that the rule names, or the entries that break it."""
    message, field = rule["message"], rule.get("fieldPath", "").lstrip(".")
    places: list[tuple[Path, Any]] = [(path, value)]
    if isinstance(value, dict) and field:
        places = [((*path, field), value.get(field))]
    elif isinstance(value, dict) and rule["rule"].startswith("self.all("):
        alone = [key for key in value if not cel.holds(rule["rule"], {key: value[key]})]
        places = [((*path, key), value[key]) for key in alone] or places
    for place, at in places:
        yield Fault(path=place, message=message, found=shown(at), expected=message)


def _wrong(path: Path, value: Any, expected: str, hint: str = "") -> Fault:
    return Fault(
        path=path,
        message=f"expected {expected}",
        found=shown(value),
        expected=expected,
        hint=hint,
    )
