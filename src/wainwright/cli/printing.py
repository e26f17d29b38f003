"""Output of the commands, except the plan's table: JSON, aligned tables, problems, notes.

rich is loaded only for a terminal: in a pipe a command starts without it.
"""

import importlib
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import click
import msgspec

from wainwright.manifests.problems import Problem, ProblemReport


def dump_json(value: Any) -> str:
    """Indented JSON with fields in insertion order.
    The order is documented (the steps of a funnel come in order), so keys are not sorted. Documents
    contain no sets, whose order would vary.
    """
    return msgspec.json.format(msgspec.json.encode(value)).decode()


def show_report(report: ProblemReport, *, word: str = "warning") -> None:
    """Prints all errors, then all warnings, then notes."""
    print_problems(report.errors, word="error", colour="red")
    print_problems(report.warnings, word=word, colour="yellow")
    print_problems(report.notes, word="note", colour="yellow")


def print_problems(problems: Iterable[Problem], *, word: str, colour: str = "yellow") -> None:
    """Prints each problem: place and field, then the message, then the hint."""
    for problem in problems:
        if not problem.file:
            click.echo(click.style(f"{word}: ", fg=colour, bold=True) + problem.message, err=True)
            continue
        field = f": {problem.path}" if problem.path else ""
        click.echo(
            click.style(f"{word}: ", fg=colour, bold=True)
            + click.style(f"{problem.where}{field}", bold=True),
            err=True,
        )
        click.echo(f"    {problem.sentence}", err=True)
        if problem.hint:
            click.echo(click.style(f"    {problem.hint}", fg="cyan"), err=True)


def pluralize(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number:,} {noun}s"


def print_notes(notes: Iterable[str]) -> None:
    """Prints notes on standard error, so that standard output stays machine-readable."""
    for note in notes:
        click.echo(click.style("note: ", fg="yellow", bold=True) + note, err=True)


COLUMN_GAP = "  "
MIN_TEXT_WIDTH = 30  # a column of sentences narrower than this cannot be read


def print_table(
    headings: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: int = 0
) -> None:
    """Print a table; its last `numbers` columns are right-aligned."""
    if sys.stdout.isatty():
        _print_rich_table(headings, rows, numbers)
    else:
        for line in align_columns([headings, *rows], numbers):
            click.echo(line)


def align_columns(rows: Sequence[Sequence[str]], numbers: int = 0) -> list[str]:
    """Each row as a line with aligned columns."""
    count = max(map(len, rows), default=0)
    widths = [max(len(row[column]) for row in rows) for column in range(count)]
    first_number = count - numbers
    return [
        COLUMN_GAP.join(
            cell.rjust(width) if column >= first_number else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _print_rich_table(headings: Sequence[str], rows: Sequence[Sequence[str]], numbers: int) -> None:
    """Columns keep their full width also in a narrow window; only a last text column wraps."""
    table = importlib.import_module("rich.table").Table(
        box=None, header_style="bold", pad_edge=False
    )
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    folding = len(headings) - 1 if not numbers else len(headings)
    for column, (heading, width) in enumerate(zip(headings, widths, strict=True)):
        justify = "right" if column >= len(headings) - numbers else "left"
        if column == folding:
            table.add_column(heading, overflow="fold")
        else:
            table.add_column(heading, justify=justify, no_wrap=True, min_width=width)
    for row in rows:
        table.add_row(*row)
    console = importlib.import_module("wainwright.cli.plan_table").Console(
        markup=False, highlight=False
    )
    fixed = sum(widths[:folding]) + len(COLUMN_GAP) * len(widths)
    needed = fixed + (min(widths[-1], MIN_TEXT_WIDTH) if folding < len(widths) else 0)
    console.width = max(console.width, needed)
    console.print(table)
