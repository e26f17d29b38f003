"""What the emulated region offers: zones, instance types, and the list price of every offering."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import cached_property
from typing import Final, TypeAlias

import msgspec

from wainwright.api.catalog_documents import Cloud, CloudPrice
from wainwright.api.field_error import did_you_mean
from wainwright.catalogue.diagnostics import ObjectDiagnostic, object_error, object_warning
from wainwright.catalogue.instancetypes import instance_type_info
from wainwright.catalogue.instancetypes.instance_type_info import InstanceTypeInfo
from wainwright.catalogue.offerings import cloud_adjustments
from wainwright.catalogue.offerings.layered_offering import LayeredOffering
from wainwright.catalogue.region_catalog import CatalogInputs, RegionCatalog, load_region_catalog

OfferingKey: TypeAlias = tuple[str, str, str]
"""Instance type, zone, capacity type."""

ON_DEMAND: Final = "on-demand"
SPOT: Final = "spot"
ANY_TIME: Final = datetime.fromtimestamp(0, UTC)  # nothing that is asked for here hangs on the time


class RegionOfferings(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Nothing in it changes while the emulator runs."""

    region: str
    zones: Mapping[str, str]
    """Names with their ids, in order."""
    machines: Mapping[str, InstanceTypeInfo]
    offered: Mapping[str, tuple[str, ...]]
    """By type, the names of the zones that have it."""
    prices: Mapping[OfferingKey, float]
    """USD per hour; a pool that nobody knows a price of is not in it."""
    remarks: tuple[ObjectDiagnostic, ...] = ()
    """What of the Cloud is probably not meant as it is written."""

    @cached_property
    def pools(self) -> frozenset[OfferingKey]:
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

    def meant(self, price: CloudPrice) -> Iterable[OfferingKey]:
        """The pools that a price of the Cloud is for."""
        zones = self.offered.get(price.instanceType, ())
        for zone in zones if price.zone is None else {price.zone}.intersection(zones):
            yield price.instanceType, zone, price.capacityType


def load_region_offerings(cloud: Cloud | None) -> RegionOfferings:
    """What the Cloud describes; without one us-east-1. InvalidInputError if contradictory."""
    found = load_region_catalog(CatalogInputs(now=ANY_TIME, cloud=cloud))
    machines = instance_type_info.built_in_instance_types()
    return RegionOfferings(
        region=found.region,
        zones=found.zones,
        machines={name: machines[name] for name in found.offerings},
        offered={name: _offered_zones(lots) for name, lots in found.offerings.items()},
        prices={
            (name, lot.zone or "", lot.capacity_type or ""): lot.price
            for name, lots in found.offerings.items()
            for lot in lots
            if lot.price is not None
        },
        remarks=(
            *found.diagnostics,
            *_unmatched_entries(cloud, found),
            *_reservations_outside_zones(cloud, found),
        ),
    )


def _unmatched_entries(cloud: Cloud | None, found: RegionCatalog) -> list[ObjectDiagnostic]:
    """Prices and shortages of things that there are none of."""
    if cloud is None or not (cloud.spec.prices or cloud.spec.unavailable):
        return []
    lots, unpriced = cloud_adjustments.apply_cloud_prices(cloud, found.offerings)
    return [*unpriced, *cloud_adjustments.apply_unavailability(cloud, lots, found.zones)[1]]


def _reservations_outside_zones(
    cloud: Cloud | None, found: RegionCatalog
) -> Iterator[ObjectDiagnostic]:
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
            raise object_error("Cloud", name, path, message, hint)
        message = f"{entry.id} lies in {zone}, which spec.zones leaves out: so is the reservation"
        yield object_warning("Cloud", name, path, message)


def _offered_zones(lots: Iterable[LayeredOffering]) -> tuple[str, ...]:
    return tuple(sorted({lot.zone for lot in lots if lot.zone is not None}))
