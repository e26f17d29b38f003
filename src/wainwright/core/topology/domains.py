"""Domains: which value of a label each draft has settled on, as sets of drafts."""

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from enum import Enum, auto
from typing import TypeAlias

from wainwright.core.drafts import Draft
from wainwright.core.launch import Buy, capacity_type_of, zone_of
from wainwright.core.narrowing import Narrowing
from wainwright.core.templates import Template
from wainwright.model.columns import Rows
from wainwright.model.labels import CAPACITY_TYPE, ZONE
from wainwright.model.node import Node


class Open(Enum):
    UNDECIDED = auto()
    LACKING = auto()
    """Nodes of this kind do not have the label."""


Value: TypeAlias = str | Open


class Domains:
    """For every label that anything is counted by."""

    def __init__(self, keys: Sequence[str], nodes: Sequence[Node]) -> None:
        self.keys = tuple(keys)
        self.of_drafts: dict[str, dict[str, Rows]] = {key: {} for key in keys}
        self.undecided: dict[str, Rows] = dict.fromkeys(keys, 0)
        self.lacking: dict[str, Rows] = dict.fromkeys(keys, 0)
        self.of_nodes: dict[str, dict[str, Rows]] = {key: _by_value(key, nodes) for key in keys}
        self.unlabelled: dict[str, Rows] = {key: _without(key, nodes) for key in keys}
        self._values: dict[int, dict[str, Value]] = {}
        self._known: dict[Narrowing, tuple[Value, ...]] = {}

    def fork(self) -> "Domains":
        """The same nodes, and no drafts."""
        twin = copy(self)
        twin.of_drafts = {key: {} for key in self.keys}
        twin.undecided = dict.fromkeys(self.keys, 0)
        twin.lacking = dict.fromkeys(self.keys, 0)
        twin._values = {}
        return twin

    def enter(self, draft: Draft) -> None:
        """A draft was opened."""
        decided = self._decided(draft.template, draft.narrowing)
        self._values[draft.number] = dict(zip(self.keys, decided, strict=True))
        for key, value in zip(self.keys, decided, strict=True):
            self._put(draft.bit, key, value)

    def narrowed(self, draft: Draft) -> None:
        """The draft was left fewer values."""
        values = self._values[draft.number]
        decided = self._decided(draft.template, draft.narrowing)
        for key, value in zip(self.keys, decided, strict=True):
            if values[key] is Open.UNDECIDED and value is not Open.UNDECIDED:
                self.decide(draft, key, value)

    def decide(self, draft: Draft, key: str, value: Value) -> None:
        self.undecided[key] &= ~draft.bit
        self._values[draft.number][key] = value
        self._put(draft.bit, key, value)

    def value(self, draft: Draft, key: str) -> Value:
        return self._values[draft.number][key]

    def _put(self, bit: Rows, key: str, value: Value) -> None:
        if value is Open.UNDECIDED:
            self.undecided[key] |= bit
        elif value is Open.LACKING:
            self.lacking[key] |= bit
        else:
            same = self.of_drafts[key]
            same[value] = same.get(value, 0) | bit

    def _decided(self, template: Template, narrowing: Narrowing) -> tuple[Value, ...]:
        found = self._known.get(narrowing)
        if found is None:
            found = tuple(_value(template, narrowing, key) for key in self.keys)
            self._known[narrowing] = found
        return found


def _value(template: Template, narrowing: Narrowing, key: str) -> Value:
    requirement = narrowing.requirements.get(key)
    if requirement is None:
        return Open.UNDECIDED if key in template.well_known else Open.LACKING
    allowed = requirement.allowed
    if allowed.empty:
        return Open.LACKING
    if allowed.length == 1:
        return next(iter(allowed.values))
    return Open.UNDECIDED


def bought(draft: Draft, buy: Buy, key: str) -> str | None:
    """The value of the label on the machine that would be bought; None if it will have none."""
    left, kind = draft.left, draft.template.index.types[buy.row]
    if key == ZONE:
        return zone_of(left, buy)
    if key == CAPACITY_TYPE:
        return capacity_type_of(left, buy)
    offered = buy.offering.requirements.only(key)
    if offered is not None:
        return offered
    allowed = kind.requirements.allowed(key) & left.requirements.allowed(key)
    return None if allowed.open else allowed.any() or None


def _by_value(key: str, nodes: Iterable[Node]) -> dict[str, Rows]:
    found: dict[str, Rows] = {}
    for number, node in enumerate(nodes):
        value = node.labels.get(key)
        if value is not None:
            found[value] = found.get(value, 0) | 1 << number
    return found


def _without(key: str, nodes: Iterable[Node]) -> Rows:
    return sum(1 << number for number, node in enumerate(nodes) if key not in node.labels)


def union_of(columns: Mapping[str, Rows], values: Iterable[str]) -> Rows:
    """Those with any of the values."""
    found = 0
    for value in values:
        found |= columns.get(value, 0)
    return found
