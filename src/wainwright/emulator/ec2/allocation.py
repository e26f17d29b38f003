"""Allocation: in which order a fleet tries its pools, and how much it wants of each."""

from collections.abc import Callable, Sequence
from math import inf
from typing import Final, TypeAlias

import msgspec

LOWEST_PRICE: Final = "lowest-price"
PRIORITIZED: Final = "prioritized"
DIVERSIFIED: Final = "diversified"
CAPACITY: Final = "capacity-optimized"
CAPACITY_PRIORITIZED: Final = "capacity-optimized-prioritized"
PRICE_CAPACITY: Final = "price-capacity-optimized"
DEEP: Final = 0.5  # a pool with half as much left as the deepest one counts as deep


class Pool(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A type in a zone, as the fleet sees it before it tries."""

    index: int
    """Where the request names it."""
    price: float | None
    """None where it is not sold."""
    priority: float | None = None
    depth: float = inf
    """How many could be had; what only the owner of the machines knows, and the fleet uses."""


Order: TypeAlias = Callable[[Sequence[Pool]], list[Pool]]


def _price(pool: Pool) -> float:
    return inf if pool.price is None else pool.price


def _priority(pool: Pool) -> float:
    """The lowest number first; who has none comes last."""
    return inf if pool.priority is None else pool.priority


def by_price(pools: Sequence[Pool]) -> list[Pool]:
    """Equal prices keep the order of the request."""
    return sorted(pools, key=_price)


def by_priority(pools: Sequence[Pool]) -> list[Pool]:
    return sorted(pools, key=_priority)


def by_depth(pools: Sequence[Pool]) -> list[Pool]:
    return sorted(pools, key=lambda pool: (-pool.depth, _price(pool)))


def deep_then_price(pools: Sequence[Pool]) -> list[Pool]:
    """The cheapest of the deep pools, then the cheapest of the others."""
    enough = _enough(pools)
    return sorted(pools, key=lambda pool: (pool.depth < enough, _price(pool)))


def deep_then_priority(pools: Sequence[Pool]) -> list[Pool]:
    enough = _enough(pools)
    return sorted(pools, key=lambda pool: (pool.depth < enough, _priority(pool)))


def _enough(pools: Sequence[Pool]) -> float:
    return DEEP * max((pool.depth for pool in pools), default=0.0)


ON_DEMAND_ORDERS: Final[dict[str, Order]] = {LOWEST_PRICE: by_price, PRIORITIZED: by_priority}
SPOT_ORDERS: Final[dict[str, Order]] = {
    LOWEST_PRICE: by_price,
    DIVERSIFIED: by_price,
    CAPACITY: by_depth,
    CAPACITY_PRIORITIZED: deep_then_priority,
    PRICE_CAPACITY: deep_then_price,
}


def spread(strategy: str, pools_to_use: int | None, available: int) -> int:
    """Over how many pools a spot fleet divides what it wants; the others stand in."""
    if strategy == DIVERSIFIED:
        return max(available, 1)
    if strategy == LOWEST_PRICE:
        return max(min(pools_to_use or 1, available), 1)
    return 1


def shares(wanted: int, over: int) -> list[int]:
    """Even parts, the larger ones first."""
    part, rest = divmod(wanted, over)
    return [part + (number < rest) for number in range(over)]
