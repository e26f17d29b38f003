"""The plan as Markdown, for a comment on a pull request."""

from collections.abc import Sequence
from typing import Any

from wainwright.messages.formatting import (
    escape_unprintable,
    format_cost,
    format_hourly,
    format_scheduled,
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
        lines.append(f"**{row.title}**")
        lines.append("")
        lines.extend(f"- {line}" for line in row.answer.lines())
        lines.append("")
        lines.extend(details("Every NodePool and node", row.details))
    return lines


def details(title: str, lines: Sequence[str]) -> list[str]:
    """A list that is folded until somebody opens it."""
    if not lines:
        return []
    listed = [f"- {line}" for line in lines]
    return [f"<details><summary>{title}</summary>", "", *listed, "", "</details>", ""]


def _relaxed(plan: Document) -> list[str]:
    rows = [f"- {format_relaxation(each)}" for each in plan["relaxed"]]
    return [*rows, ""] if rows else []


def _warnings(plan: Document) -> list[str]:
    return [f"> - {warning}" for warning in plan["warnings"]]
