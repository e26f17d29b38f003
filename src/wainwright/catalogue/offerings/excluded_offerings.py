"""Offerings that no node of a class can be launched through: their labels or zone exclude it.

An InstanceType object or a Catalog may list offerings for several operating systems, and zones that
do not exist or in which the class has no subnet. Such an offering stays in the list, without a
price, and the reason is the last step of its price.
"""

from collections.abc import Mapping

import msgspec

from wainwright.catalogue.offerings.layered_offering import LayeredOffering
from wainwright.model.labels import ZONE, ZONE_ID
from wainwright.model.requirements import Requirement, Requirements


class UsableZones(msgspec.Struct, frozen=True, kw_only=True):
    """The zones in which nodes can be launched, and why others are not among them."""

    region: str
    zones: Mapping[str, str]
    """Those in use with their ids; an id is empty where it is not known. None are known of a
    Catalog without zones: then every zone is usable."""
    source_zones: Mapping[str, str]
    """Those of the source, before a Cloud leaves some of them out."""
    all_zones: frozenset[str]

    def with_known_labels(self, labels: Mapping[str, str]) -> dict[str, str]:
        """The labels, with the zone id that the zone implies, or the zone that its id implies."""
        zone_id = self.zones.get(labels.get(ZONE, ""))
        if zone_id:
            return {ZONE_ID: zone_id, **labels}
        named = [zone for zone, each in self.zones.items() if each and each == labels.get(ZONE_ID)]
        return {ZONE: named[0], **labels} if named else dict(labels)

    def exclude(self, offering: LayeredOffering) -> LayeredOffering:
        """The offering, excluded if its zone cannot be used."""
        zone, zone_id = offering.zone, offering.requirements.single_value(ZONE_ID)
        if not self.zones or (zone is None and zone_id is None):
            return offering
        if zone is None:
            known = all(self.zones.values())
            return offering.exclude(ZONE_ID, self._unknown_id(zone_id)) if known else offering
        if zone not in self.zones:
            return offering.exclude(ZONE, self._unusable_zone(zone))
        if zone_id and self.zones[zone] not in ("", zone_id):
            return offering.exclude(ZONE_ID, f"{zone} has the id {self.zones[zone]}, not {zone_id}")
        return offering

    def _unknown_id(self, zone_id: str | None) -> str:
        usable = ", ".join(f"{each} ({zone})" for zone, each in self.zones.items())
        return f"no zone in use has the id {zone_id}; those in use are {usable}"

    def _unusable_zone(self, zone: str) -> str:
        if zone in self.source_zones:
            return f"the Cloud leaves the zone {zone} out"
        if zone in self.all_zones:
            return f"the class has no subnet with free addresses in {zone}"
        return f"{self.region} has no zone {zone}"


def exclude_contradicting(
    offerings: tuple[LayeredOffering, ...], type_labels: Requirements
) -> tuple[LayeredOffering, ...]:
    """The offerings of a type; those whose labels contradict its own are excluded.

    The same tuple where none does, so that unchanged types still share their offerings.
    """
    after = tuple(
        offering if offering.is_excluded else _exclude_contradiction(offering, type_labels)
        for offering in offerings
    )
    return after if any(a is not b for a, b in zip(after, offerings, strict=True)) else offerings


def _exclude_contradiction(offering: LayeredOffering, type_labels: Requirements) -> LayeredOffering:
    """The offering, excluded if it has another value of a label than nodes of the type have."""
    for key, theirs in offering.requirements.items():
        own = type_labels.find(key)
        if own is not None and not own.allowed.intersects(theirs.allowed):
            return offering.exclude(key, _describe_contradiction(own, theirs))
    return offering


def _describe_contradiction(own: Requirement, offered: Requirement) -> str:
    return f"nodes have {_values(own)}, the offering is for {_values(offered)}"


def _values(requirement: Requirement) -> str:
    allowed = requirement.allowed
    return (
        str(allowed) if allowed.open or not allowed.values else " or ".join(sorted(allowed.values))
    )


def excluded_by(offerings: tuple[LayeredOffering, ...]) -> str:
    """Why all of them are excluded, as text; empty where one is not, or there are none."""
    if not offerings or not all(offering.is_excluded for offering in offerings):
        return ""
    reasons = {f"{each.steps[-1].source}: {each.steps[-1].how}": None for each in offerings}
    return "; ".join(reasons)
