"""Servers for the tests: emulated accounts and moto's, in threads of this process."""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

from moto.server import ThreadedMotoServer

from wainwright.api.cloud import Cloud
from wainwright.clock import SystemClock
from wainwright.emulator.cloud import EmulatedCloud
from wainwright.emulator.http.server import Server, endpoint_of, listening
from wainwright.emulator.settings import Settings


class Emulator:
    """An emulated account behind HTTP; the server runs in a thread of its own."""

    def __init__(self, cloud: EmulatedCloud, endpoint: str) -> None:
        self.cloud = cloud
        self.endpoint = endpoint


@contextmanager
def emulator(
    cloud: Cloud | None = None, made: type[EmulatedCloud] = EmulatedCloud
) -> Iterator[Emulator]:
    """Serves an account on a free port for as long as the block lasts."""
    sock = listening(0)
    settings = Settings(queue_base=endpoint_of(sock))
    account = made(cloud, clock=SystemClock(), settings=settings)
    with _serving(Server(account, sock)):
        yield Emulator(account, endpoint_of(sock))


@contextmanager
def _serving(server: Server) -> Iterator[None]:
    loop = asyncio.new_event_loop()
    ready, done = Event(), asyncio.Event()

    async def serve() -> None:
        async with server.running():
            ready.set()
            await done.wait()

    thread = Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    assert ready.wait(30), "the server does not start"
    try:
        yield
    finally:
        loop.call_soon_threadsafe(done.set)
        thread.join()
        loop.close()


@contextmanager
def moto() -> Iterator[str]:
    """Moto's server; gives its endpoint."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield f"http://{host}:{port}"
    finally:
        server.stop()
