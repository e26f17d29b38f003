"""Which values the API server's decoder takes for a field that is no list, map or object."""

import re
from collections.abc import Callable
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

import msgspec

from wainwright.api.builtin.part import amount
from wainwright.api.fault import shown
from wainwright.api.quantity import NotAQuantity
from wainwright.api.wire import A_QUANTITY

INT32: Final = 2**31
INT64: Final = 2**63
TIME: Final = re.compile(
    r"(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})T(?P<hour>[0-9]{1,2}):(?P<rest>[0-5][0-9]:[0-5][0-9])"
    r"(?:[.,][0-9]+)?(?:Z|[+-](?P<ahead>[0-9]{2}):(?P<minutes>[0-9]{2}))"
)
LEAP_YEAR: Final = "2000"
MISSPELT: Final = re.compile(
    r"\s*(?P<number>[+-]?[0-9.]+)\s*(?P<letter>[KMGTPEkmgtpe]?)(?P<binary>[Ii]?)[Bb]?\s*"
)


class Scalar(msgspec.Struct, frozen=True):
    """A type of plain value: what fits it, what it is called, and what null means in a list."""

    fits: Callable[[Any], bool]
    expected: str
    zero: Any
    exact: type | None = None
    """Every value of exactly this Python type fits."""
    bits: int = 0
    """How many bits a whole number may take."""


def is_text(value: Any) -> bool:
    return isinstance(value, str)


def is_boolean(value: Any) -> bool:
    return isinstance(value, bool)


def is_int32(value: Any) -> bool:
    return _is_whole(value) and -INT32 <= value < INT32


def is_int64(value: Any) -> bool:
    return _is_whole(value) and -INT64 <= value < INT64


def _is_whole(value: Any) -> bool:
    """kubectl sends 1.0 as 1, so a float without a fraction is a whole number too."""
    if isinstance(value, float):
        return value.is_integer()
    return isinstance(value, int) and not isinstance(value, bool)


def is_int_or_text(value: Any) -> bool:
    return isinstance(value, str) or is_int32(value)


def is_quantity(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return False
    try:
        amount(value)
    except NotAQuantity:
        return False
    return True


def is_time(value: Any) -> bool:
    """RFC 3339 as Go parses it: also with one digit for the hour or a comma before the fraction."""
    return isinstance(value, str) and (_is_plain_time(value) or _is_odd_time(value))


def _is_plain_time(text: str) -> bool:
    """The form that Kubernetes itself writes, checked quickly because every object has one."""
    if len(text) != 20 or text[10] != "T" or text[19] != "Z" or not text.isascii():
        return False
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _is_odd_time(text: str) -> bool:
    match = TIME.fullmatch(text)
    if match is None or int(match["hour"]) > 23:
        return False
    if match["ahead"] and (int(match["ahead"]) > 24 or int(match["minutes"]) > 60):
        return False
    # Python's calendar starts at the year 1 and Go's at 0, which was a leap year.
    date = match["date"].replace("0000", LEAP_YEAR, 1)
    return _is_plain_time(f"{date}T{int(match['hour']):02}:{match['rest']}Z")


def is_anything(_value: Any) -> bool:
    return True


SCALARS: Final = {
    "string": Scalar(is_text, "text", "", str),
    "boolean": Scalar(is_boolean, "true or false", False, bool),
    "int32": Scalar(is_int32, "a whole number", 0, bits=32),
    "int64": Scalar(is_int64, "a whole number", 0, bits=64),
    "intOrString": Scalar(is_int_or_text, "a whole number or text", 0, str, bits=32),
    "quantity": Scalar(is_quantity, A_QUANTITY, 0),
    "time": Scalar(is_time, "a time such as 2026-01-31T12:00:00Z", None),
    "any": Scalar(is_anything, "anything", None),
}


def expectation(scalar: Scalar, value: Any) -> str:
    if scalar.bits and _is_whole(value):
        return f"a whole number that fits into {scalar.bits} bits"
    return scalar.expected


def hint(scalar: Scalar, value: Any) -> str:
    """What to change so that the value fits, where that is easy to tell."""
    if scalar.zero == "" and isinstance(value, (bool, int, float)):
        return f'put it in quotes: "{shown(value)}"'
    if scalar is SCALARS["quantity"] and isinstance(value, str):
        return _nearest_quantity(value)
    if scalar.exact is not str and isinstance(value, str) and _unquoted_fits(scalar, value):
        return f"remove the quotes: {value.strip()}"
    return ""


def _unquoted_fits(scalar: Scalar, text: str) -> bool:
    word = text.strip().lower()
    if word in ("true", "false"):
        return scalar.fits(word == "true")
    return word.lstrip("-").isdecimal() and len(word) < 20 and scalar.fits(int(word))


@lru_cache(maxsize=256)
def _nearest_quantity(text: str) -> str:
    """For 1GB, 512 mb, 2gi or 1K: the suffixes that may have been meant."""
    match = MISSPELT.fullmatch(text)
    if match is None:
        return ""
    letter = match["letter"].upper()
    plain = "k" if letter == "K" else letter
    suffixes = [f"{letter}i"] if match["binary"] else [plain, f"{letter}i"] if letter else [""]
    spelt = [f"{match['number']}{suffix}" for suffix in suffixes]
    return f"did you mean {' or '.join(spelt)}?" if is_quantity(spelt[0]) else ""
