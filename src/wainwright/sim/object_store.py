"""The objects of one kind in memory, and the history of their changes that watches read."""

import asyncio
from bisect import bisect_right
from collections.abc import AsyncGenerator, Callable, Iterator
from operator import attrgetter
from typing import Final, Generic

from wainwright.api.api_resources import ApiResource
from wainwright.api.wire import ObjectMeta, WireStruct
from wainwright.cluster import EventType, ObjectT, WatchEvent
from wainwright.errors import ObjectNotFoundError, ResourceVersionGoneError

metadata_of: Final[Callable[[WireStruct], ObjectMeta]] = attrgetter("metadata")


class History(Generic[ObjectT]):
    """The last changes, in their order. Watches read from it, so that an event is stored once
    however many there are, and one that is too slow finds its place gone, as at a real server.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._events: list[WatchEvent[ObjectT]] = []
        self._versions: list[int] = []
        self._dropped = 0
        """How many events were dropped, so that positions stay valid."""
        self._oldest = 0
        """The oldest version that a watch can begin at."""
        self._bookmark = 0
        self._connections = 0
        """Counts how often all watches were ended."""
        self._waiting: list[asyncio.Future[None]] = []

    def append(self, version: int, event: WatchEvent[ObjectT]) -> None:
        self._events.append(event)
        self._versions.append(version)
        # Half of it at once: dropping one event at a time would move the whole list every time.
        if len(self._events) > 2 * self._capacity:
            self._drop(self._capacity)
        self._wake()

    def _drop(self, count: int) -> None:
        if count:
            self._oldest = self._versions[count - 1]
            del self._events[:count], self._versions[:count]
            self._dropped += count

    def bookmark(self, version: int) -> None:
        """Tells idle watches that nothing of this kind has changed up to that version."""
        self._bookmark = version
        self._wake()

    def forget(self, version: int) -> None:
        """As a restarted API server: no watch can begin before this version."""
        self._drop(len(self._events))
        self._oldest = version

    def end_watches(self) -> None:
        self._connections += 1
        self._wake()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def watch(self, version: int) -> AsyncGenerator[WatchEvent[ObjectT], None]:
        if version < self._oldest:
            raise ResourceVersionGoneError(f"too old resource version: {version} ({self._oldest})")
        position = self._dropped + bisect_right(self._versions, version)
        connection = self._connections
        while connection == self._connections:
            if position < self._dropped:
                raise ResourceVersionGoneError(f"too old resource version ({self._oldest})")
            if position < self._dropped + len(self._events):
                index = position - self._dropped
                event, version = self._events[index], self._versions[index]
                position += 1
                yield event
            elif version < self._bookmark:
                version = self._bookmark
                yield WatchEvent(EventType.BOOKMARK, str(version))
            else:
                await self._changed()

    async def _changed(self) -> None:
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        await future


class ObjectStore(Generic[ObjectT]):
    """The objects of one kind, by namespace and name."""

    def __init__(self, resource: ApiResource, history_capacity: int) -> None:
        self.resource = resource
        self.history = History[ObjectT](history_capacity)
        self._namespaces: dict[str, dict[str, ObjectT]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._namespaces.values()))

    def is_empty(self, namespace: str) -> bool:
        return not self._namespaces.get(namespace)

    def find(self, namespace: str, name: str) -> ObjectT | None:
        return self._namespaces.get(namespace, {}).get(name)

    def get(self, namespace: str, name: str) -> ObjectT:
        found = self.find(namespace, name)
        if found is None:
            raise ObjectNotFoundError(f'{self.resource.qualified_plural} "{name}" not found')
        return found

    def objects(self, namespace: str = "") -> Iterator[ObjectT]:
        """Those of one namespace or of all, in the order of their names."""
        for key in [namespace] if namespace else sorted(self._namespaces):
            found = self._namespaces.get(key, {})
            yield from (found[name] for name in sorted(found))

    def matching(self, condition: Callable[[ObjectT], bool]) -> list[ObjectT]:
        """Of all namespaces, in the same order; only what matches is sorted."""
        found = (
            obj for each in self._namespaces.values() for obj in each.values() if condition(obj)
        )
        return sorted(found, key=lambda obj: (metadata_of(obj).namespace, metadata_of(obj).name))

    def put(self, obj: ObjectT) -> None:
        metadata = metadata_of(obj)
        self._namespaces.setdefault(metadata.namespace, {})[metadata.name] = obj

    def remove(self, obj: ObjectT) -> None:
        metadata = metadata_of(obj)
        del self._namespaces[metadata.namespace][metadata.name]
