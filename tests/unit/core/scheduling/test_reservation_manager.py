"""Counts of capacity reservations: by id, held and used, shared by pools."""

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
def test_bit_plane_counters_equal_counting_one_by_one(
    start: dict[int, int], steps: list[tuple[bool, set[int]]]
) -> None:
    counters, expected = BitPlaneCounters(start), Counter(start)
    for up, chosen in steps:
        ids = {number for number in chosen if up or expected[number] > 0}
        mask = sum(1 << number for number in ids)
        counters.add(mask) if up else counters.subtract(mask)
        expected.update(dict.fromkeys(ids, 1 if up else -1))
        assert counters.positive == sum(1 << n for n, count in expected.items() if count > 0)


def test_a_released_instance_can_be_held_again() -> None:
    manager = ReservationManager({"cr-1": 1}, {"cr-1": 0})
    manager.hold(1)
    assert (manager.available, manager.unheld) == (1, 0)
    manager.release(1)
    assert (manager.available, manager.unheld) == (1, 1)


def test_a_launch_takes_one_instance_and_releases_the_others_it_held() -> None:
    manager = ReservationManager(
        {"cr-1": 1, "cr-2": 2, "cr-3": 1}, {"cr-1": 0, "cr-2": 1, "cr-3": 2}
    )
    manager.hold(0b101)
    manager.hold(0b010)
    manager.commit(0b101, "cr-1")
    manager.commit(0b010, "cr-2")
    assert manager.available == manager.unheld == 0b110
    assert [manager.available_count(f"cr-{number}") for number in (1, 2, 3)] == [0, 1, 1]


def test_the_version_changes_only_with_the_set_of_unheld_reservations() -> None:
    manager = ReservationManager({"cr-1": 2}, {"cr-1": 0})
    before = manager.version
    manager.hold(1)
    assert manager.version == before, "there is still an instance to hold"
    manager.hold(1)
    assert manager.version > before


def reserved_type(name: str, *ids: str, count: int = 2) -> InstanceType:
    reserved = [
        offering(capacity_type=RESERVED, reservation_id=each, available=count) for each in ids
    ]
    return instance_type(name=name, offerings=(offering(), *reserved))


def test_one_reservation_in_two_offering_groups_is_one_reservation() -> None:
    other_zone = offering(capacity_type=RESERVED, reservation_id="cr-1", available=2, zone="zone-b")
    index = InstanceTypeIndex(
        [reserved_type("a", "cr-1"), instance_type(name="b", offerings=(other_zone,))]
    )
    numbers = number_reservations([index])
    reservations = PoolReservations(index, reserved_offerings(index), numbers)
    assert reservations.offering_groups.bit_count() == 2
    assert reservations.reservations_in(reservations.offering_groups) == 1 << numbers["cr-1"]
    assert reservations.groups_of(1 << numbers["cr-1"]) == reservations.offering_groups


def test_with_one_catalogue_group_numbers_are_reservation_numbers() -> None:
    index = InstanceTypeIndex([reserved_type("a", "cr-1", "cr-2"), reserved_type("b", "cr-3")])
    reservations = PoolReservations(
        index, reserved_offerings(index), number_reservations([index, index])
    )
    assert reservations.ids_are_groups
    assert (
        reservations.reservations_in(reservations.offering_groups) == reservations.offering_groups
    )


def test_types_and_offering_groups_of_reservations_are_found_from_each_other() -> None:
    index = InstanceTypeIndex(
        [reserved_type("a", "cr-1", "cr-2"), reserved_type("b", "cr-2"), reserved_type("c")]
    )
    reservations = PoolReservations(index, reserved_offerings(index), number_reservations([index]))
    names = {index.types[number].name: 1 << number for number in range(3)}
    first = reservations.groups_offering(names["b"])
    assert first.bit_count() == 1
    assert reservations.available_in(first, index.all_types) == names["a"] | names["b"]
    only_a = reservations.offering_groups ^ first
    assert reservations.available_in(only_a, index.all_types) == names["a"]
    assert reservations.available_in(reservations.offering_groups, names["c"]) == 0


def test_the_smallest_available_count_of_all_catalogues_is_used() -> None:
    indexes = [
        InstanceTypeIndex([reserved_type("a", "cr-1", count=3)]),
        InstanceTypeIndex([reserved_type("a", "cr-1", count=1)]),
    ]
    assert available_counts(indexes) == {"cr-1": 1}


def test_an_in_flight_claim_reduces_the_available_count() -> None:
    in_flight = Node(name="claim", launched=False, reservation_id="cr-1")
    running = Node(name="node", reservation_id="cr-1")
    assert without_in_flight({"cr-1": 2}, [in_flight, running]) == {"cr-1": 1}
