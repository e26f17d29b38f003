"""Clients of an account with one interface: service, operation and parameters in, response out."""

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
"""The code for a response that boto3 cannot parse."""


class AccountClient(Protocol):
    def __hash__(self) -> int: ...

    def call(self, service: str, operation: str, /, **params: Any) -> dict[str, Any]:
        """The response; AwsError where the call fails."""
        ...


class InProcessClient:
    """The emulator in process, on virtual time. Requests and responses are validated."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.cloud = EmulatedAwsAccount(clock=self.clock)

    def call(self, service: str, operation: str, /, **params: Any) -> dict[str, Any]:
        model = service_model(service).operation_model(operation)
        report = ParamValidator().validate(params, model.input_shape)
        assert not report.has_errors(), report.generate_report()
        response = self.clock.run(self.cloud.call(service, operation, params))
        if model.output_shape is not None:
            wrong = list(shape_mismatches(response, model.output_shape))
            assert not wrong, wrong
        return response


class HttpClient:
    """Real boto3 against an endpoint."""

    def __init__(self, endpoint: str, region: str = REGION) -> None:
        self.endpoint = endpoint
        self.region = region
        self._session = _session(region)
        self._clients: dict[str, Any] = {}

    def boto_client(self, service: str) -> Any:
        if service not in self._clients:
            self._clients[service] = self._session.client(
                service,
                endpoint_url=self.endpoint,
                config=Config(retries={"total_max_attempts": 1}, max_pool_connections=20),
            )
        return self._clients[service]

    def call(self, service: str, operation: str, /, **params: Any) -> dict[str, Any]:
        try:
            response: dict[str, Any] = getattr(self.boto_client(service), xform_name(operation))(
                **params
            )
        except botocore.exceptions.ClientError as error:
            content = error.response["Error"]
            status = error.response["ResponseMetadata"]["HTTPStatusCode"]
            raise AwsError(content["Code"], content["Message"], status) from error
        except botocore.parsers.ResponseParserError as error:
            raise AwsError(UNREADABLE, str(error), 500) from error
        return {key: value for key, value in response.items() if key != "ResponseMetadata"}

    def close(self) -> None:
        for client in self._clients.values():
            client.close()


@cache
def _session(region: str) -> Any:
    """Shared, as loading the service models is slow."""
    return boto3.session.Session(
        aws_access_key_id="none", aws_secret_access_key="none", region_name=region
    )


def expect_error(
    client: AccountClient, service: str, operation: str, /, **params: Any
) -> tuple[str, int]:
    """Code and status of the error that the call must return."""
    return error_of(lambda: client.call(service, operation, **params))


def error_of(act: Callable[[], object]) -> tuple[str, int]:
    try:
        response = act()
    except AwsError as error:
        return error.code, error.status
    raise AssertionError(f"this was not refused but answered: {response}")


def error_text(act: Callable[[], object]) -> str:
    """Code and message of the expected error."""
    try:
        response = act()
    except AwsError as error:
        return error.message
    raise AssertionError(f"this was not refused but answered: {response}")


def fetch_pages(
    client: AccountClient, service: str, operation: str, key: str, /, **params: Any
) -> list[list[dict[str, Any]]]:
    """All pages of a response, as a paginator requests them."""
    found: list[list[dict[str, Any]]] = []
    token: dict[str, str] = {}
    while True:
        response = client.call(service, operation, **params, **token)
        found.append(response[key])
        if not response.get("NextToken"):
            return found
        token = {"NextToken": response["NextToken"]}
