"""What a Cloud object changes about offerings: prices, and fees per node.

Fees are what a node costs besides its instance, by the node and by the GiB of its volumes.
"""

import re
from functools import lru_cache
from typing import TypeAlias

from wainwright.api.catalog_documents import Cloud, CloudFees, CloudPrice
from wainwright.api.field_error import WordHints
from wainwright.catalogue.diagnostics import ObjectDiagnostic, object_warning
from wainwright.catalogue.instancetypes.capacity import NodeResources
from wainwright.catalogue.instancetypes.derived_amount import GIB, DerivationRule
from wainwright.catalogue.instancetypes.node_class_settings import AmiFamily, NodeClassSettings
from wainwright.catalogue.offerings.layered_offering import (
    LayeredOffering,
    LayeredOfferings,
    PriceLayer,
    PriceStep,
)
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
    warnings, hints = [], WordHints(offerings)
    for index, entry in enumerate(entries):
        path = ("spec", "prices", index)
        name, where = entry.instanceType, f" in {entry.zone}" if entry.zone else ""
        if name not in offerings:
            message, hint = f"there is no instance type {name}", hints.did_you_mean(name)
            warnings.append(object_warning("Cloud", cloud.metadata.name, path, message, hint))
        elif not any(_is_priced_by(offering, entry) for offering in offerings[name]):
            message = f"{name} is not offered as {entry.capacityType}{where}"
            warnings.append(object_warning("Cloud", cloud.metadata.name, path, message))
    return warnings


def _is_priced_by(offering: LayeredOffering, entry: CloudPrice) -> bool:
    return offering.capacity_type == entry.capacityType and entry.zone in (None, offering.zone)


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
