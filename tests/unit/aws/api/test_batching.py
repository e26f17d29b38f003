"""Batches and the TTL cache: when, for how long, and that every caller gets its own result."""

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

SHORT = BatchWindow(idle_timeout=0.1, max_wait=1.0, max_size=5)
LOST = AwsError("ConnectionFailed", "no answer", 0)


class Executor:
    """Doubles numbers, and records the time and content of each batch."""

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
    """Sends requests at given times; returns the batches, and the results in order."""

    async def main(clock: VirtualClock) -> tuple[list[tuple[float, list[int]]], list[int]]:
        execute = Executor(clock)
        batcher: Batcher[int, int] = Batcher(clock, window, execute)
        calls = [later(clock, moment, batcher, request) for moment, request in moments]
        results = await asyncio.gather(*calls)
        return execute.batches, results

    return run_in_virtual_time(main)


def test_simultaneous_requests_share_a_batch() -> None:
    batches, results = run([(0, 1), (0.05, 2), (0.14, 3)])
    assert batches == [(0.24, [1, 2, 3])]
    assert results == [2, 4, 6]


def test_a_late_request_starts_another_batch() -> None:
    assert run([(0, 1), (0.2, 2)])[0] == [(0.1, [1]), (0.3, [2])]


def test_a_batch_does_not_wait_for_ever() -> None:
    batches, _ = run(
        [(n * 0.09, n) for n in range(20)], BatchWindow(idle_timeout=0.1, max_wait=1.0, max_size=50)
    )
    assert batches[0] == (1.0, list(range(12)))


def test_a_full_batch_is_executed_at_once() -> None:
    batches, _ = run([(0, n) for n in range(7)])
    assert batches == [(0, [0, 1, 2, 3, 4]), (0.1, [5, 6])]


def test_the_windows_are_those_of_the_provider() -> None:
    assert (
        CREATE_FLEET_WINDOW.idle_timeout,
        CREATE_FLEET_WINDOW.max_wait,
        CREATE_FLEET_WINDOW.max_size,
    ) == (
        0.035,
        1.0,
        1000,
    )
    assert (
        INSTANCE_ID_WINDOW.idle_timeout,
        INSTANCE_ID_WINDOW.max_wait,
        INSTANCE_ID_WINDOW.max_size,
    ) == (
        0.1,
        1.0,
        500,
    )


def test_requests_with_different_keys_are_in_different_batches() -> None:
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
def test_every_caller_gets_its_own_result_and_no_batch_exceeds_its_limits(
    moments: list[tuple[float, int]],
) -> None:
    batches, results = run(moments)
    assert results == [2 * request for _, request in moments]
    assert sum(len(requests) for _, requests in batches) == len(moments)
    assert all(1 <= len(requests) <= SHORT.max_size for _, requests in batches)
    assert len(batches) >= len(moments) / SHORT.max_size


def test_an_error_is_raised_for_all_requests() -> None:
    async def main(clock: VirtualClock) -> list[object]:
        execute = Executor(clock)
        execute.bad = {2}
        batcher: Batcher[int, int] = Batcher(clock, SHORT, execute)
        calls = (batcher.add(one) for one in (1, 2, 3))
        values = await asyncio.gather(*calls, return_exceptions=True)
        assert len(execute.batches) == 1
        return [type(each) for each in values]

    assert run_in_virtual_time(main) == [AwsError] * 3


def test_with_individual_retries_a_bad_request_does_not_fail_the_others() -> None:
    async def main(clock: VirtualClock) -> list[object]:
        execute = Executor(clock)
        execute.bad = {2}
        batcher: Batcher[int, int] = Batcher(clock, SHORT, execute, retry_individually=True)
        calls = (batcher.add(one) for one in (1, 2, 3))
        values = await asyncio.gather(*calls, return_exceptions=True)
        assert [requests for _, requests in execute.batches] == [[1, 2, 3], [1], [2], [3]]
        return [each if isinstance(each, int) else type(each) for each in values]

    assert run_in_virtual_time(main) == [2, AwsError, 6]


def test_an_error_among_the_results_is_raised_for_its_request() -> None:
    async def main(clock: VirtualClock) -> list[object]:
        async def execute(requests: Sequence[int]) -> list[int | WainError]:
            return [LOST if one == 2 else one for one in requests]

        batcher: Batcher[int, int] = Batcher(clock, SHORT, execute)
        return list(
            await asyncio.gather(*(batcher.add(one) for one in (1, 2)), return_exceptions=True)
        )

    assert run_in_virtual_time(main) == [1, LOST]


@pytest.mark.parametrize("results", [[], [1, 2, 3]])
def test_a_wrong_number_of_results_is_raised_for_all_callers(results: list[int]) -> None:
    async def main(clock: VirtualClock) -> None:
        async def execute(requests: Sequence[int]) -> list[int]:
            del requests
            return results

        batcher: Batcher[int, int] = Batcher(clock, SHORT, execute)
        with pytest.raises(AssertionError, match="1 requests got"):
            await batcher.add(1)

    run_in_virtual_time(main)


def test_a_bug_in_the_executor_is_raised_for_all_callers() -> None:
    async def main(clock: VirtualClock) -> None:
        async def execute(requests: Sequence[int]) -> list[int]:
            return [1 // (one - 1) for one in requests]

        batcher: Batcher[int, int] = Batcher(clock, SHORT, execute, retry_individually=True)
        with pytest.raises(ZeroDivisionError):
            await batcher.add(1)

    run_in_virtual_time(main)


def test_requests_of_cancelled_callers_are_not_executed() -> None:
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


def test_batch_size_and_time_are_recorded() -> None:
    async def main(clock: VirtualClock) -> tuple[int, float, float]:
        metrics = MetricsRegistry()
        batcher: Batcher[int, int] = Batcher(
            clock, SHORT, Executor(clock), on_executed=batch_metrics(metrics, "doubles")
        )
        await asyncio.gather(*(batcher.add(one) for one in range(3)))
        sizes = metrics.distribution(BATCH_SIZE, batcher_name="doubles")
        waits = metrics.distribution(BATCH_TIME, batcher_name="doubles")
        return sizes.count, sizes.total, round(waits.total, 3)

    assert run_in_virtual_time(main) == (1, 3, 0.1)


class CountingSource:
    """Returns the number of its calls; every call takes a second."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.calls = 0
        self.fails = False

    async def __call__(self) -> int:
        self.calls += 1
        await self.clock.sleep(1)
        if self.fails:
            raise AwsError("InternalError", "broken", 500)
        return self.calls


def test_a_value_is_cached_until_it_expires() -> None:
    async def main(clock: VirtualClock) -> list[int]:
        source, cache = CountingSource(clock), TtlCache[int](clock, 60)
        values = [await cache.get("a", source)]
        await clock.sleep(59)
        values.append(await cache.get("a", source))
        await clock.sleep(2)
        return [*values, await cache.get("a", source), await cache.get("b", source)]

    assert run_in_virtual_time(main) == [1, 1, 2, 3]


def test_concurrent_callers_share_one_fetch() -> None:
    async def main(clock: VirtualClock) -> tuple[list[int], int]:
        source, cache = CountingSource(clock), TtlCache[int](clock, 60)
        values = await asyncio.gather(*(cache.get("a", source) for _ in range(5)))
        return values, source.calls

    assert run_in_virtual_time(main) == ([1] * 5, 1)


def test_a_cancelled_caller_does_not_cancel_the_fetch() -> None:
    async def main(clock: VirtualClock) -> int:
        source, cache = CountingSource(clock), TtlCache[int](clock, 60)
        first = asyncio.ensure_future(cache.get("a", source))
        second = asyncio.ensure_future(cache.get("a", source))
        await clock.sleep(0.5)
        first.cancel()
        return await second

    assert run_in_virtual_time(main) == 1


def test_a_failure_is_not_cached() -> None:
    async def main(clock: VirtualClock) -> int:
        source, cache = CountingSource(clock), TtlCache[int](clock, 60)
        source.fails = True
        with pytest.raises(AwsError):
            await cache.get("a", source)
        source.fails = False
        return await cache.get("a", source)

    assert run_in_virtual_time(main) == 2


def test_a_dropped_value_is_fetched_again() -> None:
    async def main(clock: VirtualClock) -> list[int]:
        source, cache = CountingSource(clock), TtlCache[int](clock, 60)
        values = [await cache.get("a", source), await cache.get("b", source)]
        cache.forget("a")
        values += [await cache.get("a", source), await cache.get("b", source)]
        cache.clear()
        return [*values, await cache.get("a", source), await cache.get("b", source)]

    assert run_in_virtual_time(main) == [1, 2, 3, 2, 4, 5]


def test_the_ttl_may_depend_on_the_value_and_reads_do_not_extend_it() -> None:
    async def main(clock: VirtualClock) -> list[int]:
        source = CountingSource(clock)
        cache = TtlCache[int](clock, lambda value: 10 if value == 1 else 100)
        values = []
        for _ in range(16):
            values.append(await cache.get("a", source))
            await clock.sleep(8)
        return [values.count(value) for value in (1, 2, 3)]

    assert run_in_virtual_time(main) == [2, 13, 1]
