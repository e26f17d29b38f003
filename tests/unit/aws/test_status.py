"""Machines whose checks fail for long, and those that EC2 will do something to."""

from datetime import UTC, datetime
from typing import Any

import pytest
from tests.support.awslaunches import Scene, asking, claim, played
from tests.support.seams import Scripted, on_time

from wainwright.aws.ec2 import Ec2
from wainwright.aws.status import UNHEALTHY, Statuses, scheduled
from wainwright.clock import EPOCH, VirtualClock
from wainwright.errors import AwsError, Unavailable
from wainwright.metrics import Registry
from wainwright.model.interruption import Kind


def befallen(scene: Scene, instance: str, kind: str, **more: Any) -> None:
    scene.emulated.change({"interruptions": [{"instance": instance, "kind": kind, **more}]})


@pytest.mark.parametrize("check", ["instance-check", "system-check"])
def test_a_check_may_fail_for_two_minutes(check: str) -> None:
    async def test(scene: Scene) -> None:
        found = await scene.one(claim(1, asking(capacity="on-demand")))
        await scene.clock.sleep(5)
        befallen(scene, found.id, check)
        await scene.clock.sleep(118)
        assert not await scene.cloud.ailing()
        await scene.clock.sleep(2)
        for _ in range(2):
            (event,) = await scene.cloud.ailing()
            assert (event.kind, event.instance) == (Kind.UNHEALTHY, found.id)
            assert event.kind.forceful
        count = {"category": Kind.UNHEALTHY.value}
        assert scene.metrics.value(UNHEALTHY, **count) == 1
        befallen(scene, found.id, "mended")
        assert not await scene.cloud.ailing()
        befallen(scene, found.id, check)
        await scene.clock.sleep(120)
        assert await scene.cloud.ailing()
        assert scene.metrics.value(UNHEALTHY, **count) == 2

    played(test)


def test_a_volume_that_fails_is_no_reason() -> None:
    async def test(scene: Scene) -> None:
        found = await scene.one(claim(1, asking(capacity="on-demand")))
        await scene.clock.sleep(5)
        befallen(scene, found.id, "attached-ebs-check")
        await scene.clock.sleep(300)
        assert not await scene.cloud.ailing()

    played(test)


@pytest.mark.parametrize("code", ["instance-retirement", "system-reboot"])
def test_what_ec2_has_in_store_is_told_in_time(code: str) -> None:
    async def test(scene: Scene) -> None:
        found = await scene.one(claim(1, asking(capacity="on-demand")))
        await scene.clock.sleep(5)
        befallen(scene, found.id, code, seconds=3600)
        (event,) = await scene.cloud.ailing()
        assert (event.kind, event.detail) == (Kind.SCHEDULED, code)
        assert not event.kind.forceful
        assert event.ends_at is not None
        assert abs(event.ends_at - scene.clock.now() - 3600) < 1

    played(test)


@pytest.mark.parametrize(
    ("event", "told"),
    [
        ({"Code": "instance-stop", "Description": "soon"}, True),
        ({"Code": "instance-stop", "NotBefore": datetime(2026, 1, 1, tzinfo=UTC)}, True),
        ({"Code": "instance-stop", "Description": "[Completed] it was"}, False),
        ({"Code": "instance-stop", "Description": "[Canceled] not after all"}, False),
        ({"Code": "something-else"}, False),
    ],
)
def test_what_is_over_is_not_told(event: dict[str, Any], told: bool) -> None:
    assert bool(list(scheduled({"InstanceId": "i-1", "Events": [event]}, EPOCH))) is told


def test_who_may_not_ask_does_without() -> None:
    async def main(clock: VirtualClock) -> None:
        denied = AwsError("UnauthorizedOperation", "no", 403)
        seam = Scripted({"DescribeInstanceStatus": denied})
        assert await Statuses(Ec2(seam), clock, Registry()).look() == []

    on_time(main)


def test_who_gets_no_answer_asks_again() -> None:
    async def test(scene: Scene) -> None:
        broken = {"operation": "DescribeInstanceStatus", "code": "InternalError", "status": 500}
        scene.emulated.change({"faults": [broken]})
        with pytest.raises(Unavailable):
            await scene.cloud.ailing()

    played(test)
