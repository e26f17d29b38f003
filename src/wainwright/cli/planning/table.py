"""The plan for eyes: a table with colours on a terminal, aligned text in a pipe."""

from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

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

Document = dict[str, Any]
COLOURS = {"reserved": "cyan", "spot": "green", "on-demand": "yellow"}


def show(plan: Document, console: Console) -> None:
    """Nodes, what they cost, where pods of the input go, and who has no place and why."""
    console.print(Group(*_parts(plan)), soft_wrap=False)


def _parts(plan: Document) -> list[RenderableType]:
    summary = plan["summary"]
    parts: list[RenderableType] = []
    if plan["nodeClaims"]:
        parts.append(_nodes(plan))
    nodes, price, fees = (summary[key] for key in ("nodeClaims", "pricePerHour", "feesPerHour"))
    parts.append(Text(cost_line(nodes, price, fees), style="bold"))
    parts.extend(_existing(plan))
    parts.extend(_reservations(summary))
    parts.extend(_packing(summary))
    parts.extend(Text(relaxed_said(each), style="yellow") for each in plan["relaxed"])
    for row in failure_rows(plan["unschedulable"]):
        parts.extend(_failure(row))
    parts.append(Text(f"{summary['scheduled']:,} of {summary['pods']:,} pods have a place"))
    return parts


def _nodes(plan: Document) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("NODES", "POOL", "TYPE", "ZONE", "CAPACITY", "PRICE", "PODS", "OPTIONS"):
        table.add_column(name, justify="right" if name in ("NODES", "PRICE", "PODS") else "left")
    for row in node_rows(plan["nodeClaims"]):
        options = row.claims[0]["options"]["instanceTypes"]
        capacity = f"{row.capacity_type} {row.reservation}".strip()
        table.add_row(
            f"{row.count:,}",
            row.pool,
            row.instance_type,
            row.zone,
            Text(capacity, style=COLOURS.get(row.capacity_type, "")),
            hourly(row.price),
            f"{row.pods:,}",
            "1 type" if len(options) == 1 else f"{len(options):,} types",
        )
    return table


def _existing(plan: Document) -> list[Text]:
    return [Text(arrivals(node, node["name"])) for node in plan["existingNodes"]]


def _reservations(summary: Document) -> list[Text]:
    return [
        Text(f"reservation {use['id']}: {use['used']} of {use['available']} free slots used")
        for use in summary["reservations"]
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
