"""Schema, wire type and text cannot drift apart: laws 6 and 7 of docs/invariants.md."""

from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.generated import values

from wainwright.api.crd import root_schema
from wainwright.api.kinds import Family, Kind, known
from wainwright.api.schema import SAYS, Schema
from wainwright.api.structural import defaulted, faults
from wainwright.api.wire import plain
from wainwright.manifests import jsontext, yamltext
from wainwright.manifests.yamlout import dump

OURS = [kind for kind in known().values() if kind.family in (Family.CUSTOM, Family.OFFLINE)]
each_kind = pytest.mark.parametrize("kind", OURS, ids=lambda kind: kind.name)
relaxed = settings(
    max_examples=10, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)


def _body(kind: Kind) -> Schema:
    schema = root_schema(kind.type)
    skipped = ("apiVersion", "kind", "metadata")
    inner = {key: item for key, item in schema["properties"].items() if key not in skipped}
    return {**schema, "properties": inner}


def _object(kind: Kind, body: dict[str, Any]) -> dict[str, Any]:
    head = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": {"name": "a"}}
    return {**head, **body}


@each_kind
@relaxed
@given(data=st.data())
def test_what_the_schema_allows_decodes_and_prints_back_without_loss(
    kind: Kind, data: st.DataObject
) -> None:
    schema = root_schema(kind.type)
    value = defaulted(_object(kind, data.draw(values(_body(kind)))), schema)
    item = msgspec.convert(value, kind.type)
    printed = defaulted(plain(item), schema)
    assert msgspec.convert(printed, kind.type) == item
    assert printed["spec" if "spec" in value else "region"] == value.get(
        "spec", value.get("region")
    )


@each_kind
@relaxed
@given(data=st.data())
def test_an_object_survives_yaml_and_json_text(kind: Kind, data: st.DataObject) -> None:
    value = _object(kind, data.draw(values(_body(kind))))
    item = msgspec.convert(defaulted(value, root_schema(kind.type)), kind.type)
    as_json = msgspec.json.encode(plain(item)).decode()
    [read] = jsontext.documents(as_json)
    assert msgspec.convert(read.value, kind.type) == item
    [(text, _)] = yamltext.documents(dump(plain(item)))
    assert msgspec.convert(text.value, kind.type) == item


@each_kind
@relaxed
@given(data=st.data())
def test_defaulting_is_done_once_and_for_all(kind: Kind, data: st.DataObject) -> None:
    schema = root_schema(kind.type)
    once = defaulted(_object(kind, data.draw(values(_body(kind)))), schema)
    assert defaulted(once, schema) == once


@each_kind
def test_every_default_of_the_schema_is_the_default_of_the_struct(kind: Kind) -> None:
    for struct, schema in _structs(kind.type, root_schema(kind.type)):
        for field in msgspec.structs.fields(struct):
            inner = schema["properties"].get(field.encode_name, {})
            if "default" in inner and not field.required:
                made = msgspec.convert({**_least(schema)}, struct)
                assert _plain(getattr(made, field.name)) == defaulted(inner["default"], inner)


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
def test_every_pattern_says_in_words_what_it_wants(kind: Kind) -> None:
    def walk(schema: Any, path: str) -> None:
        if isinstance(schema, dict):
            assert "pattern" not in schema or SAYS in schema, path
            for key, item in schema.items():
                walk(item, f"{path}.{key}")
        elif isinstance(schema, list):
            for item in schema:
                walk(item, path)

    walk(root_schema(kind.type), kind.name)


@each_kind
@relaxed
@given(data=st.data())
def test_a_schema_finds_no_fault_with_what_it_made(kind: Kind, data: st.DataObject) -> None:
    """Only rules in CEL may object, and they speak in their own words."""
    schema = root_schema(kind.type)
    value = defaulted(_object(kind, data.draw(values(_body(kind)))), schema)
    for fault in faults({k: v for k, v in value.items() if k != "metadata"}, schema):
        assert not fault.message.startswith(("expected", "required")), fault
