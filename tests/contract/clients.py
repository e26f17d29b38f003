"""The doors to an account, all alike: a service, an operation, parameters in, an answer out."""

from collections.abc import Callable
from functools import cache
from typing import Any, Protocol

import boto3
import botocore.exceptions
from botocore import xform_name
from botocore.config import Config
from botocore.validate import ParamValidator
from tests.support.emulator_accounts import service_model, shape_mismatches

from wainwright.clock import VirtualClock
from wainwright.emulator.emulated_account import EmulatedAwsAccount
from wainwright.errors import AwsError

REGION = "us-east-1"
UNREADABLE = "Unreadable"
"""The code of an answer that boto3 cannot read."""


class AccountClient(Protocol):
    def __hash__(self) -> int: ...

    def ask(self, service: str, operation: str, /, **params: Any) -> dict[str, Any]:
        """The answer; AwsError where there is none."""
        ...


class InProcessClient:
    """The emulator by its seam, on virtual time. Questions and answers must fit the API."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.cloud = EmulatedAwsAccount(clock=self.clock)

    def ask(self, service: str, operation: str, /, **params: Any) -> dict[str, Any]:
        model = service_model(service).operation_model(operation)
        report = ParamValidator().validate(params, model.input_shape)
        assert not report.has_errors(), report.generate_report()
        answer = self.clock.run(self.cloud.call(service, operation, params))
        if model.output_shape is not None:
            wrong = list(shape_mismatches(answer, model.output_shape))
            assert not wrong, wrong
        return answer


class HttpClient:
    """Real boto3 against an endpoint."""

    def __init__(self, endpoint: str, region: str = REGION) -> None:
        self.endpoint = endpoint
        self.region = region
        self._session = _session(region)
        self._clients: dict[str, Any] = {}

    def client(self, service: str) -> Any:
        if service not in self._clients:
            self._clients[service] = self._session.client(
                service,
                endpoint_url=self.endpoint,
                config=Config(retries={"total_max_attempts": 1}, max_pool_connections=20),
            )
        return self._clients[service]

    def ask(self, service: str, operation: str, /, **params: Any) -> dict[str, Any]:
        try:
            answer: dict[str, Any] = getattr(self.client(service), xform_name(operation))(**params)
        except botocore.exceptions.ClientError as error:
            said = error.response["Error"]
            status = error.response["ResponseMetadata"]["HTTPStatusCode"]
            raise AwsError(said["Code"], said["Message"], status) from error
        except botocore.parsers.ResponseParserError as error:
            raise AwsError(UNREADABLE, str(error), 500) from error
        return {key: value for key, value in answer.items() if key != "ResponseMetadata"}

    def close(self) -> None:
        for client in self._clients.values():
            client.close()


@cache
def _session(region: str) -> Any:
    """One for all, as it loads the models of the services only once."""
    return boto3.session.Session(
        aws_access_key_id="none", aws_secret_access_key="none", region_name=region
    )


def expect_error(
    door: AccountClient, service: str, operation: str, /, **params: Any
) -> tuple[str, int]:
    """Code and status of the error that the question must end with."""
    return error_of(lambda: door.ask(service, operation, **params))


def error_of(act: Callable[[], object]) -> tuple[str, int]:
    try:
        answer = act()
    except AwsError as error:
        return error.code, error.status
    raise AssertionError(f"this was not refused but answered: {answer}")


def error_text(act: Callable[[], object]) -> str:
    """Code and message of the error that this must end with."""
    try:
        answer = act()
    except AwsError as error:
        return error.message
    raise AssertionError(f"this was not refused but answered: {answer}")


def fetch_pages(
    door: AccountClient, service: str, operation: str, key: str, /, **params: Any
) -> list[list[dict[str, Any]]]:
    """All pages of an answer, one after the other as a paginator asks for them."""
    found: list[list[dict[str, Any]]] = []
    token: dict[str, str] = {}
    while True:
        answer = door.ask(service, operation, **params, **token)
        found.append(answer[key])
        if not answer.get("NextToken"):
            return found
        token = {"NextToken": answer["NextToken"]}
