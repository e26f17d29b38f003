"""The shape of core kinds: every field with its type, from the API description of Kubernetes.

A value of the wrong type is an error, because the API server cannot decode it. An unknown field is
only a warning: it may belong to a newer Kubernetes. Null is taken anywhere and means absent.
"""

from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, Protocol

import msgspec

from wainwright.api.builtin.decoding import SCALARS, Scalar, expectation, hint
from wainwright.api.builtin.wording import wrong
from wainwright.api.fault import Fault, Path, did_you_mean


class Shape(Protocol):
    """A type of the table, as something that can be held against a value."""

    zero: Any
    """What null stands for inside a list or map."""

    def look(self, value: Any, path: Path, found: list[Fault]) -> None:
        """Add to the faults found whatever keeps the value from being of this type."""

    def repaired(self, value: Any) -> Any:
        """The value without nulls, unknown fields and what does not fit; None if all is lost."""


class Plain:
    """A scalar."""

    __slots__ = ("scalar", "zero")

    def __init__(self, scalar: Scalar) -> None:
        self.scalar = scalar
        self.zero = scalar.zero

    def look(self, value: Any, path: Path, found: list[Fault]) -> None:
        if not self.scalar.fits(value):
            expected = expectation(self.scalar, value)
            found.append(wrong(path, value, expected, hint(self.scalar, value)))

    def repaired(self, value: Any) -> Any:
        if not self.scalar.fits(value):
            return None
        whole = isinstance(value, float) and value.is_integer()
        return int(value) if whole else value


class ListOf:
    __slots__ = ("exact", "item", "zero")

    def __init__(self, item: Shape) -> None:
        self.item = item
        self.exact = _exact(item)
        self.zero: Any = []

    def look(self, value: Any, path: Path, found: list[Fault]) -> None:
        if not isinstance(value, list):
            advice = "begin each entry with '- '" if isinstance(value, (dict, str)) else ""
            found.append(wrong(path, value, "a list", advice))
            return
        for index, entry in enumerate(value):
            if entry is not None and type(entry) is not self.exact:
                self.item.look(entry, (*path, index), found)

    def repaired(self, value: Any) -> Any:
        if not isinstance(value, list):
            return None
        made = [None if entry is None else self.item.repaired(entry) for entry in value]
        return [self.item.zero if entry is None else entry for entry in made]


class MapOf:
    __slots__ = ("exact", "item", "zero")

    def __init__(self, item: Shape) -> None:
        self.item = item
        self.exact = _exact(item)
        self.zero: Any = {}

    def look(self, value: Any, path: Path, found: list[Fault]) -> None:
        if not isinstance(value, dict):
            found.append(wrong(path, value, "a mapping"))
            return
        for key, entry in value.items():
            if entry is not None and type(entry) is not self.exact:
                self.item.look(entry, (*path, key), found)

    def repaired(self, value: Any) -> Any:
        if not isinstance(value, dict):
            return None
        made = {k: None if one is None else self.item.repaired(one) for k, one in value.items()}
        return {key: self.item.zero if entry is None else entry for key, entry in made.items()}


class Fields:
    """An object with named fields."""

    __slots__ = ("exact", "fields", "name", "zero")

    def __init__(self, name: str, fields: dict[str, Shape]) -> None:
        self.name = name
        self.zero: Any = {}
        self.fields = fields
        self.exact = {key: _exact(shape) for key, shape in fields.items()}

    def look(self, value: Any, path: Path, found: list[Fault]) -> None:
        if not isinstance(value, dict):
            found.append(wrong(path, value, "a mapping"))
            return
        exact, fields = self.exact, self.fields
        for key, item in value.items():
            if item is None or exact.get(key) is type(item):
                continue
            shape = fields.get(key)
            if shape is not None:
                shape.look(item, (*path, key), found)
            else:
                found.append(self.unknown(key, path))

    def unknown(self, key: str, path: Path) -> Fault:
        return Fault(
            path=(*path, key),
            message="unknown field",
            found=key,
            expected="a field that is known",
            hint=_meant(self.name, key),
            warning=True,
        )

    def repaired(self, value: Any) -> Any:
        if not isinstance(value, dict):
            return None
        made = {
            key: self.fields[key].repaired(item)
            for key, item in value.items()
            if item is not None and key in self.fields
        }
        return {key: item for key, item in made.items() if item is not None}


def _exact(shape: Shape) -> type | None:
    """The Python type whose values fit without a look; most fields of an object are text."""
    return shape.scalar.exact if isinstance(shape, Plain) else None


class _Table(msgspec.Struct, frozen=True):
    source: str
    kinds: dict[str, str]
    types: dict[str, dict[str, str]]


@cache
def _table() -> _Table:
    return msgspec.json.decode(files(__package__).joinpath("fields.json").read_bytes(), type=_Table)


@cache
def shape(described: str) -> Shape:
    """What the table calls so: a scalar, []X for a list of X, {}X for a map, a type's name."""
    if described.startswith("[]"):
        return ListOf(shape(described[2:]))
    if described.startswith("{}"):
        return MapOf(shape(described[2:]))
    if described in SCALARS:
        return Plain(SCALARS[described])
    return fields_of(described)


@cache
def fields_of(name: str) -> Fields:
    """The fields of a named type; no type contains itself."""
    return Fields(name, {key: shape(kind) for key, kind in _table().types[name].items()})


def root(api_version: str, kind: str) -> Fields:
    """The fields of a whole object of this kind."""
    return fields_of(_table().kinds[f"{api_version} {kind}"])


@lru_cache(maxsize=1024)
def _meant(name: str, key: str) -> str:
    return did_you_mean(key, sorted(fields_of(name).fields))
