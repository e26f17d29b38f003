"""The errors within the answer of a fleet, pool by pool."""

from typing import Any

from tests.contract.doors import OverHttp
from tests.contract.line import line
from tests.contract.lines.scene import (
    change,
    config,
    fleet,
    machines,
    pool,
    reserve,
    template,
    unique,
)


def failed(door: OverHttp, *pools: dict[str, Any], **how: Any) -> list[Any]:
    """The errors of a fleet that launches nothing; each says which pool it was."""
    answer = door.ask("ec2", "CreateFleet", **fleet(config(template(door), list(pools)), **how))
    assert not answer.get("Instances")
    for error in answer["Errors"]:
        overrides = error["LaunchTemplateAndOverrides"]["Overrides"]
        assert overrides["InstanceType"]
        assert overrides["AvailabilityZone"]
        assert overrides["SubnetId"]
        assert error["ErrorMessage"]
    return list(answer["Errors"])


def codes(errors: list[Any]) -> list[str]:
    return [each["ErrorCode"] for each in errors]


@line("errors InsufficientInstanceCapacity", alone=True)
def a_pool_without_stock(door: OverHttp) -> None:
    change(door, unavailable=[{"instanceType": "m5.large", "zone": "us-east-1a"}])
    empty = pool(door, "m5.large", "us-east-1a")
    (error,) = failed(door, empty)
    assert error["ErrorCode"] == "InsufficientInstanceCapacity"
    assert error["Lifecycle"] == "on-demand"
    assert "us-east-1a" in error["ErrorMessage"]
    (error,) = failed(door, empty, spot=True)
    assert (error["ErrorCode"], error["Lifecycle"]) == ("InsufficientInstanceCapacity", "spot")


@line("errors instances and errors", alone=True)
def the_next_pool_is_taken_and_the_failed_one_told(door: OverHttp) -> None:
    change(door, stock=[{"instanceType": "m5.large", "free": 1}])
    first, second = pool(door, "m5.large", "us-east-1a"), pool(door, "m5.xlarge", "us-east-1b")
    answer = door.ask(
        "ec2", "CreateFleet", **fleet(config(template(door), [second, first]), number=3)
    )
    got = {each["InstanceType"]: len(each["InstanceIds"]) for each in answer["Instances"]}
    assert got == {"m5.large": 1, "m5.xlarge": 2}
    assert codes(answer["Errors"]) == ["InsufficientInstanceCapacity"]


@line("errors VcpuLimitExceeded", alone=True)
def more_vcpus_than_the_account_may_have(door: OverHttp) -> None:
    change(door, quota={"onDemand": {"standard": 1}})
    assert codes(failed(door, pool(door, "m5.large", "us-east-1a"))) == ["VcpuLimitExceeded"]


@line("errors MaxFleetCountExceeded", alone=True)
def more_fleets_than_the_account_may_have(door: OverHttp) -> None:
    change(door, quota={"fleets": 1})
    one = pool(door, "m5.large", "us-east-1a")
    answer = door.ask("ec2", "CreateFleet", **fleet(config(template(door), [one])))
    assert answer["Instances"]
    assert codes(failed(door, one)) == ["MaxFleetCountExceeded"]


@line("errors MaxSpotInstanceCountExceeded", alone=True)
def more_spot_vcpus_than_the_account_may_have(door: OverHttp) -> None:
    change(door, quota={"spot": {"standard": 1}})
    errors = failed(door, pool(door, "m5.large", "us-east-1a"), spot=True)
    assert codes(errors) == ["MaxSpotInstanceCountExceeded"]


@line("errors AuthFailure.ServiceLinkedRoleCreationNotPermitted", alone=True)
def spot_without_the_role_for_it(door: OverHttp) -> None:
    door.ask("iam", "DeleteServiceLinkedRole", RoleName="AWSServiceRoleForEC2Spot")
    change(door, quota={"spotRole": False})
    errors = failed(door, pool(door, "m5.large", "us-east-1a"), spot=True)
    assert codes(errors) == ["AuthFailure.ServiceLinkedRoleCreationNotPermitted"]


@line("errors Unsupported")
def a_zone_that_does_not_have_the_type(door: OverHttp) -> None:
    offered = door.ask(
        "ec2",
        "DescribeInstanceTypeOfferings",
        LocationType="availability-zone",
        Filters=[{"Name": "location", "Values": ["us-east-1e"]}],
    )["InstanceTypeOfferings"]
    assert "m7i.large" not in {each["InstanceType"] for each in offered}
    assert codes(failed(door, pool(door, "m7i.large", "us-east-1e"))) == ["Unsupported"]


@line("errors InsufficientFreeAddressesInSubnet", "needs 10")
def a_subnet_without_addresses(door: OverHttp) -> None:
    home = door.ask("ec2", "CreateVpc", CidrBlock="10.77.0.0/24")["Vpc"]["VpcId"]
    small = door.ask(
        "ec2",
        "CreateSubnet",
        VpcId=home,
        CidrBlock="10.77.0.0/28",
        AvailabilityZone="us-east-1a",
    )["Subnet"]
    assert small["AvailableIpAddressCount"] == 11
    group = door.ask(
        "ec2", "CreateSecurityGroup", GroupName="small", Description="small", VpcId=home
    )["GroupId"]
    name = template(door, NetworkInterfaces=[{"DeviceIndex": 0, "Groups": [group]}])
    only = {"InstanceType": "m5.large", "SubnetId": small["SubnetId"]}

    def free() -> int:
        (found,) = door.ask("ec2", "DescribeSubnets", SubnetIds=[small["SubnetId"]])["Subnets"]
        return int(found["AvailableIpAddressCount"])

    answer = door.ask("ec2", "CreateFleet", **fleet(config(name, [only]), number=11))
    assert len(answer["Instances"][0]["InstanceIds"]) == 11
    assert free() == 0
    answer = door.ask("ec2", "CreateFleet", **fleet(config(name, [only])))
    assert codes(answer["Errors"]) == ["InsufficientFreeAddressesInSubnet"]
    overrides = answer["Errors"][0]["LaunchTemplateAndOverrides"]["Overrides"]
    assert overrides["SubnetId"] == small["SubnetId"]


@line("errors ReservationCapacityExceeded", "needs 8")
def a_full_reservation_is_no_reason_to_launch_on_demand(door: OverHttp) -> None:
    identity = reserve(door, 1)
    request = fleet(config(template(door, identity), [pool(door, "m5.large", "us-east-1a")]))
    assert door.ask("ec2", "CreateFleet", **request)["Instances"]
    answer = door.ask("ec2", "CreateFleet", **request)
    assert not answer.get("Instances")
    (error,) = answer["Errors"]
    assert error["ErrorCode"] == "ReservationCapacityExceeded"
    overrides = error["LaunchTemplateAndOverrides"]["Overrides"]
    assert (overrides["InstanceType"], overrides["AvailabilityZone"]) == ("m5.large", "us-east-1a")


@line("errors UnfulfillableCapacity")
def a_request_that_leaves_nothing_to_try(door: OverHttp) -> None:
    """Templates with a target are not used by those who use up open reservations first."""
    name = template(door, reserve(door, 1))
    request = fleet(config(name, [pool(door, "m5.large", "us-east-1a")]))
    request["OnDemandOptions"]["CapacityReservationOptions"] = {
        "UsageStrategy": "use-capacity-reservations-first"
    }
    answer = door.ask("ec2", "CreateFleet", **request)
    assert codes(answer["Errors"]) == ["UnfulfillableCapacity"]


@line("needs 8")
def the_machines_of_a_partial_answer_exist(door: OverHttp) -> None:
    identity = reserve(door, 1)
    name, mark = template(door, identity), unique("mark")
    request = fleet(config(name, [pool(door, "m5.large", "us-east-1a")]), number=3)
    request["TagSpecifications"][0]["Tags"].append({"Key": "mark", "Value": mark})
    answer = door.ask("ec2", "CreateFleet", **request)
    (made,) = answer["Instances"]
    assert len(made["InstanceIds"]) == 1
    assert codes(answer["Errors"]) == ["ReservationCapacityExceeded"]
    found = machines(door, Filters=[{"Name": "tag:mark", "Values": [mark]}])
    assert [each["InstanceId"] for each in found] == made["InstanceIds"]
