"""Instances of this cluster: described, listed, tagged, terminated; garbage; demotion to on-demand.

Questions about single instances are gathered into few calls. One id that EC2 does not know fails
the whole call; the others are then asked about one by one. What is to be done about nodes whose
instance has left its capacity reservation, or whose capacity block ends, is data: others relabel
and drain.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from wainwright.aws.api.batching import INSTANCE_ID_WINDOW, Batcher, batch_metrics
from wainwright.aws.api.middleware import RateLimit, TokenBucket
from wainwright.aws.api.seam import Row, from_tag_list, tag_filters
from wainwright.aws.api.services import Ec2
from wainwright.aws.cluster_config import CLUSTER_NAME_TAG, ClusterConfig
from wainwright.aws.reservation_availability import ReservationAvailability
from wainwright.catalogue.offerings.capacity_reservations import (
    CAPACITY_BLOCK,
    ReservationStanding,
    SelectedReservation,
)
from wainwright.clock import Clock
from wainwright.errors import AwsError, InstanceNotFoundError
from wainwright.metrics import MetricsRegistry
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
    """The batch that an instance came from; empty for those of somebody else."""
    return tags.get(BATCH_TAG, "")


RESERVATIONS_ONLY: Final = "capacity-reservations-only"


class Ec2Instance(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    state: str
    instance_type: str
    image_id: str
    zone: str
    launched: float
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
    """The capacity reservation that it is in, wanted or not."""
    preference: str = ""
    efa: bool = False
    tags: Mapping[str, str] = {}

    @property
    def reserved(self) -> bool:
        """Launched into its reservation, and still there.

        What EC2 put into an open reservation by itself is on-demand: nobody here counts on it.
        """
        return bool(self.reservation_id) and self.preference == RESERVATIONS_ONLY

    @property
    def capacity_type(self) -> str:
        if self.reserved:
            return RESERVED
        return SPOT if self.spot else ON_DEMAND


def parse_instance(row: Row) -> Ec2Instance:
    """From a row of the answer; what EC2 may leave out is allowed to be absent."""
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
        launched=row["LaunchTime"].timestamp(),
        subnet_id=row.get("SubnetId", ""),
        security_groups=frozenset(each["GroupId"] for each in row.get("SecurityGroups") or ()),
        tenancy=placement.get("Tenancy") or "default",
        placement_group=placement.get("GroupId") or placement.get("GroupName") or "",
        partition=placement.get("PartitionNumber") or 0,
        spot=bool(row.get("SpotInstanceRequestId")) or row.get("InstanceLifecycle") == "spot",
        reservation_id=row.get("CapacityReservationId") or "",
        preference=specification.get("CapacityReservationPreference") or "",
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
            alone=True,
            watch=batch_metrics(metrics, "describe_instances"),
        )
        self._terminations: Batcher[str, bool] = Batcher(
            clock,
            INSTANCE_ID_WINDOW,
            self._terminate,
            alone=True,
            watch=batch_metrics(metrics, "terminate_instances"),
        )

    async def describe(self, identity: str) -> Ec2Instance | None:
        """The instance; None where it is gone, or was never there."""
        return await self._descriptions.add(identity)

    async def terminate(self, identity: str) -> bool:
        """Whether there was anything to terminate. To say it twice does no harm."""
        return await self._terminations.add(identity)

    async def _describe(self, ids: Sequence[str]) -> list[Ec2Instance | None]:
        try:
            rows = await self._ec2.describe_instances(ids=sorted(set(ids)))
        except AwsError as error:
            if len(ids) > 1 or error.code not in INSTANCE_NOT_FOUND_CODES:
                raise
            return [None]
        found = {row["InstanceId"]: parse_instance(row) for row in rows}
        return [found.get(identity) for identity in ids]

    async def _terminate(self, ids: Sequence[str]) -> list[bool | AwsError]:
        try:
            rows = await self._ec2.terminate_instances(sorted(set(ids)))
        except AwsError as error:
            if len(ids) > 1 or error.code not in INSTANCE_NOT_FOUND_CODES:
                raise
            return [False]
        states = {row["InstanceId"]: row["CurrentState"]["Name"] for row in rows}
        return [await self._ended(identity, states.get(identity, "")) for identity in ids]

    async def _ended(self, identity: str, state: str) -> bool | AwsError:
        """What the answer left out, or left running, is asked for once more by itself."""
        if state in TERMINATING_STATES:
            return True
        try:
            rows = await self._ec2.terminate_instances([identity])
        except AwsError as error:
            return False if error.code in INSTANCE_NOT_FOUND_CODES else error
        if any(row["CurrentState"]["Name"] in TERMINATING_STATES for row in rows):
            return True
        return AwsError("IncorrectInstanceState", f"{identity} is not being terminated", 0)


NAME_TAG: Final = "Name"
CLAIM_TAG: Final = "karpenter.sh/nodeclaim"
GARBAGE_MIN_AGE: Final = 30.0
"""Seconds for which an instance without a claim is left alone: the claim may not be seen yet."""
TAGGING_RATE: Final = RateLimit(per_second=1, burst=1)
"""Tags can wait; launches and terminations share the account's calls."""


class InstanceProvider:
    def __init__(
        self,
        ec2: Ec2,
        instance_batcher: InstanceBatcher,
        cluster: ClusterConfig,
        availability: ReservationAvailability,
        clock: Clock,
    ) -> None:
        self._ec2 = ec2
        self._instance_batcher = instance_batcher
        self._cluster = cluster
        self._availability = availability
        self._clock = clock
        self._tagging = TokenBucket(TAGGING_RATE, clock.now())

    async def listed(self) -> list[Ec2Instance]:
        """Everything that is marked as ours and still there, in the order of launch."""
        ours = {CLUSTER_NAME_TAG: self._cluster.name, EC2NODECLASS: "*", NODEPOOL: "*"}
        rows = await self._ec2.describe_instances(filters=tag_filters(ours))
        return sorted(map(parse_instance, rows), key=lambda each: (each.launched, each.id))

    async def get(self, identity: str) -> Ec2Instance:
        found = await self._instance_batcher.describe(identity)
        if found is None:
            raise _not_found_error(identity)
        return found

    async def terminate(self, identity: str) -> None:
        """To one that is going already nothing more is done; the place it had is free again."""
        found = await self.get(identity)
        if found.state in TERMINATING_STATES:
            return
        if not await self._instance_batcher.terminate(identity):
            raise _not_found_error(identity)
        if found.reserved:
            self._availability.terminated(found.reservation_id)

    async def tag(self, identity: str, *, node: str, claim: str) -> None:
        """What is still missing; a name that the class gives stays."""
        found = await self.get(identity)
        wanted = {NAME_TAG: node, CLAIM_TAG: claim, **self._cluster.owner_tags()}
        missing = {key: value for key, value in wanted.items() if key not in found.tags}
        if not missing:
            return
        wait = self._tagging.take(self._clock.now())
        if wait:
            await self._clock.sleep(wait)
        try:
            await self._ec2.create_tags([identity], missing)
        except AwsError as error:
            if error.code in INSTANCE_NOT_FOUND_CODES:
                raise _not_found_error(identity) from error
            raise


def _not_found_error(identity: str) -> InstanceNotFoundError:
    return InstanceNotFoundError(
        f"there is no instance {identity} any more", reason="InstanceNotFound"
    )


def provider_id(instance: Ec2Instance) -> str:
    """As the cloud controller of Kubernetes names it on the node."""
    return f"aws:///{instance.zone}/{instance.id}"


def parse_instance_id(provider_id: str) -> str:
    """The other way round; empty where it names no instance of EC2."""
    name = provider_id.rpartition("/")[2]
    return name if provider_id.startswith("aws:///") and name.startswith("i-") else ""


def to_model_instance(
    instance: Ec2Instance, labels: Mapping[str, str] | None = None
) -> model.Instance:
    """As controllers see it, as far as EC2 says it."""
    return model.Instance(
        id=instance.id,
        provider_id=provider_id(instance),
        instance_type=instance.instance_type,
        zone=instance.zone,
        zone_id=instance.zone_id,
        capacity_type=instance.capacity_type,
        image_id=instance.image_id,
        launched=instance.launched,
        state=instance.state,
        reservation_id=instance.reservation_id if instance.reserved else "",
        labels={**(labels or {}), **placement_labels(instance)},
        pool=instance.tags.get(NODEPOOL, ""),
        node_class=instance.tags.get(EC2NODECLASS, ""),
        claim=instance.tags.get(CLAIM_TAG, ""),
        batch=batch_id(instance.tags),
    )


def placement_labels(instance: Ec2Instance) -> dict[str, str]:
    """Labels that say where the instance is and how it is paid for."""
    found = {
        INSTANCE_TYPE: instance.instance_type,
        ZONE: instance.zone,
        ZONE_ID: instance.zone_id,
        CAPACITY_TYPE: instance.capacity_type,
        RESERVATION_ID: instance.reservation_id if instance.reserved else "",
    }
    return {key: value for key, value in found.items() if value}


def find_garbage(
    instances: Iterable[Ec2Instance],
    claims: Iterable[NodeClaim],
    under_way: Collection[str],
    now: float,
) -> list[Ec2Instance]:
    """Instances that no claim has and none is waiting for.

    `under_way` are batches whose answer is still to come. Instances of a batch of which some claim
    has none yet are left to `recovery`, which knows whose they are.
    """
    known = list(claims)
    owned = {claim.instance for claim in known if claim.instance}
    awaited = {
        claim.launch_record.batch for claim in known if claim.launch_record and not claim.instance
    }
    awaited.update(under_way)
    return [
        each
        for each in instances
        if each.id not in owned
        and each.state not in TERMINATING_STATES
        and now - each.launched > GARBAGE_MIN_AGE
        and batch_id(each.tags) not in awaited
    ]


class ReservedNode(msgspec.Struct, frozen=True, kw_only=True):
    """A NodeClaim or Node, as far as its reservation is concerned."""

    kind: str
    name: str
    instance_id: str
    labels: Mapping[str, str]

    @property
    def reserved(self) -> bool:
        return self.labels.get(CAPACITY_TYPE) == RESERVED


class LabelChange(msgspec.Struct, frozen=True, kw_only=True):
    """Labels to be changed on one object."""

    kind: str
    name: str
    change: dict[str, str]
    remove: tuple[str, ...] = ()


def find_demotions(
    marked: Iterable[ReservedNode], instances: Mapping[str, Ec2Instance]
) -> list[LabelChange]:
    """What to relabel so that the labels say what is paid.

    An instance that is in no reservation any more is on-demand. Claims and nodes are looked at one
    by one, as either may be left alone. Of an instance that is not known nothing is said: it may
    merely not be visible yet.
    """
    found: list[LabelChange] = []
    for each in marked:
        instance = instances.get(each.instance_id)
        if each.reserved and instance is not None:
            found += _demotion(each, instance)
    return found


def _demotion(marked: ReservedNode, instance: Ec2Instance) -> list[LabelChange]:
    now = instance.reservation_id if instance.reserved else ""
    if not now:
        gone = tuple(sorted(RESERVATION_LABELS & set(marked.labels)))
        change = {CAPACITY_TYPE: ON_DEMAND}
        return [LabelChange(kind=marked.kind, name=marked.name, change=change, remove=gone)]
    if now != marked.labels.get(RESERVATION_ID):
        # Somebody has moved the instance to another reservation; drift decides whether it may stay.
        return [LabelChange(kind=marked.kind, name=marked.name, change={RESERVATION_ID: now})]
    return []


ENDING_STANDINGS: Final = (ReservationStanding.ENDING, ReservationStanding.ENDED)


def find_expiring_nodes(
    marked: Iterable[ReservedNode], selected: Iterable[SelectedReservation]
) -> list[str]:
    """Names of what runs in a capacity block that ends within 40 minutes."""
    ending = {
        each.reservation.id
        for each in selected
        if each.standing in ENDING_STANDINGS and each.reservation.reservationType == CAPACITY_BLOCK
    }
    return sorted(
        each.name for each in marked if each.reserved and each.labels.get(RESERVATION_ID) in ending
    )
