"""Fault rules and throttling."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.emulator_accounts import ManualTime

from wainwright.clock import EPOCH
from wainwright.emulator.context import AccountContext
from wainwright.emulator.faults import (
    DEFAULT_RATE_LIMITS,
    FaultInjector,
    FaultRule,
    FaultTiming,
    RateLimit,
    Throttler,
    parse_fault_rules,
    parse_rate_limits,
)
from wainwright.errors import InvalidInputError

FLEET = {
    "Type": "instant",
    "DryRun": True,
    "TargetCapacitySpecification": {"TotalTargetCapacity": 2},
    "LaunchTemplateConfigs": [
        {"Overrides": [{"InstanceType": "m5.large"}, {"InstanceType": "c5.large"}]},
        {"Overrides": [{"InstanceType": "p5.48xlarge"}]},
    ],
}


def faults(*given: dict[str, Any], seed: int = 1, clock: ManualTime | None = None) -> FaultInjector:
    moments = clock or ManualTime()
    return FaultInjector(
        AccountContext(moments.now, region="us-east-1", seed=seed), parse_fault_rules(list(given))
    )


def strikes(
    made: FaultInjector, operation: str = "CreateFleet", params: Any = FLEET, service: str = "ec2"
) -> bool:
    return made.injected_error(service, operation, params) is not None


@pytest.mark.parametrize(
    ("rule", "struck"),
    [
        ({}, True),
        ({"operation": "CreateFleet"}, True),
        ({"operation": "Create*"}, True),
        ({"operation": "Describe*"}, False),
        ({"operation": "createfleet"}, False),
        ({"service": "ec2"}, True),
        ({"service": "sqs"}, False),
        ({"match": {"Type": "instant"}}, True),
        ({"match": {"Type": "maintain"}}, False),
        ({"match": {"Type": "in*"}}, True),
        ({"match": {"Type": ["maintain", "instant"]}}, True),
        ({"match": {"Nothing": "*"}}, False),
        ({"match": {"DryRun": True}}, True),
        ({"match": {"DryRun": False}}, False),
        ({"match": {"TargetCapacitySpecification.TotalTargetCapacity": 2}}, True),
        ({"match": {"TargetCapacitySpecification.TotalTargetCapacity": 3}}, False),
        ({"match": {"LaunchTemplateConfigs.*.Overrides.*.InstanceType": "p5.*"}}, True),
        ({"match": {"LaunchTemplateConfigs.0.Overrides.*.InstanceType": "p5.*"}}, False),
        ({"match": {"LaunchTemplateConfigs.*.Overrides.*.InstanceType": "t3.*"}}, False),
        ({"match": {"Type": "instant", "DryRun": False}}, False),
        ({"probability": 0}, False),
        ({"when": "after"}, False),
    ],
)
def test_everything_that_a_rule_says_must_agree(rule: dict[str, Any], struck: bool) -> None:
    assert strikes(faults(rule)) is struck


def test_a_rule_strikes_so_many_times_and_never_again() -> None:
    made = faults({"times": 2})
    assert [strikes(made) for _ in range(4)] == [True, True, False, False]


def test_only_what_struck_is_counted() -> None:
    made = faults({"times": 1, "operation": "RunInstances"})
    assert not strikes(made)
    assert strikes(made, "RunInstances")
    assert made.state.hits == [1]


def test_a_window_opens_at_its_start_and_is_closed_at_its_end() -> None:
    clock = ManualTime()
    made = faults({"start": EPOCH + 10, "end": EPOCH + 20}, clock=clock)
    outcome = []
    for seconds in (0, 9.9, 10, 19.9, 20):
        clock.time = EPOCH + seconds
        outcome.append(strikes(made))
    assert outcome == [False, False, True, True, False]


def test_a_reply_is_lost_only_after_the_deed() -> None:
    made = faults({"when": "after"})
    assert made.injected_error("ec2", "CreateFleet", {}) is None
    error = made.injected_error("ec2", "CreateFleet", {}, FaultTiming.AFTER)
    assert error is not None
    assert error.status == 0


@pytest.mark.parametrize(
    ("rule", "code", "status"),
    [
        ({"code": "InternalError", "status": 500}, "InternalError", 500),
        ({"code": "UnauthorizedOperation", "status": 403}, "UnauthorizedOperation", 403),
        ({"code": "InvalidParameterValue"}, "InvalidParameterValue", 400),
        ({}, "ConnectionClosed", 0),
    ],
)
def test_the_error_is_the_one_that_the_rule_says(
    rule: dict[str, Any], code: str, status: int
) -> None:
    error = faults(rule | {"message": "as told"}).injected_error("ec2", "CreateFleet", {})
    assert error is not None
    assert (error.code, error.status, error.text) == (code, status, "as told")


def test_the_first_rule_that_strikes_counts() -> None:
    made = faults({"code": "A", "times": 1}, {"code": "B"})
    codes = [made.injected_error("ec2", "X", {}) for _ in range(2)]
    assert [each and each.code for each in codes] == ["A", "B"]


@given(st.integers(0, 10_000))
def test_chance_is_the_worlds_and_falls_as_often_as_said(seed: int) -> None:
    made, same = (faults({"probability": 0.3}, seed=seed) for _ in range(2))
    outcome = [strikes(made) for _ in range(300)]
    assert outcome == [strikes(same) for _ in range(300)]
    assert 40 < sum(outcome) < 140


def test_calls_that_no_rule_is_about_leave_chance_alone() -> None:
    context = AccountContext(ManualTime().now, region="us-east-1")
    made = FaultInjector(context, [FaultRule(operation="RunInstances", probability=0.5)])
    before = context.random.getstate()
    assert not strikes(made)
    assert context.random.getstate() == before


def test_rules_can_be_replaced() -> None:
    made = faults({"times": 1})
    assert strikes(made)
    made.replace([FaultRule(times=1)])
    assert strikes(made)
    made.replace([])
    assert not strikes(made)


@pytest.mark.parametrize(
    "wrong",
    [
        {"probability": 1.5},
        {"times": 0},
        {"code": ""},
        {"when": "later"},
        {"colour": "red"},
        {"status": 700},
        "CreateFleet",
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidInputError, match="faults"):
        parse_fault_rules([wrong])


def buckets(clock: ManualTime, *given: RateLimit) -> Throttler:
    return Throttler(AccountContext(clock.now, region="us-east-1"), given)


def admitted(made: Throttler, operation: str, times: int, service: str = "ec2") -> int:
    return sum(made.admit(operation, service) is None for _ in range(times))


def test_nobody_is_throttled_unless_asked_for() -> None:
    made = Throttler(AccountContext(ManualTime().now, region="us-east-1"))
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
    clock = ManualTime()
    made = buckets(clock, *DEFAULT_RATE_LIMITS)
    assert admitted(made, operation, 1000) == burst
    clock.time += 2
    assert admitted(made, operation, 1000) == 2 * rate
    clock.time += 10_000
    assert admitted(made, operation, 1000) == burst


def test_the_error_is_the_one_that_clients_retry() -> None:
    made = buckets(
        ManualTime(), RateLimit(rate=1, burst=1), RateLimit(service="ssm", rate=1, burst=1)
    )
    errors = [[made.admit("X", service) for _ in range(2)][1] for service in ("ec2", "ssm")]
    assert [(error.code, error.status) for error in errors if error is not None] == [
        ("RequestLimitExceeded", 503),
        ("ThrottlingException", 400),
    ]


def test_each_api_has_a_bucket_of_its_own_and_other_services_have_none() -> None:
    made = buckets(ManualTime(), *DEFAULT_RATE_LIMITS)
    assert admitted(made, "DescribeSubnets", 1000) == 100
    assert admitted(made, "DescribeImages", 1000) == 100
    assert admitted(made, "GetParameter", 1000, "ssm") == 1000


@given(st.lists(st.floats(0, 3), max_size=50), st.integers(1, 9), st.integers(1, 9))
def test_never_more_than_a_burst_and_what_came_since(
    pauses: list[float], rate: int, burst: int
) -> None:
    clock = ManualTime()
    made = buckets(clock, RateLimit(rate=rate, burst=burst))
    start, through = clock.time, 0
    for pause in pauses:
        clock.time += pause
        through += admitted(made, "X", 5)
        assert through <= burst + rate * (clock.time - start) + 1e-3


def test_limits_as_somebody_writes_them() -> None:
    assert parse_rate_limits(None) is None
    assert parse_rate_limits(False) is None
    assert parse_rate_limits(True) == list(DEFAULT_RATE_LIMITS)
    assert parse_rate_limits([{"operation": "Run*", "rate": 0.5, "burst": 1}]) == [
        RateLimit(operation="Run*", rate=0.5, burst=1)
    ]
    for wrong in ([{"rate": 0, "burst": 1}], [{"rate": 1}], "yes", [{"rates": 1}]):
        with pytest.raises(InvalidInputError, match="throttling"):
            parse_rate_limits(wrong)
