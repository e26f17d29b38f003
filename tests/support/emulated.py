"""Emulated accounts for tests: a clock in hand, and every question held against botocore."""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from functools import cache
from typing import Any

import botocore.session
from botocore.validate import ParamValidator

from wainwright.api.cloud import Cloud, CloudSpec
from wainwright.clock import EPOCH
from wainwright.emulator.cloud import EmulatedCloud
from wainwright.emulator.settings import Settings
from wainwright.emulator.world import Answer
from wainwright.errors import AwsError


class HandClock:
    """Time that stands still until somebody moves it; who sleeps moves it."""

    def __init__(self, start: float = EPOCH) -> None:
        self.time = start

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.time += seconds


class Account:
    """An emulated account that refuses what boto3 would refuse, and answers in its shapes."""

    def __init__(
        self, spec: CloudSpec | None = None, *, seed: int = 0, settings: Settings | None = None
    ) -> None:
        self.clock = HandClock()
        cloud = None if spec is None else Cloud(spec=spec)
        self.cloud = EmulatedCloud(cloud, clock=self.clock, seed=seed, settings=settings)

    def ask(self, operation: str, /, **params: Any) -> Answer:
        return self.ask_of("ec2", operation, params)

    def ask_of(self, service: str, operation: str, params: Mapping[str, Any]) -> Answer:
        model = service_model(service).operation_model(operation)
        report = ParamValidator().validate(dict(params), model.input_shape)
        assert not report.has_errors(), report.generate_report()
        answer = self.cloud.answer(service, operation, params)
        if model.output_shape is not None:
            wrong = list(misfits(answer, model.output_shape))
            assert not wrong, wrong
        return answer

    def refused(self, operation: str, /, **params: Any) -> tuple[str, int]:
        """Code and status of the error that the question must end with."""
        return refusal(lambda: self.ask(operation, **params))

    def pages(self, operation: str, key: str, /, **params: Any) -> Iterator[list[Any]]:
        """One after the other, as a paginator asks for them."""
        token: dict[str, str] = {}
        while True:
            answer = self.ask(operation, **params, **token)
            yield answer[key]
            if "NextToken" not in answer:
                return
            token = {"NextToken": answer["NextToken"]}


def refusal(act: Callable[[], object]) -> tuple[str, int]:
    try:
        act()
    except AwsError as error:
        return error.code, error.status
    raise AssertionError("nothing was refused")


@cache
def service_model(name: str) -> Any:
    return botocore.session.get_session().get_service_model(name)


def misfits(value: Any, shape: Any, path: str = "") -> Iterator[str]:
    """Where an answer is not what the API says it is."""
    kind = shape.type_name
    if not isinstance(value, PYTHON[kind]):
        yield f"{path} is {type(value).__name__}, not {kind}"
        return
    for step, each, expected in members(value, shape):
        if expected is None:
            yield f"{path}.{step} is no member"
        else:
            yield from misfits(each, expected, f"{path}.{step}")


def members(value: Any, shape: Any) -> Iterator[tuple[str, Any, Any]]:
    """What is inside a value, with the shape that it must have; None where it must not be."""
    match shape.type_name:
        case "list":
            yield from (("[]", each, shape.member) for each in value)
        case "map":
            yield from ((key, each, shape.value) for key, each in value.items())
        case "structure":
            yield from ((key, each, shape.members.get(key)) for key, each in value.items())
        case _:
            return


PYTHON: Mapping[str, Any] = {
    "string": str,
    "integer": int,
    "long": int,
    "float": (int, float),
    "double": (int, float),
    "boolean": bool,
    "timestamp": datetime,
    "structure": dict,
    "list": list,
    "map": dict,
}
