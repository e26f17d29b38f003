"""Built-in offerings: one lot per zone and capacity type of every machine that a region has."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Final, TypeAlias

import msgspec

from wainwright.catalogue import builtin, prices, regions
from wainwright.catalogue.lazily import Lazily
from wainwright.catalogue.lots import Layer, Lot, Lots, Step, offerings
from wainwright.catalogue.machine import Machine
from wainwright.catalogue.prices import Basis
from wainwright.catalogue.regions import Zone
from wainwright.catalogue.spot import ratio, spot_prices
from wainwright.model.instance_type import Offering
from wainwright.model.labels import CAPACITY_TYPE, ON_DEMAND, SPOT, ZONE, ZONE_ID
from wainwright.model.requirements import Requirements

FACTORS: Final = {
    Basis.MEDIAN: "the median over all families: a few percent off for some",
    Basis.ONE_FAMILY: "taken from one family: rough",
    Basis.UNKNOWN: "a guess: no price of this region is known",
}

Markets: TypeAlias = tuple[str, Requirements, Requirements]
"""A zone, with the labels of what is bought there on demand and as spot."""


class Base(msgspec.Struct, frozen=True, kw_only=True):
    """What a region sells before anybody has a say in it; both mappings have the same names."""

    lots: Lots
    offerings: Mapping[str, tuple[Offering, ...]]


@cache
def base(region: str) -> Base:
    """Computed once per region: no class changes it."""
    machines, found = builtin.machines(), regions.region(region)
    markets = {zone.name: (_market(zone, ON_DEMAND), _market(zone, SPOT)) for zone in found.zones}

    def made(name: str) -> tuple[Lot, ...]:
        places = [(zone.name, *markets[zone.name]) for zone in found.offered[name]]
        return _lots(machines[name], region, places)

    lots = Lazily(found.offered, made)
    return Base(lots=lots, offerings=Lazily(lots, lambda name: offerings(lots[name])))


def _market(zone: Zone, capacity_type: str) -> Requirements:
    """The labels of a node that is bought this way, one object for all types."""
    return Requirements.from_labels(
        {CAPACITY_TYPE: capacity_type, ZONE: zone.name, ZONE_ID: zone.id}
    )


def _lots(machine: Machine, region: str, markets: Sequence[Markets]) -> tuple[Lot, ...]:
    """A type without a price has lots all the same: a later layer may price them."""
    listed = prices.on_demand(machine.name, region)
    usd = None if listed is None else listed.usd
    spot: Mapping[str, float] = {}
    if usd is not None and machine.spot:
        names = [zone for zone, _, _ in markets]
        spot = spot_prices(machine, region=region, zones=names, on_demand=usd)
    made = []
    for zone, on_demand, on_spot in markets:
        made.append(Lot(requirements=on_demand, price=usd))
        if machine.spot:
            made.append(Lot(requirements=on_spot, price=spot.get(zone)))
    return tuple(made)


def origin(name: str, region: str, lot: Lot) -> Step:
    """Where the price at the bottom of a built-in lot comes from."""
    listed = prices.on_demand(name, region)
    if listed is None:
        how = "no price is known for this type"
        return Step(layer=Layer.LIST, source="us-east-1", before=None, after=None, how=how)
    if lot.capacity_type == SPOT and lot.zone is not None:
        share = ratio(builtin.machines()[name], region, lot.zone)
        how = f"a model: {share:.1%} of the on-demand price {listed.usd}"
        return Step(
            layer=Layer.SPOT_MODEL, source=region, before=listed.usd, after=lot.base, how=how
        )
    how = _basis(listed)
    return Step(layer=Layer.LIST, source="us-east-1", before=None, after=lot.base, how=how)


def _basis(price: prices.Price) -> str:
    rule = "by the rule of its family" if price.by_family else "listed for the type itself"
    if price.basis is Basis.BASE:
        return f"{rule}, within 0.5 % of the list"
    return f"{price.list_usd} in us-east-1 ({rule}) × {price.factor}, {FACTORS[price.basis]}"
