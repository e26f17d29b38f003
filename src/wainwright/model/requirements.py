"""Requirements on node labels: a set of allowed values per label, and the algebra on them.

A ValueSet says which values of one label are allowed: a finite set, or all but a few, within
bounds. Requirements map labels to value sets and are only ever narrowed. Both are immutable and
canonical, so that equal ones are equal values and can be keys of caches.
"""

import re
from collections.abc import ItemsView, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from enum import StrEnum
from functools import lru_cache
from itertools import count
from typing import Final, TypeAlias

import msgspec

from wainwright.model.labels import LABEL_ALIASES, normalize_label

MAX_INTEGER: Final = 2**63 - 1  # Kubernetes compares label values as signed 64-bit integers
MIN_INTEGER: Final = -(2**63)
MAX_SHOWN_VALUES: Final = 5  # values printed before the rest is only counted

DECIMAL_LABEL_VALUE: Final = re.compile(
    r"-?[0-9]{1,63}", re.ASCII
)  # a label value has at most 63 characters


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
    and NotIn are satisfied without the label.
    """

    values: frozenset[str] = frozenset()
    """The values that a finite set admits, or that an open one excludes."""
    open: bool = False
    lower: int | None = None
    upper: int | None = None
    """Both bounds are inclusive; with either, only integers are admitted."""
    present: bool = False
    """Whether the label must exist: NotIn alone admits its absence, Exists with NotIn does not."""

    @property
    def is_bounded(self) -> bool:
        return self.lower is not None or self.upper is not None

    @property
    def is_empty(self) -> bool:
        return not self.open and not self.values

    @property
    def operator(self) -> Operator:
        """The operator closest to this set; bounds count as Exists, as they need a value."""
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
        return value not in self.values and _is_within(value, self.lower, self.upper)

    def intersects(self, other: "ValueSet") -> bool:
        """Whether some value is in both: `not (self & other).is_empty` without building the set."""
        if self.open and other.open:
            return not _is_empty_range(
                _max_bound(self.lower, other.lower), _min_bound(self.upper, other.upper)
            )
        if self.open:
            return any(self.admits(value) for value in other.values)
        if not other.open:
            return not self.values.isdisjoint(other.values)
        return any(other.admits(value) for value in self.values)

    def is_compatible_with(self, other: "ValueSet") -> bool:
        """Whether one node can satisfy both, possibly by not having the label at all."""
        return self.intersects(other) or (self.admits_absence and other.admits_absence)

    def any_value(self) -> str:
        """An admitted value, always the same one; the empty string where there is none."""
        if not self.open:
            return min(self.values, default="")
        return next(value for value in self._integers() if value not in self.values)

    def _integers(self) -> Iterator[str]:
        # All numbers of a small range may be excluded as text; "07" is then still admitted.
        upper = MAX_INTEGER if self.upper is None else min(self.upper, MAX_INTEGER)
        lower = min(0, upper) if self.lower is None else max(self.lower, MIN_INTEGER)
        for zeros in count():
            for number in range(lower, upper + 1):
                yield f"{'-' if number < 0 else ''}{'0' * zeros}{abs(number)}"

    def parts(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """The operators with their values that together make this set."""
        if not self.open:
            return ((self.operator.value, tuple(sorted(self.values))),)
        parts: list[tuple[str, tuple[str, ...]]] = []
        if self.values:
            parts.append((Operator.NOT_IN.value, tuple(sorted(self.values))))
        if self.present and not self.is_bounded:
            parts.append((Operator.EXISTS.value, ()))
        if self.lower is not None:
            parts.append((Operator.AT_LEAST.value, (str(self.lower),)))
        if self.upper is not None:
            parts.append((Operator.AT_MOST.value, (str(self.upper),)))
        return tuple(parts)

    def __and__(self, other: "ValueSet") -> "ValueSet":
        if self.open and other.open:
            lower, upper = _max_bound(self.lower, other.lower), _min_bound(self.upper, other.upper)
            present = self.present or other.present
            return _open_value_set(self.values | other.values, lower, upper, present=present)
        finite, filtering = (other, self) if self.open else (self, other)
        kept = frozenset(value for value in finite.values if filtering.admits(value))
        # The same object where nothing is dropped: its hash is cached, and comparisons are quick.
        return finite if len(kept) == len(finite.values) else one_of(kept)

    def __str__(self) -> str:
        """In [a b], NotIn [a], Exists NotIn [a], Exists >=2 <=8, DoesNotExist."""
        words: list[str] = [self.operator]
        words += [Operator.NOT_IN] if self.values and self.operator is Operator.EXISTS else []
        words += [f"[{' '.join(_abbreviate(self.values))}]"] if self.values else []
        words += [f">={self.lower}"] if self.lower is not None else []
        words += [f"<={self.upper}"] if self.upper is not None else []
        return " ".join(words)


ANY_VALUE: Final = ValueSet(open=True, present=True)
NO_VALUE: Final = ValueSet()


def one_of(values: Iterable[str]) -> ValueSet:
    allowed = frozenset(values)
    return ValueSet(values=allowed, present=True) if allowed else NO_VALUE


def none_of(values: Iterable[str]) -> ValueSet:
    """Any other value, or no label; excluding nothing is the same as Exists."""
    return _open_value_set(frozenset(values), None, None, present=False)


def between(lower: int | None, upper: int | None) -> ValueSet:
    """The integers from lower to upper, both included; None leaves that side open."""
    return _open_value_set(frozenset(), lower, upper, present=True)


@lru_cache(maxsize=65536)  # thousands of pods share a few terms: parsed once, and one object
def parse_value_set(operator: str, values: tuple[str, ...] = ()) -> ValueSet:
    """The values that the operator admits. A bound that is no integer admits nothing."""
    match Operator(operator):
        case Operator.IN:
            return one_of(values)
        case Operator.NOT_IN:
            return none_of(values)
        case Operator.EXISTS:
            return ANY_VALUE
        case Operator.DOES_NOT_EXIST:
            return NO_VALUE
        case comparison:
            return _parse_bound(comparison, values)


def parse_integer(text: str) -> int | None:
    """The number as which Kubernetes compares this label value; None if it is not an integer."""
    if DECIMAL_LABEL_VALUE.fullmatch(text) is None:
        return None
    number = int(text)
    return number if MIN_INTEGER <= number <= MAX_INTEGER else None


def _parse_bound(operator: Operator, values: tuple[str, ...]) -> ValueSet:
    bound = parse_integer(values[0]) if len(values) == 1 else None
    if bound is None:
        return NO_VALUE
    if operator in (Operator.GREATER, Operator.AT_LEAST):
        return between(bound + (operator is Operator.GREATER), None)
    return between(None, bound - (operator is Operator.LESS))


def _open_value_set(
    excluded: frozenset[str], lower: int | None, upper: int | None, *, present: bool
) -> ValueSet:
    if _is_empty_range(lower, upper):
        return NO_VALUE
    bounded = lower is not None or upper is not None
    # Without bounds every value is within them: this saves looking at each, requirement by
    # requirement, where many NotIn of one label are combined.
    within = (value for value in excluded if _is_within(value, lower, upper))
    kept = frozenset(within) if bounded else excluded
    return ValueSet(
        values=kept, open=True, lower=lower, upper=upper, present=present or bounded or not kept
    )


def _is_empty_range(lower: int | None, upper: int | None) -> bool:
    lowest = MIN_INTEGER if lower is None else max(lower, MIN_INTEGER)
    highest = MAX_INTEGER if upper is None else min(upper, MAX_INTEGER)
    return lowest > highest


def _is_within(value: str, lower: int | None, upper: int | None) -> bool:
    if lower is None and upper is None:
        return True
    number = parse_integer(value)
    if number is None:
        return False
    return (lower is None or lower <= number) and (upper is None or number <= upper)


def _max_bound(left: int | None, right: int | None) -> int | None:
    return max((bound for bound in (left, right) if bound is not None), default=None)


def _min_bound(left: int | None, right: int | None) -> int | None:
    return min((bound for bound in (left, right) if bound is not None), default=None)


def _abbreviate(values: frozenset[str]) -> list[str]:
    ordered = sorted(values)
    others = len(ordered) - MAX_SHOWN_VALUES
    return [*ordered[:MAX_SHOWN_VALUES], f"and {others} others"] if others > 0 else ordered


RequirementEntry: TypeAlias = tuple[str, str, tuple[str, ...], int | None]
"""Key, operator, values and minValues: one requirement as in a manifest."""


class Requirement(msgspec.Struct, frozen=True, kw_only=True, cache_hash=True):
    """The allowed values of one label, with minValues."""

    key: str
    allowed: ValueSet
    min_values: int | None = None
    """How many different values the remaining instance types must have."""

    def __and__(self, other: "Requirement") -> "Requirement":
        """Both at once, with the larger minValues; this very object where nothing changes."""
        allowed = self.allowed & other.allowed
        min_values = max(self.min_values or 0, other.min_values or 0) or None
        if allowed == self.allowed and min_values == self.min_values:
            return self
        return Requirement(key=self.key, allowed=allowed, min_values=min_values)

    def entries(self) -> tuple[RequirementEntry, ...]:
        """As in a manifest; bounds on both sides are two entries, each with the minValues."""
        return tuple(
            (self.key, operator, values, self.min_values)
            for operator, values in self.allowed.parts()
        )

    def __str__(self) -> str:
        ending = "" if self.min_values is None else f" minValues {self.min_values}"
        return f"{self.key} {self.allowed}{ending}"


class RequirementConflict(msgspec.Struct, frozen=True, kw_only=True):
    """Why two sets of requirements are incompatible."""

    key: str
    wanted: ValueSet
    offered: ValueSet | None
    """None where the other side does not define the key at all."""


class Requirements(Mapping[str, Requirement]):
    """An immutable mapping from key to requirement, always in the order of the keys."""

    __slots__ = ("_by_key", "_hash")

    def __init__(self, requirements: Iterable[Requirement] = ()) -> None:
        self._by_key: dict[str, Requirement] = _combine(requirements)
        self._hash: int | None = None

    @staticmethod
    def from_labels(labels: Mapping[str, str]) -> "Requirements":
        """One value for each label; equal labels give the same object."""
        return _requirements_from_labels(tuple(sorted(labels.items())))

    @staticmethod
    def from_entries(entries: Iterable[RequirementEntry]) -> "Requirements":
        """All entries at once, such as the requirements of a NodePool or one node selector term."""
        return Requirements(parse_requirement(*entry) for entry in entries)

    def __getitem__(self, key: str) -> Requirement:
        return self._by_key[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_key)

    def __len__(self) -> int:
        return len(self._by_key)

    def __contains__(self, key: object) -> bool:
        return key in self._by_key

    def items(self) -> ItemsView[str, Requirement]:
        return self._by_key.items()

    def __eq__(self, other: object) -> bool:
        if self is other:  # the usual case, as narrowing and parsing give back shared objects
            return True
        return isinstance(other, Requirements) and self._by_key == other._by_key

    def __hash__(self) -> int:
        if (
            self._hash is None
        ):  # requirements are keys of many caches, and are hashed again and again
            self._hash = hash(tuple(self._by_key.values()))
        return self._hash

    def __str__(self) -> str:
        return ", ".join(str(requirement) for requirement in self._by_key.values())

    def __repr__(self) -> str:
        return f"Requirements({self})"

    def allowed(self, key: str) -> ValueSet:
        """The values that the key may have: any, where it has no requirement."""
        requirement = self._by_key.get(key)
        return ANY_VALUE if requirement is None else requirement.allowed

    def find(self, key: str) -> Requirement | None:
        """The requirement of the key, if any: `get` of a Mapping takes four times as long."""
        return self._by_key.get(key)

    def single_value(self, key: str) -> str | None:
        """The value of a key with exactly one allowed value, else None."""
        allowed = self.allowed(key)
        return next(iter(allowed.values)) if allowed.length == 1 else None

    def entries(self) -> tuple[RequirementEntry, ...]:
        """As in a manifest, in the order of the keys."""
        return tuple(entry for each in self._by_key.values() for entry in each.entries())

    def without(self, keys: AbstractSet[str]) -> "Requirements":
        return _wrap({key: each for key, each in self._by_key.items() if key not in keys})

    def only(self, key: str) -> "Requirements":
        """What is required of one label."""
        return _wrap({key: self._by_key[key]} if key in self._by_key else {})

    def narrow(self, other: "Requirements") -> "Requirements":
        """Both at once; this very object where the other adds nothing.

        Callers compare by identity to see whether anything has changed, and copy nothing if not.
        """
        changed = {}
        for key, theirs in other._by_key.items():
            mine = self._by_key.get(key)
            both = theirs if mine is None else mine & theirs
            if both is not mine:
                changed[key] = both
        if not changed:
            return self
        return _wrap(dict(sorted((self._by_key | changed).items())))

    def find_conflict(
        self, wanted: "Requirements", well_known: AbstractSet[str] = frozenset()
    ) -> RequirementConflict | None:
        """Why nodes with these requirements cannot satisfy the wanted ones; None if they can.

        A key that this side does not define is a conflict unless `wanted` admits its absence, or
        the key is well known: a node to be launched can take any value of it. For existing nodes,
        pass no well-known keys. Undefined keys come before values that do not intersect, each in
        the order of keys.
        """
        clash: RequirementConflict | None = None
        for key, theirs in wanted._by_key.items():
            mine = self._by_key.get(key)
            if mine is None:
                if key not in well_known and not theirs.allowed.admits_absence:
                    return RequirementConflict(key=key, wanted=theirs.allowed, offered=None)
            elif clash is None and not mine.allowed.is_compatible_with(theirs.allowed):
                clash = RequirementConflict(key=key, wanted=theirs.allowed, offered=mine.allowed)
        return clash

    def is_compatible(
        self, wanted: "Requirements", well_known: AbstractSet[str] = frozenset()
    ) -> bool:
        return self.find_conflict(wanted, well_known) is None


@lru_cache(maxsize=65536)  # as for parse_value_set
def parse_requirement(
    key: str, operator: str, values: tuple[str, ...] = (), min_values: int | None = None
) -> Requirement:
    """One requirement as in a manifest, under the stable name of its key."""
    return Requirement(
        key=normalize_label(key), allowed=parse_value_set(operator, values), min_values=min_values
    )


class RequirementSource(StrEnum):
    """Where a pod requires labels of nodes."""

    NODE_SELECTOR = "nodeSelector"
    RUNTIME_CLASS = "RuntimeClass"
    NODE_AFFINITY = "node affinity"


class RequiredValues(msgspec.Struct, frozen=True, kw_only=True):
    """Values of a label that one field of a pod allows."""

    source: RequirementSource
    allowed: ValueSet


class Contradiction(msgspec.Struct, frozen=True, kw_only=True):
    """A label on which requirements of a pod contradict each other."""

    key: str
    sides: tuple[RequiredValues, ...] = ()
    """Those requirements, each once; none where a bound is no number."""


def find_contradictions(entries: Iterable[RequirementEntry]) -> tuple[str, ...]:
    """Keys whose entries no node can satisfy together, such as In [a] with In [b].

    Their intersection is DoesNotExist, which a node without the label would satisfy; in the
    kube-scheduler none does, so a caller that reads entries of one pod must reject them here.
    """
    requirements = [parse_requirement(*entry) for entry in entries]
    combined = Requirements(requirements)
    required = {each.key for each in requirements if not each.allowed.admits_absence}
    return tuple(key for key, each in combined.items() if each.allowed.is_empty and key in required)


@lru_cache(maxsize=65536)  # nodes and offerings repeat the same few sets of labels
def _requirements_from_labels(labels: tuple[tuple[str, str], ...]) -> Requirements:
    return Requirements(parse_requirement(key, "In", (value,)) for key, value in labels)


def _combine(requirements: Iterable[Requirement]) -> dict[str, Requirement]:
    """By the stable names of labels, in their order; without a call for each of 25,000 labels of a
    catalogue.
    """
    combined: dict[str, Requirement] = {}
    for each in requirements:
        key = each.key
        if key in LABEL_ALIASES:
            key = LABEL_ALIASES[key]
            each = msgspec.structs.replace(each, key=key)  # noqa: PLW2901
        combined[key] = combined[key] & each if key in combined else each
    return {key: combined[key] for key in sorted(combined)}


def _wrap(by_key: dict[str, Requirement]) -> Requirements:
    """Requirements of a mapping that is combined and in order already: saves doing both again."""
    wrapped = Requirements()
    wrapped._by_key = by_key
    return wrapped


NO_REQUIREMENTS: Final = Requirements()
