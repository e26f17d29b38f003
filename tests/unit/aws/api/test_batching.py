"""Batches and the TTL cache: when, for how long, and that everybody gets their own result."""

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.aws_account import run_in_virtual_time

from wainwright.aws.api.batching import (
    CREATE_FLEET_WINDOW,
    INSTANCE_ID_WINDOW,
    Batcher,
    BatchWindow,
    TtlCache,
    batch_metrics,
)
from wainwright.clock import VirtualClock
from wainwright.errors import AwsError, WainError
from wainwright.metrics import BATCH_SIZE, BATCH_TIME, MetricsRegistry

SHORT = BatchWindow(idle=0.1, longest=1.0, most=5)
LOST = AwsError("ConnectionFailed", "no answer", 0)


class Executor:
    """Doubles numbers, and writes down when it was asked which."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.begun = clock.now()
        self.batches: list[tuple[float, list[int]]] = []
        self.bad: set[int] = set()

    async def __call__(self, requests: Sequence[int]) -> Sequence[int | WainError]:
        self.batches.append((round(self.clock.now() - self.begun, 3), list(requests)))
        if self.bad & set(requests):
            raise AwsError("InvalidInstanceID.NotFound", str(sorted(self.bad & set(requests))))
        return [2 * request for request in requests]


async def later(clock: VirtualClock, seconds: float, batcher: Batcher[int, int], one: int) -> int:
    await clock.sleep(seconds)
    return await batcher.add(one)


def run(
    moments: Sequence[tuple[float, int]], window: BatchWindow = SHORT
) -> tuple[list[tuple[float, list[int]]], list[int]]:
    """Requests at their moments; the batches that were made, and the results in their order."""

    async def main(clock: VirtualClock) -> tuple[list[tuple[float, list[int]]], list[int]]:
        execute = Executor(clock)
        batcher: Batcher[int, int] = Batcher(clock, window, execute)
        asked = [later(clock, moment, batcher, request) for moment, request in moments]
        results = await asyncio.gather(*asked)
        return execute.batches, results

    return run_in_virtual_time(main)


def test_what_comes_together_goes_together() -> None:
    batches, results = run([(0, 1), (0.05, 2), (0.14, 3)])
    assert batches == [(0.24, [1, 2, 3])]
    assert results == [2, 4, 6]


def test_what_comes_too_late_goes_alone() -> None:
    assert run([(0, 1), (0.2, 2)])[0] == [(0.1, [1]), (0.3, [2])]


def test_a_batch_does_not_wait_for_ever() -> None:
    batches, _ = run(
        [(n * 0.09, n) for n in range(20)], BatchWindow(idle=0.1, longest=1.0, most=50)
    )
    assert batches[0] == (1.0, list(range(12)))


def test_a_full_batch_goes_at_once() -> None:
    batches, _ = run([(0, n) for n in range(7)])
    assert batches == [(0, [0, 1, 2, 3, 4]), (0.1, [5, 6])]


def test_the_windows_are_those_of_the_provider() -> None:
    assert (CREATE_FLEET_WINDOW.idle, CREATE_FLEET_WINDOW.longest, CREATE_FLEET_WINDOW.most) == (
        0.035,
        1.0,
        1000,
    )
    assert (INSTANCE_ID_WINDOW.idle, INSTANCE_ID_WINDOW.longest, INSTANCE_ID_WINDOW.most) == (
        0.1,
        1.0,
        500,
    )


def test_requests_that_differ_are_kept_apart() -> None:
    async def main(clock: VirtualClock) -> list[list[int]]:
        execute = Executor(clock)
        batcher: Batcher[int, int] = Batcher(clock, SHORT, execute, key=lambda one: one % 2)
        await asyncio.gather(*(batcher.add(one) for one in range(4)))
        return [requests for _, requests in execute.batches]

    assert run_in_virtual_time(main) == [[0, 2], [1, 3]]


@given(
    st.lists(
        st.tuples(st.floats(min_value=0, max_value=3), st.integers(0, 99)), min_size=1, max_size=40
    )
)
def test_everybody_gets_their_own_result_and_no_batch_breaks_its_limits(
    moments: list[tuple[float, int]],
) -> None:
    batches, results = run(moments)
    assert results == [2 * request for _, request in moments]
    assert sum(len(requests) for _, requests in batches) == len(moments)
    assert all(1 <= len(requests) <= SHORT.most for _, requests in batches)
    assert len(batches) >= len(moments) / SHORT.most


def test_an_error_goes_to_all() -> None:
    async def main(clock: VirtualClock) -> list[object]:
        execute = Executor(clock)
        execute.bad = {2}
        batcher: Batcher[int, int] = Batcher(clock, SHORT, execute)
        asked = (batcher.add(one) for one in (1, 2, 3))
        found = await asyncio.gather(*asked, return_exceptions=True)
        assert len(execute.batches) == 1
        return [type(each) for each in found]

    assert run_in_virtual_time(main) == [AwsError] * 3


def test_where_it_may_be_repeated_a_bad_one_does_not_spoil_the_others() -> None:
    async def main(clock: VirtualClock) -> list[object]:
        execute = Executor(clock)
        execute.bad = {2}
        batcher: Batcher[int, int] = Batcher(clock, SHORT, execute, alone=True)
        asked = (batcher.add(one) for one in (1, 2, 3))
        found = await asyncio.gather(*asked, return_exceptions=True)
        assert [requests for _, requests in execute.batches] == [[1, 2, 3], [1], [2], [3]]
        return [each if isinstance(each, int) else type(each) for each in found]

    assert run_in_virtual_time(main) == [2, AwsError, 6]


def test_an_error_among_the_results_is_for_one() -> None:
    async def main(clock: VirtualClock) -> list[object]:
        async def execute(requests: Sequence[int]) -> list[int | WainError]:
            return [LOST if one == 2 else one for one in requests]

        batcher: Batcher[int, int] = Batcher(clock, SHORT, execute)
        return list(
            await asyncio.gather(*(batcher.add(one) for one in (1, 2)), return_exceptions=True)
        )

    assert run_in_virtual_time(main) == [1, LOST]


@pytest.mark.parametrize("results", [[], [1, 2, 3]])
def test_an_executor_that_miscounts_leaves_nobody_waiting(results: list[int]) -> None:
    async def main(clock: VirtualClock) -> None:
        async def execute(requests: Sequence[int]) -> list[int]:
            del requests
            return results

        batcher: Batcher[int, int] = Batcher(clock, SHORT, execute)
        with pytest.raises(AssertionError, match="1 requests got"):
            await batcher.add(1)

    run_in_virtual_time(main)


def test_a_bug_in_the_executor_reaches_those_who_wait() -> None:
    async def main(clock: VirtualClock) -> None:
        async def execute(requests: Sequence[int]) -> list[int]:
            return [1 // (one - 1) for one in requests]

        batcher: Batcher[int, int] = Batcher(clock, SHORT, execute, alone=True)
        with pytest.raises(ZeroDivisionError):
            await batcher.add(1)

    run_in_virtual_time(main)


def test_nothing_is_done_for_those_who_left() -> None:
    async def main(clock: VirtualClock) -> list[tuple[float, list[int]]]:
        execute = Executor(clock)
        batcher: Batcher[int, int] = Batcher(clock, SHORT, execute)
        leaving = asyncio.ensure_future(batcher.add(1))
        staying = asyncio.ensure_future(batcher.add(2))
        await asyncio.sleep(0.01)
        leaving.cancel()
        assert await staying == 4
        alone = asyncio.ensure_future(batcher.add(3))
        await asyncio.sleep(0.01)
        alone.cancel()
        await asyncio.sleep(1)
        return execute.batches

    assert run_in_virtual_time(main) == [(0.1, [2])]


def test_batches_are_measured() -> None:
    async def main(clock: VirtualClock) -> tuple[int, float, float]:
        metrics = MetricsRegistry()
        batcher: Batcher[int, int] = Batcher(
            clock, SHORT, Executor(clock), watch=batch_metrics(metrics, "doubles")
        )
        await asyncio.gather(*(batcher.add(one) for one in range(3)))
        sizes = metrics.distribution(BATCH_SIZE, batcher_name="doubles")
        waits = metrics.distribution(BATCH_TIME, batcher_name="doubles")
        return sizes.count, sizes.total, round(waits.total, 3)

    assert run_in_virtual_time(main) == (1, 3, 0.1)


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
        oracle, known = Oracle(clock), TtlCache[int](clock, 60)
        found = [await known.get("a", oracle)]
        await clock.sleep(59)
        found.append(await known.get("a", oracle))
        await clock.sleep(2)
        return [*found, await known.get("a", oracle), await known.get("b", oracle)]

    assert run_in_virtual_time(main) == [1, 1, 2, 3]


def test_those_who_ask_together_wait_for_one_answer() -> None:
    async def main(clock: VirtualClock) -> tuple[list[int], int]:
        oracle, known = Oracle(clock), TtlCache[int](clock, 60)
        found = await asyncio.gather(*(known.get("a", oracle) for _ in range(5)))
        return found, oracle.asked

    assert run_in_virtual_time(main) == ([1] * 5, 1)


def test_who_leaves_does_not_take_the_answer_along() -> None:
    async def main(clock: VirtualClock) -> int:
        oracle, known = Oracle(clock), TtlCache[int](clock, 60)
        first = asyncio.ensure_future(known.get("a", oracle))
        second = asyncio.ensure_future(known.get("a", oracle))
        await clock.sleep(0.5)
        first.cancel()
        return await second

    assert run_in_virtual_time(main) == 1


def test_a_failure_is_not_remembered() -> None:
    async def main(clock: VirtualClock) -> int:
        oracle, known = Oracle(clock), TtlCache[int](clock, 60)
        oracle.fails = True
        with pytest.raises(AwsError):
            await known.get("a", oracle)
        oracle.fails = False
        return await known.get("a", oracle)

    assert run_in_virtual_time(main) == 2


def test_what_is_forgotten_is_asked_again() -> None:
    async def main(clock: VirtualClock) -> list[int | None]:
        oracle, known = Oracle(clock), TtlCache[int](clock, 60)
        await known.get("a", oracle)
        found = [known.known("a")]
        known.forget("a")
        found.append(known.known("a"))
        await known.get("b", oracle)
        known.clear()
        return [*found, known.known("b"), await known.get("a", oracle)]

    assert run_in_virtual_time(main) == [1, None, None, 3]


def test_how_long_may_hang_on_the_answer_and_asking_does_not_prolong_it() -> None:
    async def main(clock: VirtualClock) -> list[int]:
        oracle = Oracle(clock)
        known = TtlCache[int](clock, lambda value: 10 if value == 1 else 100)
        found = []
        for _ in range(16):
            found.append(await known.get("a", oracle))
            await clock.sleep(8)
        return [found.count(value) for value in (1, 2, 3)]

    assert run_in_virtual_time(main) == [2, 13, 1]
