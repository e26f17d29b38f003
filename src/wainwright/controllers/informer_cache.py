"""The objects of the cluster as controllers see them: kept by watches, and by their own writes.

Reads are answered from memory. A write goes to the API server, and its answer is taken over at
once, before the watch shows it: otherwise the next decision, a moment later, would not know of the
last one, and would make it again. Versions tell which of the two is newer.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection
from contextlib import aclosing
from typing import Any, Final, Generic, TypeAlias
from weakref import WeakValueDictionary

import msgspec

from wainwright.api.kubernetes.workloads import Pod
from wainwright.api.wire import ObjectMeta, WireStruct
from wainwright.backoff import Backoff
from wainwright.clock import Clock
from wainwright.cluster import (
    NO_PRECONDITIONS,
    Cluster,
    EventType,
    ListAndWatch,
    MergePatch,
    ObjectList,
    ObjectT,
    Preconditions,
    WatchEvent,
)
from wainwright.errors import (
    ConflictError,
    KubernetesError,
    ObjectNotFoundError,
    ResourceVersionGoneError,
    WatchSilentError,
)

LOG: Final = logging.getLogger(__name__)

ObjectKey: TypeAlias = tuple[str, str]
"""Namespace and name."""

FIRST_RETRY: Final = 0.5  # seconds until a broken watch is opened again
MAX_RETRY: Final = 30.0
WRITE_ATTEMPTS: Final = 5
"""Of a write that others come before every time, as in client-go."""
USEFUL_WATCH: Final = 5.0
"""Seconds that a watch without a single event has to last. A server that ends every watch at once,
or calls every version too old, would otherwise be asked again without a pause."""


class Change(msgspec.Struct, Generic[ObjectT], frozen=True):
    """An object before and after; None where there is none."""

    before: ObjectT | None
    after: ObjectT | None

    @property
    def object(self) -> ObjectT:
        found = self.before if self.after is None else self.after
        assert found is not None
        return found

    @property
    def name(self) -> str:
        return metadata_of(self.object).name

    @property
    def is_of_spec(self) -> bool:
        """Whether the object is new, gone, being deleted, or has another spec; of kinds that have
        a generation."""
        if self.before is None or self.after is None:
            return True
        before, after = metadata_of(self.before), metadata_of(self.after)
        return before.uid != after.uid or before.generation != after.generation


ChangeHandler: TypeAlias = Callable[[Change[ObjectT]], None]


PatchOf: TypeAlias = Callable[[ObjectT], MergePatch | None]
"""The patch for an object as it is; None where there is nothing to write."""


def with_finalizer(name: str) -> PatchOf[Any]:
    def patch_of(obj: WireStruct) -> MergePatch | None:
        written = metadata_of(obj).finalizers or ()
        return None if name in written else {"metadata": {"finalizers": [*written, name]}}

    return patch_of


def without_finalizer(name: str) -> PatchOf[Any]:
    def patch_of(obj: WireStruct) -> MergePatch | None:
        written = metadata_of(obj).finalizers or ()
        kept = [each for each in written if each != name]
        return {"metadata": {"finalizers": kept}} if name in written else None

    return patch_of


def metadata_of(obj: WireStruct) -> ObjectMeta:
    metadata: ObjectMeta = obj.metadata  # type: ignore[attr-defined] # every kind has metadata
    return metadata


def key_of(obj: WireStruct) -> ObjectKey:
    metadata = metadata_of(obj)
    return metadata.namespace, metadata.name


class _KindStore(Generic[ObjectT]):
    """The objects of one kind."""

    def __init__(self) -> None:
        self.objects: dict[ObjectKey, ObjectT] = {}
        self.handlers: list[ChangeHandler[ObjectT]] = []
        self.is_listed = False
        self.version = ""
        """To resume the watch from; empty where the kind has to be listed."""
        self.events = 0
        """How many a watch has shown, bookmarks too."""
        self.is_version_gone = False
        """Whether the last version was refused, and no event has come since."""
        self._listed_at = 0
        """The version of the last list."""
        self._removed: dict[str, None] = {}
        """uids of objects that we have removed and whose deletion no watch has shown yet."""

    def put(self, obj: ObjectT, *, is_certain: bool = False) -> None:
        """Takes the object over unless a newer version is known, or its removal; in any case where
        it is certain to be the newest.
        """
        metadata, key = metadata_of(obj), key_of(obj)
        known = self.objects.get(key)
        is_old = self._is_gone(obj) if known is None else not _is_newer(obj, known)
        if metadata.uid in self._removed or (is_old and not is_certain):
            return
        self.objects[key] = obj
        self._notify(Change(known, obj))

    def _is_gone(self, obj: ObjectT) -> bool:
        """Whether the watch is past an object that is not known: it has shown its deletion too. The
        answer to a write may come after that, and would bring the object back for good.
        """
        return _version(obj) <= int(self.version or 0)

    def remove(self, gone: ObjectMeta, *, is_seen: bool) -> None:
        """`is_seen`: by a watch; else it is our own doing, and older versions may still come."""
        uid, key = gone.uid, (gone.namespace, gone.name)
        if is_seen:
            self._removed.pop(uid, None)
        else:
            self._removed[uid] = None
        known = self.objects.get(key)
        if known is not None and metadata_of(known).uid == uid:
            del self.objects[key]
            self._notify(Change(known, None))

    def replace(self, listed: ObjectList[ObjectT]) -> None:
        """Takes over a list: what is missing from it and older than it no longer exists.

        A list older than the last one is that of a server whose data were restored from a backup:
        versions begin again below those that are known, and say nothing about them.
        """
        is_restored = int(listed.resource_version or 0) < self._listed_at
        self._listed_at = int(listed.resource_version or 0)
        present = {*(metadata_of(obj).uid for obj in listed.items), *listed.unreadable}
        for obj in [*self.objects.values()]:
            is_older = _version(obj) <= int(listed.resource_version or 0)
            if metadata_of(obj).uid not in present and (is_older or is_restored):
                self.remove(metadata_of(obj), is_seen=True)
        self._removed = {uid: None for uid in self._removed if uid in present}
        for obj in listed.items:
            self.put(obj, is_certain=is_restored)
        self.is_listed, self.version = True, listed.resource_version

    def _notify(self, change: Change[ObjectT]) -> None:
        for handler in self.handlers:
            handler(change)


def _version(obj: WireStruct) -> int:
    return int(metadata_of(obj).resourceVersion or 0)


def _is_newer(obj: WireStruct, known: WireStruct) -> bool:
    """Versions grow over all objects, so that one of a new object of that name is newer as well."""
    return _version(obj) > _version(known)


class Index(Generic[ObjectT]):
    """The objects of a kind by some value of theirs, kept up to date."""

    def __init__(self, value_of: Callable[[ObjectT], str]) -> None:
        self._value_of = value_of
        self._objects: dict[str, dict[ObjectKey, ObjectT]] = defaultdict(dict)

    def get(self, value: str) -> list[ObjectT]:
        """In the order of namespace and name."""
        found = self._objects.get(value) if value else None
        return [] if not found else [found[key] for key in sorted(found)]

    def count(self, value: str) -> int:
        return len(self._objects.get(value, ()))

    def update(self, change: Change[ObjectT]) -> None:
        if change.before is not None:
            value = self._value_of(change.before)
            objects = self._objects.get(value)
            if objects is not None:
                objects.pop(key_of(change.before), None)
                if not objects:
                    del self._objects[value]
        if change.after is not None and (value := self._value_of(change.after)):
            self._objects[value][key_of(change.after)] = change.after


class InformerCache:
    """All objects of these kinds, and the writes of this process."""

    def __init__(
        self,
        cluster: Cluster,
        clock: Clock,
        kinds: Collection[type[WireStruct]],
        seed: int | str = 0,
        *,
        source: ListAndWatch | None = None,
    ) -> None:
        """`source`: where each kind is read by one request; else it is listed, then watched."""
        self._cluster, self._clock = cluster, clock
        self._list_and_watch_source = source
        self._backoff = Backoff(seed, first=FIRST_RETRY, most=MAX_RETRY)
        self._stores: dict[type[WireStruct], _KindStore[Any]] = {
            kind: _KindStore() for kind in kinds
        }
        self._listed = asyncio.Event()
        self._locks: WeakValueDictionary[tuple[type[WireStruct], ObjectKey], asyncio.Lock] = (
            WeakValueDictionary()
        )

    # Reading

    @property
    def is_listed(self) -> bool:
        """Whether every kind has been listed once, and is kept up to date."""
        return self._listed.is_set()

    async def wait_until_listed(self) -> None:
        await self._listed.wait()

    def get(self, kind: type[ObjectT], name: str, namespace: str = "") -> ObjectT | None:
        return self._store(kind).objects.get((namespace, name))

    def all(self, kind: type[ObjectT]) -> Collection[ObjectT]:
        return self._store(kind).objects.values()

    def subscribe(self, kind: type[ObjectT], handler: ChangeHandler[ObjectT]) -> None:
        """Calls the handler at each change from now on, and for what is there already."""
        store = self._store(kind)
        store.handlers.append(handler)
        for obj in [*store.objects.values()]:
            handler(Change(None, obj))

    def index(self, kind: type[ObjectT], value_of: Callable[[ObjectT], str]) -> Index[ObjectT]:
        """An index of the kind by that value; objects whose value is empty are left out."""
        index = Index(value_of)
        self.subscribe(kind, index.update)
        return index

    def _store(self, kind: type[ObjectT]) -> _KindStore[ObjectT]:
        return self._stores[kind]

    # Writing

    async def create(self, obj: ObjectT) -> ObjectT:
        return self._assume(await self._cluster.create(obj))

    async def patch(self, obj: ObjectT, patch: MergePatch, *, any_version: bool = True) -> ObjectT:
        """Without `any_version` a ConflictError if the object has been changed by others."""
        async with self._writing(obj):
            return await self._patch(obj, patch, any_version)

    async def _patch(self, obj: ObjectT, patch: MergePatch, any_version: bool) -> ObjectT:
        metadata = metadata_of(obj)
        patched = await self._cluster.patch(
            type(obj), metadata.name, _at_version(obj, patch, any_version), metadata.namespace
        )
        return self._assume_patched(patched)

    async def patch_status(
        self, obj: ObjectT, patch: MergePatch, *, any_version: bool = False
    ) -> ObjectT:
        """Patches the status of this version: lists in it are replaced as a whole, so that what
        others wrote since would be lost. `any_version` is for a patch without lists.
        """
        async with self._writing(obj):
            return await self._patch_status(obj, patch, any_version)

    async def _patch_status(self, obj: ObjectT, patch: MergePatch, any_version: bool) -> ObjectT:
        metadata = metadata_of(obj)
        versioned = _at_version(obj, {"status": patch}, any_version)
        patched = await self._cluster.patch_status(
            type(obj), metadata.name, versioned, metadata.namespace
        )
        return self._assume_patched(patched)

    async def update(
        self, obj: ObjectT, patch_of: PatchOf[ObjectT], *, status: bool = False
    ) -> ObjectT:
        """Patches what is known of the object, and at once what the API server has of it where
        others have written meanwhile: who waits for the watch instead can be late every time.
        """
        async with self._writing(obj):
            return await self._update(obj, patch_of, self._patch_status if status else self._patch)

    def _writing(self, obj: WireStruct) -> asyncio.Lock:
        """One write of an object at a time, lest controllers of this process refuse each other."""
        return self._locks.setdefault((type(obj), key_of(obj)), asyncio.Lock())

    async def _update(
        self,
        obj: ObjectT,
        patch_of: PatchOf[ObjectT],
        write: Callable[[ObjectT, MergePatch, bool], Awaitable[ObjectT]],
    ) -> ObjectT:
        obj = self._newest(obj)
        for attempt in range(1, WRITE_ATTEMPTS + 1):
            patch = patch_of(obj)
            if patch is None:
                break
            try:
                return await write(obj, patch, False)
            except ConflictError:
                if attempt == WRITE_ATTEMPTS:
                    raise
                obj = await self._read_again(obj)
        return obj

    def _newest(self, obj: ObjectT) -> ObjectT:
        store = self._stores.get(type(obj))
        known = None if store is None else store.objects.get(key_of(obj))
        return obj if known is None or not _is_same_matter(obj, known) else known

    async def _read_again(self, obj: ObjectT) -> ObjectT:
        """ConflictError where it is to be decided anew what is to be written. What the watch has
        shown since needs no request.
        """
        known = self._newest(obj)
        found = known if _version(known) > _version(obj) else await self.read(obj)
        if not _is_same_matter(obj, found):
            raise ConflictError(f"{metadata_of(obj).name} has changed")
        return found

    async def delete(self, obj: WireStruct, *, grace_period: int | None = None) -> None:
        """Deletes this very object, not another of its name; one that is gone counts as deleted."""
        metadata = metadata_of(obj)
        wanted = Preconditions(uid=metadata.uid) if metadata.uid else NO_PRECONDITIONS
        try:
            await self._cluster.delete(
                type(obj),
                metadata.name,
                metadata.namespace,
                preconditions=wanted,
                grace_period=grace_period,
            )
        except ObjectNotFoundError:
            self._store(type(obj)).remove(metadata_of(obj), is_seen=False)

    async def evict(self, name: str, namespace: str, *, uid: str) -> None:
        await self._cluster.evict(name, namespace, uid=uid)

    async def read(self, obj: ObjectT) -> ObjectT:
        """The object as the API server has it, where memory may be behind."""
        metadata = metadata_of(obj)
        return self._assume(await self._cluster.get(type(obj), metadata.name, metadata.namespace))

    async def read_pods_on_node(self, node: str) -> list[Pod]:
        """As the API server has them; they are known from now on."""
        listed = await self._cluster.list_pods_on_node(node)
        return [self._assume(pod) for pod in listed.items]

    def _assume(self, obj: ObjectT) -> ObjectT:
        if type(obj) in self._stores:
            self._store(type(obj)).put(obj)
        return obj

    def _assume_patched(self, obj: ObjectT) -> ObjectT:
        """The answer to a patch that removed the last finalizer is the end of the object."""
        metadata = metadata_of(obj)
        is_kept = metadata.finalizers or metadata.deletionGracePeriodSeconds
        if metadata.deletionTimestamp and not is_kept and type(obj) in self._stores:
            self._store(type(obj)).remove(metadata_of(obj), is_seen=False)
            return obj
        return self._assume(obj)

    # Watching

    async def run(self) -> None:
        """Keeps the objects up to date until it is cancelled, or a bug ends it."""
        try:
            async with asyncio.TaskGroup() as tasks:
                for kind in self._stores:
                    tasks.create_task(self._follow(kind), name=f"watch {kind.__name__}")
        finally:
            self._listed.clear()  # nobody decides by what is no longer kept up to date

    async def _follow(self, kind: type[ObjectT]) -> None:
        """Lists, watches, resumes the watch, and lists again where its version is too old."""
        store = self._store(kind)
        while True:
            began, events = self._clock.now(), store.events
            failure = await self._list_and_watch(kind)
            is_useful = store.events > events or self._clock.now() - began >= USEFUL_WATCH
            if is_useful:
                self._backoff.succeeded(kind.__name__)
            wait = self._pause(kind, failure, is_useful)
            if wait:
                await self._clock.sleep(wait)

    async def _list_and_watch(self, kind: type[WireStruct]) -> KubernetesError | None:
        """What has ended the watch; None if it was closed, as the server does now and then."""
        try:
            if not self._store(kind).version and self._list_and_watch_source is not None:
                await self._follow_from_the_start(kind, self._list_and_watch_source)
                return None
            if not self._store(kind).version:
                await self._list(kind)
            await self._watch(kind)
        except KubernetesError as error:
            return error
        return None

    def _pause(
        self, kind: type[WireStruct], failure: KubernetesError | None, is_useful: bool
    ) -> float:
        """Seconds until the next attempt."""
        store, name = self._store(kind), kind.__name__
        if failure is None:
            return 0.0 if is_useful else self._backoff.failed(name)
        if isinstance(failure, ResourceVersionGoneError):
            is_first = is_useful or not store.is_version_gone
            store.version, store.is_version_gone = "", True
            return 0.0 if is_first else self._backoff.failed(name)
        if isinstance(failure, WatchSilentError):
            # A server restored from a backup is silent too, until it has passed our version.
            store.version = ""
        wait = max(self._backoff.failed(name), getattr(failure, "retry_after", 0.0))
        # A new API server sends no bookmarks for kinds of which nothing has changed since it began.
        level = logging.DEBUG if isinstance(failure, WatchSilentError) else logging.WARNING
        LOG.log(level, "watching %s: %s; again in %.1f s", name, failure, wait)
        return wait

    async def _follow_from_the_start(self, kind: type[WireStruct], source: ListAndWatch) -> None:
        store = self._store(kind)
        async with aclosing(source.list_and_watch(kind)) as events:
            async for event in events:
                if isinstance(event, ObjectList):
                    self._replace(kind, event)
                else:
                    self._follow_event(store, event)

    async def _list(self, kind: type[WireStruct]) -> None:
        self._replace(kind, await self._cluster.list(kind))

    def _replace(self, kind: type[WireStruct], listed: ObjectList[Any]) -> None:
        self._store(kind).replace(listed)
        if all(store.is_listed for store in self._stores.values()):
            self._listed.set()

    async def _watch(self, kind: type[WireStruct]) -> None:
        """Until the server ends the watch."""
        store = self._store(kind)
        async with aclosing(self._cluster.watch(kind, store.version)) as events:
            async for event in events:
                self._follow_event(store, event)

    def _follow_event(self, store: _KindStore[ObjectT], event: WatchEvent[ObjectT]) -> None:
        self._take(store, event)
        store.version = event.resource_version
        store.events += 1
        store.is_version_gone = False

    def _take(self, store: _KindStore[ObjectT], event: WatchEvent[ObjectT]) -> None:
        if event.type is EventType.DELETED:
            if event.metadata is not None:
                store.remove(event.metadata, is_seen=True)
        elif event.object is not None:
            store.put(event.object)


def _is_same_matter(obj: WireStruct, found: WireStruct) -> bool:
    """Whether it is the same object with the same spec, and no longer on its way out than it was:
    what was decided for it holds, whatever has changed of labels, annotations and status.
    """
    before, after = metadata_of(obj), metadata_of(found)
    return (
        before.uid == after.uid
        and before.generation == after.generation
        and bool(before.deletionTimestamp) == bool(after.deletionTimestamp)
    )


def _at_version(obj: WireStruct, patch: MergePatch, any_version: bool) -> MergePatch:
    if any_version:
        return patch
    metadata = {**patch.get("metadata", {}), "resourceVersion": metadata_of(obj).resourceVersion}
    return {**patch, "metadata": metadata}
