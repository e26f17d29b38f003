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
    tainted: bool = False
    """Whether any pool or node has a taint that does not bind."""
    attachable: bool = False
    """Whether any node takes only so many volumes."""


_Level: TypeAlias = tuple[
    tuple[SchedulingRequirements, ...], TopologyConstraints | None, tuple[RelaxedPreference, ...]
]


class _ClassTemplate(msgspec.Struct, frozen=True, kw_only=True):
    """What classes have in common that differ only in the room they need."""

    number: int
    degrees: tuple[_Level, ...]
    counted: tuple[AnyGroup, ...]
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
        self.asks: dict[SchedulingKey, SchedulingRequirements] = {}
        self.registry = registry or TopologyRegistry()
        self._context = context
        self._moulds: dict[object, _ClassTemplate] = {}
        self._by_value: dict[object, PodClass] = {}
        self._by_looks: dict[tuple[object, ...], PodClass] = {}
        self._numbers: dict[str, int] = {}
        self._columns: dict[tuple[int, ...], tuple[int, ...]] = {}
        for pod in pods:
            self._class_of(pod).pods.append(pod)
        self._by_looks.clear()  # with all pods different these are as large as the rest together
        self._by_value.clear()

    @property
    def resources(self) -> list[str]:
        """The resources that anybody asks for; a resource goes by its place in this list."""
        return list(self._numbers)

    @property
    def wishes(self) -> list[PodRequirements]:
        return [wish for group in self.all for stage in group.stages for wish in stage.wishes]

    def ask(
        self,
        requirements: Requirements,
        tolerations: tuple[Toleration, ...],
        ports: tuple[HostPort, ...] = (),
    ) -> SchedulingRequirements:
        key = (requirements, tolerations, ports)
        found = self.asks.get(key)
        if found is None:
            found = self.asks[key] = SchedulingRequirements(requirements, tolerations, ports)
        return found

    def _class_of(self, pod: Pod) -> PodClass:
        # Most pods share the very tuples of their workload, which saves looking into them.
        standing = self.registry.standing(pod) if self.registry.groups else NO_MATCHING_GROUPS
        seen = (
            tuple(pod.requests.items()),
            id(pod.alternatives),
            id(pod.tolerations),
            id(pod.constraints),
            id(standing),
            pod.namespace if pod.constraints is not NO_CONSTRAINTS else "",
        )
        found = self._by_looks.get(seen)
        if found is None:
            found = self._by_looks[seen] = self._equal_to(pod, standing)
        return found

    def _equal_to(self, pod: Pod, standing: MatchingGroups) -> PodClass:
        amounts, mould = self._amounts(pod), self._mould(pod, standing)
        value = (amounts, mould.number)
        found = self._by_value.get(value)
        if found is None:
            found = self._by_value[value] = self._cast(mould, amounts)
            self.all.append(found)
        return found

    def _mould(self, pod: Pod, standing: MatchingGroups) -> "_ClassTemplate":
        constraints = self._bonds(pod)
        namespace = pod.namespace if constraints is not NO_CONSTRAINTS else ""
        asked = (pod.alternatives, pod.tolerations, constraints, id(standing), namespace)
        found = self._moulds.get(asked)
        if found is None:
            owned = tuple(map(self.registry.shunned, dict.fromkeys(constraints.anti_affinity)))
            found = self._moulds[asked] = _ClassTemplate(
                number=len(self._moulds),
                degrees=tuple(self._degrees(pod, constraints, standing)),
                counted=standing.counted + owned,
                attachments=constraints.attachments,
            )
        return found

    def _bonds(self, pod: Pod) -> PodConstraints:
        """Volumes set pods apart only where somebody counts them."""
        if self._context.attachable or not pod.constraints.attachments:
            return pod.constraints
        bare = msgspec.structs.replace(pod.constraints, attachments=())
        return NO_CONSTRAINTS if bare == NO_CONSTRAINTS else bare

    def _cast(self, mould: "_ClassTemplate", amounts: Amounts) -> PodClass:
        columns = tuple(map(FIRST_ITEM, amounts))
        columns = self._columns.setdefault(columns, columns)
        stages = [
            RelaxationLevel(
                tuple([PodRequirements(ask, amounts, columns) for ask in asks]), tied, given_up
            )
            for asks, tied, given_up in mould.degrees
        ]
        made = PodClass(len(self.all), tuple(stages))
        made.attachments, made.counted = mould.attachments, mould.counted
        return made

    def _degrees(
        self, pod: Pod, constraints: PodConstraints, standing: MatchingGroups
    ) -> Iterator["_Level"]:
        policy = self._context.options.preference_policy
        for degree in relaxation_steps(constraints, policy, tainted=self._context.tainted):
            tolerations = pod.tolerations
            if degree.tolerates_preferences:
                tolerations = (*tolerations, TOLERATE_PREFER_NO_SCHEDULE)
            places = _combinations(pod.alternatives, constraints.volume_topology, degree)
            asks = tuple([self.ask(each, tolerations, constraints.ports) for each in places])
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
    liked = degree.nodes[0].requirements if degree.nodes else None
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
