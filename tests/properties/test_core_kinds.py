"""Core kinds: any value is validated without an exception, and always with the same result."""

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.core_kinds import JUNK, changed_objects, core_kind_objects

from wainwright.api.field_error import FieldError
from wainwright.api.kubernetes.field_types import kind_type
from wainwright.api.kubernetes.object_reader import (
    KUBERNETES_KINDS,
    ObjectReader,
    decode_object,
    validate_kubernetes_object,
)
from wainwright.api.wire import to_manifest


def errors(value: dict[str, Any]) -> list[FieldError]:
    return [
        field_error for field_error in validate_kubernetes_object(value) if not field_error.warning
    ]


@given(core_kind_objects())
def test_a_value_made_of_the_tables_types_has_the_right_shape(value: dict[str, Any]) -> None:
    found: list[FieldError] = []
    kind_type(value["apiVersion"], value["kind"]).check_type(value, (), found)
    assert found == []


@given(st.one_of(core_kind_objects(junk=True), changed_objects()))
def test_whatever_is_in_it_an_object_is_read(value: dict[str, Any]) -> None:
    made, _ = ObjectReader().read(value)
    assert isinstance(made, KUBERNETES_KINDS[value["apiVersion"], value["kind"]])


@given(st.sampled_from(sorted(KUBERNETES_KINDS)), JUNK, JUNK, JUNK)
def test_junk_in_every_part_is_read_as_nothing(
    key: tuple[str, str], metadata: Any, spec: Any, status: Any
) -> None:
    value = {"metadata": metadata, "spec": spec, "status": status}
    value |= {"apiVersion": key[0], "kind": key[1]}
    made, _ = ObjectReader().read(value)
    assert isinstance(made, KUBERNETES_KINDS[key])


@given(core_kind_objects(junk=True))
def test_what_is_repaired_has_the_right_shape(value: dict[str, Any]) -> None:
    fields = kind_type(value["apiVersion"], value["kind"])
    found: list[FieldError] = []
    fields.check_type(fields.repair(value), (), found)
    assert found == []


@given(core_kind_objects())
def test_an_object_that_is_printed_and_read_again_is_the_same(value: dict[str, Any]) -> None:
    made, _ = ObjectReader().read(value)
    assert ObjectReader().read(to_manifest(made))[0] == made
    assert decode_object(to_manifest(made)) == made


@given(st.lists(st.one_of(core_kind_objects(junk=True), changed_objects()), max_size=5))
@example(
    [
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "status": {"disruptedPods": {"app": None}},
        }
    ]
)
def test_caching_parts_changes_nothing(several: list[dict[str, Any]]) -> None:
    shared = ObjectReader()
    results = [shared.read(value) for value in [*several, *several]]
    assert repr(results) == repr([ObjectReader().read(value) for value in [*several, *several]])


@given(core_kind_objects(), st.data())
def test_a_null_is_the_same_as_leaving_the_field_out(
    value: dict[str, Any], data: st.DataObject
) -> None:
    fields = kind_type(value["apiVersion"], value["kind"])
    before = ObjectReader().read(value)
    _strew_nulls(value, fields, data)
    assert ObjectReader().read(value) == before


def _strew_nulls(value: dict[str, Any], fields: Any, data: st.DataObject) -> None:
    absent = sorted(set(fields.fields) - set(value))
    if absent:
        value[data.draw(st.sampled_from(absent))] = None
    for name, item in list(value.items()):
        if isinstance(item, dict) and hasattr(fields.fields[name], "fields"):
            _strew_nulls(item, fields.fields[name], data)


@given(changed_objects())
def test_the_order_of_fields_does_not_matter_to_the_verdict(value: dict[str, Any]) -> None:
    results = {
        (field_error.path, field_error.message) for field_error in validate_kubernetes_object(value)
    }
    assert {
        (field_error.path, field_error.message)
        for field_error in validate_kubernetes_object(_reversed(value))
    } == results


def _reversed(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _reversed(item) for key, item in reversed(list(value.items()))}
    return [_reversed(item) for item in value] if isinstance(value, list) else value


@given(changed_objects())
def test_an_unknown_field_never_makes_an_object_worse(value: dict[str, Any]) -> None:
    before = errors(value)
    value["newInKubernetes"] = {"a": 1}
    if isinstance(value.get("spec"), dict):
        value["spec"]["newInKubernetes"] = [1]
    assert errors(value) == before
