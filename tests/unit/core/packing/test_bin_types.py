"""Bin types: which item classes may use them, which are dominated, and which classes conflict."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st
from tests.support.model_builders import instance_type, offering
from tests.support.packing_builders import EMPTY_TEMPLATE, bin_type, template

from wainwright.core.packing.bin_types import (
    AllowedOfferings,
    BinType,
    conflict_free_sets,
    enumerate_bin_types,
    partition_by_membership,
    remove_dominated,
)
from wainwright.core.packing.resource_vectors import encoder_for
from wainwright.model.bitset import iter_bits
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.labels import INSTANCE_SIZE, INSTANCE_TYPE

EVERYWHERE = -1
BIN_TYPES = st.lists(
    st.builds(
        BinType,
        st.just(EMPTY_TEMPLATE),
        st.integers(0, 3),
        st.integers(1, 6).map(float),
        st.tuples(st.integers(0, 4), st.integers(0, 4)),
        st.integers(1, 7),
    ),
    max_size=12,
)


def allowed(types: int, offering_groups: int = EVERYWHERE) -> AllowedOfferings:
    return AllowedOfferings((types,), (offering_groups if offering_groups != EVERYWHERE else 0b11,))


def dominates(other: BinType, than: BinType) -> bool:
    """Whether the first dominates the second."""
    has_room = all(a >= b for a, b in zip(other.room, than.room, strict=True))
    return has_room and other.price <= than.price and not than.usable_by & ~other.usable_by


@given(bin_types=BIN_TYPES)
def test_every_bin_type_left_out_is_dominated_by_one_that_is_kept(bin_types: list[BinType]) -> None:
    encoder = encoder_for([(4, 4)])
    kept = remove_dominated(bin_types, encoder)
    assert [each.price for each in kept] == sorted(each.price for each in kept)
    for each in bin_types:
        assert any(dominates(other, each) for other in kept)
    for one, other in combinations(kept, 2):
        assert not dominates(one, other)
        assert not dominates(other, one)


@given(sets=st.lists(st.integers(0, 255), max_size=4))
def test_members_are_partitioned_by_the_sets_they_are_in(sets: list[int]) -> None:
    parts = partition_by_membership(sets)
    members = [bit for _, part in parts for bit in iter_bits(part)]
    assert len(members) == len(set(members))
    for containing, part in parts:
        for bit in iter_bits(part):
            assert containing == sum(1 << n for n, each in enumerate(sets) if each >> bit & 1)
    assert sorted(members) == [bit for bit in range(8) if any(each >> bit & 1 for each in sets)]


@given(
    usable_by=st.integers(1, 31),
    conflicting_pairs=st.sets(st.sampled_from(list(combinations(range(5), 2))), max_size=3),
)
def test_conflicting_item_classes_share_no_set_and_all_others_do(
    usable_by: int, conflicting_pairs: set[tuple[int, int]]
) -> None:
    conflicts = [0] * 5
    for one, other in conflicting_pairs:
        conflicts[one] |= 1 << other
        conflicts[other] |= 1 << one
    found = conflict_free_sets(usable_by, conflicts)
    for compatible in found:
        assert not compatible & ~usable_by
        assert not any(compatible >> a & 1 and compatible >> b & 1 for a, b in conflicting_pairs)
    for number in iter_bits(usable_by):
        compatible_classes = usable_by ^ (usable_by & conflicts[number])
        partners = [n for n in iter_bits(compatible_classes) if n != number]
        assert any(each >> number & 1 for each in found)
        for partner in partners:  # compatible classes are not separated
            assert any(each >> number & 1 and each >> partner & 1 for each in found)


def test_a_bin_type_has_the_lowest_price_that_its_item_classes_allow() -> None:
    kind = instance_type(offerings=(offering(zone="zone-a", price=2.0), offering(zone="zone-b")))
    bin_types = enumerate_bin_types([template(kind)], [allowed(1), allowed(1, 0b01)], ["cpu"])
    assert {(each.usable_by, each.price) for each in bin_types} == {(0b11, 2.0), (0b01, 1.0)}


def test_the_price_includes_fees_and_the_room_excludes_overhead() -> None:
    kind = instance_type(capacity={"cpu": 4000}, overhead={"cpu": 100}, fee=0.5)
    found = enumerate_bin_types([template(kind)], [allowed(1, 0b1)], ["cpu", "memory"])
    assert [(each.price, each.room) for each in found] == [(1.5, (3900, 0))]


def metal_and_other(cpu: int) -> list[str]:
    """The bin types where bare metal with 8 CPUs is offered besides a type with so many."""
    types = [
        instance_type(
            name=name,
            labels={INSTANCE_TYPE: name, INSTANCE_SIZE: name.partition(".")[2]},
            capacity={"cpu": cpus},
            offerings=(offering(price=cost),),
        )
        for name, cpus, cost in (("m5.metal", 8, 1.0), ("m5.xlarge", cpu, 9.0))
    ]
    index = InstanceTypeIndex(types)
    bin_types = enumerate_bin_types([template(*types)], [allowed(0b11, 0b1)], ["cpu"])
    return sorted(index.types[each.type_number].name for each in bin_types)


def test_bare_metal_is_a_bin_type_only_where_no_other_type_is_as_large() -> None:
    """Otherwise it would never be launched, however cheap it is."""
    assert metal_and_other(8) == ["m5.xlarge"]
    assert metal_and_other(7) == ["m5.metal", "m5.xlarge"]


def test_a_type_becomes_one_bin_type_for_each_conflict_free_set() -> None:
    kind = instance_type()
    bin_types = enumerate_bin_types(
        [template(kind)], [allowed(1, 0b1)] * 3, ["cpu"], {0: [0b010, 0b001, 0b000]}
    )
    assert sorted(each.usable_by for each in bin_types) == [0b101, 0b110]


def test_the_cheapest_comes_first_and_of_equal_prices_the_largest_is_kept() -> None:
    bin_types = [bin_type(2.0, 9), bin_type(1.0, 3), bin_type(1.0, 5), bin_type(3.0, 9)]
    kept = remove_dominated(bin_types, encoder_for([(9,)]))
    assert [(each.price, each.room) for each in kept] == [(1.0, (5,)), (2.0, (9,))]
