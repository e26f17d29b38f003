"""From options and files to a plan, for the commands plan, explain, consolidate and reservations;
saved inputs, and the timings.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import msgspec

from wainwright import __version__
from wainwright.catalogue.diagnostics import InvalidCatalogInput, ObjectDiagnostic
from wainwright.cli.catalog_input import (
    CatalogArguments,
    assumed_region_notes,
    catalog_settings,
    inferred_region_notes,
    locate_diagnostics,
    parse_feature_gates,
    parse_time,
)
from wainwright.cli.options import show_progress
from wainwright.cli.printing import print_problems
from wainwright.errors import UsageError
from wainwright.manifests.cluster_manifests import ClusterManifests, read_manifests
from wainwright.manifests.documents import ProgressCallback
from wainwright.manifests.problems import InvalidInput, Problem, ProblemReport
from wainwright.model.plan import MinValuesPolicy, PackingPolicy, PlanOptions, PreferencePolicy
from wainwright.offline import OfflinePlan, PlanSettings, PreparedInput, make_plan, prepare_input
from wainwright.report.plan_input import PlanInput, save_plan_input
from wainwright.translate.cluster_limits import parse_cluster_limits
from wainwright.translate.workload_expansion import POD_LIMIT

TIMED_STEPS: Final = ("read", "compile", "plan", "explain")


class Timings:
    """Seconds by step, and in total since it was created."""

    def __init__(self, steps: tuple[str, ...] = TIMED_STEPS) -> None:
        self._start = time.perf_counter()
        self._parts = dict.fromkeys(steps, 0.0)

    @contextmanager
    def measure(self, part: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self._parts[part] += time.perf_counter() - start

    def to_json(self) -> str:
        total = time.perf_counter() - self._start
        rounded = {part: round(seconds, 6) for part, seconds in self._parts.items()}
        return msgspec.json.encode({**rounded, "total": round(total, 6)}).decode()


class PlanArguments(CatalogArguments, frozen=True, kw_only=True):
    """The options and files of a command that plans."""

    min_values_policy: str = "Strict"
    preference_policy: str = "Respect"
    packing: str = "first-fit"
    strict_weights: bool = False
    cluster_limits: tuple[str, ...] = ()
    scheduler_config: str | None = None
    replicas: str = "stated"
    pod_limit: int = POD_LIMIT
    built_in_pools: tuple[str, ...] = ()

    @property
    def flag_files(self) -> list[str]:
        config = self.scheduler_config
        return [*super().flag_files, *([] if config is None else [config])]


class PreparedRun(msgspec.Struct, frozen=True, kw_only=True):
    """The compiled input, and the notes about the files that it was made from."""

    prepared: PreparedInput
    notes: tuple[Problem, ...]
    other_notes: tuple[Problem, ...]
    """Notes that do not change the answer."""

    @property
    def now(self) -> str:
        return self.prepared.settings.now.isoformat()


class PlanRun(msgspec.Struct, frozen=True, kw_only=True):
    """A plan, the time for which it was made, and the notes about the files it was made from."""

    planned: OfflinePlan
    now: str
    file_notes: tuple[Problem, ...]
    other_notes: tuple[Problem, ...]
    """Notes that do not change the plan."""


def run_plan(
    arguments: PlanArguments,
    timings: Timings,
    *,
    with_diagnostics: bool = True,
    with_suggestions: bool = True,
) -> PlanRun:
    """Read, compile and plan; notes go to standard error, errors name file and line.

    Without diagnostics only notes on what was read are printed, not those of the catalogs.
    """
    run = prepare_run(arguments, timings, with_diagnostics=with_diagnostics)
    with timings.measure("plan"):
        planned = make_plan(run.prepared, with_suggestions=with_suggestions)
    print_problems(run.notes, word="note")
    return PlanRun(planned=planned, now=run.now, file_notes=run.notes, other_notes=run.other_notes)


def prepare_run(
    arguments: PlanArguments, timings: Timings, *, with_diagnostics: bool = True
) -> PreparedRun:
    """Read and compile; nothing is printed, errors name file and line."""
    if not arguments.paths:
        raise UsageError(
            "no files were named", hint="name a file or a folder, or - for standard input"
        )
    settings = _plan_settings(arguments)
    with timings.measure("read"), show_progress() as progress:
        manifests = _read_input(arguments, progress)
    with timings.measure("compile"):
        prepared = _prepare(manifests, settings, arguments)
    diagnostics = prepared.diagnostics if with_diagnostics else ()
    inferred = inferred_region_notes(prepared.region, quiet=arguments.quiet)
    return PreparedRun(
        prepared=prepared,
        notes=(
            *assumed_region_notes(prepared.region),
            *manifests.notes,
            *_locate(diagnostics, arguments),
        ),
        other_notes=(*inferred, *manifests.other_notes),
    )


def _read_input(arguments: PlanArguments, progress: ProgressCallback) -> ClusterManifests:
    return read_manifests(
        arguments.paths,
        cloud=arguments.cloud,
        catalog=arguments.catalog,
        scheduler_config=arguments.scheduler_config,
        progress=progress,
        options=msgspec.structs.replace(
            arguments.read_options, built_in_pools=arguments.built_in_pools
        ),
    )


def _plan_settings(arguments: PlanArguments) -> PlanSettings:
    gates = parse_feature_gates(arguments.gates)
    return PlanSettings(
        now=parse_time(arguments.now),
        region=arguments.region,
        gates=gates,
        rules=catalog_settings(arguments),
        maximum_replicas=arguments.replicas == "max",
        pod_limit=arguments.pod_limit,
        options=PlanOptions(
            min_values_policy=MinValuesPolicy(arguments.min_values_policy),
            preference_policy=PreferencePolicy(arguments.preference_policy),
            packing=PackingPolicy(arguments.packing),
            strict_weights=arguments.strict_weights,
            capacity_reservations=gates.capacity_reservations,
            static_capacity=gates.static_capacity,
            cluster_limits=parse_cluster_limits(arguments.cluster_limits),
        ),
    )


def _prepare(
    manifests: ClusterManifests, settings: PlanSettings, arguments: PlanArguments
) -> PreparedInput:
    try:
        return prepare_input(manifests, settings)
    except InvalidCatalogInput as error:
        errors = _locate(error.diagnostics, arguments)
        report = ProblemReport(errors=errors, warnings=manifests.notes, notes=manifests.other_notes)
        raise InvalidInput(report) from error


def _locate(diagnostics: Sequence[ObjectDiagnostic], arguments: PlanArguments) -> list[Problem]:
    return locate_diagnostics(diagnostics, [*arguments.flag_files, *arguments.paths])


def write_saved_input(given: PlanInput, file: str) -> None:
    """Writes exactly what was decided on; the command of the same name gives the same output."""
    try:
        save_plan_input(given, file, version=__version__)
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}") from error
