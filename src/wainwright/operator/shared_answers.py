"""Long answers of a port that every pod may reach. The event loop that gives them also renews the
lease and answers probes: what they cost it at a time must not depend on how many ask.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Final, TypeAlias

from aiohttp import web

Parts: TypeAlias = Sequence[bytes]
"""An answer, in the pieces in which it was made."""

MOST_KEPT: Final = 8
"""Answers of one kind in memory: made or being sent; whoever asks further waits for the next. With
no bound a reader that asks often and reads slowly has one more kept each time, 18 MB of metrics
where there are 80,000 series."""
SEND_SECONDS: Final = 30.0
"""For who reads an answer: Prometheus has given up by then (10 s, unless it is told otherwise)."""
PIECE_SIZE: Final = 131_072
"""Bytes that are written at once: a tenth of a millisecond."""


class SharedAnswer:
    """An answer that is made once for all who ask while it is made.

    It is made again for whoever asks later, so that nobody gets one that was complete before the
    question.
    """

    def __init__(self, make: Callable[[], Awaitable[Parts]]) -> None:
        self._make = make
        self._next: _Making | None = None
        """What those get who ask now; None where it is yet to be begun."""
        self._room = asyncio.Semaphore(MOST_KEPT)

    @asynccontextmanager
    async def parts(self) -> AsyncIterator[Parts]:
        """It counts as kept until the block ends. Who is cancelled leaves it to the others."""
        making = self._next or self._begin()
        making.users += 1
        try:
            yield await asyncio.shield(making.task)
        finally:
            self._leave(making)

    async def close(self) -> None:
        """Nobody asks any more."""
        if self._next is not None:
            self._next.task.cancel()
            await asyncio.wait([self._next.task])

    def _begin(self) -> "_Making":
        making = self._next = _Making(asyncio.create_task(self._made(), name="answer"))
        # It is in use while it is made, though all who wait for it may leave.
        making.task.add_done_callback(lambda _: self._leave(making))
        return making

    async def _made(self) -> Parts:
        await self._room.acquire()
        try:
            return await self._make()
        finally:
            self._next = None

    def _leave(self, making: "_Making") -> None:
        making.users -= 1
        if not making.users:
            self._room.release()


class _Making:
    """One answer, with who uses it: the task that makes it, and those who asked."""

    def __init__(self, task: "asyncio.Task[Parts]") -> None:
        self.task, self.users = task, 1


class AnswerSender:
    """Sends answers to all who wait for one, a piece in each turn of the event loop."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def send(
        self, request: web.BaseRequest, parts: Parts, content_type: str
    ) -> web.StreamResponse:
        """Closes the connection of who is gone, or has not read everything within SEND_SECONDS."""
        response = web.StreamResponse(headers={"Content-Type": content_type})
        response.content_length = sum(map(len, parts))
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await response.prepare(request)
                await self._write(response, () if request.method == "HEAD" else parts)
        except (TimeoutError, ConnectionError):
            if request.transport is not None:
                request.transport.abort()
        return response

    async def _write(self, response: web.StreamResponse, parts: Parts) -> None:
        for piece in _pieces(parts):
            async with self._turn:
                await asyncio.sleep(0)
            await response.write(piece)  # waits for the reader, and lets others have their turn
        await response.write_eof()


def _pieces(parts: Parts) -> Iterator[memoryview]:
    for part in parts:
        for start in range(0, len(part), PIECE_SIZE):
            yield memoryview(part)[start : start + PIECE_SIZE]
