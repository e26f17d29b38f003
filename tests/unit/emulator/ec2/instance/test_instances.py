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
def yard() -> LaunchAccount:
    return LaunchAccount()


def paced(**pace: Any) -> LaunchAccount:
    return LaunchAccount(settings=EmulatorSettings(timings=InstanceTimings(**pace)))


def test_a_machine_lives_and_ends_and_is_forgotten() -> None:
    yard = paced(boot=DelayDistribution(median=30.0), shutdown=DelayDistribution(median=10.0))
    (found,) = yard.launch()
    seen = []
    for seconds in (0, 29, 1):
        yard.wait(seconds)
        seen.append(yard.state(found))
    assert seen == ["pending", "pending", "running"]
    answer = yard.ask("TerminateInstances", InstanceIds=[found])
    (entry,) = answer["TerminatingInstances"]
    assert entry["CurrentState"] == {"Code": 32, "Name": "shutting-down"}
    assert entry["PreviousState"] == {"Code": 16, "Name": "running"}
    assert yard.state(found) == "shutting-down"
    yard.wait(10)
    assert yard.state(found) == "terminated"
    yard.wait(3599)
    assert yard.state(found) == "terminated"
    yard.wait(1)
    assert yard.refused("DescribeInstances", InstanceIds=[found]) == (
        "InvalidInstanceID.NotFound",
        400,
    )
    assert yard.describe() == []
    assert yard.cloud.services.instances.state.specifications == {}


def test_a_machine_that_is_ended_early_never_runs() -> None:
    yard = paced(boot=DelayDistribution(median=30.0), shutdown=DelayDistribution(median=60.0))
    (found,) = yard.launch()
    yard.ask("TerminateInstances", InstanceIds=[found])
    yard.wait(31)
    assert yard.state(found) == "shutting-down"
    answer = yard.ask("TerminateInstances", InstanceIds=[found, found])
    (entry,) = answer["TerminatingInstances"]
    assert entry["PreviousState"]["Name"] == entry["CurrentState"]["Name"] == "shutting-down"


def test_a_terminated_machine_has_lost_its_place_in_the_network(yard: LaunchAccount) -> None:
    (found,) = yard.launch()
    subnet = {"SubnetIds": [yard.subnets[A]]}
    (before,) = yard.ask("DescribeSubnets", **subnet)["Subnets"]
    yard.ask("TerminateInstances", InstanceIds=[found])
    yard.wait(60)
    machine = yard.machine(found)
    assert machine["NetworkInterfaces"] == machine["SecurityGroups"] == []
    assert not {"SubnetId", "VpcId", "PrivateIpAddress"} & machine.keys()
    assert machine["StateReason"]["Code"] == "Client.UserInitiatedShutdown"
    assert yard.describe(Filters=[ec2_filter("subnet-id", yard.subnets[A])]) == []
    (after,) = yard.ask("DescribeSubnets", **subnet)["Subnets"]
    assert after["AvailableIpAddressCount"] == before["AvailableIpAddressCount"] + 1


def test_boot_takes_its_time_and_the_same_with_the_same_seed() -> None:
    def when(seed: int) -> list[float]:
        pace = InstanceTimings(boot=DelayDistribution(median=60.0, spread=0.5))
        yard = LaunchAccount(settings=EmulatorSettings(timings=pace), seed=seed)
        yard.launch(count=20)
        known = yard.cloud.context.pending_events
        return [each.due - yard.clock.now() for each in known if "running" in each.kind]

    first = when(1)
    assert first == when(1) != when(2)
    assert len(set(first)) == 20
    assert 20 < min(first) < 60 < max(first) < 200


def test_some_machines_never_join() -> None:
    yard = paced(duds=0.25)
    yard.launch(count=200)
    machines = yard.cloud.services.instances.state.instances.values()
    assert 25 < sum(not each.joins_cluster for each in machines) < 80


def test_a_new_machine_may_not_be_seen_yet() -> None:
    yard = paced(invisible=DelayDistribution(median=5.0))
    (found,) = yard.launch()
    missing = ("InvalidInstanceID.NotFound", 400)
    assert yard.refused("DescribeInstances", InstanceIds=[found]) == missing
    assert yard.refused("TerminateInstances", InstanceIds=[found]) == missing
    assert yard.describe() == []
    yard.wait(5)
    assert ids_of(yard.describe()) == [found]
    assert yard.state(found) == "running"


def scene() -> tuple[LaunchAccount, dict[str, str]]:
    """One machine of each sort."""
    yard = LaunchAccount(cloud_reservation(1, "m5.xlarge", B, instanceMatchCriteria="open"))
    teams = tag_specifications("instance", team="web", Name="first")
    names = {
        "plain": yard.launch(TagSpecifications=teams)[0],
        "spot": yard.launch("c5.large", B, market="spot")[0],
        "reserved": yard.launch("m5.xlarge", B)[0],
        "ended": yard.launch()[0],
    }
    yard.wait(10)
    yard.ask("TerminateInstances", InstanceIds=[names["ended"]])
    return yard, names


@pytest.mark.parametrize(
    ("attribute", "field", "expected"),
    [
        ("userData", "UserData", {"Value": USER_DATA}),
        ("instanceType", "InstanceType", {"Value": "m5.large"}),
        ("rootDeviceName", "RootDeviceName", {"Value": "/dev/xvda"}),
        ("disableApiTermination", "DisableApiTermination", {"Value": False}),
    ],
)
def test_attributes(yard: LaunchAccount, attribute: str, field: str, expected: Any) -> None:
    (found,) = yard.launch()
    answer = yard.ask("DescribeInstanceAttribute", InstanceId=found, Attribute=attribute)
    assert answer == {"InstanceId": found, field: expected}


def test_user_data_is_what_the_template_has(yard: LaunchAccount) -> None:
    (found,) = yard.launch()
    answer = yard.ask("DescribeInstanceAttribute", InstanceId=found, Attribute="userData")
    assert b64decode(answer["UserData"]["Value"]) == b"#!/bin/bash"
    bare = yard.template("bare", UserData="")
    (without,) = launched_ids(yard.fleet(yard.config(("m5.large", A), template=bare)))
    answer = yard.ask("DescribeInstanceAttribute", InstanceId=without, Attribute="userData")
    assert answer["UserData"] == {}
    refused = yard.refused("DescribeInstanceAttribute", InstanceId=found, Attribute="kernel")
    assert refused == ("InvalidParameterValue", 400)


def test_machines_with_several_interfaces_take_several_addresses(yard: LaunchAccount) -> None:
    group = [yard.group]
    name = yard.template(
        "wide",
        NetworkInterfaces=[
            {"DeviceIndex": 0, "Groups": group},
            {"DeviceIndex": 1, "NetworkCardIndex": 1, "InterfaceType": "efa", "Groups": group},
        ],
    )
    answer = yard.fleet(yard.config(("m5.large", A), template=name))
    (machine,) = yard.describe(*launched_ids(answer))
    kinds = [each["InterfaceType"] for each in machine["NetworkInterfaces"]]
    assert kinds == ["interface", "efa"]
    (subnet,) = yard.ask("DescribeSubnets", SubnetIds=[yard.subnets[A]])["Subnets"]
    taken = subnet["AvailableIpAddressCount"]
    yard.ask("TerminateInstances", InstanceIds=launched_ids(answer))
    yard.wait(60)
    (subnet,) = yard.ask("DescribeSubnets", SubnetIds=[yard.subnets[A]])["Subnets"]
    assert subnet["AvailableIpAddressCount"] == taken + 2


def test_a_saved_account_goes_on_where_it_was() -> None:
    yard, names = scene()
    (late,) = yard.launch(ClientToken="once")
    clock = ManualClock(yard.clock.now())
    again = EmulatedAwsAccount.load(yard.cloud.save(), clock=clock)
    asked: dict[str, Any] = {"Filters": [LIVE]}
    assert again.answer("ec2", "DescribeInstances", asked) == yard.ask("DescribeInstances", **asked)
    clock.time += 60
    shown = again.answer("ec2", "DescribeInstances", {"InstanceIds": [late, names["ended"]]})
    states = [each["State"]["Name"] for run in shown["Reservations"] for each in run["Instances"]]
    assert states == ["terminated", "running"]
    request = yard.request(yard.config(("m5.large", A)), ClientToken="once")
    assert launched_ids(again.answer("ec2", "CreateFleet", request)) == [late]
    fresh = launched_ids(again.answer("ec2", "CreateFleet", {**request, "ClientToken": "twice"}))
    shown = again.answer("ec2", "DescribeInstances", {"Filters": [LIVE]})
    machines = [each for run in shown["Reservations"] for each in run["Instances"]]
    assert fresh[0] in ids_of(machines)
    addresses = [each["PrivateIpAddress"] for each in machines]
    assert len(set(addresses)) == len(addresses)


def test_whoever_watches_is_told_of_every_step(yard: LaunchAccount) -> None:
    steps: list[tuple[str, str]] = []
    yard.cloud.services.instances.add_listener(
        lambda instance, before: steps.append((before, instance.state))
    )
    (found,) = yard.launch()
    yard.wait(10)
    yard.ask("TerminateInstances", InstanceIds=[found])
    yard.wait(10_000)
    yard.describe()
    assert steps == [
        ("", "pending"),
        ("pending", "running"),
        ("running", "shutting-down"),
        ("shutting-down", "terminated"),
        ("terminated", "gone"),
    ]


def test_what_cannot_be_found_is_named(yard: LaunchAccount) -> None:
    (found,) = yard.launch()
    gone = ["i-0123456789abcdef0", "i-0123456789abcdef1"]
    for operation in ("DescribeInstances", "TerminateInstances"):
        assert yard.refused(operation, InstanceIds=[found, *gone]) == (
            "InvalidInstanceID.NotFound",
            400,
        )
        assert yard.refused(operation, InstanceIds=["i-x"])[0] == "InvalidInstanceID.Malformed"
    assert yard.state(found) == "pending"
    assert yard.refused("TerminateInstances", InstanceIds=[]) == ("MissingParameter", 400)


def test_an_id_may_be_named_twice_and_filters_still_count(yard: LaunchAccount) -> None:
    first, second = yard.launch(count=2)
    yard.ask("TerminateInstances", InstanceIds=[second])
    assert ids_of(yard.describe(first, second, first, second)) == [first, second]
    assert ids_of(yard.describe(first, first, second, Filters=[LIVE])) == [first, second]
    yard.wait(60)
    assert ids_of(yard.describe(first, first, second, Filters=[LIVE])) == [first]


def test_ids_and_a_page_size_exclude_each_other(yard: LaunchAccount) -> None:
    (found,) = yard.launch()
    for operation in ("DescribeInstances", "DescribeInstanceStatus"):
        refused = yard.refused(operation, InstanceIds=[found], MaxResults=5)
        assert refused == ("InvalidParameterCombination", 400)


def test_machines_of_one_launch_stand_together(yard: LaunchAccount) -> None:
    yard.launch(count=2)
    yard.launch(count=1)
    runs = yard.ask("DescribeInstances")["Reservations"]
    assert [len(each["Instances"]) for each in runs] == [2, 1]
    assert len({each["ReservationId"] for each in runs}) == 2


def filter_scene() -> tuple[LaunchAccount, dict[str, str]]:
    """One machine of each sort."""
    yard = LaunchAccount(cloud_reservation(1, "m5.xlarge", B, instanceMatchCriteria="open"))
    teams = tag_specifications("instance", team="web", Name="first")
    names = {
        "plain": yard.launch(TagSpecifications=teams)[0],
        "spot": yard.launch("c5.large", B, market="spot")[0],
        "reserved": yard.launch("m5.xlarge", B)[0],
        "ended": yard.launch()[0],
    }
    yard.wait(10)
    yard.ask("TerminateInstances", InstanceIds=[names["ended"]])
    return yard, names


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
    yard, names = filter_scene()
    wanted = list(names) if expected is None else expected.split()
    assert ids_of(yard.describe(Filters=filters)) == [names[each] for each in wanted]


def test_filters_by_what_the_machine_shows(yard: LaunchAccount) -> None:
    (found,) = yard.launch()
    shown = yard.machine(found)
    names = {
        "instance-id": found,
        "image-id": yard.image,
        "subnet-id": yard.subnets[A],
        "vpc-id": yard.cloud.account.vpc,
        "client-token": shown["ClientToken"],
        "private-ip-address": shown["PrivateIpAddress"],
        "private-dns-name": shown["PrivateDnsName"],
        "instance.group-id": yard.group,
        "instance.group-name": "wain-nodes",
        "block-device-mapping.device-name": "/dev/xvda",
    }
    for name, value in names.items():
        assert ids_of(yard.describe(Filters=[ec2_filter(name, value)])) == [found], name
        assert yard.describe(Filters=[ec2_filter(name, f"{value}#")]) == [], name


def test_a_filter_that_is_not_known_is_an_error(yard: LaunchAccount) -> None:
    yard.launch()
    refused = yard.refused("DescribeInstances", Filters=[ec2_filter("instance-colour", "red")])
    assert refused == ("InvalidParameterValue", 400)


def test_long_lists_come_in_pages(yard: LaunchAccount) -> None:
    wanted = [each for _ in range(3) for each in yard.launch(count=5)]
    pages = list(yard.pages("DescribeInstances", "Reservations", MaxResults=6))
    assert [sum(len(run["Instances"]) for run in page) for page in pages] == [6, 6, 3]
    assert [each for page in pages for run in page for each in ids_of(run["Instances"])] == wanted
    assert yard.refused("DescribeInstances", MaxResults=1001)[0] == "InvalidParameterValue"
    assert yard.refused("DescribeInstances", MaxResults=4)[0] == "InvalidParameterValue"
    assert yard.refused("DescribeInstances", NextToken="wrong")[0] == "InvalidNextToken"


def test_what_happens_between_two_pages_moves_nothing(yard: LaunchAccount) -> None:
    wanted = yard.launch(count=12)
    pages = yard.pages("DescribeInstances", "Reservations", MaxResults=6, Filters=[LIVE])
    first = next(pages)
    yard.ask("TerminateInstances", InstanceIds=wanted[:3])
    yard.wait(60)
    (later,) = yard.launch()
    rest = list(pages)
    assert ids_of(first[0]["Instances"]) == wanted[:6]
    assert [each for page in rest for run in page for each in ids_of(run["Instances"])] == [
        *wanted[6:],
        later,
    ]


def test_tags_are_seen_at_once(yard: LaunchAccount) -> None:
    (found,) = yard.launch()
    assert yard.describe(Filters=[ec2_filter("tag:Name", "node")]) == []
    yard.ask("CreateTags", Resources=[found], Tags=[{"Key": "Name", "Value": "node"}])
    assert ids_of(yard.describe(Filters=[ec2_filter("tag:Name", "node")])) == [found]
    assert tags_of(yard.machine(found))["Name"] == "node"


def test_an_answer_belongs_to_who_asked(yard: LaunchAccount) -> None:
    (found,) = yard.launch()
    machine = yard.machine(found)
    before = yard.machine(found)
    for each in machine.values():
        if isinstance(each, dict | list):
            each.clear()
    assert yard.machine(found) == before
