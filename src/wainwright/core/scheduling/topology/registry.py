"""The registry: every topology constraint of the plan once, and which of them concern a pod."""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import TypeAlias

from wainwright.core.scheduling.topology.groups import (
    AnyGroup,
    ConstraintKind,
    HostGroup,
    LabelGroup,
    NodeFilter,
)
from wainwright.model.labels import HOSTNAME
from wainwright.model.pod import (
    ANY_NODE_TERMS,
    NO_CONSTRAINTS,
    AffinityTerm,
    Pod,
    PodConstraints,
    TopologySpread,
)
from wainwright.model.requirements import Requirements, parse_requirement
from wainwright.model.taints import Toleration

PodIdentity: TypeAlias = tuple[str, tuple[tuple[str, str], ...]]
"""Namespace and labels: all that selectors see of a pod."""


class MatchingGroups:
    """What others' constraints have to do with pods of one look."""

    __slots__ = ("counted", "shunned")

    def __init__(self, counted: tuple[AnyGroup, ...], shunned: tuple[AnyGroup, ...]) -> None:
        self.counted = counted
        """The groups that count such a pod."""
        self.shunned = shunned
        """Pods that do not want it near."""


NO_MATCHING_GROUPS = MatchingGroups((), ())


class TopologyRegistry:
    """Finds groups by what they mean; equal constraints share one."""

    def __init__(self) -> None:
        self.groups: dict[object, AnyGroup] = {}
        self._anchored: dict[tuple[str, str], list[AnyGroup]] = {}
        self._other: list[AnyGroup] = []
        self._filters: dict[object, NodeFilter] = {}
        self._standings: dict[PodIdentity, MatchingGroups] = {}
        self._equal: dict[tuple[int, ...], MatchingGroups] = {}

    @property
    def keys(self) -> list[str]:
        """The labels over which anything is counted, but for the hostname."""
        found = (group.key for group in self.groups.values() if isinstance(group, LabelGroup))
        return list(dict.fromkeys(found))

    def spread(self, pod: Pod, spread: TopologySpread) -> AnyGroup:
        asked = pod.alternatives if pod.alternatives != ANY_NODE_TERMS else None
        places = pod.constraints.volume_topology
        reach = asked if places is ANY_NODE_TERMS else _reachable(asked, places)
        others = _other_keys(pod, spread)
        honoured = asked if spread.honor_affinity else None
        alternatives = _with_labels(honoured, others)
        tolerations = pod.tolerations if spread.honor_taints else None
        itself = spread.selector.selects(pod.labels)
        name = (
            ConstraintKind.SPREAD,
            pod.namespace,
            spread,
            asked,
            reach,
            tolerations,
            itself,
            others,
        )
        found = self.groups.get(name)
        if found is None:
            inside = frozenset({pod.namespace})
            means = AffinityTerm(key=spread.key, selector=spread.selector, namespaces=inside)
            # A new node is always possible, so that the emptiest counts as empty.
            limit = spread.max_skew + (not itself)
            found = self._new(name, ConstraintKind.SPREAD, (means,), limit)
            found.spread, found.filter = spread, self._filter(alternatives, tolerations, reach)
            found.roams = reach != honoured
        return found

    def _filter(
        self,
        alternatives: tuple[Requirements, ...] | None,
        tolerations: tuple[Toleration, ...] | None,
        reach: tuple[Requirements, ...] | None,
    ) -> NodeFilter:
        key = (alternatives, tolerations, reach)
        found = self._filters.get(key)
        if found is None:
            found = self._filters[key] = NodeFilter(alternatives, tolerations, reach)
        return found

    def near(self, terms: tuple[AffinityTerm, ...]) -> tuple[AnyGroup, ...]:
        """One for each term; every one of them counts the pods that all terms mean."""
        found = []
        for key in dict.fromkeys(term.key for term in terms):
            name = (ConstraintKind.NEAR, key, terms)
            found.append(
                self.groups.get(name) or self._new(name, ConstraintKind.NEAR, terms, 1, key)
            )
        return tuple(found)

    def away(self, term: AffinityTerm) -> AnyGroup:
        name = (ConstraintKind.AWAY, term)
        return self.groups.get(name) or self._new(name, ConstraintKind.AWAY, (term,), 1)

    def shunned(self, term: AffinityTerm) -> AnyGroup:
        name = (ConstraintKind.SHUNNED, term)
        return self.groups.get(name) or self._new(name, ConstraintKind.SHUNNED, (term,), 1)

    def introduce(self, pods: Iterable[Pod], running: Iterable[Pod]) -> None:
        """Registers every constraint; only then can pods be told where they stand."""
        seen: set[tuple[object, ...]] = set()
        for pod in pods:
            if pod.constraints is not NO_CONSTRAINTS:
                look = _registration_key(
                    pod
                )  # most pods share the very constraints of their workload
                if look not in seen:
                    seen.add(look)
                    self._register(pod, pod.constraints)
        for pod in running:
            self._shun(pod, pod.constraints)

    def standing(self, pod: Pod) -> MatchingGroups:
        if not self.groups:
            return NO_MATCHING_GROUPS
        look = (pod.namespace, tuple(pod.labels.items()))
        found = self._standings.get(look)
        if found is None:
            found = self._standings[look] = self._find(pod)
        return found

    def _register(self, pod: Pod, constraints: PodConstraints) -> None:
        for spread in constraints.spreads:
            self.spread(pod, spread)
        if constraints.affinity:
            self.near(constraints.affinity)
        for term in constraints.anti_affinity:
            self.away(term)
        self._shun(pod, constraints)
        for preferred in constraints.preferred_affinity:
            self.near((preferred.term,))
        for preferred in constraints.preferred_anti_affinity:
            self.away(preferred.term)

    def _shun(self, pod: Pod, constraints: PodConstraints) -> None:
        for term in constraints.anti_affinity:
            group = self.shunned(term)
            group.alien = group.alien or not term.matches(pod.namespace, pod.labels)

    def _new(
        self,
        name: object,
        kind: ConstraintKind,
        meaning: tuple[AffinityTerm, ...],
        limit: int,
        key: str | None = None,
    ) -> AnyGroup:
        key = key or meaning[0].key
        made: AnyGroup
        number = len(self.groups)
        if key == HOSTNAME:
            made = HostGroup(kind, key, meaning, number, limit)
        else:
            made = LabelGroup(kind, key, meaning, number)
        self.groups[name] = made
        anchor = meaning[0].selector.required_label
        place = self._other if anchor is None else self._anchored.setdefault(anchor, [])
        place.append(made)
        return made

    def _find(self, pod: Pod) -> MatchingGroups:
        found = [
            each for each in self._concerning(pod) if each.speaks_of(pod.namespace, pod.labels)
        ]
        found.sort(key=lambda each: each.number)
        name = tuple(map(id, found))
        standing = self._equal.get(name)
        if standing is None:
            counted = tuple(each for each in found if each.kind is not ConstraintKind.SHUNNED)
            shunned = tuple(each for each in found if each.kind is ConstraintKind.SHUNNED)
            standing = self._equal[name] = MatchingGroups(counted, shunned)
        return standing

    def _concerning(self, pod: Pod) -> Iterator[AnyGroup]:
        yield from self._other
        for label in pod.labels.items():
            yield from self._anchored.get(label, ())


def _registration_key(pod: Pod) -> tuple[object, ...]:
    """All that the groups of a pod depend on, by identity where that is quicker to compare."""
    own = id(pod.constraints), id(pod.alternatives), id(pod.tolerations)
    return (*own, pod.namespace, tuple(pod.labels.items()))


def _other_keys(pod: Pod, spread: TopologySpread) -> tuple[str, ...]:
    """Labels that a node must have to count: those of all spreads that bind the pod."""
    if not spread.required:
        return ()
    keys = {each.key for each in pod.constraints.spreads if each.required}
    return tuple(sorted(keys - {spread.key, HOSTNAME}))


@lru_cache(maxsize=4096)
def _reachable(
    asked: tuple[Requirements, ...] | None, places: tuple[Requirements, ...]
) -> tuple[Requirements, ...] | None:
    """Where pods may go that ask for this and have their volumes in these places."""
    if places == ANY_NODE_TERMS:
        return asked
    pairs = [(one, place) for one in asked or ANY_NODE_TERMS for place in places]
    found = [one.narrow(place) for one, place in pairs if one.is_compatible(place, set(place))]
    return tuple(dict.fromkeys(found))


@lru_cache(maxsize=4096)
def _with_labels(
    alternatives: tuple[Requirements, ...] | None, keys: tuple[str, ...]
) -> tuple[Requirements, ...] | None:
    if not keys:
        return alternatives
    there = Requirements(parse_requirement(key, "Exists") for key in keys)
    return tuple(each.narrow(there) for each in alternatives or ANY_NODE_TERMS)
