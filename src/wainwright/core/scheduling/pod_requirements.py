"""What pods of one class require of a node, with cached results of checking NodePools and nodes.

SchedulingRequirements are node requirements, tolerations and host ports; PodRequirements add the
resource requests; a RelaxationLevel has one of them for each alternative (OR-ed node selector
term), and a PodClass has a level for each number of preferences given up. Results are cached on
these objects because the pods of one class repeat the same checks thousands of times.
"""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any, Final, TypeAlias

from wainwright.core.scheduling.compiled_requirements import CompiledRequirements
from wainwright.core.scheduling.constraints.min_values import MinValues, Witnesses
from wainwright.core.scheduling.reservation_manager import ReservationSet
from wainwright.core.scheduling.topology.constraints import TopologyConstraints
from wainwright.core.scheduling.topology.groups import AnyGroup
from wainwright.model.bitset import BitSet
from wainwright.model.offering_groups import OfferingGroupSet
from wainwright.model.pod import HostPort, Pod, VolumeAttachment
from wainwright.model.reasons import RelaxedPreference
from wainwright.model.requirements import Requirements
from wainwright.model.taints import Toleration


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
EMPTY: Final[Mapping[int, Any]] = {}
NO_GROUPS: Final[tuple[AnyGroup, ...]] = ()

Amounts: TypeAlias = tuple[tuple[int, int], ...]
"""Resource number and amount; amounts of zero are left out."""


class SchedulingRequirements:
    """Node requirements, tolerations and host ports of some pods, with cached results of checks."""

    __slots__ = (
        "compatibility",
        "compatible_nodes",
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
        self.compatible_nodes: BitSet = 0
        """Existing nodes with compatible labels and taints."""
        self.rejected_by: BitSet = 0
        """Drafts with incompatible requirements or types; drafts only narrow, so it stays true."""

    def is_satisfiable(self, nodes: BitSet) -> bool:
        """Whether any of the nodes, or any pool, has compatible labels and taints."""
        return bool(self.compatible_nodes & nodes) or any(
            compatible is not None for compatible in self.compatibility
        )


class PodRequirements:
    """SchedulingRequirements with resource requests."""

    __slots__ = (
        "amounts",
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
        self.rejected_by: BitSet = 0
        """Drafts that cannot take such a pod; drafts only get fuller, so it stays true."""
        self.full_nodes: BitSet = 0
        """Existing nodes without room for such a pod; nodes only get fuller, so it stays true."""
        self.inflight_full_round = 0
        """The last round in which no in-flight node could take such a pod."""
        self.too_full_drafts: Sequence[tuple[list[BitSet], int]] = ()
        """Where the capacity index has the drafts that are too full."""
        self.too_full_nodes: Sequence[tuple[list[BitSet], int]] = ()
        self.types_by_pool: Mapping[int, BitSet] = EMPTY
        """By template number: the types with the labels and enough allocatable resources."""
        self.options_by_pool: Mapping[int, tuple[int, int, NewNodeOption]] = EMPTY
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
    def topology_version(self) -> int:
        """Changes whenever a topology group that constrains these pods changes."""
        return sum(
            level.topology_constraints.version
            for level in self.levels
            if level.topology_constraints is not None
        )


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
