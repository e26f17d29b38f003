"""A Kubernetes API server in memory: the cluster port without HTTP, etcd or other processes.

Built to the answers of a real one; `tests/contract/cluster_cases.py` asks both the same questions.
Objects are frozen structs, handed out without copying. A change makes the changed part anew and
shares the rest, so it costs the same in a cluster of any size. Nothing is random but what comes
from the seed, and no time passes but the clock's.

What it has of the controllers of a real cluster: garbage collection of owned objects and of the
contents of deleted namespaces, both done before the next request is answered. Everybody else
(scheduler, kubelets, workload and disruption controllers) is a client.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Iterator, Mapping
from datetime import datetime
from random import Random
from typing import Any, Final
from uuid import UUID

import msgspec

from wainwright.api.api_resources import ApiResource, served_resources
from wainwright.api.kubernetes.cluster import (
    Namespace,
    NamespaceStatus,
    Node,
    PodDisruptionBudget,
    PriorityClass,
)
from wainwright.api.kubernetes.operations import Event
from wainwright.api.kubernetes.workloads import Pod, PodCondition
from wainwright.api.wire import ObjectMeta, WireStruct
from wainwright.clock import Clock, format_timestamp
from wainwright.cluster import (
    NO_PRECONDITIONS,
    EventType,
    MergePatch,
    ObjectList,
    ObjectT,
    Preconditions,
    WatchEvent,
)
from wainwright.errors import (
    AlreadyExistsError,
    ConflictError,
    ObjectNotFoundError,
    RequestForbiddenError,
    ServerUnavailableError,
)
from wainwright.sim import admission, evictions
from wainwright.sim.merge_patch import converted_parts, merged_parts, parts_of
from wainwright.sim.object_store import ObjectStore, metadata_of
from wainwright.sim.owners import ObjectKey, OwnerIndex

HISTORY: Final = 10_000
"""Changes of each kind that watches can be resumed in."""
BOOKMARK_EVERY: Final = 1_000
"""Writes between bookmarks. A real server goes by the minute, which would wake every watch of a
simulation for nothing."""
YIELD_EVERY: Final = 100
"""Requests of whatever tasks, after which the others get a turn."""
EVENT_SECONDS: Final = 3600.0
"""How long a Kubernetes Event is kept, as kube-apiserver does by default."""
FIRST_NAMESPACES: Final = ("default", "kube-node-lease", "kube-public", "kube-system")
PERMANENT_NAMESPACES: Final = ("default", "kube-public", "kube-system")
SUFFIX_CHARACTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
SERVER_SET: Final = (
    "generation",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "resourceVersion",
)
"""Fields of the metadata in which a patch has no effect."""
IMMUTABLE: Final = ("uid", "deletionTimestamp")
NOT_SERVED: Final = "the server could not find the requested resource"
MODIFIED_MESSAGE: Final = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


class InMemoryApiServer:
    """Implements the port `Cluster`, and what simulated components need besides."""

    def __init__(
        self,
        clock: Clock,
        *,
        seed: int = 0,
        history: int = HISTORY,
        bookmark_every: int = BOOKMARK_EVERY,
    ) -> None:
        self._clock = clock
        self._random = Random(seed)
        self._bookmark_every = bookmark_every
        self._version = 0
        self._requests = 0
        self._is_available = True
        self._stores: dict[type[WireStruct], ObjectStore[Any]] = {
            kind: ObjectStore(resource, history) for kind, resource in served_resources().items()
        }
        self._owners = OwnerIndex()
        self._garbage: deque[ObjectKey] = deque()
        self._observers: list[Callable[[WatchEvent[Any]], None]] = []
        self._expiring: deque[tuple[float, Event]] = deque()
        """Kubernetes Events, each as it was written, and when it is forgotten."""
        self._pods = admission.PodAdmission(self._store(PriorityClass))
        for name in FIRST_NAMESPACES:
            self._create(Namespace(metadata=ObjectMeta(name=name)))

    # The port

    async def list(
        self, kind: type[ObjectT], namespace: str = "", *, name: str = ""
    ) -> ObjectList[ObjectT]:
        await self._begin()
        found = [*self._store(kind).objects(namespace)]
        if name:
            found = [each for each in found if metadata_of(each).name == name]
        return ObjectList(found, str(self._version))

    async def list_pods_on_node(self, node: str) -> ObjectList[Pod]:
        await self._begin()
        found = self._store(Pod).matching(lambda pod: pod.spec.nodeName == node)
        return ObjectList(found, str(self._version))

    async def watch(
        self, kind: type[ObjectT], resource_version: str
    ) -> AsyncGenerator[WatchEvent[ObjectT], None]:
        await self._begin()
        async for event in self._store(kind).history.watch(int(resource_version)):
            yield event

    async def list_and_watch(
        self, kind: type[ObjectT], *, namespace: str = "", name: str = ""
    ) -> AsyncGenerator[ObjectList[ObjectT] | WatchEvent[ObjectT], None]:
        def is_meant(obj: ObjectT | None) -> bool:
            metadata = None if obj is None else metadata_of(obj)
            return metadata is None or (
                namespace in ("", metadata.namespace) and name in ("", metadata.name)
            )

        listed = await self.list(kind)
        yield ObjectList([*filter(is_meant, listed.items)], listed.resource_version)
        async for event in self.watch(kind, listed.resource_version):
            if is_meant(event.object):
                yield event

    async def get(self, kind: type[ObjectT], name: str, namespace: str = "") -> ObjectT:
        await self._begin()
        return self._store(kind).get(namespace, name)

    async def create(self, obj: ObjectT) -> ObjectT:
        await self._begin()
        self._forget_events()
        stored = self._create(obj)
        self._collect_garbage()
        return stored

    async def patch(
        self, kind: type[ObjectT], name: str, patch: MergePatch, namespace: str = ""
    ) -> ObjectT:
        await self._begin()
        store = self._store(kind)
        ignored = {"status"} if store.resource.has_status else set()
        return self._patch(store, namespace, name, patch, parts_of(kind).keys() - ignored)

    async def patch_status(
        self, kind: type[ObjectT], name: str, patch: MergePatch, namespace: str = ""
    ) -> ObjectT:
        await self._begin()
        store = self._store(kind)
        if not store.resource.has_status:
            raise ObjectNotFoundError(NOT_SERVED)
        # Of core kinds the subresource changes metadata as well; of a CRD's it does not.
        names = {"status"} if store.resource.is_custom else {"status", "metadata"}
        return self._patch(store, namespace, name, patch, names)

    async def delete(
        self,
        kind: type[WireStruct],
        name: str,
        namespace: str = "",
        *,
        preconditions: Preconditions = NO_PRECONDITIONS,
        grace_period: int | None = None,
    ) -> None:
        await self._begin()
        store = self._store(kind)
        obj = store.get(namespace, name)
        _require_preconditions(store.resource, metadata_of(obj), preconditions)
        if isinstance(obj, Namespace) and name in PERMANENT_NAMESPACES:
            message = f'namespaces "{name}" is forbidden: this namespace may not be deleted'
            raise RequestForbiddenError(message)
        self._delete(store, obj, grace_period)
        self._collect_garbage()

    async def evict(
        self, name: str, namespace: str, *, uid: str = "", grace_period: int | None = None
    ) -> None:
        await self._begin()
        pods, budgets = self._store(Pod), self._store(PodDisruptionBudget)
        pod = pods.get(namespace, name)
        _require_preconditions(pods.resource, pod.metadata, Preconditions(uid=uid))
        budget = evictions.spent_budget(pod, budgets.objects(namespace))
        if budget is not None:
            self._store_change(budgets, evictions.with_disruption(budget, name, self._time()))
        if pod.metadata.deletionTimestamp is None:
            pod = self._store_change(pods, evictions.with_condition(pod, self._evicted()))
        self._delete(pods, pod, grace_period)
        self._collect_garbage()

    def _evicted(self) -> PodCondition:
        return PodCondition(
            type="DisruptionTarget",
            status="True",
            reason="EvictionByEvictionAPI",
            message="Eviction API: evicting",
            lastTransitionTime=self._time(),
        )

    # What simulated components and scenarios need besides

    async def bind(self, name: str, namespace: str, node: str) -> None:
        """Assigns the pod to a node, as a scheduler does; ConflictError if it has one."""
        await self._begin()
        pods = self._store(Pod)
        pod = pods.get(namespace, name)
        if pod.spec.nodeName or pod.metadata.deletionTimestamp is not None:
            state = f'assigned to node "{pod.spec.nodeName}"' if pod.spec.nodeName else "deleted"
            raise _conflict("pods/binding", name, f"pod {name} is already {state}")
        scheduled = PodCondition(
            type="PodScheduled", status="True", lastTransitionTime=self._time()
        )
        bound = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, nodeName=node))
        self._store_change(pods, evictions.with_condition(bound, scheduled))

    def load(self, objects: Iterable[WireStruct], *, with_defaults: bool = False) -> None:
        """Puts objects in as they are, with their status: a cluster as it was found.

        Nothing is validated, and owners that are missing are not missed. `with_defaults` gives pods
        what admission would have given them; RequestForbiddenError without their PriorityClass.
        """
        for obj in objects:
            store = self._store(type(obj))
            parts: dict[str, Any] = {}
            if with_defaults and isinstance(obj, Pod):
                parts["spec"] = self._pods.admit(store.resource, obj)
            metadata = self._loaded_metadata(store.resource, metadata_of(obj))
            if metadata.namespace and not self._store(Namespace).find("", metadata.namespace):
                self._create(Namespace(metadata=ObjectMeta(name=metadata.namespace)))
            self._add(store, msgspec.structs.replace(obj, metadata=metadata, **parts))

    def stop(self) -> None:
        """From now on no request is answered, and open watches end."""
        self._is_available = False
        for store in self._stores.values():
            store.history.end_watches()

    def start(self, *, forget_history: bool = False) -> None:
        """Answers again. A restarted process knows no changes from before its start."""
        self._is_available = True
        if forget_history:
            for store in self._stores.values():
                store.history.forget(self._version)

    # What observers of a simulation need: nothing here is a request, and a stopped server answers

    @property
    def is_up(self) -> bool:
        """Whether requests are answered."""
        return self._is_available

    @property
    def revision(self) -> int:
        """Counts all changes; the resourceVersion of the last one."""
        return self._version

    def subscribe(self, observer: Callable[[WatchEvent[Any]], None]) -> None:
        """Calls it with every change from now on, in order, before the request is answered.

        A change is stored when observers hear of it. They must not change anything themselves.
        """
        self._observers.append(observer)

    def peek(self, kind: type[ObjectT], name: str, namespace: str = "") -> ObjectT | None:
        return self._store(kind).find(namespace, name)

    def peek_all(self, kind: type[ObjectT], namespace: str = "") -> Iterator[ObjectT]:
        """Objects of one namespace or of all, in the order of their names."""
        return self._store(kind).objects(namespace)

    # Creation

    def _create(self, obj: ObjectT) -> ObjectT:
        store = self._store(type(obj))
        metadata = self._new_metadata(store.resource, metadata_of(obj))
        self._require_namespace(metadata.namespace)
        admission.validate_metadata_of(store.resource, metadata)
        admitted = self._admitted(
            store.resource,
            msgspec.structs.replace(obj, metadata=metadata, **admission.initial_status(obj)),
        )
        existing = store.find(metadata.namespace, metadata.name)
        if existing is not None:
            raise _already_exists(store.resource, metadata_of(existing))
        stored = self._add(store, admitted)
        if self._owners.is_orphan(metadata):
            self._garbage.append(_key(stored))
        return stored

    def _admitted(self, resource: ApiResource, obj: ObjectT) -> ObjectT:
        if resource.is_custom:
            return self._admitted_custom(resource, obj)
        admission.validate_core_object(resource, obj)
        if isinstance(obj, Pod):
            return msgspec.structs.replace(obj, spec=self._pods.admit(resource, obj))
        if isinstance(obj, Node):
            spec = admission.with_not_ready_taint(obj).spec
            return msgspec.structs.replace(obj, spec=spec)
        return obj

    def _admitted_custom(self, resource: ApiResource, obj: ObjectT) -> ObjectT:
        body = {
            key: value
            for key, value in msgspec.to_builtins(obj).items()
            if key not in ("metadata", "status", "apiVersion", "kind")
        }
        parts = admission.admit_custom_parts(resource, metadata_of(obj).name, body)
        return msgspec.structs.replace(obj, **converted_parts(resource.type, parts))

    def _new_metadata(self, resource: ApiResource, given: ObjectMeta) -> ObjectMeta:
        return msgspec.structs.replace(
            given,
            name=given.name or self._generated_name(given.generateName),
            namespace=(given.namespace or "default") if resource.is_namespaced else "",
            uid=self._new_uid(),
            creationTimestamp=self._time(),
            deletionTimestamp=None,
            deletionGracePeriodSeconds=None,
            generation=1 if resource.has_generation else None,
            resourceVersion="",
        )

    def _loaded_metadata(self, resource: ApiResource, given: ObjectMeta) -> ObjectMeta:
        made = self._new_metadata(resource, given)
        return msgspec.structs.replace(
            made,
            uid=given.uid or made.uid,
            creationTimestamp=given.creationTimestamp or made.creationTimestamp,
            deletionTimestamp=given.deletionTimestamp,
            deletionGracePeriodSeconds=given.deletionGracePeriodSeconds,
            generation=given.generation or made.generation,
        )

    def _generated_name(self, prefix: str) -> str:
        if not prefix:
            return ""
        return prefix + "".join(self._random.choice(SUFFIX_CHARACTERS) for _ in range(5))

    def _new_uid(self) -> str:
        return str(UUID(int=self._random.getrandbits(128), version=4))

    def _forget_events(self) -> None:
        """Events go an hour after they were last written."""
        now = self._clock.now()
        while self._expiring and self._expiring[0][0] <= now:
            _, event = self._expiring.popleft()
            store, metadata = self._store(Event), event.metadata
            if store.find(metadata.namespace, metadata.name) is event:
                self._remove(store, event)

    # Changes

    def _patch(
        self,
        store: ObjectStore[ObjectT],
        namespace: str,
        name: str,
        patch: MergePatch,
        names: Collection[str],
    ) -> ObjectT:
        old = store.get(namespace, name)
        _require_version(store.resource, metadata_of(old), patch)
        values = merged_parts(old, patch, names)
        changed = {
            part: value
            for part, value in self._admitted_parts(store.resource, old, values).items()
            if value != getattr(old, part)
        }
        if not changed:
            return old
        new = _next_generation(store.resource, msgspec.structs.replace(old, **changed), changed)
        return self._store_patched(store, old, new)

    def _store_patched(self, store: ObjectStore[ObjectT], old: ObjectT, new: ObjectT) -> ObjectT:
        before, after = metadata_of(old), metadata_of(new)
        if after.ownerReferences != before.ownerReferences:
            self._owners.drop_references(_key(old), before)
            self._owners.add(_key(new), after)
        if _is_finished(after):
            # The event of the removal has the object as it was last stored.
            self._remove(store, old)
            self._collect_garbage()
            return new
        return self._store_change(store, new)

    def _admitted_parts(
        self, resource: ApiResource, old: WireStruct, values: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The parts of a patched object as structs; refused ones raise."""
        metadata = metadata_of(old)
        rest = {part: value for part, value in values.items() if part != "metadata"}
        if resource.is_custom and rest:
            rest = admission.admit_custom_parts(resource, metadata.name, rest, old)
        try:
            parts = converted_parts(resource.type, rest)
        except msgspec.ValidationError as error:
            message = f"{resource.kind} cannot be handled as a {resource.kind}: {error}"
            raise RequestForbiddenError(message, 400) from None
        if not resource.is_custom:
            _require_allowed_change(resource, old, parts)
        if "metadata" in values:
            parts["metadata"] = _patched_metadata(resource, metadata, values["metadata"])
        return parts

    # Deletion

    def _delete(self, store: ObjectStore[ObjectT], obj: ObjectT, grace_period: int | None) -> None:
        grace = _pod_grace_period(obj, grace_period) if isinstance(obj, Pod) else 0
        if isinstance(obj, (Pod, Namespace)) or metadata_of(obj).finalizers:
            obj = self._mark_deleted(store, obj, grace)
        if isinstance(obj, Namespace):
            self._empty_namespace(obj.metadata.name)
        elif not metadata_of(obj).finalizers and not metadata_of(obj).deletionGracePeriodSeconds:
            self._remove(store, obj)

    def _mark_deleted(self, store: ObjectStore[ObjectT], obj: ObjectT, grace: int) -> ObjectT:
        """The object with its deletionTimestamp; a second request can only bring it forward."""
        metadata = metadata_of(obj)
        before = metadata.deletionGracePeriodSeconds or 0
        if metadata.deletionTimestamp is None:
            when = self._time(grace)
            generation = (metadata.generation or 0) + 1 if store.resource.has_generation else None
        elif grace < before:
            when = _earlier(metadata.deletionTimestamp, before - grace)
            generation = metadata.generation
        else:
            return obj
        marked = msgspec.structs.replace(
            metadata,
            deletionTimestamp=when,
            deletionGracePeriodSeconds=grace,
            generation=generation,
        )
        changes: dict[str, Any] = {"metadata": marked}
        if isinstance(obj, Namespace):
            changes["status"] = NamespaceStatus(phase="Terminating")
        return self._store_change(store, msgspec.structs.replace(obj, **changes))

    def _remove(self, store: ObjectStore[ObjectT], obj: ObjectT) -> None:
        store.remove(obj)
        self._record(store, EventType.DELETED, obj)
        self._garbage.extend(self._owners.remove(_key(obj), metadata_of(obj)))
        if namespace := metadata_of(obj).namespace:
            self._finish_namespace(namespace)

    def _collect_garbage(self) -> None:
        """Deletes what has lost all its owners, and then what that owned."""
        while self._garbage:
            key = self._garbage.popleft()
            store = self._stores[key.kind]
            obj = store.find(key.namespace, key.name)
            if obj is None:
                continue
            if self._owners.is_orphan(metadata_of(obj)):
                self._delete(store, obj, None)
            else:
                self._drop_dead_owners(store, obj)

    def _drop_dead_owners(self, store: ObjectStore[ObjectT], obj: ObjectT) -> None:
        metadata = metadata_of(obj)
        alive = [each for each in metadata.ownerReferences or () if self._owners.is_alive(each)]
        if len(alive) < len(metadata.ownerReferences or ()):
            kept = msgspec.structs.replace(metadata, ownerReferences=alive or None)
            self._store_change(store, msgspec.structs.replace(obj, metadata=kept))

    def _empty_namespace(self, name: str) -> None:
        for store in self._stores.values():
            for obj in [*store.objects(name)] if store.resource.is_namespaced else ():
                self._delete(store, obj, None)
        self._finish_namespace(name)

    def _finish_namespace(self, name: str) -> None:
        """Removes a namespace that is being deleted once nothing is left in it."""
        namespaces = self._store(Namespace)
        namespace = namespaces.find("", name)
        if namespace is None or namespace.metadata.deletionTimestamp is None:
            return
        if all(store.is_empty(name) for store in self._stores.values()):
            self._remove(namespaces, namespace)

    # Storage

    def _add(self, store: ObjectStore[ObjectT], obj: ObjectT) -> ObjectT:
        stored = self._record(store, EventType.ADDED, obj)
        self._owners.add(_key(stored), metadata_of(stored))
        return stored

    def _store_change(self, store: ObjectStore[ObjectT], obj: ObjectT) -> ObjectT:
        return self._record(store, EventType.MODIFIED, obj)

    def _record(self, store: ObjectStore[ObjectT], event: EventType, obj: ObjectT) -> ObjectT:
        """The object at the next version, stored and as watches see it."""
        self._version += 1
        version = str(self._version)
        metadata = msgspec.structs.replace(metadata_of(obj), resourceVersion=version)
        stored = msgspec.structs.replace(obj, metadata=metadata)
        if event is not EventType.DELETED:
            store.put(stored)
        change = WatchEvent(event, version, stored)
        store.history.append(self._version, change)
        if store.resource.type is PriorityClass:
            self._pods.forget()
        if isinstance(stored, Event) and event is not EventType.DELETED:
            self._expiring.append((self._clock.now() + EVENT_SECONDS, stored))
        if self._version % self._bookmark_every == 0:
            for each in self._stores.values():
                each.history.bookmark(self._version)
        for observer in self._observers:
            observer(change)
        return stored

    def _store(self, kind: type[ObjectT]) -> ObjectStore[ObjectT]:
        try:
            return self._stores[kind]
        except KeyError:
            raise ObjectNotFoundError(NOT_SERVED) from None

    def _time(self, seconds_ahead: int = 0) -> str:
        return format_timestamp(self._clock.now() + seconds_ahead)

    async def _begin(self) -> None:
        """Lets other tasks run now and then: nothing else here waits, and a task that writes
        thousands of objects would leave watches so far behind that they had to list again.
        """
        self._requests += 1
        if self._requests % YIELD_EVERY == 0:
            await asyncio.sleep(0)
        if not self._is_available:
            raise ServerUnavailableError("the API server does not answer")

    def _require_namespace(self, name: str) -> None:
        if not name:
            return
        namespace = self._store(Namespace).find("", name)
        if namespace is None:
            raise ObjectNotFoundError(f'namespaces "{name}" not found')
        if namespace.metadata.deletionTimestamp is not None:
            raise RequestForbiddenError(
                f"unable to create new content in namespace {name} because it is being terminated"
            )


def _key(obj: WireStruct) -> ObjectKey:
    metadata = metadata_of(obj)
    return ObjectKey(type(obj), metadata.namespace, metadata.name)


def _earlier(timestamp: str, seconds: int) -> str:
    return format_timestamp(datetime.fromisoformat(timestamp).timestamp() - seconds)


def _is_finished(metadata: ObjectMeta) -> bool:
    """Whether nothing keeps an object that is being deleted."""
    is_deleting = metadata.deletionTimestamp is not None
    return is_deleting and not metadata.finalizers and not metadata.deletionGracePeriodSeconds


def _pod_grace_period(pod: Pod, given: int | None) -> int:
    """Seconds; 0 for a pod that no kubelet runs."""
    if not pod.spec.nodeName or pod.status.phase in evictions.FINISHED_PHASES:
        return 0
    own = pod.spec.terminationGracePeriodSeconds
    default = admission.DEFAULT_GRACE_PERIOD if own is None else own
    grace = default if given is None else given
    return grace if grace >= 0 else 1


def _conflict(what: str, name: str, why: str) -> ConflictError:
    return ConflictError(f'Operation cannot be fulfilled on {what} "{name}": {why}')


def _already_exists(resource: ApiResource, metadata: ObjectMeta) -> AlreadyExistsError:
    state = "" if metadata.deletionTimestamp is None else "object is being deleted: "
    return AlreadyExistsError(
        f'{state}{resource.qualified_plural} "{metadata.name}" already exists'
    )


def _require_version(resource: ApiResource, metadata: ObjectMeta, patch: MergePatch) -> None:
    given = patch.get("metadata") or {}
    wanted = given.get("resourceVersion")
    if resource.is_custom and not wanted and "resourceVersion" in given:
        raise admission.forbidden_change(
            resource, metadata.name, "metadata.resourceVersion", "must be specified for an update"
        )
    if wanted and wanted != metadata.resourceVersion:
        raise _conflict(resource.qualified_plural, metadata.name, MODIFIED_MESSAGE)


def _require_preconditions(
    resource: ApiResource, metadata: ObjectMeta, wanted: Preconditions
) -> None:
    for field, expected, found, likely in (
        ("UID", wanted.uid, metadata.uid, "deleted and then recreated"),
        ("ResourceVersion", wanted.resource_version, metadata.resourceVersion, "modified"),
    ):
        if expected and expected != found:
            why = (
                f"the {field} in the precondition ({expected}) does not match the {field} in "
                f"record ({found}). The object might have been {likely}"
            )
            raise _conflict(resource.qualified_kind, metadata.name, why)


def _next_generation(resource: ApiResource, obj: ObjectT, changed: Collection[str]) -> ObjectT:
    if not resource.has_generation or not set(changed) - {"metadata", "status"}:
        return obj
    metadata = metadata_of(obj)
    counted = msgspec.structs.replace(metadata, generation=(metadata.generation or 0) + 1)
    return msgspec.structs.replace(obj, metadata=counted)


def _patched_metadata(
    resource: ApiResource, old: ObjectMeta, value: Mapping[str, Any]
) -> ObjectMeta:
    before = msgspec.to_builtins(old)
    for field in ("name", "namespace"):
        if value.get(field) != before.get(field):
            message = f"the {field} of the object does not match the {field} on the URL"
            raise RequestForbiddenError(message, 400)
    for field in IMMUTABLE:
        if value.get(field) and value[field] != before.get(field):
            raise admission.forbidden_change(
                resource, old.name, f"metadata.{field}", "field is immutable"
            )
    kept = {field: before[field] for field in (*SERVER_SET, *IMMUTABLE) if field in before}
    given = {field: item for field, item in value.items() if item and field not in SERVER_SET}
    try:
        new = msgspec.convert({**given, **kept}, ObjectMeta)
    except msgspec.ValidationError as error:
        raise RequestForbiddenError(f"{resource.kind}: metadata: {error}", 400) from None
    if new != old:
        _require_no_new_finalizers(resource, old, new)
        admission.validate_metadata_of(resource, new)
    return new


def _require_no_new_finalizers(resource: ApiResource, old: ObjectMeta, new: ObjectMeta) -> None:
    added = set(new.finalizers or ()) - set(old.finalizers or ())
    if added and old.deletionTimestamp is not None:
        raise admission.forbidden_change(
            resource,
            old.name,
            "metadata.finalizers",
            "no new finalizers can be added if the object is being deleted, found new finalizers "
            + ", ".join(sorted(added)),
        )


def _require_allowed_change(
    resource: ApiResource, old: WireStruct, parts: Mapping[str, Any]
) -> None:
    """What of a core object can be changed once it exists."""
    name = metadata_of(old).name
    for part, value in parts.items():
        if value != getattr(old, part):
            admission.validate_core_part(resource, name, part, value)
    if isinstance(old, Node) and "spec" in parts:
        before, after = old.spec.providerID, parts["spec"].providerID
        if before and before != after:
            raise admission.forbidden_change(
                resource,
                name,
                "spec.providerID",
                'node updates may not change providerID except from "" to valid',
            )
    if isinstance(old, Pod) and "spec" in parts:
        _require_allowed_pod_change(resource, old, parts["spec"])


def _require_allowed_pod_change(resource: ApiResource, old: Pod, spec: Any) -> None:
    """Tolerations can be added and scheduling gates removed; all else stays."""
    same = msgspec.structs.replace(
        spec, tolerations=old.spec.tolerations, schedulingGates=old.spec.schedulingGates
    )
    kept = all(each in (spec.tolerations or ()) for each in old.spec.tolerations or ())
    fewer = all(each in (old.spec.schedulingGates or ()) for each in spec.schedulingGates or ())
    if same != old.spec or not kept or not fewer:
        raise admission.forbidden_change(
            resource,
            old.metadata.name,
            "spec",
            "pod updates may not change fields other than spec.tolerations (only additions to "
            "existing tolerations) and spec.schedulingGates (only removals)",
        )
