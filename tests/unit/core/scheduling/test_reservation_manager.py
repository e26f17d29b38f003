"""Counts of slots: by id, held and taken, in whichever pool they are sold."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from tests.support.model_builders import instance_type, offering

from wainwright.core.scheduling.reservation_manager import (
    BitPlaneCounters,
    PoolReservations,
    ReservationManager,
    available_counts,
    number_reservations,
    reserved_offerings,
    without_in_flight,
)
from wainwright.model.instance_type import InstanceType
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.labels import RESERVED
from wainwright.model.snapshot import Node

IDS = st.integers(0, 5)


@given(
    st.dictionaries(IDS, st.integers(0, 9)),
    st.lists(st.tuples(st.booleans(), st.sets(IDS)), max_size=20),
)
def test_sets_are_counted_as_one_by_one(
    start: dict[int, int], steps: list[tuple[bool, set[int]]]
) -> None:
    counters, plain = BitPlaneCounters(start), Counter(start)
    for up, chosen in steps:
        ids = {number for number in chosen if up or plain[number] > 0}
        mask = sum(1 << number for number in ids)
        counters.add(mask) if up else counters.subtract(mask)
        plain.update(dict.fromkeys(ids, 1 if up else -1))
        assert counters.positive == sum(1 << n for n, count in plain.items() if count > 0)


def test_a_slot_that_is_held_can_be_had_again_when_it_is_let_go() -> None:
    stock = ReservationManager({"cr-1": 1}, {"cr-1": 0})
    stock.hold(1)
    assert (stock.live, stock.holdable) == (1, 0)
    stock.release(1)
    assert (stock.live, stock.holdable) == (1, 1)


def test_a_slot_that_is_taken_is_gone_and_the_others_held_are_given_back() -> None:
    stock = ReservationManager({"cr-1": 1, "cr-2": 2, "cr-3": 1}, {"cr-1": 0, "cr-2": 1, "cr-3": 2})
    stock.hold(0b101)
    stock.hold(0b010)
    stock.settle(0b101, "cr-1")
    stock.settle(0b010, "cr-2")
    assert stock.live == stock.holdable == 0b110
    assert [stock.free(f"cr-{number}") for number in (1, 2, 3)] == [0, 1, 1]


def test_the_version_tells_of_changes_that_matter() -> None:
    stock = ReservationManager({"cr-1": 2}, {"cr-1": 0})
    before = stock.version
    stock.hold(1)
    assert stock.version == before, "there is still a slot to hold"
    stock.hold(1)
    assert stock.version > before


def sold(name: str, *ids: str, count: int = 2) -> InstanceType:
    slots = [offering(capacity_type=RESERVED, reservation_id=each, available=count) for each in ids]
    return instance_type(name=name, offerings=(offering(), *slots))


def test_markets_and_reservations_are_told_apart_where_one_id_is_sold_twice() -> None:
    other_zone = offering(capacity_type=RESERVED, reservation_id="cr-1", available=2, zone="zone-b")
    index = InstanceTypeIndex([sold("a", "cr-1"), instance_type(name="b", offerings=(other_zone,))])
    numbers = number_reservations([index])
    shelf = PoolReservations(index, reserved_offerings(index), numbers)
    assert shelf.offering_groups.bit_count() == 2
    assert shelf.ids(shelf.offering_groups) == 1 << numbers["cr-1"]
    assert shelf.of(1 << numbers["cr-1"]) == shelf.offering_groups


def test_pools_that_share_a_catalogue_need_no_translation() -> None:
    index = InstanceTypeIndex([sold("a", "cr-1", "cr-2"), sold("b", "cr-3")])
    shelf = PoolReservations(index, reserved_offerings(index), number_reservations([index, index]))
    assert shelf.ids_are_markets
    assert shelf.ids(shelf.offering_groups) == shelf.offering_groups


def test_the_shelf_knows_who_sells_what() -> None:
    index = InstanceTypeIndex([sold("a", "cr-1", "cr-2"), sold("b", "cr-2"), sold("c")])
    shelf = PoolReservations(index, reserved_offerings(index), number_reservations([index]))
    names = {index.types[row].name: 1 << row for row in range(3)}
    first = shelf.selling(names["b"])
    assert first.bit_count() == 1
    assert shelf.available_in(first, index.all_types) == names["a"] | names["b"]
    only_a = shelf.offering_groups ^ first
    assert shelf.available_in(only_a, index.all_types) == names["a"]
    assert shelf.available_in(shelf.offering_groups, names["c"]) == 0


def test_where_catalogues_differ_the_fewest_slots_count() -> None:
    indexes = [
        InstanceTypeIndex([sold("a", "cr-1", count=3)]),
        InstanceTypeIndex([sold("a", "cr-1", count=1)]),
    ]
    assert available_counts(indexes) == {"cr-1": 1}


def test_a_claim_under_way_has_its_slot_promised() -> None:
    under_way = Node(name="claim", launched=False, reservation_id="cr-1")
    running = Node(name="node", reservation_id="cr-1")
    assert without_in_flight({"cr-1": 2}, [under_way, running]) == {"cr-1": 1}
