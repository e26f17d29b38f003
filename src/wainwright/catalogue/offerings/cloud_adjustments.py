"""What a Cloud object changes about offerings: prices, availability, and fees per node.

Fees are what a node costs besides its instance, by the node and by the GiB of its volumes.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import TypeAlias

import msgspec

from wainwright.api.catalog_documents import Cloud, CloudFees, CloudPrice, UnavailableOffering
from wainwright.api.field_error import did_you_mean
from wainwright.catalogue.diagnostics import ObjectDiagnostic, object_warning
from wainwright.catalogue.instancetypes.capacity import NodeResources
from wainwright.catalogue.instancetypes.derived_amount import GIB, DerivationRule
from wainwright.catalogue.instancetypes.node_class_settings import AmiFamily, NodeClassSettings
from wainwright.catalogue.offerings.layered_offering import (
    LayeredOffering,
    LayeredOfferings,
    PriceLayer,
    PriceStep,
    sort_offerings,
)
from wainwright.model.labels import ZONE, ZONE_ID
from wainwright.model.requirements import Requirements
from wainwright.model.resources import EPHEMERAL_STORAGE


@lru_cache(maxsize=1024)  # a pattern is matched against every type
def _compile_pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL)


def matches_pattern(pattern: str, name: str) -> bool:
    return _compile_pattern(pattern).fullmatch(name) is not None


PriceEntryIndex: TypeAlias = dict[tuple[str, str | None], int]
"""Capacity type and zone to the index of the price entry for them."""


def apply_cloud_prices(
    cloud: Cloud, offerings: LayeredOfferings
) -> tuple[LayeredOfferings, list[ObjectDiagnostic]]:
    """The offerings at the Cloud's prices, and warnings about prices without an offering."""
    entries = cloud.spec.prices or []
    diagnostics: list[ObjectDiagnostic] = []
    by_type: dict[str, PriceEntryIndex] = {}
    for index, entry in enumerate(entries):
        by_offering = by_type.setdefault(entry.instanceType, {})
        previous = by_offering.get((entry.capacityType, entry.zone))
        if previous is not None:
            diagnostics.append(_duplicate_price_warning(cloud, index, previous))
        by_offering[entry.capacityType, entry.zone] = index
    changed = {}
    for name in sorted(by_type.keys() & offerings.keys()):
        changed[name] = tuple(
            _apply_cloud_price(offering, by_type[name], cloud, entries)
            for offering in offerings[name]
        )
    diagnostics += _unused_price_warnings(cloud, entries, offerings)
    return ({**offerings, **changed} if changed else offerings), diagnostics


def _apply_cloud_price(
    offering: LayeredOffering,
    price_entries: PriceEntryIndex,
    cloud: Cloud,
    entries: list[CloudPrice],
) -> LayeredOffering:
    """The offering at the price for its zone, or else at that for all zones."""
    capacity_type = offering.capacity_type or ""
    index = price_entries.get(
        (capacity_type, offering.zone), price_entries.get((capacity_type, None))
    )
    if index is None or offering.is_reserved:
        return offering
    return offering.with_step(
        PriceStep(
            layer=PriceLayer.CLOUD,
            source=cloud.metadata.name,
            before=offering.price,
            after=entries[index].price,
            how=f"spec.prices[{index}]",
        )
    )


def _duplicate_price_warning(cloud: Cloud, index: int, previous: int) -> ObjectDiagnostic:
    message = f"prices the same as spec.prices[{previous}], and replaces it"
    return object_warning("Cloud", cloud.metadata.name, ("spec", "prices", index), message)


def _unused_price_warnings(
    cloud: Cloud, entries: list[CloudPrice], offerings: LayeredOfferings
) -> list[ObjectDiagnostic]:
    warnings = []
    for index, entry in enumerate(entries):
        path = ("spec", "prices", index)
        name, where = entry.instanceType, f" in {entry.zone}" if entry.zone else ""
        if name not in offerings:
            message, hint = f"there is no instance type {name}", did_you_mean(name, list(offerings))
            warnings.append(object_warning("Cloud", cloud.metadata.name, path, message, hint))
        elif not any(_is_priced_by(offering, entry) for offering in offerings[name]):
            message = f"{name} is not sold as {entry.capacityType}{where}"
            warnings.append(object_warning("Cloud", cloud.metadata.name, path, message))
    return warnings


def _is_priced_by(offering: LayeredOffering, entry: CloudPrice) -> bool:
    return offering.capacity_type == entry.capacityType and entry.zone in (None, offering.zone)


def apply_unavailability(
    cloud: Cloud, offerings: LayeredOfferings, zones: Mapping[str, str]
) -> tuple[LayeredOfferings, list[ObjectDiagnostic]]:
    """The offerings, with a count of zero for those that the Cloud lists as unavailable."""
    changed = dict(offerings)
    diagnostics = []
    for index, entry in enumerate(cloud.spec.unavailable or []):
        is_used = False
        for name in _types_named(entry, offerings):
            after = tuple(_mark_unavailable(changed[name], entry, zones))
            is_used = is_used or any(
                offering.available == 0 for offering in after if _is_unavailable(offering, entry)
            )
            # Sorted only where an offering was split by zone, which changes the labels.
            changed[name] = (
                after
                if _requirements_of(after) == _requirements_of(changed[name])
                else sort_offerings(after)
            )
        if not is_used:
            diagnostics.append(_unused_unavailable_warning(cloud, index))
    return changed, diagnostics


def _requirements_of(offerings: tuple[LayeredOffering, ...]) -> list[Requirements]:
    return [offering.requirements for offering in offerings]


def _types_named(entry: UnavailableOffering, offerings: LayeredOfferings) -> list[str]:
    pattern = entry.instanceType
    if pattern is None:
        return list(offerings)
    return (
        [pattern]
        if pattern in offerings
        else [name for name in offerings if matches_pattern(pattern, name)]
    )


def _mark_unavailable(
    offerings: Iterable[LayeredOffering], entry: UnavailableOffering, zones: Mapping[str, str]
) -> Iterator[LayeredOffering]:
    for offering in offerings:
        for part in _split_by_zone(offering, entry, zones):
            yield make_unavailable(part) if _is_unavailable(part, entry) else part


def _split_by_zone(
    offering: LayeredOffering, entry: UnavailableOffering, zones: Mapping[str, str]
) -> list[LayeredOffering]:
    """One offering per zone, where the offering is for any zone and the entry for one of them."""
    if entry.zone is None or offering.zone is not None or entry.zone not in zones:
        return [offering]
    if not _has_capacity_type(offering, entry):
        return [offering]
    return [_narrow_to_zone(offering, zone, zone_id) for zone, zone_id in zones.items()]


def _narrow_to_zone(offering: LayeredOffering, zone: str, zone_id: str) -> LayeredOffering:
    labels = {ZONE: zone, **({ZONE_ID: zone_id} if zone_id else {})}
    narrowed = offering.requirements.narrow(Requirements.from_labels(labels))
    return msgspec.structs.replace(offering, requirements=narrowed)


def _is_unavailable(offering: LayeredOffering, entry: UnavailableOffering) -> bool:
    return entry.zone in (None, offering.zone) and _has_capacity_type(offering, entry)


def _has_capacity_type(offering: LayeredOffering, entry: UnavailableOffering) -> bool:
    return entry.capacityType in (None, offering.capacity_type)


def make_unavailable(offering: LayeredOffering) -> LayeredOffering:
    return offering if offering.available == 0 else msgspec.structs.replace(offering, available=0)


def _unused_unavailable_warning(cloud: Cloud, index: int) -> ObjectDiagnostic:
    path = ("spec", "unavailable", index)
    message = "there is no such offering, so that nothing is out of stock for it"
    return object_warning("Cloud", cloud.metadata.name, path, message)


BOTTLEROCKET_ROOT_SIZE = 4 * GIB  # Bottlerocket has a separate volume for its operating system
DEFAULT_DISK_SIZE = 20 * GIB


def node_fee(fees: CloudFees, gibibytes: float) -> float:
    """USD per hour of a node with volumes of this size."""
    return fees.perNode + fees.perGiBDisk * gibibytes


def disk_gib(settings: NodeClassSettings | None, resources: NodeResources) -> float:
    """The total size of a node's volumes in GiB; local disks are part of the instance.

    With a Catalog the volumes are not known, and ephemeral storage is used in their place.
    """
    if settings is None:
        return resources.capacity.get(EPHEMERAL_STORAGE, 0) / GIB
    configured = sum(device.size or 0 for device in settings.block_devices)
    storage = resources.derived.capacity[EPHEMERAL_STORAGE]
    if storage.rule is DerivationRule.SIZED_TO_PODS:
        grown = storage.amount - int(storage.inputs["otherwise"])
        return ((configured or _default_disk_size(settings.ami_family)) + grown) / GIB
    return (configured or _default_disk_size(settings.ami_family)) / GIB


def _default_disk_size(family: AmiFamily) -> int:
    root_size = BOTTLEROCKET_ROOT_SIZE if family is AmiFamily.BOTTLEROCKET else 0
    return (family.traits.pod_device_size or DEFAULT_DISK_SIZE) + root_size
