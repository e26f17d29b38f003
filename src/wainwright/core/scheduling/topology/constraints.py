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
        self.groups: tuple[AnyGroup, ...] = tuple(
            dict.fromkeys(
                [
                    *(group for group, _ in spreads),
                    *(group for groups, _ in affinity for group in groups),
                    *anti_affinity,
                    *host_groups,
                ]
            )
        )
        self.label_groups = tuple(each for each in self.groups if isinstance(each, LabelGroup))
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


def topology_constraints(
    pod: Pod, relaxed: RelaxedConstraints, registry: TopologyRegistry, matching: MatchingGroups
) -> TopologyConstraints | None:
    """The constraints at this relaxation level; None if the pod may go anywhere."""
    spreads: list[tuple[LabelGroup, bool]] = []
    anti_affinity: list[LabelGroup] = []
    host_groups: list[HostGroup] = []
    for spread in relaxed.spreads:
        group = registry.spread_group(pod, spread)
        if isinstance(group, HostGroup):
            host_groups.append(group)
        else:
            spreads.append((group, spread.selector.selects(pod.labels)))
    for group in _anti_affinity_groups(relaxed, registry, matching):
        if isinstance(group, HostGroup):
            host_groups.append(group)
        else:
            anti_affinity.append(group)
    affinity = list(_affinity_groups(pod, relaxed, registry))
    return (
        TopologyConstraints(spreads, affinity, anti_affinity, host_groups)
        if spreads or affinity or anti_affinity or host_groups
        else None
    )


def _affinity_groups(
    pod: Pod, relaxed: RelaxedConstraints, registry: TopologyRegistry
) -> Iterator[AffinityGroups]:
    required = [relaxed.affinity] if relaxed.affinity else []
    for terms in (*required, *((each.term,) for each in relaxed.preferred_affinity)):
        yield registry.affinity_groups(terms), _selects(terms, pod)


def _selects(terms: Iterable[AffinityTerm], pod: Pod) -> bool:
    return all(term.matches(pod.namespace, pod.labels) for term in terms)


def _anti_affinity_groups(
    relaxed: RelaxedConstraints, registry: TopologyRegistry, matching: MatchingGroups
) -> Iterator[AnyGroup]:
    own = relaxed.anti_affinity
    yield from (registry.anti_affinity_group(term) for term in own)
    yield from (registry.anti_affinity_group(each.term) for each in relaxed.preferred_anti_affinity)
    # Pods with anti-affinity to pods like themselves are among those that such a pod avoids
    # already.
    yield from (
        each
        for each in matching.inverse_anti_affinity
        if each.has_unselected_owner or each.terms[0] not in own
    )
