"""Capacity reservations: created, found, modified, ended, and entered and left by instances."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.support.emulator_launches import (
    OPEN_RESERVATION,
    A,
    B,
    D,
    LaunchAccount,
    capacity_stock,
    cloud_reservation,
    ec2_filter,
    launch_error_codes,
    launched_ids,
    tag_specifications,
    tags_of,
)

from wainwright.clock import EPOCH
from wainwright.emulator.api_conventions import iso_timestamp
from wainwright.emulator.settings import EmulatorSettings

NOW = datetime.fromtimestamp(EPOCH, UTC)

ONE = "cr-00000001"

DAY = timedelta(days=1)


def created(yard: LaunchAccount, **more: Any) -> str:
    asked = {
        "InstanceType": "m5.large",
        "InstancePlatform": "Linux/UNIX",
        "AvailabilityZone": A,
        "InstanceCount": 2,
        **more,
    }
    made = yard.ask("CreateCapacityReservation", **asked)["CapacityReservation"]
    return str(made["CapacityReservationId"])


def found(yard: LaunchAccount, **params: Any) -> list[str]:
    answer = yard.ask("DescribeCapacityReservations", **params)
    return [each["CapacityReservationId"] for each in answer["CapacityReservations"]]


def aimed(yard: LaunchAccount, target: str, count: int = 1) -> list[str]:
    """Machines in the reservation."""
    name = f"to-{target}-{len(yard.cloud.services.templates.state.templates)}"
    yard.aiming(name, target)
    return launched_ids(yard.fleet(yard.config(("m5.large", A), template=name), count=count))


def test_a_new_reservation_is_open_and_active() -> None:
    yard = LaunchAccount()
    made = created(yard, TagSpecifications=tag_specifications("capacity-reservation", team="web"))
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
        ({"TagSpecifications": tag_specifications("instance", a="b")}, "InvalidParameterValue"),
    ],
)
def test_what_cannot_be_reserved(more: dict[str, Any], code: str) -> None:
    asked = {
        "InstanceType": "m5.large",
        "InstancePlatform": "Linux/UNIX",
        "AvailabilityZone": A,
        "InstanceCount": 2,
    }
    yard = LaunchAccount()
    assert yard.refused("CreateCapacityReservation", **{**asked, **more}) == (code, 400)
    assert found(yard) == []


def test_a_token_reserves_once() -> None:
    yard = LaunchAccount()
    assert created(yard, ClientToken="a") == created(yard, ClientToken="a")
    asked = {"ClientToken": "a", "InstanceCount": 3}
    with pytest.raises(Exception, match="IdempotentParameterMismatch"):
        created(yard, **asked)


def test_counts_go_down_with_launches_and_up_at_shutting_down() -> None:
    yard = LaunchAccount(cloud_reservation(1, total=5, available=3))
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
    yard = LaunchAccount(cloud_reservation(1, total=5, available=1, ownerID="444455556666"))
    assert yard.reserved(ONE)["OwnerId"] == "444455556666"
    assert len(aimed(yard, ONE, 3)) == 1
    for operation in ("CancelCapacityReservation", "ModifyCapacityReservation"):
        refused = yard.refused(operation, CapacityReservationId=ONE)
        assert refused == ("UnauthorizedOperation", 403)


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([ec2_filter("state", "active")], [1, 2, 4]),
        ([ec2_filter("state", "expired", "cancelled")], [3]),
        ([ec2_filter("owner-id", "444455556666")], [2]),
        ([ec2_filter("tag:team", "web")], [1]),
        ([ec2_filter("tag-key", "team")], [1, 2]),
        ([ec2_filter("tag:team", "*"), ec2_filter("owner-id", "111122223333")], [1]),
        ([ec2_filter("instance-match-criteria", "open")], [2]),
        ([ec2_filter("instance-type", "c5.*")], [4]),
        ([ec2_filter("availability-zone", B)], [4]),
        ([ec2_filter("end-date-type", "limited")], [2]),
        ([ec2_filter("instance-platform", "Windows")], [4]),
        ([ec2_filter("state", "pending")], []),
    ],
)
def test_filters(filters: list[Any], expected: list[int]) -> None:
    yard = LaunchAccount(
        cloud_reservation(1, tags={"team": "web"}),
        cloud_reservation(
            2,
            ownerID="444455556666",
            tags={"team": "data"},
            endTime=iso_timestamp(EPOCH + 3600),
            **OPEN_RESERVATION,
        ),
        cloud_reservation(3, state="cancelled"),
        cloud_reservation(4, "c5.large", B, platform="Windows"),
    )
    assert found(yard, Filters=filters) == [f"cr-{number:08}" for number in expected]


def test_an_unknown_id_or_filter_is_an_error() -> None:
    yard = LaunchAccount(cloud_reservation(1))
    wrong = {"CapacityReservationIds": [ONE, "cr-0123456789abcdef0"]}
    missing = ("InvalidCapacityReservationId.NotFound", 400)
    assert yard.refused("DescribeCapacityReservations", **wrong) == missing
    filters = [ec2_filter("colour", "red")]
    refused = yard.refused("DescribeCapacityReservations", Filters=filters)
    assert refused == ("InvalidParameterValue", 400)
    both = {"CapacityReservationIds": [ONE], "MaxResults": 10}
    assert yard.refused("DescribeCapacityReservations", **both)[0] == "InvalidParameterCombination"
    one = {"CapacityReservationIds": [ONE], "Filters": [ec2_filter("state", "expired")]}
    assert found(yard, **one) == []


def test_long_lists_come_in_pages() -> None:
    yard = LaunchAccount(*(cloud_reservation(number) for number in range(7)))
    pages = yard.pages("DescribeCapacityReservations", "CapacityReservations", MaxResults=3)
    assert [len(each) for each in pages] == [3, 3, 1]
    assert yard.refused("DescribeCapacityReservations", MaxResults=1001)[0] == (
        "InvalidParameterValue"
    )


def test_a_cancelled_reservation_lets_its_machines_go_on() -> None:
    yard = LaunchAccount()
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
    yard = LaunchAccount(cloud_reservation(1, endTime=iso_timestamp(EPOCH + 600)))
    (machine,) = aimed(yard, ONE)
    yard.wait(599)
    assert (yard.reserved(ONE)["State"], yard.inside(machine)) == ("active", ONE)
    yard.wait(1)
    assert (yard.reserved(ONE)["State"], yard.inside(machine)) == ("expired", None)
    assert yard.state(machine) == "running"
    assert yard.describe(Filters=[ec2_filter("capacity-reservation-id", ONE)]) == []
    yard.ask("TerminateInstances", InstanceIds=[machine])
    assert yard.free(ONE) == 0


def test_a_reservation_of_the_future_begins_by_itself() -> None:
    yard = LaunchAccount()
    made = created(yard, StartDate=NOW + DAY, EndDate=NOW + 2 * DAY)
    (machine,) = yard.launch()
    assert (yard.reserved(made)["State"], yard.inside(machine)) == ("scheduled", None)
    assert yard.free(made) == 0
    yard.wait(DAY.total_seconds())
    assert (yard.reserved(made)["State"], yard.inside(machine)) == ("active", made)
    yard.wait(DAY.total_seconds())
    assert yard.reserved(made)["State"] == "expired"


def modified(yard: LaunchAccount, made: str, **params: Any) -> None:
    answer = yard.ask("ModifyCapacityReservation", CapacityReservationId=made, **params)
    assert answer == {"Return": True}


def test_count_and_end_can_be_changed() -> None:
    yard = LaunchAccount()
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
    yard = LaunchAccount()
    made = created(yard)
    yard.launch(count=2)
    refused = yard.refused("ModifyCapacityReservation", CapacityReservationId=made, **params)
    assert refused == (code, 400)
    assert yard.reserved(made)["TotalInstanceCount"] == 2


def test_an_idle_one_can_be_opened_and_takes_in_what_runs() -> None:
    yard = LaunchAccount()
    made = created(yard, InstanceMatchCriteria="targeted")
    (machine,) = yard.launch()
    modified(yard, made, InstanceMatchCriteria="open")
    assert yard.inside(machine) == made


def test_a_block_can_be_neither_changed_nor_cancelled() -> None:
    yard = LaunchAccount(
        cloud_reservation(1, reservationType="capacity-block", endTime=iso_timestamp(EPOCH + 9999))
    )
    for operation in ("CancelCapacityReservation", "ModifyCapacityReservation"):
        refused = yard.refused(operation, CapacityReservationId=ONE)
        assert refused == ("UnsupportedOperation", 400)


def attach(yard: LaunchAccount, instance: str, **specification: Any) -> None:
    yard.ask(
        "ModifyInstanceCapacityReservationAttributes",
        InstanceId=instance,
        CapacityReservationSpecification=specification,
    )


def target(identity: str) -> dict[str, Any]:
    return {"CapacityReservationTarget": {"CapacityReservationId": identity}}


def test_an_open_reservation_takes_in_what_runs_already() -> None:
    yard = LaunchAccount()
    first, second, third = yard.launch(count=3)
    (other,) = yard.launch("c5.large")
    made = created(yard)
    assert [yard.inside(each) for each in (first, second, third, other)] == [made, made, None, None]
    assert yard.free(made) == 0


@pytest.mark.parametrize(
    ("more", "inside"),
    [({}, None), ({"InstanceMatchCriteria": "targeted"}, None)],
)
def test_it_takes_in_nobody_who_does_not_want(more: dict[str, Any], inside: str | None) -> None:
    yard = LaunchAccount()
    name = yard.aiming("loner", None, "none")
    (loner,) = launched_ids(yard.fleet(yard.config(("m5.large", A), template=name)))
    created(yard, **more)
    assert yard.inside(loner) == inside


def test_a_running_machine_can_enter_and_leave() -> None:
    yard = LaunchAccount(cloud_reservation(1, total=1), cloud_reservation(2, total=1))
    first, second = yard.launch(count=2)
    yard.wait(10)
    attach(yard, first, **target(ONE))
    assert (yard.inside(first), yard.free(ONE)) == (ONE, 0)
    attach(yard, first, **target(ONE))
    assert yard.free(ONE) == 0
    refused = yard.refused(
        "ModifyInstanceCapacityReservationAttributes",
        InstanceId=second,
        CapacityReservationSpecification=target(ONE),
    )
    assert refused == ("ReservationCapacityExceeded", 400)
    said = yard.machine(second)["CapacityReservationSpecification"]
    assert said == {"CapacityReservationPreference": "open"}
    attach(yard, first, **target("cr-00000002"))
    assert (yard.inside(first), yard.free(ONE)) == ("cr-00000002", 1)
    attach(yard, first, CapacityReservationPreference="none")
    assert (yard.inside(first), yard.free("cr-00000002")) == (None, 1)
    said = yard.machine(first)["CapacityReservationSpecification"]
    assert said == {"CapacityReservationPreference": "none"}


def test_a_running_machine_can_look_for_an_open_one() -> None:
    yard = LaunchAccount(cloud_reservation(1, total=1, **OPEN_RESERVATION))
    name = yard.aiming("loner", None, "none")
    config = yard.config(("m5.large", A), template=name)
    first, second = launched_ids(yard.fleet(config, count=2))
    yard.wait(10)
    attach(yard, first, CapacityReservationPreference="open")
    assert yard.inside(first) == ONE
    attach(yard, second, CapacityReservationPreference="open")
    assert yard.inside(second) is None
    refused = yard.refused(
        "ModifyInstanceCapacityReservationAttributes",
        InstanceId=second,
        CapacityReservationSpecification={
            "CapacityReservationPreference": "capacity-reservations-only"
        },
    )
    assert refused == ("ReservationCapacityExceeded", 400)


def test_who_leaves_needs_capacity_elsewhere() -> None:
    yard = LaunchAccount(
        cloud_reservation(1), settings=EmulatorSettings(capacity_rules=(capacity_stock(1, "m5.large", A),))
    )
    first, second = aimed(yard, ONE, 2)
    yard.wait(10)
    attach(yard, first, CapacityReservationPreference="none")
    refused = yard.refused(
        "ModifyInstanceCapacityReservationAttributes",
        InstanceId=second,
        CapacityReservationSpecification={"CapacityReservationPreference": "none"},
    )
    assert refused == ("InsufficientInstanceCapacity", 400)
    assert (yard.inside(second), yard.free(ONE)) == (ONE, 1)


def test_who_cannot_enter_at_all() -> None:
    yard = LaunchAccount(cloud_reservation(1))
    (spot,) = yard.launch(market="spot")
    (plain,) = yard.launch()

    def refused(instance: str, **specification: Any) -> str:
        code, _ = yard.refused(
            "ModifyInstanceCapacityReservationAttributes",
            InstanceId=instance,
            CapacityReservationSpecification=specification,
        )
        return code

    assert refused(plain, **target(ONE)) == "IncorrectInstanceState"  # not running yet
    yard.wait(10)
    assert refused(spot, **target(ONE)) == "IncorrectInstanceState"
    both = {"CapacityReservationPreference": "none", **target(ONE)}
    assert refused(plain, **both) == "InvalidParameterCombination"
    gone = target("cr-0123456789abcdef0")
    assert refused(plain, **gone) == "InvalidCapacityReservationId.NotFound"
    assert refused("i-0123456789abcdef0", **target(ONE)) == "InvalidInstanceID.NotFound"


def test_reserving_takes_from_the_stock_and_ending_gives_back() -> None:
    yard = LaunchAccount(settings=EmulatorSettings(capacity_rules=(capacity_stock(3, "m5.large", A),)))
    made = created(yard, InstanceCount=2, InstanceMatchCriteria="targeted")
    with pytest.raises(Exception, match="InsufficientInstanceCapacity"):
        created(yard, InstanceCount=2)
    yard.launch()
    assert launch_error_codes(yard.fleet(yard.config(("m5.large", A)))) == {
        "InsufficientInstanceCapacity"
    }
    (inside,) = aimed(yard, made)
    yard.ask("CancelCapacityReservation", CapacityReservationId=made)
    (last,) = yard.launch()
    assert launch_error_codes(yard.fleet(yard.config(("m5.large", A)))) == {
        "InsufficientInstanceCapacity"
    }
    yard.ask("TerminateInstances", InstanceIds=[inside, last])
    yard.launch(count=2)


def change(yard: LaunchAccount, **more: Any) -> None:
    entry = {"id": ONE, "instanceType": "m5.large", "availabilityZone": A, "total": 2, **more}
    yard.cloud.change({"capacityReservations": [entry]})


def test_the_cloud_may_change_while_it_runs() -> None:
    yard = LaunchAccount(cloud_reservation(1, total=4))
    first, second, third = aimed(yard, ONE, 3)
    change(yard, total=6, available=1)
    assert (yard.free(ONE), yard.reserved(ONE)["TotalInstanceCount"]) == (1, 6)
    change(yard, total=2)
    assert [yard.inside(each) for each in (first, second, third)] == [ONE, ONE, None]
    assert yard.free(ONE) == 0
    change(yard, state="cancelled")
    assert {yard.inside(each) for each in (first, second, third)} == {None}
    change(yard, instanceMatchCriteria="open")
    assert yard.reserved(ONE)["State"] == "active"
    change(yard, endTime=iso_timestamp(EPOCH + 60))
    yard.wait(61)
    assert yard.reserved(ONE)["State"] == "expired"


def test_new_reservations_may_appear_while_it_runs() -> None:
    yard = LaunchAccount()
    (machine,) = yard.launch()
    change(yard, **OPEN_RESERVATION)
    assert yard.inside(machine) == ONE


def test_the_end_of_interruptible_capacity_ends_its_machines() -> None:
    yard = LaunchAccount(
        cloud_reservation(1, interruptible=True, endTime=iso_timestamp(EPOCH + 600))
    )
    name = yard.template(
        "on-call",
        CapacityReservationSpecification=target(ONE),
        InstanceMarketOptions={"MarketType": "interruptible-capacity-reservation"},
    )
    answer = yard.fleet(
        yard.config(("m5.large", A), template=name),
        market="reserved-capacity",
        ReservedCapacityOptions={"ReservationTypes": ["interruptible-capacity-reservation"]},
    )
    (machine,) = launched_ids(answer)
    yard.wait(600)
    assert yard.state(machine) == "shutting-down"
