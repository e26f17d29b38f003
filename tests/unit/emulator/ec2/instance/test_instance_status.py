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
def yard() -> LaunchAccount:
    return LaunchAccount()


def found(yard: LaunchAccount, *filters: dict[str, Any], **params: Any) -> list[str]:
    answer = yard.ask("DescribeInstanceStatus", Filters=list(filters), **params)
    return ids_of(answer["InstanceStatuses"])


def test_a_healthy_machine_is_shown_as_such(yard: LaunchAccount) -> None:
    (machine,) = yard.launch()
    yard.wait(10)
    (shown,) = yard.ask("DescribeInstanceStatus", InstanceIds=[machine])["InstanceStatuses"]
    assert shown["InstanceState"]["Name"] == "running"
    assert (shown["AvailabilityZone"], shown["Events"]) == (A, [])
    passed = {"Status": "ok", "Details": [{"Name": "reachability", "Status": "passed"}]}
    for check in ("InstanceStatus", "SystemStatus", "AttachedEbsStatus"):
        assert shown[check] == passed


def test_only_running_machines_unless_all_are_asked_for(yard: LaunchAccount) -> None:
    (machine,) = yard.launch()
    assert found(yard) == []
    assert found(yard, IncludeAllInstances=True) == [machine]
    answer = yard.ask("DescribeInstanceStatus", IncludeAllInstances=True)
    assert answer["InstanceStatuses"][0]["SystemStatus"] == {"Status": "not-applicable"}
    assert found(yard, ec2_filter("instance-state-name", "pending"), IncludeAllInstances=True) == [
        machine
    ]


@pytest.mark.parametrize(
    ("check", "name", "field"),
    [
        (StatusCheck.INSTANCE, "instance-status", "InstanceStatus"),
        (StatusCheck.SYSTEM, "system-status", "SystemStatus"),
        (StatusCheck.EBS, "attached-ebs-status", "AttachedEbsStatus"),
    ],
)
def test_failing_checks_are_found_by_filter(
    yard: LaunchAccount, check: StatusCheck, name: str, field: str
) -> None:
    healthy, sick = yard.launch(count=2)
    yard.wait(10)
    assert found(yard, ec2_filter(f"{name}.status", IMPAIRED)) == []
    yard.cloud.services.interruptions.impair(sick, check)
    yard.wait(60)
    assert found(yard, ec2_filter(f"{name}.status", IMPAIRED)) == [sick]
    assert found(yard, ec2_filter(f"{name}.status", "ok")) == [healthy]
    (shown,) = yard.ask("DescribeInstanceStatus", InstanceIds=[sick])["InstanceStatuses"]
    (detail,) = shown[field]["Details"]
    assert (shown[field]["Status"], detail["Status"]) == (IMPAIRED, "failed")
    assert detail["ImpairedSince"].timestamp() == yard.clock.now() - 60
    yard.cloud.services.interruptions.clear_impairment(sick)
    assert found(yard, ec2_filter(f"{name}.status", IMPAIRED)) == []


def test_scheduled_events_are_found_by_their_code(yard: LaunchAccount) -> None:
    plain, struck = yard.launch(count=2)
    yard.wait(10)
    starts = yard.clock.now() + 3600
    yard.cloud.services.interruptions.schedule_change(
        struck, ScheduledEventCode.SYSTEM_REBOOT, starts=starts
    )
    codes = [each.value for each in ScheduledEventCode]
    assert found(yard, ec2_filter("event.code", *codes)) == [struck]
    assert found(yard, ec2_filter("event.code", "instance-stop")) == []
    shown = yard.ask("DescribeInstanceStatus", InstanceIds=[plain, struck])["InstanceStatuses"]
    assert [len(each["Events"]) for each in shown] == [0, 1]
    (event,) = shown[1]["Events"]
    assert (event["Code"], event["NotBefore"].timestamp()) == ("system-reboot", starts)


def test_zones_unknown_filters_and_pages(yard: LaunchAccount) -> None:
    first = yard.launch(count=6)
    (second,) = yard.launch(zone=B)
    yard.wait(10)
    assert found(yard, ec2_filter("availability-zone", B)) == [second]
    pages = yard.pages("DescribeInstanceStatus", "InstanceStatuses", MaxResults=5)
    assert [ids_of(page) for page in pages] == [first[:5], [first[5], second]]
    refused = yard.refused("DescribeInstanceStatus", Filters=[ec2_filter("mood", "bad")])
    assert refused == ("InvalidParameterValue", 400)
    gone = yard.refused("DescribeInstanceStatus", InstanceIds=["i-0123456789abcdef0"])
    assert gone == ("InvalidInstanceID.NotFound", 400)


UNKNOWN = "fleet-00000000-0000-0000-0000-000000000000"


def test_a_fleet_shows_what_was_asked_for_and_what_came_of_it() -> None:
    yard = LaunchAccount()
    yard.cloud.change({"unavailable": [{"instanceType": "c5.large", "zone": A}]})
    config = yard.config(("c5.large", A), ("m5.large", A))
    answer = yard.fleet(
        config,
        count=2,
        ClientToken="mine",
        TagSpecifications=tag_specifications("fleet", team="web"),
    )
    (fleet,) = yard.ask("DescribeFleets", FleetIds=[answer["FleetId"]])["Fleets"]
    assert (fleet["Instances"], fleet["Errors"]) == (answer["Instances"], answer["Errors"])
    assert (fleet["Type"], fleet["FleetState"], fleet["ClientToken"]) == (
        "instant",
        "active",
        "mine",
    )
    assert (fleet["FulfilledCapacity"], fleet["FulfilledOnDemandCapacity"]) == (2, 2)
    assert fleet["TargetCapacitySpecification"]["TotalTargetCapacity"] == 2
    assert fleet["Tags"] == [{"Key": "team", "Value": "web"}]
    assert fleet["CreateTime"].timestamp() == EPOCH


def test_a_fleet_is_found_by_its_id_and_not_for_ever() -> None:
    yard = LaunchAccount()
    answer = yard.fleet(yard.config(("m5.large", A)))
    assert yard.ask("DescribeFleets")["Fleets"] == []
    assert yard.refused("DescribeFleets", FleetIds=[UNKNOWN])[0] == "InvalidFleetId.NotFound"
    yard.cloud = EmulatedAwsAccount.load(yard.cloud.save(), clock=yard.clock)
    assert len(yard.ask("DescribeFleets", FleetIds=[answer["FleetId"]])["Fleets"]) == 1
    yard.wait(3600)
    lost = yard.refused("DescribeFleets", FleetIds=[answer["FleetId"]])
    assert lost == ("InvalidFleetId.NotFound", 400)


def test_every_spot_machine_has_a_request() -> None:
    yard = LaunchAccount()
    yard.launch("m5.large", A)
    (machine,) = yard.launch("c5.large", B, market="spot")
    (row,) = yard.ask("DescribeSpotInstanceRequests")["SpotInstanceRequests"]
    assert row["SpotInstanceRequestId"] == yard.machine(machine)["SpotInstanceRequestId"]
    assert (row["InstanceId"], row["State"], row["Status"]["Code"]) == (
        machine,
        "active",
        "fulfilled",
    )
    assert (row["LaunchedAvailabilityZone"], float(row["SpotPrice"])) == (B, 0.085)


@pytest.mark.parametrize(
    ("taken", "code"),
    [(True, "instance-terminated-no-capacity"), (False, "instance-terminated-by-user")],
)
def test_a_request_says_how_its_machine_ended(taken: bool, code: str) -> None:
    yard = LaunchAccount()
    config = yard.config(("m5.large", A))
    first, second = launched_ids(yard.fleet(config, count=2, market="spot"))
    if taken:
        yard.cloud.change({"interruptions": [{"instance": first, "kind": "spot"}]})
        yard.wait(121)
    else:
        yard.ask("TerminateInstances", InstanceIds=[first])
    for state, expected in (("closed", first), ("active", second)):
        answer = yard.ask("DescribeSpotInstanceRequests", Filters=[ec2_filter("state", state)])
        assert [each["InstanceId"] for each in answer["SpotInstanceRequests"]] == [expected]
    (row,) = yard.ask("DescribeSpotInstanceRequests", Filters=[ec2_filter("instance-id", first)])[
        "SpotInstanceRequests"
    ]
    assert row["Status"]["Code"] == code


def test_an_unknown_request_is_not_found() -> None:
    yard = LaunchAccount()
    found = yard.refused("DescribeSpotInstanceRequests", SpotInstanceRequestIds=["sir-0123456789"])
    assert found == ("InvalidSpotInstanceRequestID.NotFound", 400)
