"""`wain run`: the controllers on a real cluster."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from wainwright.api.catalog_documents import Cloud, CloudSpec
from wainwright.cli import printing
from wainwright.cli.options import Choice, add_options, show_progress
from wainwright.errors import UsageError
from wainwright.operator.logs import set_up_logs
from wainwright.operator.process import AWS, EMULATOR, CannotStartError, RunOptions, run_operator
from wainwright.operator.recorder_options import MOST_DECISIONS, RecorderOptions
from wainwright.operator.settings import (
    READERS,
    WITHOUT_EFFECT,
    OperatorSettings,
    flag_of,
    read_settings,
    settings_without_effect,
)
from wainwright.translate.cluster_limits import parse_cluster_limits
from wainwright.translate.disruption import parse_duration

CANNOT_START: Final = 1
SWITCHES: Final = (
    "isolated_vpc",
    "disable_dry_run",
    "disable_leader_election",
    "strict_weights",
    "disable_cluster_state_observability",
    *("enable_profiling", "disable_controller_warmup"),
    *("ignore_dra_requests", "eks_control_plane", "enable_zonal_shift"),
)


SETTING_HELP: Final = {
    "cluster_name": "Name of the cluster, in tags and user data; required.",
    "cluster_endpoint": "URL of the API server, for user data; default: from EKS.",
    "cluster_ca_bundle": "Certificate of the API server, for user data; default: from EKS.",
    "isolated_vpc": "Do not call AWS APIs that have no VPC endpoint, such as prices.",
    "vm_memory_overhead_percent": "Share of memory that the hypervisor takes, such as 0.075.",
    "interruption_queue": "Name of the SQS queue with interruption messages.",
    "reserved_enis": "Network interfaces (ENIs) that are not available to pods.",
    "disable_dry_run": "Do not check launch permissions before a class is Ready.",
    "metrics_port": "Port of /metrics and /verdicts; 0 picks a free one.",
    "health_probe_port": "Port of /healthz and /readyz; 0 picks a free one.",
    "disable_cluster_state_observability": "No metrics by node, pod, offering or NodeClaim.",
    "kube_client_qps": "Requests per second to the API server.",
    "kube_client_burst": "Requests in one burst to the API server.",
    "disable_leader_election": "Run without a lease.",
    "leader_election_name": "Name of the lease.",
    "leader_election_namespace": "Namespace of the lease.",
    "log_level": "debug, info, warning or error.",
    "batch_max_duration": "Longest wait for further pending pods before a plan.",
    "batch_idle_duration": "Wait after the last pending pod before a plan.",
    "preference_policy": "Respect or Ignore, as in `wain plan`.",
    "min_values_policy": "Strict or BestEffort, as in `wain plan`.",
    "scheduler_config": "Default topology spread constraints: the document itself, YAML or JSON.",
    "breaker_share": "Disruption stops when this share of a NodePool was removed; 100% is off.",
    "breaker_nodes": "Removed nodes that the disruption breaker ignores.",
    "breaker_window": "Time over which the disruption breaker counts.",
    "packing": "first-fit or cost, as in `wain plan`.",
    "strict_weights": "As in `wain plan`.",
    "min_saving": "As in `wain consolidate`.",
    "spot_to_spot_types": "As in `wain consolidate`.",
    "max_nodes": "As in `wain consolidate`.",
    "balanced_k": "Policy Balanced: how many times what it saves a command may disrupt.",
    "node_repair": "forceful, or replace-first: within budgets, with the gate NodeRepair.",
    "feature_gates": "A=true,B=false",
}
"""Of every setting; its environment variable follows."""


def setting_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    """A flag for each setting, beside its environment variable; those of Karpenter that have no
    effect are accepted, and not shown.
    """
    ignored = [name.lower() for name in WITHOUT_EFFECT]
    for field in reversed([*OperatorSettings.__struct_fields__, *ignored]):
        switch: dict[str, Any] = (
            {"is_flag": False, "flag_value": "true"} if field in SWITCHES else {}
        )
        command = click.option(
            flag_of(field),
            field,
            metavar="true|false" if field in SWITCHES else "VALUE" if field in READERS else "TEXT",
            help=f"{SETTING_HELP.get(field, 'No effect.')} [{field.upper()}]",
            hidden=field in ignored,
            **switch,
        )(command)
    return command


@click.command()
@click.option(
    "--provider",
    type=Choice([AWS, EMULATOR]),
    default=AWS,
    show_default=True,
    help="The cloud: EC2, or an emulated account in this process.",
)
@click.option(
    "--kubeconfig", default="", metavar="FILE", help="The kubeconfig file; default: $KUBECONFIG."
)
@click.option(
    "--context",
    default="",
    metavar="NAME",
    help="The kubeconfig context; default: the current one.",
)
@click.option("--cloud", metavar="FILE", help="The Cloud of the emulated EC2.")
@click.option(
    "--catalog", metavar="FILE", help="The instance types and prices of the emulated EC2."
)
@add_options(("cluster_limits",))
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
    help="Make emulated nodes Ready and run their pods; false where something else does.",
)
@click.option(
    "--emulator-state",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Keep the emulated account in this file; otherwise it is rebuilt from NodeClaims.",
)
@click.option(
    "--emulator-port",
    type=click.IntRange(0, 65535),
    help="Serve the emulated account on this port of the loopback interface; 0 picks a free one.",
)
@click.option("--dry-run", is_flag=True, help="Decide and log; write nothing, take no lease.")
@click.option("--once", is_flag=True, help="Exit when nothing is left to do.")
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

    Connects to the cluster of the kubeconfig, or to its own cluster when it runs in a pod.
    Settings have the names and environment variables that Karpenter has. With --provider emulator
    no cloud is needed: instances are emulated in this process, and become Nodes of the cluster.
    """
    names = {*OperatorSettings.__struct_fields__, *(name.lower() for name in WITHOUT_EFFECT)}
    flags = {name: given.pop(name) for name in names}
    settings, options = read_settings(flags, os.environ), _options(given)
    set_up_logs(settings.log_level)
    for name in settings_without_effect(flags, os.environ):
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
    _refuse_emulator_options(given)
    files = {name: given.pop(name) for name in ("cloud", "catalog")}
    limits = parse_cluster_limits(given.pop("cluster_limits"))
    folder, most = given.pop("record"), given.pop("record_limit")
    redact = given.pop("record_redacted")
    if folder is None and redact:
        raise UsageError("--record-redacted needs --record FOLDER", "add it")
    record = None if folder is None else RecorderOptions(folder=folder, most=most, redact=redact)
    cloud = _cloud(files) if any(files.values()) else None
    return RunOptions(
        cloud=cloud, emulator_boot=boot, cluster_limits=limits, record=record, **given
    )


def _refuse_emulator_options(given: dict[str, Any]) -> None:
    if given["provider"] == EMULATOR:
        return
    for name in ("cloud", "catalog", "emulator_state", "emulator_port"):
        if given[name] is not None:
            raise UsageError(f"{flag_of(name)} is of the emulated EC2", "add --provider emulator")


def _cloud(files: dict[str, str | None]) -> Cloud | None:
    """What reads manifests is loaded only where there are any."""
    from wainwright.manifests.cluster_manifests import read_manifests
    from wainwright.sim.catalog_cloud import cloud_of_catalog

    with show_progress() as report:
        manifests = read_manifests(
            [], progress=report, cloud=files["cloud"], catalog=files["catalog"]
        )
    cloud, catalog = manifests.cloud, manifests.catalog
    if catalog is None:
        return cloud
    stated = cloud or Cloud(spec=CloudSpec(region=catalog.region))
    combined, warnings = cloud_of_catalog(catalog, stated)
    for warning in warnings:
        printing.echo(f"note: {warning}", err=True)
    return combined
