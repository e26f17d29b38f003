"""`wain serve`: a page that plays a scenario, or that watches a cluster."""

import asyncio
import secrets
import signal
import socket
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import quote

import click
import msgspec

from wainwright import file_names
from wainwright.catalogue.label_values import known_label_values
from wainwright.cli import printing
from wainwright.cli.consolidate import DisruptionArguments, disruption_options
from wainwright.cli.options import cluster_options, file_arguments, show_progress
from wainwright.cli.printing import print_problems
from wainwright.cli.simulate import quiet_log
from wainwright.cli.top import DEMO, ClusterSource
from wainwright.clock import SystemClock
from wainwright.emulator.http.server import endpoint_url, listen
from wainwright.errors import UsageError
from wainwright.live_page.cluster_watch import ClusterWatch
from wainwright.live_page.page_server import (
    LiveStory,
    PageServer,
    RequestGuard,
    is_beyond_loopback,
)
from wainwright.live_page.scenario_player import DEFAULT_SPEED, MAX_SPEED, ScenarioPlayer
from wainwright.manifests.documents import ReadOptions
from wainwright.sim.scenario import Scenario
from wainwright.sim.scenario_reader import has_scenario, read_scenario

DEFAULT_PORT: Final = 8642
TOKEN_VARIABLE: Final = "WAIN_SERVE_TOKEN"
TOKEN_BYTES: Final = 16


class PageArguments(msgspec.Struct, frozen=True, kw_only=True):
    """What is not about the cluster."""

    port: int
    host: str
    token: str | None
    speed: float
    paused: bool
    interval: float
    demo: bool
    seed: int | None
    changes: tuple[str, ...]


@click.command()
@file_arguments
@cluster_options
@disruption_options
@click.option("--demo", is_flag=True, help="Play a sale day, without any file.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=DEFAULT_PORT,
    show_default=True,
    help="The port to listen on; 0 picks a free one.",
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    metavar="ADDRESS",
    help="Where to listen. Anything but this computer needs the token of the printed address.",
)
@click.option(
    "--token",
    envvar=TOKEN_VARIABLE,
    metavar="TEXT",
    help=f"The access token; or {TOKEN_VARIABLE}. Default: generated where one is needed.",
)
@click.option(
    "--speed",
    type=click.FloatRange(0, MAX_SPEED, min_open=True),
    default=DEFAULT_SPEED,
    show_default=True,
    help="Seconds of a scenario in a second.",
)
@click.option("--paused", is_flag=True, help="Start paused.")
@click.option("--seed", type=int, metavar="N", help="The seed to use instead of the scenario's.")
@click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="PATH=VALUE",
    help="Change a value of the scenario (spec.…) or of a manifest (Kind/name:spec.…).",
)
@click.option(
    "--interval",
    type=click.FloatRange(1),
    default=10.0,
    show_default=True,
    help="Seconds between two reads of a cluster, or of files.",
)
def serve(**flags: Any) -> int:
    """Serve a page that plays a scenario, or that shows a cluster as it changes.

    FILE is a Scenario, or manifests of a cluster; or add --from-cluster. A scenario plays at any
    speed, pauses, runs step by step, and accepts events from the page: a zone outage, a
    reservation expires, a Deployment is scaled, spot instances are interrupted, a price changes.
    A cluster is only read: nothing is ever written to it. Stop it with Ctrl-C.
    """
    serving = PageArguments(**{name: flags.pop(name) for name in PageArguments.__struct_fields__})
    arguments = DisruptionArguments(**flags)
    guard = _guard(serving)
    scenario = _scenario(arguments, serving)
    sock = listen(serving.port, serving.host)
    try:
        with quiet_log():
            asyncio.run(_serve(guard, sock, scenario, arguments, serving))
    finally:
        sock.close()
    return 0


def _scenario(arguments: DisruptionArguments, serving: PageArguments) -> Scenario | None:
    """What is played; None where a cluster is watched."""
    files = [*arguments.files, *arguments.more]
    if serving.demo + bool(files or arguments.from_cluster) != 1:
        raise UsageError(
            "wain serve shows one thing: a scenario, a cluster, files or the demo",
            "name a Scenario or a folder, or add --from-cluster or --demo",
        )
    if not serving.demo and (arguments.from_cluster or not _names_scenario(files)):
        if serving.changes or serving.seed is not None:
            raise UsageError("--set and --seed are for scenarios", "leave them out")
        return None
    file = str(DEMO) if serving.demo else files[0]
    options = ReadOptions(
        render=arguments.render, quiet=arguments.quiet, known_values=known_label_values
    )
    with show_progress() as progress:
        scenario = read_scenario(
            file,
            changes=serving.changes,
            seed=serving.seed,
            progress=progress,
            options=options,
            pod_limit=arguments.pod_limit,
        )
    print_problems([*scenario.manifests.notes, *scenario.manifests.other_notes], word="note")
    return scenario


def _names_scenario(files: Sequence[str]) -> bool:
    if "-" in files:
        raise UsageError("wain serve reads its files more than once", "name a file instead of -")
    return len(files) == 1 and file_names.is_file(files[0]) and has_scenario(files[0])


def _guard(serving: PageArguments) -> RequestGuard:
    token = serving.token or ""
    if not _is_unicode(token):
        raise UsageError(
            "the access token is not UTF-8 text", "write it in ASCII, or leave it out for a new one"
        )
    if not token and is_beyond_loopback(serving.host):
        token = secrets.token_urlsafe(TOKEN_BYTES)
    return RequestGuard(host=serving.host, token=token)


def _is_unicode(text: str) -> bool:
    """Bytes of arguments and variables that are none are halves of characters to Python."""
    return not any("\ud800" <= sign <= "\udfff" for sign in text)


async def _serve(
    guard: RequestGuard,
    sock: socket.socket,
    scenario: Scenario | None,
    arguments: DisruptionArguments,
    serving: PageArguments,
) -> None:
    """Until SIGINT or SIGTERM."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    story = _story(scenario, arguments, serving)
    async with PageServer(story, sock, guard).running() as work:
        if isinstance(story, ScenarioPlayer) and not serving.paused:
            await story.play()
        printing.echo(_first_line(sock, guard, scenario or arguments))
        stopped = asyncio.ensure_future(stop.wait())
        await asyncio.wait([stopped, work], return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if work.done():
            work.result()  # raises what ended it


def _story(
    scenario: Scenario | None, arguments: DisruptionArguments, serving: PageArguments
) -> LiveStory:
    if scenario is not None:
        limit = arguments.pod_limit
        return ScenarioPlayer(scenario, SystemClock(), speed=serving.speed, pod_limit=limit)
    source = ClusterSource(arguments=arguments, interval=serving.interval)
    return ClusterWatch(source.load, SystemClock(), interval=serving.interval)


def _first_line(
    sock: socket.socket, guard: RequestGuard, shown: Scenario | DisruptionArguments
) -> str:
    what = "the cluster"
    if isinstance(shown, Scenario):
        what = shown.name
    elif not shown.from_cluster:
        what = ", ".join([*shown.files, *shown.more])
    query = f"?token={quote(guard.token, safe='')}" if guard.token else ""
    return f"{endpoint_url(sock)}/{query} shows {what}; Ctrl-C stops it"
