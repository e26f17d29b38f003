"""Local search: again and again a few bins are emptied and refilled; the cheaper result is kept.

The random numbers depend on nothing but a seed, and a count of items looked at ends the
search, not a clock: the same input gives the same plan on every computer.
"""

from bisect import bisect_right
from itertools import accumulate
from typing import Final

from wainwright.core.packing.bin_filling import BinFiller, LinearCongruentialGenerator
from wainwright.core.packing.bin_types import ItemClassSet
from wainwright.core.packing.packing_problem import FilledBin
from wainwright.model.bitset import union

MIN_EMPTIED_BINS: Final = 2
EXTRA_BINS: Final = 4  # fewer than this many more are emptied, drawn at random
EXTRA_BINS_LARGE_STEP: Final = 12  # the same in every fourth step, to leave a local optimum
BIN_TYPES_PER_STEP: Final = 5  # of the shortlist that are tried in one step
PRICE_TOLERANCE: Final = 1e-9  # a smaller difference of prices is a rounding error
WORK_PER_STEP: Final = 100  # fixed cost of a step, counted in items looked at


class LocalSearch:
    """The bins of one problem, which `improve` makes cheaper."""

    def __init__(self, filler: BinFiller, filled_bins: list[FilledBin]) -> None:
        self._filler = filler
        self._problem = filler.problem
        self._rng = LinearCongruentialGenerator()
        self._shortlists: dict[ItemClassSet, list[int]] = {}
        """By item classes: the part of the shortlist that any of them may use."""
        self._remaining = [0] * len(filler.problem.items)
        self.filled_bins = filled_bins
        self._measure()

    def improve(self, work: int) -> None:
        """Goes on until so many more items have been looked at."""
        end = self._filler.work + work
        while self._filler.work < end and len(self.filled_bins) > 1:
            self._filler.work += WORK_PER_STEP
            self._step()

    def _measure(self) -> None:
        """Sums up the waste of bins, so that a bisection draws one in proportion to its waste."""
        waste = (max(0.0, filled_bin.price - filled_bin.floor) for filled_bin in self.filled_bins)
        self._waste = list(accumulate(waste))

    def _step(self) -> None:
        chosen = self._choose_bins()
        filled_bins = [self.filled_bins[number] for number in sorted(chosen)]
        price = self._price(filled_bins)
        remaining = self._remaining  # one list for all steps: a new one would be as long as items
        for filled_bin in filled_bins:
            for item, count in filled_bin.contents:
                remaining[item] += count
        items = sorted({item for filled_bin in filled_bins for item, _ in filled_bin.contents})
        bin_types = self._bin_types(union(filled_bin.item_classes for filled_bin in filled_bins))
        refilled = self._filler.refill_cheaper(
            remaining, items, bin_types, price + PRICE_TOLERANCE, self._rng
        )
        for item in items:
            remaining[item] = 0
        if refilled is not None:  # equal cost is accepted too, to move across plateaus
            kept = [
                filled_bin
                for number, filled_bin in enumerate(self.filled_bins)
                if number not in chosen
            ]
            self.filled_bins = kept + refilled
            self._measure()

    def _price(self, filled_bins: list[FilledBin]) -> float:
        return sum(
            filled_bin.price + self._filler.valuation.node_penalty for filled_bin in filled_bins
        )

    def _choose_bins(self) -> set[int]:
        """A wasteful bin, and others with items of its classes, which could be exchanged."""
        first = self._draw_by_waste()
        classes = self.filled_bins[first].item_classes
        others = [
            n for n, filled_bin in enumerate(self.filled_bins) if filled_bin.item_classes & classes
        ]
        more = EXTRA_BINS_LARGE_STEP if self._rng.below(4) == 0 else EXTRA_BINS
        count = min(len(others), MIN_EMPTIED_BINS + self._rng.below(more))
        chosen = {first}
        for _ in range(count - 1):
            by_waste = self._draw_by_waste() if self._rng.below(2) else first
            drawn = by_waste if by_waste != first else others[self._rng.below(len(others))]
            chosen.add(drawn)
        return chosen

    def _draw_by_waste(self) -> int:
        drawn = self._rng.unit() * self._waste[-1]
        return min(bisect_right(self._waste, drawn), len(self.filled_bins) - 1)

    def _bin_types(self, item_classes: ItemClassSet) -> list[int]:
        """A few bin types at random that any of the item classes may use."""
        shortlist = self._shortlists.get(item_classes)
        if shortlist is None:
            usable_by = [
                (number, self._problem.bin_types[number].usable_by)
                for number in self._filler.valuation.shortlist
            ]
            shortlist = [number for number, classes in usable_by if classes & item_classes]
            self._shortlists[item_classes] = shortlist
        return sorted(
            {shortlist[self._rng.below(len(shortlist))] for _ in range(BIN_TYPES_PER_STEP)}
        )
