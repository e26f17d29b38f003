"""Images: Amazon's and one's own, by id, name, owner and tags; deprecated ones only on request."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.support.emulated import Account, refusal

from wainwright.api.cloud import CloudSpec

STANDARD = "amazon-eks-node-al2023-x86_64-standard-1.34-v*"


@pytest.fixture
def account() -> Account:
    return Account(CloudSpec(region="us-west-2", instanceTypes=["m5.large"]))


def register(account: Account, name: str, **params: Any) -> str:
    asked = {"Architecture": "arm64", **params}
    return str(account.ask("RegisterImage", Name=name, **asked)["ImageId"])


def images(account: Account, **params: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = account.ask("DescribeImages", **params)["Images"]
    return found


def named(pattern: str) -> list[dict[str, Any]]:
    return [{"Name": "name", "Values": [pattern]}, {"Name": "state", "Values": ["available"]}]


def test_images_of_amazon_have_what_clients_look_at(account: Account) -> None:
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


def test_windows_says_so(account: Account) -> None:
    pattern = "Windows_Server-2022-English-Core-EKS_Optimized-1.34-*"
    for image in images(account, Filters=named(pattern)):
        assert (image["Platform"], image["PlatformDetails"]) == ("windows", "Windows")


def test_an_image_of_ones_own(account: Account) -> None:
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


def test_images_that_are_not_there(account: Account) -> None:
    for ids, code in (
        (["ami-00000000000000000"], "InvalidAMIID.NotFound"),
        (["mine"], "InvalidAMIID.Malformed"),
    ):
        assert account.refused("DescribeImages", ImageIds=ids) == (code, 400)
        assert refusal(lambda ids=ids: account.cloud.parts.images.image(ids[0]))[0] == code  # type: ignore[misc]
    assert images(account, Filters=[{"Name": "image-id", "Values": ["ami-0"]}]) == []
    assert refusal(lambda: account.cloud.parts.images.image(None))[0] == "MissingParameter"


def test_deprecated_images_of_others_are_for_those_who_ask(account: Account) -> None:
    (image, *_) = images(account, Filters=named(STANDARD))
    later = datetime.fromisoformat(image["DeprecationTime"]) + timedelta(days=1)
    account.clock.time = later.timestamp()
    by_id = [{"Name": "image-id", "Values": [image["ImageId"]]}]
    assert images(account, Filters=by_id) == []
    assert images(account, Filters=by_id, IncludeDeprecated=True)
    assert images(account, ImageIds=[image["ImageId"]])


def test_ones_own_deprecated_images_are_always_shown(account: Account) -> None:
    identity = register(account, "mine")
    at = datetime(2025, 1, 1, tzinfo=UTC)
    account.ask("EnableImageDeprecation", ImageId=identity, DeprecateAt=at)
    (image,) = images(account, Owners=["self"])
    assert image["DeprecationTime"] == "2025-01-01T00:00:00.000Z"
    account.ask("DisableImageDeprecation", ImageId=identity)
    assert "DeprecationTime" not in images(account, Owners=["self"])[0]


def test_an_image_goes_when_it_is_deregistered(account: Account) -> None:
    identity = register(account, "mine")
    account.ask("DeregisterImage", ImageId=identity)
    assert account.refused("DescribeImages", ImageIds=[identity]) == ("InvalidAMIID.NotFound", 400)
    (image, *_) = images(account, Filters=named(STANDARD))
    assert account.refused("DeregisterImage", ImageId=image["ImageId"]) == ("AuthFailure", 403)


def test_pages_and_filters_are_real(account: Account) -> None:
    pages = [len(page) for page in account.pages("DescribeImages", "Images", MaxResults=100)]
    assert len(pages) > 3
    assert set(pages[:-1]) == {100}
    wrong = [{"Name": "colour", "Values": ["red"]}]
    assert account.refused("DescribeImages", Filters=wrong) == ("InvalidParameterValue", 400)


def test_images_by_who_may_launch_them(account: Account) -> None:
    identity = register(account, "mine")
    own = images(account, ExecutableUsers=["self"])
    public = images(account, ExecutableUsers=["all"], Filters=named(STANDARD))
    assert [each["ImageId"] for each in own] == [identity]
    assert len(public) == 3
