"""Plan: which nodes for which pods, at what price, and why some pods are unschedulable.

Options are what a user may choose about how plans are made.
"""

from enum import StrEnum
from math import fsum
from typing import Final

import msgspec

from wainwright.model.reasons import NodeVerdict, PodReason, PoolVerdict, RelaxedPreference
from wainwright.model.requirements import Requirements
from wainwright.model.resources import Resources
from wainwright.model.snapshot import NODES_LIMIT
from wainwright.model.suggestions import VerifiedSuggestion


class MinValuesPolicy(StrEnum):
    """What happens to a pod for which a NodePool cannot keep its minValues."""

    STRICT = "Strict"
    BEST_EFFORT = "BestEffort"


class PreferencePolicy(StrEnum):
    """Whether preferences of pods are respected until they cannot be met, or ignored."""

    RESPECT = "Respect"
    IGNORE = "Ignore"


class PackingPolicy(StrEnum):
    """How pods are packed onto nodes."""

    FIRST_FIT = "first-fit"
    COST = "cost"


PRICE_LIMIT: Final = "pricePerHour"
"""The key in limits of a cluster that counts what its nodes cost."""
PRICE_UNITS: Final = 10**9  # of which limits count one USD per hour, so that sums are exact


class ClusterLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What all managed nodes of the cluster together may have and cost; None is no limit."""

    cpu: int | None = None
    """In thousandths."""
    memory: int | None = None
    """In bytes."""
    nodes: int | None = None
    price_per_hour: float | None = None
    """USD, with fees."""

    @property
    def amounts(self) -> Resources:
        """By the names of limits, in whole units."""
        price = self.price_per_hour
        amounts = {
            "cpu": self.cpu,
            "memory": self.memory,
            NODES_LIMIT: self.nodes,
            PRICE_LIMIT: None if price is None else round(price * PRICE_UNITS),
        }
        return {name: amount for name, amount in amounts.items() if amount is not None}


class PlanOptions(msgspec.Struct, frozen=True, kw_only=True):
    min_values_policy: MinValuesPolicy = MinValuesPolicy.STRICT
    preference_policy: PreferencePolicy = PreferencePolicy.RESPECT
    packing: PackingPolicy = PackingPolicy.FIRST_FIT
    strict_weights: bool = False
    """Whether no pod may join a draft while a NodePool of higher weight could launch a node."""
    capacity_reservations: bool = True
    """The feature gate: without it reserved offerings are ignored."""
    cluster_limits: ClusterLimits = ClusterLimits()
    static_capacity: bool = False
    """The feature gate: with it the nodes that static NodePools lack are planned."""
    attach_limits: tuple[tuple[str, int], ...] = ()
    """CSI drivers, and how many volumes a node of any type that has not reported its own limit is
    expected to attach, in place of what the catalogue has."""
    reported_attach_limits: tuple[tuple[str, str, int], ...] = ()
    """Instance types, CSI drivers, and the lowest limit that nodes of the type report: what the
    next ones are expected to report."""


DEFAULT_PLAN_OPTIONS: Final = PlanOptions()


class RemainingOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a claim can still be launched as, not truncated; each in the order of names.

    A reserved claim is pinned to the reservation that was counted for it, so that only its id,
    capacity type and zone are listed; the instance types are all that would fit its pods.
    """

    instance_types: tuple[str, ...]
    zones: tuple[str, ...]
    capacity_types: tuple[str, ...]
    reservation_ids: tuple[str, ...] = ()


class PlannedLaunch(msgspec.Struct, frozen=True, kw_only=True):
    """The offering that would be launched now."""

    instance_type: str
    zone: str | None
    """None where neither NodePool, pods nor offering name a zone."""
    capacity_type: str
    price: float
    """USD per hour, without fees."""
    reservation_id: str | None = None
    modelled_price: bool = False
    """Whether the price is an estimate."""


class PlannedNodeClaim(msgspec.Struct, frozen=True, kw_only=True):
    """A node to be launched."""

    name: str
    pool: str
    round: int
    requirements: Requirements
    """Of NodePool and pods together."""
    choices: RemainingOptions
    launch: PlannedLaunch
    fees: float
    """USD per hour on top of the price of the instance, for the type that would be launched."""
    requests: Resources
    """Of the pods, and of the DaemonSets that would run on any remaining type."""
    pods: tuple[str, ...]
    relaxed_min_values: tuple[str, ...] = ()
    """Labels whose minValues were lowered for this claim under BestEffort, or which a reserved
    claim does not carry because its reservation cannot meet them."""


class NodeAssignment(msgspec.Struct, frozen=True, kw_only=True):
    """A node or claim of the input that receives pods."""

    node: str
    pods: tuple[str, ...]


class UnschedulableGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Pods that are unschedulable for the same reasons."""

    pods: tuple[str, ...]
    reason: PodReason
    pools: tuple[PoolVerdict, ...] = ()
    """In the order of names."""
    nearest_pool: str | None = None
    """The NodePool that came nearest to launching a node; its reason is the cause."""
    suggestion: VerifiedSuggestion | None = None
    alternative: VerifiedSuggestion | None = None
    """Another way, where the choice is not ours: a full reservation can be enlarged."""
    nodes: tuple[NodeVerdict, ...] = ()
    """Why the pods fit no node of the cluster, most nodes first."""
    unexplained_pools: int = 0
    """Of how many more NodePools the reason was not worked out, because there are very many."""


class RelaxedPods(msgspec.Struct, frozen=True, kw_only=True):
    """Pods that were scheduled only after the same preferences were relaxed."""

    pods: tuple[str, ...]
    preferences: tuple[RelaxedPreference, ...]
    price_if_kept: float | None = None
    """USD per hour of the cheapest node that meets all preferences; None if there is none."""


class ReservationUsage(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    total: int
    available: int
    used: int
    """Claims of this plan that use a reserved instance."""
    in_flight: int = 0
    """Available reserved instances that claims of the input without an instance will use."""
    unusable: str | None = None
    """Why no NodePool can use it; None where one can."""

    @property
    def remaining(self) -> int:
        """Reserved instances that stay available after the plan."""
        return 0 if self.unusable else max(0, self.available - self.in_flight - self.used)


class PackingResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of packing by cost, in USD per hour with fees."""

    first_fit: float
    """The cost of the plan by first fit."""
    cost: float
    lower_bound: float
    """A cost that no plan can be below."""

    @property
    def saved(self) -> float:
        return self.first_fit - self.cost

    @property
    def above_bound(self) -> float | None:
        """The gap as a fraction of the lower bound; None where only the bound is zero."""
        if not self.lower_bound:
            return None if self.cost else 0.0
        return self.cost / self.lower_bound - 1


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes, assignments and unplaced pods that a cluster without changes arrives at."""

    claims: tuple[PlannedNodeClaim, ...]
    """In the order of creation."""
    placements: tuple[NodeAssignment, ...]
    unplaced: tuple[str, ...]
    """The pods without a place, in the order of names; why is a question of its own."""
    reservations: tuple[ReservationUsage, ...]
    relaxed: tuple[RelaxedPods, ...] = ()
    packing: PackingResult | None = None
    """Only with packing by cost."""
    unpriced_nodes: tuple[str, ...] = ()
    """Nodes that a price limit of the cluster counts as if they cost nothing, as no catalogue knows
    their price."""
    warnings: tuple[str, ...] = ()

    @property
    def price(self) -> float:
        """USD per hour of all claims, without fees."""
        return fsum(claim.launch.price for claim in self.claims)

    @property
    def has_modelled_prices(self) -> bool:
        """Whether a price in it is an estimate."""
        return any(claim.launch.modelled_price for claim in self.claims)

    @property
    def fees(self) -> float:
        return fsum(claim.fees for claim in self.claims)

    @property
    def scheduled(self) -> int:
        claimed = sum(len(claim.pods) for claim in self.claims)
        return claimed + sum(len(placement.pods) for placement in self.placements)

    @property
    def unscheduled(self) -> int:
        return len(self.unplaced)


class ExplainedPlan(Plan, frozen=True, kw_only=True):
    """A plan, and why pods have no place."""

    unschedulable: tuple[UnschedulableGroup, ...]
