"""Annotations of ours on NodePools: what their values mean."""

import pytest

from wainwright.model.disruption import MinimumSaving, Pause
from wainwright.translate.disruption import (
    describe_unreadable_pause,
    parse_minimum_saving,
    parse_pause,
    parse_type_count,
)


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
    ("text", "expected"),
    [("3", 3), ("", None), ("-3", None), ("3.5", None), pytest.param("9" * 5000, None, id="long")],
)
def test_a_number_of_types_is_a_count(text: str, expected: int | None) -> None:
    assert parse_type_count(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("disruption", Pause.DISRUPTION),
        ("Disruption", Pause.DISRUPTION),
        (" PROVISIONING\n", Pause.PROVISIONING),
        ("All", Pause.ALL),
        ("", None),
        (" ", None),
        ("false", None),
        ("No", None),
        ("none", None),
        ("off", None),
    ],
)
def test_a_pause_is_read_in_any_case_and_with_blanks(text: str, expected: Pause | None) -> None:
    assert parse_pause(text) is expected
    assert describe_unreadable_pause(text) == ""


@pytest.mark.parametrize("text", ["true", "yes", "distruption", "disruption,provisioning", "1"])
def test_a_pause_that_cannot_be_read_pauses_everything_and_says_so(text: str) -> None:
    assert parse_pause(text) is Pause.ALL
    assert describe_unreadable_pause(text) == (
        f'"{text}" is not one of all, disruption, provisioning: everything is paused'
    )
