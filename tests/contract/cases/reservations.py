"""Capacity reservations: nothing of this is in moto."""

from typing import Any

from tests.contract.case import case, fresh_name
from tests.contract.doors import Door, refusal

MISSING = "it has no capacity reservations, and answers with a page of HTML"


def reserve(door: Door, number: int = 2, **more: Any) -> str:
    """Open ones are of a type that no other story launches: they would take its machines in."""
    targeted = more.setdefault("InstanceMatchCriteria", "targeted") == "targeted"
    made = door.ask(
        "ec2",
        "CreateCapacityReservation",
        InstanceType="c5.large" if targeted else "r5.large",
        InstancePlatform="Linux/UNIX",
        AvailabilityZone="us-east-1a",
        InstanceCount=number,
        **more,
    )["CapacityReservation"]
    return str(made["CapacityReservationId"])


def found(door: Door, **params: Any) -> list[Any]:
    return list(door.ask("ec2", "DescribeCapacityReservations", **params)["CapacityReservations"])


@case(moto_wrong=MISSING)
def a_reservation_is_described_with_its_counts(door: Door) -> None:
    identity = reserve(door, 3)
    (shown,) = found(door, CapacityReservationIds=[identity])
    assert (shown["TotalInstanceCount"], shown["AvailableInstanceCount"]) == (3, 3)
    assert shown["InstanceType"] == "c5.large"
    assert shown["AvailabilityZone"] == "us-east-1a"
    assert shown["InstanceMatchCriteria"] == "targeted"
    assert shown["State"] == "active"
    assert shown["OwnerId"].isdigit()


@case(moto_wrong=MISSING)
def reservations_are_found_by_tag_and_criteria(door: Door) -> None:
    team = fresh_name("team")
    tags = [{"ResourceType": "capacity-reservation", "Tags": [{"Key": "team", "Value": team}]}]
    targeted = reserve(door, TagSpecifications=tags)
    reserve(door, InstanceMatchCriteria="open", TagSpecifications=tags)
    (shown,) = found(
        door,
        Filters=[
            {"Name": "tag:team", "Values": [team]},
            {"Name": "instance-match-criteria", "Values": ["targeted"]},
            {"Name": "state", "Values": ["active"]},
        ],
        MaxResults=1000,
    )
    assert shown["CapacityReservationId"] == targeted


@case(moto_wrong=MISSING)
def a_reservation_grows_and_shrinks(door: Door) -> None:
    identity = reserve(door, 2)
    answer = door.ask(
        "ec2", "ModifyCapacityReservation", CapacityReservationId=identity, InstanceCount=5
    )
    assert answer == {"Return": True}
    (shown,) = found(door, CapacityReservationIds=[identity])
    assert (shown["TotalInstanceCount"], shown["AvailableInstanceCount"]) == (5, 5)


@case(moto_wrong=MISSING)
def a_cancelled_reservation_has_nothing_left(door: Door) -> None:
    identity = reserve(door)
    assert door.ask("ec2", "CancelCapacityReservation", CapacityReservationId=identity) == {
        "Return": True
    }
    (shown,) = found(door, CapacityReservationIds=[identity])
    assert (shown["State"], shown["AvailableInstanceCount"]) == ("cancelled", 0)


@case(moto_wrong=MISSING)
def a_reservation_that_does_not_exist_is_an_error(door: Door) -> None:
    wrong = "cr-0123456789abcdef0"
    code, status = refusal(
        door, "ec2", "DescribeCapacityReservations", CapacityReservationIds=[wrong]
    )
    assert (code, status) == ("InvalidCapacityReservationId.NotFound", 400)
