"""Instances of this cluster: described, listed, tagged, terminated; garbage; demotion to on-demand.

Requests for single instances are batched into few calls. One id that EC2 does not know fails the
whole call; then every id is requested by itself. For nodes whose instance has left its capacity
reservation, or whose capacity block ends, this module only computes the necessary changes; the
controllers relabel and drain.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from wainwright.aws.api.batching import INSTANCE_ID_WINDOW, Batcher, batch_metrics
from wainwright.aws.api.middleware import RateLimit, TokenBucket
from wainwright.aws.api.services import Ec2, Row, from_tag_list, tag_filters
from wainwright.aws.cluster_config import CLUSTER_NAME_TAG, ClusterConfig
from wainwright.aws.reservation_availability import ReservationAvailability
from wainwright.catalogue.offerings.capacity_reservations import (
    CAPACITY_BLOCK,
    ReservationStanding,
    SelectedReservation,
)
from wainwright.clock import Clock
from wainwright.cloud import LabelChange, ReservedNode
from wainwright.errors import AwsError, InstanceNotFoundError
from wainwright.metrics import INSTANCE_TERMINATION_FAILURES, MetricsRegistry
from wainwright.model import node_claim as model
from wainwright.model.labels import (
    CAPACITY_TYPE,
    EC2NODECLASS,
    INSTANCE_TYPE,
    NODEPOOL,
    ON_DEMAND,
    RESERVATION_ID,
    RESERVATION_LABELS,
    RESERVED,
    SPOT,
    ZONE,
    ZONE_ID,
)
from wainwright.model.node_claim import NodeClaim

BATCH_TAG: Final = "wainwright.dev/batch"


def batch_id(tags: Mapping[str, str]) -> str:
    """The launch batch of an instance; empty for instances that we did not launch."""
    return tags.get(BATCH_TAG, "")


RESERVATIONS_ONLY: Final = "capacity-reservations-only"
"""CapacityReservationPreference of launches into a reservation."""


class Ec2Instance(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    state: str
    instance_type: str
    image_id: str
    zone: str
    launched_at: float
    """Seconds since 1970."""
    zone_id: str = ""
    subnet_id: str = ""
    security_groups: frozenset[str] = frozenset()
    tenancy: str = "default"
    placement_group: str = ""
    """Its id, else its name."""
    partition: int = 0
    spot: bool = False
    reservation_id: str = ""
    """The capacity reservation that it is in, targeted or open."""
    reservation_preference: str = ""
    efa: bool = False
    tags: Mapping[str, str] = {}

    @property
    def is_reserved(self) -> bool:
        """Whether it was launched into its reservation and is still in it.

        An instance that EC2 put into an open reservation by itself counts as on-demand, as it was
        planned and priced as such.
        """
        return bool(self.reservation_id) and self.reservation_preference == RESERVATIONS_ONLY

    @property
    def capacity_type(self) -> str:
        if self.is_reserved:
            return RESERVED
        return SPOT if self.spot else ON_DEMAND


def parse_instance(row: Row) -> Ec2Instance:
    """From a row of DescribeInstances; fields that EC2 may omit may be absent."""
    placement: Mapping[str, Any] = row.get("Placement") or {}
    specification = row.get("CapacityReservationSpecification") or {}
    interfaces: Iterable[Mapping[str, Any]] = row.get("NetworkInterfaces") or ()
    return Ec2Instance(
        id=row["InstanceId"],
        state=row["State"]["Name"],
        instance_type=row["InstanceType"],
        image_id=row.get("ImageId", ""),
        zone=placement.get("AvailabilityZone", ""),
        zone_id=placement.get("AvailabilityZoneId", ""),
        launched_at=row["LaunchTime"].timestamp(),
        subnet_id=row.get("SubnetId", ""),
        security_groups=frozenset(each["GroupId"] for each in row.get("SecurityGroups") or ()),
        tenancy=placement.get("Tenancy") or "default",
        placement_group=placement.get("GroupId") or placement.get("GroupName") or "",
        partition=placement.get("PartitionNumber") or 0,
        spot=bool(row.get("SpotInstanceRequestId")) or row.get("InstanceLifecycle") == "spot",
        reservation_id=row.get("CapacityReservationId") or "",
        reservation_preference=specification.get("CapacityReservationPreference") or "",
        efa=any(str(each.get("InterfaceType", "")).startswith("efa") for each in interfaces),
        tags=from_tag_list(row.get("Tags")),
    )


INSTANCE_NOT_FOUND_CODES: Final = ("InvalidInstanceID.NotFound", "InvalidInstanceID.Malformed")
TERMINATING_STATES: Final = ("shutting-down", "terminated")


class InstanceBatcher:
    def __init__(self, ec2: Ec2, clock: Clock, metrics: MetricsRegistry) -> None:
        self._ec2 = ec2
        self._descriptions: Batcher[str, Ec2Instance | None] = Batcher(
            clock,
            INSTANCE_ID_WINDOW,
            self._describe,
            retry_individually=True,
            on_executed=batch_metrics(metrics, "describe_instances"),
        )
        self._terminations: Batcher[str, bool] = Batcher(
            clock,
            INSTANCE_ID_WINDOW,
            self._terminate,
            retry_individually=True,
            on_executed=batch_metrics(metrics, "terminate_instances"),
        )

    async def describe(self, instance_id: str) -> Ec2Instance | None:
        """The instance; None if it is gone or never existed."""
        return await self._descriptions.add(instance_id)

    async def terminate(self, instance_id: str) -> bool:
        """Whether the instance existed. Idempotent."""
        return await self._terminations.add(instance_id)

    async def _describe(self, ids: Sequence[str]) -> list[Ec2Instance | None]:
        try:
            rows = await self._ec2.describe_instances(ids=sorted(set(ids)))
        except AwsError as error:
            if len(ids) > 1 or error.code not in INSTANCE_NOT_FOUND_CODES:
                raise
            return [None]
        instances = {row["InstanceId"]: parse_instance(row) for row in rows}
        return [instances.get(instance_id) for instance_id in ids]

    async def _terminate(self, ids: Sequence[str]) -> list[bool | AwsError]:
        try:
            rows = await self._ec2.terminate_instances(sorted(set(ids)))
        except AwsError as error:
            if len(ids) > 1 or error.code not in INSTANCE_NOT_FOUND_CODES:
                raise
            return [False]
        states = {row["InstanceId"]: row["CurrentState"]["Name"] for row in rows}
        return [
            await self._terminate_again(instance_id, states.get(instance_id, ""))
            for instance_id in ids
        ]

    async def _terminate_again(self, instance_id: str, state: str) -> bool | AwsError:
        """Terminates once more by itself an instance that the response omits or shows running."""
        if state in TERMINATING_STATES:
            return True
        try:
            rows = await self._ec2.terminate_instances([instance_id])
        except AwsError as error:
            return False if error.code in INSTANCE_NOT_FOUND_CODES else error
        if any(row["CurrentState"]["Name"] in TERMINATING_STATES for row in rows):
            return True
        return AwsError("IncorrectInstanceState", f"{instance_id} is not being terminated", 0)


NAME_TAG: Final = "Name"
CLAIM_TAG: Final = "karpenter.sh/nodeclaim"
GARBAGE_MIN_AGE: Final = 30.0
"""Seconds for which an instance without a claim is kept: its claim may not be visible yet."""
MAX_CLOCK_SKEW: Final = 300.0
"""Seconds that our clock may differ from EC2's: AWS rejects requests that are signed later."""
TAGGING_RATE: Final = RateLimit(per_second=1, burst=1)
"""Tagging is not urgent; it must not use up the rate limit of launches and terminations."""


class InstanceProvider:
    def __init__(
        self,
        ec2: Ec2,
        instance_batcher: InstanceBatcher,
        cluster: ClusterConfig,
        availability: ReservationAvailability,
        clock: Clock,
        metrics: MetricsRegistry,
    ) -> None:
        self._ec2 = ec2
        self._metrics = metrics
        self._instance_batcher = instance_batcher
        self._cluster = cluster
        self._availability = availability
        self._clock = clock
        self._tagging = TokenBucket(TAGGING_RATE, clock.now())

    async def list_instances(self) -> list[Ec2Instance]:
        """All instances with the tags of this cluster that still exist, in the order of launch."""
        tags = {CLUSTER_NAME_TAG: self._cluster.name, EC2NODECLASS: "*", NODEPOOL: "*"}
        rows = await self._ec2.describe_instances(filters=tag_filters(tags))
        return sorted(map(parse_instance, rows), key=lambda each: (each.launched_at, each.id))

    async def get(self, instance_id: str) -> Ec2Instance:
        instance = await self._instance_batcher.describe(instance_id)
        if instance is None:
            raise _not_found_error(instance_id)
        return instance

    async def terminate(self, instance_id: str) -> None:
        """Does nothing if it is terminating already; frees its capacity in its reservation."""
        instance = await self.get(instance_id)
        if instance.state in TERMINATING_STATES:
            return
        try:
            is_found = await self._instance_batcher.terminate(instance_id)
        except AwsError as error:
            self._count_failure(instance, error.code)
            raise
        if not is_found:
            raise _not_found_error(instance_id)
        if instance.is_reserved:
            self._availability.record_termination(instance.reservation_id)

    def _count_failure(self, instance: Ec2Instance, reason: str) -> None:
        on_demand = RESERVED if instance.is_reserved else ON_DEMAND
        self._metrics.add(
            INSTANCE_TERMINATION_FAILURES,
            zone=instance.zone,
            zone_id=instance.zone_id,
            capacity_type=SPOT if instance.spot else on_demand,
            reason=reason,
        )

    async def tag(self, instance_id: str, *, node: str, claim: str) -> None:
        """Adds the tags that are missing; a Name tag of the class stays."""
        instance = await self.get(instance_id)
        tags = {NAME_TAG: node, CLAIM_TAG: claim, **self._cluster.owner_tags()}
        missing = {key: value for key, value in tags.items() if key not in instance.tags}
        if not missing:
            return
        wait = self._tagging.take(self._clock.now())
        if wait:
            await self._clock.sleep(wait)
        try:
            await self._ec2.create_tags([instance_id], missing)
        except AwsError as error:
            if error.code in INSTANCE_NOT_FOUND_CODES:
                raise _not_found_error(instance_id) from error
            raise


def _not_found_error(instance_id: str) -> InstanceNotFoundError:
    return InstanceNotFoundError(
        f"there is no instance {instance_id} any more", reason="InstanceNotFound"
    )


def provider_id(instance: Ec2Instance) -> str:
    """The spec.providerID that the AWS cloud controller sets on the node."""
    return f"aws:///{instance.zone}/{instance.id}"


def parse_instance_id(provider_id: str) -> str:
    """The inverse of `provider_id`; empty if it is not an EC2 instance."""
    name = provider_id.rpartition("/")[2]
    return name if provider_id.startswith("aws:///") and name.startswith("i-") else ""


def to_model_instance(
    instance: Ec2Instance, labels: Mapping[str, str] | None = None
) -> model.Instance:
    """As controllers see it, with the data that EC2 has."""
    return model.Instance(
        id=instance.id,
        provider_id=provider_id(instance),
        instance_type=instance.instance_type,
        zone=instance.zone,
        zone_id=instance.zone_id,
        capacity_type=instance.capacity_type,
        image_id=instance.image_id,
        launched=instance.launched_at,
        state=instance.state,
        reservation_id=instance.reservation_id if instance.is_reserved else "",
        subnet_id=instance.subnet_id,
        labels={**(labels or {}), **placement_labels(instance)},
        pool=instance.tags.get(NODEPOOL, ""),
        node_class=instance.tags.get(EC2NODECLASS, ""),
        claim=instance.tags.get(CLAIM_TAG, ""),
        batch=batch_id(instance.tags),
    )


def placement_labels(instance: Ec2Instance) -> dict[str, str]:
    """Labels for instance type, zone, capacity type and reservation."""
    labels = {
        INSTANCE_TYPE: instance.instance_type,
        ZONE: instance.zone,
        ZONE_ID: instance.zone_id,
        CAPACITY_TYPE: instance.capacity_type,
        RESERVATION_ID: instance.reservation_id if instance.is_reserved else "",
    }
    return {key: value for key, value in labels.items() if value}


def without_claim(
    instances: Iterable[Ec2Instance], claims: Iterable[NodeClaim]
) -> list[Ec2Instance]:
    """Instances that no claim has, except those that are ending."""
    owned = {claim.instance for claim in claims if claim.instance}
    return [
        each for each in instances if each.id not in owned and each.state not in TERMINATING_STATES
    ]


def without_awaited(
    unclaimed: Iterable[Ec2Instance], claims: Iterable[NodeClaim], in_flight: Collection[str]
) -> list[Ec2Instance]:
    """Except those that some claim is waiting for.

    `in_flight` are batches whose response is still to come. Instances of a batch in which some
    claim has no instance yet are left to `recovery`, which assigns them.
    """
    awaited = {
        claim.launch_record.batch for claim in claims if claim.launch_record and not claim.instance
    }
    awaited.update(in_flight)
    return [each for each in unclaimed if batch_id(each.tags) not in awaited]


class GarbageWatch:
    """How long instances have been without a claim, as this process has seen it.

    Launch times are by the clock of EC2. If ours is behind, they would make instances too young to
    be garbage for as long; if it is ahead, too old while their claims are not visible yet. They
    count only where the difference cannot matter.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._first_seen: dict[str, float] = {}

    def old_enough(self, unclaimed: Sequence[Ec2Instance]) -> list[Ec2Instance]:
        """Of all instances that are without a claim now, those that have been for long enough."""
        now = self._clock.now()
        self._first_seen = {each.id: self._first_seen.get(each.id, now) for each in unclaimed}
        return [
            each
            for each in unclaimed
            if now - self._first_seen[each.id] >= GARBAGE_MIN_AGE
            or now - each.launched_at > GARBAGE_MIN_AGE + MAX_CLOCK_SKEW
        ]


def find_demotions(
    nodes: Iterable[ReservedNode], instances: Mapping[str, Ec2Instance]
) -> list[LabelChange]:
    """The label changes after which the labels match how the instances are billed.

    An instance that is no longer in a reservation is on-demand. Claims and nodes are checked
    separately, as one of them may have been relabelled already. An unknown instance is skipped: it
    may merely not be visible yet.
    """
    changes: list[LabelChange] = []
    for node in nodes:
        instance = instances.get(node.instance_id)
        if node.is_reserved and instance is not None:
            changes += _demotion(node, instance)
    return changes


def _demotion(node: ReservedNode, instance: Ec2Instance) -> list[LabelChange]:
    reservation = instance.reservation_id if instance.is_reserved else ""
    if not reservation:
        obsolete = tuple(sorted(RESERVATION_LABELS & set(node.labels)))
        change = {CAPACITY_TYPE: ON_DEMAND}
        return [LabelChange(kind=node.kind, name=node.name, change=change, remove=obsolete)]
    if reservation != node.labels.get(RESERVATION_ID):
        # The instance was moved to another reservation; drift decides whether it may stay there.
        return [LabelChange(kind=node.kind, name=node.name, change={RESERVATION_ID: reservation})]
    return []


ENDING_STANDINGS: Final = (ReservationStanding.ENDING, ReservationStanding.ENDED)


def find_expiring_nodes(
    nodes: Iterable[ReservedNode], selected: Iterable[SelectedReservation]
) -> list[str]:
    """Names of the nodes and claims in a capacity block that ends within 40 minutes."""
    ending = {
        each.reservation.id
        for each in selected
        if each.standing in ENDING_STANDINGS and each.reservation.reservationType == CAPACITY_BLOCK
    }
    return sorted(
        node.name
        for node in nodes
        if node.is_reserved and node.labels.get(RESERVATION_ID) in ending
    )
