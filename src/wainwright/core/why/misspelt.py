"""Misspelt values: the one that was probably meant, where a label is asked for a value in vain."""

from collections.abc import Iterable
from difflib import SequenceMatcher
from functools import lru_cache
from typing import Final

from wainwright.model.values import ValueSet

ALIKE: Final = 0.9  # of the letters, in order; less is another word


def correction(wanted: ValueSet, known: Iterable[str]) -> tuple[str, str] | None:
    """The first of the values wanted that looks like a known one, with that one."""
    if wanted.open:
        return None
    there = tuple(known)
    for value in sorted(wanted.values):
        found = None if value in there else nearest(value, there)
        if found is not None:
            return value, found
    return None


@lru_cache(maxsize=1024)
def nearest(value: str, known: tuple[str, ...]) -> str | None:
    """Whose digits, beginning or end differ is another zone or type, and no slip of the pen."""
    ranked = sorted((-_likeness(value, other), other) for other in known if _akin(value, other))
    return ranked[0][1] if ranked and -ranked[0][0] >= ALIKE else None


def _akin(value: str, other: str) -> bool:
    one, two = _letters(value), _letters(other)
    ends = (one[:1], one[-1:]) == (two[:1], two[-1:])
    return bool(one) and ends and _digits(one) == _digits(two)


def _likeness(value: str, other: str) -> float:
    """Letters that only changed places are all there."""
    one, two = _letters(value), _letters(other)
    if sorted(one) == sorted(two):
        return 1.0
    return SequenceMatcher(None, one, two, autojunk=False).ratio()


def _letters(value: str) -> str:
    return "".join(filter(str.isalnum, value.lower()))


def _digits(value: str) -> str:
    return "".join(filter(str.isdigit, value))
