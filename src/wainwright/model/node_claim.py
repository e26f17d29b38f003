"""NodeClaims and the instances launched for them, as controllers and a cloud exchange them.

A claim carries the record of its last launch attempt, written before the request is sent, so
that a crash loses no instance. Interruptions are what the cloud announces about instances.
"""

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from wainwright.model.requirements import NO_REQUIREMENTS, Requirements
from wainwright.model.resources import Resources
from wainwright.model.taints import Taint


class LaunchRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What is written down on a claim before it is launched, so that a crash loses nothing.

    Claims that are launched in one request share a batch, which the instances carry as a tag: who
    comes later finds them by it, and deals them out to the claims in the order of `index`.
    """

    token: str
    """Of this claim and this attempt alone."""
    batch: str
    index: int
    attempt: int
    """How often the claim has been launched, this time included."""
    at: float
    """When, in seconds since 1970."""


class NodeClaim(msgspec.Struct, frozen=True, kw_only=True):
    """One instance that is wanted, and what is known of its launch so far."""

    name: str
    uid: str
    pool: str
    node_class: str
    requirements: Requirements = NO_REQUIREMENTS
    """Of the pool and its pods together, minValues included; reservations are pinned by label."""
    requests: Resources = {}
    """Of the pods, and of the daemonsets that will run beside them."""
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    taints: tuple[Taint, ...] = ()
    startup_taints: tuple[Taint, ...] = ()
    min_values_relaxed: bool = False
    """Whether fewer values will do than its pool asks for."""
    mark: LaunchRecord | None = None
    """Of the last attempt to launch it; None if there was none."""
    instance: str = ""
    """The id of its instance, once that is known for sure."""

    @property
    def under_way(self) -> bool:
        """Whether an instance may have been launched that nobody has written down yet."""
        return self.mark is not None and not self.instance


class Instance(msgspec.Struct, frozen=True, kw_only=True):
    """An instance. Whoever lists instances knows less of them than whoever has launched one."""

    id: str
    provider_id: str
    """As the node's spec.providerID names it."""
    instance_type: str
    zone: str
    zone_id: str
    capacity_type: str
    image_id: str
    launched: float
    """Seconds since 1970."""
    state: str = "pending"
    reservation_id: str = ""
    price: float | None = None
    """USD per hour; None where nobody has said it."""
    labels: Mapping[str, str] = {}
    """What its node is known to be: type, place, capacity type, and what the class adds."""
    annotations: Mapping[str, str] = {}
    """What is to be written on its claim: from which settings it was launched."""
    capacity: Resources = {}
    allocatable: Resources = {}
    """As they were planned with; empty in listings."""
    pool: str = ""
    node_class: str = ""
    claim: str = ""
    """The name of its claim, where the instance says so."""
    batch: str = ""
    """The launch that it came from; see `model.claim.Mark`."""
    notes: tuple[str, ...] = ()
    """What somebody should know about the launch."""


class InterruptionKind(StrEnum):
    """What is announced; the value is the word for it in metrics."""

    SPOT = "spot_interrupted"
    REBALANCE = "rebalance_recommendation"
    SCHEDULED = "scheduled_change"
    STOPPING = "instance_stopping"
    TERMINATING = "instance_terminating"
    RESERVATION = "capacity_reservation_interrupted"
    UNHEALTHY = "instance_unhealthy"

    @property
    def forceful(self) -> bool:
        """Whether there is nothing left to wait for: the instance does not answer any more."""
        return self is InterruptionKind.UNHEALTHY

    @property
    def ends(self) -> bool:
        """Whether the instance is lost, so that its claim has to go; the rest is advice."""
        return self is not InterruptionKind.REBALANCE


class Interruption(msgspec.Struct, frozen=True, kw_only=True):
    """One announcement about one instance."""

    kind: InterruptionKind
    instance: str
    at: float
    """When it was announced, in seconds since 1970."""
    detail: str = ""
    """What the cloud calls it, for people."""
    ends_at: float | None = None
    """When the instance goes, where the cloud says so."""
