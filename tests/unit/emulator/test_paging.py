"""Pages: together they are the whole, once each, whatever happens between two of them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.emulated import refusal

from wainwright.emulator.paging import page


def name(row: str) -> str:
    return row


def walk(rows: list[str], size: int, **rules: Any) -> list[list[str]]:
    pages, params = [], {"MaxResults": size, "Filters": ["x"]}
    while True:
        found, token = page(rows, params, most=100, least=1, **rules)
        pages.append(found)
        if not token:
            return pages
        params = {**params, **token}


@given(st.lists(st.text(max_size=3), unique=True, max_size=40).map(sorted), st.integers(1, 50))
def test_pages_are_the_whole_in_order(rows: list[str], size: int) -> None:
    for rules in ({}, {"key": name}):
        pages = walk(rows, size, **rules)
        assert [row for each in pages for row in each] == rows
        assert all(len(each) == size for each in pages[:-1])
        assert pages == [[]] or pages[-1]


def test_what_comes_and_goes_between_two_pages_moves_no_other_row() -> None:
    first, token = page(list("bdfh"), {"MaxResults": 2}, most=9, least=1, key=name)
    second, rest = page(list("acefgh"), {"MaxResults": 2, **token}, most=9, least=1, key=name)
    third, end = page(list("acefgh"), {"MaxResults": 2, **rest}, most=9, least=1, key=name)
    assert (first, second, third, end) == (["b", "d"], ["e", "f"], ["g", "h"], {})


def test_without_a_size_all_comes_at_once_or_as_much_as_there_ever_is() -> None:
    rows = list(range(25))
    assert page(rows, {}, most=10) == (rows, {})
    found, token = page(rows, {}, most=10, whole=False)
    assert found == rows[:10]
    assert page(rows, token, most=10, whole=False)[0] == rows[10:20]


def test_an_empty_token_is_none() -> None:
    assert page([1, 2], {"NextToken": ""}, most=10) == ([1, 2], {})


@pytest.mark.parametrize("token", ["x", "W10=", "WzEsMiwz", "äöü", "WzAsIDAsIG51bGxd"])
def test_a_token_that_nobody_gave_is_refused(token: str) -> None:
    asked = {"NextToken": token}
    assert refusal(lambda: page([1, 2], asked, most=10)) == ("InvalidNextToken", 400)


def test_a_token_is_good_for_its_own_question_only() -> None:
    _, token = page(list(range(9)), {"MaxResults": 5, "Filters": ["a"]}, most=10)
    other = {"MaxResults": 5, "Filters": ["b"], **token}
    assert refusal(lambda: page(list(range(9)), other, most=10)) == ("InvalidNextToken", 400)


@pytest.mark.parametrize("size", [-1, 0, 4, 11])
def test_a_size_out_of_range_is_refused(size: int) -> None:
    asked = {"MaxResults": size}
    assert refusal(lambda: page([1], asked, most=10)) == ("InvalidParameterValue", 400)
