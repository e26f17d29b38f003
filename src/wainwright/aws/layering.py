"""Layering: the usual layers of a catalogue, on what the account sells in place of the built-in.

Overlays, InstanceType objects, reservations, shortages and the rules of the class work as they do
offline. What real nodes have shown of their memory takes the place of the estimate.
"""

from collections.abc import Mapping
from functools import cached_property

import msgspec

from wainwright.aws.market import Market
from wainwright.catalogue.ami import Traits
from wainwright.catalogue.capacity import ARM_MIB
from wainwright.catalogue.compatibility import Incompatible, incompatible
from wainwright.catalogue.figure import MEMORY, MIB
from wainwright.catalogue.layers import Catalogues
from wainwright.catalogue.lots import Lots
from wainwright.catalogue.machine import Machine
from wainwright.catalogue.offerings import Base
from wainwright.catalogue.overrides import override
from wainwright.catalogue.settings import NO_OVERRIDE, ClassSettings, Override
from wainwright.catalogue.shapes import Shape, Size, shape, size, sizes
from wainwright.catalogue.shelf import Goods, Shelf
from wainwright.catalogue.stock import Stock
from wainwright.catalogue.supply import Supply
from wainwright.model.requirements import Requirements


class Ground(msgspec.Struct, frozen=True, kw_only=True):
    """What the layers lie on, for one class."""

    market: Market
    zones: tuple[str, ...]
    """Where the class has subnets, in order."""
    memory: Mapping[str, int] = {}
    """Bytes that nodes were found to have, by type."""

    @property
    def base(self) -> Base:
        return self.market.base(self.zones)

    def machine(self, name: str) -> Machine:
        return self.market.listing.machines[name]

    def seen(self, name: str, own: Override = NO_OVERRIDE) -> Override:
        """With the memory that was found, unless somebody has stated it.

        It goes in as what the virtual machine keeps: the type's memory less what its nodes have.
        """
        found = self.memory.get(name)
        if found is None or MEMORY in own.resources or MEMORY in own.overhead:
            return own
        kept = _memory(self.machine(name)) - found
        return msgspec.structs.replace(own, overhead={**own.overhead, MEMORY: kept})


def _memory(machine: Machine) -> int:
    """Bytes before the virtual machine has taken its share."""
    arm = ARM_MIB if machine.architecture == "arm64" else 0
    return (machine.memory_mib - arm) * MIB


class LiveShelf(Shelf):
    """Everything that does not depend on the class's rules."""

    def __init__(self, supply: Supply, ground: Ground) -> None:
        super().__init__(supply)
        self._ground = ground

    @cached_property
    def stock(self) -> Stock:
        listed = self._ground.market.listing.zones
        return Stock(
            region=self._ground.market.region,
            zones={zone: listed.get(zone, "") for zone in self._ground.zones},
            all_zones=frozenset(listed),
            lots=self._ground.base.lots,
            stated=None,
        )

    def described(self, traits: Traits) -> Mapping[str, Requirements]:
        return self._ground.market.described(traits)


class LiveCatalogues(Catalogues):
    """The catalogues of all pools that share a class."""

    def __init__(self, supply: Supply, ground: Ground) -> None:
        super().__init__(supply)
        self._shelf = LiveShelf(supply, ground)
        self._ground = ground
        self._known: list[tuple[ClassSettings, dict[str, Size]]] = []

    def _incompatible(self, settings: ClassSettings | None, lots: Lots) -> dict[str, Incompatible]:
        found = {
            name: incompatible(self._ground.machine(name), settings or ClassSettings())
            for name in lots
        }
        return {name: why for name, why in found.items() if why is not None}

    def _plain(self, settings: ClassSettings | None) -> dict[str, Size]:
        settings, names = settings or ClassSettings(), self._ground.base.lots
        for known, found in self._known:
            if known == settings:
                return found
        made = sizes({name: self._ground.machine(name) for name in names}, settings)
        for name in self._ground.memory.keys() & made.keys():
            seen = self._ground.seen(name)
            made[name] = size(shape(self._ground.machine(name), settings, seen))
        self._known.append((settings, made))
        return made

    def _special(self, name: str, settings: ClassSettings | None, goods: Goods) -> Size:
        """An InstanceType object wins over an overlay by resource, and both over real nodes."""
        item = self._shelf.declarations.get(name)
        own = NO_OVERRIDE if item is None else override(item)
        machine, seen = self._ground.machine(name), self._ground.seen(name, own)
        made = shape(machine, settings or ClassSettings(), seen)
        overlaid = goods.overlaid.get(name, {})
        added = {key: overlaid[key] for key in overlaid if key not in own.resources}
        return size(Shape(capacity={**made.capacity, **added}, overhead=made.overhead))

    def _bottom(self) -> Base | None:
        return self._ground.base
