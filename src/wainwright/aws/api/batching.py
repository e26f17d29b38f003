"""Fewer calls to AWS: simultaneous requests become one call, responses are cached for a while.

A batch waits until no request has joined it for its idle timeout, but at most for its maximum wait,
and is executed at once when it is full. Results are returned in the order of the requests.
Concurrent callers that miss the cache for the same key share one call; failures are not cached.
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

TIME_TOLERANCE: Final = 1e-6  # seconds; covers rounding in sums of floats


class BatchWindow(msgspec.Struct, frozen=True, kw_only=True):
    """How long a batch is open, in seconds, and its maximum size."""

    idle_timeout: float
    max_wait: float
    max_size: int


CREATE_FLEET_WINDOW: Final = BatchWindow(idle_timeout=0.035, max_wait=1.0, max_size=1000)
INSTANCE_ID_WINDOW: Final = BatchWindow(idle_timeout=0.1, max_wait=1.0, max_size=500)


class Batcher(Generic[Request, Result]):
    """Collects requests and executes them together.

    `execute` returns one result per request, in order; an error among the results is raised for
    that request alone. An error raised by `execute` itself is raised for every request, unless
    `retry_individually` is set: then each request is executed again by itself, so that one bad id
    does not fail the others. Only for operations that may be repeated.
    """

    def __init__(
        self,
        clock: Clock,
        window: BatchWindow,
        execute: Callable[[Sequence[Request]], Awaitable[Sequence[Result | WainError]]],
        *,
        key: Callable[[Request], Hashable] = lambda _: None,
        retry_individually: bool = False,
        on_executed: Callable[[int, float], None] = lambda _size, _seconds: None,
    ) -> None:
        self._clock = clock
        self._window = window
        self._execute = execute
        self._key = key
        self._retry_individually = retry_individually
        self._on_executed = on_executed
        self._open: dict[Hashable, _OpenBatch[Request, Result]] = {}
        self._running: set[asyncio.Task[None]] = set()

    async def add(self, request: Request) -> Result:
        """Joins the open batch of requests with the same key, and waits for its own result."""
        key = self._key(request)
        batch = self._open.get(key)
        if batch is None:
            batch = self._open[key] = _OpenBatch(self._clock.now())
            self._start(self._close_when_due(key, batch))
        future = batch.join(request, self._clock.now())
        if len(batch.requests) >= self._window.max_size:
            self._close(key, batch)
        return await future

    def _start(self, coroutine: Awaitable[None]) -> None:
        task = asyncio.ensure_future(coroutine)
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _close_when_due(self, key: Hashable, batch: "_OpenBatch[Request, Result]") -> None:
        while batch.open:
            due = min(
                batch.last_added + self._window.idle_timeout, batch.opened + self._window.max_wait
            )
            remaining = due - self._clock.now()
            if remaining <= TIME_TOLERANCE:
                self._close(key, batch)
            else:
                await self._clock.sleep(remaining)

    def _close(self, key: Hashable, batch: "_OpenBatch[Request, Result]") -> None:
        batch.open = False
        del self._open[key]
        self._start(self._execute_batch(batch))

    async def _execute_batch(self, batch: "_OpenBatch[Request, Result]") -> None:
        waiting = batch.waiting()
        if not waiting:
            return
        self._on_executed(len(waiting), self._clock.now() - batch.opened)
        results = await self._results([request for request, _ in waiting])
        for (_, future), result in zip(waiting, results, strict=True):
            if future.cancelled():
                continue
            if isinstance(result, BaseException):
                future.set_exception(result)
            else:
                future.set_result(result)

    async def _results(self, requests: Sequence[Request]) -> Sequence[Result | BaseException]:
        # gather() turns every exception into a value: raised here, it would end only this
        # background task, and the callers would wait for their futures for ever.
        (outcome,) = await asyncio.gather(self._execute(requests), return_exceptions=True)
        if not isinstance(outcome, BaseException):
            if len(outcome) == len(requests):
                return outcome
            outcome = AssertionError(f"{len(requests)} requests got {len(outcome)} results")
        if self._retry_individually and len(requests) > 1 and isinstance(outcome, WainError):
            retried = await asyncio.gather(*(self._results([request]) for request in requests))
            return [result for results in retried for result in results]
        return [outcome] * len(requests)


class _OpenBatch(Generic[Request, Result]):
    def __init__(self, now: float) -> None:
        self.opened = now
        self.last_added = now
        self.open = True
        self.requests: list[Request] = []
        self.futures: list[asyncio.Future[Result]] = []

    def join(self, request: Request, now: float) -> "asyncio.Future[Result]":
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self.last_added = now
        self.requests.append(request)
        self.futures.append(future)
        return future

    def waiting(self) -> list[tuple[Request, "asyncio.Future[Result]"]]:
        """Requests whose caller still waits; those of cancelled callers are not executed."""
        pairs = zip(self.requests, self.futures, strict=True)
        return [(request, future) for request, future in pairs if not future.cancelled()]


def batch_metrics(metrics: MetricsRegistry, name: str) -> Callable[[int, float], None]:
    """A callback that records the size and the waiting time of batches."""

    def on_executed(size: int, seconds: float) -> None:
        metrics.observe(BATCH_SIZE, size, batcher_name=name)
        metrics.observe(BATCH_TIME, seconds, batcher_name=name)

    return on_executed


Value = TypeVar("Value")


class TtlCache(Generic[Value]):
    """Values by key, each with an expiry. Failures are not cached.

    `seconds` is the TTL; it may depend on the value, so that an empty result can expire sooner.
    """

    def __init__(self, clock: Clock, seconds: float | Callable[[Value], float]) -> None:
        self._clock = clock
        self._seconds = seconds if callable(seconds) else lambda _: seconds
        self._values: dict[Hashable, tuple[float, Value]] = {}
        self._pending: dict[Hashable, asyncio.Task[Value]] = {}

    async def get(self, key: Hashable, fetch: Callable[[], Awaitable[Value]]) -> Value:
        """The cached value, else the result of `fetch`, which is then cached."""
        cached = self._values.get(key)
        if cached is not None and cached[0] > self._clock.now():
            return cached[1]
        pending = self._pending.get(key)
        if pending is None:
            pending = self._pending[key] = asyncio.ensure_future(self._fetch(key, fetch))
            pending.add_done_callback(_retrieve_exception)
        # Shielded: a caller that is cancelled must not cancel the fetch that others share.
        return await asyncio.shield(pending)

    async def _fetch(self, key: Hashable, fetch: Callable[[], Awaitable[Value]]) -> Value:
        try:
            value = await fetch()
        finally:
            del self._pending[key]
        self._store(key, value)
        return value

    def _store(self, key: Hashable, value: Value) -> None:
        now = self._clock.now()
        # Expired values are dropped here; keys contain whole specs, and would pile up otherwise.
        for expired in [each for each, (until, _) in self._values.items() if until <= now]:
            del self._values[expired]
        self._values[key] = (now + self._seconds(value), value)

    def forget(self, key: Hashable) -> None:
        self._values.pop(key, None)

    def clear(self) -> None:
        self._values.clear()


def _retrieve_exception(pending: "asyncio.Task[Value]") -> None:
    """Marks the error as seen: asyncio logs an error that no caller is left to receive."""
    if not pending.cancelled():
        pending.exception()
