"""Resource vectors: amounts of all resources in one integer, and the sums that items can reach.

Each resource has a field of bits with a guard bit above it. While there is enough of each the
guard bits stay clear; a field that goes below zero borrows, which sets its guard bit. So
whether an item fits is a single subtraction, whatever the number of resources: without it the
innermost loop of packing would compare tuples.

Pods that request whole CPUs leave the rest of the last one idle. Subset sums give how much of a
capacity can be used at all, which makes the lower bound tighter.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from math import gcd
from typing import Final, TypeAlias

ResourceVector: TypeAlias = tuple[int, ...]
"""By resource, in the order of names."""


VectorFields: TypeAlias = tuple[tuple[int, int, int], ...]
"""Shift, mask and amount of every resource of which the amount is not zero."""


class VectorEncoder:
    """Encodes amounts of resources into the bit fields of one integer."""

    __slots__ = ("_fields", "guard")

    def __init__(self, largest: Sequence[int]) -> None:
        """`largest` is the largest amount of each resource: it decides the width of its field."""
        self._fields: list[tuple[int, int]] = []
        self.guard = 0
        """The guard bits: a difference with any of them set is negative in some resource."""
        shift = 0
        for amount in largest:
            width = amount.bit_length()
            self._fields.append((shift, (1 << width) - 1))
            self.guard |= 1 << (shift + width)
            shift += width + 1

    def encode(self, amounts: Sequence[int]) -> int:
        return sum(
            amount << shift for amount, (shift, _) in zip(amounts, self._fields, strict=True)
        )

    def fits(self, room: int, amounts: int) -> bool:
        return not room - amounts & self.guard

    def fields_of(self, amounts: Sequence[int]) -> VectorFields:
        """The fields with any amount, made once for an item type that `count_copies` is called for.

        It saves decoding the amounts, and resources that the item does not need, at every call.
        """
        fields = zip(amounts, self._fields, strict=True)
        return tuple((shift, mask, amount) for amount, (shift, mask) in fields if amount)


def encoder_for(*amounts: Sequence[Sequence[int]]) -> VectorEncoder:
    """An encoder whose fields are wide enough for all of these amounts."""
    everything = [each for some in amounts for each in some]
    return VectorEncoder([max(column) for column in zip(*everything, strict=True)])


def count_copies(room: int, fields: VectorFields, most: int) -> int:
    """How many times the amounts fit into the room, at most `most`."""
    for shift, mask, amount in fields:
        times = (room >> shift & mask) // amount
        if times < most:  # noqa: PLR1730 - quicker than min() in the innermost loop of packing
            most = times
    return most


MAX_SUMS: Final = (
    1 << 20
)  # with more possible sums than this, or more sizes, the room counts as usable in full
MAX_SIZES: Final = 2000


class SubsetSums:
    """The amounts of one resource that some of the pods can add up to.

    A set of sums is one integer, with a bit for each multiple of the unit (the greatest common
    divisor of the sizes): adding a pod to every sum at once is a shift. A Python set of sums
    would take seconds for a few hundred sizes.
    """

    __slots__ = ("_sums", "_unit")

    def __init__(self, sizes: Mapping[int, int], most: int) -> None:
        """`sizes` is the number of pods by what they request; sums above `most` are left out."""
        self._unit = gcd(*sizes) if sizes else 0
        self._sums = 0
        if self._unit and most // self._unit <= MAX_SUMS and len(sizes) <= MAX_SIZES:
            self._sums = _reachable_sums(sizes, self._unit, most)

    def largest_sum_within(self, room: int) -> int:
        """The largest sum that fits into the room."""
        if not self._sums:
            return room
        within = self._sums & ((2 << room // self._unit) - 1)
        return (within.bit_length() - 1) * self._unit


def _reachable_sums(sizes: Mapping[int, int], unit: int, most: int) -> int:
    """Bit i is set where some of the pods need i units between them; bit 0 stands for no pods."""
    sums, mask = 1, (2 << most // unit) - 1
    for size, count in sizes.items():
        remaining, times = count, 1
        while (
            remaining > 0
        ):  # 1, 2, 4... pods at a time give every count: log2(count) shifts, not count
            part = min(times, remaining)
            if size * part <= most:
                sums |= sums << (size // unit * part) & mask
            remaining, times = remaining - part, times * 2
    return sums


def subset_sums(
    amounts: Sequence[Sequence[int]], counts: Sequence[int], most: Sequence[int]
) -> list[SubsetSums]:
    """For each resource the sums of these amounts, each taken up to its count of times."""
    by_resource = []
    for resource, limit in enumerate(most):
        sizes: Counter[int] = Counter()
        for requested, count in zip(amounts, counts, strict=True):
            if requested[resource]:
                sizes[requested[resource]] += count
        by_resource.append(SubsetSums(sizes, limit))
    return by_resource
