"""Schema, wire type and text agree: laws 6 and 7 of docs/internals/invariants.md; and the fast
path for large objects is never laxer than the full validation.
"""

from math import inf, nan
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.schema_values import schema_values

from wainwright.api.catalog_documents import Catalog, Cloud
from wainwright.api.kinds import KindFamily, KnownKind, known_kinds
from wainwright.api.validation.schema_validation import (
    apply_defaults,
    find_unknown_fields,
    is_surely_valid,
    validate_schema,
)
from wainwright.api.wire import (
    EXPECTED_TEXT_KEYWORD,
    Schema,
    WireStruct,
    object_schema,
    to_manifest,
)
from wainwright.manifests import json_reader, yaml_reader
from wainwright.manifests.yaml_writer import dump_yaml

OURS = [
    kind
    for kind in known_kinds().values()
    if kind.family in (KindFamily.CUSTOM, KindFamily.OFFLINE)
]
each_kind = pytest.mark.parametrize("kind", OURS, ids=lambda kind: kind.name)
relaxed = settings(
    max_examples=10, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)


def _body(kind: KnownKind) -> Schema:
    schema = object_schema(kind.type)
    skipped = ("apiVersion", "kind", "metadata")
    inner = {key: item for key, item in schema["properties"].items() if key not in skipped}
    return {**schema, "properties": inner}


def _object(kind: KnownKind, body: dict[str, Any]) -> dict[str, Any]:
    head = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": {"name": "a"}}
    return {**head, **body}


@each_kind
@relaxed
@given(data=st.data())
def test_what_the_schema_allows_decodes_and_prints_back_without_loss(
    kind: KnownKind, data: st.DataObject
) -> None:
    schema = object_schema(kind.type)
    value = apply_defaults(_object(kind, data.draw(schema_values(_body(kind)))), schema)
    item = msgspec.convert(value, kind.type)
    printed = apply_defaults(to_manifest(item), schema)
    assert msgspec.convert(printed, kind.type) == item
    key = "region" if kind.name == "Catalog" else "spec"
    assert printed.get(key) == value.get(key)


@each_kind
@relaxed
@given(data=st.data())
def test_an_object_survives_yaml_and_json_text(kind: KnownKind, data: st.DataObject) -> None:
    value = _object(kind, data.draw(schema_values(_body(kind))))
    item = msgspec.convert(apply_defaults(value, object_schema(kind.type)), kind.type)
    as_json = msgspec.json.encode(to_manifest(item)).decode()
    [read] = json_reader.parse_json(as_json)
    assert msgspec.convert(read.value, kind.type) == item
    [(text, _)] = yaml_reader.parse_yaml(dump_yaml(to_manifest(item)))
    assert msgspec.convert(text.value, kind.type) == item


@each_kind
@relaxed
@given(data=st.data())
def test_defaulting_is_idempotent(kind: KnownKind, data: st.DataObject) -> None:
    schema = object_schema(kind.type)
    once = apply_defaults(_object(kind, data.draw(schema_values(_body(kind)))), schema)
    assert apply_defaults(once, schema) == once


@each_kind
def test_every_default_of_the_schema_is_the_default_of_the_struct(kind: KnownKind) -> None:
    for struct, schema in _structs(kind.type, object_schema(kind.type)):
        for field in msgspec.structs.fields(struct):
            inner = schema["properties"].get(field.encode_name, {})
            if "default" in inner and not field.required:
                made = msgspec.convert({**_least(schema)}, struct)
                assert _plain(getattr(made, field.name)) == apply_defaults(inner["default"], inner)


def _least(schema: Schema) -> dict[str, Any]:
    """The smallest object that a schema allows."""
    return {key: _smallest(schema["properties"][key]) for key in schema.get("required", ())}


def _smallest(schema: Schema) -> Any:
    match schema.get("type"):
        case "object":
            return _least(schema) if "properties" in schema else {}
        case "array":
            return []
        case "integer" | "number":
            return 0
        case _:
            return ""


def _plain(value: Any) -> Any:
    """A struct with every field written out."""
    if isinstance(value, msgspec.Struct):
        fields = {name: getattr(value, name) for name in value.__struct_fields__}
        return {name: _plain(item) for name, item in fields.items() if item is not None}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value


def _structs(kind: Any, schema: Schema) -> list[tuple[type[msgspec.Struct], Schema]]:
    """Every struct inside a type, beside its part of the schema."""
    found = [(kind, schema)]
    for field in msgspec.structs.fields(kind):
        inner = schema["properties"].get(field.encode_name, {})
        for one in _inside(msgspec.inspect.type_info(field.type)):
            part = inner.get("items", inner)
            if "properties" in part:
                found.extend(_structs(one, part))
    return found


def _inside(info: Any) -> list[type[msgspec.Struct]]:
    if isinstance(info, msgspec.inspect.StructType):
        return [info.cls]
    children = getattr(info, "types", ()) or (
        getattr(info, "type", None),
        getattr(info, "item_type", None),
    )
    return [one for child in children if child is not None for one in _inside(child)]


@each_kind
def test_every_pattern_says_in_words_what_it_wants(kind: KnownKind) -> None:
    def walk(schema: Any, path: str) -> None:
        if isinstance(schema, dict):
            assert "pattern" not in schema or EXPECTED_TEXT_KEYWORD in schema, path
            for key, item in schema.items():
                walk(item, f"{path}.{key}")
        elif isinstance(schema, list):
            for item in schema:
                walk(item, path)

    walk(object_schema(kind.type), kind.name)


@each_kind
@relaxed
@given(data=st.data())
def test_a_schema_finds_no_fault_with_what_it_made(kind: KnownKind, data: st.DataObject) -> None:
    """Only rules in CEL may object, and they speak in their own words."""
    schema = object_schema(kind.type)
    value = apply_defaults(_object(kind, data.draw(schema_values(_body(kind)))), schema)
    for field_error in validate_schema({k: v for k, v in value.items() if k != "metadata"}, schema):
        assert not field_error.message.startswith(("expected", "required")), field_error


ODD: tuple[Any, ...] = (
    None,
    True,
    -1,
    2.0,
    0.5,
    10**20,
    nan,
    inf,
    "",
    "cr-1\n",
    "x" * 300,
    [],
    {},
    [None],
    {"x": 1},
)
each_large_kind = pytest.mark.parametrize("kind", [Catalog, Cloud], ids=lambda kind: kind.__name__)
relaxed_for_large_kinds = settings(
    max_examples=30, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)


def objects(kind: type[WireStruct]) -> st.SearchStrategy[dict[str, Any]]:
    head = {"metadata": {"name": "a"}}
    return schema_values(object_schema(kind)).map(lambda value: {**value, **head})


def listed(kind: type[WireStruct], value: dict[str, Any]) -> list[Any]:
    schema = object_schema(kind)
    return [
        *find_unknown_fields(value, schema),
        *validate_schema(apply_defaults(value, schema), schema),
    ]


@each_large_kind
@relaxed_for_large_kinds
@given(data=st.data())
def test_what_the_schema_allows_passes(kind: type[WireStruct], data: st.DataObject) -> None:
    value = data.draw(objects(kind))
    assert is_surely_valid(kind, value)
    assert listed(kind, value) == []


@each_large_kind
@relaxed_for_large_kinds
@given(data=st.data())
def test_what_has_faults_does_not_pass(kind: type[WireStruct], data: st.DataObject) -> None:
    value = data.draw(objects(kind))
    spoil(value, data)
    if listed(kind, value):
        assert not is_surely_valid(kind, value)


def spoil(value: Any, data: st.DataObject) -> None:
    """Puts something odd in some place of the object."""
    places = list(containers(value))
    place = data.draw(st.sampled_from(places))
    odd = data.draw(st.sampled_from(ODD))
    if isinstance(place, list):
        place.insert(data.draw(st.integers(0, len(place))), odd)
    else:
        place[data.draw(st.sampled_from([*place, "odd"]))] = odd


def containers(value: Any) -> Any:
    if isinstance(value, (dict, list)):
        yield value
        for inner in value.values() if isinstance(value, dict) else value:
            yield from containers(inner)
