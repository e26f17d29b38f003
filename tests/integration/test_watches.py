"""Watches of our cache on a real API server, which restarts, forgets, and is not read."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress

import pytest
from tests.support.control_plane import ControlPlane

from wainwright.api.kubernetes.operations import ConfigMap
from wainwright.api.wire import ObjectMeta
from wainwright.clock import SystemClock
from wainwright.controllers.cluster_cache import Change, ClusterCache
from wainwright.errors import ResourceVersionGoneError, ServerUnavailableError
from wainwright.kube.client import KubeClient
from wainwright.kube.kubeconfig import load_address

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
        self.cache = ClusterCache(client, SystemClock(), [ConfigMap])
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
