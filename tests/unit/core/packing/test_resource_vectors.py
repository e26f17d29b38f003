"""Resource vectors: one subtraction says as much as a look at each resource."""

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


@given(room=AMOUNTS, asked=AMOUNTS)
def test_it_holds_what_fits_in_every_resource(room: list[int], asked: list[int]) -> None:
    encoder = encoder_for([room, asked])
    fits = all(mine <= its for mine, its in zip(asked, room, strict=True))
    assert encoder.fits(encoder.encoded(room), encoder.encoded(asked)) is fits


@given(room=AMOUNTS, asked=AMOUNTS, most=st.integers(0, 40))
def test_copies_are_as_many_as_fit(room: list[int], asked: list[int], most: int) -> None:
    encoder = encoder_for([room], [asked])
    times = 0
    while times < most and all(
        amount * (times + 1) <= has for amount, has in zip(asked, room, strict=True)
    ):
        times += 1
    assert count_copies(encoder.encoded(room), encoder.parts(asked), most) == times


@given(room=AMOUNTS, asked=AMOUNTS)
def test_what_is_left_is_the_difference(room: list[int], asked: list[int]) -> None:
    encoder = encoder_for([room], [asked])
    less = [min(mine, its) for mine, its in zip(asked, room, strict=True)]
    left = [has - mine for has, mine in zip(room, less, strict=True)]
    assert encoder.encoded(room) - encoder.encoded(less) == encoder.encoded(left)


SIZES = st.dictionaries(st.integers(1, 40), st.integers(1, 5), min_size=1, max_size=4)


@given(sizes=SIZES, room=st.integers(0, 200))
def test_no_more_is_used_than_pods_add_up_to(sizes: dict[int, int], room: int) -> None:
    choices = product(*(range(count + 1) for count in sizes.values()))
    totals = [sum(size * n for size, n in zip(sizes, each, strict=True)) for each in choices]
    most = max(total for total in totals if total <= room)
    assert SubsetSums(sizes, room).largest_sum_within(room) == most
    assert SubsetSums(sizes, 2 * room).largest_sum_within(room) == most


def test_whole_cpus_leave_the_rest_of_the_last_one_idle() -> None:
    assert SubsetSums({1000: 50, 2000: 50}, 64000).largest_sum_within(3920) == 3000


def test_nobody_asks_for_anything() -> None:
    """Then a machine is as large as it looks: it is worth nothing either way."""
    assert SubsetSums({}, 100).largest_sum_within(70) == 70


def test_too_many_sums_to_look_at_leave_the_room_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource_vectors, "MAX_SUMS", 10)
    assert SubsetSums({3: 1, 7: 1}, 100).largest_sum_within(70) == 70
    assert SubsetSums({30: 1, 70: 1}, 100).largest_sum_within(80) == 70


def test_every_resource_has_its_own_sums() -> None:
    cpu, memory = subset_sums([(2, 5), (2, 0)], [1, 3], [100, 100])
    assert (cpu.largest_sum_within(7), memory.largest_sum_within(7)) == (6, 5)
