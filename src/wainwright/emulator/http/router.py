"""The router: an HTTP request in, a response out, in the protocol of the service that it was signed
for: on one port only the credential scope tells services apart. Keeps a log of the latest requests.
"""

import logging
import re
from collections import deque
from collections.abc import Callable, Iterator
from functools import lru_cache
from random import Random
from typing import Any, Final
from urllib.parse import unquote
from uuid import UUID

import msgspec
from botocore.exceptions import DataNotFoundError, UnknownServiceError
from botocore.loaders import Loader
from botocore.model import ServiceModel

from wainwright.emulator.context import Params, Response
from wainwright.emulator.emulated_account import EmulatedAwsAccount
from wainwright.emulator.http import protocols
from wainwright.emulator.http.protocols import (
    HttpRequest,
    HttpResponse,
    JsonProtocol,
    QueryProtocol,
    RestJsonProtocol,
    ServiceProtocol,
)
from wainwright.errors import AwsError

MAX_LOG_BYTES: Final = 8 * 2**20
READ_ONLY_PREFIXES: Final = ("Describe", "Get", "List")


class RequestLogEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One request. Status 0: no response was sent."""

    at: float
    seconds: float
    service: str
    operation: str
    status: int
    code: str | None
    params: Any

    @property
    def may_change_state(self) -> bool:
        """Whether the request may have changed the account."""
        return bool(self.operation) and not self.operation.startswith(READ_ONLY_PREFIXES)


class RequestLog:
    """The latest requests, up to a total size; calls listeners for each.

    Entries are stored as JSON: that is smaller than the parameter objects, and its size is known.
    """

    def __init__(self) -> None:
        self.listeners: list[Callable[[RequestLogEntry], None]] = []
        self._entries: deque[bytes] = deque()
        self._size = 0

    def add(self, entry: RequestLogEntry) -> None:
        encoded = msgspec.json.encode(entry)
        self._entries.append(encoded)
        self._size += len(encoded)
        while self._size > MAX_LOG_BYTES:
            self._size -= len(self._entries.popleft())
        for listener in self.listeners:
            listener(entry)

    def latest(self, count: int | None = None) -> Iterator[msgspec.Raw]:
        """The latest, oldest first, each as JSON."""
        skipped = 0 if count is None else max(len(self._entries) - count, 0)
        for number, encoded in enumerate(self._entries):
            if number >= skipped:
                yield msgspec.Raw(encoded)


CREDENTIAL_SCOPE: Final = re.compile(r"Credential=[^/\s,]+/\d{8}/[^/\s,]*/([^/\s,]+)/aws4_request")
PRESIGNED_CREDENTIAL: Final = "X-Amz-Credential"
PROTOCOLS_BY_NAME: Final[dict[str, Callable[[Any], ServiceProtocol]]] = {
    "ec2": QueryProtocol,
    "query": QueryProtocol,
    "json": JsonProtocol,
    "rest-json": RestJsonProtocol,
}


def signed_service(request: HttpRequest) -> str | None:
    """The service in the credential scope. The signature itself is not verified."""
    match = CREDENTIAL_SCOPE.search(request.headers.get("Authorization", ""))
    if match is not None:
        return match[1]
    for name, value in request.arguments:
        if name == PRESIGNED_CREDENTIAL:
            match = CREDENTIAL_SCOPE.fullmatch(f"Credential={unquote(value)}")
            return None if match is None else match[1]
    return None


@lru_cache(maxsize=512)
def load_protocol(service: str) -> ServiceProtocol | None:
    """The protocol of any service that botocore has a model of; None for others.

    Cached for all servers of the process: loading the largest model takes half a second.
    """
    try:
        description = Loader().load_service_model(service, "service-2")
    except (UnknownServiceError, DataNotFoundError):
        return None
    model = ServiceModel(description, service)
    protocol_class = PROTOCOLS_BY_NAME.get(model.metadata["protocol"])
    return None if protocol_class is None else protocol_class(model)


class UnknownServiceProtocol:
    """Errors for a request to an unknown service, in the protocol that the request seems to use."""

    def __init__(self, error: AwsError, request: HttpRequest) -> None:
        self._error = error
        self._request = request

    def operation(self, request: HttpRequest) -> str:  # noqa: ARG002
        raise self._error

    def params(self, operation: str, request: HttpRequest) -> Params:  # noqa: ARG002
        raise self._error

    def answer(self, operation: str, answer: Response, request_id: str) -> HttpResponse:  # noqa: ARG002
        return self.error_response(self._error, request_id)

    def error_response(self, error: AwsError, request_id: str) -> HttpResponse:
        headers = self._request.headers
        if "X-Amz-Target" in headers:
            version = headers.get("Content-Type", "").rpartition("-")[2]
            return protocols.json_error(error, request_id, version if version == "1.0" else "1.1")
        if "json" in headers.get("Content-Type", "") or self._request.path != "/":
            return protocols.rest_json_error(error, request_id)
        return protocols.query_error(error, request_id)


LOG: Final = logging.getLogger(__name__)
MISSING_SIGNATURE: Final = AwsError(
    "MissingAuthenticationToken", "Request is missing its signature", 403
)
REQUEST_TOO_LARGE: Final = AwsError("RequestEntityTooLarge", "The request is too large", 413)
INTERNAL_ERROR: Final = AwsError("InternalError", "An internal error has occurred", 500)


class RequestRouter:
    """Selects service and protocol of a request; the account handles the call."""

    def __init__(
        self, emulated_account: EmulatedAwsAccount, request_log: RequestLog, *, seed: int = 0
    ) -> None:
        self._emulated_account = emulated_account
        self._request_log = request_log
        self._random = Random(seed)

    async def handle(self, request: HttpRequest) -> HttpResponse | None:
        """The response; None where it is lost, and the connection is to be closed."""
        routed, request_id = _RoutedRequest(), self._request_id()
        begin = self._emulated_account.clock.now()
        protocol, response, error = None, None, None
        try:
            protocol = _select_protocol(request, routed)
            response = await self._call_account(protocol, request, routed, request_id)
        except AwsError as aws_error:
            error = aws_error
        except Exception:
            # A bug of the emulator: the client must still get a response that it can parse.
            LOG.exception("%s %s failed", routed.service, routed.operation)
            error = INTERNAL_ERROR
        if error is not None and error.status:
            response = (protocol or UnknownServiceProtocol(error, request)).error_response(
                error, request_id
            )
        self._log_request(routed, begin, response, error)
        return response

    def too_large_response(self, request: HttpRequest) -> HttpResponse:
        """The response to a request whose body is not read."""
        return UnknownServiceProtocol(REQUEST_TOO_LARGE, request).error_response(
            REQUEST_TOO_LARGE, self._request_id()
        )

    def _request_id(self) -> str:
        return str(UUID(int=self._random.getrandbits(128), version=4))

    async def _call_account(
        self,
        protocol: ServiceProtocol,
        request: HttpRequest,
        routed: "_RoutedRequest",
        request_id: str,
    ) -> HttpResponse:
        routed.operation = protocol.operation(request)
        routed.params = protocol.params(routed.operation, request)
        response = await self._emulated_account.call(
            routed.service, routed.operation, routed.params
        )
        return protocol.answer(routed.operation, response, request_id)

    def _log_request(
        self,
        routed: "_RoutedRequest",
        begin: float,
        response: HttpResponse | None,
        error: AwsError | None,
    ) -> None:
        self._request_log.add(
            RequestLogEntry(
                at=begin,
                seconds=self._emulated_account.clock.now() - begin,
                service=routed.service,
                operation=routed.operation,
                status=0 if response is None else response.status,
                code=None if error is None else error.code,
                params=routed.params,
            )
        )


class _RoutedRequest:
    """What has been parsed of a request so far, for the log."""

    def __init__(self) -> None:
        self.service = ""
        self.operation = ""
        self.params: Params = {}


def _select_protocol(request: HttpRequest, routed: _RoutedRequest) -> ServiceProtocol:
    """The protocol of the service, or one that only returns errors."""
    service = signed_service(request)
    if service is None:
        return UnknownServiceProtocol(MISSING_SIGNATURE, request)
    routed.service = service
    protocol = load_protocol(service)
    if protocol is not None:
        return protocol
    return UnknownServiceProtocol(
        AwsError("InvalidAction", f"There is no service {service} here."), request
    )
