"""Market: what a region sells, in which zones and at which prices, as this account sees it."""

from collections.abc import Iterable, Mapping
from functools import cached_property

import msgspec

from wainwright.aws.machines import machines
from wainwright.aws.prices import NO_PRICES, Prices
from wainwright.aws.wire import Row
from wainwright.catalogue import builtin, prices, regions
from wainwright.catalogue.ami import Traits
from wainwright.catalogue.labels import ARCH, kin, kin_labels, own_labels
from wainwright.catalogue.lots import Lot, offerings
from wainwright.catalogue.machine import Machine
from wainwright.catalogue.offerings import Base
from wainwright.catalogue.spot import spot_prices
from wainwright.model.labels import CAPACITY_TYPE, ON_DEMAND, SPOT, ZONE, ZONE_ID
from wainwright.model.requirements import Requirement, Requirements
from wainwright.model.values import one_of


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """Instance types, zones, and which types are offered in which zones."""

    machines: Mapping[str, Machine]
    zones: Mapping[str, str]
    """Names with ids; an id is empty where nobody states it."""
    offered: Mapping[str, tuple[str, ...]]
    """Zones by type, both in order."""


def listing(types: Iterable[Row], offered: Iterable[Row], zones: Iterable[Row]) -> Listing:
    """What the three answers say together."""
    known = machines(types)
    places: dict[str, set[str]] = {}
    for row in offered:
        if row["InstanceType"] in known:
            places.setdefault(row["InstanceType"], set()).add(row["Location"])
    ids = {row["ZoneName"]: row.get("ZoneId", "") for row in zones}
    met = {zone for each in places.values() for zone in each}
    return Listing(
        machines=known,
        zones={zone: ids.get(zone, "") for zone in sorted(met | ids.keys())},
        offered={name: tuple(sorted(places[name])) for name in sorted(places)},
    )


def built_in(region: str) -> Listing:
    """What the committed catalogue knows of the region; BadInput where that is nothing."""
    found = regions.region(region)
    return Listing(
        machines=builtin.machines(),
        zones={zone.name: zone.id for zone in found.zones},
        offered={name: tuple(zone.name for zone in zones) for name, zones in found.offered.items()},
    )


class Market:
    """A listing with its prices. It never changes; what is derived from it is made once."""

    def __init__(self, region: str, listing: Listing, prices: Prices = NO_PRICES) -> None:
        self.region = region
        self.listing = listing
        self.prices = prices
        self._bases: dict[tuple[str, ...], Base] = {}
        self._described: dict[Traits, Mapping[str, Requirements]] = {}

    def base(self, zones: tuple[str, ...]) -> Base:
        """What is sold in these zones; types that are sold elsewhere only are not in it."""
        found = self._bases.get(zones)
        if found is None:
            found = self._bases[zones] = self._base(frozenset(zones))
        return found

    def described(self, traits: Traits) -> Mapping[str, Requirements]:
        """The labels of every type under an operating system."""
        found = self._described.get(traits)
        if found is None:
            found = self._described[traits] = _descriptions(self, traits)
        return found

    def on_demand(self, name: str) -> float | None:
        """As listed today, else as the built-in table has it."""
        listed = (self.prices.on_demand or {}).get(name)
        if listed is not None or self.region not in prices.table().regions:
            return listed
        known = prices.on_demand(name, self.region)
        return None if known is None else known.usd

    def spot(self, name: str, zones: tuple[str, ...]) -> Mapping[str, float]:
        """By zone, where it is sold as spot; a model of it where nobody knows the prices."""
        machine = self.listing.machines[name]
        if not machine.spot:
            return {}
        known = self.prices.spot
        if known is not None:
            return {zone: known[name, zone] for zone in zones if (name, zone) in known}
        usual = self.on_demand(name)
        if usual is None:
            return {}
        return spot_prices(machine, region=self.region, zones=zones, on_demand=usual)

    @cached_property
    def _labels(self) -> Mapping[tuple[str, str], Requirements]:
        """Of what is bought in a zone in one way; one object for all types."""
        return {
            (zone, way): Requirements.from_labels(_place(zone, identity, way))
            for zone, identity in self.listing.zones.items()
            for way in (ON_DEMAND, SPOT)
        }

    def _base(self, zones: frozenset[str]) -> Base:
        lots: dict[str, tuple[Lot, ...]] = {}
        for name, offered in self.listing.offered.items():
            here = tuple(zone for zone in offered if zone in zones)
            if here:
                lots[name] = self._lots(name, here)
        return Base(lots=lots, offerings={name: offerings(each) for name, each in lots.items()})

    def _lots(self, name: str, zones: tuple[str, ...]) -> tuple[Lot, ...]:
        """Without a price too: a later layer may have one."""
        usual, spot = self.on_demand(name), self.spot(name, zones)
        made: list[Lot] = []
        for zone in zones:
            made.append(Lot(requirements=self._labels[zone, ON_DEMAND], price=usual))
            if self.listing.machines[name].spot:
                made.append(Lot(requirements=self._labels[zone, SPOT], price=spot.get(zone)))
        return tuple(made)


def _place(zone: str, identity: str, way: str) -> dict[str, str]:
    return {CAPACITY_TYPE: way, ZONE: zone, **({ZONE_ID: identity} if identity else {})}


def _descriptions(market: Market, traits: Traits) -> dict[str, Requirements]:
    kindred: dict[tuple[str | int, ...], list[Requirement]] = {}
    made = {}
    for name in market.listing.offered:
        machine = market.listing.machines[name]
        relation = kin(machine)
        if relation not in kindred:
            kindred[relation] = _required(kin_labels(machine, traits, market.region))
        made[name] = Requirements([*kindred[relation], *_required(own_labels(machine))])
    return made


def _required(labels: Mapping[str, tuple[str, ...]]) -> list[Requirement]:
    """The word for an architecture that Kubernetes does not know is in brackets, which may not be
    in a label's value."""
    return [
        Requirement(
            key=key,
            allowed=one_of(value.strip("[]") for value in values)
            if key == ARCH
            else one_of(values),
        )
        for key, values in labels.items()
    ]
