"""Layers: the catalogue of a class, put together from the bottom up.

Built-in types or a Catalog, the Cloud's zones and types, the Cloud's prices, NodeOverlays,
InstanceType objects, capacity reservations, and what is out of stock: each layer sees what the
ones below it made. What does not depend on the class is made once and shared by all of them.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from wainwright.api.ec2nodeclass import EC2NodeClass
from wainwright.catalogue import builtin
from wainwright.catalogue import offerings as built_in
from wainwright.catalogue.built import Built
from wainwright.catalogue.compatibility import Incompatible, incompatible
from wainwright.catalogue.fees import disk, fee
from wainwright.catalogue.lots import Lots, offerings, resettled
from wainwright.catalogue.nodeclass import ami_family, settings_of
from wainwright.catalogue.overrides import override
from wainwright.catalogue.remarks import Remark, warning
from wainwright.catalogue.reservations import Selected, check_times, idle_terms
from wainwright.catalogue.reserving import Place, brought, left_out, reserved_lots, standings
from wainwright.catalogue.settings import NO_OVERRIDE, ClassSettings
from wainwright.catalogue.shapes import Shape, Size, shape, size, sizes
from wainwright.catalogue.shelf import Goods, Shelf
from wainwright.catalogue.shortage import empty, out_of_stock
from wainwright.catalogue.supply import Scope, Supply
from wainwright.collector import without_collector
from wainwright.model.instance_type import InstanceType

WITHOUT_EFFECT: Final = ("kubelet", "blockDeviceMappings", "instanceStorePolicy")
"""Settings that change what a pod gets of a machine, but not of a type that a Catalog states."""


class Catalogues:
    """The catalogues of all classes and pools of one input."""

    def __init__(self, supply: Supply) -> None:
        self._supply = supply
        self._shelf = Shelf(supply)
        self._built: list[tuple[EC2NodeClass, Goods, Built]] = []
        self._sizes: list[tuple[ClassSettings, dict[str, Size]]] = []

    def of(self, scope: Scope) -> Built:
        """The catalogue for the scope; Refused where the input contradicts itself.

        Pools that share a class and its overlays get the same object.
        """
        with without_collector():
            goods = self._shelf.goods(scope)
            for node_class, known, built in self._built:
                if known is goods and node_class == scope.node_class:
                    return built
            made = self._make(scope.node_class, goods)
        self._built.append((scope.node_class, goods, made))
        return made

    def _make(self, node_class: EC2NodeClass, goods: Goods) -> Built:
        settings = self._settings(node_class)
        lots, selected, remarks = self._reserved(node_class, goods.lots)
        lots, doubts = self._short(lots)
        unusable = self._incompatible(settings, lots)
        lots = {**lots, **{name: tuple(map(empty, lots[name])) for name in unusable}}
        lots = self._settled(lots)
        measured = self._measured(settings, goods, lots)
        fees, stock = self._fees(settings, measured), self._shelf.stock
        said = [*self._shelf.remarks, *goods.remarks, *self._pointless(node_class), *remarks]
        return Built(
            region=stock.region,
            zones=stock.zones,
            types=self._types(node_class, lots, measured, fees),
            settings=settings,
            sizes=measured,
            lots=MappingProxyType(dict(lots)),
            incompatible=unusable,
            reservations=tuple(selected),
            fees=fees,
            remarks=(*said, *doubts),
        )

    def _settings(self, node_class: EC2NodeClass) -> ClassSettings | None:
        if self._shelf.stock.stated is not None:
            return None
        return settings_of(node_class, self._supply.options)

    def _reserved(
        self, node_class: EC2NodeClass, lots: Lots
    ) -> tuple[Lots, list[Selected], list[Remark]]:
        cloud, stock = self._supply.cloud, self._shelf.stock
        if not self._supply.gates.capacity_reservations:
            return _without_reserved(lots), [], []
        if cloud is None:
            return lots, self._brought(lots), idle_terms(node_class, None)
        check_times(cloud)
        place = Place(
            cloud=cloud,
            family=ami_family(node_class.spec),
            zones=stock.zones,
            all_zones=stock.all_zones,
            now=self._supply.now,
        )
        found = standings(place, node_class, lots)
        lots, remarks = reserved_lots(place, found, lots)
        named = {each.reservation.id for each in found}
        others = [each for each in self._brought(lots) if each.reservation.id not in named]
        said = [*idle_terms(node_class, cloud), *left_out(cloud, found), *remarks]
        return lots, [*found, *others], said

    def _brought(self, lots: Lots) -> list[Selected]:
        return brought(lots) if self._shelf.stock.stated is not None else []

    def _short(self, lots: Lots) -> tuple[Lots, list[Remark]]:
        cloud = self._supply.cloud
        if cloud is None or not cloud.spec.unavailable:
            return lots, []
        return out_of_stock(cloud, lots, self._shelf.stock.zones)

    def _incompatible(self, settings: ClassSettings | None, lots: Lots) -> dict[str, Incompatible]:
        if settings is None:
            return {}
        machines = builtin.machines()
        found = {name: incompatible(machines[name], settings) for name in lots}
        return {name: why for name, why in found.items() if why is not None}

    def _settled(self, lots: Lots) -> Lots:
        """In final order. Lots with equal labels stand by price and count, which have changed.

        Only a Catalog or an InstanceType object can bring such lots.
        """
        stock = self._shelf.stock
        doubtful = self._shelf.declarations if stock.stated is None else lots
        return {**lots, **{name: resettled(lots[name]) for name in doubtful}}

    def _measured(
        self, settings: ClassSettings | None, goods: Goods, lots: Lots
    ) -> Mapping[str, Size]:
        """Sizes, with what overlays and InstanceType objects say about them."""
        plain = self._plain(settings)
        special = goods.overlaid.keys() | self._shelf.declarations.keys()
        return {
            name: self._special(name, settings, goods) if name in special else plain[name]
            for name in lots
        }

    def _plain(self, settings: ClassSettings | None) -> dict[str, Size]:
        stated = self._shelf.stock.stated
        if settings is None:
            return {name: size(each.shape(NO_OVERRIDE)) for name, each in (stated or {}).items()}
        for known, found in self._sizes:
            if known == settings:
                return found
        machines = builtin.machines()
        made = sizes({name: machines[name] for name in self._shelf.stock.lots}, settings)
        self._sizes.append((settings, made))
        return made

    def _special(self, name: str, settings: ClassSettings | None, goods: Goods) -> Size:
        """An InstanceType object wins over an overlay, resource by resource."""
        item = self._shelf.declarations.get(name)
        own = NO_OVERRIDE if item is None else override(item)
        stated = self._shelf.stock.stated
        if settings is None:
            made = (stated or {})[name].shape(own)
        else:
            made = shape(builtin.machines()[name], settings, own)
        overlaid = goods.overlaid.get(name, {})
        added = {key: overlaid[key] for key in overlaid if key not in own.resources}
        return size(Shape(capacity={**made.capacity, **added}, overhead=made.overhead))

    def _types(
        self,
        node_class: EC2NodeClass,
        lots: Lots,
        measured: Mapping[str, Size],
        fees: Mapping[str, float],
    ) -> tuple[InstanceType, ...]:
        described = self._shelf.described(ami_family(node_class.spec).traits)
        bottom = self._bottom()
        return tuple(
            InstanceType(
                name=name,
                requirements=described[name],
                capacity=measured[name].capacity,
                overhead=measured[name].overhead,
                offerings=bottom.offerings[name]
                if bottom is not None and each is bottom.lots[name]
                else offerings(each),
                fee=fees.get(name, 0.0),
            )
            for name, each in sorted(lots.items())
        )

    def _bottom(self) -> built_in.Base | None:
        stock = self._shelf.stock
        return built_in.base(stock.region) if stock.stated is None else None

    def _fees(
        self, settings: ClassSettings | None, measured: Mapping[str, Size]
    ) -> dict[str, float]:
        fees = None if self._supply.cloud is None else self._supply.cloud.spec.fees
        if fees is None or not (fees.perNode or fees.perGiBDisk):
            return {}
        return {name: fee(fees, disk(settings, each)) for name, each in measured.items()}

    def _pointless(self, node_class: EC2NodeClass) -> list[Remark]:
        """Settings of the class that have no effect here."""
        name, spec = node_class.metadata.name, node_class.spec
        found = []
        if self._shelf.stock.stated is not None:
            message = "has no effect: a Catalog states capacity and overhead itself"
            fields = [field for field in WITHOUT_EFFECT if getattr(spec, field) is not None]
            found += [warning(node_class.kind, name, ("spec", field), message) for field in fields]
        terms = spec.capacityReservationSelectorTerms
        if terms and not self._supply.gates.capacity_reservations:
            path = ("spec", "capacityReservationSelectorTerms")
            message = "not used: the feature gate CapacityReservations is off"
            found.append(warning(node_class.kind, name, path, message))
        return found


def _without_reserved(lots: Lots) -> Lots:
    """Reserved lots of a Catalog are part of what the gate switches."""
    return {
        name: tuple(lot for lot in each if not lot.reserved)
        if any(lot.reserved for lot in each)
        else each
        for name, each in lots.items()
    }


def catalogue(supply: Supply, scope: Scope) -> Built:
    """The catalogue of one class; where there are several, `Catalogues` shares their work."""
    every = supply.scopes if scope in supply.scopes else (*supply.scopes, scope)
    return Catalogues(msgspec.structs.replace(supply, scopes=every)).of(scope)
