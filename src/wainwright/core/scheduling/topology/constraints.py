"""Topology constraints: the groups that decide where pods of a class may go."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

from wainwright.core.scheduling.relaxation import RelaxedConstraints
from wainwright.core.scheduling.topology.groups import AnyGroup, HostGroup, LabelGroup
from wainwright.core.scheduling.topology.registry import MatchingGroups, TopologyRegistry
from wainwright.model.pod import AffinityTerm, Pod

AffinityGroups: TypeAlias = tuple[tuple[AnyGroup, ...], bool]
"""Groups of pods to be near, all at once, and whether the pod itself could be the first of them."""


class TopologyConstraints:
    """The topology groups that constrain where a pod may go."""

    __slots__ = (
        "_without_affinity",
        "affinity",
        "anti_affinity",
        "groups",
        "host_groups",
        "is_by_host_only",
        "label_groups",
        "required_labels",
        "spreads",
    )

    def __init__(
        self,
        spreads: Sequence[tuple[LabelGroup, bool]],
        affinity: Sequence[AffinityGroups],
        anti_affinity: Sequence[LabelGroup],
        host_groups: Sequence[HostGroup],
    ) -> None:
        self.spreads = tuple(spreads)
        """Each with whether the pod itself is counted."""
        self.affinity = tuple(affinity)
        self.anti_affinity = tuple(anti_affinity)
        """Label values with any pod of these groups are forbidden."""
        self.host_groups = tuple(host_groups)
        """Nodes and drafts that are full in any of these groups are forbidden."""
        unique: tuple[AnyGroup, ...] = tuple(
            dict.fromkeys(
                [
                    *(group for group, _ in spreads),
                    *(group for groups, _ in affinity for group in groups),
                    *anti_affinity,
                    *host_groups,
                ]
            )
        )
        # One tuple where they are equal: it is as long as there are pods with anti-affinity.
        self.groups = self.host_groups if unique == self.host_groups else unique
        self.label_groups = tuple([each for each in self.groups if isinstance(each, LabelGroup)])
        self.is_by_host_only = not (self.label_groups or affinity)
        """Whether only full nodes and drafts are excluded, so that a new node may be anywhere."""
        self.required_labels: tuple[str, ...] = ()
        """Labels that the node must have, with any value."""
        self._without_affinity: dict[int, TopologyConstraints] = {}

    def on_groups(self, own_group: Callable[[AnyGroup], AnyGroup]) -> "TopologyConstraints":
        """The same constraints on other groups: those of a fork."""
        forked = TopologyConstraints(
            [(_label_group(own_group(group)), itself) for group, itself in self.spreads],
            [(tuple(map(own_group, groups)), itself) for groups, itself in self.affinity],
            [_label_group(own_group(group)) for group in self.anti_affinity],
            [_host_group(own_group(group)) for group in self.host_groups],
        )
        forked.required_labels = self.required_labels
        return forked

    def without_affinity(self, number: int) -> "TopologyConstraints":
        """The same without one affinity, for nodes that already satisfy it."""
        constraints = self._without_affinity.get(number)
        if constraints is None:
            affinity = self.affinity[:number] + self.affinity[number + 1 :]
            constraints = self._without_affinity[number] = TopologyConstraints(
                self.spreads, affinity, self.anti_affinity, self.host_groups
            )
            groups = self.affinity[number][0]
            constraints.required_labels = tuple(
                each.key for each in groups if isinstance(each, LabelGroup)
            )
        return constraints

    @property
    def version(self) -> int:
        """Changes whenever any of its groups changes."""
        return sum(group.version for group in self.groups)


def _label_group(group: AnyGroup) -> LabelGroup:
    assert isinstance(group, LabelGroup)
    return group


def _host_group(group: AnyGroup) -> HostGroup:
    assert isinstance(group, HostGroup)
    return group


class PodGroups:
    """The topology groups that concern a pod, of which each relaxation level has some.

    Looked up once for all levels: each has all constraints but those that were given up.
    """

    def __init__(self, pod: Pod, registry: TopologyRegistry, matching: MatchingGroups) -> None:
        constraints = pod.constraints
        self._spreads = {
            spread: (group, spread.selector.selects(pod.labels))
            for spread, group in registry.spread_groups(pod).items()
        }
        required = [constraints.affinity] if constraints.affinity else []
        preferred = ((each.term,) for each in constraints.preferred_affinity)
        self._affinity: dict[tuple[AffinityTerm, ...], AffinityGroups] = {
            terms: (registry.affinity_groups(terms), _selects(terms, pod))
            for terms in (*required, *preferred)
        }
        avoided = (each.term for each in constraints.preferred_anti_affinity)
        self._anti_affinity = {
            term: registry.anti_affinity_group(term)
            for term in (*constraints.anti_affinity, *avoided)
        }
        own = map(registry.inverse_anti_affinity_group, constraints.anti_affinity)
        # Pods with anti-affinity to pods like themselves are among those that such a pod avoids
        # already.
        known = {group for group in own if not group.has_unselected_owner}
        inverse = [each for each in matching.inverse_anti_affinity if each not in known]
        self._inverse_hosts = [each for each in inverse if isinstance(each, HostGroup)]
        self._inverse_labels = [each for each in inverse if isinstance(each, LabelGroup)]

    def constraints_of(self, relaxed: RelaxedConstraints) -> TopologyConstraints | None:
        """The constraints at this relaxation level; None if the pod may go anywhere."""
        spreads: list[tuple[LabelGroup, bool]] = []
        anti_affinity: list[LabelGroup] = []
        host_groups: list[HostGroup] = []
        for each in relaxed.spreads:
            group, itself = self._spreads[each]
            if isinstance(group, HostGroup):
                host_groups.append(group)
            else:
                spreads.append((group, itself))
        for group in self._avoided(relaxed):
            if isinstance(group, HostGroup):
                host_groups.append(group)
            else:
                anti_affinity.append(group)
        anti_affinity += self._inverse_labels
        host_groups += self._inverse_hosts
        affinity = list(self._near(relaxed))
        return (
            TopologyConstraints(spreads, affinity, anti_affinity, host_groups)
            if spreads or affinity or anti_affinity or host_groups
            else None
        )

    def _near(self, relaxed: RelaxedConstraints) -> Iterator[AffinityGroups]:
        if relaxed.affinity:
            yield self._affinity[relaxed.affinity]
        for each in relaxed.preferred_affinity:
            yield self._affinity[each.term,]

    def _avoided(self, relaxed: RelaxedConstraints) -> Iterator[AnyGroup]:
        for term in relaxed.anti_affinity:
            yield self._anti_affinity[term]
        for each in relaxed.preferred_anti_affinity:
            yield self._anti_affinity[each.term]


def _selects(terms: Iterable[AffinityTerm], pod: Pod) -> bool:
    return all(term.matches(pod.namespace, pod.labels) for term in terms)
