"""Topology constraints: the groups that decide where pods of a class may go."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from wainwright.core.scheduling.relaxation import RelaxedConstraints
from wainwright.core.scheduling.topology.groups import AnyGroup, HostGroup, LabelGroup
from wainwright.core.scheduling.topology.registry import MatchingGroups, TopologyRegistry
from wainwright.model.pod import AffinityTerm, Pod

AffinityGroups: TypeAlias = tuple[tuple[AnyGroup, ...], bool]
"""Groups of pods to be near at once, and whether the pod itself would do as the first of them."""


class TopologyConstraints:
    """What others' places, and those of its own kind, leave to a pod."""

    __slots__ = (
        "_without_affinity",
        "affinity",
        "anti_affinity",
        "groups",
        "host_groups",
        "label_groups",
        "required_labels",
        "spreads",
    )

    def __init__(
        self,
        spreads: Sequence[tuple[LabelGroup, bool]],
        near: Sequence[AffinityGroups],
        away: Sequence[LabelGroup],
        full: Sequence[HostGroup],
    ) -> None:
        self.spreads = tuple(spreads)
        """With each whether the pod itself is counted."""
        self.affinity = tuple(near)
        self.anti_affinity = tuple(away)
        """Values of a label with any pod in these are out of bounds."""
        self.host_groups = tuple(full)
        """Nodes and drafts that are full in any of these are out of bounds."""
        self.groups: tuple[AnyGroup, ...] = tuple(
            dict.fromkeys(
                [
                    *(group for group, _ in spreads),
                    *(group for groups, _ in near for group in groups),
                    *away,
                    *full,
                ]
            )
        )
        self.label_groups = tuple(each for each in self.groups if isinstance(each, LabelGroup))
        self.required_labels: tuple[str, ...] = ()
        """Labels that the node must have, whatever their values."""
        self._without_affinity: dict[int, TopologyConstraints] = {}

    def with_forks(self, forks: Mapping[int, AnyGroup]) -> "TopologyConstraints":
        """The same with forks in the place of the groups that they came from."""
        if not any(group.number in forks for group in self.groups):
            return self
        return TopologyConstraints(
            [(_label_group(forks, group), itself) for group, itself in self.spreads],
            [(tuple(forks.get(g.number, g) for g in groups), own) for groups, own in self.affinity],
            [_label_group(forks, group) for group in self.anti_affinity],
            [_host_group(forks, group) for group in self.host_groups],
        )

    def without_affinity(self, number: int) -> "TopologyConstraints":
        """What is left of it on a node that has one of each whom the pod wants to be near."""
        found = self._without_affinity.get(number)
        if found is None:
            near = self.affinity[:number] + self.affinity[number + 1 :]
            found = self._without_affinity[number] = TopologyConstraints(
                self.spreads, near, self.anti_affinity, self.host_groups
            )
            groups = self.affinity[number][0]
            found.required_labels = tuple(
                each.key for each in groups if isinstance(each, LabelGroup)
            )
        return found

    @property
    def version(self) -> int:
        """Changes whenever any of its groups does."""
        return sum(group.version for group in self.groups)


def _label_group(forks: Mapping[int, AnyGroup], group: LabelGroup) -> LabelGroup:
    fork = forks.get(group.number, group)
    assert isinstance(fork, LabelGroup)
    return fork


def _host_group(forks: Mapping[int, AnyGroup], group: HostGroup) -> HostGroup:
    fork = forks.get(group.number, group)
    assert isinstance(fork, HostGroup)
    return fork


def topology_constraints(
    pod: Pod, degree: RelaxedConstraints, registry: TopologyRegistry, standing: MatchingGroups
) -> TopologyConstraints | None:
    """None for a pod that may go anywhere, whoever is there."""
    spreads: list[tuple[LabelGroup, bool]] = []
    away: list[LabelGroup] = []
    full: list[HostGroup] = []
    for spread in degree.spreads:
        group = registry.spread_group(pod, spread)
        if isinstance(group, HostGroup):
            full.append(group)
        else:
            spreads.append((group, spread.selector.selects(pod.labels)))
    for group in _anti_affinity_groups(degree, registry, standing):
        if isinstance(group, HostGroup):
            full.append(group)
        else:
            away.append(group)
    near = list(_affinity_groups(pod, degree, registry))
    return (
        TopologyConstraints(spreads, near, away, full) if spreads or near or away or full else None
    )


def _affinity_groups(
    pod: Pod, degree: RelaxedConstraints, registry: TopologyRegistry
) -> Iterator[AffinityGroups]:
    wanted = [degree.affinity] if degree.affinity else []
    for terms in (*wanted, *((each.term,) for each in degree.preferred_affinity)):
        yield registry.affinity_groups(terms), _selects(terms, pod)


def _selects(terms: Iterable[AffinityTerm], pod: Pod) -> bool:
    return all(term.means(pod.namespace, pod.labels) for term in terms)


def _anti_affinity_groups(
    degree: RelaxedConstraints, registry: TopologyRegistry, standing: MatchingGroups
) -> Iterator[AnyGroup]:
    own = degree.anti_affinity
    yield from (registry.anti_affinity_group(term) for term in own)
    yield from (registry.anti_affinity_group(each.term) for each in degree.preferred_anti_affinity)
    # Those who shun their own kind are among those whom such a pod avoids already.
    yield from (
        each
        for each in standing.inverse_anti_affinity
        if each.has_unselected_owner or each.terms[0] not in own
    )
