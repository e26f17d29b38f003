"""Resource vectors: one subtraction of encoded amounts compares every resource."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wainwright.core.packing import resource_vectors
from wainwright.core.packing.resource_vectors import (
    SubsetSums,
    count_copies,
    encoder_for,
    subset_sums,
)

AMOUNTS = st.lists(st.integers(0, 5000), min_size=3, max_size=3)


@given(room=AMOUNTS, requests=AMOUNTS)
def test_an_encoded_vector_fits_where_every_resource_does(
    room: list[int], requests: list[int]
) -> None:
    encoder = encoder_for([room, requests])
    fits = all(amount <= has for amount, has in zip(requests, room, strict=True))
    assert encoder.fits(encoder.encode(room), encoder.encode(requests)) is fits


@given(room=AMOUNTS, requests=AMOUNTS, most=st.integers(0, 40))
def test_as_many_copies_are_counted_as_fit(room: list[int], requests: list[int], most: int) -> None:
    encoder = encoder_for([room], [requests])
    times = 0
    while times < most and all(
        amount * (times + 1) <= has for amount, has in zip(requests, room, strict=True)
    ):
        times += 1
    assert count_copies(encoder.encode(room), encoder.fields_of(requests), most) == times


@given(room=AMOUNTS, requests=AMOUNTS)
def test_encoded_vectors_are_subtracted_by_resource(room: list[int], requests: list[int]) -> None:
    encoder = encoder_for([room], [requests])
    less = [min(amount, has) for amount, has in zip(requests, room, strict=True)]
    rest = [has - amount for has, amount in zip(room, less, strict=True)]
    assert encoder.encode(room) - encoder.encode(less) == encoder.encode(rest)


SIZES = st.dictionaries(st.integers(1, 40), st.integers(1, 5), min_size=1, max_size=4)


@given(sizes=SIZES, room=st.integers(0, 200))
def test_the_largest_sum_is_the_most_that_some_pods_add_up_to(
    sizes: dict[int, int], room: int
) -> None:
    choices = product(*(range(count + 1) for count in sizes.values()))
    totals = [sum(size * n for size, n in zip(sizes, each, strict=True)) for each in choices]
    most = max(total for total in totals if total <= room)
    assert SubsetSums(sizes, room).largest_sum_within(room) == most
    assert SubsetSums(sizes, 2 * room).largest_sum_within(room) == most


def test_requests_of_whole_cpus_leave_a_fraction_of_a_cpu_unused() -> None:
    assert SubsetSums({1000: 50, 2000: 50}, 64000).largest_sum_within(3920) == 3000


def test_without_requests_the_room_counts_in_full() -> None:
    """The resource has no value then."""
    assert SubsetSums({}, 100).largest_sum_within(70) == 70


def test_with_too_many_sums_the_room_counts_in_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource_vectors, "MAX_SUMS", 10)
    assert SubsetSums({3: 1, 7: 1}, 100).largest_sum_within(70) == 70
    assert SubsetSums({30: 1, 70: 1}, 100).largest_sum_within(80) == 70


def test_subset_sums_are_made_for_each_resource() -> None:
    cpu, memory = subset_sums([(2, 5), (2, 0)], [1, 3], [100, 100])
    assert (cpu.largest_sum_within(7), memory.largest_sum_within(7)) == (6, 5)
