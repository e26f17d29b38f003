"""What pods of one class require of a node, and what NodePools and nodes were found to say to it.

SchedulingRequirements are node requirements, tolerations and host ports; PodRequirements add the
resource requests; a RelaxationLevel has one of them for each alternative (OR-ed node selector
term), and a PodClass has a level for each number of preferences given up. Answers are kept on
these objects because pods of one class ask the same question thousands of times.
"""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any, Final, TypeAlias

from wainwright.core.scheduling.compiled_requirements import CompiledRequirements
from wainwright.core.scheduling.min_values import MinValues, Witnesses
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
    """What a pool would make of a pod's requirements."""

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
        """Only what the pool or the catalogue decides; the rest its nodes satisfy anyway."""
        self.compiled = compiled
        """Of a node that nobody else uses."""
        self.types: BitSet = types
        """The types with the labels, but for those where a daemonset has taken its ports."""
        self.is_implied = is_implied
        """Whether the pod asks nothing that the pool does not promise."""


class OptionKind(IntEnum):
    """How good an answer is, best first."""

    RESERVED = 0
    """A node that holds slots of reservations."""
    WAIT_FOR_RESERVATION = 1
    """A slot would do, but for now it is held by a draft, or hidden behind a limit at its worst."""
    UNRESERVED = 2
    LIMIT_REACHED = 3
    """Not now, but perhaps when this round's drafts count as what they would be launched with."""
    INCOMPATIBLE = 4


class NewNodeOption:
    __slots__ = ("compiled", "held", "kind", "min_values", "types", "witnesses")

    def __init__(self, kind: OptionKind) -> None:
        self.kind = kind
        self.types: BitSet = 0
        self.held: OfferingGroupSet = 0
        self.compiled: CompiledRequirements | None = None
        self.min_values: MinValues = ()
        self.witnesses: Witnesses = ()


WAIT_FOR_RESERVATION: Final = NewNodeOption(OptionKind.WAIT_FOR_RESERVATION)
LIMIT_REACHED_FOR_NOW: Final = NewNodeOption(OptionKind.LIMIT_REACHED)
INCOMPATIBLE: Final = NewNodeOption(OptionKind.INCOMPATIBLE)


EMPTY: Final[Mapping[int, Any]] = {}  # shared, as most wishes never learn anything
NO_GROUPS: Final[tuple[AnyGroup, ...]] = ()

Amounts: TypeAlias = tuple[tuple[int, int], ...]
"""Number of the resource and how much of it; only what is more than nothing."""


class SchedulingRequirements:
    """Requirements, tolerations and ports of some pods, and what was found out about them."""

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
        """For each pool under which terms it takes such pods; None where it does not."""
        self.incompatible_pools: tuple[int, ...] = ()
        self.compatible_nodes: BitSet = 0
        """The nodes of the cluster whose labels and taints are fine."""
        self.rejected_by: BitSet = 0
        """The drafts whose requirements or types are not."""

    def is_satisfiable(self, nodes: BitSet) -> bool:
        """Whether any of the nodes, or a pool, has the labels and no taint against it."""
        return bool(self.compatible_nodes & nodes) or any(
            compatible is not None for compatible in self.compatibility
        )


class PodRequirements:
    """An ask that needs so much room."""

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
        """The drafts that have refused it; they only ever get fuller."""
        self.full_nodes: BitSet = 0
        """The same for nodes."""
        self.inflight_full_round = 0
        """The last round in which no machine under way could take it."""
        self.too_full_drafts: Sequence[tuple[list[BitSet], int]] = ()
        """Where the slack index lists the drafts that are too full."""
        self.too_full_nodes: Sequence[tuple[list[BitSet], int]] = ()
        self.types_by_pool: Mapping[int, BitSet] = EMPTY
        """By pool: the types with the labels and the room."""
        self.options_by_pool: Mapping[int, tuple[int, NewNodeOption]] = EMPTY
        """By pool: what it last said to a new node, and at which stamp."""


class RelaxationLevel:
    """The alternatives of a class, after so many preferences were given up."""

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
        """The highest weight of a pool that has, or may yet have, a reserved slot for its pods."""
        self.narrowed_levels: dict[Requirements, RelaxationLevel] = {}
        """The same on nodes of which more is required."""


class PodClass:
    """Pods that cannot be told apart by where they fit."""

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
        """The groups that count its pods, wherever they are."""
        self.attachments: tuple[VolumeAttachment, ...] = ()
        self.only_requirements = _only_requirements(levels)
        """What its pods ask for, if they have no alternatives, preferences or constraints."""
        self.has_topology = not self.only_requirements and any(
            level.topology_constraints is not None for level in levels
        )
        self.failed_version = -1
        """When it was last found that nothing takes its pods; nothing has changed until then."""
        self.failed_topology_version = 0
        """What others did until then, where its pods are tied to them."""
        self.awaited_reservations: ReservationSet | None = None
        """The reservations of which any slot would do, once it waits for nothing else."""

    @property
    def alternatives(self) -> tuple[PodRequirements, ...]:
        """Of all stages."""
        return tuple(pod_reqs for level in self.levels for pod_reqs in level.alternatives)

    @property
    def ports(self) -> tuple[HostPort, ...]:
        return self.levels[0].alternatives[0].scheduling.ports if self.levels else ()

    @property
    def topology_version(self) -> int:
        """Changes whenever something does that keeps its pods from some place."""
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
    """Both at once; None where no node can be that."""
    for key in other:
        if key in one and not one.allowed(key).is_compatible_with(other.allowed(key)):
            return None
    return one.narrow(other)
