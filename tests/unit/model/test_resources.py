"""Arithmetic on amounts of resources, and how they are printed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wainwright.api.quantity import Quantity, QuantityFormat, parse_quantity
from wainwright.model import resources

MIB = 2**20


@pytest.mark.parametrize(
    ("name", "text", "request_", "capacity"),
    [
        ("cpu", "1500m", 1500, 1500),
        ("cpu", "1", 1000, 1000),
        ("cpu", "1u", 1, 0),
        ("cpu", "100n", 1, 0),
        ("memory", "1Ki", 1024, 1024),
        ("memory", "1500m", 2, 1),
        ("pods", "58", 58, 58),
        ("memory", "-1500m", -1, -2),
    ],
)
def test_requests_are_rounded_up_and_capacity_down(
    name: str, text: str, request_: int, capacity: int
) -> None:
    nano = parse_quantity(text).nano
    assert resources.request_from_nano(name, nano) == request_
    assert resources.capacity_from_nano(name, nano) == capacity


def test_sums_differences_and_maxima_treat_missing_resources_as_zero() -> None:
    left, right = {"cpu": 5, "memory": 7}, {"cpu": 2, "gpu": 1}
    assert resources.add_resources(left, right) == {"cpu": 7, "gpu": 1, "memory": 7}
    assert resources.subtract_resources(left, right) == {"cpu": 3, "gpu": -1, "memory": 7}
    assert resources.max_resources(left, right) == {"cpu": 5, "gpu": 1, "memory": 7}
    assert left == {"cpu": 5, "memory": 7}


def test_results_are_in_the_order_of_names() -> None:
    left, right = {"b": 1, "d": 1}, {"a": 1, "c": 1}
    for operation in (
        resources.add_resources,
        resources.subtract_resources,
        resources.max_resources,
    ):
        assert list(operation(left, right)) == ["a", "b", "c", "d"]
    assert list(resources.sort_resources({"b": 1, "a": 1})) == ["a", "b"]


@pytest.mark.parametrize(
    ("requests", "available", "fits"),
    [
        ({"cpu": 2}, {"cpu": 2}, True),
        ({"cpu": 3}, {"cpu": 2}, False),
        ({"gpu": 1}, {"cpu": 2}, False),
        ({"gpu": 0}, {"cpu": 2}, True),
        ({}, {}, True),
        ({}, {"cpu": 2, "memory": -1}, False),
        ({"cpu": 1}, {"cpu": 2, "memory": -1}, False),
    ],
)
def test_requests_fit_where_there_is_room_and_no_amount_is_negative(
    requests: dict[str, int], available: dict[str, int], fits: bool
) -> None:
    assert resources.fits(requests, available) is fits


def test_missing_resources_are_only_those_that_lack() -> None:
    requests = {"gpu": 1, "cpu": 5, "memory": 3, "pods": 0}
    assert resources.missing_resources(requests, {"cpu": 2, "memory": 3}) == {"cpu": 3, "gpu": 1}


def test_equal_amounts_have_equal_keys() -> None:
    assert resources.resources_key({"b": 1, "a": 2, "c": 0}) == (("a", 2), ("b", 1))
    assert resources.resources_key({"a": 2, "b": 1}) == resources.resources_key({"b": 1, "a": 2})


@pytest.mark.parametrize(
    ("name", "amount", "text"),
    [
        ("cpu", 3920, "3920m"),
        ("cpu", 4000, "4"),
        ("cpu", 1_000_000, "1k"),
        ("cpu", 0, "0"),
        ("memory", 15155 * MIB, "15155Mi"),
        ("memory", 1024, "1Ki"),
        ("memory", 1000, "1k"),
        ("memory", 1500, "1500"),
        ("memory", -1092 * MIB, "-1092Mi"),
        ("memory", -1139435111, "-1139435111"),
        ("ephemeral-storage", 17 * 1024 * MIB, "17Gi"),
        ("hugepages-2Mi", 2 * MIB, "2Mi"),
        ("pods", 58, "58"),
        ("pods", 1000, "1k"),
        ("nvidia.com/gpu", 8, "8"),
    ],
)
def test_amounts_are_formatted_as_in_kubernetes(name: str, amount: int, text: str) -> None:
    assert resources.format_quantity(name, amount) == text


@given(
    st.sampled_from([("cpu", 10**6), ("memory", 10**9), ("pods", 10**9)]),
    st.integers(-(2**62), 2**62) | st.integers(-5000, 5000).map(lambda n: n * 1024 * 1000),
)
def test_the_wire_quantity_is_formatted_the_same(resource: tuple[str, int], amount: int) -> None:
    name, grain = resource
    form = QuantityFormat.BINARY if name == "memory" else QuantityFormat.DECIMAL
    assert resources.format_quantity(name, amount) == str(Quantity(amount * grain, form))
