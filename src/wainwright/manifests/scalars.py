"""What a plain YAML scalar means to Kubernetes: YAML 1.1 as kubectl and the API server read it.

The YAML libraries of Python and Go disagree on `1e3`, `0o17`, `12:30:45`, `y` and dates. A
manifest must mean here what it means to the cluster, so the rules are written down once.
"""

import math
import re
from typing import Final

Scalar = str | int | float | bool | None

WORDS: Final[dict[str, Scalar]] = {
    **dict.fromkeys(
        ("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True
    ),
    **dict.fromkeys(
        ("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False
    ),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
}
NOT_NUMBERS: Final = frozenset(
    {
        ".nan",
        ".NaN",
        ".NAN",
        ".inf",
        ".Inf",
        ".INF",
        "+.inf",
        "+.Inf",
        "+.INF",
        "-.inf",
        "-.Inf",
        "-.INF",
    }
)
INTEGER: Final = re.compile(
    r"(?P<sign>[-+]?)(?:0[xX](?P<hex>[0-9a-fA-F]+)|0[bB](?P<bin>[01]+)|0[oO]?(?P<oct>[0-7]+)|(?P<dec>0|[1-9][0-9]*))"
)
FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
BASES: Final = {"hex": 16, "bin": 2, "oct": 8, "dec": 10}
NUMBER_START: Final = frozenset("0123456789+-.")
LARGEST: Final = 2**64


class NotJSON(ValueError):
    """A scalar that YAML knows and JSON does not: infinity or not-a-number."""


def plain(text: str) -> Scalar:
    """The value of an unquoted scalar without a tag."""
    if text in WORDS:
        return WORDS[text]
    if text[0] not in NUMBER_START:
        return text
    if text in NOT_NUMBERS:
        raise NotJSON(text)
    return _number(text)


def _number(text: str) -> Scalar:
    digits = text.replace("_", "")
    match = INTEGER.fullmatch(digits)
    if match is not None:
        value = _integer(match)
        if -LARGEST // 2 <= value < LARGEST:
            return value
    if FLOAT.fullmatch(digits) and not math.isinf(float(digits)):
        return whole(float(digits))
    return text


def _integer(match: "re.Match[str]") -> int:
    name = next(name for name in BASES if match[name] is not None)
    value = int(match[name], BASES[name])
    return -value if match["sign"] == "-" else value


def whole(value: float) -> int | float:
    """A float without a fraction as the integer it is written as in JSON."""
    return int(value) if value.is_integer() and abs(value) < 1e21 else value
