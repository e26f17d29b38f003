"""Rows by the values of one label: which of them admit a value set takes a few ANDs and ORs.

A row is a bit, a set of rows is an integer. What a row stands for is not known here.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Final, TypeAlias

from wainwright.model.values import NOTHING, ValueSet

Rows: TypeAlias = int
"""A set of rows: bit i stands for row i."""

REMEMBERED: Final = 4096  # answers kept per column; when there are more, all are forgotten


def row_numbers(rows: Rows) -> Iterator[int]:
    """The numbers of the rows, lowest first."""
    while rows:
        lowest = rows & -rows
        yield lowest.bit_length() - 1
        rows ^= lowest


def union(sets: Iterable[Rows]) -> Rows:
    together = 0
    for rows in sets:
        together |= rows
    return together


class Column:
    """One label of all rows.

    `held` are the rows that have it, by what they admit. Of the others, `absent` are without it
    for good, and `undecided` may still take any value.
    """

    __slots__ = (
        "_absent",
        "_answers",
        "_open",
        "_several",
        "_single",
        "_undecided",
        "_unshared",
        "by_value",
    )

    def __init__(self, held: Mapping[ValueSet, Rows], *, absent: Rows, undecided: Rows) -> None:
        finite = [(values, rows) for values, rows in held.items() if not values.open]
        self._absent = absent | held.get(NOTHING, 0)
        self._undecided = undecided
        self._open = [(values, rows) for values, rows in held.items() if values.open]
        self._single = union(rows for values, rows in finite if values.length == 1)
        self._several = [(values, rows) for values, rows in finite if values.length > 1]
        self.by_value: Mapping[str, Rows] = _by_value(finite)
        """In the order of values: the rows that have it, be it among others."""
        self._unshared = not self._several and self._single.bit_count() == len(self.by_value)
        self._answers: dict[ValueSet, Rows] = {}

    def admitting(self, wanted: ValueSet) -> Rows:
        """The rows that agree with what is wanted of the label."""
        found = self._answers.get(wanted)
        if found is None:
            if len(self._answers) >= REMEMBERED:
                self._answers.clear()
            found = self._answers[wanted] = self._find(wanted)
        return found

    def values(self, rows: Rows, wanted: ValueSet) -> Iterator[str]:
        """The wanted values that these rows have, in order."""
        for value, having in self.by_value.items():
            if having & rows and wanted.admits(value):
                yield value

    def has_values(self, count: int, rows: Rows, wanted: ValueSet) -> bool:
        """Whether these rows have so many different wanted values between them."""
        if self._unshared:
            return (rows & self._single & self.admitting(wanted)).bit_count() >= count
        return len(list(islice(self.values(rows, wanted), count))) == count

    def witnesses(self, count: int, rows: Rows, wanted: ValueSet) -> Rows | None:
        """Some of these rows that have so many different wanted values between them, if they can.

        As long as all of them stay, so do the values: a later check is one AND.
        """
        if self._unshared:
            return _lowest(count, rows & self._single & self.admitting(wanted))
        found, chosen = 0, 0
        for value, having in self.by_value.items():
            common = having & rows
            if common and wanted.admits(value):
                found, chosen = found + 1, chosen | common & -common
                if found == count:
                    return chosen
        return None

    def _find(self, wanted: ValueSet) -> Rows:
        found = self._undecided | (self._absent if wanted.admits_absence else 0)
        found |= union(rows for values, rows in self._open if values.agrees_with(wanted))
        if not wanted.open:
            return found | self._having(wanted.values)
        if wanted.bounded:
            return found | self._having(filter(wanted.admits, self.by_value))
        return found | self._having_other_than(wanted)

    def _having(self, values: Iterable[str]) -> Rows:
        return union(self.by_value.get(value, 0) for value in values)

    def _having_other_than(self, wanted: ValueSet) -> Rows:
        # Rows with one value lose it or keep it; only the few with several need a closer look.
        refused = self._single & self._having(wanted.values)
        closer = union(rows for values, rows in self._several if values.overlaps(wanted))
        return self._single ^ refused | closer


def _lowest(count: int, rows: Rows) -> Rows | None:
    if rows.bit_count() < count:
        return None
    chosen = 0
    for _ in range(count):
        lowest = rows & -rows
        chosen, rows = chosen | lowest, rows ^ lowest
    return chosen


def _by_value(finite: Iterable[tuple[ValueSet, Rows]]) -> dict[str, Rows]:
    found: dict[str, Rows] = {}
    for values, rows in finite:
        for value in values.values:
            found[value] = found.get(value, 0) | rows
    return dict(sorted(found.items()))
