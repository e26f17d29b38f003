"""Pod classes: pods that are equal in everything that decides where they fit are evaluated once.

SchedulingRequirements are node requirements, tolerations and host ports; PodRequirements add the
resource requests; a RelaxationLevel has one of them for each alternative (OR-ed node selector
term), and a PodClass has a level for each number of preferences given up. Results of checking
NodePools and nodes are cached on these objects because the pods of one class repeat the same
checks thousands of times.
"""

from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from operator import itemgetter
from typing import Final, TypeAlias

import msgspec

from wainwright.core.scheduling.compiled_requirements import CompiledRequirements
from wainwright.core.scheduling.constraints.min_values import MinValues, Witnesses
from wainwright.core.scheduling.relaxation import RelaxedConstraints, relaxation_steps
from wainwright.core.scheduling.reservation_manager import ReservationSet
from wainwright.core.scheduling.topology.constraints import PodGroups, TopologyConstraints
from wainwright.core.scheduling.topology.groups import AnyGroup
from wainwright.core.scheduling.topology.registry import (
    NO_MATCHING_GROUPS,
    MatchingGroups,
    TopologyRegistry,
)
from wainwright.model.bitset import BitSet
from wainwright.model.offering_groups import OfferingGroupSet
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


class PoolCompatibility:
    """How a NodePool can satisfy a pod's scheduling requirements."""

    __slots__ = ("compiled", "is_implied", "requirements", "types")

    def __init__(
        self,
        requirements: Requirements,
        compiled: CompiledRequirements,
        types: BitSet,
        *,
        is_implied: bool,
    ) -> None:
        self.requirements = requirements
        """Only keys that the pool or the catalogue defines; its nodes satisfy the others anyway."""
        self.compiled = compiled
        """Pool and pod requirements combined: what a node for this pod alone may be."""
        self.types: BitSet = types
        """Types with the labels, without those where a daemonset uses one of the pod's host ports.
        """
        self.is_implied = is_implied
        """Whether the pool's own requirements imply the pod's, so that combining changes nothing.
        """


class OptionKind(IntEnum):
    """How good a new-node option is, best first."""

    RESERVED = 0
    """A node that holds instances of capacity reservations."""
    WAIT_FOR_RESERVATION = 1
    """A reservation is usable, but not now.

    All its instances are held by drafts, or a limit that counts each draft of the round as its
    largest type excludes it.
    """
    UNRESERVED = 2
    LIMIT_REACHED = 3
    """Not possible now, but maybe once the drafts of this round count as the type they launch."""
    INCOMPATIBLE = 4


class NewNodeOption:
    __slots__ = ("compiled", "held", "kind", "min_values", "price", "types", "witnesses")

    def __init__(self, kind: OptionKind) -> None:
        self.kind = kind
        self.types: BitSet = 0
        self.held: OfferingGroupSet = 0
        self.compiled: CompiledRequirements | None = None
        self.min_values: MinValues = ()
        self.witnesses: Witnesses = ()
        self.price: float | None = None
        """USD per hour of the launch choice, once somebody asked for it."""


WAIT_FOR_RESERVATION: Final = NewNodeOption(OptionKind.WAIT_FOR_RESERVATION)
LIMIT_REACHED_FOR_NOW: Final = NewNodeOption(OptionKind.LIMIT_REACHED)
INCOMPATIBLE: Final = NewNodeOption(OptionKind.INCOMPATIBLE)


# Shared by all: most requirements never fill their caches, and a dict for each costs memory.
NO_GROUPS: Final[tuple[AnyGroup, ...]] = ()

Amounts: TypeAlias = tuple[tuple[int, int], ...]
"""Resource number and amount; amounts of zero are left out."""


class SchedulingRequirements:
    """Node requirements, tolerations and host ports of some pods, with cached results of checks."""

    __slots__ = (
        "compatibility",
        "compatible_nodes",
        "compatible_pools",
        "incompatible_pools",
        "ports",
        "rejected_by",
        "requirements",
        "tolerations",
    )

    def __init__(
        self,
        requirements: Requirements,
        tolerations: tuple[Toleration, ...],
        ports: tuple[HostPort, ...] = (),
    ) -> None:
        self.requirements = requirements
        self.tolerations = tolerations
        self.ports = ports
        self.compatibility: list[PoolCompatibility | None] = []
        """By template number; None if the pool is incompatible."""
        self.incompatible_pools: tuple[int, ...] = ()
        self.compatible_pools: tuple[int, ...] = ()
        self.compatible_nodes: BitSet = 0
        """Existing nodes with compatible labels and taints."""
        self.rejected_by: BitSet = 0
        """Drafts with incompatible requirements or types; drafts only narrow, so it stays true."""

    def is_satisfiable(self, nodes: BitSet) -> bool:
        """Whether any of the nodes, or any pool, has compatible labels and taints."""
        return bool(self.compatible_nodes & nodes or self.compatible_pools)


class PodRequirements:
    """SchedulingRequirements with resource requests."""

    __slots__ = (
        "amounts",
        "attachments",
        "columns",
        "full_nodes",
        "inflight_full_round",
        "options_by_pool",
        "rejected_by",
        "scheduling",
        "too_full_drafts",
        "too_full_nodes",
        "types_by_pool",
    )

    def __init__(
        self, scheduling: SchedulingRequirements, amounts: Amounts, columns: tuple[int, ...]
    ) -> None:
        self.scheduling = scheduling
        self.amounts = amounts
        self.columns = columns
        self.attachments: tuple[VolumeAttachment, ...] = ()
        """Those of its class."""
        self.rejected_by: BitSet = 0
        """Drafts that cannot take such a pod; drafts only get fuller, so it stays true."""
        self.full_nodes: BitSet = 0
        """Existing nodes without room for such a pod; nodes only get fuller, so it stays true."""
        self.inflight_full_round = 0
        """The last round in which no in-flight node could take such a pod."""
        self.too_full_drafts: Sequence[tuple[list[BitSet], int]] = ()
        """Where the capacity index has the drafts that are too full."""
        self.too_full_nodes: Sequence[tuple[list[BitSet], int]] = ()
        self.types_by_pool: dict[int, BitSet] = {}
        """By template number: the types with the labels and enough allocatable resources."""
        self.options_by_pool: dict[int, tuple[int, int, NewNodeOption]] = {}
        """By template number: the last new-node option, and the versions of reservations and of the
        pool's limits that it is valid for."""


class RelaxationLevel:
    """The alternatives of a class after a number of preferences were given up."""

    __slots__ = (
        "alternatives",
        "given_up",
        "narrowed_levels",
        "reserved_weight",
        "reserved_weight_version",
        "topology_constraints",
    )

    def __init__(
        self,
        alternatives: tuple[PodRequirements, ...],
        topology_constraints: TopologyConstraints | None,
        given_up: tuple[RelaxedPreference, ...],
    ) -> None:
        self.alternatives = alternatives
        self.topology_constraints = topology_constraints
        self.given_up = given_up
        self.reserved_weight_version = -1
        self.reserved_weight = -1
        """The highest weight of a pool with reserved capacity for these pods now or maybe later."""
        self.narrowed_levels: dict[Requirements, RelaxationLevel] = {}
        """The same level with further requirements on the node."""


class PodClass:
    """Pods that are equal in everything that decides where they fit."""

    __slots__ = (
        "attachments",
        "awaited_reservations",
        "counted_by",
        "failed_topology_version",
        "failed_version",
        "has_topology",
        "levels",
        "number",
        "only_requirements",
        "pods",
    )

    def __init__(self, number: int, levels: tuple[RelaxationLevel, ...]) -> None:
        self.number = number
        self.levels = levels
        self.pods: list[Pod] = []
        self.counted_by: tuple[AnyGroup, ...] = NO_GROUPS
        """The topology groups that count its pods."""
        self.attachments: tuple[VolumeAttachment, ...] = ()
        self.only_requirements = _only_requirements(levels)
        """The requirements, if the pods have no alternatives, preferences or topology constraints.
        """
        self.has_topology = not self.only_requirements and any(
            level.topology_constraints is not None for level in levels
        )
        self.failed_version = -1
        """The state version at which no place was found; no retry before the version changes."""
        self.failed_topology_version = 0
        """The topology version at that time, if the pods have topology constraints."""
        self.awaited_reservations: ReservationSet | None = None
        """The reservations any of which would do, once the pods wait for nothing else."""

    @property
    def alternatives(self) -> tuple[PodRequirements, ...]:
        """The alternatives of all relaxation levels."""
        return tuple(pod_reqs for level in self.levels for pod_reqs in level.alternatives)

    @property
    def ports(self) -> tuple[HostPort, ...]:
        return self.levels[0].alternatives[0].scheduling.ports if self.levels else ()

    @property
    def first_constraints(self) -> TopologyConstraints | None:
        """The topology constraints of the first level, which has those of all others too."""
        return self.levels[0].topology_constraints if self.levels else None


def _only_requirements(levels: tuple[RelaxationLevel, ...]) -> PodRequirements | None:
    if len(levels) != 1:
        return None
    level = levels[0]
    return (
        level.alternatives[0]
        if level.topology_constraints is None and len(level.alternatives) == 1
        else None
    )


def combine_requirements(one: Requirements, other: Requirements) -> Requirements | None:
    """Both requirements at once; None if no node can satisfy both."""
    for key in other:
        if key in one and not one.allowed(key).is_compatible_with(other.allowed(key)):
            return None
    return one.narrow(other)


FIRST_ITEM: Final = itemgetter(0)

SchedulingKey: TypeAlias = tuple[Requirements, tuple[Toleration, ...], tuple[HostPort, ...]]


class ClassificationContext(msgspec.Struct, frozen=True, kw_only=True):
    """Properties of the cluster and the options that decide which pods share a class."""

    options: PlanOptions = DEFAULT_PLAN_OPTIONS
    has_soft_taints: bool = False
    """Whether any pool or node has a PreferNoSchedule taint."""
    limited_drivers: frozenset[str] = frozenset()
    """CSI drivers of whose volumes any node, or any instance type, attaches only so many."""


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
        *,
        updatable: bool = False,
    ) -> None:
        """An updatable object can find the classes of further pods (`find`)."""
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
        self._amounts_by_requests.clear()
        if not updatable:
            self._by_value.clear()

    def find(self, pod: Pod) -> PodClass | None:
        """The class of a further pod; None if it would need a new one."""
        wanted, constraints = {**pod.requests, PODS: 1}, self._constraints(pod)
        if not wanted.keys() <= self._numbers.keys():
            return None
        matching = self.registry.matching_groups(pod)
        template = self._templates.get(self._template_key(pod, constraints, matching))
        if template is None:
            return None
        return self._by_value.get((self._amounts(pod), template.number))

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
        key = self._template_key(pod, constraints, matching)
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

    def _template_key(
        self, pod: Pod, constraints: PodConstraints, matching: MatchingGroups
    ) -> tuple[object, ...]:
        namespace = pod.namespace if constraints is not NO_CONSTRAINTS else ""
        return pod.alternatives, pod.tolerations, constraints, id(matching), namespace

    def _constraints(self, pod: Pod) -> PodConstraints:
        """Volume attachments distinguish pods only where some node limits them."""
        attachments, limited = pod.constraints.attachments, self._context.limited_drivers
        if not attachments or all(each.driver in limited for each in attachments):
            return pod.constraints
        counted = tuple([each for each in attachments if each.driver in limited])
        bare = msgspec.structs.replace(pod.constraints, attachments=counted)
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
        if template.attachments:
            for pod_reqs in pod_class.alternatives:
                pod_reqs.attachments = template.attachments
        return pod_class

    def _levels(
        self, pod: Pod, constraints: PodConstraints, matching: MatchingGroups
    ) -> Iterator["_Level"]:
        groups = PodGroups(pod, self.registry, matching)
        for relaxed in relaxation_steps(
            constraints,
            self._context.options.preference_policy,
            has_soft_taints=self._context.has_soft_taints,
            alternatives=len(pod.alternatives) * len(constraints.volume_topology),
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
                    groups.constraints_of(relaxed),
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
