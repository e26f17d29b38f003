"""Markets: what sets offerings apart besides the instance type, as rows of a table.

Zone and capacity type make a dozen of them; every reservation and every further label adds some.
All offerings of a catalogue that carry the same labels are one market, whatever they sell.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import inf
from sys import float_info
from typing import TypeAlias

import msgspec

from wainwright.model.columns import REMEMBERED, Column, Rows, row_numbers, union
from wainwright.model.instance_type import UNLIMITED, InstanceType
from wainwright.model.labels import CAPACITY_TYPE, ON_DEMAND, SPOT, ZONE
from wainwright.model.requirements import Requirements
from wainwright.model.unsaid import Labels, labels_of, with_reservation
from wainwright.model.values import ANYTHING, ValueSet, one_of

Markets: TypeAlias = Rows
"""A set of markets: bit i stands for `markets[i]`."""

Offer: TypeAlias = tuple[float, int, int]
"""The cost, the number of the market, and which of the type's offerings it is."""


class Market(msgspec.Struct, frozen=True, kw_only=True):
    """Where instance types can be bought, and which."""

    requirements: Requirements
    reservation_id: str | None
    listed: Rows
    """The instance types with an offering here, in stock or not."""
    sold: Rows
    """The instance types with an offering here that can be had now."""
    available: int
    """The smallest count among those that can be had; 0 where nothing can."""


class MarketTable:
    """All markets of a catalogue, and the offers of each of its instance types, cheapest first."""

    __slots__ = (
        "_columns",
        "_floors",
        "_names",
        "_offers",
        "_perhaps_spot",
        "_reserved",
        "_sold_in",
        "_spot",
        "_unreserved_floors",
        "everywhere",
        "keys",
        "markets",
        "zoneless",
        "zones",
    )

    def __init__(self, types: Sequence[InstanceType], zones: Iterable[str] = ()) -> None:
        books = _Books(_numbered(types))
        self._offers = [books.enter(row, kind) for row, kind in enumerate(types)]
        self.markets = books.markets()
        self._names = [kind.name for kind in types]
        self.everywhere: Markets = (1 << len(self.markets)) - 1
        self._columns = _columns(self.markets, self.everywhere)
        named = self.values(ZONE, ANYTHING, self.everywhere)
        self.zones: tuple[str, ...] = tuple(sorted({*zones, *named}))
        """All that are known; a market that names none is in each of them."""
        self.zoneless: Markets = _leaving_open(self.markets, ZONE)
        self.keys = frozenset(self._columns) | (frozenset({ZONE}) if self.zones else frozenset())
        self._spot, self._perhaps_spot = _spot(self.markets)
        self._reserved: Markets = union(
            1 << n for n, market in enumerate(self.markets) if market.reservation_id is not None
        )
        self._floors = [offers[0][0] if offers else inf for offers in self._offers]
        self._unreserved_floors = [self._unreserved_floor(offers) for offers in self._offers]
        self._sold_in: dict[Markets, Rows] = {}

    def admitting(self, requirements: Requirements) -> Markets:
        """The markets where somebody with these requirements may buy."""
        found = self.everywhere
        for key, requirement in requirements.items():
            column = self._columns.get(key)
            if column is not None:
                found &= column.admitting(requirement.allowed)
        return found

    def selling(self, markets: Markets) -> Rows:
        """The instance types that can be had now in one of the markets."""
        found = self._sold_in.get(markets)
        if found is None:
            if len(self._sold_in) >= REMEMBERED:
                self._sold_in.clear()
            found = union(self.markets[number].sold for number in row_numbers(markets))
            self._sold_in[markets] = found
        return found

    def spot_for(self, capacity_types: ValueSet) -> Markets:
        """Where those who may have these capacity types buy what can be taken back from them.

        A market that leaves the capacity type open sells on demand to whoever may buy that.
        """
        return self._spot if capacity_types.admits(ON_DEMAND) else self._perhaps_spot

    def naming(self, key: str) -> Rows:
        """The instance types of which some offering says something about the label."""
        return union(market.listed for market in self.markets if key in market.requirements)

    def values(self, key: str, wanted: ValueSet, markets: Markets) -> list[str]:
        """The wanted values that the label has in these markets, in order."""
        column = self._columns.get(key)
        return [] if column is None else list(column.values(markets, wanted))

    def by_value(self, key: str) -> Mapping[str, Markets]:
        """The values that the label has anywhere, in order, and the markets that name them."""
        column = self._columns.get(key)
        named = {} if column is None else column.by_value
        return named if key != ZONE else {zone: named.get(zone, 0) for zone in self.zones}

    def _unreserved_floor(self, offers: Sequence[Offer]) -> float:
        return next((cost for cost, n, _ in offers if not self._reserved >> n & 1), inf)

    def offers(self, row: int) -> Sequence[Offer]:
        """The offers of one type that can be had, cheapest first."""
        return self._offers[row]

    def cheapest_of(self, row: int, markets: Markets) -> list[tuple[int, int]]:
        """Market and position of the cheapest offers of one type, all of one cost."""
        found: list[tuple[int, int]] = []
        least = inf
        for cost, market, position in self._offers[row]:
            if cost > least:
                break
            if markets >> market & 1:
                found.append((market, position))
                least = cost
        return found

    def cheapest(self, rows: Rows, markets: Markets) -> tuple[int, int, int] | None:
        """Row, market and position of the best buy: by cost, then name, then order of markets."""
        slots = markets & self._reserved != 0  # then rows are in no order, but there are few
        floors = self._floors if slots else self._unreserved_floors
        best: tuple[float, str, int, int, int] | None = None
        most = float_info.max  # less than the floor of what is not sold at all
        for row in row_numbers(rows):
            if floors[row] > most:
                if slots:
                    continue
                break
            for cost, market, position in self._offers[row]:
                if markets >> market & 1:
                    if best is None or (cost, self._names[row]) < best[:2]:
                        best, most = (cost, self._names[row], row, market, position), cost
                    break
        return None if best is None else best[2:]


class _Books:
    """Who lists and who sells what in which market, while it is being written down."""

    def __init__(self, numbers: Mapping[Labels, int]) -> None:
        self._numbers = numbers
        self._sold: list[Rows] = [0] * len(numbers)
        self._sold_out: list[Rows] = [0] * len(numbers)
        self._available = [UNLIMITED] * len(numbers)

    def enter(self, row: int, kind: InstanceType) -> list[Offer]:
        """The offers of one instance type that can be had, cheapest first."""
        bit, offers = 1 << row, []
        for position, offering in enumerate(kind.offerings):
            number = self._numbers[labels_of(kind, offering)]
            if offering.available > 0:
                self._sold[number] |= bit
                offers.append((offering.price + kind.fee, number, position))
                if offering.available < UNLIMITED:
                    self._available[number] = min(self._available[number], offering.available)
            else:
                self._sold_out[number] |= bit
        offers.sort()
        return offers

    def markets(self) -> tuple[Market, ...]:
        return tuple(self._market(*labels, number) for labels, number in self._numbers.items())

    def _market(
        self, requirements: Requirements, reservation_id: str | None, number: int
    ) -> Market:
        return Market(
            requirements=with_reservation(requirements, reservation_id),
            reservation_id=reservation_id,
            listed=self._sold[number] | self._sold_out[number],
            sold=self._sold[number],
            available=self._available[number] if self._sold[number] else 0,
        )


def _numbered(types: Iterable[InstanceType]) -> dict[Labels, int]:
    """Every combination of labels that offerings have, numbered in an order that is their own."""
    met = dict.fromkeys(labels_of(kind, offering) for kind in types for offering in kind.offerings)
    return {labels: number for number, labels in enumerate(sorted(met, key=_rank))}


def _rank(labels: Labels) -> tuple[list[tuple[str, list[str]]], str]:
    requirements, reservation_id = labels
    values = [(key, sorted(found.allowed.values)) for key, found in requirements.items()]
    return values, reservation_id or ""


def _spot(markets: Sequence[Market]) -> tuple[Markets, Markets]:
    """Where nothing but spot is sold, and where spot is sold at all."""
    sold = [market.requirements.allowed(CAPACITY_TYPE) for market in markets]
    spot = one_of([SPOT])
    return (
        union(1 << number for number, kinds in enumerate(sold) if kinds == spot),
        union(1 << number for number, kinds in enumerate(sold) if kinds.admits(SPOT)),
    )


def _leaving_open(markets: Sequence[Market], key: str) -> Markets:
    return union(
        1 << number
        for number, market in enumerate(markets)
        if market.requirements.allowed(key).open
    )


def _columns(markets: Sequence[Market], everywhere: Markets) -> dict[str, Column]:
    held: dict[str, dict[ValueSet, Markets]] = {}
    for number, market in enumerate(markets):
        for key, requirement in market.requirements.items():
            same = held.setdefault(key, {})
            same[requirement.allowed] = same.get(requirement.allowed, 0) | 1 << number
    return {
        key: Column(sets, absent=0, undecided=everywhere ^ union(sets.values()))
        for key, sets in sorted(held.items())
    }
