"""The runtime of controllers: keyed work queues, workers, backoff, and stopping.

A reconciler is given the key of an object, looks at the object as it is now, acts, and says when it
wants to look again. One key is never worked on twice at a time; a key that is added while it is
worked on is looked at once more. Nothing polls: what is due at some moment waits on a timer, so
that virtual time jumps from one moment that matters to the next.
"""

import asyncio
import logging
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import Final, Protocol, TypeAlias, cast

import msgspec

from wainwright.clock import Clock
from wainwright.errors import WainError
from wainwright.metrics import (
    ACTIVE_WORKERS,
    MAX_WORKERS,
    QUEUE_DEPTH,
    RECONCILE_ERRORS,
    RECONCILE_SECONDS,
    RECONCILES,
    MetricsRegistry,
)

LOG: Final = logging.getLogger(__name__)

Key: TypeAlias = str
"""Of an object: its name, or namespace/name; of a reconciler of the whole cluster: empty."""

WHOLE_CLUSTER: Final[Key] = ""
SHORTEST_WAIT: Final = 1e-4
"""Seconds. Timers may fire a microsecond early, and what is left then is less than a clock since
1970 can tell apart: the key would be looked at again and again at one moment."""
FIRST_BACKOFF: Final = 0.5  # seconds
MAX_BACKOFF: Final = 300.0
STOP_SECONDS: Final = 8.0
"""For what is in work when a process is asked to end: it is killed after ten or more."""
BACKOFF_JITTER: Final = 0.2  # share by which a wait is shorter at most, so that failures spread


class Done(msgspec.Struct, frozen=True):
    """Nothing is left to do until the object changes."""


class Again(msgspec.Struct, frozen=True):
    """To be looked at once more, also if nothing has changed by then."""

    after: float
    """Seconds."""


class Poll(msgspec.Struct, frozen=True):
    """To be looked at every so often, because not all that it depends on is watched."""

    period: float
    """Seconds."""
    due: float | None = None
    """When time alone will change the outcome, if nothing else does; None if it never will."""
    memory: float = 0.0
    """Seconds for which answers of the cloud are remembered: a change may be seen so much later."""


Result: TypeAlias = Done | Again | Poll
DONE: Final = Done()
AFTER_CONFLICT: Final = Again(1.0)
"""A write that others came before is repeated when the watch shows theirs, or a second later: at
once would be again and again, for as long as the watch is late.
"""


class ChangeFeed(Protocol):
    """Tells of every change in the world, also of what nobody watches; only a simulation can."""

    @property
    def revision(self) -> int:
        """Another number after each change."""
        ...

    def on_change(self, callback: Callable[[], None]) -> None: ...


class Reconciler(Protocol):
    @property
    def name(self) -> str:
        """As logs and metrics have it: nodeclaim.lifecycle."""
        ...

    def watch(self, queue: "WorkQueue") -> None:
        """Subscribes to whatever makes it necessary to look at a key."""
        ...

    async def reconcile(self, key: Key, /) -> Result:
        """Brings one object to what is wanted. May be cancelled at any await: what it wrote until
        then must make sense to the process that comes after it.
        """
        ...


class WorkQueue:
    """Keys to be worked on, each once: what is added again before it was taken counts once."""

    def __init__(self) -> None:
        self._ready: deque[Key] = deque()
        self._waiting: set[Key] = set()
        """Keys that are to be taken, or taken again once their work is done."""
        self._in_work: set[Key] = set()
        self._timers: dict[Key, asyncio.TimerHandle] = {}
        self._polls: set[Key] = set()
        """Keys whose timer is that of a poll."""
        self._takers: deque[asyncio.Future[None]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, key: object) -> bool:
        """Whether the key is to be worked on, now or later, or is in work."""
        return key in self._waiting or key in self._in_work or key in self._timers

    @property
    def is_idle(self) -> bool:
        """Whether nothing is to be done now, whatever is due later."""
        return not self._waiting and not self._in_work

    @property
    def next_due(self) -> float | None:
        """The time of the next timer, on the clock of the event loop; now while a key is in work.
        Polls are not due.
        """
        if any(key not in self._polls for key in (*self._waiting, *self._in_work)):
            return asyncio.get_running_loop().time()
        timers = (timer.when() for key, timer in self._timers.items() if key not in self._polls)
        return min(timers, default=None)

    def add(self, key: Key) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()  # looked at now: what it then wants later it will say
        if key in self._waiting:
            return
        self._waiting.add(key)
        if key not in self._in_work:
            self._ready.append(key)
            self._wake_one()

    def add_after(self, key: Key, seconds: float, *, is_poll: bool = False) -> None:
        """Adds the key then; of several times the earliest counts."""
        if seconds <= 0:
            self.add(key)
            return
        loop, seconds = asyncio.get_running_loop(), max(seconds, SHORTEST_WAIT)
        earlier = self._timers.get(key)
        if earlier is not None and earlier.when() <= loop.time() + seconds:
            return
        if earlier is not None:
            earlier.cancel()
        self._timers[key] = loop.call_later(seconds, self.add, key)
        if is_poll:
            self._polls.add(key)
        else:
            self._polls.discard(key)

    def forget(self, key: Key) -> None:
        """Nothing is due for the key any longer."""
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()

    async def take(self) -> Key:
        """The next key, which stays with the caller until `done`."""
        while not self._ready:
            taker = asyncio.get_running_loop().create_future()
            self._takers.append(taker)
            try:
                await taker
            finally:
                if taker in self._takers:
                    self._takers.remove(taker)
        key = self._ready.popleft()
        self._waiting.discard(key)
        self._in_work.add(key)
        return key

    def done(self, key: Key) -> None:
        self._in_work.discard(key)
        if key in self._waiting:
            self._ready.append(key)
            self._wake_one()

    def close(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _wake_one(self) -> None:
        while self._takers:
            taker = self._takers.popleft()
            if not taker.done():
                taker.set_result(None)
                return


class Backoff:
    """How long to wait after failures in a row, twice as long each time; jitter by the seed."""

    def __init__(
        self, seed: int | str = 0, *, first: float = FIRST_BACKOFF, most: float = MAX_BACKOFF
    ) -> None:
        self._random = Random(seed)
        self._first, self._most = first, most
        self._failures: dict[Key, int] = {}

    def failed(self, key: Key) -> float:
        """Seconds until the next attempt."""
        count = self._failures[key] = self._failures.get(key, 0) + 1
        # The exponent is bounded: after days of failures the power would be no float any more.
        seconds = min(self._most, self._first * 2.0 ** min(count - 1, 32))
        return seconds * (1 - BACKOFF_JITTER * self._random.random())

    def succeeded(self, key: Key) -> None:
        self._failures.pop(key, None)


class LearntChanges:
    """The changes of a feed, and those that a controller has learnt of by asking the cloud: others
    that rest have to look again for them too.
    """

    def __init__(self, feed: ChangeFeed) -> None:
        self._feed, self._learnt = feed, 0
        self._callbacks: list[Callable[[], None]] = []

    @property
    def revision(self) -> int:
        return self._feed.revision + self._learnt

    def on_change(self, callback: Callable[[], None]) -> None:
        self._feed.on_change(callback)
        self._callbacks.append(callback)

    def add(self) -> None:
        self._learnt += 1
        for callback in self._callbacks:
            callback()


class ChangeSignal:
    """The changes of a feed, for the polls of all controllers: a change for which nothing rests
    costs one call, and not one for each controller.
    """

    def __init__(self, feed: ChangeFeed, clock: Clock) -> None:
        self._feed, self._clock = feed, clock
        self._waiting: list[Callable[[], None]] = []
        self.last_change = clock.now()
        feed.on_change(self._changed)

    @property
    def revision(self) -> int:
        return self._feed.revision

    def wait(self, callback: Callable[[], None]) -> None:
        """Calls it with the next change, once."""
        self._waiting.append(callback)

    def _changed(self) -> None:
        self.last_change = self._clock.now()
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            for callback in waiting:
                callback()


class PollGate:
    """Wakes polls only where they can find something new: at the same moments as plain polling
    would, but not at those before which nothing has changed.
    """

    def __init__(self, queue: WorkQueue, clock: Clock, signal: ChangeSignal) -> None:
        self._queue, self._clock, self._signal = queue, clock, signal
        self._resting: dict[Key, tuple[float, float]] = {}
        """Time of the last look and period, of keys that wait for a change."""
        self._is_waiting = False

    @property
    def revision(self) -> int:
        return self._signal.revision

    def rest(self, key: Key, poll: Poll, looked: float, revision: int) -> None:
        """`looked`, `revision`: when the look began, and what it saw."""
        is_remembered = looked - self._signal.last_change <= poll.memory and poll.memory > 0
        if self._signal.revision != revision or is_remembered:
            self._queue.add_after(key, looked + poll.period - self._clock.now(), is_poll=True)
            return
        self._resting[key] = looked, poll.period
        if not self._is_waiting:
            self._is_waiting = True
            self._signal.wait(self._wake)
        if poll.due is not None and poll.due > looked:
            left = self._next_tick(looked, poll.period, poll.due)
            self._queue.add_after(key, left, is_poll=True)

    def forget(self, key: Key) -> None:
        self._resting.pop(key, None)

    def _wake(self) -> None:
        self._is_waiting = False
        resting, self._resting = self._resting, {}
        for key, (looked, period) in resting.items():
            left = self._next_tick(looked, period, self._clock.now())
            self._queue.add_after(key, left, is_poll=True)

    def _next_tick(self, looked: float, period: float, moment: float) -> float:
        """Seconds from now to the first poll at or after the moment."""
        ticks = max(1, math.ceil((moment - looked) / period - 1e-9))
        return looked + ticks * period - self._clock.now()


class Controller:
    """A reconciler with its queue and a bounded number of workers."""

    def __init__(
        self,
        reconciler: Reconciler,
        clock: Clock,
        metrics: MetricsRegistry,
        *,
        workers: int = 1,
        seed: int | str = 0,
        signal: ChangeSignal | None = None,
    ) -> None:
        self.name = reconciler.name
        self.queue = WorkQueue()
        self._polls = None if signal is None else PollGate(self.queue, clock, signal)
        self._reconciler, self._clock, self._metrics = reconciler, clock, metrics
        self._backoff = Backoff(f"{seed} {self.name}")
        self._free_workers = asyncio.Semaphore(workers)
        self._dispatcher: asyncio.Task[None] | None = None
        self._busy: dict[asyncio.Task[None], None] = {}
        metrics.set(MAX_WORKERS, workers, controller=self.name)

    def start(self) -> None:
        self._dispatcher = asyncio.create_task(self._dispatch(), name=self.name)

    def stop(self) -> None:
        """No further key is taken; what is in work is finished."""
        self.queue.close()
        if self._dispatcher is not None:
            self._dispatcher.cancel()

    @property
    def tasks(self) -> "list[asyncio.Task[None]]":
        """What is in work."""
        return [*self._busy]

    async def kill(self) -> None:
        """Ends it at the await where it is."""
        self.stop()
        tasks = [*self._busy, *([] if self._dispatcher is None else [self._dispatcher])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _dispatch(self) -> None:
        """Starts a task for each key: idle workers would be hundreds of tasks that wait."""
        while True:
            await self._free_workers.acquire()
            key = await self.queue.take()
            task = asyncio.create_task(self._work(key), name=f"{self.name} {key}")
            self._busy[task] = None

    async def _work(self, key: Key) -> None:
        self._set_gauges()
        try:
            await self._reconcile(key)
        finally:
            self._busy.pop(cast("asyncio.Task[None]", asyncio.current_task()), None)
            self._free_workers.release()
            self.queue.done(key)
            self._set_gauges()

    async def _reconcile(self, key: Key) -> None:
        start = self._clock.now()
        revision = 0 if self._polls is None else self._polls.revision
        if self._polls is not None:
            self._polls.forget(key)
        try:
            result = await self._reconciler.reconcile(key)
        except Exception as error:  # noqa: BLE001 - a reconciler must not end the others
            self._failed(key, error)
            self._count("error", start)
            return
        self._backoff.succeeded(key)
        self._count("success" if isinstance(result, Done) else "requeue_after", start)
        if isinstance(result, Again):
            self.queue.add_after(key, result.after)
        elif isinstance(result, Poll) and self._polls is not None:
            self._polls.rest(key, result, start, revision)
        elif isinstance(result, Poll):
            self.queue.add_after(key, result.period, is_poll=True)

    def _failed(self, key: Key, error: Exception) -> None:
        """Refusals of cloud and cluster are said in a line; anything else is a bug of ours."""
        wait = self._backoff.failed(key)
        LOG.warning(
            "%s of %s failed; again in %.1f s: %s",
            self.name,
            key or "cluster",
            wait,
            error,
            exc_info=None if isinstance(error, WainError) else error,
        )
        self._metrics.add(RECONCILE_ERRORS, controller=self.name)
        self.queue.add_after(key, wait)

    def _count(self, result: str, start: float) -> None:
        self._metrics.add(RECONCILES, controller=self.name, result=result)
        self._metrics.observe(RECONCILE_SECONDS, self._clock.now() - start, controller=self.name)

    def _set_gauges(self) -> None:
        self._metrics.set(ACTIVE_WORKERS, len(self._busy), controller=self.name)
        self._metrics.set(QUEUE_DEPTH, len(self.queue), controller=self.name, name=self.name)


class ControllerRuntime:
    """All controllers of a process."""

    def __init__(
        self,
        clock: Clock,
        metrics: MetricsRegistry,
        *,
        seed: int | str = 0,
        feed: ChangeFeed | None = None,
    ) -> None:
        self._clock, self._metrics, self._seed = clock, metrics, seed
        self._signal = None if feed is None else ChangeSignal(feed, clock)
        self._controllers: dict[str, Controller] = {}
        self._stopped = asyncio.Event()

    def add(self, reconciler: Reconciler, *, workers: int = 1) -> Controller:
        if reconciler.name in self._controllers:
            raise ValueError(f"there are two controllers {reconciler.name}")
        controller = Controller(
            reconciler,
            self._clock,
            self._metrics,
            workers=workers,
            seed=self._seed,
            signal=self._signal,
        )
        self._controllers[reconciler.name] = controller
        reconciler.watch(controller.queue)
        return controller

    def __iter__(self) -> Iterator[Controller]:
        return iter(self._controllers.values())

    async def run(self) -> None:
        """Until `stop`; what is in work then is finished, if it does not take too long.

        Cancelled, it ends like a process that is killed: every reconciler at the await where it is.
        """
        for controller in self:
            controller.start()
        try:
            await self._stopped.wait()
            for controller in self:
                controller.stop()
            in_work = [task for controller in self for task in controller.tasks]
            if in_work:
                await asyncio.wait(in_work, timeout=STOP_SECONDS)
        finally:
            await asyncio.gather(*(controller.kill() for controller in self))

    def stop(self) -> None:
        self._stopped.set()

    @property
    def is_idle(self) -> bool:
        return all(controller.queue.is_idle for controller in self)

    @property
    def next_due(self) -> float | None:
        """When something is due by time alone; None where nothing is."""
        return _earliest(controller.queue.next_due for controller in self)


def _earliest(moments: Iterable[float | None]) -> float | None:
    return min((moment for moment in moments if moment is not None), default=None)
