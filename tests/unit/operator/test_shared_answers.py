"""Answers for many readers: made once for all who wait, and sent a piece at a time."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from aiohttp import web
from tests.support.scripted_api import serve

from wainwright.clock import VirtualClock
from wainwright.operator.shared_answers import (
    MOST_KEPT,
    PIECE_SIZE,
    SEND_SECONDS,
    AnswerSender,
    Parts,
    SharedAnswer,
)

LARGE = [b"x" * 4_000_000] * 4
"""More than any socket buffers."""
LENGTH = sum(map(len, LARGE))


class Work:
    """Makes an answer when it is told to, and counts."""

    def __init__(self) -> None:
        self.begun = 0
        self.ready = asyncio.Event()
        self.error: Exception | None = None

    async def make(self) -> Parts:
        self.begun += 1
        number = self.begun
        await self.ready.wait()
        if self.error is not None:
            raise self.error
        return [b"%d" % number]


async def asked(answer: SharedAnswer) -> Parts:
    async with answer.parts() as parts:
        return parts


async def turns(number: int = 5) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


def run(story: Callable[[Work, SharedAnswer], Awaitable[None]]) -> None:
    async def main() -> None:
        work = Work()
        answer = SharedAnswer(work.make)
        await story(work, answer)
        await answer.close()
        await turns()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


def test_requests_that_come_while_an_answer_is_made_share_it() -> None:
    async def story(work: Work, answer: SharedAnswer) -> None:
        early = [asyncio.create_task(asked(answer)) for _ in range(200)]
        await turns()
        late = [asyncio.create_task(asked(answer)) for _ in range(200)]
        await turns()
        work.ready.set()
        assert await asyncio.gather(*early, *late) == [[b"1"]] * 400
        assert work.begun == 1

    run(story)


def test_a_request_afterwards_gets_a_new_one() -> None:
    async def story(work: Work, answer: SharedAnswer) -> None:
        work.ready.set()
        async with answer.parts() as first:
            assert await asked(answer) == [b"2"], "though the first is still being read"
        assert first == [b"1"]
        assert await asked(answer) == [b"3"]

    run(story)


@pytest.mark.parametrize("gone", [0, 1])
def test_who_is_gone_takes_the_answer_from_nobody(gone: int) -> None:
    async def story(work: Work, answer: SharedAnswer) -> None:
        tasks = [asyncio.create_task(asked(answer)) for _ in range(2)]
        await turns()
        tasks.pop(gone).cancel()
        await turns()
        work.ready.set()
        assert await tasks[0] == [b"1"]

    run(story)


def test_an_answer_that_nobody_waits_for_any_more_hinders_no_other() -> None:
    async def story(work: Work, answer: SharedAnswer) -> None:
        for _ in range(3 * MOST_KEPT):
            work.ready.clear()
            task = asyncio.create_task(asked(answer))
            await turns()
            task.cancel()
            await turns()
            work.ready.set()
            await turns()
        assert await asked(answer) == [b"%d" % (3 * MOST_KEPT + 1)]

    run(story)


def test_a_failure_is_that_of_all_who_wait_and_of_nobody_afterwards() -> None:
    async def story(work: Work, answer: SharedAnswer) -> None:
        for _ in range(3 * MOST_KEPT):
            work.error = ZeroDivisionError()
            work.ready.set()
            both = await asyncio.gather(asked(answer), asked(answer), return_exceptions=True)
            assert [*both] == [work.error, work.error]
        work.error = None
        assert await asked(answer) == [b"%d" % (3 * MOST_KEPT + 1)]

    run(story)


def test_while_many_are_read_no_other_is_made() -> None:
    async def story(work: Work, answer: SharedAnswer) -> None:
        work.ready.set()
        readers = [answer.parts() for _ in range(MOST_KEPT)]
        for each in readers:
            await each.__aenter__()
        waiting = [asyncio.create_task(asked(answer)) for _ in range(3)]
        await turns()
        assert (work.begun, [each.done() for each in waiting]) == (MOST_KEPT, [False] * 3)
        await readers[3].__aexit__(None, None, None)
        assert await asyncio.gather(*waiting) == [[b"%d" % (MOST_KEPT + 1)]] * 3
        for each in (*readers[:3], *readers[4:]):
            await each.__aexit__(None, None, None)

    run(story)


# Sending

AGAIN = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"


async def sent(request: web.BaseRequest, parts: Parts, sender: AnswerSender) -> web.StreamResponse:
    return await sender.send(request, parts, "text/plain")


async def asking(
    url: str, method: str = "GET"
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", int(url.rpartition(":")[2]), limit=1024
    )
    writer.write(f"{method} / HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    return reader, writer


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_an_answer_arrives_whole_and_with_its_length(method: str) -> None:
    parts = [b"a" * (PIECE_SIZE + 1), b"", b"b"]

    async def main() -> bytes:
        sender = AnswerSender()
        async with serve(lambda request: sent(request, parts, sender)) as url:
            reader, writer = await asking(url, method)
            head = await reader.readuntil(b"\r\n\r\n")
            assert b"Content-Length: %d\r\n" % (PIECE_SIZE + 2) in head
            assert b"Content-Type: text/plain\r\n" in head
            writer.write(AGAIN)
            found = await reader.read(-1)
            writer.close()
            return found

    body, _, again = asyncio.run(main()).partition(b"HTTP/1.1 200 OK")
    assert body == (b"".join(parts) if method == "GET" else b"")
    assert again.endswith(b"ab"), "the connection may be used again"


def test_each_turn_of_the_event_loop_sends_one_piece_however_many_read() -> None:
    """Sent whole, answers for a thousand readers are one turn: no lease is renewed meanwhile."""
    readers, pieces = 20, 8

    async def main() -> int:
        sender, ticks = AnswerSender(), 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0)
                ticks += 1

        async with serve(
            lambda request: sent(request, [b"x" * PIECE_SIZE * pieces], sender)
        ) as url:
            ticking = asyncio.create_task(tick())
            opened = await asyncio.gather(*(asking(url) for _ in range(readers)))
            length = PIECE_SIZE * pieces
            await asyncio.gather(*(reader.readexactly(length) for reader, _ in opened))
            ticking.cancel()
            for _, writer in opened:
                writer.close()
        return ticks

    assert asyncio.run(main()) >= readers * pieces


def test_who_does_not_read_is_cut_off_and_holds_nobody_up() -> None:
    clock = VirtualClock()

    async def main() -> None:
        sender, ended = AnswerSender(), list[float]()

        async def handle(request: web.BaseRequest) -> web.StreamResponse:
            try:
                return await sent(request, LARGE, sender)
            finally:
                ended.append(clock.now() - began)

        async with serve(handle) as url:
            began = clock.now()
            slow, writer = await asking(url)
            await clock.sleep(1)
            reader, other = await asking(url)
            assert len(await reader.readexactly(LENGTH)) == LENGTH
            await clock.sleep(SEND_SECONDS + 1)
            with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
                async with asyncio.timeout(5):
                    await slow.readexactly(LENGTH)
            for each in (writer, other):
                each.close()
        assert ended == pytest.approx([1, SEND_SECONDS], abs=0.1)

    try:
        clock.run(main())
    finally:
        clock.close()
