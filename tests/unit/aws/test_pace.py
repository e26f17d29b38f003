"""Pace: nobody asks faster than AWS allows, nobody overtakes, a refusal slows everybody down."""

import asyncio
from random import Random

from hypothesis import given
from hypothesis import strategies as st
from tests.support.seams import on_time

from wainwright.aws.layers import layered
from wainwright.aws.pace import Bucket, Paced, Rate
from wainwright.aws.seam import Answer, Params, Seam
from wainwright.aws.watchful import Watchful
from wainwright.clock import VirtualClock
from wainwright.emulator.cloud import EmulatedCloud
from wainwright.emulator.settings import Settings
from wainwright.emulator.throttle import DEFAULTS
from wainwright.errors import AwsError
from wainwright.metrics import CLOUD_DURATION, CLOUD_ERRORS, CLOUD_WAITING, Registry

RATES = {"ec2.CreateTags": Rate(per_second=2, burst=3), "ec2.*": Rate(per_second=10, burst=10)}


class Noting:
    """Writes down who came when."""

    def __init__(self, clock: VirtualClock, error: AwsError | None = None) -> None:
        self.clock = clock
        self.begun = clock.now()
        self.error = error
        self.seen: list[tuple[float, str]] = []

    async def call(self, service: str, operation: str, params: Params) -> Answer:
        del service, operation
        self.seen.append((round(self.clock.now() - self.begun, 2), str(params.get("who", ""))))
        if self.error is not None:
            error, self.error = self.error, None
            raise error
        return {}


def test_a_burst_goes_at_once_and_the_rest_in_turn() -> None:
    async def main(clock: VirtualClock) -> list[tuple[float, str]]:
        seam = Noting(clock)
        paced = Paced(seam, clock, Registry(), RATES)
        await asyncio.gather(*(paced.call("ec2", "CreateTags", {"who": n}) for n in range(6)))
        return seam.seen

    assert on_time(main) == [(0, "0"), (0, "1"), (0, "2"), (0.5, "3"), (1.0, "4"), (1.5, "5")]


def test_operations_do_not_wait_for_each_other() -> None:
    async def main(clock: VirtualClock) -> list[tuple[float, str]]:
        seam = Noting(clock)
        paced = Paced(seam, clock, Registry(), RATES)
        tags = [paced.call("ec2", "CreateTags", {}) for _ in range(9)]
        waiting = asyncio.gather(*tags)
        await paced.call("ec2", "DescribeSubnets", {"who": "other"})
        await paced.call("sqs", "ReceiveMessage", {"who": "unpaced"})
        await waiting
        return [row for row in seam.seen if row[1]]

    assert on_time(main) == [(0, "other"), (0, "unpaced")]


def test_a_refusal_empties_the_bucket() -> None:
    async def main(clock: VirtualClock) -> list[float]:
        seam = Noting(clock, AwsError("RequestLimitExceeded", "slower", 503))
        paced = Paced(seam, clock, Registry(), RATES)
        results = [paced.call("ec2", "CreateTags", {})]
        assert isinstance((await asyncio.gather(*results, return_exceptions=True))[0], AwsError)
        await asyncio.gather(*(paced.call("ec2", "CreateTags", {}) for _ in range(2)))
        return [moment for moment, _ in seam.seen]

    assert on_time(main) == [0, 0.5, 1.0]


def test_another_error_does_not() -> None:
    async def main(clock: VirtualClock) -> list[float]:
        seam = Noting(clock, AwsError("InvalidInstanceID.NotFound", "no such instance"))
        paced = Paced(seam, clock, Registry(), RATES)
        calls = [paced.call("ec2", "CreateTags", {}) for _ in range(3)]
        await asyncio.gather(*calls, return_exceptions=True)
        return [moment for moment, _ in seam.seen]

    assert on_time(main) == [0, 0, 0]


def test_waiting_is_measured() -> None:
    async def main(clock: VirtualClock) -> float:
        metrics = Registry()
        paced = Paced(Noting(clock), clock, metrics, RATES)
        await asyncio.gather(*(paced.call("ec2", "CreateTags", {}) for _ in range(5)))
        return metrics.distribution(CLOUD_WAITING, method="ec2.CreateTags").total

    assert abs(on_time(main) - 1.5) < 0.01


@given(
    st.lists(st.floats(min_value=0, max_value=3), min_size=1, max_size=60),
    st.floats(min_value=0.5, max_value=20),
    st.integers(min_value=1, max_value=20),
)
def test_no_stretch_of_time_sees_more_than_burst_and_rate_allow(
    gaps: list[float], per_second: float, burst: int
) -> None:
    bucket = Bucket(Rate(per_second=per_second, burst=burst), 0.0)
    now, served = 0.0, []
    for gap in gaps:
        now += gap
        served.append(now + bucket.take(now))
    assert served == sorted(served)
    for first, begun in enumerate(served):
        for last in range(first, len(served)):
            allowed = burst + (served[last] - begun) * per_second
            assert last - first + 1 <= allowed + 1e-6


def test_who_keeps_to_the_pace_is_never_turned_away() -> None:
    """Against the emulator's own buckets, which are those of AWS."""

    async def main(clock: VirtualClock) -> tuple[int, float]:
        metrics = Registry()
        cloud = EmulatedCloud(clock=clock, settings=Settings(throttling=DEFAULTS))
        seam: Seam = Paced(Watchful(cloud, clock, metrics), clock, metrics)
        zones = [seam.call("ec2", "DescribeAvailabilityZones", {}) for _ in range(400)]
        await asyncio.gather(*zones)
        labels = {"controller": "", "method": "ec2.DescribeAvailabilityZones", "provider": "aws"}
        errors = metrics.value(CLOUD_ERRORS, error="RequestLimitExceeded", **labels)
        return metrics.distribution(CLOUD_DURATION, **labels).count, errors

    assert on_time(main) == (400, 0)


def test_who_shares_the_account_with_others_gets_through_in_the_end() -> None:
    async def main(clock: VirtualClock) -> int:
        cloud = EmulatedCloud(clock=clock, settings=Settings(throttling=DEFAULTS))
        mine, theirs = (layered(cloud, clock, Random(n), Registry()) for n in range(2))
        calls = [
            seam.call("ec2", "DescribeAvailabilityZones", {})
            for _ in range(150)
            for seam in (mine, theirs)
        ]
        return len(await asyncio.gather(*calls))

    assert on_time(main) == 300
