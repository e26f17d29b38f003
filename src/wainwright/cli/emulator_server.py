"""The emulator as a process: serves an account over HTTP until SIGINT or SIGTERM."""

import asyncio
import signal
import socket
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from wainwright.catalogue.diagnostics import InvalidCatalogInput
from wainwright.cli.catalog_input import locate_remarks
from wainwright.cli.emulator_patch import read_patch
from wainwright.cli.options import show_progress
from wainwright.cli.printing import print_problems
from wainwright.clock import SystemClock
from wainwright.emulator.emulated_account import EmulatedAwsAccount
from wainwright.emulator.http.admin_api import connection_info
from wainwright.emulator.http.router import RequestLogEntry
from wainwright.emulator.http.server import EmulatorHttpServer, endpoint_url, listen, resume_account
from wainwright.emulator.settings import EmulatorSettings
from wainwright.manifests.cluster_manifests import read_manifests
from wainwright.manifests.problems import InvalidInput, ProblemReport

MAX_LOGGED_PARAMS: Final = 400  # letters of the parameters in a line of the log


class ServeArguments(msgspec.Struct, frozen=True, kw_only=True):
    """The flags, as click hands them over."""

    port: int
    cloud: str | None = None
    seed: int = 0
    log: bool = False
    state: Path | None = None
    faults: str | None = None
    throttle: bool = False


def serve(asked: ServeArguments) -> None:
    """Prints one line when it is ready, and serves until it is told to stop."""
    sock = listen(asked.port)
    try:
        cloud = _open_account(asked, endpoint_url(sock))
        _apply_arguments(cloud, asked)
        server = EmulatorHttpServer(
            cloud, sock, state=asked.state, log=_log_request if asked.log else None
        )
        asyncio.run(_serve_until_signalled(server, cloud, sock))
    finally:
        sock.close()


async def _serve_until_signalled(
    server: EmulatorHttpServer, cloud: EmulatedAwsAccount, sock: socket.socket
) -> None:
    told = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, told.set)
    async with server.running():
        line = msgspec.json.encode(connection_info(cloud, endpoint_url(sock)))
        click.echo(line.decode())
        await told.wait()


def _open_account(asked: ServeArguments, endpoint: str) -> EmulatedAwsAccount:
    """As it was left, where it was kept; otherwise a new one."""
    clock = SystemClock()
    if asked.state is not None:
        found = resume_account(asked.state, clock=clock, queue_base=endpoint)
        if found is not None:
            if asked.cloud is not None:
                click.echo(f"note: goes on with {asked.state}; --cloud is not looked at", err=True)
            return found
    return _create_account(asked, EmulatorSettings(queue_base=endpoint), clock)


def _create_account(
    asked: ServeArguments, settings: EmulatorSettings, clock: SystemClock
) -> EmulatedAwsAccount:
    files = [] if asked.cloud is None else [asked.cloud]
    with show_progress() as report:
        manifests = read_manifests([], cloud=asked.cloud, progress=report)
    try:
        made = EmulatedAwsAccount(manifests.cloud, clock=clock, seed=asked.seed, settings=settings)
    except InvalidCatalogInput as refused:
        errors = locate_remarks(refused.diagnostics, files)
        raise InvalidInput(ProblemReport(errors=errors, warnings=manifests.notes)) from refused
    print_problems(
        [*manifests.notes, *locate_remarks(made.remarks, files)], word="note", colour="yellow"
    )
    return made


def _apply_arguments(cloud: EmulatedAwsAccount, asked: ServeArguments) -> None:
    patch: dict[str, Any] = {} if asked.faults is None else read_patch(asked.faults)
    if asked.throttle:
        patch["throttling"] = True
    if patch:
        cloud.change(patch)


def _log_request(entry: RequestLogEntry) -> None:
    """One line: when, how it ended, what was asked, how long it took, with which parameters."""
    when = datetime.fromtimestamp(entry.at, UTC).strftime("%H:%M:%S.%f")[:-3]
    params = msgspec.json.encode(entry.params).decode()
    if len(params) > MAX_LOGGED_PARAMS:
        params = f"{params[:MAX_LOGGED_PARAMS]}… ({len(params):,} letters)"
    end = "lost" if not entry.status else f"{entry.status}"
    asked = f"{entry.service or '?'} {entry.operation or '?'}"
    code = f" {entry.code}" if entry.code else ""
    took = f"{entry.seconds * 1000:.1f} ms"
    click.echo(f"{when} {end}{code} {asked} {took} {params}", err=True)
