"""The cache of the cluster over HTTP, and what happens to connections and servers meanwhile.

Time is virtual also here: both ends are on one event loop, so nothing is under way while it waits.
"""

import asyncio
from collections.abc import Callable, Coroutine
from itertools import pairwise
from typing import Any

import pytest
from aiohttp import web
from tests.support.scripted_api import event, page, pod, serve, status, stream

from wainwright.api.karpenter.nodepool import NodePool
from wainwright.api.kubernetes.workloads import Pod
from wainwright.api.wire import WireStruct
from wainwright.clock import VirtualClock
from wainwright.controllers.informer_cache import InformerCache, metadata_of
from wainwright.errors import ServerUnavailableError
from wainwright.kube.api_server_access import ApiServerAddress
from wainwright.kube.client import KubeClient

Script = Callable[[web.BaseRequest], Coroutine[Any, Any, web.StreamResponse]]
EXPIRED = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}


class ScriptedServer:
    """Lists what is in `pods`, and answers each watch by the next of its scripts; the last one is
    repeated."""

    def __init__(self, *watches: Script) -> None:
        self.watches = watches
        self.pods = {"a": 1}
        self.version = 10
        self.lists: list[float] = []
        self.resumed: list[str] = []
        """The versions that watches began from."""

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if "watch" in request.query:
            script = self.watches[min(len(self.resumed), len(self.watches) - 1)]
            self.resumed.append(request.query["resourceVersion"])
            return await script(request)
        self.lists.append(asyncio.get_running_loop().time())
        items = [pod(name, version, uid=name) for name, version in self.pods.items()]
        return page(self.version, *items)


def follow(server: ScriptedServer, seconds: float, kind: type[WireStruct] = Pod) -> list[str]:
    """The names of the pods, or objects of that kind, that a cache has after so long."""
    clock = VirtualClock()

    async def main() -> list[str]:
        async with (
            serve(server.handle) as url,
            KubeClient.connect(ApiServerAddress(url=url)) as client,
        ):
            cache = InformerCache(client, clock, [kind])
            task = asyncio.create_task(cache.run())
            await clock.sleep(seconds)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            return sorted(metadata_of(each).name for each in cache.all(kind))

    try:
        return clock.run(main())
    finally:
        clock.close()


def added(name: str, version: int) -> bytes:
    return event("ADDED", pod(name, version, uid=name))


async def quiet(request: web.BaseRequest) -> web.StreamResponse:
    """A watch on which nothing happens for a day."""
    response = await stream(request)
    await asyncio.sleep(86_400)
    return response


def sending(*chunks: bytes, then: str = "close") -> Script:
    """A watch that sends these chunks and is then closed, reset, or never heard of again."""

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        response = await stream(request, *chunks)
        if then == "hang":
            await asyncio.sleep(86_400)
        if then == "reset" and request.transport is not None:
            request.transport.abort()
        return response

    return handle


def test_a_watch_resumes_from_the_last_event_or_bookmark() -> None:
    bookmark = event("BOOKMARK", {"metadata": {"resourceVersion": "15"}})
    server = ScriptedServer(sending(added("b", 12), bookmark), sending(added("c", 17)), quiet)
    assert follow(server, 60) == ["a", "b", "c"]
    assert (len(server.lists), server.resumed) == (1, ["10", "15", "17"])


def test_a_connection_that_breaks_in_an_event_is_resumed_before_it() -> None:
    half = added("c", 13)[:20]
    server = ScriptedServer(
        sending(added("b", 12), half, then="reset"), sending(added("c", 13)), quiet
    )
    assert follow(server, 60) == ["a", "b", "c"]
    assert server.resumed == ["10", "12", "13"]


def test_an_object_that_cannot_be_read_any_more_is_known_until_it_is_deleted() -> None:
    """A NodePool whose deletion was missed would get nodes launched until the next list."""
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    template = {"spec": {"nodeClassRef": reference, "requirements": []}}

    def pool(version: int, spec: Any) -> dict[str, Any]:
        return {**pod("a", version, uid="a"), "spec": spec}

    sent = [
        event("ADDED", pool(12, {"template": template})),
        event("MODIFIED", pool(13, {"weight": "much"})),
        event("DELETED", pool(14, {"weight": "much"})),
    ]
    for count, names in ((2, ["a"]), (3, [])):
        server = ScriptedServer(sending(*sent[:count], then="hang"))
        server.pods = {}
        assert follow(server, 60, NodePool) == names


def silent_after(server: ScriptedServer, name: str, version: int) -> Script:
    """A watch that shows one pod, which is listed from then on, and then nothing for ever."""

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        server.pods[name], server.version = version, version
        return await sending(added(name, version), then="hang")(request)

    return handle


@pytest.mark.parametrize(("seconds", "found"), [(89, ["a", "b"]), (92, ["a", "b", "c"])])
def test_a_connection_that_is_half_open_is_found_within_90_seconds(
    seconds: float, found: list[str]
) -> None:
    """Bookmarks come every minute, so that silence means that nobody is there."""
    server = ScriptedServer(quiet)
    server.watches = (silent_after(server, "b", 12), sending(added("c", 13)), quiet)
    assert follow(server, seconds) == found


def test_a_version_that_is_gone_is_listed_anew_and_missed_deletions_are_found() -> None:
    async def gone_as_response(_: web.BaseRequest) -> web.StreamResponse:
        return status(410)

    for gone in (gone_as_response, sending(event("ERROR", EXPIRED))):
        server = ScriptedServer(sending(added("b", 12)), gone, quiet)

        async def changing(request: web.BaseRequest, gone: Any = gone, server: Any = server) -> Any:
            server.pods, server.version = {"b": 12, "d": 20}, 21
            return await gone(request)

        server.watches = (server.watches[0], changing, quiet)
        assert follow(server, 60) == ["b", "d"]
        assert (len(server.lists), server.resumed) == (2, ["10", "12", "21"])


def test_a_server_that_was_restored_from_a_backup_is_listed_anew() -> None:
    """Its versions begin again below ours: it has nothing to say of them until they are passed, and
    what it lists would be taken for older than what is known."""
    server = ScriptedServer(quiet)

    async def restored(request: web.BaseRequest) -> web.StreamResponse:
        server.pods, server.version = {"a": 1, "before": 2}, 5
        return await quiet(request)

    server.watches = (sending(added("lost", 12)), restored, quiet)
    assert follow(server, 95) == ["a", "before"]
    assert server.resumed == ["10", "12", "5"]


def test_a_server_that_calls_every_version_gone_is_not_flooded() -> None:
    server = ScriptedServer(sending(event("ERROR", EXPIRED)))
    assert follow(server, 120) == ["a"]
    assert len(server.lists) <= 12
    waits = [late - early for early, late in pairwise(server.lists)]
    assert waits[0] < 1 < waits[4] < 30


def test_a_server_that_ends_every_watch_at_once_is_not_flooded() -> None:
    server = ScriptedServer(sending())
    assert follow(server, 120) == ["a"]
    assert len(server.resumed) <= 10
    assert len(server.lists) == 1


def test_a_server_that_fails_is_tried_less_and_less_and_then_as_before() -> None:
    attempts: list[float] = []

    async def failing(request: web.BaseRequest) -> web.StreamResponse:
        attempts.append(asyncio.get_running_loop().time())
        if len(attempts) < 6:
            return status(500)
        if len(attempts) == 6:
            return await stream(request, added("b", 12))
        return status(500)

    assert follow(ScriptedServer(failing), 40) == ["a", "b"]
    waits = [late - early for early, late in pairwise(attempts)]
    assert all(0.8 * 2**n <= 2 * wait <= 1.01 * 2**n for n, wait in enumerate(waits[:5]))
    assert waits[5] < 0.1, "after an event the watch is resumed at once"
    assert waits[6] <= 0.51, "and a failure counts as the first"


def test_a_refusal_for_now_is_waited_for_as_long_as_it_says() -> None:
    attempts: list[float] = []

    async def busy(_: web.BaseRequest) -> web.StreamResponse:
        attempts.append(asyncio.get_running_loop().time())
        response = status(429, "storage is (re)initializing")
        response.headers["Retry-After"] = "7"
        return response

    follow(ScriptedServer(busy, quiet), 60)
    assert len(attempts) == 1
    server = ScriptedServer(busy)
    attempts.clear()
    follow(server, 20)
    assert attempts[1] - attempts[0] >= 7


def test_processes_with_other_seeds_wait_for_other_times() -> None:
    def first_wait(seed: str) -> float:
        clock, attempts = VirtualClock(), list[float]()

        async def handle(_: web.BaseRequest) -> web.StreamResponse:
            attempts.append(clock.now())
            return status(503)

        async def main() -> None:
            async with (
                serve(handle) as url,
                KubeClient.connect(ApiServerAddress(url=url)) as client,
            ):
                task = asyncio.create_task(InformerCache(client, clock, [Pod], seed).run())
                await clock.sleep(1)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

        clock.run(main())
        clock.close()
        return attempts[1] - attempts[0]

    assert len({round(first_wait(seed), 3) for seed in "abcde"}) == 5


def test_whoever_reads_too_slowly_loses_the_watch_and_no_event() -> None:
    """The server is held back by what is not read, and gives up; nothing piles up in between."""
    large = "x" * 200_000

    async def slow(request: web.BaseRequest) -> web.StreamResponse:
        first = int(request.query["resourceVersion"]) + 1
        response = await stream(request)
        for version in range(first, 111):
            try:
                async with asyncio.timeout(5):
                    annotations = {"large": large}
                    await response.write(
                        event("MODIFIED", pod("a", version, uid="a", annotations=annotations))
                    )
            except TimeoutError:
                assert request.transport is not None
                request.transport.abort()
                break
        return response

    clock, seen, cut_off = VirtualClock(), list[int](), 0

    async def main() -> None:
        nonlocal cut_off
        async with (
            serve(slow) as url,
            KubeClient.connect(ApiServerAddress(url=url)) as client,
        ):
            version = "10"
            while version != "110":
                try:
                    async for each in client.watch(Pod, version):
                        version = each.resource_version
                        seen.append(int(version))
                        await clock.sleep(10 if len(seen) < 30 else 0)
                except ServerUnavailableError:
                    cut_off += 1

    clock.run(main())
    clock.close()
    assert seen == list(range(11, 111))
    assert cut_off > 0
