"""Subnets and security groups of a class: by id, name and tags; order, intervals, none at all."""

from typing import Any

import pytest
from tests.support.awsclasses import DISCOVERY, Bench, node_class, told
from tests.support.seams import Scripted, on_time

from wainwright.aws.ec2 import Ec2
from wainwright.aws.nodeclass.conditions import SECURITY_GROUPS, SUBNETS
from wainwright.aws.nodeclass.network import SecurityGroups, Subnets
from wainwright.clock import VirtualClock


def subnet(identity: str, free: int, zone: str = "us-east-1a") -> dict[str, Any]:
    return {
        "SubnetId": identity,
        "AvailabilityZone": zone,
        "AvailabilityZoneId": "use1-az1",
        "AvailableIpAddressCount": free,
    }


def asked(operation: str, **spec: Any) -> list[Any]:
    """What EC2 is asked for a class."""
    seam = Scripted({"DescribeSubnets": {}, "DescribeSecurityGroups": {}})

    async def main(clock: VirtualClock) -> None:
        await Subnets(Ec2(seam), clock).find(node_class(**spec))
        await SecurityGroups(Ec2(seam), clock).find(node_class(**spec))

    on_time(main)
    return [params["Filters"] for params in seam.asked(operation)]


def test_all_ids_go_into_one_call_and_other_terms_into_their_own() -> None:
    terms = [
        {"id": "subnet-2"},
        {"tags": {"team": "web", "stage": "*"}},
        {"id": "subnet-1"},
        {"tags": {"team": "db"}},
    ]
    assert asked("DescribeSubnets", subnetSelectorTerms=terms) == [
        [{"Name": "subnet-id", "Values": ["subnet-1", "subnet-2"]}],
        [{"Name": "tag-key", "Values": ["stage"]}, {"Name": "tag:team", "Values": ["web"]}],
        [{"Name": "tag:team", "Values": ["db"]}],
    ]


def test_groups_are_also_selected_by_name() -> None:
    terms = [{"name": "b"}, {"id": "sg-1"}, {"name": "a"}, {"tags": DISCOVERY}]
    assert asked("DescribeSecurityGroups", securityGroupSelectorTerms=terms) == [
        [{"Name": "group-id", "Values": ["sg-1"]}],
        [{"Name": "tag:karpenter.sh/discovery", "Values": ["wain"]}],
        [{"Name": "group-name", "Values": ["a", "b"]}],
    ]


def test_subnets_with_most_free_addresses_come_first_and_each_once() -> None:
    rows = [subnet("subnet-a", 10), subnet("subnet-b", 200), subnet("subnet-c", 10)]
    seam = Scripted({"DescribeSubnets": {"Subnets": rows}})
    terms = [{"id": "subnet-a"}, {"tags": {"team": "*"}}]

    async def main(clock: VirtualClock) -> list[str]:
        found = await Subnets(Ec2(seam), clock).find(node_class(subnetSelectorTerms=terms))
        return [each.id for each in found.value]

    assert on_time(main) == ["subnet-b", "subnet-a", "subnet-c"]


def test_pages_are_followed() -> None:
    pages = [
        {"Subnets": [subnet("subnet-a", 1)], "NextToken": "more"},
        {"Subnets": [subnet("subnet-b", 2)], "NextToken": ""},
    ]
    seam = Scripted({"DescribeSubnets": pages})

    async def main(clock: VirtualClock) -> list[str]:
        found = await Subnets(Ec2(seam), clock).find(node_class())
        return [each.id for each in found.value]

    assert on_time(main) == ["subnet-b", "subnet-a"]
    assert seam.asked("DescribeSubnets")[1]["NextToken"] == "more"


@pytest.mark.parametrize(
    ("field", "kind", "reason"),
    [
        ("subnetSelectorTerms", SUBNETS, "SubnetsNotFound"),
        ("securityGroupSelectorTerms", SECURITY_GROUPS, "SecurityGroupsNotFound"),
    ],
)
def test_terms_that_select_nothing_are_told(field: str, kind: str, reason: str) -> None:
    async def main(clock: VirtualClock) -> tuple[tuple[str, str], bool, float]:
        spec: dict[str, Any] = {field: [{"tags": {"nobody": "has this"}}]}
        found = await Bench(clock).resolve(node_class(**spec))
        return told(found, kind), found.ready, found.again

    assert on_time(main) == (("False", reason), False, 60.0)


def test_subnets_are_asked_for_each_minute_and_groups_every_five() -> None:
    async def main(clock: VirtualClock) -> tuple[int, int]:
        bench = Bench(clock)
        for _ in range(10):
            await bench.resolve(node_class())
            await clock.sleep(61)
        return bench.count("DescribeSubnets"), bench.count("DescribeSecurityGroups")

    assert on_time(main) == (10, 2)


def test_classes_with_the_same_terms_share_an_answer() -> None:
    async def main(clock: VirtualClock) -> int:
        bench = Bench(clock)
        for name in ("one", "two", "three"):
            await bench.resolve(node_class(name))
        return bench.count("DescribeSubnets")

    assert on_time(main) == 1


def test_a_group_that_is_made_later_is_found_a_minute_later() -> None:
    async def main(clock: VirtualClock) -> list[str]:
        bench = Bench(clock)
        wanted = node_class(securityGroupSelectorTerms=[{"name": "late"}])
        seen = [told(await bench.resolve(wanted), SECURITY_GROUPS)[0]]
        vpc = bench.cloud.account.vpc
        bench.ask("ec2", "CreateSecurityGroup", GroupName="late", Description="d", VpcId=vpc)
        await clock.sleep(60)
        return [*seen, told(await bench.resolve(wanted), SECURITY_GROUPS)[0]]

    assert on_time(main) == ["False", "True"]
