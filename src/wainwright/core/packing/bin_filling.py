"""Bin filling: one bin after the other, each time the bin type that is filled best for its price.

A bin is filled by going through the item types in some order and taking what fits. A few
orders are tried on every bin type of the shortlist; the best has the most value for its price.

Values are shadow prices. These are zero for a resource that is not scarce, which would let it
be wasted until it is: so a small part of a value counts all demands alike.
"""

from collections.abc import Iterable, Sequence
from itertools import chain
from statistics import median_low
from typing import Final, NamedTuple, TypeAlias

from wainwright.core.packing.linear_program import Prices, highest_prices, shadow_prices, value_of
from wainwright.core.packing.packing_problem import FilledBin, PackingProblem
from wainwright.core.packing.resource_vectors import count_copies

MASK_64: Final = (1 << 64) - 1


class LinearCongruentialGenerator:
    """A linear congruential generator, of which the upper bits are used."""

    __slots__ = ("_state",)

    def __init__(self, seed: int = 0) -> None:
        self._state = seed & MASK_64

    def below(self, limit: int) -> int:
        """A number from 0 to less than the limit."""
        return self._next() * limit >> 32

    def unit(self) -> float:
        """A number from 0 to less than 1."""
        return self._next() / (1 << 32)

    def _next(self) -> int:
        self._state = (self._state * 6364136223846793005 + 1442695040888963407) & MASK_64
        return self._state >> 32


DEMAND_SHARE: Final = 0.05  # part of a price that counts demand, not scarcity
SHORTLIST_TOLERANCE: Final = 0.1  # above its value a bin type may cost so much
SHORTLIST_SIZE: Final = 60  # so many bin types are tried
NODE_PENALTY: Final = 0.003  # what one node more is taken to cost, as a part of a bin type's price


class Valuation:
    """What everything is worth when so much of each item type is left to be packed."""

    def __init__(self, problem: PackingProblem, left: Sequence[int]) -> None:
        self._problem = problem
        groups, items = problem.groups, problem.items
        demands = groups.demands_for(left)
        prices = shadow_prices(demands, problem.supplies)
        blended = _blend_with_demand(prices, demands)
        own = [
            (item.amounts, group) for item, group in zip(items, groups.group_of_item, strict=True)
        ]
        self.floors = [value_of(amounts, prices[group]) for amounts, group in own]
        """What each pod costs at least."""
        self.values = [value_of(amounts, blended[group]) for amounts, group in own]
        """What it is taken to be worth."""
        self.main = _main_resources(demands, blended)
        """The two resources that most of the money goes to."""
        self.shares = [_main_values(amounts, blended[group], self.main) for amounts, group in own]
        """For each item type what these two of its amounts are worth."""
        self.balance = [self._balance(number, blended) for number in range(len(problem.bin_types))]
        """Which part of each bin type's worth the first of them is."""
        self.shortlist = self._shortlist(prices, [item for item, count in enumerate(left) if count])
        """Bin types that are worth a look."""
        costs = [problem.bin_types[number].price for number in self.shortlist]
        self.node_penalty = NODE_PENALTY * median_low(costs)

    def _balance(self, number: int, blended: Prices) -> float:
        usable_by = self._problem.groups.usable_by[number]
        if not usable_by:
            return 0.0
        prices = highest_prices(blended, usable_by)
        first, second = _main_values(self._problem.bin_types[number].room, prices, self.main)
        return first / (first + second) if first + second else 0.0

    def _shortlist(self, prices: Prices, items: Iterable[int]) -> list[int]:
        """The bin types that cost little more than their value, and one that fits each item."""
        problem, rated = self._problem, []
        for number, bin_type in enumerate(problem.bin_types):
            usable_by = problem.groups.usable_by[number]
            value = value_of(bin_type.room, highest_prices(prices, usable_by)) if usable_by else 0.0
            if value:
                rated.append((bin_type.price / value, number))
        rated.sort()
        chosen = {
            number for ratio, number in rated[:SHORTLIST_SIZE] if ratio <= 1 + SHORTLIST_TOLERANCE
        }
        order = [number for _, number in rated] + list(range(len(problem.bin_types)))
        for item in items:
            if not any(problem.takes(number, item) for number in chosen):
                chosen.add(next(number for number in order if problem.takes(number, item)))
        return sorted(chosen)


def _blend_with_demand(prices: Prices, demands: Sequence[Sequence[int]]) -> Prices:
    totals = [sum(column) for column in zip(*demands, strict=True)]
    asked = [total for total in totals if total]
    value = sum(value_of(own, price) for own, price in zip(demands, prices, strict=True))
    value = value or 1.0  # where all that is needed is free, only the demands tell item types apart
    fair = [value / len(asked) / total if total else 0.0 for total in totals]
    return [
        [
            (1 - DEMAND_SHARE) * price + DEMAND_SHARE * other
            for price, other in zip(own, fair, strict=True)
        ]
        for own in prices
    ]


def _main_resources(demands: Sequence[Sequence[int]], prices: Prices) -> tuple[int, int]:
    spent = [0.0] * len(demands[0])
    for own, price in zip(demands, prices, strict=True):
        for resource, amount in enumerate(own):
            spent[resource] += amount * price[resource]
    order = sorted(range(len(spent)), key=lambda resource: (-spent[resource], resource))
    return order[0], order[min(1, len(order) - 1)]


def _main_values(
    amounts: Sequence[int], prices: Sequence[float], main: tuple[int, int]
) -> tuple[float, float]:
    first, second = main
    return amounts[first] * prices[first], amounts[second] * prices[second]


NOISE: Final = 0.3  # how much a size may be overrated, to try other orders
REVALUATION_THRESHOLD: Final = 0.9  # values are worked out anew when so much is left
ORDER_COUNT: Final = 4  # by value, by either main resource, by the larger part of the value
WORK_PER_BIN: Final = 20  # what filling a bin costs besides, in items looked at

ItemOrder: TypeAlias = list[int]
"""Numbers of item types."""

BinContents: TypeAlias = list[tuple[int, int]]
"""Item types, and how many items of each."""


class CandidateFill(NamedTuple):
    """How one bin type could be filled."""

    score: float
    bin_type: int
    taken: BinContents
    used: int


class BinFiller:
    """Fills bins of one problem, and counts the items looked at."""

    def __init__(self, problem: PackingProblem) -> None:
        self.problem = problem
        self._least = 0
        """No item type in question asks for less than this."""
        self.work = 0
        """How many items were looked at: what stands for time."""
        self.value(Valuation(problem, [item.pods for item in problem.items]))

    def value(self, valuation: Valuation) -> None:
        """From now on things are worth this."""
        self.valuation = valuation
        first, second = valuation.main
        self._sizes: list[list[float]] = [
            valuation.values,
            [float(item.amounts[first]) for item in self.problem.items],
            [float(item.amounts[second]) for item in self.problem.items],
            [max(parts) for parts in valuation.shares],
        ]

    def filled_bins(self, left: list[int], numbers: Sequence[int]) -> list[FilledBin]:
        """Bins for all that is left of these items; what is scarce changes on the way."""
        found: list[FilledBin] = []
        before, orders = self.valuation, self._orders(numbers, None)
        fewer = total = self._worth_of(left, numbers)
        while orders[0]:
            if fewer < total * REVALUATION_THRESHOLD:
                self.value(Valuation(self.problem, left))
                total = fewer = self._worth_of(left, orders[0])
                orders = self._orders(orders[0], None)
            best = self._best(orders, left, self.valuation.shortlist)
            assert best is not None, "every item type has a bin type on the shortlist"
            times = self._times(best.taken, left)
            found += [self._create_bin(best)] * times
            fewer -= self._taken(best, left, times)
            orders = [[item for item in order if left[item]] for order in orders]
        self.value(before)
        return [self._weighed(filled_bin) for filled_bin in found]

    def refill_cheaper(
        self,
        left: list[int],
        numbers: Sequence[int],
        bin_types: Sequence[int],
        most: float,
        rng: LinearCongruentialGenerator,
    ) -> list[FilledBin] | None:
        """The same with these bin types only; None where it would cost so much or more."""
        floors, node_penalty, found = self.valuation.floors, self.valuation.node_penalty, []
        floor, orders = (
            sum(floors[item] * left[item] for item in numbers),
            self._orders(numbers, rng),
        )
        while orders[0] and floor < most:
            best = self._best(orders, left, bin_types)
            if best is None:
                return None
            filled_bin, times = self._create_bin(best), self._times(best.taken, left)
            found += [filled_bin] * times
            floor += (filled_bin.price + node_penalty - filled_bin.floor) * times
            self._taken(best, left, times)
            orders = [[item for item in order if left[item]] for order in orders]
        return None if orders[0] or floor >= most else found

    def _worth_of(self, left: Sequence[int], numbers: Sequence[int]) -> float:
        return sum(self.valuation.values[item] * left[item] for item in numbers)

    def _taken(self, fill: CandidateFill, left: list[int], times: int) -> float:
        """Takes it away; says what it was worth."""
        value = 0.0
        for item, count in fill.taken:
            left[item] -= count * times
            value += self.valuation.values[item] * count * times
        return value

    def _weighed(self, filled_bin: FilledBin) -> FilledBin:
        floors = self.valuation.floors
        return filled_bin._replace(
            floor=sum(floors[item] * count for item, count in filled_bin.taken)
        )

    def _times(self, taken: BinContents, left: Sequence[int]) -> int:
        """How many such bins at once: not so many that no small items are left for others."""
        return max(1, min(left[item] // count for item, count in taken) // 2)

    def _create_bin(self, fill: CandidateFill) -> FilledBin:
        problem = self.problem
        item_classes = 0
        for item, _ in fill.taken:
            item_classes |= problem.bits[item]
        bin_type = problem.cheapest(fill.used, item_classes)
        taken, price = tuple(fill.taken), problem.bin_types[bin_type].price
        return self._weighed(FilledBin(bin_type, taken, price, 0.0, item_classes))

    def _best(
        self, orders: Sequence[ItemOrder], left: list[int], bin_types: Sequence[int]
    ) -> CandidateFill | None:
        best: CandidateFill | None = None
        tried = _OrderCache(self, orders, left)
        for number in bin_types:
            for order in tried.orders_for(number):
                fill = self._fill(number, order, left)
                if fill is not None and (best is None or fill.score < best.score):
                    best = fill
        return best

    def _fill(self, number: int, order: ItemOrder, left: list[int]) -> CandidateFill | None:
        problem = self.problem
        room, encoded, guard = problem.rooms[number], problem.encoded, problem.encoder.guard
        taken: BinContents = []
        free, value, values, least = room, 0.0, self.valuation.values, self._least
        self.work += len(order) + WORK_PER_BIN
        for item in order:
            rest = free - encoded[item]
            if rest & guard:
                continue
            count = left[item]
            if count > 1:
                count = count_copies(free, problem.parts[item], count)
                rest = free - encoded[item] * count
            taken.append((item, count))
            value += values[item] * count
            free = rest
            if free - least & guard:
                break
        if not value:
            return None
        score = (problem.bin_types[number].price + self.valuation.node_penalty) / value
        return CandidateFill(score, number, taken, room - free)

    def _orders(
        self, numbers: Sequence[int], rng: LinearCongruentialGenerator | None
    ) -> list[ItemOrder]:
        amounts = (self.problem.items[item].amounts for item in numbers)
        self._least = self.problem.encoder.encoded(
            [min(each) for each in zip(*amounts, strict=True)]
        )
        if rng is None:
            return [_largest_first(numbers, sizes) for sizes in self._sizes]
        sizes = self._sizes[rng.below(ORDER_COUNT)]
        noisy = {item: sizes[item] * (1 + NOISE * rng.unit()) for item in numbers}
        return [sorted(numbers, key=lambda item: -noisy[item])]

    def matched(self, order: ItemOrder, left: Sequence[int], balance: float) -> ItemOrder:
        """An order in which what is heavy in one main resource goes with what is in the other."""
        shares = self.valuation.shares
        heavy: ItemOrder = []
        light: ItemOrder = []
        for item in order:
            first, second = shares[item]
            (heavy if first > balance * (first + second) else light).append(item)
        found: ItemOrder = []
        firsts = seconds = 0.0
        over, under = iter(heavy), iter(light)
        while True:
            source = over if firsts <= balance * (firsts + seconds) else under
            item = next(source, -1)
            if item < 0:
                return [*found, *chain(over, under)]
            found.append(item)
            firsts += shares[item][0] * left[item]
            seconds += shares[item][1] * left[item]


class _OrderCache:
    """The orders in which bins are filled, worked out once for equal bin types."""

    def __init__(self, filler: BinFiller, orders: Sequence[ItemOrder], left: Sequence[int]) -> None:
        self._filler = filler
        self._orders = orders
        self._left = left
        self._everybody = 0
        for item in orders[0]:
            self._everybody |= filler.problem.bits[item]
        self._known: dict[tuple[int, int], list[ItemOrder]] = {}

    def orders_for(self, number: int) -> list[ItemOrder]:
        usable_by = self._filler.problem.bin_types[number].usable_by & self._everybody
        balance = self._filler.valuation.balance[number]
        key = usable_by, round(balance * 10)
        found = self._known.get(key)
        if found is None:
            own = self._of(usable_by)
            matched = self._filler.matched(own[0], self._left, balance)
            found = self._known[key] = [*own, matched]
        return found

    def _of(self, usable_by: int) -> list[ItemOrder]:
        if usable_by == self._everybody:
            return list(self._orders)
        bits = self._filler.problem.bits
        return [[item for item in order if bits[item] & usable_by] for order in self._orders]


def _largest_first(numbers: Sequence[int], sizes: Sequence[float]) -> ItemOrder:
    return sorted(numbers, key=lambda item: -sizes[item])
