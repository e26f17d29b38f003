"""Faults: which calls fail, and which never do."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.oneservice import Moments

from wainwright.clock import EPOCH
from wainwright.emulator.faults import Fault, Faults, When, rules
from wainwright.emulator.world import World
from wainwright.errors import BadInput

FLEET = {
    "Type": "instant",
    "DryRun": True,
    "TargetCapacitySpecification": {"TotalTargetCapacity": 2},
    "LaunchTemplateConfigs": [
        {"Overrides": [{"InstanceType": "m5.large"}, {"InstanceType": "c5.large"}]},
        {"Overrides": [{"InstanceType": "p5.48xlarge"}]},
    ],
}


def faults(*given: dict[str, Any], seed: int = 1, clock: Moments | None = None) -> Faults:
    moments = clock or Moments()
    return Faults(World(moments.now, region="us-east-1", seed=seed), rules(list(given)))


def strikes(
    made: Faults, operation: str = "CreateFleet", params: Any = FLEET, service: str = "ec2"
) -> bool:
    return made.strike(service, operation, params) is not None


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
    assert made.state.struck == [1]


def test_a_window_opens_at_its_start_and_is_closed_at_its_end() -> None:
    clock = Moments()
    made = faults({"start": EPOCH + 10, "end": EPOCH + 20}, clock=clock)
    outcome = []
    for seconds in (0, 9.9, 10, 19.9, 20):
        clock.time = EPOCH + seconds
        outcome.append(strikes(made))
    assert outcome == [False, False, True, True, False]


def test_a_reply_is_lost_only_after_the_deed() -> None:
    made = faults({"when": "after"})
    assert made.strike("ec2", "CreateFleet", {}) is None
    error = made.strike("ec2", "CreateFleet", {}, When.AFTER)
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
    error = faults(rule | {"message": "as told"}).strike("ec2", "CreateFleet", {})
    assert error is not None
    assert (error.code, error.status, error.text) == (code, status, "as told")


def test_the_first_rule_that_strikes_counts() -> None:
    made = faults({"code": "A", "times": 1}, {"code": "B"})
    codes = [made.strike("ec2", "X", {}) for _ in range(2)]
    assert [each and each.code for each in codes] == ["A", "B"]


@given(st.integers(0, 10_000))
def test_chance_is_the_worlds_and_falls_as_often_as_said(seed: int) -> None:
    made, same = (faults({"probability": 0.3}, seed=seed) for _ in range(2))
    outcome = [strikes(made) for _ in range(300)]
    assert outcome == [strikes(same) for _ in range(300)]
    assert 40 < sum(outcome) < 140


def test_calls_that_no_rule_is_about_leave_chance_alone() -> None:
    world = World(Moments().now, region="us-east-1")
    made = Faults(world, [Fault(operation="RunInstances", probability=0.5)])
    before = world.random.getstate()
    assert not strikes(made)
    assert world.random.getstate() == before


def test_rules_can_be_replaced() -> None:
    made = faults({"times": 1})
    assert strikes(made)
    made.replace([Fault(times=1)])
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
    with pytest.raises(BadInput, match="faults"):
        rules([wrong])
