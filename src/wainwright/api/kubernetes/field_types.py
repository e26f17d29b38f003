"""Every field of Kubernetes' own kinds with its type, from the OpenAPI description (fields.json).

A value of the wrong type is an error, because the API server cannot decode it. An unknown field is
only a warning: it may belong to a newer Kubernetes. Null is taken anywhere and means absent.
"""

import re
from collections.abc import Callable
from datetime import datetime
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from wainwright.api.field_error import (
    UNKNOWN_FIELD,
    FieldError,
    FieldPath,
    did_you_mean,
    format_value,
    invalid_value,
)
from wainwright.api.kubernetes.meta import to_quantity
from wainwright.api.quantity import InvalidQuantity
from wainwright.api.wire import EXPECTED_QUANTITY

INT32_LIMIT: Final = 2**31
INT64_LIMIT: Final = 2**63
RFC3339_TIME: Final = re.compile(
    r"(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})T(?P<hour>[0-9]{1,2}):(?P<rest>[0-5][0-9]:[0-5][0-9])"
    r"(?:[.,][0-9]+)?(?:Z|[+-](?P<ahead>[0-9]{2}):(?P<minutes>[0-9]{2}))"
)
LEAP_YEAR: Final = "2000"
MISSPELT_QUANTITY: Final = re.compile(
    r"\s*(?P<number>[+-]?[0-9.]+)\s*(?P<letter>[KMGTPEkmgtpe]?)(?P<binary>[Ii]?)[Bb]?\s*"
)


class ScalarType(msgspec.Struct, frozen=True):
    """A scalar type: which values fit, its name in messages, and its zero value."""

    fits: Callable[[Any], bool]
    expected: str
    zero: Any
    exact: type | None = None
    """Every value of exactly this Python type fits, which saves the call of `fits`."""
    bits: int = 0
    """The bits of an integer type."""


def is_string(value: Any) -> bool:
    return isinstance(value, str)


def is_boolean(value: Any) -> bool:
    return isinstance(value, bool)


def is_int32(value: Any) -> bool:
    return _is_whole(value) and -INT32_LIMIT <= value < INT32_LIMIT


def is_int64(value: Any) -> bool:
    return _is_whole(value) and -INT64_LIMIT <= value < INT64_LIMIT


def _is_whole(value: Any) -> bool:
    """kubectl sends 1.0 as 1, so a float without a fraction is an integer too."""
    if isinstance(value, float):
        return value.is_integer()
    return isinstance(value, int) and not isinstance(value, bool)


def is_int_or_string(value: Any) -> bool:
    return isinstance(value, str) or is_int32(value)


def is_quantity(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return False
    try:
        to_quantity(value)
    except InvalidQuantity:
        return False
    return True


def is_time(value: Any) -> bool:
    """RFC 3339 as Go parses it: also with a one-digit hour or a comma before the fraction."""
    return isinstance(value, str) and (_is_canonical_time(value) or _is_unusual_time(value))


def _is_canonical_time(text: str) -> bool:
    """The form that Kubernetes writes; every object has one, so this check avoids the regex."""
    if len(text) != 20 or text[10] != "T" or text[19] != "Z" or not text.isascii():
        return False
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _is_unusual_time(text: str) -> bool:
    match = RFC3339_TIME.fullmatch(text)
    if match is None or int(match["hour"]) > 23:
        return False
    if match["ahead"] and (int(match["ahead"]) > 24 or int(match["minutes"]) > 60):
        return False
    # Python's calendar starts at the year 1 and Go's at 0, which was a leap year.
    date = match["date"].replace("0000", LEAP_YEAR, 1)
    return _is_canonical_time(f"{date}T{int(match['hour']):02}:{match['rest']}Z")


def is_anything(_value: Any) -> bool:
    return True


SCALAR_TYPES: Final = {
    "string": ScalarType(is_string, "text", "", str),
    "boolean": ScalarType(is_boolean, "true or false", False, bool),
    "int32": ScalarType(is_int32, "a whole number", 0, bits=32),
    "int64": ScalarType(is_int64, "a whole number", 0, bits=64),
    "intOrString": ScalarType(is_int_or_string, "a whole number or text", 0, str, bits=32),
    "quantity": ScalarType(is_quantity, EXPECTED_QUANTITY, 0),
    "time": ScalarType(is_time, "a time such as 2026-01-31T12:00:00Z", None),
    "any": ScalarType(is_anything, "anything", None),
}


def expected_text(scalar: ScalarType, value: Any) -> str:
    if scalar.bits and _is_whole(value):
        return f"a whole number that fits into {scalar.bits} bits"
    return scalar.expected


def correction_hint(scalar: ScalarType, value: Any) -> str:
    """A hint how to correct the value, where that is clear."""
    if scalar.zero == "" and isinstance(value, (bool, int, float)):
        return f'put it in quotes: "{format_value(value)}"'
    if scalar is SCALAR_TYPES["quantity"] and isinstance(value, str):
        return _nearest_quantity(value)
    if scalar.exact is not str and isinstance(value, str) and _unquoted_fits(scalar, value):
        return f"remove the quotes: {value.strip()}"
    return ""


def _unquoted_fits(scalar: ScalarType, text: str) -> bool:
    word = text.strip().lower()
    if word in ("true", "false"):
        return scalar.fits(word == "true")
    return word.lstrip("-").isdecimal() and len(word) < 20 and scalar.fits(int(word))


@lru_cache(maxsize=256)
def _nearest_quantity(text: str) -> str:
    """For 1GB, 512 mb, 2gi or 1K: the quantities with the likely suffixes."""
    match = MISSPELT_QUANTITY.fullmatch(text)
    if match is None:
        return ""
    letter = match["letter"].upper()
    plain = "k" if letter == "K" else letter
    suffixes = [f"{letter}i"] if match["binary"] else [plain, f"{letter}i"] if letter else [""]
    candidates = [f"{match['number']}{suffix}" for suffix in suffixes]
    return f"did you mean {' or '.join(candidates)}?" if is_quantity(candidates[0]) else ""


class FieldType(Protocol):
    """A type of the table, which can check and repair values."""

    zero: Any
    """The value of null inside a list or map."""

    def check_type(self, value: Any, path: FieldPath, field_errors: list[FieldError]) -> None:
        """Adds an error for every part of the value that does not have this type."""

    def repair(self, value: Any) -> Any:
        """The value without nulls, unknown fields and wrong types; None if nothing fits."""


class ScalarFieldType:
    """A scalar."""

    __slots__ = ("scalar", "zero")

    def __init__(self, scalar: ScalarType) -> None:
        self.scalar = scalar
        self.zero = scalar.zero

    def check_type(self, value: Any, path: FieldPath, field_errors: list[FieldError]) -> None:
        if not self.scalar.fits(value):
            expected = expected_text(self.scalar, value)
            field_errors.append(
                invalid_value(path, value, expected, correction_hint(self.scalar, value))
            )

    def repair(self, value: Any) -> Any:
        if not self.scalar.fits(value):
            return None
        is_whole = isinstance(value, float) and value.is_integer()
        return int(value) if is_whole else value


class ListFieldType:
    __slots__ = ("exact", "item", "zero")

    def __init__(self, item: FieldType) -> None:
        self.item = item
        self.exact = _exact_type(item)
        self.zero: Any = []

    def check_type(self, value: Any, path: FieldPath, field_errors: list[FieldError]) -> None:
        if not isinstance(value, list):
            hint = "begin each entry with '- '" if isinstance(value, (dict, str)) else ""
            field_errors.append(invalid_value(path, value, "a list", hint))
            return
        for index, entry in enumerate(value):
            if entry is not None and type(entry) is not self.exact:
                self.item.check_type(entry, (*path, index), field_errors)

    def repair(self, value: Any) -> Any:
        if not isinstance(value, list):
            return None
        repaired = [None if entry is None else self.item.repair(entry) for entry in value]
        return [self.item.zero if entry is None else entry for entry in repaired]


class MapFieldType:
    __slots__ = ("exact", "item", "zero")

    def __init__(self, item: FieldType) -> None:
        self.item = item
        self.exact = _exact_type(item)
        self.zero: Any = {}

    def check_type(self, value: Any, path: FieldPath, field_errors: list[FieldError]) -> None:
        if not isinstance(value, dict):
            field_errors.append(invalid_value(path, value, "a mapping"))
            return
        for key, entry in value.items():
            if entry is not None and type(entry) is not self.exact:
                self.item.check_type(entry, (*path, key), field_errors)

    def repair(self, value: Any) -> Any:
        if not isinstance(value, dict):
            return None
        repaired = {
            k: None if entry is None else self.item.repair(entry) for k, entry in value.items()
        }
        filled = {k: self.item.zero if entry is None else entry for k, entry in repaired.items()}
        # A time has no zero that could be written: its entry is left out.
        return {key: entry for key, entry in filled.items() if entry is not None}


class ObjectFieldType:
    """An object with named fields."""

    __slots__ = ("exact", "fields", "name", "zero")

    def __init__(self, name: str, fields: dict[str, FieldType]) -> None:
        self.name = name
        self.zero: Any = {}
        self.fields = fields
        self.exact = {key: _exact_type(shape) for key, shape in fields.items()}

    def check_type(self, value: Any, path: FieldPath, field_errors: list[FieldError]) -> None:
        if not isinstance(value, dict):
            field_errors.append(invalid_value(path, value, "a mapping"))
            return
        exact, fields = self.exact, self.fields
        for key, item in value.items():
            if item is None or exact.get(key) is type(item):
                continue
            shape = fields.get(key)
            if shape is not None:
                shape.check_type(item, (*path, key), field_errors)
            else:
                field_errors.append(self.unknown(key, path))

    def unknown(self, key: str, path: FieldPath) -> FieldError:
        return FieldError(
            path=(*path, key),
            message=UNKNOWN_FIELD,
            found=key,
            expected="a field that is known",
            hint=_suggest_field(self.name, key),
            warning=True,
        )

    def repair(self, value: Any) -> Any:
        if not isinstance(value, dict):
            return None
        repaired = {
            key: self.fields[key].repair(item)
            for key, item in value.items()
            if item is not None and key in self.fields
        }
        return {key: item for key, item in repaired.items() if item is not None}


def _exact_type(shape: FieldType) -> type | None:
    """The Python type whose values all fit.

    Comparing types skips `check_type` for most fields, which are text; without it the check of a
    large input takes a call for every field.
    """
    return shape.scalar.exact if isinstance(shape, ScalarFieldType) else None


class _FieldTable(msgspec.Struct, frozen=True):
    source: str
    kinds: dict[str, str]
    types: dict[str, dict[str, str]]


@cache
def _load_table() -> _FieldTable:
    # Not by importlib.resources, which loads tempfile, zipfile and random: 5 ms of every command.
    table = Path(__file__).with_name("fields.json").read_bytes()
    return msgspec.json.decode(table, type=_FieldTable)


@cache
def field_type(type_name: str) -> FieldType:
    """The type of a table entry: a scalar, []X for a list of X, {}X for a map, a type's name."""
    if type_name.startswith("[]"):
        return ListFieldType(field_type(type_name[2:]))
    if type_name.startswith("{}"):
        return MapFieldType(field_type(type_name[2:]))
    if type_name in SCALAR_TYPES:
        return ScalarFieldType(SCALAR_TYPES[type_name])
    return object_type(type_name)


@cache
def object_type(name: str) -> ObjectFieldType:
    """The fields of a named type; no type contains itself."""
    return ObjectFieldType(
        name, {key: field_type(kind) for key, kind in _load_table().types[name].items()}
    )


def kind_type(api_version: str, kind: str) -> ObjectFieldType:
    """The type of an object of this kind."""
    return object_type(_load_table().kinds[f"{api_version} {kind}"])


@lru_cache(maxsize=1024)
def _suggest_field(name: str, key: str) -> str:
    return did_you_mean(key, sorted(object_type(name).fields))
