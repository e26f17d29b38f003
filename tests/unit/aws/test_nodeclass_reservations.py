"""Capacity reservations of a class: terms, states, times, platforms, and very many of them."""

from typing import Any

import msgspec
import pytest
from tests.support.awsclasses import Bench, message, node_class, told
from tests.support.seams import Scripted, on_time

from wainwright.api.cloud import Reservation
from wainwright.aws.ec2 import Ec2
from wainwright.aws.nodeclass.conditions import CAPACITY_RESERVATIONS, timestamp
from wainwright.aws.nodeclass.reservations import Reservations, reservation
from wainwright.aws.nodeclass.resolved import LISTED, Resolved, status
from wainwright.aws.reservations import Availability
from wainwright.catalogue.reservations import Standing
from wainwright.clock import EPOCH, VirtualClock
from wainwright.errors import AwsError

TEAM = [{"tags": {"team": "*"}}]
MINUTE = 60.0
IN_AN_HOUR = timestamp(EPOCH + 60 * MINUTE)


def row(identity: str = "cr-1", **fields: Any) -> Reservation:
    stated = {
        "id": identity,
        "instanceType": "m5.large",
        "availabilityZone": "us-east-1a",
        "total": 4,
        "ownerID": "111122223333",
        "tags": {"team": "web"},
    }
    return msgspec.convert(stated | fields, Reservation)


def resolved(
    terms: list[dict[str, Any]], *rows: Reservation, wait: float = 0, **spec: Any
) -> Resolved:
    async def main(clock: VirtualClock) -> Resolved:
        bench = Bench(clock, reservations=rows)
        await clock.sleep(wait)
        return await bench.resolve(node_class(capacityReservationSelectorTerms=terms, **spec))

    return on_time(main)


def ids(found: Resolved) -> list[str]:
    return [each.reservation.id for each in found.reservations]


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        ([{"id": "cr-a"}], ["cr-a"]),
        ([{"id": "cr-b"}, {"id": "cr-a"}], ["cr-a", "cr-b"]),
        ([{"id": "cr-none"}], []),
        ([{"id": "cr-none"}, {"id": "cr-a"}], ["cr-a"]),
        ([{"tags": {"team": "web"}}], ["cr-a"]),
        ([{"tags": {"team": "*"}}], ["cr-a", "cr-b"]),
        ([{"tags": {"team": "*"}, "ownerID": "444455556666"}], ["cr-b"]),
        ([{"ownerID": "444455556666"}], ["cr-b", "cr-c"]),
        ([{"instanceMatchCriteria": "open"}], ["cr-c"]),
        ([{"instanceType": "m6g.large"}], ["cr-b"]),
        ([{"availabilityZone": "us-east-1b"}], ["cr-c"]),
        (
            [{"id": "cr-a"}, {"tags": {"team": "web"}}, {"instanceMatchCriteria": "open"}],
            ["cr-a", "cr-c"],
        ),
    ],
)
def test_terms_select(terms: list[dict[str, Any]], expected: list[str]) -> None:
    rows = [
        row("cr-a"),
        row("cr-b", tags={"team": "db"}, ownerID="444455556666", instanceType="m6g.large"),
        row(
            "cr-c",
            tags=None,
            ownerID="444455556666",
            instanceMatchCriteria="open",
            availabilityZone="us-east-1b",
        ),
    ]
    found = resolved(terms, *rows)
    assert ids(found) == expected
    assert [each.id for each in status(found).capacityReservations or []] == expected
    assert told(found, CAPACITY_RESERVATIONS)[0] == "True"


def test_the_status_says_of_a_reservation_what_the_api_has_fields_for() -> None:
    ends = timestamp(EPOCH + 7200)
    found = resolved(TEAM, row(endTime=ends, interruptible=True))
    (shown,) = status(found).capacityReservations or []
    assert msgspec.to_builtins(shown) == {
        "id": "cr-1",
        "availabilityZone": "us-east-1a",
        "instanceType": "m5.large",
        "instanceMatchCriteria": "targeted",
        "ownerID": "111122223333",
        "endTime": ends,
        "interruptible": True,
    }


@pytest.mark.parametrize(
    ("fields", "minutes", "expected"),
    [
        ({}, 0, "active"),
        ({"endTime": IN_AN_HOUR}, 59, "active"),
        ({"endTime": IN_AN_HOUR}, 61, None),
        ({"endTime": IN_AN_HOUR, "reservationType": "capacity-block"}, 10, "active"),
        ({"endTime": IN_AN_HOUR, "reservationType": "capacity-block"}, 21, "expiring"),
        ({"state": "cancelled"}, 0, None),
        ({"state": "pending"}, 0, None),
        ({"state": "payment-pending"}, 0, None),
        ({"platform": "Windows"}, 0, None),
        ({"tenancy": "dedicated"}, 0, None),
    ],
)
def test_only_those_that_can_be_used_are_listed(
    fields: dict[str, Any], minutes: float, expected: str | None
) -> None:
    found = resolved(TEAM, row(**fields), wait=minutes * MINUTE)
    shown = status(found).capacityReservations or []
    assert [each.state for each in shown] == ([] if expected is None else [expected])
    assert found.usable == (frozenset() if expected is None else {"cr-1"})
    assert told(found, CAPACITY_RESERVATIONS)[0] == "True"


def test_windows_reservations_are_for_windows() -> None:
    terms = [{"alias": "windows2022@latest"}]
    found = resolved(TEAM, row(platform="Windows"), row("cr-2"), amiSelectorTerms=terms)
    assert {each.reservation.id: each.standing for each in found.reservations} == {
        "cr-1": Standing.OFFERED,
        "cr-2": Standing.OTHER_PLATFORM,
    }


def test_without_terms_or_with_the_gate_off_nothing_is_asked() -> None:
    async def main(clock: VirtualClock) -> tuple[int, list[bool]]:
        on, off = Bench(clock, reservations=[row()]), Bench(clock, capacity_reservations=False)
        ready = [
            (await on.resolve(node_class())).ready,
            (await off.resolve(node_class(capacityReservationSelectorTerms=TEAM))).ready,
        ]
        asked = "DescribeCapacityReservations"
        return on.count(asked) + off.count(asked), ready

    assert on_time(main) == (0, [True, True])


def test_one_that_is_cancelled_is_gone_within_a_minute() -> None:
    async def main(clock: VirtualClock) -> list[list[str]]:
        bench = Bench(clock, reservations=[row(), row("cr-2")])
        wanted = node_class(capacityReservationSelectorTerms=TEAM)
        seen = [ids(await bench.resolve(wanted))]
        bench.ask("ec2", "CancelCapacityReservation", CapacityReservationId="cr-1")
        await clock.sleep(60)
        return [*seen, ids(await bench.resolve(wanted))]

    assert on_time(main) == [["cr-1", "cr-2"], ["cr-2"]]


def test_a_poll_a_minute_whatever_the_number_of_classes() -> None:
    async def main(clock: VirtualClock) -> int:
        bench = Bench(clock, reservations=[row()])
        for _ in range(5):
            for name in ("one", "two"):
                await bench.resolve(node_class(name, capacityReservationSelectorTerms=TEAM))
            await clock.sleep(61)
        return bench.count("DescribeCapacityReservations")

    assert on_time(main) == 5


def test_the_free_counts_are_told_to_those_who_keep_them() -> None:
    async def main(clock: VirtualClock) -> int:
        bench = Bench(clock, reservations=[row(available=3)])
        await bench.resolve(node_class(capacityReservationSelectorTerms=TEAM))
        return bench.availability.free("cr-1")

    assert on_time(main) == 3


def test_very_many_reservations_do_not_bloat_the_status() -> None:
    rows = [row(f"cr-{number:05}") for number in range(2500)]
    found = resolved(TEAM, *rows)
    shown = status(found)
    assert len(found.usable) == len(found.reservations) == 2500
    assert [each.id for each in shown.capacityReservations or []] == ids(found)[:LISTED]
    assert message(found, CAPACITY_RESERVATIONS) == (
        "2500 capacity reservations are in use by this class, 500 of them listed here"
    )
    assert len(msgspec.json.encode(shown)) < 200_000


def test_unknown_ids_are_asked_for_one_by_one_and_other_errors_are_raised() -> None:
    known: dict[str, Any] = {
        "CapacityReservationId": "cr-2",
        "InstanceType": "m5.large",
        "AvailabilityZone": "us-east-1a",
        "OwnerId": "111122223333",
        "State": "active",
        "AvailableInstanceCount": 1,
        "TotalInstanceCount": 2,
    }
    unknown = AwsError("InvalidCapacityReservationId.NotFound", "no cr-1")
    seam = Scripted(
        {"DescribeCapacityReservations": [unknown, unknown, {"CapacityReservations": [known]}]}
    )

    async def main(clock: VirtualClock) -> list[str]:
        found = await Reservations(Ec2(seam), clock, Availability(clock)).find(
            node_class(capacityReservationSelectorTerms=[{"id": "cr-1"}, {"id": "cr-2"}])
        )
        return [each.reservation.id for each in found.value]

    assert on_time(main) == ["cr-2"]
    asked = seam.asked("DescribeCapacityReservations")
    assert [params["CapacityReservationIds"] for params in asked] == [
        ["cr-1", "cr-2"],
        ["cr-1"],
        ["cr-2"],
    ]
    assert not any("MaxResults" in params for params in asked)


def test_a_row_may_leave_out_what_is_optional() -> None:
    found = reservation(
        {
            "CapacityReservationId": "cr-1",
            "InstanceType": "m5.large",
            "AvailabilityZone": "us-east-1a",
        }
    )
    assert (found.interruptible, found.reservationType, found.tags) == (False, "default", None)
