"""The registry: every topology constraint of the plan once, and which of them concern a pod."""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from operator import attrgetter
from typing import Final, NamedTuple, TypeAlias

from wainwright.core.scheduling.topology.groups import (
    AnyGroup,
    HostGroup,
    LabelGroup,
    NodeFilter,
    TopologyKind,
)
from wainwright.model.labels import HOSTNAME
from wainwright.model.pod import (
    ANY_NODE_TERMS,
    NO_CONSTRAINTS,
    AffinityTerm,
    Pod,
    PodConstraints,
    SelectorRequirement,
    TopologySpread,
)
from wainwright.model.requirements import Requirements, parse_requirement
from wainwright.model.taints import Toleration

BY_NUMBER: Final = attrgetter("number")
PodIdentity: TypeAlias = tuple[str, tuple[tuple[str, str], ...]]
"""Namespace and labels: all that selectors depend on."""


class MatchingGroups:
    """The groups that concern pods of one namespace and labels."""

    __slots__ = ("counting", "inverse_anti_affinity")

    def __init__(
        self, counting: tuple[AnyGroup, ...], inverse_anti_affinity: tuple[AnyGroup, ...]
    ) -> None:
        self.counting = counting
        """The groups that count such a pod."""
        self.inverse_anti_affinity = inverse_anti_affinity
        """The groups of pods whose anti-affinity selects it."""


NO_MATCHING_GROUPS = MatchingGroups((), ())


class _SpreadScope(NamedTuple):
    """Which nodes and pods count for spreads of a pod; equal ones have the same number."""

    number: int
    filter: NodeFilter
    counts_unreachable: bool


class TopologyRegistry:
    """Finds groups by constraint; equal constraints share one group."""

    def __init__(self) -> None:
        self.groups: dict[object, AnyGroup] = {}
        self._counting = _GroupsBySelector()
        self._inverse = _GroupsBySelector()
        self._affinity_groups: dict[tuple[AffinityTerm, ...], tuple[AnyGroup, ...]] = {}
        self._filters: dict[object, NodeFilter] = {}
        self._scopes: dict[object, _SpreadScope] = {}
        self._by_identity: dict[PodIdentity, MatchingGroups] = {}
        self._matching_groups: dict[object, MatchingGroups] = {}

    @property
    def keys(self) -> list[str]:
        """The topology labels of all groups, except the hostname."""
        keys = (group.key for group in self.groups.values() if isinstance(group, LabelGroup))
        return list(dict.fromkeys(keys))

    def spread_groups(self, pod: Pod) -> dict[TopologySpread, AnyGroup]:
        """The group of each of its spread constraints.

        What depends on the pod is looked up once: it is as long as the constraints are many.
        """
        spreads = pod.constraints.spreads
        if not spreads:
            return {}
        labels = _required_labels(spreads)
        scopes: dict[tuple[bool, ...], _SpreadScope] = {}
        groups: dict[TopologySpread, AnyGroup] = {}
        for spread in spreads:
            has_labels = spread.required and bool(labels) and labels != (spread.key,)
            kind = (spread.honor_affinity, spread.honor_taints, has_labels)
            scope = scopes.get(kind)
            if scope is None:
                scope = scopes[kind] = self._spread_scope(pod, spread, labels if has_labels else ())
            groups[spread] = self._spread_group(pod, spread, scope)
        return groups

    def _spread_group(self, pod: Pod, spread: TopologySpread, scope: "_SpreadScope") -> AnyGroup:
        itself = spread.selector.selects(pod.labels)
        key = (TopologyKind.SPREAD, spread, scope.number, itself)
        group = self.groups.get(key)
        if group is None:
            namespaces = frozenset({pod.namespace})
            term = AffinityTerm(key=spread.key, selector=spread.selector, namespaces=namespaces)
            # A new node is always possible, so that the global minimum is 0.
            limit = spread.max_skew + (not itself)
            group = self._add_group(key, TopologyKind.SPREAD, (term,), limit)
            group.spread, group.filter = spread, scope.filter
            group.counts_unreachable = scope.counts_unreachable
        return group

    def _spread_scope(
        self, pod: Pod, spread: TopologySpread, labels: tuple[str, ...]
    ) -> "_SpreadScope":
        """The nodes that spreads of the pod with these policies count."""
        node_terms = pod.alternatives if pod.alternatives != ANY_NODE_TERMS else None
        volume_terms = pod.constraints.volume_topology
        reachable = (
            node_terms if volume_terms is ANY_NODE_TERMS else _reachable(node_terms, volume_terms)
        )
        honoured = node_terms if spread.honor_affinity else None
        tolerations = pod.tolerations if spread.honor_taints else None
        key = (pod.namespace, node_terms, reachable, honoured, tolerations, labels)
        scope = self._scopes.get(key)
        if scope is None:
            node_filter = self._filter(_with_labels(honoured, labels), tolerations, reachable)
            scope = self._scopes[key] = _SpreadScope(
                len(self._scopes), node_filter, counts_unreachable=reachable != honoured
            )
        return scope

    def _filter(
        self,
        alternatives: tuple[Requirements, ...] | None,
        tolerations: tuple[Toleration, ...] | None,
        reachable: tuple[Requirements, ...] | None,
    ) -> NodeFilter:
        key = (alternatives, tolerations, reachable)
        node_filter = self._filters.get(key)
        if node_filter is None:
            node_filter = self._filters[key] = NodeFilter(alternatives, tolerations, reachable)
        return node_filter

    def affinity_groups(self, terms: tuple[AffinityTerm, ...]) -> tuple[AnyGroup, ...]:
        """One group for each topology key; each counts the pods that all terms select."""
        groups = self._affinity_groups.get(terms)
        if groups is None:
            groups = self._affinity_groups[terms] = tuple(self._add_affinity_groups(terms))
        return groups

    def _add_affinity_groups(self, terms: tuple[AffinityTerm, ...]) -> Iterator[AnyGroup]:
        kind, number, first = TopologyKind.AFFINITY, len(self._affinity_groups), None
        for key in dict.fromkeys(term.key for term in terms):
            group = self._add_group((kind, key, number), kind, terms, 1, key, first)
            first = first or group
            yield group

    def anti_affinity_group(self, term: AffinityTerm) -> AnyGroup:
        key = (TopologyKind.ANTI_AFFINITY, term)
        return self.groups.get(key) or self._add_group(key, TopologyKind.ANTI_AFFINITY, (term,), 1)

    def inverse_anti_affinity_group(self, term: AffinityTerm) -> AnyGroup:
        key = (TopologyKind.INVERSE_ANTI_AFFINITY, term)
        return self.groups.get(key) or self._add_group(
            key, TopologyKind.INVERSE_ANTI_AFFINITY, (term,), 1
        )

    def register(self, pods: Iterable[Pod], running: Iterable[Pod]) -> None:
        """Registers all constraints; must be done before groups are looked up for a pod."""
        seen: set[tuple[object, ...]] = set()
        for pod in pods:
            if pod.constraints is not NO_CONSTRAINTS:
                # Most pods share the constraints of their workload: each is registered once.
                identity = _registration_key(pod)
                if identity not in seen:
                    seen.add(identity)
                    self._register_constraints(pod, pod.constraints)
        for pod in running:
            self._register_inverse(pod, pod.constraints)

    def matching_groups(self, pod: Pod) -> MatchingGroups:
        if not self.groups:
            return NO_MATCHING_GROUPS
        identity = (pod.namespace, tuple(pod.labels.items()))
        matching = self._by_identity.get(identity)
        if matching is None:
            matching = self._by_identity[identity] = self._find_matching(pod)
        return matching

    def _register_constraints(self, pod: Pod, constraints: PodConstraints) -> None:
        self.spread_groups(pod)
        if constraints.affinity:
            self.affinity_groups(constraints.affinity)
        for term in constraints.anti_affinity:
            self.anti_affinity_group(term)
        self._register_inverse(pod, constraints)
        for preferred in constraints.preferred_affinity:
            self.affinity_groups((preferred.term,))
        for preferred in constraints.preferred_anti_affinity:
            self.anti_affinity_group(preferred.term)

    def _register_inverse(self, pod: Pod, constraints: PodConstraints) -> None:
        for term in constraints.anti_affinity:
            group = self.inverse_anti_affinity_group(term)
            group.has_unselected_owner = group.has_unselected_owner or not term.matches(
                pod.namespace, pod.labels
            )

    def _add_group(
        self,
        group_key: object,
        kind: TopologyKind,
        terms: tuple[AffinityTerm, ...],
        limit: int,
        key: str | None = None,
        same_terms: AnyGroup | None = None,
    ) -> AnyGroup:
        """`same_terms` is an earlier group with the same terms, which counts the same pods."""
        key = key or terms[0].key
        group: AnyGroup
        number = len(self.groups)
        if key == HOSTNAME:
            group = HostGroup(kind, key, terms, number, limit)
        else:
            group = LabelGroup(kind, key, terms, number)
        self.groups[group_key] = group
        is_inverse = kind is TopologyKind.INVERSE_ANTI_AFFINITY
        (self._inverse if is_inverse else self._counting).add(group, same_terms)
        return group

    def _find_matching(self, pod: Pod) -> MatchingGroups:
        key = (self._counting.selecting(pod), self._inverse.selecting(pod))
        return self._matching_groups.setdefault(key, MatchingGroups(*key))


class _GroupsBySelector:
    """Groups, found by the labels of the pods that they select."""

    def __init__(self) -> None:
        self._by_label: dict[tuple[str, str], list[AnyGroup]] = {}
        self._without_label = _BroadGroups()
        self._same_terms: dict[AnyGroup, list[AnyGroup]] = {}
        """Further groups: a thousand terms with a label each are compared once, not for each."""

    def add(self, group: AnyGroup, same_terms: AnyGroup | None) -> None:
        if same_terms is not None:
            self._same_terms.setdefault(same_terms, []).append(group)
            return
        # A selector that requires a label is checked only for pods with this label: saves checking
        # every group for every pod.
        anchor = group.terms[0].selector.required_label
        if anchor is None:
            self._without_label.add(group)
        else:
            self._by_label.setdefault(anchor, []).append(group)

    def selecting(self, pod: Pod) -> tuple[AnyGroup, ...]:
        """The groups that select the pod, in the order of their numbers."""
        groups = [each for each in self._candidates(pod) if each.selects(pod.namespace, pod.labels)]
        groups += self._without_label.selecting(pod)
        if self._same_terms:
            groups += [same for each in groups for same in self._same_terms.get(each, ())]
        groups.sort(key=BY_NUMBER)
        return tuple(groups)

    def _candidates(self, pod: Pod) -> Iterator[AnyGroup]:
        for label in pod.labels.items():
            yield from self._by_label.get(label, ())


class _BroadGroups:
    """Groups whose selectors require no label and value, as `NotIn` and `Exists`: they may select
    every pod.

    What breaks such an expression is looked up by the labels of a pod, so that a pod is not
    compared with every expression of every group; expressions of other kinds are compared.
    """

    def __init__(self) -> None:
        self._by_namespaces: dict[tuple[frozenset[str] | None, ...], list[AnyGroup]] = {}
        self._broken_by_value: dict[tuple[str, str], set[int]] = {}
        self._broken_by_key: dict[str, set[int]] = {}
        self._broken_without_key: dict[str, set[int]] = {}
        self._compared: set[int] = set()
        """The numbers of groups that are compared."""

    def add(self, group: AnyGroup) -> None:
        namespaces = tuple(term.namespaces for term in group.terms)
        self._by_namespaces.setdefault(namespaces, []).append(group)
        for term in group.terms:
            if term.selector.selects_nothing:
                self._compared.add(group.number)
            for expression in term.selector.match_expressions:
                self._add_expression(expression, group.number)

    def _add_expression(self, expression: SelectorRequirement, number: int) -> None:
        key = expression.key
        match expression.operator:
            case "NotIn":
                for value in expression.values:
                    self._broken_by_value.setdefault((key, value), set()).add(number)
            case "Exists":
                self._broken_without_key.setdefault(key, set()).add(number)
            case "In":
                self._compared.add(number)
            case _:
                self._broken_by_key.setdefault(key, set()).add(number)

    def selecting(self, pod: Pod) -> list[AnyGroup]:
        """The groups that select the pod."""
        found: list[AnyGroup] = []
        if not self._by_namespaces:
            return found
        broken, compared = self._broken(pod.labels), self._compared
        for namespaces, groups in self._by_namespaces.items():
            if all(each is None or pod.namespace in each for each in namespaces):
                found += [
                    group
                    for group in groups
                    if group.number not in broken
                    and (group.number not in compared or group.selects(pod.namespace, pod.labels))
                ]
        return found

    def _broken(self, labels: Mapping[str, str]) -> set[int]:
        """The numbers of groups with an expression that these labels break."""
        broken: set[int] = set()
        for key, value in labels.items():
            broken.update(self._broken_by_value.get((key, value), ()))
            broken.update(self._broken_by_key.get(key, ()))
        for key, numbers in self._broken_without_key.items():
            if key not in labels:
                broken |= numbers
        return broken


def _registration_key(pod: Pod) -> tuple[object, ...]:
    """All that the groups of a pod depend on, by identity where that is faster to compare."""
    own = id(pod.constraints), id(pod.alternatives), id(pod.tolerations)
    return (*own, pod.namespace, tuple(pod.labels.items()))


def _required_labels(spreads: Iterable[TopologySpread]) -> tuple[str, ...]:
    """Labels that a node must have to count for a required spread: those of all of the pod.

    The label of the spread itself is among them, though it is needed anyway: with the same labels
    all spreads of a pod share a filter, where thousands of them would have one each as long.
    """
    return tuple(sorted({each.key for each in spreads if each.required} - {HOSTNAME}))


# Cached: equal pods have equal terms, and the result is part of the key of their scope, which is
# compared quickly where it is one object.
@lru_cache(maxsize=4096)
def _reachable(
    node_terms: tuple[Requirements, ...] | None, volume_terms: tuple[Requirements, ...]
) -> tuple[Requirements, ...] | None:
    """The node terms combined with the volume topology terms: where pods may go."""
    if volume_terms == ANY_NODE_TERMS:
        return node_terms
    pairs = [(one, volume) for one in node_terms or ANY_NODE_TERMS for volume in volume_terms]
    combined = [
        one.narrow(volume) for one, volume in pairs if one.is_compatible(volume, set(volume))
    ]
    return tuple(dict.fromkeys(combined))


@lru_cache(maxsize=4096)  # as above
def _with_labels(
    alternatives: tuple[Requirements, ...] | None, keys: tuple[str, ...]
) -> tuple[Requirements, ...] | None:
    if not keys:
        return alternatives
    labels_exist = Requirements(parse_requirement(key, "Exists") for key in keys)
    return tuple(each.narrow(labels_exist) for each in alternatives or ANY_NODE_TERMS)
