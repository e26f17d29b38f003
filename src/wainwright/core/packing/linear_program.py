"""A small linear program: what it costs to cover demands if nodes could be launched in fractions.

Its shadow prices are the value of one more unit of a resource. Demands come in groups, as not
every pod fits every type; a bin may give its CPU to one group and its memory to another.
Any prices at which no bin type is worth more than it costs give a lower bound: a solution that
is not quite optimal is still valid.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from math import inf
from operator import mul
from typing import Final, NamedTuple, TypeAlias

MAX_PIVOTS: Final = (
    500  # more than are ever needed; with rounding errors the pivots could cycle for ever
)
TOLERANCE: Final = 1e-9

Prices: TypeAlias = list[list[float]]
"""By group and resource: USD per hour for one unit."""

HighestPrices: TypeAlias = list[tuple[float, int]]
"""For each resource the highest price that any of some groups pays, and its row; -1 for none."""


class Supply(NamedTuple):
    """A bin type; any number of its bins can be launched."""

    price: float
    room: tuple[int, ...]
    """By resource."""
    usable_by: int
    """The groups that may use it, as bits."""


class _Column(NamedTuple):
    """How much of each row one unit covers, and the price of the unit."""

    entries: Mapping[int, float]
    price: float


def shadow_prices(demands: Sequence[Sequence[int]], supplies: Sequence[Supply]) -> Prices:
    """The value of a unit of each resource to each group; zero where the group demands none."""
    program = _SimplexSolver(demands, supplies)
    program.solve()
    return program.prices()


def highest_prices(prices: Prices, usable_by: int) -> list[float]:
    """For each resource the highest price among the groups."""
    among = [own for group, own in enumerate(prices) if usable_by >> group & 1]
    return [max(column) for column in zip(*among, strict=True)]


def value_of(amounts: Sequence[int], prices: Sequence[float]) -> float:
    total: float = sum(map(mul, amounts, prices))
    return total


class _SimplexSolver:
    """The revised simplex method with column generation.

    A row is a demand, scaled to one. A column is a bin type together with a choice of the group
    that gets each of its resources: there are far too many to list, so that only the best column
    at the present prices is generated. The initial basis covers every row by the bin type that
    does so most cheaply, its other resources unused.
    """

    def __init__(self, demands: Sequence[Sequence[int]], supplies: Sequence[Supply]) -> None:
        self._demands = demands
        self._rows = [
            (group, resource)
            for group, own in enumerate(demands)
            for resource, amount in enumerate(own)
            if amount > 0
        ]
        self._row_numbers = {place: number for number, place in enumerate(self._rows)}
        self._supplies_by_groups: dict[int, list[Supply]] = {}
        for supply in supplies:
            self._supplies_by_groups.setdefault(supply.usable_by, []).append(supply)
        self._pricing_order = deque(self._supplies_by_groups)
        size = len(self._rows)
        self._costs = [self._cost_alone(*place) for place in self._rows]
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
        prices = [[0.0] * width for _ in self._demands]
        for (group, resource), dual in zip(self._rows, self._duals, strict=True):
            prices[group][resource] = max(0.0, dual) / self._demands[group][resource]
        return prices

    def _cost_alone(self, group: int, resource: int) -> float:
        """The cost of covering the row where bins are launched for nothing else."""
        per_unit = [
            supply.price / supply.room[resource]
            for usable_by, supplies in self._supplies_by_groups.items()
            if usable_by >> group & 1
            for supply in supplies
            if supply.room[resource] > 0
        ]
        return min(per_unit, default=0.0) * self._demands[group][resource]

    def _better_column(self) -> _Column | None:
        """A column that makes the cover cheaper; None where the cover is optimal.

        Partial pricing: bin types that the same groups may use are searched together, and the
        search goes on where the last column was found. Pricing all bin types before each pivot
        would find no better prices, and take several times as long.
        """
        lowest = min(self._duals, default=0.0)
        if lowest < -TOLERANCE:
            return _Column({self._duals.index(lowest): -1.0}, 0.0)
        for _ in range(len(self._pricing_order)):
            column = self._best_column(self._pricing_order[0])
            if column is not None:
                return column
            self._pricing_order.rotate(-1)
        return None

    def _best_column(self, usable_by: int) -> _Column | None:
        best, entering, rated = TOLERANCE, None, self._highest_prices(usable_by)
        prices = [price for price, _ in rated]
        for supply in self._supplies_by_groups[usable_by]:
            gain = value_of(supply.room, prices) - supply.price
            if gain > best * supply.price:
                best, entering = gain / (supply.price or 1.0), supply
        return None if entering is None else self._column(entering, rated)

    def _highest_prices(self, usable_by: int) -> HighestPrices:
        groups = [group for group in range(len(self._demands)) if usable_by >> group & 1]
        return [self._highest_price(resource, groups) for resource in range(len(self._demands[0]))]

    def _highest_price(self, resource: int, groups: Sequence[int]) -> tuple[float, int]:
        best, best_row = 0.0, -1
        for group in groups:
            row = self._row_numbers.get((group, resource))
            if row is not None:
                price = self._duals[row] / self._demands[group][resource]
                if price > best:
                    best, best_row = price, row
        return best, best_row

    def _column(self, supply: Supply, rated: HighestPrices) -> _Column:
        entries = {}
        for resource, (_, row) in enumerate(rated):
            if row >= 0 and supply.room[resource]:
                group, _ = self._rows[row]
                entries[row] = supply.room[resource] / self._demands[group][resource]
        return _Column(entries, supply.price)

    def _enter(self, column: _Column) -> bool:
        """Pivots the column into the basis; False where it can replace no column of it."""
        inverse, amounts = self._inverse, self._amounts
        change = [
            sum(line[row] * entry for row, entry in column.entries.items()) for line in inverse
        ]
        ratios = [
            (amounts[n] / share if share > TOLERANCE else inf, n) for n, share in enumerate(change)
        ]
        most, leaving = min(ratios)
        if most == inf:
            return False
        pivot = inverse[leaving] = [entry / change[leaving] for entry in inverse[leaving]]
        for number, share in enumerate(change):
            if number != leaving and share:  # a share of zero leaves the row as it is
                line = inverse[number]
                inverse[number] = [a - share * b for a, b in zip(line, pivot, strict=True)]
                amounts[number] -= share * most
        amounts[leaving], self._costs[leaving] = most, column.price
        self._duals = [
            sum(cost * line[row] for cost, line in zip(self._costs, inverse, strict=True) if cost)
            for row in range(len(inverse))
        ]
        return True
