"""Fewer calls to AWS: requests that come together become one call, answers are cached for a while.

A batch waits until nobody has joined it for a while, but never longer than its limit, and goes at
once when it is full. Results are dealt out in the order in which the requests came. Of the cache,
those who ask for the same at the same time wait for one answer; failures are not cached.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Final, Generic, TypeVar

import msgspec

from wainwright.clock import Clock
from wainwright.errors import WainError
from wainwright.metrics import BATCH_SIZE, BATCH_TIME, MetricsRegistry

Request = TypeVar("Request")
Result = TypeVar("Result")

TIME_TOLERANCE: Final = 1e-6  # seconds; sums of floats never quite meet


class BatchWindow(msgspec.Struct, frozen=True, kw_only=True):
    """How long a batch is open, in seconds, and how many go into it."""

    idle: float
    longest: float
    most: int


CREATE_FLEET_WINDOW: Final = BatchWindow(idle=0.035, longest=1.0, most=1000)
INSTANCE_ID_WINDOW: Final = BatchWindow(idle=0.1, longest=1.0, most=500)


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
        window: BatchWindow,
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
        self._open: dict[Hashable, _OpenBatch[Request, Result]] = {}
        self._running: set[asyncio.Task[None]] = set()

    async def add(self, request: Request) -> Result:
        """Joins the batch of equal requests, and waits for its own result."""
        key = self._key(request)
        batch = self._open.get(key)
        if batch is None:
            batch = self._open[key] = _OpenBatch(self._clock.now())
            self._start(self._wait(key, batch))
        answer = batch.join(request, self._clock.now())
        if len(batch.requests) >= self._window.most:
            self._go(key, batch)
        return await answer

    def _start(self, coroutine: Awaitable[None]) -> None:
        task = asyncio.ensure_future(coroutine)
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _wait(self, key: Hashable, batch: "_OpenBatch[Request, Result]") -> None:
        while batch.open:
            due = min(batch.last + self._window.idle, batch.first + self._window.longest)
            left = due - self._clock.now()
            if left <= TIME_TOLERANCE:
                self._go(key, batch)
            else:
                await self._clock.sleep(left)

    def _go(self, key: Hashable, batch: "_OpenBatch[Request, Result]") -> None:
        batch.open = False
        del self._open[key]
        self._start(self._carry_out(batch))

    async def _carry_out(self, batch: "_OpenBatch[Request, Result]") -> None:
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


class _OpenBatch(Generic[Request, Result]):
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


def batch_metrics(metrics: MetricsRegistry, name: str) -> Callable[[int, float], None]:
    """Writes down how large batches were and how long they waited."""

    def watch(size: int, seconds: float) -> None:
        metrics.observe(BATCH_SIZE, size, batcher_name=name)
        metrics.observe(BATCH_TIME, seconds, batcher_name=name)

    return watch


Value = TypeVar("Value")


class TtlCache(Generic[Value]):
    """Values by key, each until its time is over. Failures are not remembered.

    `seconds` says for how long; it may depend on the value, as what is missing today may be there
    in a minute.
    """

    def __init__(self, clock: Clock, seconds: float | Callable[[Value], float]) -> None:
        self._clock = clock
        self._seconds = seconds if callable(seconds) else lambda _: seconds
        self._values: dict[Hashable, tuple[float, Value]] = {}
        self._asked: dict[Hashable, asyncio.Task[Value]] = {}

    async def get(self, key: Hashable, ask: Callable[[], Awaitable[Value]]) -> Value:
        """What is remembered, else the answer, which is then remembered."""
        known = self._values.get(key)
        if known is not None and known[0] > self._clock.now():
            return known[1]
        asked = self._asked.get(key)
        if asked is None:
            asked = self._asked[key] = asyncio.ensure_future(self._ask(key, ask))
            asked.add_done_callback(_retrieve_exception)
        # Whoever goes away while waiting must not take the answer from the others.
        return await asyncio.shield(asked)

    async def _ask(self, key: Hashable, ask: Callable[[], Awaitable[Value]]) -> Value:
        try:
            value = await ask()
        finally:
            del self._asked[key]
        self._keep(key, value)
        return value

    def _keep(self, key: Hashable, value: Value) -> None:
        now = self._clock.now()
        for old in [each for each, (until, _) in self._values.items() if until <= now]:
            del self._values[old]
        self._values[key] = (now + self._seconds(value), value)

    def forget(self, key: Hashable) -> None:
        self._values.pop(key, None)

    def clear(self) -> None:
        self._values.clear()

    def known(self, key: Hashable) -> Value | None:
        """Without asking."""
        found = self._values.get(key)
        return found[1] if found is not None and found[0] > self._clock.now() else None


def _retrieve_exception(asked: "asyncio.Task[Value]") -> None:
    """Where everybody has gone meanwhile, asyncio would complain of an error that nobody saw."""
    if not asked.cancelled():
        asked.exception()
