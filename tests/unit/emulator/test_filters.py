"""Filters: AND between names, OR between values, wildcards; what is unknown is refused."""

from fnmatch import fnmatchcase
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.emulated import refusal

from wainwright.emulator.filters import Fields, like, matching

Row = dict[str, str]

ROWS: list[Row] = [
    {"id": "a1", "zone": "east", "team": "web", "note": ""},
    {"id": "a2", "zone": "west", "team": "data"},
    {"id": "b1", "zone": "east"},
    {"id": "b*", "zone": "we?t", "team": "w\\eb"},
]
FIELDS: Fields[Row] = {"id": lambda row: (row["id"],), "zone": lambda row: (row["zone"],)}
TAGS = ("team", "note")


def tags(row: Row) -> Row:
    return {key: row[key] for key in TAGS if key in row}


def found(*filters: dict[str, Any]) -> list[str]:
    return [row["id"] for row in matching(ROWS, list(filters), FIELDS, tags)]


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
def test_what_cannot_be_meant_is_refused(wrong: dict[str, Any], code: str) -> None:
    assert refusal(lambda: found(wrong)) == (code, 400)


def test_tags_are_no_filters_where_nothing_has_tags() -> None:
    for name in ("tag:team", "tag-key"):
        refused = refusal(lambda name=name: matching(ROWS, [f(name, "x")], FIELDS))  # type: ignore[misc]
        assert refused == ("InvalidParameterValue", 400)


texts = st.text("ab.*?[]\\", max_size=8)


@given(texts, texts)
def test_a_text_with_every_wildcard_escaped_means_itself_only(text: str, other: str) -> None:
    escaped = "".join(f"\\{sign}" if sign in "*?\\" else sign for sign in text)
    assert like(escaped, text)
    assert like(escaped, other) == (text == other)


@given(st.text("ab*?", max_size=8), st.text("ab.\n", max_size=8))
def test_wildcards_mean_what_they_mean_to_a_shell(pattern: str, text: str) -> None:
    assert like(pattern, text) == fnmatchcase(text, pattern)
