"""Reservations: exact counts by id, whichever pools share them and whichever drafts hold them.

A draft holds one slot of every reservation that it might use, and lets go of what it drops. When
a round ends each draft takes the one that it would be launched with and gives the others back.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from wainwright.model.columns import Rows, row_numbers
from wainwright.model.index import TypeIndex
from wainwright.model.markets import Market, Markets
from wainwright.model.node import Node


class Shelf:
    """The reserved markets of one pool, by whether a slot can be had there."""

    __slots__ = ("by_id", "holdable", "id_of", "live", "of_rows")

    def __init__(
        self, markets: Sequence[Market], ids: Mapping[str, int], admitted: Markets
    ) -> None:
        self.id_of: dict[int, int] = {}
        """Market to reservation, both by number."""
        self.by_id: dict[int, Markets] = {}
        self.of_rows: dict[int, Markets] = {}
        """Type to the markets that sell slots of it."""
        for number in row_numbers(admitted):
            name = markets[number].reservation_id
            if name is not None and markets[number].sold:
                self._add(number, ids[name], markets[number].sold)
        self.live: Markets = 0
        """Markets of reservations with slots that no launch has taken."""
        self.holdable: Markets = 0
        """Those among them where a slot is not even held."""

    def _add(self, market: int, number: int, sold: Rows) -> None:
        self.id_of[market] = number
        self.by_id[number] = self.by_id.get(number, 0) | 1 << market
        for row in row_numbers(sold):
            self.of_rows[row] = self.of_rows.get(row, 0) | 1 << market

    def ids(self, markets: Markets) -> int:
        """The reservations behind the markets, as a set of their numbers."""
        found = 0
        for number in row_numbers(markets):
            found |= 1 << self.id_of[number]
        return found

    def show(self, number: int, *, live: bool, holdable: bool) -> None:
        markets = self.by_id.get(number, 0)
        self.live = self.live | markets if live else self.live ^ (self.live & markets)
        kept = self.holdable ^ (self.holdable & markets)
        self.holdable = kept | markets if holdable else kept


EMPTY_SHELF: Final = Shelf((), {}, 0)
"""Of a pool that must not, or cannot, use reservations."""


class Stock:
    """How many slots of each reservation are free, and how many of those are held."""

    __slots__ = ("_free", "_held", "_shelves", "ids", "version")

    def __init__(self, free: Mapping[str, int]) -> None:
        self.ids = sorted(free)
        self._free = [max(0, free[name]) for name in self.ids]
        self._held = [0] * len(self.ids)
        self._shelves: list[Shelf] = []
        self.version = 0
        """Goes up whenever something changes that a pool may answer differently for."""

    def numbers(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.ids)}

    def serve(self, shelves: Iterable[Shelf]) -> None:
        """Keeps these shelves up to date from now on."""
        self._shelves = list(shelves)
        for number in range(len(self.ids)):
            self._show(number)

    def free(self, number: int) -> int:
        """Slots that no launch has taken, held or not."""
        return self._free[number]

    def hold(self, numbers: int) -> None:
        for number in row_numbers(numbers):
            self._held[number] += 1
            if self._held[number] == self._free[number]:
                self._show(number)

    def release(self, numbers: int) -> None:
        for number in row_numbers(numbers):
            self._held[number] -= 1
            if self._held[number] == self._free[number] - 1:
                self._show(number)

    def touch(self) -> None:
        """Something else has changed: a draft was opened, or a round has begun."""
        self.version += 1

    def take(self, number: int) -> None:
        self._free[number] -= 1
        self._show(number)

    def _show(self, number: int) -> None:
        self.version += 1
        free, held = self._free[number], self._held[number]
        for shelf in self._shelves:
            shelf.show(number, live=free > 0, holdable=free > held)


def reserved_markets(index: TypeIndex) -> Markets:
    found = 0
    for number, market in enumerate(index.markets):
        if market.reservation_id is not None:
            found |= 1 << number
    return found


def free_slots(indexes: Iterable[TypeIndex]) -> dict[str, int]:
    """The slots of every reservation that is on offer; where catalogues differ, the fewest."""
    found: dict[str, int] = {}
    for index in indexes:
        for market in index.markets:
            if market.reservation_id is not None and market.sold:
                known = found.get(market.reservation_id, market.available)
                found[market.reservation_id] = min(known, market.available)
    return found


def without_promised(free: Mapping[str, int], nodes: Iterable[Node]) -> dict[str, int]:
    """Less the slots that claims under way will take: the cloud does not know of those yet."""
    left = dict(free)
    for node in nodes:
        if node.reservation_id in left and not node.launched and not node.deleting:
            left[node.reservation_id] = max(0, left[node.reservation_id] - 1)
    return left
