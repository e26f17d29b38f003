"""What instances are launched from: launch templates, images and placement groups."""

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
    asked = {"LaunchTemplateData": DATA, **params}
    made = account.ask("CreateLaunchTemplate", LaunchTemplateName=name, **asked)
    return dict(made["LaunchTemplate"])


def tagged(**tags: str) -> list[dict[str, Any]]:
    pairs = [{"Key": key, "Value": value} for key, value in tags.items()]
    return [{"ResourceType": "launch-template", "Tags": pairs}]


def names(account: CheckedAccount, **params: Any) -> list[str]:
    pages = account.pages("DescribeLaunchTemplates", "LaunchTemplates", **params)
    return sorted(row["LaunchTemplateName"] for page in pages for row in page)


def test_a_template_is_found_by_name_id_and_tag(account: CheckedAccount) -> None:
    made = create(account, TagSpecifications=tagged(team="web", empty=""))
    create(account, "other")
    assert (made["DefaultVersionNumber"], made["LatestVersionNumber"]) == (1, 1)
    for params in (
        {"LaunchTemplateNames": [NAME]},
        {"LaunchTemplateIds": [made["LaunchTemplateId"]]},
        {"Filters": [{"Name": "tag:team", "Values": ["web"]}], "MaxResults": 200},
        {"Filters": [{"Name": "launch-template-name", "Values": ["karpenter*"]}]},
        {"Filters": [{"Name": "tag-key", "Values": ["empty"]}]},
    ):
        assert account.ask("DescribeLaunchTemplates", **params)["LaunchTemplates"] == [made]


def test_missing_templates_have_codes_of_their_own(account: CheckedAccount) -> None:
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
    assert account.ask(describe, Filters=[{"Name": "tag-key", "Values": ["x"]}]) == {
        "LaunchTemplates": []
    }


@pytest.mark.parametrize("by", ["LaunchTemplateId", "LaunchTemplateName"])
def test_a_deleted_template_is_gone_and_its_name_free(account: CheckedAccount, by: str) -> None:
    made = create(account)
    gone = account.ask("DeleteLaunchTemplate", **{by: made[by]})["LaunchTemplate"]
    assert gone == made
    assert account.refused("DeleteLaunchTemplate", **{by: made[by]}) in (NO_ID, NO_NAME)
    assert create(account)["LaunchTemplateId"] != made["LaunchTemplateId"]


def test_a_name_is_taken_once(account: CheckedAccount) -> None:
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
def test_templates_that_cannot_be(
    account: CheckedAccount, params: dict[str, Any], code: str
) -> None:
    asked = {"LaunchTemplateName": "fine", "LaunchTemplateData": DATA, **params}
    assert account.refused("CreateLaunchTemplate", **asked) == (code, 400)
    assert names(account) == []


def test_user_data_may_have_16_kib(account: CheckedAccount) -> None:
    create(account, LaunchTemplateData=user_data(16384))


def test_a_client_token_creates_once(account: CheckedAccount) -> None:
    made = create(account, ClientToken="token")
    assert create(account, ClientToken="token") == made
    assert expect_error(lambda: create(account, "other", ClientToken="token")) == (
        "IdempotentParameterMismatch",
        400,
    )
    assert names(account) == [NAME]


def test_there_is_a_quota(account: CheckedAccount) -> None:
    for number in range(5000):
        asked = {"LaunchTemplateName": f"template-{number}", "LaunchTemplateData": {"ImageId": "a"}}
        account.cloud.answer("ec2", "CreateLaunchTemplate", asked)
    assert expect_error(lambda: create(account)) == ("MaxTemplateLimitExceeded", 400)
    account.ask("DeleteLaunchTemplate", LaunchTemplateName="template-7")
    create(account)


def test_many_templates_come_in_pages_whatever_is_deleted(account: CheckedAccount) -> None:
    made = [create(account, f"template-{number}") for number in range(9)]
    first = account.ask("DescribeLaunchTemplates", MaxResults=4)
    for row in first["LaunchTemplates"]:
        account.ask("DeleteLaunchTemplate", LaunchTemplateId=row["LaunchTemplateId"])
    rest = names(account, MaxResults=4)
    second = account.ask("DescribeLaunchTemplates", MaxResults=4, NextToken=first["NextToken"])
    third = account.ask("DescribeLaunchTemplates", MaxResults=4, NextToken=second["NextToken"])
    seen = [*first["LaunchTemplates"], *second["LaunchTemplates"], *third["LaunchTemplates"]]
    assert sorted(each["LaunchTemplateName"] for each in seen) == [
        each["LaunchTemplateName"] for each in made
    ]
    assert len(rest) == 5


def test_versions(account: CheckedAccount) -> None:
    made = create(account)
    answer = account.ask(
        "CreateLaunchTemplateVersion",
        LaunchTemplateName=NAME,
        SourceVersion="1",
        VersionDescription="second",
        LaunchTemplateData={"ImageId": "ami-2"},
    )["LaunchTemplateVersion"]
    assert answer["VersionNumber"] == 2
    assert answer["LaunchTemplateData"] == {**DATA, "ImageId": "ami-2"}
    resolve = account.cloud.services.templates.resolve
    for version, image in (
        (None, "ami-1"),
        ("$Default", "ami-1"),
        ("$Latest", "ami-2"),
        ("2", "ami-2"),
    ):
        specification = {"LaunchTemplateId": made["LaunchTemplateId"], "Version": version}
        assert resolve(specification)[1].data["ImageId"] == image
    account.ask("ModifyLaunchTemplate", LaunchTemplateName=NAME, DefaultVersion="2")
    assert resolve({"LaunchTemplateName": NAME})[1].number == 2
    missing = expect_error(lambda: resolve({"LaunchTemplateName": NAME, "Version": "3"}))
    assert missing == ("InvalidLaunchTemplateId.VersionNotFound", 400)


def test_versions_are_described_newest_first(account: CheckedAccount) -> None:
    create(account)
    for number in range(2, 5):
        account.ask(
            "CreateLaunchTemplateVersion",
            LaunchTemplateName=NAME,
            LaunchTemplateData={"ImageId": f"ami-{number}"},
        )

    def versions(**params: Any) -> list[int]:
        answer = account.ask("DescribeLaunchTemplateVersions", LaunchTemplateName=NAME, **params)
        return [row["VersionNumber"] for row in answer["LaunchTemplateVersions"]]

    assert versions() == [4, 3, 2, 1]
    assert versions(Versions=["$Latest", "1"]) == [4, 1]
    assert versions(MinVersion="2", MaxVersion="3") == [3, 2]
    assert versions(Filters=[{"Name": "image-id", "Values": ["ami-3"]}]) == [3]


def test_what_is_kept_is_a_copy(account: CheckedAccount) -> None:
    data = {"ImageId": "ami-1", "NetworkInterfaces": [{"Groups": ["sg-1"]}]}
    create(account, LaunchTemplateData=data)
    data["ImageId"] = "ami-9"
    template = account.cloud.services.templates.resolve({"LaunchTemplateName": NAME})[1]
    answer = account.ask("DescribeLaunchTemplateVersions", LaunchTemplateName=NAME)
    answer["LaunchTemplateVersions"][0]["LaunchTemplateData"]["NetworkInterfaces"].clear()
    assert template.data == {"ImageId": "ami-1", "NetworkInterfaces": [{"Groups": ["sg-1"]}]}


STANDARD = "amazon-eks-node-al2023-x86_64-standard-1.34-v*"


def register(account: CheckedAccount, name: str, **params: Any) -> str:
    asked = {"Architecture": "arm64", **params}
    return str(account.ask("RegisterImage", Name=name, **asked)["ImageId"])


def images(account: CheckedAccount, **params: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = account.ask("DescribeImages", **params)["Images"]
    return found


def named(pattern: str) -> list[dict[str, Any]]:
    return [{"Name": "name", "Values": [pattern]}, {"Name": "state", "Values": ["available"]}]


def test_images_of_amazon_have_what_clients_look_at(account: CheckedAccount) -> None:
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


def test_windows_says_so(account: CheckedAccount) -> None:
    pattern = "Windows_Server-2022-English-Core-EKS_Optimized-1.34-*"
    for image in images(account, Filters=named(pattern)):
        assert (image["Platform"], image["PlatformDetails"]) == ("windows", "Windows")


def test_an_image_of_ones_own(account: CheckedAccount) -> None:
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


def test_images_that_are_not_there(account: CheckedAccount) -> None:
    for ids, code in (
        (["ami-00000000000000000"], "InvalidAMIID.NotFound"),
        (["mine"], "InvalidAMIID.Malformed"),
    ):
        assert account.refused("DescribeImages", ImageIds=ids) == (code, 400)
        assert expect_error(lambda ids=ids: account.cloud.services.images.image(ids[0]))[0] == code  # type: ignore[misc]
    assert images(account, Filters=[{"Name": "image-id", "Values": ["ami-0"]}]) == []
    assert expect_error(lambda: account.cloud.services.images.image(None))[0] == "MissingParameter"


def test_deprecated_images_of_others_are_for_those_who_ask(account: CheckedAccount) -> None:
    (image, *_) = images(account, Filters=named(STANDARD))
    later = datetime.fromisoformat(image["DeprecationTime"]) + timedelta(days=1)
    account.clock.time = later.timestamp()
    by_id = [{"Name": "image-id", "Values": [image["ImageId"]]}]
    assert images(account, Filters=by_id) == []
    assert images(account, Filters=by_id, IncludeDeprecated=True)
    assert images(account, ImageIds=[image["ImageId"]])


def test_ones_own_deprecated_images_are_always_shown(account: CheckedAccount) -> None:
    identity = register(account, "mine")
    at = datetime(2025, 1, 1, tzinfo=UTC)
    account.ask("EnableImageDeprecation", ImageId=identity, DeprecateAt=at)
    (image,) = images(account, Owners=["self"])
    assert image["DeprecationTime"] == "2025-01-01T00:00:00.000Z"
    account.ask("DisableImageDeprecation", ImageId=identity)
    assert "DeprecationTime" not in images(account, Owners=["self"])[0]


def test_an_image_goes_when_it_is_deregistered(account: CheckedAccount) -> None:
    identity = register(account, "mine")
    account.ask("DeregisterImage", ImageId=identity)
    assert account.refused("DescribeImages", ImageIds=[identity]) == ("InvalidAMIID.NotFound", 400)
    (image, *_) = images(account, Filters=named(STANDARD))
    assert account.refused("DeregisterImage", ImageId=image["ImageId"]) == ("AuthFailure", 403)


def test_pages_and_filters_are_real(account: CheckedAccount) -> None:
    pages = [len(page) for page in account.pages("DescribeImages", "Images", MaxResults=100)]
    assert len(pages) > 3
    assert set(pages[:-1]) == {100}
    wrong = [{"Name": "colour", "Values": ["red"]}]
    assert account.refused("DescribeImages", Filters=wrong) == ("InvalidParameterValue", 400)


def test_images_by_who_may_launch_them(account: CheckedAccount) -> None:
    identity = register(account, "mine")
    own = images(account, ExecutableUsers=["self"])
    public = images(account, ExecutableUsers=["all"], Filters=named(STANDARD))
    assert [each["ImageId"] for each in own] == [identity]
    assert len(public) == 3


def groups(account: CheckedAccount, **params: Any) -> list[str]:
    rows = account.ask("DescribePlacementGroups", **params)["PlacementGroups"]
    return [row["GroupName"] for row in rows]


def test_groups_are_made_found_and_deleted(account: CheckedAccount) -> None:
    made = account.ask("CreatePlacementGroup", GroupName="parts", Strategy="partition")
    account.ask("CreatePlacementGroup", GroupName="apart", Strategy="spread")
    assert made["PlacementGroup"]["PartitionCount"] == 2
    assert made["PlacementGroup"]["State"] == "available"
    assert groups(account, GroupIds=[made["PlacementGroup"]["GroupId"]]) == ["parts"]
    assert groups(account, GroupNames=["apart"]) == ["apart"]
    assert groups(account, Filters=[{"Name": "strategy", "Values": ["spread"]}]) == ["apart"]
    account.ask("DeletePlacementGroup", GroupName="parts")
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
def test_what_is_refused(
    account: CheckedAccount, operation: str, params: dict[str, Any], code: str
) -> None:
    account.ask("CreatePlacementGroup", GroupName="one")
    assert account.refused(operation, **params) == (code, 400)
