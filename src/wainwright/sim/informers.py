"""What a process of the cluster knows of the objects of each kind: one list, then a watch.

Handlers are called with the object before and after each change, in order; an object that was just
written by the process itself can be shown to them at once, so that nobody acts twice on what the
watch has not delivered yet. Components share one set of informers, as controllers of one process
do, which reads every change once however many of them there are.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any, Final, Generic, TypeAlias

from wainwright.api.kubernetes.workloads import Pod
from wainwright.api.wire import ObjectMeta, WireStruct
from wainwright.backoff import Backoff
from wainwright.clock import Clock
from wainwright.cluster import Cluster, EventType, ObjectT
from wainwright.controllers.runtime import Key, WorkQueue
from wainwright.errors import (
    KubernetesError,
    ResourceVersionGoneError,
    ServerUnavailableError,
    TooManyRequestsError,
)
from wainwright.sim.object_store import metadata_of

LOG: Final = logging.getLogger(__name__)
RETRY_SECONDS: Final = 1.0
"""After a request that was not answered."""
MAX_RETRY: Final = 30.0
USEFUL_WATCH: Final = 5.0
"""Seconds for which a watch has to last for the next to be opened at once, if it shows nothing."""

ChangeHandler: TypeAlias = Callable[[ObjectT | None, ObjectT | None], None]
"""Called with the object before and after; None where there is none."""


def key_of(obj: WireStruct) -> Key:
    metadata = metadata_of(obj)
    return object_key(metadata.namespace, metadata.name)


def object_key(namespace: str, name: str) -> Key:
    return f"{namespace}/{name}" if namespace else name


def split_key(key: Key) -> tuple[str, str]:
    """Namespace and name."""
    namespace, _, name = key.rpartition("/")
    return namespace, name


class Informer(Generic[ObjectT]):
    """The objects of one kind, by key."""

    def __init__(
        self, cluster: Cluster, clock: Clock, kind: type[ObjectT], seed: str | None = None
    ) -> None:
        self._cluster, self._clock, self._kind = cluster, clock, kind
        self._is_simulated = seed is None
        most = RETRY_SECONDS if self._is_simulated else MAX_RETRY
        self._backoff = Backoff(f"{seed} {kind.__name__}", first=RETRY_SECONDS, most=most)
        self._handlers: list[ChangeHandler[ObjectT]] = []
        self._version = ""
        """To resume the watch from."""
        self._seen = 0
        self._events = 0
        """How many the watches have shown."""
        self._is_gone = False
        """Whether the version was too old for the last watch."""
        self.objects: dict[Key, ObjectT] = {}
        self.is_synced = asyncio.Event()

    def add_handler(self, handler: ChangeHandler[ObjectT]) -> None:
        """Before `run`, so that it sees every object."""
        self._handlers.append(handler)

    def observe(self, obj: ObjectT) -> None:
        """Shows the result of an own write before the watch delivers it."""
        if _version_of(obj) > self._seen:
            self._put(obj)

    async def run(self) -> None:
        """Until cancelled: whatever the API server answers, it may answer otherwise later."""
        while True:
            began, events = self._clock.now(), self._events
            failure = await self._attempt()
            is_useful = self._events > events or self._clock.now() - began >= USEFUL_WATCH
            if is_useful:
                self._is_gone = False
                self._backoff.succeeded(self._kind.__name__)
            wait = self._pause(failure, is_useful=is_useful)
            if wait:
                await self._clock.sleep(wait)

    async def _attempt(self) -> KubernetesError | None:
        """What has ended the watch; None if it was closed."""
        try:
            await self._follow()
        except KubernetesError as failure:
            return failure
        return None

    def _pause(self, failure: KubernetesError | None, *, is_useful: bool) -> float:
        """Seconds until the next attempt."""
        name = self._kind.__name__
        if failure is None:
            return 0.0 if is_useful else self._backoff.failed(name)
        if isinstance(failure, ResourceVersionGoneError):
            self._version, is_first, self._is_gone = "", not self._is_gone, True
            return 0.0 if is_first else self._backoff.failed(name)
        wait = max(self._backoff.failed(name), getattr(failure, "retry_after", 0.0))
        level = logging.DEBUG if self._is_simulated else logging.WARNING
        LOG.log(level, "watching %s: %s; again in %.1f s", name, failure, wait)
        return wait

    async def _follow(self) -> None:
        if not self._version:
            await self._list()
        async with aclosing(self._cluster.watch(self._kind, self._version)) as events:
            async for event in events:
                self._events += 1
                self._version = event.resource_version
                self._seen = int(event.resource_version)
                if event.type is EventType.DELETED and event.metadata is not None:
                    self._remove(object_key(event.metadata.namespace, event.metadata.name))
                elif event.object is not None:
                    self._put(event.object)

    async def _list(self) -> None:
        found = await self._cluster.list(self._kind)
        keys = {key_of(each) for each in found.items}
        for key in [each for each in self.objects if each not in keys]:
            self._remove(key)
        for each in found.items:
            self._put(each)
        self._version = found.resource_version
        self._seen = int(found.resource_version)
        self.is_synced.set()

    def _put(self, obj: ObjectT) -> None:
        key = key_of(obj)
        before = self.objects.get(key)
        if before is not None and _version_of(before) >= _version_of(obj):
            return
        self.objects[key] = obj
        if before is not None and _uid(before) != _uid(obj):
            # Deleted and made anew while nobody looked: two objects, not a change of one.
            self._notify(before, None)
            before = None
        self._notify(before, obj)

    def _remove(self, key: Key) -> None:
        before = self.objects.pop(key, None)
        if before is not None:
            self._notify(before, None)

    def _notify(self, before: ObjectT | None, after: ObjectT | None) -> None:
        for handler in self._handlers:
            handler(before, after)


def _version_of(obj: WireStruct) -> int:
    return int(metadata_of(obj).resourceVersion or 0)


def _uid(obj: WireStruct) -> str:
    return metadata_of(obj).uid


class Informers:
    """One informer for each kind that somebody asks for."""

    def __init__(self, cluster: Cluster, clock: Clock, seed: str | None = None) -> None:
        """`seed`: of the waiting times at a real API server, another in each process. Without one
        the server is simulated: nothing is spared by waiting for longer than a second.
        """
        self.cluster, self.clock, self._seed = cluster, clock, seed
        self._by_kind: dict[type[WireStruct], Informer[Any]] = {}

    def of(self, kind: type[ObjectT]) -> Informer[ObjectT]:
        found = self._by_kind.get(kind)
        if found is None:
            found = self._by_kind[kind] = Informer(self.cluster, self.clock, kind, self._seed)
        return found

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for each in self._by_kind.values():
                tasks.create_task(each.run())

    async def synced(self) -> None:
        """Returns when every kind has been listed."""
        for each in self._by_kind.values():
            await each.is_synced.wait()


class KeyedWorker:
    """A queue of keys and the one task that works on them, for a component of the cluster.

    What fails because the API server does not answer is tried again; an object that is gone or has
    changed meanwhile is left to the event that tells of it, and a refused one to its author.
    """

    def __init__(self, clock: Clock, work: Callable[[Key], Awaitable[None]]) -> None:
        self._clock, self._work = clock, work
        self._queue = WorkQueue()

    @property
    def next_due(self) -> float | None:
        return self._queue.next_due

    def add(self, key: Key) -> None:
        self._queue.add(key)

    def add_at(self, key: Key, moment: float) -> None:
        self._queue.add_after(key, moment - self._clock.now())

    def forget(self, key: Key) -> None:
        self._queue.forget(key)

    async def run(self) -> None:
        try:
            while True:
                key = await self._queue.take()
                try:
                    await self._work(key)
                except (ServerUnavailableError, TooManyRequestsError):
                    self._queue.add_after(key, RETRY_SECONDS)
                except KubernetesError as refusal:
                    LOG.debug("%s: %s", key, refusal)
                finally:
                    self._queue.done(key)
        finally:
            self._queue.close()


class PodsByNode:
    """The keys of the pods on each node."""

    def __init__(self, informers: Informers) -> None:
        self._keys: dict[str, dict[Key, None]] = {}
        informers.of(Pod).add_handler(self._changed)

    def on(self, node: str) -> list[Key]:
        return list(self._keys.get(node, ()))

    def _changed(self, before: Pod | None, after: Pod | None) -> None:
        old = before.spec.nodeName if before is not None else ""
        new = after.spec.nodeName if after is not None else ""
        if old == new:
            return
        if before is not None and old:
            keys = self._keys[old]
            keys.pop(key_of(before), None)
            if not keys:
                del self._keys[old]
        if after is not None and new:
            self._keys.setdefault(new, {})[key_of(after)] = None


def controller_of(metadata: ObjectMeta) -> tuple[str, Key] | None:
    """Kind and key of the object's managing owner, in its own namespace."""
    for owner in metadata.ownerReferences or ():
        if owner.controller is not False:
            return owner.kind, object_key(metadata.namespace, owner.name)
    return None


def earliest(*moments: float | None) -> float | None:
    return min((each for each in moments if each is not None), default=None)
