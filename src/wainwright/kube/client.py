"""The cluster port over HTTP. Nothing here retries, caches or logs: that is done once, above it."""

import ssl
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, Final, Self

import aiohttp
import msgspec

from wainwright.api.api_resources import ApiResource, resource_of
from wainwright.api.kubernetes.object_reader import KUBERNETES_KINDS, decode_object
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
from wainwright.errors import KubernetesError, ResourceVersionGoneError, ServerUnavailableError
from wainwright.kube.responses import ApiStatus, error_from_status, read_status

PAGE_SIZE: Final = 500
"""Decoding a page takes 10 to 20 ms; the whole list at once would block every other task."""
REQUEST_SECONDS: Final = 30.0
WATCH_SECONDS: Final = 300
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
JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"


class ApiServerAddress(msgspec.Struct, frozen=True, kw_only=True):
    """Where an API server is, and who asks."""

    url: str
    ca_file: str = ""
    """Empty: the system's certificates."""
    token: str = ""


class _ListMetadata(msgspec.Struct, frozen=True):
    resourceVersion: str = ""
    next_page: str = msgspec.field(name="continue", default="")


class _ListPage(msgspec.Struct, frozen=True):
    metadata: _ListMetadata
    items: list[msgspec.Raw] | None = None


class _RawEvent(msgspec.Struct, frozen=True):
    type: str
    object: msgspec.Raw


class _MetadataOnly(msgspec.Struct, frozen=True):
    """All that may be read of a bookmark: its spec has nulls where the kind allows none."""

    metadata: ObjectMeta = ObjectMeta()


class KubeClient:
    """One API server, reached by one pool of connections."""

    def __init__(
        self, session: aiohttp.ClientSession, url: str, *, watch_seconds: int = WATCH_SECONDS
    ) -> None:
        self._session = session
        self._url = url
        self._watch_seconds = watch_seconds

    @classmethod
    @asynccontextmanager
    async def connect(
        cls, address: ApiServerAddress, *, watch_seconds: int = WATCH_SECONDS
    ) -> AsyncIterator[Self]:
        """A client until the block ends."""
        trust = ssl.create_default_context(cafile=address.ca_file or None)
        headers = {"Authorization": f"Bearer {address.token}"} if address.token else {}
        connector = aiohttp.TCPConnector(ssl=trust, limit=0)
        async with aiohttp.ClientSession(connector=connector, headers=headers) as session:
            yield cls(session, address.url, watch_seconds=watch_seconds)

    async def list(self, kind: type[ObjectT], namespace: str = "") -> ObjectList[ObjectT]:
        try:
            return await self._list(kind, namespace, PAGE_SIZE)
        except ResourceVersionGoneError:
            # The version of the first page was compacted away before the last was asked for.
            return await self._list(kind, namespace, 0)

    async def _list(
        self, kind: type[ObjectT], namespace: str, page_size: int
    ) -> ObjectList[ObjectT]:
        resource, items = resource_of(kind), list[ObjectT]()
        query = {"limit": str(page_size)} if page_size else {}
        while True:
            body = await self._request("GET", resource.path(namespace), query=query)
            page = msgspec.json.decode(body, type=_ListPage)
            items.extend(decode_as(resource, kind, item) for item in page.items or ())
            if not page.metadata.next_page:
                return ObjectList(items, page.metadata.resourceVersion)
            query["continue"] = page.metadata.next_page

    async def watch(
        self, kind: type[ObjectT], resource_version: str
    ) -> AsyncGenerator[WatchEvent[ObjectT], None]:
        resource = resource_of(kind)
        query = {
            "watch": "true",
            "resourceVersion": resource_version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(self._watch_seconds),
        }
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=REQUEST_SECONDS, sock_read=SILENCE_SECONDS
        )
        address = self._url + resource.path()
        with _connection_errors():
            async with self._session.get(address, params=query, timeout=timeout) as response:
                if response.status != HTTPStatus.OK:
                    raise _error_of(response, await response.read())
                try:
                    async for line in split_lines(response.content.iter_any()):
                        yield _decode_event(resource, kind, line)
                finally:
                    _abort(response)

    async def get(self, kind: type[ObjectT], name: str, namespace: str = "") -> ObjectT:
        resource = resource_of(kind)
        body = await self._request("GET", resource.path(namespace, name))
        return decode_as(resource, kind, body)

    async def create(self, obj: ObjectT) -> ObjectT:
        kind, manifest = type(obj), to_manifest(obj)
        resource, metadata = resource_of(kind), manifest.setdefault("metadata", {})
        for field in SERVER_SET_FIELDS:
            metadata.pop(field, None)
        path = resource.path(metadata.get("namespace") or "default")
        return decode_as(resource, kind, await self._request("POST", path, body=manifest))

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
        return decode_as(resource_of(kind), kind, body)

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
        headers = {} if body is None else {"Content-Type": content_type}
        timeout = aiohttp.ClientTimeout(total=REQUEST_SECONDS)
        with _connection_errors():
            async with self._session.request(
                method, self._url + path, data=data, headers=headers, params=query, timeout=timeout
            ) as response:
                content = await response.read()
                if response.status >= HTTPStatus.BAD_REQUEST:
                    raise _error_of(response, content)
                return content


class _connection_errors:  # noqa: N801 - used as a with statement, and cheaper than a generator
    """Turns what aiohttp raises into the port's error."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, (aiohttp.ClientError, TimeoutError)):
            raise ServerUnavailableError(str(error) or type(error).__name__) from error


def _abort(response: aiohttp.ClientResponse) -> None:
    """Ends a watch that has more to say. To close it would wait for the server to agree."""
    connection = response.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()


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


def decode_as(resource: ApiResource, kind: type[ObjectT], body: bytes | msgspec.Raw) -> ObjectT:
    """The object as its struct; of a core kind, without the parts that cannot be read."""
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        header = {"apiVersion": resource.api_version, "kind": resource.kind}
        value = msgspec.json.decode(body) | header
        is_core = (resource.api_version, resource.kind) in KUBERNETES_KINDS
        found = decode_object(value) if is_core else None
        if isinstance(found, kind):
            return found
        name = value.get("metadata", {}).get("name", "")
        raise KubernetesError(f"{resource.qualified_plural} {name!r}: {error}") from error


def _decode_event(resource: ApiResource, kind: type[ObjectT], line: bytes) -> WatchEvent[ObjectT]:
    event = msgspec.json.decode(line, type=_RawEvent)
    if event.type == "ERROR":
        raise error_from_status(msgspec.json.decode(event.object, type=ApiStatus), {})
    if event.type == EventType.BOOKMARK:
        bookmark = msgspec.json.decode(event.object, type=_MetadataOnly)
        return WatchEvent(EventType.BOOKMARK, bookmark.metadata.resourceVersion)
    found = decode_as(resource, kind, event.object)
    version = msgspec.json.decode(event.object, type=_MetadataOnly).metadata.resourceVersion
    return WatchEvent(EventType(event.type), version, found)


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
