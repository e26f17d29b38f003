"""Serving an emulated account until somebody stops it."""

import asyncio
import signal
import socket
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from wainwright.catalogue.remarks import Refused
from wainwright.cli.emulating.patch import from_file
from wainwright.cli.inputs import progress
from wainwright.cli.places import problems
from wainwright.cli.problems import show
from wainwright.clock import SystemClock
from wainwright.emulator.cloud import EmulatedCloud
from wainwright.emulator.http.announcement import announcement
from wainwright.emulator.http.journal import Entry
from wainwright.emulator.http.keeping import resumed
from wainwright.emulator.http.server import Server, endpoint_of, listening
from wainwright.emulator.settings import Settings
from wainwright.manifests.problem import Report
from wainwright.manifests.refused import InputRefused
from wainwright.manifests.world import read

LONGEST: Final = 400  # letters of the parameters in a line of the log


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """The flags, as click hands them over."""

    port: int
    cloud: str | None = None
    seed: int = 0
    log: bool = False
    state: Path | None = None
    faults: str | None = None
    throttle: bool = False


def serve(asked: Asked) -> None:
    """Prints one line when it is ready, and serves until it is told to stop."""
    sock = listening(asked.port)
    try:
        cloud = _account(asked, endpoint_of(sock))
        _change(cloud, asked)
        server = Server(cloud, sock, state=asked.state, log=_logged if asked.log else None)
        asyncio.run(_until_told(server, cloud, sock))
    finally:
        sock.close()


async def _until_told(server: Server, cloud: EmulatedCloud, sock: socket.socket) -> None:
    told = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, told.set)
    async with server.running():
        line = msgspec.json.encode(announcement(cloud, endpoint_of(sock)))
        click.echo(line.decode())
        await told.wait()


def _account(asked: Asked, endpoint: str) -> EmulatedCloud:
    """As it was left, where it was kept; otherwise a new one."""
    clock = SystemClock()
    if asked.state is not None:
        found = resumed(asked.state, clock=clock, queue_base=endpoint)
        if found is not None:
            if asked.cloud is not None:
                click.echo(f"note: goes on with {asked.state}; --cloud is not looked at", err=True)
            return found
    return _new(asked, Settings(queue_base=endpoint), clock)


def _new(asked: Asked, settings: Settings, clock: SystemClock) -> EmulatedCloud:
    files = [] if asked.cloud is None else [asked.cloud]
    with progress() as report:
        world = read([], cloud=asked.cloud, progress=report)
    try:
        made = EmulatedCloud(world.cloud, clock=clock, seed=asked.seed, settings=settings)
    except Refused as refused:
        errors = problems(refused.remarks, files)
        raise InputRefused(Report(errors=errors, warnings=world.notes)) from refused
    show([*world.notes, *problems(made.remarks, files)], word="note", colour="yellow")
    return made


def _change(cloud: EmulatedCloud, asked: Asked) -> None:
    patch: dict[str, Any] = {} if asked.faults is None else from_file(asked.faults)
    if asked.throttle:
        patch["throttling"] = True
    if patch:
        cloud.change(patch)


def _logged(entry: Entry) -> None:
    """One line: when, how it ended, what was asked, how long it took, with which parameters."""
    when = datetime.fromtimestamp(entry.at, UTC).strftime("%H:%M:%S.%f")[:-3]
    params = msgspec.json.encode(entry.params).decode()
    if len(params) > LONGEST:
        params = f"{params[:LONGEST]}… ({len(params):,} letters)"
    end = "lost" if not entry.status else f"{entry.status}"
    asked = f"{entry.service or '?'} {entry.operation or '?'}"
    code = f" {entry.code}" if entry.code else ""
    took = f"{entry.seconds * 1000:.1f} ms"
    click.echo(f"{when} {end}{code} {asked} {took} {params}", err=True)
