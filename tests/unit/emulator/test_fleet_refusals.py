"""CreateFleet: what fails the whole call, what fails a pool, and with which code."""

from typing import Any

import pytest
from tests.support.launches import (
    A,
    B,
    C,
    D,
    Yard,
    codes,
    errors,
    launched,
    pools,
    spot_price,
)

from wainwright.emulator.ec2.quota import Limits
from wainwright.emulator.settings import Settings

PRIORITIES = {"AllocationStrategy": "prioritized"}

SPOT: dict[str, Any] = {"market": "spot"}


@pytest.fixture
def yard() -> Yard:
    return Yard()


def test_a_pool_named_twice_fails_the_whole_call(yard: Yard) -> None:
    other = yard.template("other", KeyName="another")
    for second in (yard.config(("m5.large", A), template=other), yard.config(("m5.large", A))):
        request = yard.request(yard.config(("m5.large", A), ("m5.large", B)), second)
        assert yard.refused("CreateFleet", **request) == ("InvalidFleetConfig", 400)
    assert yard.describe() == []


def test_subnets_that_do_not_exist_are_no_pool_at_all(yard: Yard) -> None:
    lost = [
        {"InstanceType": "m5.large", "SubnetId": f"subnet-0123456789abcdef{last}"} for last in "12"
    ]
    answer = yard.fleet(yard.config(*lost))
    assert [each["ErrorCode"] for each in answer["Errors"]] == ["InvalidSubnetID.NotFound"] * 2


def test_two_subnets_of_a_zone_are_the_same_pool(yard: Yard) -> None:
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
    yard: Yard, specification: dict[str, str], code: str, dry: bool
) -> None:
    config = {**yard.config(("m5.large", A)), "LaunchTemplateSpecification": specification}
    request = yard.request(config, DryRun=dry)
    assert yard.refused("CreateFleet", **request) == (code, 400)


def test_a_zone_that_does_not_have_the_type_is_unsupported(yard: Yard) -> None:
    first = yard.override("c6in.large", D, Priority=1.0)
    answer = yard.fleet(yard.config(first, ("m5.large", A)), OnDemandOptions=PRIORITIES)
    assert errors(answer) == [("c6in.large", D, "Unsupported")]
    assert f"choosing {A}, {B}, {C}" in answer["Errors"][0]["ErrorMessage"]
    assert pools(answer) == [("m5.large", A, 1)]


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
    yard: Yard, change: dict[str, Any], code: str
) -> None:
    wrong = {**yard.override("m5.large", A, Priority=1.0), **change}
    answer = yard.fleet(yard.config(wrong, ("m5.large", C)), OnDemandOptions=PRIORITIES)
    assert codes(answer) == {code}
    assert pools(answer) == [("m5.large", C, 1)]
    (entry,) = answer["Errors"]
    assert (
        entry["LaunchTemplateAndOverrides"]["Overrides"].items()
        >= {
            "InstanceType": wrong["InstanceType"],
            "AvailabilityZone": wrong["AvailabilityZone"],
            "SubnetId": wrong["SubnetId"],
        }.items()
    )


def test_a_subnet_runs_out_of_addresses(yard: Yard) -> None:
    made = yard.ask(
        "CreateSubnet",
        VpcId=yard.cloud.account.vpc,
        CidrBlock="192.168.240.0/28",
        AvailabilityZone=A,
    )
    small = {"InstanceType": "m5.large", "SubnetId": made["Subnet"]["SubnetId"]}
    answer = yard.fleet(yard.config(small, ("m5.large", B)), count=13)
    assert {zone: count for _, zone, count in pools(answer)} == {A: 11, B: 2}
    assert errors(answer) == [("m5.large", A, "InsufficientFreeAddressesInSubnet")]
    addresses = {each["PrivateIpAddress"] for each in yard.describe(*launched(answer)[:11])}
    assert addresses == {f"192.168.240.{last}" for last in range(4, 15)}
    shown = yard.ask("DescribeSubnets", SubnetIds=[small["SubnetId"]])["Subnets"]
    assert shown[0]["AvailableIpAddressCount"] == 0
    yard.ask("TerminateInstances", InstanceIds=launched(answer)[:2])
    yard.wait(60)
    shown = yard.ask("DescribeSubnets", SubnetIds=[small["SubnetId"]])["Subnets"]
    assert shown[0]["AvailableIpAddressCount"] == 2
    again = yard.fleet(yard.config(small), count=2)
    assert len({each["PrivateIpAddress"] for each in yard.describe(*launched(again))}) == 2


def test_spot_needs_a_role_that_may_have_to_be_created() -> None:
    yard = Yard(settings=Settings(quota=Limits(spotRole=False)))
    yard.launch(**SPOT)  # the role is there
    yard.ask_of("iam", "DeleteServiceLinkedRole", {"RoleName": "AWSServiceRoleForEC2Spot"})
    answer = yard.fleet(yard.config(("m5.large", A), ("m5.large", B)), **SPOT)
    assert codes(answer) == {"AuthFailure.ServiceLinkedRoleCreationNotPermitted"}
    assert {each["Lifecycle"] for each in answer["Errors"]} == {"spot"}
    yard.launch()


def test_a_spot_price_above_the_limit_is_not_paid() -> None:
    yard = Yard(prices=[spot_price(0.05, "m5.large", A), spot_price(0.03, "m5.large", B)])
    cheap = yard.override("m5.large", A, MaxPrice="0.04")
    answer = yard.fleet(yard.config(cheap), **SPOT)
    assert codes(answer) == {"SpotMaxPriceTooLow"}
    answer = yard.fleet(yard.config(yard.override("m5.large", B, MaxPrice="0.04")), **SPOT)
    assert len(launched(answer)) == 1


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
def test_what_is_not_understood_is_refused(yard: Yard, params: dict[str, Any], code: str) -> None:
    request = {**yard.request(yard.config(("m5.large", A))), **params}
    assert yard.refused("CreateFleet", **request) == (code, 400)
    assert yard.describe() == []


def test_more_than_300_overrides_are_refused(yard: Yard) -> None:
    config = yard.config(*[("m5.large", A)] * 301)
    assert yard.refused("CreateFleet", **yard.request(config)) == ("InvalidParameterValue", 400)
