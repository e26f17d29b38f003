"""The slack index: which drafts, or nodes, are too full for a request, without looking at each.

For every resource the sizes that are asked for are put in order, and beside each stands who has
less than that left. Whoever gets fuller is entered at the sizes that he can no longer meet: once
each, as room never comes back. Where there are many sizes, whoever falls short of a whole block of
them is entered beside the block.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from wainwright.core.wishes import Amounts, Wish
from wainwright.model.columns import Rows

Place: TypeAlias = tuple[list[Rows], int]
"""A list of the index, and where in it to look."""

MARKS: Final = 512  # sizes kept per resource; with more, those between them share the next lower
BLOCK: Final = 32  # sizes that stand together


class Slack:
    """Who is short of what."""

    __slots__ = ("_blocks", "_marks", "_places", "_short")

    def __init__(self, wishes: Iterable[Wish], resources: int) -> None:
        asked: list[set[int]] = [set() for _ in range(resources)]
        for wish in wishes:
            for column, amount in wish.amounts:
                asked[column].add(amount)
        self._marks = [_thinned(sorted(amounts)) for amounts in asked]
        self._short: list[list[Rows]] = [[0] * len(marks) for marks in self._marks]
        self._blocks: list[list[Rows]] = [
            [0] * (1 + (len(marks) - 1) // BLOCK) for marks in self._marks
        ]
        self._places: list[list[tuple[Place, ...]]] = [
            [_where(short, blocks, mark) for mark in range(len(short))]
            for short, blocks in zip(self._short, self._blocks, strict=True)
        ]

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
        now = bisect_right(marks, free, 0, before)
        short, block = self._short[column], now // BLOCK + 1
        for mark in range(now, min(before, block * BLOCK)):
            short[mark] |= bit
        if before > block * BLOCK:  # all that comes after it is too much as well
            blocks = self._blocks[column]
            for number in range(block, (before - 1) // BLOCK + 1):
                blocks[number] |= bit
        return now

    def leave(self, rows: Rows) -> None:
        """Strikes them out, as they may have more room than was thought."""
        for short in (*self._short, *self._blocks) if rows else ():
            for mark, too_full in enumerate(short):
                short[mark] = too_full ^ (too_full & rows)

    def fresh(self) -> list[int]:
        """The levels of a row that has not been entered yet."""
        return [len(marks) for marks in self._marks]


def _where(short: list[Rows], blocks: list[Rows], mark: int) -> tuple[Place, ...]:
    """Beside the size, and where there are several beside its block."""
    own = (short, mark)
    return (own, (blocks, mark // BLOCK)) if len(blocks) > 1 else (own,)


def _thinned(amounts: list[int]) -> list[int]:
    if len(amounts) <= MARKS:
        return amounts
    return [amounts[number * len(amounts) // MARKS] for number in range(MARKS)]
