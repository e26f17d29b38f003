"""Roles and instance profiles."""

import json

from tests.contract.case import case, fresh_name
from tests.contract.doors import Door, refusal

TRUST = json.dumps(
    {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Principal": {"Service": "ec2.amazonaws.com"},
                "Action": "sts:AssumeRole",
            }
        ],
    }
)
GONE = ("NoSuchEntity", 404)


def role(door: Door) -> str:
    name = fresh_name("role")
    door.ask("iam", "CreateRole", RoleName=name, AssumeRolePolicyDocument=TRUST)
    return name


def profile(door: Door, path: str = "/") -> str:
    name = fresh_name("profile")
    tags = [{"Key": "team", "Value": ""}, {"Key": "a&b", "Value": "<c>"}]
    door.ask("iam", "CreateInstanceProfile", InstanceProfileName=name, Path=path, Tags=tags)
    return name


@case()
def a_profile_has_its_path_its_tags_and_its_role(door: Door) -> None:
    made, home = role(door), "/karpenter/us-east-1/test/"
    name = profile(door, home)
    door.ask("iam", "AddRoleToInstanceProfile", InstanceProfileName=name, RoleName=made)
    found = door.ask("iam", "GetInstanceProfile", InstanceProfileName=name)["InstanceProfile"]
    assert found["Path"] == home
    assert [each["RoleName"] for each in found["Roles"]] == [made]
    assert found["Arn"].endswith(f":instance-profile{home}{name}")
    tags = {pair["Key"]: pair["Value"] for pair in found["Tags"]}
    assert tags == {"team": "", "a&b": "<c>"}


@case()
def what_does_not_exist_is_an_error(door: Door) -> None:
    assert refusal(door, "iam", "GetInstanceProfile", InstanceProfileName="none") == GONE
    assert refusal(door, "iam", "GetRole", RoleName="none") == GONE
    assert refusal(door, "iam", "DeleteInstanceProfile", InstanceProfileName="none") == GONE


@case()
def a_profile_takes_no_role_that_does_not_exist(door: Door) -> None:
    name = profile(door)
    where = {"InstanceProfileName": name, "RoleName": "none"}
    assert refusal(door, "iam", "AddRoleToInstanceProfile", **where) == GONE


@case()
def there_is_one_profile_of_a_name(door: Door) -> None:
    name = profile(door)
    code, status = refusal(door, "iam", "CreateInstanceProfile", InstanceProfileName=name)
    assert (code, status) == ("EntityAlreadyExists", 409)


@case()
def a_profile_has_one_role(door: Door) -> None:
    name = profile(door)
    door.ask("iam", "AddRoleToInstanceProfile", InstanceProfileName=name, RoleName=role(door))
    second = {"InstanceProfileName": name, "RoleName": role(door)}
    code, status = refusal(door, "iam", "AddRoleToInstanceProfile", **second)
    assert (code, status) == ("LimitExceeded", 409)


@case()
def a_profile_with_a_role_cannot_be_deleted(door: Door) -> None:
    name, made = profile(door), role(door)
    both = {"InstanceProfileName": name, "RoleName": made}
    door.ask("iam", "AddRoleToInstanceProfile", **both)
    code, status = refusal(door, "iam", "DeleteInstanceProfile", InstanceProfileName=name)
    assert (code, status) == ("DeleteConflict", 409)
    door.ask("iam", "RemoveRoleFromInstanceProfile", **both)
    door.ask("iam", "DeleteInstanceProfile", InstanceProfileName=name)
    assert refusal(door, "iam", "GetInstanceProfile", InstanceProfileName=name) == GONE


@case(moto_wrong="it gives the profiles of all paths, which a client would then delete")
def profiles_are_listed_by_path(door: Door) -> None:
    mine, other = f"/{fresh_name('path')}/", f"/{fresh_name('path')}/"
    name, _ = profile(door, mine), profile(door, other)
    found = door.ask("iam", "ListInstanceProfiles", PathPrefix=mine)
    assert [each["InstanceProfileName"] for each in found["InstanceProfiles"]] == [name]
    assert found["IsTruncated"] is False
