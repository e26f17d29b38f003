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
    """What is recorded on a claim before its launch request, so that a crash loses no instance.

    Claims that are launched in one request share a batch, which the instances carry as a tag: a
    restarted controller finds them by it, and assigns them to the claims in the order of `index`.
    No two launches have the same batch, whichever process makes them.
    """

    token: str
    """The client token: unique to this claim and this attempt."""
    batch: str
    index: int
    attempt: int
    """The number of launch attempts of the claim, this one included."""
    at: float
    """The time of the attempt, in seconds since 1970."""
    batch_size: int = 0
    """The number of claims in the request; 0 if it was not recorded."""


class NodeClaim(msgspec.Struct, frozen=True, kw_only=True):
    """A NodeClaim: one instance to be launched, and the state of its launch."""

    name: str
    uid: str
    pool: str
    node_class: str
    requirements: Requirements = NO_REQUIREMENTS
    """Of NodePool and pods together, minValues included; reservations are pinned by label."""
    requests: Resources = {}
    """Of the pods, and of the DaemonSet pods that will run on the same node."""
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    taints: tuple[Taint, ...] = ()
    startup_taints: tuple[Taint, ...] = ()
    expire_after: float | None = None
    """Seconds; None for Never."""
    termination_grace_period: float | None = None
    """Seconds; None where draining may take as long as it likes."""
    min_values_relaxed: bool = False
    """Whether fewer values are accepted than minValues of its NodePool."""
    reservation_required: bool = False
    """Whether NodePool or pods require its reservation; else another one like it will do."""
    launch_record: LaunchRecord | None = None
    """The last launch attempt; None if there was none."""
    instance: str = ""
    """The id of its instance, once that is certain."""

    @property
    def has_pending_launch(self) -> bool:
        """Whether an instance may have been launched whose id is not yet recorded on the claim."""
        return self.launch_record is not None and not self.instance


class Instance(msgspec.Struct, frozen=True, kw_only=True):
    """An EC2 instance. One from a listing has fewer fields set than one from its launch."""

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
    subnet_id: str = ""
    price: float | None = None
    """USD per hour; None where it is not known."""
    labels: Mapping[str, str] = {}
    """Labels of its node: instance type, zone, capacity type, and those of the node class."""
    annotations: Mapping[str, str] = {}
    """Annotations for its claim: hashes of the settings that it was launched with."""
    capacity: Resources = {}
    allocatable: Resources = {}
    """As planned; this and `capacity` are empty in listings."""
    pool: str = ""
    node_class: str = ""
    claim: str = ""
    """The name of its claim, where the instance has that tag."""
    batch: str = ""
    """The batch of its launch; see LaunchRecord."""
    notes: tuple[str, ...] = ()
    """Notes about the launch, for events and logs."""


class InterruptionKind(StrEnum):
    """The kinds of interruption; the value is the label value in metrics."""

    SPOT = "spot_interrupted"
    REBALANCE = "rebalance_recommendation"
    SCHEDULED = "scheduled_change"
    STOPPING = "instance_stopping"
    TERMINATING = "instance_terminating"
    RESERVATION = "capacity_reservation_interrupted"
    UNHEALTHY = "instance_unhealthy"

    @property
    def is_forceful(self) -> bool:
        """Whether draining is pointless: the instance does not respond any more."""
        return self is InterruptionKind.UNHEALTHY

    @property
    def ends_instance(self) -> bool:
        """Whether the instance is lost, so that its claim is deleted; the others are advice."""
        return self is not InterruptionKind.REBALANCE


class Interruption(msgspec.Struct, frozen=True, kw_only=True):
    """One interruption notice about one instance."""

    kind: InterruptionKind
    instance: str
    at: float
    """When it was announced, in seconds since 1970."""
    detail: str = ""
    """The name that the cloud gives it, for display."""
    ends_at: float | None = None
    """When the instance is taken, where the notice has a time."""
