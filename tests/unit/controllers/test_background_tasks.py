"""Tasks beside the work of a block: when they end it, and with which error."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest

from wainwright.clock import VirtualClock
from wainwright.controllers.background_tasks import Work, background_tasks


def play(story: Callable[[VirtualClock], Awaitable[None]]) -> None:
    clock = VirtualClock()

    async def main() -> None:
        await story(clock)

    try:
        clock.run(main())
    finally:
        clock.close()


def test_an_error_ends_the_block_at_its_await_and_is_logged_with_its_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(clock: VirtualClock) -> None:
        began = clock.now()

        async def fail() -> None:
            await clock.sleep(5)
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await _beside(fail, clock.sleep(3600))
        assert clock.now() - began == pytest.approx(5)

    play(story)
    (record,) = (each for each in caplog.records if each.levelno >= logging.ERROR)
    assert record.getMessage() == "watches ended with an error"
    assert record.exc_info is not None


def test_an_error_within_groups_of_tasks_is_raised_as_what_it_is() -> None:
    async def story(_: VirtualClock) -> None:
        async def fail() -> None:
            raise ZeroDivisionError

        async def group() -> None:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(fail())

        with pytest.raises(ZeroDivisionError):
            await _beside(group, _for_ever())

    play(story)


def test_tasks_are_cancelled_when_the_block_ends_and_what_they_raise_then_is_not_raised() -> None:
    ended: list[str] = []

    async def story(_: VirtualClock) -> None:
        async def work() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ended.append("work")
                raise ConnectionError

        async with background_tasks() as start:
            start(work, "watches")
            await asyncio.sleep(0)

    play(story)
    assert ended == ["work"]


@pytest.mark.parametrize("error", [KeyError, asyncio.CancelledError])
def test_the_error_of_the_block_itself_is_raised(error: type[BaseException]) -> None:
    async def story(_: VirtualClock) -> None:
        async def fail() -> None:
            raise error

        with pytest.raises(error):
            await _beside(_for_ever, fail())

    play(story)


async def _beside(background: Work, work: Awaitable[None]) -> None:
    async with background_tasks() as start:
        start(background, "watches")
        await work


async def _for_ever() -> None:
    await asyncio.Event().wait()
