"""Lots: what they demand together, and which machines their groups may use."""

from hypothesis import given
from hypothesis import strategies as st
from tests.support.yards import lot, machine

from wainwright.core.packing.gauge import gauge_for
from wainwright.core.packing.lots import Fitting, Groups, Lot
from wainwright.core.packing.machines import Machine

LOTS = st.lists(
    st.builds(
        Lot,
        st.tuples(st.integers(0, 60), st.integers(0, 60)),
        st.integers(1, 9),
        st.integers(0, 3),
    ),
    min_size=1,
    max_size=8,
)
ROOMS = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 60), st.integers(1, 15)), min_size=1, max_size=6
)


def bought(rooms: list[tuple[int, int, int]]) -> list[Machine]:
    return [machine(1.0, cpu, memory, takers=who) for cpu, memory, who in rooms]


def can_take(each: Machine, one: Lot) -> bool:
    fits = all(mine <= room for mine, room in zip(one.amounts, each.room, strict=True))
    return fits and bool(each.takers >> one.customer & 1)


@given(lots=LOTS, rooms=ROOMS, most=st.integers(1, 5))
def test_groups_lose_nobody_and_no_machine_that_he_may_use(
    lots: list[Lot], rooms: list[tuple[int, int, int]], most: int
) -> None:
    machines = bought(rooms)
    gauge = gauge_for([each.amounts for each in lots], [each.room for each in machines])
    groups = Groups(lots, machines, gauge, most)
    assert len(groups.demands) <= most
    for resource in range(2):
        total = sum(each.amounts[resource] * each.pods for each in lots)
        assert sum(own[resource] for own in groups.demands) == total
    for number, each in enumerate(machines):
        for one, group in zip(lots, groups.of_lot, strict=True):
            assert not can_take(each, one) or groups.takers[number] >> group & 1


@given(lots=LOTS, rooms=ROOMS)
def test_what_can_be_used_of_a_machine_is_never_more_than_it_has(
    lots: list[Lot], rooms: list[tuple[int, int, int]]
) -> None:
    machines = bought(rooms)
    gauge = gauge_for([each.amounts for each in lots], [each.room for each in machines])
    groups = Groups(lots, machines, gauge)
    useful = [(m, takers) for m, takers in zip(machines, groups.takers, strict=True) if takers]
    supplies = groups.supplies(machines)
    assert [supply.takers for supply in supplies] == [takers for _, takers in useful]
    for supply, (each, _) in zip(supplies, useful, strict=True):
        assert all(mine <= room for mine, room in zip(supply.room, each.room, strict=True))


def test_who_cannot_be_on_the_same_machines_is_told_apart() -> None:
    lots = [lot(8, 8), lot(2, 2), lot(8, 8, customer=1)]
    machines = [machine(1.0, 4, 4), machine(2.0, 9, 9, takers=0b11)]
    groups = Groups(lots, machines, gauge_for([(9, 9)]))
    assert len(set(groups.of_lot)) == 2
    assert groups.of_lot[0] == groups.of_lot[2]
    assert groups.takers == [1 << groups.of_lot[1], 0b11]


def test_what_is_left_is_what_is_demanded() -> None:
    groups = Groups(
        [lot(3, 1, pods=5), lot(1, 1, pods=2)], [machine(1.0, 9, 9)], gauge_for([(9, 9)])
    )
    assert groups.demanded([5, 2]) == [[17, 7]]
    assert groups.demanded([1, 0]) == [[3, 1]]


def test_to_the_last_byte() -> None:
    """Groups take sizes that are nearly the same for the same; a load is filled exactly."""
    machines, gauge = [machine(1.0, 1000)], gauge_for([(4000,)])
    fitting = Fitting(machines, gauge)
    assert fitting.machines_for(lot(1001)) == 0b1
    assert not fitting.is_possible(lot(1001))
    assert fitting.is_possible(lot(1000))
    assert not fitting.is_possible(lot(1000, customer=1))
