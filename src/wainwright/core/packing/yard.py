"""The yard: lots to be packed and machines to be had, with what they are worth to each other."""

from collections.abc import Iterable, Sequence
from statistics import median_low
from typing import Final, NamedTuple

from wainwright.core.packing.gauge import Gauge
from wainwright.core.packing.linear import highest_prices, shadow_prices, worth
from wainwright.core.packing.lots import Groups, Lot
from wainwright.core.packing.machines import Customers, Machine

FAIR: Final = 0.05  # how much of a price comes from what is asked for, not from what is scarce
SLACK: Final = 0.1  # machines that cost so much more than they are worth are still looked at
SHORT: Final = 60  # so many machines are looked at
NUISANCE: Final = 0.003  # what one node more is taken to cost, as a part of a machine's price


class Load(NamedTuple):
    """A machine, and how many pods of which lots are on it."""

    machine: int
    taken: tuple[tuple[int, int], ...]
    price: float
    value: float
    """By the shadow prices, which is never more than the price."""
    customers: Customers


class Yard:
    """Everything about lots and machines that does not change while they are packed.

    Shadow prices are zero for what is in no short supply, and would have such resources wasted
    until they are: so values have a small part in them that counts all demands alike.
    """

    def __init__(self, lots: Sequence[Lot], machines: Sequence[Machine], gauge: Gauge) -> None:
        self.lots = lots
        self.machines = machines
        self.gauge = gauge
        self.packed = [gauge.packed(lot.amounts) for lot in lots]
        self.rooms = [gauge.packed(machine.room) for machine in machines]
        self.bits: list[Customers] = [1 << lot.customer for lot in lots]
        groups = Groups(lots, machines, gauge)
        prices = shadow_prices(groups.demands, groups.supplies(machines))
        blended = _blended(prices, groups.demands)
        self.floors = _values(lots, groups, prices)
        """What each pod costs at least."""
        self.values = _values(lots, groups, blended)
        """What it is taken to be worth."""
        self.main = _main_pair(groups.demands, blended)
        self.shares = [
            _parts(lot.amounts, blended[groups.of_lot[n]], self.main) for n, lot in enumerate(lots)
        ]
        self.balance = [self._balance(number, groups, blended) for number in range(len(machines))]
        self.short = self._shortlist(groups, prices)
        self.nuisance = NUISANCE * median_low([machines[each].price for each in self.short])

    def cheapest(self, used: int, customers: Customers) -> int:
        """The first machine that holds so much for these customers."""
        guard = self.gauge.guard
        for number, room in enumerate(self.rooms):
            if not room - used & guard and not customers & ~self.machines[number].takers:
                return number
        raise AssertionError("what was filled is large enough")

    def _balance(self, number: int, groups: Groups, blended: list[list[float]]) -> float:
        """Which part of the machine's worth its first main resource is."""
        takers = groups.takers[number]
        if not takers:
            return 0.0
        room, prices = self.machines[number].room, highest_prices(blended, takers)
        first, second = _parts(room, prices, self.main)
        return first / (first + second) if first + second else 0.0

    def _shortlist(self, groups: Groups, prices: list[list[float]]) -> list[int]:
        """The machines that cost little more than they are worth, and one at least for each lot."""
        rated = sorted(
            (machine.price / value, number)
            for number, machine in enumerate(self.machines)
            if groups.takers[number]
            and (value := worth(machine.room, highest_prices(prices, groups.takers[number])))
        )
        chosen = {number for ratio, number in rated[:SHORT] if ratio <= 1 + SLACK}
        order = [number for _, number in rated] + list(range(len(self.machines)))
        for lot in range(len(self.lots)):
            if not any(self._takes(number, lot) for number in chosen):
                chosen.add(next(number for number in order if self._takes(number, lot)))
        return sorted(chosen)

    def _takes(self, number: int, lot: int) -> bool:
        mine = self.machines[number].takers & self.bits[lot]
        return bool(mine) and self.gauge.holds(self.rooms[number], self.packed[lot])


def _values(lots: Sequence[Lot], groups: Groups, prices: list[list[float]]) -> list[float]:
    return [
        worth(lot.amounts, prices[group]) for lot, group in zip(lots, groups.of_lot, strict=True)
    ]


def _blended(prices: list[list[float]], demands: Sequence[Sequence[int]]) -> list[list[float]]:
    totals = [sum(column) for column in zip(*demands, strict=True)]
    asked = [total for total in totals if total]
    value = sum(worth(own, price) for own, price in zip(demands, prices, strict=True))
    fair = [value / len(asked) / total if total else 0.0 for total in totals]
    return [
        [(1 - FAIR) * price + FAIR * other for price, other in zip(own, fair, strict=True)]
        for own in prices
    ]


def _main_pair(demands: Sequence[Sequence[int]], prices: list[list[float]]) -> tuple[int, int]:
    """The two resources that most of the money goes to."""
    spent = [0.0] * len(demands[0])
    for own, price in zip(demands, prices, strict=True):
        for resource, amount in enumerate(own):
            spent[resource] += amount * price[resource]
    order = sorted(range(len(spent)), key=lambda resource: (-spent[resource], resource))
    return order[0], order[min(1, len(order) - 1)]


def _parts(
    amounts: Sequence[int], prices: Sequence[float], main: tuple[int, int]
) -> tuple[float, float]:
    first, second = main
    return amounts[first] * prices[first], amounts[second] * prices[second]


def together(loads: Iterable[Load]) -> float:
    return sum(load.price for load in loads)
