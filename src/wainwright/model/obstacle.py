"""What keeps a pod off a reservation that has slots to spare, where a pool's reason does not do."""

from enum import StrEnum
from typing import TypeAlias

import msgspec

from wainwright.model.preference import OnNodes
from wainwright.model.reason import PodReason, PoolReason, Reason
from wainwright.model.values import ValueSet


class Place(StrEnum):
    """Where a pod is instead."""

    NONE = "none"
    """Nowhere: it has no place at all."""
    EXISTING = "existing"
    """On a node that stands, or on a claim under way."""
    NEW = "new"
    """On a new node that takes no slot."""


class TooSmall(Reason, frozen=True, kw_only=True, tag="TooSmall"):
    """A machine of the reservation lacks room, be it because daemonsets take some of it."""

    resource: str
    needed: int
    """By the pod that asks for the least of it, where this is told of several."""
    room: int
    instance_type: str
    daemonsets: int = 0


class PoolForbids(Reason, frozen=True, kw_only=True, tag="PoolForbids"):
    """The pool's class selects the reservation, but its requirements rule it out for everybody."""

    key: str
    wanted: ValueSet
    offered: ValueSet | None


class PortsTaken(Reason, frozen=True, kw_only=True, tag="PortsTaken"):
    """Daemonsets have the ports on every such machine."""

    ports: tuple[int, ...]


class OutOfStock(Reason, frozen=True, kw_only=True, tag="OutOfStock"):
    """The reservation has slots, but the input says that the type cannot be had there."""

    instance_type: str


class NodesFirst(Reason, frozen=True, kw_only=True, tag="NodesFirst"):
    """There was room on a node that stands or is under way, and nothing was to be bought."""


class HeavierPool(Reason, frozen=True, kw_only=True, tag="HeavierPool"):
    """Another pool was asked first, and launched the node."""

    pool: str
    weight: int
    own: int
    """The weight of the pool that has the slot."""


class Prefers(Reason, frozen=True, kw_only=True, tag="Prefers"):
    """The pod would rather be elsewhere, and there it could be."""

    preference: OnNodes


class Tied(Reason, frozen=True, kw_only=True, tag="Tied"):
    """A spread, affinity or anti-affinity by these labels puts the pod elsewhere."""

    keys: tuple[str, ...]
    theirs: bool = False
    """Whether it is others who do not want it near."""


class Crowded(Reason, frozen=True, kw_only=True, tag="Crowded"):
    """When it was placed other pods were in the way, and they are no more: by what is not known."""


class Elsewhere(Reason, frozen=True, kw_only=True, tag="Elsewhere"):
    """It went to a new node of this pool, and nothing says why not here."""

    pool: str


OfReservation: TypeAlias = (
    TooSmall
    | PoolForbids
    | PortsTaken
    | OutOfStock
    | NodesFirst
    | HeavierPool
    | Prefers
    | Tied
    | Crowded
    | Elsewhere
)
Obstacle: TypeAlias = OfReservation | PoolReason | PodReason
"""With the reasons of pools and pods as far as these say it."""


class KeptOff(msgspec.Struct, frozen=True, kw_only=True):
    """Pods that one pool did not bring into the reservation, for one reason."""

    pool: str
    place: Place
    reason: Obstacle
    pods: tuple[str, ...]
