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

    __slots__ = ("asked", "narrowing", "rows", "trivial")

    def __init__(
        self, asked: Requirements, narrowing: CompiledRequirements, rows: BitSet, *, trivial: bool
    ) -> None:
        self.asked = asked
        """Only what the pool or the catalogue decides; the rest its nodes satisfy anyway."""
        self.narrowing = narrowing
        """Of a node that nobody else uses."""
        self.rows: BitSet = rows
        """The types with the labels, but for those where a daemonset has taken its ports."""
        self.trivial = trivial
        """Whether the pod asks nothing that the pool does not promise."""


class OptionKind(IntEnum):
    """How good an answer is, best first."""

    RESERVED = 0
    """A node that holds slots of reservations."""
    WAIT = 1
    """A slot would do, but for now it is held by a draft, or hidden behind a limit at its worst."""
    PLAIN = 2
    LIMITED = 3
    """Not now, but perhaps when this round's drafts count as what they would be launched with."""
    REFUSED = 4


class NewNodeOption:
    __slots__ = ("held", "kind", "minimums", "narrowing", "rows", "witnesses")

    def __init__(self, kind: OptionKind) -> None:
        self.kind = kind
        self.rows: BitSet = 0
        self.held: OfferingGroupSet = 0
        self.narrowing: CompiledRequirements | None = None
        self.minimums: MinValues = ()
        self.witnesses: Witnesses = ()


WAIT_FOR_RESERVATION: Final = NewNodeOption(OptionKind.WAIT)
LIMIT_REACHED_FOR_NOW: Final = NewNodeOption(OptionKind.LIMITED)
INCOMPATIBLE: Final = NewNodeOption(OptionKind.REFUSED)


EMPTY: Final[Mapping[int, Any]] = {}  # shared, as most wishes never learn anything
NO_GROUPS: Final[tuple[AnyGroup, ...]] = ()

Amounts: TypeAlias = tuple[tuple[int, int], ...]
"""Number of the resource and how much of it; only what is more than nothing."""


class SchedulingRequirements:
    """Requirements, tolerations and ports of some pods, and what was found out about them."""

    __slots__ = ("nodes", "ports", "refused_by", "rejected", "requirements", "terms", "tolerations")

    def __init__(
        self,
        requirements: Requirements,
        tolerations: tuple[Toleration, ...],
        ports: tuple[HostPort, ...] = (),
    ) -> None:
        self.requirements = requirements
        self.tolerations = tolerations
        self.ports = ports
        self.terms: list[PoolCompatibility | None] = []
        """For each pool under which terms it takes such pods; None where it does not."""
        self.refused_by: tuple[int, ...] = ()
        self.nodes: BitSet = 0
        """The nodes of the cluster whose labels and taints are fine."""
        self.rejected: BitSet = 0
        """The drafts whose requirements or types are not."""

    def is_possible(self, standing: BitSet) -> bool:
        """Whether any of the nodes, or a pool, has the labels and no taint against it."""
        return bool(self.nodes & standing) or any(terms is not None for terms in self.terms)


class PodRequirements:
    """An ask that needs so much room."""

    __slots__ = (
        "amounts",
        "answers",
        "ask",
        "barren",
        "columns",
        "full",
        "rejected",
        "room",
        "short",
        "short_nodes",
    )

    def __init__(
        self, ask: SchedulingRequirements, amounts: Amounts, columns: tuple[int, ...]
    ) -> None:
        self.ask = ask
        self.amounts = amounts
        self.columns = columns
        self.rejected: BitSet = 0
        """The drafts that have refused it; they only ever get fuller."""
        self.full: BitSet = 0
        """The same for nodes."""
        self.barren = 0
        """The last round in which no machine under way could take it."""
        self.short: Sequence[tuple[list[BitSet], int]] = ()
        """Where the slack index lists the drafts that are too full."""
        self.short_nodes: Sequence[tuple[list[BitSet], int]] = ()
        self.room: Mapping[int, BitSet] = EMPTY
        """By pool: the types with the labels and the room."""
        self.answers: Mapping[int, tuple[int, NewNodeOption]] = EMPTY
        """By pool: what it last said to a new node, and at which stamp."""


class RelaxationLevel:
    """The alternatives of a class, after so many preferences were given up."""

    __slots__ = ("bound", "given_up", "slot_stamp", "slot_weight", "wishes", "within")

    def __init__(
        self,
        wishes: tuple[PodRequirements, ...],
        tied: TopologyConstraints | None,
        given_up: tuple[RelaxedPreference, ...],
    ) -> None:
        self.wishes = wishes
        self.bound = tied
        self.given_up = given_up
        self.slot_stamp = -1
        self.slot_weight = -1
        """The highest weight of a pool that has, or may yet have, a reserved slot for its pods."""
        self.within: dict[Requirements, RelaxationLevel] = {}
        """The same on nodes of which more is required."""


class PodClass:
    """Pods that cannot be told apart by where they fit."""

    __slots__ = (
        "attachments",
        "counted",
        "is_tied",
        "needs",
        "number",
        "only_wish",
        "pods",
        "seen",
        "stages",
        "stamp",
    )

    def __init__(self, number: int, stages: tuple[RelaxationLevel, ...]) -> None:
        self.number = number
        self.stages = stages
        self.pods: list[Pod] = []
        self.counted: tuple[AnyGroup, ...] = NO_GROUPS
        """The groups that count its pods, wherever they are."""
        self.attachments: tuple[VolumeAttachment, ...] = ()
        self.only_wish = _only_requirements(stages)
        """What its pods ask for, if they have no alternatives, preferences or constraints."""
        self.is_tied = not self.only_wish and any(stage.bound is not None for stage in stages)
        self.stamp = -1
        """When it was last found that nothing takes its pods; nothing has changed until then."""
        self.seen = 0
        """What others did until then, where its pods are tied to them."""
        self.needs: ReservationSet | None = None
        """The reservations of which any slot would do, once it waits for nothing else."""

    @property
    def wishes(self) -> tuple[PodRequirements, ...]:
        """Of all stages."""
        return tuple(wish for stage in self.stages for wish in stage.wishes)

    @property
    def ports(self) -> tuple[HostPort, ...]:
        return self.stages[0].wishes[0].ask.ports if self.stages else ()

    @property
    def watched(self) -> int:
        """Changes whenever something does that keeps its pods from some place."""
        return sum(stage.bound.version for stage in self.stages if stage.bound is not None)


def _only_requirements(stages: tuple[RelaxationLevel, ...]) -> PodRequirements | None:
    if len(stages) != 1:
        return None
    stage = stages[0]
    return stage.wishes[0] if stage.bound is None and len(stage.wishes) == 1 else None


def combine_requirements(one: Requirements, other: Requirements) -> Requirements | None:
    """Both at once; None where no node can be that."""
    for key in other:
        if key in one and not one.allowed(key).is_compatible_with(other.allowed(key)):
            return None
    return one.narrow(other)
