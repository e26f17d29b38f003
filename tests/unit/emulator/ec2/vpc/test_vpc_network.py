"""VPCs, subnets and security groups with their rules: created, described, exhausted, deleted."""

from typing import Any

import pytest
from tests.support.emulator_accounts import CheckedAccount, expect_error

from wainwright.api.catalog_documents import CloudSpec
from wainwright.clock import EPOCH
from wainwright.emulator.emulated_account import EmulatedAwsAccount


@pytest.fixture
def account() -> CheckedAccount:
    return CheckedAccount(CloudSpec(region="us-west-2", instanceTypes=["m5.large"]))


def tag_specifications(kind: str, **tags: str) -> list[dict[str, Any]]:
    pairs = [{"Key": key, "Value": value} for key, value in tags.items()]
    return [{"ResourceType": kind, "Tags": pairs}]


def create_vpc(account: CheckedAccount, block: str = "10.0.0.0/16") -> str:
    created = account.call(
        "CreateVpc", CidrBlock=block, TagSpecifications=tag_specifications("vpc", team="web")
    )
    return str(created["Vpc"]["VpcId"])


def create_subnet(
    account: CheckedAccount, vpc_id: str, block: str, **params: Any
) -> dict[str, Any]:
    created: dict[str, Any] = account.call("CreateSubnet", VpcId=vpc_id, CidrBlock=block, **params)
    return dict(created["Subnet"])


def described_ids(
    account: CheckedAccount, operation: str, key: str, member: str, **params: Any
) -> list[str]:
    return [row[member] for row in account.call(operation, **params)[key]]


def test_a_vpc_has_a_default_security_group(account: CheckedAccount) -> None:
    created = create_vpc(account)
    (row,) = account.call("DescribeVpcs", VpcIds=[created])["Vpcs"]
    assert (row["CidrBlock"], row["IsDefault"]) == ("10.0.0.0/16", False)
    assert row["Tags"] == [{"Key": "team", "Value": "web"}]
    filters = [{"Name": "vpc-id", "Values": [created]}]
    groups = described_ids(
        account, "DescribeSecurityGroups", "SecurityGroups", "GroupName", Filters=filters
    )
    assert groups == ["default"]


@pytest.mark.parametrize(
    ("block", "free"), [("10.0.0.0/24", 251), ("10.0.1.0/28", 11), ("10.0.0.0/16", 65531)]
)
def test_a_subnet_has_all_addresses_but_five(
    account: CheckedAccount, block: str, free: int
) -> None:
    created = create_subnet(account, create_vpc(account), block, AvailabilityZone="us-west-2b")
    assert created["AvailableIpAddressCount"] == free
    assert (created["AvailabilityZone"], created["AvailabilityZoneId"]) == (
        "us-west-2b",
        "usw2-az2",
    )


def test_a_subnet_is_placed_by_zone_id_too(account: CheckedAccount) -> None:
    created = create_vpc(account)
    by_id = create_subnet(account, created, "10.0.0.0/24", AvailabilityZoneId="usw2-az3")
    assert by_id["AvailabilityZone"] == "us-west-2c"
    assert create_subnet(account, created, "10.0.1.0/24")["AvailabilityZone"] == "us-west-2a"


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
            {"CidrBlock": "10.0.2.0/24", "TagSpecifications": tag_specifications("vpc", a="b")},
            "InvalidParameterValue",
        ),
    ],
)
def test_invalid_subnets_are_rejected(
    account: CheckedAccount, params: dict[str, Any], code: str
) -> None:
    created = create_vpc(account)
    create_subnet(account, created, "10.0.0.0/24")
    assert account.refused("CreateSubnet", **{"VpcId": created, **params}) == (code, 400)


@pytest.mark.parametrize("block", ["10.0.0.0/8", "10.0.0.0/29"])
def test_invalid_vpcs_are_rejected(account: CheckedAccount, block: str) -> None:
    assert account.refused("CreateVpc", CidrBlock=block) == ("InvalidVpc.Range", 400)


def subnets(account: CheckedAccount, **params: Any) -> list[str]:
    return described_ids(account, "DescribeSubnets", "Subnets", "SubnetId", **params)


def test_subnets_are_found_by_id_tags_and_fields(account: CheckedAccount) -> None:
    created = create_vpc(account)
    web = create_subnet(
        account,
        created,
        "10.0.0.0/24",
        TagSpecifications=tag_specifications("subnet", team="web"),
    )
    other = create_subnet(account, created, "10.0.1.0/24", AvailabilityZone="us-west-2b")
    single, two = web["SubnetId"], other["SubnetId"]
    cases: list[tuple[str, str, list[str]]] = [
        ("tag:team", "w*", [single]),
        ("tag-key", "team", [single]),
        ("subnet-id", two, [two]),
        ("vpc-id", created, [single, two]),
        ("cidr-block", "10.0.1.0/24", [two]),
        ("available-ip-address-count", "251", [single, two]),
    ]
    for name, value, expected in cases:
        assert subnets(account, Filters=[{"Name": name, "Values": [value]}]) == expected
    both = [
        {"Name": "vpc-id", "Values": [created]},
        {"Name": "availability-zone", "Values": ["*b"]},
    ]
    assert subnets(account, Filters=both) == [two]
    assert subnets(account, SubnetIds=[two, single, two]) == [single, two]
    assert account.refused("DescribeSubnets", SubnetIds=[single, "subnet-1"]) == (
        "InvalidSubnetID.NotFound",
        400,
    )


def test_subnets_are_paginated(account: CheckedAccount) -> None:
    created = create_vpc(account)
    for number in range(12):
        create_subnet(account, created, f"10.0.{number}.0/24")
    filters = [{"Name": "vpc-id", "Values": [created]}]
    pages = account.pages("DescribeSubnets", "Subnets", Filters=filters, MaxResults=5)
    assert [len(page) for page in pages] == [5, 5, 2]


def test_available_addresses_follow_use_and_run_out(account: CheckedAccount) -> None:
    identity = create_subnet(account, create_vpc(account), "10.0.0.0/28")["SubnetId"]
    network = account.cloud.services.network

    def free() -> int:
        (row,) = account.call("DescribeSubnets", SubnetIds=[identity])["Subnets"]
        return int(row["AvailableIpAddressCount"])

    network.take_addresses(identity)
    network.take_addresses(identity, 10)
    assert free() == 0
    none_left = expect_error(lambda: network.take_addresses(identity))
    assert none_left == ("InsufficientFreeAddressesInSubnet", 400)
    network.release_addresses(identity, 2)
    assert free() == 2
    assert (
        expect_error(lambda: network.take_addresses(identity, 3))[0]
        == "InsufficientFreeAddressesInSubnet"
    )
    assert free() == 2


def test_resources_in_use_cannot_be_deleted(account: CheckedAccount) -> None:
    created = create_vpc(account)
    identity = create_subnet(account, created, "10.0.0.0/28")["SubnetId"]
    account.cloud.services.network.take_addresses(identity)
    assert account.refused("DeleteSubnet", SubnetId=identity) == ("DependencyViolation", 400)
    account.cloud.services.network.release_addresses(identity)
    assert account.refused("DeleteVpc", VpcId=created) == ("DependencyViolation", 400)
    account.call("DeleteSubnet", SubnetId=identity)
    account.call("DeleteVpc", VpcId=created)
    assert account.refused("DeleteVpc", VpcId=created) == ("InvalidVpcID.NotFound", 400)


def test_groups_are_created_described_and_deleted(account: CheckedAccount) -> None:
    created = create_vpc(account)
    specified = tag_specifications("security-group", team="web")
    response = account.call(
        "CreateSecurityGroup",
        GroupName="nodes",
        Description="of nodes",
        VpcId=created,
        TagSpecifications=specified,
    )
    assert response["Tags"] == specified[0]["Tags"]
    for name, value in (
        ("group-name", "node?"),
        ("group-id", response["GroupId"]),
        ("tag:team", "web"),
        ("description", "of *"),
    ):
        filters = [{"Name": name, "Values": [value]}, {"Name": "vpc-id", "Values": [created]}]
        rows = account.call("DescribeSecurityGroups", Filters=filters, MaxResults=500)
        assert [row["GroupName"] for row in rows["SecurityGroups"]] == ["nodes"]
    account.call("DeleteSecurityGroup", GroupId=response["GroupId"])
    assert account.refused("DescribeSecurityGroups", GroupIds=[response["GroupId"]]) == (
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
def test_invalid_security_groups_are_rejected(
    account: CheckedAccount, params: dict[str, Any], code: str
) -> None:
    account.call("CreateSecurityGroup", GroupName="nodes", Description="d")
    assert account.refused("CreateSecurityGroup", Description="d", **params) == (code, 400)


def test_the_vpc_of_a_new_account_is_the_default(account: CheckedAccount) -> None:
    network = account.cloud.services.network
    default = {"Name": "default-for-az", "Values": ["true"]}
    subnets = account.call("DescribeSubnets", Filters=[default])["Subnets"]
    assert {each["AvailabilityZone"] for each in subnets} >= {"us-west-2a", "us-west-2b"}
    (vpc_id,) = {each["VpcId"] for each in subnets}
    assert network.default_group(vpc_id).name == "default"
    group = account.call("CreateSecurityGroup", GroupName="more", Description="d")["GroupId"]
    assert network.group(group).vpc_id == vpc_id


def test_groups_by_name_must_exist(account: CheckedAccount) -> None:
    (row,) = account.call("DescribeSecurityGroups", GroupNames=["wain-nodes"])["SecurityGroups"]
    assert row["GroupId"] == account.cloud.account.security_group
    assert account.refused("DescribeSecurityGroups", GroupNames=["wain-nodes", "other"]) == (
        "InvalidGroup.NotFound",
        400,
    )


def test_a_subnet_can_be_made_public(account: CheckedAccount) -> None:
    identity = account.cloud.account.subnets["us-west-2a"]
    account.call("ModifySubnetAttribute", SubnetId=identity, MapPublicIpOnLaunch={"Value": True})
    filters = [{"Name": "map-public-ip-on-launch", "Values": ["true"]}]
    assert subnets(account, Filters=filters) == [identity]
    wrong = account.refused("ModifySubnetAttribute", SubnetId=identity, EnableDns64={"Value": True})
    assert wrong == ("UnsupportedOperation", 400)


def test_parameters_that_are_not_emulated_are_rejected(account: CheckedAccount) -> None:
    request = {"CidrBlock": "10.0.0.0/16", "AmazonProvidedIpv6CidrBlock": True}
    assert account.refused("CreateVpc", **request) == ("UnsupportedOperation", 400)


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
    return create_group(account, "mine")


def create_group(account: CheckedAccount, name: str) -> str:
    return str(account.call("CreateSecurityGroup", GroupName=name, Description="x")["GroupId"])


def group_permissions(account: CheckedAccount, group: str) -> tuple[list[Any], list[Any]]:
    """Ingress and egress permissions."""
    (row,) = account.call("DescribeSecurityGroups", GroupIds=[group])["SecurityGroups"]
    permissions = row["IpPermissions"], row["IpPermissionsEgress"]
    assert all(each.keys() >= PEERS for listed in permissions for each in listed)
    return permissions


def described_rules(account: CheckedAccount, **filters: str) -> list[Any]:
    request = [{"Name": name.replace("_", "-"), "Values": [each]} for name, each in filters.items()]
    return list(account.call("DescribeSecurityGroupRules", Filters=request)["SecurityGroupRules"])


def permission(**changes: Any) -> list[dict[str, Any]]:
    return [{**SSH, **changes}]


ANYWHERE = {"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}


def test_a_new_group_allows_all_egress(account: CheckedAccount, group: str) -> None:
    assert group_permissions(account, group) == ([], [NOBODY | ANYWHERE])
    (rule,) = described_rules(account, group_id=group)
    assert (rule["IsEgress"], rule["CidrIpv4"], rule["FromPort"]) == (True, "0.0.0.0/0", -1)


def test_the_default_group_allows_ingress_from_itself(account: CheckedAccount) -> None:
    filters = [{"Name": "group-name", "Values": ["default"]}]
    (row,) = account.call("DescribeSecurityGroups", Filters=filters)["SecurityGroups"]
    pair = {"GroupId": row["GroupId"], "UserId": "111122223333"}
    assert row["IpPermissions"] == [{**NOBODY, "IpProtocol": "-1", "UserIdGroupPairs": [pair]}]


def test_added_rules_are_described(account: CheckedAccount, group: str) -> None:
    tags = [{"ResourceType": "security-group-rule", "Tags": [{"Key": "team", "Value": "web"}]}]
    response = account.call(
        "AuthorizeSecurityGroupIngress",
        GroupId=group,
        IpPermissions=permission(Ipv6Ranges=[{"CidrIpv6": "fd00::/8"}]),
        TagSpecifications=tags,
    )
    assert len(response["SecurityGroupRules"]) == 2
    first = response["SecurityGroupRules"][0]
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
    inside, _ = group_permissions(account, group)
    assert inside == [{**NOBODY, **SSH, "Ipv6Ranges": [{"CidrIpv6": "fd00::/8"}]}]
    tagged = account.call(
        "DescribeSecurityGroupRules", Filters=[{"Name": "tag:team", "Values": ["web"]}]
    )
    assert len(tagged["SecurityGroupRules"]) == 2


def test_a_rule_in_the_short_form(account: CheckedAccount, group: str) -> None:
    short = {"IpProtocol": "6", "FromPort": 80, "ToPort": 80, "CidrIp": "10.1.2.3/16"}
    account.call("AuthorizeSecurityGroupIngress", GroupName="mine", **short)
    ranges = [{"CidrIp": "10.1.0.0/16"}]
    assert group_permissions(account, group)[0] == [
        {**NOBODY, "IpProtocol": "tcp", "FromPort": 80, "ToPort": 80, "IpRanges": ranges}
    ]
    account.call("AuthorizeSecurityGroupIngress", GroupId=group, SourceSecurityGroupName="default")
    assert len(group_permissions(account, group)[0][1]["UserIdGroupPairs"]) == 1


def test_groups_can_be_peers_of_rules(account: CheckedAccount, group: str) -> None:
    other = create_group(account, "other")
    pairs = [{"GroupId": other}]
    account.call(
        "AuthorizeSecurityGroupIngress",
        GroupId=group,
        IpPermissions=[{"IpProtocol": "all", "UserIdGroupPairs": pairs}],
    )
    (rule,) = [each for each in described_rules(account, group_id=group) if not each["IsEgress"]]
    assert rule["ReferencedGroupInfo"] == {"GroupId": other, "UserId": "111122223333"}


def test_egress_rules_can_be_removed_and_added(account: CheckedAccount, group: str) -> None:
    account.call("RevokeSecurityGroupEgress", GroupId=group, IpPermissions=[ANYWHERE])
    assert group_permissions(account, group) == ([], [])
    account.call("AuthorizeSecurityGroupEgress", GroupId=group, IpPermissions=[SSH])
    assert group_permissions(account, group) == ([], [NOBODY | SSH])


def test_a_rule_is_removed_by_its_id(account: CheckedAccount, group: str) -> None:
    response = account.call("AuthorizeSecurityGroupIngress", GroupId=group, IpPermissions=[SSH])
    (rule,) = response["SecurityGroupRules"]
    deleted = {"GroupId": group, "SecurityGroupRuleIds": [rule["SecurityGroupRuleId"]]}
    account.call("RevokeSecurityGroupIngress", **deleted)
    assert group_permissions(account, group)[0] == []
    code = ("InvalidSecurityGroupRuleId.NotFound", 400)
    assert account.refused("RevokeSecurityGroupIngress", **deleted) == code


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"IpProtocol": "carrier-pigeon"}, "InvalidPermission.Malformed"),
        ({"IpProtocol": "9" * 5000}, "InvalidPermission.Malformed"),
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
def test_an_invalid_rule_rejects_the_whole_request(
    account: CheckedAccount, group: str, changes: dict[str, Any], code: str
) -> None:
    request = [{"IpProtocol": "udp", "FromPort": 1, "ToPort": 2, **ANY}, *permission(**changes)]
    described_ids = account.refused(
        "AuthorizeSecurityGroupIngress", GroupId=group, IpPermissions=request
    )
    assert described_ids == (code, 400)
    assert group_permissions(account, group)[0] == []


def test_a_duplicate_rule_is_rejected(account: CheckedAccount, group: str) -> None:
    request = {"GroupId": group, "IpPermissions": [SSH]}
    account.call("AuthorizeSecurityGroupIngress", **request)
    assert account.refused("AuthorizeSecurityGroupIngress", **request) == (DUPLICATE, 400)
    account.call("AuthorizeSecurityGroupEgress", **request)
    account.call("RevokeSecurityGroupIngress", **request)
    again = account.refused("RevokeSecurityGroupIngress", **request)
    assert again == ("InvalidPermission.NotFound", 400)


def test_a_group_has_at_most_sixty_rules(account: CheckedAccount, group: str) -> None:
    ports = [permission(FromPort=each, ToPort=each)[0] for each in range(60)]
    account.call("AuthorizeSecurityGroupIngress", GroupId=group, IpPermissions=ports)
    described_ids = account.refused(
        "AuthorizeSecurityGroupIngress", GroupId=group, IpPermissions=permission(IpProtocol="udp")
    )
    assert described_ids == ("RulesPerSecurityGroupLimitExceeded", 400)


def test_a_request_without_rules_is_rejected(account: CheckedAccount, group: str) -> None:
    assert account.refused("AuthorizeSecurityGroupIngress", GroupId=group)[0] == "MissingParameter"


def test_rules_are_paginated_tagged_and_saved(account: CheckedAccount, group: str) -> None:
    ports = [permission(FromPort=each, ToPort=each)[0] for each in range(10)]
    response = account.call("AuthorizeSecurityGroupIngress", GroupId=group, IpPermissions=ports)
    rule = response["SecurityGroupRules"][3]["SecurityGroupRuleId"]
    account.call("CreateTags", Resources=[rule], Tags=[{"Key": "a", "Value": "b"}])
    filters = [{"Name": "group-id", "Values": [group]}]
    pages = account.pages(
        "DescribeSecurityGroupRules", "SecurityGroupRules", Filters=filters, MaxResults=5
    )
    assert [len(each) for each in pages] == [5, 5, 1]
    account.clock.time = EPOCH + 60
    account.cloud = EmulatedAwsAccount.load(account.cloud.save(), clock=account.clock)
    (row,) = account.call("DescribeSecurityGroupRules", SecurityGroupRuleIds=[rule])[
        "SecurityGroupRules"
    ]
    assert (row["FromPort"], row["Tags"]) == (3, [{"Key": "a", "Value": "b"}])
