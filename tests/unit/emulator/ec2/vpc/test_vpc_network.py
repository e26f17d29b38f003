"""VPCs, subnets and security groups with their rules: made, found, run out of, removed."""

from typing import Any

import pytest
from tests.support.emulator_accounts import CheckedAccount, expect_error

from wainwright.api.catalog_documents import CloudSpec
from wainwright.clock import EPOCH
from wainwright.emulator.emulated_account import EmulatedAwsAccount


@pytest.fixture
def account() -> CheckedAccount:
    return CheckedAccount(CloudSpec(region="us-west-2", instanceTypes=["m5.large"]))


def tagged(kind: str, **tags: str) -> list[dict[str, Any]]:
    pairs = [{"Key": key, "Value": value} for key, value in tags.items()]
    return [{"ResourceType": kind, "Tags": pairs}]


def vpc(account: CheckedAccount, block: str = "10.0.0.0/16") -> str:
    made = account.ask("CreateVpc", CidrBlock=block, TagSpecifications=tagged("vpc", team="web"))
    return str(made["Vpc"]["VpcId"])


def subnet(account: CheckedAccount, vpc_id: str, block: str, **params: Any) -> dict[str, Any]:
    made: dict[str, Any] = account.ask("CreateSubnet", VpcId=vpc_id, CidrBlock=block, **params)
    return dict(made["Subnet"])


def found(
    account: CheckedAccount, operation: str, key: str, member: str, **params: Any
) -> list[str]:
    return [row[member] for row in account.ask(operation, **params)[key]]


def test_a_vpc_comes_with_its_default_group(account: CheckedAccount) -> None:
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
def test_a_subnet_has_all_addresses_but_five(
    account: CheckedAccount, block: str, free: int
) -> None:
    made = subnet(account, vpc(account), block, AvailabilityZone="us-west-2b")
    assert made["AvailableIpAddressCount"] == free
    assert (made["AvailabilityZone"], made["AvailabilityZoneId"]) == ("us-west-2b", "usw2-az2")


def test_a_subnet_is_placed_by_zone_id_too(account: CheckedAccount) -> None:
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
def test_subnets_that_cannot_be(account: CheckedAccount, params: dict[str, Any], code: str) -> None:
    made = vpc(account)
    subnet(account, made, "10.0.0.0/24")
    assert account.refused("CreateSubnet", **{"VpcId": made, **params}) == (code, 400)


@pytest.mark.parametrize("block", ["10.0.0.0/8", "10.0.0.0/29"])
def test_vpcs_that_cannot_be(account: CheckedAccount, block: str) -> None:
    assert account.refused("CreateVpc", CidrBlock=block) == ("InvalidVpc.Range", 400)


def subnets(account: CheckedAccount, **params: Any) -> list[str]:
    return found(account, "DescribeSubnets", "Subnets", "SubnetId", **params)


def test_subnets_are_found_by_id_tags_and_fields(account: CheckedAccount) -> None:
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


def test_many_subnets_come_in_pages(account: CheckedAccount) -> None:
    made = vpc(account)
    for number in range(12):
        subnet(account, made, f"10.0.{number}.0/24")
    filters = [{"Name": "vpc-id", "Values": [made]}]
    pages = account.pages("DescribeSubnets", "Subnets", Filters=filters, MaxResults=5)
    assert [len(page) for page in pages] == [5, 5, 2]


def test_addresses_fall_and_rise_and_run_out(account: CheckedAccount) -> None:
    identity = subnet(account, vpc(account), "10.0.0.0/28")["SubnetId"]
    network = account.cloud.services.network

    def free() -> int:
        (row,) = account.ask("DescribeSubnets", SubnetIds=[identity])["Subnets"]
        return int(row["AvailableIpAddressCount"])

    network.take_addresses(identity)
    network.take_addresses(identity, 10)
    assert free() == 0
    none_left = expect_error(lambda: network.take_addresses(identity))
    assert none_left == ("InsufficientFreeAddressesInSubnet", 400)
    network.release_addresses(identity, 2)
    assert free() == 2
    assert expect_error(lambda: network.take_addresses(identity, 3))[0] == "InsufficientFreeAddressesInSubnet"
    assert free() == 2


def test_what_is_in_use_cannot_be_deleted(account: CheckedAccount) -> None:
    made = vpc(account)
    identity = subnet(account, made, "10.0.0.0/28")["SubnetId"]
    account.cloud.services.network.take_addresses(identity)
    assert account.refused("DeleteSubnet", SubnetId=identity) == ("DependencyViolation", 400)
    account.cloud.services.network.release_addresses(identity)
    assert account.refused("DeleteVpc", VpcId=made) == ("DependencyViolation", 400)
    account.ask("DeleteSubnet", SubnetId=identity)
    account.ask("DeleteVpc", VpcId=made)
    assert account.refused("DeleteVpc", VpcId=made) == ("InvalidVpcID.NotFound", 400)


def test_groups_are_made_found_and_deleted(account: CheckedAccount) -> None:
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
def test_groups_that_cannot_be(account: CheckedAccount, params: dict[str, Any], code: str) -> None:
    account.ask("CreateSecurityGroup", GroupName="nodes", Description="d")
    assert account.refused("CreateSecurityGroup", Description="d", **params) == (code, 400)


def test_the_network_of_a_new_account_is_its_default_one(account: CheckedAccount) -> None:
    network = account.cloud.services.network
    assert network.default_subnet("us-west-2b").zone == "us-west-2b"
    assert network.default_subnet().zone == "us-west-2a"
    assert expect_error(lambda: network.default_subnet("mars-1a"))[0] == "MissingInput"
    vpc_id = network.default_subnet().vpc_id
    assert network.default_group(vpc_id).name == "default"
    group = account.ask("CreateSecurityGroup", GroupName="more", Description="d")["GroupId"]
    assert network.group(group).vpc_id == vpc_id


def test_groups_by_name_must_exist(account: CheckedAccount) -> None:
    (row,) = account.ask("DescribeSecurityGroups", GroupNames=["wain-nodes"])["SecurityGroups"]
    assert row["GroupId"] == account.cloud.account.security_group
    assert account.refused("DescribeSecurityGroups", GroupNames=["wain-nodes", "other"]) == (
        "InvalidGroup.NotFound",
        400,
    )


def test_a_subnet_can_be_made_public(account: CheckedAccount) -> None:
    identity = account.cloud.account.subnets["us-west-2a"]
    account.ask("ModifySubnetAttribute", SubnetId=identity, MapPublicIpOnLaunch={"Value": True})
    filters = [{"Name": "map-public-ip-on-launch", "Values": ["true"]}]
    assert subnets(account, Filters=filters) == [identity]
    wrong = account.refused("ModifySubnetAttribute", SubnetId=identity, EnableDns64={"Value": True})
    assert wrong == ("UnsupportedOperation", 400)


def test_what_is_not_emulated_is_refused(account: CheckedAccount) -> None:
    asked = {"CidrBlock": "10.0.0.0/16", "AmazonProvidedIpv6CidrBlock": True}
    assert account.refused("CreateVpc", **asked) == ("UnsupportedOperation", 400)


SSH = {
    "IpProtocol": "tcp",
    "FromPort": 22,
    "ToPort": 22,
    "IpRanges": [{"CidrIp": "10.0.0.0/8", "Description": "from home"}],
}
ANY = {"IpRanges": [{"CidrIp": "0.0.0.0/0"}]}
DUPLICATE = "InvalidPermission.Duplicate"
PEERS = {"IpRanges", "Ipv6Ranges", "PrefixListIds", "UserIdGroupPairs"}
NOBODY: dict[str, Any] = {name: [] for name in PEERS}


@pytest.fixture
def group(account: CheckedAccount) -> str:
    return made(account, "mine")


def made(account: CheckedAccount, name: str) -> str:
    return str(account.ask("CreateSecurityGroup", GroupName=name, Description="x")["GroupId"])


def shown(account: CheckedAccount, group: str) -> tuple[list[Any], list[Any]]:
    """What comes in, and what goes out."""
    (row,) = account.ask("DescribeSecurityGroups", GroupIds=[group])["SecurityGroups"]
    permissions = row["IpPermissions"], row["IpPermissionsEgress"]
    assert all(each.keys() >= PEERS for listed in permissions for each in listed)
    return permissions


def listed(account: CheckedAccount, **filters: str) -> list[Any]:
    asked = [{"Name": name.replace("_", "-"), "Values": [each]} for name, each in filters.items()]
    return list(account.ask("DescribeSecurityGroupRules", Filters=asked)["SecurityGroupRules"])


def permission(**changes: Any) -> list[dict[str, Any]]:
    return [{**SSH, **changes}]


ANYWHERE = {"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}


def test_a_new_group_lets_everything_out(account: CheckedAccount, group: str) -> None:
    assert shown(account, group) == ([], [NOBODY | ANYWHERE])
    (rule,) = listed(account, group_id=group)
    assert (rule["IsEgress"], rule["CidrIpv4"], rule["FromPort"]) == (True, "0.0.0.0/0", -1)


def test_the_default_group_lets_itself_in(account: CheckedAccount) -> None:
    filters = [{"Name": "group-name", "Values": ["default"]}]
    (row,) = account.ask("DescribeSecurityGroups", Filters=filters)["SecurityGroups"]
    pair = {"GroupId": row["GroupId"], "UserId": "111122223333"}
    assert row["IpPermissions"] == [{**NOBODY, "IpProtocol": "-1", "UserIdGroupPairs": [pair]}]


def test_what_is_written_is_found(account: CheckedAccount, group: str) -> None:
    tags = [{"ResourceType": "security-group-rule", "Tags": [{"Key": "team", "Value": "web"}]}]
    answer = account.ask(
        "AuthorizeSecurityGroupIngress",
        GroupId=group,
        IpPermissions=permission(Ipv6Ranges=[{"CidrIpv6": "fd00::/8"}]),
        TagSpecifications=tags,
    )
    assert len(answer["SecurityGroupRules"]) == 2
    first = answer["SecurityGroupRules"][0]
    assert first["SecurityGroupRuleId"].startswith("sgr-0")
    assert first | {"SecurityGroupRuleId": ""} == {
        "SecurityGroupRuleId": "",
        "GroupId": group,
        "GroupOwnerId": "111122223333",
        "IsEgress": False,
        "IpProtocol": "tcp",
        "FromPort": 22,
        "ToPort": 22,
        "CidrIpv4": "10.0.0.0/8",
        "Description": "from home",
        "Tags": [{"Key": "team", "Value": "web"}],
    }
    inside, _ = shown(account, group)
    assert inside == [{**NOBODY, **SSH, "Ipv6Ranges": [{"CidrIpv6": "fd00::/8"}]}]
    tagged = account.ask(
        "DescribeSecurityGroupRules", Filters=[{"Name": "tag:team", "Values": ["web"]}]
    )
    assert len(tagged["SecurityGroupRules"]) == 2


def test_a_rule_in_short(account: CheckedAccount, group: str) -> None:
    short = {"IpProtocol": "6", "FromPort": 80, "ToPort": 80, "CidrIp": "10.1.2.3/16"}
    account.ask("AuthorizeSecurityGroupIngress", GroupName="mine", **short)
    ranges = [{"CidrIp": "10.1.0.0/16"}]
    assert shown(account, group)[0] == [
        {**NOBODY, "IpProtocol": "tcp", "FromPort": 80, "ToPort": 80, "IpRanges": ranges}
    ]
    account.ask("AuthorizeSecurityGroupIngress", GroupId=group, SourceSecurityGroupName="default")
    assert len(shown(account, group)[0][1]["UserIdGroupPairs"]) == 1


def test_groups_let_each_other_in(account: CheckedAccount, group: str) -> None:
    other = made(account, "other")
    pairs = [{"GroupId": other}]
    account.ask(
        "AuthorizeSecurityGroupIngress",
        GroupId=group,
        IpPermissions=[{"IpProtocol": "all", "UserIdGroupPairs": pairs}],
    )
    (rule,) = [each for each in listed(account, group_id=group) if not each["IsEgress"]]
    assert rule["ReferencedGroupInfo"] == {"GroupId": other, "UserId": "111122223333"}


def test_the_way_out_can_be_closed_and_opened(account: CheckedAccount, group: str) -> None:
    account.ask("RevokeSecurityGroupEgress", GroupId=group, IpPermissions=[ANYWHERE])
    assert shown(account, group) == ([], [])
    account.ask("AuthorizeSecurityGroupEgress", GroupId=group, IpPermissions=[SSH])
    assert shown(account, group) == ([], [NOBODY | SSH])


def test_a_rule_is_removed_by_its_id(account: CheckedAccount, group: str) -> None:
    answer = account.ask("AuthorizeSecurityGroupIngress", GroupId=group, IpPermissions=[SSH])
    (rule,) = answer["SecurityGroupRules"]
    gone = {"GroupId": group, "SecurityGroupRuleIds": [rule["SecurityGroupRuleId"]]}
    account.ask("RevokeSecurityGroupIngress", **gone)
    assert shown(account, group)[0] == []
    code = ("InvalidSecurityGroupRuleId.NotFound", 400)
    assert account.refused("RevokeSecurityGroupIngress", **gone) == code


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"IpProtocol": "carrier-pigeon"}, "InvalidPermission.Malformed"),
        ({"FromPort": 23}, "InvalidParameterValue"),
        ({"ToPort": 70_000}, "InvalidParameterValue"),
        ({"IpRanges": [{"CidrIp": "10.0.0.0/40"}]}, "InvalidParameterValue"),
        ({"IpRanges": [{"CidrIp": "fd00::/8"}]}, "InvalidParameterValue"),
        ({"IpRanges": [{}]}, "MissingParameter"),
        ({"UserIdGroupPairs": [{"GroupId": "sg-0123456789abcdef0"}]}, "InvalidGroup.NotFound"),
        ({"UserIdGroupPairs": [{"GroupName": "nobody"}]}, "InvalidGroup.NotFound"),
        ({"IpRanges": [{"CidrIp": "10.0.0.0/8"}] * 2}, DUPLICATE),
    ],
)
def test_what_is_wrong_is_refused_whole(
    account: CheckedAccount, group: str, changes: dict[str, Any], code: str
) -> None:
    asked = [{"IpProtocol": "udp", "FromPort": 1, "ToPort": 2, **ANY}, *permission(**changes)]
    found = account.refused("AuthorizeSecurityGroupIngress", GroupId=group, IpPermissions=asked)
    assert found == (code, 400)
    assert shown(account, group)[0] == []


def test_a_rule_is_written_once(account: CheckedAccount, group: str) -> None:
    asked = {"GroupId": group, "IpPermissions": [SSH]}
    account.ask("AuthorizeSecurityGroupIngress", **asked)
    assert account.refused("AuthorizeSecurityGroupIngress", **asked) == (DUPLICATE, 400)
    account.ask("AuthorizeSecurityGroupEgress", **asked)
    account.ask("RevokeSecurityGroupIngress", **asked)
    again = account.refused("RevokeSecurityGroupIngress", **asked)
    assert again == ("InvalidPermission.NotFound", 400)


def test_a_group_has_room_for_sixty(account: CheckedAccount, group: str) -> None:
    ports = [permission(FromPort=each, ToPort=each)[0] for each in range(60)]
    account.ask("AuthorizeSecurityGroupIngress", GroupId=group, IpPermissions=ports)
    found = account.refused(
        "AuthorizeSecurityGroupIngress", GroupId=group, IpPermissions=permission(IpProtocol="udp")
    )
    assert found == ("RulesPerSecurityGroupLimitExceeded", 400)


def test_a_call_without_a_rule_says_so(account: CheckedAccount, group: str) -> None:
    assert account.refused("AuthorizeSecurityGroupIngress", GroupId=group)[0] == "MissingParameter"


def test_rules_come_in_pages_can_be_tagged_and_are_saved(
    account: CheckedAccount, group: str
) -> None:
    ports = [permission(FromPort=each, ToPort=each)[0] for each in range(10)]
    answer = account.ask("AuthorizeSecurityGroupIngress", GroupId=group, IpPermissions=ports)
    rule = answer["SecurityGroupRules"][3]["SecurityGroupRuleId"]
    account.ask("CreateTags", Resources=[rule], Tags=[{"Key": "a", "Value": "b"}])
    filters = [{"Name": "group-id", "Values": [group]}]
    pages = account.pages(
        "DescribeSecurityGroupRules", "SecurityGroupRules", Filters=filters, MaxResults=5
    )
    assert [len(each) for each in pages] == [5, 5, 1]
    account.clock.time = EPOCH + 60
    account.cloud = EmulatedAwsAccount.load(account.cloud.save(), clock=account.clock)
    (row,) = account.ask("DescribeSecurityGroupRules", SecurityGroupRuleIds=[rule])[
        "SecurityGroupRules"
    ]
    assert (row["FromPort"], row["Tags"]) == (3, [{"Key": "a", "Value": "b"}])
