"""`wain plan`: which nodes for which pods, at what price, and why a pod is unschedulable.
`wain plan --diff OLD NEW` is in `plan_comparison.py`.

From options and files to a plan (`run_plan`), saved inputs and timings serve the commands explain,
consolidate and reservations as well.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import click
import msgspec

from wainwright import __version__
from wainwright.catalogue.diagnostics import InvalidCatalogInput, ObjectDiagnostic
from wainwright.cli import printing
from wainwright.cli.catalog_input import (
    CatalogArguments,
    assumed_region_notes,
    catalog_settings,
    inferred_region_notes,
    locate_diagnostics,
    parse_feature_gates,
    parse_time,
)
from wainwright.cli.options import (
    PLAN_OPTIONS,
    Choice,
    add_options,
    cluster_options,
    file_arguments,
    show_progress,
)
from wainwright.cli.printing import print_notes, print_problems
from wainwright.errors import UsageError
from wainwright.manifests.cluster_manifests import ClusterManifests, read_manifests
from wainwright.manifests.documents import ProgressCallback
from wainwright.manifests.problems import InvalidInput, Problem, ProblemReport
from wainwright.model.plan import (
    ExplainedPlan,
    MinValuesPolicy,
    PackingPolicy,
    PlanOptions,
    PreferencePolicy,
)
from wainwright.offline import (
    OfflinePlan,
    PlanSettings,
    PreparedInput,
    make_plan,
    plan_snapshot,
    prepare_input,
)
from wainwright.report.plan_input import (
    PlanInput,
    is_saved_input,
    load_plan_input,
    plan_input,
    save_plan_input,
    with_classes,
    with_overlays,
)
from wainwright.report.plan_json import plan_document
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


Document = dict[str, Any]


ALL_HELP: Final = "For unschedulable pods, the reason of every NodePool and node."
OUTPUTS: Final = Choice(["table", "json", "yaml", "markdown", "nodeclaims", "html"])


@click.command()
@file_arguments
@cluster_options
@add_options(PLAN_OPTIONS)
@click.option("-o", "--output", type=OUTPUTS, default="table", help="How to print the plan.")
@click.option("--diff", is_flag=True, help="Compare two inputs, OLD and NEW.")
@click.option("--all", "every", is_flag=True, help=ALL_HELP)
@click.option(
    "--save-input",
    metavar="FILE",
    help="Write the exact input of the plan; `wain plan FILE` gives the same output.",
)
@click.option(
    "--timings",
    "print_timings",
    is_flag=True,
    help="One JSON line on standard error: seconds spent.",
)
def plan(
    output: str,
    diff: bool,
    every: bool,
    save_input: str | None,
    print_timings: bool,
    **flags: Any,
) -> int:
    """Show which nodes would be launched, for which pods, at what price.

    Exit code 0 when every pod is scheduled, 1 when some pod is unschedulable, 2 for bad input. With
    --diff: 0 no change, 1 a pod becomes unschedulable, 3 any other change.
    """
    arguments, timings = PlanArguments(**flags), Timings()
    if diff and save_input is not None:
        raise UsageError("--save-input saves one plan", "leave out --diff")
    if diff:
        # Drift loads all of disruption: imported above, it would take a tenth of every plan.
        from wainwright.cli.plan_comparison import compare

        code = compare(arguments, output, timings, every=every)
    else:
        needs_overlays = output == "nodeclaims" or save_input is not None
        given, result = plan_of(
            arguments,
            timings,
            needs_overlays=needs_overlays,
            needs_classes=save_input is not None,
        )
        if save_input is not None:
            write_saved_input(given, save_input)
        shown = _Shown(output=output, every=every, quiet=arguments.quiet)
        code = _print_plan(given, result, shown, timings)
    if print_timings:
        printing.echo(timings.to_json(), err=True)
    return code


def plan_of(
    arguments: PlanArguments,
    timings: Timings,
    *,
    needs_overlays: bool = False,
    needs_classes: bool = False,
) -> tuple[PlanInput, ExplainedPlan]:
    """The plan of manifests, or of an input that was saved."""
    saved = [path for path in arguments.paths if path != "-" and is_saved_input(path)]
    if saved:
        return _plan_saved(arguments, saved[0], timings)
    run = run_plan(arguments, timings)
    given = plan_input(
        run.planned.prepared,
        now=run.now,
        is_time_given=arguments.now is not None,
        file_notes=run.file_notes,
        other_notes=run.other_notes,
    )
    if needs_overlays:
        given = with_overlays(given, run.planned.prepared)
    if needs_classes:
        given = with_classes(given, run.planned.prepared)
    return given, run.planned.plan


def _plan_saved(
    arguments: PlanArguments, file: str, timings: Timings
) -> tuple[PlanInput, ExplainedPlan]:
    """A saved input is complete: other files and options would make it another input."""
    printing_only = ("files", "more", "now", "quiet", "verbose")
    kept = {name: getattr(arguments, name) for name in printing_only}
    if arguments != PlanArguments(**kept):
        raise UsageError(f"{file} has its own options", "leave out those of the command line")
    if len(arguments.paths) > 1:
        raise UsageError(f"{file} is a whole input", "leave out the other files")
    with timings.measure("read"):
        given = load_plan_input(file)
    with timings.measure("plan"):
        result = plan_snapshot(given.snapshot, given.indexes, given.options)
    print_problems(given.file_notes, word="note")
    return given, result


class _Shown(msgspec.Struct, frozen=True, kw_only=True):
    """How a plan is printed."""

    output: str
    every: bool
    quiet: bool


def _print_plan(given: PlanInput, result: ExplainedPlan, shown: _Shown, timings: Timings) -> int:
    """Before the plan come only notes that change it: others would push it off the screen."""
    with timings.measure("explain"):
        document = plan_document(given, result)
    print_notes(given.warnings)
    if shown.output == "table":
        _print_table(document, given, result, every=shown.every)
    else:
        PRINTERS[shown.output](document, given, result)
    if not shown.quiet:
        print_notes(result.warnings)
        print_problems(given.other_notes, word="note")
    return 1 if document["unschedulable"] else 0


def _print_table(
    document: Document, given: PlanInput, result: ExplainedPlan, *, every: bool
) -> None:
    from wainwright.cli.plan_table import Console, print_plan
    from wainwright.report.plan_rows import launchable_type_count

    console = Console(markup=False, highlight=False)
    print_plan(document, console, launchable_type_count(given, result), every=every)


def _print_json(document: Document, _: PlanInput, __: ExplainedPlan) -> None:
    printing.echo_json(document)


def _print_yaml(document: Document, _: PlanInput, __: ExplainedPlan) -> None:
    printing.echo_yaml(document)


def _print_markdown(document: Document, _: PlanInput, __: ExplainedPlan) -> None:
    from wainwright.report.plan_markdown import render_markdown

    printing.echo_text(render_markdown(document))


def _print_html(document: Document, given: PlanInput, result: ExplainedPlan) -> None:
    from wainwright.report.visual.html_page import render_page
    from wainwright.report.visual.plan_story import plan_story
    from wainwright.report.visual.story import Report

    story = plan_story(given, result, document)
    printing.echo_text(render_page(Report(version=__version__, stories=[story])))


def _print_node_claims(_: Document, given: PlanInput, result: ExplainedPlan) -> None:
    from wainwright.report.nodeclaim_manifests import node_claim_manifests

    printing.echo_yaml(*node_claim_manifests(given, result))


PRINTERS: Final = {
    "json": _print_json,
    "yaml": _print_yaml,
    "markdown": _print_markdown,
    "nodeclaims": _print_node_claims,
    "html": _print_html,
}
