"""Available counts of reservations: between polls, with launches in flight or unclear; demotion."""

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
from wainwright.aws.instances import find_demotions, find_expiring_nodes
from wainwright.aws.reservation_availability import ReservationAvailability, ReservationHolds
from wainwright.catalogue.offerings.capacity_reservations import (
    ReservationStanding,
    SelectedReservation,
)
from wainwright.clock import VirtualClock
from wainwright.cloud import LabelChange, ReservedNode
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


def counts_after(*steps: tuple[float, str, int]) -> list[int]:
    """The available count after each step: seconds to wait, the method, the count to record."""

    async def main(clock: VirtualClock) -> list[int]:
        availability = ReservationAvailability(clock)
        seen = []
        for wait, what, free in steps:
            await clock.sleep(wait)
            if what == "record_counts":
                availability.record_counts([reservation(free)], clock.now())
            elif what:
                getattr(availability, what)("cr-1")
            seen.append(availability.available_count("cr-1"))
        return seen

    return run_in_virtual_time(main)


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([(0, "", 0)], [0]),
        ([(0, "record_counts", 3), (1, "record_launch", 0), (1, "record_launch", 0)], [3, 2, 1]),
        ([(0, "record_counts", 1), (1, "record_launch", 0), (1, "record_launch", 0)], [1, 0, 0]),
        ([(0, "record_counts", 3), (1, "record_termination", 0)], [3, 4]),
        ([(0, "record_counts", 5), (1, "record_termination", 0)], [5, 5]),
        (
            [(0, "record_counts", 3), (1, "record_launch", 0), (1, "record_termination", 0)],
            [3, 2, 3],
        ),
        (
            [(0, "record_counts", 3), (1, "mark_exhausted", 0), (1, "record_termination", 0)],
            [3, 0, 1],
        ),
        ([(0, "record_counts", 3), (1, "mark_exhausted", 0), (1, "record_counts", 2)], [3, 0, 2]),
        (
            [
                (0, "record_counts", 3),
                (1, "record_launch", 0),
                (1, "mark_exhausted", 0),
                (1, "record_termination", 0),
            ],
            [3, 2, 0, 1],
        ),
        (
            [(0, "record_counts", 3), (1, "record_launch", 0), (1, "record_counts", 2), (1, "", 0)],
            [3, 2, 2, 2],
        ),
        ([(0, "mark_exhausted", 0), (1, "record_counts", 2)], [0, 2]),
        ([(0, "record_launch", 0), (1, "record_counts", 2)], [0, 2]),
        ([(0, "record_counts", 3), (86399, "", 0), (2, "", 0)], [3, 3, 0]),
    ],
)
def test_available_counts_between_polls(
    steps: list[tuple[float, str, int]], expected: list[int]
) -> None:
    assert counts_after(*steps) == expected


def test_the_revision_tells_that_counts_are_other_than_was_known() -> None:
    async def main(clock: VirtualClock) -> list[int]:
        availability = ReservationAvailability(clock)
        seen = []
        for free, total in ((3, 5), (3, 5), (2, 5), (2, 6)):
            availability.record_counts([reservation(free, total)], clock.now())
            seen.append(availability.revision)
        availability.record_launch("cr-1")
        await clock.sleep(1)
        availability.record_counts([reservation(1, 6)], clock.now())  # as was known
        seen.append(availability.revision)
        availability.mark_exhausted("cr-1")
        await clock.sleep(1)
        availability.record_counts([reservation(1, 6)], clock.now())  # not exhausted any more
        return [*seen, availability.revision]

    assert run_in_virtual_time(main) == [1, 1, 2, 3, 3, 4]


@pytest.mark.parametrize("later", [0, 1])
def test_a_launch_during_a_poll_is_subtracted_from_its_result(later: float) -> None:
    async def main(clock: VirtualClock) -> list[int]:
        availability = ReservationAvailability(clock)
        availability.record_counts([reservation(3)], clock.now())
        await clock.sleep(60)
        requested_at = clock.now()
        await clock.sleep(later)
        availability.record_launch("cr-1")
        availability.record_termination("cr-1")
        availability.record_counts([reservation(3)], requested_at)
        return [availability.available_count("cr-1")]

    assert run_in_virtual_time(main) == [2]


def test_an_exhausted_reservation_is_not_reset_by_an_older_response() -> None:
    async def main(clock: VirtualClock) -> list[int]:
        availability = ReservationAvailability(clock)
        availability.record_counts([reservation(3)], clock.now())
        await clock.sleep(60)
        requested_at = clock.now()
        await clock.sleep(1)
        availability.mark_exhausted("cr-1")
        availability.record_counts([reservation(3)], requested_at)
        seen = [availability.available_count("cr-1")]
        await clock.sleep(60)
        availability.record_counts([reservation(2)], clock.now())
        availability.record_counts([reservation(5)], requested_at)
        return [*seen, availability.available_count("cr-1")]

    assert run_in_virtual_time(main) == [0, 2]


def test_the_catalog_gets_the_current_count() -> None:
    async def main(clock: VirtualClock) -> CloudReservation:
        availability = ReservationAvailability(clock)
        availability.record_counts([reservation(3)], clock.now())
        availability.record_launch("cr-1")
        return availability.with_current_count(reservation(3))

    assert run_in_virtual_time(main) == reservation(2)


@given(
    st.lists(
        st.tuples(
            st.floats(min_value=0, max_value=100),
            st.sampled_from(
                ["record_counts", "record_launch", "record_termination", "mark_exhausted"]
            ),
            st.integers(0, 5),
        ),
        max_size=30,
    )
)
def test_the_count_stays_between_zero_and_the_total(steps: list[tuple[float, str, int]]) -> None:
    assert all(0 <= free <= 5 for free in counts_after(*steps))


@given(st.lists(st.sampled_from([-1, 1]), max_size=30), st.integers(0, 5))
def test_with_regular_polls_the_count_is_that_of_ec2(changes: list[int], free: int) -> None:
    """Compared with a model of EC2 that is polled after every few changes."""

    async def main(clock: VirtualClock) -> None:
        availability, real = ReservationAvailability(clock), free
        for number, change in enumerate(changes):
            await clock.sleep(1)
            if number % 4 == 0:
                availability.record_counts([reservation(real)], clock.now())
            await clock.sleep(1)
            if 0 <= real + change <= 5:
                real += change
                (availability.record_launch if change < 0 else availability.record_termination)(
                    "cr-1"
                )
            assert availability.available_count("cr-1") == real

    run_in_virtual_time(main)


def reserved_node(labels: Mapping[str, str], **fields: str) -> ReservedNode:
    named = {"kind": "NodeClaim", "name": "general-1", "instance_id": "i-1", **fields}
    return ReservedNode(labels=labels, **named)


def test_an_instance_that_has_left_its_reservation_is_on_demand() -> None:
    both = [
        reserved_node(RESERVED_LABELS),
        reserved_node(RESERVED_LABELS, kind="Node", name="ip-10-0-0-1"),
    ]
    gone = tuple(sorted((RESERVATION_ID, RESERVATION_TYPE, RESERVATION_INTERRUPTIBLE)))
    change = {CAPACITY_TYPE: "on-demand"}
    assert find_demotions(both, {"i-1": running_instance(reservation_id="")}) == [
        LabelChange(kind="NodeClaim", name="general-1", change=change, remove=gone),
        LabelChange(kind="Node", name="ip-10-0-0-1", change=change, remove=gone),
    ]


def test_a_node_without_its_claim_is_relabelled_too_and_only_what_it_has_is_removed() -> None:
    node = reserved_node({CAPACITY_TYPE: "reserved", RESERVATION_ID: "cr-1"}, kind="Node", name="n")
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
def test_other_nodes_keep_their_labels(labels: dict[str, str], instance: Any) -> None:
    instances = {} if instance is None else {"i-1": instance}
    assert find_demotions([reserved_node(labels)], instances) == []


def test_an_instance_that_ec2_moved_into_an_open_reservation_is_on_demand() -> None:
    moved = running_instance(reservation_id="cr-9", reservation_preference="open")
    (found,) = find_demotions([reserved_node(RESERVED_LABELS)], {"i-1": moved})
    assert found.change == {CAPACITY_TYPE: "on-demand"}


def test_an_instance_moved_to_another_reservation_is_relabelled() -> None:
    (found,) = find_demotions(
        [reserved_node(RESERVED_LABELS)], {"i-1": running_instance(reservation_id="cr-2")}
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
        reserved_node(RESERVED_LABELS),
        reserved_node({**RESERVED_LABELS, RESERVATION_ID: "cr-2"}, name="elsewhere"),
        reserved_node({**RESERVED_LABELS, CAPACITY_TYPE: "on-demand"}, name="demoted"),
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
    def available_count(self) -> tuple[int, int]:
        return self.holds.available_count(ONE), self.holds.available_count(TWO)


def test_each_reservation_is_held_for_all_instances_of_a_launch() -> None:
    bench = Bench()
    held = bench.holds.hold([ONE, TWO], 2)
    assert bench.available_count == (3, 1)
    bench.holds.release(held, [ONE, ONE])
    assert bench.available_count == (3, 3)


def test_a_failed_launch_releases_its_hold() -> None:
    bench = Bench()
    first, second = bench.holds.hold([ONE], 2), bench.holds.hold([ONE], 2)
    assert bench.available_count == (1, 3)
    bench.holds.release(first)
    assert bench.available_count == (3, 3)
    bench.holds.release(second)
    assert bench.available_count == (5, 3)


def test_the_available_count_is_never_negative() -> None:
    bench = Bench()
    bench.holds.hold([TWO], 9)
    assert bench.available_count == (5, 0)
    assert bench.holds.available_count("cr-unknown") == 0


def test_an_unclear_launch_holds_an_instance_in_each_reservation() -> None:
    bench = Bench()
    bench.holds.mark_unclear(["a", "b"], [ONE, TWO])
    assert bench.available_count == (3, 1)
    bench.holds.resolve_unclear("a")  # launched nothing
    assert bench.available_count == (4, 2)
    bench.holds.resolve_unclear("b", ONE)  # was launched into this one
    assert bench.available_count == (4, 3)


def test_resolving_a_claim_that_is_not_unclear_changes_nothing() -> None:
    bench = Bench()
    bench.holds.resolve_unclear("a", ONE)
    assert bench.available_count == (5, 3)
    bench.holds.mark_unclear(["a"], [])
    bench.holds.resolve_unclear("a", ONE)
    assert bench.available_count == (5, 3)


def test_unclear_launches_expire_after_two_polls() -> None:
    bench = Bench()
    bench.holds.mark_unclear(["a"], [ONE])
    bench.clock.time += 119
    assert bench.available_count == (4, 3)
    bench.clock.time += 1
    assert bench.available_count == (5, 3)
