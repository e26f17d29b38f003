"""The shelf: every layer that does not depend on the class, made once for all classes."""

from collections.abc import Mapping, Sequence
from functools import cached_property

import msgspec

from wainwright.api.fault import did_you_mean
from wainwright.api.overrides import InstanceType
from wainwright.catalogue import cloud_prices
from wainwright.catalogue.ami import Traits
from wainwright.catalogue.description import descriptions
from wainwright.catalogue.figure import Figure
from wainwright.catalogue.lots import Lot, Lots
from wainwright.catalogue.nodeclass import ami_family
from wainwright.catalogue.overlaying import overlaid_capacity, overlaid_lots
from wainwright.catalogue.overlays import Overlay, in_order, overlay
from wainwright.catalogue.overrides import declared
from wainwright.catalogue.remarks import Remark, warning
from wainwright.catalogue.sites import Ground, Reach, conflicts, reach
from wainwright.catalogue.stock import Stock, stock
from wainwright.catalogue.supply import Scope, Supply
from wainwright.model.labels import suggestion
from wainwright.model.requirements import Requirements


class Goods(msgspec.Struct, frozen=True, kw_only=True):
    """Lots up to the InstanceType objects, for all scopes in which the same overlays hold."""

    lots: Lots
    overlaid: Mapping[str, Mapping[str, Figure]]
    """Capacity that overlays add, by type."""
    remarks: tuple[Remark, ...]


class Shelf:
    """Layers as they are asked for; each is made once."""

    def __init__(self, supply: Supply) -> None:
        self._supply = supply
        self._reaches: dict[Traits, tuple[Reach, ...]] = {}
        self._goods: dict[tuple[Traits, tuple[str, ...]], Goods] = {}

    @cached_property
    def stock(self) -> Stock:
        return stock(self._supply)

    @cached_property
    def declarations(self) -> Mapping[str, InstanceType]:
        """By the name of the type; of two objects with one name the later counts."""
        named = {item.metadata.name: item for item in self._supply.instance_types}
        return {name: named[name] for name in sorted(named) if name in self.stock.lots}

    def described(self, traits: Traits) -> Mapping[str, Requirements]:
        if self.stock.stated is None:
            return descriptions(self.stock.region, traits)
        return {name: each.requirements for name, each in self.stock.stated.items()}

    def goods(self, scope: Scope) -> Goods:
        """What there is for the scope before reservations and shortages."""
        traits = ami_family(scope.node_class.spec).traits
        reaches = self._in_force(scope, traits)
        key = (traits, tuple(each.overlay.name for each in reaches))
        found = self._goods.get(key)
        if found is None:
            found = self._goods[key] = self._made(reaches)
        return found

    def _made(self, reaches: Sequence[Reach]) -> Goods:
        lots, remarks = self._declared(overlaid_lots(self._priced[0], reaches))
        return Goods(lots=lots, overlaid=overlaid_capacity(reaches), remarks=tuple(remarks))

    @cached_property
    def _priced(self) -> tuple[Lots, list[Remark]]:
        cloud = self._supply.cloud
        if cloud is None:
            return self.stock.lots, []
        return cloud_prices.priced(cloud, self.stock.lots)

    def _declared(self, lots: Lots) -> tuple[Lots, list[Remark]]:
        changed: dict[str, tuple[Lot, ...]] = {}
        remarks: list[Remark] = []
        for name, item in self.declarations.items():
            changed[name], doubts = declared(item, lots[name], self.stock.zones)
            remarks += doubts
        return ({**lots, **changed} if changed else lots), remarks

    @cached_property
    def _overlays(self) -> list[Overlay]:
        on = self._supply.gates.node_overlay
        return in_order([overlay(item) for item in self._supply.overlays]) if on else []

    def _in_force(self, scope: Scope, traits: Traits) -> list[Reach]:
        if not self._overlays:
            return []
        void, stated = self._void, scope.stated()
        reaches = [each for each in self._reach(traits) if each.overlay.name not in void]
        return [each for each in reaches if each.admits(stated)]

    def _reach(self, traits: Traits) -> tuple[Reach, ...]:
        found = self._reaches.get(traits)
        if found is None:
            ground = Ground(self.described(traits), self._priced[0])
            found = tuple(reach(each, ground) for each in self._overlays)
            self._reaches[traits] = found
        return found

    @cached_property
    def _void(self) -> Mapping[str, Remark]:
        """Overlays that conflict in one scope are void in all of them."""
        by_system: dict[Traits, list[Mapping[str, str]]] = {}
        for scope in self._supply.scopes:
            traits = ami_family(scope.node_class.spec).traits
            by_system.setdefault(traits, []).append(scope.stated())
        void: dict[str, Remark] = {}
        for traits, stated in by_system.items():
            void |= conflicts(self._reach(traits), stated)
        return void

    @cached_property
    def remarks(self) -> tuple[Remark, ...]:
        """What is to be said whatever the class."""
        return (
            *self.stock.remarks,
            *self._priced[1],
            *self._unknown(),
            *(self._void.values() if self._overlays else ()),
            *self._pointless(),
            *self._switched_off(),
        )

    def _unknown(self) -> list[Remark]:
        known = list(self.stock.lots)
        return [
            warning(
                "InstanceType",
                item.metadata.name,
                ("metadata", "name"),
                f"there is no instance type {item.metadata.name} here: nothing changes",
                did_you_mean(item.metadata.name, known),
            )
            for item in self._supply.instance_types
            if item.metadata.name not in self.stock.lots
        ]

    def _pointless(self) -> list[Remark]:
        """Overlays that mean nothing that exists, under any system."""
        meant = {
            each.overlay.name
            for reaches in self._reaches.values()
            for each in reaches
            if each.sites
        }
        idle = [each for each in self._overlays if self._reaches and each.name not in meant]
        return [
            warning(
                "NodeOverlay",
                each.name,
                ("spec", "requirements"),
                "no instance type and no offering is meant by these requirements",
                _hint(each),
            )
            for each in idle
        ]

    def _switched_off(self) -> list[Remark]:
        if self._supply.gates.node_overlay:
            return []
        message = "not applied: the feature gate NodeOverlay is off"
        return [
            warning(item.kind, item.metadata.name, (), message) for item in self._supply.overlays
        ]


def _hint(idle: Overlay) -> str:
    meant = [(key, suggestion(key)) for key in idle.requirements]
    return "; ".join(f"{key}: did you mean {known}?" for key, known in meant if known)
