"""Local search: a few bins are emptied and filled again, over and over, and the cheaper is kept.

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
EXTRA_BINS: Final = 4  # from the fewest up to so many more, this one not included
EXTRA_BINS_LARGE_STEP: Final = 12  # the same once in a while
BIN_TYPES_PER_STEP: Final = 5  # of the shortlist that are tried in one step
PRICE_TOLERANCE: Final = 1e-9  # less than this is no difference
WORK_PER_STEP: Final = 100  # what a step costs besides filling, in items looked at


class LocalSearch:
    """Bins that get cheaper."""

    def __init__(self, filler: BinFiller, filled_bins: list[FilledBin]) -> None:
        self._filler = filler
        self._problem = filler.problem
        self._rng = LinearCongruentialGenerator()
        self._useful: dict[ItemClassSet, list[int]] = {}
        self._left = [0] * len(filler.problem.items)
        self.filled_bins = filled_bins
        self._measure()

    def improve(self, work: int) -> None:
        """Goes on until so much more has been looked at."""
        end = self._filler.work + work
        while self._filler.work < end and len(self.filled_bins) > 1:
            self._filler.work += WORK_PER_STEP
            self._step()

    def _measure(self) -> None:
        """Waste of each bin, summed up so that bins are drawn in proportion to it."""
        waste = (max(0.0, filled_bin.price - filled_bin.floor) for filled_bin in self.filled_bins)
        self._waste = list(accumulate(waste))

    def _step(self) -> None:
        chosen = self._chosen()
        filled_bins = [self.filled_bins[number] for number in sorted(chosen)]
        price = self._price(filled_bins)
        left = self._left
        for filled_bin in filled_bins:
            for item, count in filled_bin.taken:
                left[item] += count
        numbers = sorted({item for filled_bin in filled_bins for item, _ in filled_bin.taken})
        bin_types = self._bin_types(union(filled_bin.item_classes for filled_bin in filled_bins))
        found = self._filler.refill_cheaper(
            left, numbers, bin_types, price + PRICE_TOLERANCE, self._rng
        )
        for item in numbers:
            left[item] = 0
        if found is not None:  # another way that costs the same may lead somewhere
            kept = [
                filled_bin
                for number, filled_bin in enumerate(self.filled_bins)
                if number not in chosen
            ]
            self.filled_bins = kept + found
            self._measure()

    def _price(self, filled_bins: list[FilledBin]) -> float:
        return sum(
            filled_bin.price + self._filler.valuation.node_penalty for filled_bin in filled_bins
        )

    def _chosen(self) -> set[int]:
        """A wasteful bin, and others that might exchange items with it."""
        first = self._wasteful()
        mine = self.filled_bins[first].item_classes
        others = [
            n for n, filled_bin in enumerate(self.filled_bins) if filled_bin.item_classes & mine
        ]
        more = EXTRA_BINS_LARGE_STEP if self._rng.below(4) == 0 else EXTRA_BINS
        count = min(len(others), MIN_EMPTIED_BINS + self._rng.below(more))
        found = {first}
        for _ in range(count - 1):
            by_waste = self._wasteful() if self._rng.below(2) else first
            drawn = by_waste if by_waste != first else others[self._rng.below(len(others))]
            found.add(drawn)
        return found

    def _wasteful(self) -> int:
        drawn = self._rng.unit() * self._waste[-1]
        return min(bisect_right(self._waste, drawn), len(self.filled_bins) - 1)

    def _bin_types(self, item_classes: ItemClassSet) -> list[int]:
        """Some of those that the item classes may use."""
        shortlist = self._useful.get(item_classes)
        if shortlist is None:
            usable_by = [
                (number, self._problem.bin_types[number].usable_by)
                for number in self._filler.valuation.shortlist
            ]
            shortlist = [number for number, who in usable_by if who & item_classes]
            self._useful[item_classes] = shortlist
        return sorted(
            {shortlist[self._rng.below(len(shortlist))] for _ in range(BIN_TYPES_PER_STEP)}
        )
