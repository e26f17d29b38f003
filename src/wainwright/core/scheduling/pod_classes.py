"""Pod classes: pods that cannot be told apart by where they fit are evaluated once."""

from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import Final, TypeAlias

import msgspec

from wainwright.core.scheduling.pod_requirements import (
    Amounts,
    PodClass,
    PodRequirements,
    RelaxationLevel,
    SchedulingRequirements,
    combine_requirements,
)
from wainwright.core.scheduling.relaxation import RelaxedConstraints, relaxation_steps
from wainwright.core.scheduling.topology.constraints import (
    TopologyConstraints,
    topology_constraints,
)
from wainwright.core.scheduling.topology.groups import AnyGroup
from wainwright.core.scheduling.topology.registry import (
    NO_MATCHING_GROUPS,
    MatchingGroups,
    TopologyRegistry,
)
from wainwright.model.plan import DEFAULT_PLAN_OPTIONS, PlanOptions
from wainwright.model.pod import (
    ANY_NODE_TERMS,
    NO_CONSTRAINTS,
    HostPort,
    Pod,
    PodConstraints,
    VolumeAttachment,
)
from wainwright.model.reasons import RelaxedPreference
from wainwright.model.requirements import Requirements
from wainwright.model.resources import PODS
from wainwright.model.taints import TOLERATE_PREFER_NO_SCHEDULE, Toleration

FIRST_ITEM: Final = itemgetter(0)

SchedulingKey: TypeAlias = tuple[Requirements, tuple[Toleration, ...], tuple[HostPort, ...]]


class ClassificationContext(msgspec.Struct, frozen=True, kw_only=True):
    """What decides, besides the pods themselves, how they come apart into classes."""

    options: PlanOptions = DEFAULT_PLAN_OPTIONS
    has_soft_taints: bool = False
    """Whether any pool or node has a taint that does not bind."""
    has_attach_limits: bool = False
    """Whether any node takes only so many volumes."""


_Level: TypeAlias = tuple[
    tuple[SchedulingRequirements, ...], TopologyConstraints | None, tuple[RelaxedPreference, ...]
]


class _ClassTemplate(msgspec.Struct, frozen=True, kw_only=True):
    """What classes have in common that differ only in the room they need."""

    number: int
    levels: tuple[_Level, ...]
    counted_by: tuple[AnyGroup, ...]
    attachments: tuple[VolumeAttachment, ...]


class PodClasses:
    """Sorts pods into classes."""

    def __init__(
        self,
        pods: Iterable[Pod],
        registry: TopologyRegistry | None = None,
        context: ClassificationContext = ClassificationContext(),  # noqa: B008 - a frozen value
    ) -> None:
        self.all: list[PodClass] = []
        self.scheduling: dict[SchedulingKey, SchedulingRequirements] = {}
        self.registry = registry or TopologyRegistry()
        self._context = context
        self._templates: dict[object, _ClassTemplate] = {}
        self._by_value: dict[object, PodClass] = {}
        self._by_identity: dict[tuple[object, ...], PodClass] = {}
        self._numbers: dict[str, int] = {}
        self._columns: dict[tuple[int, ...], tuple[int, ...]] = {}
        for pod in pods:
            self._class_of(pod).pods.append(pod)
        self._by_identity.clear()  # with all pods different these are as large as the rest together
        self._by_value.clear()

    @property
    def resources(self) -> list[str]:
        """The resources that anybody asks for; a resource goes by its place in this list."""
        return list(self._numbers)

    @property
    def pod_requirements(self) -> list[PodRequirements]:
        return [wish for group in self.all for stage in group.levels for wish in stage.alternatives]

    def scheduling_requirements(
        self,
        requirements: Requirements,
        tolerations: tuple[Toleration, ...],
        ports: tuple[HostPort, ...] = (),
    ) -> SchedulingRequirements:
        key = (requirements, tolerations, ports)
        found = self.scheduling.get(key)
        if found is None:
            found = self.scheduling[key] = SchedulingRequirements(requirements, tolerations, ports)
        return found

    def _class_of(self, pod: Pod) -> PodClass:
        # Most pods share the very tuples of their workload, which saves looking into them.
        standing = (
            self.registry.matching_groups(pod) if self.registry.groups else NO_MATCHING_GROUPS
        )
        seen = (
            tuple(pod.requests.items()),
            id(pod.alternatives),
            id(pod.tolerations),
            id(pod.constraints),
            id(standing),
            pod.namespace if pod.constraints is not NO_CONSTRAINTS else "",
        )
        found = self._by_identity.get(seen)
        if found is None:
            found = self._by_identity[seen] = self._class_by_value(pod, standing)
        return found

    def _class_by_value(self, pod: Pod, standing: MatchingGroups) -> PodClass:
        amounts, mould = self._amounts(pod), self._template_of(pod, standing)
        value = (amounts, mould.number)
        found = self._by_value.get(value)
        if found is None:
            found = self._by_value[value] = self._create(mould, amounts)
            self.all.append(found)
        return found

    def _template_of(self, pod: Pod, standing: MatchingGroups) -> "_ClassTemplate":
        constraints = self._constraints(pod)
        namespace = pod.namespace if constraints is not NO_CONSTRAINTS else ""
        asked = (pod.alternatives, pod.tolerations, constraints, id(standing), namespace)
        found = self._templates.get(asked)
        if found is None:
            owned = tuple(
                map(
                    self.registry.inverse_anti_affinity_group,
                    dict.fromkeys(constraints.anti_affinity),
                )
            )
            found = self._templates[asked] = _ClassTemplate(
                number=len(self._templates),
                levels=tuple(self._levels(pod, constraints, standing)),
                counted_by=standing.counting + owned,
                attachments=constraints.attachments,
            )
        return found

    def _constraints(self, pod: Pod) -> PodConstraints:
        """Volumes set pods apart only where somebody counts them."""
        if self._context.has_attach_limits or not pod.constraints.attachments:
            return pod.constraints
        bare = msgspec.structs.replace(pod.constraints, attachments=())
        return NO_CONSTRAINTS if bare == NO_CONSTRAINTS else bare

    def _create(self, mould: "_ClassTemplate", amounts: Amounts) -> PodClass:
        columns = tuple(map(FIRST_ITEM, amounts))
        columns = self._columns.setdefault(columns, columns)
        stages = [
            RelaxationLevel(
                tuple([PodRequirements(ask, amounts, columns) for ask in asks]), tied, given_up
            )
            for asks, tied, given_up in mould.levels
        ]
        made = PodClass(len(self.all), tuple(stages))
        made.attachments, made.counted_by = mould.attachments, mould.counted_by
        return made

    def _levels(
        self, pod: Pod, constraints: PodConstraints, standing: MatchingGroups
    ) -> Iterator["_Level"]:
        policy = self._context.options.preference_policy
        for degree in relaxation_steps(constraints, policy, tainted=self._context.has_soft_taints):
            tolerations = pod.tolerations
            if degree.tolerates_preferences:
                tolerations = (*tolerations, TOLERATE_PREFER_NO_SCHEDULE)
            places = _combinations(pod.alternatives, constraints.volume_topology, degree)
            asks = tuple(
                [
                    self.scheduling_requirements(each, tolerations, constraints.ports)
                    for each in places
                ]
            )
            if asks:
                yield (
                    asks,
                    topology_constraints(pod, degree, self.registry, standing),
                    degree.given_up,
                )

    def _amounts(self, pod: Pod) -> Amounts:
        """What the pod asks for, a slot included, in the order of the resources' names."""
        wanted, numbers = {**pod.requests, PODS: 1}, self._numbers
        return tuple(
            [
                (numbers.setdefault(name, len(numbers)), wanted[name])
                for name in sorted(wanted)
                if wanted[name] > 0
            ]
        )


def _combinations(
    alternatives: tuple[Requirements, ...],
    volumes: tuple[Requirements, ...],
    degree: RelaxedConstraints,
) -> Iterable[Requirements]:
    """Each alternative with each place of the volumes, and with the nodes that it would like."""
    liked = degree.preferred_nodes[0].requirements if degree.preferred_nodes else None
    found: dict[Requirements, None] = {}
    for alternative in alternatives:
        for volume in volumes:
            reached = (
                alternative
                if volumes is ANY_NODE_TERMS
                else combine_requirements(alternative, volume)
            )
            wanted = (
                reached
                if liked is None or reached is None
                else combine_requirements(reached, liked)
            )
            if wanted is not None:
                found[wanted] = None
    return found
