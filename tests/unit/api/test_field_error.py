"""Which known word was meant by a misspelt one."""

import pytest

from wainwright.api.field_error import closest_match

REGIONS = ["us-west-1", "us-west-2", "us-east-1", "us-east-2", "eu-west-1"]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("us-esat-1", "us-east-1"),
        ("us-wset-2", "us-west-2"),
        ("US-EAST-2", "us-east-2"),
        ("us-east1", "us-east-1"),
        ("moon", ""),
        ("", ""),
    ],
)
def test_two_swapped_letters_count_as_one_mistake(typed: str, meant: str) -> None:
    assert closest_match(typed, REGIONS) == meant
