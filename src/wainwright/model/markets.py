"""Markets: what sets offerings apart besides the instance type, as rows of a table.

Zone and capacity type make a dozen of them; every reservation and every further label adds some.
All offerings of a catalogue that carry the same labels are one market, whatever they sell.
"""

from collections.abc import Sequence
from operator import itemgetter
from typing import TypeAlias

import msgspec

from wainwright.model.columns import REMEMBERED, Column, Rows, row_numbers, union
from wainwright.model.instance_type import UNLIMITED, InstanceType, Offering
from wainwright.model.labels import RESERVATION_ID, RESERVATION_LABELS
from wainwright.model.requirements import Requirement, Requirements
from wainwright.model.values import NOTHING, ValueSet, one_of

Markets: TypeAlias = Rows
"""A set of markets: bit i stands for `markets[i]`."""

Offer: TypeAlias = tuple[float, int, Offering]
"""The price, the number of the market, and the offering itself."""


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

    __slots__ = ("_columns", "_names", "_offers", "_sold_in", "everywhere", "keys", "markets")

    def __init__(self, types: Sequence[InstanceType]) -> None:
        gathered = _Gathering()
        for row, kind in enumerate(types):
            gathered.take(row, kind)
        self.markets, self._offers = gathered.ranked()
        self._names = [kind.name for kind in types]
        self.everywhere: Markets = (1 << len(self.markets)) - 1
        self._columns = _columns(self.markets, self.everywhere)
        self.keys = frozenset(self._columns)
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

    def naming(self, key: str) -> Rows:
        """The instance types of which some offering says something about the label."""
        return union(market.listed for market in self.markets if key in market.requirements)

    def values(self, key: str, wanted: ValueSet, markets: Markets) -> list[str]:
        """The wanted values that the label has in these markets, in order."""
        column = self._columns.get(key)
        return [] if column is None else list(column.values(markets, wanted))

    def cheapest(self, rows: Rows, markets: Markets) -> tuple[int, Offering] | None:
        """The best buy: by price, then the type's name, then the order of markets."""
        best: tuple[float, str, int, Offering] | None = None
        for row in row_numbers(rows):
            offers = self._offers[row]
            if not offers or (best is not None and offers[0][0] > best[0]):
                break  # rows stand in the order of their cheapest offer
            for price, market, offering in offers:
                if markets >> market & 1:
                    if best is None or (price, self._names[row]) < best[:2]:
                        best = (price, self._names[row], row, offering)
                    break
        return None if best is None else best[2:]


class _Gathering:
    """Markets numbered as they are met, and ranked at the end, whatever the order of input."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[Requirements, str | None], int] = {}
        self._listed: list[Rows] = []
        self._sold: list[Rows] = []
        self._available: list[int] = []
        self._offers: list[list[Offer]] = []

    def take(self, row: int, kind: InstanceType) -> None:
        bit, offers = 1 << row, []
        for offering in kind.offerings:
            labels = (offering.requirements, offering.reservation_id)
            number = self._numbers.get(labels)
            if number is None:
                number = self._open(labels)
            self._listed[number] |= bit
            if offering.available > 0:
                self._sold[number] |= bit
                offers.append((offering.price, number, offering))
                if offering.available < self._available[number]:
                    self._available[number] = offering.available
        self._offers.append(offers)

    def _open(self, labels: tuple[Requirements, str | None]) -> int:
        number = self._numbers[labels] = len(self._numbers)
        self._listed.append(0)
        self._sold.append(0)
        self._available.append(UNLIMITED)
        return number

    def ranked(self) -> tuple[tuple[Market, ...], list[list[Offer]]]:
        order = sorted(self._numbers.items(), key=lambda item: _rank(*item[0]))
        markets = tuple(self._market(*labels, number) for labels, number in order)
        rank = {number: position for position, (_, number) in enumerate(order)}
        offers = [
            sorted([(price, rank[n], offering) for price, n, offering in row], key=itemgetter(0, 1))
            for row in self._offers
        ]
        return markets, offers

    def _market(
        self, requirements: Requirements, reservation_id: str | None, number: int
    ) -> Market:
        return Market(
            requirements=_with_reservation(requirements, reservation_id),
            reservation_id=reservation_id,
            listed=self._listed[number],
            sold=self._sold[number],
            available=self._available[number] if self._sold[number] else 0,
        )


def _rank(
    requirements: Requirements, reservation_id: str | None
) -> tuple[list[tuple[str, list[str]]], str]:
    labels = [(key, sorted(found.allowed.values)) for key, found in requirements.items()]
    return labels, reservation_id or ""


def _with_reservation(requirements: Requirements, reservation_id: str | None) -> Requirements:
    """Says of the reservation what the offering left unsaid: which it is, or that there is none."""
    known = NOTHING if reservation_id is None else one_of([reservation_id])
    said = dict.fromkeys(RESERVATION_LABELS, NOTHING) | {RESERVATION_ID: known}
    return requirements.narrow(
        Requirements(
            Requirement(key=key, allowed=values)
            for key, values in said.items()
            if key not in requirements
        )
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
