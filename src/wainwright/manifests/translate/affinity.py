"""Which nodes a pod or a volume asks for, and which nodes a pod would rather have."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

import msgspec

from wainwright.api.builtin.affinity import Affinity
from wainwright.api.builtin.selection import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from wainwright.model.labels import HOSTNAME, normalised
from wainwright.model.pod import ANYWHERE, PreferredNodes
from wainwright.model.requirements import Entry, Requirements, contradictions
from wainwright.model.values import integer

COMPARISONS: Final = frozenset({"Gt", "Lt", "Gte", "Lte"})
NODE_NAME: Final = "metadata.name"


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Alternatives that a node can meet, and labels of which the others ask the impossible."""

    alternatives: tuple[Requirements, ...] = ANYWHERE
    contradictory: tuple[str, ...] = ()


UNPICKY: Final = Wanted()


class Places:
    """Turns selectors and terms into requirements; `hostnames` are those of the nodes by name."""

    def __init__(
        self, hostnames: Mapping[str, str], *, without: AbstractSet[str] = frozenset()
    ) -> None:
        self._hostnames = hostnames
        self._without = without
        """Labels of which nothing is asked."""

    def wanted(
        self, selectors: Iterable[Mapping[str, str] | None], affinity: Affinity | None
    ) -> Wanted:
        """All selectors together with any one of the required terms."""
        base: list[Entry] = [
            (key, "In", (value,), None) for each in selectors for key, value in (each or {}).items()
        ]
        return self.among(base, _required(affinity))

    def among(self, base: Sequence[Entry], required: NodeSelector | None) -> Wanted:
        """What is asked in any case, together with any one of the terms."""
        if required is None:
            return choice([self._asked(base)]) if base else UNPICKY
        terms = required.nodeSelectorTerms or ()
        return choice([[*self._asked(base), *self._entries(each)] for each in terms if _says(each)])

    def preferred(self, affinity: Affinity | None) -> tuple[PreferredNodes, ...]:
        """The heaviest first, equals in the order written.

        A preference that every node meets, or none can, makes no node better than another.
        """
        return tuple(sorted(self._preferred(affinity), key=lambda each: -each.weight))

    def _preferred(self, affinity: Affinity | None) -> Iterator[PreferredNodes]:
        nodes = affinity.nodeAffinity if affinity is not None else None
        terms = nodes.preferredDuringSchedulingIgnoredDuringExecution if nodes is not None else None
        for each in terms or ():
            asked = self._entries(each.preference)
            if asked and not _impossible(asked):
                yield PreferredNodes(weight=each.weight, requirements=_requirements(asked))

    def _entries(self, term: NodeSelectorTerm) -> list[Entry]:
        fields = [self._field(each) for each in term.matchFields or ()]
        return self._asked([*(_entry(each) for each in term.matchExpressions or ()), *fields])

    def _asked(self, entries: Sequence[Entry]) -> list[Entry]:
        return [entry for entry in entries if normalised(entry[0]) not in self._without]

    def _field(self, written: NodeSelectorRequirement) -> Entry:
        """A node by name as a node by its hostname, which is the label that tells nodes apart.

        A node yet to be made has no name that anybody could know: it never fits.
        """
        key, operator, values, _ = _entry(written)
        if key != NODE_NAME:
            return key, operator, values, None
        return HOSTNAME, operator, tuple(self._hostnames.get(name, name) for name in values), None


def choice(choices: Iterable[Sequence[Entry]]) -> Wanted:
    """Any one of these, each of which may ask several things."""
    found: list[Requirements] = []
    impossible: set[str] = set()
    for asked in choices:
        clash = _impossible(asked)
        impossible.update(clash)
        if not clash:
            found.append(_requirements(asked))
    return Wanted(alternatives=tuple(dict.fromkeys(found)), contradictory=tuple(sorted(impossible)))


def _required(affinity: Affinity | None) -> NodeSelector | None:
    nodes = affinity.nodeAffinity if affinity is not None else None
    return nodes.requiredDuringSchedulingIgnoredDuringExecution if nodes is not None else None


def _says(term: NodeSelectorTerm) -> bool:
    """A term that asks nothing takes no node, unlike one that asks for what every node has."""
    return bool(term.matchExpressions or term.matchFields)


def _entry(written: NodeSelectorRequirement) -> Entry:
    return written.key, written.operator, tuple(written.values or ()), None


def _requirements(asked: Sequence[Entry]) -> Requirements:
    return ANYWHERE[0] if not asked else Requirements.from_entries(asked)


def _impossible(asked: Sequence[Entry]) -> set[str]:
    """Labels of which too much is asked.

    A bound that is no number is met by no node at all, not even by one without the label.
    """
    unbounded = {
        normalised(key)
        for key, operator, values, _ in asked
        if operator in COMPARISONS and any(integer(value) is None for value in values)
    }
    return unbounded | set(contradictions(asked))
