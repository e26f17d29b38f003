"""Bin types: an instance type of a NodePool at the best price for the item classes that may use it.

An item class stands for pods that may be on the same nodes. A bin type that has no more
capacity than another, is not cheaper and serves no other class is dominated and left out: of a
thousand instance types about one in ten is worth a look.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from wainwright.core.launch.launch_choice import hourly_cost
from wainwright.core.packing.resource_vectors import ResourceVector, VectorEncoder
from wainwright.core.scheduling.nodeclaim_template import NodeClaimTemplate
from wainwright.model.bitset import BitSet, iter_bits, union
from wainwright.model.offering_groups import OfferingGroupSet

MAX_CLASS_SETS: Final = 16  # that item classes with conflicts are split into

ItemClassSet: TypeAlias = int
"""A set of item classes: bit i stands for the one with that number."""

NO_CONFLICTS: Final[Mapping[int, Sequence[ItemClassSet]]] = {}


class AllowedOfferings(NamedTuple):
    """What an item class may launch of each template: which types, and which offering groups."""

    rows: tuple[BitSet, ...]
    offering_groups: tuple[OfferingGroupSet, ...]

    def merged_with(self, other: "AllowedOfferings") -> "AllowedOfferings":
        """All that either may buy."""
        return AllowedOfferings(
            tuple(a | b for a, b in zip(self.rows, other.rows, strict=True)),
            tuple(a | b for a, b in zip(self.offering_groups, other.offering_groups, strict=True)),
        )

    def differing_templates(self, other: "AllowedOfferings") -> BitSet:
        """The templates of which both may buy, but not the same."""
        mine = zip(self.rows, self.offering_groups, strict=True)
        others = zip(other.rows, other.offering_groups, strict=True)
        pairs = enumerate(zip(mine, others, strict=True))
        return union(1 << n for n, (a, b) in pairs if a != b and any(a) and any(b))


class BinType(NamedTuple):
    """An instance type as it would be launched for these item classes."""

    template: NodeClaimTemplate
    row: int
    price: float
    """USD per hour with fees."""
    room: ResourceVector
    """What is left once daemonsets have their share."""
    usable_by: ItemClassSet


def enumerate_bin_types(
    templates: Sequence[NodeClaimTemplate],
    allowed_offerings: Sequence[AllowedOfferings],
    resources: Sequence[str],
    conflicts: Mapping[int, Sequence[ItemClassSet]] = NO_CONFLICTS,
    *,
    exotic: bool = False,
) -> list[BinType]:
    """Every bin type that some item class may buy.

    `conflicts` are, by template, the item classes that cannot share a node, for each class.
    Bare metal and types with accelerators are left out where they would never be launched, as
    there is an ordinary type with as much room; unless nobody is sure of that (`exotic`).
    """
    found: list[BinType] = []
    for template in templates:
        rooms, template_conflicts = (
            CapacityForPods(template, resources),
            conflicts.get(template.number, ()),
        )
        for usable_by, rows, offering_groups in _segments_by_class(
            template.number, allowed_offerings
        ):
            bin_types = list(_cheapest_bin_types(template, rooms, rows, offering_groups))
            bin_types = bin_types if exotic else _without_unlikely_exotic(bin_types)
            for compatible in conflict_free_sets(usable_by, template_conflicts):
                found += [bin_type._replace(usable_by=compatible) for bin_type in bin_types]
    return found


def _segments_by_class(
    template: int, allowed_offerings: Sequence[AllowedOfferings]
) -> Iterator[tuple[ItemClassSet, BitSet, OfferingGroupSet]]:
    """Types and markets of a template that are open to the same item classes."""
    types = partition_by_membership([offerings.rows[template] for offerings in allowed_offerings])
    for buying, offering_groups in partition_by_membership(
        [offerings.offering_groups[template] for offerings in allowed_offerings]
    ):
        for taking, rows in types:
            if buying & taking:
                yield buying & taking, rows, offering_groups


def _without_unlikely_exotic(bin_types: Sequence[BinType]) -> list[BinType]:
    """Without what an ordinary type would be launched instead of."""
    ordinary = [bin_type.room for bin_type in bin_types if not _is_exotic(bin_type)]
    largest: list[ResourceVector] = []
    for room in sorted(ordinary, reverse=True):
        if not any(_covers(other, room) for other in largest):
            largest.append(room)
    return [
        bin_type
        for bin_type in bin_types
        if not _is_exotic(bin_type) or not any(_covers(other, bin_type.room) for other in largest)
    ]


def _is_exotic(bin_type: BinType) -> bool:
    index = bin_type.template.index
    return bool((index.metal | index.accelerated) >> bin_type.row & 1)


def _covers(room: ResourceVector, other: ResourceVector) -> bool:
    return all(mine >= its for mine, its in zip(room, other, strict=True))


def remove_dominated(bin_types: Iterable[BinType], encoder: VectorEncoder) -> list[BinType]:
    """The cheapest first, without those that another is at least as good as."""
    kept = _DominanceFilter(encoder)
    return [bin_type for bin_type in sorted(bin_types, key=_bin_type_order) if kept.adds(bin_type)]


class _DominanceFilter:
    """The rooms that are kept, by who may use them."""

    def __init__(self, encoder: VectorEncoder) -> None:
        self._encoder = encoder
        self._rooms: dict[ItemClassSet, list[int]] = {}
        self._open_to: dict[ItemClassSet, list[list[int]]] = {}
        """For each set of item classes the rooms that all of them may use."""

    def adds(self, bin_type: BinType) -> bool:
        """Whether it is better than all before, which were not dearer."""
        room, guard = self._encoder.encoded(bin_type.room), self._encoder.guard
        for rooms in self._rooms_for(bin_type.usable_by):
            for other in rooms:
                if not other - room & guard:
                    return False
        self._rooms[bin_type.usable_by].append(room)
        return True

    def _rooms_for(self, usable_by: ItemClassSet) -> list[list[int]]:
        if usable_by not in self._rooms:
            self._rooms[usable_by] = []
            for known, lists in self._open_to.items():
                if not known & ~usable_by:
                    lists.append(self._rooms[usable_by])
            self._open_to[usable_by] = [
                rooms for others, rooms in self._rooms.items() if not usable_by & ~others
            ]
        return self._open_to[usable_by]


def partition_by_membership(sets: Sequence[BitSet]) -> list[tuple[ItemClassSet, BitSet]]:
    """The members of any of the sets, by which of the sets they are in."""
    parts = {0: union(sets)}
    for number, rows in enumerate(sets):
        split: dict[ItemClassSet, BitSet] = {}
        for who, having in parts.items():
            inside = having & rows
            if inside:
                split[who | 1 << number] = inside
            if inside != having:
                split[who] = having ^ inside
        parts = split
    return [(who, rows) for who, rows in parts.items() if who]


def conflict_free_sets(
    usable_by: ItemClassSet, conflicts: Sequence[ItemClassSet]
) -> list[ItemClassSet]:
    """The item classes in sets, none of which has two that are in conflict."""
    found: list[ItemClassSet] = []
    open_sets = [usable_by]
    while open_sets:
        wanted = open_sets.pop()
        conflict = next((n for n in iter_bits(wanted) if conflicts and wanted & conflicts[n]), None)
        if conflict is None or len(open_sets) + len(found) >= MAX_CLASS_SETS:
            found.append(wanted)
        else:
            open_sets += [wanted ^ 1 << conflict, wanted ^ (wanted & conflicts[conflict])]
    return list(dict.fromkeys(found))


class CapacityForPods:
    """What pods can have of each resource on the types of one pool."""

    def __init__(self, template: NodeClaimTemplate, resources: Sequence[str]) -> None:
        self._types = template.index.types
        self._taken = template.overhead.by_type(len(self._types))
        self._resources = resources
        self._known: dict[int, ResourceVector] = {}

    def of(self, row: int) -> ResourceVector:
        found = self._known.get(row)
        if found is None:
            has, taken = self._types[row].allocatable, self._taken[row]
            amounts = [has.get(name, 0) - taken.get(name, 0) for name in self._resources]
            found = self._known[row] = tuple(max(0, amount) for amount in amounts)
        return found


def _cheapest_bin_types(
    template: NodeClaimTemplate,
    rooms: CapacityForPods,
    rows: BitSet,
    offering_groups: OfferingGroupSet,
) -> Iterator[BinType]:
    index = template.index
    for row in iter_bits(rows & index.available_in(offering_groups)):
        bought = index.find_cheapest(1 << row, offering_groups)
        if bought is not None:
            yield BinType(template, row, hourly_cost(index, row, bought[2]), rooms.of(row), 0)


def _bin_type_order(bin_type: BinType) -> tuple[float, tuple[int, ...], int, int, int]:
    """The cheapest first, among equals the roomiest."""
    roomiest = tuple(-amount for amount in bin_type.room)
    return (
        bin_type.price,
        roomiest,
        -bin_type.usable_by.bit_count(),
        bin_type.template.number,
        bin_type.row,
    )
