"""The client against a server that answers what a test scripts: what a real one does rarely."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import aclosing
from typing import Any

import pytest
from aiohttp import web

from wainwright.api.karpenter.nodepool import NodePool
from wainwright.api.kubernetes.cluster import Node
from wainwright.api.kubernetes.workloads import Pod
from wainwright.cluster import EventType, WatchEvent
from wainwright.errors import (
    EvictionBlockedError,
    KubernetesError,
    RequestForbiddenError,
    ResourceVersionGoneError,
    ServerUnavailableError,
    TooManyRequestsError,
)
from wainwright.kube.client import ApiServerAddress, KubeClient, split_lines

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


def talk(handler: Handler, case: Callable[[KubeClient], Coroutine[Any, Any, None]]) -> None:
    """Runs the case with a client of a server that has this handler for every request."""

    async def main() -> None:
        runner = web.ServerRunner(web.Server(handler))
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        _, port = runner.addresses[0][:2]
        try:
            address = ApiServerAddress(url=f"http://127.0.0.1:{port}")
            async with asyncio.timeout(20), KubeClient.connect(address) as client:
                await case(client)
        finally:
            await runner.cleanup()

    asyncio.run(main())


def status(code: int, message: str = "refused", **fields: Any) -> web.Response:
    body = {"kind": "Status", "message": message, "code": code, **fields}
    return web.json_response(body, status=code)


def answering(response: Callable[[], web.Response]) -> Handler:
    async def handle(_: web.BaseRequest) -> web.StreamResponse:
        return response()

    return handle


def streaming(*chunks: bytes, reset: bool = False) -> Handler:
    """A watch that sends these chunks and then ends, or breaks off."""

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
        if reset and request.transport is not None:
            request.transport.abort()
        return response

    return handle


def pod(name: str, version: int, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "resourceVersion": str(version), **metadata}}


def event(kind: str, obj: dict[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": obj}, ensure_ascii=False).encode() + b"\n"


async def watched(client: KubeClient) -> list[WatchEvent[Pod]]:
    async with aclosing(client.watch(Pod, "1")) as events:
        return [each async for each in events]


def expect_watch_error(handler: Handler, error: type[KubernetesError]) -> KubernetesError:
    found: list[KubernetesError] = []

    async def case(client: KubeClient) -> None:
        with pytest.raises(error) as caught:
            await watched(client)
        found.append(caught.value)

    talk(handler, case)
    return found[0]


def expect_events(handler: Handler) -> list[WatchEvent[Pod]]:
    found: list[WatchEvent[Pod]] = []

    async def case(client: KubeClient) -> None:
        found.extend(await watched(client))

    talk(handler, case)
    return found


# Watches


@pytest.mark.parametrize("size", [1, 2, 5, 100])
def test_lines_may_be_cut_anywhere(size: int) -> None:
    whole = b"first\nsecond\n\nthird\nincomplete"

    async def chunks() -> AsyncIterator[bytes]:
        for at in range(0, len(whole), size):
            yield whole[at : at + size]

    async def main() -> list[bytes]:
        return [line async for line in split_lines(chunks())]

    assert asyncio.run(main()) == [b"first", b"second", b"third"]


def test_an_event_may_be_larger_than_any_buffer() -> None:
    large = pod("a", 2, annotations={"data": "x" * 3_000_000})
    [found] = expect_events(streaming(event("ADDED", large)))
    assert found.object is not None
    assert found.object.metadata.annotations == large["metadata"]["annotations"]


def test_only_line_feeds_end_an_event() -> None:
    odd = pod("a", 2, annotations={"data": "next\u0085line\u2028separator"})
    [found] = expect_events(streaming(event("ADDED", odd)))
    assert found.object is not None
    assert found.object.metadata.annotations == odd["metadata"]["annotations"]


def test_of_a_bookmark_only_the_version_is_read() -> None:
    bookmark = {"metadata": {"resourceVersion": "9"}, "spec": {"containers": None}, "status": 5}
    [found] = expect_events(streaming(event("BOOKMARK", bookmark)))
    assert found == WatchEvent(EventType.BOOKMARK, "9")


def test_a_watch_that_the_server_closes_ends() -> None:
    assert expect_events(streaming()) == []


def test_a_connection_that_breaks_is_an_error() -> None:
    handler = streaming(event("ADDED", pod("a", 2)), b'{"type": "ADD', reset=True)
    assert expect_watch_error(handler, ServerUnavailableError).status == 0


def test_an_old_version_is_gone_as_an_event_and_as_a_response() -> None:
    expired = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
    expect_watch_error(streaming(event("ERROR", expired)), ResourceVersionGoneError)
    expect_watch_error(answering(lambda: status(410)), ResourceVersionGoneError)


def test_a_watch_may_be_refused_for_now() -> None:
    def busy() -> web.Response:
        response = status(429, "storage is (re)initializing")
        response.headers["Retry-After"] = "3"
        return response

    error = expect_watch_error(answering(busy), TooManyRequestsError)
    assert isinstance(error, TooManyRequestsError)
    assert not isinstance(error, EvictionBlockedError)
    assert error.retry_after == 3


# Lists


def test_a_list_is_read_page_by_page() -> None:
    asked: list[dict[str, str]] = []

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        asked.append(dict(request.query))
        number = len(asked)
        more = {"continue": f"page-{number + 1}"} if number < 3 else {}
        metadata = {"resourceVersion": "7", **more}
        return web.json_response({"metadata": metadata, "items": [pod(f"p{number}", number)]})

    async def case(client: KubeClient) -> None:
        found = await client.list(Pod)
        assert [each.metadata.name for each in found.items] == ["p1", "p2", "p3"]
        assert found.resource_version == "7"

    talk(handle, case)
    assert [query.get("continue") for query in asked] == [None, "page-2", "page-3"]


def test_a_list_that_expires_between_pages_is_read_at_once() -> None:
    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        if "continue" in request.query:
            return status(410)
        more = {"continue": "page-2"} if "limit" in request.query else {}
        items = [pod("a", 1)] if more else [pod("a", 1), pod("b", 2)]
        return web.json_response({"metadata": {"resourceVersion": "7", **more}, "items": items})

    async def case(client: KubeClient) -> None:
        found = await client.list(Pod)
        assert [each.metadata.name for each in found.items] == ["a", "b"]

    talk(handle, case)


def test_an_empty_list_may_be_null() -> None:
    page = {"metadata": {"resourceVersion": "7"}, "items": None}

    async def case(client: KubeClient) -> None:
        assert (await client.list(Pod)).items == []

    talk(answering(lambda: web.json_response(page)), case)


def test_parts_of_a_core_object_that_cannot_be_read_are_left_out() -> None:
    odd = {**pod("a", 1), "spec": {"taints": "none", "providerID": "aws:///a/i-1"}}

    async def case(client: KubeClient) -> None:
        found = await client.get(Node, "a")
        assert (found.spec.taints, found.spec.providerID) == (None, "aws:///a/i-1")

    talk(answering(lambda: web.json_response(odd)), case)


def test_an_object_of_ours_that_cannot_be_read_is_named() -> None:
    async def case(client: KubeClient) -> None:
        with pytest.raises(KubernetesError, match=r"nodepools\.karpenter\.sh 'broken'"):
            await client.get(NodePool, "broken")

    odd = {**pod("broken", 1), "spec": 5}
    talk(answering(lambda: web.json_response(odd)), case)


# Failures


@pytest.mark.parametrize("code", [500, 502, 503, 504])
def test_a_failing_server_is_unavailable(code: int) -> None:
    async def case(client: KubeClient) -> None:
        with pytest.raises(ServerUnavailableError) as caught:
            await client.get(Pod, "a", "default")
        assert caught.value.status == code

    talk(answering(lambda: web.Response(status=code, text="not JSON")), case)


@pytest.mark.parametrize("code", [400, 401, 403, 405])
def test_other_refusals_keep_their_status(code: int) -> None:
    async def case(client: KubeClient) -> None:
        with pytest.raises(RequestForbiddenError, match="because") as caught:
            await client.get(Pod, "a", "default")
        assert caught.value.status == code

    talk(answering(lambda: status(code, "because")), case)


def test_a_server_that_is_not_there_is_unavailable() -> None:
    async def main() -> None:
        address = ApiServerAddress(url="http://127.0.0.1:1")
        async with KubeClient.connect(address) as client:
            with pytest.raises(ServerUnavailableError):
                await client.list(Pod)
            with pytest.raises(ServerUnavailableError):
                await anext(client.watch(Pod, "1"))

    asyncio.run(main())


def test_the_token_is_sent() -> None:
    seen: list[str] = []

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        seen.append(request.headers["Authorization"])
        return web.json_response(pod("a", 1))

    async def main() -> None:
        runner = web.ServerRunner(web.Server(handle))
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        async with KubeClient.connect(ApiServerAddress(url=url, token="secret")) as client:
            await client.get(Pod, "a", "default")
        await runner.cleanup()

    asyncio.run(main())
    assert seen == ["Bearer secret"]
