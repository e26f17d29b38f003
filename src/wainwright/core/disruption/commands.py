"""Commands: which nodes to remove, what replaces them, and where their pods go."""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Final

import msgspec

from wainwright.core.disruption.balanced import BALANCED_K
from wainwright.core.disruption.budgets import DisruptionReason
from wainwright.core.disruption.candidates import Candidate
from wainwright.core.disruption.drift import OfferedTypes
from wainwright.core.disruption.replacement import ReplacementRules
from wainwright.core.removal_simulation import RemovalSimulation
from wainwright.model.disruption import NO_MINIMUM_SAVING, MinimumSaving, RepairPolicy
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.plan import (
    DEFAULT_PLAN_OPTIONS,
    PlannedNodeClaim,
    PlanOptions,
    RemainingOptions,
)
from wainwright.model.snapshot import Node, Snapshot

MAX_NODES_PER_COMMAND: Final = 100
LOOK_AHEAD_NODES: Final = 10_000
MAX_REPETITIONS: Final = 400
"""At most a quarter of a second of a look at 5,000 nodes; a change that concerns all of them is
known everywhere after a dozen looks.
"""


class Method(StrEnum):
    """In the order in which they are tried."""

    REPAIR = "repair"
    """Only where it is switched on: nodes that are unhealthy, once their replacements are up."""
    EMPTINESS = "emptiness"
    STATIC_DRIFT = "static-drift"
    DRIFT = "drift"
    MULTI_NODE = "multi-node"
    SINGLE_NODE = "single-node"


VOLUNTARY_METHODS: Final = tuple(each for each in Method if each is not Method.REPAIR)


class Search(StrEnum):
    """How a pass chooses among the commands of a method."""

    BEST = "best"
    """What saves most per disruption, sets of nodes grown in that order; pods go to nodes that are
    likely to stay.
    """
    EXPENSIVE_FIRST = "expensive-first"
    """The same, with sets grown by the most expensive nodes."""
    IN_ORDER = "in-order"
    """Karpenter's way: the first nodes that can go, pods to the first nodes by name."""


class SearchStrategy(msgspec.Struct, frozen=True, kw_only=True):
    search: Search = Search.BEST
    avoided: frozenset[str] = frozenset()
    """Nodes to which no pod is moved."""


ONE_LOOK: Final = SearchStrategy()
"""How a command is chosen by itself; where this finds nothing the cluster is at rest."""


class Outcome(StrEnum):
    """Why a candidate that nothing blocks is kept; the value is the code of the verdict."""

    PODS_WOULD_BE_PENDING = "pods-would-be-pending"
    NEEDS_SEVERAL_NODES = "needs-several-nodes"
    NO_SAVING = "no-saving"
    SPOT_TO_SPOT = "spot-to-spot"
    MIN_VALUES = "min-values"
    MIN_SAVING = "min-saving"
    BALANCED_SCORE = "balanced-score"
    LIMITS = "limits"


class DisruptionOptions(msgspec.Struct, frozen=True, kw_only=True):
    plan: PlanOptions = DEFAULT_PLAN_OPTIONS
    rules: ReplacementRules = ReplacementRules()
    methods: tuple[Method, ...] = VOLUNTARY_METHODS
    max_nodes: int = MAX_NODES_PER_COMMAND
    minimum_saving: MinimumSaving = NO_MINIMUM_SAVING
    """Where a NodePool has none of its own."""
    allow_split: bool = False
    """Whether nodes may be replaced by several that are cheaper together."""
    ignore_budgets: bool = False
    terminate_first_drift: bool = False
    """Whether a drifted node may go before its replacement, if that needs its reservation."""
    terminate_first_repair: bool = False
    """The same of an unhealthy node."""
    managed_deletion_cost: bool = False
    """Whether a controller writes the deletion costs of pods, so that they do not count here."""
    balanced_k: float = BALANCED_K
    look_ahead: int = LOOK_AHEAD_NODES
    """How many nodes may be looked at to compare whole sequences of commands, a node once for each
    pass over it; 0 to choose every command by itself.
    """
    max_repetitions: int = MAX_REPETITIONS
    """How many removals a pass that goes on from another simulates again because something changed
    elsewhere; the next pass goes on from there.
    """


DEFAULT_DISRUPTION_OPTIONS: Final = DisruptionOptions()


class PodMove(msgspec.Struct, frozen=True, kw_only=True):
    pod: str
    source: str
    target: str
    """The name of a node, or of a replacement."""


class UnavailableReplacement(msgspec.Struct, frozen=True, kw_only=True):
    """A node of a static NodePool's template of which nothing is on offer now.

    Static drift asks for it all the same; if its launch fails, the command is rolled back.
    """

    node: Node
    """As which it counts: the node that it replaces, without instance type and price."""
    choices: RemainingOptions
    """All that the template allows."""
    pods: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.node.name


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes to be removed, once their replacements are up."""

    method: Method
    reason: DisruptionReason
    candidates: tuple[Candidate, ...]
    replacements: tuple[PlannedNodeClaim, ...] = ()
    unavailable: tuple[UnavailableReplacement, ...] = ()
    """Replacements as well; only of static drift."""
    simulation: RemovalSimulation = RemovalSimulation()
    """Where the pods go."""
    terminate_first: bool = False
    """Whether the nodes go first: their replacements need the reservations that they hold."""

    @property
    def replacement_names(self) -> tuple[str, ...]:
        planned = tuple(claim.name for claim in self.replacements)
        return planned + tuple(each.name for each in self.unavailable)

    @property
    def price_before(self) -> float:
        return sum(candidate.price for candidate in self.candidates)

    @property
    def price_after(self) -> float:
        """Without those of which nothing is on offer."""
        return sum(claim.launch.price for claim in self.replacements)

    @property
    def saving(self) -> float:
        """USD per hour; negative where drift makes it necessary."""
        return self.price_before - self.price_after

    @property
    def has_modelled_prices(self) -> bool:
        """Whether a price of its nodes is an estimate."""
        offerings = (each.offering for each in self.candidates)
        return any(each is not None and each.modelled for each in offerings) or any(
            claim.launch.modelled_price for claim in self.replacements
        )

    @property
    def cost(self) -> float:
        """Of the disruption."""
        return sum(candidate.cost for candidate in self.candidates)

    @property
    def saving_ratio(self) -> float:
        """Dollars per disruption: what the best command has most of."""
        return self.saving / self.cost

    @property
    def evictions(self) -> int:
        return sum(len(candidate.pods) for candidate in self.candidates)

    def moves(self) -> Iterator[PodMove]:
        """Every pod that is evicted and created again elsewhere."""
        sources = {pod.key: each.name for each in self.candidates for pod in each.pods}
        targets = [(each.node, each.pods) for each in self.simulation.placements]
        targets += [(claim.name, claim.pods) for claim in self.replacements]
        targets += [(each.name, each.pods) for each in self.unavailable]
        for target, pods in targets:
            for pod in pods:
                yield PodMove(pod=pod, source=sources[pod], target=target)


class DisruptionInput(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster, and what can be launched for it."""

    snapshot: Snapshot
    catalogs: Mapping[str, InstanceTypeIndex]
    offered: Mapping[str, OfferedTypes] = {}
    """By NodePool what exists at all; without it nothing has drifted by its instance type."""
    nominated: frozenset[str] = frozenset()
    """Names of nodes and claims that pods were planned onto before, and may be on their way to."""
    paused: frozenset[str] = frozenset()
    """Names of NodePools in which no voluntary disruption is begun."""
    repair_policies: tuple[RepairPolicy, ...] = ()
    is_live: bool = False
    """Whether controllers work on it: they delete expired nodes at their own pace."""
