"""Watches of our cache on a real API server, which restarts, forgets, and is not read."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress

import msgspec
import pytest
from tests.support.control_plane import ControlPlane

from wainwright.api.kubernetes.operations import ConfigMap
from wainwright.api.wire import ObjectMeta
from wainwright.clock import SystemClock
from wainwright.controllers.informer_cache import Change, InformerCache
from wainwright.errors import ResourceVersionGoneError, ServerUnavailableError
from wainwright.kube import client as kube_client
from wainwright.kube.client import KubeClient
from wainwright.kube.kubeconfig import load_address
from wainwright.metrics import API_REQUESTS, MetricsRegistry

WITHIN = 30.0


@pytest.fixture
def plane(spare_control_plane: ControlPlane) -> ControlPlane:
    """Not that of other tests, which would not survive its restarts."""
    return spare_control_plane


def config(name: str, data: str = "") -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace="default"), data={"key": data})


def with_client(plane: ControlPlane, case: Callable[[KubeClient], Awaitable[None]]) -> None:
    async def main() -> None:
        address = load_address(kubeconfig=str(plane.kubeconfig), environment={})
        async with asyncio.timeout(2 * WITHIN), KubeClient.connect(address) as client:
            await case(client)

    asyncio.run(main())


class Watched:
    """A cache of the ConfigMaps of the default namespace."""

    def __init__(self, client: KubeClient) -> None:
        self.cache = InformerCache(client, SystemClock(), [ConfigMap], source=client)
        self._changed = asyncio.Event()
        self.cache.subscribe(ConfigMap, self._note)
        self._task = asyncio.create_task(self.cache.run())

    def _note(self, _: Change[ConfigMap]) -> None:
        self._changed.set()

    @property
    def names(self) -> set[str]:
        found = self.cache.all(ConfigMap)
        return {each.metadata.name for each in found if each.metadata.namespace == "default"}

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(WITHIN):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


def test_a_kind_is_read_by_one_request_and_by_two_where_the_server_is_too_old(
    plane: ControlPlane,
) -> None:
    """Kubernetes before 1.32 refuses a watch that begins with all objects."""

    async def requests_until_followed(*names: str) -> list[float]:
        metrics = MetricsRegistry()
        address = load_address(kubeconfig=str(plane.kubeconfig), environment={})
        async with KubeClient.connect(address, metrics=metrics, page_size=1) as client:
            watched = Watched(client)
            await watched.until(lambda: set(names[:-1]) <= watched.names)
            await client.create(config(names[-1]))
            await watched.until(lambda: set(names) <= watched.names)
            await watched.stop()
        codes = ("200", "422")
        return [metrics.value(API_REQUESTS, method="GET", code=code) for code in codes]

    async def case(client: KubeClient) -> None:
        for name in ("one", "two"):
            await client.create(config(name))
        assert await requests_until_followed("one", "two", "three") == [1, 0]
        plane.kill_api_server()
        plane.start_api_server(feature_gates="WatchList=false")
        await asyncio.to_thread(plane.wait_for_api_server)
        listed, refused = await requests_until_followed("one", "two", "three", "four")
        assert listed >= 2, "pages, and a watch"
        assert refused == 1
        plane.kill_api_server()
        plane.start_api_server()
        await asyncio.to_thread(plane.wait_for_api_server)

    with_client(plane, case)


def test_a_restart_is_survived_and_deletions_meanwhile_are_found(plane: ControlPlane) -> None:
    async def case(client: KubeClient) -> None:
        for name in ("a", "b"):
            await client.create(config(name))
        watched = Watched(client)
        await watched.until(lambda: {"a", "b"} <= watched.names)
        plane.kill_api_server()
        plane.start_api_server()
        await asyncio.to_thread(plane.wait_for_api_server)
        await client.delete(ConfigMap, "a", "default")
        await client.create(config("c"))
        await watched.until(lambda: "a" not in watched.names and {"b", "c"} <= watched.names)
        await watched.stop()

    with_client(plane, case)


def test_a_compacted_version_is_gone_and_everything_is_listed_anew(plane: ControlPlane) -> None:
    """Without the watch cache, which would answer from memory whatever etcd has forgotten."""

    async def case(client: KubeClient) -> None:
        await client.create(config("before"))
        old = (await client.list(ConfigMap)).resource_version
        watched = Watched(client)
        await watched.until(lambda: "before" in watched.names)
        plane.kill_api_server()
        plane.start_api_server(watch_cache="false")
        await asyncio.to_thread(plane.wait_for_api_server)
        await client.delete(ConfigMap, "before", "default")
        last = await client.create(config("after"))
        plane.compact_etcd(int(last.metadata.resourceVersion))
        with pytest.raises(ResourceVersionGoneError):
            async with aclosing(client.watch(ConfigMap, old)) as events:
                await anext(events)
        await watched.until(lambda: "before" not in watched.names and "after" in watched.names)
        await watched.stop()

    with_client(plane, case)


def test_whoever_does_not_read_misses_no_change(plane: ControlPlane) -> None:
    """16 MB are more than all buffers on the way; the server ends such a watch, or waits."""
    changes = 40

    async def case(client: KubeClient) -> None:
        made = await client.create(config("large"))
        version = made.metadata.resourceVersion
        async with aclosing(client.watch(ConfigMap, version)) as events:
            await client.patch(ConfigMap, "large", {"data": {"key": "0"}}, "default")
            first = await anext(events)
            for number in range(1, changes):
                data = {"key": f"{number} {'x' * 400_000}"}
                await client.patch(ConfigMap, "large", {"data": data}, "default")
            seen, version = ["0"], first.resource_version
            with suppress(ServerUnavailableError):
                async for event in events:
                    version = event.resource_version
                    seen += _numbers(event.object)
                    if len(seen) == changes:
                        break
        while len(seen) < changes:
            async with aclosing(client.watch(ConfigMap, version)) as events:
                async for event in events:
                    version = event.resource_version
                    seen += _numbers(event.object)
                    if len(seen) == changes:
                        break
        assert seen == [str(number) for number in range(changes)]
        await client.delete(ConfigMap, "large", "default")

    with_client(plane, case)


def _numbers(found: ConfigMap | None) -> list[str]:
    if found is None or found.metadata.name != "large" or not found.data:
        return []
    return [found.data["key"].split(" ")[0]]


class FreezingProxy:
    """Passes bytes on until it is frozen: then the connections that there are stay open, and
    nothing comes through them any more. New ones work.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._frozen: list[asyncio.Event] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: list[asyncio.StreamWriter] = []

    def freeze(self) -> None:
        for each in self._frozen:
            each.set()
        self._frozen = []

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        onward, back = await asyncio.open_connection("127.0.0.1", self._port)
        frozen = asyncio.Event()
        self._frozen.append(frozen)
        self._writers.append(back)
        for source, target in ((reader, back), (onward, writer)):
            task = asyncio.create_task(self._pass_on(source, target, frozen))
            self._tasks.add(task)

    async def _pass_on(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, frozen: asyncio.Event
    ) -> None:
        with suppress(ConnectionError):
            while data := await source.read(65_536):
                if frozen.is_set():
                    continue
                target.write(data)
                await target.drain()
            if not frozen.is_set():
                target.close()

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for writer in self._writers:
            writer.transport.abort()
        await asyncio.sleep(0)


def test_a_connection_that_is_half_open_is_found(
    plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With an API server of whose bookmarks nothing comes through; three seconds in place of 90."""
    monkeypatch.setattr(kube_client, "SILENCE_SECONDS", 3.0)

    async def main() -> None:
        address = load_address(kubeconfig=str(plane.kubeconfig), environment={})
        proxy = FreezingProxy(int(address.url.rpartition(":")[2]))
        server = await asyncio.start_server(proxy.accept, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        through = msgspec.structs.replace(address, url=f"https://127.0.0.1:{port}")
        async with (
            asyncio.timeout(2 * WITHIN),
            KubeClient.connect(address) as direct,
            KubeClient.connect(through) as client,
        ):
            await direct.create(config("seen"))
            watched = Watched(client)
            await watched.until(lambda: "seen" in watched.names)
            proxy.freeze()
            await direct.create(config("meanwhile"))
            await watched.until(lambda: "meanwhile" in watched.names)
            await watched.stop()
        server.close()
        await proxy.close()

    asyncio.run(main())
