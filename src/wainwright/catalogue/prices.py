"""On-demand prices: the list price of us-east-1, and a rough factor for every other region.

Within half a percent of the list in us-east-1. Elsewhere one factor stands for all families, which
is right for some and a few percent off for others: prices of an account or a Cloud replace it.
"""

from enum import Enum
from functools import cache

import msgspec

from wainwright import data

FILE = "prices.json"


class Basis(Enum):
    """What a region's factor rests on."""

    BASE = "base"
    MEDIAN = "median"
    ONE_FAMILY = "one-family"
    UNKNOWN = "unknown"


class Factor(msgspec.Struct, frozen=True, kw_only=True):
    factor: float
    basis: Basis


class PriceTable(msgspec.Struct, frozen=True, kw_only=True):
    """The data file; a type without a price is not in `types`."""

    source: str
    types: dict[str, float]
    own: frozenset[str]
    """Types whose price is listed for themselves and not by the rule of their family."""
    regions: dict[str, Factor]


class Price(msgspec.Struct, frozen=True, kw_only=True):
    """USD per hour, and how it came about."""

    usd: float
    list_usd: float
    """In us-east-1."""
    by_family: bool
    """Whether the list price follows the rule of the family."""
    factor: float
    basis: Basis

    @property
    def rough(self) -> bool:
        return self.basis is not Basis.BASE


@cache
def table() -> PriceTable:
    return msgspec.json.decode(data.read(FILE), type=PriceTable)


def on_demand(instance_type: str, region: str) -> Price | None:
    """What the type costs in the region; None where no price is known."""
    prices = table()
    listed = prices.types.get(instance_type)
    if listed is None:
        return None
    known = prices.regions[region]
    return Price(
        usd=round(listed * known.factor, 6),
        list_usd=listed,
        by_family=instance_type not in prices.own,
        factor=known.factor,
        basis=known.basis,
    )
