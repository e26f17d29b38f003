"""Machines: found by id and filter, in pages, as they are."""

from typing import Any

import pytest
from tests.support.launches import (
    A,
    B,
    Yard,
    ids_of,
    named,
    reservation,
    tagged,
    tags_of,
)

LIVE = named("instance-state-name", "pending", "running", "stopping", "stopped", "shutting-down")


@pytest.fixture
def yard() -> Yard:
    return Yard()


def test_what_cannot_be_found_is_named(yard: Yard) -> None:
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


def test_an_id_may_be_named_twice_and_filters_still_count(yard: Yard) -> None:
    first, second = yard.launch(count=2)
    yard.ask("TerminateInstances", InstanceIds=[second])
    assert ids_of(yard.describe(first, second, first, second)) == [first, second]
    assert ids_of(yard.describe(first, first, second, Filters=[LIVE])) == [first, second]
    yard.wait(60)
    assert ids_of(yard.describe(first, first, second, Filters=[LIVE])) == [first]


def test_ids_and_a_page_size_exclude_each_other(yard: Yard) -> None:
    (found,) = yard.launch()
    for operation in ("DescribeInstances", "DescribeInstanceStatus"):
        refused = yard.refused(operation, InstanceIds=[found], MaxResults=5)
        assert refused == ("InvalidParameterCombination", 400)


def test_machines_of_one_launch_stand_together(yard: Yard) -> None:
    yard.launch(count=2)
    yard.launch(count=1)
    runs = yard.ask("DescribeInstances")["Reservations"]
    assert [len(each["Instances"]) for each in runs] == [2, 1]
    assert len({each["ReservationId"] for each in runs}) == 2


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
    ("filters", "expected"),
    [
        ([named("instance-state-name", "running")], "plain spot reserved"),
        ([named("instance-state-name", "shutting-down")], "ended"),
        ([named("instance-state-code", "32")], "ended"),
        ([LIVE], "plain spot reserved ended"),
        ([named("instance-type", "m5.large", "c5.*")], "plain spot ended"),
        ([named("availability-zone", B)], "spot reserved"),
        ([named("availability-zone-id", "usw2-az1")], "plain ended"),
        ([named("instance-lifecycle", "spot")], "spot"),
        ([named("spot-instance-request-id", "sir-*")], "spot"),
        ([named("capacity-reservation-id", "cr-00000001")], "reserved"),
        ([named("capacity-reservation-id", "*")], "reserved"),
        ([named("tag:team", "web")], "plain"),
        ([named("tag-key", "team")], "plain"),
        ([named("tag-key", "team"), named("tag-key", "Name")], "plain"),
        ([named("tag-key", "team"), named("tag-key", "none")], ""),
        ([named("tag-key", "team", "none"), LIVE], "plain"),
        ([named("architecture", "x86_64"), named("instance-type", "c5.large")], "spot"),
        ([named("owner-id", "111122223333"), named("launch-index", "0")], None),
        ([named("platform", "windows")], ""),
        ([named("tenancy", "default")], None),
    ],
)
def test_filters(filters: list[Any], expected: str | None) -> None:
    yard, names = scene()
    wanted = list(names) if expected is None else expected.split()
    assert ids_of(yard.describe(Filters=filters)) == [names[each] for each in wanted]


def test_filters_by_what_the_machine_shows(yard: Yard) -> None:
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
        assert ids_of(yard.describe(Filters=[named(name, value)])) == [found], name
        assert yard.describe(Filters=[named(name, f"{value}#")]) == [], name


def test_a_filter_that_is_not_known_is_an_error(yard: Yard) -> None:
    yard.launch()
    refused = yard.refused("DescribeInstances", Filters=[named("instance-colour", "red")])
    assert refused == ("InvalidParameterValue", 400)


def test_long_lists_come_in_pages(yard: Yard) -> None:
    wanted = [each for _ in range(3) for each in yard.launch(count=5)]
    pages = list(yard.pages("DescribeInstances", "Reservations", MaxResults=6))
    assert [sum(len(run["Instances"]) for run in page) for page in pages] == [6, 6, 3]
    assert [each for page in pages for run in page for each in ids_of(run["Instances"])] == wanted
    assert yard.refused("DescribeInstances", MaxResults=1001)[0] == "InvalidParameterValue"
    assert yard.refused("DescribeInstances", MaxResults=4)[0] == "InvalidParameterValue"
    assert yard.refused("DescribeInstances", NextToken="wrong")[0] == "InvalidNextToken"


def test_what_happens_between_two_pages_moves_nothing(yard: Yard) -> None:
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


def test_tags_are_seen_at_once(yard: Yard) -> None:
    (found,) = yard.launch()
    assert yard.describe(Filters=[named("tag:Name", "node")]) == []
    yard.ask("CreateTags", Resources=[found], Tags=[{"Key": "Name", "Value": "node"}])
    assert ids_of(yard.describe(Filters=[named("tag:Name", "node")])) == [found]
    assert tags_of(yard.machine(found))["Name"] == "node"


def test_an_answer_belongs_to_who_asked(yard: Yard) -> None:
    (found,) = yard.launch()
    machine = yard.machine(found)
    before = yard.machine(found)
    for each in machine.values():
        if isinstance(each, dict | list):
            each.clear()
    assert yard.machine(found) == before
