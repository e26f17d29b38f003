"""SQS: queues, visibility, receipt handles, retention, and long polling."""

import asyncio
from collections.abc import Iterator
from hashlib import md5
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.emulator_accounts import SingleService

from wainwright.clock import EPOCH, VirtualClock
from wainwright.emulator.context import AccountContext
from wainwright.emulator.services.sqs import JSON_ERROR_NAMES, Sqs
from wainwright.errors import AwsError

NO_QUEUE = "AWS.SimpleQueueService.NonExistentQueue"
INVALID = ("InvalidParameterValue", 400)


def sqs(**attributes: str) -> tuple[SingleService[Sqs], str]:
    service = SingleService(Sqs)
    response = service.call("CreateQueue", QueueName="q", Attributes=attributes)
    return service, response["QueueUrl"]


def received(service: SingleService[Sqs], url: str, **params: Any) -> list[Any]:
    return list(service.call("ReceiveMessage", QueueUrl=url, **params).get("Messages", ()))


def bodies(service: SingleService[Sqs], url: str, **params: Any) -> list[str]:
    return [each["Body"] for each in received(service, url, **params)]


def test_a_queue_is_found_by_name_and_by_the_last_segment_of_its_url() -> None:
    service, url = sqs()
    assert url == "https://sqs.us-east-1.amazonaws.com/111122223333/q"
    assert service.call("GetQueueUrl", QueueName="q") == {"QueueUrl": url}
    service.call(
        "SendMessage", QueueUrl="http://localhost:4566/000000000000/q", MessageBody="hello"
    )
    assert bodies(service, url) == ["hello"]


def test_queue_urls_have_the_configured_base() -> None:
    service = SingleService(lambda context: Sqs(context, "http://127.0.0.1:9000"))
    assert service.service.seed("wain") == "http://127.0.0.1:9000/111122223333/wain"


def test_a_received_message_is_hidden_for_its_visibility_timeout() -> None:
    service, url = sqs()
    service.call("SendMessage", QueueUrl=url, MessageBody="m")
    assert bodies(service, url, VisibilityTimeout=20) == ["m"]
    service.clock.time += 19.9
    assert bodies(service, url) == []
    service.clock.time += 0.1
    (again,) = received(service, url, AttributeNames=["All"])
    assert again["Attributes"]["ApproximateReceiveCount"] == "2"
    assert again["Attributes"]["SentTimestamp"] == str(round(EPOCH * 1000))
    service.clock.time += 29.9
    assert bodies(service, url) == []
    service.clock.time += 0.1
    assert bodies(service, url) == ["m"]


def test_a_deleted_message_is_not_received_again() -> None:
    service, url = sqs()
    service.call("SendMessage", QueueUrl=url, MessageBody="m")
    (message,) = received(service, url, VisibilityTimeout=0)
    handle = {"QueueUrl": url, "ReceiptHandle": message["ReceiptHandle"]}
    service.call("DeleteMessage", **handle)
    assert bodies(service, url) == []
    service.call("DeleteMessage", **handle)


def test_a_receipt_handle_of_an_earlier_reception_deletes_nothing() -> None:
    service, url = sqs()
    service.call("SendMessage", QueueUrl=url, MessageBody="m")
    (first,) = received(service, url, VisibilityTimeout=0)
    (second,) = received(service, url, VisibilityTimeout=0)
    assert first["ReceiptHandle"] != second["ReceiptHandle"]
    service.call("DeleteMessage", QueueUrl=url, ReceiptHandle=first["ReceiptHandle"])
    (third,) = received(service, url)
    service.call("DeleteMessage", QueueUrl=url, ReceiptHandle=third["ReceiptHandle"])
    assert service.service.state.queues["q"].messages == {}


def test_the_oldest_messages_up_to_the_maximum_are_received() -> None:
    service, url = sqs()
    for number in range(12):
        service.call("SendMessage", QueueUrl=url, MessageBody=str(number))
    assert bodies(service, url) == ["0"]
    assert bodies(service, url, MaxNumberOfMessages=10) == [str(number) for number in range(1, 11)]
    assert bodies(service, url, MaxNumberOfMessages=10) == ["11"]
    assert service.call("ReceiveMessage", QueueUrl=url) == {}


def test_only_requested_attributes_are_returned() -> None:
    service, url = sqs()
    own = {
        "kind": {"DataType": "String", "StringValue": "spot"},
        "count.of": {"DataType": "Number", "StringValue": "3"},
        "raw": {"DataType": "Binary", "BinaryValue": b"\x00\xff"},
    }
    sent = service.call("SendMessage", QueueUrl=url, MessageBody="m", MessageAttributes=own)
    again = service.reloaded()
    (bare,) = received(again, url, VisibilityTimeout=0)
    assert "MessageAttributes" not in bare
    assert "Attributes" not in bare
    (full,) = received(again, url, VisibilityTimeout=0, MessageAttributeNames=["All"])
    assert full["MessageAttributes"] == own
    assert full["MD5OfMessageAttributes"] == sent["MD5OfMessageAttributes"]
    (some,) = received(again, url, VisibilityTimeout=0, MessageAttributeNames=["count.*", "raw"])
    assert set(some["MessageAttributes"]) == {"count.of", "raw"}
    (dated,) = received(again, url, AttributeNames=["SentTimestamp"])
    assert set(dated["Attributes"]) == {"SentTimestamp"}


def test_md5_sums_are_those_that_clients_verify() -> None:
    service, url = sqs()
    own = {"test": {"DataType": "String", "StringValue": "value"}}
    sent = service.call("SendMessage", QueueUrl=url, MessageBody="grüße", MessageAttributes=own)
    (message,) = received(service, url)
    assert sent["MD5OfMessageBody"] == message["MD5OfBody"]
    assert message["MD5OfBody"] == md5("grüße".encode(), usedforsecurity=False).hexdigest()
    parts = b"\0\0\0\4test" + b"\0\0\0\6String" + b"\1" + b"\0\0\0\5value"
    expected = md5(parts, usedforsecurity=False).hexdigest()
    assert sent["MD5OfMessageAttributes"] == expected


def test_delayed_messages_wait_and_expired_ones_are_dropped() -> None:
    service, url = sqs(DelaySeconds="5", MessageRetentionPeriod="60")
    service.call("SendMessage", QueueUrl=url, MessageBody="late")
    service.call("SendMessage", QueueUrl=url, MessageBody="now", DelaySeconds=0)
    assert bodies(service, url, MaxNumberOfMessages=10, VisibilityTimeout=1) == ["now"]
    service.clock.time += 5
    assert bodies(service, url, MaxNumberOfMessages=10, VisibilityTimeout=1) == ["late", "now"]
    service.clock.time += 55
    assert bodies(service, url, MaxNumberOfMessages=10) == []


def test_a_queue_counts_its_messages() -> None:
    service, url = sqs(VisibilityTimeout="40")
    for body in "abc":
        service.call("SendMessage", QueueUrl=url, MessageBody=body)
    service.call("SendMessage", QueueUrl=url, MessageBody="d", DelaySeconds=9)
    received(service, url)
    names = [
        "ApproximateNumberOfMessages",
        "ApproximateNumberOfMessagesNotVisible",
        "ApproximateNumberOfMessagesDelayed",
        "VisibilityTimeout",
        "MessageRetentionPeriod",
        "QueueArn",
    ]
    found = service.call("GetQueueAttributes", QueueUrl=url, AttributeNames=names)["Attributes"]
    arn = "arn:aws:sqs:us-east-1:111122223333:q"
    assert [found[name] for name in names] == ["2", "1", "1", "40", "345600", arn]
    assert service.call("GetQueueAttributes", QueueUrl=url) == {}
    every = service.call("GetQueueAttributes", QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert set(names) < set(every)
    service.call("PurgeQueue", QueueUrl=url)
    assert service.service.state.queues["q"].messages == {}


def test_recreating_a_queue_with_other_attributes_is_an_error() -> None:
    service, url = sqs(VisibilityTimeout="40")
    assert service.call("CreateQueue", QueueName="q")["QueueUrl"] == url
    service.call("CreateQueue", QueueName="q", Attributes={"DelaySeconds": "0"})
    other = service.refused("CreateQueue", QueueName="q", Attributes={"VisibilityTimeout": "41"})
    assert other == ("QueueAlreadyExists", 400)
    service.call("SetQueueAttributes", QueueUrl=url, Attributes={"VisibilityTimeout": "41"})
    service.call("CreateQueue", QueueName="q", Attributes={"VisibilityTimeout": "41"})


def test_queues_are_listed_tagged_and_deleted() -> None:
    service, url = sqs()
    service.call("CreateQueue", QueueName="other", tags={"team": "web"})
    other = service.call("GetQueueUrl", QueueName="other")["QueueUrl"]
    assert service.call("ListQueues") == {"QueueUrls": [other, url]}
    assert service.call("ListQueues", QueueNamePrefix="q") == {"QueueUrls": [url]}
    assert service.call("ListQueues", QueueNamePrefix="x") == {}
    service.call("TagQueue", QueueUrl=other, Tags={"a": "b"})
    assert service.call("ListQueueTags", QueueUrl=other) == {"Tags": {"team": "web", "a": "b"}}
    service.call("DeleteQueue", QueueUrl=url)
    assert service.refused("GetQueueUrl", QueueName="q") == (NO_QUEUE, 400)


@pytest.mark.parametrize(
    ("operation", "params", "expected"),
    [
        ("GetQueueUrl", {"QueueName": "x"}, (NO_QUEUE, 400)),
        ("ReceiveMessage", {"QueueUrl": "http://h/1/x"}, (NO_QUEUE, 400)),
        ("SendMessage", {"QueueUrl": "http://h/1/x", "MessageBody": "m"}, (NO_QUEUE, 400)),
        ("ReceiveMessage", {}, ("MissingParameter", 400)),
        ("SendMessage", {"QueueUrl": "q"}, ("MissingParameter", 400)),
        ("ReceiveMessage", {"QueueUrl": "q", "MaxNumberOfMessages": 11}, INVALID),
        ("ReceiveMessage", {"QueueUrl": "q", "MaxNumberOfMessages": 0}, INVALID),
        ("ReceiveMessage", {"QueueUrl": "q", "WaitTimeSeconds": 21}, INVALID),
        ("ReceiveMessage", {"QueueUrl": "q", "VisibilityTimeout": -1}, INVALID),
        ("SendMessage", {"QueueUrl": "q", "MessageBody": "m" * 2**20 + "m"}, INVALID),
        ("CreateQueue", {"QueueName": "a b"}, INVALID),
        (
            "CreateQueue",
            {"QueueName": "a.fifo"},
            ("AWS.SimpleQueueService.UnsupportedOperation", 400),
        ),
        (
            "CreateQueue",
            {"QueueName": "a", "Attributes": {"VisibilityTimeout": "x"}},
            ("InvalidAttributeValue", 400),
        ),
        (
            "CreateQueue",
            {"QueueName": "a", "Attributes": {"Colour": "red"}},
            ("InvalidAttributeName", 400),
        ),
        (
            "GetQueueAttributes",
            {"QueueUrl": "q", "AttributeNames": ["Colour"]},
            ("InvalidAttributeName", 400),
        ),
        (
            "DeleteMessage",
            {"QueueUrl": "q", "ReceiptHandle": "nonsense"},
            ("ReceiptHandleIsInvalid", 400),
        ),
        (
            "SendMessage",
            {"QueueUrl": "q", "MessageBody": "m", "MessageAttributes": {"a": {"DataType": "X"}}},
            INVALID,
        ),
    ],
)
def test_invalid_requests_are_rejected(
    operation: str, params: dict[str, Any], expected: tuple[str, int]
) -> None:
    assert sqs()[0].refused(operation, **params) == expected


def test_error_names_that_differ_in_json() -> None:
    assert JSON_ERROR_NAMES[NO_QUEUE] == "QueueDoesNotExist"


def test_visibility_can_be_changed_while_in_flight() -> None:
    service, url = sqs()
    service.call("SendMessage", QueueUrl=url, MessageBody="m")
    (message,) = received(service, url)
    held = {"QueueUrl": url, "ReceiptHandle": message["ReceiptHandle"]}
    service.call("ChangeMessageVisibility", **held, VisibilityTimeout=100)
    service.clock.time += 99
    assert bodies(service, url) == []
    service.call("ChangeMessageVisibility", **held, VisibilityTimeout=0)
    assert bodies(service, url) == ["m"]
    stale = service.refused("ChangeMessageVisibility", **held, VisibilityTimeout=1)
    assert stale == ("AWS.SimpleQueueService.MessageNotInflight", 400)


def test_a_message_to_an_unknown_queue_is_dropped() -> None:
    service, url = sqs()
    service.service.send("other", "m")
    assert bodies(service, url) == []


@given(st.lists(st.sampled_from(["send", "receive", "delete", "wait"]), max_size=60))
def test_no_message_is_lost_duplicated_or_received_while_hidden(steps: list[str]) -> None:
    service, url = sqs(VisibilityTimeout="10")
    sent, deleted = 0, 0
    hidden: dict[str, float] = {}
    handles: list[str] = []
    for step in steps:
        if step == "send":
            service.raw("SendMessage", QueueUrl=url, MessageBody=str(sent))
            sent += 1
        elif step == "receive":
            for each in service.raw("ReceiveMessage", QueueUrl=url).get("Messages", ()):
                assert hidden.get(each["Body"], 0) <= service.clock.time
                hidden[each["Body"]] = service.clock.time + 10
                handles.append(each["ReceiptHandle"])
        elif step == "delete" and handles:
            before = len(service.service.state.queues["q"].messages)
            service.raw("DeleteMessage", QueueUrl=url, ReceiptHandle=handles.pop())
            deleted += before - len(service.service.state.queues["q"].messages)
        else:
            service.clock.time += 4
    assert len(service.service.state.queues["q"].messages) == sent - deleted


class WaitingReceiver:
    """A queue on virtual time, which advances only while all tasks wait."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.context = AccountContext(self.clock.now, region="us-east-1")
        self.sqs = Sqs(self.context)
        self.url = self.sqs.seed("q")

    async def receive(self, wait: int = 20, **params: Any) -> tuple[float, list[str]]:
        """The duration of the poll, and the received messages."""
        start = self.clock.now()
        request = {"QueueUrl": self.url, "WaitTimeSeconds": wait, **params}
        response = await self.sqs.receive(request, self.clock)
        took = round(self.clock.now() - start, 2)
        return took, [each["Body"] for each in response.get("Messages", ())]

    async def send_later(self, seconds: float, body: str = "m") -> None:
        await self.clock.sleep(seconds)
        self.sqs.send("q", body)


@pytest.fixture
def waiting() -> Iterator[WaitingReceiver]:
    created = WaitingReceiver()
    yield created
    created.clock.close()


def test_a_long_poll_ends_empty_after_its_wait_time(waiting: WaitingReceiver) -> None:
    assert waiting.clock.run(waiting.receive()) == (20, [])


def test_a_poll_without_wait_time_returns_at_once(waiting: WaitingReceiver) -> None:
    assert waiting.clock.run(waiting.receive(0)) == (0, [])


def test_the_default_wait_time_is_that_of_the_queue(waiting: WaitingReceiver) -> None:
    waiting.sqs.operations()["SetQueueAttributes"](
        {"QueueUrl": waiting.url, "Attributes": {"ReceiveMessageWaitTimeSeconds": "7"}}
    )
    start = waiting.clock.now()
    waiting.clock.run(waiting.sqs.receive({"QueueUrl": waiting.url}, waiting.clock))
    assert waiting.clock.now() - start == pytest.approx(7, abs=0.01)


def test_a_message_wakes_a_waiting_receiver(waiting: WaitingReceiver) -> None:
    async def both() -> tuple[float, list[str]]:
        found, _ = await asyncio.gather(waiting.receive(), waiting.send_later(3.5))
        return found

    assert waiting.clock.run(both()) == (3.5, ["m"])


def test_of_two_waiting_receivers_one_gets_the_message(waiting: WaitingReceiver) -> None:
    async def three() -> list[tuple[float, list[str]]]:
        found = await asyncio.gather(waiting.receive(), waiting.receive(), waiting.send_later(5))
        return sorted(found[:2])

    assert waiting.clock.run(three()) == [(5, ["m"]), (20, [])]


def test_a_waiting_receiver_gets_a_message_that_becomes_visible_again(
    waiting: WaitingReceiver,
) -> None:
    waiting.sqs.send("q", "m")
    waiting.clock.run(waiting.receive(VisibilityTimeout=6))
    assert waiting.clock.run(waiting.receive()) == (6, ["m"])


def test_a_timed_event_that_sends_a_message_wakes_a_receiver(waiting: WaitingReceiver) -> None:
    waiting.context.register_handler("news", lambda about: waiting.sqs.send("q", about["body"]))
    waiting.context.schedule_event(EPOCH + 4, "news", body="planned")
    assert waiting.clock.run(waiting.receive()) == (4, ["planned"])


def test_a_timed_event_scheduled_during_a_wait_is_noticed_after_wake_waiters(
    waiting: WaitingReceiver,
) -> None:
    waiting.context.register_handler("news", lambda about: waiting.sqs.send("q", about["body"]))

    async def appoint() -> None:
        await waiting.clock.sleep(2)
        waiting.context.schedule_event(EPOCH + 4, "news", body="planned")
        waiting.sqs.wake_waiters()

    async def both() -> tuple[float, list[str]]:
        found, _ = await asyncio.gather(waiting.receive(), appoint())
        return found

    assert waiting.clock.run(both()) == (4, ["planned"])


def test_a_cancelled_poll_leaves_no_waiter(waiting: WaitingReceiver) -> None:
    async def impatient() -> tuple[float, list[str]]:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(waiting.receive(), 1)
        waiting.sqs.send("q", "m")
        return await waiting.receive()

    assert waiting.clock.run(impatient()) == (0, ["m"])


def test_a_poll_fails_when_its_queue_is_deleted(waiting: WaitingReceiver) -> None:
    async def delete() -> None:
        await waiting.clock.sleep(1)
        waiting.sqs.operations()["DeleteQueue"]({"QueueUrl": waiting.url})

    async def both() -> None:
        with pytest.raises(AwsError) as caught:
            await asyncio.gather(waiting.receive(), delete())
        assert caught.value.code == NO_QUEUE

    waiting.clock.run(both())
