"""Valuations: what lots are worth, and which machines are worth a look, while some is left.

Shadow prices are zero for what is in no short supply, and would have such resources wasted until
they are: so values have a small part in them that counts all demands alike.
"""

from collections.abc import Iterable, Sequence
from statistics import median_low
from typing import Final

from wainwright.core.packing.linear import Prices, highest_prices, shadow_prices, worth
from wainwright.core.packing.yard import Yard

FAIR: Final = 0.05  # how much of a price comes from what is asked for, not from what is scarce
SLACK: Final = 0.1  # machines that cost so much more than they are worth are still looked at
SHORT: Final = 60  # so many machines are looked at
NUISANCE: Final = 0.003  # what one node more is taken to cost, as a part of a machine's price


class Valuation:
    """What everything is worth when so much of each lot is left to be packed."""

    def __init__(self, yard: Yard, left: Sequence[int]) -> None:
        self._yard = yard
        groups, lots = yard.groups, yard.lots
        demands = groups.demanded(left)
        prices = shadow_prices(demands, yard.supplies)
        blended = _blended(prices, demands)
        own = [(lot.amounts, group) for lot, group in zip(lots, groups.of_lot, strict=True)]
        self.floors = [worth(amounts, prices[group]) for amounts, group in own]
        """What each pod costs at least."""
        self.values = [worth(amounts, blended[group]) for amounts, group in own]
        """What it is taken to be worth."""
        self.main = _main_pair(demands, blended)
        """The two resources that most of the money goes to."""
        self.shares = [_parts(amounts, blended[group], self.main) for amounts, group in own]
        """For each lot what these two of its amounts are worth."""
        self.balance = [self._balance(number, blended) for number in range(len(yard.machines))]
        """Which part of each machine's worth the first of them is."""
        self.short = self._shortlist(prices, [lot for lot, count in enumerate(left) if count])
        """Machines that are worth a look."""
        costs = [yard.machines[number].price for number in self.short]
        self.nuisance = NUISANCE * median_low(costs)

    def _balance(self, number: int, blended: Prices) -> float:
        takers = self._yard.groups.takers[number]
        if not takers:
            return 0.0
        prices = highest_prices(blended, takers)
        first, second = _parts(self._yard.machines[number].room, prices, self.main)
        return first / (first + second) if first + second else 0.0

    def _shortlist(self, prices: Prices, lots: Iterable[int]) -> list[int]:
        """The machines that cost little more than they are worth, and one at least for each lot."""
        yard, rated = self._yard, []
        for number, machine in enumerate(yard.machines):
            takers = yard.groups.takers[number]
            value = worth(machine.room, highest_prices(prices, takers)) if takers else 0.0
            if value:
                rated.append((machine.price / value, number))
        rated.sort()
        chosen = {number for ratio, number in rated[:SHORT] if ratio <= 1 + SLACK}
        order = [number for _, number in rated] + list(range(len(yard.machines)))
        for lot in lots:
            if not any(yard.takes(number, lot) for number in chosen):
                chosen.add(next(number for number in order if yard.takes(number, lot)))
        return sorted(chosen)


def _blended(prices: Prices, demands: Sequence[Sequence[int]]) -> Prices:
    totals = [sum(column) for column in zip(*demands, strict=True)]
    asked = [total for total in totals if total]
    value = sum(worth(own, price) for own, price in zip(demands, prices, strict=True))
    value = value or 1.0  # where all that is needed is free, only the demands tell lots apart
    fair = [value / len(asked) / total if total else 0.0 for total in totals]
    return [
        [(1 - FAIR) * price + FAIR * other for price, other in zip(own, fair, strict=True)]
        for own in prices
    ]


def _main_pair(demands: Sequence[Sequence[int]], prices: Prices) -> tuple[int, int]:
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
