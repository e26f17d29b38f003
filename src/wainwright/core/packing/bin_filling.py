"""Bin filling: one bin after the other, each time the bin type that is filled best for its price.

A bin is filled by going through the item types in some order and taking what fits. A few
orders are tried on every bin type of the shortlist; the best has the most value for its price.

Values are shadow prices. These are zero for a resource that is not scarce, which would let it
be wasted until it is: so a small part of a value counts the demand for every resource.
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
    """A linear congruential generator, of which the upper bits are used.

    `random` is not used, as its sequences are not promised to stay the same between versions of
    Python: plans would change.
    """

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
SHORTLIST_TOLERANCE: Final = 0.1  # by how much a bin type may cost more than its value
SHORTLIST_SIZE: Final = 60  # more bin types would hardly make bins cheaper, and take as much longer
NODE_PENALTY: Final = 0.003  # of one more node, as a part of the median price


class Valuation:
    """The values of items and bin types while so many items of each type remain to be packed."""

    def __init__(self, problem: PackingProblem, remaining: Sequence[int]) -> None:
        self._problem = problem
        groups, items = problem.groups, problem.items
        demands = groups.demands_for(remaining)
        prices = shadow_prices(demands, problem.supplies)
        blended = _blend_with_demand(prices, demands)
        own = [
            (item.amounts, group) for item, group in zip(items, groups.group_of_item, strict=True)
        ]
        self.floors = [value_of(amounts, prices[group]) for amounts, group in own]
        """By item type: the least that an item costs, at shadow prices."""
        self.values = [value_of(amounts, blended[group]) for amounts, group in own]
        """By item type: the value of an item, with the share that counts demand."""
        self.main_resources = _main_resources(demands, blended)
        """The two resources with the highest value of all demands."""
        self.main_values = [
            _main_values(amounts, blended[group], self.main_resources) for amounts, group in own
        ]
        """By item type: the values of its amounts of the main resources."""
        self.balances = [self._balance(number, blended) for number in range(len(problem.bin_types))]
        """By bin type: the part of the first in the value of both main resources."""
        self.shortlist = self._shortlist(
            prices, [item for item, count in enumerate(remaining) if count]
        )
        """The bin types that are tried."""
        costs = [problem.bin_types[number].price for number in self.shortlist]
        self.node_penalty = NODE_PENALTY * median_low(costs)

    def _balance(self, number: int, blended: Prices) -> float:
        usable_by = self._problem.groups.usable_by[number]
        if not usable_by:
            return 0.0
        prices = highest_prices(blended, usable_by)
        first, second = _main_values(
            self._problem.bin_types[number].room, prices, self.main_resources
        )
        return first / (first + second) if first + second else 0.0

    def _shortlist(self, prices: Prices, items: Iterable[int]) -> list[int]:
        """The bin types that cost little more than their value, and one that fits each item.

        Filling all bin types would make each step many times slower; without one for each item
        some items could not be packed at all.
        """
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
            if not any(problem.fits(number, item) for number in chosen):
                chosen.add(next(number for number in order if problem.fits(number, item)))
        return sorted(chosen)


def _blend_with_demand(prices: Prices, demands: Sequence[Sequence[int]]) -> Prices:
    totals = [sum(column) for column in zip(*demands, strict=True)]
    demanded = [total for total in totals if total]
    value = sum(value_of(own, price) for own, price in zip(demands, prices, strict=True))
    value = value or 1.0  # where all bins are free of charge, only demands distinguish items
    fair = [value / len(demanded) / total if total else 0.0 for total in totals]
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
    amounts: Sequence[int], prices: Sequence[float], main_resources: tuple[int, int]
) -> tuple[float, float]:
    first, second = main_resources
    return amounts[first] * prices[first], amounts[second] * prices[second]


NOISE: Final = 0.3  # part by which a size is overrated at random, to try other orders
REVALUATION_THRESHOLD: Final = (
    0.9  # of the value: with less than this left, values are worked out again
)
ORDER_COUNT: Final = 4  # by value, by either main resource, by the larger part of the value
WORK_PER_BIN: Final = 20  # fixed cost of filling a bin, counted in items looked at

ItemOrder: TypeAlias = list[int]
"""Numbers of item types."""

BinContents: TypeAlias = list[tuple[int, int]]
"""Item types, and how many items of each."""


class CandidateFill(NamedTuple):
    """How one bin type could be filled."""

    score: float
    """Price by value: lower is better."""
    bin_type: int
    contents: BinContents
    used: int
    """The encoded sum of the items."""


class BinFiller:
    """Fills bins of one problem, and counts the items looked at as its measure of time."""

    def __init__(self, problem: PackingProblem) -> None:
        self.problem = problem
        self._smallest = 0
        """Encoded: for each resource the smallest request of the items being packed."""
        self.work = 0
        """How many items were looked at: deterministic, unlike a clock."""
        self.set_valuation(Valuation(problem, [item.pods for item in problem.items]))

    def set_valuation(self, valuation: Valuation) -> None:
        """Fills bins by these values from now on."""
        self.valuation = valuation
        first, second = valuation.main_resources
        self._sizes: list[list[float]] = [
            valuation.values,
            [float(item.amounts[first]) for item in self.problem.items],
            [float(item.amounts[second]) for item in self.problem.items],
            [max(parts) for parts in valuation.main_values],
        ]

    def fill(self, remaining: list[int], items: Sequence[int]) -> list[FilledBin]:
        """Packs all that remains of these item types, and leaves `remaining` at zero.

        Which resource is scarce changes on the way, so that values are worked out again after
        each tenth of the value; after every bin the linear program would take most of the time.
        """
        filled_bins: list[FilledBin] = []
        before, orders = self.valuation, self._orders(items, None)
        value = value_at_revaluation = self._total_value(remaining, items)
        while orders[0]:
            if value < value_at_revaluation * REVALUATION_THRESHOLD:
                self.set_valuation(Valuation(self.problem, remaining))
                value_at_revaluation = value = self._total_value(remaining, orders[0])
                orders = self._orders(orders[0], None)
            best = self._best_fill(orders, remaining, self.valuation.shortlist)
            assert best is not None, "every item type has a bin type on the shortlist"
            copies = self._copies(best.contents, remaining)
            filled_bins += [self._create_bin(best)] * copies
            value -= self._remove_items(best, remaining, copies)
            orders = [[item for item in order if remaining[item]] for order in orders]
        self.set_valuation(before)
        return [self._with_floor(filled_bin) for filled_bin in filled_bins]

    def refill_cheaper(
        self,
        remaining: list[int],
        items: Sequence[int],
        bin_types: Sequence[int],
        max_cost: float,
        rng: LinearCongruentialGenerator,
    ) -> list[FilledBin] | None:
        """As `fill` with these bin types only, in random order; None where it costs `max_cost`.

        The bound is the price of the bins so far plus the least cost of the items that remain:
        most attempts are given up at a few bins, before all items are packed.
        """
        floors, node_penalty = self.valuation.floors, self.valuation.node_penalty
        filled_bins: list[FilledBin] = []
        orders = self._orders(items, rng)
        bound = sum(floors[item] * remaining[item] for item in items)
        while orders[0] and bound < max_cost:
            best = self._best_fill(orders, remaining, bin_types)
            if best is None:
                return None
            filled_bin, copies = self._create_bin(best), self._copies(best.contents, remaining)
            filled_bins += [filled_bin] * copies
            bound += (filled_bin.price + node_penalty - filled_bin.floor) * copies
            self._remove_items(best, remaining, copies)
            orders = [[item for item in order if remaining[item]] for order in orders]
        return None if orders[0] or bound >= max_cost else filled_bins

    def _total_value(self, remaining: Sequence[int], items: Sequence[int]) -> float:
        return sum(self.valuation.values[item] * remaining[item] for item in items)

    def _remove_items(self, fill: CandidateFill, remaining: list[int], copies: int) -> float:
        """Subtracts the items of so many bins from `remaining`, and returns their value."""
        value = 0.0
        for item, count in fill.contents:
            remaining[item] -= count * copies
            value += self.valuation.values[item] * count * copies
        return value

    def _with_floor(self, filled_bin: FilledBin) -> FilledBin:
        floors = self.valuation.floors
        return filled_bin._replace(
            floor=sum(floors[item] * count for item, count in filled_bin.contents)
        )

    def _copies(self, contents: BinContents, remaining: Sequence[int]) -> int:
        """How many bins with these contents are made at once.

        Half of what is possible: a thousand equal pods take ten steps instead of hundreds, and
        small items that other bins need to be full are not used up in one step.
        """
        return max(1, min(remaining[item] // count for item, count in contents) // 2)

    def _create_bin(self, fill: CandidateFill) -> FilledBin:
        problem = self.problem
        item_classes = 0
        for item, _ in fill.contents:
            item_classes |= problem.class_bits[item]
        bin_type = problem.cheapest_holding(fill.used, item_classes)
        contents, price = tuple(fill.contents), problem.bin_types[bin_type].price
        return self._with_floor(FilledBin(bin_type, contents, price, 0.0, item_classes))

    def _best_fill(
        self, orders: Sequence[ItemOrder], remaining: list[int], bin_types: Sequence[int]
    ) -> CandidateFill | None:
        best: CandidateFill | None = None
        cached_orders = _OrderCache(self, orders, remaining)
        for number in bin_types:
            for order in cached_orders.orders_for(number):
                fill = self._fill_one(number, order, remaining)
                if fill is not None and (best is None or fill.score < best.score):
                    best = fill
        return best

    def _fill_one(
        self, number: int, order: ItemOrder, remaining: list[int]
    ) -> CandidateFill | None:
        """Fills one bin in this order; None where nothing of value fits.

        Nearly all the time of packing is spent here, so that attributes are read into locals, and
        whether an item fits is one subtraction of encoded vectors.
        """
        problem = self.problem
        room, encoded = problem.encoded_rooms[number], problem.encoded_items
        guard, fields = problem.encoder.guard, problem.item_fields
        contents: BinContents = []
        free, value, values, smallest = room, 0.0, self.valuation.values, self._smallest
        self.work += len(order) + WORK_PER_BIN
        for item in order:
            rest = free - encoded[item]
            if rest & guard:
                continue
            count = remaining[item]
            if count > 1:
                count = count_copies(free, fields[item], count)
                rest = free - encoded[item] * count
            contents.append((item, count))
            value += values[item] * count
            free = rest
            if free - smallest & guard:  # not even the smallest item fits: skips the long tail
                break
        if not value:
            return None
        score = (problem.bin_types[number].price + self.valuation.node_penalty) / value
        return CandidateFill(score, number, contents, room - free)

    def _orders(
        self, items: Sequence[int], rng: LinearCongruentialGenerator | None
    ) -> list[ItemOrder]:
        """The item types by decreasing size: by every measure, or with noise by one at random."""
        amounts = (self.problem.items[item].amounts for item in items)
        self._smallest = self.problem.encoder.encode(
            [min(each) for each in zip(*amounts, strict=True)]
        )
        if rng is None:
            return [_largest_first(items, sizes) for sizes in self._sizes]
        sizes = self._sizes[rng.below(ORDER_COUNT)]
        noisy = {item: sizes[item] * (1 + NOISE * rng.unit()) for item in items}
        return [sorted(items, key=lambda item: -noisy[item])]

    def balanced_order(
        self, order: ItemOrder, remaining: Sequence[int], balance: float
    ) -> ItemOrder:
        """Alternates items heavy in either main resource, so that a bin of this balance is full."""
        main_values = self.valuation.main_values
        heavy: ItemOrder = []
        light: ItemOrder = []
        for item in order:
            first, second = main_values[item]
            (heavy if first > balance * (first + second) else light).append(item)
        balanced: ItemOrder = []
        firsts = seconds = 0.0
        over, under = iter(heavy), iter(light)
        while True:
            source = over if firsts <= balance * (firsts + seconds) else under
            item = next(source, -1)
            if item < 0:
                return [*balanced, *chain(over, under)]
            balanced.append(item)
            firsts += main_values[item][0] * remaining[item]
            seconds += main_values[item][1] * remaining[item]


class _OrderCache:
    """The orders in which bins are filled, worked out once for similar bin types.

    Similar are those with the same item classes and about the same balance: an order takes as long
    to make as a bin takes to fill, and the shortlist has many bin types of a few balances.
    """

    def __init__(
        self, filler: BinFiller, orders: Sequence[ItemOrder], remaining: Sequence[int]
    ) -> None:
        self._filler = filler
        self._orders = orders
        self._remaining = remaining
        self._all_classes = 0
        for item in orders[0]:
            self._all_classes |= filler.problem.class_bits[item]
        self._cache: dict[tuple[int, int], list[ItemOrder]] = {}

    def orders_for(self, number: int) -> list[ItemOrder]:
        usable_by = self._filler.problem.bin_types[number].usable_by & self._all_classes
        balance = self._filler.valuation.balances[number]
        key = usable_by, round(balance * 10)
        orders = self._cache.get(key)
        if orders is None:
            own = self._orders_of_classes(usable_by)
            balanced = self._filler.balanced_order(own[0], self._remaining, balance)
            orders = self._cache[key] = [*own, balanced]
        return orders

    def _orders_of_classes(self, usable_by: int) -> list[ItemOrder]:
        if usable_by == self._all_classes:
            return list(self._orders)
        bits = self._filler.problem.class_bits
        return [[item for item in order if bits[item] & usable_by] for order in self._orders]


def _largest_first(items: Sequence[int], sizes: Sequence[float]) -> ItemOrder:
    return sorted(items, key=lambda item: -sizes[item])
