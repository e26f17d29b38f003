"""Every field of every old kind goes somewhere: tables under tests/manifests/convert/fields.

A row maps a field, or everything below it, to its place in an object of v1 (`NodePool/spec/weight`)
or to the effect of the note that speaks of it; the longest row that fits a field counts.
"""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path as File
from typing import Any

import msgspec
import pytest
import yaml

from wainwright.api.crd import root_schema
from wainwright.api.fault import Path
from wainwright.api.metadata import FIELDS
from wainwright.api.old import OLD_KINDS
from wainwright.api.schema import Schema
from wainwright.manifests.convert import Conversion, convert

FOLDER = File(__file__).parents[2] / "manifests" / "convert" / "fields"
METADATA: Schema = {"type": "object", "properties": {name: {} for name in FIELDS}}


class Place(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    at: str
    is_: str = msgspec.field(name="is")


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    kind: str
    inputs: list[list[dict[str, Any]]]
    fields: dict[str, str | Place]

    @property
    def schema(self) -> Schema:
        version, _, kind = self.kind.partition(" ")
        root = root_schema(OLD_KINDS[version, kind])
        return {**root, "properties": {**root["properties"], "metadata": METADATA}}

    def row(self, field: str) -> str:
        fitting = [row for row in self.fields if re.match(rf"{re.escape(row)}($|[.\[{{])", field)]
        return max(fitting, key=len, default="")


@cache
def tables() -> dict[str, Table]:
    return {path.stem: _read(path) for path in sorted(FOLDER.glob("*.yaml"))}


def _read(path: File) -> Table:
    return msgspec.convert(yaml.load(path.read_text(encoding="utf-8"), yaml.CSafeLoader), Table)


def _fields(schema: Schema, name: str = "") -> Iterator[str]:
    """Every field that holds a value: `[]` stands for an index and `{}` for a key of the user's."""
    inner = [
        *((item, f"{name}.{key}".strip(".")) for key, item in schema.get("properties", {}).items()),
        *((schema[key], name + mark) for key, mark in MARKS.items() if key in schema),
    ]
    for item, field in inner:
        yield from _fields(item, field)
    if not inner:
        yield name


MARKS = {"additionalProperties": "{}", "items": "[]"}


def _values(
    value: Any, schema: Schema, name: str = "", path: Path = ()
) -> Iterator[tuple[str, Path, Any]]:
    """Every value of a document with the name and the path of its field."""
    properties = schema.get("properties", {})
    if isinstance(value, list) and "items" in schema:
        for index, item in enumerate(value):
            yield from _values(item, schema["items"], f"{name}[]", (*path, index))
    elif isinstance(value, dict) and (properties or "additionalProperties" in schema):
        for key, item in value.items():
            known = key in properties
            inner = properties[key] if known else schema["additionalProperties"]
            field = f"{name}.{key}".strip(".") if known else f"{name}{{}}"
            yield from _values(item, inner, field, (*path, key))
    else:
        yield name, path, value


def _cases() -> Iterator[Any]:
    for stem, table in tables().items():
        for number, documents in enumerate(table.inputs):
            for field, path, value in _values(documents[0], table.schema):
                yield pytest.param(
                    table, number, field, path, value, id=f"{stem}-{number}-{field}-{path[-1]}"
                )


@pytest.mark.parametrize(("table", "number", "field", "path", "value"), list(_cases()))
def test_a_value_is_visible_in_v1_or_spoken_of_in_a_note(
    table: Table, number: int, field: str, path: Path, value: Any
) -> None:
    row = table.row(field)
    target = table.fields[row]
    made = _converted(table.kind, number)
    if isinstance(target, Place):
        assert _at(made, target.at, ()) == target.is_
    elif "/" in target:
        assert str(_at(made, target, path[len(_steps(row)) :])) == str(value)
    else:
        assert _is_noted(made, target, path)


def _steps(row: str) -> list[str]:
    return row.replace("[]", ".[]").replace("{}", ".{}").split(".")


@cache
def _converted(kind: str, number: int) -> Conversion:
    table = next(table for table in tables().values() if table.kind == kind)
    made = convert(table.inputs[number])
    assert made.faults == []
    return made


def _at(made: Conversion, target: str, rest: Path) -> Any:
    kind, *steps = target.split("/")
    found: Any = next(document for document in made.documents if document["kind"] == kind)
    for step in [*steps, *rest]:
        found = found[int(step) if isinstance(found, list) else step]
    return found


def _is_noted(made: Conversion, effect: str, path: Path) -> bool:
    """What servers set is told in one note for all of it, by name."""
    return any(
        note.document == 0
        and note.effect == effect
        and note.path == path[: len(note.path)]
        and (note.path != ("metadata",) or str(path[1]) in note.message)
        for note in made.notes
    )


@pytest.mark.parametrize("table", list(tables().values()), ids=list(tables()))
def test_the_inputs_of_a_table_set_every_field_of_the_kind(table: Table) -> None:
    documents = [documents[0] for documents in table.inputs]
    given = {field for document in documents for field, _, _ in _values(document, table.schema)}
    assert given == set(_fields(table.schema))


@pytest.mark.parametrize("table", list(tables().values()), ids=list(tables()))
def test_every_row_of_a_table_is_used(table: Table) -> None:
    assert {table.row(field) for field in _fields(table.schema)} == set(table.fields)


def test_every_old_kind_has_a_table() -> None:
    assert {table.kind for table in tables().values()} == {f"{v} {k}" for v, k in OLD_KINDS}
