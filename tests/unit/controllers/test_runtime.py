"""Queues, workers, backoff and stopping, in virtual time."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.scraped_metrics import ScrapedMetrics

from wainwright.backoff import BACKOFF_JITTER, FIRST_BACKOFF
from wainwright.clock import VirtualClock
from wainwright.controllers.runtime import (
    DEPENDS_ON_ANYTHING,
    DONE,
    IMAGES,
    INSTANCES,
    Again,
    Controller,
    ControllerRuntime,
    Key,
    Poll,
    Result,
    Subject,
    WorkQueue,
)
from wainwright.metrics import ACTIVE_WORKERS, RECONCILE_ERRORS, RECONCILES, MetricsRegistry


@pytest.fixture
def clock() -> Iterator[VirtualClock]:
    clock = VirtualClock(0.0)
    yield clock
    clock.close()


class Recorder:
    """A reconciler that notes when it was called with which key."""

    name = "nodeclaim.test"

    def __init__(
        self, clock: VirtualClock, act: Callable[[Key], Awaitable[Result]] | None = None
    ) -> None:
        self._clock, self._act = clock, act
        self.calls: list[tuple[float, Key]] = []
        self.finished: list[Key] = []

    def watch(self, queue: WorkQueue) -> None:
        """Keys are added by the tests."""

    async def reconcile(self, key: Key) -> Result:
        self.calls.append((self._clock.now(), key))
        result = DONE if self._act is None else await self._act(key)
        self.finished.append(key)
        return result


def run(
    clock: VirtualClock,
    reconciler: Recorder,
    story: Callable[[Controller], Awaitable[None]],
    *,
    metrics: MetricsRegistry | None = None,
    **options: Any,
) -> None:
    async def main() -> None:
        runtime = ControllerRuntime(clock, metrics or MetricsRegistry(), seed=3)
        controller = runtime.add(reconciler, **options)
        running = asyncio.create_task(runtime.run())
        await story(controller)
        runtime.stop()
        await running

    clock.run(main())


def test_a_key_that_is_added_again_before_it_is_taken_counts_once(clock: VirtualClock) -> None:
    async def story(controller: Controller) -> None:
        for key in ("a", "b", "a"):
            controller.queue.add(key)
        await clock.sleep(1)

    recorder = Recorder(clock)
    run(clock, recorder, story)
    assert [key for _, key in recorder.calls] == ["a", "b"]


def test_a_key_that_is_added_during_its_work_is_looked_at_once_more_and_never_twice_at_a_time(
    clock: VirtualClock,
) -> None:
    in_work: set[Key] = set()

    async def act(key: Key) -> Result:
        assert key not in in_work
        in_work.add(key)
        await clock.sleep(10)
        in_work.discard(key)
        return DONE

    async def story(controller: Controller) -> None:
        controller.queue.add("a")
        await clock.sleep(1)
        controller.queue.add("a")
        controller.queue.add("a")
        await clock.sleep(100)

    recorder = Recorder(clock, act)
    run(clock, recorder, story, workers=4)
    assert recorder.calls == [(0.0, "a"), (10.0, "a")]


@pytest.mark.parametrize(("options", "bound"), [({"workers": 3}, 3), ({}, 1)])
def test_workers_are_bounded(clock: VirtualClock, options: dict[str, int], bound: int) -> None:
    metrics, most = MetricsRegistry(), 0.0

    async def act(_: Key) -> Result:
        nonlocal most
        most = max(most, metrics.value(ACTIVE_WORKERS, controller="nodeclaim.test"))
        await clock.sleep(1)
        return DONE

    async def story(controller: Controller) -> None:
        for number in range(9):
            controller.queue.add(str(number))
        await clock.sleep(60)

    recorder = Recorder(clock, act)
    run(clock, recorder, story, metrics=metrics, **options)
    assert most == bound
    assert [at for at, _ in recorder.calls] == [float(number // bound) for number in range(9)]


def test_again_looks_at_the_object_then_and_a_change_looks_earlier(clock: VirtualClock) -> None:
    async def act(_: Key) -> Result:
        return Again(30)

    async def story(controller: Controller) -> None:
        controller.queue.add("a")
        await clock.sleep(45)
        controller.queue.add("a")
        await clock.sleep(40)

    recorder = Recorder(clock, act)
    run(clock, recorder, story)
    assert [at for at, _ in recorder.calls] == [0.0, 30.0, 45.0, 75.0]


def test_of_several_times_the_earliest_counts(clock: VirtualClock) -> None:
    async def story(controller: Controller) -> None:
        controller.queue.add_after("a", 20)
        controller.queue.add_after("a", 5)
        controller.queue.add_after("a", 50)
        assert controller.queue.next_due == 5.0
        await clock.sleep(100)

    recorder = Recorder(clock)
    run(clock, recorder, story)
    assert recorder.calls == [(5.0, "a")]


def test_failures_wait_longer_and_longer_and_a_success_forgets_them(clock: VirtualClock) -> None:
    outcomes = [True, True, True, False, True]
    metrics = MetricsRegistry()

    async def act(_: Key) -> Result:
        if outcomes and outcomes.pop(0):
            raise RuntimeError("no answer")
        return DONE

    async def story(controller: Controller) -> None:
        controller.queue.add("a")
        await clock.sleep(60)
        controller.queue.add("a")
        await clock.sleep(60)

    recorder = Recorder(clock, act)
    run(clock, recorder, story, metrics=metrics)
    times = [at for at, _ in recorder.calls]
    waits = [times[1] - times[0], times[2] - times[1], times[3] - times[2], times[5] - times[4]]
    expected = [FIRST_BACKOFF, 2 * FIRST_BACKOFF, 4 * FIRST_BACKOFF, FIRST_BACKOFF]
    for wait, longest in zip(waits, expected, strict=True):
        assert (1 - BACKOFF_JITTER) * longest <= wait <= longest
    assert metrics.value(RECONCILE_ERRORS, controller="nodeclaim.test") == 4
    assert metrics.value(RECONCILES, controller="nodeclaim.test", result="success") == 2


def test_one_failing_object_does_not_keep_others_waiting(clock: VirtualClock) -> None:
    async def act(key: Key) -> Result:
        if key == "bad":
            raise RuntimeError("again and again")
        return DONE

    async def story(controller: Controller) -> None:
        controller.queue.add("bad")
        controller.queue.add("good")
        await clock.sleep(1)

    recorder = Recorder(clock, act)
    run(clock, recorder, story)
    assert (0.0, "good") in recorder.calls


def test_stopping_finishes_what_is_in_work_and_takes_nothing_more(clock: VirtualClock) -> None:
    async def act(_: Key) -> Result:
        await clock.sleep(5)
        return Again(1)

    async def story(controller: Controller) -> None:
        controller.queue.add("a")
        controller.queue.add("b")
        await clock.sleep(1)

    recorder = Recorder(clock, act)
    run(clock, recorder, story)
    assert (recorder.finished, clock.now()) == (["a"], 5.0)


def test_stopping_does_not_wait_for_ever(clock: VirtualClock) -> None:
    async def act(_: Key) -> Result:
        await clock.sleep(3600)
        return DONE

    async def story(controller: Controller) -> None:
        controller.queue.add("a")
        await clock.sleep(1)

    recorder = Recorder(clock, act)
    run(clock, recorder, story)
    assert (recorder.finished, clock.now()) == ([], 6.0)


def test_a_killed_process_ends_where_it_is(clock: VirtualClock) -> None:
    async def act(_: Key) -> Result:
        await clock.sleep(5)
        return DONE

    recorder = Recorder(clock, act)

    async def main() -> Any:
        runtime = ControllerRuntime(clock, MetricsRegistry())
        runtime.add(recorder).queue.add("a")
        running = asyncio.create_task(runtime.run())
        await clock.sleep(1)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    clock.run(main())
    assert (recorder.calls, recorder.finished, clock.now()) == ([(0.0, "a")], [], 1.0)


def test_queues_say_what_was_added_and_for_how_long_keys_are_in_work(clock: VirtualClock) -> None:
    metrics = MetricsRegistry()

    async def act(key: Key) -> Result:
        await clock.sleep(30 if key == "slow" else 10)
        return Again(100) if key == "again" else DONE

    async def story(controller: Controller) -> None:
        controller.queue.add("slow")
        controller.queue.add("slow")
        await clock.sleep(5)
        controller.queue.add("again")
        await clock.sleep(4)
        labels = {"controller": Recorder.name, "name": Recorder.name}
        scraped = ScrapedMetrics(metrics)
        assert scraped.value("workqueue_adds_total", **labels) == 2
        assert scraped.value("workqueue_unfinished_work_seconds", **labels) == 9 + 4
        assert scraped.value("workqueue_longest_running_processor_seconds", **labels) == 9
        assert scraped.value("workqueue_retries_total", **labels) == 0
        await clock.sleep(30)
        scraped = ScrapedMetrics(metrics)
        assert scraped.value("workqueue_retries_total", **labels) == 1
        assert scraped.value("workqueue_unfinished_work_seconds", **labels) == 0
        await clock.sleep(90)
        assert ScrapedMetrics(metrics).value("workqueue_adds_total", **labels) == 3

    run(clock, Recorder(clock, act), story, metrics=metrics, workers=2)


def test_nothing_wakes_while_nothing_is_due(clock: VirtualClock) -> None:
    """A day without changes is one jump: the runtime says when the next moment is."""

    async def main() -> tuple[bool, float | None]:
        runtime = ControllerRuntime(clock, MetricsRegistry())
        controller = runtime.add(Recorder(clock))
        running = asyncio.create_task(runtime.run())
        controller.queue.add_after("a", 86_400)
        await clock.sleep(1)
        idle = runtime.is_idle, runtime.next_due
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return idle

    assert clock.run(main()) == (True, 86_400.0)


def test_what_is_left_of_a_timer_that_fired_early_moves_the_clock(clock: VirtualClock) -> None:
    """2e-7 s added to seconds since 1970 are nothing: virtual time would stand still for ever."""
    looks = []

    async def look(_: Key) -> Result:
        looks.append(clock.now())
        return Again(2e-7) if len(looks) < 3 else DONE

    async def main() -> None:
        runtime = ControllerRuntime(clock, MetricsRegistry())
        controller = runtime.add(Recorder(clock, look))
        running = asyncio.create_task(runtime.run())
        controller.queue.add("a")
        await clock.sleep(1)
        runtime.stop()
        await running

    clock.run(main())
    assert len(set(looks)) == 3


class World:
    """Something that changes, and tells of it."""

    def __init__(self) -> None:
        self.revision = 0
        self._callbacks: list[Callable[[Subject], None]] = []

    def on_change(self, callback: Callable[[Subject], None]) -> None:
        self._callbacks.append(callback)

    def change(self, subject: Subject = INSTANCES) -> None:
        self.revision += 1
        for callback in self._callbacks:
            callback(subject)


def _poll_times(
    clock: VirtualClock,
    changes: list[float],
    *,
    feed: bool,
    due: float | None = None,
    subject: Subject = INSTANCES,
    depends_on: Mapping[Subject, float] = DEPENDS_ON_ANYTHING,
) -> list[tuple[float, int]]:
    """When the key was looked at, and what was seen, of a poll every ten seconds."""
    world, seen = World(), list[tuple[float, int]]()

    async def look(_: Key) -> Result:
        seen.append((clock.now(), world.revision))
        return Poll(10.0, due, depends_on)

    async def main() -> None:
        runtime = ControllerRuntime(clock, MetricsRegistry(), feed=world if feed else None)
        controller = runtime.add(Recorder(clock, look))
        running = asyncio.create_task(runtime.run())
        controller.queue.add("a")
        for moment in changes:
            await clock.sleep(moment - clock.now())
            world.change(subject)
        await clock.sleep(99.5 - clock.now())
        runtime.stop()
        await running

    clock.run(main())
    return seen


def test_a_poll_is_repeated_by_its_period(clock: VirtualClock) -> None:
    assert [at for at, _ in _poll_times(clock, [], feed=False)] == [10.0 * n for n in range(10)]


def test_a_poll_that_can_find_nothing_new_is_not_woken(clock: VirtualClock) -> None:
    assert _poll_times(clock, [12.0, 13.0, 55.0], feed=True) == [(0.0, 0), (20.0, 2), (60.0, 3)]


def test_a_poll_is_woken_when_time_alone_changes_the_outcome(clock: VirtualClock) -> None:
    assert [at for at, _ in _poll_times(clock, [], feed=True, due=34.0)] == [0.0, 40.0]


def test_a_poll_is_not_woken_by_changes_that_it_does_not_depend_on(clock: VirtualClock) -> None:
    depends_on = {INSTANCES: 0.0, IMAGES: 0.0}
    assert _poll_times(clock, [12.0], feed=True, subject="Pod", depends_on=depends_on) == [(0.0, 0)]


def test_a_poll_is_woken_by_each_of_the_changes_that_it_depends_on(clock: VirtualClock) -> None:
    depends_on = {INSTANCES: 0.0, IMAGES: 0.0}
    seen = _poll_times(clock, [12.0, 41.0], feed=True, subject=IMAGES, depends_on=depends_on)
    assert seen == [(0.0, 0), (20.0, 1), (50.0, 2)]


def test_a_poll_goes_on_while_answers_from_before_a_change_may_be_remembered(
    clock: VirtualClock,
) -> None:
    seen = _poll_times(clock, [12.0], feed=True, depends_on={INSTANCES: 25.0})
    assert [at for at, _ in seen] == [0.0, 20.0, 30.0, 40.0]


@given(
    changes=st.lists(
        st.integers(1, 990).filter(lambda tenth: tenth % 100), max_size=8, unique=True
    ).map(lambda tenths: [tenth / 10 for tenth in sorted(tenths)])
)
def test_polls_see_each_state_at_the_moment_at_which_plain_polling_sees_it(
    changes: list[float],
) -> None:
    seen = []
    for feed in (False, True):
        clock = VirtualClock(0.0)
        seen.append(_poll_times(clock, changes, feed=feed))
        clock.close()
    plain, gated = seen
    first_seen: dict[int, float] = {}
    for at, revision in plain:
        first_seen.setdefault(revision, at)
    assert gated == [(at, revision) for revision, at in first_seen.items()]
