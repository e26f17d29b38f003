"""What the emulated region offers: zones, instance types, and the list price of every offering."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import cached_property
from typing import Final, TypeAlias

import msgspec

from wainwright.api.catalog_documents import Cloud, CloudPrice
from wainwright.api.field_error import did_you_mean
from wainwright.catalogue.catalog_source import CatalogSource, offline_source
from wainwright.catalogue.diagnostics import ObjectDiagnostic, object_error, object_warning
from wainwright.catalogue.instancetypes import instance_type_info
from wainwright.catalogue.instancetypes.instance_type_info import InstanceTypeInfo
from wainwright.catalogue.offerings.capacity_state import apply_unavailability, stated_capacity
from wainwright.catalogue.offerings.cloud_adjustments import apply_cloud_prices
from wainwright.catalogue.offerings.layered_offering import LayeredOffering
from wainwright.catalogue.region_catalog import RegionCatalog, load_region_catalog

OfferingKey: TypeAlias = tuple[str, str, str]
"""Instance type, zone, capacity type."""

ON_DEMAND: Final = "on-demand"
SPOT: Final = "spot"
ANY_TIME: Final = datetime.fromtimestamp(0, UTC)  # nothing that is read here depends on the time


class RegionOfferings(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Constant while the emulator runs (`dict=True` is for the cached properties)."""

    region: str
    zones: Mapping[str, str]
    """Zone ids by zone name, in order."""
    instance_types: Mapping[str, InstanceTypeInfo]
    zones_by_type: Mapping[str, tuple[str, ...]]
    """The names of the zones that offer each instance type."""
    prices: Mapping[OfferingKey, float]
    """USD per hour; without the offerings whose price is unknown."""
    modelled_prices: frozenset[OfferingKey] = frozenset()
    """Offerings whose price is neither a list price nor stated by the Cloud."""
    remarks: tuple[ObjectDiagnostic, ...] = ()
    """Entries of the Cloud that are probably mistakes."""

    @cached_property
    def offering_keys(self) -> frozenset[OfferingKey]:
        """All offerings of the region, whether or not their price is known.

        Computed once: every launch and price query tests membership.
        """
        return frozenset(
            (name, zone, capacity_type)
            for name, zones in self.zones_by_type.items()
            for capacity_type in self.instance_types[name].capacity_types
            for zone in zones
        )

    @cached_property
    def zone_names(self) -> Mapping[str, str]:
        """Zone names by zone id."""
        return {identity: name for name, identity in self.zones.items()}

    def matching_offerings(self, price: CloudPrice) -> Iterable[OfferingKey]:
        """The offerings that a price of the Cloud applies to."""
        zones = self.zones_by_type.get(price.instanceType, ())
        for zone in zones if price.zone is None else {price.zone}.intersection(zones):
            yield price.instanceType, zone, price.capacityType


def load_region_offerings(cloud: Cloud | None) -> RegionOfferings:
    """The region of the Cloud, by default us-east-1; InvalidInputError if contradictory."""
    source = offline_source(cloud=cloud)
    catalog = load_region_catalog(source, cloud)
    built_in = instance_type_info.built_in_instance_types()
    return RegionOfferings(
        region=source.region,
        zones=catalog.zones,
        instance_types={name: built_in[name] for name in catalog.offerings},
        zones_by_type={
            name: _offered_zones(offerings) for name, offerings in catalog.offerings.items()
        },
        prices={
            (name, offering.zone or "", offering.capacity_type or ""): offering.price
            for name, offerings in catalog.offerings.items()
            for offering in offerings
            if offering.price is not None
        },
        modelled_prices=_modelled_prices(cloud, catalog),
        remarks=(
            *catalog.diagnostics,
            *_unmatched_entries(cloud, catalog),
            *_reservations_outside_zones(cloud, source, catalog),
        ),
    )


def _modelled_prices(cloud: Cloud | None, catalog: RegionCatalog) -> frozenset[OfferingKey]:
    """A price of the Cloud without a zone is for all of them."""
    stated = {
        (each.instanceType, each.zone, each.capacityType)
        for each in (cloud.spec.prices if cloud is not None else None) or ()
    }
    return frozenset(
        (name, offering.zone or "", offering.capacity_type or "")
        for name, offerings in catalog.offerings.items()
        for offering in offerings
        if offering.is_modelled
        and (name, offering.zone, offering.capacity_type) not in stated
        and (name, None, offering.capacity_type) not in stated
    )


def _unmatched_entries(cloud: Cloud | None, catalog: RegionCatalog) -> list[ObjectDiagnostic]:
    """Warnings about prices and unavailability that match no offering."""
    if cloud is None or not (cloud.spec.prices or cloud.spec.unavailable):
        return []
    offerings, unpriced = apply_cloud_prices(cloud, catalog.offerings)
    capacity = stated_capacity(cloud, ANY_TIME)
    unused = apply_unavailability(capacity.unavailable, offerings, catalog.zones)[1]
    return [*unpriced, *capacity.unused_key_warnings(unused)]


def _reservations_outside_zones(
    cloud: Cloud | None, source: CatalogSource, catalog: RegionCatalog
) -> Iterator[ObjectDiagnostic]:
    """Warnings about reservations in excluded zones; an unknown zone is an error."""
    entries = [] if cloud is None else cloud.spec.capacityReservations or []
    for index, entry in enumerate(entries):
        zone = entry.availabilityZone
        if cloud is None or zone in catalog.zones:
            continue
        name = cloud.metadata.name
        path = ("spec", "capacityReservations", index, "availabilityZone")
        if zone not in source.all_zones:
            message = f"{entry.id} lies in {zone}, which {source.region} does not have"
            hint = did_you_mean(zone, list(catalog.zones)) or f"one of {', '.join(catalog.zones)}"
            raise object_error("Cloud", name, path, message, hint)
        message = f"{entry.id} lies in {zone}, which spec.zones leaves out: so is the reservation"
        yield object_warning("Cloud", name, path, message)


def _offered_zones(offerings: Iterable[LayeredOffering]) -> tuple[str, ...]:
    return tuple(sorted({offering.zone for offering in offerings if offering.zone is not None}))
