"""Plan: which nodes for which pods, at what price, and why some pod has no place."""

from math import fsum

import msgspec

from wainwright.model.reason import PodReason, PoolVerdict
from wainwright.model.requirements import Requirements
from wainwright.model.resources import Resources
from wainwright.model.suggestion import Suggestion


class Choices(msgspec.Struct, frozen=True, kw_only=True):
    """All that is left to a claim, uncut; each in the order of names.

    A claim that holds reservations is bought through one of these, so that only their capacity
    type and zones are listed; the instance types are all that would hold its pods.
    """

    instance_types: tuple[str, ...]
    zones: tuple[str, ...]
    capacity_types: tuple[str, ...]
    reservation_ids: tuple[str, ...] = ()


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """The offering that would be bought now."""

    instance_type: str
    zone: str | None
    """None where neither pool, pods nor offering name a zone."""
    capacity_type: str
    price: float
    """USD per hour, without the pool's fees."""
    reservation_id: str | None = None


class PlannedClaim(msgspec.Struct, frozen=True, kw_only=True):
    """A node to be launched."""

    name: str
    pool: str
    round: int
    requirements: Requirements
    """Of the pool and its pods together."""
    choices: Choices
    launch: Launch
    fees: float
    """USD per hour beside the price of the instance."""
    requests: Resources
    """Of the pods, and of the daemonsets that any type left would run."""
    pods: tuple[str, ...]
    relaxed: tuple[str, ...] = ()
    """What was given up to make it: keys whose minValues were lowered under BestEffort."""


class Placement(msgspec.Struct, frozen=True, kw_only=True):
    """A node or claim of the input that receives pods."""

    node: str
    pods: tuple[str, ...]


class Unschedulable(msgspec.Struct, frozen=True, kw_only=True):
    """Pods that fail alike."""

    pods: tuple[str, ...]
    reason: PodReason
    pools: tuple[PoolVerdict, ...] = ()
    """In the order of names."""
    suggestion: Suggestion | None = None


class ReservationUse(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    total: int
    available: int
    used: int
    """Claims of this plan that take a slot."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What a quiet cluster would end with."""

    claims: tuple[PlannedClaim, ...]
    """In the order of creation."""
    placements: tuple[Placement, ...]
    unschedulable: tuple[Unschedulable, ...]
    reservations: tuple[ReservationUse, ...]
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
