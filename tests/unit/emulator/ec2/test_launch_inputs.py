"""Launch templates, images and placement groups."""

from base64 import b64encode
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.support.emulator_accounts import CheckedAccount, expect_error

from wainwright.api.catalog_documents import CloudSpec

NO_NAME = ("InvalidLaunchTemplateName.NotFoundException", 400)
NO_ID = ("InvalidLaunchTemplateId.NotFound", 400)
DATA = {
    "ImageId": "ami-1",
    "UserData": b64encode(b"#!/bin/sh\n").decode(),
    "NetworkInterfaces": [{"DeviceIndex": 0, "Groups": ["sg-1"]}],
    "CapacityReservationSpecification": {"CapacityReservationPreference": "none"},
}
NAME = "karpenter.k8s.aws/0123456789"


@pytest.fixture
def account() -> CheckedAccount:
    return CheckedAccount(CloudSpec(region="us-west-2", instanceTypes=["m5.large"]))


def create(account: CheckedAccount, name: str = NAME, **params: Any) -> dict[str, Any]:
    request = {"LaunchTemplateData": DATA, **params}
    created = account.call("CreateLaunchTemplate", LaunchTemplateName=name, **request)
    return dict(created["LaunchTemplate"])


def tagged(**tags: str) -> list[dict[str, Any]]:
    pairs = [{"Key": key, "Value": value} for key, value in tags.items()]
    return [{"ResourceType": "launch-template", "Tags": pairs}]


def names(account: CheckedAccount, **params: Any) -> list[str]:
    pages = account.pages("DescribeLaunchTemplates", "LaunchTemplates", **params)
    return sorted(row["LaunchTemplateName"] for page in pages for row in page)


def test_a_template_is_found_by_name_id_and_tag(account: CheckedAccount) -> None:
    created = create(account, TagSpecifications=tagged(team="web", empty=""))
    create(account, "other")
    assert (created["DefaultVersionNumber"], created["LatestVersionNumber"]) == (1, 1)
    for params in (
        {"LaunchTemplateNames": [NAME]},
        {"LaunchTemplateIds": [created["LaunchTemplateId"]]},
        {"Filters": [{"Name": "tag:team", "Values": ["web"]}], "MaxResults": 200},
        {"Filters": [{"Name": "launch-template-name", "Values": ["karpenter*"]}]},
        {"Filters": [{"Name": "tag-key", "Values": ["empty"]}]},
    ):
        assert account.call("DescribeLaunchTemplates", **params)["LaunchTemplates"] == [created]


def test_missing_templates_have_their_own_error_codes(account: CheckedAccount) -> None:
    create(account)
    describe, delete = "DescribeLaunchTemplates", "DeleteLaunchTemplate"
    assert account.refused(describe, LaunchTemplateNames=[NAME, "absent"]) == NO_NAME
    assert account.refused(describe, LaunchTemplateIds=["lt-1"]) == NO_ID
    assert account.refused(delete, LaunchTemplateName="absent") == NO_NAME
    assert account.refused(delete, LaunchTemplateId="lt-1") == NO_ID
    malformed = ("InvalidLaunchTemplateId.Malformed", 400)
    assert account.refused(delete, LaunchTemplateId="mine") == malformed
    assert account.refused(delete) == ("MissingParameter", 400)
    both = account.refused(delete, LaunchTemplateName=NAME, LaunchTemplateId="lt-1")
    assert both == ("InvalidParameterCombination", 400)
    assert account.call(describe, Filters=[{"Name": "tag-key", "Values": ["x"]}]) == {
        "LaunchTemplates": []
    }


@pytest.mark.parametrize("by", ["LaunchTemplateId", "LaunchTemplateName"])
def test_a_deleted_template_frees_its_name(account: CheckedAccount, by: str) -> None:
    created = create(account)
    deleted = account.call("DeleteLaunchTemplate", **{by: created[by]})["LaunchTemplate"]
    assert deleted == created
    assert account.refused("DeleteLaunchTemplate", **{by: created[by]}) in (NO_ID, NO_NAME)
    assert create(account)["LaunchTemplateId"] != created["LaunchTemplateId"]


def test_a_template_name_is_unique(account: CheckedAccount) -> None:
    create(account)
    again = account.refused(
        "CreateLaunchTemplate", LaunchTemplateName=NAME, LaunchTemplateData=DATA
    )
    assert again == ("InvalidLaunchTemplateName.AlreadyExistsException", 400)


def user_data(length: int) -> dict[str, str]:
    return {"UserData": b64encode(b"x" * length).decode()}


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({"LaunchTemplateName": "a b c"}, "InvalidLaunchTemplateName.MalformedException"),
        ({"LaunchTemplateName": "x" * 128 + "y"}, "InvalidLaunchTemplateName.MalformedException"),
        ({"LaunchTemplateData": {}}, "MissingParameter"),
        ({"LaunchTemplateData": user_data(16385)}, "InvalidUserData.Malformed"),
        ({"LaunchTemplateData": {"UserData": "#!/bin/sh"}}, "InvalidUserData.Malformed"),
        ({"TagSpecifications": [{"ResourceType": "instance"}]}, "InvalidParameterValue"),
    ],
)
def test_invalid_templates_are_rejected(
    account: CheckedAccount, params: dict[str, Any], code: str
) -> None:
    request = {"LaunchTemplateName": "fine", "LaunchTemplateData": DATA, **params}
    assert account.refused("CreateLaunchTemplate", **request) == (code, 400)
    assert names(account) == []


def test_user_data_is_limited_to_16_kib(account: CheckedAccount) -> None:
    create(account, LaunchTemplateData=user_data(16384))


def test_a_client_token_creates_once(account: CheckedAccount) -> None:
    created = create(account, ClientToken="token")
    assert create(account, ClientToken="token") == created
    assert expect_error(lambda: create(account, "other", ClientToken="token")) == (
        "IdempotentParameterMismatch",
        400,
    )
    assert names(account) == [NAME]


def test_the_number_of_templates_is_limited(account: CheckedAccount) -> None:
    for number in range(5000):
        request = {
            "LaunchTemplateName": f"template-{number}",
            "LaunchTemplateData": {"ImageId": "a"},
        }
        account.cloud.answer("ec2", "CreateLaunchTemplate", request)
    assert expect_error(lambda: create(account)) == ("MaxTemplateLimitExceeded", 400)
    account.call("DeleteLaunchTemplate", LaunchTemplateName="template-7")
    create(account)


def test_templates_are_paginated_while_others_are_deleted(account: CheckedAccount) -> None:
    created = [create(account, f"template-{number}") for number in range(9)]
    first = account.call("DescribeLaunchTemplates", MaxResults=4)
    for row in first["LaunchTemplates"]:
        account.call("DeleteLaunchTemplate", LaunchTemplateId=row["LaunchTemplateId"])
    rest = names(account, MaxResults=4)
    second = account.call("DescribeLaunchTemplates", MaxResults=4, NextToken=first["NextToken"])
    third = account.call("DescribeLaunchTemplates", MaxResults=4, NextToken=second["NextToken"])
    seen = [*first["LaunchTemplates"], *second["LaunchTemplates"], *third["LaunchTemplates"]]
    assert sorted(each["LaunchTemplateName"] for each in seen) == [
        each["LaunchTemplateName"] for each in created
    ]
    assert len(rest) == 5


def test_versions(account: CheckedAccount) -> None:
    created = create(account)
    response = account.call(
        "CreateLaunchTemplateVersion",
        LaunchTemplateName=NAME,
        SourceVersion="1",
        VersionDescription="second",
        LaunchTemplateData={"ImageId": "ami-2"},
    )["LaunchTemplateVersion"]
    assert response["VersionNumber"] == 2
    assert response["LaunchTemplateData"] == {**DATA, "ImageId": "ami-2"}
    resolve = account.cloud.services.templates.resolve
    for version, image in (
        (None, "ami-1"),
        ("$Default", "ami-1"),
        ("$Latest", "ami-2"),
        ("2", "ami-2"),
    ):
        specification = {"LaunchTemplateId": created["LaunchTemplateId"], "Version": version}
        assert resolve(specification)[1].data["ImageId"] == image
    account.call("ModifyLaunchTemplate", LaunchTemplateName=NAME, DefaultVersion="2")
    assert resolve({"LaunchTemplateName": NAME})[1].number == 2
    missing = expect_error(lambda: resolve({"LaunchTemplateName": NAME, "Version": "3"}))
    assert missing == ("InvalidLaunchTemplateId.VersionNotFound", 400)


def test_versions_are_described_newest_first(account: CheckedAccount) -> None:
    create(account)
    for number in range(2, 5):
        account.call(
            "CreateLaunchTemplateVersion",
            LaunchTemplateName=NAME,
            LaunchTemplateData={"ImageId": f"ami-{number}"},
        )

    def versions(**params: Any) -> list[int]:
        response = account.call("DescribeLaunchTemplateVersions", LaunchTemplateName=NAME, **params)
        return [row["VersionNumber"] for row in response["LaunchTemplateVersions"]]

    assert versions() == [4, 3, 2, 1]
    assert versions(Versions=["$Latest", "1"]) == [4, 1]
    assert versions(MinVersion="2", MaxVersion="3") == [3, 2]
    assert versions(Filters=[{"Name": "image-id", "Values": ["ami-3"]}]) == [3]


def test_template_data_is_stored_as_a_copy(account: CheckedAccount) -> None:
    data = {"ImageId": "ami-1", "NetworkInterfaces": [{"Groups": ["sg-1"]}]}
    create(account, LaunchTemplateData=data)
    data["ImageId"] = "ami-9"
    template = account.cloud.services.templates.resolve({"LaunchTemplateName": NAME})[1]
    response = account.call("DescribeLaunchTemplateVersions", LaunchTemplateName=NAME)
    response["LaunchTemplateVersions"][0]["LaunchTemplateData"]["NetworkInterfaces"].clear()
    assert template.data == {"ImageId": "ami-1", "NetworkInterfaces": [{"Groups": ["sg-1"]}]}


STANDARD = "amazon-eks-node-al2023-x86_64-standard-1.34-v*"


def register(account: CheckedAccount, name: str, **params: Any) -> str:
    request = {"Architecture": "arm64", **params}
    return str(account.call("RegisterImage", Name=name, **request)["ImageId"])


def images(account: CheckedAccount, **params: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = account.call("DescribeImages", **params)["Images"]
    return found


def named(pattern: str) -> list[dict[str, Any]]:
    return [{"Name": "name", "Values": [pattern]}, {"Name": "state", "Values": ["available"]}]


def test_public_images_have_the_fields_that_clients_use(account: CheckedAccount) -> None:
    found = images(account, Filters=named(STANDARD), Owners=["amazon"])
    assert len(found) == 3
    for image in found:
        assert image["Architecture"] == "x86_64"
        assert image["State"] == "available"
        assert image["ImageOwnerAlias"] == "amazon"
        assert datetime.fromisoformat(image["CreationDate"]) < datetime.fromtimestamp(
            account.clock.time, UTC
        )
        assert image["DeprecationTime"] > image["CreationDate"]
        assert image["BlockDeviceMappings"][0]["DeviceName"] == image["RootDeviceName"]


def test_windows_images_have_their_platform(account: CheckedAccount) -> None:
    pattern = "Windows_Server-2022-English-Core-EKS_Optimized-1.34-*"
    for image in images(account, Filters=named(pattern)):
        assert (image["Platform"], image["PlatformDetails"]) == ("windows", "Windows")


def test_a_registered_image_is_owned_by_the_account(account: CheckedAccount) -> None:
    identity = register(
        account,
        "mine",
        Description="for tests",
        RootDeviceName="/dev/sda1",
        BlockDeviceMappings=[{"DeviceName": "/dev/sda1", "Ebs": {"VolumeSize": 8}}],
        TagSpecifications=[{"ResourceType": "image", "Tags": [{"Key": "team", "Value": "web"}]}],
    )
    for params in (
        {"ImageIds": [identity]},
        {"Owners": ["self"]},
        {"Owners": ["111122223333"]},
        {"Filters": [{"Name": "image-id", "Values": [identity]}]},
        {"Filters": [{"Name": "tag:team", "Values": ["web"]}], "Owners": ["self", "amazon"]},
        {"Filters": [{"Name": "name", "Values": ["m?ne"]}]},
    ):
        (image,) = images(account, **params)
        assert image["ImageId"] == identity
        assert (image["Architecture"], image["Public"]) == ("arm64", False)
        assert image["CreationDate"] == "2026-01-01T00:00:00.000Z"
    assert account.refused("RegisterImage", Name="mine") == ("InvalidAMIName.Duplicate", 400)


def test_unknown_images_are_errors(account: CheckedAccount) -> None:
    for ids, code in (
        (["ami-00000000000000000"], "InvalidAMIID.NotFound"),
        (["mine"], "InvalidAMIID.Malformed"),
    ):
        assert account.refused("DescribeImages", ImageIds=ids) == (code, 400)
        assert expect_error(lambda ids=ids: account.cloud.services.images.image(ids[0]))[0] == code  # type: ignore[misc]
    assert images(account, Filters=[{"Name": "image-id", "Values": ["ami-0"]}]) == []
    assert expect_error(lambda: account.cloud.services.images.image(None))[0] == "MissingParameter"


def test_deprecated_public_images_are_hidden_by_default(account: CheckedAccount) -> None:
    (image, *_) = images(account, Filters=named(STANDARD))
    later = datetime.fromisoformat(image["DeprecationTime"]) + timedelta(days=1)
    account.clock.time = later.timestamp()
    by_id = [{"Name": "image-id", "Values": [image["ImageId"]]}]
    assert images(account, Filters=by_id) == []
    assert images(account, Filters=by_id, IncludeDeprecated=True)
    assert images(account, ImageIds=[image["ImageId"]])


def test_own_deprecated_images_are_always_shown(account: CheckedAccount) -> None:
    identity = register(account, "mine")
    at = datetime(2025, 1, 1, tzinfo=UTC)
    account.call("EnableImageDeprecation", ImageId=identity, DeprecateAt=at)
    (image,) = images(account, Owners=["self"])
    assert image["DeprecationTime"] == "2025-01-01T00:00:00.000Z"
    account.call("DisableImageDeprecation", ImageId=identity)
    assert "DeprecationTime" not in images(account, Owners=["self"])[0]


def test_a_deregistered_image_is_not_found(account: CheckedAccount) -> None:
    identity = register(account, "mine")
    account.call("DeregisterImage", ImageId=identity)
    assert account.refused("DescribeImages", ImageIds=[identity]) == ("InvalidAMIID.NotFound", 400)
    (image, *_) = images(account, Filters=named(STANDARD))
    assert account.refused("DeregisterImage", ImageId=image["ImageId"]) == ("AuthFailure", 403)


def test_images_are_paginated_and_filtered(account: CheckedAccount) -> None:
    pages = [len(page) for page in account.pages("DescribeImages", "Images", MaxResults=100)]
    assert len(pages) > 3
    assert set(pages[:-1]) == {100}
    wrong = [{"Name": "colour", "Values": ["red"]}]
    assert account.refused("DescribeImages", Filters=wrong) == ("InvalidParameterValue", 400)


def test_images_by_executable_users(account: CheckedAccount) -> None:
    identity = register(account, "mine")
    own = images(account, ExecutableUsers=["self"])
    public = images(account, ExecutableUsers=["all"], Filters=named(STANDARD))
    assert [each["ImageId"] for each in own] == [identity]
    assert len(public) == 3


def groups(account: CheckedAccount, **params: Any) -> list[str]:
    rows = account.call("DescribePlacementGroups", **params)["PlacementGroups"]
    return [row["GroupName"] for row in rows]


def test_groups_are_created_described_and_deleted(account: CheckedAccount) -> None:
    created = account.call("CreatePlacementGroup", GroupName="parts", Strategy="partition")
    account.call("CreatePlacementGroup", GroupName="apart", Strategy="spread")
    assert created["PlacementGroup"]["PartitionCount"] == 2
    assert created["PlacementGroup"]["State"] == "available"
    assert groups(account, GroupIds=[created["PlacementGroup"]["GroupId"]]) == ["parts"]
    assert groups(account, GroupNames=["apart"]) == ["apart"]
    assert groups(account, Filters=[{"Name": "strategy", "Values": ["spread"]}]) == ["apart"]
    account.call("DeletePlacementGroup", GroupName="parts")
    assert groups(account) == ["apart"]


@pytest.mark.parametrize(
    ("operation", "params", "code"),
    [
        ("CreatePlacementGroup", {"GroupName": "one"}, "InvalidPlacementGroup.Duplicate"),
        ("CreatePlacementGroup", {}, "MissingParameter"),
        (
            "CreatePlacementGroup",
            {"GroupName": "x", "Strategy": "partition", "PartitionCount": 8},
            "InvalidParameterValue",
        ),
        ("CreatePlacementGroup", {"GroupName": "x", "Strategy": "near"}, "InvalidParameterValue"),
        ("DescribePlacementGroups", {"GroupNames": ["no"]}, "InvalidPlacementGroup.Unknown"),
        ("DescribePlacementGroups", {"GroupIds": ["pg-0"]}, "InvalidPlacementGroupId.NotFound"),
        ("DeletePlacementGroup", {"GroupName": "no"}, "InvalidPlacementGroup.Unknown"),
    ],
)
def test_invalid_requests_are_rejected(
    account: CheckedAccount, operation: str, params: dict[str, Any], code: str
) -> None:
    account.call("CreatePlacementGroup", GroupName="one")
    assert account.refused(operation, **params) == (code, 400)
