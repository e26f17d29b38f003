"""Exact Kubernetes quantities: "1500m", "0.5", "2Gi", "1e3" as integers, and back as text.
A quantity is a whole number of billionths, the finest unit that Kubernetes keeps; smaller parts
are rounded away from zero, as the API server does. No floats are used.
"""

import re
from enum import Enum
from functools import lru_cache
from typing import Final

NANO: Final = 10**9
MAX_BINARY: Final = 2**63 - 1  # the API server caps binary quantities here
MAX_DIGITS: Final = 1000
"""Python does not read thousands of digits, and no amount needs them; an API server takes them, so
that the first and the size of the amount are kept."""
MAX_EXPONENT: Final = 400  # 1e999999999 is valid; the cap avoids a number with a billion digits

DECIMAL_EXPONENTS: Final = {
    "n": -9,
    "u": -6,
    "m": -3,
    "": 0,
    "k": 3,
    "M": 6,
    "G": 9,
    "T": 12,
    "P": 15,
    "E": 18,
}
BINARY_EXPONENTS: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}

DECIMAL_SUFFIXES: Final = {exponent: suffix for suffix, exponent in DECIMAL_EXPONENTS.items()}
BINARY_SUFFIXES: Final = {exponent: suffix for suffix, exponent in BINARY_EXPONENTS.items()}

QUANTITY_GRAMMAR: Final = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<part>[0-9]*))?(?P<suffix>[KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?",
    re.ASCII,
)


class QuantityFormat(Enum):
    """The suffixes in which a quantity was written; it is printed with the same."""

    DECIMAL = "decimal"
    BINARY = "binary"
    EXPONENT = "exponent"


class InvalidQuantity(ValueError):
    """The text is no quantity; the message describes the format."""

    def __init__(self, text: str) -> None:
        super().__init__(f"{text!r} is not a quantity")
        self.text = text


class Quantity:
    """An exact amount; equal to every other quantity of the same amount, whatever its text."""

    __slots__ = ("format", "nano")

    def __init__(self, nano: int, format: QuantityFormat = QuantityFormat.DECIMAL) -> None:
        self.nano = nano
        self.format = format

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.nano == other.nano

    def __hash__(self) -> int:
        return hash(self.nano)

    def __lt__(self, other: "Quantity") -> bool:
        return self.nano < other.nano

    def __le__(self, other: "Quantity") -> bool:
        return self.nano <= other.nano

    def __add__(self, other: "Quantity") -> "Quantity":
        """The sum, in the format of the left operand unless that is zero."""
        return Quantity(self.nano + other.nano, self.format if self.nano else other.format)

    def __sub__(self, other: "Quantity") -> "Quantity":
        return self + -other

    def __neg__(self) -> "Quantity":
        return Quantity(-self.nano, self.format)

    def __str__(self) -> str:
        return format_quantity(self)

    def __repr__(self) -> str:
        return f"Quantity({format_quantity(self)!r})"

    @property
    def milli(self) -> int:
        """In thousandths, rounded up: how the scheduler counts cpu."""
        return -(-self.nano // 10**6)

    @property
    def units(self) -> int:
        """In whole units, rounded up: how the scheduler counts bytes, pods and devices."""
        return -(-self.nano // NANO)


@lru_cache(maxsize=65536)
def parse_quantity(text: str) -> Quantity:
    """The quantity that the API server reads from the text; raises InvalidQuantity.
    As there, a text without any digit ("Gi") is zero; only the empty text is invalid.
    """
    match = QUANTITY_GRAMMAR.fullmatch(text)
    if not text or match is None:
        raise InvalidQuantity(text)
    sign, whole, part, suffix = (
        match["sign"],
        match["whole"],
        (match["part"] or "")[:MAX_DIGITS],
        match["suffix"] or "",
    )
    if len(whole) > MAX_DIGITS:
        whole = whole.lstrip("0")
        whole = "9" * MAX_DIGITS if len(whole) > MAX_DIGITS else whole
    digits, scale = int(f"0{whole}{part}"), -len(part)
    if suffix in BINARY_EXPONENTS:
        amount, form = _parse_binary(digits, scale, BINARY_EXPONENTS[suffix])
    else:
        amount, form = _parse_decimal(digits, scale, suffix)
    return Quantity(-amount if sign == "-" else amount, form)


def _parse_binary(digits: int, scale: int, power: int) -> tuple[int, QuantityFormat]:
    nano = min(_scale(digits << power, scale + 9), MAX_BINARY * NANO)
    return nano, QuantityFormat.DECIMAL if 0 < nano < NANO else QuantityFormat.BINARY


def _parse_decimal(digits: int, scale: int, suffix: str) -> tuple[int, QuantityFormat]:
    if suffix in DECIMAL_EXPONENTS:
        return _scale(digits, scale + DECIMAL_EXPONENTS[suffix] + 9), QuantityFormat.DECIMAL
    # The first digits tell whether it goes beyond.
    size = min(MAX_EXPONENT, int(suffix[1:].lstrip("+-").lstrip("0")[:9] or "0"))
    exponent = -size if suffix[1] == "-" else size
    return _scale(digits, scale + exponent + 9), QuantityFormat.EXPONENT


def _scale(digits: int, places: int) -> int:
    """digits × 10^places, rounded up to a whole number."""
    if places >= 0:
        return int(digits * 10**places)
    return int(-(-digits // 10**-places))


def format_quantity(quantity: Quantity) -> str:
    """The canonical text of this amount in its format: no fraction, the largest suffix."""
    nano = quantity.nano
    if nano == 0:
        return "0"
    binary = quantity.format is QuantityFormat.BINARY and nano % NANO == 0
    if binary and 1024 * NANO <= abs(nano) <= MAX_BINARY * NANO:
        return _format_binary(nano // NANO)
    if quantity.format is QuantityFormat.EXPONENT:
        mantissa, exponent = _strip_thousands(nano, largest=MAX_EXPONENT)
        return f"{mantissa}e{exponent}" if exponent else str(mantissa)
    mantissa, exponent = _strip_thousands(nano, largest=18)
    return f"{mantissa}{DECIMAL_SUFFIXES[exponent]}"


def _format_binary(units: int) -> str:
    power = 0
    while units % 1024 == 0 and power < 60:
        units, power = units // 1024, power + 10
    return f"{units}{BINARY_SUFFIXES.get(power, '')}"


def _strip_thousands(nano: int, largest: int) -> tuple[int, int]:
    exponent = -9
    while nano % 1000 == 0 and exponent < largest:
        nano, exponent = nano // 1000, exponent + 3
    return nano, exponent
