"""The emulator as a process: serves an account over HTTP until SIGINT or SIGTERM."""

import asyncio
import signal
import socket
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from wainwright.catalogue.diagnostics import InvalidCatalogInput
from wainwright.cli import printing
from wainwright.cli.catalog_input import locate_diagnostics
from wainwright.cli.emulator_patch import read_patch
from wainwright.cli.options import show_progress
from wainwright.cli.printing import print_problems
from wainwright.clock import SystemClock
from wainwright.emulator.emulated_account import EmulatedAwsAccount
from wainwright.emulator.http.admin_api import RequestLogEntry, connection_info
from wainwright.emulator.http.server import (
    EmulatorHttpServer,
    StateFile,
    endpoint_url,
    listen,
    resume_account,
)
from wainwright.emulator.settings import EmulatorSettings
from wainwright.manifests.cluster_manifests import read_manifests
from wainwright.manifests.problems import InvalidInput, ProblemReport

MAX_LOGGED_PARAMS: Final = 400  # characters of the parameters in a line of the log


class ServeArguments(msgspec.Struct, frozen=True, kw_only=True):
    """The flags, as click passes them."""

    port: int
    cloud: str | None = None
    seed: int = 0
    log: bool = False
    state: Path | None = None
    faults: str | None = None
    throttle: bool = False


def serve(arguments: ServeArguments) -> None:
    """Prints one line when ready, and serves until SIGINT or SIGTERM."""
    sock = listen(arguments.port)
    try:
        emulated_account = _open_account(arguments, endpoint_url(sock))
        _apply_arguments(emulated_account, arguments)
        state = arguments.state
        server = EmulatorHttpServer(
            emulated_account,
            sock,
            state=None if state is None else StateFile(state, emulated_account),
            log=_log_request if arguments.log else None,
        )
        asyncio.run(_serve_until_signalled(server, emulated_account, sock))
    finally:
        sock.close()


async def _serve_until_signalled(
    server: EmulatorHttpServer, emulated_account: EmulatedAwsAccount, sock: socket.socket
) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with server.running():
        line = msgspec.json.encode(connection_info(emulated_account, endpoint_url(sock)))
        printing.echo(line.decode())
        await stop.wait()


def _open_account(arguments: ServeArguments, endpoint: str) -> EmulatedAwsAccount:
    """The account of the state file, or a new one."""
    clock = SystemClock()
    if arguments.state is not None:
        resumed = resume_account(arguments.state, clock=clock, queue_base=endpoint)
        if resumed is not None:
            if arguments.cloud is not None:
                printing.echo(
                    f"note: goes on with {arguments.state}; --cloud is not looked at", err=True
                )
            return resumed
    return _create_account(arguments, EmulatorSettings(queue_base=endpoint), clock)


def _create_account(
    arguments: ServeArguments, settings: EmulatorSettings, clock: SystemClock
) -> EmulatedAwsAccount:
    files = [] if arguments.cloud is None else [arguments.cloud]
    with show_progress() as report:
        manifests = read_manifests([], cloud=arguments.cloud, progress=report)
    try:
        emulated_account = EmulatedAwsAccount(
            manifests.cloud, clock=clock, seed=arguments.seed, settings=settings
        )
    except InvalidCatalogInput as refused:
        errors = locate_diagnostics(refused.diagnostics, files)
        problems = ProblemReport(errors=errors, warnings=manifests.notes)
        raise InvalidInput(problems, undone="started") from refused
    print_problems(
        [*manifests.notes, *locate_diagnostics(emulated_account.remarks, files)],
        word="note",
        colour="yellow",
    )
    return emulated_account


def _apply_arguments(emulated_account: EmulatedAwsAccount, arguments: ServeArguments) -> None:
    patch: dict[str, Any] = {} if arguments.faults is None else read_patch(arguments.faults)
    if arguments.throttle:
        patch["throttling"] = True
    if patch:
        emulated_account.change(patch)


def _log_request(entry: RequestLogEntry) -> None:
    """One line: time, outcome, operation, duration, parameters."""
    when = datetime.fromtimestamp(entry.at, UTC).strftime("%H:%M:%S.%f")[:-3]
    params = msgspec.json.encode(entry.params).decode()
    if len(params) > MAX_LOGGED_PARAMS:
        params = f"{params[:MAX_LOGGED_PARAMS]}… ({len(params):,} letters)"
    outcome = "lost" if not entry.status else f"{entry.status}"
    call = f"{entry.service or '?'} {entry.operation or '?'}"
    code = f" {entry.code}" if entry.code else ""
    duration = f"{entry.seconds * 1000:.1f} ms"
    printing.echo(f"{when} {outcome}{code} {call} {duration} {params}", err=True)
