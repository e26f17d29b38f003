"""A small linear program: what it costs to cover demands if bins could be bought in fractions.

Its shadow prices say what one more unit of a resource is worth. Demands come in groups, as not
every pod can be on every type; a bin may give its CPU to one group and its memory to another.
Any prices at which no bin type is worth more than it costs give a lower bound: an answer that
is not quite optimal is still valid.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from math import inf
from operator import mul
from typing import Final, NamedTuple, TypeAlias

MAX_PIVOTS: Final = 500  # more than are ever needed; rounding errors cannot make it go on for ever
TOLERANCE: Final = 1e-9

Prices: TypeAlias = list[list[float]]
"""By group and resource: USD per hour for one unit."""

HighestPrices: TypeAlias = list[tuple[float, int]]
"""For each resource the price that the best payer among some groups pays, and his row or -1."""


class Supply(NamedTuple):
    """A bin type, of which there are enough."""

    price: float
    room: tuple[int, ...]
    """By resource."""
    usable_by: int
    """The groups that may use it, as bits."""


class _Column(NamedTuple):
    """How one unit of something covers the rows, and its price."""

    entries: Mapping[int, float]
    price: float


def shadow_prices(demands: Sequence[Sequence[int]], supplies: Sequence[Supply]) -> Prices:
    """What a unit of each resource is worth to each group; nothing where it demands nothing."""
    program = _SimplexSolver(demands, supplies)
    program.solve()
    return program.prices()


def highest_prices(prices: Prices, usable_by: int) -> list[float]:
    """For each resource what the best payer among the groups pays."""
    among = [own for group, own in enumerate(prices) if usable_by >> group & 1]
    return [max(column) for column in zip(*among, strict=True)]


def value_of(amounts: Sequence[int], prices: Sequence[float]) -> float:
    total: float = sum(map(mul, amounts, prices))
    return total


class _SimplexSolver:
    """The revised simplex method; columns are made as they are needed.

    A row is a demand, scaled to one. The start covers every row by the bin type that does so most
    cheaply, the rest of it thrown away.
    """

    def __init__(self, demands: Sequence[Sequence[int]], supplies: Sequence[Supply]) -> None:
        self._demands = demands
        self._rows = [
            (group, resource)
            for group, own in enumerate(demands)
            for resource, amount in enumerate(own)
            if amount > 0
        ]
        self._at = {place: number for number, place in enumerate(self._rows)}
        self._by_takers: dict[int, list[Supply]] = {}
        for supply in supplies:
            self._by_takers.setdefault(supply.usable_by, []).append(supply)
        self._turns = deque(self._by_takers)
        size = len(self._rows)
        self._costs = [self._alone(*place) for place in self._rows]
        self._amounts = [1.0] * size
        self._inverse = [[float(i == j) for j in range(size)] for i in range(size)]
        self._duals = list(self._costs)

    def solve(self) -> None:
        for _ in range(MAX_PIVOTS):
            column = self._better_column()
            if column is None or not self._enter(column):
                return

    def prices(self) -> Prices:
        width = len(self._demands[0]) if self._demands else 0
        found = [[0.0] * width for _ in self._demands]
        for (group, resource), dual in zip(self._rows, self._duals, strict=True):
            found[group][resource] = max(0.0, dual) / self._demands[group][resource]
        return found

    def _alone(self, group: int, resource: int) -> float:
        """What the row costs where bins are bought for nothing else."""
        per_unit = [
            supply.price / supply.room[resource]
            for usable_by, supplies in self._by_takers.items()
            if usable_by >> group & 1
            for supply in supplies
            if supply.room[resource] > 0
        ]
        return min(per_unit, default=0.0) * self._demands[group][resource]

    def _better_column(self) -> _Column | None:
        """A column that makes the cover cheaper; bin types for the same groups take turns."""
        lowest = min(self._duals, default=0.0)
        if lowest < -TOLERANCE:
            return _Column({self._duals.index(lowest): -1.0}, 0.0)
        for _ in range(len(self._turns)):
            found = self._best_of(self._turns[0])
            if found is not None:
                return found
            self._turns.rotate(-1)
        return None

    def _best_of(self, usable_by: int) -> _Column | None:
        best, found, rated = TOLERANCE, None, self._rated(usable_by)
        prices = [price for price, _ in rated]
        for supply in self._by_takers[usable_by]:
            gain = value_of(supply.room, prices) - supply.price
            if gain > best * supply.price:
                best, found = gain / (supply.price or 1.0), supply
        return None if found is None else self._column(found, rated)

    def _rated(self, usable_by: int) -> HighestPrices:
        groups = [group for group in range(len(self._demands)) if usable_by >> group & 1]
        return [self._rate(resource, groups) for resource in range(len(self._demands[0]))]

    def _rate(self, resource: int, groups: Sequence[int]) -> tuple[float, int]:
        best, found = 0.0, -1
        for group in groups:
            row = self._at.get((group, resource))
            if row is not None:
                price = self._duals[row] / self._demands[group][resource]
                if price > best:
                    best, found = price, row
        return best, found

    def _column(self, supply: Supply, rated: HighestPrices) -> _Column:
        entries = {}
        for resource, (_, row) in enumerate(rated):
            if row >= 0 and supply.room[resource]:
                group, _ = self._rows[row]
                entries[row] = supply.room[resource] / self._demands[group][resource]
        return _Column(entries, supply.price)

    def _enter(self, column: _Column) -> bool:
        """Takes the column into the basis; False where there is nothing that it could replace."""
        inverse, amounts = self._inverse, self._amounts
        change = [
            sum(line[row] * entry for row, entry in column.entries.items()) for line in inverse
        ]
        ratios = [
            (amounts[n] / share if share > TOLERANCE else inf, n) for n, share in enumerate(change)
        ]
        most, out = min(ratios)
        if most == inf:
            return False
        pivot = inverse[out] = [entry / change[out] for entry in inverse[out]]
        for number, share in enumerate(change):
            if number != out and share:
                line = inverse[number]
                inverse[number] = [a - share * b for a, b in zip(line, pivot, strict=True)]
                amounts[number] -= share * most
        amounts[out], self._costs[out] = most, column.price
        self._duals = [
            sum(cost * line[row] for cost, line in zip(self._costs, inverse, strict=True) if cost)
            for row in range(len(inverse))
        ]
        return True
