"""Capacity reservations: made, found, changed, ended; who is in them and who falls out."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.support.launches import (
    OPEN_ONES,
    A,
    B,
    D,
    Yard,
    launched,
    named,
    reservation,
    tagged,
    tags_of,
)

from wainwright.clock import EPOCH
from wainwright.emulator.times import iso

NOW = datetime.fromtimestamp(EPOCH, UTC)

ONE = "cr-00000001"

DAY = timedelta(days=1)


def created(yard: Yard, **more: Any) -> str:
    asked = {
        "InstanceType": "m5.large",
        "InstancePlatform": "Linux/UNIX",
        "AvailabilityZone": A,
        "InstanceCount": 2,
        **more,
    }
    made = yard.ask("CreateCapacityReservation", **asked)["CapacityReservation"]
    return str(made["CapacityReservationId"])


def found(yard: Yard, **params: Any) -> list[str]:
    answer = yard.ask("DescribeCapacityReservations", **params)
    return [each["CapacityReservationId"] for each in answer["CapacityReservations"]]


def aimed(yard: Yard, target: str, count: int = 1) -> list[str]:
    """Machines in the reservation."""
    name = f"to-{target}-{len(yard.cloud.parts.templates.state.templates)}"
    yard.aiming(name, target)
    return launched(yard.fleet(yard.config(("m5.large", A), template=name), count=count))


def test_a_new_reservation_is_open_and_active() -> None:
    yard = Yard()
    made = created(yard, TagSpecifications=tagged("capacity-reservation", team="web"))
    shown = yard.reserved(made)
    expected = {
        "AvailabilityZone": A,
        "AvailabilityZoneId": "usw2-az1",
        "AvailableInstanceCount": 2,
        "EndDateType": "unlimited",
        "InstanceMatchCriteria": "open",
        "InstancePlatform": "Linux/UNIX",
        "InstanceType": "m5.large",
        "Interruptible": False,
        "OwnerId": "111122223333",
        "ReservationType": "default",
        "StartDate": NOW,
        "State": "active",
        "Tenancy": "default",
        "TotalInstanceCount": 2,
    }
    assert {key: shown[key] for key in expected} == expected
    assert tags_of(shown) == {"team": "web"}
    assert "EndDate" not in shown


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"InstanceType": "m5.8xhuge"}, "InvalidParameterValue"),
        ({"InstanceType": "c6in.large", "AvailabilityZone": D}, "Unsupported"),
        ({"InstancePlatform": "BeOS"}, "InvalidParameterValue"),
        ({"AvailabilityZone": "us-west-2z"}, "InvalidParameterValue"),
        ({"InstanceCount": 0}, "InvalidParameterValue"),
        ({"EndDateType": "limited"}, "InvalidParameterCombination"),
        ({"EndDateType": "unlimited", "EndDate": NOW + DAY}, "InvalidParameterCombination"),
        ({"EndDate": NOW - DAY}, "InvalidParameterValue"),
        ({"InstanceMatchCriteria": "closed"}, "InvalidParameterValue"),
        ({"TagSpecifications": tagged("instance", a="b")}, "InvalidParameterValue"),
    ],
)
def test_what_cannot_be_reserved(more: dict[str, Any], code: str) -> None:
    asked = {
        "InstanceType": "m5.large",
        "InstancePlatform": "Linux/UNIX",
        "AvailabilityZone": A,
        "InstanceCount": 2,
    }
    yard = Yard()
    assert yard.refused("CreateCapacityReservation", **{**asked, **more}) == (code, 400)
    assert found(yard) == []


def test_a_token_reserves_once() -> None:
    yard = Yard()
    assert created(yard, ClientToken="a") == created(yard, ClientToken="a")
    asked = {"ClientToken": "a", "InstanceCount": 3}
    with pytest.raises(Exception, match="IdempotentParameterMismatch"):
        created(yard, **asked)


def test_counts_go_down_with_launches_and_up_at_shutting_down() -> None:
    yard = Yard(reservation(1, total=5, available=3))
    assert yard.free(ONE) == 3
    first, second = aimed(yard, ONE, 2)
    assert yard.free(ONE) == 1
    yard.ask("TerminateInstances", InstanceIds=[first])
    assert (yard.state(first), yard.free(ONE)) == ("shutting-down", 2)
    yard.wait(7200)
    assert yard.free(ONE) == 2
    assert yard.inside(second) == ONE
    assert yard.reserved(ONE)["TotalInstanceCount"] == 5


def test_what_others_use_of_a_shared_reservation_is_not_ours() -> None:
    yard = Yard(reservation(1, total=5, available=1, ownerID="444455556666"))
    assert yard.reserved(ONE)["OwnerId"] == "444455556666"
    assert len(aimed(yard, ONE, 3)) == 1
    for operation in ("CancelCapacityReservation", "ModifyCapacityReservation"):
        refused = yard.refused(operation, CapacityReservationId=ONE)
        assert refused == ("UnauthorizedOperation", 403)


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([named("state", "active")], [1, 2, 4]),
        ([named("state", "expired", "cancelled")], [3]),
        ([named("owner-id", "444455556666")], [2]),
        ([named("tag:team", "web")], [1]),
        ([named("tag-key", "team")], [1, 2]),
        ([named("tag:team", "*"), named("owner-id", "111122223333")], [1]),
        ([named("instance-match-criteria", "open")], [2]),
        ([named("instance-type", "c5.*")], [4]),
        ([named("availability-zone", B)], [4]),
        ([named("end-date-type", "limited")], [2]),
        ([named("instance-platform", "Windows")], [4]),
        ([named("state", "pending")], []),
    ],
)
def test_filters(filters: list[Any], expected: list[int]) -> None:
    yard = Yard(
        reservation(1, tags={"team": "web"}),
        reservation(
            2,
            ownerID="444455556666",
            tags={"team": "data"},
            endTime=iso(EPOCH + 3600),
            **OPEN_ONES,
        ),
        reservation(3, state="cancelled"),
        reservation(4, "c5.large", B, platform="Windows"),
    )
    assert found(yard, Filters=filters) == [f"cr-{number:08}" for number in expected]


def test_an_unknown_id_or_filter_is_an_error() -> None:
    yard = Yard(reservation(1))
    wrong = {"CapacityReservationIds": [ONE, "cr-0123456789abcdef0"]}
    missing = ("InvalidCapacityReservationId.NotFound", 400)
    assert yard.refused("DescribeCapacityReservations", **wrong) == missing
    filters = [named("colour", "red")]
    refused = yard.refused("DescribeCapacityReservations", Filters=filters)
    assert refused == ("InvalidParameterValue", 400)
    both = {"CapacityReservationIds": [ONE], "MaxResults": 10}
    assert yard.refused("DescribeCapacityReservations", **both)[0] == "InvalidParameterCombination"
    one = {"CapacityReservationIds": [ONE], "Filters": [named("state", "expired")]}
    assert found(yard, **one) == []


def test_long_lists_come_in_pages() -> None:
    yard = Yard(*(reservation(number) for number in range(7)))
    pages = yard.pages("DescribeCapacityReservations", "CapacityReservations", MaxResults=3)
    assert [len(each) for each in pages] == [3, 3, 1]
    assert yard.refused("DescribeCapacityReservations", MaxResults=1001)[0] == (
        "InvalidParameterValue"
    )


def test_a_cancelled_reservation_lets_its_machines_go_on() -> None:
    yard = Yard()
    made = created(yard, InstanceMatchCriteria="targeted")
    (machine,) = aimed(yard, made)
    assert yard.inside(machine) == made
    assert yard.ask("CancelCapacityReservation", CapacityReservationId=made) == {"Return": True}
    shown = yard.reserved(made)
    assert (shown["State"], shown["AvailableInstanceCount"]) == ("cancelled", 0)
    yard.wait(60)
    assert (yard.state(machine), yard.inside(machine)) == ("running", None)
    said = yard.machine(machine)["CapacityReservationSpecification"]
    assert said["CapacityReservationTarget"] == {"CapacityReservationId": made}
    assert aimed(yard, made) == []
    for operation in ("CancelCapacityReservation", "ModifyCapacityReservation"):
        refused = yard.refused(operation, CapacityReservationId=made)
        assert refused == ("InvalidCapacityReservationState", 400)


def test_an_expired_reservation_lets_its_machines_go_on() -> None:
    yard = Yard(reservation(1, endTime=iso(EPOCH + 600)))
    (machine,) = aimed(yard, ONE)
    yard.wait(599)
    assert (yard.reserved(ONE)["State"], yard.inside(machine)) == ("active", ONE)
    yard.wait(1)
    assert (yard.reserved(ONE)["State"], yard.inside(machine)) == ("expired", None)
    assert yard.state(machine) == "running"
    assert yard.describe(Filters=[named("capacity-reservation-id", ONE)]) == []
    yard.ask("TerminateInstances", InstanceIds=[machine])
    assert yard.free(ONE) == 0


def test_a_reservation_of_the_future_begins_by_itself() -> None:
    yard = Yard()
    made = created(yard, StartDate=NOW + DAY, EndDate=NOW + 2 * DAY)
    (machine,) = yard.launch()
    assert (yard.reserved(made)["State"], yard.inside(machine)) == ("scheduled", None)
    assert yard.free(made) == 0
    yard.wait(DAY.total_seconds())
    assert (yard.reserved(made)["State"], yard.inside(machine)) == ("active", made)
    yard.wait(DAY.total_seconds())
    assert yard.reserved(made)["State"] == "expired"


def modified(yard: Yard, made: str, **params: Any) -> None:
    answer = yard.ask("ModifyCapacityReservation", CapacityReservationId=made, **params)
    assert answer == {"Return": True}


def test_count_and_end_can_be_changed() -> None:
    yard = Yard()
    made = created(yard, EndDate=NOW + DAY)
    yard.launch(count=2)
    modified(yard, made, InstanceCount=5)
    assert yard.free(made) == 3
    modified(yard, made, InstanceCount=2)
    assert yard.free(made) == 0
    modified(yard, made, EndDate=NOW + 3 * DAY)
    yard.wait(DAY.total_seconds())
    assert yard.reserved(made)["State"] == "active"
    modified(yard, made, EndDateType="unlimited")
    yard.wait(3 * DAY.total_seconds())
    shown = yard.reserved(made)
    assert (shown["State"], shown["EndDateType"]) == ("active", "unlimited")


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({"InstanceCount": 1}, "InvalidParameterValue"),
        ({"InstanceMatchCriteria": "targeted"}, "InvalidParameterCombination"),
        ({"EndDate": NOW - DAY}, "InvalidParameterValue"),
        ({"EndDateType": "limited"}, "InvalidParameterCombination"),
    ],
)
def test_what_cannot_be_changed_while_it_is_used(params: dict[str, Any], code: str) -> None:
    yard = Yard()
    made = created(yard)
    yard.launch(count=2)
    refused = yard.refused("ModifyCapacityReservation", CapacityReservationId=made, **params)
    assert refused == (code, 400)
    assert yard.reserved(made)["TotalInstanceCount"] == 2


def test_an_idle_one_can_be_opened_and_takes_in_what_runs() -> None:
    yard = Yard()
    made = created(yard, InstanceMatchCriteria="targeted")
    (machine,) = yard.launch()
    modified(yard, made, InstanceMatchCriteria="open")
    assert yard.inside(machine) == made


def test_a_block_can_be_neither_changed_nor_cancelled() -> None:
    yard = Yard(reservation(1, reservationType="capacity-block", endTime=iso(EPOCH + 9999)))
    for operation in ("CancelCapacityReservation", "ModifyCapacityReservation"):
        refused = yard.refused(operation, CapacityReservationId=ONE)
        assert refused == ("UnsupportedOperation", 400)
