"""`wain run`: the controllers on a real cluster."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from wainwright.cli import printing
from wainwright.cli.options import show_progress
from wainwright.errors import UsageError
from wainwright.manifests.cluster_manifests import read_manifests
from wainwright.operator.flight_recorder import MOST_DECISIONS, RecorderOptions
from wainwright.operator.logs import set_up_logs
from wainwright.operator.process import AWS, EMULATOR, CannotStartError, RunOptions, run_operator
from wainwright.operator.settings import (
    READERS,
    OperatorSettings,
    flag_of,
    read_settings,
    settings_without_effect,
)
from wainwright.translate.disruption import parse_duration

CANNOT_START: Final = 1
SWITCHES: Final = ("isolated_vpc", "disable_dry_run", "disable_leader_election")


def setting_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    """A flag for each setting, beside its environment variable."""
    for field in reversed(OperatorSettings.__struct_fields__):
        switch: dict[str, Any] = (
            {"is_flag": False, "flag_value": "true"} if field in SWITCHES else {}
        )
        command = click.option(
            flag_of(field),
            field,
            metavar="true|false" if field in SWITCHES else "VALUE" if field in READERS else "TEXT",
            help=f"Or {field.upper()}.",
            **switch,
        )(command)
    return command


@click.command()
@click.option("--provider", type=click.Choice([AWS, EMULATOR]), default=AWS, show_default=True)
@click.option("--kubeconfig", default="", metavar="FILE", help="Or KUBECONFIG.")
@click.option("--context", default="", metavar="NAME", help="Of the kubeconfig.")
@click.option("--cloud", metavar="FILE", help="The Cloud of the emulated EC2.")
@click.option(
    "--emulator-boot",
    default="2s",
    show_default=True,
    metavar="DURATION",
    help="From the launch of an emulated instance to its Node.",
)
@click.option(
    "--emulator-kubelet",
    type=bool,
    default=True,
    show_default=True,
    help="Keep emulated nodes Ready and run their pods; false: another does.",
)
@click.option("--dry-run", is_flag=True, help="Decide and log; write nothing, take no lease.")
@click.option("--once", is_flag=True, help="End when there is nothing to do at this moment.")
@click.option(
    "--record",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Keep the last decisions here; `wain plan FOLDER/DECISION` repeats one.",
)
@click.option(
    "--record-limit",
    type=click.IntRange(1),
    default=MOST_DECISIONS,
    show_default=True,
    help="How many decisions are kept.",
)
@click.option("--record-redacted", is_flag=True, help="Without names, as `wain snapshot --redact`.")
@setting_flags
def run(**given: Any) -> int:
    """Launch and remove nodes of the cluster as its pods need them, until stopped.

    Speaks to the cluster of the kubeconfig, or to the one around it where it runs in a pod.
    Settings have the names and environment variables that Karpenter has. With --provider emulator
    no cloud is needed: instances are emulated in this process, and become Nodes of the cluster.
    """
    names = OperatorSettings.__struct_fields__
    settings = read_settings({name: given[name] for name in names}, os.environ)
    options = _options({name: value for name, value in given.items() if name not in names})
    set_up_logs(settings.log_level)
    for name in settings_without_effect(os.environ):
        printing.echo(f"note: {name} has no effect here", err=True)
    try:
        asyncio.run(run_operator(settings, options))
    except CannotStartError as error:
        printing.echo(f"error: {error}", err=True)
        return CANNOT_START
    return 0


def _options(given: dict[str, Any]) -> RunOptions:
    boot = parse_duration(given.pop("emulator_boot"))
    if boot is None:
        raise UsageError("--emulator-boot: expected a duration such as 2s")
    cloud = given.pop("cloud")
    folder, most = given.pop("record"), given.pop("record_limit")
    redact = given.pop("record_redacted")
    if folder is None and redact:
        raise UsageError("--record-redacted needs --record FOLDER", "add it")
    record = None if folder is None else RecorderOptions(folder=folder, most=most, redact=redact)
    with show_progress() as report:
        manifests = read_manifests([], cloud=cloud, progress=report)
    return RunOptions(cloud=manifests.cloud, emulator_boot=boot, record=record, **given)
