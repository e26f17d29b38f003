"""Servers for the tests: emulated accounts and moto's in threads of this process, and `wain
emulator` as a process of its own.
"""

import asyncio
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

from wainwright.api.catalog_documents import Cloud
from wainwright.clock import SystemClock
from wainwright.emulator.emulated_account import EmulatedAwsAccount
from wainwright.emulator.http.server import EmulatorHttpServer, endpoint_url, listen
from wainwright.emulator.settings import EmulatorSettings


class EmulatorServer:
    """An emulated account over HTTP; the server runs in its own thread."""

    def __init__(self, cloud: EmulatedAwsAccount, endpoint: str) -> None:
        self.cloud = cloud
        self.endpoint = endpoint


@contextmanager
def serve_emulator(
    cloud: Cloud | None = None, account_class: type[EmulatedAwsAccount] = EmulatedAwsAccount
) -> Iterator[EmulatorServer]:
    """Serves an account on a free port until the block ends."""
    sock = listen(0)
    settings = EmulatorSettings(queue_base=endpoint_url(sock))
    account = account_class(cloud, clock=SystemClock(), settings=settings)
    with _serving(EmulatorHttpServer(account, sock)):
        yield EmulatorServer(account, endpoint_url(sock))


@contextmanager
def _serving(server: EmulatorHttpServer) -> Iterator[None]:
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
def serve_moto() -> Iterator[str]:
    """Runs moto's server; yields its endpoint."""
    # Imported here: it takes longer than all else that those who need an emulator import.
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield f"http://{host}:{port}"
    finally:
        server.stop()


WAIN = Path(sys.executable).with_name("wain")


class EmulatorProcess:
    """An emulator process, and the line that it printed."""

    def __init__(self, child: "subprocess.Popen[str]", content: dict[str, Any]) -> None:
        self.child = child
        self.said = content

    def stop(self) -> tuple[int, str]:
        """Exit code and standard error."""
        self.child.terminate()
        rest, errors = self.child.communicate(timeout=30)
        assert rest == "", "more than one line was printed"
        return self.child.returncode, errors


@contextmanager
def emulator_process(*flags: str) -> Iterator[EmulatorProcess]:
    """Runs `wain emulator` on a free port until the block ends."""
    child = subprocess.Popen(
        [WAIN, "emulator", "--port", "0", *flags],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stdout is not None
        line = child.stdout.readline()
        assert line, child.communicate(timeout=30)[1]
        yield EmulatorProcess(child, json.loads(line))
    finally:
        if child.poll() is None:
            child.kill()
        child.communicate()
