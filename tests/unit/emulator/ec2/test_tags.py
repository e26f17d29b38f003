"""Tags: what EC2 refuses in them; set, deleted and described on everything that has an id."""

from typing import Any

import pytest
from tests.support.emulator_accounts import CheckedAccount, expect_error

from wainwright.api.catalog_documents import CloudReservation, CloudSpec
from wainwright.emulator.ec2.tags import (
    check_taggable_types,
    parse_tag_specifications,
    parse_tags,
    to_tag_list,
)


def pair(key: str, value: str | None = None) -> dict[str, Any]:
    return {"Key": key} if value is None else {"Key": key, "Value": value}


def test_tags_come_back_as_they_went_in() -> None:
    written = [pair("team", "a & <b>"), pair("karpenter.sh/nodepool", "")]
    assert to_tag_list(parse_tags(written)) == written


def test_a_tag_without_a_value_has_an_empty_one() -> None:
    assert parse_tags([pair("team")]) == {"team": ""}
    assert parse_tags(None) == {}


@pytest.mark.parametrize(
    ("pairs", "code"),
    [
        ([pair("")], "InvalidParameterValue"),
        ([{"Value": "x"}], "InvalidParameterValue"),
        ([pair("a", "1"), pair("a", "2")], "InvalidParameterValue"),
        ([pair("aws:ec2:fleet-id", "x")], "InvalidParameterValue"),
        ([pair("AWS:x", "x")], "InvalidParameterValue"),
        ([pair("k" * 129, "x")], "InvalidParameterValue"),
        ([pair("k", "v" * 257)], "InvalidParameterValue"),
        ([pair(f"k{number}") for number in range(51)], "TagLimitExceeded"),
    ],
)
def test_what_ec2_refuses(pairs: list[dict[str, Any]], code: str) -> None:
    assert expect_error(lambda: parse_tags(pairs)) == (code, 400)


def test_the_longest_and_the_most_are_taken() -> None:
    maximum = [pair(f"k{number}") for number in range(49)] + [pair("k" * 128, "v" * 256)]
    assert len(parse_tags(maximum)) == 50


SPECIFIED = {
    "TagSpecifications": [
        {"ResourceType": "instance", "Tags": [pair("a", "1")]},
        {"ResourceType": "volume", "Tags": [pair("b", "2")]},
        {"ResourceType": "instance", "Tags": [pair("c", "3")]},
    ]
}


def test_specifications_are_read_by_what_they_are_for() -> None:
    assert parse_tag_specifications(SPECIFIED, "instance") == {"a": "1", "c": "3"}
    assert parse_tag_specifications(SPECIFIED, "volume") == {"b": "2"}
    assert parse_tag_specifications(SPECIFIED, "fleet") == {}
    assert parse_tag_specifications({}, "fleet") == {}


def test_tags_for_something_that_is_not_created_are_refused() -> None:
    check_taggable_types(SPECIFIED, "instance", "volume")
    assert expect_error(lambda: check_taggable_types(SPECIFIED, "instance")) == (
        "InvalidParameterValue",
        400,
    )


@pytest.fixture
def account() -> CheckedAccount:
    reservation = CloudReservation(
        id="cr-0a", instanceType="m5.large", availabilityZone="us-west-2a", total=1
    )
    return CheckedAccount(
        CloudSpec(
            region="us-west-2", instanceTypes=["m5.large"], capacityReservations=[reservation]
        )
    )


def things(account: CheckedAccount) -> dict[str, str]:
    """One of every kind."""
    found = account.cloud.account
    template = account.ask(
        "CreateLaunchTemplate", LaunchTemplateName="one", LaunchTemplateData={"ImageId": "ami-1"}
    )
    placement = account.ask("CreatePlacementGroup", GroupName="one", Strategy="cluster")
    return {
        "vpc": found.vpc,
        "subnet": found.subnets["us-west-2a"],
        "security-group": found.security_group,
        "image": account.ask("RegisterImage", Name="one")["ImageId"],
        "launch-template": template["LaunchTemplate"]["LaunchTemplateId"],
        "placement-group": placement["PlacementGroup"]["GroupId"],
        "capacity-reservation": "cr-0a",
    }


def tag(key: str, value: str | None = None) -> dict[str, str]:
    return {"Key": key} if value is None else {"Key": key, "Value": value}


def listed(account: CheckedAccount, **filters: str) -> set[tuple[str, str, str, str]]:
    asked = [{"Name": name.replace("_", "-"), "Values": [value]} for name, value in filters.items()]
    rows = account.ask("DescribeTags", Filters=asked)["Tags"]
    return {(row["ResourceType"], row["ResourceId"], row["Key"], row["Value"]) for row in rows}


def test_everything_can_be_tagged(account: CheckedAccount) -> None:
    named = things(account)
    account.ask("CreateTags", Resources=list(named.values()), Tags=[tag("x", "1"), tag("y", "")])
    assert listed(account, key="x") == {
        (kind, identity, "x", "1") for kind, identity in named.items()
    }
    assert len(listed(account, key="y", value="")) == len(named)


def test_tags_are_seen_where_the_thing_is_described(account: CheckedAccount) -> None:
    subnet = account.cloud.account.subnets["us-west-2a"]
    account.ask("CreateTags", Resources=[subnet], Tags=[tag("Name", "changed"), tag("x", "1")])
    (row,) = account.ask("DescribeSubnets", SubnetIds=[subnet])["Subnets"]
    assert {each["Key"]: each["Value"] for each in row["Tags"]} == {
        "Name": "changed",
        "karpenter.sh/discovery": "wain",
        "x": "1",
    }


@pytest.mark.parametrize(
    ("identity", "code"),
    [
        ("i-00000000000000000", "InvalidInstanceID.NotFound"),
        ("subnet-0", "InvalidSubnetID.NotFound"),
        ("vpc-0", "InvalidVpcID.NotFound"),
        ("sg-0", "InvalidGroup.NotFound"),
        ("ami-0", "InvalidAMIID.NotFound"),
        ("lt-0", "InvalidLaunchTemplateId.NotFound"),
        ("cr-0", "InvalidCapacityReservationId.NotFound"),
        ("vol-0", "InvalidVolume.NotFound"),
        ("eni-0", "InvalidNetworkInterfaceID.NotFound"),
        ("nonsense", "InvalidID"),
        ("what-0", "InvalidID"),
    ],
)
def test_what_is_not_there_cannot_be_tagged(
    account: CheckedAccount, identity: str, code: str
) -> None:
    vpc = account.cloud.account.vpc
    asked: dict[str, Any] = {"Resources": [vpc, identity], "Tags": [tag("x", "1")]}
    assert account.refused("CreateTags", **asked) == (code, 400)
    assert listed(account, key="x") == set()
    assert account.refused("DeleteTags", **asked) == (code, 400)


def test_tags_are_taken_away_by_key_by_value_or_all(account: CheckedAccount) -> None:
    vpc = account.cloud.account.vpc

    def left() -> set[str]:
        return {key for _, _, key, _ in listed(account, resource_id=vpc)}

    account.ask("CreateTags", Resources=[vpc], Tags=[tag("a", "1"), tag("b", "2"), tag("c", "3")])
    account.ask("DeleteTags", Resources=[vpc], Tags=[tag("a"), tag("b", "other"), tag("nope")])
    assert left() == {"Name", "karpenter.sh/discovery", "b", "c"}
    account.ask("DeleteTags", Resources=[vpc], Tags=[tag("b", "2")])
    assert left() == {"Name", "karpenter.sh/discovery", "c"}
    account.ask("DeleteTags", Resources=[vpc])
    assert left() == set()


def test_nothing_has_more_than_fifty(account: CheckedAccount) -> None:
    vpc = account.cloud.account.vpc
    many = [tag(f"k{number}", "") for number in range(49)]
    assert account.refused("CreateTags", Resources=[vpc], Tags=many) == ("TagLimitExceeded", 400)
    account.ask("CreateTags", Resources=[vpc], Tags=many[:48])
    assert len(listed(account, resource_id=vpc)) == 50


def test_a_call_without_tags_or_things_is_refused(account: CheckedAccount) -> None:
    vpc = account.cloud.account.vpc
    assert account.refused("CreateTags", Resources=[vpc], Tags=[])[0] == "MissingParameter"
    assert account.refused("CreateTags", Resources=[], Tags=[tag("x")])[0] == "MissingParameter"
    reserved = [tag("aws:x", "1")]
    assert account.refused("CreateTags", Resources=[vpc], Tags=reserved)[0] == (
        "InvalidParameterValue"
    )


def test_tags_are_filtered_by_type_and_by_the_tag_itself(account: CheckedAccount) -> None:
    found = listed(account, resource_type="security-group")
    assert {key for _, _, key, _ in found} == {"Name", "karpenter.sh/discovery"}
    rows = account.ask(
        "DescribeTags", Filters=[{"Name": "tag:karpenter.sh/discovery", "Values": ["wain"]}]
    )["Tags"]
    assert {row["ResourceType"] for row in rows} == {"vpc", "subnet", "security-group"}
