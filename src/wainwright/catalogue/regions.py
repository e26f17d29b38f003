"""Regions: their zones, and which instance types are offered in which of them.

Zone names differ from account to account, zone ids do not. Offerings are known by zone id; the
names are those of a model account in which names and ids have the same order (a, b, c … are az1,
az2, az3 …), except for the two zones of us-east-1 that have the same names nearly everywhere.
"""

from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from types import MappingProxyType

import msgspec

from wainwright import data
from wainwright.catalogue.instancetypes import instance_type_info
from wainwright.errors import InvalidInputError
from wainwright.model.labels import region_of_zone

REGIONS_FILE = "regions.json"
NOT_OFFERED = "."


class Zone(msgspec.Struct, frozen=True):
    name: str
    id: str


class Region(msgspec.Struct, frozen=True, kw_only=True):
    """A region, with the zones of each instance type that it offers, both sorted by name."""

    name: str
    zones: tuple[Zone, ...]
    offered: Mapping[str, tuple[Zone, ...]]

    def zones_of(self, instance_type: str) -> tuple[Zone, ...]:
        """The zones that offer the type; none if the region does not have it."""
        return self.offered.get(instance_type, ())


class RegionRow(msgspec.Struct, frozen=True, kw_only=True):
    """A region in the data file: each letter of `types` names the zone set of one instance type.

    Most types share a few sets of zones: a letter per type keeps the file small.
    """

    zones: dict[str, str]
    sets: dict[str, tuple[str, ...]]
    types: str


class RegionTable(msgspec.Struct, frozen=True, kw_only=True):
    source: str
    regions: dict[str, RegionRow]


@cache
def load_region_table() -> RegionTable:
    return msgspec.json.decode(data.read_data_file(REGIONS_FILE), type=RegionTable)


def region_names() -> tuple[str, ...]:
    return tuple(sorted(load_region_table().regions))


@cache
def load_region(name: str) -> Region:
    """The region of this name; raises InvalidInputError for an unknown one."""
    row = load_region_table().regions.get(name)
    if row is None:
        raise unknown_region_error(name)
    zones = {zone: Zone(zone, zone_id) for zone, zone_id in sorted(row.zones.items())}
    sets = {letter: tuple(zones[zone] for zone in members) for letter, members in row.sets.items()}
    letters = zip(instance_type_info.built_in_instance_types(), row.types, strict=True)
    offered = {type_name: sets[letter] for type_name, letter in letters if letter != NOT_OFFERED}
    return Region(name=name, zones=tuple(zones.values()), offered=MappingProxyType(offered))


def region_of(value: str) -> str | None:
    """The region of this name, or of a zone or zone id; None where the data have no such region."""
    table = load_region_table().regions
    region = region_of_zone(value) or _regions_by_zone_id().get(value, value)
    return region if region in table else None


@cache
def _regions_by_zone_id() -> dict[str, str]:
    rows = load_region_table().regions.items()
    return {zone_id: region for region, row in rows for zone_id in row.zones.values()}


def unknown_region_error(name: str) -> InvalidInputError:
    """The error for a region without data, with the regions that have some."""
    if name.startswith("cn-"):
        return InvalidInputError(
            f"the built-in catalogue has no prices for {name} yet", "name another region"
        )
    near = get_close_matches(name, region_names(), n=1)
    known = f"did you mean {near[0]}?" if near else f"one of {', '.join(region_names())}"
    return InvalidInputError(f"the built-in catalogue does not know the region {name!r}", known)
