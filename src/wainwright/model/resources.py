"""Amounts of resources as whole numbers: cpu in thousandths, everything else in units or bytes."""

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

Resources: TypeAlias = Mapping[str, int]
"""Resource name to amount. Functions here keep names in order if those of the input are."""

CPU: Final = "cpu"
MEMORY: Final = "memory"
PODS: Final = "pods"
EPHEMERAL_STORAGE: Final = "ephemeral-storage"
HUGE_PAGES_PREFIX: Final = "hugepages-"

DECIMAL_SUFFIXES: Final = ("m", "", "k", "M", "G", "T", "P", "E")
BINARY_SUFFIXES: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


MAX_AMOUNT: Final = 10**100
"""1e999999999 is a valid quantity; more than this counts as this, which a float can still hold."""


def request_from_nano(name: str, nano: int) -> int:
    """An exact amount in billionths as a request: rounded up."""
    return _within_limits(-(-nano // _nano_per_unit(name)))


def capacity_from_nano(name: str, nano: int) -> int:
    """An exact amount in billionths as capacity: rounded down."""
    return _within_limits(nano // _nano_per_unit(name))


def _within_limits(amount: int) -> int:
    return max(-MAX_AMOUNT, min(MAX_AMOUNT, amount))


def sort_resources(amounts: Resources) -> dict[str, int]:
    return dict(sorted(amounts.items()))


def add_resources(left: Resources, right: Resources) -> dict[str, int]:
    total = dict(left)
    for name, amount in right.items():
        total[name] = total.get(name, 0) + amount
    # The names are still in order unless one was added: saves a sort in the usual case.
    return total if len(total) == len(left) else sort_resources(total)


def largest_amounts(resources: Iterable[Resources]) -> dict[str, int]:
    """Of each resource the largest amount."""
    largest: dict[str, int] = {}
    for each in resources:
        for name, amount in each.items():
            largest[name] = max(amount, largest.get(name, 0))
    return largest


def subtract_resources(left: Resources, right: Resources) -> dict[str, int]:
    """The difference, below zero where `right` has more."""
    rest = dict(left)
    for name, amount in right.items():
        rest[name] = rest.get(name, 0) - amount
    return rest if len(rest) == len(left) else sort_resources(rest)


def max_resources(left: Resources, right: Resources) -> dict[str, int]:
    """The larger amount of each resource."""
    largest = dict(left)
    for name, amount in right.items():
        largest[name] = max(largest.get(name, amount), amount)
    return largest if len(largest) == len(left) else sort_resources(largest)


def fits(requests: Resources, available: Resources) -> bool:
    """Whether the requests fit. Nothing fits where any available amount is below zero."""
    if any(amount < 0 for amount in available.values()):
        return False
    return all(amount <= available.get(name, 0) for name, amount in requests.items() if amount > 0)


def missing_resources(requests: Resources, available: Resources) -> dict[str, int]:
    """How much of each resource is lacking; others are left out."""
    lacking = {
        name: amount - available.get(name, 0) for name, amount in requests.items() if amount > 0
    }
    return sort_resources({name: amount for name, amount in lacking.items() if amount > 0})


def resources_key(amounts: Resources) -> tuple[tuple[str, int], ...]:
    """A key for equal amounts; zero is the same as absent."""
    return tuple(sorted((name, amount) for name, amount in amounts.items() if amount))


def in_units(name: str, amount: int) -> float:
    """Cores, bytes, or a count: as metrics have amounts."""
    return amount / 1000 if name == CPU else float(amount)


def format_quantity(name: str, amount: int) -> str:
    """The amount in the canonical spelling of Kubernetes: cpu 3920 is 3920m, cpu 4000 is 4."""
    if name == CPU:
        return _format_decimal(amount)
    if _is_in_bytes(name) and abs(amount) >= 1024:
        return _format_scaled(amount, 1024, BINARY_SUFFIXES)
    return _format_decimal(amount * 1000)


def round_up(name: str, amount: int) -> int:
    """An amount that is easy to read and not less: bytes in whole Gi, or Mi where it is little."""
    return -(-amount // (unit := _readable_unit(name, amount))) * unit


def round_down(name: str, amount: int) -> int:
    """The same, not more; sixteen units are kept at least, so that little is lost."""
    unit = _readable_unit(name, amount // 16)
    return amount // unit * unit


def _readable_unit(name: str, amount: int) -> int:
    if not _is_in_bytes(name) or amount < 2**20:
        return 1
    return 2**30 if amount >= 2**30 else 2**20


def _nano_per_unit(name: str) -> int:
    return 10**6 if name == CPU else 10**9


def _is_in_bytes(name: str) -> bool:
    return name in (MEMORY, EPHEMERAL_STORAGE, "storage") or name.startswith(HUGE_PAGES_PREFIX)


def _format_decimal(milli: int) -> str:
    return _format_scaled(milli, 1000, DECIMAL_SUFFIXES) if milli else "0"


def _format_scaled(amount: int, step: int, suffixes: tuple[str, ...]) -> str:
    """The largest suffix that leaves a whole number."""
    power = 0
    while amount % step == 0 and power < len(suffixes) - 1:
        amount, power = amount // step, power + 1
    return f"{amount}{suffixes[power]}"
