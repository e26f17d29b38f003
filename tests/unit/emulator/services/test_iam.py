"""IAM: roles and instance profiles, their error codes, and their use in launches."""

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
    service = SingleService(Iam)
    service.call("CreateRole", RoleName="nodes", AssumeRolePolicyDocument=POLICY)
    service.call("CreateInstanceProfile", InstanceProfileName="profile", Path="/karpenter/eu/a/")
    return service


def listed(service: SingleService[Iam], **params: Any) -> list[str]:
    response = service.call("ListInstanceProfiles", **params)
    return [each["InstanceProfileName"] for each in response["InstanceProfiles"]]


def test_a_role_round_trips() -> None:
    service = SingleService(Iam)
    tags = [{"Key": "team", "Value": ""}, {"Key": "a&b", "Value": "<x>"}]
    created = service.call(
        "CreateRole", RoleName="r", Path="/x/", AssumeRolePolicyDocument=POLICY, Tags=tags
    )["Role"]
    assert service.call("GetRole", RoleName="r")["Role"] == created
    assert created["Arn"] == "arn:aws:iam::111122223333:role/x/r"
    assert created["Tags"] == tags
    assert unquote(created["AssumeRolePolicyDocument"]) == POLICY
    assert created["CreateDate"].timestamp() == service.clock.time


@pytest.mark.parametrize(
    ("region", "partition"), [("us-gov-west-1", "aws-us-gov"), ("cn-north-1", "aws-cn")]
)
def test_arns_have_the_partition_of_the_region(region: str, partition: str) -> None:
    service = SingleService(Iam, region)
    role = service.call("CreateRole", RoleName="r", AssumeRolePolicyDocument=POLICY)["Role"]
    assert role["Arn"] == f"arn:{partition}:iam::111122223333:role/r"


def test_a_profile_has_at_most_one_role_and_is_deleted_only_without() -> None:
    service = iam()
    names = {"InstanceProfileName": "profile", "RoleName": "nodes"}
    service.call("AddRoleToInstanceProfile", **names)
    shown = service.call("GetInstanceProfile", InstanceProfileName="profile")["InstanceProfile"]
    assert [role["RoleName"] for role in shown["Roles"]] == ["nodes"]
    assert service.refused("AddRoleToInstanceProfile", **names) == ("LimitExceeded", 409)
    assert service.refused("DeleteInstanceProfile", InstanceProfileName="profile") == CONFLICT
    assert service.refused("DeleteRole", RoleName="nodes") == CONFLICT
    found = service.call("ListInstanceProfilesForRole", RoleName="nodes")["InstanceProfiles"]
    assert [each["InstanceProfileName"] for each in found] == ["profile"]
    service.call("RemoveRoleFromInstanceProfile", **names)
    assert service.refused("RemoveRoleFromInstanceProfile", **names) == MISSING
    service.call("DeleteInstanceProfile", InstanceProfileName="profile")
    service.call("DeleteRole", RoleName="nodes")
    assert service.refused("GetRole", RoleName="nodes") == MISSING


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
def test_invalid_requests_are_rejected(
    operation: str, params: dict[str, Any], expected: tuple[str, int]
) -> None:
    assert iam().refused(operation, **params) == expected


def test_a_missing_role_and_a_missing_profile_have_different_messages() -> None:
    service = iam()
    with pytest.raises(Exception, match="role with name x"):
        service.raw("AddRoleToInstanceProfile", InstanceProfileName="profile", RoleName="x")
    with pytest.raises(Exception, match="Instance Profile x"):
        service.raw("AddRoleToInstanceProfile", InstanceProfileName="x", RoleName="nodes")


def test_profiles_are_listed_by_path() -> None:
    service = iam()
    for name, path in (("b", "/karpenter/eu/b/"), ("c", "/karpenter/eu/a/uid/"), ("d", "/")):
        service.call("CreateInstanceProfile", InstanceProfileName=name, Path=path)
    assert listed(service) == ["b", "c", "d", "profile"]
    assert listed(service, PathPrefix="/karpenter/eu/a/") == ["c", "profile"]
    assert listed(service, PathPrefix="/karpenter/eu/a/uid/") == ["c"]
    assert listed(service, PathPrefix="/karpenter/us/") == []


@given(st.integers(0, 30), st.integers(1, 9))
def test_pages_together_have_all_profiles(count: int, size: int) -> None:
    service = SingleService(Iam)
    names = [f"p{number:02}" for number in range(count)]
    for name in names:
        service.raw("CreateInstanceProfile", InstanceProfileName=name)
    found, params = [], {"MaxItems": size}
    while True:
        response = service.raw("ListInstanceProfiles", **params)
        found += [each["InstanceProfileName"] for each in response["InstanceProfiles"]]
        assert response["IsTruncated"] is ("Marker" in response)
        if not response["IsTruncated"]:
            break
        params = {"MaxItems": size, "Marker": response["Marker"]}
    assert found == names


def test_tags_are_added_and_removed() -> None:
    service = iam()
    pairs = [{"Key": "a", "Value": "1"}, {"Key": "b", "Value": "2"}]
    service.call("TagInstanceProfile", InstanceProfileName="profile", Tags=pairs)
    service.call(
        "TagInstanceProfile", InstanceProfileName="profile", Tags=[{"Key": "a", "Value": "3"}]
    )
    service.call("UntagInstanceProfile", InstanceProfileName="profile", TagKeys=["b", "unknown"])
    tags = service.call("ListInstanceProfileTags", InstanceProfileName="profile")["Tags"]
    assert tags == [{"Key": "a", "Value": "3"}]
    many = [{"Key": str(number), "Value": ""} for number in range(50)]
    assert service.refused("TagInstanceProfile", InstanceProfileName="profile", Tags=many) == (
        "LimitExceeded",
        409,
    )


def test_spot_needs_a_role_that_only_its_service_may_delete() -> None:
    service = SingleService(Iam)
    assert not service.service.has_spot_role()
    service.service.seed("nodes")
    assert service.service.has_spot_role()
    name = "AWSServiceRoleForEC2Spot"
    role = service.call("GetRole", RoleName=name)["Role"]
    assert role["Path"] == "/aws-service-role/spot.amazonaws.com/"
    assert service.refused("DeleteRole", RoleName=name) == ("UnmodifiableEntity", 400)
    taken = service.refused("CreateServiceLinkedRole", AWSServiceName="spot.amazonaws.com")
    assert taken == ("InvalidInput", 400)
    assert service.call("DeleteServiceLinkedRole", RoleName=name)["DeletionTaskId"]
    assert not service.service.has_spot_role()
    service.call("CreateServiceLinkedRole", AWSServiceName="spot.amazonaws.com")
    assert service.service.has_spot_role()


def test_a_launch_finds_a_profile_by_name_and_by_arn() -> None:
    service = iam()
    profile = service.service.find_profile("profile")
    assert profile is not None
    arn = service.service.profile_arn(profile)
    assert arn == "arn:aws:iam::111122223333:instance-profile/karpenter/eu/a/profile"
    assert service.service.find_profile(arn) is profile
    assert service.service.find_profile("other") is None
    assert service.service.find_profile(arn.replace("/a/", "/b/")) is None


def test_roles_and_profiles_survive_saving() -> None:
    service = iam()
    service.call("AddRoleToInstanceProfile", InstanceProfileName="profile", RoleName="nodes")
    again = service.reloaded()
    named = {"InstanceProfileName": "profile"}
    assert again.call("GetInstanceProfile", **named) == service.call("GetInstanceProfile", **named)
    again.call("RemoveRoleFromInstanceProfile", **named, RoleName="nodes")
    assert service.service.state.profiles["profile"].role == "nodes"
