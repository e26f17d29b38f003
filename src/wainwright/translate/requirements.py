"""Node selectors, node affinity, requirements, taints and tolerations, translated to the model."""

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
    Contradiction,
    RequiredValues,
    RequirementEntry,
    Requirements,
    RequirementSource,
    find_contradictions,
    parse_integer,
    parse_requirement,
)
from wainwright.model.taints import NO_EXECUTE, NO_SCHEDULE, Taint, Toleration, TolerationOperator

WireRequirements = Iterable[PoolRequirement | ClaimRequirement]


def translate_requirements(written: WireRequirements) -> Requirements:
    return Requirements.from_entries(_requirement_entries(written))


def contradictory_labels(written: WireRequirements) -> tuple[str, ...]:
    """Labels on which the requirements contradict each other."""
    return find_contradictions(_requirement_entries(written))


def _requirement_entries(written: WireRequirements) -> list[RequirementEntry]:
    return [
        (each.key, each.operator, _written_values(each.operator, each.values or ()), each.minValues)
        for each in written
    ]


def _written_values(operator: str, values: Iterable[str]) -> tuple[str, ...]:
    """The values; a bound may have a plus, which no label value has."""
    if operator in COMPARISON_OPERATORS:
        return tuple(value.removeprefix("+") for value in values)
    return tuple(values)


COMPARISON_OPERATORS: Final = frozenset({"Gt", "Lt", "Gte", "Lte"})
NODE_NAME_FIELD: Final = "metadata.name"


class NodeAlternatives(msgspec.Struct, frozen=True, kw_only=True):
    """Satisfiable alternatives, and labels on which the others contradict themselves."""

    alternatives: tuple[Requirements, ...] = ANY_NODE_TERMS
    contradictory: tuple[str, ...] = ()


ANY_NODE: Final = NodeAlternatives()


class NodeAffinityTranslator:
    """Translates node selectors and affinity terms; `hostnames` are the labels by node name."""

    def __init__(
        self, hostnames: Mapping[str, str], *, ignored_labels: AbstractSet[str] = frozenset()
    ) -> None:
        self._hostnames = hostnames
        self._ignored_labels = ignored_labels
        """Requirements on these labels are dropped."""

    def node_alternatives(
        self, selectors: Iterable[Mapping[str, str] | None], affinity: Affinity | None
    ) -> NodeAlternatives:
        """All node selectors, combined with each of the required affinity terms."""
        common = [entry for each in selectors for entry in _selector_entries(each)]
        return self.alternatives_of(common, _required_terms(affinity))

    def alternatives_of(
        self, common: Sequence[RequirementEntry], required: NodeSelector | None
    ) -> NodeAlternatives:
        """The common requirements, combined with each of the required terms."""
        if required is None:
            return any_of([self._without_ignored(common)]) if common else ANY_NODE
        terms = required.nodeSelectorTerms or ()
        return any_of(
            [
                [*self._without_ignored(common), *self._entries(each)]
                for each in terms
                if _is_nonempty(each)
            ]
        )

    def contradictions(
        self,
        selector: Mapping[str, str] | None,
        runtime_selector: Mapping[str, str] | None,
        affinity: Affinity | None,
    ) -> tuple[Contradiction, ...]:
        """What requires which values of the labels on which terms contradict themselves."""
        common = [
            *_sourced(RequirementSource.NODE_SELECTOR, _selector_entries(selector)),
            *_sourced(RequirementSource.RUNTIME_CLASS, _selector_entries(runtime_selector)),
        ]
        required = _required_terms(affinity)
        written = () if required is None else filter(_is_nonempty, required.nodeSelectorTerms or ())
        terms = [[]] if required is None else [self._entries(each) for each in written]
        sides: dict[str, dict[RequiredValues, None]] = {}
        for term in terms:
            entries = [*common, *_sourced(RequirementSource.NODE_AFFINITY, term)]
            kept = [each for each in entries if self._without_ignored([each[1]])]
            for key in sorted(_contradictory_keys([entry for _, entry in kept])):
                sides.setdefault(key, {}).update(dict.fromkeys(_sides(key, kept)))
        return tuple(Contradiction(key=key, sides=tuple(sides[key])) for key in sorted(sides))

    def preferred(self, affinity: Affinity | None) -> tuple[PreferredNodeTerm, ...]:
        """Sorted by weight, highest first, equal weights in the order written.
        A preference that every node meets, or none can, is dropped: it ranks no node above another.
        """
        return tuple(sorted(self._preferred(affinity), key=lambda each: -each.weight))

    def _preferred(self, affinity: Affinity | None) -> Iterator[PreferredNodeTerm]:
        nodes = affinity.nodeAffinity if affinity is not None else None
        terms = nodes.preferredDuringSchedulingIgnoredDuringExecution if nodes is not None else None
        for each in terms or ():
            entries = self._entries(each.preference)
            if entries and not _contradictory_keys(entries):
                yield PreferredNodeTerm(weight=each.weight, requirements=_to_requirements(entries))

    def _entries(self, term: NodeSelectorTerm) -> list[RequirementEntry]:
        fields = [self._field_entry(each) for each in term.matchFields or ()]
        return self._without_ignored(
            [*(_selector_entry(each) for each in term.matchExpressions or ()), *fields]
        )

    def _without_ignored(self, entries: Sequence[RequirementEntry]) -> list[RequirementEntry]:
        return [entry for entry in entries if normalize_label(entry[0]) not in self._ignored_labels]

    def _field_entry(self, written: NodeSelectorRequirement) -> RequirementEntry:
        """A match on metadata.name as a requirement on the hostname label.

        A new node never matches: its name is not known yet.
        """
        key, operator, values, _ = _selector_entry(written)
        if key != NODE_NAME_FIELD:
            return key, operator, values, None
        return HOSTNAME, operator, tuple(self._hostnames.get(name, name) for name in values), None


def any_of(terms: Iterable[Sequence[RequirementEntry]]) -> NodeAlternatives:
    """The satisfiable ones of these terms, of which a node must meet one."""
    possible: list[Requirements] = []
    contradictory: set[str] = set()
    for entries in terms:
        conflict = _contradictory_keys(entries)
        contradictory.update(conflict)
        if not conflict:
            possible.append(_to_requirements(entries))
    return NodeAlternatives(
        alternatives=tuple(dict.fromkeys(possible)), contradictory=tuple(sorted(contradictory))
    )


SourcedEntry = tuple[RequirementSource, RequirementEntry]


def _sourced(
    source: RequirementSource, entries: Iterable[RequirementEntry]
) -> Iterator[SourcedEntry]:
    return ((source, entry) for entry in entries)


def _sides(key: str, entries: Iterable[SourcedEntry]) -> Iterator[RequiredValues]:
    own = [(source, entry) for source, entry in entries if normalize_label(entry[0]) == key]
    if any(_has_bad_bound(entry) for _, entry in own):
        return
    for source, entry in own:
        yield RequiredValues(source=source, allowed=parse_requirement(*entry).allowed)


def _required_terms(affinity: Affinity | None) -> NodeSelector | None:
    nodes = affinity.nodeAffinity if affinity is not None else None
    return nodes.requiredDuringSchedulingIgnoredDuringExecution if nodes is not None else None


def _is_nonempty(term: NodeSelectorTerm) -> bool:
    """An empty term matches no node, unlike an empty selector."""
    return bool(term.matchExpressions or term.matchFields)


def _selector_entries(selector: Mapping[str, str] | None) -> list[RequirementEntry]:
    return [(key, "In", (value,), None) for key, value in (selector or {}).items()]


def _selector_entry(written: NodeSelectorRequirement) -> RequirementEntry:
    return written.key, written.operator, tuple(written.values or ()), None


def _to_requirements(entries: Sequence[RequirementEntry]) -> Requirements:
    return ANY_NODE_TERMS[0] if not entries else Requirements.from_entries(entries)


def _contradictory_keys(entries: Sequence[RequirementEntry]) -> set[str]:
    """Labels on which the entries contradict each other.

    A Gt or Lt bound that is no number matches no node, not even one without the label.
    """
    not_numeric = {normalize_label(entry[0]) for entry in entries if _has_bad_bound(entry)}
    return not_numeric | set(find_contradictions(entries))


def _has_bad_bound(entry: RequirementEntry) -> bool:
    _, operator, values, _ = entry
    return operator in COMPARISON_OPERATORS and any(parse_integer(each) is None for each in values)


UNSCHEDULABLE_TAINT: Final = Taint(key="node.kubernetes.io/unschedulable", effect=NO_SCHEDULE)
"""On every cordoned node."""


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
"""Tolerations that the DaemonSet controller adds to every pod."""

HOST_NETWORK_TOLERATION: Final = _daemonset_toleration("network-unavailable", NO_SCHEDULE)
"""Added as well to DaemonSet pods on the host network."""
