"""Capacity reservations: exact counts of free instances by reservation id, whichever NodePools
share them and whichever drafts hold them.

A draft holds one instance of every reservation that it might use, and releases what it can no
longer use. When a round ends each draft takes the one that it would be launched with and gives back
the others. In-flight NodeClaims that are not launched yet take theirs beforehand: EC2 does not
count those yet.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from wainwright.model.bitset import MAX_CACHED_RESULTS, BitSet, iter_bits, union
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.offering_groups import OfferingGroupSet
from wainwright.model.plan import PlannedNodeClaim, ReservationUsage
from wainwright.model.snapshot import Node, ReservationState

ReservationSet: TypeAlias = int
"""A set of reservations: bit i stands for the reservation with that number."""


class BitPlaneCounters:
    """A small number for every reservation, bit by bit across all of them.

    Plane i holds the i-th binary digits, so that a whole set is counted up or down at once.
    """

    __slots__ = ("_planes",)

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
        """One less for each; none of them may be at zero."""
        planes = self._planes
        for place, plane in enumerate(planes):
            planes[place] = plane ^ ids
            ids ^= ids & plane
            if not ids:
                return

    @property
    def positive(self) -> ReservationSet:
        found = 0
        for plane in self._planes:
            found |= plane
        return found


class ReservationManager:
    """How many slots of each reservation are free, and how many of those nobody holds."""

    __slots__ = ("_free", "_unheld", "era", "holdable", "live", "numbers", "version")

    def __init__(self, free: Mapping[str, int], numbers: Mapping[str, int]) -> None:
        self.numbers = numbers
        self._free = {numbers[name]: count for name, count in free.items()}
        self._unheld = BitPlaneCounters(self._free)
        self.live: ReservationSet = union(
            1 << number for number, count in self._free.items() if count > 0
        )
        """Reservations with slots that no launch has taken."""
        self.holdable: ReservationSet = self.live
        """Those among them where a slot is not even held."""
        self.era = 0
        """Goes up with every round: only then are slots taken."""
        self.version = 0
        """Goes up whenever something changes that a pool may answer differently for."""

    def free(self, name: str) -> int:
        """Slots that no launch has taken, held or not."""
        return self._free[self.numbers[name]]

    def hold(self, ids: ReservationSet) -> None:
        self._unheld.subtract(ids)
        self._look()

    def release(self, ids: ReservationSet) -> None:
        self._unheld.add(ids)
        self._look()

    def settle(self, held: ReservationSet, name: str) -> None:
        """A launch takes one of the slots that were held for it; the others are given back."""
        number = self.numbers[name]
        self._unheld.add(held ^ (held & 1 << number))
        self._free[number] -= 1
        if not self._free[number]:
            self.live ^= 1 << number
        self.touch()
        self._look()

    def begin_round(self) -> None:
        self.era += 1
        self.touch()

    def touch(self) -> None:
        """Something else has changed, such as that a draft was opened."""
        self.version += 1

    def _look(self) -> None:
        holdable = self._unheld.positive
        if holdable != self.holdable:
            self.holdable = holdable
            self.touch()


class PoolReservations:
    """The reserved markets of a pool, or of several that may use the same ones."""

    __slots__ = (
        "_index",
        "_last",
        "_sellers",
        "_selling",
        "_single",
        "_wares",
        "ids_are_markets",
        "ids_of",
        "offering_groups",
        "rows",
    )

    def __init__(
        self, index: InstanceTypeIndex, admitted: OfferingGroupSet, numbers: Mapping[str, int]
    ) -> None:
        self._index = index
        self.offering_groups: OfferingGroupSet = 0
        self.rows: BitSet = 0
        """The types that have slots in them."""
        self.ids_of: dict[int, ReservationSet] = {}
        self._wares: dict[OfferingGroupSet, BitSet] = {}
        self._sellers: dict[int, OfferingGroupSet] = {}
        self._selling: dict[BitSet, OfferingGroupSet] = {}
        self._last: tuple[OfferingGroupSet, BitSet] = (0, 0)
        """The last question about what is sold somewhere, and the answer."""
        for offering_group in iter_bits(admitted):
            name = index.offering_groups[offering_group].reservation_id
            if name is not None and index.offering_groups[offering_group].available_types:
                self._add(offering_group, numbers[name])
        self._single = all(sold.bit_count() == 1 for sold in self._wares.values())
        self.ids_are_markets = all(
            ids == 1 << offering_group for offering_group, ids in self.ids_of.items()
        )

    def _add(self, offering_group: int, number: int) -> None:
        sold = self._index.offering_groups[offering_group].available_types
        self.offering_groups |= 1 << offering_group
        self.ids_of[offering_group] = 1 << number
        self._wares[1 << offering_group] = sold
        self.rows |= sold
        for row in iter_bits(sold):
            self._sellers[row] = self._sellers.get(row, 0) | 1 << offering_group

    def ids(self, offering_groups: OfferingGroupSet) -> ReservationSet:
        """The reservations behind the markets."""
        if self.ids_are_markets:
            return offering_groups
        return union(self.ids_of[offering_group] for offering_group in iter_bits(offering_groups))

    def of(self, ids: ReservationSet) -> OfferingGroupSet:
        """The markets where slots of these reservations are sold."""
        if self.ids_are_markets:
            return ids & self.offering_groups
        return union(
            1 << offering_group for offering_group, own in self.ids_of.items() if own & ids
        )

    def selling(self, rows: BitSet) -> OfferingGroupSet:
        """The markets that sell slots of any of the types."""
        rows &= self.rows
        found = self._selling.get(rows)
        if found is None:
            if len(self._selling) >= MAX_CACHED_RESULTS:
                self._selling.clear()
            found = self._selling[rows] = self._sellers_of(rows)
        return found

    def still(
        self, offering_groups: OfferingGroupSet, before: BitSet, now: BitSet
    ) -> OfferingGroupSet:
        """Those of the markets that sold some of the types before and still do so now."""
        lost = before ^ now
        if self._single and lost.bit_count() < now.bit_count():
            # Whatever sold what is lost sells nothing else.
            return offering_groups ^ (offering_groups & self.selling(lost))
        return offering_groups & self.selling(now)

    def _sellers_of(self, rows: BitSet) -> OfferingGroupSet:
        found, sellers = 0, self._sellers
        while rows:
            lowest = rows & -rows
            found |= sellers[lowest.bit_length() - 1]
            rows ^= lowest
        return found

    def available_in(self, offering_groups: OfferingGroupSet, rows: BitSet) -> BitSet:
        """Those of the types that have a slot in one of the markets."""
        rows &= self.rows
        return rows & self._sold(offering_groups) if rows and offering_groups else 0

    def _sold(self, offering_groups: OfferingGroupSet) -> BitSet:
        """What is sold there; mostly little has changed since the last question."""
        before, found = self._last
        gone, added = (
            before ^ (before & offering_groups),
            offering_groups ^ (offering_groups & before),
        )
        if (gone | added).bit_count() < offering_groups.bit_count():
            found |= self._sold_by(added)
            found ^= self._lost(self._sold_by(gone), offering_groups)
        else:
            found = self._sold_by(offering_groups)
        self._last = offering_groups, found
        return found

    def _lost(self, rows: BitSet, offering_groups: OfferingGroupSet) -> BitSet:
        """Those of the types that none of the markets sells."""
        lost, sellers = rows, self._sellers
        while rows:
            lowest = rows & -rows
            rows ^= lowest
            if sellers[lowest.bit_length() - 1] & offering_groups:
                lost ^= lowest
        return lost

    def _sold_by(self, offering_groups: OfferingGroupSet) -> BitSet:
        # Spelt out, as this is asked for every draft that holds a slot.
        found, sold = 0, self._wares
        while offering_groups:
            lowest = offering_groups & -offering_groups
            found |= sold[lowest]
            offering_groups ^= lowest
        return found


def reserved_offerings(index: InstanceTypeIndex) -> OfferingGroupSet:
    return union(
        1 << number
        for number, offering_group in enumerate(index.offering_groups)
        if offering_group.reservation_id is not None
    )


def number_reservations(indexes: Iterable[InstanceTypeIndex]) -> dict[str, int]:
    """A number for every reservation on offer.

    Where it can be, a reservation has the number of its market in the first catalogue that sells
    it: mostly there is one catalogue, and then a set of markets is a set of reservations.
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
    """The slots of every reservation that is on offer; where catalogues differ, the fewest."""
    found: dict[str, int] = {}
    for index in dict.fromkeys(indexes):  # pools mostly share theirs
        for offering_group in index.offering_groups:
            if offering_group.reservation_id is not None and offering_group.available_types:
                known = found.get(offering_group.reservation_id, offering_group.available)
                found[offering_group.reservation_id] = min(known, offering_group.available)
    return found


def in_flight_usage(nodes: Iterable[Node]) -> Counter[str]:
    """The slots that claims under way will take: the cloud does not know of those yet."""
    return Counter(
        node.reservation_id
        for node in nodes
        if node.reservation_id is not None and not node.launched and not node.deleting
    )


def without_in_flight(free: Mapping[str, int], nodes: Iterable[Node]) -> dict[str, int]:
    """Less the slots that claims under way will take."""
    taken = in_flight_usage(nodes)
    return {name: max(0, count - taken[name]) for name, count in free.items()}


def reservation_usage(
    listed: Iterable[ReservationState],
    free: Mapping[str, int],
    claimed: Iterable[PlannedNodeClaim],
    promised: Mapping[str, int],
) -> tuple[ReservationUsage, ...]:
    """Every reservation that is listed or on offer, with what the claims take of it."""
    used = Counter(claim.launch.reservation_id for claim in claimed)
    known = {name: ReservationState(id=name, total=n, available=n) for name, n in free.items()}
    known |= {each.id: each for each in listed}
    return tuple(
        ReservationUsage(
            id=name,
            total=one.total,
            available=one.available,
            used=used[name],
            in_flight=min(one.available, promised.get(name, 0)),
            unusable=one.unusable,
        )
        for name, one in sorted(known.items())
    )
