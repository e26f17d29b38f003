"""Tags in requests: what is taken, and what EC2 refuses."""

from typing import Any

import pytest
from tests.support.emulated import refusal

from wainwright.emulator.tags import from_list, from_specifications, only_for, to_list


def pair(key: str, value: str | None = None) -> dict[str, Any]:
    return {"Key": key} if value is None else {"Key": key, "Value": value}


def test_tags_come_back_as_they_went_in() -> None:
    written = [pair("team", "a & <b>"), pair("karpenter.sh/nodepool", "")]
    assert to_list(from_list(written)) == written


def test_a_tag_without_a_value_has_an_empty_one() -> None:
    assert from_list([pair("team")]) == {"team": ""}
    assert from_list(None) == {}


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
def test_what_ec2_refuses(pairs: list[dict[str, Any]], code: str) -> None:
    assert refusal(lambda: from_list(pairs)) == (code, 400)


def test_the_longest_and_the_most_are_taken() -> None:
    most = [pair(f"k{number}") for number in range(49)] + [pair("k" * 128, "v" * 256)]
    assert len(from_list(most)) == 50


SPECIFIED = {
    "TagSpecifications": [
        {"ResourceType": "instance", "Tags": [pair("a", "1")]},
        {"ResourceType": "volume", "Tags": [pair("b", "2")]},
        {"ResourceType": "instance", "Tags": [pair("c", "3")]},
    ]
}


def test_specifications_are_read_by_what_they_are_for() -> None:
    assert from_specifications(SPECIFIED, "instance") == {"a": "1", "c": "3"}
    assert from_specifications(SPECIFIED, "volume") == {"b": "2"}
    assert from_specifications(SPECIFIED, "fleet") == {}
    assert from_specifications({}, "fleet") == {}


def test_tags_for_something_that_is_not_created_are_refused() -> None:
    only_for(SPECIFIED, "instance", "volume")
    assert refusal(lambda: only_for(SPECIFIED, "instance")) == ("InvalidParameterValue", 400)
