"""Filling: machines one after the other, each time the one that can be filled best for its price.

A machine is filled by going through the lots in some order and taking what fits. A few orders are
tried on every machine of the short list; the best is what has the most value for the price.
"""

from collections.abc import Sequence
from itertools import chain
from math import inf
from typing import Final, NamedTuple, TypeAlias

from wainwright.core.packing.dice import Dice
from wainwright.core.packing.yard import Load, Yard

NOISE: Final = 0.3  # by how much a size is taken for larger than it is, to try other orders
ORDERS: Final = 4  # by value, by either main resource, by the larger part of the value
OVERHEAD: Final = 20  # what filling a machine costs beside looking at lots, in lots

Order: TypeAlias = list[int]
"""Numbers of lots."""

Taken: TypeAlias = list[tuple[int, int]]
"""Lots, and how many pods of each."""


class Fill(NamedTuple):
    """How one machine could be filled."""

    score: float
    machine: int
    taken: Taken
    used: int


class Filler:
    """Fills machines of one yard, and counts how much was looked at."""

    def __init__(self, yard: Yard) -> None:
        self.yard = yard
        self.looks = 0
        """How many lots were looked at: what stands for time."""
        main = yard.main
        self._sizes: list[list[float]] = [
            yard.values,
            [float(lot.amounts[main[0]]) for lot in yard.lots],
            [float(lot.amounts[main[1]]) for lot in yard.lots],
            [max(parts) for parts in yard.shares],
        ]

    def loads(self, left: list[int], numbers: Sequence[int]) -> list[Load]:
        """Machines for all that is left of these lots."""
        found = self.cheaper(left, numbers, self.yard.short)
        assert found is not None, "every lot has a machine on the short list"
        return found

    def cheaper(
        self,
        left: list[int],
        numbers: Sequence[int],
        machines: Sequence[int],
        most: float = inf,
        dice: Dice | None = None,
    ) -> list[Load] | None:
        """The same with these machines only; None where it would cost so much or more.

        With dice the orders are noisy, and only one of them is tried.
        """
        yard, cost, found = self.yard, 0.0, []
        floor = sum(yard.floors[lot] * left[lot] for lot in numbers)
        orders = self._orders(numbers, dice)
        while orders[0]:
            if cost + floor >= most:
                return None
            best = self._best(orders, left, machines)
            if best is None:
                return None
            load, times = self._load(best), self._times(best.taken, left)
            found += [load] * times
            cost += (load.price + yard.nuisance) * times
            floor -= load.value * times
            for lot, count in best.taken:
                left[lot] -= count * times
            orders = [[lot for lot in order if left[lot]] for order in orders]
        return found

    def _times(self, taken: Taken, left: Sequence[int]) -> int:
        """How many such machines at once: not so many that no small pods are left for others."""
        return max(1, min(left[lot] // count for lot, count in taken) // 2)

    def _load(self, fill: Fill) -> Load:
        yard = self.yard
        customers = 0
        for lot, _ in fill.taken:
            customers |= yard.bits[lot]
        machine = yard.cheapest(fill.used, customers)
        value = sum(yard.floors[lot] * count for lot, count in fill.taken)
        return Load(machine, tuple(fill.taken), yard.machines[machine].price, value, customers)

    def _best(
        self, orders: Sequence[Order], left: list[int], machines: Sequence[int]
    ) -> Fill | None:
        best: Fill | None = None
        tried = _Tried(self, orders, left)
        for number in machines:
            for order in tried.orders_for(number):
                fill = self._fill(number, order, left)
                if fill is not None and (best is None or fill.score < best.score):
                    best = fill
        return best

    def _fill(self, number: int, order: Order, left: list[int]) -> Fill | None:
        yard = self.yard
        room, packed, guard = yard.rooms[number], yard.packed, yard.gauge.guard
        taken: Taken = []
        free, value = room, 0.0
        self.looks += len(order) + OVERHEAD
        for lot in order:
            rest = free - packed[lot]
            if rest & guard:
                continue
            count = left[lot]
            if count > 1:
                count = yard.gauge.copies(free, yard.lots[lot].amounts, count)
                rest = free - packed[lot] * count
            taken.append((lot, count))
            value += yard.values[lot] * count
            free = rest
        if not value:
            return None
        score = (yard.machines[number].price + yard.nuisance) / value
        return Fill(score, number, taken, room - free)

    def _orders(self, numbers: Sequence[int], dice: Dice | None) -> list[Order]:
        if dice is None:
            return [_descending(numbers, sizes) for sizes in self._sizes]
        sizes = self._sizes[dice.below(ORDERS)]
        noisy = {lot: sizes[lot] * (1 + NOISE * dice.unit()) for lot in numbers}
        return [sorted(numbers, key=lambda lot: -noisy[lot])]

    def matched(self, order: Order, left: Sequence[int], balance: float) -> Order:
        """An order in which what is heavy in one main resource goes with what is in the other."""
        shares = self.yard.shares
        heavy: Order = []
        light: Order = []
        for lot in order:
            first, second = shares[lot]
            (heavy if first > balance * (first + second) else light).append(lot)
        found: Order = []
        firsts = seconds = 0.0
        over, under = iter(heavy), iter(light)
        while True:
            source = over if firsts <= balance * (firsts + seconds) else under
            lot = next(source, -1)
            if lot < 0:
                return [*found, *chain(over, under)]
            found.append(lot)
            firsts += shares[lot][0] * left[lot]
            seconds += shares[lot][1] * left[lot]


class _Tried:
    """The orders that machines are filled in, worked out once for machines that are alike."""

    def __init__(self, filler: Filler, orders: Sequence[Order], left: Sequence[int]) -> None:
        self._filler = filler
        self._orders = orders
        self._left = left
        self._everybody = 0
        for lot in orders[0]:
            self._everybody |= filler.yard.bits[lot]
        self._known: dict[tuple[int, int], list[Order]] = {}

    def orders_for(self, number: int) -> list[Order]:
        yard = self._filler.yard
        takers = yard.machines[number].takers & self._everybody
        key = takers, round(yard.balance[number] * 10)
        found = self._known.get(key)
        if found is None:
            own = self._of(takers)
            matched = self._filler.matched(own[0], self._left, yard.balance[number])
            found = self._known[key] = [*own, matched]
        return found

    def _of(self, takers: int) -> list[Order]:
        if takers == self._everybody:
            return list(self._orders)
        bits = self._filler.yard.bits
        return [[lot for lot in order if bits[lot] & takers] for order in self._orders]


def _descending(numbers: Sequence[int], sizes: Sequence[float]) -> Order:
    return sorted(numbers, key=lambda lot: -sizes[lot])
