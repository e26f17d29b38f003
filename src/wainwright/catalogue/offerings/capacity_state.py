"""Capacity at one moment: reservations with their counts, and offerings without capacity.

Offline a Cloud states both; for a live account they are what EC2 has answered.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import NamedTuple

import msgspec

from wainwright.api.catalog_documents import Cloud, CloudReservation
from wainwright.api.field_error import FieldPath
from wainwright.catalogue.diagnostics import ObjectDiagnostic, object_warning
from wainwright.catalogue.offerings.cloud_adjustments import matches_pattern
from wainwright.catalogue.offerings.layered_offering import (
    LayeredOffering,
    LayeredOfferings,
    sort_offerings,
)
from wainwright.model.labels import ZONE, ZONE_ID
from wainwright.model.requirements import Requirements


class UnavailableKey(NamedTuple):
    """Offerings without capacity: instance type, zone and capacity type; None matches all."""

    instance_type: str | None
    """In a Cloud it can be a pattern with `*`."""
    zone: str | None
    capacity_type: str | None


class CapacityState(msgspec.Struct, frozen=True, kw_only=True):
    now: datetime
    """With a time zone; only reservations with a start or end depend on it."""
    reservations: tuple[CloudReservation, ...] = ()
    unavailable: tuple[UnavailableKey, ...] = ()
    from_account: bool = False
    """Whether EC2 has answered it; otherwise a Cloud states it, and warnings name its fields."""
    cloud_name: str = ""

    def reservation_warning(
        self, reservation: CloudReservation, field: FieldPath, message: str, hint: str = ""
    ) -> ObjectDiagnostic:
        """A warning about a reservation, or about one field of it."""
        if self.from_account:
            return object_warning("capacity reservation", reservation.id, (), message)
        position = [each.id for each in self.reservations].index(reservation.id)
        path = ("spec", "capacityReservations", position, *field)
        return object_warning("Cloud", self.cloud_name, path, message, hint)

    def unused_key_warnings(self, positions: Iterable[int]) -> list[ObjectDiagnostic]:
        """Warnings about unavailable keys without an offering; EC2 may well have stopped one."""
        message = "there is no such offering, so that nothing is out of stock for it"
        return [
            object_warning("Cloud", self.cloud_name, ("spec", "unavailable", position), message)
            for position in positions
            if not self.from_account
        ]


def stated_capacity(cloud: Cloud | None, now: datetime) -> CapacityState:
    """The capacity that the Cloud states."""
    if cloud is None:
        return CapacityState(now=now)
    return CapacityState(
        now=now,
        reservations=tuple(cloud.spec.capacityReservations or ()),
        unavailable=tuple(
            UnavailableKey(each.instanceType, each.zone, each.capacityType)
            for each in cloud.spec.unavailable or ()
        ),
        cloud_name=cloud.metadata.name,
    )


def apply_unavailability(
    unavailable: Iterable[UnavailableKey], offerings: LayeredOfferings, zones: Mapping[str, str]
) -> tuple[LayeredOfferings, list[int]]:
    """The offerings, with a count of zero for the unavailable ones.

    Also returned: the positions of keys that match no offering.
    """
    changed = dict(offerings)
    unused = []
    for position, key in enumerate(unavailable):
        is_used = False
        for name in _types_named(key, offerings):
            after = tuple(_mark_unavailable(changed[name], key, zones))
            is_used = is_used or any(
                offering.available == 0 for offering in after if _is_unavailable(offering, key)
            )
            # Sorted only where an offering was split by zone, which changes the labels.
            changed[name] = (
                after
                if _requirements_of(after) == _requirements_of(changed[name])
                else sort_offerings(after)
            )
        if not is_used:
            unused.append(position)
    return changed, unused


def _requirements_of(offerings: tuple[LayeredOffering, ...]) -> list[Requirements]:
    return [offering.requirements for offering in offerings]


def _types_named(key: UnavailableKey, offerings: LayeredOfferings) -> list[str]:
    pattern = key.instance_type
    if pattern is None:
        return list(offerings)
    return (
        [pattern]
        if pattern in offerings
        else [name for name in offerings if matches_pattern(pattern, name)]
    )


def _mark_unavailable(
    offerings: Iterable[LayeredOffering], key: UnavailableKey, zones: Mapping[str, str]
) -> Iterator[LayeredOffering]:
    for offering in offerings:
        for part in _split_by_zone(offering, key, zones):
            yield make_unavailable(part) if _is_unavailable(part, key) else part


def _split_by_zone(
    offering: LayeredOffering, key: UnavailableKey, zones: Mapping[str, str]
) -> list[LayeredOffering]:
    """One offering per zone, where the offering is for any zone and the key for one of them."""
    if key.zone is None or offering.zone is not None or key.zone not in zones:
        return [offering]
    if not _has_capacity_type(offering, key):
        return [offering]
    return [_narrow_to_zone(offering, zone, zone_id) for zone, zone_id in zones.items()]


def _narrow_to_zone(offering: LayeredOffering, zone: str, zone_id: str) -> LayeredOffering:
    labels = {ZONE: zone, **({ZONE_ID: zone_id} if zone_id else {})}
    narrowed = offering.requirements.narrow(Requirements.from_labels(labels))
    return msgspec.structs.replace(offering, requirements=narrowed)


def _is_unavailable(offering: LayeredOffering, key: UnavailableKey) -> bool:
    return key.zone in (None, offering.zone) and _has_capacity_type(offering, key)


def _has_capacity_type(offering: LayeredOffering, key: UnavailableKey) -> bool:
    return key.capacity_type in (None, offering.capacity_type)


def make_unavailable(offering: LayeredOffering) -> LayeredOffering:
    return offering if offering.available == 0 else msgspec.structs.replace(offering, available=0)
