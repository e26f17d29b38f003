"""Sets as bits of integers, and the two indexes on them: by label value and by resource amount.

Bit i stands for item i; what the items are is not known here. A LabelIndex answers which items
are compatible with a value set by a few ANDs and ORs; a ResourceIndex answers which items have
room for requests by one bisection per resource.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Final, TypeAlias

from wainwright.model.requirements import NO_VALUE, ValueSet
from wainwright.model.resources import Resources

BitSet: TypeAlias = int
"""A set of rows: bit i stands for row i."""

MAX_CACHED_RESULTS: Final = 4096  # answers kept per column; when there are more, all are forgotten


def iter_bits(rows: BitSet) -> Iterator[int]:
    """The numbers of the rows, lowest first."""
    while rows:
        lowest = rows & -rows
        yield lowest.bit_length() - 1
        rows ^= lowest


def union(sets: Iterable[BitSet]) -> BitSet:
    together = 0
    for rows in sets:
        together |= rows
    return together


class LabelIndex:
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

    def __init__(
        self, held: Mapping[ValueSet, BitSet], *, absent: BitSet, undecided: BitSet
    ) -> None:
        finite = [(values, rows) for values, rows in held.items() if not values.open]
        self._absent = absent | held.get(NO_VALUE, 0)
        self._undecided = undecided
        self._open = [(values, rows) for values, rows in held.items() if values.open]
        self._single = union(rows for values, rows in finite if values.length == 1)
        self._several = [(values, rows) for values, rows in finite if values.length > 1]
        self.by_value: Mapping[str, BitSet] = _bits_by_value(finite)
        """In the order of values: the rows that have it, be it among others."""
        self._unshared = not self._several and self._single.bit_count() == len(self.by_value)
        self._answers: dict[ValueSet, BitSet] = {}

    def admitting(self, wanted: ValueSet) -> BitSet:
        """The rows that agree with what is wanted of the label."""
        found = self._answers.get(wanted)
        if found is None:
            if len(self._answers) >= MAX_CACHED_RESULTS:
                self._answers.clear()
            found = self._answers[wanted] = self._find(wanted)
        return found

    def values(self, rows: BitSet, wanted: ValueSet) -> Iterator[str]:
        """The wanted values that these rows have, in order."""
        for value, having in self.by_value.items():
            if having & rows and wanted.admits(value):
                yield value

    def has_values(self, count: int, rows: BitSet, wanted: ValueSet) -> bool:
        """Whether these rows have so many different wanted values between them."""
        if self._unshared:
            return (rows & self._single & self.admitting(wanted)).bit_count() >= count
        return len(list(islice(self.values(rows, wanted), count))) == count

    def witnesses(self, count: int, rows: BitSet, wanted: ValueSet) -> BitSet | None:
        """Some of these rows that have so many different wanted values between them, if they can.

        As long as all of them stay, so do the values: a later check is one AND.
        """
        if self._unshared:
            return _lowest_bits(count, rows & self._single & self.admitting(wanted))
        found, chosen = 0, 0
        for value, having in self.by_value.items():
            common = having & rows
            if common and wanted.admits(value):
                found, chosen = found + 1, chosen | common & -common
                if found == count:
                    return chosen
        return None

    def _find(self, wanted: ValueSet) -> BitSet:
        found = self._undecided | (self._absent if wanted.admits_absence else 0)
        found |= union(rows for values, rows in self._open if values.is_compatible_with(wanted))
        if not wanted.open:
            return found | self._having(wanted.values)
        if wanted.bounded:
            return found | self._having(filter(wanted.admits, self.by_value))
        return found | self._having_other_than(wanted)

    def _having(self, values: Iterable[str]) -> BitSet:
        return union(self.by_value.get(value, 0) for value in values)

    def _having_other_than(self, wanted: ValueSet) -> BitSet:
        # Rows with one value lose it or keep it; only the few with several need a closer look.
        refused = self._single & self._having(wanted.values)
        closer = union(rows for values, rows in self._several if values.intersects(wanted))
        return self._single ^ refused | closer


def _lowest_bits(count: int, rows: BitSet) -> BitSet | None:
    if rows.bit_count() < count:
        return None
    chosen = 0
    for _ in range(count):
        lowest = rows & -rows
        chosen, rows = chosen | lowest, rows ^ lowest
    return chosen


def _bits_by_value(finite: Iterable[tuple[ValueSet, BitSet]]) -> dict[str, BitSet]:
    found: dict[str, BitSet] = {}
    for values, rows in finite:
        for value in values.values:
            found[value] = found.get(value, 0) | rows
    return dict(sorted(found.items()))


AmountTable: TypeAlias = tuple[list[int], list[BitSet]]
"""Distinct sizes in ascending order; in the same place who has that much, and at the end nobody."""

NO_AMOUNTS: Final[AmountTable] = ([], [0])


class ResourceIndex:
    """For each resource the distinct sizes in ascending order, and who has at least that much."""

    __slots__ = ("_by_resource", "non_negative")

    def __init__(self, amounts: Iterable[Resources]) -> None:
        sizes: dict[str, dict[int, BitSet]] = {}
        self.non_negative: BitSet = 0
        """Those that owe nothing: who lacks some resource already has no room for anything."""
        bit = 1
        for available in amounts:
            if all(amount >= 0 for amount in available.values()):
                self.non_negative |= bit
                for name, amount in available.items():
                    same = sizes.setdefault(name, {})
                    same[amount] = same.get(amount, 0) | bit
            bit <<= 1
        self._by_resource = {name: _amount_table(same) for name, same in sizes.items()}

    def sizes(self, name: str) -> AmountTable:
        """One resource, for who asks often; the rows that owe something are not among these."""
        return self._by_resource.get(name, NO_AMOUNTS)

    def fitting(self, requests: Resources) -> BitSet:
        """The rows on which all of the requests fit together."""
        found = self.non_negative
        for name, amount in requests.items():
            if amount > 0:
                sizes, rows = self._by_resource.get(name, NO_AMOUNTS)
                found &= rows[bisect_left(sizes, amount)]
        return found


def _amount_table(same: dict[int, BitSet]) -> AmountTable:
    sizes = sorted(same)
    rows = [0]
    for size in reversed(sizes):
        rows.append(rows[-1] | same[size])
    rows.reverse()
    return sizes, rows


def largest_amount(sizes: AmountTable, rows: BitSet) -> int:
    """The most that any of the rows has; -1 where none of them has the resource."""
    place = largest_amount_position(sizes, rows)
    return sizes[0][place] if place >= 0 else -1


def largest_amount_position(sizes: AmountTable, rows: BitSet) -> int:
    """Where among the sizes that is; -1 where none of the rows has the resource."""
    amounts, having = sizes
    low, high = 0, len(amounts)
    while low < high:  # the sets are nested, so that the last one with a common row can be bisected
        middle = (low + high) // 2
        if having[middle] & rows:
            low = middle + 1
        else:
            high = middle
    return low - 1
