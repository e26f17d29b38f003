"""Numbers and names as text: counts, lists, prices, quantities in one unit; foreign text on a line.

1 pod, 2 pods, 1,000 pods; $0.584/h; 64Gi and 13.8Gi. All output for people uses these functions,
so that tables, events and sentences show the same amount in the same way.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from wainwright.model.resources import format_quantity


def escape_unprintable(text: str) -> str:
    """Text of the input on one line: what would steer a terminal or a log is written as \\x1b.

    That is control sequences, line breaks (a CI log takes a line that begins with `::error` for a
    command), and characters that turn the direction of writing around.
    """
    if text.lstrip().startswith("::"):
        text = text.replace(":", r"\x3a", 1)
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )


def format_count(number: int, noun: str, plural: str = "") -> str:
    """1 pod, 2 pods; `plural` where an s at the end is not enough."""
    return f"1 {noun}" if number == 1 else f"{number:,} {plural or noun + 's'}"


def join_with_and(things: Sequence[str]) -> str:
    """One, two and three."""
    if len(things) < 2:
        return "".join(things)
    return f"{', '.join(things[:-1])} and {things[-1]}"


def join_with_or(things: Sequence[str]) -> str:
    """One, two or three."""
    if len(things) < 2:
        return "".join(things)
    return f"{', '.join(things[:-1])} or {things[-1]}"


def format_scheduled(placed: int, pods: int) -> str:
    """3 of 4 pods scheduled"""
    return f"{placed:,} of {format_count(pods, 'pod')} scheduled"


def join_first(names: Iterable[str], most: int = 3) -> str:
    """The first few names, and how many more there are."""
    listed = list(names)
    rest = len(listed) - most
    return ", ".join(listed[:most]) + (f" and {rest:,} more" if rest > 0 else "")


SMALLEST_SHOWN_PRICE: Final = 0.0005  # USD per hour; less is printed as 0
HOURS_PER_MONTH: Final = 730  # as AWS's price calculators count: 365 days / 12


MODELLED_PRICES: Final = (
    "~ estimated price: the built-in catalogue has AWS list prices only for on-demand in "
    "us-east-1; a Cloud object can state yours"
)
"""The line below a table that has such prices."""
MODELLED_PRICES_SHORT: Final = (
    "~ estimated price, not one that AWS lists; a Cloud object can state yours"
)
"""The same where a line must fit into 80 columns."""
RESERVED_PRICES: Final = (
    "≈$0/h: instances of a capacity reservation count as paid for: EC2 bills it, used or not"
)
"""The line below a table with nodes of a capacity reservation."""


def format_hourly(price: float, *, modelled: bool = False) -> str:
    """Three decimals; the price of reserved capacity is almost, but not exactly, 0.

    An estimate is marked: ~$1.235/h.
    """
    if 0 < price < SMALLEST_SHOWN_PRICE:
        return "≈$0/h"
    return f"{'~' if modelled and price else ''}${price:,.3f}/h"


def format_price_change(change: float, *, modelled: bool = False) -> str:
    """+$0.096/h, −$1.460/h; +~$0.096/h where it is an estimate."""
    if abs(change) < SMALLEST_SHOWN_PRICE:
        return "+$0/h"
    return f"{'+' if change > 0 else '−'}{format_hourly(abs(change), modelled=modelled)}"


def format_monthly(price: float, *, modelled: bool = False) -> str:
    amount, mark = price * HOURS_PER_MONTH, "~" if modelled and price else ""
    return f"{mark}${amount:,.0f}/month" if amount >= 10 else f"{mark}${amount:,.2f}/month"


def format_cost(nodes: int, price: float, fees: float = 0.0, *, modelled: bool = False) -> str:
    """3 nodes · $0.584/h · $426/month"""
    noun = "node" if nodes == 1 else "nodes"
    fee_note = f" · fees {format_hourly(fees)}" if fees else ""
    hourly = format_hourly(price, modelled=modelled)
    monthly = format_monthly(price + fees, modelled=modelled)
    return f"{nodes:,} {noun} · {hourly} · {monthly}{fee_note}"


MILLI: Final = 1000  # of a cpu
UNITS: Final = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
MAX_DECIMALS: Final = 3


def format_in_one_unit(resource: str, *amounts: int) -> tuple[str, ...]:
    """Quantities as Kubernetes writes them, unless their units differ, as Mi and Gi.
    Then all are in the unit of the largest, with as many decimals as needed to differ; cpus are
    written as 1.93 rather than 1930m.
    """
    if resource == "cpu" and max(map(abs, amounts)) >= MILLI:
        return tuple(f"{amount / MILLI:.3f}".rstrip("0").rstrip(".") for amount in amounts)
    exact = tuple(format_quantity(resource, amount) for amount in amounts)
    units = {_unit_of(text) for text, amount in zip(exact, amounts, strict=True) if amount}
    if len(units) < 2 or not units & set(UNITS):
        return exact
    return _scale_to_unit(amounts, max(amounts)) or exact


def _scale_to_unit(amounts: tuple[int, ...], largest: int) -> tuple[str, ...] | None:
    power = max(power for power in range(len(UNITS)) if largest >= 1024 ** (power + 1) or not power)
    scale, unit = 1024 ** (power + 1), UNITS[power]
    for digits in range(1, MAX_DECIMALS + 1):
        texts = tuple(f"{amount / scale:.{digits}f}" for amount in amounts)
        if len(set(texts)) == len(set(amounts)):
            return tuple(f"{_strip_zeros(text)}{unit}" for text in texts)
    return None


def _strip_zeros(text: str) -> str:
    return text.rstrip("0").rstrip(".")


def _unit_of(text: str) -> str:
    return text.lstrip("-0123456789.")
