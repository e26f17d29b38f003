"""Whole numbers in text that others have written.

`int` takes digits of every script, and raises ValueError for more than 4,300 of them, also where
`isdecimal` says that it is a number; an API server stores as many as one likes.
"""

from typing import Final

MAX_DIGITS: Final = 18
"""Such a number has 64 bits at most."""


def parse_whole_number(text: str) -> int | None:
    """None for what is no number of ASCII digits, or has too many of them."""
    is_number = text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS
    return int(text) if is_number else None
