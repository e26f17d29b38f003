"""The server: one port on the loopback interface for all services, and for the admin API. An
account may be stored in a file: read at the start, written soon after changes and at the end.
"""

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

import msgspec
from aiohttp import web

from wainwright.clock import Clock
from wainwright.emulator import saved_state
from wainwright.emulator.emulated_account import EmulatedAwsAccount
from wainwright.emulator.http.admin_api import ADMIN_PREFIX, AdminApi
from wainwright.emulator.http.protocols import HttpRequest, HttpResponse
from wainwright.emulator.http.router import (
    RequestLog,
    RequestLogEntry,
    RequestRouter,
    load_protocol,
)
from wainwright.errors import InvalidInputError, UsageError

LOG: Final = logging.getLogger(__name__)
WRITE_DELAY_SECONDS: Final = 1.0  # seconds; changes within it are written together


def resume_account(file: Path, *, clock: Clock, queue_base: str) -> EmulatedAwsAccount | None:
    """The account of the file, with queue URLs of this server; None where there is no file."""
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InvalidInputError(f"{file} cannot be read: {error.strerror}") from None
    saved = saved_state.decode_saved_account(data)
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
        temporary = self._file.with_name(f"{self._file.name}.{os.getpid()}.new")
        try:
            temporary.write_bytes(self._emulated_account.save())
            temporary.replace(self._file)
        except OSError as error:
            raise InvalidInputError(f"{self._file} cannot be written: {error.strerror}") from None


LOOPBACK: Final = "127.0.0.1"
SERVED_SERVICES: Final = ("ec2", "iam", "eks", "ssm", "pricing", "sqs")
MAX_BODY_BYTES: Final = 16 * 2**20  # the largest body seen from a client has 60 kB
MAX_LINE_BYTES: Final = 64 * 2**10  # a GET request has its parameters in the URL
SHUTDOWN_GRACE_SECONDS: Final = (
    0.5  # for requests in progress when the server stops; long polls end then
)
BACKLOG: Final = 128


def listen(port: int) -> socket.socket:
    """A listening socket on the loopback interface; port 0 is any free port."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((LOOPBACK, port))
    except OSError as error:
        sock.close()
        hint = "choose another with --port; 0 is any that is free"
        raise UsageError(f"port {port} cannot be used: {error.strerror}", hint) from None
    sock.listen(BACKLOG)
    return sock


def endpoint_url(sock: socket.socket) -> str:
    host, port = sock.getsockname()
    return f"http://{host}:{port}"


class EmulatorHttpServer:
    """Serves one account on a listening socket."""

    def __init__(
        self,
        emulated_account: EmulatedAwsAccount,
        sock: socket.socket,
        *,
        state: Path | None = None,
        log: Callable[[RequestLogEntry], None] | None = None,
    ) -> None:
        self._sock = sock
        self._file = None if state is None else StateFile(state, emulated_account)
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
        if self._file is not None:
            self._file.write()
        server = web.Server(
            self._handle,
            # A long poll whose client has disconnected must not receive messages.
            handler_cancellation=True,
            request_factory=_make_request,
            access_log=None,
            max_line_size=MAX_LINE_BYTES,
        )
        runner = web.ServerRunner(server, shutdown_timeout=SHUTDOWN_GRACE_SECONDS)
        await runner.setup()
        await web.SockSite(runner, self._sock).start()
        writing = None if self._file is None else asyncio.create_task(self._file.write_changes())
        try:
            yield
        finally:
            await runner.cleanup()
            if writing is not None:
                writing.cancel()
                with suppress(asyncio.CancelledError):
                    await writing
            if self._file is not None:
                self._file.write()

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
        return web.Response(status=response.status, body=response.body, headers=response.headers)

    async def _respond(self, request: web.BaseRequest) -> HttpResponse | None:
        address, headers = request.rel_url, request.headers
        path, query = address.raw_path, address.raw_query_string
        try:
            body = await request.read()
        except web.HTTPRequestEntityTooLarge:
            return self._router.too_large_response(
                HttpRequest(request.method, path, query, headers, b"")
            )
        incoming = HttpRequest(request.method, path, query, headers, body)
        if path.startswith(ADMIN_PREFIX):
            return self._admin_api.handle(incoming)
        return await self._router.handle(incoming)


def _make_request(
    message: Any, payload: Any, protocol: Any, writer: Any, task: "asyncio.Task[None]"
) -> web.BaseRequest:
    loop = task.get_loop()
    return web.BaseRequest(
        message, payload, protocol, writer, task, loop, client_max_size=MAX_BODY_BYTES
    )
