"""The slack index: which drafts, or nodes, are too full for a request, without looking at each.

For every resource the sizes that are asked for are put in order, and beside each stands who has
less than that left. Whoever gets fuller is entered at the sizes that he can no longer meet: once
each, as room never comes back. Where there are many sizes, whoever falls short of a whole block of
them is entered beside the block, and beside a block of blocks where he falls short of all of those.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Final, TypeAlias

from wainwright.core.wishes import Amounts, Wish
from wainwright.model.columns import Rows

Place: TypeAlias = tuple[list[Rows], int]
"""A list of the index, and where in it to look."""

MARKS: Final = 4096  # sizes kept per resource; with more, those between them share the next lower
BLOCK: Final = 16  # sizes, or blocks of them, that stand together


class Slack:
    """Who is short of what."""

    __slots__ = ("_levels", "_marks", "_places")

    def __init__(self, wishes: Iterable[Wish], resources: int) -> None:
        asked: list[set[int]] = [set() for _ in range(resources)]
        for wish in wishes:
            for column, amount in wish.amounts:
                asked[column].add(amount)
        self._marks = [_thinned(sorted(amounts)) for amounts in asked]
        self._levels = [_levels(len(marks)) for marks in self._marks]
        self._places = [_places(levels) for levels in self._levels]

    def places(self, amounts: Amounts) -> Sequence[Place]:
        """Where to read who is too full for the amounts."""
        return tuple(
            [
                place
                for column, amount in amounts
                if self._marks[column]  # of what nobody may have nobody is short
                for place in self._places[column][bisect_right(self._marks[column], amount) - 1]
            ]
        )

    def enter(self, bit: Rows, column: int, free: int, before: int) -> int:
        """Notes that only so much is free; gives back how far down the sizes that goes."""
        marks = self._marks[column]
        if before == 0 or marks[before - 1] <= free:
            return before
        now = place = bisect_right(marks, free, 0, before)
        for level in self._levels[column]:
            edge = min(before, -(-place // BLOCK) * BLOCK) if len(level) > BLOCK else before
            for mark in range(place, edge):
                level[mark] |= bit
            if edge == before:
                break
            place, before = edge // BLOCK, (before - 1) // BLOCK + 1
        return now

    def leave(self, rows: Rows) -> None:
        """Strikes them out, as they may have more room than was thought."""
        for level in chain.from_iterable(self._levels) if rows else ():
            for mark, too_full in enumerate(level):
                level[mark] = too_full ^ (too_full & rows)

    def fresh(self) -> list[int]:
        """The levels of a row that has not been entered yet."""
        return [len(marks) for marks in self._marks]


def _levels(sizes: int) -> list[list[Rows]]:
    """Who is entered beside each size, beside each block of them, and so on; the last are few."""
    found = [[0] * sizes]
    while len(found[-1]) > BLOCK:
        found.append([0] * -(-len(found[-1]) // BLOCK))
    return found


def _places(levels: list[list[Rows]]) -> list[tuple[Place, ...]]:
    """For each size where to look: beside it and beside all that it is part of."""
    above: list[tuple[Place, ...]] = [()]
    for level in reversed(levels):
        above = [((level, mark), *above[mark // BLOCK]) for mark in range(len(level))]
    return above


def _thinned(amounts: list[int]) -> list[int]:
    if len(amounts) <= MARKS:
        return amounts
    return [amounts[number * len(amounts) // MARKS] for number in range(MARKS)]
