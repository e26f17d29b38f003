"""Clocks: the system's, or a virtual one that jumps from one scheduled timer to the next."""

import asyncio
import selectors
import signal
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final, Protocol, TypeVar, TypeVarTuple

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")

EPOCH: Final = 1_767_225_600.0  # 2026-01-01: the default start of virtual time


def format_timestamp(seconds: float) -> str:
    """RFC 3339 in UTC, in whole seconds, as Kubernetes writes times."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def format_microseconds(seconds: float) -> str:
    """RFC 3339 with exactly six digits of a second, as the times of a Lease are written."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class Clock(Protocol):
    """The current time, and waiting."""

    def now(self) -> float:
        """Seconds since 1970."""
        ...

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    def now(self) -> float:
        return time.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class VirtualClock:
    """Time that passes only while every task waits, inside `run`.

    All of asyncio runs on it, timeouts included: an hour of sleep takes no real time, and the same
    program sees the same times in every run. It stands still while a thread of `asyncio.to_thread`
    works: how long that really takes must not affect the order of events.
    """

    def __init__(self, start: float = EPOCH) -> None:
        self._loop = _VirtualLoop(start)

    def now(self) -> float:
        return self._loop.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def on_advance(self, callback: Callable[[float], None] | None) -> None:
        """Calls it with the new time whenever the time is about to move: everything that was due
        has been done. It must not start anything.
        """
        self._loop.before_advance = callback

    def advance(self, seconds: float) -> None:
        """Moves the time forward for code that reads the clock without waiting on it."""
        self._loop.advance(seconds)

    def run(self, main: Coroutine[Any, Any, Result]) -> Result:
        """Run the coroutine to its end, in virtual time.

        Ctrl-C cancels it, so that it can end what it has begun, and is then raised. Otherwise it
        would be raised in whatever task is running, and leave all others where they are.
        """
        task = self._loop.create_task(main)
        with _cancelled_by_interrupt(task) as interrupts:
            try:
                return self._loop.run_until_complete(task)
            except asyncio.CancelledError:
                if interrupts:
                    raise KeyboardInterrupt from None
                raise

    def run_until(self, moment: float) -> None:
        """Do what is due until then, and leave the rest waiting: another run goes on with it.

        No timer is set for it, so that the order of events is that of a run without a stop.
        """
        if moment < self.now():
            return
        self._loop.stop_at = moment
        try:
            self._loop.run_forever()
        finally:
            self._loop.stop_at = None

    def close(self) -> None:
        """Ends what is still waiting: a task that is merely dropped complains when it is freed."""
        pending = [task for task in asyncio.all_tasks(self._loop) if not task.done()]
        for task in pending:
            task.cancel()
        if pending and not self._loop.is_closed():
            self._loop.run_until_complete(asyncio.gather(*pending, return_exceptions=True))
        self._loop.close()


@contextmanager
def _cancelled_by_interrupt(task: "asyncio.Task[Any]") -> Iterator[list[int]]:
    """Meanwhile the first SIGINT cancels the task; the signals that came are in the list."""
    signals: list[int] = []
    before = signal.getsignal(signal.SIGINT)

    def on_interrupt(number: int, _: object) -> None:
        if signals:
            raise KeyboardInterrupt
        signals.append(number)
        task.cancel()

    is_ours = before is signal.default_int_handler
    is_ours = is_ours and threading.current_thread() is threading.main_thread()
    if is_ours:
        signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield signals
    finally:
        if is_ours:
            signal.signal(signal.SIGINT, before)


class _VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self, start: float) -> None:
        self._now = start
        self._threads: ThreadPoolExecutor | None = None
        self.running_threads = 0
        """Calls that were handed to a thread and have not come back."""
        self.before_advance: Callable[[float], None] | None = None
        self.stop_at: float | None = None
        """The moment beyond which the time does not move; None: it moves on and on."""
        super().__init__(_VirtualSelector(self))
        # Timers count as due a microsecond early: sums of floats fall short, and without this the
        # selector would spin with timeouts too small to move the clock.
        self._clock_resolution = 1e-6

    def time(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += seconds

    def run_in_executor(
        self,
        executor: Executor | None,
        func: Callable[[*Arguments], Result],
        *args: *Arguments,
    ) -> "asyncio.Future[Result]":
        """Run it in a thread, and keep the clock still until it has ended or was never begun.

        The thread's own future is watched rather than asyncio's: a cancelled task gives up its
        future at once, while the thread works on.
        """
        if executor is None:
            self._threads = self._threads or ThreadPoolExecutor(thread_name_prefix="virtual")
            executor = self._threads
        self.running_threads += 1
        work = executor.submit(func, *args)
        found = asyncio.wrap_future(work, loop=self)
        work.add_done_callback(self._thread_ended)
        return found

    def _thread_ended(self, _: object) -> None:
        if not self.is_closed():
            self.call_soon_threadsafe(self._count_down)

    def _count_down(self) -> None:
        self.running_threads -= 1

    def close(self) -> None:
        if self._threads is not None:
            self._threads.shutdown(wait=True)
        super().close()


class _VirtualSelector(selectors.DefaultSelector):
    """Polls for real I/O without blocking; if there is none, moves the clock instead of waiting."""

    def __init__(self, loop: _VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout and self._loop.running_threads:
            # A thread that ends wakes the loop through its own pipe. Until then the timers wait:
            # moving the clock here would let hours pass while a plan is computed.
            events: list[tuple[selectors.SelectorKey, int]] = super().select(None)
            return events
        is_endless = timeout is None and (self._loop.stop_at is None or self._loop.running_threads)
        events = super().select(None if is_endless else 0)
        if not events and timeout != 0:
            self._advance(timeout)
        return events

    def _advance(self, timeout: float | None) -> None:
        """To the next timer, or to where the loop is to stop if that comes first."""
        stop_at = self._loop.stop_at
        if stop_at is not None:
            left = max(stop_at - self._loop.time(), 0.0)
            if timeout is None or timeout > left:
                self._loop.stop()
                timeout = left
        if not timeout:
            return
        if self._loop.before_advance is not None:
            self._loop.before_advance(self._loop.time() + timeout)
        self._loop.advance(timeout)
