"""Offering groups: what sets offerings apart besides the instance type, as bits of an index.

All offerings of a catalogue that carry the same labels are one group, whatever their type. Zone
and capacity type make a dozen groups; every reservation and every further label adds some.
Labels that an offering implies without naming them (zone, capacity type, no reservation) are
made explicit here, so that nobody else has to know the defaults.
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
"""What an offering can be bought as that leaves its capacity type open."""

OfferingLabels: TypeAlias = tuple[Requirements, str | None]
"""What sets an offering apart besides its type: the labels of its nodes, and its reservation."""


def implied_labels(kind: InstanceType, offering: Offering) -> OfferingLabels:
    """Those that the offering names, and zone and capacity type as far as they are clear."""
    said = offering.requirements
    if ZONE not in said or CAPACITY_TYPE not in said:
        said = said.narrow(_implied_zone(kind, offering)).narrow(
            _implied_capacity_type(kind, offering)
        )
    return said, offering.reservation_id


def _implied_zone(kind: InstanceType, offering: Offering) -> Requirements:
    """The zones that the type names, where it does."""
    own = kind.requirements
    if ZONE in offering.requirements or own.allowed(ZONE).open:
        return NO_REQUIREMENTS
    return Requirements([own[ZONE]])


def _implied_capacity_type(kind: InstanceType, offering: Offering) -> Requirements:
    """On demand or spot; reserved is what has a reservation, and nothing else."""
    if CAPACITY_TYPE in offering.requirements:
        return NO_REQUIREMENTS
    usual = UNRESERVED_CAPACITY_TYPES if offering.reservation_id is None else one_of([RESERVED])
    both = usual & kind.requirements.allowed(CAPACITY_TYPE)
    return Requirements([Requirement(key=CAPACITY_TYPE, allowed=usual if both.empty else both)])


def with_reservation_labels(requirements: Requirements, reservation_id: str | None) -> Requirements:
    """Says of the reservation what the offering left unsaid: which it is, or that there is none."""
    known = NO_VALUE if reservation_id is None else one_of([reservation_id])
    said = dict.fromkeys(RESERVATION_LABELS, NO_VALUE) | {RESERVATION_ID: known}
    return requirements.narrow(
        Requirements(
            Requirement(key=key, allowed=values)
            for key, values in said.items()
            if key not in requirements
        )
    )


OfferingGroupSet: TypeAlias = BitSet
"""A set of groups: bit i stands for `offering_groups[i]`."""

PricedEntry: TypeAlias = tuple[float, int, int]
"""The cost, the number of the group, and which of the type's offerings it is."""


class OfferingGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Where instance types can be bought, and which."""

    requirements: Requirements
    reservation_id: str | None
    offered_types: BitSet
    """The instance types with an offering here, in stock or not."""
    available_types: BitSet
    """The instance types with an offering here that can be had now."""
    available: int
    """The smallest count among those that can be had; 0 where nothing can."""


class OfferingGroupTable:
    """All groups of a catalogue, and the offers of each of its instance types, cheapest first."""

    __slots__ = (
        "_columns",
        "_floors",
        "_names",
        "_offers",
        "_perhaps_spot",
        "_reserved",
        "_sold_in",
        "_spot",
        "_unreserved_floors",
        "everywhere",
        "groups_without_zone",
        "keys",
        "offering_groups",
        "zones",
    )

    def __init__(self, types: Sequence[InstanceType], zones: Iterable[str] = ()) -> None:
        books = _GroupBuilder(_number_groups(types))
        self._offers = [books.enter(row, kind) for row, kind in enumerate(types)]
        self.offering_groups = books.offering_groups()
        self._names = [kind.name for kind in types]
        self.everywhere: OfferingGroupSet = (1 << len(self.offering_groups)) - 1
        self._columns = _label_indexes(self.offering_groups, self.everywhere)
        named = self.values(ZONE, ANY_VALUE, self.everywhere)
        self.zones: tuple[str, ...] = tuple(sorted({*zones, *named}))
        """All that are known; a group that names none is in each of them."""
        self.groups_without_zone: OfferingGroupSet = _groups_leaving_open(
            self.offering_groups, ZONE
        )
        self.keys = frozenset(self._columns) | (frozenset({ZONE}) if self.zones else frozenset())
        self._spot, self._perhaps_spot = _spot_groups(self.offering_groups)
        self._reserved: OfferingGroupSet = union(
            1 << n
            for n, offering_group in enumerate(self.offering_groups)
            if offering_group.reservation_id is not None
        )
        self._floors = [offers[0][0] if offers else inf for offers in self._offers]
        self._unreserved_floors = [self._unreserved_floor(offers) for offers in self._offers]
        self._sold_in: dict[OfferingGroupSet, BitSet] = {}

    def admitting(self, requirements: Requirements) -> OfferingGroupSet:
        """The groups where somebody with these requirements may buy."""
        found = self.everywhere
        for key, requirement in requirements.items():
            column = self._columns.get(key)
            if column is not None:
                found &= column.admitting(requirement.allowed)
        return found

    def selling(self, offering_groups: OfferingGroupSet) -> BitSet:
        """The instance types that can be had now in one of the groups."""
        found = self._sold_in.get(offering_groups)
        if found is None:
            if len(self._sold_in) >= MAX_CACHED_RESULTS:
                self._sold_in.clear()
            found = union(
                self.offering_groups[number].available_types
                for number in iter_bits(offering_groups)
            )
            self._sold_in[offering_groups] = found
        return found

    def spot_groups(self, capacity_types: ValueSet) -> OfferingGroupSet:
        """Where those who may have these capacity types buy what can be taken back from them.

        A group that leaves the capacity type open sells on demand to whoever may buy that.
        """
        return self._spot if capacity_types.admits(ON_DEMAND) else self._perhaps_spot

    def naming(self, key: str) -> BitSet:
        """The instance types of which some offering says something about the label."""
        return union(
            offering_group.offered_types
            for offering_group in self.offering_groups
            if key in offering_group.requirements
        )

    def values(self, key: str, wanted: ValueSet, offering_groups: OfferingGroupSet) -> list[str]:
        """The wanted values that the label has in these groups, in order."""
        column = self._columns.get(key)
        return [] if column is None else list(column.values(offering_groups, wanted))

    def by_value(self, key: str) -> Mapping[str, OfferingGroupSet]:
        """The values that the label has anywhere, in order, and the groups that name them."""
        column = self._columns.get(key)
        named = {} if column is None else column.by_value
        return named if key != ZONE else {zone: named.get(zone, 0) for zone in self.zones}

    def _unreserved_floor(self, offers: Sequence[PricedEntry]) -> float:
        return next((cost for cost, n, _ in offers if not self._reserved >> n & 1), inf)

    def offers(self, row: int) -> Sequence[PricedEntry]:
        """The offerings of one type that can be had, cheapest first."""
        return self._offers[row]

    def cheapest_of(self, row: int, offering_groups: OfferingGroupSet) -> list[tuple[int, int]]:
        """Group and position of the cheapest offers of one type, all of one cost."""
        found: list[tuple[int, int]] = []
        least = inf
        for cost, offering_group, position in self._offers[row]:
            if cost > least:
                break
            if offering_groups >> offering_group & 1:
                found.append((offering_group, position))
                least = cost
        return found

    def cheapest(
        self, rows: BitSet, offering_groups: OfferingGroupSet
    ) -> tuple[int, int, int] | None:
        """Row, group and position of the cheapest offering: by cost, then name, then group."""
        slots = (
            offering_groups & self._reserved != 0
        )  # then rows are in no order, but there are few
        floors = self._floors if slots else self._unreserved_floors
        best: tuple[float, str, int, int, int] | None = None
        most = float_info.max  # less than the floor of what is not sold at all
        for row in iter_bits(rows):
            if floors[row] > most:
                if slots:
                    continue
                break
            for cost, offering_group, position in self._offers[row]:
                if offering_groups >> offering_group & 1:
                    if best is None or (cost, self._names[row]) < best[:2]:
                        best, most = (cost, self._names[row], row, offering_group, position), cost
                    break
        return None if best is None else best[2:]


class _GroupBuilder:
    """Who lists and who sells what in which group, while it is being written down."""

    def __init__(self, numbers: Mapping[OfferingLabels, int]) -> None:
        self._numbers = numbers
        self._sold: list[BitSet] = [0] * len(numbers)
        self._sold_out: list[BitSet] = [0] * len(numbers)
        self._available = [UNLIMITED] * len(numbers)

    def enter(self, row: int, kind: InstanceType) -> list[PricedEntry]:
        """The offerings of one instance type that can be had, cheapest first."""
        bit, offers = 1 << row, []
        for position, offering in enumerate(kind.offerings):
            number = self._numbers[implied_labels(kind, offering)]
            if offering.available > 0:
                self._sold[number] |= bit
                offers.append((offering.price + kind.fee, number, position))
                if offering.available < UNLIMITED:
                    self._available[number] = min(self._available[number], offering.available)
            else:
                self._sold_out[number] |= bit
        offers.sort()
        return offers

    def offering_groups(self) -> tuple[OfferingGroup, ...]:
        return tuple(self._market(*labels, number) for labels, number in self._numbers.items())

    def _market(
        self, requirements: Requirements, reservation_id: str | None, number: int
    ) -> OfferingGroup:
        return OfferingGroup(
            requirements=with_reservation_labels(requirements, reservation_id),
            reservation_id=reservation_id,
            offered_types=self._sold[number] | self._sold_out[number],
            available_types=self._sold[number],
            available=self._available[number] if self._sold[number] else 0,
        )


def _number_groups(types: Iterable[InstanceType]) -> dict[OfferingLabels, int]:
    """Every combination of labels that offerings have, numbered in an order that is their own."""
    met = dict.fromkeys(
        implied_labels(kind, offering) for kind in types for offering in kind.offerings
    )
    return {labels: number for number, labels in enumerate(sorted(met, key=_group_sort_key))}


def _group_sort_key(labels: OfferingLabels) -> tuple[list[tuple[str, list[str]]], str]:
    requirements, reservation_id = labels
    values = [(key, sorted(found.allowed.values)) for key, found in requirements.items()]
    return values, reservation_id or ""


def _spot_groups(
    offering_groups: Sequence[OfferingGroup],
) -> tuple[OfferingGroupSet, OfferingGroupSet]:
    """Where nothing but spot is sold, and where spot is sold at all."""
    sold = [
        offering_group.requirements.allowed(CAPACITY_TYPE) for offering_group in offering_groups
    ]
    spot = one_of([SPOT])
    return (
        union(1 << number for number, kinds in enumerate(sold) if kinds == spot),
        union(1 << number for number, kinds in enumerate(sold) if kinds.admits(SPOT)),
    )


def _groups_leaving_open(offering_groups: Sequence[OfferingGroup], key: str) -> OfferingGroupSet:
    return union(
        1 << number
        for number, offering_group in enumerate(offering_groups)
        if offering_group.requirements.allowed(key).open
    )


def _label_indexes(
    offering_groups: Sequence[OfferingGroup], everywhere: OfferingGroupSet
) -> dict[str, LabelIndex]:
    held: dict[str, dict[ValueSet, OfferingGroupSet]] = {}
    for number, offering_group in enumerate(offering_groups):
        for key, requirement in offering_group.requirements.items():
            same = held.setdefault(key, {})
            same[requirement.allowed] = same.get(requirement.allowed, 0) | 1 << number
    return {
        key: LabelIndex(sets, absent=0, undecided=everywhere ^ union(sets.values()))
        for key, sets in sorted(held.items())
    }
