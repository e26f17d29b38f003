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

    def __init__(self, wishes: Iterable[PodRequirements], resources: int) -> None:
        asked: list[set[int]] = [set() for _ in range(resources)]
        for wish in wishes:
            for column, amount in wish.amounts:
                asked[column].add(amount)
        self._sizes = [_sampled(sorted(amounts)) for amounts in asked]
        self._levels = [_levels(len(marks)) for marks in self._sizes]
        self._entries = [_entries(levels) for levels in self._levels]

    def entries(self, amounts: Amounts) -> Sequence[IndexEntry]:
        """Where to read who is too full for the amounts."""
        return tuple(
            [
                place
                for column, amount in amounts
                if self._sizes[column]  # of what nobody may have nobody is short
                for place in self._entries[column][bisect_right(self._sizes[column], amount) - 1]
            ]
        )

    def update(self, bit: BitSet, column: int, free: int, before: int) -> int:
        """Notes that only so much is free; gives back how far down the sizes that goes."""
        marks = self._sizes[column]
        if before == 0 or marks[before - 1] <= free:
            return before
        now = place = bisect_right(marks, free, 0, before)
        for level in self._levels[column]:
            edge = (
                min(before, -(-place // BLOCK_SIZE) * BLOCK_SIZE)
                if len(level) > BLOCK_SIZE
                else before
            )
            for mark in range(place, edge):
                level[mark] |= bit
            if edge == before:
                break
            place, before = edge // BLOCK_SIZE, (before - 1) // BLOCK_SIZE + 1
        return now

    def remove(self, rows: BitSet) -> None:
        """Strikes them out, as they may have more room than was thought."""
        for level in chain.from_iterable(self._levels) if rows else ():
            for mark, too_full in enumerate(level):
                level[mark] = too_full ^ (too_full & rows)

    def initial_levels(self) -> list[int]:
        """The levels of a row that has not been entered yet."""
        return [len(marks) for marks in self._sizes]


def _levels(sizes: int) -> list[list[BitSet]]:
    """Who is entered beside each size, beside each block of them, and so on; the last are few."""
    found = [[0] * sizes]
    while len(found[-1]) > BLOCK_SIZE:
        found.append([0] * -(-len(found[-1]) // BLOCK_SIZE))
    return found


def _entries(levels: list[list[BitSet]]) -> list[tuple[IndexEntry, ...]]:
    """For each size where to look: beside it and beside all that it is part of."""
    above: list[tuple[IndexEntry, ...]] = [()]
    for level in reversed(levels):
        above = [((level, mark), *above[mark // BLOCK_SIZE]) for mark in range(len(level))]
    return above


def _sampled(amounts: list[int]) -> list[int]:
    if len(amounts) <= MAX_SIZES:
        return amounts
    return [amounts[number * len(amounts) // MAX_SIZES] for number in range(MAX_SIZES)]
