"""The router: an HTTP request in, a response out, in the protocol of the service that it was signed
for: its credentials are the only thing that tells services apart on one port. Keeps the log of
the latest requests.
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
    """One request. Status 0: no answer was given."""

    at: float
    seconds: float
    service: str
    operation: str
    status: int
    code: str | None
    params: Any

    @property
    def changes(self) -> bool:
        """Whether anything may be different after it."""
        return bool(self.operation) and not self.operation.startswith(READ_ONLY_PREFIXES)


class RequestLog:
    """Keeps the latest requests, as many as fit; tells whoever wants to know of each."""

    def __init__(self) -> None:
        self.listeners: list[Callable[[RequestLogEntry], None]] = []
        self._kept: deque[bytes] = deque()
        self._size = 0

    def note(self, entry: RequestLogEntry) -> None:
        written = msgspec.json.encode(entry)
        self._kept.append(written)
        self._size += len(written)
        while self._size > MAX_LOG_BYTES:
            self._size -= len(self._kept.popleft())
        for listener in self.listeners:
            listener(entry)

    def latest(self, count: int | None = None) -> Iterator[msgspec.Raw]:
        """The latest, oldest first, each as JSON."""
        skipped = 0 if count is None else max(len(self._kept) - count, 0)
        for number, written in enumerate(self._kept):
            if number >= skipped:
                yield msgspec.Raw(written)


CREDENTIAL_SCOPE: Final = re.compile(r"Credential=[^/\s,]+/\d{8}/[^/\s,]*/([^/\s,]+)/aws4_request")
PRESIGNED_CREDENTIAL: Final = "X-Amz-Credential"
PROTOCOLS_BY_NAME: Final[dict[str, Callable[[Any], ServiceProtocol]]] = {
    "ec2": QueryProtocol,
    "query": QueryProtocol,
    "json": JsonProtocol,
    "rest-json": RestJsonProtocol,
}


def signed_service(request: HttpRequest) -> str | None:
    """The service that a request was signed for. Nobody looks at the signature itself."""
    found = CREDENTIAL_SCOPE.search(request.headers.get("Authorization", ""))
    if found is not None:
        return found[1]
    for name, value in request.arguments:
        if name == PRESIGNED_CREDENTIAL:
            found = CREDENTIAL_SCOPE.fullmatch(f"Credential={unquote(value)}")
            return None if found is None else found[1]
    return None


@lru_cache(maxsize=512)
def load_protocol(service: str) -> ServiceProtocol | None:
    """How a service is spoken to, whichever botocore has a model of; None where it has none.

    Loaded once and for all servers of the process: half a second for the largest.
    """
    try:
        described = Loader().load_service_model(service, "service-2")
    except (UnknownServiceError, DataNotFoundError):
        return None
    model = ServiceModel(described, service)
    made = PROTOCOLS_BY_NAME.get(model.metadata["protocol"])
    return None if made is None else made(model)


class UnknownServiceProtocol:
    """How to refuse a request of which nobody knows for whom it is: as it was asked."""

    def __init__(self, error: AwsError, request: HttpRequest) -> None:
        self._error = error
        self._request = request

    def operation(self, request: HttpRequest) -> str:  # noqa: ARG002
        raise self._error

    def params(self, operation: str, request: HttpRequest) -> Params:  # noqa: ARG002
        raise self._error

    def answer(self, operation: str, answer: Response, request_id: str) -> HttpResponse:  # noqa: ARG002
        return self.refusal(self._error, request_id)

    def refusal(self, error: AwsError, request_id: str) -> HttpResponse:
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
    """Knows which service is meant and how it speaks; all else is the cloud's."""

    def __init__(
        self, cloud: EmulatedAwsAccount, request_log: RequestLog, *, seed: int = 0
    ) -> None:
        self._cloud = cloud
        self._request_log = request_log
        self._chance = Random(seed)

    async def answer(self, request: HttpRequest) -> HttpResponse | None:
        """None where no answer comes: the connection ends, and whoever asked may wonder."""
        routed, request_id = _RoutedRequest(), self._request_id()
        begin = self._cloud.clock.now()
        protocol, response, error = None, None, None
        try:
            protocol = _select_protocol(request, routed)
            response = await self._answered(protocol, request, routed, request_id)
        except AwsError as refused:
            error = refused
        except Exception:
            # Whatever went wrong is ours; who asked must still get an answer that can be read.
            LOG.exception("%s %s failed", routed.service, routed.operation)
            error = INTERNAL_ERROR
        if error is not None and error.status:
            response = (protocol or UnknownServiceProtocol(error, request)).refusal(
                error, request_id
            )
        self._note(routed, begin, response, error)
        return response

    def too_large(self, request: HttpRequest) -> HttpResponse:
        """To a request whose body nobody will read."""
        return UnknownServiceProtocol(REQUEST_TOO_LARGE, request).refusal(
            REQUEST_TOO_LARGE, self._request_id()
        )

    def _request_id(self) -> str:
        return str(UUID(int=self._chance.getrandbits(128), version=4))

    async def _answered(
        self,
        protocol: ServiceProtocol,
        request: HttpRequest,
        routed: "_RoutedRequest",
        request_id: str,
    ) -> HttpResponse:
        routed.operation = protocol.operation(request)
        routed.params = protocol.params(routed.operation, request)
        answer = await self._cloud.call(routed.service, routed.operation, routed.params)
        return protocol.answer(routed.operation, answer, request_id)

    def _note(
        self,
        routed: "_RoutedRequest",
        begin: float,
        response: HttpResponse | None,
        error: AwsError | None,
    ) -> None:
        self._request_log.note(
            RequestLogEntry(
                at=begin,
                seconds=self._cloud.clock.now() - begin,
                service=routed.service,
                operation=routed.operation,
                status=0 if response is None else response.status,
                code=None if error is None else error.code,
                params=routed.params,
            )
        )


class _RoutedRequest:
    """What is known of a request so far."""

    def __init__(self) -> None:
        self.service = ""
        self.operation = ""
        self.params: Params = {}


def _select_protocol(request: HttpRequest, routed: _RoutedRequest) -> ServiceProtocol:
    """How to speak to whom the request is for, or how to say that nobody knows."""
    service = signed_service(request)
    if service is None:
        return UnknownServiceProtocol(MISSING_SIGNATURE, request)
    routed.service = service
    found = load_protocol(service)
    if found is not None:
        return found
    return UnknownServiceProtocol(
        AwsError("InvalidAction", f"There is no service {service} here."), request
    )
