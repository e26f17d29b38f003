"""Interruptions of instances by EC2, and the EventBridge events about them in the queue.

A warning comes first and the termination two minutes later, as a timed event. `state` holds what
DescribeInstanceStatus shows in addition to the instance state: `events` (scheduled by EC2) and
`impaired` (failing checks, and since when), both by instance id.

Wiring: register it with the services so that its state is saved, and add
`interruptions.on_state_change` as a listener of the instances: it sends state changes and removes
terminated instances. Without a queue of that name no events are sent; everything else is the same.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
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
    """The content of an event, without id, time, account and region."""

    source: str = EC2_SOURCE
    kind: str
    """The `detail-type`."""
    resources: tuple[str, ...]
    detail: dict[str, Any]


def encode_event(context: AccountContext, event: EventBridgeEvent) -> str:
    """The JSON message of the event, with the current time."""
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
    """Two minutes before the termination. The ARN has the zone in place of region and account."""
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
    """For instances in capacity blocks and in interruptible capacity reservations."""
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
    """Forty minutes before a capacity block ends."""
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
    """AWS Health: a scheduled change of instances."""
    code_name = code.upper().replace("-", "_")
    event = f"AWS_EC2_{code_name}_SCHEDULED"
    start, end = window
    arn_prefix = f"arn:{aws_partition(context.region)}:health:{context.region}::event/EC2/{event}"
    return EventBridgeEvent(
        source=HEALTH_SOURCE,
        kind=HEALTH_EVENT,
        resources=tuple(instances),
        detail={
            "eventArn": f"{arn_prefix}/{event}_{context.random.getrandbits(64):016x}",
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
    """The time format of AWS Health."""
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
    """Event codes of DescribeInstanceStatus."""

    INSTANCE_REBOOT = "instance-reboot"
    SYSTEM_REBOOT = "system-reboot"
    SYSTEM_MAINTENANCE = "system-maintenance"
    INSTANCE_RETIREMENT = "instance-retirement"
    INSTANCE_STOP = "instance-stop"

    @property
    def terminates(self) -> bool:
        """Whether the instance is terminated by it."""
        return self in (ScheduledEventCode.INSTANCE_RETIREMENT, ScheduledEventCode.INSTANCE_STOP)


class StatusCheck(StrEnum):
    """Status checks of DescribeInstanceStatus."""

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
    """Failing checks by instance id, and since when they fail."""
    monthly_spot_interruption_rate: float = msgspec.field(default=0.0, name="spot_share")
    """The share of spot instances that EC2 reclaims within thirty days; 0 by default."""


class InterruptibleInstance(Protocol):
    """The fields of an instance that interruptions use."""

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
        instances: InterruptibleInstances,
    ) -> None:
        self.state = InterruptionState()
        self._context = context
        self._sender = sender
        self._queue = queue
        self._instances = instances
        self._listeners: list[Callable[[str], None]] = []
        context.register_handler(TERMINATION_EVENT, self._on_termination)
        context.register_handler(SPOT_INTERRUPTION_EVENT, self._on_spot_interruption)

    def operations(self) -> Mapping[str, OperationHandler]:
        """None: interruptions come from the admin API and from timed events."""
        return {}

    def add_notice_listener(self, listener: Callable[[str], None]) -> None:
        """Adds a callback for the id of every instance that is told that it will end."""
        self._listeners.append(listener)

    def interrupt_spot(self, instance_id: str, notice_seconds: float = NOTICE_SECONDS) -> None:
        """EC2 reclaims a spot instance."""
        instance = self._require_instance(instance_id)
        self._send_event(spot_interruption_event(self._context, instance.id, instance.zone))
        self._schedule_termination(instance, notice_seconds, SPOT_TERMINATION_REASON)

    def recommend_rebalance(self, instance_id: str) -> None:
        """Sends a rebalance recommendation; nothing else happens."""
        instance = self._require_instance(instance_id)
        self._send_event(rebalance_event(self._context, instance.id, instance.zone))

    def interrupt_reserved(self, instance_id: str, notice_seconds: float = NOTICE_SECONDS) -> None:
        """The owner of interruptible capacity reclaims it, or a capacity block ends."""
        instance, ends = self._require_instance(instance_id), self._context.now() + notice_seconds
        self._send_event(
            reservation_interruption_event(
                self._context, instance.id, instance.zone_id, instance.lifecycle, ends
            )
        )
        self._schedule_termination(instance, notice_seconds, RESERVATION_TERMINATION_REASON)

    def warn_block_expiration(
        self,
        reservation: str,
        instances: Iterable[InterruptibleInstance],
        *,
        ends: float,
        reclaimed: float,
    ) -> None:
        """Warns of the end of a block; the reservation lifecycle terminates the instances."""
        self._send_event(block_expiration_event(self._context, reservation, ends))
        for each in instances:
            arguments = (each.id, each.zone_id, each.lifecycle, reclaimed)
            self._send_event(reservation_interruption_event(self._context, *arguments))
            self._notify(each.id)

    def schedule_change(
        self, instance_id: str, code: ScheduledEventCode, *, starts: float, duration: float = 3600.0
    ) -> ScheduledEvent:
        """Schedules a change of the instance; `starts` in seconds since 1970."""
        instance = self._require_instance(instance_id)
        event = ScheduledEvent(
            id=new_resource_id(self._context, "instance-event"),
            code=code,
            description=f"{code.replace('-', ' ')} is scheduled",
            not_before=starts,
            not_after=starts + duration,
        )
        self.state.events.setdefault(instance.id, []).append(event)
        window = (event.not_before, event.not_after)
        self._send_event(scheduled_change_event(self._context, [instance.id], code, window))
        if code.terminates:
            self._schedule_termination(
                instance, max(starts - self._context.now(), 0.0), SCHEDULED_STOP_REASON
            )
        return event

    def impair(self, instance_id: str, check: StatusCheck) -> None:
        """The check fails from now on; one that fails already keeps its time."""
        failing = self.state.impaired.setdefault(self._require_instance(instance_id).id, {})
        failing.setdefault(check, self._context.now())

    def clear_impairment(self, instance_id: str) -> None:
        """All checks pass again."""
        self.state.impaired.pop(instance_id, None)

    def on_state_change(self, instance: InterruptibleInstance, previous_state: str) -> None:
        """Listener of the instances: sends the state change, and drops data of terminated ones."""
        if instance.state in NOTIFIED_STATES and instance.state != previous_state:
            self._send_event(state_change_event(self._context, instance.id, instance.state))
        if instance.state in FINAL_STATES:
            self.state.events.pop(instance.id, None)
            self.state.impaired.pop(instance.id, None)
        if (
            not previous_state
            and instance.lifecycle == "spot"
            and self.state.monthly_spot_interruption_rate
        ):
            self._context.schedule_event(
                self._context.now() + self._draw_lifetime(), SPOT_INTERRUPTION_EVENT, id=instance.id
            )

    def _draw_lifetime(self) -> float:
        """Exponential, hence memoryless: the risk does not depend on the age of the instance."""
        return self._context.random.expovariate(
            self.state.monthly_spot_interruption_rate / MONTH_SECONDS
        )

    def _on_spot_interruption(self, payload: Mapping[str, Any]) -> None:
        instance = self._instances.get(payload["id"])
        if (
            instance is not None
            and instance.state not in FINAL_STATES
            and instance.state != "shutting-down"
        ):
            self.interrupt_spot(instance.id)

    def _schedule_termination(
        self, instance: InterruptibleInstance, seconds: float, reason: str
    ) -> None:
        self._notify(instance.id)
        self._context.schedule_event(
            self._context.now() + seconds, TERMINATION_EVENT, id=instance.id, reason=reason
        )

    def _notify(self, instance_id: str) -> None:
        for listener in self._listeners:
            listener(instance_id)

    def _on_termination(self, payload: Mapping[str, Any]) -> None:
        """Has no effect on an instance that has been terminated already."""
        self._instances.terminate([payload["id"]], payload["reason"])

    def _require_instance(self, instance_id: str) -> InterruptibleInstance:
        instance = self._instances.get(instance_id)
        if instance is None:
            raise InvalidInputError(
                f"there is no machine {instance_id}", "name one that DescribeInstances has"
            )
        return instance

    def _send_event(self, event: EventBridgeEvent) -> None:
        self._sender.send(self._queue, encode_event(self._context, event))
