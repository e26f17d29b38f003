"""Filling: machines one after the other, each time the one that can be filled best for its price.

A machine is filled by going through the lots in some order and taking what fits. A few orders are
tried on every machine of the short list; the best is what has the most value for the price.
"""

from collections.abc import Sequence
from itertools import chain
from typing import Final, NamedTuple, TypeAlias

from wainwright.core.packing.dice import Dice
from wainwright.core.packing.gauge import copies
from wainwright.core.packing.valuation import Valuation
from wainwright.core.packing.yard import Load, Yard

NOISE: Final = 0.3  # by how much a size is taken for larger than it is, to try other orders
REVALUED: Final = 0.9  # when so much is left of what there was, everything is valued anew
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
        self._least = 0
        """No lot in question asks for less than this."""
        self.looks = 0
        """How many lots were looked at: what stands for time."""
        self.value(Valuation(yard, [lot.pods for lot in yard.lots]))

    def value(self, valuation: Valuation) -> None:
        """From now on things are worth this."""
        self.valuation = valuation
        first, second = valuation.main
        self._sizes: list[list[float]] = [
            valuation.values,
            [float(lot.amounts[first]) for lot in self.yard.lots],
            [float(lot.amounts[second]) for lot in self.yard.lots],
            [max(parts) for parts in valuation.shares],
        ]

    def loads(self, left: list[int], numbers: Sequence[int]) -> list[Load]:
        """Machines for all that is left of these lots; what is scarce changes on the way."""
        found: list[Load] = []
        before, orders = self.valuation, self._orders(numbers, None)
        fewer = total = self._worth_of(left, numbers)
        while orders[0]:
            if fewer < total * REVALUED:
                self.value(Valuation(self.yard, left))
                total = fewer = self._worth_of(left, orders[0])
                orders = self._orders(orders[0], None)
            best = self._best(orders, left, self.valuation.short)
            assert best is not None, "every lot has a machine on the short list"
            times = self._times(best.taken, left)
            found += [self._load(best)] * times
            fewer -= self._taken(best, left, times)
            orders = [[lot for lot in order if left[lot]] for order in orders]
        self.value(before)
        return [self._weighed(load) for load in found]

    def cheaper(
        self,
        left: list[int],
        numbers: Sequence[int],
        machines: Sequence[int],
        most: float,
        dice: Dice,
    ) -> list[Load] | None:
        """The same with these machines only; None where it would cost so much or more."""
        floors, nuisance, found = self.valuation.floors, self.valuation.nuisance, []
        floor, orders = sum(floors[lot] * left[lot] for lot in numbers), self._orders(numbers, dice)
        while orders[0] and floor < most:
            best = self._best(orders, left, machines)
            if best is None:
                return None
            load, times = self._load(best), self._times(best.taken, left)
            found += [load] * times
            floor += (load.price + nuisance - load.floor) * times
            self._taken(best, left, times)
            orders = [[lot for lot in order if left[lot]] for order in orders]
        return None if orders[0] or floor >= most else found

    def _worth_of(self, left: Sequence[int], numbers: Sequence[int]) -> float:
        return sum(self.valuation.values[lot] * left[lot] for lot in numbers)

    def _taken(self, fill: Fill, left: list[int], times: int) -> float:
        """Takes it away; says what it was worth."""
        value = 0.0
        for lot, count in fill.taken:
            left[lot] -= count * times
            value += self.valuation.values[lot] * count * times
        return value

    def _weighed(self, load: Load) -> Load:
        floors = self.valuation.floors
        return load._replace(floor=sum(floors[lot] * count for lot, count in load.taken))

    def _times(self, taken: Taken, left: Sequence[int]) -> int:
        """How many such machines at once: not so many that no small pods are left for others."""
        return max(1, min(left[lot] // count for lot, count in taken) // 2)

    def _load(self, fill: Fill) -> Load:
        yard = self.yard
        customers = 0
        for lot, _ in fill.taken:
            customers |= yard.bits[lot]
        machine = yard.cheapest(fill.used, customers)
        taken, price = tuple(fill.taken), yard.machines[machine].price
        return self._weighed(Load(machine, taken, price, 0.0, customers))

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
        free, value, values, least = room, 0.0, self.valuation.values, self._least
        self.looks += len(order) + OVERHEAD
        for lot in order:
            rest = free - packed[lot]
            if rest & guard:
                continue
            count = left[lot]
            if count > 1:
                count = copies(free, yard.parts[lot], count)
                rest = free - packed[lot] * count
            taken.append((lot, count))
            value += values[lot] * count
            free = rest
            if free - least & guard:
                break
        if not value:
            return None
        score = (yard.machines[number].price + self.valuation.nuisance) / value
        return Fill(score, number, taken, room - free)

    def _orders(self, numbers: Sequence[int], dice: Dice | None) -> list[Order]:
        amounts = (self.yard.lots[lot].amounts for lot in numbers)
        self._least = self.yard.gauge.packed([min(each) for each in zip(*amounts, strict=True)])
        if dice is None:
            return [_descending(numbers, sizes) for sizes in self._sizes]
        sizes = self._sizes[dice.below(ORDERS)]
        noisy = {lot: sizes[lot] * (1 + NOISE * dice.unit()) for lot in numbers}
        return [sorted(numbers, key=lambda lot: -noisy[lot])]

    def matched(self, order: Order, left: Sequence[int], balance: float) -> Order:
        """An order in which what is heavy in one main resource goes with what is in the other."""
        shares = self.valuation.shares
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
        takers = self._filler.yard.machines[number].takers & self._everybody
        balance = self._filler.valuation.balance[number]
        key = takers, round(balance * 10)
        found = self._known.get(key)
        if found is None:
            own = self._of(takers)
            matched = self._filler.matched(own[0], self._left, balance)
            found = self._known[key] = [*own, matched]
        return found

    def _of(self, takers: int) -> list[Order]:
        if takers == self._everybody:
            return list(self._orders)
        bits = self._filler.yard.bits
        return [[lot for lot in order if bits[lot] & takers] for order in self._orders]


def _descending(numbers: Sequence[int], sizes: Sequence[float]) -> Order:
    return sorted(numbers, key=lambda lot: -sizes[lot])
