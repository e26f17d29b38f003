"""Virtual time: it jumps from timer to timer, and stands still while a thread really works."""

import asyncio
import signal
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import pytest

from wainwright.clock import EPOCH, VirtualClock

Result = TypeVar("Result")
HOUR = 3600.0


def run(main: Callable[[VirtualClock], Coroutine[Any, Any, Result]]) -> Result:
    clock = VirtualClock()
    try:
        return clock.run(main(clock))
    finally:
        clock.close()


def test_sleeping_takes_virtual_time_only() -> None:
    async def main(clock: VirtualClock) -> float:
        await clock.sleep(24 * HOUR)
        return clock.now()

    assert run(main) == EPOCH + 24 * HOUR


def test_a_timeout_of_asyncio_is_virtual_too() -> None:
    async def main(clock: VirtualClock) -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(90):
                await clock.sleep(HOUR)
        return clock.now()

    assert run(main) == EPOCH + 90


def test_time_stands_still_while_a_thread_works() -> None:
    async def main(clock: VirtualClock) -> tuple[float, float]:
        fired = threading.Event()

        async def timer() -> None:
            await clock.sleep(1)
            fired.set()

        pending = asyncio.create_task(timer())
        await asyncio.sleep(0)
        # If time moved on, the timer would fire at once and the thread would see it.
        assert not await asyncio.to_thread(fired.wait, 0.05)
        now = clock.now()
        await pending
        return now, clock.now()

    assert run(main) == (EPOCH, EPOCH + 1)


def test_a_task_that_sleeps_meanwhile_wakes_at_its_moment_after_the_thread() -> None:
    async def main(clock: VirtualClock) -> list[tuple[str, float]]:
        seen: list[tuple[str, float]] = []

        async def note(name: str, waiting: Coroutine[Any, Any, Any]) -> None:
            await waiting
            seen.append((name, clock.now() - EPOCH))

        gate = threading.Event()
        threading.Timer(0.02, gate.set).start()
        await asyncio.gather(
            note("timer", clock.sleep(0.5)), note("thread", asyncio.to_thread(gate.wait))
        )
        return seen

    assert run(main) == [("thread", 0.0), ("timer", 0.5)]


def test_the_clock_waits_for_a_thread_whose_task_was_cancelled() -> None:
    async def main(clock: VirtualClock) -> tuple[bool, float]:
        gate, ended = threading.Event(), threading.Event()

        def work() -> None:
            gate.wait()
            ended.set()

        task = asyncio.create_task(asyncio.to_thread(work))
        await asyncio.sleep(0)
        task.cancel()
        threading.Timer(0.02, gate.set).start()
        await clock.sleep(HOUR)
        return ended.is_set(), clock.now()

    assert run(main) == (True, EPOCH + HOUR)


def test_a_thread_that_never_began_does_not_stop_the_clock() -> None:
    async def main(clock: VirtualClock) -> float:
        loop = asyncio.get_running_loop()
        gate = threading.Event()
        with ThreadPoolExecutor(max_workers=1) as pool:
            first = loop.run_in_executor(pool, gate.wait)
            second = loop.run_in_executor(pool, gate.wait)
            second.cancel()
            gate.set()
            await first
        await clock.sleep(HOUR)
        return clock.now()

    assert run(main) == EPOCH + HOUR


def test_the_error_of_a_thread_is_raised_where_it_is_awaited() -> None:
    def work() -> None:
        raise ValueError("no")

    async def main(clock: VirtualClock) -> float:
        with pytest.raises(ValueError, match="no"):
            await asyncio.to_thread(work)
        await clock.sleep(1)
        return clock.now()

    assert run(main) == EPOCH + 1


def test_whoever_wants_to_know_hears_of_each_move_after_everything_that_was_due() -> None:
    clock, seen = VirtualClock(start=0.0), list[str]()
    clock.on_advance(lambda target: seen.append(f"to {target:g}"))

    async def work(name: str, seconds: float) -> None:
        await clock.sleep(seconds)
        seen.append(name)

    async def both() -> None:
        await asyncio.gather(work("a", 2), work("b", 2), work("c", 5))

    clock.run(both())
    clock.close()

    assert seen == ["to 2", "a", "b", "to 5", "c"]


def test_an_interrupt_cancels_what_runs_so_that_it_can_end_what_it_has_begun() -> None:
    clock, ended = VirtualClock(), []

    async def work(name: str) -> None:
        try:
            await clock.sleep(3600)
        finally:
            ended.append(name)

    async def main() -> None:
        other = asyncio.create_task(work("other"))
        try:
            await clock.sleep(1)
            signal.raise_signal(signal.SIGINT)
            await work("main")
        finally:
            other.cancel()
            await asyncio.gather(other, return_exceptions=True)

    with pytest.raises(KeyboardInterrupt):
        clock.run(main())
    clock.close()
    assert sorted(ended) == ["main", "other"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_running_until_a_moment_leaves_the_rest_waiting() -> None:
    clock, woken = VirtualClock(), list[float]()

    async def ring() -> None:
        while True:
            await clock.sleep(HOUR)
            woken.append(clock.now() - EPOCH)

    async def begin() -> "asyncio.Task[None]":
        return asyncio.ensure_future(ring())

    try:
        task = clock.run(begin())
        for until, expected in ((1800.0, 0), (HOUR, 1), (2.5 * HOUR, 2), (2.5 * HOUR, 2)):
            clock.run_until(EPOCH + until)
            assert (clock.now(), len(woken)) == (EPOCH + until, expected)
        clock.run_until(EPOCH)  # is over
        assert clock.now() == EPOCH + 2.5 * HOUR
        assert not task.done()
    finally:
        clock.close()
    assert woken == [HOUR, 2 * HOUR]


def test_running_until_a_moment_needs_no_timer_and_waits_for_threads() -> None:
    clock, release, done = VirtualClock(), threading.Event(), list[float]()

    async def work() -> None:
        await asyncio.to_thread(release.wait, 10)
        done.append(clock.now())

    async def begin() -> "asyncio.Task[None]":
        threading.Timer(0, release.set).start()
        return asyncio.ensure_future(work())

    try:
        clock.run_until(EPOCH + HOUR)
        clock.run(begin())
        clock.run_until(EPOCH + 2 * HOUR)
        assert clock.now() == EPOCH + 2 * HOUR
    finally:
        clock.close()
    assert done == [EPOCH + HOUR]


def test_the_recorder_hears_of_the_time_before_it_stops() -> None:
    clock, heard = VirtualClock(), list[float]()
    clock.on_advance(heard.append)
    try:
        clock.run_until(EPOCH + HOUR)
    finally:
        clock.close()
    assert heard == [EPOCH + HOUR]
