"""Dice that always fall the same way: numbers that look random and depend on nothing but a seed."""

from typing import Final

BITS: Final = (1 << 64) - 1


class Dice:
    """A linear congruential generator, of which the upper bits are used."""

    __slots__ = ("_state",)

    def __init__(self, seed: int = 0) -> None:
        self._state = seed & BITS

    def below(self, limit: int) -> int:
        """A number from 0 to less than the limit."""
        return self._next() * limit >> 32

    def unit(self) -> float:
        """A number from 0 to less than 1."""
        return self._next() / (1 << 32)

    def _next(self) -> int:
        self._state = (self._state * 6364136223846793005 + 1442695040888963407) & BITS
        return self._state >> 32
