"""Annotations of ours on NodePools."""

import pytest

from wainwright.model.disruption import MinimumSaving
from wainwright.translate.disruption import parse_minimum_saving, parse_type_count


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5%", MinimumSaving(fraction=0.05)),
        ("12.5%", MinimumSaving(fraction=0.125)),
        ("0.05", MinimumSaving(amount=0.05)),
        ("$0.05", MinimumSaving(amount=0.05)),
        ("2", MinimumSaving(amount=2.0)),
        ("", None),
        ("five", None),
        ("-1", None),
        ("5 %", None),
    ],
)
def test_a_minimum_saving_is_a_percentage_or_dollars_an_hour(
    text: str, expected: MinimumSaving | None
) -> None:
    assert parse_minimum_saving(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"), [("3", 3), ("", None), ("-3", None), ("3.5", None), ("9" * 5000, None)]
)
def test_a_number_of_types_is_a_count(text: str, expected: int | None) -> None:
    assert parse_type_count(text) == expected
