"""Instance types compiled for one node class: types as bits, every query a few ANDs.

Bit 0 is the type with the cheapest available offering, fees included, so that the lowest bit of
a set is its cheapest member; reserved offerings do not count for this order. A query consists of
four, and the caller ANDs the results: which types have the labels, which have the room, which
offering groups are compatible, and which types are available in these groups.

The result for two requirements narrowed together may be smaller than the AND of the results for
each: a type that can take either of two values is compatible with each of them, not with both. AND
first, as it is cheap and rules out most types; query the narrowed requirements before relying on
the remaining ones.
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
    """Instance types in ascending order of cost (then name), with the queries on them.

    A type that lacks a label counts as not having it if other types of the catalogue have it, or
    if it is a label of instance types; then only NotIn and DoesNotExist match the type. The type
    leaves the label open where its offerings decide it. A label that no type and no offering has
    narrows nothing.
    """

    __slots__ = (
        "_allocatable",
        "_capacity_index",
        "_groups",
        "_label_indexes",
        "accelerated",
        "all_types",
        "allocatable_index",
        "keys",
        "metal",
        "name_order",
        "types",
    )

    def __init__(
        self,
        types: Iterable[InstanceType],
        type_labels: AbstractSet[str] = INSTANCE_TYPE_LABELS,
        zones: Iterable[str] = (),
    ) -> None:
        self.types: tuple[InstanceType, ...] = tuple(sorted(types, key=_cost_then_name))
        self.all_types: BitSet = (1 << len(self.types)) - 1
        self.name_order: list[int] = sorted(
            range(len(self.types)), key=lambda number: self.types[number].name
        )
        """The numbers of the types in the order of names."""
        self._groups = OfferingGroupTable(self.types, zones)
        by_label = _types_by_label(self.types, type_labels)
        self._label_indexes = {
            key: self._index_label(key, by_values) for key, by_values in by_label.items()
        }
        self.keys = self._groups.keys | {key for key, by_values in by_label.items() if by_values}
        """The labels that types or offerings have: well known for every user of this catalogue."""
        self._allocatable = [instance_type.allocatable for instance_type in self.types]
        self.allocatable_index = ResourceIndex(self._allocatable)
        """Allocatable resources before DaemonSet overhead."""
        self._capacity_index: ResourceIndex | None = None
        self.metal: BitSet = metal_types(self.types)
        self.accelerated: BitSet = accelerated_types(self.types)

    @property
    def offering_groups(self) -> tuple[OfferingGroup, ...]:
        """What sets offerings apart besides the type; bit i of a set is `offering_groups[i]`."""
        return self._groups.offering_groups

    def compatible_types(self, requirements: Requirements) -> BitSet:
        """The types whose labels are compatible with the requirements."""
        types = self.all_types
        for key, requirement in requirements.items():
            label_index = self._label_indexes.get(key)
            if label_index is not None:
                types &= label_index.matching(requirement.allowed)
        return types

    def fitting(self, requests: Resources) -> BitSet:
        """The types whose allocatable resources have room for the requests."""
        return self.allocatable_index.fitting(requests)

    def index_with_overhead(self, overhead: Sequence[Resources]) -> ResourceIndex:
        """The index of allocatable resources less an overhead per type, in the order of `types`."""
        pairs = zip(self._allocatable, overhead, strict=True)
        return ResourceIndex(subtract_resources(allocatable, taken) for allocatable, taken in pairs)

    @property
    def capacity_index(self) -> ResourceIndex:
        """The types by their capacity, which limits count; built on first use."""
        if self._capacity_index is None:  # only NodePools with limits need it
            self._capacity_index = ResourceIndex(each.capacity for each in self.types)
        return self._capacity_index

    def compatible_groups(self, requirements: Requirements) -> OfferingGroupSet:
        """The groups whose offerings are compatible with the requirements."""
        return self._groups.matching(requirements)

    def available_in(self, offering_groups: OfferingGroupSet) -> BitSet:
        """The types with an available offering in at least one of the groups."""
        return self._groups.available_types(offering_groups)

    def available_to(self, requirements: Requirements) -> BitSet:
        """The types with an available offering that is compatible with the requirements."""
        return self.available_in(self.compatible_groups(requirements))

    def cheapest(
        self, types: BitSet, requirements: Requirements
    ) -> tuple[InstanceType, Offering] | None:
        """The cheapest offering among the types: by cost, then name, then the order of groups."""
        return self.cheapest_in_groups(types, self.compatible_groups(requirements))

    def cheapest_in_groups(
        self, types: BitSet, offering_groups: OfferingGroupSet
    ) -> tuple[InstanceType, Offering] | None:
        cheapest = self.find_cheapest(types, offering_groups)
        return None if cheapest is None else (self.types[cheapest[0]], cheapest[2])

    def find_cheapest(
        self, types: BitSet, offering_groups: OfferingGroupSet
    ) -> tuple[int, int, Offering] | None:
        """The cheapest offering, with the numbers of its type and its group."""
        cheapest = self._groups.cheapest(types, offering_groups)
        if cheapest is None:
            return None
        type_number, group_number, position = cheapest
        return type_number, group_number, self.types[type_number].offerings[position]

    def cheapest_offerings(
        self, type_number: int, offering_groups: OfferingGroupSet
    ) -> list[tuple[int, int, Offering]]:
        """All offerings of one type that share its lowest cost in these groups."""
        offerings = self.types[type_number].offerings
        cheapest = self._groups.cheapest_of(type_number, offering_groups)
        return [
            (type_number, group_number, offerings[position]) for group_number, position in cheapest
        ]

    def spot_groups(self, capacity_types: ValueSet) -> OfferingGroupSet:
        """The groups that launch spot instances for requirements with these capacity types."""
        return self._groups.spot_groups(capacity_types)

    @property
    def zones(self) -> tuple[str, ...]:
        """All known zones; an offering that names no zone is available in each of them."""
        return self._groups.zones

    @property
    def groups_without_zone(self) -> OfferingGroupSet:
        """The groups that name no zone."""
        return self._groups.groups_without_zone

    def groups_by_value(self, key: str) -> Mapping[str, OfferingGroupSet]:
        """The values that the label has in any group, in order; a zone may be in none of them."""
        return self._groups.by_value(key)

    def iter_types(self, types: BitSet) -> Iterator[InstanceType]:
        """The types of the set, cheapest first."""
        return (self.types[number] for number in iter_bits(types))

    def remaining_values(
        self,
        key: str,
        types: BitSet,
        offering_groups: OfferingGroupSet,
        wanted: ValueSet = ANY_VALUE,
    ) -> list[str]:
        """The wanted values of a label that these types still have in these groups, in order.

        A type whose offerings name the label has the values of its offerings in these groups; if
        one of them leaves the zone open the type has all zones.
        """
        if key == ZONE and self.available_in(self.groups_without_zone & offering_groups) & types:
            return list(filter(wanted.admits, self.zones))
        by_offering = types & self._groups.types_naming(key)
        groups = self._groups_of_types(by_offering, offering_groups)
        offering_values = self._groups.values(key, wanted, groups)
        label_index = self._label_indexes.get(key)
        type_values = () if label_index is None else label_index.values(types ^ by_offering, wanted)
        return sorted({*offering_values, *type_values})

    def has_values(
        self,
        key: str,
        count: int,
        types: BitSet,
        offering_groups: OfferingGroupSet,
        wanted: ValueSet,
    ) -> bool:
        """Whether `remaining_values` has at least `count` values.

        For a label that no offering has it stops at that count: it runs for every pod and every
        minValues.
        """
        label_index = self._label_indexes.get(key)
        if label_index is None or key in self._groups.keys:
            return len(self.remaining_values(key, types, offering_groups, wanted)) >= count
        return label_index.has_values(count, types, wanted)

    def witnesses(self, key: str, count: int, types: BitSet, wanted: ValueSet) -> BitSet | None:
        """Some of the types that together have `count` wanted values; None if there are too few.

        Only for labels that no group names.
        """
        label_index = self._label_indexes.get(key)
        return None if label_index is None else label_index.witnesses(count, types, wanted)

    def varies_by_offering(self, key: str) -> bool:
        """Whether the values of the label depend on the remaining groups, not on types alone."""
        return key in self._groups.keys

    def available_offerings(
        self, types: BitSet, offering_groups: OfferingGroupSet
    ) -> Iterator[tuple[int, int, Offering]]:
        """Every available offering of the types in these groups, with type and group number."""
        for type_number in iter_bits(types):
            for _, group_number, position in self._groups.available_offerings(type_number):
                if offering_groups >> group_number & 1:
                    yield type_number, group_number, self.types[type_number].offerings[position]

    def _groups_of_types(
        self, types: BitSet, offering_groups: OfferingGroupSet
    ) -> OfferingGroupSet:
        """Those of the groups in which one of the types is available."""
        return union(
            1 << number
            for number in iter_bits(offering_groups)
            if self.offering_groups[number].available_types & types
        )

    def _index_label(self, key: str, by_values: dict[ValueSet, BitSet]) -> LabelIndex:
        lacking = self.all_types ^ union(by_values.values())
        undecided = lacking if key in OFFERING_LABELS else lacking & self._groups.types_naming(key)
        return LabelIndex(by_values, absent=lacking ^ undecided, undecided=undecided)


def _types_by_label(
    types: Iterable[InstanceType], type_labels: AbstractSet[str]
) -> dict[str, dict[ValueSet, BitSet]]:
    """For each label the types by its values; empty for a label of `type_labels` that none has."""
    by_label: dict[str, dict[ValueSet, BitSet]] = {key: {} for key in sorted(type_labels)}
    bit = 1
    for instance_type in types:
        for key, requirement in instance_type.requirements.items():
            by_values = by_label.setdefault(key, {})
            by_values[requirement.allowed] = by_values.get(requirement.allowed, 0) | bit
        if INSTANCE_TYPE not in instance_type.requirements:
            by_values = by_label.setdefault(INSTANCE_TYPE, {})
            name = one_of([instance_type.name])
            by_values[name] = by_values.get(name, 0) | bit
        bit <<= 1
    return by_label


def _cost_then_name(instance_type: InstanceType) -> tuple[float, str]:
    costs = (
        offering.price + instance_type.fee
        for offering in instance_type.offerings
        if offering.available > 0 and not offering.reservation_id
    )
    return min(costs, default=inf), instance_type.name
