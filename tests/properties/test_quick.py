"""The quick look at large objects is never laxer than the list of their faults."""

from math import inf, nan
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.generated import values

from wainwright.api.cloud import Catalog, Cloud
from wainwright.api.crd import root_schema
from wainwright.api.quick import is_fine
from wainwright.api.structural import defaulted, faults, unknown_fields
from wainwright.api.wire import Wire

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
each_kind = pytest.mark.parametrize("kind", [Catalog, Cloud], ids=lambda kind: kind.__name__)
relaxed = settings(
    max_examples=30, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)


def objects(kind: type[Wire]) -> st.SearchStrategy[dict[str, Any]]:
    head = {"metadata": {"name": "a"}}
    return values(root_schema(kind)).map(lambda value: {**value, **head})


def listed(kind: type[Wire], value: dict[str, Any]) -> list[Any]:
    schema = root_schema(kind)
    return [*unknown_fields(value, schema), *faults(defaulted(value, schema), schema)]


@each_kind
@relaxed
@given(data=st.data())
def test_what_the_schema_allows_passes(kind: type[Wire], data: st.DataObject) -> None:
    value = data.draw(objects(kind))
    assert is_fine(kind, value)
    assert listed(kind, value) == []


@each_kind
@relaxed
@given(data=st.data())
def test_what_has_faults_does_not_pass(kind: type[Wire], data: st.DataObject) -> None:
    value = data.draw(objects(kind))
    spoil(value, data)
    if listed(kind, value):
        assert not is_fine(kind, value)


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
