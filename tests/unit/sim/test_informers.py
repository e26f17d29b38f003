"""Informers: each change once, own writes at once, and what happened while nobody looked."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from itertools import pairwise
from typing import Any

import pytest
from tests.support.simulated_cluster import pod, to_object

from wainwright.api.kubernetes.workloads import Pod
from wainwright.clock import VirtualClock
from wainwright.errors import (
    KubernetesError,
    RequestForbiddenError,
    ResourceVersionGoneError,
    ServerUnavailableError,
)
from wainwright.sim.api_server import InMemoryApiServer
from wainwright.sim.informers import Informers, KeyedWorker

Change = tuple[str | None, str | None]


class Seen:
    """The changes that a handler was called with: phases before and after."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.api = InMemoryApiServer(clock)
        self.informers = Informers(self.api, clock)
        self.changes: list[Change] = []
        self.informers.of(Pod).add_handler(self._add)

    def _add(self, before: Pod | None, after: Pod | None) -> None:
        self.changes.append((_phase(before), _phase(after)))

    async def create(self) -> Pod:
        made = await self.api.create(to_object(pod("web")))
        assert isinstance(made, Pod)
        return made

    async def set_phase(self, phase: str) -> Pod:
        return await self.api.patch_status(Pod, "web", {"status": {"phase": phase}}, "default")


def _phase(found: Pod | None) -> str | None:
    return None if found is None else found.status.phase


def watching(story: Callable[[Seen], Awaitable[None]]) -> None:
    clock = VirtualClock()

    async def main() -> None:
        seen = Seen(clock)
        running = asyncio.create_task(seen.informers.run())
        await seen.informers.synced()
        try:
            await story(seen)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    try:
        clock.run(main())
    finally:
        clock.close()


def test_every_change_is_seen_once_with_what_was_before() -> None:
    async def story(seen: Seen) -> None:
        await seen.create()
        await seen.set_phase("Running")
        await seen.api.delete(Pod, "web", "default", grace_period=0)
        await seen.clock.sleep(1)
        assert seen.changes == [
            (None, "Pending"),
            ("Pending", "Running"),
            ("Running", "Running"),
            ("Running", None),
        ]
        assert seen.informers.of(Pod).objects == {}

    watching(story)


def test_an_own_write_is_seen_at_once_and_not_again() -> None:
    async def story(seen: Seen) -> None:
        await seen.create()
        await seen.clock.sleep(1)
        seen.changes.clear()
        seen.informers.of(Pod).observe(await seen.set_phase("Running"))
        assert seen.changes == [("Pending", "Running")]
        await seen.clock.sleep(1)
        assert seen.changes == [("Pending", "Running")]

    watching(story)


def test_an_own_write_that_others_have_overtaken_is_not_seen() -> None:
    async def story(seen: Seen) -> None:
        written = await seen.create()
        await seen.api.delete(Pod, "web", "default")
        await seen.clock.sleep(1)
        seen.changes.clear()
        seen.informers.of(Pod).observe(written)
        assert seen.changes == []

    watching(story)


def test_an_object_made_anew_while_nobody_looked_is_another_one() -> None:
    async def story(seen: Seen) -> None:
        await seen.create()
        await seen.set_phase("Running")
        await seen.clock.sleep(1)
        seen.changes.clear()
        await seen.api.delete(Pod, "web", "default")
        await seen.create()
        seen.api.stop()
        seen.api.start(forget_history=True)
        await seen.clock.sleep(2)
        assert seen.changes == [("Running", None), (None, "Pending")]

    watching(story)


class RefusingApiServer(InMemoryApiServer):
    """Whose watches end by this error, and with `lists` lists too, until it is taken away."""

    error: KubernetesError | None = None
    lists = False

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(clock)
        self.refusals: list[float] = []

    def _refuse(self) -> None:
        if self.error is not None:
            self.refusals.append(self._clock.now())
            raise self.error

    async def list(self, kind: type[Any], namespace: str = "", *, name: str = "") -> Any:
        if self.lists:
            self._refuse()
        return await super().list(kind, namespace, name=name)

    async def watch(self, kind: type[Any], resource_version: str) -> AsyncGenerator[Any, None]:
        self._refuse()
        async for event in super().watch(kind, resource_version):
            yield event


def refused_at(error: KubernetesError, *, lists: bool, seed: str = "a process") -> list[float]:
    """When an informer asked within five minutes; afterwards it is answered, and sees a pod."""
    clock = VirtualClock()

    async def main() -> list[float]:
        api = RefusingApiServer(clock)
        api.error, api.lists = error, lists
        informers, began = Informers(api, clock, seed), clock.now()
        pods = informers.of(Pod)
        running = asyncio.create_task(informers.run())
        await clock.sleep(300)
        api.error = None
        await api.create(to_object(pod("web")))
        await clock.sleep(31)
        assert set(pods.objects) == {"default/web"}
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return [each - began for each in api.refusals]

    try:
        return clock.run(main())
    finally:
        clock.close()


@pytest.mark.parametrize("error", [RequestForbiddenError("no"), ServerUnavailableError("no")])
@pytest.mark.parametrize("lists", [True, False])
def test_whatever_an_informer_is_refused_by_it_waits_longer_and_longer(
    error: KubernetesError, lists: bool
) -> None:
    times = refused_at(error, lists=lists)
    waits = [later - before for before, later in pairwise(times)]
    assert 0.8 <= waits[0] <= 1
    assert all(24 <= wait <= 30 for wait in waits[5:])
    assert times != refused_at(error, lists=lists, seed="another process")


def test_a_version_that_is_too_old_again_and_again_is_not_asked_for_without_a_pause() -> None:
    times = refused_at(ResourceVersionGoneError("too old"), lists=False)
    assert times[:2] == [0, 0], "at once the first time"
    assert 10 < len(times) < 20


@pytest.mark.parametrize("attempts", [1, 3])
def test_work_that_met_no_server_is_done_again(attempts: int) -> None:
    clock = VirtualClock()
    done: list[float] = []

    async def work(_key: str) -> None:
        done.append(clock.now())
        if len(done) < attempts:
            raise ServerUnavailableError("no answer")

    async def main() -> None:
        worker = KeyedWorker(clock, work)
        running = asyncio.create_task(worker.run())
        worker.add("key")
        await clock.sleep(60)
        assert worker.next_due is None
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    try:
        clock.run(main())
    finally:
        clock.close()
    assert len(done) == attempts
