"""A consolidation for a terminal: the answer first, then commands, what is held back, and the three
figures. Plain text in a pipe; imported only where it is printed, because importing rich takes time.
"""

from collections.abc import Iterator
from typing import Any

from rich.text import Text

from wainwright.cli.plan_table import Console, print_line, printable_text, wrapped_lines
from wainwright.cli.printing import align_columns
from wainwright.messages.formatting import MODELLED_PRICES
from wainwright.report.consolidation_rows import (
    answer,
    answer_notes,
    command_lines,
    figure_rows,
    has_modelled_prices,
    held_rows,
    held_title,
    more_commands,
    shown_commands,
    stay_lines,
)

Document = dict[str, Any]


def print_consolidation(document: Document, console: Console) -> None:
    """Lines wrap on a terminal, but not in a pipe, where a program may read them."""
    for text in _lines(document):
        line = printable_text(text.plain, text.style)
        shown = wrapped_lines(line, console.width) if console.is_terminal else [line]
        for part in shown:
            print_line(console, part)


def _lines(document: Document) -> Iterator[Text]:
    yield Text(answer(document), style="bold")
    yield from (Text(note, style="yellow") for note in answer_notes(document))
    yield from _commands(document)
    if has_modelled_prices(document):
        yield Text(MODELLED_PRICES, style="dim")
    yield from _held(document)
    yield from map(Text, stay_lines(document))
    yield from _figures(document)


def _commands(document: Document) -> Iterator[Text]:
    for command in shown_commands(document["commands"]):
        lines = command_lines(command)
        yield Text(f"{command['step']}. {lines.title}")
        yield from (Text(f"   − {line}", style="red") for line in lines.removed)
        yield from (Text(f"   + {line}", style="green") for line in lines.launched)
        yield from (Text(f"     {line}") for line in lines.moved)
    rest = more_commands(document)
    if rest is not None:
        yield Text(rest)


def _held(document: Document) -> Iterator[Text]:
    rows = held_rows(document)
    if not rows:
        return
    yield Text(held_title(document), style="yellow")
    cells = [(row.what, row.nodes, row.saving) for row in rows]
    yield from (Text(f"  {line}") for line in align_columns(cells, numbers=2))


def _figures(document: Document) -> Iterator[Text]:
    heading, *rows = align_columns(figure_rows(document), numbers=3)
    yield Text(heading, style="bold")
    yield from map(Text, rows)
