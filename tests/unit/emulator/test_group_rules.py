"""Rules of security groups: written, found as they were written, and removed."""

from typing import Any

import pytest
from tests.support.emulated import Account

from wainwright.api.cloud import CloudSpec
from wainwright.clock import EPOCH
from wainwright.emulator.cloud import EmulatedCloud

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
def account() -> Account:
    return Account(CloudSpec(region="us-west-2", instanceTypes=["m5.large"]))


@pytest.fixture
def group(account: Account) -> str:
    return made(account, "mine")


def made(account: Account, name: str) -> str:
    return str(account.ask("CreateSecurityGroup", GroupName=name, Description="x")["GroupId"])


def shown(account: Account, group: str) -> tuple[list[Any], list[Any]]:
    """What comes in, and what goes out."""
    (row,) = account.ask("DescribeSecurityGroups", GroupIds=[group])["SecurityGroups"]
    permissions = row["IpPermissions"], row["IpPermissionsEgress"]
    assert all(each.keys() >= PEERS for listed in permissions for each in listed)
    return permissions


def listed(account: Account, **filters: str) -> list[Any]:
    asked = [{"Name": name.replace("_", "-"), "Values": [each]} for name, each in filters.items()]
    return list(account.ask("DescribeSecurityGroupRules", Filters=asked)["SecurityGroupRules"])


def permission(**changes: Any) -> list[dict[str, Any]]:
    return [{**SSH, **changes}]


ANYWHERE = {"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}


def test_a_new_group_lets_everything_out(account: Account, group: str) -> None:
    assert shown(account, group) == ([], [NOBODY | ANYWHERE])
    (rule,) = listed(account, group_id=group)
    assert (rule["IsEgress"], rule["CidrIpv4"], rule["FromPort"]) == (True, "0.0.0.0/0", -1)


def test_the_default_group_lets_itself_in(account: Account) -> None:
    filters = [{"Name": "group-name", "Values": ["default"]}]
    (row,) = account.ask("DescribeSecurityGroups", Filters=filters)["SecurityGroups"]
    pair = {"GroupId": row["GroupId"], "UserId": "111122223333"}
    assert row["IpPermissions"] == [{**NOBODY, "IpProtocol": "-1", "UserIdGroupPairs": [pair]}]


def test_what_is_written_is_found(account: Account, group: str) -> None:
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


def test_a_rule_in_short(account: Account, group: str) -> None:
    short = {"IpProtocol": "6", "FromPort": 80, "ToPort": 80, "CidrIp": "10.1.2.3/16"}
    account.ask("AuthorizeSecurityGroupIngress", GroupName="mine", **short)
    ranges = [{"CidrIp": "10.1.0.0/16"}]
    assert shown(account, group)[0] == [
        {**NOBODY, "IpProtocol": "tcp", "FromPort": 80, "ToPort": 80, "IpRanges": ranges}
    ]
    account.ask("AuthorizeSecurityGroupIngress", GroupId=group, SourceSecurityGroupName="default")
    assert len(shown(account, group)[0][1]["UserIdGroupPairs"]) == 1


def test_groups_let_each_other_in(account: Account, group: str) -> None:
    other = made(account, "other")
    pairs = [{"GroupId": other}]
    account.ask(
        "AuthorizeSecurityGroupIngress",
        GroupId=group,
        IpPermissions=[{"IpProtocol": "all", "UserIdGroupPairs": pairs}],
    )
    (rule,) = [each for each in listed(account, group_id=group) if not each["IsEgress"]]
    assert rule["ReferencedGroupInfo"] == {"GroupId": other, "UserId": "111122223333"}


def test_the_way_out_can_be_closed_and_opened(account: Account, group: str) -> None:
    account.ask("RevokeSecurityGroupEgress", GroupId=group, IpPermissions=[ANYWHERE])
    assert shown(account, group) == ([], [])
    account.ask("AuthorizeSecurityGroupEgress", GroupId=group, IpPermissions=[SSH])
    assert shown(account, group) == ([], [NOBODY | SSH])


def test_a_rule_is_removed_by_its_id(account: Account, group: str) -> None:
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
    account: Account, group: str, changes: dict[str, Any], code: str
) -> None:
    asked = [{"IpProtocol": "udp", "FromPort": 1, "ToPort": 2, **ANY}, *permission(**changes)]
    found = account.refused("AuthorizeSecurityGroupIngress", GroupId=group, IpPermissions=asked)
    assert found == (code, 400)
    assert shown(account, group)[0] == []


def test_a_rule_is_written_once(account: Account, group: str) -> None:
    asked = {"GroupId": group, "IpPermissions": [SSH]}
    account.ask("AuthorizeSecurityGroupIngress", **asked)
    assert account.refused("AuthorizeSecurityGroupIngress", **asked) == (DUPLICATE, 400)
    account.ask("AuthorizeSecurityGroupEgress", **asked)
    account.ask("RevokeSecurityGroupIngress", **asked)
    again = account.refused("RevokeSecurityGroupIngress", **asked)
    assert again == ("InvalidPermission.NotFound", 400)


def test_a_group_has_room_for_sixty(account: Account, group: str) -> None:
    ports = [permission(FromPort=each, ToPort=each)[0] for each in range(60)]
    account.ask("AuthorizeSecurityGroupIngress", GroupId=group, IpPermissions=ports)
    found = account.refused(
        "AuthorizeSecurityGroupIngress", GroupId=group, IpPermissions=permission(IpProtocol="udp")
    )
    assert found == ("RulesPerSecurityGroupLimitExceeded", 400)


def test_a_call_without_a_rule_says_so(account: Account, group: str) -> None:
    assert account.refused("AuthorizeSecurityGroupIngress", GroupId=group)[0] == "MissingParameter"


def test_rules_come_in_pages_can_be_tagged_and_are_saved(account: Account, group: str) -> None:
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
    account.cloud = EmulatedCloud.load(account.cloud.save(), clock=account.clock)
    (row,) = account.ask("DescribeSecurityGroupRules", SecurityGroupRuleIds=[rule])[
        "SecurityGroupRules"
    ]
    assert (row["FromPort"], row["Tags"]) == (3, [{"Key": "a", "Value": "b"}])
