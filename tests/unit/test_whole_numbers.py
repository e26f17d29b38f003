"""Whole numbers in text of others: read, or none, and never an error."""

import pytest

from wainwright.whole_numbers import parse_whole_number


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("007", 7),
        ("9" * 18, 10**18 - 1),
        *((text, None) for text in ("", "-1", "+1", "1.5", " 1", "1_0", "²", "٣", "a", "9" * 5000)),
    ],
)
def test_numbers_are_read_and_anything_else_is_none(text: str, expected: int | None) -> None:
    assert parse_whole_number(text) == expected
