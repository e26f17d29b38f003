"""CreateFleet: allocation strategies, what is launched, what is refused, and with which code."""

from math import inf
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.emulator_launches import (
    A,
    B,
    C,
    D,
    LaunchAccount,
    capacity_stock,
    launch_error_codes,
    launch_errors,
    launched_ids,
    launched_pools,
    spot_price,
    tag_specifications,
    tags_of,
)

from wainwright.emulator.ec2.fleets.fleet_request import (
    ON_DEMAND_STRATEGIES,
    SPOT_STRATEGIES,
    AllocationCandidate,
    diversification_count,
    even_shares,
)
from wainwright.emulator.ec2.instance.quotas import QuotaLimits
from wainwright.emulator.settings import EmulatorSettings

CHEAP_SHALLOW = AllocationCandidate(index=0, price=0.1, priority=3.0, depth=4)
DEAR_DEEP = AllocationCandidate(index=1, price=0.4, priority=1.0, depth=10)
MIDDLE_DEEP = AllocationCandidate(index=2, price=0.3, priority=2.0, depth=5)
UNSOLD = AllocationCandidate(index=3, price=None, depth=0)
POOLS = (CHEAP_SHALLOW, DEAR_DEEP, MIDDLE_DEEP, UNSOLD)


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [("lowest-price", [0, 2, 1, 3]), ("prioritized", [1, 2, 0, 3])],
)
def test_on_demand(strategy: str, expected: list[int]) -> None:
    assert [pool.index for pool in ON_DEMAND_STRATEGIES[strategy](POOLS)] == expected


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ("lowest-price", [0, 2, 1, 3]),
        ("diversified", [0, 2, 1, 3]),
        ("capacity-optimized", [1, 2, 0, 3]),
        # Half as deep as the deepest is deep enough: the cheaper one goes first.
        ("price-capacity-optimized", [2, 1, 0, 3]),
        ("capacity-optimized-prioritized", [1, 2, 0, 3]),
    ],
)
def test_spot(strategy: str, expected: list[int]) -> None:
    assert [pool.index for pool in SPOT_STRATEGIES[strategy](POOLS)] == expected


def test_without_an_end_of_stock_only_the_price_counts() -> None:
    pools = [
        AllocationCandidate(index=n, price=price, depth=inf)
        for n, price in enumerate((0.3, 0.1, 0.2))
    ]
    assert [pool.index for pool in SPOT_STRATEGIES["price-capacity-optimized"](pools)] == [1, 2, 0]


def test_equal_pools_keep_the_order_of_the_request() -> None:
    pools = [AllocationCandidate(index=number, price=0.1, priority=1.0) for number in range(5)]
    for order in (*ON_DEMAND_STRATEGIES.values(), *SPOT_STRATEGIES.values()):
        assert order(pools) == pools


POOL = st.builds(
    AllocationCandidate,
    index=st.integers(0, 99),
    price=st.none() | st.floats(0.01, 9),
    priority=st.none() | st.floats(0, 9),
    depth=st.sampled_from([0.0, 1.0, 5.0, inf]),
)


@given(st.lists(POOL), st.sampled_from([*ON_DEMAND_STRATEGIES.values(), *SPOT_STRATEGIES.values()]))
def test_no_pool_is_lost(pools: list[AllocationCandidate], order: object) -> None:
    assert callable(order)
    found = order(pools)
    assert sorted(found, key=id) == sorted(pools, key=id)


@given(st.integers(0, 999), st.integers(1, 50))
def test_shares_are_even_and_make_up_the_whole(wanted: int, over: int) -> None:
    parts = even_shares(wanted, over)
    assert (sum(parts), len(parts)) == (wanted, over)
    assert max(parts) - min(parts) <= 1


@pytest.mark.parametrize(
    ("strategy", "asked", "available", "expected"),
    [
        ("diversified", None, 7, 7),
        ("diversified", None, 0, 1),
        ("lowest-price", None, 7, 1),
        ("lowest-price", 3, 7, 3),
        ("lowest-price", 9, 7, 7),
        ("price-capacity-optimized", 3, 7, 1),
    ],
)
def test_spread(strategy: str, asked: int | None, available: int, expected: int) -> None:
    assert diversification_count(strategy, asked, available) == expected


PRIORITIES = {"AllocationStrategy": "prioritized"}

SPOT: dict[str, Any] = {"market": "spot"}


@pytest.fixture
def yard() -> LaunchAccount:
    return LaunchAccount()


def with_stock(*rules: Any) -> LaunchAccount:
    return LaunchAccount(settings=EmulatorSettings(capacity_rules=rules))


def test_the_cheapest_pool_is_used_and_shown_in_full(yard: LaunchAccount) -> None:
    answer = yard.fleet(yard.config(("m5.large", A), ("c5.large", B)))
    assert answer["Errors"] == []
    (entry,) = answer["Instances"]
    assert entry["InstanceType"] == "c5.large"
    assert entry["Lifecycle"] == "on-demand"
    shown = entry["LaunchTemplateAndOverrides"]
    assert shown["Overrides"] == yard.override("c5.large", B)
    assert shown["LaunchTemplateSpecification"]["Version"] == "1"
    (machine,) = yard.describe(*entry["InstanceIds"])
    assert machine["Placement"]["AvailabilityZone"] == B


def test_several_machines_of_a_pool_are_one_entry(yard: LaunchAccount) -> None:
    answer = yard.fleet(yard.config(("m5.large", A)), count=4)
    assert launched_pools(answer) == [("m5.large", A, 4)]
    shown = yard.describe(*launched_ids(answer))
    assert [each["AmiLaunchIndex"] for each in shown] == [0, 1, 2, 3]


def test_an_empty_pool_is_reported_and_the_next_one_used() -> None:
    yard = with_stock(capacity_stock(0, "c5.large", A), capacity_stock(1, "c5.large", B))
    answer = yard.fleet(yard.config(("c5.large", A), ("c5.large", B), ("m5.large", A)), count=3)
    assert launched_pools(answer) == [("c5.large", B, 1), ("m5.large", A, 2)]
    assert launch_errors(answer) == [
        ("c5.large", A, "InsufficientInstanceCapacity"),
        ("c5.large", B, "InsufficientInstanceCapacity"),
    ]
    entry = answer["Errors"][0]
    assert entry["Lifecycle"] == "on-demand"
    assert entry["LaunchTemplateAndOverrides"]["Overrides"]["SubnetId"] == yard.subnets[A]
    assert (
        f"c5.large capacity in the Availability Zone you requested ({A})" in (entry["ErrorMessage"])
    )


def test_nothing_to_be_had_is_all_errors() -> None:
    yard = with_stock(capacity_stock(0))
    answer = yard.fleet(yard.config(("c5.large", A), ("m5.large", B)))
    assert answer["Instances"] == []
    assert launch_error_codes(answer) == {"InsufficientInstanceCapacity"}
    assert len(answer["Errors"]) == 2


def test_terminated_machines_go_back_into_stock() -> None:
    yard = with_stock(capacity_stock(1, "m5.large", A))
    (first,) = yard.launch()
    assert launch_error_codes(yard.fleet(yard.config(("m5.large", A)))) == {
        "InsufficientInstanceCapacity"
    }
    yard.ask("TerminateInstances", InstanceIds=[first])
    yard.launch()


def test_priorities_decide_where_the_strategy_says_so(yard: LaunchAccount) -> None:
    first = yard.override("m5.xlarge", A, Priority=1.0)
    config = yard.config(yard.override("c5.large", A, Priority=2.5), first, ("m5.large", A))
    answer = yard.fleet(config, OnDemandOptions=PRIORITIES)
    assert launched_pools(answer) == [("m5.xlarge", A, 1)]
    (entry,) = answer["Instances"]
    assert entry["LaunchTemplateAndOverrides"]["Overrides"]["Priority"] == 1.0


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ("lowest-price", ("m5.large", A)),
        ("price-capacity-optimized", ("m5.large", C)),
        ("capacity-optimized", ("m5.large", B)),
        ("capacity-optimized-prioritized", ("m5.large", B)),
    ],
)
def test_spot_strategies(strategy: str, expected: tuple[str, str]) -> None:
    prices = [spot_price(price, "m5.large", zone) for price, zone in ((1, A), (3, B), (2, C))]
    depths = (capacity_stock(1, zone=A), capacity_stock(20, zone=B), capacity_stock(10, zone=C))
    yard = LaunchAccount(prices=prices, settings=EmulatorSettings(capacity_rules=depths))
    overrides = [
        yard.override("m5.large", zone, Priority=rank) for rank, zone in ((1.0, A), (2.0, B))
    ]
    config = yard.config(*overrides, ("m5.large", C))
    answer = yard.fleet(config, **SPOT, SpotOptions={"AllocationStrategy": strategy})
    assert launched_pools(answer) == [(*expected, 1)]


def test_diversified_spot_is_spread_over_all_pools(yard: LaunchAccount) -> None:
    config = yard.config(("m5.large", A), ("m5.large", B), ("c5.large", A))
    options = {"AllocationStrategy": "diversified"}
    answer = yard.fleet(config, count=7, **SPOT, SpotOptions=options)
    assert sorted(count for *_, count in launched_pools(answer)) == [2, 2, 3]


def test_what_a_dry_pool_lacks_of_its_share_comes_from_the_others() -> None:
    yard = with_stock(capacity_stock(1, zone=A))
    config = yard.config(("m5.large", A), ("m5.large", B), ("m5.large", C))
    options = {"AllocationStrategy": "lowest-price", "InstancePoolsToUseCount": 3}
    answer = yard.fleet(config, count=9, **SPOT, SpotOptions=options)
    assert {zone: count for _, zone, count in launched_pools(answer)}[A] == 1
    assert len(launched_ids(answer)) == 9
    assert launch_errors(answer) == [("m5.large", A, "InsufficientInstanceCapacity")]


def test_a_fleet_can_be_mixed(yard: LaunchAccount) -> None:
    target = {
        "TotalTargetCapacity": 6,
        "OnDemandTargetCapacity": 1,
        "SpotTargetCapacity": 2,
        "DefaultTargetCapacityType": "spot",
    }
    request = yard.request(yard.config(("m5.large", A)))
    answer = yard.ask("CreateFleet", **{**request, "TargetCapacitySpecification": target})
    got = {each["Lifecycle"]: len(each["InstanceIds"]) for each in answer["Instances"]}
    assert got == {"on-demand": 1, "spot": 5}


def test_weights_count_towards_the_target(yard: LaunchAccount) -> None:
    heavy = yard.override("m5.large", A, WeightedCapacity=3.0)
    answer = yard.fleet(yard.config(heavy), count=7)
    assert launched_pools(answer) == [("m5.large", A, 3)]


FLEET_POOLS = st.lists(
    st.tuples(st.sampled_from(["m5.large", "c5.large", "p5.48xlarge"]), st.sampled_from([A, B, C])),
    min_size=1,
    max_size=6,
    unique=True,
)


@settings(max_examples=25, deadline=None)
@given(FLEET_POOLS, st.integers(1, 6), st.sampled_from(["spot", "on-demand"]), st.integers(0, 3))
def test_a_fleet_never_answers_nothing(
    asked: list[tuple[str, str]], count: int, market: str, free: int
) -> None:
    yard = with_stock(capacity_stock(free, zone=A), capacity_stock(0, "c5.large"))
    answer = yard.fleet(yard.config(*asked), count=count, market=market)
    got = launched_ids(answer)
    assert len(got) == count or answer["Errors"]
    assert len(set(got)) == len(got) <= count
    assert {each["InstanceId"] for each in yard.describe()} == set(got)
    tried = [each[:2] for each in launch_errors(answer)]
    assert len(set(tried)) == len(tried)


def test_a_spot_machine_has_a_request(yard: LaunchAccount) -> None:
    (found,) = yard.launch(**SPOT)
    machine = yard.machine(found)
    assert machine["InstanceLifecycle"] == "spot"
    assert machine["SpotInstanceRequestId"].startswith("sir-")
    (plain,) = yard.launch()
    assert not {"InstanceLifecycle", "SpotInstanceRequestId"} & yard.machine(plain).keys()


def test_without_overrides_the_template_says_it_all(yard: LaunchAccount) -> None:
    interface = {"DeviceIndex": 0, "Groups": [yard.group], "SubnetId": yard.subnets[D]}
    name = yard.template("whole", InstanceType="c5.large", NetworkInterfaces=[interface])
    answer = yard.fleet(yard.config(template=name))
    assert launched_pools(answer) == [("c5.large", D, 1)]
    assert yard.refused("CreateFleet", **yard.request(yard.config())) == ("MissingParameter", 400)


def test_zones_alone_need_a_default_network(yard: LaunchAccount) -> None:
    bare = {"InstanceType": "m5.large", "AvailabilityZone": B}
    home = yard.cloud.services.network.state.vpcs[yard.cloud.account.vpc]
    home.default = False
    assert launch_errors(yard.fleet(yard.config(bare))) == [("m5.large", B, "VPCIdNotSpecified")]
    home.default = True
    assert launched_pools(yard.fleet(yard.config(bare))) == [("m5.large", B, 1)]


def test_tags_come_from_template_fleet_and_ec2(yard: LaunchAccount) -> None:
    name = yard.template(
        "tagged", TagSpecifications=tag_specifications("instance", a="template", b="template")
    )
    answer = yard.fleet(
        yard.config(("m5.large", A), template=name),
        TagSpecifications=tag_specifications("instance", b="fleet", empty="")
        + tag_specifications("volume", c="no"),
    )
    (machine,) = yard.describe(*launched_ids(answer))
    found = tags_of(machine)
    assert {key: found[key] for key in ("a", "b", "empty")} == {
        "a": "template",
        "b": "fleet",
        "empty": "",
    }
    assert "c" not in found
    assert found["aws:ec2:fleet-id"] == answer["FleetId"]
    assert found["aws:ec2launchtemplate:version"] == "1"


def test_the_machine_is_made_from_template_and_override(yard: LaunchAccount) -> None:
    yard.ask_of("iam", "CreateInstanceProfile", {"InstanceProfileName": "nodes"})
    name = yard.template(
        "full",
        IamInstanceProfile={"Name": "nodes"},
        MetadataOptions={"HttpTokens": "required", "HttpPutResponseHopLimit": 2},
        Monitoring={"Enabled": True},
        BlockDeviceMappings=[
            {"DeviceName": "/dev/xvdb", "Ebs": {"VolumeSize": 9, "DeleteOnTermination": False}}
        ],
    )
    override = yard.override("m6g.large", C, ImageId=yard.arm_image)
    (found,) = launched_ids(yard.fleet(yard.config(override, template=name)))
    machine = yard.machine(found)
    groups = [{"GroupId": yard.group, "GroupName": "wain-nodes"}]
    (interface,) = machine["NetworkInterfaces"]
    assert machine["SecurityGroups"] == interface["Groups"] == groups
    assert machine["IamInstanceProfile"]["Arn"].endswith(":instance-profile/nodes")
    assert machine["MetadataOptions"]["HttpTokens"] == "required"
    assert machine["MetadataOptions"]["HttpPutResponseHopLimit"] == 2
    assert machine["MetadataOptions"]["HttpEndpoint"] == "enabled"
    assert machine["Monitoring"]["State"] == "enabled"
    assert (machine["ImageId"], machine["Architecture"]) == (yard.arm_image, "arm64")
    assert machine["SubnetId"] == interface["SubnetId"] == yard.subnets[C]
    assert machine["Placement"]["AvailabilityZoneId"] == "usw2-az3"
    disks = {
        each["DeviceName"]: each["Ebs"]["DeleteOnTermination"]
        for each in machine["BlockDeviceMappings"]
    }
    assert disks == {"/dev/xvda": True, "/dev/xvdb": False}
    assert interface["InterfaceType"] == "interface"


def test_a_dry_run_launches_nothing(yard: LaunchAccount) -> None:
    request = yard.request(yard.config(("m5.large", A)), DryRun=True)
    assert yard.refused("CreateFleet", **request) == ("DryRunOperation", 412)
    assert yard.describe() == []


def test_a_token_makes_the_call_happen_once(yard: LaunchAccount) -> None:
    request = yard.request(yard.config(("m5.large", A)), count=2, ClientToken="once")
    first = yard.ask("CreateFleet", **request)
    assert yard.ask("CreateFleet", **request) == first
    assert len(yard.describe()) == 2
    other = {**request, "Context": "another"}
    assert yard.refused("CreateFleet", **other) == ("IdempotentParameterMismatch", 400)
    first["Instances"].clear()  # what a caller does to an answer stays with the caller
    assert launched_ids(yard.ask("CreateFleet", **request))


def test_a_refused_call_may_be_repeated_with_its_token(yard: LaunchAccount) -> None:
    config = yard.config(("m5.large", A), template="later")
    request = yard.request(config, ClientToken="again")
    assert yard.refused("CreateFleet", **request)[0] == (
        "InvalidLaunchTemplateName.NotFoundException"
    )
    yard.template("later")
    assert len(launched_ids(yard.ask("CreateFleet", **request))) == 1


def test_a_token_is_forgotten_after_a_day(yard: LaunchAccount) -> None:
    request = yard.request(yard.config(("m5.large", A)), ClientToken="once")
    first = yard.ask("CreateFleet", **request)
    yard.wait(24 * 3600 + 1)
    assert yard.ask("CreateFleet", **request)["FleetId"] != first["FleetId"]


def test_a_pool_named_twice_fails_the_whole_call(yard: LaunchAccount) -> None:
    other = yard.template("other", KeyName="another")
    for second in (yard.config(("m5.large", A), template=other), yard.config(("m5.large", A))):
        request = yard.request(yard.config(("m5.large", A), ("m5.large", B)), second)
        assert yard.refused("CreateFleet", **request) == ("InvalidFleetConfig", 400)
    assert yard.describe() == []


def test_subnets_that_do_not_exist_are_no_pool_at_all(yard: LaunchAccount) -> None:
    lost = [
        {"InstanceType": "m5.large", "SubnetId": f"subnet-0123456789abcdef{last}"} for last in "12"
    ]
    answer = yard.fleet(yard.config(*lost))
    assert [each["ErrorCode"] for each in answer["Errors"]] == ["InvalidSubnetID.NotFound"] * 2


def test_two_subnets_of_a_zone_are_the_same_pool(yard: LaunchAccount) -> None:
    vpc = yard.cloud.account.vpc
    made = yard.ask("CreateSubnet", VpcId=vpc, CidrBlock="192.168.240.0/24", AvailabilityZone=A)
    second = {"InstanceType": "m5.large", "SubnetId": made["Subnet"]["SubnetId"]}
    request = yard.request(yard.config(("m5.large", A), second))
    assert yard.refused("CreateFleet", **request) == ("InvalidFleetConfig", 400)


@pytest.mark.parametrize(
    ("specification", "code"),
    [
        ({"LaunchTemplateName": "absent"}, "InvalidLaunchTemplateName.NotFoundException"),
        ({"LaunchTemplateId": "lt-0123456789abcdef0"}, "InvalidLaunchTemplateId.NotFound"),
        (
            {"LaunchTemplateName": "plain", "Version": "7"},
            "InvalidLaunchTemplateId.VersionNotFound",
        ),
        ({}, "MissingParameter"),
    ],
)
@pytest.mark.parametrize("dry", [False, True])
def test_a_missing_template_fails_the_whole_call(
    yard: LaunchAccount, specification: dict[str, str], code: str, dry: bool
) -> None:
    config = {**yard.config(("m5.large", A)), "LaunchTemplateSpecification": specification}
    request = yard.request(config, DryRun=dry)
    assert yard.refused("CreateFleet", **request) == (code, 400)


def test_a_zone_that_does_not_have_the_type_is_unsupported(yard: LaunchAccount) -> None:
    first = yard.override("c6in.large", D, Priority=1.0)
    answer = yard.fleet(yard.config(first, ("m5.large", A)), OnDemandOptions=PRIORITIES)
    assert launch_errors(answer) == [("c6in.large", D, "Unsupported")]
    assert f"choosing {A}, {B}, {C}" in answer["Errors"][0]["ErrorMessage"]
    assert launched_pools(answer) == [("m5.large", A, 1)]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"InstanceType": "m5.8xhuge"}, "InvalidParameterValue"),
        ({"SubnetId": "subnet-0123456789abcdef0"}, "InvalidSubnetID.NotFound"),
        ({"AvailabilityZone": B}, "InvalidParameterValue"),
        ({"ImageId": "ami-0123456789abcdef0"}, "InvalidAMIID.NotFound"),
        ({"InstanceType": "m6g.large"}, "InvalidParameterValue"),
        ({"IamInstanceProfile": {"Name": "absent"}}, "InvalidParameterValue"),
    ],
)
def test_what_is_wrong_with_one_pool_stands_among_the_errors(
    yard: LaunchAccount, change: dict[str, Any], code: str
) -> None:
    wrong = {**yard.override("m5.large", A, Priority=1.0), **change}
    answer = yard.fleet(yard.config(wrong, ("m5.large", C)), OnDemandOptions=PRIORITIES)
    assert launch_error_codes(answer) == {code}
    assert launched_pools(answer) == [("m5.large", C, 1)]
    (entry,) = answer["Errors"]
    assert (
        entry["LaunchTemplateAndOverrides"]["Overrides"].items()
        >= {
            "InstanceType": wrong["InstanceType"],
            "AvailabilityZone": wrong["AvailabilityZone"],
            "SubnetId": wrong["SubnetId"],
        }.items()
    )


def test_a_subnet_runs_out_of_addresses(yard: LaunchAccount) -> None:
    made = yard.ask(
        "CreateSubnet",
        VpcId=yard.cloud.account.vpc,
        CidrBlock="192.168.240.0/28",
        AvailabilityZone=A,
    )
    small = {"InstanceType": "m5.large", "SubnetId": made["Subnet"]["SubnetId"]}
    answer = yard.fleet(yard.config(small, ("m5.large", B)), count=13)
    assert {zone: count for _, zone, count in launched_pools(answer)} == {A: 11, B: 2}
    assert launch_errors(answer) == [("m5.large", A, "InsufficientFreeAddressesInSubnet")]
    addresses = {each["PrivateIpAddress"] for each in yard.describe(*launched_ids(answer)[:11])}
    assert addresses == {f"192.168.240.{last}" for last in range(4, 15)}
    shown = yard.ask("DescribeSubnets", SubnetIds=[small["SubnetId"]])["Subnets"]
    assert shown[0]["AvailableIpAddressCount"] == 0
    yard.ask("TerminateInstances", InstanceIds=launched_ids(answer)[:2])
    yard.wait(60)
    shown = yard.ask("DescribeSubnets", SubnetIds=[small["SubnetId"]])["Subnets"]
    assert shown[0]["AvailableIpAddressCount"] == 2
    again = yard.fleet(yard.config(small), count=2)
    assert len({each["PrivateIpAddress"] for each in yard.describe(*launched_ids(again))}) == 2


def test_spot_needs_a_role_that_may_have_to_be_created() -> None:
    yard = LaunchAccount(settings=EmulatorSettings(quota=QuotaLimits(spotRole=False)))
    yard.launch(**SPOT)  # the role is there
    yard.ask_of("iam", "DeleteServiceLinkedRole", {"RoleName": "AWSServiceRoleForEC2Spot"})
    answer = yard.fleet(yard.config(("m5.large", A), ("m5.large", B)), **SPOT)
    assert launch_error_codes(answer) == {"AuthFailure.ServiceLinkedRoleCreationNotPermitted"}
    assert {each["Lifecycle"] for each in answer["Errors"]} == {"spot"}
    yard.launch()


def test_a_spot_price_above_the_limit_is_not_paid() -> None:
    yard = LaunchAccount(prices=[spot_price(0.05, "m5.large", A), spot_price(0.03, "m5.large", B)])
    cheap = yard.override("m5.large", A, MaxPrice="0.04")
    answer = yard.fleet(yard.config(cheap), **SPOT)
    assert launch_error_codes(answer) == {"SpotMaxPriceTooLow"}
    answer = yard.fleet(yard.config(yard.override("m5.large", B, MaxPrice="0.04")), **SPOT)
    assert len(launched_ids(answer)) == 1


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({"Type": "maintain"}, "UnsupportedOperation"),
        ({"OnDemandOptions": {"SingleInstanceType": True}}, "UnsupportedOperation"),
        ({"OnDemandOptions": {"MinTargetCapacity": 1}}, "UnsupportedOperation"),
        ({"OnDemandOptions": {"AllocationStrategy": "fairest"}}, "InvalidParameterValue"),
        ({"LaunchTemplateConfigs": []}, "MissingParameter"),
        ({"TargetCapacitySpecification": {"TotalTargetCapacity": 0}}, "InvalidParameterValue"),
        (
            {"TargetCapacitySpecification": {"TotalTargetCapacity": 1, "SpotTargetCapacity": 2}},
            "InvalidParameterValue",
        ),
        ({"ClientToken": "x" * 65}, "InvalidParameterValue"),
    ],
)
def test_what_is_not_understood_is_refused(
    yard: LaunchAccount, params: dict[str, Any], code: str
) -> None:
    request = {**yard.request(yard.config(("m5.large", A))), **params}
    assert yard.refused("CreateFleet", **request) == (code, 400)
    assert yard.describe() == []


def test_more_than_300_overrides_are_refused(yard: LaunchAccount) -> None:
    config = yard.config(*[("m5.large", A)] * 301)
    assert yard.refused("CreateFleet", **yard.request(config)) == ("InvalidParameterValue", 400)
