"""What can be used of a machine: no more than the largest amount that pods can add up to.

Pods that ask for whole cpus leave what is left of the last one idle. That makes machines smaller
than they look, and a lower bound higher.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from math import gcd
from typing import Final

BITS: Final = 1 << 20  # with more sums than this in question the room is taken as it is
SIZES: Final = 2000


class Sums:
    """The amounts of one resource that some of the pods can add up to, in steps of their unit."""

    __slots__ = ("_reached", "_unit")

    def __init__(self, sizes: Mapping[int, int], most: int) -> None:
        """`sizes` tells how many pods ask for how much; sums above `most` do not matter."""
        self._unit = gcd(*sizes) if sizes else 0
        self._reached = 0
        if self._unit and most // self._unit <= BITS and len(sizes) <= SIZES:
            self._reached = _reached(sizes, self._unit, most)

    def most_within(self, room: int) -> int:
        """The largest sum that there is room for."""
        if not self._reached:
            return room
        within = self._reached & ((2 << room // self._unit) - 1)
        return (within.bit_length() - 1) * self._unit


def _reached(sizes: Mapping[int, int], unit: int, most: int) -> int:
    """Bit i is set where some pods need i units; nobody at all needs none."""
    found, mask = 1, (2 << most // unit) - 1
    for size, count in sizes.items():
        left, times = count, 1
        while left > 0:  # a count in parts of one, two, four... gives every number up to it
            part = min(times, left)
            if size * part <= most:
                found |= found << (size // unit * part) & mask
            left, times = left - part, times * 2
    return found


def sums(
    amounts: Sequence[Sequence[int]], counts: Sequence[int], most: Sequence[int]
) -> list[Sums]:
    """For each resource what pods can add up to that ask for these amounts, so many for each."""
    found = []
    for resource, limit in enumerate(most):
        sizes: Counter[int] = Counter()
        for asked, count in zip(amounts, counts, strict=True):
            if asked[resource]:
                sizes[asked[resource]] += count
        found.append(Sums(sizes, limit))
    return found
