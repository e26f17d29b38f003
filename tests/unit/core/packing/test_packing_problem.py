"""Demand groups: what item types demand together, and which bin types a group may use."""

from hypothesis import given
from hypothesis import strategies as st
from tests.support.packing_builders import bin_type, item_type

from wainwright.core.packing.bin_types import BinType
from wainwright.core.packing.packing_problem import DemandGroups, FittingBinTypes, ItemType
from wainwright.core.packing.resource_vectors import encoder_for

ITEM_TYPES = st.lists(
    st.builds(
        ItemType,
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


def bin_types_with(rooms: list[tuple[int, int, int]]) -> list[BinType]:
    return [bin_type(1.0, cpu, memory, usable_by=classes) for cpu, memory, classes in rooms]


def holds(each: BinType, one: ItemType) -> bool:
    fits = all(mine <= room for mine, room in zip(one.amounts, each.room, strict=True))
    return fits and bool(each.usable_by >> one.item_class & 1)


@given(items=ITEM_TYPES, rooms=ROOMS, max_groups=st.integers(1, 5))
def test_demand_groups_keep_all_demand_and_every_bin_type_that_an_item_fits(
    items: list[ItemType], rooms: list[tuple[int, int, int]], max_groups: int
) -> None:
    bin_types = bin_types_with(rooms)
    encoder = encoder_for([each.amounts for each in items], [each.room for each in bin_types])
    groups = DemandGroups(items, bin_types, encoder, max_groups)
    assert len(groups.demands) <= max_groups
    for resource in range(2):
        total = sum(each.amounts[resource] * each.pods for each in items)
        assert sum(own[resource] for own in groups.demands) == total
    for number, each in enumerate(bin_types):
        for one, group in zip(items, groups.group_of_item, strict=True):
            assert not holds(each, one) or groups.usable_by[number] >> group & 1


@given(items=ITEM_TYPES, rooms=ROOMS)
def test_the_usable_room_of_a_bin_type_is_at_most_its_room(
    items: list[ItemType], rooms: list[tuple[int, int, int]]
) -> None:
    bin_types = bin_types_with(rooms)
    encoder = encoder_for([each.amounts for each in items], [each.room for each in bin_types])
    groups = DemandGroups(items, bin_types, encoder)
    usable = [
        (m, usable_by)
        for m, usable_by in zip(bin_types, groups.usable_by, strict=True)
        if usable_by
    ]
    supplies = groups.supplies(bin_types)
    assert [supply.usable_by for supply in supplies] == [usable_by for _, usable_by in usable]
    for supply, (each, _) in zip(supplies, usable, strict=True):
        assert all(mine <= room for mine, room in zip(supply.room, each.room, strict=True))


def test_items_that_fit_different_bin_types_are_in_different_groups() -> None:
    items = [item_type(8, 8), item_type(2, 2), item_type(8, 8, item_class=1)]
    bin_types = [bin_type(1.0, 4, 4), bin_type(2.0, 9, 9, usable_by=0b11)]
    groups = DemandGroups(items, bin_types, encoder_for([(9, 9)]))
    assert len(set(groups.group_of_item)) == 2
    assert groups.group_of_item[0] == groups.group_of_item[2]
    assert groups.usable_by == [1 << groups.group_of_item[1], 0b11]


def test_demands_count_only_the_items_that_remain() -> None:
    groups = DemandGroups(
        [item_type(3, 1, pods=5), item_type(1, 1, pods=2)],
        [bin_type(1.0, 9, 9)],
        encoder_for([(9, 9)]),
    )
    assert groups.demands_for([5, 2]) == [[17, 7]]
    assert groups.demands_for([1, 0]) == [[3, 1]]


def test_groups_round_sizes_and_fits_any_does_not() -> None:
    """Sizes that are nearly equal share a group; a bin is filled exactly."""
    bin_types, encoder = [bin_type(1.0, 1000)], encoder_for([(4000,)])
    fitting = FittingBinTypes(bin_types, encoder)
    assert fitting.bin_types_for(item_type(1001)) == 0b1
    assert not fitting.fits_any(item_type(1001))
    assert fitting.fits_any(item_type(1000))
    assert not fitting.fits_any(item_type(1000, item_class=1))
