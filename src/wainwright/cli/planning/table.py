"""The plan for eyes: a table with colours on a terminal, aligned text in a pipe."""

from collections.abc import Callable
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from wainwright.cli.screen import Console
from wainwright.report.grouped import (
    FailureRow,
    arrivals,
    failure_rows,
    node_rows,
    packing_said,
    relaxed_said,
    some,
)
from wainwright.report.money import cost_line, hourly
from wainwright.report.numbers import counted, placed_said
from wainwright.report.slots import slots_said, usable

Document = dict[str, Any]
WIDEST = 10_000  # of a row
COLOURS = {"reserved": "cyan", "spot": "green", "on-demand": "yellow"}


def show(plan: Document, console: Console, launchable: Callable[[str], int]) -> None:
    """Nodes, what they cost, where pods of the input go, and who has no place and why.

    On a terminal sentences are folded; in a pipe a line is a line, for whatever reads it. A table
    too wide for the window is left to it: a name that is cut is no name. `launchable` says as how
    many types a claim could be launched.
    """
    for part in _parts(plan, launchable):
        if isinstance(part, Table):
            _spread(part, console)
        else:
            console.print(part, soft_wrap=not console.is_terminal)


def _spread(table: Table, console: Console) -> None:
    window = console.width
    console.width = max(window, _width(table, console))
    with console.capture() as captured:
        console.print(table)
    console.width = window
    for line in captured.get().splitlines():
        console.out(line.rstrip(), highlight=False)


def _width(table: Table, console: Console) -> int:
    """What the table takes where nothing is cut."""
    return console.measure(table, options=console.options.update(width=WIDEST)).maximum


def _parts(plan: Document, launchable: Callable[[str], int]) -> list[RenderableType]:
    summary = plan["summary"]
    parts: list[RenderableType] = []
    if plan["nodeClaims"]:
        parts.append(_nodes(plan, launchable))
    nodes, price, fees = (summary[key] for key in ("nodeClaims", "pricePerHour", "feesPerHour"))
    parts.append(Text(cost_line(nodes, price, fees), style="bold"))
    parts.extend(_existing(plan))
    parts.extend(_reservations(summary))
    parts.extend(_packing(summary))
    parts.extend(Text(relaxed_said(each), style="yellow") for each in plan["relaxed"])
    for row in failure_rows(plan["unschedulable"]):
        parts.extend(_failure(row))
    parts.append(Text(placed_said(summary["scheduled"], summary["pods"])))
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
            row.pool,
            row.instance_type,
            row.zone,
            Text(capacity, style=COLOURS.get(row.capacity_type, "")),
            hourly(row.price),
            f"{row.pods:,}",
            counted(launchable(row.claims[0]["name"]), "type"),
        )
    return table


def _existing(plan: Document) -> list[Text]:
    return [Text(arrivals(node, node["name"])) for node in plan["existingNodes"]]


def _reservations(summary: Document) -> list[Text]:
    return [
        Text(f"reservation {use['id']}: {slots_said(use)}")
        for use in usable(summary["reservations"])
    ]


def _packing(summary: Document) -> list[Text]:
    packing = summary["packing"]
    return [] if packing is None else [Text(packing_said(packing))]


def _failure(row: FailureRow) -> list[Text]:
    lines = [Text(f"no place for {some(row.pods)}: {row.reason}", style="red")]
    for pool in row.pools:
        steps = " → ".join(f"{count:,}" for count in pool["funnel"].values())
        lines.append(Text(f"  {pool['nodePool']}: {pool['reason']}  [{steps}]"))
    lines.extend(Text(f"  {said}") for said in row.nodes)
    if row.suggestion:
        lines.append(Text(f"  try: {row.suggestion}", style="cyan"))
    return lines
