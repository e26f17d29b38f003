"""Events as EventBridge puts them into a queue: what happens to machines, as JSON text."""

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

import msgspec

from wainwright.emulator.services.arns import arn, partition
from wainwright.emulator.times import moment
from wainwright.emulator.world import World

EC2, HEALTH = "aws.ec2", "aws.health"
SPOT: Final = "EC2 Spot Instance Interruption Warning"
REBALANCE: Final = "EC2 Instance Rebalance Recommendation"
STATE: Final = "EC2 Instance State-change Notification"
RESERVATION: Final = "EC2 Capacity Reservation Instance Interruption Warning"
BLOCK: Final = "Capacity Block Expiration Warning"
HEALTH_EVENT: Final = "AWS Health Event"


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """What an event says beside its time and place."""

    source: str = EC2
    kind: str
    """The `detail-type`."""
    resources: tuple[str, ...]
    detail: dict[str, Any]


def body(world: World, event: Event) -> str:
    """The message, as of now."""
    return msgspec.json.encode(
        {
            "version": "0",
            "id": str(UUID(bytes=world.random.randbytes(16), version=4)),
            "detail-type": event.kind,
            "source": event.source,
            "account": world.account,
            "time": stamp(world.now()),
            "region": world.region,
            "resources": event.resources,
            "detail": event.detail,
        }
    ).decode()


def spot_interruption(world: World, instance: str, zone: str) -> Event:
    """Two minutes ahead. The ARN has the zone in place of region and account."""
    return Event(
        kind=SPOT,
        resources=(_spot_arn(world, instance, zone),),
        detail={"instance-id": instance, "instance-action": "terminate"},
    )


def rebalance(world: World, instance: str, zone: str) -> Event:
    return Event(
        kind=REBALANCE,
        resources=(_spot_arn(world, instance, zone),),
        detail={"instance-id": instance},
    )


def state_change(world: World, instance: str, state: str) -> Event:
    return Event(
        kind=STATE,
        resources=(_arn(world, instance),),
        detail={"instance-id": instance, "state": state},
    )


def reservation_interruption(
    world: World, instance: str, zone_id: str, lifecycle: str, ends: float
) -> Event:
    """For machines in capacity blocks and in capacity that its owner can take back."""
    return Event(
        kind=RESERVATION,
        resources=(_arn(world, instance),),
        detail={
            "instance-id": instance,
            "instance-action": "terminate",
            "instance-termination-time": stamp(ends),
            "availability-zone-id": zone_id,
            "instance-lifecycle": lifecycle,
        },
    )


def block_expires(world: World, reservation: str, ends: float) -> Event:
    """Forty minutes before a capacity block is over."""
    return Event(
        kind=BLOCK,
        resources=(arn("ec2", world.region, world.account, f"capacity-reservation/{reservation}"),),
        detail={"capacity-reservation-id": reservation, "end-date": stamp(ends)},
    )


def scheduled_change(
    world: World, instances: Sequence[str], code: str, window: tuple[float, float]
) -> Event:
    """AWS Health: something will be done to the machines, and there is no way around it."""
    word = code.upper().replace("-", "_")
    event = f"AWS_EC2_{word}_SCHEDULED"
    start, end = window
    where = f"arn:{partition(world.region)}:health:{world.region}::event/EC2/{event}"
    return Event(
        source=HEALTH,
        kind=HEALTH_EVENT,
        resources=tuple(instances),
        detail={
            "eventArn": f"{where}/{event}_{world.random.getrandbits(64):016x}",
            "service": "EC2",
            "eventTypeCode": event,
            "eventTypeCategory": "scheduledChange",
            "eventScopeCode": "ACCOUNT_SPECIFIC",
            "statusCode": "upcoming",
            "startTime": _in_words(start),
            "endTime": _in_words(end),
            "lastUpdatedTime": _in_words(world.now()),
            "eventRegion": world.region,
            "affectedAccount": world.account,
            "eventDescription": [
                {"language": "en_US", "latestDescription": f"{code} is scheduled for a machine."}
            ],
            "affectedEntities": [{"entityValue": each, "status": "PENDING"} for each in instances],
        },
    )


def stamp(seconds: float) -> str:
    return f"{moment(seconds):%Y-%m-%dT%H:%M:%SZ}"


def _in_words(seconds: float) -> str:
    """As AWS Health writes times."""
    return f"{moment(seconds):%a, %d %b %Y %H:%M:%S GMT}"


def _arn(world: World, instance: str) -> str:
    return arn("ec2", world.region, world.account, f"instance/{instance}")


def _spot_arn(world: World, instance: str, zone: str) -> str:
    return f"arn:{partition(world.region)}:ec2:{zone}:instance/{instance}"
