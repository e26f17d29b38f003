"""SQS: standard queues with visibility timeouts, receipt handles and long polling.

Two ways to receive. `operations()["ReceiveMessage"]` returns at once what is visible now, as every
handler does. `receive(params, clock)` waits as long as the request (or the queue) says, and wakes
when a message is sent or becomes visible again: asynchronous callers use it in place of the
handler, after throttling and faults. It handles due timed events itself, also those that send
messages. A timed event that is scheduled during a wait is noticed if the account calls
`wake_waiters()` after each response.

Error codes are those of the query protocol, which boto3 shows to its callers; `JSON_ERROR_NAMES`
has the names of `__type` on the wire where they differ.
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


def parse_message_attributes(attributes: Mapping[str, Any] | None) -> dict[str, MessageAttribute]:
    """Message attributes of a request."""
    return {name: _parse_attribute(name, value) for name, value in (attributes or {}).items()}


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


def md5_of_attributes(attributes: Mapping[str, MessageAttribute]) -> str:
    """The MD5 that clients verify: name, type and value of each in name order, with lengths."""
    total = md5(usedforsecurity=False)
    for name in sorted(attributes):
        attribute = attributes[name]
        binary = attribute.type.startswith("Binary")
        value = (attribute.binary or b"") if binary else (attribute.text or "").encode()
        total.update(_length_prefixed(name.encode()) + _length_prefixed(attribute.type.encode()))
        total.update((b"\2" if binary else b"\1") + _length_prefixed(value))
    return total.hexdigest()


def _length_prefixed(content: bytes) -> bytes:
    return len(content).to_bytes(4) + content


def message_view(message: SqsMessage, params: Mapping[str, Any], sender: str) -> dict[str, Any]:
    """The message as a receiver gets it, with the requested attributes."""
    view: dict[str, Any] = {
        "MessageId": message.id,
        "ReceiptHandle": receipt_handle(message),
        "MD5OfBody": md5_of(message.body),
        "Body": message.body,
    }
    system_names = params.get("MessageSystemAttributeNames") or params.get("AttributeNames") or ()
    system = {
        name: value
        for name, value in _system_attributes(message, sender).items()
        if name in system_names or "All" in system_names
    }
    selected = _select_attributes(message.attributes, params.get("MessageAttributeNames") or ())
    if system:
        view["Attributes"] = system
    if selected:
        view["MessageAttributes"] = {name: _attribute_view(selected[name]) for name in selected}
        view["MD5OfMessageAttributes"] = md5_of_attributes(selected)
    return view


def _system_attributes(message: SqsMessage, sender: str) -> dict[str, str]:
    first = message.sent if message.first_received is None else message.first_received
    return {
        "SenderId": sender,
        "SentTimestamp": to_milliseconds(message.sent),
        "ApproximateReceiveCount": str(message.receive_count),
        "ApproximateFirstReceiveTimestamp": to_milliseconds(first),
    }


def to_milliseconds(moment: float) -> str:
    return str(round(moment * 1000))


def _select_attributes(
    attributes: Mapping[str, MessageAttribute], names: Sequence[str]
) -> dict[str, MessageAttribute]:
    """Attributes by name, by prefix (`a.*`), or all."""
    prefixes = tuple(name.removesuffix(".*") for name in names if name.endswith(".*"))
    return {
        name: attribute
        for name, attribute in attributes.items()
        if "All" in names or name in names or (prefixes and name.startswith(prefixes))
    }


def _attribute_view(attribute: MessageAttribute) -> dict[str, Any]:
    value = (
        {"StringValue": attribute.text}
        if attribute.binary is None
        else {"BinaryValue": attribute.binary}
    )
    return {"DataType": attribute.type, **value}


def receipt_handle(message: SqsMessage) -> str:
    """Valid for this reception only: the next one gets another."""
    return urlsafe_b64encode(f"{message.id} {message.receive_count}".encode()).decode()


def parse_receipt_handle(handle: str) -> tuple[str, int]:
    """The message id, and the number of the reception that the handle belongs to."""
    try:
        identity, _, count = urlsafe_b64decode(handle.encode()).decode().partition(" ")
        return identity, int(count)
    except (binascii.Error, UnicodeError, ValueError):
        raise AwsError(
            "ReceiptHandleIsInvalid", f'The input receipt handle "{handle}" is not valid.'
        ) from None


MIN_WAIT_SECONDS: float = 0.001  # a wait of 0 would spin where rounding puts a time just ahead


class QueueWaiters:
    """Waiting receivers by queue, and until when they wait. For use on one event loop."""

    def __init__(self) -> None:
        self._waiting: dict[asyncio.Event, tuple[str, float]] = {}

    async def wait(self, queue: str, seconds: float, clock: Clock) -> None:
        """Waits until the queue is woken, or for that many seconds."""
        seconds = max(seconds, MIN_WAIT_SECONDS)
        wake_event = asyncio.Event()
        self._waiting[wake_event] = queue, clock.now() + seconds
        tasks = [
            asyncio.ensure_future(wake_event.wait()),
            asyncio.ensure_future(clock.sleep(seconds)),
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            del self._waiting[wake_event]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def wake(self, queue: str) -> None:
        for wake_event, (name, _) in self._waiting.items():
            if name == queue:
                wake_event.set()

    def wake_before(self, due: float | None) -> None:
        """Wakes receivers that would wait beyond a new timed event, which may send messages."""
        if due is None:
            return
        for wake_event, (_, until) in self._waiting.items():
            if until > due:
                wake_event.set()


JSON_ERROR_NAMES: Final = {
    QUEUE_NOT_FOUND: "QueueDoesNotExist",
    "AWS.SimpleQueueService.MessageNotInflight": "MessageNotInflight",
    "AWS.SimpleQueueService.UnsupportedOperation": "UnsupportedOperation",
    "QueueAlreadyExists": "QueueNameExists",
}


class Sqs:
    """`base` is the beginning of queue URLs, where it is not that of AWS."""

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
        """Creates the interruption queue, with five minutes of retention; returns its URL."""
        attributes = {"MessageRetentionPeriod": "300"}
        return str(self._queues.create({"QueueName": name, "Attributes": attributes})["QueueUrl"])

    def send(self, queue: str, body: str) -> None:
        """Sends a message as EventBridge does; dropped where there is no such queue."""
        target = self.state.queues.get(queue)
        if target is not None:
            self._enqueue(target, body)

    async def receive(
        self, params: Params, clock: Clock, *, wait_seconds: float | None = None
    ) -> Response:
        """ReceiveMessage that waits for a message as long as the request says, or `wait_seconds`
        says in its place.
        """
        self._context.run_due_events()
        seconds = self._wait_seconds(params)
        deadline = clock.now() + (seconds if wait_seconds is None else wait_seconds)
        while True:
            response = self.receive_message(params)
            remaining = deadline - clock.now()
            if response or remaining <= 0:
                return response
            queue = self._queues.find_by_url(params)
            await self._waiters.wait(
                queue.name, min(remaining, self._seconds_until_change(queue)), clock
            )
            self._context.run_due_events()

    def wake_waiters(self) -> None:
        """Wakes receivers that wait beyond timed events scheduled since they began."""
        self._waiters.wake_before(self._context.next_due())

    def _wait_seconds(self, params: Params) -> int:
        default = self._queues.find_by_url(params).number_attribute("ReceiveMessageWaitTimeSeconds")
        return _parse_bounded_int(params, "WaitTimeSeconds", default, (0, 20))

    def _seconds_until_change(self, queue: SqsQueue) -> float:
        """Seconds until a message becomes visible or an event is due: neither wakes receivers."""
        now = self._context.now()
        moments = [message.visible_from for message in queue.messages.values()]
        due = self._context.next_due()
        if due is not None:
            moments.append(due)
        return min((each - now for each in moments if each > now), default=inf)

    def send_message(self, params: Params) -> Response:
        queue = self._queues.find_by_url(params)
        body = require_text(params, "MessageBody", error_code=MISSING_PARAMETER)
        maximum = queue.number_attribute("MaximumMessageSize")
        if len(body.encode()) > maximum:
            raise _invalid_parameter(f"Message must be shorter than {maximum} bytes.")
        message = self._enqueue(
            queue,
            body,
            _parse_bounded_int(
                params, "DelaySeconds", queue.number_attribute("DelaySeconds"), (0, 900)
            ),
            parse_message_attributes(params.get("MessageAttributes")),
        )
        response: Response = {"MessageId": message.id, "MD5OfMessageBody": md5_of(body)}
        if message.attributes:
            response["MD5OfMessageAttributes"] = md5_of_attributes(message.attributes)
        return response

    def _enqueue(
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
            visible_from=now + (queue.number_attribute("DelaySeconds") if delay is None else delay),
            attributes=dict(attributes or {}),
        )
        queue.drop_expired(now)
        queue.messages[message.id] = message
        self._waiters.wake(queue.name)
        return message

    def receive_message(self, params: Params) -> Response:
        """Visible messages, oldest first; an empty response where there are none."""
        queue, now = self._queues.find_by_url(params), self._context.now()
        maximum = _parse_bounded_int(params, "MaxNumberOfMessages", 1, (1, 10))
        visibility_timeout = _parse_bounded_int(
            params, "VisibilityTimeout", queue.number_attribute("VisibilityTimeout"), (0, 43_200)
        )
        self._wait_seconds(params)  # validated here too: out of range is an error
        queue.drop_expired(now)
        visible = (message for message in queue.messages.values() if message.visible_from <= now)
        messages = list(islice(visible, maximum))
        for message in messages:
            message.receive_count += 1
            message.visible_from = now + visibility_timeout
            message.first_received = message.first_received or now
        views = [message_view(message, params, self._context.account) for message in messages]
        return {"Messages": views} if views else {}

    def delete_message(self, params: Params) -> Response:
        """A receipt handle of an earlier reception deletes nothing, without error."""
        queue, message = self._find_received(params)
        if message is not None:
            del queue.messages[message.id]
        return {}

    def change_message_visibility(self, params: Params) -> Response:
        queue, message = self._find_received(params)
        now = self._context.now()
        seconds = _parse_bounded_int(params, "VisibilityTimeout", None, (0, 43_200))
        if message is None or message.visible_from <= now:
            raise AwsError(
                "AWS.SimpleQueueService.MessageNotInflight",
                "The message referred to isn't in flight.",
            )
        message.visible_from = now + seconds
        self._waiters.wake(queue.name)
        return {}

    def _find_received(self, params: Params) -> tuple[SqsQueue, SqsMessage | None]:
        """The message of the receipt handle; None if deleted or received again since."""
        queue = self._queues.find_by_url(params)
        identity, count = parse_receipt_handle(
            require_text(params, "ReceiptHandle", error_code=MISSING_PARAMETER)
        )
        message = queue.messages.get(identity)
        return queue, message if message is not None and message.receive_count == count else None


def _parse_bounded_int(
    params: Params, name: str, default: int | None, bounds: tuple[int, int]
) -> int:
    if default is None and params.get(name) is None:
        raise AwsError(MISSING_PARAMETER, f"The request must contain the parameter {name}.")
    value = parse_int(params, name, default=default or 0, error_code=INVALID_VALUE)
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
