"""Which values of one label are admitted: a finite set, or all but a few, within bounds."""

import re
from collections.abc import Iterable, Iterator
from enum import StrEnum
from functools import lru_cache
from itertools import count
from typing import Final

import msgspec

MAX_INTEGER: Final = 2**63 - 1  # Kubernetes compares label values as signed 64-bit integers
MIN_INTEGER: Final = -(2**63)
SHOWN: Final = 5  # values printed before the rest is only counted

DECIMAL: Final = re.compile(r"-?[0-9]{1,63}", re.ASCII)  # a label value has at most 63 characters


class Operator(StrEnum):
    """How a requirement relates a label to its values, spelt as on the wire."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GREATER = "Gt"
    LESS = "Lt"
    AT_LEAST = "Gte"
    AT_MOST = "Lte"


class ValueSet(msgspec.Struct, frozen=True, kw_only=True, cache_hash=True):
    """An immutable set of label values; made by the functions below and by `&`, never by hand.

    Those keep it canonical, so that equal sets are equal values: a finite set has no bounds,
    a bounded one excludes only what its bounds would admit, there is one empty set, and only that
    and NotIn do without the label.
    """

    values: frozenset[str] = frozenset()
    """The values admitted by a finite set, the values refused by an open one."""
    open: bool = False
    lower: int | None = None
    upper: int | None = None
    """Both bounds are inclusive; with either, only integers are admitted."""
    present: bool = False
    """Whether the label must be there: NotIn is content without it, Exists with NotIn is not."""

    @property
    def bounded(self) -> bool:
        return self.lower is not None or self.upper is not None

    @property
    def empty(self) -> bool:
        return not self.open and not self.values

    @property
    def operator(self) -> Operator:
        """The operator that says most of this set; bounds count as Exists, as they need a value."""
        if self.open:
            return Operator.EXISTS if self.present else Operator.NOT_IN
        return Operator.IN if self.values else Operator.DOES_NOT_EXIST

    @property
    def admits_absence(self) -> bool:
        """Whether a node without the label satisfies it: true of NotIn and DoesNotExist."""
        return not self.present

    @property
    def length(self) -> int:
        """How many values; an open set counts as the largest integer less its exclusions."""
        return MAX_INTEGER - len(self.values) if self.open else len(self.values)

    def admits(self, value: str) -> bool:
        if not self.open:
            return value in self.values
        return value not in self.values and _within(value, self.lower, self.upper)

    def overlaps(self, other: "ValueSet") -> bool:
        """Whether some value is in both: `not (self & other).empty` without building it."""
        if self.open and other.open:
            return not _impossible(
                _larger(self.lower, other.lower), _smaller(self.upper, other.upper)
            )
        if self.open:
            return any(self.admits(value) for value in other.values)
        return any(other.admits(value) for value in self.values)

    def agrees_with(self, other: "ValueSet") -> bool:
        """Whether one node can satisfy both, be it by not having the label at all."""
        return self.overlaps(other) or (self.admits_absence and other.admits_absence)

    def any(self) -> str:
        """An admitted value, the same one every time; empty text where there is none."""
        if not self.open:
            return min(self.values, default="")
        return next(value for value in self._integers() if value not in self.values)

    def _integers(self) -> Iterator[str]:
        # A few numbers can all be excluded by name; "07" is then still a seven nobody ruled out.
        upper = MAX_INTEGER if self.upper is None else min(self.upper, MAX_INTEGER)
        lower = min(0, upper) if self.lower is None else max(self.lower, MIN_INTEGER)
        for zeros in count():
            for number in range(lower, upper + 1):
                yield f"{'-' if number < 0 else ''}{'0' * zeros}{abs(number)}"

    def parts(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """The operators with their values that, taken together, mean this set."""
        if not self.open:
            return ((self.operator.value, tuple(sorted(self.values))),)
        found: list[tuple[str, tuple[str, ...]]] = []
        if self.values:
            found.append((Operator.NOT_IN.value, tuple(sorted(self.values))))
        if self.present and not self.bounded:
            found.append((Operator.EXISTS.value, ()))
        if self.lower is not None:
            found.append((Operator.AT_LEAST.value, (str(self.lower),)))
        if self.upper is not None:
            found.append((Operator.AT_MOST.value, (str(self.upper),)))
        return tuple(found)

    def __and__(self, other: "ValueSet") -> "ValueSet":
        if self.open and other.open:
            lower, upper = _larger(self.lower, other.lower), _smaller(self.upper, other.upper)
            present = self.present or other.present
            return _open(self.values | other.values, lower, upper, present=present)
        finite, filtering = (other, self) if self.open else (self, other)
        kept = frozenset(value for value in finite.values if filtering.admits(value))
        return finite if len(kept) == len(finite.values) else one_of(kept)

    def __str__(self) -> str:
        """In [a b], NotIn [a], Exists NotIn [a], Exists >=2 <=8, DoesNotExist."""
        words: list[str] = [self.operator]
        words += [Operator.NOT_IN] if self.values and self.operator is Operator.EXISTS else []
        words += [f"[{' '.join(_shown(self.values))}]"] if self.values else []
        words += [f">={self.lower}"] if self.lower is not None else []
        words += [f"<={self.upper}"] if self.upper is not None else []
        return " ".join(words)


ANYTHING: Final = ValueSet(open=True, present=True)
NOTHING: Final = ValueSet()


def one_of(values: Iterable[str]) -> ValueSet:
    found = frozenset(values)
    return ValueSet(values=found, present=True) if found else NOTHING


def none_of(values: Iterable[str]) -> ValueSet:
    """Any other value, or none at all; to rule out nothing is to ask for any value."""
    return _open(frozenset(values), None, None, present=False)


def between(lower: int | None, upper: int | None) -> ValueSet:
    """The integers from lower to upper, both included; None leaves that side open."""
    return _open(frozenset(), lower, upper, present=True)


@lru_cache(maxsize=65536)
def value_set(operator: str, values: tuple[str, ...] = ()) -> ValueSet:
    """What the operator admits with these values. A bound that is no integer admits nothing."""
    match Operator(operator):
        case Operator.IN:
            return one_of(values)
        case Operator.NOT_IN:
            return none_of(values)
        case Operator.EXISTS:
            return ANYTHING
        case Operator.DOES_NOT_EXIST:
            return NOTHING
        case comparison:
            return _compared(comparison, values)


def integer(text: str) -> int | None:
    """The number that Kubernetes would compare this label value as, if it is one."""
    if DECIMAL.fullmatch(text) is None:
        return None
    number = int(text)
    return number if MIN_INTEGER <= number <= MAX_INTEGER else None


def _compared(operator: Operator, values: tuple[str, ...]) -> ValueSet:
    bound = integer(values[0]) if len(values) == 1 else None
    if bound is None:
        return NOTHING
    if operator in (Operator.GREATER, Operator.AT_LEAST):
        return between(bound + (operator is Operator.GREATER), None)
    return between(None, bound - (operator is Operator.LESS))


def _open(
    excluded: frozenset[str], lower: int | None, upper: int | None, *, present: bool
) -> ValueSet:
    if _impossible(lower, upper):
        return NOTHING
    kept = frozenset(value for value in excluded if _within(value, lower, upper))
    bounded = lower is not None or upper is not None
    return ValueSet(
        values=kept, open=True, lower=lower, upper=upper, present=present or bounded or not kept
    )


def _impossible(lower: int | None, upper: int | None) -> bool:
    lowest = MIN_INTEGER if lower is None else max(lower, MIN_INTEGER)
    highest = MAX_INTEGER if upper is None else min(upper, MAX_INTEGER)
    return lowest > highest


def _within(value: str, lower: int | None, upper: int | None) -> bool:
    if lower is None and upper is None:
        return True
    number = integer(value)
    if number is None:
        return False
    return (lower is None or lower <= number) and (upper is None or number <= upper)


def _larger(left: int | None, right: int | None) -> int | None:
    return max((bound for bound in (left, right) if bound is not None), default=None)


def _smaller(left: int | None, right: int | None) -> int | None:
    return min((bound for bound in (left, right) if bound is not None), default=None)


def _shown(values: frozenset[str]) -> list[str]:
    ordered = sorted(values)
    others = len(ordered) - SHOWN
    return [*ordered[:SHOWN], f"and {others} others"] if others > 0 else ordered
