"""Reads that an API server cannot answer yet."""

from collections.abc import Iterator
from itertools import pairwise

import pytest

from wainwright.clock import VirtualClock
from wainwright.errors import (
    KubernetesError,
    RequestForbiddenError,
    ServerUnavailableError,
    TooManyRequestsError,
)
from wainwright.kube.retries import read_with_retries


@pytest.fixture
def clock() -> Iterator[VirtualClock]:
    clock = VirtualClock()
    yield clock
    clock.close()


def times_of_reading(
    clock: VirtualClock,
    *refusals: KubernetesError,
    longest: float = 1000.0,
    seed: str = "",
) -> list[float]:
    """Seconds from the first attempt, of all until the answer or until the error is raised."""
    begun, times, left = clock.now(), list[float](), list(refusals)

    async def read() -> str:
        times.append(clock.now() - begun)
        if left:
            raise left.pop(0)
        return "answer"

    assert clock.run(read_with_retries(read, clock, longest=longest, seed=seed)) == "answer"
    return times


def busy(retry_after: float = 0.0) -> TooManyRequestsError:
    return TooManyRequestsError("too many requests", retry_after=retry_after)


def test_waits_grow_and_are_never_shorter_than_the_server_says(clock: VirtualClock) -> None:
    starting = ServerUnavailableError("storage is (re)initializing", 503, retry_after=5)
    times = times_of_reading(clock, busy(), busy(), starting, busy(0.1))
    waits = [after - before for before, after in pairwise(times)]
    assert 0.4 <= waits[0] <= 0.5
    assert 0.8 <= waits[1] <= 1.0
    assert waits[2] == 5.0
    assert 3.2 <= waits[3] <= 4.0


def test_processes_that_are_refused_at_one_moment_do_not_all_come_back_at_one(
    clock: VirtualClock,
) -> None:
    assert times_of_reading(clock, busy(), seed="a") != times_of_reading(clock, busy(), seed="b")


def test_the_error_is_raised_when_there_was_enough_waiting(clock: VirtualClock) -> None:
    begun = clock.now()
    with pytest.raises(TooManyRequestsError):
        times_of_reading(clock, *[busy()] * 100, longest=20.0)
    assert 10.0 < clock.now() - begun <= 20.0


@pytest.mark.parametrize(
    "error",
    [
        ServerUnavailableError("nobody listens there"),
        RequestForbiddenError("forbidden"),
        busy(retry_after=3600),
    ],
    ids=["nobody answers", "forbidden", "an hour is asked for"],
)
def test_what_is_not_about_to_change_is_raised_at_once(
    clock: VirtualClock, error: KubernetesError
) -> None:
    begun = clock.now()
    with pytest.raises(type(error)):
        times_of_reading(clock, error, longest=20.0)
    assert clock.now() == begun
