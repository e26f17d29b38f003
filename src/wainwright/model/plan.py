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
from wainwright.model.suggestions import VerifiedSuggestion


class MinValuesPolicy(StrEnum):
    """What happens to a pod for which a pool cannot keep its minValues."""

    STRICT = "Strict"
    BEST_EFFORT = "BestEffort"


class PreferencePolicy(StrEnum):
    """Whether preferences of pods count until they cannot be met, or not at all."""

    RESPECT = "Respect"
    IGNORE = "Ignore"


class PackingPolicy(StrEnum):
    """How pods are put together on nodes."""

    FIRST_FIT = "first-fit"
    COST = "cost"


class PlanOptions(msgspec.Struct, frozen=True, kw_only=True):
    min_values_policy: MinValuesPolicy = MinValuesPolicy.STRICT
    preference_policy: PreferencePolicy = PreferencePolicy.RESPECT
    packing: PackingPolicy = PackingPolicy.FIRST_FIT
    strict_weights: bool = False
    """Whether no pod may join a draft while a pool of higher weight could open a node for it."""
    capacity_reservations: bool = True
    """The gate: without it reserved offerings are as if they were not there."""


DEFAULT_PLAN_OPTIONS: Final = PlanOptions()


class RemainingOptions(msgspec.Struct, frozen=True, kw_only=True):
    """All that is left to a claim, uncut; each in the order of names.

    A claim that holds reservations is bought through one of these, so that only their capacity
    type and zones are listed; the instance types are all that would hold its pods.
    """

    instance_types: tuple[str, ...]
    zones: tuple[str, ...]
    capacity_types: tuple[str, ...]
    reservation_ids: tuple[str, ...] = ()


class PlannedLaunch(msgspec.Struct, frozen=True, kw_only=True):
    """The offering that would be bought now."""

    instance_type: str
    zone: str | None
    """None where neither pool, pods nor offering name a zone."""
    capacity_type: str
    price: float
    """USD per hour, without fees."""
    reservation_id: str | None = None


class PlannedNodeClaim(msgspec.Struct, frozen=True, kw_only=True):
    """A node to be launched."""

    name: str
    pool: str
    round: int
    requirements: Requirements
    """Of the pool and its pods together."""
    choices: RemainingOptions
    launch: PlannedLaunch
    fees: float
    """USD per hour beside the price of the instance, for the type that would be launched."""
    requests: Resources
    """Of the pods, and of the daemonsets that any type left would run."""
    pods: tuple[str, ...]
    relaxed: tuple[str, ...] = ()
    """What was given up to make it: keys whose minValues were lowered under BestEffort."""


class NodeAssignment(msgspec.Struct, frozen=True, kw_only=True):
    """A node or claim of the input that receives pods."""

    node: str
    pods: tuple[str, ...]


class UnschedulableGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Pods that fail alike."""

    pods: tuple[str, ...]
    reason: PodReason
    pools: tuple[PoolVerdict, ...] = ()
    """In the order of names."""
    suggestion: VerifiedSuggestion | None = None
    nodes: tuple[NodeVerdict, ...] = ()
    """Why no node of the cluster takes them, most nodes first."""


class RelaxedPods(msgspec.Struct, frozen=True, kw_only=True):
    """Pods that found a place only after they gave up the same preferences."""

    pods: tuple[str, ...]
    given_up: tuple[RelaxedPreference, ...]
    kept_price: float | None = None
    """USD per hour of the cheapest node that would keep all of them; None where there is none."""


class ReservationUsage(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    total: int
    available: int
    used: int
    """Claims of this plan that take a reserved instance."""
    promised: int = 0
    """Free reserved instances that claims of the input without an instance will take."""
    unusable: str | None = None
    """Why nobody can use it; None where some pool can."""

    @property
    def left(self) -> int:
        """Slots that stay free with the plan."""
        return 0 if self.unusable else max(0, self.available - self.promised - self.used)


class PackingResult(msgspec.Struct, frozen=True, kw_only=True):
    """What packing by cost came to, in USD per hour with fees."""

    first_fit: float
    """What the plan would cost if pods were put where they fit first."""
    cost: float
    lower_bound: float
    """What no plan can be cheaper than."""

    @property
    def saved(self) -> float:
        return self.first_fit - self.cost

    @property
    def above_bound(self) -> float | None:
        """As a fraction of it; None where the bound is nothing and the cost is not."""
        if not self.lower_bound:
            return None if self.cost else 0.0
        return self.cost / self.lower_bound - 1


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What a quiet cluster would end with."""

    claims: tuple[PlannedNodeClaim, ...]
    """In the order of creation."""
    placements: tuple[NodeAssignment, ...]
    unschedulable: tuple[UnschedulableGroup, ...]
    reservations: tuple[ReservationUsage, ...]
    relaxed: tuple[RelaxedPods, ...] = ()
    packing: PackingResult | None = None
    """Only where pods were packed by cost."""
    warnings: tuple[str, ...] = ()

    @property
    def price(self) -> float:
        """USD per hour of all claims, without fees."""
        return fsum(claim.launch.price for claim in self.claims)

    @property
    def fees(self) -> float:
        return fsum(claim.fees for claim in self.claims)

    @property
    def scheduled(self) -> int:
        claimed = sum(len(claim.pods) for claim in self.claims)
        return claimed + sum(len(placement.pods) for placement in self.placements)

    @property
    def unscheduled(self) -> int:
        return sum(len(group.pods) for group in self.unschedulable)
