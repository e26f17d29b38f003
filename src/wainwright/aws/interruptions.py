"""Interruptions: messages of the EventBridge queue about instances, and failing status checks.

A message leaves the queue once whoever listens has dealt with it: if the process dies before, it
comes again. Messages that nobody understands, or that announce nothing of interest, are counted and
removed, as they would come for ever otherwise.

Status checks are asked for besides the queue, as that may not be set up, and as a check that fails
is announced nowhere: three calls a minute, each filtered by EC2. Without permission for them they
are left out.
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

SPOT_NOTICE_SECONDS: Final = 120.0  # seconds that EC2 gives before it takes spot capacity back
QUEUE_RETRY_SECONDS: Final = 5.0  # seconds before a queue that could not be read is asked again
NO_OP: Final = "no_op"
UNPARSABLE: Final = "unparsable"


class InterruptionMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message of EventBridge, before anybody has looked into it."""

    source: str
    kind: str = msgspec.field(name="detail-type")
    detail: dict[str, Any] = {}
    time: str = "1970-01-01T00:00:00Z"


STATE_CHANGES: Final = {
    "stopping": InterruptionKind.STOPPING,
    "stopped": InterruptionKind.STOPPING,
    "shutting-down": InterruptionKind.TERMINATING,
    "terminated": InterruptionKind.TERMINATING,
}


def parse_interruptions(body: str) -> list[Interruption]:
    """What a message announces, one for each instance; ValueError where it cannot be read.

    Nothing for messages of other kinds, and for instances that are merely starting.
    """
    try:
        event = msgspec.json.decode(body, type=InterruptionMessage)
    except msgspec.MsgspecError as error:
        raise ValueError(f"no event: {error}") from error
    reader = EVENT_PARSERS.get((event.source, event.kind))
    return [] if reader is None else reader(event, parse_reservation_time(event.time).timestamp())


def _spot_interruption(event: InterruptionMessage, at: float) -> list[Interruption]:
    return [_interruption(event, InterruptionKind.SPOT, at, ends_at=at + SPOT_NOTICE_SECONDS)]


def _rebalance_recommendation(event: InterruptionMessage, at: float) -> list[Interruption]:
    return [_interruption(event, InterruptionKind.REBALANCE, at)]


def _state_change(event: InterruptionMessage, at: float) -> list[Interruption]:
    state = event.detail.get("state", "")
    found = STATE_CHANGES.get(state)
    return [] if found is None else [_interruption(event, found, at, detail=state)]


def _reservation_interruption(event: InterruptionMessage, at: float) -> list[Interruption]:
    ends = event.detail.get("instance-termination-time")
    ends_at = None if ends is None else parse_reservation_time(ends).timestamp()
    return [_interruption(event, InterruptionKind.RESERVATION, at, ends_at=ends_at)]


def _health_event(event: InterruptionMessage, at: float) -> list[Interruption]:
    """Of all that AWS Health reports only what will be done to instances."""
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
    said = detail or event.detail.get("instance-action") or ""
    return Interruption(kind=kind, instance=instance, at=at, detail=said, ends_at=ends_at)


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
    """One queue, read for ever."""

    def __init__(self, sqs: Sqs, clock: Clock, metrics: MetricsRegistry) -> None:
        self._sqs = sqs
        self._clock = clock
        self._metrics = metrics

    async def events(self) -> AsyncIterator[Interruption]:
        """Asking for the next one says that the last one has been dealt with."""
        while True:
            for message in await self._receive():
                for event in self._read(message):
                    yield event
                await self._delete(message)

    async def _receive(self) -> list[Row]:
        """Nothing, after a while, where the queue cannot be read: it may be there later."""
        try:
            return await self._sqs.receive()
        except AwsError:
            await self._clock.sleep(QUEUE_RETRY_SECONDS)
            return []

    def _read(self, message: Row) -> list[Interruption]:
        self._observe(message)
        try:
            found = parse_interruptions(message.get("Body", ""))
        except (ValueError, KeyError, TypeError):
            self._metrics.add(INTERRUPTION_MESSAGES_RECEIVED, message_type=UNPARSABLE)
            return []
        word = found[0].kind.value if found else NO_OP
        self._metrics.add(INTERRUPTION_MESSAGES_RECEIVED, message_type=word)
        return found

    def _observe(self, message: Row) -> None:
        sent = (message.get("Attributes") or {}).get("SentTimestamp")
        if sent is not None:
            self._metrics.observe(
                INTERRUPTION_QUEUE_DURATION, max(0.0, self._clock.now() - float(sent) / 1000)
            )

    async def _delete(self, message: Row) -> None:
        """One that stays comes again, which does no harm."""
        try:
            await self._sqs.delete(message["ReceiptHandle"])
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
"""What EC2 puts before the description of an event that will not happen any more."""
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
        self._known: set[tuple[InterruptionKind, str]] = set()

    async def look(self) -> list[Interruption]:
        """What is wrong now, each instance once for each kind. To be called every minute."""
        rows = [
            row for found in await asyncio.gather(*map(self._ask, STATUS_FILTERS)) for row in found
        ]
        now = self._clock.now()
        every = [
            each for row in rows for each in (*failed_checks(row, now), *scheduled_events(row, now))
        ]
        found = {(each.kind, each.instance): each for each in every}
        for kind, _ in found.keys() - self._known:
            self._metrics.add(UNHEALTHY_INSTANCES, category=kind.value)
        self._known = set(found)
        return [found[key] for key in sorted(found)]

    async def _ask(self, question: Filter) -> list[Row]:
        try:
            return await self._ec2.describe_instance_status([question])
        except AwsError as error:
            if is_access_denied(error):
                return []
            raise


def failed_checks(row: Row, now: float) -> Iterator[Interruption]:
    """A check that has failed for long enough."""
    for check in STATUS_CHECKS:
        for detail in (row.get(check) or {}).get("Details") or ():
            since = detail.get("ImpairedSince")
            if since is not None and now - since.timestamp() >= IMPAIRED_TOLERANCE:
                yield _status_interruption(
                    row, InterruptionKind.UNHEALTHY, now, f"{check} {detail.get('Name', '')}"
                )


def scheduled_events(row: Row, now: float) -> Iterator[Interruption]:
    """What EC2 will do to the instance, unless it has done so already."""
    events: Iterable[dict[str, Any]] = row.get("Events") or ()
    for event in events:
        description = event.get("Description") or ""
        if event.get("Code") in SCHEDULED_EVENT_CODES and not description.startswith(
            FINISHED_EVENT_PREFIXES
        ):
            begins = event.get("NotBefore")
            ends_at = None if begins is None else begins.timestamp()
            yield _status_interruption(
                row, InterruptionKind.SCHEDULED, now, str(event["Code"]), ends_at
            )


def _status_interruption(
    row: Row, kind: InterruptionKind, at: float, detail: str, ends_at: float | None = None
) -> Interruption:
    return Interruption(
        kind=kind, instance=row["InstanceId"], at=at, detail=detail.strip(), ends_at=ends_at
    )
