"""SQS: standard queues with visibility timeouts, receipts and long polling.

Two ways to receive. `operations()["ReceiveMessage"]` answers at once with what is visible now, as
every handler does. `receive(params, clock)` waits as long as the request (or the queue) says and
is woken when a message is sent or becomes visible again: the entrances that can wait, the seam and
the HTTP server, call it in place of the handler, after throttling and faults have had their say.
It lets the world catch up by itself, also with appointments that send messages. An appointment
made while somebody waits is noticed if the entrance calls `stir()` after each answer.

Codes are those of the query protocol, which boto3 shows to its callers; `JSON_NAMES` has the names
that stand in `__type` on the wire where they differ.
"""

from collections.abc import Mapping
from itertools import islice
from math import inf
from typing import Final
from uuid import UUID

from wainwright.clock import Clock
from wainwright.emulator.services import sqs_messages as messages
from wainwright.emulator.services.requests import text, whole
from wainwright.emulator.services.sqs_bell import Bell
from wainwright.emulator.services.sqs_queues import MISSING, NO_QUEUE, Queues
from wainwright.emulator.services.sqs_state import INVALID, Attribute, Message, Queue, SqsState
from wainwright.emulator.world import Answer, Handler, Params, World
from wainwright.errors import AwsError

JSON_NAMES: Final = {
    NO_QUEUE: "QueueDoesNotExist",
    "AWS.SimpleQueueService.MessageNotInflight": "MessageNotInflight",
    "AWS.SimpleQueueService.UnsupportedOperation": "UnsupportedOperation",
    "QueueAlreadyExists": "QueueNameExists",
}


class Sqs:
    """`base` is what addresses of queues begin with, where it is not AWS's own."""

    name = "sqs"

    def __init__(self, world: World, base: str | None = None) -> None:
        self.state = SqsState()
        self._world = world
        self._queues = Queues(world, self, base)
        self._bell = Bell()

    def operations(self) -> Mapping[str, Handler]:
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

    async def receive(self, params: Params, clock: Clock) -> Answer:
        """ReceiveMessage that waits for a message as long as the request says."""
        self._world.catch_up()
        until = clock.now() + self._patience(params)
        while True:
            answer = self.receive_message(params)
            left = until - clock.now()
            if answer or left <= 0:
                return answer
            queue = self._queues.at(params)
            await self._bell.wait(queue.name, min(left, self._until_change(queue)), clock)
            self._world.catch_up()

    def stir(self) -> None:
        """Tells those who wait of appointments that were made since they began."""
        self._bell.stir(self._world.next_due())

    def _patience(self, params: Params) -> int:
        otherwise = self._queues.at(params).number("ReceiveMessageWaitTimeSeconds")
        return _within(params, "WaitTimeSeconds", otherwise, (0, 20))

    def _until_change(self, queue: Queue) -> float:
        """Seconds until something may happen that nobody rings for."""
        now = self._world.now()
        moments = [message.visible for message in queue.messages.values()]
        due = self._world.next_due()
        if due is not None:
            moments.append(due)
        return min((each - now for each in moments if each > now), default=inf)

    def send_message(self, params: Params) -> Answer:
        queue = self._queues.at(params)
        body = text(params, "MessageBody", refused=MISSING)
        most = queue.number("MaximumMessageSize")
        if len(body.encode()) > most:
            raise _refused(f"Message must be shorter than {most} bytes.")
        message = self._put(
            queue,
            body,
            _within(params, "DelaySeconds", queue.number("DelaySeconds"), (0, 900)),
            messages.attributes(params.get("MessageAttributes")),
        )
        answer: Answer = {"MessageId": message.id, "MD5OfMessageBody": messages.sum_of(body)}
        if message.attributes:
            answer["MD5OfMessageAttributes"] = messages.sum_of_attributes(message.attributes)
        return answer

    def _put(
        self,
        queue: Queue,
        body: str,
        delay: int | None = None,
        attributes: Mapping[str, Attribute] | None = None,
    ) -> Message:
        now = self._world.now()
        message = Message(
            id=str(UUID(bytes=self._world.random.randbytes(16), version=4)),
            body=body,
            sent=now,
            visible=now + (queue.number("DelaySeconds") if delay is None else delay),
            attributes=dict(attributes or {}),
        )
        queue.forget(now)
        queue.messages[message.id] = message
        self._bell.ring(queue.name)
        return message

    def receive_message(self, params: Params) -> Answer:
        """What is visible now, oldest first; nothing at all where there is nothing."""
        queue, now = self._queues.at(params), self._world.now()
        most = _within(params, "MaxNumberOfMessages", 1, (1, 10))
        hidden = _within(
            params, "VisibilityTimeout", queue.number("VisibilityTimeout"), (0, 43_200)
        )
        self._patience(params)  # refused here as well where it is out of range
        queue.forget(now)
        visible = (message for message in queue.messages.values() if message.visible <= now)
        given = list(islice(visible, most))
        for message in given:
            message.received += 1
            message.visible = now + hidden
            message.first_received = message.first_received or now
        shown = [messages.view(message, params, self._world.account) for message in given]
        return {"Messages": shown} if shown else {}

    def delete_message(self, params: Params) -> Answer:
        """A receipt of an earlier reception deletes nothing, and that is no error."""
        queue, found = self._held(params)
        if found is not None:
            del queue.messages[found.id]
        return {}

    def change_message_visibility(self, params: Params) -> Answer:
        queue, found = self._held(params)
        now = self._world.now()
        seconds = _within(params, "VisibilityTimeout", None, (0, 43_200))
        if found is None or found.visible <= now:
            raise AwsError(
                "AWS.SimpleQueueService.MessageNotInflight",
                "The message referred to isn't in flight.",
            )
        found.visible = now + seconds
        self._bell.ring(queue.name)
        return {}

    def _held(self, params: Params) -> tuple[Queue, Message | None]:
        """The message that the receipt is for, unless it is gone or was received again since."""
        queue = self._queues.at(params)
        identity, count = messages.received(text(params, "ReceiptHandle", refused=MISSING))
        message = queue.messages.get(identity)
        return queue, message if message is not None and message.received == count else None


def _within(params: Params, name: str, otherwise: int | None, bounds: tuple[int, int]) -> int:
    if otherwise is None and params.get(name) is None:
        raise AwsError(MISSING, f"The request must contain the parameter {name}.")
    value = whole(params, name, otherwise=otherwise or 0, refused=INVALID)
    least, most = bounds
    if not least <= value <= most:
        raise AwsError(
            INVALID,
            f"Value {value} for parameter {name} is invalid. Reason: Must be between {least} and "
            f"{most}, if provided.",
        )
    return value


def _refused(reason: str) -> AwsError:
    return AwsError(INVALID, f"One or more parameters are invalid. Reason: {reason}")
