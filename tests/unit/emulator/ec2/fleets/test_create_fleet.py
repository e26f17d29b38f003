"""CreateFleet: allocation strategies, launches, errors and their codes."""

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
    capacity_rule,
    launch_error_codes,
    launch_errors,
    launched_capacity_pools,
    launched_ids,
    spot_price,
    tag_specifications,
    tags_of,
)

from wainwright.emulator.ec2.fleets.allocation_strategies import (
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
    assert [
        capacity_pool.index for capacity_pool in ON_DEMAND_STRATEGIES[strategy](POOLS)
    ] == expected


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ("lowest-price", [0, 2, 1, 3]),
        ("diversified", [0, 2, 1, 3]),
        ("capacity-optimized", [1, 2, 0, 3]),
        # Half the depth of the deepest is enough: the cheaper one is first.
        ("price-capacity-optimized", [2, 1, 0, 3]),
        ("capacity-optimized-prioritized", [1, 2, 0, 3]),
    ],
)
def test_spot(strategy: str, expected: list[int]) -> None:
    assert [capacity_pool.index for capacity_pool in SPOT_STRATEGIES[strategy](POOLS)] == expected


def test_with_unlimited_capacity_only_the_price_decides() -> None:
    capacity_pools = [
        AllocationCandidate(index=n, price=price, depth=inf)
        for n, price in enumerate((0.3, 0.1, 0.2))
    ]
    assert [
        capacity_pool.index
        for capacity_pool in SPOT_STRATEGIES["price-capacity-optimized"](capacity_pools)
    ] == [1, 2, 0]


def test_equal_capacity_pools_keep_the_order_of_the_request() -> None:
    capacity_pools = [
        AllocationCandidate(index=number, price=0.1, priority=1.0) for number in range(5)
    ]
    for order in (*ON_DEMAND_STRATEGIES.values(), *SPOT_STRATEGIES.values()):
        assert order(capacity_pools) == capacity_pools


POOL = st.builds(
    AllocationCandidate,
    index=st.integers(0, 99),
    price=st.none() | st.floats(0.01, 9),
    priority=st.none() | st.floats(0, 9),
    depth=st.sampled_from([0.0, 1.0, 5.0, inf]),
)


@given(st.lists(POOL), st.sampled_from([*ON_DEMAND_STRATEGIES.values(), *SPOT_STRATEGIES.values()]))
def test_every_strategy_keeps_all_capacity_pools(
    capacity_pools: list[AllocationCandidate], order: object
) -> None:
    assert callable(order)
    found = order(capacity_pools)
    assert sorted(found, key=id) == sorted(capacity_pools, key=id)


@given(st.integers(0, 999), st.integers(1, 50))
def test_shares_are_even_and_sum_to_the_total(wanted: int, over: int) -> None:
    parts = even_shares(wanted, over)
    assert (sum(parts), len(parts)) == (wanted, over)
    assert max(parts) - min(parts) <= 1


@pytest.mark.parametrize(
    ("strategy", "requested", "available", "expected"),
    [
        ("diversified", None, 7, 7),
        ("diversified", None, 0, 1),
        ("lowest-price", None, 7, 1),
        ("lowest-price", 3, 7, 3),
        ("lowest-price", 9, 7, 7),
        ("price-capacity-optimized", 3, 7, 1),
    ],
)
def test_diversification_count_by_strategy(
    strategy: str, requested: int | None, available: int, expected: int
) -> None:
    assert diversification_count(strategy, requested, available) == expected


PRIORITIES = {"AllocationStrategy": "prioritized"}

SPOT: dict[str, Any] = {"capacity_type": "spot"}


@pytest.fixture
def account() -> LaunchAccount:
    return LaunchAccount()


def with_capacity(*rules: Any) -> LaunchAccount:
    return LaunchAccount(settings=EmulatorSettings(capacity_rules=rules))


def test_the_cheapest_capacity_pool_is_used_and_fully_described(account: LaunchAccount) -> None:
    response = account.fleet(account.config(("m5.large", A), ("c5.large", B)))
    assert response["Errors"] == []
    (entry,) = response["Instances"]
    assert entry["InstanceType"] == "c5.large"
    assert entry["Lifecycle"] == "on-demand"
    shown = entry["LaunchTemplateAndOverrides"]
    assert shown["Overrides"] == account.override("c5.large", B)
    assert shown["LaunchTemplateSpecification"]["Version"] == "1"
    (instance,) = account.describe(*entry["InstanceIds"])
    assert instance["Placement"]["AvailabilityZone"] == B


def test_several_instances_of_a_capacity_pool_are_one_entry(account: LaunchAccount) -> None:
    response = account.fleet(account.config(("m5.large", A)), count=4)
    assert launched_capacity_pools(response) == [("m5.large", A, 4)]
    shown = account.describe(*launched_ids(response))
    assert [each["AmiLaunchIndex"] for each in shown] == [0, 1, 2, 3]


def test_an_empty_capacity_pool_is_reported_and_the_next_one_used() -> None:
    account = with_capacity(capacity_rule(0, "c5.large", A), capacity_rule(1, "c5.large", B))
    response = account.fleet(
        account.config(("c5.large", A), ("c5.large", B), ("m5.large", A)), count=3
    )
    assert launched_capacity_pools(response) == [("c5.large", B, 1), ("m5.large", A, 2)]
    assert launch_errors(response) == [
        ("c5.large", A, "InsufficientInstanceCapacity"),
        ("c5.large", B, "InsufficientInstanceCapacity"),
    ]
    entry = response["Errors"][0]
    assert entry["Lifecycle"] == "on-demand"
    assert entry["LaunchTemplateAndOverrides"]["Overrides"]["SubnetId"] == account.subnets[A]
    assert (
        f"c5.large capacity in the Availability Zone you requested ({A})" in (entry["ErrorMessage"])
    )


def test_without_any_capacity_the_response_has_only_errors() -> None:
    account = with_capacity(capacity_rule(0))
    response = account.fleet(account.config(("c5.large", A), ("m5.large", B)))
    assert response["Instances"] == []
    assert launch_error_codes(response) == {"InsufficientInstanceCapacity"}
    assert len(response["Errors"]) == 2


def test_terminated_instances_release_capacity() -> None:
    account = with_capacity(capacity_rule(1, "m5.large", A))
    (first,) = account.launch()
    assert launch_error_codes(account.fleet(account.config(("m5.large", A)))) == {
        "InsufficientInstanceCapacity"
    }
    account.call("TerminateInstances", InstanceIds=[first])
    account.launch()


def test_priorities_decide_in_prioritized_strategies(account: LaunchAccount) -> None:
    first = account.override("m5.xlarge", A, Priority=1.0)
    config = account.config(account.override("c5.large", A, Priority=2.5), first, ("m5.large", A))
    response = account.fleet(config, OnDemandOptions=PRIORITIES)
    assert launched_capacity_pools(response) == [("m5.xlarge", A, 1)]
    (entry,) = response["Instances"]
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
    depths = (capacity_rule(1, zone=A), capacity_rule(20, zone=B), capacity_rule(10, zone=C))
    account = LaunchAccount(prices=prices, settings=EmulatorSettings(capacity_rules=depths))
    overrides = [
        account.override("m5.large", zone, Priority=rank) for rank, zone in ((1.0, A), (2.0, B))
    ]
    config = account.config(*overrides, ("m5.large", C))
    response = account.fleet(config, **SPOT, SpotOptions={"AllocationStrategy": strategy})
    assert launched_capacity_pools(response) == [(*expected, 1)]


def test_diversified_spot_is_spread_over_all_capacity_pools(account: LaunchAccount) -> None:
    config = account.config(("m5.large", A), ("m5.large", B), ("c5.large", A))
    options = {"AllocationStrategy": "diversified"}
    response = account.fleet(config, count=7, **SPOT, SpotOptions=options)
    assert sorted(count for *_, count in launched_capacity_pools(response)) == [2, 2, 3]


def test_the_share_of_an_empty_capacity_pool_comes_from_the_others() -> None:
    account = with_capacity(capacity_rule(1, zone=A))
    config = account.config(("m5.large", A), ("m5.large", B), ("m5.large", C))
    options = {"AllocationStrategy": "lowest-price", "InstancePoolsToUseCount": 3}
    response = account.fleet(config, count=9, **SPOT, SpotOptions=options)
    assert {zone: count for _, zone, count in launched_capacity_pools(response)}[A] == 1
    assert len(launched_ids(response)) == 9
    assert launch_errors(response) == [("m5.large", A, "InsufficientInstanceCapacity")]


def test_a_fleet_can_mix_spot_and_on_demand(account: LaunchAccount) -> None:
    target = {
        "TotalTargetCapacity": 6,
        "OnDemandTargetCapacity": 1,
        "SpotTargetCapacity": 2,
        "DefaultTargetCapacityType": "spot",
    }
    request = account.request(account.config(("m5.large", A)))
    response = account.call("CreateFleet", **{**request, "TargetCapacitySpecification": target})
    got = {each["Lifecycle"]: len(each["InstanceIds"]) for each in response["Instances"]}
    assert got == {"on-demand": 1, "spot": 5}


def test_weights_count_towards_the_target(account: LaunchAccount) -> None:
    heavy = account.override("m5.large", A, WeightedCapacity=3.0)
    response = account.fleet(account.config(heavy), count=7)
    assert launched_capacity_pools(response) == [("m5.large", A, 3)]


def test_weights_count_over_all_pools_that_a_fleet_is_launched_from() -> None:
    account = with_capacity(capacity_rule(1, "m5.large"))
    config = account.config(
        account.override("m5.large", A, WeightedCapacity=4.0, Priority=0.0),
        account.override("c5.large", A, WeightedCapacity=2.0, Priority=1.0),
    )
    response = account.fleet(
        config,
        count=8,
        capacity_type="on-demand",
        OnDemandOptions={"AllocationStrategy": "prioritized"},
    )
    assert sorted(launched_capacity_pools(response)) == [("c5.large", A, 2), ("m5.large", A, 1)]


FLEET_POOLS = st.lists(
    st.tuples(st.sampled_from(["m5.large", "c5.large", "p5.48xlarge"]), st.sampled_from([A, B, C])),
    min_size=1,
    max_size=6,
    unique=True,
)


@settings(max_examples=25, deadline=None)
@given(FLEET_POOLS, st.integers(1, 6), st.sampled_from(["spot", "on-demand"]), st.integers(0, 3))
def test_a_fleet_response_has_instances_or_errors(
    requested: list[tuple[str, str]], count: int, capacity_type: str, free: int
) -> None:
    account = with_capacity(capacity_rule(free, zone=A), capacity_rule(0, "c5.large"))
    response = account.fleet(account.config(*requested), count=count, capacity_type=capacity_type)
    got = launched_ids(response)
    assert len(got) == count or response["Errors"]
    assert len(set(got)) == len(got) <= count
    assert {each["InstanceId"] for each in account.describe()} == set(got)
    tried = [each[:2] for each in launch_errors(response)]
    assert len(set(tried)) == len(tried)


def test_a_spot_instance_has_a_spot_request(account: LaunchAccount) -> None:
    (instance_id,) = account.launch(**SPOT)
    instance = account.describe_instance(instance_id)
    assert instance["InstanceLifecycle"] == "spot"
    assert instance["SpotInstanceRequestId"].startswith("sir-")
    (plain,) = account.launch()
    assert (
        not {"InstanceLifecycle", "SpotInstanceRequestId"} & account.describe_instance(plain).keys()
    )


def test_without_overrides_type_and_subnet_come_from_the_template(account: LaunchAccount) -> None:
    interface = {"DeviceIndex": 0, "Groups": [account.group], "SubnetId": account.subnets[D]}
    name = account.template("whole", InstanceType="c5.large", NetworkInterfaces=[interface])
    response = account.fleet(account.config(template=name))
    assert launched_capacity_pools(response) == [("c5.large", D, 1)]
    assert account.refused("CreateFleet", **account.request(account.config())) == (
        "MissingParameter",
        400,
    )


def test_overrides_with_zones_only_need_a_default_vpc(account: LaunchAccount) -> None:
    bare = {"InstanceType": "m5.large", "AvailabilityZone": B}
    home = account.cloud.services.network.state.vpcs[account.cloud.account.vpc]
    home.default = False
    assert launch_errors(account.fleet(account.config(bare))) == [
        ("m5.large", B, "VPCIdNotSpecified")
    ]
    home.default = True
    assert launched_capacity_pools(account.fleet(account.config(bare))) == [("m5.large", B, 1)]


def test_tags_come_from_template_fleet_and_ec2(account: LaunchAccount) -> None:
    name = account.template(
        "tagged", TagSpecifications=tag_specifications("instance", a="template", b="template")
    )
    response = account.fleet(
        account.config(("m5.large", A), template=name),
        TagSpecifications=tag_specifications("instance", b="fleet", empty="")
        + tag_specifications("volume", c="no"),
    )
    (instance,) = account.describe(*launched_ids(response))
    tags = tags_of(instance)
    assert {key: tags[key] for key in ("a", "b", "empty")} == {
        "a": "template",
        "b": "fleet",
        "empty": "",
    }
    assert "c" not in tags
    assert tags["aws:ec2:fleet-id"] == response["FleetId"]
    assert tags["aws:ec2launchtemplate:version"] == "1"


def test_an_instance_combines_template_and_override(account: LaunchAccount) -> None:
    account.call_service("iam", "CreateInstanceProfile", {"InstanceProfileName": "nodes"})
    name = account.template(
        "full",
        IamInstanceProfile={"Name": "nodes"},
        MetadataOptions={"HttpTokens": "required", "HttpPutResponseHopLimit": 2},
        Monitoring={"Enabled": True},
        BlockDeviceMappings=[
            {"DeviceName": "/dev/xvdb", "Ebs": {"VolumeSize": 9, "DeleteOnTermination": False}}
        ],
    )
    override = account.override("m6g.large", C, ImageId=account.arm_image)
    (instance_id,) = launched_ids(account.fleet(account.config(override, template=name)))
    instance = account.describe_instance(instance_id)
    groups = [{"GroupId": account.group, "GroupName": "wain-nodes"}]
    (interface,) = instance["NetworkInterfaces"]
    assert instance["SecurityGroups"] == interface["Groups"] == groups
    assert instance["IamInstanceProfile"]["Arn"].endswith(":instance-profile/nodes")
    assert instance["MetadataOptions"]["HttpTokens"] == "required"
    assert instance["MetadataOptions"]["HttpPutResponseHopLimit"] == 2
    assert instance["MetadataOptions"]["HttpEndpoint"] == "enabled"
    assert instance["Monitoring"]["State"] == "enabled"
    assert (instance["ImageId"], instance["Architecture"]) == (account.arm_image, "arm64")
    assert instance["SubnetId"] == interface["SubnetId"] == account.subnets[C]
    assert instance["Placement"]["AvailabilityZoneId"] == "usw2-az3"
    disks = {
        each["DeviceName"]: each["Ebs"]["DeleteOnTermination"]
        for each in instance["BlockDeviceMappings"]
    }
    assert disks == {"/dev/xvda": True, "/dev/xvdb": False}
    assert interface["InterfaceType"] == "interface"


def test_a_dry_run_launches_nothing(account: LaunchAccount) -> None:
    request = account.request(account.config(("m5.large", A)), DryRun=True)
    assert account.refused("CreateFleet", **request) == ("DryRunOperation", 412)
    assert account.describe() == []


def test_a_client_token_launches_once(account: LaunchAccount) -> None:
    request = account.request(account.config(("m5.large", A)), count=2, ClientToken="once")
    first = account.call("CreateFleet", **request)
    assert account.call("CreateFleet", **request) == first
    assert len(account.describe()) == 2
    other = {**request, "Context": "another"}
    assert account.refused("CreateFleet", **other) == ("IdempotentParameterMismatch", 400)
    first["Instances"].clear()  # a caller may change its response
    assert launched_ids(account.call("CreateFleet", **request))


def test_a_failed_request_may_be_repeated_with_its_client_token(account: LaunchAccount) -> None:
    config = account.config(("m5.large", A), template="later")
    request = account.request(config, ClientToken="again")
    assert account.refused("CreateFleet", **request)[0] == (
        "InvalidLaunchTemplateName.NotFoundException"
    )
    account.template("later")
    assert len(launched_ids(account.call("CreateFleet", **request))) == 1


def test_a_client_token_expires_after_a_day(account: LaunchAccount) -> None:
    request = account.request(account.config(("m5.large", A)), ClientToken="once")
    first = account.call("CreateFleet", **request)
    account.wait(24 * 3600 + 1)
    assert account.call("CreateFleet", **request)["FleetId"] != first["FleetId"]


def test_a_duplicate_capacity_pool_fails_the_whole_request(account: LaunchAccount) -> None:
    other = account.template("other", KeyName="another")
    for second in (
        account.config(("m5.large", A), template=other),
        account.config(("m5.large", A)),
    ):
        request = account.request(account.config(("m5.large", A), ("m5.large", B)), second)
        assert account.refused("CreateFleet", **request) == ("InvalidFleetConfig", 400)
    assert account.describe() == []


def test_unknown_subnets_are_not_duplicate_capacity_pools(account: LaunchAccount) -> None:
    lost = [
        {"InstanceType": "m5.large", "SubnetId": f"subnet-0123456789abcdef{last}"} for last in "12"
    ]
    response = account.fleet(account.config(*lost))
    assert [each["ErrorCode"] for each in response["Errors"]] == ["InvalidSubnetID.NotFound"] * 2


def test_two_subnets_of_a_zone_are_the_same_capacity_pool(account: LaunchAccount) -> None:
    vpc = account.cloud.account.vpc
    created = account.call(
        "CreateSubnet", VpcId=vpc, CidrBlock="192.168.240.0/24", AvailabilityZone=A
    )
    second = {"InstanceType": "m5.large", "SubnetId": created["Subnet"]["SubnetId"]}
    request = account.request(account.config(("m5.large", A), second))
    assert account.refused("CreateFleet", **request) == ("InvalidFleetConfig", 400)


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
def test_a_missing_template_fails_the_whole_request(
    account: LaunchAccount, specification: dict[str, str], code: str, dry: bool
) -> None:
    config = {**account.config(("m5.large", A)), "LaunchTemplateSpecification": specification}
    request = account.request(config, DryRun=dry)
    assert account.refused("CreateFleet", **request) == (code, 400)


def test_a_zone_without_the_instance_type_is_unsupported(account: LaunchAccount) -> None:
    first = account.override("c6in.large", D, Priority=1.0)
    response = account.fleet(account.config(first, ("m5.large", A)), OnDemandOptions=PRIORITIES)
    assert launch_errors(response) == [("c6in.large", D, "Unsupported")]
    assert f"choosing {A}, {B}, {C}" in response["Errors"][0]["ErrorMessage"]
    assert launched_capacity_pools(response) == [("m5.large", A, 1)]


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
def test_errors_of_one_capacity_pool_are_in_the_response(
    account: LaunchAccount, change: dict[str, Any], code: str
) -> None:
    wrong = {**account.override("m5.large", A, Priority=1.0), **change}
    response = account.fleet(account.config(wrong, ("m5.large", C)), OnDemandOptions=PRIORITIES)
    assert launch_error_codes(response) == {code}
    assert launched_capacity_pools(response) == [("m5.large", C, 1)]
    (entry,) = response["Errors"]
    assert (
        entry["LaunchTemplateAndOverrides"]["Overrides"].items()
        >= {
            "InstanceType": wrong["InstanceType"],
            "AvailabilityZone": wrong["AvailabilityZone"],
            "SubnetId": wrong["SubnetId"],
        }.items()
    )


def test_a_subnet_runs_out_of_addresses(account: LaunchAccount) -> None:
    created = account.call(
        "CreateSubnet",
        VpcId=account.cloud.account.vpc,
        CidrBlock="192.168.240.0/28",
        AvailabilityZone=A,
    )
    small = {"InstanceType": "m5.large", "SubnetId": created["Subnet"]["SubnetId"]}
    response = account.fleet(account.config(small, ("m5.large", B)), count=13)
    assert {zone: count for _, zone, count in launched_capacity_pools(response)} == {A: 11, B: 2}
    assert launch_errors(response) == [("m5.large", A, "InsufficientFreeAddressesInSubnet")]
    addresses = {
        each["PrivateIpAddress"] for each in account.describe(*launched_ids(response)[:11])
    }
    assert addresses == {f"192.168.240.{last}" for last in range(4, 15)}
    shown = account.call("DescribeSubnets", SubnetIds=[small["SubnetId"]])["Subnets"]
    assert shown[0]["AvailableIpAddressCount"] == 0
    account.call("TerminateInstances", InstanceIds=launched_ids(response)[:2])
    account.wait(60)
    shown = account.call("DescribeSubnets", SubnetIds=[small["SubnetId"]])["Subnets"]
    assert shown[0]["AvailableIpAddressCount"] == 2
    again = account.fleet(account.config(small), count=2)
    assert len({each["PrivateIpAddress"] for each in account.describe(*launched_ids(again))}) == 2


def test_spot_needs_a_role_that_may_have_to_be_created() -> None:
    account = LaunchAccount(settings=EmulatorSettings(quota=QuotaLimits(spotRole=False)))
    account.launch(**SPOT)  # the role exists
    account.call_service("iam", "DeleteServiceLinkedRole", {"RoleName": "AWSServiceRoleForEC2Spot"})
    response = account.fleet(account.config(("m5.large", A), ("m5.large", B)), **SPOT)
    assert launch_error_codes(response) == {"AuthFailure.ServiceLinkedRoleCreationNotPermitted"}
    assert {each["Lifecycle"] for each in response["Errors"]} == {"spot"}
    account.launch()


def test_a_spot_price_above_the_maximum_price_fails() -> None:
    account = LaunchAccount(
        prices=[spot_price(0.05, "m5.large", A), spot_price(0.03, "m5.large", B)]
    )
    cheap = account.override("m5.large", A, MaxPrice="0.04")
    response = account.fleet(account.config(cheap), **SPOT)
    assert launch_error_codes(response) == {"SpotMaxPriceTooLow"}
    response = account.fleet(
        account.config(account.override("m5.large", B, MaxPrice="0.04")), **SPOT
    )
    assert len(launched_ids(response)) == 1


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
def test_unsupported_fleet_parameters_are_rejected(
    account: LaunchAccount, params: dict[str, Any], code: str
) -> None:
    request = {**account.request(account.config(("m5.large", A))), **params}
    assert account.refused("CreateFleet", **request) == (code, 400)
    assert account.describe() == []


def test_more_than_300_overrides_are_rejected(account: LaunchAccount) -> None:
    config = account.config(*[("m5.large", A)] * 301)
    assert account.refused("CreateFleet", **account.request(config)) == (
        "InvalidParameterValue",
        400,
    )
