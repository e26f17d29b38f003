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

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

import msgspec

from wainwright.model.bitset import BitSet, LabelIndex, ResourceIndex, iter_bits, union
from wainwright.model.instance_type import InstanceType, Offering
from wainwright.model.instance_type_tables import InstanceTypeTables, tables_of
from wainwright.model.labels import INSTANCE_TYPE_LABELS, OFFERING_LABELS, ZONE
from wainwright.model.offering_groups import (
    OfferingGroup,
    OfferingGroupSet,
    OfferingGroupTable,
    describe_offerings,
)
from wainwright.model.requirements import ANY_VALUE, Requirements, ValueSet
from wainwright.model.resources import Resources, subtract_resources


class InstanceTypeIndex:
    """Instance types in ascending order of cost (then name), with the queries on them.

    A type that lacks a label counts as not having it if other types of the catalogue have it, or
    if it is a label of instance types; then only NotIn and DoesNotExist match the type. The type
    leaves the label open where its offerings decide it. A label that no type and no offering has
    narrows nothing.
    """

    __slots__ = (
        "_by_name",
        "_drivers",
        "_groups",
        "_label_indexes",
        "_tables",
        "_type_labels",
        "_values",
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
        previous: "InstanceTypeIndex | None" = None,
    ) -> None:
        """`previous` only saves time: what the same types have in common with it is not compiled
        again, so that a change of prices, counts or availability takes a fraction of the time.
        """
        groups, tables = (None, None) if previous is None else (previous._groups, previous._tables)
        offerings = describe_offerings(types, zones, groups)
        self.types: tuple[InstanceType, ...] = offerings.types
        self.all_types: BitSet = (1 << len(self.types)) - 1
        self._groups: OfferingGroupTable = OfferingGroupTable(offerings)
        self._tables: InstanceTypeTables = tables_of(self.types, tables)
        self._type_labels = type_labels
        # Compiled by label when first asked for: most plans ask for a few of thirty labels.
        self._label_indexes: dict[str, LabelIndex | None] = {}
        if previous is not None and self._has_same_labels(previous):
            self._label_indexes = previous._label_indexes
        self._values: dict[str, tuple[str, ...]] = {}
        self._by_name: dict[str, InstanceType] | None = None
        self._drivers: frozenset[str] | None = None
        self.keys = self._groups.keys | self._tables.label_keys
        """The labels that types or offerings have: well known for every user of this catalogue."""
        # Copied from the tables, as the planner's inner loops read them.
        self.name_order: list[int] = self._tables.name_order
        """The numbers of the types in the order of names."""
        self.allocatable_index: ResourceIndex = self._tables.allocatable_index
        """Allocatable resources before DaemonSet overhead."""
        self.metal: BitSet = self._tables.metal
        self.accelerated: BitSet = self._tables.accelerated

    def find(self, name: str) -> InstanceType | None:
        if self._by_name is None:
            self._by_name = {each.name: each for each in self.types}
        return self._by_name.get(name)

    @property
    def limited_drivers(self) -> frozenset[str]:
        """The CSI drivers of whose volumes any type attaches only so many."""
        if self._drivers is None:
            known = {id(each.attach_limits): each.attach_limits for each in self.types}
            self._drivers = frozenset[str]().union(*known.values())
        return self._drivers

    def with_more_reserved(self, added: Mapping[str, int]) -> "InstanceTypeIndex":
        """The same types with more available instances in these capacity reservations."""

        def enlarge(offering: Offering) -> Offering:
            more = added.get(offering.reservation_id or "", 0)
            return msgspec.structs.replace(offering, available=offering.available + more)

        def changed(each: InstanceType) -> InstanceType:
            if not any(offering.reservation_id in added for offering in each.offerings):
                return each
            offerings = tuple(map(enlarge, each.offerings))
            return msgspec.structs.replace(each, offerings=offerings)

        types = map(changed, self.types)
        return InstanceTypeIndex(types, self._type_labels, self.zones, previous=self)

    def _has_same_labels(self, previous: "InstanceTypeIndex") -> bool:
        """Whether label indexes are the same: of the same types, with offerings that name the same
        labels."""
        return (
            self._tables is previous._tables
            and self._type_labels == previous._type_labels
            and self._groups.has_same_labels(previous._groups)
        )

    @property
    def offering_groups(self) -> tuple[OfferingGroup, ...]:
        """What sets offerings apart besides the type; bit i of a set is `offering_groups[i]`."""
        return self._groups.offering_groups

    def compatible_types(self, requirements: Requirements) -> BitSet:
        """The types whose labels are compatible with the requirements."""
        types = self.all_types
        for key, requirement in requirements.items():
            label_index = self._label_index(key)
            if label_index is not None:
                types &= label_index.matching(requirement.allowed)
        return types

    def fitting(self, requests: Resources) -> BitSet:
        """The types whose allocatable resources have room for the requests."""
        return self.allocatable_index.fitting(requests)

    def index_with_overhead(self, overhead: Sequence[Resources]) -> ResourceIndex:
        """The index of allocatable resources less an overhead per type, in the order of `types`."""
        pairs = zip(self._tables.allocatable, overhead, strict=True)
        return ResourceIndex(subtract_resources(allocatable, taken) for allocatable, taken in pairs)

    def types_named(self, names: AbstractSet[str]) -> BitSet:
        """The types with these names."""
        return self._groups.types_named(names)

    def groups_of_reservations(self, ids: AbstractSet[str]) -> OfferingGroupSet:
        """The groups of these reservations."""
        return self._groups.groups_of_reservations(ids)

    @property
    def capacity_index(self) -> ResourceIndex:
        """The types by their capacity, which limits count; built on first use."""
        return self._tables.capacity_index

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

    def most_available(
        self, type_number: int, reserved: OfferingGroupSet, available_count: Callable[[str], int]
    ) -> tuple[int, int, Offering]:
        """The cheapest offering of one type in these reserved groups, of equal ones that with the
        most available instances in the first zone, with the numbers of its type and its group.
        """
        group_number, position = self._groups.most_available(type_number, reserved, available_count)
        return type_number, group_number, self.types[type_number].offerings[position]

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

    @property
    def reserved_groups(self) -> OfferingGroupSet:
        """Those of capacity reservations."""
        return self._groups.with_reservation

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
        label_index = self._label_index(key)
        type_values = () if label_index is None else label_index.values(types ^ by_offering, wanted)
        return sorted({*offering_values, *type_values})

    def all_values(self, key: str) -> tuple[str, ...]:
        """Every value of a label, in order; kept, as explanations of many NodePools need them."""
        if key not in self._values:
            all_groups = (1 << len(self.offering_groups)) - 1
            self._values[key] = tuple(self.remaining_values(key, self.all_types, all_groups))
        return self._values[key]

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
        label_index = self._label_index(key)
        if label_index is None or key in self._groups.keys:
            return len(self.remaining_values(key, types, offering_groups, wanted)) >= count
        return label_index.has_values(count, types, wanted)

    def witnesses(self, key: str, count: int, types: BitSet, wanted: ValueSet) -> BitSet | None:
        """Some of the types that together have `count` wanted values; None if there are too few.

        Only for labels that no group names.
        """
        label_index = self._label_index(key)
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

    def _label_index(self, key: str) -> LabelIndex | None:
        """The index of a label, compiled on first use; None for one that narrows no types."""
        try:
            return self._label_indexes[key]
        except KeyError:
            label_index = self._label_indexes[key] = self._compile_label(key)
            return label_index

    def _compile_label(self, key: str) -> LabelIndex | None:
        if key not in self._tables.label_keys and key not in self._type_labels:
            return None
        by_values = self._tables.types_by_values(key)
        lacking = self.all_types ^ union(by_values.values())
        undecided = lacking if key in OFFERING_LABELS else lacking & self._groups.types_naming(key)
        return LabelIndex(by_values, absent=lacking ^ undecided, undecided=undecided)


class IndexCompiler:
    """Compiles one index after another, each with what it has in common with the one before.

    For the catalogues of one node class in turn; that of another class would only save less.
    """

    def __init__(self) -> None:
        self._last: InstanceTypeIndex | None = None

    def compile(self, types: Iterable[InstanceType], zones: Iterable[str]) -> InstanceTypeIndex:
        self._last = InstanceTypeIndex(types, zones=zones, previous=self._last)
        return self._last
