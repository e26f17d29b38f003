"""Remembering: for how long, one question for all who ask together, and no failures."""

import asyncio

import pytest
from tests.support.seams import on_time

from wainwright.aws.remember import Remembered
from wainwright.clock import VirtualClock
from wainwright.errors import AwsError


class Oracle:
    """Counts up; every answer takes a second."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.asked = 0
        self.fails = False

    async def __call__(self) -> int:
        self.asked += 1
        await self.clock.sleep(1)
        if self.fails:
            raise AwsError("InternalError", "broken", 500)
        return self.asked


def test_an_answer_holds_until_its_time_is_over() -> None:
    async def main(clock: VirtualClock) -> list[int]:
        oracle, known = Oracle(clock), Remembered[int](clock, 60)
        found = [await known.get("a", oracle)]
        await clock.sleep(59)
        found.append(await known.get("a", oracle))
        await clock.sleep(2)
        return [*found, await known.get("a", oracle), await known.get("b", oracle)]

    assert on_time(main) == [1, 1, 2, 3]


def test_those_who_ask_together_wait_for_one_answer() -> None:
    async def main(clock: VirtualClock) -> tuple[list[int], int]:
        oracle, known = Oracle(clock), Remembered[int](clock, 60)
        found = await asyncio.gather(*(known.get("a", oracle) for _ in range(5)))
        return found, oracle.asked

    assert on_time(main) == ([1] * 5, 1)


def test_who_leaves_does_not_take_the_answer_along() -> None:
    async def main(clock: VirtualClock) -> int:
        oracle, known = Oracle(clock), Remembered[int](clock, 60)
        first = asyncio.ensure_future(known.get("a", oracle))
        second = asyncio.ensure_future(known.get("a", oracle))
        await clock.sleep(0.5)
        first.cancel()
        return await second

    assert on_time(main) == 1


def test_a_failure_is_not_remembered() -> None:
    async def main(clock: VirtualClock) -> int:
        oracle, known = Oracle(clock), Remembered[int](clock, 60)
        oracle.fails = True
        with pytest.raises(AwsError):
            await known.get("a", oracle)
        oracle.fails = False
        return await known.get("a", oracle)

    assert on_time(main) == 2


def test_what_is_forgotten_is_asked_again() -> None:
    async def main(clock: VirtualClock) -> list[int | None]:
        oracle, known = Oracle(clock), Remembered[int](clock, 60)
        await known.get("a", oracle)
        found = [known.known("a")]
        known.forget("a")
        found.append(known.known("a"))
        await known.get("b", oracle)
        known.clear()
        return [*found, known.known("b"), await known.get("a", oracle)]

    assert on_time(main) == [1, None, None, 3]


def test_how_long_may_hang_on_the_answer_and_asking_does_not_prolong_it() -> None:
    async def main(clock: VirtualClock) -> list[int]:
        oracle = Oracle(clock)
        known = Remembered[int](clock, lambda value: 10 if value == 1 else 100)
        found = []
        for _ in range(16):
            found.append(await known.get("a", oracle))
            await clock.sleep(8)
        return [found.count(value) for value in (1, 2, 3)]

    assert on_time(main) == [2, 13, 1]
