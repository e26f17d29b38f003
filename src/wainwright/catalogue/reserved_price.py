"""The price of reserved capacity: next to nothing, but never nothing, and in the order of sizes.

It is on-demand price ÷ (dearest price ÷ cheapest spot price) ÷ 1,000,000: below every other price,
so that what is paid for already is used first, and above zero, so that a large reserved machine is
still given up for a small one.
"""

import sys
from collections.abc import Iterable
from typing import Final

import msgspec

from wainwright.catalogue.lots import Lot
from wainwright.model.labels import ON_DEMAND, SPOT

SMALLEST: Final = sys.float_info.min
DIVISOR: Final = 1_000_000


class Extremes(msgspec.Struct, frozen=True, kw_only=True):
    """The two prices that the formula needs. Prices of zero count for neither."""

    dearest: float = 1.0
    """Of all offerings that are not reserved."""
    cheapest_spot: float = 1.0
    """The cheapest on-demand price stands in where nothing is sold as spot."""
    cheapest: float = 1.0

    def reserved(self, on_demand: float) -> float:
        """The price of a reserved offering whose on-demand price is this one.

        What costs nothing on demand counts as the cheapest: it is still the first to be used.
        """
        counted = on_demand or self.cheapest
        price = counted / (self.dearest / self.cheapest_spot) / DIVISOR
        return max(price, SMALLEST)


def extremes(lots: Iterable[Lot]) -> Extremes:
    """Over all lots of a catalogue, in stock or not."""
    prices: list[float] = []
    spot: list[float] = []
    on_demand: list[float] = []
    by_type = {SPOT: spot, ON_DEMAND: on_demand}
    for lot in lots:
        if lot.price and not lot.reserved:
            prices.append(lot.price)
            by_type.get(lot.capacity_type or "", prices).append(lot.price)
    if not prices:
        return Extremes()
    return Extremes(
        dearest=max(prices),
        cheapest_spot=min(spot or on_demand or prices),
        cheapest=min(prices),
    )


def on_demand_price(lots: Iterable[Lot], zone: str) -> float | None:
    """What the type costs on demand in the zone, or where that is not said, wherever it is."""
    known = {lot.zone: lot.price for lot in lots if _on_demand(lot) and lot.price is not None}
    if zone in known:
        return known[zone]
    return known[None] if None in known else max(known.values(), default=None)


def _on_demand(lot: Lot) -> bool:
    return lot.capacity_type == ON_DEMAND and not lot.reserved
