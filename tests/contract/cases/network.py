"""Networks: VPCs, subnets and security groups."""

from itertools import count
from typing import Any

from tests.contract.clients import AccountClient, error_of, expect_error
from tests.contract.registry import contract_case, fresh_name

_blocks = count(1)


def create_vpc(door: AccountClient) -> str:
    block = f"10.{next(_blocks)}.0.0/16"
    return str(door.ask("ec2", "CreateVpc", CidrBlock=block)["Vpc"]["VpcId"])


def create_subnet(
    door: AccountClient, home: str, third: int = 0, zone: str = "us-east-1a", **tags: str
) -> Any:
    block = door.ask("ec2", "DescribeVpcs", VpcIds=[home])["Vpcs"][0]["CidrBlock"]
    pairs = [{"Key": key, "Value": value} for key, value in tags.items()]
    more = {"TagSpecifications": [{"ResourceType": "subnet", "Tags": pairs}]} if tags else {}
    inside = f"{block.rsplit('.', 2)[0]}.{third}.0/24"
    return door.ask(
        "ec2", "CreateSubnet", VpcId=home, CidrBlock=inside, AvailabilityZone=zone, **more
    )["Subnet"]


def create_security_group(door: AccountClient, home: str, name: str) -> str:
    answer = door.ask(
        "ec2", "CreateSecurityGroup", GroupName=name, Description="for tests", VpcId=home
    )
    return str(answer["GroupId"])


@contract_case()
def a_subnet_has_all_its_addresses_but_five(door: AccountClient) -> None:
    made = create_subnet(door, create_vpc(door), zone="us-east-1b")
    (found,) = door.ask("ec2", "DescribeSubnets", SubnetIds=[made["SubnetId"]])["Subnets"]
    assert found["AvailableIpAddressCount"] == 251
    assert found["AvailabilityZone"] == "us-east-1b"
    assert found["AvailabilityZoneId"].startswith("use1-az")
    assert found["State"] == "available"


@contract_case()
def filters_of_subnets_are_joined_by_and_their_values_by_or(door: AccountClient) -> None:
    home, team = create_vpc(door), fresh_name("team")
    first = create_subnet(door, home, 1, team=team, role="web")["SubnetId"]
    second = create_subnet(door, home, 2, team=team, role="db")["SubnetId"]
    third = create_subnet(door, home, 3, team=team)["SubnetId"]
    mine = {"Name": "tag:team", "Values": [team]}

    def found(*filters: Any) -> set[str]:
        answer = door.ask("ec2", "DescribeSubnets", Filters=list(filters))
        return {each["SubnetId"] for each in answer["Subnets"]}

    assert found(mine) == {first, second, third}
    assert found(mine, {"Name": "tag:role", "Values": ["web", "db"]}) == {first, second}
    assert found(mine, {"Name": "tag-key", "Values": ["role"]}) == {first, second}
    assert found(mine, {"Name": "subnet-id", "Values": [third]}) == {third}
    assert found(mine, {"Name": "tag:role", "Values": ["w*"]}) == {first}
    assert found(mine, {"Name": "vpc-id", "Values": [home]}) == {first, second, third}
    assert found(mine, {"Name": "tag:role", "Values": ["none"]}) == set()


@contract_case()
def an_unknown_subnet_is_an_error(door: AccountClient) -> None:
    code, status = expect_error(
        door, "ec2", "DescribeSubnets", SubnetIds=["subnet-0123456789abcdef0"]
    )
    assert (code, status) == ("InvalidSubnetID.NotFound", 400)


@contract_case(moto_wrong="a filter that it does not know ends in a page of HTML")
def an_unknown_filter_is_an_error(door: AccountClient) -> None:
    wrong = [{"Name": "no-such-filter", "Values": ["x"]}]
    for operation in ("DescribeSubnets", "DescribeSecurityGroups"):
        code, status = expect_error(door, "ec2", operation, Filters=wrong)
        assert (code, status) == ("InvalidParameterValue", 400)


@contract_case()
def two_subnets_cannot_share_addresses(door: AccountClient) -> None:
    home = create_vpc(door)
    create_subnet(door, home, 1)
    assert error_of(lambda: create_subnet(door, home, 1)) == ("InvalidSubnet.Conflict", 400)


@contract_case()
def a_deleted_subnet_is_gone(door: AccountClient) -> None:
    made = create_subnet(door, create_vpc(door))["SubnetId"]
    door.ask("ec2", "DeleteSubnet", SubnetId=made)
    code, _ = expect_error(door, "ec2", "DescribeSubnets", SubnetIds=[made])
    assert code == "InvalidSubnetID.NotFound"


@contract_case()
def groups_are_found_by_name_and_by_tag(door: AccountClient) -> None:
    home, name = create_vpc(door), fresh_name("group")
    made = create_security_group(door, home, name)
    door.ask("ec2", "CreateTags", Resources=[made], Tags=[{"Key": "of", "Value": name}])
    for wanted in (
        {"Name": "group-name", "Values": [name]},
        {"Name": "group-id", "Values": [made]},
        {"Name": "tag:of", "Values": [name]},
    ):
        (found,) = door.ask("ec2", "DescribeSecurityGroups", Filters=[wanted])["SecurityGroups"]
        assert (found["GroupId"], found["GroupName"], found["VpcId"]) == (made, name, home)


@contract_case()
def a_network_has_each_group_once(door: AccountClient) -> None:
    home, name = create_vpc(door), fresh_name("group")
    create_security_group(door, home, name)
    assert error_of(lambda: create_security_group(door, home, name)) == (
        "InvalidGroup.Duplicate",
        400,
    )


@contract_case()
def an_unknown_group_is_an_error(door: AccountClient) -> None:
    wrong = "sg-0123456789abcdef0"
    code, status = expect_error(door, "ec2", "DescribeSecurityGroups", GroupIds=[wrong])
    assert (code, status) == ("InvalidGroup.NotFound", 400)


@contract_case(moto_wrong="it gives everything in one page")
def subnets_come_in_pages(door: AccountClient) -> None:
    home = create_vpc(door)
    for third in range(6):
        create_subnet(door, home, third)
    mine = [{"Name": "vpc-id", "Values": [home]}]
    first = door.ask("ec2", "DescribeSubnets", Filters=mine, MaxResults=5)
    assert len(first["Subnets"]) == 5
    rest = door.ask(
        "ec2", "DescribeSubnets", Filters=mine, MaxResults=5, NextToken=first["NextToken"]
    )
    assert len(rest["Subnets"]) == 1
    assert not rest.get("NextToken")


@contract_case()
def zones_have_names_and_ids(door: AccountClient) -> None:
    found = door.ask("ec2", "DescribeAvailabilityZones")["AvailabilityZones"]
    zones = {each["ZoneName"]: each["ZoneId"] for each in found}
    assert sorted(zones) == [f"us-east-1{letter}" for letter in "abcdef"]
    assert sorted(zones.values()) == [f"use1-az{number}" for number in range(1, 7)]
    assert {each["State"] for each in found} == {"available"}
