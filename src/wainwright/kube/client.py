"""The cluster port over HTTP. Nothing here is cached or retried: that is done once, above it. The
one exception is a request whose credentials were refused, where there are others by now.
"""

import logging
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager
from copy import copy
from http import HTTPStatus
from random import Random
from typing import Any, Final, Generic, NamedTuple, Self

import aiohttp
import msgspec

from wainwright.api.api_resources import ApiResource, resource_of
from wainwright.api.kubernetes.workloads import Pod
from wainwright.api.wire import ObjectMeta, WireStruct, to_manifest
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
    InvalidObjectError,
    KubernetesError,
    ResourceVersionGoneError,
    ServerUnavailableError,
    WatchSilentError,
)
from wainwright.kube.api_server_access import ApiServerAddress
from wainwright.kube.connections import (
    DEFAULT_LIMIT,
    NO_LIMIT,
    Connections,
    MayWrite,
    RequestLimit,
    RequestLimiter,
)
from wainwright.kube.object_decoding import MetadataOnly, UnreadableObject, decode_as, decode_json
from wainwright.kube.responses import ApiStatus, error_from_status, read_status
from wainwright.metrics import API_REQUESTS, UNREADABLE_OBJECTS, MetricsRegistry

LOG: Final = logging.getLogger(__name__)

PAGE_SIZE: Final = 500
"""Decoding a page takes 10 to 20 ms; the whole list at once would block every other task."""
REQUEST_SECONDS: Final = 30.0
REQUEST_TIMEOUT: Final = aiohttp.ClientTimeout(total=REQUEST_SECONDS)
WATCH_SECONDS: Final = 300
"""At least, and twice as long at most, so that watches are not all opened again at once."""
SILENCE_SECONDS: Final = 90.0
"""Bookmarks come every 60 s: a watch that is silent for longer has lost its connection."""
SERVER_SET_FIELDS: Final = (
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)
INITIAL_EVENTS: Final = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
"""A watch that begins with every object; from Kubernetes 1.32 on, unless it is switched off."""
INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"
EVENT_TYPES: Final = frozenset(EventType)
JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"


class _ListMetadata(msgspec.Struct, frozen=True):
    resourceVersion: str = ""
    next_page: str = msgspec.field(name="continue", default="")


class _ListPage(msgspec.Struct, frozen=True):
    metadata: _ListMetadata
    items: list[msgspec.Raw] | None = None


class _DiscoveredKind(msgspec.Struct, frozen=True):
    name: str


class _Discovery(msgspec.Struct, frozen=True):
    resources: list[_DiscoveredKind]


class _RawEvent(msgspec.Struct, frozen=True):
    type: str
    object: msgspec.Raw


class _DecodedEvent(NamedTuple, Generic[ObjectT]):
    event: WatchEvent[ObjectT]
    unreadable: str = ""
    """The uid of an object that cannot be read; the event is then a bookmark."""
    ends_initial_objects: bool = False


class _InitialObjects(Generic[ObjectT]):
    """What a watch sends before the first change."""

    def __init__(self) -> None:
        self._items, self._unreadable = list[ObjectT](), set[str]()

    def add(self, decoded: "_DecodedEvent[ObjectT]") -> None:
        if decoded.event.object is not None:
            self._items.append(decoded.event.object)
        if decoded.unreadable:
            self._unreadable.add(decoded.unreadable)

    def listed(self, resource_version: str) -> ObjectList[ObjectT]:
        items = sorted(self._items, key=_namespace_and_name)
        return ObjectList(items, resource_version, frozenset(self._unreadable))


class _Body(NamedTuple):
    data: bytes | None
    content_type: str


class KubeClient:
    """One API server, reached by one pool of connections."""

    def __init__(
        self,
        connections: Connections,
        url: str,
        *,
        watch_seconds: int | None = None,
        page_size: int = PAGE_SIZE,
        limit: RequestLimit = DEFAULT_LIMIT,
        metrics: MetricsRegistry | None = None,
    ) -> None:
        self._metrics = metrics or MetricsRegistry()
        self._connections, self._url, self._page_size = connections, url, page_size
        self._limiter = RequestLimiter(limit)
        self._may_write: MayWrite | None = None
        self._watch_seconds, self._random = watch_seconds, Random()

    @classmethod
    @asynccontextmanager
    async def connect(
        cls,
        address: ApiServerAddress,
        *,
        watch_seconds: int | None = None,
        page_size: int = PAGE_SIZE,
        limit: RequestLimit = DEFAULT_LIMIT,
        metrics: MetricsRegistry | None = None,
    ) -> AsyncIterator[Self]:
        """A client until the block ends."""
        connections = Connections(address)
        try:
            yield cls(
                connections,
                address.url,
                watch_seconds=watch_seconds,
                page_size=page_size,
                limit=limit,
                metrics=metrics,
            )
        finally:
            await connections.close()

    def without_limit(self) -> "KubeClient":
        """By the same connections, for requests that must not wait behind others: a lease."""
        return KubeClient(self._connections, self._url, limit=NO_LIMIT, metrics=self._metrics)

    def for_leader(self, may_write: MayWrite) -> "KubeClient":
        """By the same connections and within the same limit, for who writes only while it leads:
        `may_write` is asked when a request that is no read is about to be sent, however long that
        has waited for the limit, for credentials or for a connection. NotLeaderError where it says
        no.
        """
        client = copy(self)
        client._may_write = may_write
        return client

    async def list(
        self, kind: type[ObjectT], namespace: str = "", *, name: str = ""
    ) -> ObjectList[ObjectT]:
        return await self._list(kind, namespace, _named(name))

    async def list_pods_on_node(self, node: str) -> ObjectList[Pod]:
        return await self._list(Pod, "", {"fieldSelector": f"spec.nodeName={node}"})

    async def _list(
        self, kind: type[ObjectT], namespace: str, selector: Mapping[str, str]
    ) -> ObjectList[ObjectT]:
        try:
            pages = {"limit": str(self._page_size)}
            return await self._list_pages(kind, namespace, {**selector, **pages})
        except ResourceVersionGoneError:
            # The version of the first page was compacted away before the last was asked for.
            return await self._list_pages(kind, namespace, dict(selector))

    async def _list_pages(
        self, kind: type[ObjectT], namespace: str, query: dict[str, str]
    ) -> ObjectList[ObjectT]:
        resource, items, unreadable = resource_of(kind), list[ObjectT](), set[str]()
        while True:
            body = await self._request("GET", resource.path(namespace), query=query)
            page = decode_json(body, _ListPage)
            for item in page.items or ():
                try:
                    items.append(self._decode(resource, kind, item))
                except UnreadableObject as error:
                    LOG.warning("skipped in the list: %s", error)
                    unreadable.add(error.metadata.uid)
            if not page.metadata.next_page:
                version = page.metadata.resourceVersion
                return ObjectList(items, version, frozenset(unreadable))
            query["continue"] = page.metadata.next_page

    async def watch(
        self, kind: type[ObjectT], resource_version: str, namespace: str = "", *, name: str = ""
    ) -> AsyncGenerator[WatchEvent[ObjectT], None]:
        query = {"resourceVersion": resource_version, **_named(name)}
        resource = resource_of(kind)
        async with aclosing(self._event_lines(resource.path(namespace), query)) as lines:
            async for line in lines:
                yield self._decode_event(resource, kind, line).event

    async def list_and_watch(
        self, kind: type[ObjectT], *, namespace: str = "", name: str = ""
    ) -> AsyncGenerator[ObjectList[ObjectT] | WatchEvent[ObjectT], None]:
        """By one request, however many objects there are, and without a list of the whole in the
        API server; by a list and a watch where the server is too old for that.
        """
        events = self._watch_list(kind, namespace, name)
        try:
            first = await anext(events, None)
        except InvalidObjectError:
            listed = await self.list(kind, namespace, name=name)
            yield listed
            events = self.watch(kind, listed.resource_version, namespace, name=name)
        else:
            if first is None:
                return
            yield first
        async with aclosing(events):
            async for event in events:
                yield event

    async def _watch_list(
        self, kind: type[ObjectT], namespace: str, name: str
    ) -> AsyncGenerator[ObjectList[ObjectT] | WatchEvent[ObjectT], None]:
        """Nothing, where the connection ends before everything was sent."""
        resource, initial = resource_of(kind), _InitialObjects[ObjectT]()
        path, query = resource.path(namespace), {**INITIAL_EVENTS, **_named(name)}
        is_complete = False
        async with aclosing(self._event_lines(path, query)) as lines:
            async for line in lines:
                decoded = self._decode_event(resource, kind, line)
                if is_complete:
                    yield decoded.event
                    continue
                initial.add(decoded)
                if decoded.ends_initial_objects:
                    is_complete = True
                    yield initial.listed(decoded.event.resource_version)

    async def _event_lines(
        self, path: str, query: Mapping[str, str]
    ) -> AsyncGenerator[bytes, None]:
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(self._watch_seconds or self._usual_watch_seconds()),
            **query,
        }
        limits = aiohttp.ClientTimeout(
            total=None, sock_connect=REQUEST_SECONDS, sock_read=SILENCE_SECONDS
        )
        async with self._send("GET", path, query=query, limits=limits) as response:
            connection = response.connection
            transport = connection.transport if connection is not None else None
            try:
                async for line in split_lines(response.content.iter_any()):
                    yield line
            except aiohttp.SocketTimeoutError as error:
                raise WatchSilentError(
                    f"{self._url}: no sign of life for {SILENCE_SECONDS:.0f} s"
                ) from error
            finally:
                if transport is not None:
                    # To close it would wait until the server agrees, which may have more to say.
                    transport.abort()

    def _usual_watch_seconds(self) -> int:
        return WATCH_SECONDS + int(WATCH_SECONDS * self._random.random())

    async def get(self, kind: type[ObjectT], name: str, namespace: str = "") -> ObjectT:
        resource = resource_of(kind)
        body = await self._request("GET", resource.path(namespace, name))
        return self._decode(resource, kind, body)

    async def create(self, obj: ObjectT) -> ObjectT:
        kind, manifest = type(obj), to_manifest(obj)
        resource, metadata = resource_of(kind), manifest.setdefault("metadata", {})
        for field in SERVER_SET_FIELDS:
            metadata.pop(field, None)
        path = resource.path(metadata.get("namespace") or "default")
        return self._decode(resource, kind, await self._request("POST", path, body=manifest))

    async def patch(
        self, kind: type[ObjectT], name: str, patch: MergePatch, namespace: str = ""
    ) -> ObjectT:
        return await self._patch(kind, patch, resource_of(kind).path(namespace, name))

    async def patch_status(
        self, kind: type[ObjectT], name: str, patch: MergePatch, namespace: str = ""
    ) -> ObjectT:
        return await self._patch(kind, patch, resource_of(kind).path(namespace, name, "status"))

    async def _patch(self, kind: type[ObjectT], patch: MergePatch, path: str) -> ObjectT:
        body = await self._request("PATCH", path, body=patch, content_type=MERGE_PATCH)
        return self._decode(resource_of(kind), kind, body)

    async def delete(
        self,
        kind: type[WireStruct],
        name: str,
        namespace: str = "",
        *,
        preconditions: Preconditions = NO_PRECONDITIONS,
        grace_period: int | None = None,
    ) -> None:
        options = _delete_options(preconditions, grace_period)
        await self._request("DELETE", resource_of(kind).path(namespace, name), body=options)

    async def evict(
        self, name: str, namespace: str, *, uid: str = "", grace_period: int | None = None
    ) -> None:
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": _delete_options(Preconditions(uid=uid), grace_period),
        }
        path = resource_of(Pod).path(namespace, name, "eviction")
        await self._request("POST", path, body=eviction)

    async def bind(self, name: str, namespace: str, node: str) -> None:
        """Assigns the pod to a node, as a scheduler does; ConflictError if it has one."""
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "namespace": namespace},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        path = resource_of(Pod).path(namespace, name, "binding")
        await self._request("POST", path, body=binding)

    async def server_version(self) -> str:
        """Of the API server, such as 1.33."""
        body = decode_json(await self._request("GET", "/version"), dict[str, Any])
        return f"{body['major']}.{body['minor'].rstrip('+')}"

    async def discover(self, api_version: str) -> frozenset[str]:
        """The plural names of the kinds of a group and version, such as karpenter.sh/v1;
        ObjectNotFoundError if the server has none.
        """
        body = await self._request("GET", f"/apis/{api_version}")
        return frozenset(each.name for each in decode_json(body, _Discovery).resources)

    def _decode(
        self, resource: ApiResource, kind: type[ObjectT], body: bytes | msgspec.Raw
    ) -> ObjectT:
        try:
            return decode_as(resource, kind, body)
        except UnreadableObject:
            self._metrics.add(UNREADABLE_OBJECTS, kind=resource.kind)
            raise

    def _decode_event(
        self, resource: ApiResource, kind: type[ObjectT], line: bytes
    ) -> _DecodedEvent[ObjectT]:
        event = decode_json(line, _RawEvent)
        if event.type == "ERROR":
            raise error_from_status(decode_json(event.object, ApiStatus), {})
        if event.type == EventType.BOOKMARK:
            return _decode_bookmark(event.object)
        if event.type not in EVENT_TYPES:
            raise ServerUnavailableError(f"a watch event of the unknown type {event.type!r}")
        change = EventType(event.type)
        try:
            found = self._decode(resource, kind, event.object)
        except UnreadableObject as error:
            LOG.warning("skipped in the watch: %s", error)
            return _without_object(change, error.metadata)
        metadata: ObjectMeta = found.metadata  # type: ignore[attr-defined] # every kind has it
        return _DecodedEvent(WatchEvent(change, metadata.resourceVersion, found))

    async def _request(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        content_type: str = JSON,
        query: Mapping[str, str] | None = None,
    ) -> bytes:
        """The body of a successful response; every other raises."""
        data = None if body is None else msgspec.json.encode(body)
        sent = _Body(data, content_type)
        async with self._send(method, path, sent, query=query) as response:
            return await response.read()

    @asynccontextmanager
    async def _send(
        self,
        method: str,
        path: str,
        body: "_Body | None" = None,
        *,
        query: Mapping[str, str] | None = None,
        limits: aiohttp.ClientTimeout = REQUEST_TIMEOUT,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """A successful response. One that refuses the credentials is asked for once more if there
        are others: the request was not carried out.
        """
        may_write = None if method == "GET" else self._may_write
        await self._limiter.wait()
        with _connection_errors(self._url):
            for attempt in (1, 2):
                session, credential, options = await self._connections.prepare()
                if body is not None and body.data is not None:
                    options["headers"]["Content-Type"] = body.content_type
                    options["data"] = body.data
                async with session.request(
                    method,
                    self._url + path,
                    params=query,
                    timeout=limits,
                    allow_redirects=False,  # an API server has none, and the token is for it alone
                    trace_request_ctx=may_write,
                    **options,
                ) as response:
                    self._metrics.add(API_REQUESTS, method=method, code=str(response.status))
                    if response.status < HTTPStatus.MULTIPLE_CHOICES:
                        yield response
                        return
                    is_refused = response.status == HTTPStatus.UNAUTHORIZED and attempt == 1
                    if not (is_refused and await self._connections.renew(credential)):
                        raise _error_of(response, await response.read())


class _connection_errors:  # noqa: N801 - used as a with statement, and cheaper than a generator
    """Turns what aiohttp raises into the port's error."""

    def __init__(self, url: str) -> None:
        self._url = url

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, (aiohttp.ClientError, TimeoutError)):
            said = str(error) or type(error).__name__
            raise ServerUnavailableError(f"{self._url}: {said}") from error


def _error_of(response: aiohttp.ClientResponse, body: bytes) -> KubernetesError:
    return error_from_status(read_status(response.status, body), response.headers)


def _delete_options(preconditions: Preconditions, grace_period: int | None) -> dict[str, Any]:
    stated = {"uid": preconditions.uid, "resourceVersion": preconditions.resource_version}
    wanted = {key: value for key, value in stated.items() if value}
    return {
        "propagationPolicy": "Background",
        **({"preconditions": wanted} if wanted else {}),
        **({} if grace_period is None else {"gracePeriodSeconds": grace_period}),
    }


def _namespace_and_name(obj: WireStruct) -> tuple[str, str]:
    metadata: ObjectMeta = obj.metadata  # type: ignore[attr-defined] # every kind has metadata
    return metadata.namespace, metadata.name


def _named(name: str) -> dict[str, str]:
    return {"fieldSelector": f"metadata.name={name}"} if name else {}


def _decode_bookmark(body: msgspec.Raw) -> _DecodedEvent[ObjectT]:
    bookmark = decode_json(body, MetadataOnly)
    is_end = (bookmark.metadata.annotations or {}).get(INITIAL_EVENTS_END) == "true"
    marked = WatchEvent[ObjectT](EventType.BOOKMARK, bookmark.metadata.resourceVersion)
    return _DecodedEvent(marked, ends_initial_objects=is_end)


def _without_object(change: EventType, metadata: ObjectMeta) -> _DecodedEvent[ObjectT]:
    """The watch goes on behind it, and what was last known of the object stays until it is gone."""
    version = metadata.resourceVersion
    if change is EventType.DELETED:
        return _DecodedEvent(WatchEvent[ObjectT](change, version, unreadable=metadata))
    passed = WatchEvent[ObjectT](EventType.BOOKMARK, version)
    return _DecodedEvent(passed, unreadable=metadata.uid)


async def split_lines(chunks: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """Whole lines, however long: aiohttp's `readline` gives up at half a megabyte."""
    pending: list[bytes] = []
    async for chunk in chunks:
        if b"\n" not in chunk:
            pending.append(chunk)
            continue
        for line in _complete_lines(pending, chunk):
            yield line


def _complete_lines(pending: list[bytes], chunk: bytes) -> Iterator[bytes]:
    """Lines that end in the chunk; what is left over stays in `pending`.

    Split at line feeds only: Go escapes some line separators of Unicode, but not U+0085.
    """
    lines = b"".join((*pending, chunk)).split(b"\n")
    pending[:] = [lines.pop()]
    return (line for line in lines if line)
