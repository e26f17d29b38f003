"""Retry: what is asked again, how often, how late, and what is never asked twice."""

from itertools import pairwise
from random import Random

import pytest
from tests.support.seams import Reply, Scripted, on_time

from wainwright.aws.operations import Failure, denied, failure, repeatable
from wainwright.aws.retry import Patience, Retrying
from wainwright.aws.seam import Params
from wainwright.clock import VirtualClock
from wainwright.errors import AwsError
from wainwright.metrics import CLOUD_RETRIES, Registry

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
        (THROTTLED, Failure.REFUSED),
        (AwsError("ThrottlingException", "Rate exceeded", 400), Failure.REFUSED),
        (AwsError("Whatever", "", 429), Failure.REFUSED),
        (LOST, Failure.UNKNOWN),
        (BROKEN, Failure.UNKNOWN),
        (AwsError("RequestTimeout", "", 400), Failure.UNKNOWN),
        (AwsError("BadGateway", "", 502), Failure.UNKNOWN),
        (NO_CAPACITY, Failure.FINAL),
        (AwsError("ReservationCapacityExceeded", "", 500), Failure.FINAL),
        (NOT_FOUND, Failure.FINAL),
        (AwsError("UnauthorizedOperation", "", 403), Failure.FINAL),
        (AwsError("DryRunOperation", "", 412), Failure.FINAL),
    ],
)
def test_what_an_error_says_about_the_call(error: AwsError, expected: Failure) -> None:
    assert failure(error) is expected


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
def test_what_can_be_repeated(operation: str, params: Params, expected: bool) -> None:
    assert repeatable(operation, params) is expected


def test_who_is_denied() -> None:
    assert denied(AwsError("UnauthorizedOperation", "You are not authorized.", 403))
    assert not denied(THROTTLED)


def asked(operation: str, params: Params, replies: list[Reply], attempts: int = 5) -> list[float]:
    """When the operation was asked, in seconds from the start; what it ends with is dropped."""

    async def main(clock: VirtualClock) -> list[float]:
        begun = clock.now()
        times: list[float] = []
        seam = Scripted({operation: replies})

        class Noting:
            async def call(self, service: str, operation: str, params: Params) -> dict[str, object]:
                times.append(clock.now() - begun)
                return await seam.call(service, operation, params)

        patience = Patience(attempts=attempts)
        retrying = Retrying(Noting(), clock, Random(7), Registry(), patience)
        try:
            await retrying.call("iam" if "Profile" in operation else "ec2", operation, params)
        except AwsError:
            times.append(-1)
        return times

    return on_time(main)


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
def test_only_what_does_no_harm_is_asked_again(
    operation: str, params: Params, error: AwsError, calls: int
) -> None:
    times = asked(operation, params, [error, {}])
    assert len([moment for moment in times if moment >= 0]) == calls
    assert (times[-1] == -1) is (calls == 1)


def test_each_pause_is_longer_than_the_one_before_and_partly_chance() -> None:
    times = asked("DescribeInstances", {}, [THROTTLED])
    assert len(times) == 6
    assert times[-1] == -1
    pauses = [later - sooner for sooner, later in pairwise(times[:5])]
    for number, pause in enumerate(pauses):
        whole = 0.5 * 2**number
        assert whole / 2 <= pause <= whole
    assert len({pause / 2**number for number, pause in enumerate(pauses)}) == 4


def test_the_longest_pause_is_not_exceeded() -> None:
    patience = Patience(first=1, longest=20)
    assert all(patience.pause(number, Random(number)) <= 20 for number in range(1, 50))


def test_the_same_chance_gives_the_same_moments() -> None:
    assert asked("DescribeInstances", {}, [LOST]) == asked("DescribeInstances", {}, [LOST])


def test_repetitions_are_counted() -> None:
    async def main(clock: VirtualClock) -> float:
        metrics = Registry()
        seam = Scripted({"DescribeInstances": [THROTTLED, THROTTLED, {"Reservations": []}]})
        await Retrying(seam, clock, Random(1), metrics).call("ec2", "DescribeInstances", {})
        return metrics.value(
            CLOUD_RETRIES, method="ec2.DescribeInstances", error="RequestLimitExceeded"
        )

    assert on_time(main) == 2
