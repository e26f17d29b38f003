"""The plan as Markdown, for a comment on a pull request."""

from typing import Any

from wainwright.messages.formatting import (
    escape_unprintable,
    format_cost,
    format_hourly,
    format_scheduled,
    join_first,
)
from wainwright.report.plan_rows import (
    format_node_pods,
    format_packing,
    format_relaxation,
    node_rows,
    unschedulable_rows,
    usable_reservations,
)

Document = dict[str, Any]


def render_markdown(plan: Document) -> str:
    summary = plan["summary"]
    nodes, price, fees = (summary[key] for key in ("nodeClaims", "pricePerHour", "feesPerHour"))
    lines = [
        f"**{format_cost(nodes, price, fees)}** — "
        f"{format_scheduled(summary['scheduled'], summary['pods'])}",
        "",
        *_nodes(plan),
        *_existing(plan),
        *_reservations(summary),
        *_packing(summary),
        *_failures(plan),
        *_relaxed(plan),
        *_warnings(plan),
    ]
    return "\n".join(map(escape_unprintable, lines)).rstrip() + "\n"


def _packing(summary: Document) -> list[str]:
    packing = summary["packing"]
    return [] if packing is None else [format_packing(packing), ""]


def _nodes(plan: Document) -> list[str]:
    rows = [
        f"| {row.count:,} | {row.pool} | `{row.instance_type}` | {row.zone} | "
        f"{row.capacity_type} {row.reservation} | {format_hourly(row.price)} | {row.pods:,} |"
        for row in node_rows(plan["nodeClaims"])
    ]
    head = (
        "| nodes | pool | type | zone | capacity | price | pods |",
        "|--:|---|---|---|---|--:|--:|",
    )
    return [*head, *rows, ""] if rows else []


def _existing(plan: Document) -> list[str]:
    rows = ["- " + format_node_pods(node, f"`{node['name']}`") for node in plan["existingNodes"]]
    return [*rows, ""] if rows else []


def _reservations(summary: Document) -> list[str]:
    rows = [
        f"| `{use['id']}` | {use['total']} | {use['available']} | {use['promised']} | "
        f"{use['used']} |"
        for use in usable_reservations(summary["reservations"])
    ]
    head = ("| reservation | total | free | promised | used |", "|---|--:|--:|--:|--:|")
    return [*head, *rows, ""] if rows else []


def _failures(plan: Document) -> list[str]:
    lines: list[str] = []
    for row in unschedulable_rows(plan["unschedulable"]):
        lines.append(f"**No place for {join_first(row.pods)}**: {row.reason}")
        lines.extend(f"- {pool['nodePool']}: {pool['reason']}" for pool in row.pools)
        lines.extend(f"- {node_reason}" for node_reason in row.nodes)
        if row.suggestion:
            lines.append(f"- try: {row.suggestion}")
        lines.append("")
    return lines


def _relaxed(plan: Document) -> list[str]:
    rows = [f"- {format_relaxation(each)}" for each in plan["relaxed"]]
    return [*rows, ""] if rows else []


def _warnings(plan: Document) -> list[str]:
    return [f"> - {warning}" for warning in plan["warnings"]]
