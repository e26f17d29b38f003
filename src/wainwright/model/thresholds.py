"""Rows by how much they hold: who has room for a request is one bisection per resource."""

from bisect import bisect_left
from collections.abc import Iterable
from typing import Final

from wainwright.model.columns import Rows
from wainwright.model.resources import Resources

NOBODY: Final[tuple[list[int], list[Rows]]] = ([], [0])


class Thresholds:
    """For each resource the distinct sizes in ascending order, and who has at least that much."""

    __slots__ = ("_by_resource", "_solvent")

    def __init__(self, amounts: Iterable[Resources]) -> None:
        sizes: dict[str, dict[int, Rows]] = {}
        self._solvent = 0
        bit = 1
        for available in amounts:
            if all(amount >= 0 for amount in available.values()):
                self._solvent |= bit  # who owes some resource already has no room for anything
                for name, amount in available.items():
                    same = sizes.setdefault(name, {})
                    same[amount] = same.get(amount, 0) | bit
            bit <<= 1
        self._by_resource = {name: _at_least(same) for name, same in sizes.items()}

    def holding(self, requests: Resources) -> Rows:
        """The rows on which all of the requests fit together."""
        found = self._solvent
        for name, amount in requests.items():
            if amount > 0:
                sizes, rows = self._by_resource.get(name, NOBODY)
                found &= rows[bisect_left(sizes, amount)]
        return found


def _at_least(same: dict[int, Rows]) -> tuple[list[int], list[Rows]]:
    """Sizes, and in the same place the rows of that size or larger; at the end those of none."""
    sizes = sorted(same)
    rows = [0]
    for size in reversed(sizes):
        rows.append(rows[-1] | same[size])
    rows.reverse()
    return sizes, rows
