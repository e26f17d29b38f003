"""Faults at the ports of the controllers: each kind does what it says, where the seed says."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any

import pytest

from wainwright.api.kubernetes.cluster import Namespace
from wainwright.api.wire import ObjectMeta
from wainwright.clock import EPOCH, VirtualClock
from wainwright.cluster import Cluster
from wainwright.errors import (
    ResourceVersionGoneError,
    ServerUnavailableError,
    TooManyRequestsError,
)
from wainwright.sim.api_server import InMemoryApiServer
from wainwright.sim.fault_injection import (
    ClockStep,
    Fault,
    FaultInjection,
    FaultInjector,
    InjectedProcess,
)


class NoAws:
    async def call(self, service: str, operation: str, params: Any) -> Any:  # noqa: ARG002
        return {"answered": operation}


class Harness:
    def __init__(self, faults: FaultInjection) -> None:
        self.clock = VirtualClock(EPOCH)
        self.api = InMemoryApiServer(self.clock)
        self.deaths = 0
        self.shown: list[tuple[float, str]] = []
        self.injector = FaultInjector(faults, self.clock, EPOCH, self._die, self._show)
        self.process: InjectedProcess = self.injector.start_process(self.api, NoAws())

    @property
    def cluster(self) -> Cluster:
        return self.process.cluster

    def _die(self) -> None:
        self.deaths += 1

    def _show(self, subject: str) -> None:
        self.shown.append((self.seconds(), subject))

    def exists(self, name: str) -> bool:
        return self.api.peek(Namespace, name) is not None

    def seconds(self) -> float:
        return self.clock.now() - EPOCH


def play(script: Callable[[Harness], Awaitable[None]], **faults: Any) -> Harness:
    harness = Harness(FaultInjection(**{"seed": 1, "until": 3600.0, **faults}))
    try:
        harness.clock.run(_run(script, harness))
    finally:
        harness.clock.close()
    return harness


async def _run(script: Callable[[Harness], Awaitable[None]], harness: Harness) -> None:
    await script(harness)


def namespace(name: str) -> Namespace:
    return Namespace(metadata=ObjectMeta(name=name))


@pytest.mark.parametrize(
    ("fault", "error", "is_done", "seconds"),
    [
        (Fault.BEFORE, ServerUnavailableError, False, 0.0),
        (Fault.THROTTLED, TooManyRequestsError, False, 0.0),
        (Fault.AFTER, ServerUnavailableError, True, 0.0),
        (Fault.LOST, ServerUnavailableError, True, 30.0),
    ],
)
def test_a_call_fails(fault: Fault, error: type[Exception], is_done: bool, seconds: float) -> None:
    async def script(harness: Harness) -> None:
        with pytest.raises(error):
            await harness.cluster.create(namespace("shop"))

    harness = play(script, shares={fault: 1.0})

    assert harness.exists("shop") is is_done
    assert harness.seconds() == pytest.approx(seconds)
    assert [each.name for each in harness.injector.happened] == [f"create Namespace #1: {fault}"]


def test_a_slow_call_is_answered() -> None:
    async def script(harness: Harness) -> None:
        await harness.cluster.create(namespace("shop"))

    harness = play(script, shares={Fault.SLOW: 1.0})

    assert harness.exists("shop")
    assert 0.0 < harness.seconds() <= 20.0


@pytest.mark.parametrize(
    ("fault", "is_done"), [(Fault.DIES_BEFORE, False), (Fault.DIES_AFTER, True)]
)
def test_a_process_dies_at_a_call_and_makes_no_other(fault: Fault, is_done: bool) -> None:
    async def script(harness: Harness) -> None:
        for name in ("shop", "other"):
            task = asyncio.ensure_future(harness.cluster.create(namespace(name)))
            await asyncio.sleep(1)
            assert not task.done()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    harness = play(script, shares={fault: 1.0})

    assert harness.deaths == 1
    assert harness.exists("shop") is is_done
    assert not harness.exists("other")


def test_a_process_dies_a_few_steps_after_a_call() -> None:
    async def script(harness: Harness) -> None:
        await harness.cluster.create(namespace("shop"))
        await asyncio.sleep(1)

    harness = play(script, shares={Fault.DIES_SOON: 1.0})

    assert harness.deaths == 1


def test_calls_to_ec2_fail_like_those_to_the_cluster() -> None:
    async def script(harness: Harness) -> None:
        answer = await harness.process.aws.call("ec2", "DescribeSubnets", {})
        assert answer == {"answered": "DescribeSubnets"}

    harness = play(script, shares={Fault.SLOW: 1.0})

    assert [each.name for each in harness.injector.happened] == ["DescribeSubnets #1: slow"]


async def watched(harness: Harness, count: int) -> list[str]:
    names: list[str] = []
    async with aclosing(harness.cluster.watch(Namespace, "0")) as events:
        async for event in events:
            assert event.object is not None
            names.append(event.object.metadata.name)
            if len(names) == count:
                break
    return names


def test_a_watch_repeats_events_and_keeps_their_order() -> None:
    async def script(harness: Harness) -> None:
        names = await watched(harness, 4)
        assert names == ["default", "default", "kube-node-lease", "kube-node-lease"]

    play(script, shares={Fault.REPEATED: 1.0})


def test_a_watch_is_late() -> None:
    async def script(harness: Harness) -> None:
        await watched(harness, 1)
        assert 0.0 < harness.seconds() <= 60.0

    play(script, shares={Fault.DELAYED: 1.0})


def test_polls_hear_of_a_change_again_when_a_late_watch_has_shown_it() -> None:
    """They may have looked before, when the process could not know of it."""

    async def script(harness: Harness) -> None:
        await watched(harness, 2)  # the first is over when the second comes
        assert [subject for _, subject in harness.shown] == ["Namespace", "Namespace existence"]
        assert all(0.0 < at < harness.seconds() for at, _ in harness.shown)

    play(script, shares={Fault.DELAYED: 1.0})


def test_a_watch_ends_before_its_event() -> None:
    async def script(harness: Harness) -> None:
        assert await watched(harness, 1) == []

    play(script, shares={Fault.DROPPED: 1.0})


def test_a_watch_answers_that_everything_is_to_be_listed_again() -> None:
    async def script(harness: Harness) -> None:
        with pytest.raises(ResourceVersionGoneError):
            await watched(harness, 1)

    play(script, shares={Fault.GONE: 1.0})


def test_only_named_faults_happen() -> None:
    async def script(harness: Harness) -> None:
        await harness.cluster.create(namespace("first"))
        with pytest.raises(ServerUnavailableError):
            await harness.cluster.create(namespace("second"))
        await harness.cluster.create(namespace("third"))

    play(script, shares={Fault.BEFORE: 1.0}, only=frozenset({"create Namespace #2: before"}))


def test_nothing_fails_after_the_end_of_the_faults() -> None:
    async def script(harness: Harness) -> None:
        await harness.clock.sleep(60)
        await harness.cluster.create(namespace("shop"))

    play(script, shares={Fault.BEFORE: 1.0}, until=60.0)


def test_the_clock_is_set_and_sleeps_as_long_as_before() -> None:
    async def script(harness: Harness) -> None:
        clock = harness.process.clock
        assert clock.now() == EPOCH
        await clock.sleep(10)
        assert clock.now() == EPOCH + 10 - 30
        await clock.sleep(10)
        assert clock.now() == EPOCH + 20

    steps = (ClockStep(at=10.0, offset=-30.0),)
    play(script, clock_steps=steps, until=20.0)
