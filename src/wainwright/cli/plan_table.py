"""The plan's table for a terminal, rendered with rich; aligned text in a pipe.
Imported only where a table is printed, because importing rich takes longer than most commands.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import rich.console
from rich.cells import cell_len
from rich.style import Style
from rich.text import Text

from wainwright.messages.formatting import (
    escape_unprintable,
    format_cost,
    format_count,
    format_hourly,
    format_scheduled,
    join_first,
)
from wainwright.report.plan_rows import (
    NodeRow,
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


def print_line(console: Console, line: Text, *, wraps: bool = False) -> None:
    """In a pipe as it is: rich takes a hundred times as long, to no effect."""
    if console.is_terminal:
        console.print(line, soft_wrap=not wraps)
    else:
        console.file.write(f"{line.plain}\n")


def printable_text(text: str, style: str | Style = "") -> Text:
    """A line, or a cell, in which no character steers the terminal."""
    return Text(escape_unprintable(text), style=style)


Document = dict[str, Any]
COLOURS = {"reserved": "cyan", "spot": "green", "on-demand": "yellow"}


def print_plan(plan: Document, console: Console, launchable: Callable[[str], int]) -> None:
    """Prints new nodes, their cost, pods on existing nodes, and unschedulable pods with reasons.

    Sentences wrap on a terminal, but not in a pipe, where a program may read lines. A table wider
    than the window is not truncated, because names must stay whole. `launchable` gives the number
    of instance types that a claim could be launched as.
    """
    if plan["nodeClaims"]:
        for line in _node_lines(plan, launchable):
            print_line(console, line)
    for line in _sentences(plan):
        print_line(console, line, wraps=True)


def _sentences(plan: Document) -> Iterator[Text]:
    summary = plan["summary"]
    nodes, price, fees = (summary[key] for key in ("nodeClaims", "pricePerHour", "feesPerHour"))
    yield printable_text(format_cost(nodes, price, fees), style="bold")
    yield from _existing(plan)
    yield from _reservations(summary)
    yield from _packing(summary)
    for each in plan["relaxed"]:
        yield printable_text(format_relaxation(each), style="yellow")
    for row in unschedulable_rows(plan["unschedulable"]):
        yield from _failure(row)
    yield printable_text(format_scheduled(summary["scheduled"], summary["pods"]))


HEADINGS = ("NODES", "POOL", "TYPE", "ZONE", "CAPACITY", "PRICE", "PODS", "OPTIONS")
RIGHT_ALIGNED = frozenset({"NODES", "PRICE", "PODS"})
COLUMN_GAP = "  "


def _node_lines(plan: Document, launchable: Callable[[str], int]) -> Iterator[Text]:
    """The table of new nodes, as wide as its cells."""
    rows = node_rows(plan["nodeClaims"])
    cells = [[escape_unprintable(cell) for cell in _node_cells(row, launchable)] for row in rows]
    widths = [max(map(cell_len, column)) for column in zip(HEADINGS, *cells, strict=True)]
    yield _aligned(HEADINGS, widths, dict.fromkeys(HEADINGS, "bold"))
    for row, texts in zip(rows, cells, strict=True):
        yield _aligned(texts, widths, {"CAPACITY": COLOURS.get(row.capacity_type, "")})


def _node_cells(row: NodeRow, launchable: Callable[[str], int]) -> tuple[str, ...]:
    return (
        f"{row.count:,}",
        *(row.pool, row.instance_type, row.zone),
        f"{row.capacity_type} {row.reservation}".strip(),
        format_hourly(row.price),
        f"{row.pods:,}",
        format_count(launchable(row.claims[0]["name"]), "type"),
    )


def _aligned(cells: Sequence[str], widths: Sequence[int], styles: Mapping[str, str]) -> Text:
    """One row; the last column needs no filling."""
    line = Text()
    for heading, cell, width in zip(HEADINGS, cells, widths, strict=True):
        filling = " " * (width - cell_len(cell))
        line.append(filling if heading in RIGHT_ALIGNED else "")
        line.append(cell, styles.get(heading, ""))
        line.append("" if heading in RIGHT_ALIGNED else filling)
        line.append(COLUMN_GAP)
    line.rstrip()
    return line


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


def _failure(row: UnschedulableRow) -> list[Text]:
    lines = [printable_text(f"no place for {join_first(row.pods)}: {row.reason}", style="red")]
    for pool in row.pools:
        steps = " → ".join(f"{count:,}" for count in pool["funnel"].values())
        lines.append(printable_text(f"  {pool['nodePool']}: {pool['reason']}  [{steps}]"))
    lines.extend(printable_text(f"  {node_reason}") for node_reason in row.nodes)
    if row.suggestion:
        lines.append(printable_text(f"  try: {row.suggestion}", style="cyan"))
    return lines
