"""Instance types, zones and capacity types that a patch names: one that EC2 does not have matches
nothing, so that the patch would have no effect. What EC2 has elsewhere is no mistake.
"""

from collections.abc import Iterator
from typing import Final

from wainwright.api.catalog_documents import CloudPrice, UnavailableOffering
from wainwright.api.field_error import did_you_mean
from wainwright.catalogue.instancetypes.instance_type_info import built_in_instance_types
from wainwright.catalogue.label_values import known_label_values
from wainwright.catalogue.offerings.cloud_adjustments import matches_pattern
from wainwright.emulator.account_patch import AccountPatch
from wainwright.emulator.ec2.capacity_market import CapacityRule
from wainwright.emulator.ec2.region_offerings import ON_DEMAND, SPOT, RegionOfferings
from wainwright.errors import InvalidInputError
from wainwright.model.labels import RESERVED, ZONE

CAPACITY_TYPES: Final = (ON_DEMAND, SPOT, RESERVED)
OfferingEntry = CloudPrice | UnavailableOffering | CapacityRule
NamedField = tuple[str, str | None]
"""Where a name is written, and the name; None where it is left out."""


def check_offering_names(patch: AccountPatch, region: RegionOfferings) -> None:
    """InvalidInputError for the first name that EC2 does not have, with the one that was meant."""
    for field, name in _instance_types(patch):
        if name is not None and not _is_instance_type(name):
            known = [*region.instance_types, *_families(region)]
            hint = did_you_mean(name, known) or "name a type such as m5.large"
            raise InvalidInputError(f"{field}: there is no instance type {name}", hint)
    for field, name in _zones(patch):
        if name not in (None, *region.zones) and name not in known_label_values(ZONE):
            hint = did_you_mean(str(name), [*region.zones]) or f"one of {', '.join(region.zones)}"
            raise InvalidInputError(f"{field}: there is no zone {name}", hint)
    for index, rule in enumerate(patch.capacity_rules or ()):
        if rule.capacityType not in (None, *CAPACITY_TYPES):
            hint = did_you_mean(rule.capacityType, [*CAPACITY_TYPES])
            message = f'found "{rule.capacityType}", expected one of {", ".join(CAPACITY_TYPES)}'
            raise InvalidInputError(f"stock[{index}].capacityType: {message}", hint)


def _is_instance_type(pattern: str) -> bool:
    known = built_in_instance_types()
    return pattern in known or any(matches_pattern(pattern, name) for name in known)


def _families(region: RegionOfferings) -> list[str]:
    """As patterns: c5.* and so on."""
    return [*dict.fromkeys(f"{name.partition('.')[0]}.*" for name in region.instance_types)]


def _instance_types(patch: AccountPatch) -> Iterator[NamedField]:
    for field, entries in _entries(patch):
        for index, entry in enumerate(entries):
            yield f"{field}[{index}].instanceType", entry.instanceType
    for index, reservation in enumerate(patch.reservations or ()):
        yield f"capacityReservations[{index}].instanceType", reservation.instanceType


def _zones(patch: AccountPatch) -> Iterator[NamedField]:
    """Those of reservations are checked where these are added: they must be zones of the region."""
    for field, entries in _entries(patch):
        for index, entry in enumerate(entries):
            yield f"{field}[{index}].zone", entry.zone


def _entries(patch: AccountPatch) -> Iterator[tuple[str, list[OfferingEntry]]]:
    yield "prices", [*(patch.prices or ())]
    yield "unavailable", [*(patch.unavailable or ())]
    yield "stock", [*(patch.capacity_rules or ())]
