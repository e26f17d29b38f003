"""The server: one port on the loopback interface for all services, and for the admin API.

A request is answered in the protocol of the service that it was signed for: on one port only
the credential scope tells services apart. An account may be stored in a file: read at the
start, written soon after changes and at the end.
"""

import asyncio
import logging
import re
import socket
import stat
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext, suppress
from functools import lru_cache
from pathlib import Path
from random import Random
from tempfile import mkstemp
from typing import Any, Final
from urllib.parse import unquote
from uuid import UUID

import msgspec
from aiohttp import ClientError, web
from aiohttp.web_protocol import RequestHandler
from botocore.exceptions import DataNotFoundError, UnknownServiceError
from botocore.loaders import Loader
from botocore.model import ServiceModel

from wainwright.clock import Clock
from wainwright.emulator import saved_state
from wainwright.emulator.context import Params, Response
from wainwright.emulator.emulated_account import EmulatedAwsAccount
from wainwright.emulator.http import protocols
from wainwright.emulator.http.admin_api import (
    ADMIN_PREFIX,
    AdminApi,
    RequestLog,
    RequestLogEntry,
    error_response,
)
from wainwright.emulator.http.protocols import (
    HttpRequest,
    HttpResponse,
    JsonProtocol,
    QueryProtocol,
    RestJsonProtocol,
    ServiceProtocol,
)
from wainwright.errors import AwsError, InvalidInputError, UsageError
from wainwright.http_connections import CONNECTION_LOG, close_after_bad_body

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


MISSING_SIGNATURE: Final = AwsError(
    "MissingAuthenticationToken", "Request is missing its signature", 403
)
FOREIGN_REQUEST: Final = AwsError(
    "AccessDenied", "Web pages, and requests under another name, are not answered here", 403
)
MALFORMED_REQUEST: Final = AwsError("MalformedHttpRequest", "The request cannot be read", 400)
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

    def rejection(self, request: HttpRequest, error: AwsError) -> HttpResponse:
        """The response to a request that no service sees."""
        return UnknownServiceProtocol(error, request).error_response(error, self._request_id())

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


LOG: Final = logging.getLogger(__name__)
DAMAGED_STATE: Final = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What values that have the right types, and fit neither each other nor a machine, may raise."""
WRITE_DELAY_SECONDS: Final = 1.0  # seconds; changes within it are written together


def resume_account(
    file: Path, *, clock: Clock, queue_base: str | None
) -> EmulatedAwsAccount | None:
    """The account of the file, with queue URLs of this server, if there is one; None where there is
    no file.
    """
    try:
        # A device has no end, and a pipe keeps whoever reads it waiting.
        if not stat.S_ISREG(file.stat().st_mode):
            raise InvalidInputError(f"{file} cannot be read: it is not an ordinary file")
        data = file.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InvalidInputError(f"{file} cannot be read: {error.strerror}") from None
    try:
        return _restored_account(data, clock=clock, queue_base=queue_base)
    except DAMAGED_STATE as error:
        raise InvalidInputError(
            f"{file} is damaged: this is not a saved emulator: {error}",
            "name another file, or remove this one to begin with a new account",
        ) from error


def _restored_account(data: bytes, *, clock: Clock, queue_base: str | None) -> EmulatedAwsAccount:
    saved = saved_state.decode_saved_account(data)
    if queue_base is None:
        return EmulatedAwsAccount(saved.cloud, clock=clock, settings=saved.settings, saved=saved)
    account = saved.account
    resources = msgspec.structs.replace(
        account, queue_url=f"{queue_base}/{account.account}/{account.queue}"
    )
    settings = msgspec.structs.replace(saved.settings, queue_base=queue_base)
    relocated = msgspec.structs.replace(saved, account=resources, settings=settings)
    return EmulatedAwsAccount(saved.cloud, clock=clock, settings=settings, saved=relocated)


class StateFile:
    """Writes the account. The file is replaced atomically: a reader never sees half of it."""

    def __init__(self, file: Path, emulated_account: EmulatedAwsAccount) -> None:
        self._file = file
        self._emulated_account = emulated_account
        self._changed = asyncio.Event()

    def mark_changed(self) -> None:
        self._changed.set()

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """Written before and after the block, and in it after changes."""
        self.write()
        writing = asyncio.create_task(self.write_changes(), name="state file")
        try:
            yield
        finally:
            writing.cancel()
            with suppress(asyncio.CancelledError):
                await writing
            self.write()

    async def write_changes(self) -> None:
        """Writes after changes, until cancelled."""
        while True:
            await self._changed.wait()
            await self._emulated_account.clock.sleep(WRITE_DELAY_SECONDS)
            self._changed.clear()
            try:
                self.write()
            except InvalidInputError as error:
                LOG.error("%s", error.message)  # retried after the next change

    def write(self) -> None:
        try:
            replace_file(self._file, self._emulated_account.save())
        except OSError as error:
            raise InvalidInputError(f"{self._file} cannot be written: {error.strerror}") from None


def replace_file(file: Path, data: bytes) -> None:
    """Writes beside the file under a name that nobody can have prepared, then renames.

    With a name that can be guessed, in a folder that others may write to, a link prepared there
    would have any file of the user overwritten. `mkstemp` opens with O_EXCL, readable by us only.
    """
    descriptor, temporary = mkstemp(prefix=f".{file.name}.", suffix=".new", dir=file.parent)
    try:
        with open(descriptor, "wb") as opened:  # noqa: PTH123  # a descriptor has no path
            opened.write(data)
        Path(temporary).replace(file)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


LOOPBACK: Final = "127.0.0.1"
LOCAL_HOSTS: Final = frozenset({LOOPBACK, "localhost", "[::1]"})
SAME_SITE: Final = frozenset({"", "none"})
SERVED_SERVICES: Final = ("ec2", "iam", "eks", "ssm", "pricing", "sqs")
MAX_BODY_BYTES: Final = 16 * 2**20  # the largest body seen from a client has 60 kB
MAX_LINE_BYTES: Final = 64 * 2**10  # a GET request has its parameters in the URL
SHUTDOWN_GRACE_SECONDS: Final = (
    0.5  # for requests in progress when the server stops; long polls end then
)
BACKLOG: Final = 128


def listen(port: int, host: str = LOOPBACK) -> socket.socket:
    """A listening socket on the loopback interface, or on another; port 0 is any free port."""
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
    except (OSError, TypeError, ValueError) as error:  # the last two: a name that no host has
        sock.close()
        hint = "choose another with --port; 0 is any that is free"
        where = f"port {port}" if host == LOOPBACK else f"{host}, port {port},"
        raise UsageError(f"{where} cannot be used: {_reason(error)}", hint) from None
    sock.listen(BACKLOG)
    return sock


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", "") or str(error)


def endpoint_url(sock: socket.socket) -> str:
    host, port = sock.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def host_name(headers: Mapping[str, str]) -> str:
    """Whom a request is for, without the port."""
    return re.sub(r":[0-9]+$", "", headers.get("Host", LOOPBACK)).lower()


def is_foreign(headers: Mapping[str, str]) -> bool:
    """Whether a web page may have sent the request.

    Browsers name the page in Origin, or tell by Sec-Fetch-Site that there is one; no AWS client
    sends either. A name that somebody's DNS points at the loopback interface is in Host.
    """
    is_page = "Origin" in headers or headers.get("Sec-Fetch-Site", "") not in SAME_SITE
    return is_page or host_name(headers) not in LOCAL_HOSTS


class _RequestHandler(RequestHandler):
    """Bytes that are no HTTP get a response in the shape of AWS, too, not a page of aiohttp's."""

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002
    ) -> web.StreamResponse:
        error = MALFORMED_REQUEST
        if status >= 500:
            LOG.error("a request failed", exc_info=exc)
            error = INTERNAL_ERROR
        if request.writer.output_size > 0:
            raise ConnectionError("part of the response has been sent")
        response = _to_web(protocols.query_error(error, ""))
        response.force_close()
        return response


class _Server(web.Server):
    def __call__(self) -> RequestHandler:
        return _RequestHandler(self, loop=self._loop, **self._kwargs)


def _to_web(response: HttpResponse) -> web.Response:
    return web.Response(status=response.status, body=response.body, headers=response.headers)


class EmulatorHttpServer:
    """Serves one account on a listening socket."""

    def __init__(
        self,
        emulated_account: EmulatedAwsAccount,
        sock: socket.socket,
        *,
        state: StateFile | None = None,
        log: Callable[[RequestLogEntry], None] | None = None,
    ) -> None:
        self._sock = sock
        self._file = state
        request_log = RequestLog()
        request_log.listeners += (
            [self._on_request_logged] if log is None else [self._on_request_logged, log]
        )
        self._router = RequestRouter(emulated_account, request_log)
        for service in SERVED_SERVICES:
            load_protocol(service)  # in advance: the first request does not wait for the models
        self._admin_api = AdminApi(
            emulated_account, request_log, endpoint_url(sock), self._mark_changed
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serves until the block ends. A state file is written before and after."""
        async with nullcontext() if self._file is None else self._file.kept(), self._serving():
            yield

    @asynccontextmanager
    async def _serving(self) -> AsyncIterator[None]:
        server = _Server(
            self._handle,
            # A long poll whose client has disconnected must not receive messages.
            handler_cancellation=True,
            request_factory=_make_request,
            access_log=None,
            logger=CONNECTION_LOG,
            max_line_size=MAX_LINE_BYTES,
        )
        runner = web.ServerRunner(server, shutdown_timeout=SHUTDOWN_GRACE_SECONDS)
        await runner.setup()
        await web.SockSite(runner, self._sock).start()
        try:
            yield
        finally:
            await runner.cleanup()

    def _mark_changed(self) -> None:
        if self._file is not None:
            self._file.mark_changed()

    def _on_request_logged(self, entry: RequestLogEntry) -> None:
        if entry.may_change_state:
            self._mark_changed()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        response = await self._respond(request)
        if response is None:
            if request.transport is not None:
                request.transport.close()
            return web.Response()  # the connection is closed: not sent
        answer = _to_web(response)
        close_after_bad_body(request, answer)
        return answer

    async def _respond(self, request: web.BaseRequest) -> HttpResponse | None:
        address, headers = request.rel_url, request.headers
        path, query = address.raw_path, address.raw_query_string
        incoming = HttpRequest(request.method, path, query, headers, b"")
        if is_foreign(headers):
            return self._reject(incoming, FOREIGN_REQUEST)
        try:
            body = await request.read()
        except web.HTTPRequestEntityTooLarge:
            return self._reject(incoming, REQUEST_TOO_LARGE)
        except (ClientError, web.HTTPException, web.RequestPayloadError):
            return self._reject(incoming, MALFORMED_REQUEST)
        incoming = HttpRequest(request.method, path, query, headers, body)
        if path.startswith(ADMIN_PREFIX):
            return self._admin_api.handle(incoming)
        return await self._router.handle(incoming)

    def _reject(self, request: HttpRequest, error: AwsError) -> HttpResponse:
        if request.path.startswith(ADMIN_PREFIX):
            return error_response(error.status, error.text)
        return self._router.rejection(request, error)


def _make_request(
    message: Any, payload: Any, protocol: Any, writer: Any, task: "asyncio.Task[None]"
) -> web.BaseRequest:
    loop = task.get_loop()
    return web.BaseRequest(
        message, payload, protocol, writer, task, loop, client_max_size=MAX_BODY_BYTES
    )
