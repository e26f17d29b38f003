"""Valuations: what is scarce has a price, and every lot finds a machine on the short list."""

from hypothesis import given
from hypothesis import strategies as st
from tests.support.yards import lot, machine, yard

from wainwright.core.packing.valuation import SHORT, Valuation
from wainwright.core.packing.yard import Yard


def valued(where: Yard) -> Valuation:
    return Valuation(where, [each.pods for each in where.lots])


def test_what_is_scarce_is_dear() -> None:
    """All memory is used up while most of the cpus stay idle."""
    where = yard([lot(1, 8, pods=10), lot(2, 1)], [machine(1.0, 16, 16)])
    found = valued(where)
    heavy, light = found.floors
    assert heavy > 5 * light
    assert all(value > 0 for value in found.values)


def test_floors_add_up_to_what_it_costs_at_the_least() -> None:
    where = yard([lot(4, 4, pods=6)], [machine(1.0, 8, 8)])
    assert abs(valued(where).floors[0] * 6 - 3.0) < 1e-9


def test_the_two_resources_that_cost_most_are_the_main_ones() -> None:
    where = yard([lot(1, 9, 1, pods=4)], [machine(1.0, 100, 9, 100)])
    assert valued(where).main[0] == 1


@given(
    sizes=st.lists(st.integers(1, 400), min_size=1, max_size=20),
    costs=st.lists(st.integers(1, 900), min_size=1, max_size=100),
)
def test_every_lot_has_a_machine_on_the_short_list(sizes: list[int], costs: list[int]) -> None:
    machines = [machine(float(cost), n + 1, n + 1) for n, cost in enumerate(costs)]
    where = yard([lot(n, n) for n in sizes], [*machines, machine(1000.0, 400, 400)])
    short = valued(where).short
    assert all(any(where.takes(number, each) for number in short) for each in range(len(sizes)))
    assert len(short) <= SHORT + len(sizes)
    assert short == sorted(set(short))


def test_so_has_a_large_lot_among_many_sizes() -> None:
    """Where sizes are many all count as one, and what is best for most is too small for some."""
    rooms = (2, 4, 8, 16, 32, 64)
    machines = [machine(room**1.5, room, room) for room in rooms]
    where = yard([lot(size, size, pods=9) for size in (1, 3, 6, 12, 24, 50)], machines)
    short = valued(where).short
    assert all(any(where.takes(number, each) for number in short) for each in range(6))
