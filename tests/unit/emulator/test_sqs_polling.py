"""Long polling: whoever waits for a message is woken by it, and by nothing else."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from wainwright.clock import EPOCH, VirtualClock
from wainwright.emulator.services.sqs import Sqs
from wainwright.emulator.world import World
from wainwright.errors import AwsError

NO_QUEUE = "AWS.SimpleQueueService.NonExistentQueue"


class Waiting:
    """A queue on virtual time, which passes only while everybody waits."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.world = World(self.clock.now, region="us-east-1")
        self.sqs = Sqs(self.world)
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
    waiting.world.on("news", lambda about: waiting.sqs.send("q", about["body"]))
    waiting.world.at(EPOCH + 4, "news", body="planned")
    assert waiting.clock.run(waiting.receive()) == (4, ["planned"])


def test_an_appointment_made_while_waiting_is_kept_after_a_stir(waiting: Waiting) -> None:
    waiting.world.on("news", lambda about: waiting.sqs.send("q", about["body"]))

    async def appoint() -> None:
        await waiting.clock.sleep(2)
        waiting.world.at(EPOCH + 4, "news", body="planned")
        waiting.sqs.stir()

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
