"""The server: one port on the loopback interface for all services, and for the admin API. An
account may be kept in a file: read at the start, written soon after a change and at the end.
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
WRITE_DELAY_SECONDS: Final = 1.0  # seconds in which changes gather before they are written together


def resume_account(file: Path, *, clock: Clock, queue_base: str) -> EmulatedAwsAccount | None:
    """The account of the file, at home under a new address; None where there is no file yet."""
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InvalidInputError(f"{file} cannot be read: {error.strerror}") from None
    saved = saved_state.decode_saved_account(data)
    account = saved.account
    at_home = msgspec.structs.replace(
        account, queue_url=f"{queue_base}/{account.account}/{account.queue}"
    )
    settings = msgspec.structs.replace(saved.settings, queue_base=queue_base)
    moved = msgspec.structs.replace(saved, account=at_home, settings=settings)
    return EmulatedAwsAccount(saved.cloud, clock=clock, settings=settings, saved=moved)


class StateFile:
    """Writes the account. The file is whole at any moment: it is replaced, never changed."""

    def __init__(self, file: Path, cloud: EmulatedAwsAccount) -> None:
        self._file = file
        self._cloud = cloud
        self._touched = asyncio.Event()

    def touch(self) -> None:
        self._touched.set()

    async def keep(self) -> None:
        """Writes after changes, for ever."""
        while True:
            await self._touched.wait()
            await self._cloud.clock.sleep(WRITE_DELAY_SECONDS)
            self._touched.clear()
            try:
                self.write()
            except InvalidInputError as error:
                LOG.error("%s", error.message)  # a full disk may have room again next time

    def write(self) -> None:
        scratch = self._file.with_name(f"{self._file.name}.{os.getpid()}.new")
        try:
            scratch.write_bytes(self._cloud.save())
            scratch.replace(self._file)
        except OSError as error:
            raise InvalidInputError(f"{self._file} cannot be written: {error.strerror}") from None


LOOPBACK: Final = "127.0.0.1"
SERVED_SERVICES: Final = ("ec2", "iam", "eks", "ssm", "pricing", "sqs")
MAX_BODY_BYTES: Final = (
    16 * 2**20
)  # of a body; the largest that a client was seen to send has 60 kB
MAX_LINE_BYTES: Final = 64 * 2**10  # a question may stand in the address
SHUTDOWN_GRACE_SECONDS: Final = (
    0.5  # seconds for requests under way when the server stops; long polls end then
)
BACKLOG: Final = 128


def listen(port: int) -> socket.socket:
    """A socket on the loopback interface; port 0 is any that is free."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((LOOPBACK, port))
    except OSError as error:
        made.close()
        hint = "choose another with --port; 0 is any that is free"
        raise UsageError(f"port {port} cannot be used: {error.strerror}", hint) from None
    made.listen(BACKLOG)
    return made


def endpoint_url(sock: socket.socket) -> str:
    host, port = sock.getsockname()
    return f"http://{host}:{port}"


class EmulatorHttpServer:
    """Serves one account on a socket that listens already."""

    def __init__(
        self,
        cloud: EmulatedAwsAccount,
        sock: socket.socket,
        *,
        state: Path | None = None,
        log: Callable[[RequestLogEntry], None] | None = None,
    ) -> None:
        self._sock = sock
        self._file = None if state is None else StateFile(state, cloud)
        request_log = RequestLog()
        request_log.listeners += [self._noted] if log is None else [self._noted, log]
        self._router = RequestRouter(cloud, request_log)
        for service in SERVED_SERVICES:
            load_protocol(service)  # now, and not while the first who asks is waiting
        self._admin_api = AdminApi(cloud, request_log, endpoint_url(sock), self._touch)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serves until the block ends. An account that has a file is written before and after."""
        if self._file is not None:
            self._file.write()
        server = web.Server(
            self._handle,
            handler_cancellation=True,  # a poll whose client is gone must not take messages
            request_factory=_make_request,
            access_log=None,
            max_line_size=MAX_LINE_BYTES,
        )
        runner = web.ServerRunner(server, shutdown_timeout=SHUTDOWN_GRACE_SECONDS)
        await runner.setup()
        await web.SockSite(runner, self._sock).start()
        keeping = None if self._file is None else asyncio.create_task(self._file.keep())
        try:
            yield
        finally:
            await runner.cleanup()
            if keeping is not None:
                keeping.cancel()
                with suppress(asyncio.CancelledError):
                    await keeping
            if self._file is not None:
                self._file.write()

    def _touch(self) -> None:
        if self._file is not None:
            self._file.touch()

    def _noted(self, entry: RequestLogEntry) -> None:
        if entry.changes:
            self._touch()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        reply = await self._reply(request)
        if reply is None:
            if request.transport is not None:
                request.transport.close()
            return web.Response()  # which nobody will see
        return web.Response(status=reply.status, body=reply.body, headers=reply.headers)

    async def _reply(self, request: web.BaseRequest) -> HttpResponse | None:
        address, headers = request.rel_url, request.headers
        path, query = address.raw_path, address.raw_query_string
        try:
            body = await request.read()
        except web.HTTPRequestEntityTooLarge:
            return self._router.too_large(HttpRequest(request.method, path, query, headers, b""))
        incoming = HttpRequest(request.method, path, query, headers, body)
        if path.startswith(ADMIN_PREFIX):
            return self._admin_api.answer(incoming)
        return await self._router.answer(incoming)


def _make_request(
    message: Any, payload: Any, protocol: Any, writer: Any, task: "asyncio.Task[None]"
) -> web.BaseRequest:
    loop = task.get_loop()
    return web.BaseRequest(
        message, payload, protocol, writer, task, loop, client_max_size=MAX_BODY_BYTES
    )
