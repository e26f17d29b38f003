"""Commands: which nodes to remove, what replaces them, and where their pods go."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Final

import msgspec

from wainwright.core.disruption.budgets import DisruptionReason
from wainwright.core.disruption.candidates import Candidate
from wainwright.core.disruption.disruption_input import Method
from wainwright.core.removal_simulation import RemovalSimulation
from wainwright.model.plan import (
    PlannedNodeClaim,
    RemainingOptions,
)
from wainwright.model.snapshot import Node


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
