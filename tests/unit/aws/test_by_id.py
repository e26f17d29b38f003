"""Single instances, asked about and terminated in few calls, in spite of ids that nobody knows."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.support.seams import Scripted, on_time

from wainwright.aws.by_id import ById
from wainwright.aws.ec2 import Ec2
from wainwright.aws.instance import Instance
from wainwright.aws.seam import Answer, Params
from wainwright.clock import VirtualClock
from wainwright.errors import AwsError
from wainwright.metrics import Registry

KNOWN = {f"i-{number}" for number in range(10)}


def row(identity: str) -> dict[str, Any]:
    return {
        "InstanceId": identity,
        "State": {"Name": "running"},
        "InstanceType": "m5.large",
        "LaunchTime": datetime(2026, 1, 1, tzinfo=UTC),
        "Placement": {"AvailabilityZone": "us-east-1a"},
    }


def all_known(params: Params) -> list[str]:
    unknown = [each for each in params["InstanceIds"] if each not in KNOWN]
    if unknown:
        raise AwsError("InvalidInstanceID.NotFound", f"no {unknown}")
    return list(params["InstanceIds"])


def describe(params: Params) -> Answer:
    return {"Reservations": [{"Instances": [row(each)]} for each in all_known(params)]}


def terminate(params: Params) -> Answer:
    ended = [
        {"InstanceId": each, "CurrentState": {"Name": "shutting-down"}}
        for each in all_known(params)
    ]
    return {"TerminatingInstances": ended}


async def described(clock: VirtualClock, seam: Scripted, *ids: str) -> list[Instance | None]:
    by_id = ById(Ec2(seam), clock, Registry())
    return await asyncio.gather(*(by_id.describe(each) for each in ids))


async def terminated(clock: VirtualClock, seam: Scripted, *ids: str) -> list[bool]:
    by_id = ById(Ec2(seam), clock, Registry())
    return await asyncio.gather(*(by_id.terminate(each) for each in ids))


def test_many_are_asked_about_at_once_and_nobody_twice() -> None:
    seam = Scripted({"DescribeInstances": describe})
    found = on_time(lambda clock: described(clock, seam, "i-1", "i-2", "i-1"))
    assert [each and each.id for each in found] == ["i-1", "i-2", "i-1"]
    (asked,) = seam.asked("DescribeInstances")
    assert asked["InstanceIds"] == ["i-1", "i-2"]
    assert asked["Filters"][0]["Name"] == "instance-state-name"
    assert "MaxResults" not in asked


def test_an_unknown_id_does_not_hide_the_others() -> None:
    seam = Scripted({"DescribeInstances": describe})
    found = on_time(lambda clock: described(clock, seam, "i-1", "i-none", "i-2"))
    assert [each and each.id for each in found] == ["i-1", None, "i-2"]
    assert len(seam.calls) == 4


def test_what_the_answer_leaves_out_is_gone() -> None:
    seam = Scripted({"DescribeInstances": {"Reservations": [{"Instances": [row("i-1")]}]}})
    found = on_time(lambda clock: described(clock, seam, "i-1", "i-2"))
    assert [each and each.id for each in found] == ["i-1", None]


def test_an_error_that_says_nothing_is_passed_on() -> None:
    seam = Scripted({"DescribeInstances": AwsError("InternalError", "broken", 500)})
    with pytest.raises(AwsError, match="InternalError"):
        on_time(lambda clock: described(clock, seam, "i-1", "i-2"))


def test_many_are_terminated_at_once() -> None:
    seam = Scripted({"TerminateInstances": terminate})
    assert on_time(lambda clock: terminated(clock, seam, "i-1", "i-2")) == [True, True]
    assert len(seam.calls) == 1


def test_what_is_gone_is_no_error_to_terminate() -> None:
    seam = Scripted({"TerminateInstances": terminate})
    found = on_time(lambda clock: terminated(clock, seam, "i-1", "i-none"))
    assert found == [True, False]


def test_what_was_left_running_is_asked_for_again() -> None:
    running: Answer = {
        "TerminatingInstances": [
            {"InstanceId": "i-1", "CurrentState": {"Name": "shutting-down"}},
            {"InstanceId": "i-2", "CurrentState": {"Name": "running"}},
        ]
    }
    seam = Scripted({"TerminateInstances": [running, terminate]})
    assert on_time(lambda clock: terminated(clock, seam, "i-1", "i-2")) == [True, True]
    assert [params["InstanceIds"] for params in seam.asked("TerminateInstances")] == [
        ["i-1", "i-2"],
        ["i-2"],
    ]


def test_what_will_not_end_is_an_error_for_its_own_caller() -> None:
    running: Answer = {
        "TerminatingInstances": [{"InstanceId": "i-1", "CurrentState": {"Name": "running"}}]
    }
    seam = Scripted({"TerminateInstances": running})
    with pytest.raises(AwsError, match="i-1 is not being terminated"):
        on_time(lambda clock: terminated(clock, seam, "i-1"))
