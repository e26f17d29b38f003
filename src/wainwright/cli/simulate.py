"""`wain simulate`: the whole control loop on virtual time, judged by what a Scenario expects."""

import logging
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import click
import msgspec

from wainwright import __version__, file_names
from wainwright.catalogue.label_values import known_label_values
from wainwright.cli import printing
from wainwright.cli.options import Choice, add_options, show_progress
from wainwright.cli.printing import print_notes, print_problems
from wainwright.errors import UsageError
from wainwright.manifests.documents import ReadOptions
from wainwright.messages.formatting import format_count, format_hourly
from wainwright.model.cluster_history import ClusterHistory
from wainwright.model.simulation import SimulationResult
from wainwright.report.json_text import dump_json
from wainwright.report.simulation_comparison import (
    SimulationComparison,
    compare_simulations,
    compared_names,
)
from wainwright.report.simulation_csv import simulation_tables
from wainwright.report.simulation_lines import format_seconds
from wainwright.report.simulation_sweep import SimulationSweep, SweptPath, sweep_csv, sweep_of
from wainwright.sim.observed_state import ObservedState
from wainwright.sim.scenario import Scenario
from wainwright.sim.scenario_format.field_reader import duration_seconds
from wainwright.sim.scenario_format.set_changes import SweepPath, parse_sweep
from wainwright.sim.scenario_reader import read_scenario
from wainwright.translate.workload_expansion import POD_LIMIT

if TYPE_CHECKING:
    from wainwright.report.visual.story import Story
    from wainwright.sim.simulation import SimulationOptions

OUTPUTS: Final = Choice(["table", "json", "yaml", "html"])
HELD, FAILED = 0, 1
REFRESH_SECONDS: Final = 0.1
"""Of real time between two versions of the progress line."""
THIS_SCENARIO: Final = ""
"""`--compare` without a value: the scenario as it is written, beside it with the changes."""
Shown: TypeAlias = SimulationResult | SimulationComparison | SimulationSweep


class SimulateArguments(msgspec.Struct, frozen=True, kw_only=True):
    """The options, as click passes them."""

    scenario: str
    changes: tuple[str, ...] = ()
    seed: int | None = None
    until: str | None = None
    compare: str | None = None
    sweep: tuple[str, ...] = ()
    csv_folder: str | None = None
    shell_state: str | None = None
    report: str | None = None
    full: bool = False
    output: str = "table"
    render: bool = False
    quiet: bool = False
    pod_limit: int = POD_LIMIT


@click.command()
@click.argument("scenario", metavar="SCENARIO")
@click.option("--check", is_flag=True, help="Check the scenario without running it.")
@click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="PATH=VALUE",
    help="Change a value of the scenario (spec.…) or of a manifest (Kind/name:spec.…).",
)
@click.option("--seed", type=int, metavar="N", help="The seed to use instead of the scenario's.")
@click.option("--until", metavar="TIME", help="Stop this long after the start, such as 6h.")
@click.option(
    "--compare",
    is_flag=False,
    flag_value=THIS_SCENARIO,
    metavar="[OTHER]",
    help="Run another scenario, or this one with PATH=VALUE changed, with the same seed, and put "
    "both side by side. Without a value: as it is written, and as --set changes it.",
)
@click.option(
    "--sweep",
    multiple=True,
    metavar="PATH=VALUE,…",
    help="Run the scenario with each of these values, and put cost, evictions and waiting into "
    "one table. Repeated: with every combination.",
)
@click.option("--csv", "csv_folder", metavar="FOLDER", help="Also write everything as CSV files.")
@click.option(
    "--shell-state",
    metavar="FILE",
    help="Write the cluster as it is at the end as manifests that other commands read.",
)
@click.option("--report", metavar="FILE", help="Also write a report as one HTML file.")
@click.option("--full", is_flag=True, help="Every point of the series, however many.")
@click.option("-o", "--output", type=OUTPUTS, default="table", help="How to print it.")
@click.option(
    "--render",
    is_flag=True,
    help="Have helm, kustomize or kubectl render charts and kustomizations in folders.",
)
@click.option("-q", "--quiet", is_flag=True, help="Omit notes that do not affect the result.")
@add_options(("pod_limit",))
def simulate(check: bool, **flags: Any) -> int:
    """Run the controllers on virtual time, and show what happens to pods, nodes and cost.

    Exit code 0 when everything expected held, 1 when an expectation failed or a law was broken, 2
    for a bad scenario.
    """
    arguments = SimulateArguments(**flags)
    sweep = [parse_sweep(text) for text in arguments.sweep]
    scenarios = _read_sweep(arguments, sweep) if sweep else _read_scenarios(arguments)
    if check:
        for scenario in scenarios:
            printing.echo(describe_scenario(scenario))
        return HELD
    if sweep:
        return _show_sweep(_run_sweep(scenarios, sweep, arguments), arguments)
    runs = [_run(scenario, arguments) for scenario in scenarios]
    return _show(runs, arguments)


def _read_scenarios(arguments: SimulateArguments) -> list[Scenario]:
    """The scenario; with `--compare` the other one as well, with the same seed."""
    _check_options(arguments)
    compare = arguments.compare
    if compare is None:
        return [_read(arguments, arguments.scenario, arguments.changes, arguments.seed)]
    if compare == THIS_SCENARIO:
        first = _read(arguments, arguments.scenario, (), arguments.seed)
        return [first, _read(arguments, arguments.scenario, arguments.changes, first.seed)]
    first = _read(arguments, arguments.scenario, arguments.changes, arguments.seed)
    if _is_change(compare):
        changes = (*arguments.changes, compare)
        return [first, _read(arguments, arguments.scenario, changes, first.seed)]
    return [first, _read(arguments, compare, arguments.changes, first.seed)]


def _read_sweep(arguments: SimulateArguments, sweep: Sequence[SweepPath]) -> list[Scenario]:
    """Every combination, with the same seed; the last path changes fastest."""
    _check_options(arguments)
    seed, found = arguments.seed, list[Scenario]()
    for changes in product(*(each.changes for each in sweep)):
        quiet = msgspec.structs.replace(arguments, quiet=arguments.quiet or bool(found))
        found.append(_read(quiet, arguments.scenario, (*arguments.changes, *changes), seed))
        seed = found[0].seed
    return found


def _is_change(compare: str) -> bool:
    return "=" in compare and not file_names.exists(compare)


def compared_changes(arguments: SimulateArguments) -> list[str]:
    """What the second simulation has changed; nothing where it is another scenario."""
    compare = arguments.compare or THIS_SCENARIO
    if compare == THIS_SCENARIO:
        return list(arguments.changes)
    return [compare] if _is_change(compare) else []


def _check_options(arguments: SimulateArguments) -> None:
    if arguments.compare == THIS_SCENARIO and not arguments.changes:
        raise UsageError(
            "--compare has nothing to compare with",
            "name another scenario, or say what is different with --set PATH=VALUE",
        )
    if arguments.sweep and arguments.compare is not None:
        raise UsageError("--sweep and --compare exclude each other", "keep one of them")
    if arguments.sweep and (arguments.report is not None or arguments.output == "html"):
        raise UsageError(
            "--sweep cannot be shown as a page", "leave it out, or compare two with --compare"
        )
    if arguments.sweep and arguments.shell_state is not None:
        raise UsageError("--sweep has a state at the end of each run", "leave --shell-state out")
    if arguments.compare is not None and arguments.shell_state is not None:
        raise UsageError("--compare has two states at the end", "leave --shell-state out")


def _read(
    arguments: SimulateArguments, file: str, changes: Sequence[str], seed: int | None
) -> Scenario:
    options = ReadOptions(
        render=arguments.render, quiet=arguments.quiet, known_values=known_label_values
    )
    with show_progress() as progress:
        scenario = read_scenario(
            file,
            changes=changes,
            seed=seed,
            progress=progress,
            options=options,
            pod_limit=arguments.pod_limit,
        )
    print_problems(scenario.manifests.notes, word="note")
    print_problems(scenario.manifests.other_notes, word="note")
    parse_until(arguments.until, scenario)
    return scenario


def parse_until(text: str | None, scenario: Scenario) -> float | None:
    """Seconds since the start; None: as long as the scenario says."""
    if text is None:
        return None
    seconds = duration_seconds(text)
    if not seconds:
        raise UsageError(
            f"--until: {text!r} is not a time since the start", "write it as 90s or 6h"
        )
    if scenario.duration is not None and seconds > scenario.duration:
        end = format_seconds(scenario.duration)
        raise UsageError(f"--until {text} is after the end, which is at {end}")
    return seconds


def describe_scenario(scenario: Scenario) -> str:
    """What `--check` says of a scenario without mistakes."""
    length = "until quiet" if scenario.duration is None else format_seconds(scenario.duration)
    parts = [
        length,
        format_count(len(scenario.manifests.objects), "object"),
        format_count(len(scenario.events), "event"),
        format_count(len(scenario.expect), "expectation"),
    ]
    if scenario.traces:
        parts.append(f"{len(scenario.traces):,} pods of traces")
    return f"{scenario.name}: valid · {' · '.join(parts)}"


# Running


class FinishedRun(msgspec.Struct, frozen=True, kw_only=True):
    scenario: Scenario
    result: SimulationResult
    history: ClusterHistory | None
    """Only where a page was asked for."""


def _run(scenario: Scenario, arguments: SimulateArguments) -> FinishedRun:
    # Loaded here: reading and checking a scenario needs none of the controllers.
    from wainwright.sim.simulation import Simulation

    until = parse_until(arguments.until, scenario)
    with quiet_log(), _live_progress(scenario, until) as observers:
        options = simulation_options(arguments, until)
        simulation = Simulation(scenario, options=options, observers=observers)
        try:
            result = simulation.run()
            if arguments.shell_state is not None:
                _write_state(simulation.shell_state(), arguments.shell_state)
                printing.echo(
                    f"note: read {arguments.shell_state} with --now {result.finish}: times in it "
                    "are those of the simulation",
                    err=True,
                )
        finally:
            simulation.close()
    return FinishedRun(scenario=scenario, result=result, history=simulation.recorder.history)


def simulate_story(file: str) -> "Story":
    """The scenario carried out, as a story that can be looked at moment by moment."""
    from wainwright.report.visual.simulation_story import pool_infos, simulation_story

    arguments = SimulateArguments(scenario=file, output="html")
    (scenario,) = _read_scenarios(arguments)
    run = _run(scenario, arguments)
    assert run.history is not None
    return simulation_story(run.result, run.history, pool_infos(scenario.manifests.pools))


def _run_sweep(
    scenarios: Sequence[Scenario], sweep: Sequence[SweepPath], arguments: SimulateArguments
) -> SimulationSweep:
    """Nobody sees the timelines, so that they are not kept."""
    table = msgspec.structs.replace(arguments, output="table", csv_folder=None, full=False)
    results = [_run(scenario, table).result for scenario in scenarios]
    paths = [SweptPath(path=each.path, values=list(each.values)) for each in sweep]
    values = list(product(*(each.values for each in sweep)))
    return sweep_of(results, values, paths)


@contextmanager
def quiet_log() -> Iterator[None]:
    """What controllers log of the faults of a scenario would tear the output apart."""
    log = logging.getLogger("wainwright")
    before = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(before)


def simulation_options(arguments: SimulateArguments, until: float | None) -> "SimulationOptions":
    """Timeline and history are kept only where somebody will see them."""
    from wainwright.sim.simulation import SimulationOptions

    has_page = arguments.output == "html" or arguments.report is not None
    return SimulationOptions(
        until=until,
        keep_timeline=arguments.output != "table" or has_page or arguments.csv_folder is not None,
        keep_all_points=arguments.full,
        keep_history=has_page,
    )


class ProgressLine:
    """Sees every state, and shows one now and then."""

    def __init__(self, name: str, end: float | None, show: Callable[[str], None]) -> None:
        self._name = name
        self._end = end
        self._show = show
        self._shown_at = 0.0

    def observe(self, state: ObservedState) -> None:
        now = time.monotonic()
        if now - self._shown_at >= REFRESH_SECONDS:
            self._shown_at = now
            self._show(progress_line(self._name, state, self._end))


@contextmanager
def _live_progress(scenario: Scenario, until: float | None) -> Iterator[list[ProgressLine]]:
    """One line that is written anew, on a terminal only."""
    if not sys.stderr.isatty():
        yield []
        return
    from rich.console import Console

    from wainwright.cli.plan_table import printable_text

    with Console(stderr=True).status("simulating…") as status:

        def show(line: str) -> None:
            status.update(printable_text(line))

        yield [ProgressLine(scenario.name, until or scenario.duration, show)]


def progress_line(name: str, state: ObservedState, end: float | None) -> str:
    """How far it is, and what there is now."""
    of = "" if end is None else f" of {format_seconds(end)}"
    return (
        f"{name}: {format_seconds(state.at)}{of} · {format_count(state.nodes, 'node')} · "
        f"{state.running_pods:,} running, {state.pending_pods:,} pending · "
        f"{format_hourly(state.price_per_hour)}"
    )


def _write_state(state: dict[str, Any], file: str) -> None:
    _write_file(Path(file), dump_json(state) + "\n")


def _write_file(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from error


# Output


def _show(runs: Sequence[FinishedRun], arguments: SimulateArguments) -> int:
    results = [run.result for run in runs]
    comparison = None
    if len(results) == 2:
        first, second = results
        comparison = compare_simulations(first, second, compared_changes(arguments))
    shown: Shown = comparison or results[0]
    if arguments.csv_folder is not None:
        _write_tables(results, Path(arguments.csv_folder))
    page = _page(runs, comparison) if runs[0].history is not None else ""
    if arguments.report is not None:
        _write_file(Path(arguments.report), page)
    if arguments.output == "html":
        printing.echo_text(page)
    else:
        print_output(shown, arguments.output)
    if arguments.report is not None:
        printing.echo(f"note: wrote {arguments.report}: open it in a browser", err=True)
    for result in results:
        print_notes(dict.fromkeys(result.warnings))
    return HELD if shown.is_success else FAILED


def _page(runs: Sequence[FinishedRun], comparison: SimulationComparison | None) -> str:
    """One story, or both of a comparison on one axis."""
    from wainwright.report.visual.html_page import render_page
    from wainwright.report.visual.simulation_story import (
        comparison_report,
        pool_infos,
        simulation_story,
    )
    from wainwright.report.visual.story import Report

    names = ("",) if comparison is None else compared_names(comparison)
    stories = [
        simulation_story(run.result, run.history, pool_infos(run.scenario.manifests.pools), name)
        for run, name in zip(runs, names, strict=True)
        if run.history is not None
    ]
    if comparison is None:
        return render_page(Report(version=__version__, stories=stories))
    return render_page(comparison_report(comparison, stories, __version__))


def _show_sweep(sweep: SimulationSweep, arguments: SimulateArguments) -> int:
    if arguments.csv_folder is not None:
        _write_file(Path(arguments.csv_folder) / "sweep.csv", sweep_csv(sweep))
    print_output(sweep, arguments.output)
    print_notes(dict.fromkeys(text for run in sweep.runs for text in run.warnings))
    return HELD if sweep.is_success else FAILED


def _write_tables(results: Sequence[SimulationResult], folder: Path) -> None:
    """Those of a comparison have a folder each."""
    folders = [folder] if len(results) == 1 else [folder / "first", folder / "second"]
    for result, target in zip(results, folders, strict=True):
        for name, text in simulation_tables(result).items():
            _write_file(target / name, text)


def print_output(shown: Shown, output: str) -> None:
    """On standard output; the table is plain where it is no terminal."""
    if output == "json":
        printing.echo_json(shown)
    elif output == "yaml":
        printing.echo_yaml(msgspec.to_builtins(shown))
    else:
        _print_table(shown)


def _print_table(shown: Shown) -> None:
    from wainwright.cli.plan_table import Console
    from wainwright.cli.simulation_table import print_comparison, print_simulation, print_sweep

    console = Console(markup=False, highlight=False)
    if isinstance(shown, SimulationComparison):
        print_comparison(shown, console)
    elif isinstance(shown, SimulationSweep):
        print_sweep(shown, console)
    else:
        print_simulation(shown, console)
