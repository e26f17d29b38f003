"""Limits of the cluster, as a user writes them, in the model."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

from wainwright.api.quantity import InvalidQuantity, parse_quantity
from wainwright.errors import UsageError
from wainwright.model.plan import PRICE_LIMIT, ClusterLimits
from wainwright.model.resources import CPU, MEMORY, capacity_from_nano
from wainwright.model.snapshot import NODES_LIMIT
from wainwright.whole_numbers import parse_whole_number

Amount = TypeVar("Amount", int, float)

PRICE: Final = re.compile(r"[0-9]{1,12}(\.[0-9]{1,9})?")

EXPECTED_AMOUNTS: Final = {
    CPU: "a quantity of 0 or more, such as 1000",
    MEMORY: "a quantity of 0 or more, such as 4Ti",
    NODES_LIMIT: "a whole number of 0 or more, such as 500",
    PRICE_LIMIT: "USD per hour, 0 or more, such as 50",
}
"""By name what an amount looks like."""


def parse_cluster_limits(entries: Iterable[str]) -> ClusterLimits:
    """From entries NAME=AMOUNT; raises UsageError."""
    amounts: dict[str, str] = {}
    for entry in entries:
        name, equals, amount = entry.partition("=")
        if not equals:
            message = f"--cluster-limit {entry} has no amount"
            raise UsageError(message, "write it as in --cluster-limit cpu=1000")
        if name in amounts:
            raise UsageError(f"--cluster-limit {name} is there twice", "state each limit once")
        amounts[name] = amount
    return translate_cluster_limits(amounts)


def translate_cluster_limits(amounts: Mapping[str, str]) -> ClusterLimits:
    """From amounts by name; raises UsageError."""
    for name in amounts:
        if name not in EXPECTED_AMOUNTS:
            names = ", ".join(EXPECTED_AMOUNTS)
            raise UsageError(f"a cluster has no limit {name}", f"write one of {names}")
    return ClusterLimits(
        cpu=_parse(CPU, amounts, _cpu),
        memory=_parse(MEMORY, amounts, _memory),
        nodes=_parse(NODES_LIMIT, amounts, _whole_number),
        price_per_hour=_parse(PRICE_LIMIT, amounts, _price),
    )


def _parse(name: str, amounts: Mapping[str, str], parse: Callable[[str], Amount]) -> Amount | None:
    if name not in amounts:
        return None
    try:
        amount = parse(amounts[name])
    except InvalidQuantity:
        raise _invalid_amount(name, amounts[name]) from None
    if amount < 0:
        raise _invalid_amount(name, amounts[name])
    return amount


def _invalid_amount(name: str, found: str) -> UsageError:
    return UsageError(
        f"the cluster's limit {name} is {found!r}", f"expected {EXPECTED_AMOUNTS[name]}"
    )


def _cpu(text: str) -> int:
    return capacity_from_nano(CPU, parse_quantity(text).nano)


def _memory(text: str) -> int:
    return capacity_from_nano(MEMORY, parse_quantity(text).nano)


def _whole_number(text: str) -> int:
    number = parse_whole_number(text)
    return -1 if number is None else number


def _price(text: str) -> float:
    return float(text) if PRICE.fullmatch(text) else -1.0
