"""Capacity reservations: exact counts of available instances by reservation id, shared by all
NodePools and drafts that can use them.

A draft holds one instance of every reservation that it might use, and releases what it can no
longer use. When a round ends each draft takes the one that it would be launched with and releases
the others. In-flight NodeClaims that are not launched yet take theirs beforehand: EC2 does not
count those yet.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from wainwright.model.bitset import MAX_CACHED_RESULTS, BitSet, iter_bits, union
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.offering_groups import OfferingGroupSet
from wainwright.model.plan import PlannedNodeClaim, ReservationUsage
from wainwright.model.snapshot import Node, ReservationState

ReservationSet: TypeAlias = int
"""A set of reservations: bit i stands for the reservation with that number."""


class BitPlaneCounters:
    """A counter for every reservation, stored as bit planes.

    Plane i has the i-th binary digit of all counters, so that a whole set is counted up or down
    with a few integer operations. Without it, holding hundreds of reservations would take a loop
    over them for every draft.
    """

    __slots__ = ("_planes",)

    def copy(self) -> "BitPlaneCounters":
        clone = BitPlaneCounters.__new__(BitPlaneCounters)
        clone._planes = list(self._planes)
        return clone

    def __init__(self, counts: Mapping[int, int]) -> None:
        digits = max((count.bit_length() for count in counts.values()), default=0)
        self._planes: list[ReservationSet] = [
            union(1 << number for number, count in counts.items() if count >> place & 1)
            for place in range(digits)
        ]

    def add(self, ids: ReservationSet) -> None:
        planes = self._planes
        for place, plane in enumerate(planes):
            planes[place] = plane ^ ids
            ids &= plane
            if not ids:
                return
        if ids:
            planes.append(ids)

    def subtract(self, ids: ReservationSet) -> None:
        """Subtracts one from each; none of them may be at zero."""
        planes = self._planes
        for place, plane in enumerate(planes):
            planes[place] = plane ^ ids
            ids ^= ids & plane
            if not ids:
                return

    @property
    def positive(self) -> ReservationSet:
        result = 0
        for plane in self._planes:
            result |= plane
        return result


class ReservationManager:
    """Counts available instances of each reservation, and which of them no draft holds."""

    __slots__ = (
        "_counts",
        "_unheld_counts",
        "_versions",
        "available",
        "numbers",
        "options_version",
        "round",
        "unheld",
        "version",
    )

    def __init__(self, counts: Mapping[str, int], numbers: Mapping[str, int]) -> None:
        self.numbers = numbers
        self._counts = dict(counts)
        by_number = {numbers[name]: count for name, count in counts.items()}
        self._unheld_counts = BitPlaneCounters(by_number)
        self.available: ReservationSet = union(
            1 << number for number, count in by_number.items() if count > 0
        )
        """Reservations with instances that no launch has taken."""
        self.unheld: ReservationSet = self.available
        """Those of them with an instance that no draft holds."""
        self._versions = itertools.count(1)
        """Shared with forks: a cached answer of one fork is never taken for one of another."""
        self.round = next(self._versions)
        """Another number for every round: instances are taken only when a round ends."""
        self.options_version = next(self._versions)
        """Another number whenever reservations change that may change a new-node option."""
        self.version = self.options_version
        """Another number whenever something changes after which an unplaced pod may be placed."""

    def fork(self) -> "ReservationManager":
        """The same counts. Options that were evaluated before stay valid in the fork."""
        clone = ReservationManager.__new__(ReservationManager)
        clone.numbers, clone._versions = self.numbers, self._versions
        clone._counts, clone._unheld_counts = dict(self._counts), self._unheld_counts.copy()
        clone.available, clone.unheld = self.available, self.unheld
        clone.round, clone.options_version = self.round, self.options_version
        clone.version = next(self._versions)
        return clone

    def return_instances(self, name: str, count: int) -> None:
        """In-flight NodeClaims that were to use this many instances will not be launched."""
        number = self.numbers[name]
        self._counts[name] += count
        self.available |= 1 << number
        for _ in range(count):
            self._unheld_counts.add(1 << number)
        self.unheld = self._unheld_counts.positive
        self.begin_round()  # as after a round, all that was derived from the counts is void

    def withdraw_all(self) -> None:
        """No instance of any reservation is to be used."""
        self._counts = dict.fromkeys(self._counts, 0)
        self._unheld_counts = BitPlaneCounters({})
        self.available = self.unheld = 0
        self.begin_round()

    @property
    def available_count(self) -> Callable[[str], int]:
        """Instances of a reservation that no launch has taken, held or not.

        The dictionary's own method, as thousands of reservations are compared for a launch.
        """
        return self._counts.__getitem__

    def hold(self, ids: ReservationSet) -> None:
        self._unheld_counts.subtract(ids)
        self._update_unheld()

    def release(self, ids: ReservationSet) -> None:
        self._unheld_counts.add(ids)
        self._update_unheld()

    def commit(self, held: ReservationSet, name: str) -> None:
        """A launch takes one of the instances held for it; the others are released."""
        number = self.numbers[name]
        self._unheld_counts.add(held ^ (held & 1 << number))
        self._counts[name] -= 1
        if not self._counts[name]:
            self.available ^= 1 << number
        self._options_changed()
        self._update_unheld()

    def begin_round(self) -> None:
        self.round = next(self._versions)
        self._options_changed()

    def limits_returned(self) -> None:
        """NodePools may launch more. Options of those with other limits than before are known to be
        void by these; options of all others stay valid.
        """
        self.round = next(self._versions)

    def draft_opened(self) -> None:
        """A new draft may take pods that could not be placed, but changes no reservation."""
        self.version = next(self._versions)

    def _options_changed(self) -> None:
        self.options_version = self.version = next(self._versions)

    def _update_unheld(self) -> None:
        unheld = self._unheld_counts.positive
        # Options depend on the set only, not on the counts: without this check every hold and
        # release would invalidate all cached options.
        if unheld != self.unheld:
            self.unheld = unheld
            self._options_changed()


class PoolReservations:
    """The reserved offering groups of a pool, or of several pools that may use the same ones."""

    __slots__ = (
        "_groups_by_type",
        "_groups_cache",
        "_index",
        "_last_query",
        "_one_type_per_group",
        "_types_by_group",
        "ids_are_groups",
        "ids_by_group",
        "offering_groups",
        "types",
    )

    def __init__(
        self, index: InstanceTypeIndex, admitted: OfferingGroupSet, numbers: Mapping[str, int]
    ) -> None:
        self._index = index
        self.offering_groups: OfferingGroupSet = 0
        self.types: BitSet = 0
        """The types with reservations in these groups."""
        self.ids_by_group: dict[int, ReservationSet] = {}
        self._types_by_group: dict[OfferingGroupSet, BitSet] = {}
        self._groups_by_type: dict[int, OfferingGroupSet] = {}
        self._groups_cache: dict[BitSet, OfferingGroupSet] = {}
        """Results of `groups_offering`: equal pods ask for the same types. Without it each pod that
        opens a node looks at every type that has a reservation.
        """
        self._last_query: tuple[OfferingGroupSet, BitSet] = (0, 0)
        """The last argument and result of `_types_in`. From one node to the next a reservation or
        two run out: saves collecting the types of thousands of others again.
        """
        for offering_group in iter_bits(admitted):
            name = index.offering_groups[offering_group].reservation_id
            if name is not None and index.offering_groups[offering_group].available_types:
                self._add(offering_group, numbers[name])
        self._one_type_per_group = all(
            types.bit_count() == 1 for types in self._types_by_group.values()
        )
        """As almost always: a reservation is for one type. Lets `groups_still_offering` look at the
        lost types alone; where a group has several types, one of them may be left.
        """
        self.ids_are_groups = all(
            ids == 1 << offering_group for offering_group, ids in self.ids_by_group.items()
        )
        """Whether reservations and their groups have the same numbers, as where there is one
        catalogue and each reservation has one group: then a set of the one is a set of the other,
        and nothing is translated bit by bit.
        """

    def _add(self, offering_group: int, number: int) -> None:
        types = self._index.offering_groups[offering_group].available_types
        self.offering_groups |= 1 << offering_group
        self.ids_by_group[offering_group] = 1 << number
        self._types_by_group[1 << offering_group] = types
        self.types |= types
        for type_number in iter_bits(types):
            self._groups_by_type[type_number] = (
                self._groups_by_type.get(type_number, 0) | 1 << offering_group
            )

    def reservations_in(self, offering_groups: OfferingGroupSet) -> ReservationSet:
        """The reservations of these offering groups."""
        if self.ids_are_groups:
            return offering_groups
        return union(
            self.ids_by_group[offering_group] for offering_group in iter_bits(offering_groups)
        )

    def groups_of(self, ids: ReservationSet) -> OfferingGroupSet:
        """The offering groups of these reservations."""
        if self.ids_are_groups:
            return ids & self.offering_groups
        return union(
            1 << offering_group
            for offering_group, own_ids in self.ids_by_group.items()
            if own_ids & ids
        )

    def groups_offering(self, types: BitSet) -> OfferingGroupSet:
        """The offering groups that have any of the types."""
        types &= self.types
        groups = self._groups_cache.get(types)
        if groups is None:
            if len(self._groups_cache) >= MAX_CACHED_RESULTS:
                self._groups_cache.clear()
            groups = self._groups_cache[types] = self._find_groups(types)
        return groups

    def groups_still_offering(
        self, offering_groups: OfferingGroupSet, before: BitSet, now: BitSet
    ) -> OfferingGroupSet:
        """Those of the groups, which all offered types of `before`, that offer types of `now`."""
        lost = before ^ now
        if self._one_type_per_group and lost.bit_count() < now.bit_count():
            # A group that offered a lost type offers no other type. There are fewer lost types than
            # kept ones, so that finding their groups takes less time.
            return offering_groups ^ (offering_groups & self.groups_offering(lost))
        return offering_groups & self.groups_offering(now)

    def _find_groups(self, types: BitSet) -> OfferingGroupSet:
        groups, groups_by_type = 0, self._groups_by_type
        while types:
            lowest = types & -types
            groups |= groups_by_type[lowest.bit_length() - 1]
            types ^= lowest
        return groups

    def available_in(self, offering_groups: OfferingGroupSet, types: BitSet) -> BitSet:
        """Those of the types that are available in one of the offering groups."""
        types &= self.types
        return types & self._types_in(offering_groups) if types and offering_groups else 0

    def _types_in(self, offering_groups: OfferingGroupSet) -> BitSet:
        """The types in these groups; computed from the last result, as mostly few groups differ."""
        before, types = self._last_query
        removed = before ^ (before & offering_groups)
        added = offering_groups ^ (offering_groups & before)
        if (removed | added).bit_count() < offering_groups.bit_count():
            types |= self._collect_types(added)
            types ^= self._types_in_none_of(self._collect_types(removed), offering_groups)
        else:
            types = self._collect_types(offering_groups)
        self._last_query = offering_groups, types
        return types

    def _types_in_none_of(self, types: BitSet, offering_groups: OfferingGroupSet) -> BitSet:
        """Those of the types that none of the groups offers."""
        missing, groups_by_type = types, self._groups_by_type
        while types:
            lowest = types & -types
            types ^= lowest
            if groups_by_type[lowest.bit_length() - 1] & offering_groups:
                missing ^= lowest
        return missing

    def _collect_types(self, offering_groups: OfferingGroupSet) -> BitSet:
        if offering_groups.bit_count() > len(self._groups_by_type):
            # Thousands of reservations are of a few types: by type there is less to look at.
            return union(
                1 << type_number
                for type_number, groups in self._groups_by_type.items()
                if groups & offering_groups
            )
        # A plain loop over bits: runs for every draft that holds reservations, and a generator with
        # union() is much slower.
        types, types_by_group = 0, self._types_by_group
        while offering_groups:
            lowest = offering_groups & -offering_groups
            types |= types_by_group[lowest]
            offering_groups ^= lowest
        return types


def reserved_offerings(index: InstanceTypeIndex) -> OfferingGroupSet:
    return union(
        1 << number
        for number, offering_group in enumerate(index.offering_groups)
        if offering_group.reservation_id is not None
    )


def number_reservations(indexes: Iterable[InstanceTypeIndex]) -> dict[str, int]:
    """A number for every reservation in the catalogues.

    If possible a reservation has the number of its offering group in the first catalogue that has
    it: mostly there is one catalogue, and then a set of groups is a set of reservations without
    conversion.
    """
    numbers: dict[str, int] = {}
    used: set[int] = set()
    for index in dict.fromkeys(indexes):
        for offering_group, each in enumerate(index.offering_groups):
            name = each.reservation_id
            if name is not None and each.available_types and name not in numbers:
                number = (
                    offering_group
                    if offering_group not in used
                    else max(used) + len(index.offering_groups)
                )
                numbers[name] = number
                used.add(number)
    return numbers


def available_counts(indexes: Iterable[InstanceTypeIndex]) -> dict[str, int]:
    """Available instances of every reservation; the smallest count if catalogues differ."""
    counts: dict[str, int] = {}
    for index in dict.fromkeys(indexes):  # pools mostly share one catalogue
        for offering_group in index.offering_groups:
            if offering_group.reservation_id is not None and offering_group.available_types:
                known = counts.get(offering_group.reservation_id, offering_group.available)
                counts[offering_group.reservation_id] = min(known, offering_group.available)
    return counts


def in_flight_usage(nodes: Iterable[Node]) -> Counter[str]:
    """Instances that in-flight NodeClaims will use: EC2 does not count them before the launch."""
    return Counter(
        node.reservation_id
        for node in nodes
        if node.reservation_id is not None and not node.launched and not node.deleting
    )


def without_in_flight(counts: Mapping[str, int], nodes: Iterable[Node]) -> dict[str, int]:
    """The counts without the instances that in-flight NodeClaims will use."""
    taken = in_flight_usage(nodes)
    return {name: max(0, count - taken[name]) for name, count in counts.items()}


def reservation_usage(
    states: Iterable[ReservationState],
    catalog_counts: Mapping[str, int],
    claims: Iterable[PlannedNodeClaim],
    in_flight: Mapping[str, int],
) -> tuple[ReservationUsage, ...]:
    """Every reservation that is listed or in a catalogue, with the instances the claims use."""
    used = Counter(claim.launch.reservation_id for claim in claims)
    known = {
        name: ReservationState(id=name, total=n, available=n) for name, n in catalog_counts.items()
    }
    known |= {each.id: each for each in states}
    return tuple(
        ReservationUsage(
            id=name,
            total=state.total,
            available=state.available,
            used=used[name],
            in_flight=min(state.available, in_flight.get(name, 0)),
            unusable=state.unusable,
        )
        for name, state in sorted(known.items())
    )
