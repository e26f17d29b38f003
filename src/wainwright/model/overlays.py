"""NodeOverlays that apply to the instance types of a NodePool."""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet

import msgspec

from wainwright.model.requirements import Requirements


class AppliedOverlays(msgspec.Struct, frozen=True, kw_only=True):
    """Which NodeOverlays apply to the instance types of one NodePool."""

    price: dict[str, tuple[Requirements, ...]] = {}
    """By type the offerings whose price an overlay set, as their requirements."""
    capacity: tuple[str, ...] = ()
    """The types whose capacity an overlay set."""

    def set_price(
        self, requirements: Requirements, types: Iterable[str], well_known: AbstractSet[str]
    ) -> bool:
        """Whether a claim with these requirements may get an offering with a price of theirs."""
        return any(
            requirements.is_compatible(offering, well_known)
            for name in types
            for offering in self.price.get(name, ())
        )

    def set_capacity(self, types: Iterable[str]) -> bool:
        return not set(self.capacity).isdisjoint(types)


def no_overlays() -> AppliedOverlays:
    return AppliedOverlays()
