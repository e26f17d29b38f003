"""Goods: what the emulated region has to offer: zones, machines, and list prices of all pools."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import cached_property
from typing import Final, TypeAlias

import msgspec

from wainwright.api.cloud import Cloud, CloudPrice
from wainwright.api.fault import did_you_mean
from wainwright.catalogue import builtin, cloud_prices, shortage
from wainwright.catalogue.lots import Lot
from wainwright.catalogue.machine import Machine
from wainwright.catalogue.remarks import Remark, refusal, warning
from wainwright.catalogue.stock import Stock, stock
from wainwright.catalogue.supply import Supply

Pool: TypeAlias = tuple[str, str, str]
"""Instance type, zone, capacity type."""

ON_DEMAND: Final = "on-demand"
SPOT: Final = "spot"
NEVER: Final = datetime.fromtimestamp(0, UTC)  # nothing that is asked for here hangs on the time


class Goods(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Nothing in it changes while the emulator runs."""

    region: str
    zones: Mapping[str, str]
    """Names with their ids, in order."""
    machines: Mapping[str, Machine]
    offered: Mapping[str, tuple[str, ...]]
    """By type, the names of the zones that have it."""
    prices: Mapping[Pool, float]
    """USD per hour; a pool that nobody knows a price of is not in it."""
    remarks: tuple[Remark, ...] = ()
    """What of the Cloud is probably not meant as it is written."""

    @cached_property
    def pools(self) -> frozenset[Pool]:
        """Everything that can be bought here, at a known price or not."""
        return frozenset(
            (name, zone, capacity_type)
            for name, zones in self.offered.items()
            for capacity_type in self.machines[name].capacity_types
            for zone in zones
        )

    @cached_property
    def zone_names(self) -> Mapping[str, str]:
        """Zone ids with their names."""
        return {identity: name for name, identity in self.zones.items()}

    def meant(self, price: CloudPrice) -> Iterable[Pool]:
        """The pools that a price of the Cloud is for."""
        zones = self.offered.get(price.instanceType, ())
        for zone in zones if price.zone is None else {price.zone}.intersection(zones):
            yield price.instanceType, zone, price.capacityType


def goods(cloud: Cloud | None) -> Goods:
    """What the Cloud describes; without one us-east-1. BadInput where it contradicts itself."""
    found = stock(Supply(now=NEVER, cloud=cloud))
    machines = builtin.machines()
    return Goods(
        region=found.region,
        zones=found.zones,
        machines={name: machines[name] for name in found.lots},
        offered={name: _zones(lots) for name, lots in found.lots.items()},
        prices={
            (name, lot.zone or "", lot.capacity_type or ""): lot.price
            for name, lots in found.lots.items()
            for lot in lots
            if lot.price is not None
        },
        remarks=(*found.remarks, *_doubts(cloud, found), *_left_out(cloud, found)),
    )


def _doubts(cloud: Cloud | None, found: Stock) -> list[Remark]:
    """Prices and shortages of things that there are none of."""
    if cloud is None or not (cloud.spec.prices or cloud.spec.unavailable):
        return []
    lots, unpriced = cloud_prices.priced(cloud, found.lots)
    return [*unpriced, *shortage.out_of_stock(cloud, lots, found.zones)[1]]


def _left_out(cloud: Cloud | None, found: Stock) -> Iterator[Remark]:
    """Reservations in zones that the Cloud has left out; one of no zone at all is refused."""
    entries = [] if cloud is None else cloud.spec.capacityReservations or []
    for index, entry in enumerate(entries):
        zone = entry.availabilityZone
        if cloud is None or zone in found.zones:
            continue
        name = cloud.metadata.name
        path = ("spec", "capacityReservations", index, "availabilityZone")
        if zone not in found.all_zones:
            message = f"{entry.id} lies in {zone}, which {found.region} does not have"
            hint = did_you_mean(zone, list(found.zones)) or f"one of {', '.join(found.zones)}"
            raise refusal("Cloud", name, path, message, hint)
        message = f"{entry.id} lies in {zone}, which spec.zones leaves out: so is the reservation"
        yield warning("Cloud", name, path, message)


def _zones(lots: Iterable[Lot]) -> tuple[str, ...]:
    return tuple(sorted({lot.zone for lot in lots if lot.zone is not None}))
