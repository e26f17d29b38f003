"""Amounts of all resources in one integer: whether something fits is a single subtraction.

Every resource has a field of bits with one to spare above it. As long as there is enough the spare
bits stay clear; a field that goes below zero borrows, and its spare bit shows it.
"""

from collections.abc import Sequence
from typing import TypeAlias

Parts: TypeAlias = tuple[tuple[int, int, int], ...]
"""Shift, mask and amount of every resource that is asked for."""


class Gauge:
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

    def packed(self, amounts: Sequence[int]) -> int:
        return sum(
            amount << shift for amount, (shift, _) in zip(amounts, self._fields, strict=True)
        )

    def holds(self, room: int, amounts: int) -> bool:
        return not room - amounts & self.guard

    def parts(self, amounts: Sequence[int]) -> Parts:
        """Where to look for each amount, for who asks often how many times they fit."""
        fields = zip(amounts, self._fields, strict=True)
        return tuple((shift, mask, amount) for amount, (shift, mask) in fields if amount)


def gauge_for(*amounts: Sequence[Sequence[int]]) -> Gauge:
    """One that holds all of them."""
    everything = [each for some in amounts for each in some]
    return Gauge([max(column) for column in zip(*everything, strict=True)])


def copies(room: int, parts: Parts, most: int) -> int:
    """How often the amounts fit into the room, up to so many times."""
    for shift, mask, amount in parts:
        times = (room >> shift & mask) // amount
        if times < most:  # noqa: PLR1730 - quicker than min, and asked most often of all
            most = times
    return most
