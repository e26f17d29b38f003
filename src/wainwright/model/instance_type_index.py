"""Instance types compiled for one node class: types as bits, every question a few ANDs.

Bit 0 is the type with the cheapest available offering, fees included, so that the lowest bit of
a set is its cheapest member; reserved offerings do not count for this order. A question comes
apart into four, and the caller ANDs the answers: which types have the labels, which have the
room, which offering groups are allowed, and which types are available in these.

A set that answers for two requirements at once may be smaller than the AND of the answers for
each: a type that can be either of two values agrees with each of them, not with both. AND first,
as it is cheap and rules out most; ask for the narrowed requirements before relying on the rest.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from math import inf

from wainwright.model.bitset import BitSet, LabelIndex, ResourceIndex, iter_bits, union
from wainwright.model.instance_type import InstanceType, Offering, accelerated_types, metal_types
from wainwright.model.labels import INSTANCE_TYPE, INSTANCE_TYPE_LABELS, OFFERING_LABELS, ZONE
from wainwright.model.offering_groups import OfferingGroup, OfferingGroupSet, OfferingGroupTable
from wainwright.model.requirements import ANY_VALUE, Requirements, ValueSet, one_of
from wainwright.model.resources import Resources, subtract_resources


class InstanceTypeIndex:
    """Instance types in ascending order of cost (then name), and the answers about them.

    A type that lacks a label does not have it if the catalogue names the label for other types, or
    if it is one that types are described by; then only NotIn and DoesNotExist admit the type. It
    leaves the label open where its offerings decide it. A label that nobody names narrows nothing.
    """

    __slots__ = (
        "_allocatable",
        "_capacities",
        "_columns",
        "_markets",
        "accelerated",
        "allocatable_index",
        "by_name",
        "everything",
        "keys",
        "metal",
        "types",
    )

    def __init__(
        self,
        types: Iterable[InstanceType],
        described: AbstractSet[str] = INSTANCE_TYPE_LABELS,
        zones: Iterable[str] = (),
    ) -> None:
        self.types: tuple[InstanceType, ...] = tuple(sorted(types, key=_cost_then_name))
        self.everything: BitSet = (1 << len(self.types)) - 1
        self.by_name: list[int] = sorted(range(len(self.types)), key=lambda n: self.types[n].name)
        """The rows in the order of names."""
        self._markets = OfferingGroupTable(self.types, zones)
        held = _types_by_label(self.types, described)
        self._columns = {key: self._column(key, sets) for key, sets in held.items()}
        self.keys = self._markets.keys | {key for key, sets in held.items() if sets}
        """The labels that types or offerings name: well known to all who use this catalogue."""
        self._allocatable = [kind.allocatable for kind in self.types]
        self.allocatable_index = ResourceIndex(self._allocatable)
        """Room before any daemonset takes its share."""
        self._capacities: ResourceIndex | None = None
        self.metal: BitSet = metal_types(self.types)
        self.accelerated: BitSet = accelerated_types(self.types)

    @property
    def offering_groups(self) -> tuple[OfferingGroup, ...]:
        """What sets offerings apart besides the type; bit i of a set is `offering_groups[i]`."""
        return self._markets.offering_groups

    def compatible_types(self, requirements: Requirements) -> BitSet:
        """The types whose labels agree with the requirements."""
        found = self.everything
        for key, requirement in requirements.items():
            column = self._columns.get(key)
            if column is not None:
                found &= column.admitting(requirement.allowed)
        return found

    def fitting(self, requests: Resources) -> BitSet:
        """The types whose allocatable resources have room for the requests."""
        return self.allocatable_index.fitting(requests)

    def thresholds(self, overhead: Sequence[Resources]) -> ResourceIndex:
        """Answers to `holding` when each type, in the order of rows, gives up its overhead."""
        pairs = zip(self._allocatable, overhead, strict=True)
        return ResourceIndex(subtract_resources(allocatable, taken) for allocatable, taken in pairs)

    @property
    def capacities(self) -> ResourceIndex:
        """The types by all that they have, as limits count it; worked out when first asked for."""
        if self._capacities is None:
            self._capacities = ResourceIndex(kind.capacity for kind in self.types)
        return self._capacities

    def compatible_groups(self, requirements: Requirements) -> OfferingGroupSet:
        """The groups in which somebody with these requirements may buy."""
        return self._markets.admitting(requirements)

    def available_in(self, offering_groups: OfferingGroupSet) -> BitSet:
        """The types that can be had now in at least one of the groups."""
        return self._markets.selling(offering_groups)

    def available_to(self, requirements: Requirements) -> BitSet:
        """The types with an available offering that agrees with the requirements."""
        return self.available_in(self.compatible_groups(requirements))

    def cheapest(
        self, rows: BitSet, requirements: Requirements
    ) -> tuple[InstanceType, Offering] | None:
        """The cheapest offering among the types: by cost, then name, then the order of groups."""
        return self.cheapest_in_groups(rows, self.compatible_groups(requirements))

    def cheapest_in_groups(
        self, rows: BitSet, offering_groups: OfferingGroupSet
    ) -> tuple[InstanceType, Offering] | None:
        found = self.find_cheapest(rows, offering_groups)
        return None if found is None else (self.types[found[0]], found[2])

    def find_cheapest(
        self, rows: BitSet, offering_groups: OfferingGroupSet
    ) -> tuple[int, int, Offering] | None:
        """Row, group and offering of the cheapest offering."""
        found = self._markets.cheapest(rows, offering_groups)
        if found is None:
            return None
        row, offering_group, position = found
        return row, offering_group, self.types[row].offerings[position]

    def cheapest_offerings(
        self, row: int, offering_groups: OfferingGroupSet
    ) -> list[tuple[int, int, Offering]]:
        """All offerings of one type that cost no more than any other of it in these groups."""
        offerings = self.types[row].offerings
        cheapest = self._markets.cheapest_of(row, offering_groups)
        return [(row, offering_group, offerings[position]) for offering_group, position in cheapest]

    def spot_groups(self, capacity_types: ValueSet) -> OfferingGroupSet:
        """The groups in which who may have these capacity types buys spot capacity."""
        return self._markets.spot_groups(capacity_types)

    @property
    def zones(self) -> tuple[str, ...]:
        """All that are known; an offering that names none can be had in each of them."""
        return self._markets.zones

    @property
    def groups_without_zone(self) -> OfferingGroupSet:
        """The groups that name no zone."""
        return self._markets.groups_without_zone

    def groups_by_value(self, key: str) -> Mapping[str, OfferingGroupSet]:
        """The values that the label has in any group, in order; a zone may be in none of them."""
        return self._markets.by_value(key)

    def members(self, rows: BitSet) -> Iterator[InstanceType]:
        """The types of the set, cheapest first."""
        return (self.types[row] for row in iter_bits(rows))

    def remaining_values(
        self,
        key: str,
        rows: BitSet,
        offering_groups: OfferingGroupSet,
        wanted: ValueSet = ANY_VALUE,
    ) -> list[str]:
        """The wanted values of a label that the types left still have, in order.

        A type whose offerings name the label has the values of those left in these groups; if one
        of them leaves the zone open it has all zones.
        """
        if key == ZONE and self.available_in(self.groups_without_zone & offering_groups) & rows:
            return list(filter(wanted.admits, self.zones))
        bought = rows & self._markets.naming(key)
        traded = self._markets.values(key, wanted, self._trading(bought, offering_groups))
        column = self._columns.get(key)
        described = () if column is None else column.values(rows ^ bought, wanted)
        return sorted({*traded, *described})

    def has_values(
        self,
        key: str,
        count: int,
        rows: BitSet,
        offering_groups: OfferingGroupSet,
        wanted: ValueSet,
    ) -> bool:
        """Whether `remaining_values` has so many; quicker than counting them."""
        column = self._columns.get(key)
        if column is None or key in self._markets.keys:
            return len(self.remaining_values(key, rows, offering_groups, wanted)) >= count
        return column.has_values(count, rows, wanted)

    def witnesses(self, key: str, count: int, rows: BitSet, wanted: ValueSet) -> BitSet | None:
        """Types that between them have so many wanted values, for a label that no group names."""
        column = self._columns.get(key)
        return None if column is None else column.witnesses(count, rows, wanted)

    def varies_by_offering(self, key: str) -> bool:
        """Whether the values of the label depend on the groups left, not on the types alone."""
        return key in self._markets.keys

    def offers(
        self, rows: BitSet, offering_groups: OfferingGroupSet
    ) -> Iterator[tuple[int, int, Offering]]:
        """Every available offering of the types in these groups, with its row and its group."""
        for row in iter_bits(rows):
            for _, offering_group, position in self._markets.offers(row):
                if offering_groups >> offering_group & 1:
                    yield row, offering_group, self.types[row].offerings[position]

    def _trading(self, rows: BitSet, offering_groups: OfferingGroupSet) -> OfferingGroupSet:
        return union(
            1 << number
            for number in iter_bits(offering_groups)
            if self.offering_groups[number].available_types & rows
        )

    def _column(self, key: str, held: dict[ValueSet, BitSet]) -> LabelIndex:
        lacking = self.everything ^ union(held.values())
        open_to = lacking if key in OFFERING_LABELS else lacking & self._markets.naming(key)
        return LabelIndex(held, absent=lacking ^ open_to, undecided=open_to)


def _types_by_label(
    types: Iterable[InstanceType], described: AbstractSet[str]
) -> dict[str, dict[ValueSet, BitSet]]:
    """For each label who has which values; empty for a label that nobody is described by."""
    held: dict[str, dict[ValueSet, BitSet]] = {key: {} for key in sorted(described)}
    bit = 1
    for kind in types:
        for key, requirement in kind.requirements.items():
            same = held.setdefault(key, {})
            same[requirement.allowed] = same.get(requirement.allowed, 0) | bit
        if INSTANCE_TYPE not in kind.requirements:
            same = held.setdefault(INSTANCE_TYPE, {})
            same[one_of([kind.name])] = same.get(one_of([kind.name]), 0) | bit
        bit <<= 1
    return held


def _cost_then_name(kind: InstanceType) -> tuple[float, str]:
    bought = [each for each in kind.offerings if each.available > 0 and not each.reservation_id]
    return min((each.price + kind.fee for each in bought), default=inf), kind.name
