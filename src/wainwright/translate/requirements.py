"""Node selectors, node affinity, requirements, taints and tolerations, wire to model."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Final

import msgspec

from wainwright.api.karpenter.shared_fields import ClaimRequirement, PoolRequirement, PoolTaint
from wainwright.api.kubernetes.cluster import Taint as NodeTaint
from wainwright.api.kubernetes.meta import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from wainwright.api.kubernetes.workloads import Affinity
from wainwright.api.kubernetes.workloads import Toleration as PodToleration
from wainwright.model.labels import HOSTNAME, normalize_label
from wainwright.model.pod import ANY_NODE_TERMS, PreferredNodeTerm
from wainwright.model.requirements import (
    RequirementEntry,
    Requirements,
    find_contradictions,
    parse_integer,
)
from wainwright.model.taints import NO_EXECUTE, NO_SCHEDULE, Taint, Toleration, TolerationOperator

WireRequirements = Iterable[PoolRequirement | ClaimRequirement]


def translate_requirements(written: WireRequirements) -> Requirements:
    return Requirements.from_entries(_requirement_entries(written))


def contradictory_labels(written: WireRequirements) -> tuple[str, ...]:
    """Labels of which the requirements ask what no node can have."""
    return find_contradictions(_requirement_entries(written))


def _requirement_entries(written: WireRequirements) -> list[RequirementEntry]:
    return [(each.key, each.operator, tuple(each.values or ()), each.minValues) for each in written]


COMPARISON_OPERATORS: Final = frozenset({"Gt", "Lt", "Gte", "Lte"})
NODE_NAME_FIELD: Final = "metadata.name"


class NodeAlternatives(msgspec.Struct, frozen=True, kw_only=True):
    """Alternatives that a node can meet, and labels of which the others ask the impossible."""

    alternatives: tuple[Requirements, ...] = ANY_NODE_TERMS
    contradictory: tuple[str, ...] = ()


ANY_NODE: Final = NodeAlternatives()


class NodeAffinityTranslator:
    """Turns selectors and terms into requirements; `hostnames` are those of the nodes by name."""

    def __init__(
        self, hostnames: Mapping[str, str], *, without: AbstractSet[str] = frozenset()
    ) -> None:
        self._hostnames = hostnames
        self._without = without
        """Labels of which nothing is asked."""

    def wanted(
        self, selectors: Iterable[Mapping[str, str] | None], affinity: Affinity | None
    ) -> NodeAlternatives:
        """All selectors together with any one of the required terms."""
        base: list[RequirementEntry] = [
            (key, "In", (value,), None) for each in selectors for key, value in (each or {}).items()
        ]
        return self.among(base, _required_terms(affinity))

    def among(
        self, base: Sequence[RequirementEntry], required: NodeSelector | None
    ) -> NodeAlternatives:
        """What is asked in any case, together with any one of the terms."""
        if required is None:
            return any_of([self._asked(base)]) if base else ANY_NODE
        terms = required.nodeSelectorTerms or ()
        return any_of(
            [[*self._asked(base), *self._entries(each)] for each in terms if _is_nonempty(each)]
        )

    def preferred(self, affinity: Affinity | None) -> tuple[PreferredNodeTerm, ...]:
        """The heaviest first, equals in the order written.

        A preference that every node meets, or none can, makes no node better than another.
        """
        return tuple(sorted(self._preferred(affinity), key=lambda each: -each.weight))

    def _preferred(self, affinity: Affinity | None) -> Iterator[PreferredNodeTerm]:
        nodes = affinity.nodeAffinity if affinity is not None else None
        terms = nodes.preferredDuringSchedulingIgnoredDuringExecution if nodes is not None else None
        for each in terms or ():
            asked = self._entries(each.preference)
            if asked and not _contradictory_keys(asked):
                yield PreferredNodeTerm(weight=each.weight, requirements=_to_requirements(asked))

    def _entries(self, term: NodeSelectorTerm) -> list[RequirementEntry]:
        fields = [self._field(each) for each in term.matchFields or ()]
        return self._asked(
            [*(_selector_entry(each) for each in term.matchExpressions or ()), *fields]
        )

    def _asked(self, entries: Sequence[RequirementEntry]) -> list[RequirementEntry]:
        return [entry for entry in entries if normalize_label(entry[0]) not in self._without]

    def _field(self, written: NodeSelectorRequirement) -> RequirementEntry:
        """A node by name as a node by its hostname, which is the label that tells nodes apart.

        A node yet to be made has no name that anybody could know: it never fits.
        """
        key, operator, values, _ = _selector_entry(written)
        if key != NODE_NAME_FIELD:
            return key, operator, values, None
        return HOSTNAME, operator, tuple(self._hostnames.get(name, name) for name in values), None


def any_of(choices: Iterable[Sequence[RequirementEntry]]) -> NodeAlternatives:
    """Any one of these, each of which may ask several things."""
    found: list[Requirements] = []
    impossible: set[str] = set()
    for asked in choices:
        clash = _contradictory_keys(asked)
        impossible.update(clash)
        if not clash:
            found.append(_to_requirements(asked))
    return NodeAlternatives(
        alternatives=tuple(dict.fromkeys(found)), contradictory=tuple(sorted(impossible))
    )


def _required_terms(affinity: Affinity | None) -> NodeSelector | None:
    nodes = affinity.nodeAffinity if affinity is not None else None
    return nodes.requiredDuringSchedulingIgnoredDuringExecution if nodes is not None else None


def _is_nonempty(term: NodeSelectorTerm) -> bool:
    """A term that asks nothing takes no node, unlike one that asks for what every node has."""
    return bool(term.matchExpressions or term.matchFields)


def _selector_entry(written: NodeSelectorRequirement) -> RequirementEntry:
    return written.key, written.operator, tuple(written.values or ()), None


def _to_requirements(asked: Sequence[RequirementEntry]) -> Requirements:
    return ANY_NODE_TERMS[0] if not asked else Requirements.from_entries(asked)


def _contradictory_keys(asked: Sequence[RequirementEntry]) -> set[str]:
    """Labels of which too much is asked.

    A bound that is no number is met by no node at all, not even by one without the label.
    """
    unbounded = {
        normalize_label(key)
        for key, operator, values, _ in asked
        if operator in COMPARISON_OPERATORS
        and any(parse_integer(value) is None for value in values)
    }
    return unbounded | set(find_contradictions(asked))


UNSCHEDULABLE_TAINT: Final = Taint(key="node.kubernetes.io/unschedulable", effect=NO_SCHEDULE)
"""On every node that somebody has cordoned."""


def translate_taints(written: Iterable[NodeTaint | PoolTaint] | None) -> tuple[Taint, ...]:
    return tuple(
        Taint(key=each.key, value=each.value or "", effect=each.effect) for each in written or ()
    )


def translate_tolerations(written: Iterable[PodToleration] | None) -> tuple[Toleration, ...]:
    """In the order written, each once."""
    return tuple(dict.fromkeys(_translate_toleration(each) for each in written or ()))


def _translate_toleration(written: PodToleration) -> Toleration:
    return _cached_toleration(written.key, written.operator, written.value, written.effect)


@lru_cache(maxsize=4096)
def _cached_toleration(key: str, operator: str, value: str, effect: str) -> Toleration:
    named = TolerationOperator(operator) if operator else TolerationOperator.EQUAL
    return Toleration(key=key, operator=named, value=value, effect=effect)


def _daemonset_toleration(key: str, effect: str) -> Toleration:
    return _cached_toleration(f"node.kubernetes.io/{key}", TolerationOperator.EXISTS, "", effect)


DAEMONSET_TOLERATIONS: Final = (
    _daemonset_toleration("not-ready", NO_EXECUTE),
    _daemonset_toleration("unreachable", NO_EXECUTE),
    _daemonset_toleration("disk-pressure", NO_SCHEDULE),
    _daemonset_toleration("memory-pressure", NO_SCHEDULE),
    _daemonset_toleration("pid-pressure", NO_SCHEDULE),
    _daemonset_toleration("unschedulable", NO_SCHEDULE),
)
"""What every pod of a DaemonSet is given by its controller."""

HOST_NETWORK_TOLERATION: Final = _daemonset_toleration("network-unavailable", NO_SCHEDULE)
"""What those get besides that need no network of their own."""
