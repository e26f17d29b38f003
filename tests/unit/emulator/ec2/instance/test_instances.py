"""Instances: their states over time, and how they are found and described."""

from base64 import b64decode
from typing import Any

import pytest
from tests.support.emulator_accounts import ManualClock
from tests.support.emulator_launches import (
    USER_DATA,
    A,
    B,
    LaunchAccount,
    cloud_reservation,
    ec2_filter,
    ids_of,
    launched_ids,
    tag_specifications,
    tags_of,
)

from wainwright.emulator.ec2.instance.lifecycle import DelayDistribution, InstanceTimings
from wainwright.emulator.emulated_account import EmulatedAwsAccount
from wainwright.emulator.settings import EmulatorSettings

LIVE = ec2_filter(
    "instance-state-name", "pending", "running", "stopping", "stopped", "shutting-down"
)


@pytest.fixture
def account() -> LaunchAccount:
    return LaunchAccount()


def with_timings(**timings: Any) -> LaunchAccount:
    return LaunchAccount(settings=EmulatorSettings(timings=InstanceTimings(**timings)))


def test_an_instance_runs_ends_and_is_removed_after_an_hour() -> None:
    account = with_timings(
        boot=DelayDistribution(median=30.0), shutdown=DelayDistribution(median=10.0)
    )
    (found,) = account.launch()
    seen = []
    for seconds in (0, 29, 1):
        account.wait(seconds)
        seen.append(account.state(found))
    assert seen == ["pending", "pending", "running"]
    response = account.call("TerminateInstances", InstanceIds=[found])
    (entry,) = response["TerminatingInstances"]
    assert entry["CurrentState"] == {"Code": 32, "Name": "shutting-down"}
    assert entry["PreviousState"] == {"Code": 16, "Name": "running"}
    assert account.state(found) == "shutting-down"
    account.wait(10)
    assert account.state(found) == "terminated"
    account.wait(3599)
    assert account.state(found) == "terminated"
    account.wait(1)
    assert account.refused("DescribeInstances", InstanceIds=[found]) == (
        "InvalidInstanceID.NotFound",
        400,
    )
    assert account.describe() == []
    assert account.cloud.services.instances.state.specifications == {}


def test_an_instance_terminated_while_pending_never_runs() -> None:
    account = with_timings(
        boot=DelayDistribution(median=30.0), shutdown=DelayDistribution(median=60.0)
    )
    (found,) = account.launch()
    account.call("TerminateInstances", InstanceIds=[found])
    account.wait(31)
    assert account.state(found) == "shutting-down"
    response = account.call("TerminateInstances", InstanceIds=[found, found])
    (entry,) = response["TerminatingInstances"]
    assert entry["PreviousState"]["Name"] == entry["CurrentState"]["Name"] == "shutting-down"


def test_a_terminated_instance_has_no_network_interfaces(account: LaunchAccount) -> None:
    (found,) = account.launch()
    subnet = {"SubnetIds": [account.subnets[A]]}
    (before,) = account.call("DescribeSubnets", **subnet)["Subnets"]
    account.call("TerminateInstances", InstanceIds=[found])
    account.wait(60)
    view = account.describe_instance(found)
    assert view["NetworkInterfaces"] == view["SecurityGroups"] == []
    assert not {"SubnetId", "VpcId", "PrivateIpAddress"} & view.keys()
    assert view["StateReason"]["Code"] == "Client.UserInitiatedShutdown"
    assert account.describe(Filters=[ec2_filter("subnet-id", account.subnets[A])]) == []
    (after,) = account.call("DescribeSubnets", **subnet)["Subnets"]
    assert after["AvailableIpAddressCount"] == before["AvailableIpAddressCount"] + 1


def test_boot_times_are_random_and_reproducible_by_seed() -> None:
    def when(seed: int) -> list[float]:
        pace = InstanceTimings(boot=DelayDistribution(median=60.0, spread=0.5))
        account = LaunchAccount(settings=EmulatorSettings(timings=pace), seed=seed)
        account.launch(count=20)
        known = account.cloud.context.pending_events
        return [each.due - account.clock.now() for each in known if "running" in each.kind]

    first = when(1)
    assert first == when(1) != when(2)
    assert len(set(first)) == 20
    assert 20 < min(first) < 60 < max(first) < 200


def test_a_configured_share_of_instances_never_joins() -> None:
    account = with_timings(never_join_rate=0.25)
    account.launch(count=200)
    instances = account.cloud.services.instances.state.instances.values()
    assert 25 < sum(not each.joins_cluster for each in instances) < 80


def test_a_new_instance_may_be_invisible_at_first() -> None:
    account = with_timings(visibility_delay=DelayDistribution(median=5.0))
    (found,) = account.launch()
    missing = ("InvalidInstanceID.NotFound", 400)
    assert account.refused("DescribeInstances", InstanceIds=[found]) == missing
    assert account.refused("TerminateInstances", InstanceIds=[found]) == missing
    assert account.describe() == []
    account.wait(5)
    assert ids_of(account.describe()) == [found]
    assert account.state(found) == "running"


def scene() -> tuple[LaunchAccount, dict[str, str]]:
    """One instance of each kind."""
    account = LaunchAccount(cloud_reservation(1, "m5.xlarge", B, instanceMatchCriteria="open"))
    teams = tag_specifications("instance", team="web", Name="first")
    names = {
        "plain": account.launch(TagSpecifications=teams)[0],
        "spot": account.launch("c5.large", B, capacity_type="spot")[0],
        "reserved": account.launch("m5.xlarge", B)[0],
        "ended": account.launch()[0],
    }
    account.wait(10)
    account.call("TerminateInstances", InstanceIds=[names["ended"]])
    return account, names


@pytest.mark.parametrize(
    ("attribute", "field", "expected"),
    [
        ("userData", "UserData", {"Value": USER_DATA}),
        ("instanceType", "InstanceType", {"Value": "m5.large"}),
        ("rootDeviceName", "RootDeviceName", {"Value": "/dev/xvda"}),
        ("disableApiTermination", "DisableApiTermination", {"Value": False}),
    ],
)
def test_attributes(account: LaunchAccount, attribute: str, field: str, expected: Any) -> None:
    (found,) = account.launch()
    response = account.call("DescribeInstanceAttribute", InstanceId=found, Attribute=attribute)
    assert response == {"InstanceId": found, field: expected}


def test_user_data_is_that_of_the_template(account: LaunchAccount) -> None:
    (found,) = account.launch()
    response = account.call("DescribeInstanceAttribute", InstanceId=found, Attribute="userData")
    assert b64decode(response["UserData"]["Value"]) == b"#!/bin/bash"
    bare = account.template("bare", UserData="")
    (without,) = launched_ids(account.fleet(account.config(("m5.large", A), template=bare)))
    response = account.call("DescribeInstanceAttribute", InstanceId=without, Attribute="userData")
    assert response["UserData"] == {}
    refused = account.refused("DescribeInstanceAttribute", InstanceId=found, Attribute="kernel")
    assert refused == ("InvalidParameterValue", 400)


def test_instances_with_several_interfaces_take_several_addresses(account: LaunchAccount) -> None:
    group = [account.group]
    name = account.template(
        "wide",
        NetworkInterfaces=[
            {"DeviceIndex": 0, "Groups": group},
            {"DeviceIndex": 1, "NetworkCardIndex": 1, "InterfaceType": "efa", "Groups": group},
        ],
    )
    response = account.fleet(account.config(("m5.large", A), template=name))
    (view,) = account.describe(*launched_ids(response))
    kinds = [each["InterfaceType"] for each in view["NetworkInterfaces"]]
    assert kinds == ["interface", "efa"]
    (subnet,) = account.call("DescribeSubnets", SubnetIds=[account.subnets[A]])["Subnets"]
    taken = subnet["AvailableIpAddressCount"]
    account.call("TerminateInstances", InstanceIds=launched_ids(response))
    account.wait(60)
    (subnet,) = account.call("DescribeSubnets", SubnetIds=[account.subnets[A]])["Subnets"]
    assert subnet["AvailableIpAddressCount"] == taken + 2


def test_instances_continue_after_saving_and_loading() -> None:
    account, names = scene()
    (late,) = account.launch(ClientToken="once")
    clock = ManualClock(account.clock.now())
    again = EmulatedAwsAccount.load(account.cloud.save(), clock=clock)
    params: dict[str, Any] = {"Filters": [LIVE]}
    assert again.answer("ec2", "DescribeInstances", params) == account.call(
        "DescribeInstances", **params
    )
    clock.time += 60
    shown = again.answer("ec2", "DescribeInstances", {"InstanceIds": [late, names["ended"]]})
    states = [each["State"]["Name"] for run in shown["Reservations"] for each in run["Instances"]]
    assert states == ["terminated", "running"]
    request = account.request(account.config(("m5.large", A)), ClientToken="once")
    assert launched_ids(again.answer("ec2", "CreateFleet", request)) == [late]
    fresh = launched_ids(again.answer("ec2", "CreateFleet", {**request, "ClientToken": "twice"}))
    shown = again.answer("ec2", "DescribeInstances", {"Filters": [LIVE]})
    instances = [each for run in shown["Reservations"] for each in run["Instances"]]
    assert fresh[0] in ids_of(instances)
    addresses = [each["PrivateIpAddress"] for each in instances]
    assert len(set(addresses)) == len(addresses)


def test_listeners_are_called_for_every_state_change(account: LaunchAccount) -> None:
    steps: list[tuple[str, str]] = []
    account.cloud.services.instances.add_listener(
        lambda instance, before: steps.append((before, instance.state))
    )
    (found,) = account.launch()
    account.wait(10)
    account.call("TerminateInstances", InstanceIds=[found])
    account.wait(10_000)
    account.describe()
    assert steps == [
        ("", "pending"),
        ("pending", "running"),
        ("running", "shutting-down"),
        ("shutting-down", "terminated"),
        ("terminated", "gone"),
    ]


def test_unknown_instance_ids_are_named_in_the_error(account: LaunchAccount) -> None:
    (found,) = account.launch()
    deleted = ["i-0123456789abcdef0", "i-0123456789abcdef1"]
    for operation in ("DescribeInstances", "TerminateInstances"):
        assert account.refused(operation, InstanceIds=[found, *deleted]) == (
            "InvalidInstanceID.NotFound",
            400,
        )
        assert account.refused(operation, InstanceIds=["i-x"])[0] == "InvalidInstanceID.Malformed"
    assert account.state(found) == "pending"
    assert account.refused("TerminateInstances", InstanceIds=[]) == ("MissingParameter", 400)


def test_a_repeated_id_is_returned_once_and_filters_apply(account: LaunchAccount) -> None:
    first, second = account.launch(count=2)
    account.call("TerminateInstances", InstanceIds=[second])
    assert ids_of(account.describe(first, second, first, second)) == [first, second]
    assert ids_of(account.describe(first, first, second, Filters=[LIVE])) == [first, second]
    account.wait(60)
    assert ids_of(account.describe(first, first, second, Filters=[LIVE])) == [first]


def test_ids_and_max_results_exclude_each_other(account: LaunchAccount) -> None:
    (found,) = account.launch()
    for operation in ("DescribeInstances", "DescribeInstanceStatus"):
        refused = account.refused(operation, InstanceIds=[found], MaxResults=5)
        assert refused == ("InvalidParameterCombination", 400)


def test_instances_are_grouped_by_launch(account: LaunchAccount) -> None:
    account.launch(count=2)
    account.launch(count=1)
    runs = account.call("DescribeInstances")["Reservations"]
    assert [len(each["Instances"]) for each in runs] == [2, 1]
    assert len({each["ReservationId"] for each in runs}) == 2


def filter_scene() -> tuple[LaunchAccount, dict[str, str]]:
    """One instance of each kind."""
    account = LaunchAccount(cloud_reservation(1, "m5.xlarge", B, instanceMatchCriteria="open"))
    teams = tag_specifications("instance", team="web", Name="first")
    names = {
        "plain": account.launch(TagSpecifications=teams)[0],
        "spot": account.launch("c5.large", B, capacity_type="spot")[0],
        "reserved": account.launch("m5.xlarge", B)[0],
        "ended": account.launch()[0],
    }
    account.wait(10)
    account.call("TerminateInstances", InstanceIds=[names["ended"]])
    return account, names


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([ec2_filter("instance-state-name", "running")], "plain spot reserved"),
        ([ec2_filter("instance-state-name", "shutting-down")], "ended"),
        ([ec2_filter("instance-state-code", "32")], "ended"),
        ([LIVE], "plain spot reserved ended"),
        ([ec2_filter("instance-type", "m5.large", "c5.*")], "plain spot ended"),
        ([ec2_filter("availability-zone", B)], "spot reserved"),
        ([ec2_filter("availability-zone-id", "usw2-az1")], "plain ended"),
        ([ec2_filter("instance-lifecycle", "spot")], "spot"),
        ([ec2_filter("spot-instance-request-id", "sir-*")], "spot"),
        ([ec2_filter("capacity-reservation-id", "cr-00000001")], "reserved"),
        ([ec2_filter("capacity-reservation-id", "*")], "reserved"),
        ([ec2_filter("tag:team", "web")], "plain"),
        ([ec2_filter("tag-key", "team")], "plain"),
        ([ec2_filter("tag-key", "team"), ec2_filter("tag-key", "Name")], "plain"),
        ([ec2_filter("tag-key", "team"), ec2_filter("tag-key", "none")], ""),
        ([ec2_filter("tag-key", "team", "none"), LIVE], "plain"),
        ([ec2_filter("architecture", "x86_64"), ec2_filter("instance-type", "c5.large")], "spot"),
        ([ec2_filter("owner-id", "111122223333"), ec2_filter("launch-index", "0")], None),
        ([ec2_filter("platform", "windows")], ""),
        ([ec2_filter("tenancy", "default")], None),
    ],
)
def test_filters(filters: list[Any], expected: str | None) -> None:
    account, names = filter_scene()
    requested = list(names) if expected is None else expected.split()
    assert ids_of(account.describe(Filters=filters)) == [names[each] for each in requested]


def test_every_filter_matches_the_described_value(account: LaunchAccount) -> None:
    (found,) = account.launch()
    shown = account.describe_instance(found)
    names = {
        "instance-id": found,
        "image-id": account.image,
        "subnet-id": account.subnets[A],
        "vpc-id": account.cloud.account.vpc,
        "client-token": shown["ClientToken"],
        "private-ip-address": shown["PrivateIpAddress"],
        "private-dns-name": shown["PrivateDnsName"],
        "instance.group-id": account.group,
        "instance.group-name": "wain-nodes",
        "block-device-mapping.device-name": "/dev/xvda",
    }
    for name, value in names.items():
        assert ids_of(account.describe(Filters=[ec2_filter(name, value)])) == [found], name
        assert account.describe(Filters=[ec2_filter(name, f"{value}#")]) == [], name


def test_unknown_filters_are_rejected(account: LaunchAccount) -> None:
    account.launch()
    refused = account.refused("DescribeInstances", Filters=[ec2_filter("instance-colour", "red")])
    assert refused == ("InvalidParameterValue", 400)


def test_long_lists_are_paginated(account: LaunchAccount) -> None:
    requested = [each for _ in range(3) for each in account.launch(count=5)]
    pages = list(account.pages("DescribeInstances", "Reservations", MaxResults=6))
    assert [sum(len(run["Instances"]) for run in page) for page in pages] == [6, 6, 3]
    assert [
        each for page in pages for run in page for each in ids_of(run["Instances"])
    ] == requested
    assert account.refused("DescribeInstances", MaxResults=1001)[0] == "InvalidParameterValue"
    assert account.refused("DescribeInstances", MaxResults=4)[0] == "InvalidParameterValue"
    assert account.refused("DescribeInstances", NextToken="wrong")[0] == "InvalidNextToken"


def test_changes_between_pages_move_no_other_row(account: LaunchAccount) -> None:
    requested = account.launch(count=12)
    pages = account.pages("DescribeInstances", "Reservations", MaxResults=6, Filters=[LIVE])
    first = next(pages)
    account.call("TerminateInstances", InstanceIds=requested[:3])
    account.wait(60)
    (later,) = account.launch()
    rest = list(pages)
    assert ids_of(first[0]["Instances"]) == requested[:6]
    assert [each for page in rest for run in page for each in ids_of(run["Instances"])] == [
        *requested[6:],
        later,
    ]


def test_new_tags_are_visible_at_once(account: LaunchAccount) -> None:
    (found,) = account.launch()
    assert account.describe(Filters=[ec2_filter("tag:Name", "node")]) == []
    account.call("CreateTags", Resources=[found], Tags=[{"Key": "Name", "Value": "node"}])
    assert ids_of(account.describe(Filters=[ec2_filter("tag:Name", "node")])) == [found]
    assert tags_of(account.describe_instance(found))["Name"] == "node"


def test_changing_a_response_does_not_change_the_account(account: LaunchAccount) -> None:
    (found,) = account.launch()
    view = account.describe_instance(found)
    before = account.describe_instance(found)
    for each in view.values():
        if isinstance(each, dict | list):
            each.clear()
    assert account.describe_instance(found) == before
