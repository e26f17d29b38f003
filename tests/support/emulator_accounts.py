"""Emulated accounts, and single emulated services, on a clock that tests advance; every request and
response is validated against botocore's models.
"""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from functools import cache
from typing import Any, Generic, Protocol, TypeVar

import botocore.session
import msgspec
import pytest
from botocore.validate import ParamValidator

from wainwright.api.catalog_documents import Cloud, CloudSpec
from wainwright.clock import EPOCH
from wainwright.emulator.context import AccountContext, OperationHandler, Response
from wainwright.emulator.emulated_account import EmulatedAwsAccount
from wainwright.emulator.settings import EmulatorSettings
from wainwright.errors import AwsError


class ManualClock:
    """A clock that advances only by `sleep` or by setting `time`."""

    def __init__(self, start: float = EPOCH) -> None:
        self.time = start

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.time += seconds


class CheckedAccount:
    """An emulated account that validates requests and responses like boto3."""

    def __init__(
        self,
        spec: CloudSpec | None = None,
        *,
        seed: int = 0,
        settings: EmulatorSettings | None = None,
    ) -> None:
        self.clock = ManualClock()
        cloud = None if spec is None else Cloud(spec=spec)
        self.cloud = EmulatedAwsAccount(cloud, clock=self.clock, seed=seed, settings=settings)

    def call(self, operation: str, /, **params: Any) -> Response:
        return self.call_service("ec2", operation, params)

    def call_service(self, service: str, operation: str, params: Mapping[str, Any]) -> Response:
        model = service_model(service).operation_model(operation)
        report = ParamValidator().validate(dict(params), model.input_shape)
        assert not report.has_errors(), report.generate_report()
        response = self.cloud.answer(service, operation, params)
        if model.output_shape is not None:
            wrong = list(shape_mismatches(response, model.output_shape))
            assert not wrong, wrong
        return response

    def refused(self, operation: str, /, **params: Any) -> tuple[str, int]:
        """Code and status of the error that the request must return."""
        return expect_error(lambda: self.call(operation, **params))

    def pages(self, operation: str, key: str, /, **params: Any) -> Iterator[list[Any]]:
        """All pages in order, as a paginator requests them."""
        token: dict[str, str] = {}
        while True:
            response = self.call(operation, **params, **token)
            yield response[key]
            if "NextToken" not in response:
                return
            token = {"NextToken": response["NextToken"]}


def expect_error(act: Callable[[], object]) -> tuple[str, int]:
    try:
        act()
    except AwsError as error:
        return error.code, error.status
    raise AssertionError("nothing was refused")


@cache
def service_model(name: str) -> Any:
    return botocore.session.get_session().get_service_model(name)


def shape_mismatches(value: Any, shape: Any, path: str = "") -> Iterator[str]:
    """Where a response differs from its shape."""
    kind = shape.type_name
    if not isinstance(value, PYTHON_TYPES[kind]):
        yield f"{path} is {type(value).__name__}, not {kind}"
        return
    for step, each, expected in shape_members(value, shape):
        if expected is None:
            yield f"{path}.{step} is no member"
        else:
            yield from shape_mismatches(each, expected, f"{path}.{step}")


def shape_members(value: Any, shape: Any) -> Iterator[tuple[str, Any, Any]]:
    """The members of a value with their shapes; None for unknown members."""
    match shape.type_name:
        case "list":
            yield from (("[]", each, shape.member) for each in value)
        case "map":
            yield from ((key, each, shape.value) for key, each in value.items())
        case "structure":
            yield from ((key, each, shape.members.get(key)) for key, each in value.items())
        case _:
            return


PYTHON_TYPES: Mapping[str, Any] = {
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


class ServicePart(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def state(self) -> msgspec.Struct: ...
    def operations(self) -> Mapping[str, OperationHandler]: ...


STATE = "state"
ServiceType = TypeVar("ServiceType", bound=ServicePart)


class ManualTime:
    """A time source that tests advance."""

    def __init__(self, start: float = EPOCH) -> None:
        self.time = start

    def now(self) -> float:
        return self.time


class SingleService(Generic[ServiceType]):
    """A single service that validates requests like boto3."""

    def __init__(
        self, make: Callable[[AccountContext], ServiceType], region: str = "us-east-1"
    ) -> None:
        self.clock = ManualTime()
        self.context = AccountContext(self.clock.now, region=region, seed=7)
        self.service = make(self.context)
        self._make = make

    def call(self, operation: str, /, **params: Any) -> Response:
        model = _service_model(self.service.name).operation_model(operation)
        report = ParamValidator().validate(params, model.input_shape)
        assert not report.has_errors(), report.generate_report()
        self.context.run_due_events()
        response = self.service.operations()[operation](params)
        assert list(_service_mismatches(response, model.output_shape, operation)) == []
        return response

    def raw(self, operation: str, /, **params: Any) -> Response:
        """A request without validation by the client."""
        return self.service.operations()[operation](params)

    def refused(self, operation: str, /, **params: Any) -> tuple[str, int]:
        """Code and status of the error; the request must not change the state."""
        before = msgspec.json.encode(self.service.state)
        with pytest.raises(AwsError) as caught:
            self.raw(operation, **params)
        assert msgspec.json.encode(self.service.state) == before
        return caught.value.code, caught.value.status

    def reloaded(self) -> "SingleService[ServiceType]":
        """The service after saving and loading."""
        other = SingleService(self._make, self.context.region)
        stored = msgspec.json.encode(self.service.state)
        other.clock.time = self.clock.time
        state = msgspec.json.decode(stored, type=type(self.service.state))
        setattr(other.service, STATE, state)
        return other


@cache
def _service_model(service: str) -> Any:
    return botocore.session.get_session().get_service_model(service)


def _service_mismatches(value: Any, shape: Any, path: str) -> Iterator[str]:
    """Where a response differs from its shape."""
    if shape is None:
        yield from (f"{path} answers nothing",) if value else ()
    elif shape.type_name in CONTAINER_CHECKS and isinstance(value, dict | list):
        yield from CONTAINER_CHECKS[shape.type_name](value, shape, path)
    elif type(value) not in SCALAR_TYPES.get(shape.type_name, ()):
        yield f"{path} is {type(value).__name__}, not {shape.type_name}"


def _in_structure(value: Any, shape: Any, path: str) -> Iterator[str]:
    for key, each in value.items():
        if key not in shape.members:
            yield f"{path}.{key} is no member"
        else:
            yield from _service_mismatches(each, shape.members[key], f"{path}.{key}")


def _in_list(value: Any, shape: Any, path: str) -> Iterator[str]:
    for each in value:
        yield from _service_mismatches(each, shape.member, f"{path}[]")


def _in_map(value: Any, shape: Any, path: str) -> Iterator[str]:
    for key, each in value.items():
        yield from _service_mismatches(each, shape.value, f"{path}[{key}]")


CONTAINER_CHECKS = {"structure": _in_structure, "list": _in_list, "map": _in_map}
SCALAR_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "long": (int,),
    "boolean": (bool,),
    "timestamp": (datetime,),
    "blob": (bytes,),
}
