"""The client against a server that answers what a test scripts: what a real one does rarely."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import aclosing
from typing import Any

import pytest
from aiohttp import web
from tests.support.scripted_api import (
    Handler,
    answering,
    event,
    page,
    pod,
    serve,
    status,
    stream,
    streaming,
)

from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.karpenter.nodepool import NodePool
from wainwright.api.kubernetes.cluster import Node
from wainwright.api.kubernetes.workloads import Pod
from wainwright.api.wire import ObjectMeta
from wainwright.cluster import EventType, ObjectList, WatchEvent
from wainwright.errors import (
    EvictionBlockedError,
    KubernetesError,
    RequestForbiddenError,
    ResourceVersionGoneError,
    ServerUnavailableError,
    TooManyRequestsError,
)
from wainwright.kube.api_server_access import ApiServerAddress
from wainwright.kube.client import KubeClient, split_lines
from wainwright.metrics import UNREADABLE_OBJECTS, MetricsRegistry


def talk(handler: Handler, case: Callable[[KubeClient], Coroutine[Any, Any, None]]) -> None:
    """Runs the case with a client of a server that has this handler for every request."""

    async def main() -> None:
        async with (
            asyncio.timeout(20),
            serve(handler) as url,
            KubeClient.connect(ApiServerAddress(url=url)) as client,
        ):
            await case(client)

    asyncio.run(main())


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


@pytest.mark.parametrize(("stated", "seconds"), [("3", 3), ("²", 0), ("9" * 5000, 0)])
def test_a_watch_may_be_refused_for_now(stated: str, seconds: float) -> None:
    def busy() -> web.Response:
        response = status(429, "storage is (re)initializing")
        response.headers["Retry-After"] = stated
        return response

    error = expect_watch_error(answering(busy), TooManyRequestsError)
    assert isinstance(error, TooManyRequestsError)
    assert not isinstance(error, EvictionBlockedError)
    assert error.retry_after == seconds


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
    nothing = {"metadata": {"resourceVersion": "7"}, "items": None}

    async def case(client: KubeClient) -> None:
        assert (await client.list(Pod)).items == []

    talk(answering(lambda: web.json_response(nothing)), case)


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


def nodepool(name: str, version: int, spec: Any) -> dict[str, Any]:
    return {**pod(name, version, uid=f"uid-{name}"), "spec": spec}


TEMPLATE = {
    "spec": {
        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
        "requirements": [],
    }
}


def test_a_list_without_an_object_that_cannot_be_read_says_so() -> None:
    good, bad = nodepool("a", 1, {"template": TEMPLATE}), nodepool("b", 2, {"weight": "much"})

    async def case(client: KubeClient) -> None:
        found = await client.list(NodePool)
        assert [each.metadata.name for each in found.items] == ["a"]
        assert found.unreadable == {"uid-b"}

    talk(answering(lambda: page(7, good, bad)), case)


INITIAL_END = {
    "kind": "NodePool",
    "metadata": {"resourceVersion": "7", "annotations": {"k8s.io/initial-events-end": "true"}},
}


def test_a_watch_that_begins_with_all_objects_is_a_list_and_then_a_watch() -> None:
    pools = [nodepool(name, 1, {"template": TEMPLATE}) for name in ("b", "a")]
    bad, later = nodepool("c", 2, {"weight": "much"}), nodepool("d", 8, {"template": TEMPLATE})

    async def case(client: KubeClient) -> None:
        async with aclosing(client.list_and_watch(NodePool)) as events:
            first, second = [each async for each in events]
        assert isinstance(first, ObjectList)
        assert [each.metadata.name for each in first.items] == ["a", "b"]
        assert first.resource_version == "7"
        assert first.unreadable == {bad["metadata"]["uid"]}, "and nobody takes it for deleted"
        assert isinstance(second, WatchEvent)
        assert (second.type, second.resource_version) == (EventType.ADDED, "8")

    sent = [event("ADDED", each) for each in (*pools, bad)]
    talk(streaming(*sent, event("BOOKMARK", INITIAL_END), event("ADDED", later)), case)


def test_a_connection_that_ends_before_all_objects_were_sent_lists_nothing() -> None:
    """What was not sent yet would be taken for deleted."""
    pool, bookmark = (
        nodepool("a", 1, {"template": TEMPLATE}),
        {"metadata": {"resourceVersion": "3"}},
    )

    async def case(client: KubeClient) -> None:
        async with aclosing(client.list_and_watch(NodePool)) as events:
            assert [each async for each in events] == []

    talk(streaming(event("ADDED", pool), event("BOOKMARK", bookmark)), case)


def test_one_object_that_cannot_be_read_does_not_end_a_watch() -> None:
    good, bad = nodepool("a", 3, {"template": TEMPLATE}), nodepool("b", 2, {"weight": "much"})

    async def case(client: KubeClient) -> None:
        async with aclosing(client.watch(NodePool, "1")) as events:
            found = [(each.type, each.resource_version) async for each in events]
        assert found == [(EventType.BOOKMARK, "2"), (EventType.ADDED, "3")]

    talk(streaming(event("ADDED", bad), event("ADDED", good)), case)


def test_the_deletion_of_an_object_that_cannot_be_read_is_an_event() -> None:
    """Left out, the last version that could be read would be known until the next list."""
    bad = nodepool("a", 4, {"weight": "much"})
    gone = nodepool("a", 5, {"weight": "much"})

    async def case(client: KubeClient) -> None:
        async with aclosing(client.watch(NodePool, "1")) as events:
            changed, deleted = [each async for each in events]
        assert changed == WatchEvent(EventType.BOOKMARK, "4")
        assert (deleted.type, deleted.resource_version) == (EventType.DELETED, "5")
        assert (deleted.object, deleted.unreadable) == (None, ObjectMeta(**gone["metadata"]))

    talk(streaming(event("MODIFIED", bad), event("DELETED", gone)), case)


def test_objects_that_cannot_be_read_are_counted_by_kind() -> None:
    bad, metrics = nodepool("a", 4, {"weight": "much"}), MetricsRegistry()

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        if "watch" in request.query:
            return await stream(request, event("MODIFIED", bad), event("ADDED", pod("b", 5)))
        return web.json_response(bad) if request.path.endswith("/a") else page(7, bad, bad)

    async def main() -> None:
        async with (
            asyncio.timeout(20),
            serve(handle) as url,
            KubeClient.connect(ApiServerAddress(url=url), metrics=metrics) as client,
        ):
            await client.list(NodePool)
            assert metrics.value(UNREADABLE_OBJECTS, kind="NodePool") == 2
            async with aclosing(client.watch(NodePool, "1")) as events:
                assert len([each async for each in events]) == 2
            with pytest.raises(KubernetesError):
                await client.without_limit().get(NodePool, "a")
            await watched(client)

    asyncio.run(main())
    assert metrics.value(UNREADABLE_OBJECTS, kind="NodePool") == 5
    assert metrics.value(UNREADABLE_OBJECTS, kind="Pod") == 0


def test_an_event_of_an_unknown_type_is_an_error_of_the_server() -> None:
    """Whoever watches begins anew after a pause; any other error would end all watches."""

    async def case(client: KubeClient) -> None:
        async with aclosing(client.watch(NodePool, "1")) as events:
            with pytest.raises(ServerUnavailableError, match="unknown type 'RENAMED'"):
                await anext(events)

    talk(streaming(event("RENAMED", nodepool("a", 2, {"template": TEMPLATE}))), case)


def test_a_status_that_cannot_be_read_is_left_out() -> None:
    odd = {
        **nodepool("a", 1, {"template": TEMPLATE}),
        "status": {"nodes": 3, "resources": {"cpu": [1]}, "conditions": [{"type": 5}]},
    }

    async def case(client: KubeClient) -> None:
        found = await client.get(NodePool, "a")
        assert found.status is not None
        assert (found.status.nodes, found.status.conditions) == (3, [])

    talk(answering(lambda: web.json_response(odd)), case)


def test_a_claim_is_read_whatever_it_says() -> None:
    """Left out, it would be taken for deleted, and its instance for nobody's."""
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    spec = {
        "nodeClassRef": reference,
        "requirements": [{"key": 5}, {"key": "a", "operator": "Exists"}],
    }
    odd = {**pod("a", 1), "spec": spec, "status": {"providerID": "aws:///a/i-1", "capacity": 7}}

    async def case(client: KubeClient) -> None:
        found = await client.get(NodeClaim, "a")
        assert found.status is not None
        assert (found.status.providerID, len(found.spec.requirements)) == ("aws:///a/i-1", 1)

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


def test_a_page_of_somebody_else_is_no_answer() -> None:
    """A proxy that wants a login answers with 200 and HTML."""

    async def case(client: KubeClient) -> None:
        for request in (
            lambda: client.list(Pod),
            lambda: client.get(Pod, "a", "default"),
            lambda: watched(client),
        ):
            with pytest.raises(ServerUnavailableError, match="not of an API server"):
                await request()

    talk(answering(lambda: web.Response(text="<html>\nlog in\n</html>")), case)


def test_the_token_is_not_carried_elsewhere() -> None:
    seen: list[str] = []

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        seen.append(request.path)
        return web.Response(status=302, headers={"Location": "/elsewhere"})

    async def case(client: KubeClient) -> None:
        with pytest.raises(RequestForbiddenError) as caught:
            await client.list(Pod)
        assert caught.value.status == 302

    talk(handle, case)
    assert seen == ["/api/v1/pods"]
