"""Overlays: NodeOverlay objects as the catalogue uses them, and the arithmetic of their prices."""

from decimal import Decimal
from functools import lru_cache

import msgspec

from wainwright.api.overrides import NodeOverlay
from wainwright.api.quantity import parse
from wainwright.catalogue.lots import Layer, Lot, Step
from wainwright.model.requirements import Requirements
from wainwright.model.resources import offered


class Overlay(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    weight: int
    """0 where the object has none: below all that have one."""
    requirements: Requirements
    price: str | None = None
    adjustment: str | None = None
    capacity: dict[str, int]

    @property
    def prices(self) -> bool:
        return self.price is not None or self.adjustment is not None

    def step(self, lot: Lot) -> Step | None:
        """What it does to the price; nothing where there is no price to adjust."""
        if self.price is not None:
            after, how = float(self.price), f"weight {self.weight}"
        elif self.adjustment is not None and lot.price is not None:
            after, how = adjusted(lot.price, self.adjustment), self.adjustment
            how = f"{how}, weight {self.weight}"
        else:
            return None
        return Step(layer=Layer.OVERLAY, source=self.name, before=lot.price, after=after, how=how)

    def outweighed(self, lot: Lot, winner: "Overlay") -> Step:
        """On the record that it would have changed the price, too."""
        how = f"weight {self.weight}: outweighed by {winner.name}"
        return Step(
            layer=Layer.OVERLAY, source=self.name, before=lot.price, after=lot.price, how=how
        )


def overlay(item: NodeOverlay) -> Overlay:
    spec = item.spec
    capacity = {name: parse(str(amount)).nano for name, amount in (spec.capacity or {}).items()}
    return Overlay(
        name=item.metadata.name,
        weight=spec.weight or 0,
        requirements=Requirements.from_entries(
            (each.key, each.operator, tuple(each.values or ()), None) for each in spec.requirements
        ),
        price=spec.price,
        adjustment=spec.priceAdjustment,
        capacity={name: offered(name, nano) for name, nano in sorted(capacity.items())},
    )


def in_order(overlays: list[Overlay]) -> list[Overlay]:
    """Who wins comes first: the heavier, and of equal weight the first in the alphabet."""
    return sorted(overlays, key=lambda each: (-each.weight, each.name))


@lru_cache(maxsize=65536)
def adjusted(price: float, adjustment: str) -> float:
    """The price with the adjustment, in decimals as people reckon, and never below zero."""
    before = Decimal(repr(price))
    if adjustment.endswith("%"):
        after = before * (100 + Decimal(adjustment[:-1])) / 100
    else:
        after = before + Decimal(adjustment)
    return max(0.0, float(after))
