"""Faults as data: which calls fail, how often, when, and with what.

    {"service": "ec2", "operation": "Describe*", "code": "InternalError", "status": 500,
     "probability": 0.1, "times": 3, "match": {"Filters.*.Name": "tag:team"}}

The entrance asks twice: `strike(…)` before the handler, and `strike(…, when=When.AFTER)` once it
has run, whether it answered or refused. A fault after the handler is a lost reply: what was asked
has happened, and the caller gets no answer (status 0).
"""

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from wainwright.emulator.world import Params, World
from wainwright.errors import AwsError, BadInput

Share = Annotated[float, Meta(ge=0, le=1)]
Count = Annotated[int, Meta(ge=1)]
Text = Annotated[str, Meta(min_length=1)]
LOST: Final = "ConnectionClosed"


class When(StrEnum):
    BEFORE = "before"
    """Nothing happens but the error."""
    AFTER = "after"
    """It happens, and nobody hears of it."""


class Fault(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One kind of failure. Everything that is given must agree with the call."""

    operation: Text = "*"
    """Name of the API, with wildcards."""
    service: Text = "*"
    match: dict[str, Any] = {}
    """What must be among the parameters: path to value. `*` in a path stands for every member of a
    list or mapping, in a value for any text; a list of values means one of them."""
    probability: Share = 1.0
    times: Count | None = None
    """How often at most; None: always."""
    start: float | None = None
    end: float | None = None
    """Seconds since 1970; from start on, and before the end."""
    code: Text = LOST
    message: str = "This call fails because a fault rule says so."
    status: Annotated[int, Meta(ge=0, le=599)] | None = None
    """HTTP; by itself 400, or 0 (no answer at all) for a lost reply."""
    when: When = When.BEFORE

    def error(self) -> AwsError:
        status = self.status
        if status is None:
            status = 0 if self.when is When.AFTER or self.code == LOST else 400
        return AwsError(self.code, self.message, status)


class FaultState(msgspec.Struct, kw_only=True):
    rules: list[Fault] = []
    struck: list[int] = []
    """How often each rule has struck."""


class Faults:
    def __init__(self, world: World, rules: Sequence[Fault] = ()) -> None:
        self.state = FaultState()
        self._world = world
        self.replace(rules)

    def replace(self, rules: Sequence[Fault]) -> None:
        """Other rules from now on, none of which has struck yet."""
        self.state = FaultState(rules=list(rules), struck=[0] * len(rules))

    def strike(
        self, service: str, operation: str, params: Params, when: When = When.BEFORE
    ) -> AwsError | None:
        """The error of the first rule that strikes. Chance is asked only where a rule agrees."""
        for number, rule in enumerate(self.state.rules):
            if rule.when is when and self._strikes(number, rule, service, operation, params):
                self.state.struck[number] += 1
                return rule.error()
        return None

    def _strikes(
        self, number: int, rule: Fault, service: str, operation: str, params: Params
    ) -> bool:
        return (
            (rule.times is None or self.state.struck[number] < rule.times)
            and fnmatchcase(service, rule.service)
            and fnmatchcase(operation, rule.operation)
            and self._in_window(rule)
            and all(_found(params, path, value) for path, value in rule.match.items())
            and (rule.probability == 1 or self._world.random.random() < rule.probability)
        )

    def _in_window(self, rule: Fault) -> bool:
        now = self._world.now()
        return (rule.start is None or rule.start <= now) and (rule.end is None or now < rule.end)


def rules(given: Any) -> list[Fault]:
    """Rules out of a list of plain objects; BadInput says which one is wrong, and how."""
    try:
        return msgspec.convert(given, list[Fault])
    except msgspec.ValidationError as error:
        raise BadInput(f"faults: {error}") from None


def _found(params: Any, path: str, wanted: Any) -> bool:
    alternatives = wanted if isinstance(wanted, list) else [wanted]
    return any(
        fnmatchcase(_text(value), _text(each))
        for value in _values(params, path.split("."))
        for each in alternatives
    )


def _values(within: Any, steps: Sequence[str]) -> Iterator[Any]:
    """Everything at the end of the path; lists are entered by number or by `*`."""
    if not steps:
        yield within
        return
    for step, member in _members(within):
        if fnmatchcase(step, steps[0]):
            yield from _values(member, steps[1:])


def _members(within: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(within, Mapping):
        yield from ((str(name), member) for name, member in within.items())
    elif isinstance(within, (list, tuple)):
        yield from ((str(number), member) for number, member in enumerate(within))


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
