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
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, Protocol, TypeAlias, cast

import msgspec

from wainwright.backoff import Backoff
from wainwright.clock import Clock
from wainwright.errors import WainError
from wainwright.metrics import (
    ACTIVE_WORKERS,
    MAX_WORKERS,
    QUEUE_ADDS,
    QUEUE_DEPTH,
    QUEUE_LONGEST_SECONDS,
    QUEUE_RETRIES,
    QUEUE_UNFINISHED_SECONDS,
    RECONCILE_ERRORS,
    RECONCILE_SECONDS,
    RECONCILES,
    MetricsRegistry,
    Sample,
)

LOG: Final = logging.getLogger(__name__)

Key: TypeAlias = str
"""Of an object: its name, or namespace/name; of a reconciler of the whole cluster: empty."""

WHOLE_CLUSTER: Final[Key] = ""
SHORTEST_WAIT: Final = 1e-4
"""Seconds. Timers may fire a microsecond early, and what is left then is less than a clock since
1970 can tell apart: the key would be looked at again and again at one moment."""
STOP_SECONDS: Final = 5.0
"""For what is in work when a process is asked to end: others wait for its lease."""


class Done(msgspec.Struct, frozen=True):
    """Nothing is left to do until the object changes."""


class Again(msgspec.Struct, frozen=True):
    """To be looked at once more, also if nothing has changed by then."""

    after: float
    """Seconds."""


Subject: TypeAlias = str
"""What a change is about: the kind of an object that has changed, or one of these."""

ANYTHING: Final[Subject] = "anything"
INSTANCES: Final[Subject] = "instances"
"""Of EC2, and how many of them reservations hold."""
IMAGES: Final[Subject] = "images"
ACCOUNT: Final[Subject] = "account"
"""All else of AWS: prices, stock, addresses, calls that fail."""
CATALOG: Final[Subject] = "catalog"
"""What the cloud provider knows of types and prices."""
DEPENDS_ON_ANYTHING: Final[Mapping[Subject, float]] = MappingProxyType({ANYTHING: 0.0})


def existence_of(kind: str) -> Subject:
    """That objects of a kind are created, or gone."""
    return f"{kind} existence"


class Poll(msgspec.Struct, frozen=True):
    """To be looked at every so often, because not all that it depends on is watched."""

    period: float
    """Seconds."""
    due: float | None = None
    """When time alone will change the outcome, if nothing else does; None if it never will."""
    depends_on: Mapping[Subject, float] = DEPENDS_ON_ANYTHING
    """What it is not told of, and for how many seconds a change of it may still be unseen, because
    answers of the cloud are remembered."""


Result: TypeAlias = Done | Again | Poll
DONE: Final = Done()
AFTER_CONFLICT: Final = Again(1.0)
"""A write that others came before is repeated when the watch shows theirs, or a second later: at
once would be again and again, for as long as the watch is late.
"""


class ChangeFeed(Protocol):
    """Tells of every change in the world, also of what nobody watches; only a simulation can."""

    def on_change(self, callback: Callable[[Subject], None]) -> None: ...


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
        self.adds = self.retries = 0
        """How many keys were added, and how many of them some time later, for metrics."""

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
        self.adds += 1
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
        self.retries += 1
        if is_poll:
            self._polls.add(key)
        else:
            self._polls.discard(key)

    def forget(self, key: Key) -> None:
        """Nothing is due for the key any longer."""
        self._polls.discard(key)
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()

    def end_poll(self, key: Key) -> None:
        """Nothing polls the key any longer; a timer that was set meanwhile stays."""
        if key not in self._timers:
            self._polls.discard(key)

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


class LearntChanges:
    """The changes of a feed, and those that a controller has learnt of by asking the cloud: others
    that rest have to look again for them too.
    """

    def __init__(self, feed: ChangeFeed) -> None:
        self._feed = feed
        self._callbacks: list[Callable[[Subject], None]] = []

    def on_change(self, callback: Callable[[Subject], None]) -> None:
        self._feed.on_change(callback)
        self._callbacks.append(callback)

    def add(self) -> None:
        for callback in self._callbacks:
            callback(CATALOG)


class ChangeSignal:
    """The changes of a feed, for the polls of all controllers: a change for which nothing rests
    costs one call, and not one for each controller.
    """

    def __init__(self, feed: ChangeFeed, clock: Clock) -> None:
        self._clock = clock
        self._count = 0
        self._last: dict[Subject, tuple[int, float]] = {}
        """Number and time of the last change of each subject."""
        self._waiting: dict[Subject, list[Callable[[Subject], None]]] = {}
        feed.on_change(self._changed)

    @property
    def mark(self) -> int:
        """Of this moment, for `has_changed`."""
        return self._count

    def has_changed(self, subjects: Iterable[Subject], mark: int) -> bool:
        return any(self._last.get(each, NEVER)[0] > mark for each in subjects)

    def last_change(self, subject: Subject) -> float:
        """What a process has not seen change it remembers nothing old of."""
        return self._last.get(subject, NEVER)[1]

    def wait(self, subject: Subject, callback: Callable[[Subject], None]) -> None:
        """Calls it with the next change of the subject, once."""
        self._waiting.setdefault(subject, []).append(callback)

    def _changed(self, subject: Subject) -> None:
        self._count += 1
        self._last[subject] = self._last[ANYTHING] = self._count, self._clock.now()
        if self._waiting:
            for each in (subject, ANYTHING):
                for callback in self._waiting.pop(each, ()):
                    callback(each)


NEVER: Final = (0, -math.inf)


class PollGate:
    """Wakes polls only where they can find something new: at the same moments as plain polling
    would, but not at those before which nothing has changed.
    """

    def __init__(self, queue: WorkQueue, clock: Clock, signal: ChangeSignal) -> None:
        self._queue, self._clock, self._signal = queue, clock, signal
        self._resting: dict[Key, tuple[float, Poll]] = {}
        """Time of the last look, of keys that wait for a change."""
        self._awaited: set[Subject] = set()

    @property
    def mark(self) -> int:
        return self._signal.mark

    def rest(self, key: Key, poll: Poll, looked: float, mark: int) -> None:
        """`looked`, `mark`: when the look began."""
        if self._signal.has_changed(poll.depends_on, mark) or self._is_remembered(poll, looked):
            self._queue.add_after(key, looked + poll.period - self._clock.now(), is_poll=True)
            return
        self._resting[key] = looked, poll
        for subject in poll.depends_on:
            if subject not in self._awaited:
                self._awaited.add(subject)
                self._signal.wait(subject, self._wake)
        if poll.due is not None and poll.due > looked:
            left = self._next_tick(looked, poll.period, poll.due)
            self._queue.add_after(key, left, is_poll=True)

    def forget(self, key: Key) -> None:
        self._resting.pop(key, None)

    def _is_remembered(self, poll: Poll, looked: float) -> bool:
        """Whether answers from before the last change may still be in use."""
        return any(
            seconds > 0 and looked - self._signal.last_change(subject) <= seconds
            for subject, seconds in poll.depends_on.items()
        )

    def _wake(self, subject: Subject) -> None:
        self._awaited.discard(subject)
        woken = [key for key, (_, poll) in self._resting.items() if subject in poll.depends_on]
        for key in woken:
            looked, poll = self._resting.pop(key)
            left = self._next_tick(looked, poll.period, self._clock.now())
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
        self._busy: dict[asyncio.Task[None], float] = {}
        """What is in work, and since when."""
        metrics.set(MAX_WORKERS, workers, controller=self.name)
        metrics.add_collector(self._collect)

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
            self._busy[task] = self._clock.now()

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
        mark = 0 if self._polls is None else self._polls.mark
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
        if isinstance(result, Done):
            self.queue.end_poll(key)
        elif isinstance(result, Again):
            self.queue.add_after(key, result.after)
        elif self._polls is not None:
            self._polls.rest(key, result, start, mark)
        else:
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

    def _collect(self) -> Iterator[Sample]:
        """What would cost something with every key if it were kept up to date."""
        labels, now = (self.name, self.name), self._clock.now()
        seconds = [now - since for since in self._busy.values()]
        yield QUEUE_ADDS, labels, self.queue.adds
        yield QUEUE_RETRIES, labels, self.queue.retries
        yield QUEUE_UNFINISHED_SECONDS, labels, sum(seconds)
        yield QUEUE_LONGEST_SECONDS, labels, max(seconds, default=0.0)

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
