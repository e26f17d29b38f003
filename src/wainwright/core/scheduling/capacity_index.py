"""The capacity index: which drafts, or nodes, are too full for a request, without checking each.

For every resource all requested sizes are sorted, and each size has the set of drafts with less
than that left. A draft that gets fuller is added to the sizes that no longer fit: to each of them
once, as free capacity never grows. If there are many sizes, a draft too full for a whole block of
them is added to the block, and to a block of blocks if it is too full for all of those: without
blocks one placement would touch thousands of sizes.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Final, TypeAlias

from wainwright.core.scheduling.pod_classes import Amounts, PodRequirements
from wainwright.model.bitset import BitSet

IndexEntry: TypeAlias = tuple[list[BitSet], int]
"""A list of the index, and the position in it to read."""

MAX_SIZES: Final = 4096  # per resource; with more sizes, those in between use the next lower
BLOCK_SIZE: Final = 16  # sizes, or blocks of sizes, in one block


class CapacityIndex:
    """For each requested size the drafts that have less free; see the module."""

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
        """The positions that together list the drafts too full for the amounts."""
        return tuple(
            [
                entry
                for column, amount in amounts
                if self._sizes[column]  # no size, no entry: a simulation has an index without sizes
                for entry in self._entries[column][bisect_right(self._sizes[column], amount) - 1]
            ]
        )

    def update(self, bit: BitSet, column: int, free: int, before: int) -> int:
        """Records that only `free` is left; returns the new level: the lowest size too large."""
        sizes = self._sizes[column]
        # Most placements make the draft too full for no further size.
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
        """Removes drafts from all sizes, as they may have more room than recorded."""
        for level in chain.from_iterable(self._levels) if drafts else ():
            for position, too_full in enumerate(level):
                level[position] = too_full ^ (too_full & drafts)

    def initial_levels(self) -> list[int]:
        """The levels of a draft that is not in the index yet."""
        return [len(sizes) for sizes in self._sizes]


def _levels(count: int) -> list[list[BitSet]]:
    """The drafts of each size, of each block of sizes, and so on until one block is left."""
    levels = [[0] * count]
    while len(levels[-1]) > BLOCK_SIZE:
        levels.append([0] * -(-len(levels[-1]) // BLOCK_SIZE))
    return levels


def _entries(levels: list[list[BitSet]]) -> list[tuple[IndexEntry, ...]]:
    """For each size where to read: its own position and those of all blocks that contain it."""
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
