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
    one = SingleService(Sqs)
    answer = one.ask("CreateQueue", QueueName="q", Attributes=attributes)
    return one, answer["QueueUrl"]


def received(one: SingleService[Sqs], url: str, **params: Any) -> list[Any]:
    return list(one.ask("ReceiveMessage", QueueUrl=url, **params).get("Messages", ()))


def bodies(one: SingleService[Sqs], url: str, **params: Any) -> list[str]:
    return [each["Body"] for each in received(one, url, **params)]


def test_a_queue_is_found_by_its_name_and_by_the_end_of_its_address() -> None:
    one, url = sqs()
    assert url == "https://sqs.us-east-1.amazonaws.com/111122223333/q"
    assert one.ask("GetQueueUrl", QueueName="q") == {"QueueUrl": url}
    one.ask("SendMessage", QueueUrl="http://localhost:4566/000000000000/q", MessageBody="hello")
    assert bodies(one, url) == ["hello"]


def test_addresses_begin_as_the_door_wants_them() -> None:
    one = SingleService(lambda context: Sqs(context, "http://127.0.0.1:9000"))
    assert one.service.seed("wain") == "http://127.0.0.1:9000/111122223333/wain"


def test_a_message_is_hidden_until_its_time_is_over_then_comes_again() -> None:
    one, url = sqs()
    one.ask("SendMessage", QueueUrl=url, MessageBody="m")
    assert bodies(one, url, VisibilityTimeout=20) == ["m"]
    one.clock.time += 19.9
    assert bodies(one, url) == []
    one.clock.time += 0.1
    (again,) = received(one, url, AttributeNames=["All"])
    assert again["Attributes"]["ApproximateReceiveCount"] == "2"
    assert again["Attributes"]["SentTimestamp"] == str(round(EPOCH * 1000))
    one.clock.time += 29.9
    assert bodies(one, url) == []
    one.clock.time += 0.1
    assert bodies(one, url) == ["m"]


def test_a_deleted_message_does_not_come_again() -> None:
    one, url = sqs()
    one.ask("SendMessage", QueueUrl=url, MessageBody="m")
    (message,) = received(one, url, VisibilityTimeout=0)
    handle = {"QueueUrl": url, "ReceiptHandle": message["ReceiptHandle"]}
    one.ask("DeleteMessage", **handle)
    assert bodies(one, url) == []
    one.ask("DeleteMessage", **handle)


def test_a_receipt_of_an_earlier_reception_deletes_nothing() -> None:
    one, url = sqs()
    one.ask("SendMessage", QueueUrl=url, MessageBody="m")
    (first,) = received(one, url, VisibilityTimeout=0)
    (second,) = received(one, url, VisibilityTimeout=0)
    assert first["ReceiptHandle"] != second["ReceiptHandle"]
    one.ask("DeleteMessage", QueueUrl=url, ReceiptHandle=first["ReceiptHandle"])
    (third,) = received(one, url)
    one.ask("DeleteMessage", QueueUrl=url, ReceiptHandle=third["ReceiptHandle"])
    assert one.service.state.queues["q"].messages == {}


def test_at_most_as_many_as_asked_for_oldest_first() -> None:
    one, url = sqs()
    for number in range(12):
        one.ask("SendMessage", QueueUrl=url, MessageBody=str(number))
    assert bodies(one, url) == ["0"]
    assert bodies(one, url, MaxNumberOfMessages=10) == [str(number) for number in range(1, 11)]
    assert bodies(one, url, MaxNumberOfMessages=10) == ["11"]
    assert one.ask("ReceiveMessage", QueueUrl=url) == {}


def test_only_the_attributes_that_were_asked_for_come_along() -> None:
    one, url = sqs()
    own = {
        "kind": {"DataType": "String", "StringValue": "spot"},
        "count.of": {"DataType": "Number", "StringValue": "3"},
        "raw": {"DataType": "Binary", "BinaryValue": b"\x00\xff"},
    }
    sent = one.ask("SendMessage", QueueUrl=url, MessageBody="m", MessageAttributes=own)
    again = one.reborn()
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


def test_sums_are_those_that_clients_reckon() -> None:
    one, url = sqs()
    own = {"test": {"DataType": "String", "StringValue": "value"}}
    sent = one.ask("SendMessage", QueueUrl=url, MessageBody="grüße", MessageAttributes=own)
    (message,) = received(one, url)
    assert sent["MD5OfMessageBody"] == message["MD5OfBody"]
    assert message["MD5OfBody"] == md5("grüße".encode(), usedforsecurity=False).hexdigest()
    parts = b"\0\0\0\4test" + b"\0\0\0\6String" + b"\1" + b"\0\0\0\5value"
    expected = md5(parts, usedforsecurity=False).hexdigest()
    assert sent["MD5OfMessageAttributes"] == expected


def test_delayed_messages_wait_and_old_ones_are_forgotten() -> None:
    one, url = sqs(DelaySeconds="5", MessageRetentionPeriod="60")
    one.ask("SendMessage", QueueUrl=url, MessageBody="late")
    one.ask("SendMessage", QueueUrl=url, MessageBody="now", DelaySeconds=0)
    assert bodies(one, url, MaxNumberOfMessages=10, VisibilityTimeout=1) == ["now"]
    one.clock.time += 5
    assert bodies(one, url, MaxNumberOfMessages=10, VisibilityTimeout=1) == ["late", "now"]
    one.clock.time += 55
    assert bodies(one, url, MaxNumberOfMessages=10) == []


def test_a_queue_counts_what_it_holds() -> None:
    one, url = sqs(VisibilityTimeout="40")
    for body in "abc":
        one.ask("SendMessage", QueueUrl=url, MessageBody=body)
    one.ask("SendMessage", QueueUrl=url, MessageBody="d", DelaySeconds=9)
    received(one, url)
    names = [
        "ApproximateNumberOfMessages",
        "ApproximateNumberOfMessagesNotVisible",
        "ApproximateNumberOfMessagesDelayed",
        "VisibilityTimeout",
        "MessageRetentionPeriod",
        "QueueArn",
    ]
    found = one.ask("GetQueueAttributes", QueueUrl=url, AttributeNames=names)["Attributes"]
    arn = "arn:aws:sqs:us-east-1:111122223333:q"
    assert [found[name] for name in names] == ["2", "1", "1", "40", "345600", arn]
    assert one.ask("GetQueueAttributes", QueueUrl=url) == {}
    every = one.ask("GetQueueAttributes", QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert set(names) < set(every)
    one.ask("PurgeQueue", QueueUrl=url)
    assert one.service.state.queues["q"].messages == {}


def test_making_a_queue_again_must_not_change_it() -> None:
    one, url = sqs(VisibilityTimeout="40")
    assert one.ask("CreateQueue", QueueName="q")["QueueUrl"] == url
    one.ask("CreateQueue", QueueName="q", Attributes={"DelaySeconds": "0"})
    other = one.refused("CreateQueue", QueueName="q", Attributes={"VisibilityTimeout": "41"})
    assert other == ("QueueAlreadyExists", 400)
    one.ask("SetQueueAttributes", QueueUrl=url, Attributes={"VisibilityTimeout": "41"})
    one.ask("CreateQueue", QueueName="q", Attributes={"VisibilityTimeout": "41"})


def test_queues_are_listed_tagged_and_deleted() -> None:
    one, url = sqs()
    one.ask("CreateQueue", QueueName="other", tags={"team": "web"})
    other = one.ask("GetQueueUrl", QueueName="other")["QueueUrl"]
    assert one.ask("ListQueues") == {"QueueUrls": [other, url]}
    assert one.ask("ListQueues", QueueNamePrefix="q") == {"QueueUrls": [url]}
    assert one.ask("ListQueues", QueueNamePrefix="x") == {}
    one.ask("TagQueue", QueueUrl=other, Tags={"a": "b"})
    assert one.ask("ListQueueTags", QueueUrl=other) == {"Tags": {"team": "web", "a": "b"}}
    one.ask("DeleteQueue", QueueUrl=url)
    assert one.refused("GetQueueUrl", QueueName="q") == (NO_QUEUE, 400)


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
def test_what_is_refused(operation: str, params: dict[str, Any], expected: tuple[str, int]) -> None:
    assert sqs()[0].refused(operation, **params) == expected


def test_codes_that_have_another_name_in_json() -> None:
    assert JSON_ERROR_NAMES[NO_QUEUE] == "QueueDoesNotExist"


def test_visibility_can_be_changed_while_in_flight() -> None:
    one, url = sqs()
    one.ask("SendMessage", QueueUrl=url, MessageBody="m")
    (message,) = received(one, url)
    held = {"QueueUrl": url, "ReceiptHandle": message["ReceiptHandle"]}
    one.ask("ChangeMessageVisibility", **held, VisibilityTimeout=100)
    one.clock.time += 99
    assert bodies(one, url) == []
    one.ask("ChangeMessageVisibility", **held, VisibilityTimeout=0)
    assert bodies(one, url) == ["m"]
    stale = one.refused("ChangeMessageVisibility", **held, VisibilityTimeout=1)
    assert stale == ("AWS.SimpleQueueService.MessageNotInflight", 400)


def test_what_is_sent_to_no_queue_is_lost() -> None:
    one, url = sqs()
    one.service.send("other", "m")
    assert bodies(one, url) == []


@given(st.lists(st.sampled_from(["send", "receive", "delete", "wait"]), max_size=60))
def test_no_message_is_lost_doubled_or_received_while_hidden(steps: list[str]) -> None:
    one, url = sqs(VisibilityTimeout="10")
    sent, deleted = 0, 0
    hidden: dict[str, float] = {}
    handles: list[str] = []
    for step in steps:
        if step == "send":
            one.raw("SendMessage", QueueUrl=url, MessageBody=str(sent))
            sent += 1
        elif step == "receive":
            for each in one.raw("ReceiveMessage", QueueUrl=url).get("Messages", ()):
                assert hidden.get(each["Body"], 0) <= one.clock.time
                hidden[each["Body"]] = one.clock.time + 10
                handles.append(each["ReceiptHandle"])
        elif step == "delete" and handles:
            before = len(one.service.state.queues["q"].messages)
            one.raw("DeleteMessage", QueueUrl=url, ReceiptHandle=handles.pop())
            deleted += before - len(one.service.state.queues["q"].messages)
        else:
            one.clock.time += 4
    assert len(one.service.state.queues["q"].messages) == sent - deleted


class Waiting:
    """A queue on virtual time, which passes only while everybody waits."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.context = AccountContext(self.clock.now, region="us-east-1")
        self.sqs = Sqs(self.context)
        self.url = self.sqs.seed("q")

    async def receive(self, wait: int = 20, **params: Any) -> tuple[float, list[str]]:
        """How long it took, and what came."""
        start = self.clock.now()
        asked = {"QueueUrl": self.url, "WaitTimeSeconds": wait, **params}
        answer = await self.sqs.receive(asked, self.clock)
        took = round(self.clock.now() - start, 2)
        return took, [each["Body"] for each in answer.get("Messages", ())]

    async def send_later(self, seconds: float, body: str = "m") -> None:
        await self.clock.sleep(seconds)
        self.sqs.send("q", body)


@pytest.fixture
def waiting() -> Iterator[Waiting]:
    made = Waiting()
    yield made
    made.clock.close()


def test_a_poll_ends_empty_when_its_time_is_over(waiting: Waiting) -> None:
    assert waiting.clock.run(waiting.receive()) == (20, [])


def test_a_poll_without_waiting_answers_at_once(waiting: Waiting) -> None:
    assert waiting.clock.run(waiting.receive(0)) == (0, [])


def test_the_queue_says_how_long_where_the_request_does_not(waiting: Waiting) -> None:
    waiting.sqs.operations()["SetQueueAttributes"](
        {"QueueUrl": waiting.url, "Attributes": {"ReceiveMessageWaitTimeSeconds": "7"}}
    )
    start = waiting.clock.now()
    waiting.clock.run(waiting.sqs.receive({"QueueUrl": waiting.url}, waiting.clock))
    assert waiting.clock.now() - start == pytest.approx(7, abs=0.01)


def test_a_message_wakes_who_waits_for_it(waiting: Waiting) -> None:
    async def both() -> tuple[float, list[str]]:
        found, _ = await asyncio.gather(waiting.receive(), waiting.send_later(3.5))
        return found

    assert waiting.clock.run(both()) == (3.5, ["m"])


def test_of_two_who_wait_one_gets_it_and_the_other_goes_on_waiting(waiting: Waiting) -> None:
    async def three() -> list[tuple[float, list[str]]]:
        found = await asyncio.gather(waiting.receive(), waiting.receive(), waiting.send_later(5))
        return sorted(found[:2])

    assert waiting.clock.run(three()) == [(5, ["m"]), (20, [])]


def test_a_message_that_becomes_visible_again_is_noticed(waiting: Waiting) -> None:
    waiting.sqs.send("q", "m")
    waiting.clock.run(waiting.receive(VisibilityTimeout=6))
    assert waiting.clock.run(waiting.receive()) == (6, ["m"])


def test_an_appointment_that_sends_a_message_is_kept(waiting: Waiting) -> None:
    waiting.context.register_handler("news", lambda about: waiting.sqs.send("q", about["body"]))
    waiting.context.schedule_event(EPOCH + 4, "news", body="planned")
    assert waiting.clock.run(waiting.receive()) == (4, ["planned"])


def test_an_appointment_made_while_waiting_is_kept_after_a_stir(waiting: Waiting) -> None:
    waiting.context.register_handler("news", lambda about: waiting.sqs.send("q", about["body"]))

    async def appoint() -> None:
        await waiting.clock.sleep(2)
        waiting.context.schedule_event(EPOCH + 4, "news", body="planned")
        waiting.sqs.wake_waiters()

    async def both() -> tuple[float, list[str]]:
        found, _ = await asyncio.gather(waiting.receive(), appoint())
        return found

    assert waiting.clock.run(both()) == (4, ["planned"])


def test_a_poll_that_is_given_up_leaves_nothing_behind(waiting: Waiting) -> None:
    async def impatient() -> tuple[float, list[str]]:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(waiting.receive(), 1)
        waiting.sqs.send("q", "m")
        return await waiting.receive()

    assert waiting.clock.run(impatient()) == (0, ["m"])


def test_a_queue_deleted_meanwhile_is_not_there(waiting: Waiting) -> None:
    async def delete() -> None:
        await waiting.clock.sleep(1)
        waiting.sqs.operations()["DeleteQueue"]({"QueueUrl": waiting.url})

    async def both() -> None:
        with pytest.raises(AwsError) as caught:
            await asyncio.gather(waiting.receive(), delete())
        assert caught.value.code == NO_QUEUE

    waiting.clock.run(both())
