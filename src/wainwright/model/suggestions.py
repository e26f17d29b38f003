"""Suggested fixes that would make pods schedulable, each verified before it is shown."""

from enum import StrEnum
from typing import TypeAlias

import msgspec

from wainwright.model.requirements import ValueSet
from wainwright.model.taints import Toleration


class Fix(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag=True):
    """The root of all fixes; `kind` tells them apart on the wire."""


class LowerRequest(Fix, frozen=True, kw_only=True, tag="LowerRequest"):
    """Lower the request for a resource."""

    resource: str
    now: int | None
    """None where the pods of the group request different amounts: the larger ones are lowered."""
    to: int
    pool: str


class AddToleration(Fix, frozen=True, kw_only=True, tag="Tolerate"):
    """Add a toleration of the NodePool's taint to the pod."""

    toleration: Toleration
    pool: str


class DropPodRequirement(Fix, frozen=True, kw_only=True, tag="DropLabel"):
    """Drop the requirement on this label; `meant` is the label that was probably intended."""

    key: str
    pool: str
    meant: str | None = None
    now: str = ""
    """Of a label of GPUs and accelerators: what the pod requires now."""
    gets: str = ""
    """What the nodes have instead, on which it would be scheduled."""


class ChangePodRequirement(Fix, frozen=True, kw_only=True, tag="SelectValue"):
    """Select another value of the label, which was probably intended."""

    key: str
    now: str
    to: str
    pool: str


class AllowPodValue(Fix, frozen=True, kw_only=True, tag="AllowPodValue"):
    """Allow one more value of the label that the pod selects."""

    key: str
    now: str
    """The only value that is allowed."""
    value: str
    pool: str


class DropPoolRequirement(Fix, frozen=True, kw_only=True, tag="DropRequirement"):
    """Drop the requirement on this label from the NodePool."""

    key: str
    pool: str


class ChangePoolRequirement(Fix, frozen=True, kw_only=True, tag="RequireValue"):
    """Require another value of the label in the NodePool, which was probably intended."""

    key: str
    now: str
    to: str
    pool: str


class LowerMinValues(Fix, frozen=True, kw_only=True, tag="LowerMinValues"):
    """Lower minValues of the NodePool's requirement."""

    key: str
    now: int
    to: int
    pool: str


class RaiseLimit(Fix, frozen=True, kw_only=True, tag="RaiseLimit"):
    """Raise a limit of the NodePool."""

    resource: str
    now: int
    to: int
    pool: str


class AllowPoolValue(Fix, frozen=True, kw_only=True, tag="AllowValue"):
    """Allow one more value of the label in the NodePool's requirement."""

    key: str
    value: str
    pool: str
    now: ValueSet | None = None
    """The requirement, where it is NotIn, Gt or Lt, to which no value can be added."""
    to: ValueSet | None = None
    """What it becomes then."""


class HonorTaints(Fix, frozen=True, kw_only=True, tag="HonorTaints"):
    """Set `nodeTaintsPolicy: Honor` of the pod's topology spread: domains of tainted NodePools and
    nodes that the pod does not tolerate no longer count."""

    key: str
    """The topology key."""


class ConstraintKind(StrEnum):
    """Constraints between pods that can be required or preferred."""

    POD_AFFINITY = "podAffinity"
    POD_ANTI_AFFINITY = "podAntiAffinity"
    TOPOLOGY_SPREAD = "topologySpreadConstraint"


class PreferConstraint(Fix, frozen=True, kw_only=True, tag="Prefer"):
    """Prefer what the pod requires of other pods: all such constraints by this topology key."""

    constraint: ConstraintKind
    key: str
    """The topology key."""
    pods: str = ""
    """The selector, as text."""


class EnlargeReservation(Fix, frozen=True, kw_only=True, tag="EnlargeReservation"):
    """Add instances to a capacity reservation that is full."""

    reservation: str
    by: int
    pool: str
    now: int | None = None
    """Instances that it has, used or not; None where only the free ones are known."""
    billed: float | None = None
    """USD per hour that EC2 bills for each instance, used or not: the price on demand."""
    modelled_bill: bool = False
    """Whether that price is an estimate."""


PodFix: TypeAlias = (
    LowerRequest
    | AddToleration
    | DropPodRequirement
    | ChangePodRequirement
    | AllowPodValue
    | HonorTaints
    | PreferConstraint
)
PoolFix: TypeAlias = (
    DropPoolRequirement | ChangePoolRequirement | AllowPoolValue | LowerMinValues | RaiseLimit
)
AnyFix: TypeAlias = PodFix | PoolFix | EnlargeReservation


class SuggestedLaunch(msgspec.Struct, frozen=True, kw_only=True):
    """Equal new nodes that a change adds to the plan, or that are no longer in it."""

    count: int
    instance_type: str
    capacity_type: str
    unrequested_devices: bool = False
    """Whether they have GPUs or accelerators that none of the pods requests."""


class VerifiedSuggestion(msgspec.Struct, frozen=True, kw_only=True):
    """Changes that together make pods of one group schedulable, and how that was verified."""

    changes: tuple[AnyFix, ...]
    workloads: tuple[str, ...] = ()
    """Deployment shop/web: those whose pods are changed, all pods of each; empty where no pod is
    changed, or one that nothing owns."""
    price_change: float | None = None
    """USD per hour, fees included, of the plan with the changes less the plan without; None where
    no plan of everything was made."""
    total_price: float | None = None
    """USD per hour, fees included, of all new nodes of the plan with the changes."""
    at_most: bool = False
    """Whether the price change is an upper bound: packing by cost may find a cheaper plan."""
    modelled_price: bool = False
    """Whether a price in it is an estimate."""
    launches: tuple[SuggestedLaunch, ...] = ()
    """The new nodes that the plan has with the changes and not without: what the price is for."""
    replaces: tuple[SuggestedLaunch, ...] = ()
    """Those that it has without the changes and not with them."""
    planned_nodes: int = 0
    """How many new nodes the pods would be on; on existing nodes only, none."""
    serves: int
    """How many of the pods are scheduled when the plan is made again with the changes."""
    of: int
    """How many pods the group has."""
    alone: bool = False
    """Whether it was verified for one pod only, on the state after the plan."""
