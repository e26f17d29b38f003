"""Pod classes: pods that are equal in everything that decides where they fit are evaluated once."""

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
    """Properties of the cluster and the options that decide which pods share a class."""

    options: PlanOptions = DEFAULT_PLAN_OPTIONS
    has_soft_taints: bool = False
    """Whether any pool or node has a PreferNoSchedule taint."""
    has_attach_limits: bool = False
    """Whether any node limits its volume attachments."""


_Level: TypeAlias = tuple[
    tuple[SchedulingRequirements, ...], TopologyConstraints | None, tuple[RelaxedPreference, ...]
]


class _ClassTemplate(msgspec.Struct, frozen=True, kw_only=True):
    """What classes have in common that differ only in their resource requests."""

    number: int
    levels: tuple[_Level, ...]
    counted_by: tuple[AnyGroup, ...]
    attachments: tuple[VolumeAttachment, ...]


class PodClasses:
    """Groups pods into classes."""

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
        self._amounts_by_requests: dict[tuple[tuple[str, int], ...], Amounts] = {}
        self._by_identity: dict[tuple[object, ...], PodClass] = {}
        self._numbers: dict[str, int] = {}
        self._columns: dict[tuple[int, ...], tuple[int, ...]] = {}
        for pod in pods:
            self._class_of(pod).pods.append(pod)
        # If all pods differ, these caches are as large as everything else together.
        self._by_identity.clear()
        self._by_value.clear()
        self._amounts_by_requests.clear()

    @property
    def resources(self) -> list[str]:
        """All requested resources; the number of a resource is its position in this list."""
        return list(self._numbers)

    @property
    def pod_requirements(self) -> list[PodRequirements]:
        return [
            pod_reqs
            for pod_class in self.all
            for level in pod_class.levels
            for pod_reqs in level.alternatives
        ]

    def scheduling_requirements(
        self,
        requirements: Requirements,
        tolerations: tuple[Toleration, ...],
        ports: tuple[HostPort, ...] = (),
    ) -> SchedulingRequirements:
        key = (requirements, tolerations, ports)
        scheduling = self.scheduling.get(key)
        if scheduling is None:
            scheduling = self.scheduling[key] = SchedulingRequirements(
                requirements, tolerations, ports
            )
        return scheduling

    def _class_of(self, pod: Pod) -> PodClass:
        # Most pods of a workload share the same tuple objects: comparing identities instead of
        # values saves hashing the constraints of every pod.
        matching = (
            self.registry.matching_groups(pod) if self.registry.groups else NO_MATCHING_GROUPS
        )
        requests = tuple(pod.requests.items())
        identity = (
            requests,
            id(pod.alternatives),
            id(pod.tolerations),
            id(pod.constraints),
            id(matching),
            pod.namespace if pod.constraints is not NO_CONSTRAINTS else "",
        )
        pod_class = self._by_identity.get(identity)
        if pod_class is None:
            pod_class = self._by_identity[identity] = self._class_by_value(pod, requests, matching)
        return pod_class

    def _class_by_value(
        self, pod: Pod, requests: tuple[tuple[str, int], ...], matching: MatchingGroups
    ) -> PodClass:
        # Classes often have the requests of others: saves sorting them again.
        amounts = self._amounts_by_requests.get(requests)
        if amounts is None:
            amounts = self._amounts_by_requests[requests] = self._amounts(pod)
        template = self._template_of(pod, matching)
        value = (amounts, template.number)
        pod_class = self._by_value.get(value)
        if pod_class is None:
            pod_class = self._by_value[value] = self._create(template, amounts)
            self.all.append(pod_class)
        return pod_class

    def _template_of(self, pod: Pod, matching: MatchingGroups) -> "_ClassTemplate":
        constraints = self._constraints(pod)
        namespace = pod.namespace if constraints is not NO_CONSTRAINTS else ""
        key = (pod.alternatives, pod.tolerations, constraints, id(matching), namespace)
        template = self._templates.get(key)
        if template is None:
            owned = tuple(
                map(
                    self.registry.inverse_anti_affinity_group,
                    dict.fromkeys(constraints.anti_affinity),
                )
            )
            template = self._templates[key] = _ClassTemplate(
                number=len(self._templates),
                levels=tuple(self._levels(pod, constraints, matching)),
                counted_by=matching.counting + owned,
                attachments=constraints.attachments,
            )
        return template

    def _constraints(self, pod: Pod) -> PodConstraints:
        """Volume attachments distinguish pods only if some node limits them."""
        if self._context.has_attach_limits or not pod.constraints.attachments:
            return pod.constraints
        bare = msgspec.structs.replace(pod.constraints, attachments=())
        return NO_CONSTRAINTS if bare == NO_CONSTRAINTS else bare

    def _create(self, template: "_ClassTemplate", amounts: Amounts) -> PodClass:
        columns = tuple(map(FIRST_ITEM, amounts))
        columns = self._columns.setdefault(columns, columns)
        levels = [
            RelaxationLevel(
                tuple(
                    [PodRequirements(scheduling, amounts, columns) for scheduling in alternatives]
                ),
                constraints,
                given_up,
            )
            for alternatives, constraints, given_up in template.levels
        ]
        pod_class = PodClass(len(self.all), tuple(levels))
        pod_class.attachments, pod_class.counted_by = template.attachments, template.counted_by
        return pod_class

    def _levels(
        self, pod: Pod, constraints: PodConstraints, matching: MatchingGroups
    ) -> Iterator["_Level"]:
        policy = self._context.options.preference_policy
        for relaxed in relaxation_steps(
            constraints, policy, has_soft_taints=self._context.has_soft_taints
        ):
            tolerations = pod.tolerations
            if relaxed.tolerates_preferences:
                tolerations = (*tolerations, TOLERATE_PREFER_NO_SCHEDULE)
            alternatives = _combinations(pod.alternatives, constraints.volume_topology, relaxed)
            scheduling = tuple(
                [
                    self.scheduling_requirements(each, tolerations, constraints.ports)
                    for each in alternatives
                ]
            )
            if scheduling:
                yield (
                    scheduling,
                    topology_constraints(pod, relaxed, self.registry, matching),
                    relaxed.given_up,
                )

    def _amounts(self, pod: Pod) -> Amounts:
        """The pod's requests with one pod slot (resource `pods`), sorted by resource name."""
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
    relaxed: RelaxedConstraints,
) -> Iterable[Requirements]:
    """Each alternative with each volume topology term and the first preferred node term."""
    preferred = relaxed.preferred_nodes[0].requirements if relaxed.preferred_nodes else None
    combined: dict[Requirements, None] = {}
    for alternative in alternatives:
        for volume in volumes:
            reachable = (
                alternative
                if volumes is ANY_NODE_TERMS
                else combine_requirements(alternative, volume)
            )
            wanted = (
                reachable
                if preferred is None or reachable is None
                else combine_requirements(reachable, preferred)
            )
            if wanted is not None:
                combined[wanted] = None
    return combined
