"""`wain consolidate`: which nodes disruption would remove or replace, and what keeps the others.

It never acts: each command is applied to the cluster of the input before the next is sought.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import click

from wainwright import __version__
from wainwright.cli import printing
from wainwright.cli.catalog_input import gate_values
from wainwright.cli.options import (
    PLAN_OPTIONS,
    Choice,
    add_options,
    cluster_options,
    file_arguments,
)
from wainwright.cli.plan import PlanArguments, Timings, prepare_run, write_saved_input
from wainwright.cli.printing import print_notes, print_problems
from wainwright.core.disruption.cluster_bound import cluster_lower_bound
from wainwright.core.disruption.commands import Command
from wainwright.core.disruption.disruption_input import (
    LOOK_AHEAD_NODES,
    MAX_NODES_PER_COMMAND,
    MAX_STEPS,
    SPOT_TO_SPOT_TYPES,
    VOLUNTARY_METHODS,
    DisruptionOptions,
    Method,
    ReplacementRules,
)
from wainwright.core.disruption.preview import DisruptionPreview, preview_disruption
from wainwright.errors import UsageError
from wainwright.gc_pause import gc_paused
from wainwright.messages.formatting import format_hourly
from wainwright.model.disruption import NO_MINIMUM_SAVING, MinimumSaving
from wainwright.model.plan import PlanOptions
from wainwright.report.consolidation_json import consolidation_document, consolidation_warnings
from wainwright.report.plan_input import (
    PlanInput,
    is_saved_input,
    load_plan_input,
    plan_input,
    with_consolidation,
)
from wainwright.translate.disruption import parse_minimum_saving

Document = dict[str, Any]

TIMED_STEPS: Final = ("read", "compile", "decide", "bound", "explain")
OUTPUTS: Final = Choice(["table", "json", "yaml", "markdown", "html"])
METHODS: Final = Choice(["emptiness", "drift", "multi-node", "single-node"])
CONSOLIDATION_OPTIONS: Final = tuple(name for name in PLAN_OPTIONS if name != "packing")
NOTHING_TO_DO, SOMETHING_TO_DO = 0, 3

DISRUPTION_OPTIONS: Final = (
    click.option(
        "--method",
        "methods",
        multiple=True,
        type=METHODS,
        help="Only this method; may be repeated. Default: all.",
    ),
    click.option(
        "--min-saving",
        metavar="AMOUNT",
        help="The minimum saving of a consolidation: 0.05 ($/h) or 5% (of the nodes' cost).",
    ),
    click.option(
        "--spot-to-spot-types",
        type=click.IntRange(1),
        default=SPOT_TO_SPOT_TYPES,
        show_default=True,
        help="How many cheaper types spot-to-spot consolidation requires.",
    ),
    click.option(
        "--allow-split", is_flag=True, help="Allow several new nodes to replace one or more."
    ),
    click.option(
        "--max-nodes",
        type=click.IntRange(1),
        default=MAX_NODES_PER_COMMAND,
        show_default=True,
        help="How many nodes one command may remove.",
    ),
    click.option(
        "--look-ahead",
        type=click.IntRange(0),
        default=LOOK_AHEAD_NODES,
        show_default=True,
        help="How many nodes to evaluate, each once in a pass, to compare sequences of commands.",
    ),
    click.option(
        "--ignore-budgets", is_flag=True, help="Ignore the disruption budgets of NodePools."
    ),
)


class DisruptionArguments(PlanArguments, frozen=True, kw_only=True):
    """The options and files of a command that decides about disruption."""

    steps: int = MAX_STEPS
    methods: tuple[str, ...] = ()
    min_saving: str | None = None
    spot_to_spot_types: int = SPOT_TO_SPOT_TYPES
    allow_split: bool = False
    max_nodes: int = MAX_NODES_PER_COMMAND
    look_ahead: int = LOOK_AHEAD_NODES
    ignore_budgets: bool = False


def disruption_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options that decisions depend on to a command."""
    for option in reversed(DISRUPTION_OPTIONS):
        command = option(command)
    return add_options(CONSOLIDATION_OPTIONS)(command)


@click.command()
@file_arguments
@cluster_options
@disruption_options
@click.option(
    "--steps",
    type=click.IntRange(1, MAX_STEPS),
    default=MAX_STEPS,
    help=f"How many commands at most. Default: until no command is left, at most {MAX_STEPS:,}.",
)
@click.option("-o", "--output", type=OUTPUTS, default="table", help="How to print it.")
@click.option(
    "--save-input",
    metavar="FILE",
    help="Write the exact input; `wain consolidate FILE` gives the same output.",
)
@click.option(
    "--timings",
    "print_timings",
    is_flag=True,
    help="One JSON line on standard error: seconds spent.",
)
def consolidate(output: str, save_input: str | None, print_timings: bool, **flags: Any) -> int:
    """Show which nodes can be removed or replaced, what that saves, and what blocks the others.

    Exit code 0 when there is nothing to do, 3 when there is something, 2 for bad input.
    """
    arguments, timings = DisruptionArguments(**flags), Timings(TIMED_STEPS)
    given = consolidation_input(arguments, timings)
    if save_input is not None:
        write_saved_input(given, save_input)
    preview = decide(given, timings)
    with timings.measure("bound"), gc_paused():
        bound = cluster_lower_bound(given.snapshot, given.indexes, given.options)
    with timings.measure("explain"):
        document = consolidation_document(given, preview, bound)
    _print(document, given, preview, output, quiet=arguments.quiet)
    if print_timings:
        printing.echo(timings.to_json(), err=True)
    return SOMETHING_TO_DO if is_something_to_do(preview) else NOTHING_TO_DO


def is_something_to_do(preview: DisruptionPreview) -> bool:
    return bool(preview.commands)


def consolidation_input(arguments: DisruptionArguments, timings: Timings) -> PlanInput:
    """From manifests, or as it was saved; notes about files are printed."""
    given = read_consolidation(arguments, timings)
    print_problems(given.file_notes, word="note")
    return given


def read_consolidation(arguments: DisruptionArguments, timings: Timings) -> PlanInput:
    """The same without printing anything."""
    saved = any(path != "-" and is_saved_input(path) for path in arguments.paths)
    return (_saved_input if saved else _read_input)(arguments, timings)


def _read_input(arguments: DisruptionArguments, timings: Timings) -> PlanInput:
    run = prepare_run(arguments, timings)
    given = plan_input(run.prepared, now=run.now, file_notes=run.notes, other_notes=run.other_notes)
    with timings.measure("compile"):
        return with_consolidation(
            given,
            run.prepared,
            options=_disruption_options(arguments, given.options),
            steps=arguments.steps,
            time_given=arguments.now is not None,
        )


def _disruption_options(arguments: DisruptionArguments, plan: PlanOptions) -> DisruptionOptions:
    gates = gate_values(arguments.gates)
    return DisruptionOptions(
        plan=plan,
        rules=ReplacementRules(
            spot_to_spot=gates.get("SpotToSpotConsolidation", False),
            spot_to_spot_types=arguments.spot_to_spot_types,
        ),
        methods=_methods(arguments.methods),
        max_nodes=arguments.max_nodes,
        look_ahead=arguments.look_ahead,
        minimum_saving=_minimum_saving(arguments.min_saving),
        allow_split=arguments.allow_split,
        ignore_budgets=arguments.ignore_budgets,
        terminate_first_drift=gates.get("TerminateFirstDrift", False),
        managed_deletion_cost=gates.get("PodDeletionCostManagement", False),
    )


def _methods(names: Sequence[str]) -> tuple[Method, ...]:
    """Drift is that of static NodePools too."""
    wanted = set(map(Method, names or VOLUNTARY_METHODS))
    if Method.DRIFT in wanted:
        wanted.add(Method.STATIC_DRIFT)
    return tuple(method for method in Method if method in wanted)


def _minimum_saving(text: str | None) -> MinimumSaving:
    if text is None:
        return NO_MINIMUM_SAVING
    parsed = parse_minimum_saving(text)
    if parsed is None:
        raise UsageError(
            f"--min-saving: {text!r} is not a saving", "write USD per hour, 0.05, or a share, 5%"
        )
    return parsed


def _saved_input(arguments: DisruptionArguments, timings: Timings) -> PlanInput:
    """A saved input is complete: other files and options would make it another input."""
    file = next(path for path in arguments.paths if path != "-" and is_saved_input(path))
    printing_only = ("files", "more", "now", "quiet", "verbose")
    kept = {name: getattr(arguments, name) for name in printing_only}
    if arguments != DisruptionArguments(**kept):
        raise UsageError(f"{file} has its own options", "leave out those of the command line")
    if len(arguments.paths) > 1:
        raise UsageError(f"{file} is a whole input", "leave out the other files")
    with timings.measure("read"):
        given = load_plan_input(file)
    if given.consolidation is None:
        raise UsageError(
            f"{file} is the input of a plan", "write it with: wain consolidate … --save-input FILE"
        )
    return given


def decide(given: PlanInput, timings: Timings) -> DisruptionPreview:
    """The commands, one after the other; a large cluster shows how far it is on a terminal."""
    settings = given.consolidation
    assert settings is not None
    with timings.measure("decide"), _show_steps() as report, gc_paused():
        return preview_disruption(given.disruption, settings.options, settings.steps, report)


@contextmanager
def _show_steps() -> Iterator[Callable[[Command], None]]:
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console

    with Console(stderr=True).status("simulating…") as status:
        done = 0
        saved = 0.0

        def report(command: Command) -> None:
            nonlocal done, saved
            done, saved = done + 1, saved + command.saving
            status.update(f"simulating: {done:,} commands so far save {format_hourly(saved)}")

        yield report


def _print(
    document: Document, given: PlanInput, preview: DisruptionPreview, output: str, *, quiet: bool
) -> None:
    print_notes(given.warnings)
    PRINTERS[output](document, given, preview)
    if not quiet:
        print_notes(consolidation_warnings(preview))
        print_problems(given.other_notes, word="note")


def _print_table(document: Document, _: PlanInput, __: DisruptionPreview) -> None:
    from wainwright.cli.consolidation_table import print_consolidation
    from wainwright.cli.plan_table import Console

    print_consolidation(document, Console(markup=False, highlight=False))


def _print_json(document: Document, _: PlanInput, __: DisruptionPreview) -> None:
    printing.echo_json(document)


def _print_yaml(document: Document, _: PlanInput, __: DisruptionPreview) -> None:
    printing.echo_yaml(document)


def _print_markdown(document: Document, _: PlanInput, __: DisruptionPreview) -> None:
    from wainwright.report.consolidation_markdown import render_markdown

    printing.echo_text(render_markdown(document))


def _print_html(document: Document, given: PlanInput, preview: DisruptionPreview) -> None:
    from wainwright.report.visual.consolidation_story import consolidation_story
    from wainwright.report.visual.html_page import render_page
    from wainwright.report.visual.story import Report

    story = consolidation_story(given, preview, document)
    printing.echo_text(render_page(Report(version=__version__, stories=[story])))


PRINTERS: Final[dict[str, Callable[[Document, PlanInput, DisruptionPreview], None]]] = {
    "table": _print_table,
    "json": _print_json,
    "yaml": _print_yaml,
    "markdown": _print_markdown,
    "html": _print_html,
}
