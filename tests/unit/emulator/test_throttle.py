"""Throttling: buckets of tokens per API, off unless asked for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.oneservice import Moments

from wainwright.emulator.throttle import DEFAULTS, Buckets, Limit, limits
from wainwright.emulator.world import World
from wainwright.errors import BadInput


def buckets(clock: Moments, *given: Limit) -> Buckets:
    return Buckets(World(clock.now, region="us-east-1"), given)


def admitted(made: Buckets, operation: str, times: int, service: str = "ec2") -> int:
    return sum(made.admit(operation, service) is None for _ in range(times))


def test_nobody_is_throttled_unless_asked_for() -> None:
    made = Buckets(World(Moments().now, region="us-east-1"))
    assert admitted(made, "RunInstances", 10_000) == 10_000


@pytest.mark.parametrize(
    ("operation", "burst", "rate"),
    [
        ("DescribeInstances", 100, 20),
        ("GetLaunchTemplateData", 100, 20),
        ("CreateFleet", 50, 5),
        ("CreateLaunchTemplate", 50, 5),
        ("RunInstances", 5, 2),
        ("TerminateInstances", 100, 5),
        ("CreateTags", 100, 10),
    ],
)
def test_the_limits_of_ec2(operation: str, burst: int, rate: int) -> None:
    clock = Moments()
    made = buckets(clock, *DEFAULTS)
    assert admitted(made, operation, 1000) == burst
    clock.time += 2
    assert admitted(made, operation, 1000) == 2 * rate
    clock.time += 10_000
    assert admitted(made, operation, 1000) == burst


def test_the_error_is_the_one_that_clients_retry() -> None:
    made = buckets(Moments(), Limit(rate=1, burst=1), Limit(service="ssm", rate=1, burst=1))
    errors = [[made.admit("X", service) for _ in range(2)][1] for service in ("ec2", "ssm")]
    assert [(error.code, error.status) for error in errors if error is not None] == [
        ("RequestLimitExceeded", 503),
        ("ThrottlingException", 400),
    ]


def test_each_api_has_a_bucket_of_its_own_and_other_services_have_none() -> None:
    made = buckets(Moments(), *DEFAULTS)
    assert admitted(made, "DescribeSubnets", 1000) == 100
    assert admitted(made, "DescribeImages", 1000) == 100
    assert admitted(made, "GetParameter", 1000, "ssm") == 1000


@given(st.lists(st.floats(0, 3), max_size=50), st.integers(1, 9), st.integers(1, 9))
def test_never_more_than_a_burst_and_what_came_since(
    pauses: list[float], rate: int, burst: int
) -> None:
    clock = Moments()
    made = buckets(clock, Limit(rate=rate, burst=burst))
    start, through = clock.time, 0
    for pause in pauses:
        clock.time += pause
        through += admitted(made, "X", 5)
        assert through <= burst + rate * (clock.time - start) + 1e-3


def test_limits_as_somebody_writes_them() -> None:
    assert limits(None) is None
    assert limits(False) is None
    assert limits(True) == list(DEFAULTS)
    assert limits([{"operation": "Run*", "rate": 0.5, "burst": 1}]) == [
        Limit(operation="Run*", rate=0.5, burst=1)
    ]
    for wrong in ([{"rate": 0, "burst": 1}], [{"rate": 1}], "yes", [{"rates": 1}]):
        with pytest.raises(BadInput, match="throttling"):
            limits(wrong)
