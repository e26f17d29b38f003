"""SQS: standard queues with visibility timeouts, receipt handles and long polling.

Two ways to receive. `operations()["ReceiveMessage"]` answers at once with what is visible now, as
every handler does. `receive(params, clock)` waits as long as the request (or the queue) says and
is woken when a message is sent or becomes visible again: the entrances that can wait, the account
and the HTTP server, call it in place of the handler, after throttling and faults.
It runs timed events that are due by itself, also those that send messages. A timed event that is
scheduled while somebody waits is seen if the entrance calls `wake_waiters()` after each response.

Codes are those of the query protocol, which boto3 shows to its callers; `JSON_ERROR_NAMES` has the
names that stand in `__type` on the wire where they differ.
"""

import asyncio
import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from hashlib import md5
from itertools import islice
from math import inf
from typing import Any, Final
from uuid import UUID

from wainwright.clock import Clock
from wainwright.emulator.api_conventions import parse_int, require_text
from wainwright.emulator.context import AccountContext, OperationHandler, Params, Response
from wainwright.emulator.services.sqs_queues import (
    INVALID_VALUE,
    MISSING_PARAMETER,
    QUEUE_NOT_FOUND,
    MessageAttribute,
    SqsMessage,
    SqsQueue,
    SqsQueues,
    SqsState,
)
from wainwright.errors import AwsError


def parse_message_attributes(given: Mapping[str, Any] | None) -> dict[str, MessageAttribute]:
    """Message attributes of a request."""
    return {name: _parse_attribute(name, value) for name, value in (given or {}).items()}


def _parse_attribute(name: str, value: Mapping[str, Any]) -> MessageAttribute:
    kind = value.get("DataType") or ""
    text, binary = value.get("StringValue"), value.get("BinaryValue")
    if kind.partition(".")[0] not in ("String", "Number", "Binary"):
        raise AwsError(
            INVALID_VALUE,
            f"The type of message (user) attribute '{name}' is invalid. You must use only the "
            "following supported type prefixes: Binary, Number, String.",
        )
    if (binary if kind.startswith("Binary") else text) in (None, "", b""):
        raise AwsError(
            INVALID_VALUE, f"Message (user) attribute '{name}' must contain a non-empty value"
        )
    return MessageAttribute(type=kind, text=text, binary=binary)


def md5_of(text: str) -> str:
    return md5(text.encode(), usedforsecurity=False).hexdigest()


def md5_of_attributes(given: Mapping[str, MessageAttribute]) -> str:
    """As clients check it: name, type and value of each in the order of names, with lengths."""
    total = md5(usedforsecurity=False)
    for name in sorted(given):
        attribute = given[name]
        binary = attribute.type.startswith("Binary")
        value = (attribute.binary or b"") if binary else (attribute.text or "").encode()
        total.update(_length_prefixed(name.encode()) + _length_prefixed(attribute.type.encode()))
        total.update((b"\2" if binary else b"\1") + _length_prefixed(value))
    return total.hexdigest()


def _length_prefixed(content: bytes) -> bytes:
    return len(content).to_bytes(4) + content


def message_view(message: SqsMessage, params: Mapping[str, Any], sender: str) -> dict[str, Any]:
    """The message as a receiver gets it, with those attributes that it asked for."""
    shown: dict[str, Any] = {
        "MessageId": message.id,
        "ReceiptHandle": receipt_handle(message),
        "MD5OfBody": md5_of(message.body),
        "Body": message.body,
    }
    asked = params.get("MessageSystemAttributeNames") or params.get("AttributeNames") or ()
    system = {
        name: value
        for name, value in _system_attributes(message, sender).items()
        if name in asked or "All" in asked
    }
    own = _select_attributes(message.attributes, params.get("MessageAttributeNames") or ())
    if system:
        shown["Attributes"] = system
    if own:
        shown["MessageAttributes"] = {name: _attribute_view(own[name]) for name in own}
        shown["MD5OfMessageAttributes"] = md5_of_attributes(own)
    return shown


def _system_attributes(message: SqsMessage, sender: str) -> dict[str, str]:
    first = message.sent if message.first_received is None else message.first_received
    return {
        "SenderId": sender,
        "SentTimestamp": to_milliseconds(message.sent),
        "ApproximateReceiveCount": str(message.received),
        "ApproximateFirstReceiveTimestamp": to_milliseconds(first),
    }


def to_milliseconds(moment: float) -> str:
    return str(round(moment * 1000))


def _select_attributes(
    given: Mapping[str, MessageAttribute], asked: Sequence[str]
) -> dict[str, MessageAttribute]:
    """By name, by the beginning of a name (`a.*`), or all."""
    beginnings = tuple(name.removesuffix(".*") for name in asked if name.endswith(".*"))
    return {
        name: attribute
        for name, attribute in given.items()
        if "All" in asked or name in asked or (beginnings and name.startswith(beginnings))
    }


def _attribute_view(attribute: MessageAttribute) -> dict[str, Any]:
    value = (
        {"StringValue": attribute.text}
        if attribute.binary is None
        else {"BinaryValue": attribute.binary}
    )
    return {"DataType": attribute.type, **value}


def receipt_handle(message: SqsMessage) -> str:
    """Good for this reception only: the next one gets another."""
    return urlsafe_b64encode(f"{message.id} {message.received}".encode()).decode()


def parse_receipt_handle(handle: str) -> tuple[str, int]:
    """The id of the message, and which reception of it the receipt is for."""
    try:
        identity, _, count = urlsafe_b64decode(handle.encode()).decode().partition(" ")
        return identity, int(count)
    except (binascii.Error, UnicodeError, ValueError):
        raise AwsError(
            "ReceiptHandleIsInvalid", f'The input receipt handle "{handle}" is not valid.'
        ) from None


MIN_WAIT_SECONDS: float = 0.001  # so that nobody waits for a moment that rounding puts a hair ahead


class QueueWaiters:
    """Who waits for which queue, and until when. All of it happens on one event loop."""

    def __init__(self) -> None:
        self._waiting: dict[asyncio.Event, tuple[str, float]] = {}

    async def wait(self, queue: str, seconds: float, clock: Clock) -> None:
        """Until the bell rings for the queue, or the time is over."""
        seconds = max(seconds, MIN_WAIT_SECONDS)
        rung = asyncio.Event()
        self._waiting[rung] = queue, clock.now() + seconds
        tasks = [asyncio.ensure_future(rung.wait()), asyncio.ensure_future(clock.sleep(seconds))]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            del self._waiting[rung]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def ring(self, queue: str) -> None:
        for rung, (name, _) in self._waiting.items():
            if name == queue:
                rung.set()

    def wake_waiters(self, due: float | None) -> None:
        """Wakes those who would sleep past the moment, for they do not know of it yet."""
        if due is None:
            return
        for rung, (_, until) in self._waiting.items():
            if until > due:
                rung.set()


JSON_ERROR_NAMES: Final = {
    QUEUE_NOT_FOUND: "QueueDoesNotExist",
    "AWS.SimpleQueueService.MessageNotInflight": "MessageNotInflight",
    "AWS.SimpleQueueService.UnsupportedOperation": "UnsupportedOperation",
    "QueueAlreadyExists": "QueueNameExists",
}


class Sqs:
    """`base` is what addresses of queues begin with, where it is not AWS's own."""

    name = "sqs"

    def __init__(self, context: AccountContext, base: str | None = None) -> None:
        self.state = SqsState()
        self._context = context
        self._queues = SqsQueues(context, self, base)
        self._waiters = QueueWaiters()

    def operations(self) -> Mapping[str, OperationHandler]:
        return {
            **self._queues.operations(),
            "SendMessage": self.send_message,
            "ReceiveMessage": self.receive_message,
            "DeleteMessage": self.delete_message,
            "ChangeMessageVisibility": self.change_message_visibility,
        }

    def seed(self, name: str) -> str:
        """A queue for interruptions, which forgets after five minutes; gives its address."""
        kept = {"MessageRetentionPeriod": "300"}
        return str(self._queues.create({"QueueName": name, "Attributes": kept})["QueueUrl"])

    def send(self, queue: str, body: str) -> None:
        """A message from within, as EventBridge sends them; lost where there is no such queue."""
        known = self.state.queues.get(queue)
        if known is not None:
            self._put(known, body)

    async def receive(self, params: Params, clock: Clock) -> Response:
        """ReceiveMessage that waits for a message as long as the request says."""
        self._context.run_due_events()
        until = clock.now() + self._wait_seconds(params)
        while True:
            answer = self.receive_message(params)
            left = until - clock.now()
            if answer or left <= 0:
                return answer
            queue = self._queues.at(params)
            await self._waiters.wait(queue.name, min(left, self._until_change(queue)), clock)
            self._context.run_due_events()

    def wake_waiters(self) -> None:
        """Tells those who wait of appointments that were made since they began."""
        self._waiters.wake_waiters(self._context.next_due())

    def _wait_seconds(self, params: Params) -> int:
        otherwise = self._queues.at(params).number("ReceiveMessageWaitTimeSeconds")
        return _parse_bounded_int(params, "WaitTimeSeconds", otherwise, (0, 20))

    def _until_change(self, queue: SqsQueue) -> float:
        """Seconds until something may happen that nobody rings for."""
        now = self._context.now()
        moments = [message.visible for message in queue.messages.values()]
        due = self._context.next_due()
        if due is not None:
            moments.append(due)
        return min((each - now for each in moments if each > now), default=inf)

    def send_message(self, params: Params) -> Response:
        queue = self._queues.at(params)
        body = require_text(params, "MessageBody", error_code=MISSING_PARAMETER)
        maximum = queue.number("MaximumMessageSize")
        if len(body.encode()) > maximum:
            raise _invalid_parameter(f"Message must be shorter than {maximum} bytes.")
        message = self._put(
            queue,
            body,
            _parse_bounded_int(params, "DelaySeconds", queue.number("DelaySeconds"), (0, 900)),
            parse_message_attributes(params.get("MessageAttributes")),
        )
        answer: Response = {"MessageId": message.id, "MD5OfMessageBody": md5_of(body)}
        if message.attributes:
            answer["MD5OfMessageAttributes"] = md5_of_attributes(message.attributes)
        return answer

    def _put(
        self,
        queue: SqsQueue,
        body: str,
        delay: int | None = None,
        attributes: Mapping[str, MessageAttribute] | None = None,
    ) -> SqsMessage:
        now = self._context.now()
        message = SqsMessage(
            id=str(UUID(bytes=self._context.random.randbytes(16), version=4)),
            body=body,
            sent=now,
            visible=now + (queue.number("DelaySeconds") if delay is None else delay),
            attributes=dict(attributes or {}),
        )
        queue.forget(now)
        queue.messages[message.id] = message
        self._waiters.ring(queue.name)
        return message

    def receive_message(self, params: Params) -> Response:
        """What is visible now, oldest first; nothing at all where there is nothing."""
        queue, now = self._queues.at(params), self._context.now()
        maximum = _parse_bounded_int(params, "MaxNumberOfMessages", 1, (1, 10))
        hidden = _parse_bounded_int(
            params, "VisibilityTimeout", queue.number("VisibilityTimeout"), (0, 43_200)
        )
        self._wait_seconds(params)  # refused here as well where it is out of range
        queue.forget(now)
        visible = (message for message in queue.messages.values() if message.visible <= now)
        given = list(islice(visible, maximum))
        for message in given:
            message.received += 1
            message.visible = now + hidden
            message.first_received = message.first_received or now
        shown = [message_view(message, params, self._context.account) for message in given]
        return {"Messages": shown} if shown else {}

    def delete_message(self, params: Params) -> Response:
        """A receipt of an earlier reception deletes nothing, and that is no error."""
        queue, found = self._held(params)
        if found is not None:
            del queue.messages[found.id]
        return {}

    def change_message_visibility(self, params: Params) -> Response:
        queue, found = self._held(params)
        now = self._context.now()
        seconds = _parse_bounded_int(params, "VisibilityTimeout", None, (0, 43_200))
        if found is None or found.visible <= now:
            raise AwsError(
                "AWS.SimpleQueueService.MessageNotInflight",
                "The message referred to isn't in flight.",
            )
        found.visible = now + seconds
        self._waiters.ring(queue.name)
        return {}

    def _held(self, params: Params) -> tuple[SqsQueue, SqsMessage | None]:
        """The message that the receipt is for, unless it is gone or was received again since."""
        queue = self._queues.at(params)
        identity, count = parse_receipt_handle(
            require_text(params, "ReceiptHandle", error_code=MISSING_PARAMETER)
        )
        message = queue.messages.get(identity)
        return queue, message if message is not None and message.received == count else None


def _parse_bounded_int(
    params: Params, name: str, otherwise: int | None, bounds: tuple[int, int]
) -> int:
    if otherwise is None and params.get(name) is None:
        raise AwsError(MISSING_PARAMETER, f"The request must contain the parameter {name}.")
    value = parse_int(params, name, default=otherwise or 0, error_code=INVALID_VALUE)
    minimum, maximum = bounds
    if not minimum <= value <= maximum:
        raise AwsError(
            INVALID_VALUE,
            f"Value {value} for parameter {name} is invalid. Reason: Must be between {minimum} and "
            f"{maximum}, if provided.",
        )
    return value


def _invalid_parameter(reason: str) -> AwsError:
    return AwsError(INVALID_VALUE, f"One or more parameters are invalid. Reason: {reason}")
