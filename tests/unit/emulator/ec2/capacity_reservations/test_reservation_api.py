"""Capacity reservations: created, described, modified, ended; and the instances in them."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.support.emulator_launches import (
    OPEN_RESERVATION,
    A,
    B,
    D,
    LaunchAccount,
    capacity_rule,
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


def create_reservation(account: LaunchAccount, **more: Any) -> str:
    request = {
        "InstanceType": "m5.large",
        "InstancePlatform": "Linux/UNIX",
        "AvailabilityZone": A,
        "InstanceCount": 2,
        **more,
    }
    reservation_id = account.call("CreateCapacityReservation", **request)["CapacityReservation"]
    return str(reservation_id["CapacityReservationId"])


def reservation_ids(account: LaunchAccount, **params: Any) -> list[str]:
    response = account.call("DescribeCapacityReservations", **params)
    return [each["CapacityReservationId"] for each in response["CapacityReservations"]]


def launch_into(account: LaunchAccount, target: str, count: int = 1) -> list[str]:
    """Instances in the reservation."""
    name = f"to-{target}-{len(account.cloud.services.templates.state.templates)}"
    account.template_with_target(name, target)
    return launched_ids(account.fleet(account.config(("m5.large", A), template=name), count=count))


def test_a_new_reservation_is_open_and_active() -> None:
    account = LaunchAccount()
    reservation_id = create_reservation(
        account, TagSpecifications=tag_specifications("capacity-reservation", team="web")
    )
    view = account.reserved(reservation_id)
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
    assert {key: view[key] for key in expected} == expected
    assert tags_of(view) == {"team": "web"}
    assert "EndDate" not in view


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
def test_invalid_reservations_are_rejected(more: dict[str, Any], code: str) -> None:
    request = {
        "InstanceType": "m5.large",
        "InstancePlatform": "Linux/UNIX",
        "AvailabilityZone": A,
        "InstanceCount": 2,
    }
    account = LaunchAccount()
    assert account.refused("CreateCapacityReservation", **{**request, **more}) == (code, 400)
    assert reservation_ids(account) == []


def test_a_client_token_creates_one_reservation() -> None:
    account = LaunchAccount()
    assert create_reservation(account, ClientToken="a") == create_reservation(
        account, ClientToken="a"
    )
    request = {"ClientToken": "a", "InstanceCount": 3}
    with pytest.raises(Exception, match="IdempotentParameterMismatch"):
        create_reservation(account, **request)


def test_available_count_follows_launches_and_terminations() -> None:
    account = LaunchAccount(cloud_reservation(1, total=5, available=3))
    assert account.free(ONE) == 3
    first, second = launch_into(account, ONE, 2)
    assert account.free(ONE) == 1
    account.call("TerminateInstances", InstanceIds=[first])
    assert (account.state(first), account.free(ONE)) == ("shutting-down", 2)
    account.wait(7200)
    assert account.free(ONE) == 2
    assert account.reservation_of(second) == ONE
    assert account.reserved(ONE)["TotalInstanceCount"] == 5


def test_capacity_used_by_other_accounts_is_not_available() -> None:
    account = LaunchAccount(cloud_reservation(1, total=5, available=1, ownerID="444455556666"))
    assert account.reserved(ONE)["OwnerId"] == "444455556666"
    assert len(launch_into(account, ONE, 3)) == 1
    for operation in ("CancelCapacityReservation", "ModifyCapacityReservation"):
        refused = account.refused(operation, CapacityReservationId=ONE)
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
    account = LaunchAccount(
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
    assert reservation_ids(account, Filters=filters) == [f"cr-{number:08}" for number in expected]


def test_an_unknown_id_or_filter_is_an_error() -> None:
    account = LaunchAccount(cloud_reservation(1))
    wrong = {"CapacityReservationIds": [ONE, "cr-0123456789abcdef0"]}
    missing = ("InvalidCapacityReservationId.NotFound", 400)
    assert account.refused("DescribeCapacityReservations", **wrong) == missing
    filters = [ec2_filter("colour", "red")]
    refused = account.refused("DescribeCapacityReservations", Filters=filters)
    assert refused == ("InvalidParameterValue", 400)
    both = {"CapacityReservationIds": [ONE], "MaxResults": 10}
    assert (
        account.refused("DescribeCapacityReservations", **both)[0] == "InvalidParameterCombination"
    )
    single = {"CapacityReservationIds": [ONE], "Filters": [ec2_filter("state", "expired")]}
    assert reservation_ids(account, **single) == []


def test_long_lists_are_paginated() -> None:
    account = LaunchAccount(*(cloud_reservation(number) for number in range(7)))
    pages = account.pages("DescribeCapacityReservations", "CapacityReservations", MaxResults=3)
    assert [len(each) for each in pages] == [3, 3, 1]
    assert account.refused("DescribeCapacityReservations", MaxResults=1001)[0] == (
        "InvalidParameterValue"
    )


def test_instances_of_a_cancelled_reservation_keep_running() -> None:
    account = LaunchAccount()
    reservation_id = create_reservation(account, InstanceMatchCriteria="targeted")
    (instance_id,) = launch_into(account, reservation_id)
    assert account.reservation_of(instance_id) == reservation_id
    assert account.call("CancelCapacityReservation", CapacityReservationId=reservation_id) == {
        "Return": True
    }
    view = account.reserved(reservation_id)
    assert (view["State"], view["AvailableInstanceCount"]) == ("cancelled", 0)
    account.wait(60)
    assert (account.state(instance_id), account.reservation_of(instance_id)) == ("running", None)
    content = account.describe_instance(instance_id)["CapacityReservationSpecification"]
    assert content["CapacityReservationTarget"] == {"CapacityReservationId": reservation_id}
    assert launch_into(account, reservation_id) == []
    for operation in ("CancelCapacityReservation", "ModifyCapacityReservation"):
        refused = account.refused(operation, CapacityReservationId=reservation_id)
        assert refused == ("InvalidCapacityReservationState", 400)


def test_instances_of_an_expired_reservation_keep_running() -> None:
    account = LaunchAccount(cloud_reservation(1, endTime=iso_timestamp(EPOCH + 600)))
    (instance_id,) = launch_into(account, ONE)
    account.wait(599)
    assert (account.reserved(ONE)["State"], account.reservation_of(instance_id)) == ("active", ONE)
    account.wait(1)
    assert (account.reserved(ONE)["State"], account.reservation_of(instance_id)) == (
        "expired",
        None,
    )
    assert account.state(instance_id) == "running"
    assert account.describe(Filters=[ec2_filter("capacity-reservation-id", ONE)]) == []
    account.call("TerminateInstances", InstanceIds=[instance_id])
    assert account.free(ONE) == 0


def test_a_scheduled_reservation_becomes_active_at_its_start() -> None:
    account = LaunchAccount()
    reservation_id = create_reservation(account, StartDate=NOW + DAY, EndDate=NOW + 2 * DAY)
    (instance_id,) = account.launch()
    assert (account.reserved(reservation_id)["State"], account.reservation_of(instance_id)) == (
        "scheduled",
        None,
    )
    assert account.free(reservation_id) == 0
    account.wait(DAY.total_seconds())
    assert (account.reserved(reservation_id)["State"], account.reservation_of(instance_id)) == (
        "active",
        reservation_id,
    )
    account.wait(DAY.total_seconds())
    assert account.reserved(reservation_id)["State"] == "expired"


def modify_reservation(account: LaunchAccount, reservation_id: str, **params: Any) -> None:
    response = account.call(
        "ModifyCapacityReservation", CapacityReservationId=reservation_id, **params
    )
    assert response == {"Return": True}


def test_instance_count_and_end_date_can_be_modified() -> None:
    account = LaunchAccount()
    reservation_id = create_reservation(account, EndDate=NOW + DAY)
    account.launch(count=2)
    modify_reservation(account, reservation_id, InstanceCount=5)
    assert account.free(reservation_id) == 3
    modify_reservation(account, reservation_id, InstanceCount=2)
    assert account.free(reservation_id) == 0
    modify_reservation(account, reservation_id, EndDate=NOW + 3 * DAY)
    account.wait(DAY.total_seconds())
    assert account.reserved(reservation_id)["State"] == "active"
    modify_reservation(account, reservation_id, EndDateType="unlimited")
    account.wait(3 * DAY.total_seconds())
    view = account.reserved(reservation_id)
    assert (view["State"], view["EndDateType"]) == ("active", "unlimited")


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({"InstanceCount": 1}, "InvalidParameterValue"),
        ({"InstanceMatchCriteria": "targeted"}, "InvalidParameterCombination"),
        ({"EndDate": NOW - DAY}, "InvalidParameterValue"),
        ({"EndDateType": "limited"}, "InvalidParameterCombination"),
    ],
)
def test_modifications_that_conflict_with_running_instances_are_rejected(
    params: dict[str, Any], code: str
) -> None:
    account = LaunchAccount()
    reservation_id = create_reservation(account)
    account.launch(count=2)
    refused = account.refused(
        "ModifyCapacityReservation", CapacityReservationId=reservation_id, **params
    )
    assert refused == (code, 400)
    assert account.reserved(reservation_id)["TotalInstanceCount"] == 2


def test_an_idle_reservation_made_open_adopts_running_instances() -> None:
    account = LaunchAccount()
    reservation_id = create_reservation(account, InstanceMatchCriteria="targeted")
    (instance_id,) = account.launch()
    modify_reservation(account, reservation_id, InstanceMatchCriteria="open")
    assert account.reservation_of(instance_id) == reservation_id


def test_a_capacity_block_can_be_neither_modified_nor_cancelled() -> None:
    account = LaunchAccount(
        cloud_reservation(1, reservationType="capacity-block", endTime=iso_timestamp(EPOCH + 9999))
    )
    for operation in ("CancelCapacityReservation", "ModifyCapacityReservation"):
        refused = account.refused(operation, CapacityReservationId=ONE)
        assert refused == ("UnsupportedOperation", 400)


def attach(account: LaunchAccount, instance: str, **specification: Any) -> None:
    account.call(
        "ModifyInstanceCapacityReservationAttributes",
        InstanceId=instance,
        CapacityReservationSpecification=specification,
    )


def target(identity: str) -> dict[str, Any]:
    return {"CapacityReservationTarget": {"CapacityReservationId": identity}}


def test_an_open_reservation_adopts_running_instances() -> None:
    account = LaunchAccount()
    first, second, third = account.launch(count=3)
    (other,) = account.launch("c5.large")
    reservation_id = create_reservation(account)
    assert [account.reservation_of(each) for each in (first, second, third, other)] == [
        reservation_id,
        reservation_id,
        None,
        None,
    ]
    assert account.free(reservation_id) == 0


@pytest.mark.parametrize(
    ("more", "inside"),
    [({}, None), ({"InstanceMatchCriteria": "targeted"}, None)],
)
def test_instances_that_exclude_reservations_are_not_adopted(
    more: dict[str, Any], inside: str | None
) -> None:
    account = LaunchAccount()
    name = account.template_with_target("loner", None, "none")
    (loner,) = launched_ids(account.fleet(account.config(("m5.large", A), template=name)))
    create_reservation(account, **more)
    assert account.reservation_of(loner) == inside


def test_a_running_instance_can_be_moved_into_and_out_of_a_reservation() -> None:
    account = LaunchAccount(cloud_reservation(1, total=1), cloud_reservation(2, total=1))
    first, second = account.launch(count=2)
    account.wait(10)
    attach(account, first, **target(ONE))
    assert (account.reservation_of(first), account.free(ONE)) == (ONE, 0)
    attach(account, first, **target(ONE))
    assert account.free(ONE) == 0
    refused = account.refused(
        "ModifyInstanceCapacityReservationAttributes",
        InstanceId=second,
        CapacityReservationSpecification=target(ONE),
    )
    assert refused == ("ReservationCapacityExceeded", 400)
    content = account.describe_instance(second)["CapacityReservationSpecification"]
    assert content == {"CapacityReservationPreference": "open"}
    attach(account, first, **target("cr-00000002"))
    assert (account.reservation_of(first), account.free(ONE)) == ("cr-00000002", 1)
    attach(account, first, CapacityReservationPreference="none")
    assert (account.reservation_of(first), account.free("cr-00000002")) == (None, 1)
    content = account.describe_instance(first)["CapacityReservationSpecification"]
    assert content == {"CapacityReservationPreference": "none"}


def test_a_running_instance_can_be_moved_into_an_open_reservation() -> None:
    account = LaunchAccount(cloud_reservation(1, total=1, **OPEN_RESERVATION))
    name = account.template_with_target("loner", None, "none")
    config = account.config(("m5.large", A), template=name)
    first, second = launched_ids(account.fleet(config, count=2))
    account.wait(10)
    attach(account, first, CapacityReservationPreference="open")
    assert account.reservation_of(first) == ONE
    attach(account, second, CapacityReservationPreference="open")
    assert account.reservation_of(second) is None
    refused = account.refused(
        "ModifyInstanceCapacityReservationAttributes",
        InstanceId=second,
        CapacityReservationSpecification={
            "CapacityReservationPreference": "capacity-reservations-only"
        },
    )
    assert refused == ("ReservationCapacityExceeded", 400)


def test_leaving_a_reservation_needs_on_demand_capacity() -> None:
    account = LaunchAccount(
        cloud_reservation(1),
        settings=EmulatorSettings(capacity_rules=(capacity_rule(1, "m5.large", A),)),
    )
    first, second = launch_into(account, ONE, 2)
    account.wait(10)
    attach(account, first, CapacityReservationPreference="none")
    refused = account.refused(
        "ModifyInstanceCapacityReservationAttributes",
        InstanceId=second,
        CapacityReservationSpecification={"CapacityReservationPreference": "none"},
    )
    assert refused == ("InsufficientInstanceCapacity", 400)
    assert (account.reservation_of(second), account.free(ONE)) == (ONE, 1)


def test_instances_that_cannot_be_moved_into_a_reservation() -> None:
    account = LaunchAccount(cloud_reservation(1))
    (spot,) = account.launch(capacity_type="spot")
    (plain,) = account.launch()

    def refused(instance: str, **specification: Any) -> str:
        code, _ = account.refused(
            "ModifyInstanceCapacityReservationAttributes",
            InstanceId=instance,
            CapacityReservationSpecification=specification,
        )
        return code

    assert refused(plain, **target(ONE)) == "IncorrectInstanceState"  # not running yet
    account.wait(10)
    assert refused(spot, **target(ONE)) == "IncorrectInstanceState"
    both = {"CapacityReservationPreference": "none", **target(ONE)}
    assert refused(plain, **both) == "InvalidParameterCombination"
    deleted = target("cr-0123456789abcdef0")
    assert refused(plain, **deleted) == "InvalidCapacityReservationId.NotFound"
    assert refused("i-0123456789abcdef0", **target(ONE)) == "InvalidInstanceID.NotFound"


def test_a_reservation_takes_capacity_and_releases_it_when_it_ends() -> None:
    account = LaunchAccount(
        settings=EmulatorSettings(capacity_rules=(capacity_rule(3, "m5.large", A),))
    )
    reservation_id = create_reservation(account, InstanceCount=2, InstanceMatchCriteria="targeted")
    with pytest.raises(Exception, match="InsufficientInstanceCapacity"):
        create_reservation(account, InstanceCount=2)
    account.launch()
    assert launch_error_codes(account.fleet(account.config(("m5.large", A)))) == {
        "InsufficientInstanceCapacity"
    }
    (inside,) = launch_into(account, reservation_id)
    account.call("CancelCapacityReservation", CapacityReservationId=reservation_id)
    (last,) = account.launch()
    assert launch_error_codes(account.fleet(account.config(("m5.large", A)))) == {
        "InsufficientInstanceCapacity"
    }
    account.call("TerminateInstances", InstanceIds=[inside, last])
    account.launch(count=2)


def test_a_reservation_that_shrinks_gives_capacity_back_to_the_market() -> None:
    account = LaunchAccount(
        settings=EmulatorSettings(capacity_rules=(capacity_rule(3, "m5.large", A),))
    )
    reservation_id = create_reservation(account, InstanceCount=3, InstanceMatchCriteria="targeted")
    modify_reservation(account, reservation_id, InstanceCount=1)
    account.launch(count=2)
    assert launch_error_codes(account.fleet(account.config(("m5.large", A)))) == {
        "InsufficientInstanceCapacity"
    }


def test_a_cancelled_reservation_does_not_end_once_more_when_its_time_is_over() -> None:
    account = LaunchAccount(
        settings=EmulatorSettings(capacity_rules=(capacity_rule(2, "m5.large", A),))
    )
    reservation_id = create_reservation(account, InstanceCount=2, EndDate=NOW + DAY)
    account.call("CancelCapacityReservation", CapacityReservationId=reservation_id)
    account.wait(2 * DAY.total_seconds())
    assert account.reserved(reservation_id)["State"] == "cancelled"
    account.launch(count=2)
    assert launch_error_codes(account.fleet(account.config(("m5.large", A)))) == {
        "InsufficientInstanceCapacity"
    }


def test_instances_of_an_ended_reservation_are_not_counted_in_it() -> None:
    account = LaunchAccount()
    reservation_id = create_reservation(account)
    account.launch()
    account.call("CancelCapacityReservation", CapacityReservationId=reservation_id)
    kept = account.cloud.services.reservations.state.reservations[reservation_id]
    assert kept.used == 0


def test_a_named_reservation_takes_no_instance_of_another_zone() -> None:
    account = LaunchAccount()
    reservation_id = create_reservation(account, InstanceMatchCriteria="targeted")
    name = account.template_with_target("elsewhere", reservation_id)
    response = account.fleet(account.config(("m5.large", B), template=name))
    assert launch_error_codes(response) == {"ReservationCapacityExceeded"}
    assert account.free(reservation_id) == 2


def patch_reservation(account: LaunchAccount, **more: Any) -> None:
    entry = {"id": ONE, "instanceType": "m5.large", "availabilityZone": A, "total": 2, **more}
    account.cloud.change({"capacityReservations": [entry]})


def test_reservations_of_the_cloud_can_change_at_runtime() -> None:
    account = LaunchAccount(cloud_reservation(1, total=4))
    first, second, third = launch_into(account, ONE, 3)
    patch_reservation(account, total=6, available=1)
    assert (account.free(ONE), account.reserved(ONE)["TotalInstanceCount"]) == (1, 6)
    patch_reservation(account, total=2)
    assert [account.reservation_of(each) for each in (first, second, third)] == [ONE, ONE, None]
    assert account.free(ONE) == 0
    patch_reservation(account, state="cancelled")
    assert {account.reservation_of(each) for each in (first, second, third)} == {None}
    patch_reservation(account, instanceMatchCriteria="open")
    assert account.reserved(ONE)["State"] == "active"
    patch_reservation(account, endTime=iso_timestamp(EPOCH + 60))
    account.wait(61)
    assert account.reserved(ONE)["State"] == "expired"


def test_instances_beyond_the_new_total_of_a_reservation_are_no_longer_counted_in_it() -> None:
    account = LaunchAccount(cloud_reservation(1, total=3))
    first, *_ = launch_into(account, ONE, 3)
    patch_reservation(account, total=2)
    account.call("TerminateInstances", InstanceIds=[first])
    assert account.free(ONE) == 1


def test_reservations_can_be_added_at_runtime() -> None:
    account = LaunchAccount()
    (instance_id,) = account.launch()
    patch_reservation(account, **OPEN_RESERVATION)
    assert account.reservation_of(instance_id) == ONE


def test_the_end_of_interruptible_capacity_terminates_its_instances() -> None:
    account = LaunchAccount(
        cloud_reservation(1, interruptible=True, endTime=iso_timestamp(EPOCH + 600))
    )
    name = account.template(
        "on-call",
        CapacityReservationSpecification=target(ONE),
        InstanceMarketOptions={"MarketType": "interruptible-capacity-reservation"},
    )
    response = account.fleet(
        account.config(("m5.large", A), template=name),
        capacity_type="reserved-capacity",
        ReservedCapacityOptions={"ReservationTypes": ["interruptible-capacity-reservation"]},
    )
    (instance_id,) = launched_ids(response)
    account.wait(600)
    assert account.state(instance_id) == "shutting-down"
