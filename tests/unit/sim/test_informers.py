"""Informers: each change once, own writes at once, and what happened while nobody looked."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from tests.support.simulated_cluster import pod, to_object

from wainwright.api.kubernetes.workloads import Pod
from wainwright.clock import VirtualClock
from wainwright.errors import ServerUnavailableError
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
