"""Tables: with lines and colours on a terminal, plain and aligned in a pipe."""

import importlib
import sys
from collections.abc import Sequence

import click

GAP = "  "


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
    table = importlib.import_module("rich.table").Table(
        box=None, header_style="bold", pad_edge=False
    )
    for column, heading in enumerate(headings):
        right = column >= len(headings) - numbers
        table.add_column(heading, justify="right" if right else "left", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    importlib.import_module("rich.console").Console(markup=False, highlight=False).print(table)
