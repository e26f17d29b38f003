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

    __slots__ = ("_met", "away", "full", "groups", "labels", "near", "spreads", "there")

    def __init__(
        self,
        spreads: Sequence[tuple[LabelGroup, bool]],
        near: Sequence[AffinityGroups],
        away: Sequence[LabelGroup],
        full: Sequence[HostGroup],
    ) -> None:
        self.spreads = tuple(spreads)
        """With each whether the pod itself is counted."""
        self.near = tuple(near)
        self.away = tuple(away)
        """Values of a label with any pod in these are out of bounds."""
        self.full = tuple(full)
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
        self.labels = tuple(each for each in self.groups if isinstance(each, LabelGroup))
        self.there: tuple[str, ...] = ()
        """Labels that the node must have, whatever their values."""
        self._met: dict[int, TopologyConstraints] = {}

    def through(self, forks: Mapping[int, AnyGroup]) -> "TopologyConstraints":
        """The same with forks in the place of the groups that they came from."""
        if not any(group.number in forks for group in self.groups):
            return self
        return TopologyConstraints(
            [(_label_group(forks, group), itself) for group, itself in self.spreads],
            [(tuple(forks.get(g.number, g) for g in groups), own) for groups, own in self.near],
            [_label_group(forks, group) for group in self.away],
            [_host_group(forks, group) for group in self.full],
        )

    def met(self, number: int) -> "TopologyConstraints":
        """What is left of it on a node that has one of each whom the pod wants to be near."""
        found = self._met.get(number)
        if found is None:
            near = self.near[:number] + self.near[number + 1 :]
            found = self._met[number] = TopologyConstraints(
                self.spreads, near, self.away, self.full
            )
            groups = self.near[number][0]
            found.there = tuple(each.key for each in groups if isinstance(each, LabelGroup))
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
        group = registry.spread(pod, spread)
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
    for terms in (*wanted, *((each.term,) for each in degree.near)):
        yield registry.near(terms), _selects(terms, pod)


def _selects(terms: Iterable[AffinityTerm], pod: Pod) -> bool:
    return all(term.matches(pod.namespace, pod.labels) for term in terms)


def _anti_affinity_groups(
    degree: RelaxedConstraints, registry: TopologyRegistry, standing: MatchingGroups
) -> Iterator[AnyGroup]:
    own = degree.anti_affinity
    yield from (registry.away(term) for term in own)
    yield from (registry.away(each.term) for each in degree.away)
    # Those who shun their own kind are among those whom such a pod avoids already.
    yield from (each for each in standing.shunned if each.alien or each.meaning[0] not in own)
