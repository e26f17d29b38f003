"""Subnets and security groups of a class; the subnet with most free addresses."""

from typing import Any

import pytest
from tests.support.aws_account import (
    DISCOVERY,
    ResolverBench,
    ScriptedApi,
    condition_status,
    discovered_node_class,
    run_in_virtual_time,
)
from tests.support.emulator_accounts import ManualClock

from wainwright.aws.api.services import Ec2
from wainwright.aws.instancetypes.unavailable_offerings import UnavailableOfferings
from wainwright.aws.nodeclass.network import SecurityGroupProvider, SubnetAddresses, SubnetProvider
from wainwright.aws.nodeclass.status import SECURITY_GROUPS_READY, SUBNETS_READY, ResolvedSubnet
from wainwright.clock import VirtualClock


def subnet_row(identity: str, free: int, zone: str = "us-east-1a") -> dict[str, Any]:
    return {
        "SubnetId": identity,
        "AvailabilityZone": zone,
        "AvailabilityZoneId": "use1-az1",
        "AvailableIpAddressCount": free,
    }


def requested_filters(operation: str, **spec: Any) -> list[Any]:
    """The filters of the calls for a class."""
    seam = ScriptedApi({"DescribeSubnets": {}, "DescribeSecurityGroups": {}})

    async def main(clock: VirtualClock) -> None:
        await SubnetProvider(Ec2(seam), clock).find(discovered_node_class(**spec))
        await SecurityGroupProvider(Ec2(seam), clock).find(discovered_node_class(**spec))

    run_in_virtual_time(main)
    return [params["Filters"] for params in seam.calls_to(operation)]


def test_all_ids_go_into_one_call_and_other_terms_into_their_own() -> None:
    terms = [
        {"id": "subnet-2"},
        {"tags": {"team": "web", "stage": "*"}},
        {"id": "subnet-1"},
        {"tags": {"team": "db"}},
    ]
    assert requested_filters("DescribeSubnets", subnetSelectorTerms=terms) == [
        [{"Name": "subnet-id", "Values": ["subnet-1", "subnet-2"]}],
        [{"Name": "tag-key", "Values": ["stage"]}, {"Name": "tag:team", "Values": ["web"]}],
        [{"Name": "tag:team", "Values": ["db"]}],
    ]


def test_of_a_term_with_id_and_other_fields_the_id_counts() -> None:
    terms = [{"name": "b"}, {"id": "sg-1", "name": "a"}, {"id": "sg-2", "tags": DISCOVERY}]
    assert requested_filters("DescribeSecurityGroups", securityGroupSelectorTerms=terms) == [
        [{"Name": "group-id", "Values": ["sg-1", "sg-2"]}],
        [{"Name": "group-name", "Values": ["b"]}],
    ]


def test_security_groups_can_be_selected_by_name() -> None:
    terms = [{"name": "b"}, {"id": "sg-1"}, {"name": "a"}, {"tags": DISCOVERY}]
    assert requested_filters("DescribeSecurityGroups", securityGroupSelectorTerms=terms) == [
        [{"Name": "group-id", "Values": ["sg-1"]}],
        [{"Name": "tag:karpenter.sh/discovery", "Values": ["wain"]}],
        [{"Name": "group-name", "Values": ["a", "b"]}],
    ]


def test_subnets_with_most_free_addresses_come_first_and_each_once() -> None:
    rows = [subnet_row("subnet-a", 10), subnet_row("subnet-b", 200), subnet_row("subnet-c", 10)]
    seam = ScriptedApi({"DescribeSubnets": {"Subnets": rows}})
    terms = [{"id": "subnet-a"}, {"tags": {"team": "*"}}]

    async def main(clock: VirtualClock) -> list[str]:
        found = await SubnetProvider(Ec2(seam), clock).find(
            discovered_node_class(subnetSelectorTerms=terms)
        )
        return [each.id for each in found.value]

    assert run_in_virtual_time(main) == ["subnet-b", "subnet-a", "subnet-c"]


def test_pages_are_followed() -> None:
    pages = [
        {"Subnets": [subnet_row("subnet-a", 1)], "NextToken": "more"},
        {"Subnets": [subnet_row("subnet-b", 2)], "NextToken": ""},
    ]
    seam = ScriptedApi({"DescribeSubnets": pages})

    async def main(clock: VirtualClock) -> list[str]:
        found = await SubnetProvider(Ec2(seam), clock).find(discovered_node_class())
        return [each.id for each in found.value]

    assert run_in_virtual_time(main) == ["subnet-b", "subnet-a"]
    assert seam.calls_to("DescribeSubnets")[1]["NextToken"] == "more"


@pytest.mark.parametrize(
    ("field", "kind", "reason"),
    [
        ("subnetSelectorTerms", SUBNETS_READY, "SubnetsNotFound"),
        ("securityGroupSelectorTerms", SECURITY_GROUPS_READY, "SecurityGroupsNotFound"),
    ],
)
def test_terms_that_select_nothing_are_reported(field: str, kind: str, reason: str) -> None:
    async def main(clock: VirtualClock) -> tuple[tuple[str, str], bool, float]:
        spec: dict[str, Any] = {field: [{"tags": {"nobody": "has this"}}]}
        found = await ResolverBench(clock).resolve(discovered_node_class(**spec))
        return condition_status(found, kind), found.is_ready, found.requeue_after

    assert run_in_virtual_time(main) == (("False", reason), False, 60.0)


def test_subnets_are_described_every_minute_and_groups_every_five() -> None:
    async def main(clock: VirtualClock) -> tuple[int, int]:
        bench = ResolverBench(clock)
        for _ in range(10):
            await bench.resolve(discovered_node_class())
            await clock.sleep(61)
        return bench.count("DescribeSubnets"), bench.count("DescribeSecurityGroups")

    assert run_in_virtual_time(main) == (10, 2)


def test_classes_with_the_same_terms_share_a_response() -> None:
    async def main(clock: VirtualClock) -> int:
        bench = ResolverBench(clock)
        for name in ("one", "two", "three"):
            await bench.resolve(discovered_node_class(name))
        return bench.count("DescribeSubnets")

    assert run_in_virtual_time(main) == 1


def test_a_group_created_later_is_found_a_minute_later() -> None:
    async def main(clock: VirtualClock) -> list[str]:
        bench = ResolverBench(clock)
        wanted = discovered_node_class(securityGroupSelectorTerms=[{"name": "late"}])
        seen = [condition_status(await bench.resolve(wanted), SECURITY_GROUPS_READY)[0]]
        vpc = bench.cloud.account.vpc
        bench.call_api("ec2", "CreateSecurityGroup", GroupName="late", Description="d", VpcId=vpc)
        await clock.sleep(60)
        return [*seen, condition_status(await bench.resolve(wanted), SECURITY_GROUPS_READY)[0]]

    assert run_in_virtual_time(main) == ["False", "True"]


def resolved_subnet(name: str, free: int, zone: str = "a") -> ResolvedSubnet:
    return ResolvedSubnet(id=name, zone=zone, zone_id=f"az-{zone}", free_addresses=free)


class AddressBench:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.unavailable_offerings = UnavailableOfferings(self.clock)
        self.addresses = SubnetAddresses(self.clock, self.unavailable_offerings)

    def chosen(self, *subnets: ResolvedSubnet) -> dict[str, str]:
        return {zone: each.id for zone, each in self.addresses.choose_by_zone(subnets).items()}


def test_each_zone_gets_the_subnet_with_most_free_addresses() -> None:
    found = AddressBench().chosen(
        resolved_subnet("s1", 10), resolved_subnet("s2", 20), resolved_subnet("s3", 5, "b")
    )
    assert found == {"a": "s2", "b": "s3"}


def test_equal_subnets_are_ordered_by_id() -> None:
    assert AddressBench().chosen(resolved_subnet("s2", 10), resolved_subnet("s1", 10)) == {
        "a": "s1"
    }


def test_launches_in_flight_count() -> None:
    bench, subnets = AddressBench(), (resolved_subnet("s1", 100), resolved_subnet("s2", 90))
    hold = bench.addresses.hold([subnets[0]], instances=2, addresses_per_instance=29)
    assert bench.chosen(*subnets) == {"a": "s2"}
    bench.addresses.settle(hold, {})
    assert bench.chosen(*subnets) == {"a": "s1"}


def test_launched_instances_count_until_ec2s_number_changes() -> None:
    bench = AddressBench()
    hold = bench.addresses.hold(
        [resolved_subnet("s1", 100)], instances=1, addresses_per_instance=29
    )
    bench.addresses.settle(hold, {"s1": 1})
    assert bench.chosen(resolved_subnet("s1", 100), resolved_subnet("s2", 90)) == {"a": "s2"}
    assert bench.chosen(resolved_subnet("s1", 99), resolved_subnet("s2", 90)) == {"a": "s1"}


def test_a_recount_of_one_subnet_says_nothing_about_the_others() -> None:
    bench, other = AddressBench(), resolved_subnet("s2", 100, "b")
    subnets = [resolved_subnet("s1", 100), other]
    hold = bench.addresses.hold(subnets, instances=2, addresses_per_instance=10)
    bench.addresses.settle(hold, {"s1": 1, "s2": 1})
    bench.chosen(*subnets)
    bench.chosen(recounted := resolved_subnet("s1", 90), other)
    assert [bench.addresses.free_addresses(each) for each in (recounted, other)] == [90, 90]


def test_launched_instances_count_for_five_minutes_at_most() -> None:
    bench = AddressBench()
    hold = bench.addresses.hold(
        [resolved_subnet("s1", 100)], instances=1, addresses_per_instance=29
    )
    bench.addresses.settle(hold, {"s1": 1})
    bench.clock.time += 299
    assert bench.addresses.free_addresses(resolved_subnet("s1", 100)) == 71
    bench.clock.time += 1
    assert bench.addresses.free_addresses(resolved_subnet("s1", 100)) == 100


def test_only_the_subnet_that_was_used_keeps_its_addresses_counted() -> None:
    bench, subnets = AddressBench(), [resolved_subnet("s1", 100), resolved_subnet("s2", 100, "b")]
    hold = bench.addresses.hold(subnets, instances=3, addresses_per_instance=10)
    assert [bench.addresses.free_addresses(each) for each in subnets] == [70, 70]
    bench.addresses.settle(hold, {"s2": 2})
    assert [bench.addresses.free_addresses(each) for each in subnets] == [100, 80]


def test_two_holds_of_the_same_size_both_count() -> None:
    bench, one = AddressBench(), resolved_subnet("s1", 100)
    first = bench.addresses.hold([one], instances=1, addresses_per_instance=10)
    bench.addresses.hold([one], instances=1, addresses_per_instance=10)
    bench.addresses.settle(first, {})
    assert bench.addresses.free_addresses(one) == 90


def test_a_zone_is_left_out_only_with_its_last_subnet() -> None:
    bench, subnets = AddressBench(), (resolved_subnet("s1", 10), resolved_subnet("s2", 20))
    bench.unavailable_offerings.mark_subnet("s2")
    assert bench.chosen(*subnets) == {"a": "s1"}
    bench.unavailable_offerings.mark_subnet("s1")
    assert bench.chosen(*subnets) == {}


def test_a_subnet_without_any_address_is_not_used() -> None:
    assert AddressBench().chosen(resolved_subnet("s1", 0)) == {}
