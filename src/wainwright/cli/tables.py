"""Tables: with lines and colours on a terminal, plain and aligned in a pipe."""

import importlib
import sys
from collections.abc import Sequence

import click

GAP = "  "
LEAST_WORDS = 30  # a column of sentences narrower than this cannot be read


def show_table(headings: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: int = 0) -> None:
    """Print a table; its last so many columns are numbers, and end at the right."""
    if sys.stdout.isatty():
        _rich(headings, rows, numbers)
    else:
        for line in aligned([headings, *rows], numbers):
            click.echo(line)


def aligned(rows: Sequence[Sequence[str]], numbers: int = 0) -> list[str]:
    """Each row as a line whose columns stand below each other."""
    count = max(map(len, rows), default=0)
    widths = [max(len(row[column]) for row in rows) for column in range(count)]
    first_number = count - numbers
    return [
        GAP.join(
            cell.rjust(width) if column >= first_number else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _rich(headings: Sequence[str], rows: Sequence[Sequence[str]], numbers: int) -> None:
    """Columns as wide as they need, in a window too narrow as well; only words at the end fold."""
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
    console = importlib.import_module("wainwright.cli.screen").Console(
        markup=False, highlight=False
    )
    fixed = sum(widths[:folding]) + len(GAP) * len(widths)
    needed = fixed + (min(widths[-1], LEAST_WORDS) if folding < len(widths) else 0)
    console.width = max(console.width, needed)
    console.print(table)
