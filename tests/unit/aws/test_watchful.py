"""Watching: every attempt is timed, every refusal counted, and a dry run that succeeds is none."""

from random import Random

import pytest
from tests.support.seams import Scripted, on_time

from wainwright.aws.layers import layered
from wainwright.aws.watchful import Watchful
from wainwright.clock import VirtualClock
from wainwright.emulator.cloud import EmulatedCloud
from wainwright.emulator.settings import Settings
from wainwright.errors import AwsError
from wainwright.metrics import CLOUD_DURATION, CLOUD_ERRORS, Registry

LABELS = {"controller": "", "method": "ec2.DescribeSubnets", "provider": "aws"}


def test_calls_are_timed_on_the_clock() -> None:
    async def main(clock: VirtualClock) -> tuple[int, float]:
        metrics = Registry()
        cloud = EmulatedCloud(clock=clock, settings=Settings(latency=0.25))
        for _ in range(4):
            await Watchful(cloud, clock, metrics).call("ec2", "DescribeSubnets", {})
        seen = metrics.distribution(CLOUD_DURATION, **LABELS)
        return seen.count, round(seen.total, 3)

    assert on_time(main) == (4, 1.0)


def test_every_attempt_is_seen() -> None:
    async def main(clock: VirtualClock) -> tuple[int, float]:
        metrics = Registry()
        broken = AwsError("InternalError", "broken", 500)
        seam = Scripted({"DescribeSubnets": [broken, broken, {"Subnets": []}]})
        await layered(seam, clock, Random(1), metrics).call("ec2", "DescribeSubnets", {})
        errors = metrics.value(CLOUD_ERRORS, error="InternalError", **LABELS)
        return metrics.distribution(CLOUD_DURATION, **LABELS).count, errors

    assert on_time(main) == (3, 2)


def test_a_dry_run_that_would_succeed_is_no_error() -> None:
    async def main(clock: VirtualClock) -> str:
        metrics = Registry()
        seam = Scripted({"DescribeSubnets": AwsError("DryRunOperation", "would succeed", 412)})
        with pytest.raises(AwsError):
            await Watchful(seam, clock, metrics).call("ec2", "DescribeSubnets", {"DryRun": True})
        return metrics.exposition()

    assert "errors_total" not in on_time(main)
