"""Middleware of every call to AWS: retries, rate limits, metrics.

Rate limits: AWS counts the calls of an account per operation, in token buckets that hold a burst
and refill at a steady rate. The same buckets are kept on this side, so that calls wait here rather
than being throttled there. Other clients use the account too: when AWS throttles nevertheless, the
bucket here is drained, and all calls slow down to its refill rate.

Retries: a call that failed transiently is repeated with exponential backoff. Nothing is launched
twice by it: if the first attempt may have been carried out, only idempotent calls are repeated
(`error_codes.is_idempotent`), with the same client token.
"""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from random import Random
from typing import Final

import msgspec

from wainwright.aws.api.error_codes import FailureKind, classify_failure, is_retryable
from wainwright.aws.api.services import AwsResponse, Params, Seam
from wainwright.clock import Clock
from wainwright.errors import AwsError
from wainwright.metrics import (
    AWS_REQUEST_DURATION,
    AWS_REQUEST_ERRORS,
    CLOUD_RATE_LIMIT_WAIT,
    CLOUD_RETRIES,
    MetricsRegistry,
)

SAFETY_MARGIN: Final = 0.001  # seconds; clocks differ, and a call a moment early is throttled


class RateLimit(msgspec.Struct, frozen=True, kw_only=True):
    """A token bucket: sustained calls per second, and how many at once."""

    per_second: float
    burst: float


RATE_LIMITS: Final[Mapping[str, RateLimit]] = {
    "ec2.RunInstances": RateLimit(per_second=2, burst=5),
    "ec2.TerminateInstances": RateLimit(per_second=5, burst=100),
    "ec2.CreateTags": RateLimit(per_second=10, burst=100),
    "ec2.Describe*": RateLimit(per_second=20, burst=100),
    "ec2.*": RateLimit(per_second=5, burst=50),
    "iam.*": RateLimit(per_second=10, burst=20),
    "ssm.*": RateLimit(per_second=20, burst=40),
    "eks.*": RateLimit(per_second=5, burst=20),
    "resource-groups.*": RateLimit(per_second=5, burst=20),
    "pricing.*": RateLimit(per_second=10, burst=10),
}
"""By service and operation, the first pattern that matches; other calls are not limited."""


class TokenBucket:
    """Tokens are taken in advance: the count may go below zero, and `take` returns the wait."""

    def __init__(self, rate: RateLimit, now: float) -> None:
        self._rate = rate
        self._tokens = rate.burst
        self._at = now

    def take(self, now: float) -> float:
        """Takes a token; returns the seconds until it is available. First come, first served."""
        self._refill(now)
        self._tokens -= 1
        return max(0.0, -self._tokens / self._rate.per_second)

    def drain(self, now: float) -> None:
        """Removes all tokens: other clients have used them up."""
        self._refill(now)
        self._tokens = min(self._tokens, 0.0)

    def _refill(self, now: float) -> None:
        gained = max(0.0, now - self._at) * self._rate.per_second
        self._tokens = min(self._rate.burst, self._tokens + gained)
        self._at = now


class RateLimitedSeam:
    """A seam that delays calls so that they stay within the rate limits."""

    def __init__(
        self,
        seam: Seam,
        clock: Clock,
        metrics: MetricsRegistry,
        rates: Mapping[str, RateLimit] = RATE_LIMITS,
    ) -> None:
        self._seam = seam
        self._clock = clock
        self._metrics = metrics
        self._rates = rates
        self._buckets: dict[str, TokenBucket | None] = {}

    async def call(self, service: str, operation: str, params: Params) -> AwsResponse:
        method = f"{service}.{operation}"
        bucket = self._bucket(method)
        if bucket is None:
            return await self._seam.call(service, operation, params)
        wait = bucket.take(self._clock.now())
        if wait:
            self._metrics.observe(CLOUD_RATE_LIMIT_WAIT, wait, method=method)
            await self._clock.sleep(wait + SAFETY_MARGIN)
        try:
            return await self._seam.call(service, operation, params)
        except AwsError as error:
            if classify_failure(error) is FailureKind.REFUSED:
                bucket.drain(self._clock.now())
            raise

    def _bucket(self, method: str) -> TokenBucket | None:
        # Created at the first call; methods without a limit are cached too, as None, so that the
        # patterns are matched once per method and not at every call.
        if method not in self._buckets:
            rate = next(
                (rate for pattern, rate in self._rates.items() if fnmatchcase(method, pattern)),
                None,
            )
            self._buckets[method] = None if rate is None else TokenBucket(rate, self._clock.now())
        return self._buckets[method]


class RetryBackoff(msgspec.Struct, frozen=True, kw_only=True):
    """Exponential backoff with jitter."""

    max_attempts: int = 5
    """Including the first one."""
    first_delay: float = 0.5
    """Seconds before the second attempt, doubled before each one after it."""
    max_delay: float = 20.0

    def delay(self, failures: int, random: Random) -> float:
        """Half of the delay is random, so that calls that failed together are spread out."""
        whole = min(self.max_delay, self.first_delay * 2.0 ** (failures - 1))
        return whole * (1 + random.random()) / 2


DEFAULT_BACKOFF: Final = RetryBackoff()


class RetryingSeam:
    """A seam that retries transient failures."""

    def __init__(
        self,
        seam: Seam,
        clock: Clock,
        random: Random,
        metrics: MetricsRegistry,
        backoff: RetryBackoff = DEFAULT_BACKOFF,
    ) -> None:
        self._seam = seam
        self._clock = clock
        self._random = random
        self._metrics = metrics
        self._backoff = backoff

    async def call(self, service: str, operation: str, params: Params) -> AwsResponse:
        failures, unknown = 0, None
        while True:
            try:
                return await self._seam.call(service, operation, params)
            except AwsError as error:
                failures += 1
                last = failures >= self._backoff.max_attempts
                if last or not is_retryable(error, operation, params):
                    raise _most_uncertain(error, unknown) from error
                unknown = error if classify_failure(error) is FailureKind.UNKNOWN else unknown
                self._metrics.add(CLOUD_RETRIES, method=f"{service}.{operation}", error=error.code)
            await self._clock.sleep(self._backoff.delay(failures, self._random))


def _most_uncertain(last: AwsError, unknown: AwsError | None) -> AwsError:
    """That the last attempt was throttled does not say that an earlier one was not carried out."""
    refused = classify_failure(last) is FailureKind.REFUSED
    return unknown if refused and unknown is not None else last


class MeteredSeam:
    """A seam that records metrics; innermost, so that every attempt is counted."""

    def __init__(self, seam: Seam, clock: Clock, metrics: MetricsRegistry) -> None:
        self._seam = seam
        self._clock = clock
        self._metrics = metrics

    async def call(self, service: str, operation: str, params: Params) -> AwsResponse:
        labels = {"service": service, "operation": operation}
        started = self._clock.now()
        try:
            return await self._seam.call(service, operation, params)
        except AwsError as error:
            # The response to a dry run that would have succeeded is an error in name only.
            if error.code != "DryRunOperation":
                self._metrics.add(AWS_REQUEST_ERRORS, error=error.code, **labels)
            raise
        finally:
            self._metrics.observe(AWS_REQUEST_DURATION, self._clock.now() - started, **labels)


def with_middleware(seam: Seam, clock: Clock, random: Random, metrics: MetricsRegistry) -> Seam:
    """Retries outermost: each attempt is rate-limited, and each is counted."""
    metered = MeteredSeam(seam, clock, metrics)
    return RetryingSeam(RateLimitedSeam(metered, clock, metrics), clock, random, metrics)
