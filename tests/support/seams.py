"""Seams for tests: one that says what it was told to say, and one that checks what it is asked."""

from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import cache
from typing import Any, TypeVar

import botocore.session
from botocore.validate import ParamValidator

from wainwright.aws.seam import Answer, Params, Seam
from wainwright.clock import VirtualClock
from wainwright.errors import AwsError

Result = TypeVar("Result")
Reply = Answer | AwsError | Callable[[Params], Answer]


def on_time(main: Callable[[VirtualClock], Coroutine[Any, Any, Result]]) -> Result:
    """Runs a test in virtual time, and tidies up after it."""
    clock = VirtualClock()
    try:
        return clock.run(main(clock))
    finally:
        clock.close()


class Scripted:
    """Answers each operation with its replies in order, the last one for ever."""

    def __init__(self, replies: Mapping[str, Iterable[Reply] | Reply]) -> None:
        self._replies = {name: _listed(given) for name, given in replies.items()}
        self.calls: list[tuple[str, Params]] = []

    async def call(self, service: str, operation: str, params: Params) -> Answer:
        check(service, operation, params)
        self.calls.append((operation, params))
        replies = self._replies[operation]
        reply = replies.pop(0) if len(replies) > 1 else replies[0]
        if isinstance(reply, AwsError):
            raise reply
        return reply(params) if callable(reply) else dict(reply)

    def asked(self, operation: str) -> list[Params]:
        return [params for name, params in self.calls if name == operation]


class Checked:
    """A seam whose requests are held to botocore's models and written down."""

    def __init__(self, seam: Seam) -> None:
        self._seam = seam
        self.calls: list[tuple[str, Params]] = []

    async def call(self, service: str, operation: str, params: Params) -> Answer:
        check(service, operation, params)
        self.calls.append((operation, params))
        return await self._seam.call(service, operation, params)

    def asked(self, operation: str) -> list[Params]:
        return [params for name, params in self.calls if name == operation]


def check(service: str, operation: str, params: Params) -> None:
    """AssertionError where AWS's own description of the call does not allow these parameters."""
    shape = _model(service).operation_model(operation).input_shape
    report = ParamValidator().validate(params, shape)
    assert not report.has_errors(), report.generate_report()


@cache
def _model(service: str) -> Any:
    return botocore.session.get_session().get_service_model(service)


def _listed(given: Iterable[Reply] | Reply) -> list[Reply]:
    if isinstance(given, (dict, AwsError)) or callable(given):
        return [given]
    return list(given)
