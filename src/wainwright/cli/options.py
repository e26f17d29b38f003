"""Options and arguments that several commands share, and the progress line."""

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import click
import msgspec

from wainwright.api.field_error import closest_match
from wainwright.catalogue.label_values import known_label_values
from wainwright.errors import UsageError
from wainwright.manifests.documents import ProgressCallback, ReadOptions
from wainwright.translate.workload_expansion import POD_LIMIT

Command = TypeVar("Command", bound=Callable[..., Any])


class PercentRange(click.FloatRange):
    """A number within bounds; `nan` is within any as click compares."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        number: float = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value!r} is not a number.", param, ctx)
        return number


class Choice(click.Choice[str]):
    """One of a few words; a misspelt one gets the word that was probably meant."""

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        message = super().get_invalid_choice_message(value, ctx)
        name = closest_match(str(value), [str(each) for each in self.choices])
        return f"{message} Did you mean {name}?" if name else message


OPTIONS: Final = {
    "cloud": click.option(
        "--cloud", metavar="FILE", help="The Cloud to use instead of the input's."
    ),
    "catalog": click.option(
        "--catalog", metavar="FILE", help="The Catalog to use instead of the input's."
    ),
    "region": click.option(
        "--region",
        metavar="NAME",
        help="The AWS region, such as us-west-2, where no Cloud names one.",
    ),
    "nodepool": click.option(
        "--nodepool", metavar="NAME", help="Only what this NodePool may launch."
    ),
    "nodeclass": click.option(
        "--nodeclass", metavar="NAME", help="The class, where the input has several."
    ),
    "now": click.option(
        "--now", metavar="TIME", help="Decide as of this time, such as 2026-01-31T08:00:00Z."
    ),
    "gates": click.option(
        "--feature-gate",
        "gates",
        multiple=True,
        metavar="NAME=true|false",
        help="Turn a feature gate on or off; may be repeated.",
    ),
    "vm_memory_overhead_percent": click.option(
        "--vm-memory-overhead-percent",
        type=PercentRange(0, 100),
        default=7.5,
        show_default=True,
        help="The share of memory that the hypervisor takes.",
    ),
    "reserved_enis": click.option(
        "--reserved-enis",
        type=click.IntRange(0),
        default=0,
        help="Network interfaces (ENIs) that are not available to pods.",
    ),
    "prefix_delegation": click.option(
        "--prefix-delegation", is_flag=True, help="Compute max pods with prefix delegation."
    ),
    "min_values_policy": click.option(
        "--min-values-policy",
        type=Choice(["Strict", "BestEffort"]),
        default="Strict",
        show_default=True,
        help="What happens when minValues of a NodePool cannot be met.",
    ),
    "preference_policy": click.option(
        "--preference-policy",
        type=Choice(["Respect", "Ignore"]),
        default="Respect",
        show_default=True,
        help="Whether preferences of pods are respected until they cannot be met, or ignored.",
    ),
    "packing": click.option(
        "--packing",
        type=Choice(["first-fit", "cost"]),
        default="first-fit",
        show_default=True,
        help="How pods are packed onto nodes: first-fit, or for the lowest price.",
    ),
    "scheduler_config": click.option(
        "--scheduler-config",
        metavar="FILE",
        help="A KubeSchedulerConfiguration with default topology spread constraints.",
    ),
    "built_in_pools": click.option(
        "--built-in-pool",
        "built_in_pools",
        type=Choice(["general-purpose", "system"]),
        multiple=True,
        help="Include a built-in NodePool of EKS Auto Mode; may be repeated.",
    ),
    "cluster_limits": click.option(
        "--cluster-limit",
        "cluster_limits",
        multiple=True,
        metavar="NAME=AMOUNT",
        help="A limit on all nodes together: cpu, memory, nodes, pricePerHour; may be repeated.",
    ),
    "replicas": click.option(
        "--replicas",
        type=Choice(["stated", "max"]),
        default="stated",
        show_default=True,
        help="Replicas of autoscaled workloads: as stated (or the minimum), or the maximum.",
    ),
    "pod_limit": click.option(
        "--pod-limit",
        type=click.IntRange(1),
        default=POD_LIMIT,
        show_default=True,
        help="Reject input with more pods than this, as a replica count may be mistyped.",
    ),
    "strict_weights": click.option(
        "--strict-weights",
        is_flag=True,
        help="A pod joins no planned node while a NodePool of higher weight could launch one.",
    ),
}
OVERHEAD_OPTIONS: Final = ("vm_memory_overhead_percent", "reserved_enis", "prefix_delegation")
CATALOG_SOURCE_OPTIONS: Final = ("cloud", "catalog", "region", "now", "gates", *OVERHEAD_OPTIONS)
CATALOG_OPTIONS: Final = (*CATALOG_SOURCE_OPTIONS, "nodepool", "nodeclass")
"""Options of the commands that use the catalog of one class."""
PLAN_OPTIONS: Final = (
    *CATALOG_SOURCE_OPTIONS,
    "scheduler_config",
    "min_values_policy",
    "preference_policy",
    "packing",
    "strict_weights",
    "cluster_limits",
    "replicas",
    "pod_limit",
    "built_in_pools",
)
"""Options of the commands that plan."""


def add_options(names: tuple[str, ...]) -> Callable[[Command], Command]:
    """A decorator that adds these options to a command, in this order."""

    def decorate(command: Command) -> Command:
        for name in reversed(names):
            command = OPTIONS[name](command)
        return command

    return decorate


READING_OPTIONS: Final = (
    click.option(
        "--render",
        is_flag=True,
        help="Have helm, kustomize or kubectl render charts and kustomizations in folders.",
    ),
    click.option("--verbose", is_flag=True, help="List the files that were skipped in folders."),
    click.option("-q", "--quiet", is_flag=True, help="Omit notes that do not affect the result."),
)
FilesCommand = TypeVar("FilesCommand", bound=Callable[..., Any])


def file_arguments(command: FilesCommand) -> FilesCommand:
    """Adds FILES… and -f FILE, as kubectl has it, and how they are read."""
    command = click.argument("files", nargs=-1, metavar="[FILE|FOLDER|-]...")(command)
    for option in reversed(READING_OPTIONS):
        command = option(command)
    return click.option(
        "-f",
        "--filename",
        "more",
        multiple=True,
        metavar="FILE",
        help="A file, a folder, or - for standard input; may be repeated.",
    )(command)


CLUSTER_OPTIONS: Final = (
    click.option(
        "--from-cluster",
        is_flag=True,
        help="Read the cluster of the current kubeconfig context; nothing is written.",
    ),
    click.option(
        "--context",
        metavar="NAME",
        default="",
        help="The kubeconfig context; default: the current one.",
    ),
    click.option(
        "--kubeconfig",
        metavar="FILE",
        default="",
        help="The kubeconfig file; default: $KUBECONFIG.",
    ),
)


def cluster_options(command: FilesCommand) -> FilesCommand:
    """Adds --from-cluster, and which cluster that is."""
    for option in reversed(CLUSTER_OPTIONS):
        command = option(command)
    return command


class ReadingArguments(msgspec.Struct, frozen=True, kw_only=True):
    """The files of a command and how they are read, as click passes them."""

    files: tuple[str, ...] = ()
    more: tuple[str, ...] = ()
    render: bool = False
    verbose: bool = False
    quiet: bool = False
    from_cluster: bool = False
    context: str = ""
    kubeconfig: str = ""

    @property
    def named_inputs(self) -> list[str]:
        """The cluster, if it was asked for, and the files."""
        files = [*self.files, *self.more]
        if not self.from_cluster:
            if self.context or self.kubeconfig:
                raise UsageError("--context and --kubeconfig need --from-cluster", "add it")
            return files
        from wainwright.cli.cluster_input import cluster_text

        return [cluster_text(self.kubeconfig, self.context), *files]

    @property
    def read_options(self) -> ReadOptions:
        return ReadOptions(
            render=self.render,
            verbose=self.verbose,
            quiet=self.quiet,
            known_values=known_label_values,
        )


def collect_files(arguments: ReadingArguments) -> list[str]:
    """Every file that was named; raises UsageError where there is none."""
    everything = arguments.named_inputs
    if not everything:
        raise UsageError(
            "no files were named",
            hint="name a file or a folder, or - for standard input, or add --from-cluster",
        )
    if everything.count("-") > 1:
        raise UsageError("standard input can be read only once", hint="name - once")
    return everything


@contextmanager
def show_progress() -> Iterator[ProgressCallback]:
    """Shows the file being read, on a terminal only."""
    if not sys.stderr.isatty():
        yield lambda _file, _count: None
        return
    from rich.console import Console

    with Console(stderr=True).status("reading…") as status:
        yield _progress_callback(status)


def _progress_callback(status: Any) -> ProgressCallback:
    from wainwright.cli.plan_table import printable_text

    def report(file: str, count: int) -> None:
        if count % 500 == 0:
            status.update(printable_text(f"reading {file}: {count:,} objects"))

    return report
