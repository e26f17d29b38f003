"""IAM: roles and instance profiles, their codes, and what the launch of a machine asks of them."""

import json
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.emulator_accounts import SingleService

from wainwright.emulator.services.iam import Iam, trust_policy

POLICY = json.dumps(trust_policy("ec2.amazonaws.com"))
MISSING = ("NoSuchEntity", 404)
EXISTS = ("EntityAlreadyExists", 409)
CONFLICT = ("DeleteConflict", 409)


def iam() -> SingleService[Iam]:
    one = SingleService(Iam)
    one.ask("CreateRole", RoleName="nodes", AssumeRolePolicyDocument=POLICY)
    one.ask("CreateInstanceProfile", InstanceProfileName="profile", Path="/karpenter/eu/a/")
    return one


def listed(one: SingleService[Iam], **params: Any) -> list[str]:
    answer = one.ask("ListInstanceProfiles", **params)
    return [each["InstanceProfileName"] for each in answer["InstanceProfiles"]]


def test_a_role_is_given_back_as_it_was_made() -> None:
    one = SingleService(Iam)
    tags = [{"Key": "team", "Value": ""}, {"Key": "a&b", "Value": "<x>"}]
    made = one.ask(
        "CreateRole", RoleName="r", Path="/x/", AssumeRolePolicyDocument=POLICY, Tags=tags
    )["Role"]
    assert one.ask("GetRole", RoleName="r")["Role"] == made
    assert made["Arn"] == "arn:aws:iam::111122223333:role/x/r"
    assert made["Tags"] == tags
    assert unquote(made["AssumeRolePolicyDocument"]) == POLICY
    assert made["CreateDate"].timestamp() == one.clock.time


@pytest.mark.parametrize(
    ("region", "partition"), [("us-gov-west-1", "aws-us-gov"), ("cn-north-1", "aws-cn")]
)
def test_arns_are_of_the_partition(region: str, partition: str) -> None:
    one = SingleService(Iam, region)
    role = one.ask("CreateRole", RoleName="r", AssumeRolePolicyDocument=POLICY)["Role"]
    assert role["Arn"] == f"arn:{partition}:iam::111122223333:role/r"


def test_a_profile_has_at_most_one_role_and_goes_only_without() -> None:
    one = iam()
    names = {"InstanceProfileName": "profile", "RoleName": "nodes"}
    one.ask("AddRoleToInstanceProfile", **names)
    shown = one.ask("GetInstanceProfile", InstanceProfileName="profile")["InstanceProfile"]
    assert [role["RoleName"] for role in shown["Roles"]] == ["nodes"]
    assert one.refused("AddRoleToInstanceProfile", **names) == ("LimitExceeded", 409)
    assert one.refused("DeleteInstanceProfile", InstanceProfileName="profile") == CONFLICT
    assert one.refused("DeleteRole", RoleName="nodes") == CONFLICT
    found = one.ask("ListInstanceProfilesForRole", RoleName="nodes")["InstanceProfiles"]
    assert [each["InstanceProfileName"] for each in found] == ["profile"]
    one.ask("RemoveRoleFromInstanceProfile", **names)
    assert one.refused("RemoveRoleFromInstanceProfile", **names) == MISSING
    one.ask("DeleteInstanceProfile", InstanceProfileName="profile")
    one.ask("DeleteRole", RoleName="nodes")
    assert one.refused("GetRole", RoleName="nodes") == MISSING


@pytest.mark.parametrize(
    ("operation", "params", "expected"),
    [
        ("GetRole", {"RoleName": "x"}, MISSING),
        ("DeleteRole", {"RoleName": "x"}, MISSING),
        ("GetInstanceProfile", {"InstanceProfileName": "x"}, MISSING),
        ("DeleteInstanceProfile", {"InstanceProfileName": "x"}, MISSING),
        ("TagInstanceProfile", {"InstanceProfileName": "x", "Tags": []}, MISSING),
        ("UntagInstanceProfile", {"InstanceProfileName": "x", "TagKeys": []}, MISSING),
        (
            "AddRoleToInstanceProfile",
            {"InstanceProfileName": "profile", "RoleName": "x"},
            MISSING,
        ),
        ("AddRoleToInstanceProfile", {"InstanceProfileName": "x", "RoleName": "nodes"}, MISSING),
        ("CreateInstanceProfile", {"InstanceProfileName": "profile"}, EXISTS),
        ("CreateRole", {"RoleName": "nodes", "AssumeRolePolicyDocument": POLICY}, EXISTS),
        (
            "CreateRole",
            {"RoleName": "x", "AssumeRolePolicyDocument": "{"},
            ("MalformedPolicyDocument", 400),
        ),
        ("CreateRole", {"RoleName": "x"}, ("ValidationError", 400)),
        ("CreateInstanceProfile", {}, ("ValidationError", 400)),
        ("CreateInstanceProfile", {"InstanceProfileName": "a b"}, ("ValidationError", 400)),
        (
            "CreateInstanceProfile",
            {"InstanceProfileName": "x", "Path": "/open"},
            ("ValidationError", 400),
        ),
        ("ListInstanceProfiles", {"PathPrefix": "karpenter"}, ("ValidationError", 400)),
        ("ListInstanceProfiles", {"MaxItems": 0}, ("ValidationError", 400)),
        ("ListInstanceProfiles", {"Marker": "?"}, ("ValidationError", 400)),
        ("CreateServiceLinkedRole", {"AWSServiceName": "x.com"}, ("InvalidInput", 400)),
        ("DeleteServiceLinkedRole", {"RoleName": "nodes"}, ("InvalidInput", 400)),
    ],
)
def test_what_is_refused(operation: str, params: dict[str, Any], expected: tuple[str, int]) -> None:
    assert iam().refused(operation, **params) == expected


def test_a_missing_role_is_told_from_a_missing_profile_by_its_words() -> None:
    one = iam()
    with pytest.raises(Exception, match="role with name x"):
        one.raw("AddRoleToInstanceProfile", InstanceProfileName="profile", RoleName="x")
    with pytest.raises(Exception, match="Instance Profile x"):
        one.raw("AddRoleToInstanceProfile", InstanceProfileName="x", RoleName="nodes")


def test_the_path_decides_which_profiles_are_listed() -> None:
    one = iam()
    for name, path in (("b", "/karpenter/eu/b/"), ("c", "/karpenter/eu/a/uid/"), ("d", "/")):
        one.ask("CreateInstanceProfile", InstanceProfileName=name, Path=path)
    assert listed(one) == ["b", "c", "d", "profile"]
    assert listed(one, PathPrefix="/karpenter/eu/a/") == ["c", "profile"]
    assert listed(one, PathPrefix="/karpenter/eu/a/uid/") == ["c"]
    assert listed(one, PathPrefix="/karpenter/us/") == []


@given(st.integers(0, 30), st.integers(1, 9))
def test_pages_are_the_whole(count: int, size: int) -> None:
    one = SingleService(Iam)
    names = [f"p{number:02}" for number in range(count)]
    for name in names:
        one.raw("CreateInstanceProfile", InstanceProfileName=name)
    found, params = [], {"MaxItems": size}
    while True:
        answer = one.raw("ListInstanceProfiles", **params)
        found += [each["InstanceProfileName"] for each in answer["InstanceProfiles"]]
        assert answer["IsTruncated"] is ("Marker" in answer)
        if not answer["IsTruncated"]:
            break
        params = {"MaxItems": size, "Marker": answer["Marker"]}
    assert found == names


def test_tags_come_and_go() -> None:
    one = iam()
    pairs = [{"Key": "a", "Value": "1"}, {"Key": "b", "Value": "2"}]
    one.ask("TagInstanceProfile", InstanceProfileName="profile", Tags=pairs)
    one.ask("TagInstanceProfile", InstanceProfileName="profile", Tags=[{"Key": "a", "Value": "3"}])
    one.ask("UntagInstanceProfile", InstanceProfileName="profile", TagKeys=["b", "unknown"])
    tags = one.ask("ListInstanceProfileTags", InstanceProfileName="profile")["Tags"]
    assert tags == [{"Key": "a", "Value": "3"}]
    many = [{"Key": str(number), "Value": ""} for number in range(50)]
    assert one.refused("TagInstanceProfile", InstanceProfileName="profile", Tags=many) == (
        "LimitExceeded",
        409,
    )


def test_spot_needs_a_role_that_only_its_service_may_delete() -> None:
    one = SingleService(Iam)
    assert not one.service.has_spot_role()
    one.service.seed("nodes")
    assert one.service.has_spot_role()
    name = "AWSServiceRoleForEC2Spot"
    role = one.ask("GetRole", RoleName=name)["Role"]
    assert role["Path"] == "/aws-service-role/spot.amazonaws.com/"
    assert one.refused("DeleteRole", RoleName=name) == ("UnmodifiableEntity", 400)
    taken = one.refused("CreateServiceLinkedRole", AWSServiceName="spot.amazonaws.com")
    assert taken == ("InvalidInput", 400)
    assert one.ask("DeleteServiceLinkedRole", RoleName=name)["DeletionTaskId"]
    assert not one.service.has_spot_role()
    one.ask("CreateServiceLinkedRole", AWSServiceName="spot.amazonaws.com")
    assert one.service.has_spot_role()


def test_a_launch_finds_a_profile_by_name_and_by_arn() -> None:
    one = iam()
    profile = one.service.find_profile("profile")
    assert profile is not None
    arn = one.service.profile_arn(profile)
    assert arn == "arn:aws:iam::111122223333:instance-profile/karpenter/eu/a/profile"
    assert one.service.find_profile(arn) is profile
    assert one.service.find_profile("other") is None
    assert one.service.find_profile(arn.replace("/a/", "/b/")) is None


def test_everything_survives_being_saved() -> None:
    one = iam()
    one.ask("AddRoleToInstanceProfile", InstanceProfileName="profile", RoleName="nodes")
    again = one.reborn()
    named = {"InstanceProfileName": "profile"}
    assert again.ask("GetInstanceProfile", **named) == one.ask("GetInstanceProfile", **named)
    again.ask("RemoveRoleFromInstanceProfile", **named, RoleName="nodes")
    assert one.service.state.profiles["profile"].role == "nodes"
