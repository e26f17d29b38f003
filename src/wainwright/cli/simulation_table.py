"""A simulation for a terminal: the answer first, then what failed, a plot, totals, and what each
reservation was worth. Plain text in a pipe; imported only where it is printed.
"""

from collections.abc import Iterator
from typing import Final

from rich.text import Text

from wainwright.cli.plan_table import Console, print_line, printable_text, wrapped_lines
from wainwright.cli.printing import align_columns
from wainwright.model.simulation import SimulationResult
from wainwright.report.simulation_comparison import (
    SimulationComparison,
    compared_names,
    comparison_answer,
    comparison_rows,
)
from wainwright.report.simulation_lines import (
    WIDTH,
    answer,
    end_line,
    estimate_notes,
    findings,
    plot_lines,
    reservation_lines,
    total_rows,
)
from wainwright.report.simulation_sweep import (
    SimulationSweep,
    SweptRun,
    sweep_answer,
    sweep_rows,
)

STYLES: Final = {True: "green", False: "red", None: "yellow"}


def print_simulation(result: SimulationResult, console: Console) -> None:
    _print_lines(_lines(result), console)


def print_comparison(comparison: SimulationComparison, console: Console) -> None:
    _print_lines(_comparison_lines(comparison), console)


def print_sweep(sweep: SimulationSweep, console: Console) -> None:
    _print_lines(_sweep_lines(sweep), console)


def _print_lines(lines: Iterator[Text], console: Console) -> None:
    """Lines wrap on a terminal, but not in a pipe, where a program may read them."""
    for text in lines:
        line = printable_text(text.plain, text.style)
        shown = wrapped_lines(line, console.width) if console.is_terminal else [line]
        for part in shown or [line]:  # an empty line has nothing to wrap
            print_line(console, part)


def _lines(result: SimulationResult) -> Iterator[Text]:
    style = "bold green" if result.is_success else "bold red"
    yield Text(answer(result), style=style)
    for each in findings(result):
        yield from wrapped_lines(Text(f"  {each.text}", style=STYLES[each.held]), WIDTH)
    plot = plot_lines(result.series)
    if plot:
        yield Text("")
        yield from (Text(line, style="cyan") for line in plot)
        yield Text("")
    yield from map(Text, align_columns(total_rows(result)))
    end = end_line(result)
    if end:
        yield Text(end, style="yellow")
    yield from map(Text, reservation_lines(result))
    yield from _estimate_notes(result)


def _comparison_lines(comparison: SimulationComparison) -> Iterator[Text]:
    yield Text(comparison_answer(comparison), style="bold")
    results = (comparison.first, comparison.second)
    for name, result in zip(compared_names(comparison), results, strict=True):
        style = "green" if result.is_success else "red"
        yield Text(f"  {answer(result, name)}", style=style)
    yield Text("")
    heading, *rows = align_columns(comparison_rows(comparison), numbers=3)
    yield Text(heading, style="bold")
    yield from map(Text, rows)
    yield from _estimate_notes(*results)


def _estimate_notes(*runs: SimulationResult | SweptRun) -> Iterator[Text]:
    notes = estimate_notes(each.modelledPrices for each in runs)
    return (Text(note, style="dim") for note in notes)


def _sweep_lines(sweep: SimulationSweep) -> Iterator[Text]:
    yield Text(sweep_answer(sweep), style="bold")
    yield Text("")
    rows = sweep_rows(sweep)
    values = len(sweep.paths)
    figures = align_columns([row[values:-1] for row in rows], numbers=len(rows[0]) - values - 1)
    names = align_columns([row[:values] for row in rows])
    width = max(map(len, names))
    for index, (name, cells, row) in enumerate(zip(names, figures, rows, strict=True)):
        style = "bold" if index == 0 else _run_style(sweep, index - 1)
        yield Text(f"{name:<{width}}  {cells}  {row[-1]}".rstrip(), style=style)
    yield from _estimate_notes(*sweep.runs)


def _run_style(sweep: SimulationSweep, number: int) -> str:
    run = sweep.runs[number]
    return "red" if not run.is_success else "dim" if run.dominatedBy else ""
