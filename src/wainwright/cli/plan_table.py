"""The plan's table for a terminal, rendered with rich; aligned text in a pipe.
Imported only where a table is printed, because importing rich takes longer than most commands.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import rich.console
from rich.style import Style
from rich.text import Text

from wainwright.cli.printing import join_cells, lay_out_table, stack_columns, wrap_line
from wainwright.messages.formatting import (
    escape_unprintable,
    format_cost,
    format_count,
    format_scheduled,
)
from wainwright.report.plan_rows import (
    RESERVATION_HEADINGS,
    NodeRow,
    UnschedulableRow,
    format_node_pods,
    format_packing,
    format_relaxation,
    funnel_legend,
    node_rows,
    price_notes,
    reservation_counts,
    unschedulable_rows,
    usable_reservations,
)


class Console(rich.console.Console):
    """Raises on a closed pipe, which rich would turn into exit code 1."""

    def on_broken_pipe(self) -> None:
        raise  # rich calls this while it handles the error


def print_line(console: Console, line: Text) -> None:
    """In a pipe as it is: rich takes a hundred times as long, to no effect."""
    if console.is_terminal:
        console.print(line, soft_wrap=True)
    else:
        console.file.write(f"{line.plain}\n")


def wrapped_lines(line: Text, width: int) -> list[Text]:
    """What does not fit continues below, further to the right; names stay whole."""
    return [Text(part, style=line.style) for part in wrap_line(line.plain, width)]


def printable_text(text: str, style: str | Style = "") -> Text:
    """A line, or a cell, in which no character steers the terminal."""
    return Text(escape_unprintable(text), style=style)


Document = dict[str, Any]
UNLIMITED_WIDTH: Final = 10_000  # in a pipe, where a program may read lines
COLOURS = {"reserved": "cyan", "spot": "green", "on-demand": "yellow"}


def print_plan(
    plan: Document, console: Console, launchable: Callable[[str], int], *, every: bool = False
) -> None:
    """Prints new nodes, their cost, pods on existing nodes, and the answer for unschedulable pods;
    with `every` also the reason of each NodePool and node.

    Sentences wrap on a terminal, but not in a pipe. A table that is wider than the window goes on
    below with its last columns, so that no cell is broken. `launchable` gives the number of
    instance types that a claim could be launched as.
    """
    limit = console.width if console.is_terminal else UNLIMITED_WIDTH
    for line in _node_table(plan, launchable, limit):
        print_line(console, line)
    for part in _parts(plan, limit, every=every):
        for line in wrapped_lines(part, limit) if len(part.plain) > limit else [part]:
            print_line(console, line)
    console.file.flush()  # notes on standard error come after the plan, also in one pipe


def _parts(plan: Document, limit: int, *, every: bool) -> list[Text]:
    summary = plan["summary"]
    nodes, price, fees = (summary[key] for key in ("nodeClaims", "pricePerHour", "feesPerHour"))
    modelled = summary["modelledPrices"]
    cost = format_cost(nodes, price, fees, modelled=modelled)
    parts = [printable_text(cost, style="bold")]
    parts += [printable_text(note, style="dim") for note in price_notes(plan)]
    parts.extend(_existing(plan))
    parts.extend(_reservations(summary, limit))
    parts.extend(_packing(summary))
    parts.extend(
        printable_text(format_relaxation(each, modelled=modelled), style="yellow")
        for each in plan["relaxed"]
    )
    failures = unschedulable_rows(plan["unschedulable"])
    for row in failures:
        parts.extend(_failure(row, every=every))
    parts.extend(printable_text(line) for line in (funnel_legend(failures) if every else ()))
    parts.append(printable_text(format_scheduled(summary["scheduled"], summary["pods"])))
    return parts


NODE_HEADINGS: Final = (
    "NODES",
    "POOL",
    "TYPE",
    "ZONE",
    "CAPACITY",
    "EACH",
    "TOTAL",
    "PODS",
    "CPU",
    "MEMORY",
    "OPTIONS",
)
NODE_NUMBERS: Final = frozenset({0, 5, 6, 7, 8, 9})
CAPACITY_COLUMN: Final = NODE_HEADINGS.index("CAPACITY")


def _node_table(plan: Document, launchable: Callable[[str], int], limit: int) -> Iterator[Text]:
    rows = node_rows(plan["nodeClaims"])
    if not rows:
        return
    cells = [[escape_unprintable(cell) for cell in _node_cells(row, launchable)] for row in rows]
    lines = lay_out_table([NODE_HEADINGS, *cells], NODE_NUMBERS, limit)
    styles: list[str | Style] = [Style(bold=True)]
    styles += [COLOURS.get(row.capacity_type, "") for row in rows]
    per_row = len(stack_columns(_widths([NODE_HEADINGS, *cells]), limit))
    for number, line in enumerate(lines):
        yield _styled_line(line, styles[number // per_row], is_heading=number < per_row)


def _widths(rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(len, column)) for column in zip(*rows, strict=True)]


def _node_cells(row: NodeRow, launchable: Callable[[str], int]) -> tuple[str, ...]:
    return (
        f"{row.count:,}",
        row.pool,
        row.instance_type,
        row.zone,
        f"{row.capacity_type} {row.reservation}".strip(),
        row.each,
        row.total,
        f"{row.pods:,}",
        row.utilization("cpu"),
        row.utilization("memory"),
        format_count(launchable(row.claims[0]["name"]), "type"),
    )


def _styled_line(cells: Sequence[tuple[int, str]], style: str | Style, *, is_heading: bool) -> Text:
    """The heading in bold; of a row the capacity type in its colour."""
    if is_heading:
        return Text(join_cells(cells), style=style)
    line = Text(join_cells(cells))
    for column, text in cells:
        if column == CAPACITY_COLUMN and style:
            start = line.plain.index(text.strip())
            line.stylize(style, start, start + len(text.strip()))
    return line


def _existing(plan: Document) -> list[Text]:
    return [printable_text(format_node_pods(node, node["name"])) for node in plan["existingNodes"]]


def _reservations(summary: Document, limit: int) -> Iterator[Text]:
    uses = usable_reservations(summary["reservations"])
    if not uses:
        return
    rows = [(escape_unprintable(use["id"]), *reservation_counts(use)) for use in uses]
    numbers = frozenset(range(1, len(RESERVATION_HEADINGS)))
    lines = lay_out_table([RESERVATION_HEADINGS, *rows], numbers, limit)
    for number, line in enumerate(lines):
        yield Text(join_cells(line), style=Style(bold=not number))


def _packing(summary: Document) -> list[Text]:
    packing = summary["packing"]
    return [] if packing is None else [printable_text(format_packing(summary))]


def _failure(row: UnschedulableRow, *, every: bool) -> list[Text]:
    cause, fix, *others = row.answer.lines()
    lines = [
        printable_text(row.title, style="red"),
        printable_text(f"  {cause}"),
        printable_text(f"  {fix}", style="cyan"),
        *(printable_text(f"  {line}") for line in others),
    ]
    return [*lines, *(printable_text(f"  {line}") for line in (row.details if every else ()))]
