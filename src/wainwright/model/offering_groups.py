"""Offering groups: what sets offerings apart besides the instance type, as bits of an index.

All offerings of a catalogue that carry the same labels are one group, whatever their type. Zone
and capacity type make a dozen groups; every reservation and every further label adds some.
Labels that an offering implies without naming them (zone, capacity type, no reservation) are
made explicit here, so that no other module has to know the defaults.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import inf
from sys import float_info
from typing import Final, TypeAlias

import msgspec

from wainwright.model.bitset import MAX_CACHED_RESULTS, BitSet, LabelIndex, iter_bits, union
from wainwright.model.instance_type import UNLIMITED, InstanceType, Offering
from wainwright.model.labels import (
    CAPACITY_TYPE,
    ON_DEMAND,
    RESERVATION_ID,
    RESERVATION_LABELS,
    RESERVED,
    SPOT,
    ZONE,
)
from wainwright.model.requirements import (
    ANY_VALUE,
    NO_REQUIREMENTS,
    NO_VALUE,
    Requirement,
    Requirements,
    ValueSet,
    one_of,
)

UNRESERVED_CAPACITY_TYPES: Final = one_of([ON_DEMAND, SPOT])
"""The capacity types of an offering that leaves its capacity type open."""

OfferingLabels: TypeAlias = tuple[Requirements, str | None]
"""What sets an offering apart besides its type: the labels of its nodes, and its reservation."""


def implied_labels(instance_type: InstanceType, offering: Offering) -> OfferingLabels:
    """The labels of the offering, with zone and capacity type added as far as they are implied."""
    labels = offering.requirements
    if ZONE not in labels or CAPACITY_TYPE not in labels:
        labels = labels.narrow(_implied_zone(instance_type, offering)).narrow(
            _implied_capacity_type(instance_type, offering)
        )
    return labels, offering.reservation_id


def _implied_zone(instance_type: InstanceType, offering: Offering) -> Requirements:
    """The zones of the type, where the type names them and the offering does not."""
    type_requirements = instance_type.requirements
    if ZONE in offering.requirements or type_requirements.allowed(ZONE).open:
        return NO_REQUIREMENTS
    return Requirements([type_requirements[ZONE]])


def _implied_capacity_type(instance_type: InstanceType, offering: Offering) -> Requirements:
    """On-demand or spot; reserved only for an offering with a reservation."""
    if CAPACITY_TYPE in offering.requirements:
        return NO_REQUIREMENTS
    default = UNRESERVED_CAPACITY_TYPES if offering.reservation_id is None else one_of([RESERVED])
    both = default & instance_type.requirements.allowed(CAPACITY_TYPE)
    allowed = default if both.is_empty else both
    return Requirements([Requirement(key=CAPACITY_TYPE, allowed=allowed)])


def with_reservation_labels(requirements: Requirements, reservation_id: str | None) -> Requirements:
    """The labels with those of the reservation: its id, or that there is no reservation."""
    id_values = NO_VALUE if reservation_id is None else one_of([reservation_id])
    allowed_values = dict.fromkeys(RESERVATION_LABELS, NO_VALUE) | {RESERVATION_ID: id_values}
    return requirements.narrow(
        Requirements(
            Requirement(key=key, allowed=values)
            for key, values in allowed_values.items()
            if key not in requirements
        )
    )


OfferingGroupSet: TypeAlias = BitSet
"""A set of groups: bit i stands for `offering_groups[i]`."""

PricedEntry: TypeAlias = tuple[float, int, int]
"""An available offering of a type: its cost, its group, and its position in `offerings`."""


class OfferingGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Offerings with the same labels, and the instance types that have one."""

    requirements: Requirements
    reservation_id: str | None
    offered_types: BitSet
    """The instance types with an offering in this group, available or not."""
    available_types: BitSet
    """The instance types with an available offering in this group."""
    available: int
    """The smallest count among the available offerings; 0 where none is available."""


class OfferingGroupTable:
    """All groups of a catalogue, and the available offerings of each type, cheapest first."""

    __slots__ = (
        "_available_types_cache",
        "_entries",
        "_label_indexes",
        "_maybe_spot",
        "_min_costs",
        "_min_unreserved_costs",
        "_names",
        "_reserved",
        "_spot",
        "all_groups",
        "groups_without_zone",
        "keys",
        "offering_groups",
        "zones",
    )

    def __init__(self, types: Sequence[InstanceType], zones: Iterable[str] = ()) -> None:
        builder = _GroupBuilder(_number_groups(types))
        self._entries = [builder.add_type(number, each) for number, each in enumerate(types)]
        self.offering_groups = builder.offering_groups()
        self._names = [instance_type.name for instance_type in types]
        self.all_groups: OfferingGroupSet = (1 << len(self.offering_groups)) - 1
        self._label_indexes = _index_labels(self.offering_groups, self.all_groups)
        named_zones = self.values(ZONE, ANY_VALUE, self.all_groups)
        self.zones: tuple[str, ...] = tuple(sorted({*zones, *named_zones}))
        """All known zones; a group that names no zone is in each of them."""
        self.groups_without_zone: OfferingGroupSet = _groups_leaving_open(
            self.offering_groups, ZONE
        )
        self.keys = frozenset(self._label_indexes) | (
            frozenset({ZONE}) if self.zones else frozenset()
        )
        self._spot, self._maybe_spot = _spot_groups(self.offering_groups)
        self._reserved: OfferingGroupSet = union(
            1 << number
            for number, offering_group in enumerate(self.offering_groups)
            if offering_group.reservation_id is not None
        )
        # Lower bounds of what a type costs, so that `cheapest` can stop at the first type whose
        # bound is above the best offering so far.
        self._min_costs = [entries[0][0] if entries else inf for entries in self._entries]
        self._min_unreserved_costs = [self._min_unreserved_cost(each) for each in self._entries]
        # The same sets of groups come up for pod after pod; each would be a union over its groups.
        self._available_types_cache: dict[OfferingGroupSet, BitSet] = {}

    def matching(self, requirements: Requirements) -> OfferingGroupSet:
        """The groups whose offerings are compatible with the requirements."""
        groups = self.all_groups
        for key, requirement in requirements.items():
            label_index = self._label_indexes.get(key)
            if label_index is not None:
                groups &= label_index.matching(requirement.allowed)
        return groups

    def available_types(self, offering_groups: OfferingGroupSet) -> BitSet:
        """The instance types with an available offering in one of the groups."""
        types = self._available_types_cache.get(offering_groups)
        if types is None:
            if len(self._available_types_cache) >= MAX_CACHED_RESULTS:
                self._available_types_cache.clear()
            types = union(
                self.offering_groups[number].available_types
                for number in iter_bits(offering_groups)
            )
            self._available_types_cache[offering_groups] = types
        return types

    def spot_groups(self, capacity_types: ValueSet) -> OfferingGroupSet:
        """The groups that launch spot instances for requirements with these capacity types.

        A group that leaves the capacity type open launches on demand where that is allowed.
        """
        return self._spot if capacity_types.admits(ON_DEMAND) else self._maybe_spot

    def types_naming(self, key: str) -> BitSet:
        """The instance types of which some offering names the label."""
        return union(
            offering_group.offered_types
            for offering_group in self.offering_groups
            if key in offering_group.requirements
        )

    def values(self, key: str, wanted: ValueSet, offering_groups: OfferingGroupSet) -> list[str]:
        """The wanted values that the label has in these groups, in order."""
        label_index = self._label_indexes.get(key)
        return [] if label_index is None else list(label_index.values(offering_groups, wanted))

    def by_value(self, key: str) -> Mapping[str, OfferingGroupSet]:
        """The values that the label has in any group, in order, and the groups that name them."""
        label_index = self._label_indexes.get(key)
        by_value = {} if label_index is None else label_index.by_value
        return by_value if key != ZONE else {zone: by_value.get(zone, 0) for zone in self.zones}

    def _min_unreserved_cost(self, entries: Sequence[PricedEntry]) -> float:
        return next((cost for cost, number, _ in entries if not self._reserved >> number & 1), inf)

    def available_offerings(self, type_number: int) -> Sequence[PricedEntry]:
        """The available offerings of one type, cheapest first."""
        return self._entries[type_number]

    def cheapest_of(
        self, type_number: int, offering_groups: OfferingGroupSet
    ) -> list[tuple[int, int]]:
        """Group and position of the cheapest offerings of one type, all of the same cost."""
        cheapest: list[tuple[int, int]] = []
        lowest_cost = inf
        for cost, group_number, position in self._entries[type_number]:
            if cost > lowest_cost:
                break
            if offering_groups >> group_number & 1:
                cheapest.append((group_number, position))
                lowest_cost = cost
        return cheapest

    def cheapest(
        self, types: BitSet, offering_groups: OfferingGroupSet
    ) -> tuple[int, int, int] | None:
        """Type, group and position of the cheapest offering: by cost, then name, then group."""
        # Types are numbered by their unreserved cost. Without reserved groups the first type whose
        # lower bound exceeds the best ends the search; with them the bounds are in no order, and a
        # type above the best is only skipped.
        with_reserved = offering_groups & self._reserved != 0
        min_costs = self._min_costs if with_reserved else self._min_unreserved_costs
        best: tuple[float, str, int, int, int] | None = None
        best_cost = float_info.max  # finite: below the bound (infinity) of a type that has no offer
        for number in iter_bits(types):
            if min_costs[number] > best_cost:
                if with_reserved:
                    continue
                break
            for cost, group_number, position in self._entries[number]:
                if offering_groups >> group_number & 1:
                    if best is None or (cost, self._names[number]) < best[:2]:
                        best = (cost, self._names[number], number, group_number, position)
                        best_cost = cost
                    break
        return None if best is None else best[2:]


class _GroupBuilder:
    """Collects which types are offered and available in which group."""

    def __init__(self, numbers: Mapping[OfferingLabels, int]) -> None:
        self._numbers = numbers
        self._available_types: list[BitSet] = [0] * len(numbers)
        self._unavailable_types: list[BitSet] = [0] * len(numbers)
        self._counts = [UNLIMITED] * len(numbers)

    def add_type(self, type_number: int, instance_type: InstanceType) -> list[PricedEntry]:
        """Record all offerings of one type; returns its available ones, cheapest first."""
        bit, entries = 1 << type_number, []
        for position, offering in enumerate(instance_type.offerings):
            number = self._numbers[implied_labels(instance_type, offering)]
            if offering.available > 0:
                self._available_types[number] |= bit
                entries.append((offering.price + instance_type.fee, number, position))
                if offering.available < UNLIMITED:
                    self._counts[number] = min(self._counts[number], offering.available)
            else:
                self._unavailable_types[number] |= bit
        entries.sort()
        return entries

    def offering_groups(self) -> tuple[OfferingGroup, ...]:
        return tuple(self._build_group(*labels, number) for labels, number in self._numbers.items())

    def _build_group(
        self, requirements: Requirements, reservation_id: str | None, number: int
    ) -> OfferingGroup:
        return OfferingGroup(
            requirements=with_reservation_labels(requirements, reservation_id),
            reservation_id=reservation_id,
            offered_types=self._available_types[number] | self._unavailable_types[number],
            available_types=self._available_types[number],
            available=self._counts[number] if self._available_types[number] else 0,
        )


def _number_groups(types: Iterable[InstanceType]) -> dict[OfferingLabels, int]:
    """Every combination of labels that offerings have, numbered in the order of the labels."""
    combinations = dict.fromkeys(
        implied_labels(instance_type, offering)
        for instance_type in types
        for offering in instance_type.offerings
    )
    ordered = sorted(combinations, key=_group_sort_key)
    return {labels: number for number, labels in enumerate(ordered)}


def _group_sort_key(labels: OfferingLabels) -> tuple[list[tuple[str, list[str]]], str]:
    requirements, reservation_id = labels
    values = [(key, sorted(each.allowed.values)) for key, each in requirements.items()]
    return values, reservation_id or ""


def _spot_groups(
    offering_groups: Sequence[OfferingGroup],
) -> tuple[OfferingGroupSet, OfferingGroupSet]:
    """The groups that are spot only, and the groups that can be spot."""
    capacity_types = [
        offering_group.requirements.allowed(CAPACITY_TYPE) for offering_group in offering_groups
    ]
    spot = one_of([SPOT])
    return (
        union(1 << number for number, allowed in enumerate(capacity_types) if allowed == spot),
        union(1 << number for number, allowed in enumerate(capacity_types) if allowed.admits(SPOT)),
    )


def _groups_leaving_open(offering_groups: Sequence[OfferingGroup], key: str) -> OfferingGroupSet:
    return union(
        1 << number
        for number, offering_group in enumerate(offering_groups)
        if offering_group.requirements.allowed(key).open
    )


def _index_labels(
    offering_groups: Sequence[OfferingGroup], all_groups: OfferingGroupSet
) -> dict[str, LabelIndex]:
    by_label: dict[str, dict[ValueSet, OfferingGroupSet]] = {}
    for number, offering_group in enumerate(offering_groups):
        for key, requirement in offering_group.requirements.items():
            by_values = by_label.setdefault(key, {})
            by_values[requirement.allowed] = by_values.get(requirement.allowed, 0) | 1 << number
    return {
        key: LabelIndex(by_values, absent=0, undecided=all_groups ^ union(by_values.values()))
        for key, by_values in sorted(by_label.items())
    }
