"""The server: one port on the loopback interface for all services, and for our own path."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

from aiohttp import web

from wainwright.emulator.cloud import EmulatedCloud
from wainwright.emulator.http.door import Door
from wainwright.emulator.http.journal import Entry, Journal
from wainwright.emulator.http.keeping import StateFile
from wainwright.emulator.http.own import PREFIX, Own
from wainwright.emulator.http.services import speech
from wainwright.emulator.http.wire import Incoming, Reply
from wainwright.errors import Usage

LOOPBACK: Final = "127.0.0.1"
SERVED: Final = ("ec2", "iam", "eks", "ssm", "pricing", "sqs")
MOST_BYTES: Final = 16 * 2**20  # of a body; the largest that a client was seen to send has 60 kB
LONGEST_LINE: Final = 64 * 2**10  # a question may stand in the address
GRACE: Final = 0.5  # seconds for requests under way when the server stops; long polls end then
BACKLOG: Final = 128


def listening(port: int) -> socket.socket:
    """A socket on the loopback interface; port 0 is any that is free."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((LOOPBACK, port))
    except OSError as error:
        made.close()
        hint = "choose another with --port; 0 is any that is free"
        raise Usage(f"port {port} cannot be used: {error.strerror}", hint) from None
    made.listen(BACKLOG)
    return made


def endpoint_of(sock: socket.socket) -> str:
    host, port = sock.getsockname()
    return f"http://{host}:{port}"


class Server:
    """Serves one account on a socket that listens already."""

    def __init__(
        self,
        cloud: EmulatedCloud,
        sock: socket.socket,
        *,
        state: Path | None = None,
        log: Callable[[Entry], None] | None = None,
    ) -> None:
        self._sock = sock
        self._file = None if state is None else StateFile(state, cloud)
        journal = Journal()
        journal.listeners += [self._noted] if log is None else [self._noted, log]
        self._door = Door(cloud, journal)
        for service in SERVED:
            speech(service)  # now, and not while the first who asks is waiting
        self._own = Own(cloud, journal, endpoint_of(sock), self._touch)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serves until the block ends. An account that has a file is written before and after."""
        if self._file is not None:
            self._file.write()
        server = web.Server(
            self._handle,
            handler_cancellation=True,  # a poll whose client is gone must not take messages
            request_factory=_request,
            access_log=None,
            max_line_size=LONGEST_LINE,
        )
        runner = web.ServerRunner(server, shutdown_timeout=GRACE)
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

    def _noted(self, entry: Entry) -> None:
        if entry.changes:
            self._touch()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        reply = await self._reply(request)
        if reply is None:
            if request.transport is not None:
                request.transport.close()
            return web.Response()  # which nobody will see
        return web.Response(status=reply.status, body=reply.body, headers=reply.headers)

    async def _reply(self, request: web.BaseRequest) -> Reply | None:
        address, headers = request.rel_url, request.headers
        path, query = address.raw_path, address.raw_query_string
        try:
            body = await request.read()
        except web.HTTPRequestEntityTooLarge:
            return self._door.too_large(Incoming(request.method, path, query, headers, b""))
        incoming = Incoming(request.method, path, query, headers, body)
        if path.startswith(PREFIX):
            return self._own.answer(incoming)
        return await self._door.answer(incoming)


def _request(
    message: Any, payload: Any, protocol: Any, writer: Any, task: "asyncio.Task[None]"
) -> web.BaseRequest:
    loop = task.get_loop()
    return web.BaseRequest(
        message, payload, protocol, writer, task, loop, client_max_size=MOST_BYTES
    )
