"""Ids, timestamps, filters and pagination."""

from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.emulator_accounts import expect_error

from wainwright.emulator import api_conventions
from wainwright.emulator.api_conventions import iso_timestamp, to_datetime, to_epoch_seconds
from wainwright.emulator.context import AccountContext
from wainwright.emulator.describe_requests import (
    FilterFields,
    apply_filters,
    matches_pattern,
    paginate,
)


def context(seed: int) -> AccountContext:
    return AccountContext(lambda: 0.0, region="us-east-1", seed=seed)


def test_ids_depend_on_the_seed_only() -> None:
    service, same, other = context(1), context(1), context(2)
    first = [api_conventions.new_resource_id(service, "i") for _ in range(100)]
    assert first == [api_conventions.new_resource_id(same, "i") for _ in range(100)]
    assert len(set(first) | {api_conventions.new_resource_id(other, "i")}) == 101


def test_an_id_is_a_prefix_and_17_digits() -> None:
    prefix, _, digits = api_conventions.new_resource_id(context(3), "subnet").partition("-")
    assert (prefix, len(digits), digits[0]) == ("subnet", 17, "0")
    assert set(digits) <= set("0123456789abcdef")


AT = 1_767_225_600.0


@pytest.mark.parametrize(
    "written",
    [
        AT,
        int(AT),
        datetime(2026, 1, 1, tzinfo=UTC),
        datetime(2026, 1, 1),  # noqa: DTZ001  botocore accepts it
        "2026-01-01T00:00:00Z",
        "2026-01-01T01:00:00.000+01:00",
        "2026-01-01T00:00:00",
    ],
)
def test_timestamps_of_requests(written: object) -> None:
    assert to_epoch_seconds(written) == AT


def test_timestamps_of_responses() -> None:
    assert to_datetime(AT) == datetime(2026, 1, 1, tzinfo=UTC)
    assert iso_timestamp(AT) == "2026-01-01T00:00:00.000Z"


@pytest.mark.parametrize("written", ["yesterday", None, True, [1]])
def test_invalid_timestamps_are_rejected(written: object) -> None:
    assert expect_error(lambda: to_epoch_seconds(written, "startTime")) == (
        "InvalidParameterValue",
        400,
    )


Row = dict[str, str]

ROWS: list[Row] = [
    {"id": "a1", "zone": "east", "team": "web", "note": ""},
    {"id": "a2", "zone": "west", "team": "data"},
    {"id": "b1", "zone": "east"},
    {"id": "b*", "zone": "we?t", "team": "w\\eb"},
]
FIELDS: FilterFields[Row] = {"id": lambda row: (row["id"],), "zone": lambda row: (row["zone"],)}
TAGS = ("team", "note")


def tags(row: Row) -> Row:
    return {key: row[key] for key in TAGS if key in row}


def found(*filters: dict[str, Any]) -> list[str]:
    return [row["id"] for row in apply_filters(ROWS, list(filters), FIELDS, tags)]


def f(name: str, *values: str) -> dict[str, Any]:
    return {"Name": name, "Values": list(values)}


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([], ["a1", "a2", "b1", "b*"]),
        ([f("zone", "east")], ["a1", "b1"]),
        ([f("zone", "east", "west")], ["a1", "a2", "b1"]),
        ([f("zone", "east"), f("id", "a1", "a2")], ["a1"]),
        ([f("zone", "East")], []),
        ([f("id", "a*")], ["a1", "a2"]),
        ([f("id", "?1")], ["a1", "b1"]),
        ([f("id", "*")], ["a1", "a2", "b1", "b*"]),
        ([f("id", "b\\*")], ["b*"]),
        ([f("zone", "we?t")], ["a2", "b*"]),
        ([f("zone", "we\\?t")], ["b*"]),
        ([f("tag:team", "web")], ["a1"]),
        ([f("tag:team", "w\\\\eb")], ["b*"]),
        ([f("tag:team", "*")], ["a1", "a2", "b*"]),
        ([f("tag:note", "")], ["a1"]),
        ([f("tag:note", "*")], ["a1"]),
        ([f("tag-key", "team"), f("tag-key", "note")], ["a1"]),
        ([f("tag-key", "te*")], ["a1", "a2", "b*"]),
        ([f("tag:absent", "x")], []),
    ],
)
def test_rows_pass_every_filter_by_any_of_its_values(
    filters: list[dict[str, Any]], expected: list[str]
) -> None:
    assert found(*filters) == expected


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        (f("colour", "red"), "InvalidParameterValue"),
        ({"Values": ["red"]}, "InvalidParameterValue"),
        ({"Name": "zone"}, "InvalidParameterValue"),
        (f("zone"), "InvalidParameterValue"),
        (f("zone", *map(str, range(201))), "FilterLimitExceeded"),
    ],
)
def test_invalid_filters_are_rejected(wrong: dict[str, Any], code: str) -> None:
    assert expect_error(lambda: found(wrong)) == (code, 400)


def test_tag_filters_are_unknown_for_resources_without_tags() -> None:
    for name in ("tag:team", "tag-key"):
        refused = expect_error(lambda name=name: apply_filters(ROWS, [f(name, "x")], FIELDS))  # type: ignore[misc]
        assert refused == ("InvalidParameterValue", 400)


texts = st.text("ab.*?[]\\", max_size=8)


@given(texts, texts)
def test_a_fully_escaped_pattern_matches_only_itself(text: str, other: str) -> None:
    escaped = "".join(f"\\{sign}" if sign in "*?\\" else sign for sign in text)
    assert matches_pattern(escaped, text)
    assert matches_pattern(escaped, other) == (text == other)


@given(st.text("ab*?", max_size=8), st.text("ab.\n", max_size=8))
def test_wildcards_match_like_fnmatch(pattern: str, text: str) -> None:
    assert matches_pattern(pattern, text) == fnmatchcase(text, pattern)


def name(row: str) -> str:
    return row


def walk(rows: list[str], size: int, **rules: Any) -> list[list[str]]:
    pages, params = [], {"MaxResults": size, "Filters": ["x"]}
    while True:
        found, token = paginate(rows, params, maximum=100, minimum=1, **rules)
        pages.append(found)
        if not token:
            return pages
        params = {**params, **token}


@given(st.lists(st.text(max_size=3), unique=True, max_size=40).map(sorted), st.integers(1, 50))
def test_pages_together_are_all_rows_in_order(rows: list[str], size: int) -> None:
    for rules in ({}, {"key": name}):
        pages = walk(rows, size, **rules)
        assert [row for each in pages for row in each] == rows
        assert all(len(each) == size for each in pages[:-1])
        assert pages == [[]] or pages[-1]


def test_rows_added_or_removed_between_pages_move_no_other_row() -> None:
    first, token = paginate(list("bdfh"), {"MaxResults": 2}, maximum=9, minimum=1, key=name)
    second, rest = paginate(
        list("acefgh"), {"MaxResults": 2, **token}, maximum=9, minimum=1, key=name
    )
    third, end = paginate(list("acefgh"), {"MaxResults": 2, **rest}, maximum=9, minimum=1, key=name)
    assert (first, second, third, end) == (["b", "d"], ["e", "f"], ["g", "h"], {})


def test_without_max_results_a_page_has_all_rows_or_the_maximum() -> None:
    rows = list(range(25))
    assert paginate(rows, {}, maximum=10) == (rows, {})
    found, token = paginate(rows, {}, maximum=10, all_by_default=False)
    assert found == rows[:10]
    assert paginate(rows, token, maximum=10, all_by_default=False)[0] == rows[10:20]


def test_an_empty_page_token_is_ignored() -> None:
    assert paginate([1, 2], {"NextToken": ""}, maximum=10) == ([1, 2], {})


@pytest.mark.parametrize("token", ["x", "W10=", "WzEsMiwz", "äöü", "WzAsIDAsIG51bGxd"])
def test_an_unknown_page_token_is_rejected(token: str) -> None:
    request = {"NextToken": token}
    assert expect_error(lambda: paginate([1, 2], request, maximum=10)) == ("InvalidNextToken", 400)


def test_a_page_token_is_valid_only_for_its_own_request() -> None:
    _, token = paginate(list(range(9)), {"MaxResults": 5, "Filters": ["a"]}, maximum=10)
    other = {"MaxResults": 5, "Filters": ["b"], **token}
    assert expect_error(lambda: paginate(list(range(9)), other, maximum=10)) == (
        "InvalidNextToken",
        400,
    )


@pytest.mark.parametrize("size", [-1, 0, 4, 11])
def test_a_page_size_out_of_range_is_rejected(size: int) -> None:
    request = {"MaxResults": size}
    assert expect_error(lambda: paginate([1], request, maximum=10)) == (
        "InvalidParameterValue",
        400,
    )
