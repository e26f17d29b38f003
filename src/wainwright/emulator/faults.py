"""Fault injection and throttling, as data: which calls fail, how often, when, and with what.

    {"service": "ec2", "operation": "Describe*", "code": "InternalError", "status": 500,
     "probability": 0.1, "times": 3, "match": {"Filters.*.Name": "tag:team"}}

The account calls `injected_error(…)` before the handler, and again with `FaultTiming.AFTER` once it
has run, whether it succeeded or failed. A fault after the handler is a lost response: the operation
has taken effect, and the caller gets no response (status 0).

A rule with `answer` fails nothing: the response is one that EC2 can give and rarely does.

Throttling is a token bucket per operation, refilled at a steady rate; off by default.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from wainwright.api.field_error import did_you_mean
from wainwright.emulator.context import AccountContext, OperationHandler, Params, Response
from wainwright.emulator.patch_fields import convert_field
from wainwright.errors import AwsError, InvalidInputError

Probability = Annotated[float, Meta(ge=0, le=1)]
PositiveCount = Annotated[int, Meta(ge=1)]
NonEmptyText = Annotated[str, Meta(min_length=1)]
ErrorCode = Annotated[str, Meta(pattern=r"^[A-Za-z0-9._:-]+\Z")]
"""It goes into a header."""
CONNECTION_CLOSED: Final = "ConnectionClosed"


class FaultTiming(StrEnum):
    BEFORE = "before"
    """The operation does not run."""
    AFTER = "after"
    """The operation has run, and its response is lost."""


class AnswerFault(StrEnum):
    """Responses that EC2 can give and rarely does."""

    WITHOUT_ZONE = "without-zone"
    """CreateFleet repeats the overrides that it used without their zone."""
    WITHOUT_SUBNET = "without-subnet"
    WITHOUT_IMAGE = "without-image"
    ONE_MORE = "one-more"
    """CreateFleet launches one instance more than was requested."""
    FROZEN = "frozen"
    """The response to a request is the one to the first such request while the rule applies."""


OMITTED_FIELDS: Final[Mapping[AnswerFault, str]] = {
    AnswerFault.WITHOUT_ZONE: "AvailabilityZone",
    AnswerFault.WITHOUT_SUBNET: "SubnetId",
    AnswerFault.WITHOUT_IMAGE: "ImageId",
}


class FaultRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One kind of failure. Every field that is set must match the call."""

    operation: NonEmptyText = "*"
    """Operation name, with wildcards."""
    service: NonEmptyText = "*"
    match: dict[str, Any] = {}
    """Required parameter values by path. `*` in a path matches every member of a list or mapping,
    in a value any text; of a list of values one must match."""
    probability: Probability = 1.0
    times: PositiveCount | None = None
    """The maximum number of failures; None: no limit."""
    start: float | None = None
    end: float | None = None
    """Seconds since 1970; the start is inside the window, the end is not."""
    code: ErrorCode = CONNECTION_CLOSED
    message: str = "This call fails because a fault rule says so."
    status: Annotated[int, Meta(ge=0, le=599)] | None = None
    """HTTP status, 400 or more; 400 by default, or 0 (no response) for a lost response."""
    when: FaultTiming = FaultTiming.BEFORE
    answer: AnswerFault | None = None
    """Instead of an error."""

    def __post_init__(self) -> None:
        if self.status is not None and 0 < self.status < 400:
            raise ValueError("`status` of a failure is 0, or from 400 to 599")

    def error(self) -> AwsError:
        status = self.status
        if status is None:
            status = 0 if self.when is FaultTiming.AFTER or self.code == CONNECTION_CLOSED else 400
        return AwsError(self.code, self.message, status)


class FaultState(msgspec.Struct, kw_only=True):
    rules: list[FaultRule] = []
    hits: list[int] = msgspec.field(default_factory=list, name="struck")
    """How often each rule has applied."""


class FaultInjector:
    def __init__(self, context: AccountContext, rules: Sequence[FaultRule] = ()) -> None:
        self.state = FaultState()
        self._context = context
        self._frozen: dict[bytes, Response] = {}
        self.replace(rules)

    def replace(self, rules: Sequence[FaultRule]) -> None:
        """Replaces the rules; all counts start at zero."""
        self.state = FaultState(rules=list(rules), hits=[0] * len(rules))
        self._frozen.clear()

    def injected_error(
        self, service: str, operation: str, params: Params, when: FaultTiming = FaultTiming.BEFORE
    ) -> AwsError | None:
        """The error of the first rule that applies.

        Randomness is drawn only where everything else matches: calls that no rule is about must not
        change the random sequence of the account.
        """
        for number, rule in enumerate(self.state.rules):
            if rule.answer is not None or rule.when is not when:
                continue
            if self._applies(number, rule, service, operation, params):
                self.state.hits[number] += 1
                return rule.error()
        return None

    def run(
        self, service: str, operation: str, params: Params, handler: OperationHandler
    ) -> Response:
        """The response of the handler, changed by every rule with `answer` that applies."""
        faults = self._answer_faults(service, operation, params)
        if AnswerFault.ONE_MORE in faults:
            params = _with_one_more(params)
        response = handler(params)
        if AnswerFault.FROZEN in faults:
            key = msgspec.json.encode([service, operation, params], order="deterministic")
            response = self._frozen.setdefault(key, response)
        for fault in faults:
            if fault in OMITTED_FIELDS:
                response = _without_field(response, OMITTED_FIELDS[fault])
        return response

    def _answer_faults(self, service: str, operation: str, params: Params) -> list[AnswerFault]:
        found: list[AnswerFault] = []
        for number, rule in enumerate(self.state.rules):
            if rule.answer and self._applies(number, rule, service, operation, params):
                self.state.hits[number] += 1
                found.append(rule.answer)
        return found

    def _applies(
        self, number: int, rule: FaultRule, service: str, operation: str, params: Params
    ) -> bool:
        return (
            (rule.times is None or self.state.hits[number] < rule.times)
            and fnmatchcase(service, rule.service)
            and fnmatchcase(operation, rule.operation)
            and self._in_window(rule)
            and all(_params_match(params, path, value) for path, value in rule.match.items())
            and (rule.probability == 1 or self._context.random.random() < rule.probability)
        )

    def _in_window(self, rule: FaultRule) -> bool:
        now = self._context.now()
        return (rule.start is None or rule.start <= now) and (rule.end is None or now < rule.end)


def _with_one_more(params: Params) -> Params:
    target = params["TargetCapacitySpecification"]
    count = int(target["TotalTargetCapacity"]) + 1
    return {**params, "TargetCapacitySpecification": {**target, "TotalTargetCapacity": count}}


def _without_field(value: Any, name: str) -> Any:
    """The value without that field, however deep."""
    if isinstance(value, Mapping):
        return {key: _without_field(each, name) for key, each in value.items() if key != name}
    return [_without_field(each, name) for each in value] if isinstance(value, list) else value


def parse_fault_rules(value: Any) -> list[FaultRule]:
    """Rules from a list of plain objects; InvalidInputError names the invalid one."""
    return convert_field(value, list[FaultRule], "faults")


def check_rule_operations(
    rules: Iterable[FaultRule], operations: Collection[tuple[str, str]]
) -> None:
    """Raises InvalidInputError for a rule that matches no call: it would never apply."""
    for rule in rules:
        names = [name for service, name in operations if fnmatchcase(service, rule.service)]
        if not names:
            services = sorted({service for service, _ in operations})
            hint = did_you_mean(rule.service, services) or f"one of {', '.join(services)}"
            raise InvalidInputError(f"faults: there is no service {rule.service!r}", hint)
        if not any(fnmatchcase(name, rule.operation) for name in names):
            raise InvalidInputError(
                f"faults: there is no operation {rule.operation!r}",
                did_you_mean(rule.operation, names) or "as in CreateFleet or Describe*",
            )


def _params_match(params: Any, path: str, expected: Any) -> bool:
    alternatives = expected if isinstance(expected, list) else [expected]
    return any(
        fnmatchcase(_comparable_text(value), _comparable_text(each))
        for value in _values_at_path(params, path.split("."))
        for each in alternatives
    )


def _values_at_path(container: Any, steps: Sequence[str]) -> Iterator[Any]:
    """All values at the path; list members are addressed by index or `*`."""
    if not steps:
        yield container
        return
    for step, member in _child_values(container):
        if fnmatchcase(step, steps[0]):
            yield from _values_at_path(member, steps[1:])


def _child_values(container: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(container, Mapping):
        yield from ((str(name), member) for name, member in container.items())
    elif isinstance(container, (list, tuple)):
        yield from ((str(number), member) for number, member in enumerate(container))


def _comparable_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


EC2_SERVICE: Final = "ec2"
FULL_TOKEN: Final = 1 - 1e-9  # a fully refilled token may be a rounding error short of 1


class RateLimit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The rate limit of each operation that matches."""

    operation: str = "*"
    """With wildcards; each operation that matches has its own bucket."""
    service: str = EC2_SERVICE
    rate: Annotated[float, Meta(gt=0)]
    """Tokens per second."""
    burst: Annotated[float, Meta(ge=1)]
    """The size of a bucket, which is full at first."""


DEFAULT_RATE_LIMITS: Final = (
    RateLimit(operation="RunInstances", rate=2, burst=5),
    RateLimit(operation="TerminateInstances", rate=5, burst=100),
    RateLimit(operation="CreateTags", rate=10, burst=100),
    RateLimit(operation="Describe*", rate=20, burst=100),
    RateLimit(operation="Get*", rate=20, burst=100),
    RateLimit(operation="*", rate=5, burst=50),
)
"""Roughly those of EC2; the first that matches applies."""


class TokenBucket(msgspec.Struct):
    tokens: float
    at: float


class ThrottleState(msgspec.Struct, kw_only=True):
    limits: list[RateLimit] = []
    """Empty: no call is throttled."""
    buckets: dict[str, TokenBucket] = {}


class Throttler:
    def __init__(self, context: AccountContext, limits: Sequence[RateLimit] | None = None) -> None:
        self.state = ThrottleState()
        self._context = context
        self.replace(limits)

    def replace(self, limits: Sequence[RateLimit] | None) -> None:
        """Replaces the limits, with full buckets; None or an empty list disables throttling."""
        self.state = ThrottleState(limits=list(limits or ()))

    def admit(self, operation: str, service: str = EC2_SERVICE) -> AwsError | None:
        """Takes a token for the call; the throttling error where the bucket is empty."""
        limit = self._find_limit(service, operation)
        if limit is None:
            return None
        bucket = self._refilled_bucket(f"{service}:{operation}", limit)
        if bucket.tokens < FULL_TOKEN:
            return throttling_error(service)
        bucket.tokens -= 1
        return None

    def _find_limit(self, service: str, operation: str) -> RateLimit | None:
        for limit in self.state.limits:
            if limit.service == service and fnmatchcase(operation, limit.operation):
                return limit
        return None

    def _refilled_bucket(self, name: str, limit: RateLimit) -> TokenBucket:
        now = self._context.now()
        bucket = self.state.buckets.get(name)
        if bucket is None:
            bucket = self.state.buckets[name] = TokenBucket(limit.burst, now)
        bucket.tokens = min(bucket.tokens + (now - bucket.at) * limit.rate, limit.burst)
        bucket.at = now
        return bucket


def throttling_error(service: str) -> AwsError:
    """EC2 has its own error code for throttling."""
    if service == EC2_SERVICE:
        return AwsError("RequestLimitExceeded", "Request limit exceeded.", 503)
    return AwsError("ThrottlingException", "Rate exceeded", 400)


def parse_rate_limits(value: Any) -> list[RateLimit] | None:
    """Limits from a Cloud or a request: true for those of EC2, false for none, or a list."""
    if value is None or value is False:
        return None
    if value is True:
        return list(DEFAULT_RATE_LIMITS)
    return convert_field(value, list[RateLimit], "throttling")
