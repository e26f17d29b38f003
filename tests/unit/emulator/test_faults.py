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
    check_rule_operations,
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


def injector(
    *values: dict[str, Any], seed: int = 1, clock: ManualTime | None = None
) -> FaultInjector:
    moments = clock or ManualTime()
    return FaultInjector(
        AccountContext(moments.now, region="us-east-1", seed=seed), parse_fault_rules(list(values))
    )


def count_hits(
    created: FaultInjector,
    operation: str = "CreateFleet",
    params: Any = FLEET,
    service: str = "ec2",
) -> bool:
    return created.injected_error(service, operation, params) is not None


@pytest.mark.parametrize(
    ("rule", "hits"),
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
def test_every_field_of_a_fault_rule_must_match(rule: dict[str, Any], hits: bool) -> None:
    assert count_hits(injector(rule)) is hits


def test_a_fault_rule_applies_at_most_its_number_of_times() -> None:
    created = injector({"times": 2})
    assert [count_hits(created) for _ in range(4)] == [True, True, False, False]


def test_only_applied_rules_are_counted() -> None:
    created = injector({"times": 1, "operation": "RunInstances"})
    assert not count_hits(created)
    assert count_hits(created, "RunInstances")
    assert created.state.hits == [1]


def test_a_window_includes_its_start_and_excludes_its_end() -> None:
    clock = ManualTime()
    created = injector({"start": EPOCH + 10, "end": EPOCH + 20}, clock=clock)
    outcome = []
    for seconds in (0, 9.9, 10, 19.9, 20):
        clock.time = EPOCH + seconds
        outcome.append(count_hits(created))
    assert outcome == [False, False, True, True, False]


def test_a_response_is_lost_only_after_the_handler() -> None:
    created = injector({"when": "after"})
    assert created.injected_error("ec2", "CreateFleet", {}) is None
    error = created.injected_error("ec2", "CreateFleet", {}, FaultTiming.AFTER)
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
def test_the_error_is_that_of_the_rule(rule: dict[str, Any], code: str, status: int) -> None:
    error = injector(rule | {"message": "as told"}).injected_error("ec2", "CreateFleet", {})
    assert error is not None
    assert (error.code, error.status, error.text) == (code, status, "as told")


def test_the_first_matching_rule_applies() -> None:
    created = injector({"code": "A", "times": 1}, {"code": "B"})
    codes = [created.injected_error("ec2", "X", {}) for _ in range(2)]
    assert [each and each.code for each in codes] == ["A", "B"]


@given(st.integers(0, 10_000))
def test_probability_uses_the_random_sequence_of_the_account(seed: int) -> None:
    created, same = (injector({"probability": 0.3}, seed=seed) for _ in range(2))
    outcome = [count_hits(created) for _ in range(300)]
    assert outcome == [count_hits(same) for _ in range(300)]
    assert 40 < sum(outcome) < 140


def test_calls_that_match_no_rule_draw_no_random_numbers() -> None:
    context = AccountContext(ManualTime().now, region="us-east-1")
    created = FaultInjector(context, [FaultRule(operation="RunInstances", probability=0.5)])
    before = context.random.getstate()
    assert not count_hits(created)
    assert context.random.getstate() == before


def test_rules_can_be_replaced() -> None:
    created = injector({"times": 1})
    assert count_hits(created)
    created.replace([FaultRule(times=1)])
    assert count_hits(created)
    created.replace([])
    assert not count_hits(created)


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
def test_an_invalid_fault_rule_is_rejected(wrong: Any) -> None:
    with pytest.raises(InvalidInputError, match="faults"):
        parse_fault_rules([wrong])


def throttler(clock: ManualTime, *values: RateLimit) -> Throttler:
    return Throttler(AccountContext(clock.now, region="us-east-1"), values)


def count_admitted(created: Throttler, operation: str, times: int, service: str = "ec2") -> int:
    return sum(created.admit(operation, service) is None for _ in range(times))


def test_there_is_no_throttling_by_default() -> None:
    created = Throttler(AccountContext(ManualTime().now, region="us-east-1"))
    assert count_admitted(created, "RunInstances", 10_000) == 10_000


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
def test_the_rate_limits_of_ec2(operation: str, burst: int, rate: int) -> None:
    clock = ManualTime()
    created = throttler(clock, *DEFAULT_RATE_LIMITS)
    assert count_admitted(created, operation, 1000) == burst
    clock.time += 2
    assert count_admitted(created, operation, 1000) == 2 * rate
    clock.time += 10_000
    assert count_admitted(created, operation, 1000) == burst


def test_the_error_is_the_one_that_clients_retry() -> None:
    created = throttler(
        ManualTime(), RateLimit(rate=1, burst=1), RateLimit(service="ssm", rate=1, burst=1)
    )
    errors = [[created.admit("X", service) for _ in range(2)][1] for service in ("ec2", "ssm")]
    assert [(error.code, error.status) for error in errors if error is not None] == [
        ("RequestLimitExceeded", 503),
        ("ThrottlingException", 400),
    ]


def test_each_operation_has_its_own_bucket_and_other_services_have_none() -> None:
    created = throttler(ManualTime(), *DEFAULT_RATE_LIMITS)
    assert count_admitted(created, "DescribeSubnets", 1000) == 100
    assert count_admitted(created, "DescribeImages", 1000) == 100
    assert count_admitted(created, "GetParameter", 1000, "ssm") == 1000


@given(st.lists(st.floats(0, 3), max_size=50), st.integers(1, 9), st.integers(1, 9))
def test_calls_never_exceed_burst_plus_refill(pauses: list[float], rate: int, burst: int) -> None:
    clock = ManualTime()
    created = throttler(clock, RateLimit(rate=rate, burst=burst))
    start, through = clock.time, 0
    for pause in pauses:
        clock.time += pause
        through += count_admitted(created, "X", 5)
        assert through <= burst + rate * (clock.time - start) + 1e-3


def test_rate_limits_are_parsed() -> None:
    assert parse_rate_limits(None) is None
    assert parse_rate_limits(False) is None
    assert parse_rate_limits(True) == list(DEFAULT_RATE_LIMITS)
    assert parse_rate_limits([{"operation": "Run*", "rate": 0.5, "burst": 1}]) == [
        RateLimit(operation="Run*", rate=0.5, burst=1)
    ]
    for wrong in ([{"rate": 0, "burst": 1}], [{"rate": 1}], "yes", [{"rates": 1}]):
        with pytest.raises(InvalidInputError, match="throttling"):
            parse_rate_limits(wrong)


ANSWER = {
    "Instances": [
        {"LaunchTemplateAndOverrides": {"Overrides": {"AvailabilityZone": "a", "SubnetId": "s"}}}
    ]
}


@pytest.mark.parametrize(
    ("answer", "left"),
    [
        ("without-zone", {"SubnetId": "s"}),
        ("without-subnet", {"AvailabilityZone": "a"}),
        ("without-image", {"AvailabilityZone": "a", "SubnetId": "s"}),
    ],
)
def test_an_answer_may_lack_a_field(answer: str, left: dict[str, str]) -> None:
    created = injector({"operation": "CreateFleet", "answer": answer, "times": 1})
    assert not count_hits(created)
    first, second = (created.run("ec2", "CreateFleet", FLEET, lambda _: ANSWER) for _ in range(2))
    assert first["Instances"][0]["LaunchTemplateAndOverrides"]["Overrides"] == left
    assert second == ANSWER


def test_a_fleet_may_launch_one_more_than_requested() -> None:
    created = injector({"answer": "one-more"})
    seen = created.run("ec2", "CreateFleet", FLEET, dict)
    assert seen["TargetCapacitySpecification"]["TotalTargetCapacity"] == 3


def test_a_frozen_listing_stands_still_until_the_rule_is_gone() -> None:
    created = injector({"operation": "Describe*", "answer": "frozen"})
    numbers = iter(range(9))

    def answer(params: Any) -> Any:
        return created.run("ec2", "DescribeInstances", params, lambda _: {"n": next(numbers)})

    assert [answer({})["n"], answer({"Ids": [1]})["n"], answer({})["n"]] == [0, 1, 0]
    created.replace([])
    assert answer({})["n"] == 3


@pytest.mark.parametrize(
    ("rule", "message", "hint"),
    [
        ({"operation": "CreateFlete"}, "no operation 'CreateFlete'", "did you mean CreateFleet?"),
        ({"operation": "Launch*"}, "no operation 'Launch*'", "as in CreateFleet or Describe*"),
        ({"service": "ecc2"}, "no service 'ecc2'", "did you mean ec2?"),
        ({"service": "sqs", "operation": "CreateFleet"}, "no operation 'CreateFleet'", ""),
    ],
)
def test_a_rule_that_no_call_can_match_is_refused(
    rule: dict[str, Any], message: str, hint: str
) -> None:
    operations = {("ec2", "CreateFleet"), ("ec2", "DescribeInstances"), ("sqs", "ReceiveMessage")}
    with pytest.raises(InvalidInputError) as refused:
        check_rule_operations(parse_fault_rules([rule]), operations)
    assert message in refused.value.message
    assert hint in refused.value.hint


def test_rules_by_wildcard_match_the_operations_of_their_service() -> None:
    rules = parse_fault_rules([{"operation": "Create*"}, {"service": "e*"}, {}])
    check_rule_operations(rules, {("ec2", "CreateFleet")})
