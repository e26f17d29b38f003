"""Resource vectors: amounts of all resources in one integer, and the sums that items can reach.

Each resource has a field of bits with a guard bit above it. While there is enough of each the
guard bits stay clear; a field that goes below zero borrows, which sets its guard bit. So
whether something fits is a single subtraction, and an inner loop needs no more than that.

Pods that request whole CPUs leave the rest of the last one idle. Subset sums tell how much of
a capacity can be used at all, which makes a lower bound higher.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from math import gcd
from typing import Final, TypeAlias

ResourceVector: TypeAlias = tuple[int, ...]
"""By resource, in the order of names."""


VectorParts: TypeAlias = tuple[tuple[int, int, int], ...]
"""Shift, mask and amount of every resource that is asked for."""


class VectorEncoder:
    """Puts amounts into fields that are wide enough for the largest."""

    __slots__ = ("_fields", "guard")

    def __init__(self, largest: Sequence[int]) -> None:
        self._fields: list[tuple[int, int]] = []
        self.guard = 0
        """The spare bits: what has one of them set did not fit."""
        shift = 0
        for amount in largest:
            width = amount.bit_length()
            self._fields.append((shift, (1 << width) - 1))
            self.guard |= 1 << (shift + width)
            shift += width + 1

    def encoded(self, amounts: Sequence[int]) -> int:
        return sum(
            amount << shift for amount, (shift, _) in zip(amounts, self._fields, strict=True)
        )

    def fits(self, room: int, amounts: int) -> bool:
        return not room - amounts & self.guard

    def parts(self, amounts: Sequence[int]) -> VectorParts:
        """Where to look for each amount, for who asks often how many times they fit."""
        fields = zip(amounts, self._fields, strict=True)
        return tuple((shift, mask, amount) for amount, (shift, mask) in fields if amount)


def encoder_for(*amounts: Sequence[Sequence[int]]) -> VectorEncoder:
    """One that holds all of them."""
    everything = [each for some in amounts for each in some]
    return VectorEncoder([max(column) for column in zip(*everything, strict=True)])


def count_copies(room: int, parts: VectorParts, most: int) -> int:
    """How often the amounts fit into the room, up to so many times."""
    for shift, mask, amount in parts:
        times = (room >> shift & mask) // amount
        if times < most:  # noqa: PLR1730 - quicker than min, and asked most often of all
            most = times
    return most


MAX_SUMS: Final = 1 << 20  # with more sums than this in question the room is taken as it is
MAX_SIZES: Final = 2000


class SubsetSums:
    """The amounts of one resource that some of the pods can add up to, in steps of their unit."""

    __slots__ = ("_reached", "_unit")

    def __init__(self, sizes: Mapping[int, int], most: int) -> None:
        """`sizes` tells how many pods ask for how much; sums above `most` do not matter."""
        self._unit = gcd(*sizes) if sizes else 0
        self._reached = 0
        if self._unit and most // self._unit <= MAX_SUMS and len(sizes) <= MAX_SIZES:
            self._reached = _reachable_sums(sizes, self._unit, most)

    def largest_sum_within(self, room: int) -> int:
        """The largest sum that there is room for."""
        if not self._reached:
            return room
        within = self._reached & ((2 << room // self._unit) - 1)
        return (within.bit_length() - 1) * self._unit


def _reachable_sums(sizes: Mapping[int, int], unit: int, most: int) -> int:
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


def subset_sums(
    amounts: Sequence[Sequence[int]], counts: Sequence[int], most: Sequence[int]
) -> list[SubsetSums]:
    """For each resource what pods can add up to that ask for these amounts, so many for each."""
    found = []
    for resource, limit in enumerate(most):
        sizes: Counter[int] = Counter()
        for asked, count in zip(amounts, counts, strict=True):
            if asked[resource]:
                sizes[asked[resource]] += count
        found.append(SubsetSums(sizes, limit))
    return found
