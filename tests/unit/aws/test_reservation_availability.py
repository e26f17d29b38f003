"""What reservations have available: between polls, with launches under way or unclear; demotion."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.aws_account import run_in_virtual_time
from tests.support.aws_provider import reservation_object, running_instance
from tests.support.emulator_accounts import ManualClock

from wainwright.api.catalog_documents import CloudReservation
from wainwright.aws.instances import LabelChange, ReservedNode, find_demotions, find_expiring_nodes
from wainwright.aws.reservation_availability import ReservationAvailability, ReservationHolds
from wainwright.catalogue.offerings.capacity_reservations import (
    ReservationStanding,
    SelectedReservation,
)
from wainwright.clock import VirtualClock
from wainwright.model.labels import (
    CAPACITY_TYPE,
    RESERVATION_ID,
    RESERVATION_INTERRUPTIBLE,
    RESERVATION_TYPE,
)

RESERVED_LABELS = {
    CAPACITY_TYPE: "reserved",
    RESERVATION_ID: "cr-1",
    RESERVATION_TYPE: "default",
    RESERVATION_INTERRUPTIBLE: "false",
    "team": "web",
}


def reservation(
    free: int, total: int = 5, identity: str = "cr-1", **fields: Any
) -> CloudReservation:
    return CloudReservation(
        id=identity,
        instanceType="m5.large",
        availabilityZone="us-east-1a",
        total=total,
        available=free,
        **fields,
    )


def counted(*steps: tuple[float, str, int]) -> list[int]:
    """What is free after each step: seconds to wait, what happens, and for `learn` the count."""

    async def main(clock: VirtualClock) -> list[int]:
        availability = ReservationAvailability(clock)
        seen = []
        for wait, what, free in steps:
            await clock.sleep(wait)
            if what == "learn":
                availability.record_counts([reservation(free)], clock.now())
            elif what:
                getattr(availability, what)("cr-1")
            seen.append(availability.free("cr-1"))
        return seen

    return run_in_virtual_time(main)


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([(0, "", 0)], [0]),
        ([(0, "learn", 3), (1, "launched", 0), (1, "launched", 0)], [3, 2, 1]),
        ([(0, "learn", 1), (1, "launched", 0), (1, "launched", 0)], [1, 0, 0]),
        ([(0, "learn", 3), (1, "terminated", 0)], [3, 4]),
        ([(0, "learn", 5), (1, "terminated", 0)], [5, 5]),
        ([(0, "learn", 3), (1, "launched", 0), (1, "terminated", 0)], [3, 2, 3]),
        ([(0, "learn", 3), (1, "exceeded", 0), (1, "terminated", 0)], [3, 0, 1]),
        ([(0, "learn", 3), (1, "exceeded", 0), (1, "learn", 2)], [3, 0, 2]),
        (
            [(0, "learn", 3), (1, "launched", 0), (1, "exceeded", 0), (1, "terminated", 0)],
            [3, 2, 0, 1],
        ),
        ([(0, "learn", 3), (1, "launched", 0), (1, "learn", 2), (1, "", 0)], [3, 2, 2, 2]),
        ([(0, "exceeded", 0), (1, "learn", 2)], [0, 2]),
        ([(0, "launched", 0), (1, "learn", 2)], [0, 2]),
        ([(0, "learn", 3), (86399, "", 0), (2, "", 0)], [3, 3, 0]),
    ],
)
def test_what_is_free_between_polls(
    steps: list[tuple[float, str, int]], expected: list[int]
) -> None:
    assert counted(*steps) == expected


def test_a_launch_while_the_answer_is_under_way_is_counted_on_top() -> None:
    async def main(clock: VirtualClock) -> list[int]:
        availability = ReservationAvailability(clock)
        availability.record_counts([reservation(3)], clock.now())
        await clock.sleep(60)
        asked = clock.now()
        await clock.sleep(1)
        availability.launched("cr-1")
        availability.terminated("cr-1")
        availability.record_counts([reservation(3)], asked)
        return [availability.free("cr-1")]

    assert run_in_virtual_time(main) == [2]


def test_that_none_is_left_is_not_undone_by_an_older_answer() -> None:
    async def main(clock: VirtualClock) -> list[int]:
        availability = ReservationAvailability(clock)
        availability.record_counts([reservation(3)], clock.now())
        await clock.sleep(60)
        asked = clock.now()
        await clock.sleep(1)
        availability.exceeded("cr-1")
        availability.record_counts([reservation(3)], asked)
        seen = [availability.free("cr-1")]
        await clock.sleep(60)
        availability.record_counts([reservation(2)], clock.now())
        availability.record_counts([reservation(5)], asked)
        return [*seen, availability.free("cr-1")]

    assert run_in_virtual_time(main) == [0, 2]


def test_the_catalogue_gets_the_count_of_the_moment() -> None:
    async def main(clock: VirtualClock) -> CloudReservation:
        availability = ReservationAvailability(clock)
        availability.record_counts([reservation(3)], clock.now())
        availability.launched("cr-1")
        return availability.current(reservation(3))

    assert run_in_virtual_time(main) == reservation(2)


@given(
    st.lists(
        st.tuples(
            st.floats(min_value=0, max_value=100),
            st.sampled_from(["learn", "launched", "terminated", "exceeded"]),
            st.integers(0, 5),
        ),
        max_size=30,
    )
)
def test_the_count_stays_within_what_there_is(steps: list[tuple[float, str, int]]) -> None:
    assert all(0 <= free <= 5 for free in counted(*steps))


@given(st.lists(st.sampled_from([-1, 1]), max_size=30), st.integers(0, 5))
def test_with_polls_in_time_the_count_is_that_of_ec2(changes: list[int], free: int) -> None:
    """A model of EC2 beside it, polled after every few changes."""

    async def main(clock: VirtualClock) -> None:
        availability, real = ReservationAvailability(clock), free
        for number, change in enumerate(changes):
            await clock.sleep(1)
            if number % 4 == 0:
                availability.record_counts([reservation(real)], clock.now())
            await clock.sleep(1)
            if 0 <= real + change <= 5:
                real += change
                (availability.launched if change < 0 else availability.terminated)("cr-1")
            assert availability.free("cr-1") == real

    run_in_virtual_time(main)


def marked(labels: Mapping[str, str], **fields: str) -> ReservedNode:
    named = {"kind": "NodeClaim", "name": "general-1", "instance_id": "i-1", **fields}
    return ReservedNode(labels=labels, **named)


def test_an_instance_that_has_left_its_reservation_is_on_demand() -> None:
    both = [marked(RESERVED_LABELS), marked(RESERVED_LABELS, kind="Node", name="ip-10-0-0-1")]
    gone = tuple(sorted((RESERVATION_ID, RESERVATION_TYPE, RESERVATION_INTERRUPTIBLE)))
    change = {CAPACITY_TYPE: "on-demand"}
    assert find_demotions(both, {"i-1": running_instance(reservation_id="")}) == [
        LabelChange(kind="NodeClaim", name="general-1", change=change, remove=gone),
        LabelChange(kind="Node", name="ip-10-0-0-1", change=change, remove=gone),
    ]


def test_a_node_without_its_claim_is_relabelled_too_and_only_what_it_has_is_removed() -> None:
    node = marked({CAPACITY_TYPE: "reserved", RESERVATION_ID: "cr-1"}, kind="Node", name="n")
    (found,) = find_demotions([node], {"i-1": running_instance(reservation_id="")})
    assert found.remove == (RESERVATION_ID,)


@pytest.mark.parametrize(
    ("labels", "instance"),
    [
        (RESERVED_LABELS, running_instance(reservation_id="cr-1")),
        (RESERVED_LABELS, None),
        ({CAPACITY_TYPE: "on-demand"}, running_instance(reservation_id="")),
        ({CAPACITY_TYPE: "on-demand"}, running_instance(reservation_id="cr-1")),
        ({CAPACITY_TYPE: "spot"}, running_instance(spot=True)),
    ],
)
def test_everybody_else_keeps_their_labels(labels: dict[str, str], instance: Any) -> None:
    known = {} if instance is None else {"i-1": instance}
    assert find_demotions([marked(labels)], known) == []


def test_one_that_ec2_put_into_an_open_reservation_afterwards_counts_as_left() -> None:
    moved = running_instance(reservation_id="cr-9", preference="open")
    (found,) = find_demotions([marked(RESERVED_LABELS)], {"i-1": moved})
    assert found.change == {CAPACITY_TYPE: "on-demand"}


def test_one_that_was_moved_to_another_reservation_says_so() -> None:
    (found,) = find_demotions(
        [marked(RESERVED_LABELS)], {"i-1": running_instance(reservation_id="cr-2")}
    )
    assert (found.change, found.remove) == ({RESERVATION_ID: "cr-2"}, ())


@pytest.mark.parametrize(
    ("kind", "standing", "drained"),
    [
        ("capacity-block", ReservationStanding.OFFERED, False),
        ("capacity-block", ReservationStanding.ENDING, True),
        ("capacity-block", ReservationStanding.ENDED, True),
        ("default", ReservationStanding.ENDED, False),
        ("default", ReservationStanding.OFFERED, False),
    ],
)
def test_only_blocks_that_end_are_drained(
    kind: str, standing: ReservationStanding, drained: bool
) -> None:
    claims = [
        marked(RESERVED_LABELS),
        marked({**RESERVED_LABELS, RESERVATION_ID: "cr-2"}, name="elsewhere"),
        marked({**RESERVED_LABELS, CAPACITY_TYPE: "on-demand"}, name="demoted"),
    ]
    found = msgspec.structs.replace(reservation(1), reservationType=kind)
    selected = [SelectedReservation(reservation=found, standing=standing)]
    assert find_expiring_nodes(claims, selected) == (["general-1"] if drained else [])


ONE, TWO = "cr-00000001", "cr-00000002"


class Bench:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.availability = ReservationAvailability(self.clock)
        self.availability.record_counts(
            [reservation_object(1, 5), reservation_object(2, 3)], self.clock.now()
        )
        self.holds = ReservationHolds(self.availability, self.clock)

    @property
    def free(self) -> tuple[int, int]:
        return self.holds.free(ONE), self.holds.free(TWO)


def test_each_is_held_for_all_machines_of_a_launch() -> None:
    bench = Bench()
    held = bench.holds.hold([ONE, TWO], 2)
    assert bench.free == (3, 1)
    bench.holds.release(held, [ONE, ONE])
    assert bench.free == (3, 3)


def test_a_launch_that_failed_gives_everything_back() -> None:
    bench = Bench()
    first, second = bench.holds.hold([ONE], 2), bench.holds.hold([ONE], 2)
    assert bench.free == (1, 3)
    bench.holds.release(first)
    assert bench.free == (3, 3)
    bench.holds.release(second)
    assert bench.free == (5, 3)


def test_there_is_never_less_than_none() -> None:
    bench = Bench()
    bench.holds.hold([TWO], 9)
    assert bench.free == (5, 0)
    assert bench.holds.free("cr-unknown") == 0


def test_a_claim_in_doubt_keeps_a_place_in_each() -> None:
    bench = Bench()
    bench.holds.mark_unclear(["a", "b"], [ONE, TWO])
    assert bench.free == (3, 1)
    bench.holds.clear("a")  # came to nothing
    assert bench.free == (4, 2)
    bench.holds.clear("b", ONE)  # was launched into this one
    assert bench.free == (4, 3)


def test_only_doubts_are_cleared() -> None:
    bench = Bench()
    bench.holds.clear("a", ONE)
    assert bench.free == (5, 3)
    bench.holds.mark_unclear(["a"], [])
    bench.holds.clear("a", ONE)
    assert bench.free == (5, 3)


def test_by_the_second_answer_of_ec2_there_is_no_doubt_left() -> None:
    bench = Bench()
    bench.holds.mark_unclear(["a"], [ONE])
    bench.clock.time += 119
    assert bench.free == (4, 3)
    bench.clock.time += 1
    assert bench.free == (5, 3)
