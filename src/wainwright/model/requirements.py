"""What is asked of the labels of one node: a value set per key, and the algebra on them."""

from collections.abc import ItemsView, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Final, TypeAlias

import msgspec

from wainwright.model.labels import normalised
from wainwright.model.values import ANYTHING, ValueSet, value_set

Entry: TypeAlias = tuple[str, str, tuple[str, ...], int | None]
"""Key, operator, values and minValues: one requirement as manifests write it."""


class Requirement(msgspec.Struct, frozen=True, kw_only=True, cache_hash=True):
    """What is asked of one label."""

    key: str
    allowed: ValueSet
    min_values: int | None = None
    """How many different values the instance types left must offer."""

    def __and__(self, other: "Requirement") -> "Requirement":
        """Both at once; the larger minValues stands."""
        allowed = self.allowed & other.allowed
        min_values = max(self.min_values or 0, other.min_values or 0) or None
        if allowed == self.allowed and min_values == self.min_values:
            return self
        return Requirement(key=self.key, allowed=allowed, min_values=min_values)

    def entries(self) -> tuple[Entry, ...]:
        """As manifests write it; bounds on both sides take two entries, each with the minValues."""
        return tuple(
            (self.key, operator, values, self.min_values)
            for operator, values in self.allowed.parts()
        )

    def __str__(self) -> str:
        ending = "" if self.min_values is None else f" minValues {self.min_values}"
        return f"{self.key} {self.allowed}{ending}"


class Conflict(msgspec.Struct, frozen=True, kw_only=True):
    """Why two sets of requirements do not go together."""

    key: str
    wanted: ValueSet
    offered: ValueSet | None
    """None where the other side does not define the key at all."""


class Requirements(Mapping[str, Requirement]):
    """An immutable mapping from key to requirement, always in the order of the keys."""

    __slots__ = ("_by_key", "_hash")

    def __init__(self, requirements: Iterable[Requirement] = ()) -> None:
        self._by_key: dict[str, Requirement] = _combined(requirements)
        self._hash: int | None = None

    @staticmethod
    def from_labels(labels: Mapping[str, str]) -> "Requirements":
        """One value for each label; the same labels give the same object."""
        return _of_labels(tuple(sorted(labels.items())))

    @staticmethod
    def from_entries(entries: Iterable[Entry]) -> "Requirements":
        """All entries at once, as the requirements of a pool or one node selector term."""
        return Requirements(requirement(*entry) for entry in entries)

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
        if self is other:
            return True
        return isinstance(other, Requirements) and self._by_key == other._by_key

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(tuple(self._by_key.values()))
        return self._hash

    def __str__(self) -> str:
        return ", ".join(str(requirement) for requirement in self._by_key.values())

    def __repr__(self) -> str:
        return f"Requirements({self})"

    def allowed(self, key: str) -> ValueSet:
        """The values that the key may have: any, where nothing is asked of it."""
        found = self._by_key.get(key)
        return ANYTHING if found is None else found.allowed

    def only(self, key: str) -> str | None:
        """The value of a key that is left only one."""
        allowed = self.allowed(key)
        return next(iter(allowed.values)) if allowed.length == 1 else None

    def entries(self) -> tuple[Entry, ...]:
        """As manifests write it, in the order of the keys."""
        return tuple(entry for found in self._by_key.values() for entry in found.entries())

    def without(self, keys: AbstractSet[str]) -> "Requirements":
        return _wrapped({key: found for key, found in self._by_key.items() if key not in keys})

    def narrow(self, other: "Requirements") -> "Requirements":
        """Both at once. Gives back this very object where the other asks nothing new."""
        changed = {}
        for key, theirs in other._by_key.items():
            mine = self._by_key.get(key)
            both = theirs if mine is None else mine & theirs
            if both is not mine:
                changed[key] = both
        if not changed:
            return self
        return _wrapped(dict(sorted((self._by_key | changed).items())))

    def conflict(
        self, wanted: "Requirements", well_known: AbstractSet[str] = frozenset()
    ) -> Conflict | None:
        """Why nodes with these requirements cannot serve who wants those; None if they can.

        A key that this side does not define is refused unless its absence is fine, or the key is
        well known: a node yet to be made can take any value of it. For nodes that stand, pass no
        well-known keys. Undefined keys come before clashing values, each in the order of keys.
        """
        clash: Conflict | None = None
        for key, theirs in wanted._by_key.items():
            mine = self._by_key.get(key)
            if mine is None:
                if key not in well_known and not theirs.allowed.admits_absence:
                    return Conflict(key=key, wanted=theirs.allowed, offered=None)
            elif clash is None and not mine.allowed.agrees_with(theirs.allowed):
                clash = Conflict(key=key, wanted=theirs.allowed, offered=mine.allowed)
        return clash

    def compatible(
        self, wanted: "Requirements", well_known: AbstractSet[str] = frozenset()
    ) -> bool:
        return self.conflict(wanted, well_known) is None


@lru_cache(maxsize=65536)
def requirement(
    key: str, operator: str, values: tuple[str, ...] = (), min_values: int | None = None
) -> Requirement:
    """One requirement as manifests write it, under the stable name of its key."""
    return Requirement(
        key=normalised(key), allowed=value_set(operator, values), min_values=min_values
    )


def contradictions(entries: Iterable[Entry]) -> tuple[str, ...]:
    """Keys of which the entries ask what no node can have, such as In [a] together with In [b].

    Intersecting makes DoesNotExist of these, which a node without the label would satisfy;
    the kube-scheduler never would, so who reads entries of one pod should refuse them here.
    """
    asked = [requirement(*entry) for entry in entries]
    together = Requirements(asked)
    needed = {found.key for found in asked if not found.allowed.admits_absence}
    return tuple(key for key, found in together.items() if found.allowed.empty and key in needed)


@lru_cache(maxsize=65536)
def _of_labels(labels: tuple[tuple[str, str], ...]) -> Requirements:
    return Requirements(requirement(key, "In", (value,)) for key, value in labels)


def _combined(requirements: Iterable[Requirement]) -> dict[str, Requirement]:
    found: dict[str, Requirement] = {}
    for each in requirements:
        key = normalised(each.key)
        named = each if key == each.key else msgspec.structs.replace(each, key=key)
        found[key] = found[key] & named if key in found else named
    return dict(sorted(found.items()))


def _wrapped(by_key: dict[str, Requirement]) -> Requirements:
    """Requirements around a mapping that is already combined and in order."""
    wrapped = Requirements()
    wrapped._by_key = by_key
    return wrapped


NO_REQUIREMENTS: Final = Requirements()
