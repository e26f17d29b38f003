"""DescribeInstanceStatus, DescribeFleets and DescribeSpotInstanceRequests."""

from typing import Any

import pytest
from tests.support.emulator_launches import (
    A,
    B,
    LaunchAccount,
    ec2_filter,
    ids_of,
    launched_ids,
    tag_specifications,
)

from wainwright.clock import EPOCH
from wainwright.emulator.ec2.instance.interruptions import ScheduledEventCode, StatusCheck
from wainwright.emulator.emulated_account import EmulatedAwsAccount

IMPAIRED = "impaired"


@pytest.fixture
def account() -> LaunchAccount:
    return LaunchAccount()


def found(account: LaunchAccount, *filters: dict[str, Any], **params: Any) -> list[str]:
    response = account.call("DescribeInstanceStatus", Filters=list(filters), **params)
    return ids_of(response["InstanceStatuses"])


def test_a_healthy_instance_passes_all_checks(account: LaunchAccount) -> None:
    (instance,) = account.launch()
    account.wait(10)
    (shown,) = account.call("DescribeInstanceStatus", InstanceIds=[instance])["InstanceStatuses"]
    assert shown["InstanceState"]["Name"] == "running"
    assert (shown["AvailabilityZone"], shown["Events"]) == (A, [])
    passed = {"Status": "ok", "Details": [{"Name": "reachability", "Status": "passed"}]}
    for check in ("InstanceStatus", "SystemStatus", "AttachedEbsStatus"):
        assert shown[check] == passed


def test_only_running_instances_by_default(account: LaunchAccount) -> None:
    (instance,) = account.launch()
    assert found(account) == []
    assert found(account, IncludeAllInstances=True) == [instance]
    response = account.call("DescribeInstanceStatus", IncludeAllInstances=True)
    assert response["InstanceStatuses"][0]["SystemStatus"] == {"Status": "not-applicable"}
    assert found(
        account, ec2_filter("instance-state-name", "pending"), IncludeAllInstances=True
    ) == [instance]


@pytest.mark.parametrize(
    ("check", "name", "field"),
    [
        (StatusCheck.INSTANCE, "instance-status", "InstanceStatus"),
        (StatusCheck.SYSTEM, "system-status", "SystemStatus"),
        (StatusCheck.EBS, "attached-ebs-status", "AttachedEbsStatus"),
    ],
)
def test_failing_checks_are_found_by_filter(
    account: LaunchAccount, check: StatusCheck, name: str, field: str
) -> None:
    healthy, sick = account.launch(count=2)
    account.wait(10)
    assert found(account, ec2_filter(f"{name}.status", IMPAIRED)) == []
    account.cloud.services.interruptions.impair(sick, check)
    account.wait(60)
    assert found(account, ec2_filter(f"{name}.status", IMPAIRED)) == [sick]
    assert found(account, ec2_filter(f"{name}.status", "ok")) == [healthy]
    (shown,) = account.call("DescribeInstanceStatus", InstanceIds=[sick])["InstanceStatuses"]
    (detail,) = shown[field]["Details"]
    assert (shown[field]["Status"], detail["Status"]) == (IMPAIRED, "failed")
    assert detail["ImpairedSince"].timestamp() == account.clock.now() - 60
    account.cloud.services.interruptions.clear_impairment(sick)
    assert found(account, ec2_filter(f"{name}.status", IMPAIRED)) == []


def test_scheduled_events_are_found_by_their_code(account: LaunchAccount) -> None:
    plain, hits = account.launch(count=2)
    account.wait(10)
    starts = account.clock.now() + 3600
    account.cloud.services.interruptions.schedule_change(
        hits, ScheduledEventCode.SYSTEM_REBOOT, starts=starts
    )
    codes = [each.value for each in ScheduledEventCode]
    assert found(account, ec2_filter("event.code", *codes)) == [hits]
    assert found(account, ec2_filter("event.code", "instance-stop")) == []
    shown = account.call("DescribeInstanceStatus", InstanceIds=[plain, hits])["InstanceStatuses"]
    assert [len(each["Events"]) for each in shown] == [0, 1]
    (event,) = shown[1]["Events"]
    assert (event["Code"], event["NotBefore"].timestamp()) == ("system-reboot", starts)


def test_zones_unknown_filters_and_pages(account: LaunchAccount) -> None:
    first = account.launch(count=6)
    (second,) = account.launch(zone=B)
    account.wait(10)
    assert found(account, ec2_filter("availability-zone", B)) == [second]
    pages = account.pages("DescribeInstanceStatus", "InstanceStatuses", MaxResults=5)
    assert [ids_of(page) for page in pages] == [first[:5], [first[5], second]]
    refused = account.refused("DescribeInstanceStatus", Filters=[ec2_filter("mood", "bad")])
    assert refused == ("InvalidParameterValue", 400)
    deleted = account.refused("DescribeInstanceStatus", InstanceIds=["i-0123456789abcdef0"])
    assert deleted == ("InvalidInstanceID.NotFound", 400)


UNKNOWN = "fleet-00000000-0000-0000-0000-000000000000"


def test_describe_fleets_returns_request_and_result() -> None:
    account = LaunchAccount()
    account.cloud.change({"unavailable": [{"instanceType": "c5.large", "zone": A}]})
    config = account.config(("c5.large", A), ("m5.large", A))
    response = account.fleet(
        config,
        count=2,
        ClientToken="mine",
        TagSpecifications=tag_specifications("fleet", team="web"),
    )
    (fleet,) = account.call("DescribeFleets", FleetIds=[response["FleetId"]])["Fleets"]
    assert (fleet["Instances"], fleet["Errors"]) == (response["Instances"], response["Errors"])
    assert (fleet["Type"], fleet["FleetState"], fleet["ClientToken"]) == (
        "instant",
        "active",
        "mine",
    )
    assert (fleet["FulfilledCapacity"], fleet["FulfilledOnDemandCapacity"]) == (2, 2)
    assert fleet["TargetCapacitySpecification"]["TotalTargetCapacity"] == 2
    assert fleet["Tags"] == [{"Key": "team", "Value": "web"}]
    assert fleet["CreateTime"].timestamp() == EPOCH


def test_a_fleet_is_described_by_id_for_an_hour() -> None:
    account = LaunchAccount()
    response = account.fleet(account.config(("m5.large", A)))
    assert account.call("DescribeFleets")["Fleets"] == []
    assert account.refused("DescribeFleets", FleetIds=[UNKNOWN])[0] == "InvalidFleetId.NotFound"
    account.cloud = EmulatedAwsAccount.load(account.cloud.save(), clock=account.clock)
    assert len(account.call("DescribeFleets", FleetIds=[response["FleetId"]])["Fleets"]) == 1
    account.wait(3600)
    lost = account.refused("DescribeFleets", FleetIds=[response["FleetId"]])
    assert lost == ("InvalidFleetId.NotFound", 400)


def test_every_spot_instance_has_a_spot_request() -> None:
    account = LaunchAccount()
    account.launch("m5.large", A)
    (instance,) = account.launch("c5.large", B, capacity_type="spot")
    (row,) = account.call("DescribeSpotInstanceRequests")["SpotInstanceRequests"]
    assert (
        row["SpotInstanceRequestId"] == account.describe_instance(instance)["SpotInstanceRequestId"]
    )
    assert (row["InstanceId"], row["State"], row["Status"]["Code"]) == (
        instance,
        "active",
        "fulfilled",
    )
    assert (row["LaunchedAvailabilityZone"], float(row["SpotPrice"])) == (B, 0.085)


@pytest.mark.parametrize(
    ("taken", "code"),
    [(True, "instance-terminated-no-capacity"), (False, "instance-terminated-by-user")],
)
def test_a_spot_request_shows_why_its_instance_ended(taken: bool, code: str) -> None:
    account = LaunchAccount()
    config = account.config(("m5.large", A))
    first, second = launched_ids(account.fleet(config, count=2, capacity_type="spot"))
    if taken:
        account.cloud.change({"interruptions": [{"instance": first, "kind": "spot"}]})
        account.wait(121)
    else:
        account.call("TerminateInstances", InstanceIds=[first])
    for state, expected in (("closed", first), ("active", second)):
        response = account.call(
            "DescribeSpotInstanceRequests", Filters=[ec2_filter("state", state)]
        )
        assert [each["InstanceId"] for each in response["SpotInstanceRequests"]] == [expected]
    (row,) = account.call(
        "DescribeSpotInstanceRequests", Filters=[ec2_filter("instance-id", first)]
    )["SpotInstanceRequests"]
    assert row["Status"]["Code"] == code


def test_an_unknown_spot_request_is_not_found() -> None:
    account = LaunchAccount()
    found = account.refused(
        "DescribeSpotInstanceRequests", SpotInstanceRequestIds=["sir-0123456789"]
    )
    assert found == ("InvalidSpotInstanceRequestID.NotFound", 400)
