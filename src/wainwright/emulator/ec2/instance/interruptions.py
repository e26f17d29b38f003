"""Interruptions: what happens to instances from outside, and the events that EventBridge puts into
the queue about it.

A warning comes first and the termination two minutes later, as a timed event. What
DescribeInstanceStatus shows of an instance beside its state stands in `state` here: `events`
(scheduled by EC2) and `impaired` (checks that fail, and since when), both by instance id.

Wiring: register it beside the services so that its state is saved, and have instances watched by
`instances.watch(interruptions.on_state_change)`: that sends the state changes and forgets the
terminated. Without a queue of that name nobody is told, and everything happens all the same.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, Protocol
from uuid import UUID

import msgspec

from wainwright.emulator.api_conventions import (
    aws_partition,
    make_arn,
    new_resource_id,
    to_datetime,
)
from wainwright.emulator.context import AccountContext, OperationHandler
from wainwright.errors import InvalidInputError

EC2_SOURCE, HEALTH_SOURCE = "aws.ec2", "aws.health"
SPOT_INTERRUPTION_WARNING: Final = "EC2 Spot Instance Interruption Warning"
REBALANCE_RECOMMENDATION: Final = "EC2 Instance Rebalance Recommendation"
STATE_CHANGE_NOTIFICATION: Final = "EC2 Instance State-change Notification"
RESERVATION_INTERRUPTION_WARNING: Final = "EC2 Capacity Reservation Instance Interruption Warning"
CAPACITY_BLOCK_EXPIRATION_WARNING: Final = "Capacity Block Expiration Warning"
HEALTH_EVENT: Final = "AWS Health Event"


class EventBridgeEvent(msgspec.Struct, frozen=True, kw_only=True):
    """What an event says beside its time and place."""

    source: str = EC2_SOURCE
    kind: str
    """The `detail-type`."""
    resources: tuple[str, ...]
    detail: dict[str, Any]


def encode_event(context: AccountContext, event: EventBridgeEvent) -> str:
    """The message, as of now."""
    return msgspec.json.encode(
        {
            "version": "0",
            "id": str(UUID(bytes=context.random.randbytes(16), version=4)),
            "detail-type": event.kind,
            "source": event.source,
            "account": context.account,
            "time": event_timestamp(context.now()),
            "region": context.region,
            "resources": event.resources,
            "detail": event.detail,
        }
    ).decode()


def spot_interruption_event(context: AccountContext, instance: str, zone: str) -> EventBridgeEvent:
    """Two minutes ahead. The ARN has the zone in place of region and account."""
    return EventBridgeEvent(
        kind=SPOT_INTERRUPTION_WARNING,
        resources=(_spot_instance_arn(context, instance, zone),),
        detail={"instance-id": instance, "instance-action": "terminate"},
    )


def rebalance_event(context: AccountContext, instance: str, zone: str) -> EventBridgeEvent:
    return EventBridgeEvent(
        kind=REBALANCE_RECOMMENDATION,
        resources=(_spot_instance_arn(context, instance, zone),),
        detail={"instance-id": instance},
    )


def state_change_event(context: AccountContext, instance: str, state: str) -> EventBridgeEvent:
    return EventBridgeEvent(
        kind=STATE_CHANGE_NOTIFICATION,
        resources=(_instance_arn(context, instance),),
        detail={"instance-id": instance, "state": state},
    )


def reservation_interruption_event(
    context: AccountContext, instance: str, zone_id: str, lifecycle: str, ends: float
) -> EventBridgeEvent:
    """For machines in capacity blocks and in capacity that its owner can take back."""
    return EventBridgeEvent(
        kind=RESERVATION_INTERRUPTION_WARNING,
        resources=(_instance_arn(context, instance),),
        detail={
            "instance-id": instance,
            "instance-action": "terminate",
            "instance-termination-time": event_timestamp(ends),
            "availability-zone-id": zone_id,
            "instance-lifecycle": lifecycle,
        },
    )


def block_expiration_event(
    context: AccountContext, reservation: str, ends: float
) -> EventBridgeEvent:
    """Forty minutes before a capacity block is over."""
    return EventBridgeEvent(
        kind=CAPACITY_BLOCK_EXPIRATION_WARNING,
        resources=(
            make_arn("ec2", context.region, context.account, f"capacity-reservation/{reservation}"),
        ),
        detail={"capacity-reservation-id": reservation, "end-date": event_timestamp(ends)},
    )


def scheduled_change_event(
    context: AccountContext, instances: Sequence[str], code: str, window: tuple[float, float]
) -> EventBridgeEvent:
    """AWS Health: something will be done to the machines, and there is no way around it."""
    word = code.upper().replace("-", "_")
    event = f"AWS_EC2_{word}_SCHEDULED"
    start, end = window
    where = f"arn:{aws_partition(context.region)}:health:{context.region}::event/EC2/{event}"
    return EventBridgeEvent(
        source=HEALTH_SOURCE,
        kind=HEALTH_EVENT,
        resources=tuple(instances),
        detail={
            "eventArn": f"{where}/{event}_{context.random.getrandbits(64):016x}",
            "service": "EC2",
            "eventTypeCode": event,
            "eventTypeCategory": "scheduledChange",
            "eventScopeCode": "ACCOUNT_SPECIFIC",
            "statusCode": "upcoming",
            "startTime": _health_timestamp(start),
            "endTime": _health_timestamp(end),
            "lastUpdatedTime": _health_timestamp(context.now()),
            "eventRegion": context.region,
            "affectedAccount": context.account,
            "eventDescription": [
                {"language": "en_US", "latestDescription": f"{code} is scheduled for a machine."}
            ],
            "affectedEntities": [{"entityValue": each, "status": "PENDING"} for each in instances],
        },
    )


def event_timestamp(seconds: float) -> str:
    return f"{to_datetime(seconds):%Y-%m-%dT%H:%M:%SZ}"


def _health_timestamp(seconds: float) -> str:
    """As AWS Health writes times."""
    return f"{to_datetime(seconds):%a, %d %b %Y %H:%M:%S GMT}"


def _instance_arn(context: AccountContext, instance: str) -> str:
    return make_arn("ec2", context.region, context.account, f"instance/{instance}")


def _spot_instance_arn(context: AccountContext, instance: str, zone: str) -> str:
    return f"arn:{aws_partition(context.region)}:ec2:{zone}:instance/{instance}"


NOTICE_SECONDS: Final = 120.0
MONTH_SECONDS: Final = 30 * 86_400.0
TERMINATION_EVENT: Final = "interruption.ends"
SPOT_INTERRUPTION_EVENT: Final = "interruption.spot"
NOTIFIED_STATES: Final = frozenset({"pending", "running", "shutting-down", "terminated"})
FINAL_STATES: Final = frozenset({"terminated", "gone"})

SPOT_TERMINATION_REASON: Final = "Server.SpotInstanceTermination"
RESERVATION_TERMINATION_REASON: Final = "Server.CapacityReservationInterruption"
SCHEDULED_STOP_REASON: Final = "Server.ScheduledStop"


class ScheduledEventCode(StrEnum):
    """What EC2 schedules."""

    INSTANCE_REBOOT = "instance-reboot"
    SYSTEM_REBOOT = "system-reboot"
    SYSTEM_MAINTENANCE = "system-maintenance"
    INSTANCE_RETIREMENT = "instance-retirement"
    INSTANCE_STOP = "instance-stop"

    @property
    def final(self) -> bool:
        """Whether the machine is gone afterwards."""
        return self in (ScheduledEventCode.INSTANCE_RETIREMENT, ScheduledEventCode.INSTANCE_STOP)


class StatusCheck(StrEnum):
    """What EC2 looks at."""

    INSTANCE = "instance"
    SYSTEM = "system"
    EBS = "attached-ebs"


class ScheduledEvent(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    code: ScheduledEventCode
    description: str
    not_before: float
    not_after: float


class InterruptionState(msgspec.Struct, kw_only=True):
    events: dict[str, list[ScheduledEvent]] = {}
    impaired: dict[str, dict[StatusCheck, float]] = {}
    """Which checks fail, and since when."""
    spot_share: float = 0.0
    """The share of spot machines that EC2 takes back within thirty days; none unless asked for."""


class InterruptibleInstance(Protocol):
    """What must be known of a machine."""

    @property
    def id(self) -> str: ...
    @property
    def zone(self) -> str: ...
    @property
    def zone_id(self) -> str: ...
    @property
    def state(self) -> str: ...
    @property
    def lifecycle(self) -> str: ...


class InterruptibleInstances(Protocol):
    def get(self, instance: str) -> InterruptibleInstance | None: ...

    def terminate(self, ids: Iterable[str], reason: str) -> None: ...


class QueueSender(Protocol):
    def send(self, queue: str, body: str) -> None: ...


class Interruptions:
    name = "interruptions"

    def __init__(
        self,
        context: AccountContext,
        sender: QueueSender,
        queue: str,
        machines: InterruptibleInstances,
    ) -> None:
        self.state = InterruptionState()
        self._context = context
        self._sender = sender
        self._queue = queue
        self._machines = machines
        context.on(TERMINATION_EVENT, self._end)
        context.on(SPOT_INTERRUPTION_EVENT, self._strike)

    def operations(self) -> Mapping[str, OperationHandler]:
        """None of its own: it is told from within what to do."""
        return {}

    def spot(self, instance: str, notice: float = NOTICE_SECONDS) -> None:
        """EC2 wants the machine back."""
        victim = self._known(instance)
        self._tell(spot_interruption_event(self._context, victim.id, victim.zone))
        self._end_later(victim, notice, SPOT_TERMINATION_REASON)

    def rebalance(self, instance: str) -> None:
        """EC2 may want the machine back before long; nothing else happens."""
        victim = self._known(instance)
        self._tell(rebalance_event(self._context, victim.id, victim.zone))

    def reservation(self, instance: str, notice: float = NOTICE_SECONDS) -> None:
        """Whoever lent the capacity takes it back, or the block that it came with is over."""
        victim, ends = self._known(instance), self._context.now() + notice
        self._tell(
            reservation_interruption_event(
                self._context, victim.id, victim.zone_id, victim.lifecycle, ends
            )
        )
        self._end_later(victim, notice, RESERVATION_TERMINATION_REASON)

    def block(
        self,
        reservation: str,
        machines: Iterable[InterruptibleInstance],
        *,
        ends: float,
        taken: float,
    ) -> None:
        """A capacity block is nearly over, and its machines are taken before; others do that."""
        self._tell(block_expiration_event(self._context, reservation, ends))
        for each in machines:
            told = (each.id, each.zone_id, each.lifecycle, taken)
            self._tell(reservation_interruption_event(self._context, *told))

    def schedule(
        self, instance: str, code: ScheduledEventCode, *, starts: float, lasts: float = 3600.0
    ) -> ScheduledEvent:
        """EC2 will do something to the machine; `starts` in seconds since 1970."""
        victim = self._known(instance)
        event = ScheduledEvent(
            id=new_resource_id(self._context, "instance-event"),
            code=code,
            description=f"{code.replace('-', ' ')} is scheduled",
            not_before=starts,
            not_after=starts + lasts,
        )
        self.state.events.setdefault(victim.id, []).append(event)
        window = (event.not_before, event.not_after)
        self._tell(scheduled_change_event(self._context, [victim.id], code, window))
        if code.final:
            self._end_later(victim, max(starts - self._context.now(), 0.0), SCHEDULED_STOP_REASON)
        return event

    def impair(self, instance: str, check: StatusCheck) -> None:
        """From now on the check fails; it is not a second time that it begins to."""
        failing = self.state.impaired.setdefault(self._known(instance).id, {})
        failing.setdefault(check, self._context.now())

    def clear_impairment(self, instance: str) -> None:
        """All checks pass again."""
        self.state.impaired.pop(instance, None)

    def on_state_change(self, machine: InterruptibleInstance, before: str) -> None:
        """A machine was born or has changed its state."""
        if machine.state in NOTIFIED_STATES and machine.state != before:
            self._tell(state_change_event(self._context, machine.id, machine.state))
        if machine.state in FINAL_STATES:
            self.state.events.pop(machine.id, None)
            self.state.impaired.pop(machine.id, None)
        if not before and machine.lifecycle == "spot" and self.state.spot_share:
            self._context.at(
                self._context.now() + self._lifetime(), SPOT_INTERRUPTION_EVENT, id=machine.id
            )

    def _lifetime(self) -> float:
        """Without memory: a machine that has lived long is as safe as a new one."""
        return self._context.random.expovariate(self.state.spot_share / MONTH_SECONDS)

    def _strike(self, about: Mapping[str, Any]) -> None:
        victim = self._machines.get(about["id"])
        if (
            victim is not None
            and victim.state not in FINAL_STATES
            and victim.state != "shutting-down"
        ):
            self.spot(victim.id)

    def _end_later(self, victim: InterruptibleInstance, seconds: float, reason: str) -> None:
        self._context.at(
            self._context.now() + seconds, TERMINATION_EVENT, id=victim.id, reason=reason
        )

    def _end(self, about: Mapping[str, Any]) -> None:
        """To a machine that is gone already it makes no difference."""
        self._machines.terminate([about["id"]], about["reason"])

    def _known(self, instance: str) -> InterruptibleInstance:
        victim = self._machines.get(instance)
        if victim is None:
            raise InvalidInputError(
                f"there is no machine {instance}", "name one that DescribeInstances has"
            )
        return victim

    def _tell(self, event: EventBridgeEvent) -> None:
        self._sender.send(self._queue, encode_event(self._context, event))
