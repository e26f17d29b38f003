"""Who is where: pods counted by the nodes and drafts that they are on, anew for every question.

A place is a node of the cluster or a draft. Of a draft it may be open which value of a label it
will have.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from enum import Enum, auto
from typing import TypeAlias

import msgspec
from tests.support.obvious import Draft
from tests.support.shop import agrees, sold
from tests.support.slowshops import ANYBODY, bought
from tests.support.slowwants import Want

from wainwright.model.labels import HOSTNAME
from wainwright.model.node import Node
from wainwright.model.pod import Pod
from wainwright.model.requirements import Requirements
from wainwright.model.taints import PREFER_NO_SCHEDULE, untolerated
from wainwright.model.topology import Company, Spread


class Open(Enum):
    UNDECIDED = auto()
    LACKING = auto()


Place: TypeAlias = Node | Draft
Counts: TypeAlias = Callable[[Place, Pod], bool]
"""Whether a pod in that place is one of those that are counted."""


class Counted(msgspec.Struct, frozen=True):
    """How many pods of some kind are where, by the values of a label."""

    known: Counter[str]
    undecided: tuple[Draft, ...] = ()
    """Drafts with such pods that have no value yet."""
    open: int = 0
    """How many pods are on those."""

    @property
    def anywhere(self) -> bool:
        return bool(self.known or self.undecided)


class Census:
    """Every place with the pods that it has; whoever plans keeps it up to date."""

    def __init__(self) -> None:
        self.occupied: list[tuple[Place, list[Pod]]] = []
        self._settled: dict[tuple[int, str], str | Open] = {}

    def settle(self, draft: Draft, key: str, value: str | None) -> None:
        """From now on the draft has this value of the label, or will never have one."""
        self._settled[id(draft), key] = Open.LACKING if value is None else value

    def label(self, place: Place, key: str) -> str | Open:
        if isinstance(place, Node):
            return place.labels.get(key, Open.LACKING)
        if (id(place), key) in self._settled:
            return self._settled[id(place), key]
        if place.asked.allowed(key).empty:
            return Open.LACKING
        if key not in place.asked and key not in place.shop.known:
            return Open.LACKING
        return place.asked.only(key) or Open.UNDECIDED

    def by_value(self, key: str, counts: Counts) -> Counted:
        """Of the pods that count, how many are where."""
        known: Counter[str] = Counter()
        undecided, undecided_pods = [], 0
        for place, pods in self.occupied:
            here, value = sum(counts(place, pod) for pod in pods), self.label(place, key)
            if here and isinstance(value, str):
                known[value] += here
            elif here and value is Open.UNDECIDED and isinstance(place, Draft):
                undecided.append(place)
                undecided_pods += here
        return Counted(known, tuple(undecided), undecided_pods)

    def on(self, place: Place, counts: Counts) -> int:
        pods = next(pods for each, pods in self.occupied if each is place)
        return sum(counts(place, pod) for pod in pods)

    def anywhere(self, key: str, counts: Counts, *, host: bool) -> bool:
        """Whether any such pod has a place that the label can tell apart."""
        if host:
            return any(self.on(place, counts) for place, _ in self.occupied)
        return self.by_value(key, counts).anywhere

    def values(self, want: Want, spread: Spread) -> set[str]:
        """The values of the label in the places that the spread looks at.

        A machine under way that nobody made settle has the value that it will be launched with.
        """
        found: set[str | Open | None] = set()
        for place, _ in self.occupied:
            if self.is_looked_at(place, want, spread):
                value: str | Open | None = self.label(place, spread.key)
                if value is Open.UNDECIDED and isinstance(place, Draft) and place.launch:
                    value = bought(place, place.launch, spread.key)
                found.add(value)
        return {value for value in found if isinstance(value, str)}

    def is_spread(self, place: Place, pod: Pod, want: Want, spread: Spread) -> bool:
        """Whether a pod in some place is among those that are spread."""
        alike = pod.namespace == want.pod.namespace and spread.selector.selects(pod.labels)
        leaving = isinstance(place, Node) and pod.terminating
        return alike and not leaving and self.is_looked_at(place, want, spread)

    def is_looked_at(self, place: Place, want: Want, spread: Spread) -> bool:
        """Whether a spread takes account of the place."""
        lacking = [key for key in needed(want, spread) if self.label(place, key) is Open.LACKING]
        if isinstance(place, Node):
            taints = place.lasting_taints
            wanted = any(_is_labelled(place, each) for each in want.asked)
        else:
            taints = place.shop.pool.taints
            wanted = any(_could_be(place, each) for each in want.asked)
        binding = [taint for taint in taints if taint.effect != PREFER_NO_SCHEDULE]
        tolerated = untolerated(binding, want.pod.tolerations) is None
        fine = (wanted or not spread.honor_affinity) and (tolerated or not spread.honor_taints)
        return fine and not lacking

    def shunning(self, pod: Pod) -> Iterator[Company]:
        """The terms by which pods that have a place do not want this one near."""
        found: dict[Company, None] = {}
        for _, pods in self.occupied:
            for other in pods:
                found |= dict.fromkeys(t for t in other.bonds.anti_affinity if is_meant((t,), pod))
        return iter(found)


def is_meant(terms: tuple[Company, ...], pod: Pod) -> bool:
    """Whether all of the terms speak of the pod."""
    return all(term.means(pod.namespace, pod.labels) for term in terms)


def needed(want: Want, spread: Spread) -> set[str]:
    """Labels without which a node counts for none of the spreads that bind the pod."""
    binding = {each.key for each in want.pod.bonds.spreads if each.required}
    return binding - {HOSTNAME, spread.key} if spread.required else set()


def _could_be(draft: Draft, wanted: Requirements) -> bool:
    """Whether the draft may still become what is wanted, or is to be launched as that."""
    asked = draft.shop.joined(draft.asked, ANYBODY, wanted)
    if asked is None:
        return False
    if draft.launch is None:
        return any(draft.shop.admits(k, asked) and sold(k, asked, draft.held) for k in draft.types)
    kind, offering = draft.launch
    return draft.shop.admits(kind, asked) and agrees(kind, offering, asked)


def _is_labelled(node: Node, wanted: Requirements) -> bool:
    return Requirements.from_labels(node.labels).compatible(wanted)
