"""Bargains: what else could have been bought for a claim, and why it was not."""

from typing import Final

import msgspec

from wainwright.core.launch import Left, cost, left_to, ordinary
from wainwright.model.columns import Rows, row_numbers
from wainwright.model.index import TypeIndex
from wainwright.model.labels import CAPACITY_TYPE, ON_DEMAND, RESERVED, SPOT
from wainwright.model.markets import Markets
from wainwright.model.plan import PlannedClaim
from wainwright.model.pool import Pool

IN_ORDER: Final = (RESERVED, SPOT, ON_DEMAND)
"""Capacity types as they are taken, as long as spot is not the dearer one."""


class Bargain(msgspec.Struct, frozen=True, kw_only=True):
    """What was on offer to a claim."""

    by_pool: tuple[str, ...]
    """Capacity types that the pool allows."""
    allowed: tuple[str, ...]
    """Those among them that its pods allow as well."""
    types: int
    """Instance types that it could be launched as."""
    unasked: int
    """Whole machines and types with accelerators beside these, which nobody asked for."""
    reservations: tuple[str, ...]
    """Those that it might have used, had they had a slot."""
    spot: float | None
    """USD per hour with fees of the cheapest; None where there is none."""
    on_demand: float | None


def bargain(claim: PlannedClaim, pool: Pool, index: TypeIndex) -> Bargain:
    left = left_to(claim, index)
    types = ordinary(left)
    kinds = claim.requirements.allowed(CAPACITY_TYPE)
    by_pool = pool.requirements.allowed(CAPACITY_TYPE)
    return Bargain(
        by_pool=tuple(filter(by_pool.admits, IN_ORDER)),
        allowed=tuple(kind for kind in IN_ORDER if by_pool.admits(kind) and kinds.admits(kind)),
        types=types.bit_count(),
        unasked=_sold(left).bit_count() - types.bit_count(),
        reservations=_missed(claim, left),
        spot=_cheapest(left, types, left.spot),
        on_demand=_cheapest(left, types, left.markets ^ left.spot),
    )


def _sold(left: Left) -> Rows:
    """The types that hold all its pods: with a slot only those that have one."""
    return left.rows & left.index.sold_in(left.held) if left.held else left.rows


def _missed(claim: PlannedClaim, left: Left) -> tuple[str, ...]:
    markets = left.index.markets
    admitted = left.index.markets_admitted_by(claim.requirements)
    found = {
        markets[number].reservation_id
        for number in row_numbers(admitted)
        if markets[number].listed & left.rows
    }
    return tuple(sorted(name for name in found if name is not None))


def _cheapest(left: Left, types: Rows, markets: Markets) -> float | None:
    best = left.index.best_buy(types, markets)
    return None if best is None else cost(left.index, best[0], best[2])
