"""Tags: limits of EC2; created, deleted and described on every resource type."""

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


def test_tags_round_trip() -> None:
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
def test_invalid_tags_are_rejected(pairs: list[dict[str, Any]], code: str) -> None:
    assert expect_error(lambda: parse_tags(pairs)) == (code, 400)


def test_tags_at_the_limits_are_accepted() -> None:
    maximum = [pair(f"k{number}") for number in range(49)] + [pair("k" * 128, "v" * 256)]
    assert len(parse_tags(maximum)) == 50


SPECIFIED = {
    "TagSpecifications": [
        {"ResourceType": "instance", "Tags": [pair("a", "1")]},
        {"ResourceType": "volume", "Tags": [pair("b", "2")]},
        {"ResourceType": "instance", "Tags": [pair("c", "3")]},
    ]
}


def test_tag_specifications_are_selected_by_resource_type() -> None:
    assert parse_tag_specifications(SPECIFIED, "instance") == {"a": "1", "c": "3"}
    assert parse_tag_specifications(SPECIFIED, "volume") == {"b": "2"}
    assert parse_tag_specifications(SPECIFIED, "fleet") == {}
    assert parse_tag_specifications({}, "fleet") == {}


def test_tags_for_resource_types_that_are_not_created_are_rejected() -> None:
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
    """One resource of every type."""
    found = account.cloud.account
    template = account.call(
        "CreateLaunchTemplate", LaunchTemplateName="one", LaunchTemplateData={"ImageId": "ami-1"}
    )
    placement = account.call("CreatePlacementGroup", GroupName="one", Strategy="cluster")
    return {
        "vpc": found.vpc,
        "subnet": found.subnets["us-west-2a"],
        "security-group": found.security_group,
        "image": account.call("RegisterImage", Name="one")["ImageId"],
        "launch-template": template["LaunchTemplate"]["LaunchTemplateId"],
        "placement-group": placement["PlacementGroup"]["GroupId"],
        "capacity-reservation": "cr-0a",
    }


def tag(key: str, value: str | None = None) -> dict[str, str]:
    return {"Key": key} if value is None else {"Key": key, "Value": value}


def listed(account: CheckedAccount, **filters: str) -> set[tuple[str, str, str, str]]:
    request = [
        {"Name": name.replace("_", "-"), "Values": [value]} for name, value in filters.items()
    ]
    rows = account.call("DescribeTags", Filters=request)["Tags"]
    return {(row["ResourceType"], row["ResourceId"], row["Key"], row["Value"]) for row in rows}


def test_every_resource_type_can_be_tagged(account: CheckedAccount) -> None:
    named = things(account)
    account.call("CreateTags", Resources=list(named.values()), Tags=[tag("x", "1"), tag("y", "")])
    assert listed(account, key="x") == {
        (kind, identity, "x", "1") for kind, identity in named.items()
    }
    assert len(listed(account, key="y", value="")) == len(named)


def test_tags_appear_in_descriptions_of_the_resource(account: CheckedAccount) -> None:
    subnet = account.cloud.account.subnets["us-west-2a"]
    account.call("CreateTags", Resources=[subnet], Tags=[tag("Name", "changed"), tag("x", "1")])
    (row,) = account.call("DescribeSubnets", SubnetIds=[subnet])["Subnets"]
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
def test_unknown_resources_cannot_be_tagged(
    account: CheckedAccount, identity: str, code: str
) -> None:
    vpc = account.cloud.account.vpc
    request: dict[str, Any] = {"Resources": [vpc, identity], "Tags": [tag("x", "1")]}
    assert account.refused("CreateTags", **request) == (code, 400)
    assert listed(account, key="x") == set()
    assert account.refused("DeleteTags", **request) == (code, 400)


def test_tags_are_deleted_by_key_by_value_or_all(account: CheckedAccount) -> None:
    vpc = account.cloud.account.vpc

    def remaining() -> set[str]:
        return {key for _, _, key, _ in listed(account, resource_id=vpc)}

    account.call("CreateTags", Resources=[vpc], Tags=[tag("a", "1"), tag("b", "2"), tag("c", "3")])
    account.call("DeleteTags", Resources=[vpc], Tags=[tag("a"), tag("b", "other"), tag("nope")])
    assert remaining() == {"Name", "karpenter.sh/discovery", "b", "c"}
    account.call("DeleteTags", Resources=[vpc], Tags=[tag("b", "2")])
    assert remaining() == {"Name", "karpenter.sh/discovery", "c"}
    account.call("DeleteTags", Resources=[vpc])
    assert remaining() == set()


def test_a_resource_has_at_most_fifty_tags(account: CheckedAccount) -> None:
    vpc = account.cloud.account.vpc
    many = [tag(f"k{number}", "") for number in range(49)]
    assert account.refused("CreateTags", Resources=[vpc], Tags=many) == ("TagLimitExceeded", 400)
    account.call("CreateTags", Resources=[vpc], Tags=many[:48])
    assert len(listed(account, resource_id=vpc)) == 50


def test_a_request_without_tags_or_resources_is_rejected(account: CheckedAccount) -> None:
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
    rows = account.call(
        "DescribeTags", Filters=[{"Name": "tag:karpenter.sh/discovery", "Values": ["wain"]}]
    )["Tags"]
    assert {row["ResourceType"] for row in rows} == {"vpc", "subnet", "security-group"}
