"""One emulated service by itself, on a clock in hand; what is asked and answered fits its API."""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from functools import cache
from typing import Any, Generic, Protocol, TypeVar

import botocore.session
import msgspec
import pytest
from botocore.validate import ParamValidator

from wainwright.clock import EPOCH
from wainwright.emulator.world import Answer, Handler, World
from wainwright.errors import AwsError


class Part(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def state(self) -> msgspec.Struct: ...
    def operations(self) -> Mapping[str, Handler]: ...


STATE = "state"
Kind = TypeVar("Kind", bound=Part)


class Moments:
    """Time that stands still until a test moves it."""

    def __init__(self, start: float = EPOCH) -> None:
        self.time = start

    def now(self) -> float:
        return self.time


class One(Generic[Kind]):
    """A service that refuses what boto3 would refuse to send."""

    def __init__(self, make: Callable[[World], Kind], region: str = "us-east-1") -> None:
        self.clock = Moments()
        self.world = World(self.clock.now, region=region, seed=7)
        self.service = make(self.world)
        self._make = make

    def ask(self, operation: str, /, **params: Any) -> Answer:
        model = _model(self.service.name).operation_model(operation)
        report = ParamValidator().validate(params, model.input_shape)
        assert not report.has_errors(), report.generate_report()
        self.world.catch_up()
        answer = self.service.operations()[operation](params)
        assert list(_misfits(answer, model.output_shape, operation)) == []
        return answer

    def raw(self, operation: str, /, **params: Any) -> Answer:
        """As a client may ask that checks nothing."""
        return self.service.operations()[operation](params)

    def refused(self, operation: str, /, **params: Any) -> tuple[str, int]:
        """Code and status of the error; a question that changed nothing."""
        before = msgspec.json.encode(self.service.state)
        with pytest.raises(AwsError) as caught:
            self.raw(operation, **params)
        assert msgspec.json.encode(self.service.state) == before
        return caught.value.code, caught.value.status

    def reborn(self) -> "One[Kind]":
        """The same after it was saved and loaded."""
        other = One(self._make, self.world.region)
        kept = msgspec.json.encode(self.service.state)
        other.clock.time = self.clock.time
        state = msgspec.json.decode(kept, type=type(self.service.state))
        setattr(other.service, STATE, state)
        return other


@cache
def _model(service: str) -> Any:
    return botocore.session.get_session().get_service_model(service)


def _misfits(value: Any, shape: Any, path: str) -> Iterator[str]:
    """Where an answer is not what the API says it is."""
    if shape is None:
        yield from (f"{path} answers nothing",) if value else ()
    elif shape.type_name in WITHIN and isinstance(value, dict | list):
        yield from WITHIN[shape.type_name](value, shape, path)
    elif type(value) not in PLAIN.get(shape.type_name, ()):
        yield f"{path} is {type(value).__name__}, not {shape.type_name}"


def _in_structure(value: Any, shape: Any, path: str) -> Iterator[str]:
    for key, each in value.items():
        if key not in shape.members:
            yield f"{path}.{key} is no member"
        else:
            yield from _misfits(each, shape.members[key], f"{path}.{key}")


def _in_list(value: Any, shape: Any, path: str) -> Iterator[str]:
    for each in value:
        yield from _misfits(each, shape.member, f"{path}[]")


def _in_map(value: Any, shape: Any, path: str) -> Iterator[str]:
    for key, each in value.items():
        yield from _misfits(each, shape.value, f"{path}[{key}]")


WITHIN = {"structure": _in_structure, "list": _in_list, "map": _in_map}
PLAIN: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "long": (int,),
    "boolean": (bool,),
    "timestamp": (datetime,),
    "blob": (bytes,),
}
