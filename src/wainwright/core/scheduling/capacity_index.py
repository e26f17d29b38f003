"""The capacity index: which drafts, or nodes, are too full for a request, without looking at each.

For every resource the requested sizes are put in order, and beside each stands the set of drafts
that have less than that left. A draft that gets fuller is entered at the sizes that it can no
longer meet: once each, as room never comes back. Where there are many sizes, a draft that falls
short of a whole block of them is entered beside the block, and beside a block of blocks where it
falls short of all of those: without blocks one placement would touch thousands of sizes.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Final, TypeAlias

from wainwright.core.scheduling.pod_requirements import Amounts, PodRequirements
from wainwright.model.bitset import BitSet

IndexEntry: TypeAlias = tuple[list[BitSet], int]
"""A list of the index, and where in it to look."""

MAX_SIZES: Final = (
    4096  # sizes kept per resource; with more, those between them share the next lower
)
BLOCK_SIZE: Final = 16  # sizes, or blocks of them, that stand together


class CapacityIndex:
    """Who is short of what."""

    __slots__ = ("_entries", "_levels", "_sizes")

    def __init__(self, pod_requirements: Iterable[PodRequirements], resources: int) -> None:
        amounts_by_resource: list[set[int]] = [set() for _ in range(resources)]
        for pod_reqs in pod_requirements:
            for column, amount in pod_reqs.amounts:
                amounts_by_resource[column].add(amount)
        self._sizes = [_sampled(sorted(amounts)) for amounts in amounts_by_resource]
        self._levels = [_levels(len(sizes)) for sizes in self._sizes]
        self._entries = [_entries(levels) for levels in self._levels]

    def entries(self, amounts: Amounts) -> Sequence[IndexEntry]:
        """Where to read who is too full for the amounts."""
        return tuple(
            [
                entry
                for column, amount in amounts
                if self._sizes[column]  # of what nobody may have nobody is short
                for entry in self._entries[column][bisect_right(self._sizes[column], amount) - 1]
            ]
        )

    def update(self, bit: BitSet, column: int, free: int, before: int) -> int:
        """Notes that only so much is free; gives back how far down the sizes that goes."""
        sizes = self._sizes[column]
        if before == 0 or sizes[before - 1] <= free:
            return before
        lowest = start = bisect_right(sizes, free, 0, before)
        for level in self._levels[column]:
            end = (
                min(before, -(-start // BLOCK_SIZE) * BLOCK_SIZE)
                if len(level) > BLOCK_SIZE
                else before
            )
            for position in range(start, end):
                level[position] |= bit
            if end == before:
                break
            start, before = end // BLOCK_SIZE, (before - 1) // BLOCK_SIZE + 1
        return lowest

    def remove(self, drafts: BitSet) -> None:
        """Strikes them out, as they may have more room than was thought."""
        for level in chain.from_iterable(self._levels) if drafts else ():
            for position, too_full in enumerate(level):
                level[position] = too_full ^ (too_full & drafts)

    def initial_levels(self) -> list[int]:
        """The levels of a row that has not been entered yet."""
        return [len(sizes) for sizes in self._sizes]


def _levels(count: int) -> list[list[BitSet]]:
    """Who is entered beside each size, beside each block of them, and so on; the last are few."""
    levels = [[0] * count]
    while len(levels[-1]) > BLOCK_SIZE:
        levels.append([0] * -(-len(levels[-1]) // BLOCK_SIZE))
    return levels


def _entries(levels: list[list[BitSet]]) -> list[tuple[IndexEntry, ...]]:
    """For each size where to look: beside it and beside all that it is part of."""
    above: list[tuple[IndexEntry, ...]] = [()]
    for level in reversed(levels):
        above = [
            ((level, position), *above[position // BLOCK_SIZE]) for position in range(len(level))
        ]
    return above


def _sampled(amounts: list[int]) -> list[int]:
    if len(amounts) <= MAX_SIZES:
        return amounts
    return [amounts[number * len(amounts) // MAX_SIZES] for number in range(MAX_SIZES)]
