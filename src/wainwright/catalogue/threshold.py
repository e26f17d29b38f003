"""Eviction thresholds: a quantity, or a share of what the node has."""

from decimal import Decimal

import msgspec

from wainwright.api.quantity import NANO, Quantity, parse
from wainwright.catalogue.figure import ceiling

WHOLE = 100 * NANO


class Threshold(msgspec.Struct, frozen=True, kw_only=True):
    """One of the two is given. A share is in billionths of a percent, so that "7.5%" is exact."""

    quantity: Quantity | None = None
    share: int = 0

    @property
    def off(self) -> bool:
        """A threshold of 100 % never triggers: the kubelet takes it for none."""
        return self.quantity is None and self.share == WHOLE

    @property
    def percent(self) -> str:
        return f"{Decimal(self.share) / NANO:f}"

    def of(self, capacity: int) -> int:
        if self.quantity is not None:
            return self.quantity.units
        return 0 if self.off else ceiling(capacity * self.share, WHOLE)


def threshold(text: str) -> Threshold:
    """The threshold that the text means; raises NotAQuantity."""
    if text.endswith("%"):
        return Threshold(share=parse(text[:-1]).nano)
    return Threshold(quantity=parse(text))
