"""The plan's table for a terminal, rendered with rich; aligned text in a pipe.
Imported only where a table is printed, because importing rich takes longer than most commands.
"""

from collections.abc import Callable
from typing import Any

import rich.console
from rich.console import RenderableType
from rich.style import Style
from rich.table import Table
from rich.text import Text

from wainwright.messages.formatting import (
    escape_unprintable,
    format_cost,
    format_count,
    format_hourly,
    format_scheduled,
)
from wainwright.report.plan_rows import (
    UnschedulableRow,
    format_node_pods,
    format_packing,
    format_relaxation,
    format_reservation_use,
    node_rows,
    unschedulable_rows,
    usable_reservations,
)


class Console(rich.console.Console):
    """Raises on a closed pipe, which rich would turn into exit code 1."""

    def on_broken_pipe(self) -> None:
        raise  # rich calls this while it handles the error


def printable_text(text: str, style: str | Style = "") -> Text:
    """A line, or a cell, in which no character steers the terminal."""
    return Text(escape_unprintable(text), style=style)


Document = dict[str, Any]
MAX_WIDTH = 10_000  # of a row
COLOURS = {"reserved": "cyan", "spot": "green", "on-demand": "yellow"}


def print_plan(
    plan: Document, console: Console, launchable: Callable[[str], int], *, every: bool = False
) -> None:
    """Prints new nodes, their cost, pods on existing nodes, and the answer for unschedulable pods;
    with `every` also the reason of each NodePool and node.

    Sentences wrap on a terminal, but not in a pipe, where a program may read lines. A table wider
    than the window is not truncated, because names must stay whole. `launchable` gives the number
    of instance types that a claim could be launched as.
    """
    for part in _parts(plan, launchable, every=every):
        if isinstance(part, Table):
            _print_table(part, console)
        else:
            console.print(part, soft_wrap=not console.is_terminal)


def _print_table(table: Table, console: Console) -> None:
    window = console.width
    console.width = max(window, _full_width(table, console))
    with console.capture() as captured:
        console.print(table)
    console.width = window
    for line in captured.get().splitlines():
        console.out(line.rstrip(), highlight=False)


def _full_width(table: Table, console: Console) -> int:
    """The width at which nothing is truncated."""
    return console.measure(table, options=console.options.update(width=MAX_WIDTH)).maximum


def _parts(
    plan: Document, launchable: Callable[[str], int], *, every: bool
) -> list[RenderableType]:
    summary = plan["summary"]
    parts: list[RenderableType] = []
    if plan["nodeClaims"]:
        parts.append(_nodes(plan, launchable))
    nodes, price, fees = (summary[key] for key in ("nodeClaims", "pricePerHour", "feesPerHour"))
    parts.append(printable_text(format_cost(nodes, price, fees), style="bold"))
    parts.extend(_existing(plan))
    parts.extend(_reservations(summary))
    parts.extend(_packing(summary))
    parts.extend(
        printable_text(format_relaxation(each), style="yellow") for each in plan["relaxed"]
    )
    for row in unschedulable_rows(plan["unschedulable"]):
        parts.extend(_failure(row, every=every))
    parts.append(printable_text(format_scheduled(summary["scheduled"], summary["pods"])))
    return parts


def _nodes(plan: Document, launchable: Callable[[str], int]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("NODES", "POOL", "TYPE", "ZONE", "CAPACITY", "PRICE", "PODS", "OPTIONS"):
        number = name in ("NODES", "PRICE", "PODS")
        table.add_column(name, justify="right" if number else "left", no_wrap=True)
    for row in node_rows(plan["nodeClaims"]):
        capacity = f"{row.capacity_type} {row.reservation}".strip()
        table.add_row(
            f"{row.count:,}",
            printable_text(row.pool),
            printable_text(row.instance_type),
            printable_text(row.zone),
            printable_text(capacity, style=COLOURS.get(row.capacity_type, "")),
            format_hourly(row.price),
            f"{row.pods:,}",
            format_count(launchable(row.claims[0]["name"]), "type"),
        )
    return table


def _existing(plan: Document) -> list[Text]:
    return [printable_text(format_node_pods(node, node["name"])) for node in plan["existingNodes"]]


def _reservations(summary: Document) -> list[Text]:
    return [
        printable_text(f"reservation {use['id']}: {format_reservation_use(use)}")
        for use in usable_reservations(summary["reservations"])
    ]


def _packing(summary: Document) -> list[Text]:
    packing = summary["packing"]
    return [] if packing is None else [printable_text(format_packing(packing))]


def _failure(row: UnschedulableRow, *, every: bool) -> list[Text]:
    cause, fix, *others = row.answer.lines()
    lines = [
        printable_text(row.title, style="red"),
        printable_text(f"  {cause}"),
        printable_text(f"  {fix}", style="cyan"),
        *(printable_text(f"  {line}") for line in others),
    ]
    return [*lines, *(printable_text(f"  {line}") for line in (row.details if every else ()))]
