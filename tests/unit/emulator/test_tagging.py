"""Tags of everything: set, taken away and listed, all of a call or nothing of it."""

from typing import Any

import pytest
from tests.support.emulated import Account

from wainwright.api.cloud import CloudSpec, Reservation


@pytest.fixture
def account() -> Account:
    reservation = Reservation(
        id="cr-0a", instanceType="m5.large", availabilityZone="us-west-2a", total=1
    )
    return Account(
        CloudSpec(
            region="us-west-2", instanceTypes=["m5.large"], capacityReservations=[reservation]
        )
    )


def things(account: Account) -> dict[str, str]:
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


def listed(account: Account, **filters: str) -> set[tuple[str, str, str, str]]:
    asked = [{"Name": name.replace("_", "-"), "Values": [value]} for name, value in filters.items()]
    rows = account.ask("DescribeTags", Filters=asked)["Tags"]
    return {(row["ResourceType"], row["ResourceId"], row["Key"], row["Value"]) for row in rows}


def test_everything_can_be_tagged(account: Account) -> None:
    named = things(account)
    account.ask("CreateTags", Resources=list(named.values()), Tags=[tag("x", "1"), tag("y", "")])
    assert listed(account, key="x") == {
        (kind, identity, "x", "1") for kind, identity in named.items()
    }
    assert len(listed(account, key="y", value="")) == len(named)


def test_tags_are_seen_where_the_thing_is_described(account: Account) -> None:
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
def test_what_is_not_there_cannot_be_tagged(account: Account, identity: str, code: str) -> None:
    vpc = account.cloud.account.vpc
    asked: dict[str, Any] = {"Resources": [vpc, identity], "Tags": [tag("x", "1")]}
    assert account.refused("CreateTags", **asked) == (code, 400)
    assert listed(account, key="x") == set()
    assert account.refused("DeleteTags", **asked) == (code, 400)


def test_tags_are_taken_away_by_key_by_value_or_all(account: Account) -> None:
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


def test_nothing_has_more_than_fifty(account: Account) -> None:
    vpc = account.cloud.account.vpc
    many = [tag(f"k{number}", "") for number in range(49)]
    assert account.refused("CreateTags", Resources=[vpc], Tags=many) == ("TagLimitExceeded", 400)
    account.ask("CreateTags", Resources=[vpc], Tags=many[:48])
    assert len(listed(account, resource_id=vpc)) == 50


def test_a_call_without_tags_or_things_is_refused(account: Account) -> None:
    vpc = account.cloud.account.vpc
    assert account.refused("CreateTags", Resources=[vpc], Tags=[])[0] == "MissingParameter"
    assert account.refused("CreateTags", Resources=[], Tags=[tag("x")])[0] == "MissingParameter"
    reserved = [tag("aws:x", "1")]
    assert account.refused("CreateTags", Resources=[vpc], Tags=reserved)[0] == (
        "InvalidParameterValue"
    )


def test_tags_are_filtered_by_type_and_by_the_tag_itself(account: Account) -> None:
    found = listed(account, resource_type="security-group")
    assert {key for _, _, key, _ in found} == {"Name", "karpenter.sh/discovery"}
    rows = account.ask(
        "DescribeTags", Filters=[{"Name": "tag:karpenter.sh/discovery", "Values": ["wain"]}]
    )["Tags"]
    assert {row["ResourceType"] for row in rows} == {"vpc", "subnet", "security-group"}
