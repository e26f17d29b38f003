"""Fault injection and throttling, as data: which calls fail, how often, when, and with what.

    {"service": "ec2", "operation": "Describe*", "code": "InternalError", "status": 500,
     "probability": 0.1, "times": 3, "match": {"Filters.*.Name": "tag:team"}}

The account asks twice: `strike(…)` before the handler, and `strike(…, when=FaultTiming.AFTER)` once
it has run, whether it succeeded or failed. A fault after the handler is a lost response: what was
asked for has happened, and the caller gets no response (status 0).

Throttling is a token bucket per operation, refilled at a steady rate; off unless asked for.
"""

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from wainwright.emulator.context import AccountContext, Params
from wainwright.errors import AwsError, InvalidInputError

Probability = Annotated[float, Meta(ge=0, le=1)]
PositiveCount = Annotated[int, Meta(ge=1)]
NonEmptyText = Annotated[str, Meta(min_length=1)]
CONNECTION_CLOSED: Final = "ConnectionClosed"


class FaultTiming(StrEnum):
    BEFORE = "before"
    """Nothing happens but the error."""
    AFTER = "after"
    """It happens, and nobody hears of it."""


class FaultRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One kind of failure. Everything that is given must agree with the call."""

    operation: NonEmptyText = "*"
    """Name of the API, with wildcards."""
    service: NonEmptyText = "*"
    match: dict[str, Any] = {}
    """What must be among the parameters: path to value. `*` in a path stands for every member of a
    list or mapping, in a value for any text; a list of values means one of them."""
    probability: Probability = 1.0
    times: PositiveCount | None = None
    """How often at most; None: always."""
    start: float | None = None
    end: float | None = None
    """Seconds since 1970; from start on, and before the end."""
    code: NonEmptyText = CONNECTION_CLOSED
    message: str = "This call fails because a fault rule says so."
    status: Annotated[int, Meta(ge=0, le=599)] | None = None
    """HTTP; by itself 400, or 0 (no answer at all) for a lost reply."""
    when: FaultTiming = FaultTiming.BEFORE

    def error(self) -> AwsError:
        status = self.status
        if status is None:
            status = 0 if self.when is FaultTiming.AFTER or self.code == CONNECTION_CLOSED else 400
        return AwsError(self.code, self.message, status)


class FaultState(msgspec.Struct, kw_only=True):
    rules: list[FaultRule] = []
    struck: list[int] = []
    """How often each rule has struck."""


class FaultInjector:
    def __init__(self, context: AccountContext, rules: Sequence[FaultRule] = ()) -> None:
        self.state = FaultState()
        self._context = context
        self.replace(rules)

    def replace(self, rules: Sequence[FaultRule]) -> None:
        """Other rules from now on, none of which has struck yet."""
        self.state = FaultState(rules=list(rules), struck=[0] * len(rules))

    def strike(
        self, service: str, operation: str, params: Params, when: FaultTiming = FaultTiming.BEFORE
    ) -> AwsError | None:
        """The error of the first rule that strikes. Chance is asked only where a rule agrees."""
        for number, rule in enumerate(self.state.rules):
            if rule.when is when and self._strikes(number, rule, service, operation, params):
                self.state.struck[number] += 1
                return rule.error()
        return None

    def _strikes(
        self, number: int, rule: FaultRule, service: str, operation: str, params: Params
    ) -> bool:
        return (
            (rule.times is None or self.state.struck[number] < rule.times)
            and fnmatchcase(service, rule.service)
            and fnmatchcase(operation, rule.operation)
            and self._in_window(rule)
            and all(_params_match(params, path, value) for path, value in rule.match.items())
            and (rule.probability == 1 or self._context.random.random() < rule.probability)
        )

    def _in_window(self, rule: FaultRule) -> bool:
        now = self._context.now()
        return (rule.start is None or rule.start <= now) and (rule.end is None or now < rule.end)


def parse_fault_rules(given: Any) -> list[FaultRule]:
    """Rules out of a list of plain objects; InvalidInputError says which one is wrong, and how."""
    try:
        return msgspec.convert(given, list[FaultRule])
    except msgspec.ValidationError as error:
        raise InvalidInputError(f"faults: {error}") from None


def _params_match(params: Any, path: str, wanted: Any) -> bool:
    alternatives = wanted if isinstance(wanted, list) else [wanted]
    return any(
        fnmatchcase(_comparable_text(value), _comparable_text(each))
        for value in _values_at_path(params, path.split("."))
        for each in alternatives
    )


def _values_at_path(within: Any, steps: Sequence[str]) -> Iterator[Any]:
    """Everything at the end of the path; lists are entered by number or by `*`."""
    if not steps:
        yield within
        return
    for step, member in _child_values(within):
        if fnmatchcase(step, steps[0]):
            yield from _values_at_path(member, steps[1:])


def _child_values(within: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(within, Mapping):
        yield from ((str(name), member) for name, member in within.items())
    elif isinstance(within, (list, tuple)):
        yield from ((str(number), member) for number, member in enumerate(within))


def _comparable_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


EC2_SERVICE: Final = "ec2"
FULL_TOKEN: Final = 1 - 1e-9  # a token that took its time to come counts in spite of rounding


class RateLimit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How often each of some APIs may be called."""

    operation: str = "*"
    """With wildcards; each API that fits has a bucket of its own."""
    service: str = EC2_SERVICE
    rate: Annotated[float, Meta(gt=0)]
    """Tokens per second."""
    burst: Annotated[float, Meta(ge=1)]
    """What a bucket holds, and has at first."""


DEFAULT_RATE_LIMITS: Final = (
    RateLimit(operation="RunInstances", rate=2, burst=5),
    RateLimit(operation="TerminateInstances", rate=5, burst=100),
    RateLimit(operation="CreateTags", rate=10, burst=100),
    RateLimit(operation="Describe*", rate=20, burst=100),
    RateLimit(operation="Get*", rate=20, burst=100),
    RateLimit(operation="*", rate=5, burst=50),
)
"""EC2's own, roughly; the first that fits counts."""


class TokenBucket(msgspec.Struct):
    tokens: float
    at: float


class ThrottleState(msgspec.Struct, kw_only=True):
    limits: list[RateLimit] = []
    """None at all: nobody is throttled."""
    buckets: dict[str, TokenBucket] = {}


class Throttler:
    def __init__(self, context: AccountContext, limits: Sequence[RateLimit] | None = None) -> None:
        self.state = ThrottleState()
        self._context = context
        self.replace(limits)

    def replace(self, limits: Sequence[RateLimit] | None) -> None:
        """Other limits from now on, with full buckets; none switches throttling off."""
        self.state = ThrottleState(limits=list(limits or ()))

    def admit(self, operation: str, service: str = EC2_SERVICE) -> AwsError | None:
        """Takes a token for the call; the error if there is none left."""
        limit = self._limit(service, operation)
        if limit is None:
            return None
        bucket = self._filled(f"{service}:{operation}", limit)
        if bucket.tokens < FULL_TOKEN:
            return throttling_error(service)
        bucket.tokens -= 1
        return None

    def _limit(self, service: str, operation: str) -> RateLimit | None:
        for limit in self.state.limits:
            if limit.service == service and fnmatchcase(operation, limit.operation):
                return limit
        return None

    def _filled(self, name: str, limit: RateLimit) -> TokenBucket:
        now = self._context.now()
        bucket = self.state.buckets.get(name)
        if bucket is None:
            bucket = self.state.buckets[name] = TokenBucket(limit.burst, now)
        bucket.tokens = min(bucket.tokens + (now - bucket.at) * limit.rate, limit.burst)
        bucket.at = now
        return bucket


def throttling_error(service: str) -> AwsError:
    """EC2 has a word of its own for it."""
    if service == EC2_SERVICE:
        return AwsError("RequestLimitExceeded", "Request limit exceeded.", 503)
    return AwsError("ThrottlingException", "Rate exceeded", 400)


def parse_rate_limits(given: Any) -> list[RateLimit] | None:
    """Limits as a Cloud or a request has them: true for EC2's own, false for none, or a list."""
    if given is None or given is False:
        return None
    if given is True:
        return list(DEFAULT_RATE_LIMITS)
    try:
        return msgspec.convert(given, list[RateLimit])
    except msgspec.ValidationError as error:
        raise InvalidInputError(f"throttling: {error}") from None
