"""Offering groups: what sets offerings apart besides the instance type, as bits of an index.

All offerings of a catalogue that carry the same labels are one group, whatever their type. Zone
and capacity type make a dozen groups; every reservation and every further label adds some.
Labels that an offering implies without naming them (zone, capacity type, no reservation) are
made explicit here, so that no other module has to know the defaults.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain, compress, islice
from math import inf
from operator import itemgetter
from sys import float_info
from typing import Final, NamedTuple, TypeAlias

import msgspec

from wainwright.model.bitset import (
    MAX_CACHED_RESULTS,
    BitSet,
    LabelIndex,
    NamedBits,
    iter_bits,
    union,
)
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


class GroupLayout:
    """The groups by their labels, without types and prices; shared by indexes with equal groups."""

    __slots__ = (
        "all_groups",
        "by_reservation",
        "given_zones",
        "groups_without_zone",
        "keys",
        "label_indexes",
        "numbers",
        "requirements",
        "reservation_ids",
        "reserved",
        "spot_groups",
        "zones",
    )

    def __init__(self, combinations: Iterable[OfferingLabels], zones: Iterable[str]) -> None:
        """Every combination of labels that offerings have, numbered in the order of the labels."""
        ordered = sorted(dict.fromkeys(combinations), key=_group_sort_key)
        self.numbers = {labels: number for number, labels in enumerate(ordered)}
        self.requirements = [with_reservation_labels(*labels) for labels in ordered]
        self.reservation_ids = [reservation_id for _, reservation_id in ordered]
        self.by_reservation = NamedBits(self.reservation_ids)
        self.all_groups: OfferingGroupSet = (1 << len(ordered)) - 1
        self.label_indexes = _index_labels(self.requirements, self.all_groups)
        self.given_zones = frozenset(zones)
        zone_index = self.label_indexes.get(ZONE)
        named_zones = () if zone_index is None else zone_index.values(self.all_groups, ANY_VALUE)
        self.zones: tuple[str, ...] = tuple(sorted({*self.given_zones, *named_zones}))
        self.groups_without_zone = _groups_leaving_open(self.requirements, ZONE)
        self.keys = frozenset(self.label_indexes) | ({ZONE} if self.zones else frozenset())
        self.spot_groups = _spot_groups(self.requirements)
        self.reserved: OfferingGroupSet = union(
            1 << number for number, each in enumerate(self.reservation_ids) if each is not None
        )


class TypeOfferings(NamedTuple):
    """The offerings of one type in terms of groups: all that an index needs to know of them."""

    instance_type: InstanceType
    """Its labels, offerings and fee are those described; a later object may equal it in these."""
    cost: float
    """Of the cheapest available offering without a reservation: what types are ordered by."""
    groups: tuple[int, ...]
    """The group of each offering."""
    available_groups: tuple[int, ...]
    entries: list[PricedEntry]
    """The available offerings, cheapest first."""
    counts: tuple[tuple[int, int], ...]
    """Group and count of the available offerings that have a count of their own."""


class DescribedOfferings(NamedTuple):
    """The types of an index in ascending order of cost (then name), and their offerings."""

    types: tuple[InstanceType, ...]
    offerings: list[TypeOfferings]
    layout: GroupLayout


def describe_offerings(
    types: Iterable[InstanceType],
    zones: Iterable[str] = (),
    previous: "OfferingGroupTable | None" = None,
) -> DescribedOfferings:
    """The offerings of all types; those of the previous index, where they have not changed."""
    types, zones = tuple(types), frozenset(zones)
    if previous is not None and previous.layout.given_zones == zones:
        again = previous.describe_again(types)
        if again is not None:
            return _in_order(types, again, previous.layout)
    labels = [_labels_of(each) for each in types]
    layout = GroupLayout(chain.from_iterable(labels), zones)
    return _in_order(types, _describe_all(types, labels, layout.numbers), layout)


def _describe_all(
    types: Iterable[InstanceType],
    labels: Iterable[list[OfferingLabels]],
    numbers: Mapping[OfferingLabels, int],
) -> list[TypeOfferings]:
    shared: dict[tuple[int, ...], tuple[int, ...]] = {}  # most types have one of a few combinations
    described = []
    for instance_type, labels_of_type in zip(types, labels, strict=True):
        groups = tuple([numbers[each] for each in labels_of_type])
        described.append(_describe(instance_type, shared.setdefault(groups, groups)))
    return described


def _in_order(
    types: Iterable[InstanceType], described: Iterable[TypeOfferings], layout: GroupLayout
) -> DescribedOfferings:
    pairs = zip(types, described, strict=True)
    ordered = sorted(pairs, key=lambda pair: (pair[1].cost, pair[0].name))
    return DescribedOfferings(
        tuple([each for each, _ in ordered]), [offerings for _, offerings in ordered], layout
    )


def _labels_of(instance_type: InstanceType) -> list[OfferingLabels]:
    return [implied_labels(instance_type, offering) for offering in instance_type.offerings]


def _describe(instance_type: InstanceType, groups: tuple[int, ...]) -> TypeOfferings:
    fee, cost = instance_type.fee, inf
    entries: list[PricedEntry] = []
    counts: list[tuple[int, int]] = []
    for position, offering in enumerate(instance_type.offerings):
        if offering.available > 0:
            price = offering.price + fee
            entries.append((price, groups[position], position))
            if offering.available < UNLIMITED:
                counts.append((groups[position], offering.available))
            if price < cost and not offering.reservation_id:
                cost = price
    entries.sort()
    available = (
        groups
        if len(entries) == len(groups)
        else tuple([groups[position] for position in sorted(each[2] for each in entries)])
    )
    return TypeOfferings(instance_type, cost, groups, available, entries, tuple(counts))


def _describe_again(
    instance_type: InstanceType, old: TypeOfferings | None, numbers: Mapping[OfferingLabels, int]
) -> TypeOfferings:
    """As before where nothing has changed; KeyError for labels that no offering had before."""
    if old is None or not _have_same_labels(old.instance_type, instance_type):
        return _describe(
            instance_type, tuple([numbers[labels] for labels in _labels_of(instance_type)])
        )
    known = old.instance_type
    if known.offerings is instance_type.offerings and known.fee == instance_type.fee:
        return old
    return _describe(instance_type, old.groups)


def _have_same_labels(one: InstanceType, other: InstanceType) -> bool:
    """Whether their offerings are in the same groups, position by position.

    By identity, as it is for all offerings of a catalogue: where labels are equal and not the same
    object, the groups are only looked up again.
    """
    if one.requirements is not other.requirements:
        return False
    if one.offerings is other.offerings:
        return True
    return len(one.offerings) == len(other.offerings) and all(
        mine.requirements is theirs.requirements and mine.reservation_id == theirs.reservation_id
        for mine, theirs in zip(one.offerings, other.offerings, strict=True)
    )


MANY_OFFERINGS: Final = 64
DIGIT_VALUES: Final = bytes.maketrans(b"01", b"\x00\x01")


class EqualOfferings(NamedTuple):
    """Available offerings of one type that cost the same and are in the same zone, by name."""

    flags_of: Callable[[bytes], tuple[int, ...]]
    """Picks the flag of each from those of all groups."""
    names: list[str]
    places: list[tuple[int, int]]
    """Group and position of each."""


def _flags_of(groups: Iterable[int]) -> Callable[[bytes], tuple[int, ...]]:
    """Picks the flags of these groups at once; with one more, as a single one is no tuple."""
    return itemgetter(*groups, 0)


def _equal_offerings(described: TypeOfferings) -> list[EqualOfferings]:
    """The reserved ones among the available offerings of a type, cheapest first, then by zone."""
    by_cost_and_zone: dict[tuple[float, str], list[tuple[str, int, int]]] = {}
    for cost, group, position in described.entries:
        offering = described.instance_type.offerings[position]
        if offering.reservation_id is not None:
            place = (offering.reservation_id, group, position)
            by_cost_and_zone.setdefault((cost, offering.zone or ""), []).append(place)
    return [
        EqualOfferings(
            _flags_of(group for _, group, _ in places),
            [name for name, _, _ in places],
            [(group, position) for _, group, position in places],
        )
        for places in (sorted(by_cost_and_zone[key]) for key in sorted(by_cost_and_zone))
    ]


class OfferingGroupTable:
    """All groups of a catalogue, and the available offerings of each type, cheapest first."""

    __slots__ = (
        "_available_types_cache",
        "_entries",
        "_equal_offerings",
        "_flags_by_type",
        "_label_indexes",
        "_maybe_spot",
        "_min_costs",
        "_min_unreserved_costs",
        "_names",
        "_offerings",
        "_reserved",
        "_spot",
        "_types_by_name",
        "all_groups",
        "groups_without_zone",
        "keys",
        "layout",
        "offering_groups",
        "with_reservation",
        "zones",
    )

    def __init__(self, described: DescribedOfferings) -> None:
        layout = self.layout = described.layout
        self._offerings = described.offerings
        self._entries = [each.entries for each in self._offerings]
        self._names = [instance_type.name for instance_type in described.types]
        self._types_by_name = NamedBits(self._names)
        self._equal_offerings: dict[int, list[EqualOfferings]] = {}
        """By type number, for types of which reserved offerings were compared."""
        self._flags_by_type: dict[int, Callable[[bytes], tuple[int, ...]]] = {}
        """The same, for types with many offerings."""
        self.offering_groups = _build_groups(layout, self._offerings)
        self.all_groups: OfferingGroupSet = layout.all_groups
        self._label_indexes = layout.label_indexes
        self.zones: tuple[str, ...] = layout.zones
        """All known zones; a group that names no zone is in each of them."""
        self.groups_without_zone: OfferingGroupSet = layout.groups_without_zone
        self.keys = layout.keys
        self._spot, self._maybe_spot = layout.spot_groups
        self._reserved: OfferingGroupSet = layout.reserved
        self.with_reservation: OfferingGroupSet = layout.reserved
        # Lower bounds of what a type costs, so that `cheapest` can stop at the first type whose
        # bound is above the best offering so far.
        self._min_costs = [entries[0][0] if entries else inf for entries in self._entries]
        self._min_unreserved_costs = [each.cost for each in self._offerings]
        # The same sets of groups come up for pod after pod; each would be a union over its groups.
        self._available_types_cache: dict[OfferingGroupSet, BitSet] = {}

    def describe_again(self, types: Iterable[InstanceType]) -> list[TypeOfferings] | None:
        """The offerings of types in these groups; None where they have other groups."""
        known = dict(zip(self._names, self._offerings, strict=True))
        numbers = self.layout.numbers
        try:
            described = [_describe_again(each, known.get(each.name), numbers) for each in types]
        except KeyError:
            return None
        used = set().union(*{each.groups for each in described})
        return described if len(used) == len(numbers) else None

    def has_same_labels(self, other: "OfferingGroupTable") -> bool:
        """Whether the same types have offerings in the same groups, available or not."""
        return self.layout is other.layout and all(
            mine.offered_types == theirs.offered_types
            for mine, theirs in zip(self.offering_groups, other.offering_groups, strict=True)
        )

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

    def types_named(self, names: AbstractSet[str]) -> BitSet:
        return self._types_by_name.named(names)

    def groups_of_reservations(self, ids: AbstractSet[str | None]) -> OfferingGroupSet:
        return self.layout.by_reservation.named(ids)

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

    def available_offerings(self, type_number: int) -> Sequence[PricedEntry]:
        """The available offerings of one type, cheapest first."""
        return self._entries[type_number]

    def most_available(
        self, type_number: int, reserved: OfferingGroupSet, available_count: Callable[[str], int]
    ) -> tuple[int, int]:
        """Group and position of the cheapest offering of one type in these reserved groups: of
        equal ones that in the first zone, with the most available instances, by name.
        """
        equal_offerings = self._equal_offerings.get(type_number)
        if equal_offerings is None:
            equal_offerings = _equal_offerings(self._offerings[type_number])
            self._equal_offerings[type_number] = equal_offerings
        flags = self._flags(reserved)
        for each in equal_offerings:
            wanted = each.flags_of(flags)
            names = list(compress(each.names, wanted))
            if names:
                counts = list(map(available_count, names))
                at = counts.index(max(counts))
                return next(islice(compress(each.places, wanted), at, None))
        raise LookupError(f"{self._names[type_number]} has no offering in these groups")

    def _entry_flags(self, type_number: int) -> Callable[[bytes], tuple[int, ...]]:
        known = self._flags_by_type.get(type_number)
        if known is None:
            known = _flags_of(group for _, group, _ in self._entries[type_number])
            self._flags_by_type[type_number] = known
        return known

    def _flags(self, offering_groups: OfferingGroupSet) -> bytes:
        """A byte for each group, 1 for those of the set. Where thousands are to be looked up this
        saves shifting a long number for each of them."""
        digits = bin(offering_groups)[:1:-1].encode().ljust(len(self.offering_groups), b"0")
        return digits.translate(DIGIT_VALUES)

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
        flags = b""
        for number in iter_bits(types):
            if min_costs[number] > best_cost:
                if with_reserved:
                    continue
                break
            entries = self._entries[number]
            if len(entries) > MANY_OFFERINGS:
                flags = flags or self._flags(offering_groups)
                entry = next(compress(entries, self._entry_flags(number)(flags)), None)
            else:
                entry = next((each for each in entries if offering_groups >> each[1] & 1), None)
            if entry is not None and (best is None or (entry[0], self._names[number]) < best[:2]):
                best_cost = entry[0]
                best = (best_cost, self._names[number], number, entry[1], entry[2])
        return None if best is None else best[2:]


def _build_groups(
    layout: GroupLayout, offerings: Sequence[TypeOfferings]
) -> tuple[OfferingGroup, ...]:
    size = len(layout.requirements)
    offered = _types_by_group((each.groups for each in offerings), size)
    available = _types_by_group((each.available_groups for each in offerings), size)
    counts = [UNLIMITED] * size
    for each in offerings:
        for number, count in each.counts:
            counts[number] = min(counts[number], count)
    return tuple(
        OfferingGroup(
            requirements=layout.requirements[number],
            reservation_id=layout.reservation_ids[number],
            offered_types=offered[number],
            available_types=available[number],
            available=counts[number] if available[number] else 0,
        )
        for number in range(size)
    )


def _types_by_group(groups_of_types: Iterable[tuple[int, ...]], size: int) -> list[BitSet]:
    # Most types have one of a few combinations of groups: collecting the types of a combination
    # first takes one step per type, not one per offering.
    by_combination: dict[tuple[int, ...], BitSet] = {}
    bit = 1
    for groups in groups_of_types:
        by_combination[groups] = by_combination.get(groups, 0) | bit
        bit <<= 1
    by_group: list[BitSet] = [0] * size
    for groups, types in by_combination.items():
        for number in groups:
            by_group[number] |= types
    return by_group


def _group_sort_key(labels: OfferingLabels) -> tuple[list[tuple[str, list[str]]], str]:
    requirements, reservation_id = labels
    values = [(key, sorted(each.allowed.values)) for key, each in requirements.items()]
    return values, reservation_id or ""


def _spot_groups(requirements: Sequence[Requirements]) -> tuple[OfferingGroupSet, OfferingGroupSet]:
    """The groups that are spot only, and the groups that can be spot."""
    capacity_types = [each.allowed(CAPACITY_TYPE) for each in requirements]
    spot = one_of([SPOT])
    return (
        union(1 << number for number, allowed in enumerate(capacity_types) if allowed == spot),
        union(1 << number for number, allowed in enumerate(capacity_types) if allowed.admits(SPOT)),
    )


def _groups_leaving_open(requirements: Sequence[Requirements], key: str) -> OfferingGroupSet:
    return union(1 << number for number, each in enumerate(requirements) if each.allowed(key).open)


def _index_labels(
    requirements: Sequence[Requirements], all_groups: OfferingGroupSet
) -> dict[str, LabelIndex]:
    by_label: dict[str, dict[ValueSet, OfferingGroupSet]] = {}
    for number, each in enumerate(requirements):
        for key, requirement in each.items():
            by_values = by_label.setdefault(key, {})
            by_values[requirement.allowed] = by_values.get(requirement.allowed, 0) | 1 << number
    return {
        key: LabelIndex(by_values, absent=0, undecided=all_groups ^ union(by_values.values()))
        for key, by_values in sorted(by_label.items())
    }
