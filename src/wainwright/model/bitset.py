"""Sets as bits of integers, and the two indexes on them: by label value and by resource amount.

Bit i stands for item i; what the items are is not known here. A LabelIndex answers which items
are compatible with a value set by a few ANDs and ORs; a ResourceIndex answers which items have
room for requests by one bisection per resource.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import islice
from typing import Final, TypeAlias

from wainwright.model.requirements import NO_VALUE, ValueSet
from wainwright.model.resources import Resources

BitSet: TypeAlias = int
"""A set of items: bit i stands for item i."""

MAX_CACHED_RESULTS: Final = 4096  # per cache; a full cache is emptied as a whole, which is cheap


def iter_bits(bits: BitSet) -> Iterator[int]:
    """The numbers of the bits that are set, lowest first."""
    while bits:
        lowest = bits & -bits  # isolates the lowest bit: the cost is per member, not per item
        yield lowest.bit_length() - 1
        bits ^= lowest


_DIGITS = bytes.maketrans(b"\x00\x01", b"01")


def bits_where(flags: Iterable[bool]) -> BitSet:
    """Bit i is set where flag i is true: at once, as a number is copied whenever a bit is added."""
    return int(bytes(flags)[::-1].translate(_DIGITS) or b"0", 2)


def union(sets: Iterable[BitSet]) -> BitSet:
    combined = 0
    for bits in sets:
        combined |= bits
    return combined


FEW_NAMES: Final = 16


class NamedBits:
    """Items by name; several may have the same, and some none.

    A few names are looked up, which saves asking each of thousands of items for every NodeClaim.
    """

    __slots__ = ("_by_name", "_names")

    def __init__(self, names: Sequence[str | None]) -> None:
        self._names = names
        self._by_name: dict[str | None, BitSet] | None = None

    def named(self, wanted: AbstractSet[str | None]) -> BitSet:
        """The items that have one of these names."""
        if len(wanted) > FEW_NAMES:
            return bits_where(map(wanted.__contains__, self._names))
        if self._by_name is None:
            self._by_name = {}
            for number, name in enumerate(self._names):
                self._by_name[name] = self._by_name.get(name, 0) | 1 << number
        by_name = self._by_name
        return union(by_name.get(name, 0) for name in wanted)


class LabelIndex:
    """One label of all items: which items are compatible with which values of it.

    `items_by_values` are the items that have the label, by the values that each can take. Of the
    others, the `absent` ones do not have the label, and the `undecided` ones may take any value.
    """

    __slots__ = (
        "_absent",
        "_cache",
        "_has_unique_values",
        "_multi_valued",
        "_open",
        "_single_valued",
        "_undecided",
        "by_value",
    )

    def __init__(
        self, items_by_values: Mapping[ValueSet, BitSet], *, absent: BitSet, undecided: BitSet
    ) -> None:
        finite = [(values, items) for values, items in items_by_values.items() if not values.open]
        self._absent = absent | items_by_values.get(NO_VALUE, 0)
        self._undecided = undecided
        self._open = [(values, items) for values, items in items_by_values.items() if values.open]
        self._single_valued = union(items for values, items in finite if values.length == 1)
        self._multi_valued = [(values, items) for values, items in finite if values.length > 1]
        self.by_value: Mapping[str, BitSet] = _bits_by_value(finite)
        """In the order of values: the items that can take it, alone or among others."""
        # Where every item has one value that no other item has (the instance type label), counting
        # values is counting bits; `has_values` and `witnesses` then need no loop over the values.
        self._has_unique_values = not self._multi_valued and self._single_valued.bit_count() == len(
            self.by_value
        )
        # The planner queries the same few value sets for every pod: without the cache each query
        # would go through all values of the label again.
        self._cache: dict[ValueSet, BitSet] = {}

    def matching(self, wanted: ValueSet) -> BitSet:
        """The items that are compatible with the wanted values of the label."""
        items = self._cache.get(wanted)
        if items is None:
            if len(self._cache) >= MAX_CACHED_RESULTS:
                self._cache.clear()
            items = self._cache[wanted] = self._find_matching(wanted)
        return items

    def values(self, items: BitSet, wanted: ValueSet) -> Iterator[str]:
        """The wanted values that these items have, in order."""
        for value, having in self.by_value.items():
            if having & items and wanted.admits(value):
                yield value

    def has_values(self, count: int, items: BitSet, wanted: ValueSet) -> bool:
        """Whether these items together have at least `count` different wanted values."""
        if self._has_unique_values:
            return (items & self._single_valued & self.matching(wanted)).bit_count() >= count
        # islice ends the search at the count that is needed, not at the last value.
        return len(list(islice(self.values(items, wanted), count))) == count

    def witnesses(self, count: int, items: BitSet, wanted: ValueSet) -> BitSet | None:
        """Some of these items that together have `count` different wanted values; None if too few.

        As long as all of them remain, so do the values: a later check is one AND in place of a
        new count.
        """
        if self._has_unique_values:
            return _lowest_bits(count, items & self._single_valued & self.matching(wanted))
        value_count, chosen = 0, 0
        for value, having in self.by_value.items():
            common = having & items
            if common and wanted.admits(value):
                value_count, chosen = value_count + 1, chosen | common & -common
                if value_count == count:
                    return chosen
        return None

    def _find_matching(self, wanted: ValueSet) -> BitSet:
        items = self._undecided | (self._absent if wanted.admits_absence else 0)
        items |= union(bits for values, bits in self._open if values.is_compatible_with(wanted))
        if not wanted.open:
            return items | self._having_any(wanted.values)
        if wanted.is_bounded:
            return items | self._having_any(filter(wanted.admits, self.by_value))
        return items | self._having_other_than(wanted)

    def _having_any(self, values: Iterable[str]) -> BitSet:
        return union(self.by_value.get(value, 0) for value in values)

    def _having_other_than(self, wanted: ValueSet) -> BitSet:
        # NotIn excludes few of many values: take those away from the items with one value, instead
        # of a union over all that remain. Only the few items with several values are checked one by
        # one.
        excluded = self._single_valued & self._having_any(wanted.values)
        remaining = union(
            items for values, items in self._multi_valued if values.intersects(wanted)
        )
        return self._single_valued ^ excluded | remaining


def _lowest_bits(count: int, bits: BitSet) -> BitSet | None:
    if bits.bit_count() < count:
        return None
    chosen = 0
    for _ in range(count):
        lowest = bits & -bits
        chosen, bits = chosen | lowest, bits ^ lowest
    return chosen


def _bits_by_value(finite: Iterable[tuple[ValueSet, BitSet]]) -> dict[str, BitSet]:
    by_value: dict[str, BitSet] = {}
    for values, items in finite:
        for value in values.values:
            by_value[value] = by_value.get(value, 0) | items
    return dict(sorted(by_value.items()))


AmountTable: TypeAlias = tuple[list[int], list[BitSet]]
"""Distinct amounts in ascending order, and at the same position the items with at least as much.

The second list has one entry more, the empty set: what a bisection beyond the largest amount finds.
"""

NO_AMOUNTS: Final[AmountTable] = ([], [0])


class ResourceIndex:
    """For each resource the distinct amounts in ascending order, and the items with at least each.

    A fit is one bisection and one AND per resource, however many items there are.
    """

    __slots__ = ("_by_resource", "non_negative")

    def __init__(self, available: Iterable[Resources]) -> None:
        by_resource: dict[str, dict[int, BitSet]] = {}
        self.non_negative: BitSet = 0
        """The items of which no amount is below zero: on the others nothing fits."""
        for amounts, items in _items_by_amounts(available):
            if min(amounts.values(), default=0) >= 0:
                self.non_negative |= items
                for name, amount in amounts.items():
                    by_amount = by_resource.setdefault(name, {})
                    by_amount[amount] = by_amount.get(amount, 0) | items
        self._by_resource = {
            name: amount_table(by_amount) for name, by_amount in by_resource.items()
        }

    def amounts(self, name: str) -> AmountTable:
        """The table of one resource, for inner loops; items below zero are in none of its sets."""
        return self._by_resource.get(name, NO_AMOUNTS)

    def fitting(self, requests: Resources) -> BitSet:
        """The items on which all of the requests fit together."""
        items = self.non_negative
        for name, amount in requests.items():
            if amount > 0:
                amounts, having = self._by_resource.get(name, NO_AMOUNTS)
                items &= having[bisect_left(amounts, amount)]
        return items


def _items_by_amounts(available: Iterable[Resources]) -> Iterable[tuple[Resources, BitSet]]:
    """Items that share one object of amounts, together: two thirds of instance types do.

    The objects are in the values, so that none is freed, and its id used again, meanwhile.
    """
    by_id: dict[int, tuple[Resources, BitSet]] = {}
    bit = 1
    for amounts in available:
        known = by_id.get(id(amounts))
        by_id[id(amounts)] = (amounts, bit) if known is None else (amounts, known[1] | bit)
        bit <<= 1
    return by_id.values()


def amount_table(by_amount: Mapping[int, BitSet]) -> AmountTable:
    """The table of items that are given by their amounts."""
    amounts = sorted(by_amount)
    having = [0]
    for amount in reversed(amounts):
        having.append(having[-1] | by_amount[amount])
    having.reverse()
    return amounts, having


def largest_amount(table: AmountTable, items: BitSet) -> int:
    """The largest amount that any of the items has; -1 where none of them has the resource."""
    position = largest_amount_position(table, items)
    return table[0][position] if position >= 0 else -1


def largest_amount_position(table: AmountTable, items: BitSet) -> int:
    """The position of the largest amount in the table; -1 where no item has the resource."""
    amounts, having = table
    low, high = 0, len(amounts)
    while low < high:  # each set contains the next, so that the last one with an item is bisected
        middle = (low + high) // 2
        if having[middle] & items:
            low = middle + 1
        else:
            high = middle
    return low - 1
