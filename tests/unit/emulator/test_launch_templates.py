"""Launch templates: names, versions, codes, quota and client tokens."""

from base64 import b64encode
from typing import Any

import pytest
from tests.support.emulated import Account, refusal

from wainwright.api.cloud import CloudSpec

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
def account() -> Account:
    return Account(CloudSpec(region="us-west-2", instanceTypes=["m5.large"]))


def create(account: Account, name: str = NAME, **params: Any) -> dict[str, Any]:
    asked = {"LaunchTemplateData": DATA, **params}
    made = account.ask("CreateLaunchTemplate", LaunchTemplateName=name, **asked)
    return dict(made["LaunchTemplate"])


def tagged(**tags: str) -> list[dict[str, Any]]:
    pairs = [{"Key": key, "Value": value} for key, value in tags.items()]
    return [{"ResourceType": "launch-template", "Tags": pairs}]


def names(account: Account, **params: Any) -> list[str]:
    pages = account.pages("DescribeLaunchTemplates", "LaunchTemplates", **params)
    return sorted(row["LaunchTemplateName"] for page in pages for row in page)


def test_a_template_is_found_by_name_id_and_tag(account: Account) -> None:
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


def test_missing_templates_have_codes_of_their_own(account: Account) -> None:
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
def test_a_deleted_template_is_gone_and_its_name_free(account: Account, by: str) -> None:
    made = create(account)
    gone = account.ask("DeleteLaunchTemplate", **{by: made[by]})["LaunchTemplate"]
    assert gone == made
    assert account.refused("DeleteLaunchTemplate", **{by: made[by]}) in (NO_ID, NO_NAME)
    assert create(account)["LaunchTemplateId"] != made["LaunchTemplateId"]


def test_a_name_is_taken_once(account: Account) -> None:
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
def test_templates_that_cannot_be(account: Account, params: dict[str, Any], code: str) -> None:
    asked = {"LaunchTemplateName": "fine", "LaunchTemplateData": DATA, **params}
    assert account.refused("CreateLaunchTemplate", **asked) == (code, 400)
    assert names(account) == []


def test_user_data_may_have_16_kib(account: Account) -> None:
    create(account, LaunchTemplateData=user_data(16384))


def test_a_client_token_creates_once(account: Account) -> None:
    made = create(account, ClientToken="token")
    assert create(account, ClientToken="token") == made
    assert refusal(lambda: create(account, "other", ClientToken="token")) == (
        "IdempotentParameterMismatch",
        400,
    )
    assert names(account) == [NAME]


def test_there_is_a_quota(account: Account) -> None:
    for number in range(5000):
        asked = {"LaunchTemplateName": f"template-{number}", "LaunchTemplateData": {"ImageId": "a"}}
        account.cloud.answer("ec2", "CreateLaunchTemplate", asked)
    assert refusal(lambda: create(account)) == ("MaxTemplateLimitExceeded", 400)
    account.ask("DeleteLaunchTemplate", LaunchTemplateName="template-7")
    create(account)


def test_many_templates_come_in_pages_whatever_is_deleted(account: Account) -> None:
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


def test_versions(account: Account) -> None:
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
    resolve = account.cloud.parts.templates.resolve
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
    missing = refusal(lambda: resolve({"LaunchTemplateName": NAME, "Version": "3"}))
    assert missing == ("InvalidLaunchTemplateId.VersionNotFound", 400)


def test_versions_are_described_newest_first(account: Account) -> None:
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


def test_what_is_kept_is_a_copy(account: Account) -> None:
    data = {"ImageId": "ami-1", "NetworkInterfaces": [{"Groups": ["sg-1"]}]}
    create(account, LaunchTemplateData=data)
    data["ImageId"] = "ami-9"
    template = account.cloud.parts.templates.resolve({"LaunchTemplateName": NAME})[1]
    answer = account.ask("DescribeLaunchTemplateVersions", LaunchTemplateName=NAME)
    answer["LaunchTemplateVersions"][0]["LaunchTemplateData"]["NetworkInterfaces"].clear()
    assert template.data == {"ImageId": "ami-1", "NetworkInterfaces": [{"Groups": ["sg-1"]}]}
