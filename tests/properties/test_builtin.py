"""Core kinds: whatever is given, it is judged without a crash, and always in the same way."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.support.builtin_values import JUNK, changed, objects

from wainwright.api.builtin import KINDS, Reader, check, decode
from wainwright.api.builtin.fields import root
from wainwright.api.fault import Fault
from wainwright.api.wire import plain


def errors(value: dict[str, Any]) -> list[Fault]:
    return [fault for fault in check(value) if not fault.warning]


@given(objects())
def test_a_value_made_of_the_tables_types_has_the_right_shape(value: dict[str, Any]) -> None:
    found: list[Fault] = []
    root(value["apiVersion"], value["kind"]).look(value, (), found)
    assert found == []


@given(st.one_of(objects(junk=True), changed()))
def test_whatever_is_in_it_an_object_is_read(value: dict[str, Any]) -> None:
    made, _ = Reader().read(value)
    assert isinstance(made, KINDS[value["apiVersion"], value["kind"]])


@given(st.sampled_from(sorted(KINDS)), JUNK, JUNK, JUNK)
def test_junk_in_every_part_is_read_as_nothing(
    key: tuple[str, str], metadata: Any, spec: Any, status: Any
) -> None:
    value = {"metadata": metadata, "spec": spec, "status": status}
    value |= {"apiVersion": key[0], "kind": key[1]}
    made, _ = Reader().read(value)
    assert isinstance(made, KINDS[key])


@given(objects(junk=True))
def test_what_is_repaired_has_the_right_shape(value: dict[str, Any]) -> None:
    fields = root(value["apiVersion"], value["kind"])
    found: list[Fault] = []
    fields.look(fields.repaired(value), (), found)
    assert found == []


@given(objects())
def test_an_object_that_is_printed_and_read_again_is_the_same(value: dict[str, Any]) -> None:
    made, _ = Reader().read(value)
    assert Reader().read(plain(made))[0] == made
    assert decode(plain(made)) == made


@given(st.lists(st.one_of(objects(junk=True), changed()), max_size=5))
def test_remembering_parts_changes_nothing(several: list[dict[str, Any]]) -> None:
    shared = Reader()
    told = [shared.read(value) for value in [*several, *several]]
    assert repr(told) == repr([Reader().read(value) for value in [*several, *several]])


@given(objects(), st.data())
def test_a_null_is_the_same_as_leaving_the_field_out(
    value: dict[str, Any], data: st.DataObject
) -> None:
    fields = root(value["apiVersion"], value["kind"])
    before = Reader().read(value)
    _strew_nulls(value, fields, data)
    assert Reader().read(value) == before


def _strew_nulls(value: dict[str, Any], fields: Any, data: st.DataObject) -> None:
    absent = sorted(set(fields.fields) - set(value))
    if absent:
        value[data.draw(st.sampled_from(absent))] = None
    for name, item in list(value.items()):
        if isinstance(item, dict) and hasattr(fields.fields[name], "fields"):
            _strew_nulls(item, fields.fields[name], data)


@given(changed())
def test_the_order_of_fields_does_not_matter_to_the_verdict(value: dict[str, Any]) -> None:
    told = {(fault.path, fault.message) for fault in check(value)}
    assert {(fault.path, fault.message) for fault in check(_reversed(value))} == told


def _reversed(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _reversed(item) for key, item in reversed(list(value.items()))}
    return [_reversed(item) for item in value] if isinstance(value, list) else value


@given(changed())
def test_an_unknown_field_never_makes_an_object_worse(value: dict[str, Any]) -> None:
    before = errors(value)
    value["newInKubernetes"] = {"a": 1}
    if isinstance(value.get("spec"), dict):
        value["spec"]["newInKubernetes"] = [1]
    assert errors(value) == before
