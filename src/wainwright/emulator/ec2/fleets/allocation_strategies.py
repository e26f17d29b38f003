"""Allocation strategies of a fleet: the order in which its capacity pools are tried, and over how
many of them an order is spread.
"""

from collections.abc import Callable, Sequence
from math import inf
from typing import Final, TypeAlias

import msgspec

LOWEST_PRICE: Final = "lowest-price"


PRIORITIZED: Final = "prioritized"


DIVERSIFIED: Final = "diversified"


CAPACITY_OPTIMIZED: Final = "capacity-optimized"


CAPACITY_OPTIMIZED_PRIORITIZED: Final = "capacity-optimized-prioritized"


PRICE_CAPACITY_OPTIMIZED: Final = "price-capacity-optimized"


DEEP_FRACTION: Final = (
    0.5  # of the deepest capacity pool; one with at least as much left counts as deep
)


class AllocationCandidate(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A capacity pool (instance type and zone) of a fleet, before launching.

    gc=False: a fleet has up to 300 of them, and they hold no references that could form a cycle.
    """

    index: int
    """Its position in the request."""
    price: float | None
    """None where it is not offered."""
    priority: float | None = None
    depth: float = inf
    """Available instances; callers of the API do not see it, the allocation strategies use it."""


AllocationOrder: TypeAlias = Callable[[Sequence[AllocationCandidate]], list[AllocationCandidate]]


def _candidate_price(candidate: AllocationCandidate) -> float:
    return inf if candidate.price is None else candidate.price


def _candidate_priority(candidate: AllocationCandidate) -> float:
    """The lowest number first; without a priority last."""
    return inf if candidate.priority is None else candidate.priority


def order_by_price(candidates: Sequence[AllocationCandidate]) -> list[AllocationCandidate]:
    """Equal prices keep the order of the request."""
    return sorted(candidates, key=_candidate_price)


def order_by_priority(candidates: Sequence[AllocationCandidate]) -> list[AllocationCandidate]:
    return sorted(candidates, key=_candidate_priority)


def order_by_depth(candidates: Sequence[AllocationCandidate]) -> list[AllocationCandidate]:
    return sorted(candidates, key=lambda candidate: (-candidate.depth, _candidate_price(candidate)))


def order_by_depth_then_price(
    candidates: Sequence[AllocationCandidate],
) -> list[AllocationCandidate]:
    """The cheapest of the deep capacity pools, then the cheapest of the others."""
    threshold = _depth_threshold(candidates)
    return sorted(
        candidates, key=lambda candidate: (candidate.depth < threshold, _candidate_price(candidate))
    )


def order_by_depth_then_priority(
    candidates: Sequence[AllocationCandidate],
) -> list[AllocationCandidate]:
    threshold = _depth_threshold(candidates)
    return sorted(
        candidates,
        key=lambda candidate: (candidate.depth < threshold, _candidate_priority(candidate)),
    )


def _depth_threshold(candidates: Sequence[AllocationCandidate]) -> float:
    return DEEP_FRACTION * max((candidate.depth for candidate in candidates), default=0.0)


ON_DEMAND_STRATEGIES: Final[dict[str, AllocationOrder]] = {
    LOWEST_PRICE: order_by_price,
    PRIORITIZED: order_by_priority,
}


SPOT_STRATEGIES: Final[dict[str, AllocationOrder]] = {
    LOWEST_PRICE: order_by_price,
    DIVERSIFIED: order_by_price,
    CAPACITY_OPTIMIZED: order_by_depth,
    CAPACITY_OPTIMIZED_PRIORITIZED: order_by_depth_then_priority,
    PRICE_CAPACITY_OPTIMIZED: order_by_depth_then_price,
}


def diversification_count(strategy: str, instance_pools_to_use: int | None, available: int) -> int:
    """Over how many capacity pools a spot fleet divides its target; the others are fallbacks."""
    if strategy == DIVERSIFIED:
        return max(available, 1)
    if strategy == LOWEST_PRICE:
        return max(min(instance_pools_to_use or 1, available), 1)
    return 1


def even_shares(total: int, parts: int) -> list[int]:
    """Shares that differ by at most one, the larger ones first."""
    share, remainder = divmod(total, parts)
    return [share + (number < remainder) for number in range(parts)]
