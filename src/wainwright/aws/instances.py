"""Instances: the machines of this cluster: listed, looked up, tagged, ended, found ownerless."""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from wainwright.aws.by_id import ENDED, NOT_FOUND, ById
from wainwright.aws.cluster import CLUSTER_NAME_TAG, Cluster
from wainwright.aws.ec2 import Ec2
from wainwright.aws.instance import Instance, instance
from wainwright.aws.pace import Bucket, Rate
from wainwright.aws.reservations import Availability
from wainwright.aws.tokens import batch_of
from wainwright.aws.wire import tag_filters
from wainwright.clock import Clock
from wainwright.errors import AwsError, NotFound
from wainwright.model import instance as model
from wainwright.model.claim import Claim
from wainwright.model.labels import (
    CAPACITY_TYPE,
    EC2NODECLASS,
    INSTANCE_TYPE,
    NODEPOOL,
    RESERVATION_ID,
    ZONE,
    ZONE_ID,
)

NAME_TAG: Final = "Name"
CLAIM_TAG: Final = "karpenter.sh/nodeclaim"
YOUNG: Final = 30.0
"""Seconds for which a machine without a claim is left alone: the claim may not be seen yet."""
TAGGING: Final = Rate(per_second=1, burst=1)
"""Tags can wait; launches and terminations share the account's calls."""


class Instances:
    def __init__(
        self, ec2: Ec2, by_id: ById, cluster: Cluster, availability: Availability, clock: Clock
    ) -> None:
        self._ec2 = ec2
        self._by_id = by_id
        self._cluster = cluster
        self._availability = availability
        self._clock = clock
        self._tagging = Bucket(TAGGING, clock.now())

    async def listed(self) -> list[Instance]:
        """Everything that is marked as ours and still there, in the order of launch."""
        ours = {CLUSTER_NAME_TAG: self._cluster.name, EC2NODECLASS: "*", NODEPOOL: "*"}
        rows = await self._ec2.describe_instances(filters=tag_filters(ours))
        return sorted(map(instance, rows), key=lambda each: (each.launched, each.id))

    async def get(self, identity: str) -> Instance:
        found = await self._by_id.describe(identity)
        if found is None:
            raise _gone(identity)
        return found

    async def terminate(self, identity: str) -> None:
        """To one that is going already nothing more is done; the place it had is free again."""
        found = await self.get(identity)
        if found.state in ENDED:
            return
        if not await self._by_id.terminate(identity):
            raise _gone(identity)
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
            if error.code in NOT_FOUND:
                raise _gone(identity) from error
            raise


def _gone(identity: str) -> NotFound:
    return NotFound(f"there is no instance {identity} any more", reason="InstanceNotFound")


def provider_id(instance: Instance) -> str:
    """As the cloud controller of Kubernetes names it on the node."""
    return f"aws:///{instance.zone}/{instance.id}"


def instance_id(provider_id: str) -> str:
    """The other way round; empty where it names no machine of EC2."""
    name = provider_id.rpartition("/")[2]
    return name if provider_id.startswith("aws:///") and name.startswith("i-") else ""


def shown(instance: Instance, labels: Mapping[str, str] | None = None) -> model.Instance:
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
        labels={**(labels or {}), **placed(instance)},
        pool=instance.tags.get(NODEPOOL, ""),
        node_class=instance.tags.get(EC2NODECLASS, ""),
        claim=instance.tags.get(CLAIM_TAG, ""),
        batch=batch_of(instance.tags),
    )


def placed(instance: Instance) -> dict[str, str]:
    """Labels that say where the machine is and how it is paid for."""
    found = {
        INSTANCE_TYPE: instance.instance_type,
        ZONE: instance.zone,
        ZONE_ID: instance.zone_id,
        CAPACITY_TYPE: instance.capacity_type,
        RESERVATION_ID: instance.reservation_id if instance.reserved else "",
    }
    return {key: value for key, value in found.items() if value}


def garbage(
    instances: Iterable[Instance], claims: Iterable[Claim], under_way: Collection[str], now: float
) -> list[Instance]:
    """Machines that no claim has and none is waiting for.

    `under_way` are batches whose answer is still to come. Machines of a batch of which some claim
    has none yet are left to `recovery`, which knows whose they are.
    """
    known = list(claims)
    owned = {claim.instance for claim in known if claim.instance}
    awaited = {claim.mark.batch for claim in known if claim.mark and not claim.instance}
    awaited.update(under_way)
    return [
        each
        for each in instances
        if each.id not in owned
        and each.state not in ENDED
        and now - each.launched > YOUNG
        and batch_of(each.tags) not in awaited
    ]
