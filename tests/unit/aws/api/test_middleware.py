"""Middleware: rate limits, retries of safe calls, and metrics of every attempt."""

import asyncio
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.aws_account import ScriptedApi, ScriptedReply, run_in_virtual_time

from wainwright.aws.api.error_codes import (
    FailureKind,
    classify_failure,
    is_access_denied,
    is_idempotent,
)
from wainwright.aws.api.middleware import (
    MeteredSeam,
    RateLimit,
    RateLimitedSeam,
    RetryBackoff,
    RetryingSeam,
    TokenBucket,
    with_middleware,
)
from wainwright.aws.api.services import AwsResponse, Params, Seam
from wainwright.clock import VirtualClock
from wainwright.emulator.emulated_account import EmulatedAwsAccount
from wainwright.emulator.faults import DEFAULT_RATE_LIMITS
from wainwright.emulator.settings import EmulatorSettings
from wainwright.errors import AwsError
from wainwright.metrics import (
    AWS_REQUEST_DURATION,
    AWS_REQUEST_ERRORS,
    CLOUD_RATE_LIMIT_WAIT,
    CLOUD_RETRIES,
    MetricsRegistry,
)

RATES = {
    "ec2.CreateTags": RateLimit(per_second=2, burst=3),
    "ec2.*": RateLimit(per_second=10, burst=10),
}


class TimedSeam:
    """Records the time of every call."""

    def __init__(self, clock: VirtualClock, error: AwsError | None = None) -> None:
        self.clock = clock
        self.started = clock.now()
        self.error = error
        self.seen: list[tuple[float, str]] = []

    async def call(self, service: str, operation: str, params: Params) -> AwsResponse:
        del service, operation
        self.seen.append((round(self.clock.now() - self.started, 2), str(params.get("who", ""))))
        if self.error is not None:
            error, self.error = self.error, None
            raise error
        return {}


def test_a_burst_is_not_delayed_and_the_rest_is_spread_out() -> None:
    async def main(clock: VirtualClock) -> list[tuple[float, str]]:
        seam = TimedSeam(clock)
        paced = RateLimitedSeam(seam, clock, MetricsRegistry(), RATES)
        await asyncio.gather(*(paced.call("ec2", "CreateTags", {"who": n}) for n in range(6)))
        return seam.seen

    assert run_in_virtual_time(main) == [
        (0, "0"),
        (0, "1"),
        (0, "2"),
        (0.5, "3"),
        (1.0, "4"),
        (1.5, "5"),
    ]


def test_operations_do_not_wait_for_each_other() -> None:
    async def main(clock: VirtualClock) -> list[tuple[float, str]]:
        seam = TimedSeam(clock)
        paced = RateLimitedSeam(seam, clock, MetricsRegistry(), RATES)
        tags = [paced.call("ec2", "CreateTags", {}) for _ in range(9)]
        waiting = asyncio.gather(*tags)
        await paced.call("ec2", "DescribeSubnets", {"who": "other"})
        await paced.call("sqs", "ReceiveMessage", {"who": "unpaced"})
        await waiting
        return [row for row in seam.seen if row[1]]

    assert run_in_virtual_time(main) == [(0, "other"), (0, "unpaced")]


def test_throttling_drains_the_bucket() -> None:
    async def main(clock: VirtualClock) -> list[float]:
        seam = TimedSeam(clock, AwsError("RequestLimitExceeded", "slower", 503))
        paced = RateLimitedSeam(seam, clock, MetricsRegistry(), RATES)
        results = [paced.call("ec2", "CreateTags", {})]
        assert isinstance((await asyncio.gather(*results, return_exceptions=True))[0], AwsError)
        await asyncio.gather(*(paced.call("ec2", "CreateTags", {}) for _ in range(2)))
        return [moment for moment, _ in seam.seen]

    assert run_in_virtual_time(main) == [0, 0.5, 1.0]


def test_other_errors_do_not_drain_the_bucket() -> None:
    async def main(clock: VirtualClock) -> list[float]:
        seam = TimedSeam(clock, AwsError("InvalidInstanceID.NotFound", "no such instance"))
        paced = RateLimitedSeam(seam, clock, MetricsRegistry(), RATES)
        calls = [paced.call("ec2", "CreateTags", {}) for _ in range(3)]
        await asyncio.gather(*calls, return_exceptions=True)
        return [moment for moment, _ in seam.seen]

    assert run_in_virtual_time(main) == [0, 0, 0]


def test_rate_limit_waits_are_recorded() -> None:
    async def main(clock: VirtualClock) -> float:
        metrics = MetricsRegistry()
        paced = RateLimitedSeam(TimedSeam(clock), clock, metrics, RATES)
        await asyncio.gather(*(paced.call("ec2", "CreateTags", {}) for _ in range(5)))
        return metrics.distribution(CLOUD_RATE_LIMIT_WAIT, method="ec2.CreateTags").total

    assert abs(run_in_virtual_time(main) - 1.5) < 0.01


@given(
    st.lists(st.floats(min_value=0, max_value=3), min_size=1, max_size=60),
    st.floats(min_value=0.5, max_value=20),
    st.integers(min_value=1, max_value=20),
)
def test_no_time_window_has_more_calls_than_burst_and_rate_allow(
    gaps: list[float], per_second: float, burst: int
) -> None:
    bucket = TokenBucket(RateLimit(per_second=per_second, burst=burst), 0.0)
    now, served = 0.0, []
    for gap in gaps:
        now += gap
        served.append(now + bucket.take(now))
    assert served == sorted(served)
    for first, started in enumerate(served):
        for last in range(first, len(served)):
            allowed = burst + (served[last] - started) * per_second
            assert last - first + 1 <= allowed + 1e-6


def test_calls_within_the_rate_limit_are_never_throttled() -> None:
    """Against the emulator's own buckets, which are those of AWS."""

    async def main(clock: VirtualClock) -> tuple[int, float]:
        metrics = MetricsRegistry()
        cloud = EmulatedAwsAccount(
            clock=clock, settings=EmulatorSettings(throttling=DEFAULT_RATE_LIMITS)
        )
        seam: Seam = RateLimitedSeam(MeteredSeam(cloud, clock, metrics), clock, metrics)
        zones = [seam.call("ec2", "DescribeAvailabilityZones", {}) for _ in range(400)]
        await asyncio.gather(*zones)
        labels = {"service": "ec2", "operation": "DescribeAvailabilityZones"}
        errors = metrics.value(AWS_REQUEST_ERRORS, error="RequestLimitExceeded", **labels)
        return metrics.distribution(AWS_REQUEST_DURATION, **labels).count, errors

    assert run_in_virtual_time(main) == (400, 0)


def test_calls_succeed_eventually_in_a_shared_account() -> None:
    async def main(clock: VirtualClock) -> int:
        cloud = EmulatedAwsAccount(
            clock=clock, settings=EmulatorSettings(throttling=DEFAULT_RATE_LIMITS)
        )
        mine, theirs = (
            with_middleware(cloud, clock, Random(n), MetricsRegistry()) for n in range(2)
        )
        calls = [
            seam.call("ec2", "DescribeAvailabilityZones", {})
            for _ in range(150)
            for seam in (mine, theirs)
        ]
        return len(await asyncio.gather(*calls))

    assert run_in_virtual_time(main) == 300


THROTTLED = AwsError("RequestLimitExceeded", "Request limit exceeded.", 503)
LOST = AwsError("ConnectionFailed", "the connection was closed", 0)
BROKEN = AwsError("InternalError", "An internal error has occurred", 500)
NO_CAPACITY = AwsError("InsufficientInstanceCapacity", "no m5.large left", 500)
NOT_FOUND = AwsError("InvalidInstanceID.NotFound", "no such instance", 400)

FLEET: Params = {
    "LaunchTemplateConfigs": [],
    "TargetCapacitySpecification": {"TotalTargetCapacity": 1},
}
WITH_TOKEN: Params = {**FLEET, "ClientToken": "batch-1"}
NAMED: Params = {"InstanceProfileName": "wain"}


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (THROTTLED, FailureKind.REFUSED),
        (AwsError("ThrottlingException", "Rate exceeded", 400), FailureKind.REFUSED),
        (AwsError("Whatever", "", 429), FailureKind.REFUSED),
        (LOST, FailureKind.UNKNOWN),
        (BROKEN, FailureKind.UNKNOWN),
        (AwsError("RequestTimeout", "", 400), FailureKind.UNKNOWN),
        (AwsError("BadGateway", "", 502), FailureKind.UNKNOWN),
        (NO_CAPACITY, FailureKind.FINAL),
        (AwsError("ReservationCapacityExceeded", "", 500), FailureKind.FINAL),
        (NOT_FOUND, FailureKind.FINAL),
        (AwsError("UnauthorizedOperation", "", 403), FailureKind.FINAL),
        (AwsError("DryRunOperation", "", 412), FailureKind.FINAL),
    ],
)
def test_errors_are_classified(error: AwsError, expected: FailureKind) -> None:
    assert classify_failure(error) is expected


@pytest.mark.parametrize(
    ("operation", "params", "expected"),
    [
        ("DescribeInstances", {}, True),
        ("GetInstanceProfile", {}, True),
        ("ListInstanceProfiles", {}, True),
        ("ReceiveMessage", {}, True),
        ("TerminateInstances", {}, True),
        ("DeleteLaunchTemplate", {}, True),
        ("CreateTags", {}, True),
        ("CreateFleet", WITH_TOKEN, True),
        ("RunInstances", {"DryRun": True}, True),
        ("CreateFleet", FLEET, False),
        ("CreateFleet", {**FLEET, "ClientToken": ""}, False),
        ("RunInstances", {"DryRun": False}, False),
        ("CreateInstanceProfile", NAMED, False),
        ("AddRoleToInstanceProfile", NAMED, False),
    ],
)
def test_idempotent_operations(operation: str, params: Params, expected: bool) -> None:
    assert is_idempotent(operation, params) is expected


def test_access_denied_codes() -> None:
    assert is_access_denied(AwsError("UnauthorizedOperation", "You are not authorized.", 403))
    assert not is_access_denied(THROTTLED)


def attempt_times(
    operation: str, params: Params, replies: list[ScriptedReply], attempts: int = 5
) -> list[float]:
    """Times of the attempts, in seconds from the start; the final outcome is dropped."""

    async def main(clock: VirtualClock) -> list[float]:
        started = clock.now()
        times: list[float] = []
        seam = ScriptedApi({operation: replies})

        class TimedSeam:
            async def call(self, service: str, operation: str, params: Params) -> dict[str, object]:
                times.append(clock.now() - started)
                return await seam.call(service, operation, params)

        backoff = RetryBackoff(max_attempts=attempts)
        retrying = RetryingSeam(TimedSeam(), clock, Random(7), MetricsRegistry(), backoff)
        try:
            await retrying.call("iam" if "Profile" in operation else "ec2", operation, params)
        except AwsError:
            times.append(-1)
        return times

    return run_in_virtual_time(main)


@pytest.mark.parametrize(
    ("operation", "params", "error", "calls"),
    [
        ("DescribeInstances", {}, THROTTLED, 2),
        ("DescribeInstances", {}, LOST, 2),
        ("DescribeInstances", {}, BROKEN, 2),
        ("DescribeInstances", {}, NOT_FOUND, 1),
        ("CreateFleet", FLEET, THROTTLED, 2),
        ("CreateFleet", FLEET, LOST, 1),
        ("CreateFleet", FLEET, BROKEN, 1),
        ("CreateFleet", WITH_TOKEN, LOST, 2),
        ("CreateFleet", WITH_TOKEN, BROKEN, 2),
        ("CreateFleet", WITH_TOKEN, NO_CAPACITY, 1),
        ("TerminateInstances", {"InstanceIds": ["i-1"]}, LOST, 2),
        ("AddRoleToInstanceProfile", {**NAMED, "RoleName": "r"}, LOST, 1),
        ("AddRoleToInstanceProfile", {**NAMED, "RoleName": "r"}, THROTTLED, 2),
    ],
)
def test_only_safe_calls_are_retried(
    operation: str, params: Params, error: AwsError, calls: int
) -> None:
    times = attempt_times(operation, params, [error, {}])
    assert len([moment for moment in times if moment >= 0]) == calls
    assert (times[-1] == -1) is (calls == 1)


def test_each_delay_is_longer_than_the_one_before_with_jitter() -> None:
    times = attempt_times("DescribeInstances", {}, [THROTTLED])
    assert len(times) == 6
    assert times[-1] == -1
    pauses = [later - sooner for sooner, later in pairwise(times[:5])]
    for number, pause in enumerate(pauses):
        whole = 0.5 * 2**number
        assert whole / 2 <= pause <= whole
    assert len({pause / 2**number for number, pause in enumerate(pauses)}) == 4


def test_the_maximum_delay_is_not_exceeded() -> None:
    backoff = RetryBackoff(first_delay=1, max_delay=20)
    assert all(backoff.delay(number, Random(number)) <= 20 for number in range(1, 50))


def test_the_same_seed_gives_the_same_delays() -> None:
    assert attempt_times("DescribeInstances", {}, [LOST]) == attempt_times(
        "DescribeInstances", {}, [LOST]
    )


def test_retries_are_counted() -> None:
    async def main(clock: VirtualClock) -> float:
        metrics = MetricsRegistry()
        seam = ScriptedApi({"DescribeInstances": [THROTTLED, THROTTLED, {"Reservations": []}]})
        await RetryingSeam(seam, clock, Random(1), metrics).call("ec2", "DescribeInstances", {})
        return metrics.value(
            CLOUD_RETRIES, method="ec2.DescribeInstances", error="RequestLimitExceeded"
        )

    assert run_in_virtual_time(main) == 2


LABELS = {"service": "ec2", "operation": "DescribeSubnets"}


def test_calls_are_timed_on_the_clock() -> None:
    async def main(clock: VirtualClock) -> tuple[int, float]:
        metrics = MetricsRegistry()
        cloud = EmulatedAwsAccount(clock=clock, settings=EmulatorSettings(latency=0.25))
        for _ in range(4):
            await MeteredSeam(cloud, clock, metrics).call("ec2", "DescribeSubnets", {})
        seen = metrics.distribution(AWS_REQUEST_DURATION, **LABELS)
        return seen.count, round(seen.total, 3)

    assert run_in_virtual_time(main) == (4, 1.0)


def test_every_attempt_is_counted() -> None:
    async def main(clock: VirtualClock) -> tuple[int, float]:
        metrics = MetricsRegistry()
        broken = AwsError("InternalError", "broken", 500)
        seam = ScriptedApi({"DescribeSubnets": [broken, broken, {"Subnets": []}]})
        await with_middleware(seam, clock, Random(1), metrics).call("ec2", "DescribeSubnets", {})
        errors = metrics.value(AWS_REQUEST_ERRORS, error="InternalError", **LABELS)
        return metrics.distribution(AWS_REQUEST_DURATION, **LABELS).count, errors

    assert run_in_virtual_time(main) == (3, 2)


def test_a_dry_run_that_would_succeed_is_no_error() -> None:
    async def main(clock: VirtualClock) -> str:
        metrics = MetricsRegistry()
        seam = ScriptedApi({"DescribeSubnets": AwsError("DryRunOperation", "would succeed", 412)})
        with pytest.raises(AwsError):
            await MeteredSeam(seam, clock, metrics).call("ec2", "DescribeSubnets", {"DryRun": True})
        return metrics.exposition()

    assert "errors_total" not in run_in_virtual_time(main)
