"""Rows by how much they hold: who has room for a request is one bisection per resource."""

from bisect import bisect_left
from collections.abc import Iterable
from typing import Final, TypeAlias

from wainwright.model.columns import Rows
from wainwright.model.resources import Resources

Sizes: TypeAlias = tuple[list[int], list[Rows]]
"""Distinct sizes in ascending order; in the same place who has that much, and at the end nobody."""

NOBODY: Final[Sizes] = ([], [0])


class Thresholds:
    """For each resource the distinct sizes in ascending order, and who has at least that much."""

    __slots__ = ("_by_resource", "solvent")

    def __init__(self, amounts: Iterable[Resources]) -> None:
        sizes: dict[str, dict[int, Rows]] = {}
        self.solvent: Rows = 0
        """Those that owe nothing: who lacks some resource already has no room for anything."""
        bit = 1
        for available in amounts:
            if all(amount >= 0 for amount in available.values()):
                self.solvent |= bit
                for name, amount in available.items():
                    same = sizes.setdefault(name, {})
                    same[amount] = same.get(amount, 0) | bit
            bit <<= 1
        self._by_resource = {name: _at_least(same) for name, same in sizes.items()}

    def sizes(self, name: str) -> Sizes:
        """One resource, for who asks often; the rows that owe something are not among these."""
        return self._by_resource.get(name, NOBODY)

    def holding(self, requests: Resources) -> Rows:
        """The rows on which all of the requests fit together."""
        found = self.solvent
        for name, amount in requests.items():
            if amount > 0:
                sizes, rows = self._by_resource.get(name, NOBODY)
                found &= rows[bisect_left(sizes, amount)]
        return found


def _at_least(same: dict[int, Rows]) -> Sizes:
    sizes = sorted(same)
    rows = [0]
    for size in reversed(sizes):
        rows.append(rows[-1] | same[size])
    rows.reverse()
    return sizes, rows


def largest(sizes: Sizes, rows: Rows) -> int:
    """The most that any of the rows has; -1 where none of them has the resource."""
    place = largest_place(sizes, rows)
    return sizes[0][place] if place >= 0 else -1


def largest_place(sizes: Sizes, rows: Rows) -> int:
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
