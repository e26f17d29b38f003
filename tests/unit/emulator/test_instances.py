"""Machines: their states over time, and how they are found and shown."""

from base64 import b64decode
from typing import Any

import pytest
from tests.support.emulated import HandClock
from tests.support.launches import (
    USER_DATA,
    A,
    B,
    Yard,
    ids_of,
    launched,
    named,
    reservation,
    tagged,
)

from wainwright.emulator.cloud import EmulatedCloud
from wainwright.emulator.ec2.lifecycle import Delay, Pace
from wainwright.emulator.settings import Settings

LIVE = named("instance-state-name", "pending", "running", "stopping", "stopped", "shutting-down")


@pytest.fixture
def yard() -> Yard:
    return Yard()


def paced(**pace: Any) -> Yard:
    return Yard(settings=Settings(pace=Pace(**pace)))


def test_a_machine_lives_and_ends_and_is_forgotten() -> None:
    yard = paced(boot=Delay(median=30.0), shutdown=Delay(median=10.0))
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
    assert yard.cloud.parts.instances.state.builds == {}


def test_a_machine_that_is_ended_early_never_runs() -> None:
    yard = paced(boot=Delay(median=30.0), shutdown=Delay(median=60.0))
    (found,) = yard.launch()
    yard.ask("TerminateInstances", InstanceIds=[found])
    yard.wait(31)
    assert yard.state(found) == "shutting-down"
    answer = yard.ask("TerminateInstances", InstanceIds=[found, found])
    (entry,) = answer["TerminatingInstances"]
    assert entry["PreviousState"]["Name"] == entry["CurrentState"]["Name"] == "shutting-down"


def test_a_terminated_machine_has_lost_its_place_in_the_network(yard: Yard) -> None:
    (found,) = yard.launch()
    subnet = {"SubnetIds": [yard.subnets[A]]}
    (before,) = yard.ask("DescribeSubnets", **subnet)["Subnets"]
    yard.ask("TerminateInstances", InstanceIds=[found])
    yard.wait(60)
    machine = yard.machine(found)
    assert machine["NetworkInterfaces"] == machine["SecurityGroups"] == []
    assert not {"SubnetId", "VpcId", "PrivateIpAddress"} & machine.keys()
    assert machine["StateReason"]["Code"] == "Client.UserInitiatedShutdown"
    assert yard.describe(Filters=[named("subnet-id", yard.subnets[A])]) == []
    (after,) = yard.ask("DescribeSubnets", **subnet)["Subnets"]
    assert after["AvailableIpAddressCount"] == before["AvailableIpAddressCount"] + 1


def test_boot_takes_its_time_and_the_same_with_the_same_seed() -> None:
    def when(seed: int) -> list[float]:
        pace = Pace(boot=Delay(median=60.0, spread=0.5))
        yard = Yard(settings=Settings(pace=pace), seed=seed)
        yard.launch(count=20)
        known = yard.cloud.world.appointments
        return [each.due - yard.clock.now() for each in known if "running" in each.kind]

    first = when(1)
    assert first == when(1) != when(2)
    assert len(set(first)) == 20
    assert 20 < min(first) < 60 < max(first) < 200


def test_some_machines_never_join() -> None:
    yard = paced(duds=0.25)
    yard.launch(count=200)
    machines = yard.cloud.parts.instances.state.instances.values()
    assert 25 < sum(not each.joins for each in machines) < 80


def test_a_new_machine_may_not_be_seen_yet() -> None:
    yard = paced(invisible=Delay(median=5.0))
    (found,) = yard.launch()
    missing = ("InvalidInstanceID.NotFound", 400)
    assert yard.refused("DescribeInstances", InstanceIds=[found]) == missing
    assert yard.refused("TerminateInstances", InstanceIds=[found]) == missing
    assert yard.describe() == []
    yard.wait(5)
    assert ids_of(yard.describe()) == [found]
    assert yard.state(found) == "running"


def scene() -> tuple[Yard, dict[str, str]]:
    """One machine of each sort."""
    yard = Yard(reservation(1, "m5.xlarge", B, instanceMatchCriteria="open"))
    teams = tagged("instance", team="web", Name="first")
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
def test_attributes(yard: Yard, attribute: str, field: str, expected: Any) -> None:
    (found,) = yard.launch()
    answer = yard.ask("DescribeInstanceAttribute", InstanceId=found, Attribute=attribute)
    assert answer == {"InstanceId": found, field: expected}


def test_user_data_is_what_the_template_has(yard: Yard) -> None:
    (found,) = yard.launch()
    answer = yard.ask("DescribeInstanceAttribute", InstanceId=found, Attribute="userData")
    assert b64decode(answer["UserData"]["Value"]) == b"#!/bin/bash"
    bare = yard.template("bare", UserData="")
    (without,) = launched(yard.fleet(yard.config(("m5.large", A), template=bare)))
    answer = yard.ask("DescribeInstanceAttribute", InstanceId=without, Attribute="userData")
    assert answer["UserData"] == {}
    refused = yard.refused("DescribeInstanceAttribute", InstanceId=found, Attribute="kernel")
    assert refused == ("InvalidParameterValue", 400)


def test_machines_with_several_interfaces_take_several_addresses(yard: Yard) -> None:
    group = [yard.group]
    name = yard.template(
        "wide",
        NetworkInterfaces=[
            {"DeviceIndex": 0, "Groups": group},
            {"DeviceIndex": 1, "NetworkCardIndex": 1, "InterfaceType": "efa", "Groups": group},
        ],
    )
    answer = yard.fleet(yard.config(("m5.large", A), template=name))
    (machine,) = yard.describe(*launched(answer))
    kinds = [each["InterfaceType"] for each in machine["NetworkInterfaces"]]
    assert kinds == ["interface", "efa"]
    (subnet,) = yard.ask("DescribeSubnets", SubnetIds=[yard.subnets[A]])["Subnets"]
    taken = subnet["AvailableIpAddressCount"]
    yard.ask("TerminateInstances", InstanceIds=launched(answer))
    yard.wait(60)
    (subnet,) = yard.ask("DescribeSubnets", SubnetIds=[yard.subnets[A]])["Subnets"]
    assert subnet["AvailableIpAddressCount"] == taken + 2


def test_a_saved_account_goes_on_where_it_was() -> None:
    yard, names = scene()
    (late,) = yard.launch(ClientToken="once")
    clock = HandClock(yard.clock.now())
    again = EmulatedCloud.load(yard.cloud.save(), clock=clock)
    asked: dict[str, Any] = {"Filters": [LIVE]}
    assert again.answer("ec2", "DescribeInstances", asked) == yard.ask("DescribeInstances", **asked)
    clock.time += 60
    shown = again.answer("ec2", "DescribeInstances", {"InstanceIds": [late, names["ended"]]})
    states = [each["State"]["Name"] for run in shown["Reservations"] for each in run["Instances"]]
    assert states == ["terminated", "running"]
    request = yard.request(yard.config(("m5.large", A)), ClientToken="once")
    assert launched(again.answer("ec2", "CreateFleet", request)) == [late]
    fresh = launched(again.answer("ec2", "CreateFleet", {**request, "ClientToken": "twice"}))
    shown = again.answer("ec2", "DescribeInstances", {"Filters": [LIVE]})
    machines = [each for run in shown["Reservations"] for each in run["Instances"]]
    assert fresh[0] in ids_of(machines)
    addresses = [each["PrivateIpAddress"] for each in machines]
    assert len(set(addresses)) == len(addresses)


def test_whoever_watches_is_told_of_every_step(yard: Yard) -> None:
    steps: list[tuple[str, str]] = []
    yard.cloud.parts.instances.watch(
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
