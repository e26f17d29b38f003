"""Quantities that stand side by side in a sentence, in one unit: 64Gi and 13.8Gi."""

from typing import Final

from wainwright.model.resources import quantity_text

UNITS: Final = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
MOST_DIGITS: Final = 3


def alike(resource: str, *amounts: int) -> tuple[str, ...]:
    """As Kubernetes writes them, unless that makes Mi of one and Gi of another.

    Then all are in the unit of the largest, with as many digits as tell them apart.
    """
    exact = tuple(quantity_text(resource, amount) for amount in amounts)
    units = {_unit(text) for text, amount in zip(exact, amounts, strict=True) if amount}
    if len(units) < 2 or not units & set(UNITS):
        return exact
    return _in_one(amounts, max(amounts)) or exact


def _in_one(amounts: tuple[int, ...], largest: int) -> tuple[str, ...] | None:
    power = max(power for power in range(len(UNITS)) if largest >= 1024 ** (power + 1) or not power)
    scale, unit = 1024 ** (power + 1), UNITS[power]
    for digits in range(1, MOST_DIGITS + 1):
        told = tuple(f"{amount / scale:.{digits}f}" for amount in amounts)
        if len(set(told)) == len(set(amounts)):
            return tuple(f"{_trimmed(text)}{unit}" for text in told)
    return None


def _trimmed(text: str) -> str:
    return text.rstrip("0").rstrip(".")


def _unit(text: str) -> str:
    return text.lstrip("-0123456789.")
