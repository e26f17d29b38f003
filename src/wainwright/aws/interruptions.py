"""Interruptions: EventBridge messages about instances from an SQS queue, and failed status checks.

A message is deleted from the queue only after the caller has handled it: if the process dies
before, it is delivered again. Messages that cannot be parsed, or that announce nothing relevant,
are counted and deleted, as they would be delivered for ever otherwise.

Status checks are polled in addition to the queue, as the queue is optional and a failed check
sends no event: three calls a minute, each filtered by EC2. Without the permission for them they are
skipped.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from email.utils import parsedate_to_datetime
from typing import Any, Final

import msgspec

from wainwright.aws.api.error_codes import is_access_denied
from wainwright.aws.api.seam import Filter, Row, filter_equals
from wainwright.aws.api.services import Ec2, Sqs
from wainwright.catalogue.offerings.capacity_reservations import parse_reservation_time
from wainwright.clock import Clock
from wainwright.errors import AwsError
from wainwright.metrics import (
    INTERRUPTION_MESSAGES_DELETED,
    INTERRUPTION_MESSAGES_RECEIVED,
    INTERRUPTION_QUEUE_DURATION,
    UNHEALTHY_INSTANCES,
    MetricsRegistry,
)
from wainwright.model.node_claim import Interruption, InterruptionKind

SPOT_NOTICE_SECONDS: Final = 120.0  # seconds between the warning and the spot interruption
QUEUE_RETRY_SECONDS: Final = 5.0  # seconds before a failed read of the queue is retried
NO_OP: Final = "no_op"
UNPARSABLE: Final = "unparsable"


class InterruptionMessage(msgspec.Struct, frozen=True, kw_only=True):
    """The envelope of an EventBridge event."""

    source: str
    detail_type: str = msgspec.field(name="detail-type")
    detail: dict[str, Any] = {}
    time: str = "1970-01-01T00:00:00Z"


STATE_CHANGES: Final = {
    "stopping": InterruptionKind.STOPPING,
    "stopped": InterruptionKind.STOPPING,
    "shutting-down": InterruptionKind.TERMINATING,
    "terminated": InterruptionKind.TERMINATING,
}


def parse_interruptions(body: str) -> list[Interruption]:
    """The interruptions in a message, one per instance; ValueError if it cannot be parsed.

    Empty for events of other types, and for instances that are merely starting.
    """
    try:
        event = msgspec.json.decode(body, type=InterruptionMessage)
    except msgspec.MsgspecError as error:
        raise ValueError(f"no event: {error}") from error
    parser = EVENT_PARSERS.get((event.source, event.detail_type))
    return [] if parser is None else parser(event, parse_reservation_time(event.time).timestamp())


def _spot_interruption(event: InterruptionMessage, at: float) -> list[Interruption]:
    return [_interruption(event, InterruptionKind.SPOT, at, ends_at=at + SPOT_NOTICE_SECONDS)]


def _rebalance_recommendation(event: InterruptionMessage, at: float) -> list[Interruption]:
    return [_interruption(event, InterruptionKind.REBALANCE, at)]


def _state_change(event: InterruptionMessage, at: float) -> list[Interruption]:
    state = event.detail.get("state", "")
    kind = STATE_CHANGES.get(state)
    return [] if kind is None else [_interruption(event, kind, at, detail=state)]


def _reservation_interruption(event: InterruptionMessage, at: float) -> list[Interruption]:
    ends = event.detail.get("instance-termination-time")
    ends_at = None if ends is None else parse_reservation_time(ends).timestamp()
    return [_interruption(event, InterruptionKind.RESERVATION, at, ends_at=ends_at)]


def _health_event(event: InterruptionMessage, at: float) -> list[Interruption]:
    """Of the AWS Health events only scheduled changes of instances."""
    detail = event.detail
    if (detail.get("service"), detail.get("eventTypeCategory")) != ("EC2", "scheduledChange"):
        return []
    starts = detail.get("startTime")
    return [
        Interruption(
            kind=InterruptionKind.SCHEDULED,
            instance=each["entityValue"],
            at=at,
            detail=detail.get("eventTypeCode", ""),
            ends_at=None if starts is None else parsedate_to_datetime(starts).timestamp(),
        )
        for each in detail.get("affectedEntities") or ()
    ]


def _interruption(
    event: InterruptionMessage,
    kind: InterruptionKind,
    at: float,
    *,
    detail: str = "",
    ends_at: float | None = None,
) -> Interruption:
    instance = str(event.detail["instance-id"])
    action = detail or event.detail.get("instance-action") or ""
    return Interruption(kind=kind, instance=instance, at=at, detail=action, ends_at=ends_at)


EVENT_PARSERS: Final[
    Mapping[tuple[str, str], Callable[[InterruptionMessage, float], list[Interruption]]]
] = {
    ("aws.ec2", "EC2 Spot Instance Interruption Warning"): _spot_interruption,
    ("aws.ec2", "EC2 Instance Rebalance Recommendation"): _rebalance_recommendation,
    ("aws.ec2", "EC2 Instance State-change Notification"): _state_change,
    (
        "aws.ec2",
        "EC2 Capacity Reservation Instance Interruption Warning",
    ): _reservation_interruption,
    ("aws.health", "AWS Health Event"): _health_event,
}


class InterruptionQueue:
    """The interruption queue, polled for ever."""

    def __init__(self, sqs: Sqs, clock: Clock, metrics: MetricsRegistry) -> None:
        self._sqs = sqs
        self._clock = clock
        self._metrics = metrics

    async def events(self) -> AsyncIterator[Interruption]:
        """Fetching the next interruption acknowledges the one before."""
        while True:
            for message in await self._receive():
                for event in self._parse_message(message):
                    yield event
                await self._delete(message)

    async def _receive(self) -> list[Row]:
        """Empty, after a pause, if the queue cannot be read: it may be created later."""
        try:
            return await self._sqs.receive_messages()
        except AwsError:
            await self._clock.sleep(QUEUE_RETRY_SECONDS)
            return []

    def _parse_message(self, message: Row) -> list[Interruption]:
        self._observe(message)
        try:
            interruptions = parse_interruptions(message.get("Body", ""))
        except (ValueError, KeyError, TypeError):
            self._metrics.add(INTERRUPTION_MESSAGES_RECEIVED, message_type=UNPARSABLE)
            return []
        message_type = interruptions[0].kind.value if interruptions else NO_OP
        self._metrics.add(INTERRUPTION_MESSAGES_RECEIVED, message_type=message_type)
        return interruptions

    def _observe(self, message: Row) -> None:
        sent = (message.get("Attributes") or {}).get("SentTimestamp")
        if sent is not None:
            self._metrics.observe(
                INTERRUPTION_QUEUE_DURATION, max(0.0, self._clock.now() - float(sent) / 1000)
            )

    async def _delete(self, message: Row) -> None:
        """If this fails, the message is delivered again, which is harmless."""
        try:
            await self._sqs.delete_message(message["ReceiptHandle"])
        except AwsError:
            return
        self._metrics.add(INTERRUPTION_MESSAGES_DELETED)


IMPAIRED_TOLERANCE: Final = (
    120.0  # seconds for which a check may fail before the instance counts as lost
)
STATUS_CHECKS: Final = ("InstanceStatus", "SystemStatus")
SCHEDULED_EVENT_CODES: Final = (
    "instance-reboot",
    "system-reboot",
    "system-maintenance",
    "instance-retirement",
    "instance-stop",
)
FINISHED_EVENT_PREFIXES: Final = ("[Completed]", "[Canceled]")
"""Prefixes of the description of an event that is over or cancelled."""
STATUS_FILTERS: Final[tuple[Filter, ...]] = (
    filter_equals("instance-status.status", "impaired"),
    filter_equals("system-status.status", "impaired"),
    filter_equals("event.code", *SCHEDULED_EVENT_CODES),
)


class InstanceStatusProvider:
    def __init__(self, ec2: Ec2, clock: Clock, metrics: MetricsRegistry) -> None:
        self._ec2 = ec2
        self._clock = clock
        self._metrics = metrics
        self._counted: set[tuple[InterruptionKind, str]] = set()

    async def list_unhealthy(self) -> list[Interruption]:
        """Current problems, each instance once per kind. To be called every minute."""
        responses = await asyncio.gather(*map(self._describe_status, STATUS_FILTERS))
        rows = [row for response in responses for row in response]
        now = self._clock.now()
        all_interruptions = [
            each for row in rows for each in (*failed_checks(row, now), *scheduled_events(row, now))
        ]
        unhealthy = {(each.kind, each.instance): each for each in all_interruptions}
        # Counted once when a problem appears, not again at every poll.
        for kind, _ in unhealthy.keys() - self._counted:
            self._metrics.add(UNHEALTHY_INSTANCES, category=kind.value)
        self._counted = set(unhealthy)
        return [unhealthy[key] for key in sorted(unhealthy)]

    async def _describe_status(self, status_filter: Filter) -> list[Row]:
        try:
            return await self._ec2.describe_instance_status([status_filter])
        except AwsError as error:
            if is_access_denied(error):
                return []
            raise


def failed_checks(row: Row, now: float) -> Iterator[Interruption]:
    """Checks that have failed for longer than the tolerance."""
    for check in STATUS_CHECKS:
        for detail in (row.get(check) or {}).get("Details") or ():
            since = detail.get("ImpairedSince")
            if since is not None and now - since.timestamp() >= IMPAIRED_TOLERANCE:
                yield _status_interruption(
                    row, InterruptionKind.UNHEALTHY, now, f"{check} {detail.get('Name', '')}"
                )


def scheduled_events(row: Row, now: float) -> Iterator[Interruption]:
    """Scheduled events of the instance that are still to come."""
    events: Iterable[dict[str, Any]] = row.get("Events") or ()
    for event in events:
        description = event.get("Description") or ""
        if event.get("Code") in SCHEDULED_EVENT_CODES and not description.startswith(
            FINISHED_EVENT_PREFIXES
        ):
            not_before = event.get("NotBefore")
            ends_at = None if not_before is None else not_before.timestamp()
            yield _status_interruption(
                row, InterruptionKind.SCHEDULED, now, str(event["Code"]), ends_at
            )


def _status_interruption(
    row: Row, kind: InterruptionKind, at: float, detail: str, ends_at: float | None = None
) -> Interruption:
    return Interruption(
        kind=kind, instance=row["InstanceId"], at=at, detail=detail.strip(), ends_at=ends_at
    )
