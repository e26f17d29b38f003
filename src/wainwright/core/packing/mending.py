"""Mending: a few loads are taken apart and packed anew, again and again, and the better is kept.

The dice fall the same way every time, and what ends it is how much was looked at, not the clock.
"""

from bisect import bisect_right
from itertools import accumulate
from typing import Final

from wainwright.core.packing.dice import Dice
from wainwright.core.packing.filling import Filler
from wainwright.core.packing.machines import Customers
from wainwright.core.packing.yard import Load
from wainwright.model.columns import union

FEWEST: Final = 2
MORE: Final = 4  # from the fewest up to so many more, this one not included
MANY: Final = 12  # the same once in a while
TRIED: Final = 5  # machines of the short list that are tried in one go
TINY: Final = 1e-9  # less than this is no difference
STEP: Final = 100  # what a step costs beside filling, in lots looked at


class Mender:
    """Loads that get cheaper."""

    def __init__(self, filler: Filler, loads: list[Load]) -> None:
        self._filler = filler
        self._yard = filler.yard
        self._dice = Dice()
        self._useful: dict[Customers, list[int]] = {}
        self._left = [0] * len(filler.yard.lots)
        self.loads = loads
        self._measure()

    def mend(self, looks: int) -> None:
        """Goes on until so much more has been looked at."""
        end = self._filler.looks + looks
        while self._filler.looks < end and len(self.loads) > 1:
            self._filler.looks += STEP
            self._step()

    def _measure(self) -> None:
        """How wasteful the loads are, summed up so that one can be drawn by it."""
        waste = (max(0.0, load.price - load.floor) for load in self.loads)
        self._waste = list(accumulate(waste))

    def _step(self) -> None:
        chosen = self._chosen()
        loads = [self.loads[number] for number in sorted(chosen)]
        price = self._price(loads)
        left = self._left
        for load in loads:
            for lot, count in load.taken:
                left[lot] += count
        numbers = sorted({lot for load in loads for lot, _ in load.taken})
        machines = self._machines(union(load.customers for load in loads))
        found = self._filler.cheaper(left, numbers, machines, price + TINY, self._dice)
        for lot in numbers:
            left[lot] = 0
        if found is not None:  # another way that costs the same may lead somewhere
            kept = [load for number, load in enumerate(self.loads) if number not in chosen]
            self.loads = kept + found
            self._measure()

    def _price(self, loads: list[Load]) -> float:
        return sum(load.price + self._filler.valuation.nuisance for load in loads)

    def _chosen(self) -> set[int]:
        """A wasteful load, and others that might exchange pods with it."""
        first = self._wasteful()
        mine = self.loads[first].customers
        others = [n for n, load in enumerate(self.loads) if load.customers & mine]
        more = MANY if self._dice.below(4) == 0 else MORE
        count = min(len(others), FEWEST + self._dice.below(more))
        found = {first}
        for _ in range(count - 1):
            by_waste = self._wasteful() if self._dice.below(2) else first
            drawn = by_waste if by_waste != first else others[self._dice.below(len(others))]
            found.add(drawn)
        return found

    def _wasteful(self) -> int:
        drawn = self._dice.unit() * self._waste[-1]
        return min(bisect_right(self._waste, drawn), len(self.loads) - 1)

    def _machines(self, customers: Customers) -> list[int]:
        """Some of those that the customers may use."""
        short = self._useful.get(customers)
        if short is None:
            takers = [
                (number, self._yard.machines[number].takers)
                for number in self._filler.valuation.short
            ]
            short = [number for number, who in takers if who & customers]
            self._useful[customers] = short
        return sorted({short[self._dice.below(len(short))] for _ in range(TRIED)})
