"""Output of the commands, except the plan's table: JSON, aligned tables, problems, notes.

Everything printed may have names, keys and file names of the input in it: lines are escaped here
(`escape_unprintable`), and no command prints past this module and `plan_table.Console`.

rich is loaded only for a terminal: in a pipe a command starts without it.
"""

import importlib
import sys
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from textwrap import wrap
from typing import Any, Final, TextIO

import click

from wainwright.manifests.problems import Problem, ProblemReport
from wainwright.manifests.yaml_writer import UNPRINTABLE, dump_yaml
from wainwright.messages.formatting import escape_unprintable
from wainwright.report.json_text import dump_json, escape_json


def echo(text: str = "", *, err: bool = False) -> None:
    """Prints one line."""
    click.echo(escape_unprintable(text), err=err)


def echo_lines(lines: Iterable[str]) -> None:
    """Sentences; on a terminal they wrap between words."""
    for line in lines:
        for part in _fitted(escape_unprintable(line), sys.stdout):
            click.echo(part)


HANGING_INDENT: Final = 4


def wrap_line(text: str, width: int) -> list[str]:
    """What does not fit continues below, further to the right; names stay whole."""
    indent = " " * (len(text) - len(text.lstrip()) + HANGING_INDENT)
    parts = wrap(
        text,
        width,
        subsequent_indent=indent,
        drop_whitespace=False,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [part.rstrip() for part in parts] or [""]


def _fitted(text: str, stream: TextIO) -> list[str]:
    """In a pipe as it is: a program may read lines."""
    if not stream.isatty():
        return [text]
    from shutil import get_terminal_size  # loads bz2 and lzma: 2 ms that a pipe does not need

    return wrap_line(text, get_terminal_size().columns)


def echo_json(value: Any) -> None:
    click.echo(dump_json(value))


def echo_json_text(text: str) -> None:
    """Prints JSON that is text already and ends with a line break."""
    click.echo(escape_json(text), nl=False)


def echo_yaml(*documents: Any) -> None:
    click.echo(dump_yaml(*documents), nl=False)


def echo_text(text: str) -> None:
    """Prints text of several lines that ends with a line break."""
    click.echo(text if not UNPRINTABLE.search(text) else _escape_lines(text), nl=False)


def _escape_lines(text: str) -> str:
    return "\n".join(map(escape_unprintable, text.split("\n")))


def show_report(report: ProblemReport, *, word: str = "warning", err: bool = True) -> None:
    """Prints notes, then warnings, then errors: what must be dealt with first is read first, at the
    end of the screen. Errors and warnings go to standard error unless they are what the command was
    asked for; notes always.
    """
    print_problems(report.notes, word="note", colour="yellow")
    print_problems(report.warnings, word=word, colour="yellow", err=err)
    print_problems(report.errors, word="error", colour="red", err=err)


def print_problems(
    problems: Iterable[Problem], *, word: str, colour: str = "yellow", err: bool = True
) -> None:
    """Prints each problem: place and field, then the message, then the hint."""
    for problem in problems:
        if not problem.file:
            _echo_labelled(word, problem.message, colour=colour, err=err)
            continue
        field = f": {problem.path}" if problem.path else ""
        click.echo(
            _styled(f"{word}: ", fg=colour, bold=True)
            + _styled(f"{problem.where}{field}", bold=True),
            err=err,
        )
        stream = sys.stderr if err else sys.stdout
        for line in _fitted(f"    {escape_unprintable(problem.sentence)}", stream):
            click.echo(line, err=err)
        for line in _fitted(f"    {problem.hint}", stream) if problem.hint else ():
            click.echo(_styled(line, fg="cyan"), err=err)


def _styled(text: str, **style: Any) -> str:
    return click.style(escape_unprintable(text), **style)


def pluralize(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number:,} {noun}s"


def print_notes(notes: Iterable[str]) -> None:
    """Prints notes on standard error, so that standard output stays machine-readable."""
    for note in notes:
        _echo_labelled("note", note, colour="yellow", err=True)


def _echo_labelled(word: str, message: str, *, colour: str, err: bool) -> None:
    """note: the message, which wraps on a terminal."""
    stream = sys.stderr if err else sys.stdout
    first, *more = _fitted(f"{word}: {escape_unprintable(message)}", stream)
    label = _styled(f"{word}: ", fg=colour, bold=True)
    for line in (label + first[len(word) + 2 :], *more):
        click.echo(line, err=err)


COLUMN_GAP = "  "
MIN_TEXT_WIDTH = 30  # a column of sentences narrower than this cannot be read


def print_table(
    headings: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: int = 0
) -> None:
    """Print a table; its last `numbers` columns are right-aligned."""
    rows = [[escape_unprintable(cell) for cell in row] for row in rows]
    if sys.stdout.isatty():
        _print_rich_table(headings, rows, numbers)
    else:
        for line in align_columns([headings, *rows], numbers):
            click.echo(line)


def align_columns(rows: Sequence[Sequence[str]], numbers: int = 0) -> list[str]:
    """Each row as a line with aligned columns."""
    rows = [[escape_unprintable(cell) for cell in row] for row in rows]
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


CONTINUATION: Final = "    "  # before columns that did not fit on the line above


def stack_columns(widths: Sequence[int], limit: int) -> list[list[int]]:
    """Columns by line: those that do not fit within the limit go on below, none is broken."""
    lines: list[list[int]] = [[]]
    used = 0
    for column, width in enumerate(widths):
        needed = used + width + (len(COLUMN_GAP) if lines[-1] else 0)
        if lines[-1] and needed > limit:
            lines.append([])
            needed = len(CONTINUATION) + width
        lines[-1].append(column)
        used = needed
    return lines


def lay_out_table(
    rows: Sequence[Sequence[str]], numbers: AbstractSet[int], limit: int
) -> Iterator[list[tuple[int, str]]]:
    """Lines of padded cells with the number of their column, as many for each row as it needs."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        for line in stack_columns(widths, limit):
            yield [
                (
                    column,
                    row[column].rjust(widths[column])
                    if column in numbers
                    else row[column].ljust(widths[column]),
                )
                for column in line
            ]


def join_cells(cells: Sequence[tuple[int, str]]) -> str:
    """A line of a table; one that goes on with later columns is indented."""
    indent = "" if cells[0][0] == 0 else CONTINUATION
    return (indent + COLUMN_GAP.join(text for _, text in cells)).rstrip()


def _print_rich_table(headings: Sequence[str], rows: Sequence[Sequence[str]], numbers: int) -> None:
    """Columns keep their full width also in a narrow window, where the last ones go on below; only
    a last text column wraps.
    """
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
    if needed <= console.width:
        console.print(table)
        return
    right = set(range(len(headings) - numbers, len(headings)))
    for cells in lay_out_table([headings, *rows], right, console.width):
        click.echo(join_cells(cells))
