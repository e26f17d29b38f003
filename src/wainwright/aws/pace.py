"""Pace: calls wait for their turn here rather than being turned away there.

AWS counts the calls of an account per operation, in buckets that hold a burst and refill at a
steady rate. The same buckets are kept on this side. Others use the account too: when AWS says that
it was too much after all, the bucket here is taken for empty, and everybody slows down to the rate
at which it refills.
"""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Final

import msgspec

from wainwright.aws.operations import Failure, failure
from wainwright.aws.seam import Answer, Params, Seam
from wainwright.clock import Clock
from wainwright.errors import AwsError
from wainwright.metrics import CLOUD_WAITING, Registry

MARGIN: Final = 0.001  # seconds; clocks differ, and who comes a moment early is turned away


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """A bucket: how many calls a second in the long run, and how many at once."""

    per_second: float
    burst: float


RATES: Final[Mapping[str, Rate]] = {
    "ec2.RunInstances": Rate(per_second=2, burst=5),
    "ec2.TerminateInstances": Rate(per_second=5, burst=100),
    "ec2.CreateTags": Rate(per_second=10, burst=100),
    "ec2.Describe*": Rate(per_second=20, burst=100),
    "ec2.*": Rate(per_second=5, burst=50),
    "iam.*": Rate(per_second=10, burst=20),
    "ssm.*": Rate(per_second=20, burst=40),
    "eks.*": Rate(per_second=5, burst=20),
    "pricing.*": Rate(per_second=10, burst=10),
}
"""By service and operation, the first pattern that fits; what fits none is not held back."""


class Bucket:
    """Tokens that are taken in advance: whoever comes is told at once how long to wait."""

    def __init__(self, rate: Rate, now: float) -> None:
        self._rate = rate
        self._tokens = rate.burst
        self._at = now

    def take(self, now: float) -> float:
        """Takes a token; the seconds until it is there. First come, first served."""
        self._refill(now)
        self._tokens -= 1
        return max(0.0, -self._tokens / self._rate.per_second)

    def empty(self, now: float) -> None:
        """Somebody else has emptied it."""
        self._refill(now)
        self._tokens = min(self._tokens, 0.0)

    def _refill(self, now: float) -> None:
        gained = max(0.0, now - self._at) * self._rate.per_second
        self._tokens = min(self._rate.burst, self._tokens + gained)
        self._at = now


class Paced:
    """A seam that never asks faster than it may."""

    def __init__(
        self, seam: Seam, clock: Clock, metrics: Registry, rates: Mapping[str, Rate] = RATES
    ) -> None:
        self._seam = seam
        self._clock = clock
        self._metrics = metrics
        self._rates = rates
        self._buckets: dict[str, Bucket | None] = {}

    async def call(self, service: str, operation: str, params: Params) -> Answer:
        method = f"{service}.{operation}"
        bucket = self._bucket(method)
        if bucket is None:
            return await self._seam.call(service, operation, params)
        wait = bucket.take(self._clock.now())
        if wait:
            self._metrics.observe(CLOUD_WAITING, wait, method=method)
            await self._clock.sleep(wait + MARGIN)
        try:
            return await self._seam.call(service, operation, params)
        except AwsError as error:
            if failure(error) is Failure.REFUSED:
                bucket.empty(self._clock.now())
            raise

    def _bucket(self, method: str) -> Bucket | None:
        if method not in self._buckets:
            rate = next(
                (rate for pattern, rate in self._rates.items() if fnmatchcase(method, pattern)),
                None,
            )
            self._buckets[method] = None if rate is None else Bucket(rate, self._clock.now())
        return self._buckets[method]
