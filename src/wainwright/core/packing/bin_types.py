"""Bin types: an instance type of a NodePool at the best price for the item classes that may use it.

An item class stands for pods that may be on the same nodes. A bin type that has no more
capacity than another, is not cheaper and serves no other class is dominated and left out: of a
thousand instance types about one in ten is kept, and everything later takes as much less time.
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

    types: tuple[BitSet, ...]
    offering_groups: tuple[OfferingGroupSet, ...]

    def merged_with(self, other: "AllowedOfferings") -> "AllowedOfferings":
        """All that either may launch."""
        return AllowedOfferings(
            tuple(a | b for a, b in zip(self.types, other.types, strict=True)),
            tuple(a | b for a, b in zip(self.offering_groups, other.offering_groups, strict=True)),
        )

    def differing_templates(self, other: "AllowedOfferings") -> BitSet:
        """The templates of which both may launch something, but not the same."""
        ours = zip(self.types, self.offering_groups, strict=True)
        others = zip(other.types, other.offering_groups, strict=True)
        pairs = enumerate(zip(ours, others, strict=True))
        return union(1 << n for n, (a, b) in pairs if a != b and any(a) and any(b))


class BinType(NamedTuple):
    """An instance type as it would be launched for these item classes."""

    template: NodeClaimTemplate
    type_number: int
    """In the instance type index of the template."""
    price: float
    """USD per hour with fees."""
    room: ResourceVector
    """Allocatable resources without the daemonset overhead."""
    usable_by: ItemClassSet


def enumerate_bin_types(
    templates: Sequence[NodeClaimTemplate],
    allowed_offerings: Sequence[AllowedOfferings],
    resources: Sequence[str],
    conflicts: Mapping[int, Sequence[ItemClassSet]] = NO_CONFLICTS,
    *,
    exotic: bool = False,
) -> list[BinType]:
    """Every bin type that some item class may launch.

    `conflicts` are, by template, the item classes that cannot share a node, for each class.
    Bare metal and types with accelerators are left out where they would never be launched, as
    there is an ordinary type with as much room. With `exotic` they are kept, for callers that
    cannot be sure that the ordinary type is available.
    """
    all_bin_types: list[BinType] = []
    for template in templates:
        rooms, template_conflicts = (
            CapacityForPods(template, resources),
            conflicts.get(template.number, ()),
        )
        for usable_by, types, offering_groups in _segments_by_class(
            template.number, allowed_offerings
        ):
            bin_types = list(_cheapest_bin_types(template, rooms, types, offering_groups))
            bin_types = bin_types if exotic else _without_unlikely_exotic(bin_types)
            for compatible in conflict_free_sets(usable_by, template_conflicts):
                all_bin_types += [bin_type._replace(usable_by=compatible) for bin_type in bin_types]
    return all_bin_types


def _segments_by_class(
    template: int, allowed_offerings: Sequence[AllowedOfferings]
) -> Iterator[tuple[ItemClassSet, BitSet, OfferingGroupSet]]:
    """Types and offering groups of a template that the same item classes may launch.

    Prices are worked out for such segments, not for every class: there are far fewer of them.
    """
    types_by_classes = partition_by_membership([o.types[template] for o in allowed_offerings])
    for allowing_groups, offering_groups in partition_by_membership(
        [offerings.offering_groups[template] for offerings in allowed_offerings]
    ):
        for allowing_types, types in types_by_classes:
            if allowing_groups & allowing_types:
                yield allowing_groups & allowing_types, types, offering_groups


def _without_unlikely_exotic(bin_types: Sequence[BinType]) -> list[BinType]:
    """Without exotic types for which an ordinary type would be launched instead.

    Only the largest ordinary rooms are compared with: a room that another covers decides nothing.
    """
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
    return bool((index.metal | index.accelerated) >> bin_type.type_number & 1)


def _covers(room: ResourceVector, other: ResourceVector) -> bool:
    return all(ours >= theirs for ours, theirs in zip(room, other, strict=True))


def remove_dominated(bin_types: Iterable[BinType], encoder: VectorEncoder) -> list[BinType]:
    """The cheapest first, without those that another is at least as good as."""
    kept = _DominanceFilter(encoder)
    ordered = sorted(bin_types, key=_bin_type_order)
    return [bin_type for bin_type in ordered if kept.add_if_undominated(bin_type)]


class _DominanceFilter:
    """The encoded rooms of the bin types kept so far, by the item classes that may use them."""

    def __init__(self, encoder: VectorEncoder) -> None:
        self._encoder = encoder
        self._rooms: dict[ItemClassSet, list[int]] = {}
        self._usable_rooms: dict[ItemClassSet, list[list[int]]] = {}
        """For each set of item classes the lists of rooms that all of them may use.

        The lists are those of `_rooms`, shared: a room that is added is in all of them at once.
        """

    def add_if_undominated(self, bin_type: BinType) -> bool:
        """Adds it unless one added before has as much room; by their order none costs more."""
        room, guard = self._encoder.encode(bin_type.room), self._encoder.guard
        for rooms in self._rooms_for(bin_type.usable_by):
            for other in rooms:
                if not other - room & guard:
                    return False
        self._rooms[bin_type.usable_by].append(room)
        return True

    def _rooms_for(self, usable_by: ItemClassSet) -> list[list[int]]:
        if usable_by not in self._rooms:
            self._rooms[usable_by] = []
            for known, lists in self._usable_rooms.items():
                if not known & ~usable_by:
                    lists.append(self._rooms[usable_by])
            self._usable_rooms[usable_by] = [
                rooms for others, rooms in self._rooms.items() if not usable_by & ~others
            ]
        return self._usable_rooms[usable_by]


def partition_by_membership(sets: Sequence[BitSet]) -> list[tuple[ItemClassSet, BitSet]]:
    """The members of any of the sets, by which of the sets they are in.

    Splitting bit sets takes one step for each set and part, not one for each member.
    """
    parts = {0: union(sets)}
    for number, members in enumerate(sets):
        split: dict[ItemClassSet, BitSet] = {}
        for containing, part in parts.items():
            inside = part & members
            if inside:
                split[containing | 1 << number] = inside
            if inside != part:
                split[containing] = part ^ inside
        parts = split
    return [(containing, part) for containing, part in parts.items() if containing]


def conflict_free_sets(
    usable_by: ItemClassSet, conflicts: Sequence[ItemClassSet]
) -> list[ItemClassSet]:
    """The item classes in sets, none of which has two that are in conflict.

    The number of sets doubles with each conflict, so that it is capped: sets beyond the cap keep
    their conflicts, and the pods that do not fit the draft are placed by the growth rule.
    """
    conflict_free: list[ItemClassSet] = []
    open_sets = [usable_by]
    while open_sets:
        classes = open_sets.pop()
        conflicting = (n for n in iter_bits(classes) if conflicts and classes & conflicts[n])
        first = next(conflicting, None)
        if first is None or len(open_sets) + len(conflict_free) >= MAX_CLASS_SETS:
            conflict_free.append(classes)
        else:
            open_sets += [classes ^ 1 << first, classes ^ (classes & conflicts[first])]
    return list(dict.fromkeys(conflict_free))


class CapacityForPods:
    """The room for pods on each type of one pool, worked out when it is first needed."""

    def __init__(self, template: NodeClaimTemplate, resources: Sequence[str]) -> None:
        self._types = template.index.types
        self._overhead = template.overhead.by_type(len(self._types))
        self._resources = resources
        self._cache: dict[int, ResourceVector] = {}

    def room_of(self, type_number: int) -> ResourceVector:
        room = self._cache.get(type_number)
        if room is None:
            allocatable, overhead = (
                self._types[type_number].allocatable,
                self._overhead[type_number],
            )
            amounts = [allocatable.get(name, 0) - overhead.get(name, 0) for name in self._resources]
            room = self._cache[type_number] = tuple(max(0, amount) for amount in amounts)
        return room


def _cheapest_bin_types(
    template: NodeClaimTemplate,
    rooms: CapacityForPods,
    types: BitSet,
    offering_groups: OfferingGroupSet,
) -> Iterator[BinType]:
    index = template.index
    for type_number in iter_bits(types & index.available_in(offering_groups)):
        cheapest = index.find_cheapest(1 << type_number, offering_groups)
        if cheapest is not None:
            yield BinType(
                template,
                type_number,
                hourly_cost(index, type_number, cheapest[2]),
                rooms.room_of(type_number),
                0,
            )


def _bin_type_order(bin_type: BinType) -> tuple[float, tuple[int, ...], int, int, int]:
    """The cheapest first, then the one with most room, so that a dominated one comes later."""
    most_room = tuple(-amount for amount in bin_type.room)
    return (
        bin_type.price,
        most_room,
        -bin_type.usable_by.bit_count(),
        bin_type.template.number,
        bin_type.type_number,
    )
