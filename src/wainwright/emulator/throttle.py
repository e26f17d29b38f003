"""Throttling: a bucket of tokens per API, refilled at a steady rate. Off unless asked for."""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from wainwright.emulator.world import World
from wainwright.errors import AwsError, BadInput

EC2: Final = "ec2"
ENOUGH: Final = 1 - 1e-9  # a token that took its time to come counts in spite of rounding


class Limit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How often each of some APIs may be called."""

    operation: str = "*"
    """With wildcards; each API that fits has a bucket of its own."""
    service: str = EC2
    rate: Annotated[float, Meta(gt=0)]
    """Tokens per second."""
    burst: Annotated[float, Meta(ge=1)]
    """What a bucket holds, and has at first."""


DEFAULTS: Final = (
    Limit(operation="RunInstances", rate=2, burst=5),
    Limit(operation="TerminateInstances", rate=5, burst=100),
    Limit(operation="CreateTags", rate=10, burst=100),
    Limit(operation="Describe*", rate=20, burst=100),
    Limit(operation="Get*", rate=20, burst=100),
    Limit(operation="*", rate=5, burst=50),
)
"""EC2's own, roughly; the first that fits counts."""


class Bucket(msgspec.Struct):
    tokens: float
    at: float


class ThrottleState(msgspec.Struct, kw_only=True):
    limits: list[Limit] = []
    """None at all: nobody is throttled."""
    buckets: dict[str, Bucket] = {}


class Buckets:
    def __init__(self, world: World, limits: Sequence[Limit] | None = None) -> None:
        self.state = ThrottleState()
        self._world = world
        self.replace(limits)

    def replace(self, limits: Sequence[Limit] | None) -> None:
        """Other limits from now on, with full buckets; none switches throttling off."""
        self.state = ThrottleState(limits=list(limits or ()))

    def admit(self, operation: str, service: str = EC2) -> AwsError | None:
        """Takes a token for the call; the error if there is none left."""
        limit = self._limit(service, operation)
        if limit is None:
            return None
        bucket = self._filled(f"{service}:{operation}", limit)
        if bucket.tokens < ENOUGH:
            return exceeded(service)
        bucket.tokens -= 1
        return None

    def _limit(self, service: str, operation: str) -> Limit | None:
        for limit in self.state.limits:
            if limit.service == service and fnmatchcase(operation, limit.operation):
                return limit
        return None

    def _filled(self, name: str, limit: Limit) -> Bucket:
        now = self._world.now()
        bucket = self.state.buckets.get(name)
        if bucket is None:
            bucket = self.state.buckets[name] = Bucket(limit.burst, now)
        bucket.tokens = min(bucket.tokens + (now - bucket.at) * limit.rate, limit.burst)
        bucket.at = now
        return bucket


def exceeded(service: str) -> AwsError:
    """EC2 has a word of its own for it."""
    if service == EC2:
        return AwsError("RequestLimitExceeded", "Request limit exceeded.", 503)
    return AwsError("ThrottlingException", "Rate exceeded", 400)


def limits(given: Any) -> list[Limit] | None:
    """Limits as a Cloud or a request has them: true for EC2's own, false for none, or a list."""
    if given is None or given is False:
        return None
    if given is True:
        return list(DEFAULTS)
    try:
        return msgspec.convert(given, list[Limit])
    except msgspec.ValidationError as error:
        raise BadInput(f"throttling: {error}") from None
