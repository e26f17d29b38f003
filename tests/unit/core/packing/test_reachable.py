"""What pods can add up to, beside trying every choice of them."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wainwright.core.packing import reachable
from wainwright.core.packing.reachable import Sums, sums

SIZES = st.dictionaries(st.integers(1, 40), st.integers(1, 5), min_size=1, max_size=4)


@given(sizes=SIZES, room=st.integers(0, 200))
def test_no_more_is_used_than_pods_add_up_to(sizes: dict[int, int], room: int) -> None:
    choices = product(*(range(count + 1) for count in sizes.values()))
    totals = [sum(size * n for size, n in zip(sizes, each, strict=True)) for each in choices]
    most = max(total for total in totals if total <= room)
    assert Sums(sizes, room).most_within(room) == most
    assert Sums(sizes, 2 * room).most_within(room) == most


def test_whole_cpus_leave_the_rest_of_the_last_one_idle() -> None:
    assert Sums({1000: 50, 2000: 50}, 64000).most_within(3920) == 3000


def test_nobody_asks_for_anything() -> None:
    """Then a machine is as large as it looks: it is worth nothing either way."""
    assert Sums({}, 100).most_within(70) == 70


def test_too_many_sums_to_look_at_leave_the_room_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reachable, "BITS", 10)
    assert Sums({3: 1, 7: 1}, 100).most_within(70) == 70
    assert Sums({30: 1, 70: 1}, 100).most_within(80) == 70


def test_every_resource_has_its_own_sums() -> None:
    cpu, memory = sums([(2, 5), (2, 0)], [1, 3], [100, 100])
    assert (cpu.most_within(7), memory.most_within(7)) == (6, 5)
