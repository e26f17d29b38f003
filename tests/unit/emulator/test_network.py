"""VPCs, subnets and security groups: made, found, run out of, removed."""

from typing import Any

import pytest
from tests.support.emulated import Account, refusal

from wainwright.api.cloud import CloudSpec


@pytest.fixture
def account() -> Account:
    return Account(CloudSpec(region="us-west-2", instanceTypes=["m5.large"]))


def tagged(kind: str, **tags: str) -> list[dict[str, Any]]:
    pairs = [{"Key": key, "Value": value} for key, value in tags.items()]
    return [{"ResourceType": kind, "Tags": pairs}]


def vpc(account: Account, block: str = "10.0.0.0/16") -> str:
    made = account.ask("CreateVpc", CidrBlock=block, TagSpecifications=tagged("vpc", team="web"))
    return str(made["Vpc"]["VpcId"])


def subnet(account: Account, vpc_id: str, block: str, **params: Any) -> dict[str, Any]:
    made: dict[str, Any] = account.ask("CreateSubnet", VpcId=vpc_id, CidrBlock=block, **params)
    return dict(made["Subnet"])


def found(account: Account, operation: str, key: str, member: str, **params: Any) -> list[str]:
    return [row[member] for row in account.ask(operation, **params)[key]]


def test_a_vpc_comes_with_its_default_group(account: Account) -> None:
    made = vpc(account)
    (row,) = account.ask("DescribeVpcs", VpcIds=[made])["Vpcs"]
    assert (row["CidrBlock"], row["IsDefault"]) == ("10.0.0.0/16", False)
    assert row["Tags"] == [{"Key": "team", "Value": "web"}]
    filters = [{"Name": "vpc-id", "Values": [made]}]
    groups = found(
        account, "DescribeSecurityGroups", "SecurityGroups", "GroupName", Filters=filters
    )
    assert groups == ["default"]


@pytest.mark.parametrize(
    ("block", "free"), [("10.0.0.0/24", 251), ("10.0.1.0/28", 11), ("10.0.0.0/16", 65531)]
)
def test_a_subnet_has_all_addresses_but_five(account: Account, block: str, free: int) -> None:
    made = subnet(account, vpc(account), block, AvailabilityZone="us-west-2b")
    assert made["AvailableIpAddressCount"] == free
    assert (made["AvailabilityZone"], made["AvailabilityZoneId"]) == ("us-west-2b", "usw2-az2")


def test_a_subnet_is_placed_by_zone_id_too(account: Account) -> None:
    made = vpc(account)
    by_id = subnet(account, made, "10.0.0.0/24", AvailabilityZoneId="usw2-az3")
    assert by_id["AvailabilityZone"] == "us-west-2c"
    assert subnet(account, made, "10.0.1.0/24")["AvailabilityZone"] == "us-west-2a"


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({"CidrBlock": "10.0.0.0/25"}, "InvalidSubnet.Conflict"),
        ({"CidrBlock": "10.0.2.0/29"}, "InvalidSubnet.Range"),
        ({"CidrBlock": "10.1.0.0/24"}, "InvalidSubnet.Range"),
        ({"CidrBlock": "10.0.2"}, "InvalidParameterValue"),
        ({}, "MissingParameter"),
        ({"CidrBlock": "10.0.2.0/24", "AvailabilityZone": "us-east-1a"}, "InvalidParameterValue"),
        ({"CidrBlock": "10.0.2.0/24", "AvailabilityZoneId": "use1-az1"}, "InvalidParameterValue"),
        ({"CidrBlock": "10.0.2.0/24", "VpcId": "vpc-1"}, "InvalidVpcID.NotFound"),
        (
            {"CidrBlock": "10.0.2.0/24", "TagSpecifications": tagged("vpc", a="b")},
            "InvalidParameterValue",
        ),
    ],
)
def test_subnets_that_cannot_be(account: Account, params: dict[str, Any], code: str) -> None:
    made = vpc(account)
    subnet(account, made, "10.0.0.0/24")
    assert account.refused("CreateSubnet", **{"VpcId": made, **params}) == (code, 400)


@pytest.mark.parametrize("block", ["10.0.0.0/8", "10.0.0.0/29"])
def test_vpcs_that_cannot_be(account: Account, block: str) -> None:
    assert account.refused("CreateVpc", CidrBlock=block) == ("InvalidVpc.Range", 400)


def subnets(account: Account, **params: Any) -> list[str]:
    return found(account, "DescribeSubnets", "Subnets", "SubnetId", **params)


def test_subnets_are_found_by_id_tags_and_fields(account: Account) -> None:
    made = vpc(account)
    web = subnet(account, made, "10.0.0.0/24", TagSpecifications=tagged("subnet", team="web"))
    other = subnet(account, made, "10.0.1.0/24", AvailabilityZone="us-west-2b")
    one, two = web["SubnetId"], other["SubnetId"]
    cases: list[tuple[str, str, list[str]]] = [
        ("tag:team", "w*", [one]),
        ("tag-key", "team", [one]),
        ("subnet-id", two, [two]),
        ("vpc-id", made, [one, two]),
        ("cidr-block", "10.0.1.0/24", [two]),
        ("available-ip-address-count", "251", [one, two]),
    ]
    for name, value, expected in cases:
        assert subnets(account, Filters=[{"Name": name, "Values": [value]}]) == expected
    both = [{"Name": "vpc-id", "Values": [made]}, {"Name": "availability-zone", "Values": ["*b"]}]
    assert subnets(account, Filters=both) == [two]
    assert subnets(account, SubnetIds=[two, one, two]) == [one, two]
    assert account.refused("DescribeSubnets", SubnetIds=[one, "subnet-1"]) == (
        "InvalidSubnetID.NotFound",
        400,
    )


def test_many_subnets_come_in_pages(account: Account) -> None:
    made = vpc(account)
    for number in range(12):
        subnet(account, made, f"10.0.{number}.0/24")
    filters = [{"Name": "vpc-id", "Values": [made]}]
    pages = account.pages("DescribeSubnets", "Subnets", Filters=filters, MaxResults=5)
    assert [len(page) for page in pages] == [5, 5, 2]


def test_addresses_fall_and_rise_and_run_out(account: Account) -> None:
    identity = subnet(account, vpc(account), "10.0.0.0/28")["SubnetId"]
    network = account.cloud.parts.network

    def free() -> int:
        (row,) = account.ask("DescribeSubnets", SubnetIds=[identity])["Subnets"]
        return int(row["AvailableIpAddressCount"])

    network.take(identity)
    network.take(identity, 10)
    assert free() == 0
    none_left = refusal(lambda: network.take(identity))
    assert none_left == ("InsufficientFreeAddressesInSubnet", 400)
    network.give_back(identity, 2)
    assert free() == 2
    assert refusal(lambda: network.take(identity, 3))[0] == "InsufficientFreeAddressesInSubnet"
    assert free() == 2


def test_what_is_in_use_cannot_be_deleted(account: Account) -> None:
    made = vpc(account)
    identity = subnet(account, made, "10.0.0.0/28")["SubnetId"]
    account.cloud.parts.network.take(identity)
    assert account.refused("DeleteSubnet", SubnetId=identity) == ("DependencyViolation", 400)
    account.cloud.parts.network.give_back(identity)
    assert account.refused("DeleteVpc", VpcId=made) == ("DependencyViolation", 400)
    account.ask("DeleteSubnet", SubnetId=identity)
    account.ask("DeleteVpc", VpcId=made)
    assert account.refused("DeleteVpc", VpcId=made) == ("InvalidVpcID.NotFound", 400)


def test_groups_are_made_found_and_deleted(account: Account) -> None:
    made = vpc(account)
    specified = tagged("security-group", team="web")
    answer = account.ask(
        "CreateSecurityGroup",
        GroupName="nodes",
        Description="of nodes",
        VpcId=made,
        TagSpecifications=specified,
    )
    assert answer["Tags"] == specified[0]["Tags"]
    for name, value in (
        ("group-name", "node?"),
        ("group-id", answer["GroupId"]),
        ("tag:team", "web"),
        ("description", "of *"),
    ):
        filters = [{"Name": name, "Values": [value]}, {"Name": "vpc-id", "Values": [made]}]
        rows = account.ask("DescribeSecurityGroups", Filters=filters, MaxResults=500)
        assert [row["GroupName"] for row in rows["SecurityGroups"]] == ["nodes"]
    account.ask("DeleteSecurityGroup", GroupId=answer["GroupId"])
    assert account.refused("DescribeSecurityGroups", GroupIds=[answer["GroupId"]]) == (
        "InvalidGroup.NotFound",
        400,
    )


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({"GroupName": "nodes"}, "InvalidGroup.Duplicate"),
        ({"GroupName": "default"}, "InvalidParameterValue"),
        ({"GroupName": "sg-mine"}, "InvalidParameterValue"),
        ({"GroupName": "x", "VpcId": "vpc-1"}, "InvalidVpcID.NotFound"),
    ],
)
def test_groups_that_cannot_be(account: Account, params: dict[str, Any], code: str) -> None:
    account.ask("CreateSecurityGroup", GroupName="nodes", Description="d")
    assert account.refused("CreateSecurityGroup", Description="d", **params) == (code, 400)


def test_the_network_of_a_new_account_is_its_default_one(account: Account) -> None:
    network = account.cloud.parts.network
    assert network.default_subnet("us-west-2b").zone == "us-west-2b"
    assert network.default_subnet().zone == "us-west-2a"
    assert refusal(lambda: network.default_subnet("mars-1a"))[0] == "MissingInput"
    vpc_id = network.default_subnet().vpc_id
    assert network.default_group(vpc_id).name == "default"
    group = account.ask("CreateSecurityGroup", GroupName="more", Description="d")["GroupId"]
    assert network.group(group).vpc_id == vpc_id


def test_groups_by_name_must_exist(account: Account) -> None:
    (row,) = account.ask("DescribeSecurityGroups", GroupNames=["wain-nodes"])["SecurityGroups"]
    assert row["GroupId"] == account.cloud.account.security_group
    assert account.refused("DescribeSecurityGroups", GroupNames=["wain-nodes", "other"]) == (
        "InvalidGroup.NotFound",
        400,
    )


def test_a_subnet_can_be_made_public(account: Account) -> None:
    identity = account.cloud.account.subnets["us-west-2a"]
    account.ask("ModifySubnetAttribute", SubnetId=identity, MapPublicIpOnLaunch={"Value": True})
    filters = [{"Name": "map-public-ip-on-launch", "Values": ["true"]}]
    assert subnets(account, Filters=filters) == [identity]
    wrong = account.refused("ModifySubnetAttribute", SubnetId=identity, EnableDns64={"Value": True})
    assert wrong == ("UnsupportedOperation", 400)


def test_what_is_not_emulated_is_refused(account: Account) -> None:
    asked = {"CidrBlock": "10.0.0.0/16", "AmazonProvidedIpv6CidrBlock": True}
    assert account.refused("CreateVpc", **asked) == ("UnsupportedOperation", 400)
