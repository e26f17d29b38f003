"""Interruption: what EventBridge puts into the queue about machines, read and handed on.

A message leaves the queue once whoever listens has dealt with it: if the process dies before, it
comes again. Messages that nobody understands, or that announce nothing of interest, are counted and
removed, as they would come for ever otherwise.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from email.utils import parsedate_to_datetime
from typing import Any, Final

import msgspec

from wainwright.aws.beside import Sqs
from wainwright.aws.wire import Row
from wainwright.catalogue.reservations import moment
from wainwright.clock import Clock
from wainwright.errors import AwsError
from wainwright.metrics import SECONDS, Metric, Registry
from wainwright.metrics import Kind as MetricKind
from wainwright.model.interruption import Interruption, Kind

NOTICE: Final = 120.0  # seconds that EC2 gives before it takes spot capacity back
PAUSE: Final = 5.0  # seconds before a queue that could not be read is asked again
UNKNOWN: Final = "no_op"
UNREADABLE: Final = "unparsable"

RECEIVED: Final = Metric(
    name="karpenter_interruption_received_messages_total",
    about="Messages of the interruption queue, by what they announce.",
    kind=MetricKind.COUNTER,
    labels=("message_type",),
)
DELETED: Final = Metric(
    name="karpenter_interruption_deleted_messages_total",
    about="Messages that were dealt with and removed from the queue.",
    kind=MetricKind.COUNTER,
)
WAITED: Final = Metric(
    name="karpenter_interruption_message_queue_duration_seconds",
    about="How long messages lay in the queue before they were read.",
    kind=MetricKind.HISTOGRAM,
    buckets=SECONDS,
)


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """A message of EventBridge, before anybody has looked into it."""

    source: str
    kind: str = msgspec.field(name="detail-type")
    detail: dict[str, Any] = {}
    time: str = "1970-01-01T00:00:00Z"


ENDING: Final = {
    "stopping": Kind.STOPPING,
    "stopped": Kind.STOPPING,
    "shutting-down": Kind.TERMINATING,
    "terminated": Kind.TERMINATING,
}


def interruptions(body: str) -> list[Interruption]:
    """What a message announces, one for each machine; ValueError where it cannot be read.

    Nothing for messages of other kinds, and for machines that are merely starting.
    """
    try:
        event = msgspec.json.decode(body, type=Event)
    except msgspec.MsgspecError as error:
        raise ValueError(f"no event: {error}") from error
    reader = READERS.get((event.source, event.kind))
    return [] if reader is None else reader(event, moment(event.time).timestamp())


def _spot(event: Event, at: float) -> list[Interruption]:
    return [_one(event, Kind.SPOT, at, ends_at=at + NOTICE)]


def _rebalance(event: Event, at: float) -> list[Interruption]:
    return [_one(event, Kind.REBALANCE, at)]


def _state(event: Event, at: float) -> list[Interruption]:
    state = event.detail.get("state", "")
    found = ENDING.get(state)
    return [] if found is None else [_one(event, found, at, detail=state)]


def _reservation(event: Event, at: float) -> list[Interruption]:
    ends = event.detail.get("instance-termination-time")
    ends_at = None if ends is None else moment(ends).timestamp()
    return [_one(event, Kind.RESERVATION, at, ends_at=ends_at)]


def _health(event: Event, at: float) -> list[Interruption]:
    """Of all that AWS Health reports only what will be done to machines."""
    detail = event.detail
    if (detail.get("service"), detail.get("eventTypeCategory")) != ("EC2", "scheduledChange"):
        return []
    starts = detail.get("startTime")
    return [
        Interruption(
            kind=Kind.SCHEDULED,
            instance=each["entityValue"],
            at=at,
            detail=detail.get("eventTypeCode", ""),
            ends_at=None if starts is None else parsedate_to_datetime(starts).timestamp(),
        )
        for each in detail.get("affectedEntities") or ()
    ]


def _one(
    event: Event, kind: Kind, at: float, *, detail: str = "", ends_at: float | None = None
) -> Interruption:
    instance = str(event.detail["instance-id"])
    said = detail or event.detail.get("instance-action") or ""
    return Interruption(kind=kind, instance=instance, at=at, detail=said, ends_at=ends_at)


READERS: Final[Mapping[tuple[str, str], Callable[[Event, float], list[Interruption]]]] = {
    ("aws.ec2", "EC2 Spot Instance Interruption Warning"): _spot,
    ("aws.ec2", "EC2 Instance Rebalance Recommendation"): _rebalance,
    ("aws.ec2", "EC2 Instance State-change Notification"): _state,
    ("aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning"): _reservation,
    ("aws.health", "AWS Health Event"): _health,
}


class Announcements:
    """One queue, read for ever."""

    def __init__(self, sqs: Sqs, clock: Clock, metrics: Registry) -> None:
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
            await self._clock.sleep(PAUSE)
            return []

    def _read(self, message: Row) -> list[Interruption]:
        self._observe(message)
        try:
            found = interruptions(message.get("Body", ""))
        except (ValueError, KeyError, TypeError):
            self._metrics.add(RECEIVED, message_type=UNREADABLE)
            return []
        word = found[0].kind.value if found else UNKNOWN
        self._metrics.add(RECEIVED, message_type=word)
        return found

    def _observe(self, message: Row) -> None:
        sent = (message.get("Attributes") or {}).get("SentTimestamp")
        if sent is not None:
            self._metrics.observe(WAITED, max(0.0, self._clock.now() - float(sent) / 1000))

    async def _delete(self, message: Row) -> None:
        """One that stays comes again, which does no harm."""
        try:
            await self._sqs.delete(message["ReceiptHandle"])
        except AwsError:
            return
        self._metrics.add(DELETED)
