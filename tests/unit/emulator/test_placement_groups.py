"""Placement groups: as much of them as a client looks at."""

from typing import Any

import pytest
from tests.support.emulated import Account

from wainwright.api.cloud import CloudSpec


@pytest.fixture
def account() -> Account:
    return Account(CloudSpec(region="us-west-2", instanceTypes=["m5.large"]))


def groups(account: Account, **params: Any) -> list[str]:
    rows = account.ask("DescribePlacementGroups", **params)["PlacementGroups"]
    return [row["GroupName"] for row in rows]


def test_groups_are_made_found_and_deleted(account: Account) -> None:
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
    account: Account, operation: str, params: dict[str, Any], code: str
) -> None:
    account.ask("CreatePlacementGroup", GroupName="one")
    assert account.refused(operation, **params) == (code, 400)
