"""Batch: requests that come at nearly the same time become one call.

A batch waits until nobody has joined it for a while, but never longer than its limit, and goes at
once when it is full. Results are dealt out in the order in which the requests came.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Final, Generic, TypeVar

import msgspec

from wainwright.clock import Clock
from wainwright.errors import WainError
from wainwright.metrics import BATCH_SIZE, BATCH_TIME, Registry

Request = TypeVar("Request")
Result = TypeVar("Result")

CLOSE_ENOUGH: Final = 1e-6  # seconds; sums of floats never quite meet


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """How long a batch is open, in seconds, and how many go into it."""

    idle: float
    longest: float
    most: int


FLEETS: Final = Window(idle=0.035, longest=1.0, most=1000)
IDS: Final = Window(idle=0.1, longest=1.0, most=500)


class Batcher(Generic[Request, Result]):
    """Collects requests and has them executed together.

    `execute` gives one result for every request, in their order; an error among the results is
    raised for that request alone. An error that it raises itself goes to all, unless the batcher
    was told that requests may be tried `alone`: then one bad id does not spoil the others. That is
    only for what can be repeated.
    """

    def __init__(
        self,
        clock: Clock,
        window: Window,
        execute: Callable[[Sequence[Request]], Awaitable[Sequence[Result | WainError]]],
        *,
        key: Callable[[Request], Hashable] = lambda _: None,
        alone: bool = False,
        watch: Callable[[int, float], None] = lambda _size, _seconds: None,
    ) -> None:
        self._clock = clock
        self._window = window
        self._execute = execute
        self._key = key
        self._alone = alone
        self._watch = watch
        self._open: dict[Hashable, _Batch[Request, Result]] = {}
        self._running: set[asyncio.Task[None]] = set()

    async def add(self, request: Request) -> Result:
        """Joins the batch of equal requests, and waits for its own result."""
        key = self._key(request)
        batch = self._open.get(key)
        if batch is None:
            batch = self._open[key] = _Batch(self._clock.now())
            self._start(self._wait(key, batch))
        answer = batch.join(request, self._clock.now())
        if len(batch.requests) >= self._window.most:
            self._go(key, batch)
        return await answer

    def _start(self, coroutine: Awaitable[None]) -> None:
        task = asyncio.ensure_future(coroutine)
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _wait(self, key: Hashable, batch: "_Batch[Request, Result]") -> None:
        while batch.open:
            due = min(batch.last + self._window.idle, batch.first + self._window.longest)
            left = due - self._clock.now()
            if left <= CLOSE_ENOUGH:
                self._go(key, batch)
            else:
                await self._clock.sleep(left)

    def _go(self, key: Hashable, batch: "_Batch[Request, Result]") -> None:
        batch.open = False
        del self._open[key]
        self._start(self._carry_out(batch))

    async def _carry_out(self, batch: "_Batch[Request, Result]") -> None:
        waiting = batch.waiting()
        if not waiting:
            return
        self._watch(len(waiting), self._clock.now() - batch.first)
        results = await self._results([request for request, _ in waiting])
        for (_, answer), result in zip(waiting, results, strict=True):
            if answer.cancelled():
                continue
            if isinstance(result, BaseException):
                answer.set_exception(result)
            else:
                answer.set_result(result)

    async def _results(self, requests: Sequence[Request]) -> Sequence[Result | BaseException]:
        # Gathered, so that whatever goes wrong reaches those who wait for it.
        (found,) = await asyncio.gather(self._execute(requests), return_exceptions=True)
        if not isinstance(found, BaseException):
            if len(found) == len(requests):
                return found
            found = AssertionError(f"{len(requests)} requests got {len(found)} results")
        if self._alone and len(requests) > 1 and isinstance(found, WainError):
            tried = await asyncio.gather(*(self._results([request]) for request in requests))
            return [result for results in tried for result in results]
        return [found] * len(requests)


class _Batch(Generic[Request, Result]):
    def __init__(self, now: float) -> None:
        self.first = now
        self.last = now
        self.open = True
        self.requests: list[Request] = []
        self.answers: list[asyncio.Future[Result]] = []

    def join(self, request: Request, now: float) -> "asyncio.Future[Result]":
        answer: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self.last = now
        self.requests.append(request)
        self.answers.append(answer)
        return answer

    def waiting(self) -> list[tuple[Request, "asyncio.Future[Result]"]]:
        """Those still there: for whoever has left, nothing is to be done any more."""
        pairs = zip(self.requests, self.answers, strict=True)
        return [(request, answer) for request, answer in pairs if not answer.cancelled()]


def counted(metrics: Registry, name: str) -> Callable[[int, float], None]:
    """Writes down how large batches were and how long they waited."""

    def watch(size: int, seconds: float) -> None:
        metrics.observe(BATCH_SIZE, size, batcher_name=name)
        metrics.observe(BATCH_TIME, seconds, batcher_name=name)

    return watch
