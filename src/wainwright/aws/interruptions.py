"""Interruptions: EventBridge messages about instances from an SQS queue, and failed status checks.

A message is deleted from the queue only after the caller has handled it: if the process dies
before, it is delivered again. Messages that cannot be parsed, or that announce nothing relevant,
are counted and deleted, as they would be delivered for ever otherwise, before the others. Whoever
can send to the queue can send anything: the fields that are used are checked, types included.

Status checks are polled in addition to the queue, as the queue is optional and a failed check
sends no event: three calls a minute, each filtered by EC2. Without the permission for them they are
skipped.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping
from email.utils import parsedate_to_datetime
from typing import Any, Final

import msgspec

from wainwright.aws.api.error_codes import is_access_denied
from wainwright.aws.api.services import Ec2, Filter, Row, Sqs, filter_equals
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
LOG: Final = logging.getLogger(__name__)
MAX_LOGGED: Final = 1000  # messages that are remembered as logged
NO_OP: Final = "no_op"
UNPARSABLE: Final = "unparsable"


class InterruptionMessage(msgspec.Struct, frozen=True, kw_only=True):
    """The envelope of an EventBridge event."""

    source: str
    detail_type: str = msgspec.field(name="detail-type")
    detail: dict[str, Any] = {}
    time: str = "1970-01-01T00:00:00Z"


class InstanceDetail(msgspec.Struct, frozen=True, kw_only=True):
    """The detail of an event about one instance."""

    instance_id: str = msgspec.field(name="instance-id")
    state: str = ""
    action: str | None = msgspec.field(name="instance-action", default=None)
    termination_time: str | None = msgspec.field(name="instance-termination-time", default=None)


class AffectedEntity(msgspec.Struct, frozen=True, kw_only=True):
    value: str = msgspec.field(name="entityValue")


class HealthDetail(msgspec.Struct, frozen=True, kw_only=True):
    """The detail of an AWS Health event."""

    service: str = ""
    category: str = msgspec.field(name="eventTypeCategory", default="")
    code: str = msgspec.field(name="eventTypeCode", default="")
    start_time: str | None = msgspec.field(name="startTime", default=None)
    entities: list[AffectedEntity] | None = msgspec.field(name="affectedEntities", default=None)


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
        parser = EVENT_PARSERS.get((event.source, event.detail_type))
        return [] if parser is None else parser(event.detail, _seconds(event.time))
    except (msgspec.MsgspecError, OverflowError, RecursionError) as error:
        raise ValueError(f"no event that can be read: {error}") from error


def _seconds(time: str) -> float:
    return parse_reservation_time(time).timestamp()


def _spot_interruption(detail: dict[str, Any], at: float) -> list[Interruption]:
    return [_interruption(detail, InterruptionKind.SPOT, at, ends_at=at + SPOT_NOTICE_SECONDS)]


def _rebalance_recommendation(detail: dict[str, Any], at: float) -> list[Interruption]:
    return [_interruption(detail, InterruptionKind.REBALANCE, at)]


def _state_change(detail: dict[str, Any], at: float) -> list[Interruption]:
    state = msgspec.convert(detail, InstanceDetail).state
    kind = STATE_CHANGES.get(state)
    return [] if kind is None else [_interruption(detail, kind, at, state=state)]


def _reservation_interruption(detail: dict[str, Any], at: float) -> list[Interruption]:
    ends = msgspec.convert(detail, InstanceDetail).termination_time
    ends_at = None if ends is None else _seconds(ends)
    return [_interruption(detail, InterruptionKind.RESERVATION, at, ends_at=ends_at)]


def _health_event(detail: dict[str, Any], at: float) -> list[Interruption]:
    """Of the AWS Health events only scheduled changes of instances."""
    if (detail.get("service"), detail.get("eventTypeCategory")) != ("EC2", "scheduledChange"):
        return []
    health = msgspec.convert(detail, HealthDetail)
    starts = health.start_time
    return [
        Interruption(
            kind=InterruptionKind.SCHEDULED,
            instance=each.value,
            at=at,
            detail=health.code,
            ends_at=None if starts is None else parsedate_to_datetime(starts).timestamp(),
        )
        for each in health.entities or ()
    ]


def _interruption(
    detail: dict[str, Any],
    kind: InterruptionKind,
    at: float,
    *,
    state: str = "",
    ends_at: float | None = None,
) -> Interruption:
    about = msgspec.convert(detail, InstanceDetail)
    action = state or about.action or ""
    return Interruption(
        kind=kind, instance=about.instance_id, at=at, detail=action, ends_at=ends_at
    )


EVENT_PARSERS: Final[
    Mapping[tuple[str, str], Callable[[dict[str, Any], float], list[Interruption]]]
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
        self._logged: dict[str, None] = {}
        """Ids of messages that were logged; one that cannot be deleted is delivered again."""

    async def events(self) -> AsyncGenerator[Interruption, bool | None]:
        """Fetching the next interruption acknowledges the one before; sending False, or closing the
        generator, does not.
        """
        while True:
            for message in await self._receive():
                answers = []
                for event in self._parse_message(message):
                    answers.append((yield event))  # noqa: PERF401 - there is no such comprehension
                if False not in answers:
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
        except ValueError as error:
            self._metrics.add(INTERRUPTION_MESSAGES_RECEIVED, message_type=UNPARSABLE)
            self._log_once(message.get("MessageId", ""), error)
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

    def _log_once(self, message_id: str, error: ValueError) -> None:
        if message_id not in self._logged:
            LOG.warning("interruption message %s is deleted: %s", message_id, error)
            self._logged[message_id] = None
        if len(self._logged) > MAX_LOGGED:
            del self._logged[next(iter(self._logged))]

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
        self.next_unhealthy: float | None = None
        """When a check that has not failed for long at the last look will have."""

    async def list_unhealthy(self) -> list[Interruption]:
        """Current problems, each instance once per kind. To be called every minute."""
        responses = await asyncio.gather(*map(self._describe_status, STATUS_FILTERS))
        rows = [row for response in responses for row in response]
        now = self._clock.now()
        ends = (since + IMPAIRED_TOLERANCE for row in rows for _, since in _impairments(row))
        self.next_unhealthy = min((end for end in ends if end > now), default=None)
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
    for check, since in _impairments(row):
        if now - since >= IMPAIRED_TOLERANCE:
            yield _status_interruption(row, InterruptionKind.UNHEALTHY, now, check)


def _impairments(row: Row) -> Iterator[tuple[str, float]]:
    """The checks that fail now, and since when."""
    for check in STATUS_CHECKS:
        for detail in (row.get(check) or {}).get("Details") or ():
            since = detail.get("ImpairedSince")
            if since is not None:
                yield f"{check} {detail.get('Name', '')}", since.timestamp()


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
