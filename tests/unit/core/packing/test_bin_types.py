"""Machines: who may use what, which of it is worth a look, and who cannot be together."""

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


def allowed(rows: int, offering_groups: int = EVERYWHERE) -> AllowedOfferings:
    return AllowedOfferings((rows,), (offering_groups if offering_groups != EVERYWHERE else 0b11,))


def is_as_good(other: BinType, than: BinType) -> bool:
    """Whether nobody would miss it."""
    roomy = all(a >= b for a, b in zip(other.room, than.room, strict=True))
    return roomy and other.price <= than.price and not than.usable_by & ~other.usable_by


@given(bin_types=BIN_TYPES)
def test_of_what_is_left_out_there_is_something_as_good(bin_types: list[BinType]) -> None:
    encoder = encoder_for([(4, 4)])
    kept = remove_dominated(bin_types, encoder)
    assert [each.price for each in kept] == sorted(each.price for each in kept)
    for each in bin_types:
        assert any(is_as_good(other, each) for other in kept)
    for one, other in combinations(kept, 2):
        assert not is_as_good(one, other)
        assert not is_as_good(other, one)


@given(sets=st.lists(st.integers(0, 255), max_size=4))
def test_parts_are_told_by_which_sets_have_them(sets: list[int]) -> None:
    parts = partition_by_membership(sets)
    members = [bit for _, rows in parts for bit in iter_bits(rows)]
    assert len(members) == len(set(members))
    for who, rows in parts:
        for bit in iter_bits(rows):
            assert who == sum(1 << n for n, each in enumerate(sets) if each >> bit & 1)
    assert sorted(members) == [bit for bit in range(8) if any(each >> bit & 1 for each in sets)]


@given(
    usable_by=st.integers(1, 31),
    conflicting_pairs=st.sets(st.sampled_from(list(combinations(range(5), 2))), max_size=3),
)
def test_nobody_is_with_whom_he_cannot_be(
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
        with_him = usable_by ^ (usable_by & conflicts[number])
        friends = [n for n in iter_bits(with_him) if n != number]
        assert any(each >> number & 1 for each in found)
        for friend in friends:  # and no two are kept apart that get along
            assert any(each >> number & 1 and each >> friend & 1 for each in found)


def test_each_is_bought_where_it_is_cheapest_for_those_who_may() -> None:
    kind = instance_type(offerings=(offering(zone="zone-a", price=2.0), offering(zone="zone-b")))
    sold = enumerate_bin_types([template(kind)], [allowed(1), allowed(1, 0b01)], ["cpu"])
    assert {(each.usable_by, each.price) for each in sold} == {(0b11, 2.0), (0b01, 1.0)}


def test_fees_are_part_of_the_price_and_daemonsets_take_their_share() -> None:
    kind = instance_type(capacity={"cpu": 4000}, overhead={"cpu": 100}, fee=0.5)
    found = enumerate_bin_types([template(kind)], [allowed(1, 0b1)], ["cpu", "memory"])
    assert [(each.price, each.room) for each in found] == [(1.5, (3900, 0))]


def metal_and_other(cpu: int) -> list[str]:
    """What is for sale where a whole machine of 8 cpus is offered beside one of so many."""
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
    sold = enumerate_bin_types([template(*types)], [allowed(0b11, 0b1)], ["cpu"])
    return sorted(index.types[each.row].name for each in sold)


def test_a_whole_machine_is_for_sale_where_nothing_else_is_as_large() -> None:
    """Else it would never be launched, however cheap it is."""
    assert metal_and_other(8) == ["m5.xlarge"]
    assert metal_and_other(7) == ["m5.metal", "m5.xlarge"]


def test_one_machine_is_offered_to_every_set_that_gets_along() -> None:
    kind = instance_type()
    sold = enumerate_bin_types(
        [template(kind)], [allowed(1, 0b1)] * 3, ["cpu"], {0: [0b010, 0b001, 0b000]}
    )
    assert sorted(each.usable_by for each in sold) == [0b101, 0b110]


def test_the_cheapest_comes_first_and_of_equals_the_roomiest() -> None:
    bin_types = [bin_type(2.0, 9), bin_type(1.0, 3), bin_type(1.0, 5), bin_type(3.0, 9)]
    kept = remove_dominated(bin_types, encoder_for([(9,)]))
    assert [(each.price, each.room) for each in kept] == [(1.0, (5,)), (2.0, (9,))]
