"""Machines: what can be bought for pods that may not all be on the same ones.

A customer stands for pods that may be on the same machines. A machine is a type of some pool,
bought where it is cheapest for the customers that may use it there. One that has no more room
than another, is not cheaper and serves nobody else is left out: of a thousand types about one in
ten is worth a look.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from wainwright.core.launch import cost
from wainwright.core.packing.gauge import Gauge
from wainwright.core.templates import Template
from wainwright.model.columns import Rows, row_numbers, union
from wainwright.model.markets import Markets

SETS: Final = 16  # in so many at most are customers sorted that cannot be together

Customers: TypeAlias = int
"""A set of customers: bit i stands for the one with that number."""

NOBODY: Final[Mapping[int, Sequence[Customers]]] = {}

Amounts: TypeAlias = tuple[int, ...]
"""By resource, in the order of names."""


class Reach(NamedTuple):
    """What a customer may buy of each template: which types, and where."""

    rows: tuple[Rows, ...]
    markets: tuple[Markets, ...]

    def with_that_of(self, other: "Reach") -> "Reach":
        """All that either may buy."""
        return Reach(
            tuple(a | b for a, b in zip(self.rows, other.rows, strict=True)),
            tuple(a | b for a, b in zip(self.markets, other.markets, strict=True)),
        )

    def differing(self, other: "Reach") -> Rows:
        """The templates of which both may buy, but not the same."""
        mine = zip(self.rows, self.markets, strict=True)
        others = zip(other.rows, other.markets, strict=True)
        pairs = enumerate(zip(mine, others, strict=True))
        return union(1 << n for n, (a, b) in pairs if a != b and any(a) and any(b))


class Machine(NamedTuple):
    """A type as it would be bought for these customers."""

    template: Template
    row: int
    price: float
    """USD per hour with fees."""
    room: Amounts
    """What is left once daemonsets have their share."""
    takers: Customers


def on_sale(
    templates: Sequence[Template],
    reaches: Sequence[Reach],
    resources: Sequence[str],
    apart: Mapping[int, Sequence[Customers]] = NOBODY,
    *,
    exotic: bool = False,
) -> list[Machine]:
    """Every machine that some customer may buy.

    `apart` are the customers that cannot be together on nodes of a template, for each of them.
    Whole machines and those with accelerators are left out where they would never be launched, as
    there is an ordinary type with as much room; unless nobody is sure of that (`exotic`).
    """
    found: list[Machine] = []
    for template in templates:
        rooms, strangers = Rooms(template, resources), apart.get(template.number, ())
        for takers, rows, markets in _segments(template.number, reaches):
            machines = list(_sold(template, rooms, rows, markets))
            machines = machines if exotic else _likely(machines)
            for together in peaceful(takers, strangers):
                found += [machine._replace(takers=together) for machine in machines]
    return found


def _segments(template: int, reaches: Sequence[Reach]) -> Iterator[tuple[Customers, Rows, Markets]]:
    """Types and markets of a template that are open to the same customers."""
    types = parted([reach.rows[template] for reach in reaches])
    for buying, markets in parted([reach.markets[template] for reach in reaches]):
        for taking, rows in types:
            if buying & taking:
                yield buying & taking, rows, markets


def _likely(machines: Sequence[Machine]) -> list[Machine]:
    """Without what an ordinary type would be launched instead of."""
    ordinary = [machine.room for machine in machines if not _is_exotic(machine)]
    largest: list[Amounts] = []
    for room in sorted(ordinary, reverse=True):
        if not any(_is_as_large(other, room) for other in largest):
            largest.append(room)
    return [
        machine
        for machine in machines
        if not _is_exotic(machine)
        or not any(_is_as_large(other, machine.room) for other in largest)
    ]


def _is_exotic(machine: Machine) -> bool:
    index = machine.template.index
    return bool((index.metal | index.accelerated) >> machine.row & 1)


def _is_as_large(room: Amounts, other: Amounts) -> bool:
    return all(mine >= its for mine, its in zip(room, other, strict=True))


def undominated(machines: Iterable[Machine], gauge: Gauge) -> list[Machine]:
    """The cheapest first, without those that another is at least as good as."""
    kept = _Kept(gauge)
    return [machine for machine in sorted(machines, key=_rank) if kept.adds(machine)]


class _Kept:
    """The rooms that are kept, by who may use them."""

    def __init__(self, gauge: Gauge) -> None:
        self._gauge = gauge
        self._rooms: dict[Customers, list[int]] = {}
        self._open_to: dict[Customers, list[list[int]]] = {}
        """For each set of customers the rooms that all of them may use."""

    def adds(self, machine: Machine) -> bool:
        """Whether it is better than all before, which were not dearer."""
        room, guard = self._gauge.packed(machine.room), self._gauge.guard
        for rooms in self._rooms_for(machine.takers):
            for other in rooms:
                if not other - room & guard:
                    return False
        self._rooms[machine.takers].append(room)
        return True

    def _rooms_for(self, takers: Customers) -> list[list[int]]:
        if takers not in self._rooms:
            self._rooms[takers] = []
            for known, lists in self._open_to.items():
                if not known & ~takers:
                    lists.append(self._rooms[takers])
            self._open_to[takers] = [
                rooms for others, rooms in self._rooms.items() if not takers & ~others
            ]
        return self._open_to[takers]


def parted(sets: Sequence[Rows]) -> list[tuple[Customers, Rows]]:
    """The members of any of the sets, by which of the sets they are in."""
    parts = {0: union(sets)}
    for number, rows in enumerate(sets):
        split: dict[Customers, Rows] = {}
        for who, having in parts.items():
            inside = having & rows
            if inside:
                split[who | 1 << number] = inside
            if inside != having:
                split[who] = having ^ inside
        parts = split
    return [(who, rows) for who, rows in parts.items() if who]


def peaceful(takers: Customers, apart: Sequence[Customers]) -> list[Customers]:
    """The customers in sets, none of which has two that cannot be together."""
    found: list[Customers] = []
    open_sets = [takers]
    while open_sets:
        wanted = open_sets.pop()
        quarrel = next((n for n in row_numbers(wanted) if apart and wanted & apart[n]), None)
        if quarrel is None or len(open_sets) + len(found) >= SETS:
            found.append(wanted)
        else:
            open_sets += [wanted ^ 1 << quarrel, wanted ^ (wanted & apart[quarrel])]
    return list(dict.fromkeys(found))


class Rooms:
    """What pods can have of each resource on the types of one pool."""

    def __init__(self, template: Template, resources: Sequence[str]) -> None:
        self._types = template.index.types
        self._taken = template.overhead.by_row(len(self._types))
        self._resources = resources
        self._known: dict[int, Amounts] = {}

    def of(self, row: int) -> Amounts:
        found = self._known.get(row)
        if found is None:
            has, taken = self._types[row].allocatable, self._taken[row]
            amounts = [has.get(name, 0) - taken.get(name, 0) for name in self._resources]
            found = self._known[row] = tuple(max(0, amount) for amount in amounts)
        return found


def _sold(template: Template, rooms: Rooms, rows: Rows, markets: Markets) -> Iterator[Machine]:
    index = template.index
    for row in row_numbers(rows & index.sold_in(markets)):
        bought = index.best_buy(1 << row, markets)
        if bought is not None:
            yield Machine(template, row, cost(index, row, bought[2]), rooms.of(row), 0)


def _rank(machine: Machine) -> tuple[float, tuple[int, ...], int, int, int]:
    """The cheapest first, among equals the roomiest."""
    roomiest = tuple(-amount for amount in machine.room)
    return (
        machine.price,
        roomiest,
        -machine.takers.bit_count(),
        machine.template.number,
        machine.row,
    )
