"""Networks: VPCs, subnets and security groups."""

from itertools import count
from typing import Any

from tests.contract.clients import AccountClient, error_of, expect_error
from tests.contract.registry import contract_case, fresh_name

_blocks = count(1)


def create_vpc(client: AccountClient) -> str:
    block = f"10.{next(_blocks)}.0.0/16"
    return str(client.call("ec2", "CreateVpc", CidrBlock=block)["Vpc"]["VpcId"])


def create_subnet(
    client: AccountClient, home: str, third: int = 0, zone: str = "us-east-1a", **tags: str
) -> Any:
    block = client.call("ec2", "DescribeVpcs", VpcIds=[home])["Vpcs"][0]["CidrBlock"]
    pairs = [{"Key": key, "Value": value} for key, value in tags.items()]
    more = {"TagSpecifications": [{"ResourceType": "subnet", "Tags": pairs}]} if tags else {}
    inside = f"{block.rsplit('.', 2)[0]}.{third}.0/24"
    return client.call(
        "ec2", "CreateSubnet", VpcId=home, CidrBlock=inside, AvailabilityZone=zone, **more
    )["Subnet"]


def create_security_group(client: AccountClient, home: str, name: str) -> str:
    response = client.call(
        "ec2", "CreateSecurityGroup", GroupName=name, Description="for tests", VpcId=home
    )
    return str(response["GroupId"])


@contract_case()
def a_subnet_has_all_its_addresses_but_five(client: AccountClient) -> None:
    created = create_subnet(client, create_vpc(client), zone="us-east-1b")
    (found,) = client.call("ec2", "DescribeSubnets", SubnetIds=[created["SubnetId"]])["Subnets"]
    assert found["AvailableIpAddressCount"] == 251
    assert found["AvailabilityZone"] == "us-east-1b"
    assert found["AvailabilityZoneId"].startswith("use1-az")
    assert found["State"] == "available"


@contract_case()
def filters_of_subnets_are_joined_by_and_their_values_by_or(client: AccountClient) -> None:
    home, team = create_vpc(client), fresh_name("team")
    first = create_subnet(client, home, 1, team=team, role="web")["SubnetId"]
    second = create_subnet(client, home, 2, team=team, role="db")["SubnetId"]
    third = create_subnet(client, home, 3, team=team)["SubnetId"]
    mine = {"Name": "tag:team", "Values": [team]}

    def found(*filters: Any) -> set[str]:
        response = client.call("ec2", "DescribeSubnets", Filters=list(filters))
        return {each["SubnetId"] for each in response["Subnets"]}

    assert found(mine) == {first, second, third}
    assert found(mine, {"Name": "tag:role", "Values": ["web", "db"]}) == {first, second}
    assert found(mine, {"Name": "tag-key", "Values": ["role"]}) == {first, second}
    assert found(mine, {"Name": "subnet-id", "Values": [third]}) == {third}
    assert found(mine, {"Name": "tag:role", "Values": ["w*"]}) == {first}
    assert found(mine, {"Name": "vpc-id", "Values": [home]}) == {first, second, third}
    assert found(mine, {"Name": "tag:role", "Values": ["none"]}) == set()


@contract_case()
def an_unknown_subnet_is_an_error(client: AccountClient) -> None:
    code, status = expect_error(
        client, "ec2", "DescribeSubnets", SubnetIds=["subnet-0123456789abcdef0"]
    )
    assert (code, status) == ("InvalidSubnetID.NotFound", 400)


@contract_case(moto_wrong="a filter that it does not know ends in a page of HTML")
def an_unknown_filter_is_an_error(client: AccountClient) -> None:
    wrong = [{"Name": "no-such-filter", "Values": ["x"]}]
    for operation in ("DescribeSubnets", "DescribeSecurityGroups"):
        code, status = expect_error(client, "ec2", operation, Filters=wrong)
        assert (code, status) == ("InvalidParameterValue", 400)


@contract_case()
def two_subnets_cannot_overlap(client: AccountClient) -> None:
    home = create_vpc(client)
    create_subnet(client, home, 1)
    assert error_of(lambda: create_subnet(client, home, 1)) == ("InvalidSubnet.Conflict", 400)


@contract_case()
def a_deleted_subnet_is_gone(client: AccountClient) -> None:
    created = create_subnet(client, create_vpc(client))["SubnetId"]
    client.call("ec2", "DeleteSubnet", SubnetId=created)
    code, _ = expect_error(client, "ec2", "DescribeSubnets", SubnetIds=[created])
    assert code == "InvalidSubnetID.NotFound"


@contract_case()
def groups_are_found_by_name_and_by_tag(client: AccountClient) -> None:
    home, name = create_vpc(client), fresh_name("group")
    created = create_security_group(client, home, name)
    client.call("ec2", "CreateTags", Resources=[created], Tags=[{"Key": "of", "Value": name}])
    for expected in (
        {"Name": "group-name", "Values": [name]},
        {"Name": "group-id", "Values": [created]},
        {"Name": "tag:of", "Values": [name]},
    ):
        (found,) = client.call("ec2", "DescribeSecurityGroups", Filters=[expected])[
            "SecurityGroups"
        ]
        assert (found["GroupId"], found["GroupName"], found["VpcId"]) == (created, name, home)


@contract_case()
def a_group_name_is_unique_in_a_vpc(client: AccountClient) -> None:
    home, name = create_vpc(client), fresh_name("group")
    create_security_group(client, home, name)
    assert error_of(lambda: create_security_group(client, home, name)) == (
        "InvalidGroup.Duplicate",
        400,
    )


@contract_case()
def an_unknown_group_is_an_error(client: AccountClient) -> None:
    wrong = "sg-0123456789abcdef0"
    code, status = expect_error(client, "ec2", "DescribeSecurityGroups", GroupIds=[wrong])
    assert (code, status) == ("InvalidGroup.NotFound", 400)


@contract_case(moto_wrong="it gives everything in one page")
def subnets_are_paginated(client: AccountClient) -> None:
    home = create_vpc(client)
    for third in range(6):
        create_subnet(client, home, third)
    mine = [{"Name": "vpc-id", "Values": [home]}]
    first = client.call("ec2", "DescribeSubnets", Filters=mine, MaxResults=5)
    assert len(first["Subnets"]) == 5
    rest = client.call(
        "ec2", "DescribeSubnets", Filters=mine, MaxResults=5, NextToken=first["NextToken"]
    )
    assert len(rest["Subnets"]) == 1
    assert not rest.get("NextToken")


@contract_case()
def zones_have_names_and_ids(client: AccountClient) -> None:
    found = client.call("ec2", "DescribeAvailabilityZones")["AvailabilityZones"]
    zones = {each["ZoneName"]: each["ZoneId"] for each in found}
    assert sorted(zones) == [f"us-east-1{letter}" for letter in "abcdef"]
    assert sorted(zones.values()) == [f"use1-az{number}" for number in range(1, 7)]
    assert {each["State"] for each in found} == {"available"}
