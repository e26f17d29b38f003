"""A built catalogue: what one class can buy, at which price, and how all of it came about."""

from collections.abc import Mapping
from functools import cached_property

import msgspec

from wainwright.catalogue.compatibility import Incompatible
from wainwright.catalogue.lots import Lots
from wainwright.catalogue.remarks import Remark
from wainwright.catalogue.reservations import Selected
from wainwright.catalogue.settings import ClassSettings
from wainwright.catalogue.shapes import Size
from wainwright.collector import without_collector
from wainwright.model.index import TypeIndex
from wainwright.model.instance_type import InstanceType


class Built(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Everything about the catalogue of one class; nothing in it changes any more."""

    region: str
    zones: Mapping[str, str]
    """Zone names with their ids, where known."""
    types: tuple[InstanceType, ...]
    """In the order of names; a type without a price has no offerings."""
    settings: ClassSettings | None
    """None under a Catalog, where no setting of the class changes a number."""
    sizes: Mapping[str, Size]
    lots: Lots
    """The offerings with the history of their prices, and those that never got one."""
    incompatible: Mapping[str, Incompatible]
    """Types that the class can never launch: they are listed, at a count of zero."""
    reservations: tuple[Selected, ...]
    """What the class selects, offered or not, and what a Catalog brings along."""
    fees: Mapping[str, float]
    """USD per hour beside the price, by type; empty where the Cloud has no fees."""
    remarks: tuple[Remark, ...]

    @cached_property
    def index(self) -> TypeIndex:
        """Compiled for the planner, once."""
        with without_collector():
            return TypeIndex(self.types, zones=self.zones)

    @cached_property
    def by_name(self) -> Mapping[str, InstanceType]:
        return {kind.name: kind for kind in self.types}

    @property
    def fee(self) -> float:
        """The highest of any type: disks may be sized to the pods that a node holds."""
        return max(self.fees.values(), default=0.0)

    @property
    def from_catalog(self) -> bool:
        return self.settings is None

    @property
    def unpriced(self) -> tuple[str, ...]:
        """Types that nobody gives a price, so that they cannot be bought."""
        return tuple(kind.name for kind in self.types if not kind.offerings)
