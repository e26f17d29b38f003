"""The runtime of controllers: keyed work queues, workers, backoff, and stopping.

A reconciler is given the key of an object, looks at the object as it is now, acts, and says when it
wants to look again. One key is never worked on twice at a time; a key that is added while it is
worked on is looked at once more. Nothing polls: what is due at some moment waits on a timer, so
that virtual time jumps from one moment that matters to the next.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Iterable, Iterator
from random import Random
from typing import Final, Protocol, TypeAlias

import msgspec

from wainwright.clock import Clock
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


Result: TypeAlias = Done | Again
DONE: Final = Done()


class Reconciler(Protocol):
    @property
    def name(self) -> str:
        """As logs and metrics have it: nodeclaim.lifecycle."""
        ...

    async def reconcile(self, key: Key) -> Result:
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
        self._takers: deque[asyncio.Future[None]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is to be done now, whatever is due later."""
        return not self._waiting and not self._in_work

    @property
    def next_due(self) -> float | None:
        """The time of the next timer, on the clock of the event loop."""
        return min((timer.when() for timer in self._timers.values()), default=None)

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

    def add_after(self, key: Key, seconds: float) -> None:
        """Adds the key then; of several times the earliest counts."""
        if seconds <= 0:
            self.add(key)
            return
        loop = asyncio.get_running_loop()
        earlier = self._timers.get(key)
        if earlier is not None and earlier.when() <= loop.time() + seconds:
            return
        if earlier is not None:
            earlier.cancel()
        self._timers[key] = loop.call_later(seconds, self.add, key)

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

    def __init__(self, seed: int | str = 0) -> None:
        self._random = Random(seed)
        self._failures: dict[Key, int] = {}

    def failed(self, key: Key) -> float:
        """Seconds until the next attempt."""
        count = self._failures[key] = self._failures.get(key, 0) + 1
        # The exponent is bounded: after days of failures the power would be no float any more.
        seconds = min(MAX_BACKOFF, FIRST_BACKOFF * 2.0 ** min(count - 1, 32))
        return seconds * (1 - BACKOFF_JITTER * self._random.random())

    def succeeded(self, key: Key) -> None:
        self._failures.pop(key, None)


class Controller:
    """A reconciler with its queue and a bounded number of workers."""

    def __init__(
        self,
        reconciler: Reconciler,
        clock: Clock,
        metrics: MetricsRegistry,
        *,
        workers: int = 1,
        seed: int = 0,
    ) -> None:
        self.name = reconciler.name
        self.queue = WorkQueue()
        self._reconciler, self._clock, self._metrics = reconciler, clock, metrics
        self._workers = workers
        self._backoff = Backoff(f"{seed} {self.name}")
        self._is_stopping = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._busy: set[asyncio.Task[None] | None] = set()
        metrics.set(MAX_WORKERS, workers, controller=self.name)

    def start(self) -> set["asyncio.Task[None]"]:
        self._tasks = {
            asyncio.create_task(self._work(), name=self.name) for _ in range(self._workers)
        }
        return self._tasks

    def stop(self) -> None:
        """No further key is taken; what is in work is finished."""
        self._is_stopping = True
        self.queue.close()
        for task in self._tasks - self._busy:
            task.cancel()

    async def _work(self) -> None:
        while not self._is_stopping:
            key, task = await self.queue.take(), asyncio.current_task()
            self._busy.add(task)
            self._set_gauges()
            try:
                await self._reconcile(key)
            finally:
                self.queue.done(key)
                self._busy.discard(task)
                self._set_gauges()

    async def _reconcile(self, key: Key) -> None:
        start = self._clock.now()
        try:
            result = await self._reconciler.reconcile(key)
        except Exception:
            wait = self._backoff.failed(key)
            LOG.exception("%s of %s failed; again in %.1f s", self.name, key or "cluster", wait)
            self._metrics.add(RECONCILE_ERRORS, controller=self.name)
            self._count("error", start)
            self.queue.add_after(key, wait)
            return
        self._backoff.succeeded(key)
        self._count("requeue_after" if isinstance(result, Again) else "success", start)
        if isinstance(result, Again):
            self.queue.add_after(key, result.after)

    def _count(self, result: str, start: float) -> None:
        self._metrics.add(RECONCILES, controller=self.name, result=result)
        self._metrics.observe(RECONCILE_SECONDS, self._clock.now() - start, controller=self.name)

    def _set_gauges(self) -> None:
        self._metrics.set(ACTIVE_WORKERS, len(self._busy), controller=self.name)
        self._metrics.set(QUEUE_DEPTH, len(self.queue), controller=self.name, name=self.name)


class ControllerRuntime:
    """All controllers of a process."""

    def __init__(self, clock: Clock, metrics: MetricsRegistry, *, seed: int = 0) -> None:
        self._clock, self._metrics, self._seed = clock, metrics, seed
        self._controllers: dict[str, Controller] = {}
        self._stopped = asyncio.Event()

    def add(self, reconciler: Reconciler, *, workers: int = 1) -> Controller:
        if reconciler.name in self._controllers:
            raise ValueError(f"there are two controllers {reconciler.name}")
        controller = Controller(
            reconciler, self._clock, self._metrics, workers=workers, seed=self._seed
        )
        self._controllers[reconciler.name] = controller
        return controller

    def __iter__(self) -> Iterator[Controller]:
        return iter(self._controllers.values())

    async def run(self) -> None:
        """Until `stop`; what is in work then is finished, if it does not take too long.

        Cancelled, it ends like a process that is killed: every reconciler at the await where it is.
        """
        tasks = [task for controller in self for task in controller.start()]
        try:
            await self._stopped.wait()
            for controller in self:
                controller.stop()
            if tasks:
                await asyncio.wait(tasks, timeout=STOP_SECONDS)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

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
