"""Reservations: exact counts by id, whichever pools share them and whichever drafts hold them.

A draft holds one slot of every reservation that it might use, and lets go of what it drops. When
a round ends each draft takes the one that it would be launched with and gives the others back.
"""

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from wainwright.model.columns import REMEMBERED, Rows, row_numbers, union
from wainwright.model.index import TypeIndex
from wainwright.model.markets import Markets

Ids: TypeAlias = int
"""A set of reservations: bit i stands for the reservation with that number."""


class Counters:
    """A small number for every reservation, bit by bit across all of them.

    Plane i holds the i-th binary digits, so that a whole set is counted up or down at once.
    """

    __slots__ = ("_planes",)

    def __init__(self, counts: Mapping[int, int]) -> None:
        digits = max((count.bit_length() for count in counts.values()), default=0)
        self._planes: list[Ids] = [
            union(1 << number for number, count in counts.items() if count >> place & 1)
            for place in range(digits)
        ]

    def add(self, ids: Ids) -> None:
        planes = self._planes
        for place, plane in enumerate(planes):
            planes[place] = plane ^ ids
            ids &= plane
            if not ids:
                return
        if ids:
            planes.append(ids)

    def subtract(self, ids: Ids) -> None:
        """One less for each; none of them may be at zero."""
        planes = self._planes
        for place, plane in enumerate(planes):
            planes[place] = plane ^ ids
            ids ^= ids & plane
            if not ids:
                return

    @property
    def positive(self) -> Ids:
        found = 0
        for plane in self._planes:
            found |= plane
        return found


class Stock:
    """How many slots of each reservation are free, and how many of those nobody holds."""

    __slots__ = ("_free", "_unheld", "era", "holdable", "live", "numbers", "version")

    def __init__(self, free: Mapping[str, int], numbers: Mapping[str, int]) -> None:
        self.numbers = numbers
        self._free = {numbers[name]: count for name, count in free.items()}
        self._unheld = Counters(self._free)
        self.live: Ids = union(1 << number for number, count in self._free.items() if count > 0)
        """Reservations with slots that no launch has taken."""
        self.holdable: Ids = self.live
        """Those among them where a slot is not even held."""
        self.era = 0
        """Goes up with every round: only then are slots taken."""
        self.version = 0
        """Goes up whenever something changes that a pool may answer differently for."""

    def free(self, name: str) -> int:
        """Slots that no launch has taken, held or not."""
        return self._free[self.numbers[name]]

    def hold(self, ids: Ids) -> None:
        self._unheld.subtract(ids)
        self._look()

    def release(self, ids: Ids) -> None:
        self._unheld.add(ids)
        self._look()

    def settle(self, held: Ids, name: str) -> None:
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


class Shelf:
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
        "markets",
        "rows",
    )

    def __init__(self, index: TypeIndex, admitted: Markets, numbers: Mapping[str, int]) -> None:
        self._index = index
        self.markets: Markets = 0
        self.rows: Rows = 0
        """The types that have slots in them."""
        self.ids_of: dict[int, Ids] = {}
        self._wares: dict[Markets, Rows] = {}
        self._sellers: dict[int, Markets] = {}
        self._selling: dict[Rows, Markets] = {}
        self._last: tuple[Markets, Rows] = (0, 0)
        """The last question about what is sold somewhere, and the answer."""
        for market in row_numbers(admitted):
            name = index.markets[market].reservation_id
            if name is not None and index.markets[market].sold:
                self._add(market, numbers[name])
        self._single = all(sold.bit_count() == 1 for sold in self._wares.values())
        self.ids_are_markets = all(ids == 1 << market for market, ids in self.ids_of.items())

    def _add(self, market: int, number: int) -> None:
        sold = self._index.markets[market].sold
        self.markets |= 1 << market
        self.ids_of[market] = 1 << number
        self._wares[1 << market] = sold
        self.rows |= sold
        for row in row_numbers(sold):
            self._sellers[row] = self._sellers.get(row, 0) | 1 << market

    def ids(self, markets: Markets) -> Ids:
        """The reservations behind the markets."""
        if self.ids_are_markets:
            return markets
        return union(self.ids_of[market] for market in row_numbers(markets))

    def of(self, ids: Ids) -> Markets:
        """The markets where slots of these reservations are sold."""
        if self.ids_are_markets:
            return ids & self.markets
        return union(1 << market for market, own in self.ids_of.items() if own & ids)

    def selling(self, rows: Rows) -> Markets:
        """The markets that sell slots of any of the types."""
        rows &= self.rows
        found = self._selling.get(rows)
        if found is None:
            if len(self._selling) >= REMEMBERED:
                self._selling.clear()
            found = self._selling[rows] = self._sellers_of(rows)
        return found

    def still(self, markets: Markets, before: Rows, now: Rows) -> Markets:
        """Those of the markets that sold some of the types before and still do so now."""
        lost = before ^ now
        if self._single and lost.bit_count() < now.bit_count():
            # Whatever sold what is lost sells nothing else.
            return markets ^ (markets & self.selling(lost))
        return markets & self.selling(now)

    def _sellers_of(self, rows: Rows) -> Markets:
        found, sellers = 0, self._sellers
        while rows:
            lowest = rows & -rows
            found |= sellers[lowest.bit_length() - 1]
            rows ^= lowest
        return found

    def sold_in(self, markets: Markets, rows: Rows) -> Rows:
        """Those of the types that have a slot in one of the markets."""
        rows &= self.rows
        return rows & self._sold(markets) if rows and markets else 0

    def _sold(self, markets: Markets) -> Rows:
        """What is sold there; mostly little has changed since the last question."""
        before, found = self._last
        gone, added = before ^ (before & markets), markets ^ (markets & before)
        if (gone | added).bit_count() < markets.bit_count():
            found |= self._sold_by(added)
            found ^= self._lost(self._sold_by(gone), markets)
        else:
            found = self._sold_by(markets)
        self._last = markets, found
        return found

    def _lost(self, rows: Rows, markets: Markets) -> Rows:
        """Those of the types that none of the markets sells."""
        lost, sellers = rows, self._sellers
        while rows:
            lowest = rows & -rows
            rows ^= lowest
            if sellers[lowest.bit_length() - 1] & markets:
                lost ^= lowest
        return lost

    def _sold_by(self, markets: Markets) -> Rows:
        # Spelt out, as this is asked for every draft that holds a slot.
        found, sold = 0, self._wares
        while markets:
            lowest = markets & -markets
            found |= sold[lowest]
            markets ^= lowest
        return found


def reserved_markets(index: TypeIndex) -> Markets:
    return union(
        1 << number
        for number, market in enumerate(index.markets)
        if market.reservation_id is not None
    )


def numbered(indexes: Iterable[TypeIndex]) -> dict[str, int]:
    """A number for every reservation on offer.

    Where it can be, a reservation has the number of its market in the first catalogue that sells
    it: mostly there is one catalogue, and then a set of markets is a set of reservations.
    """
    numbers: dict[str, int] = {}
    used: set[int] = set()
    for index in dict.fromkeys(indexes):
        for market, each in enumerate(index.markets):
            name = each.reservation_id
            if name is not None and each.sold and name not in numbers:
                number = market if market not in used else max(used) + len(index.markets)
                numbers[name] = number
                used.add(number)
    return numbers


def free_slots(indexes: Iterable[TypeIndex]) -> dict[str, int]:
    """The slots of every reservation that is on offer; where catalogues differ, the fewest."""
    found: dict[str, int] = {}
    for index in dict.fromkeys(indexes):  # pools mostly share theirs
        for market in index.markets:
            if market.reservation_id is not None and market.sold:
                known = found.get(market.reservation_id, market.available)
                found[market.reservation_id] = min(known, market.available)
    return found
