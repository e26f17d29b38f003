"""The plan as Markdown, for a comment on a pull request."""

from collections.abc import Sequence
from typing import Any

from wainwright.messages.formatting import (
    escape_unprintable,
    format_cost,
    format_count,
    format_scheduled,
)
from wainwright.report.plan_rows import (
    RESERVATION_HEADINGS,
    format_node_pods,
    format_packing,
    format_relaxation,
    node_rows,
    price_notes,
    reservation_counts,
    unschedulable_rows,
    usable_reservations,
)

Document = dict[str, Any]


def render_markdown(plan: Document) -> str:
    """The verdict and the cost first; what few readers need is folded."""
    lines = [
        f"**{_verdict(plan)}** — {_cost(plan)}",
        "",
        *_failures(plan),
        *_nodes(plan),
        *_reservations(plan["summary"]),
        *_packing(plan["summary"]),
        *details("Pods on existing nodes", _existing(plan)),
        *details("Preferences relaxed", _relaxed(plan)),
        *details("Notes", plan["warnings"]),
    ]
    return "\n".join(map(escape_unprintable, lines)).rstrip() + "\n"


def _verdict(plan: Document) -> str:
    summary = plan["summary"]
    unscheduled = summary["pods"] - summary["scheduled"]
    if not unscheduled:
        return format_scheduled(summary["scheduled"], summary["pods"])
    are = "is" if unscheduled == 1 else "are"
    return f"{unscheduled:,} of {format_count(summary['pods'], 'pod')} {are} unschedulable"


def _cost(plan: Document) -> str:
    summary = plan["summary"]
    nodes, price, fees = (summary[key] for key in ("nodeClaims", "pricePerHour", "feesPerHour"))
    return format_cost(nodes, price, fees, modelled=summary["modelledPrices"])


def _packing(summary: Document) -> list[str]:
    packing = summary["packing"]
    return [] if packing is None else [format_packing(summary), ""]


def _relaxed(plan: Document) -> list[str]:
    modelled = plan["summary"]["modelledPrices"]
    return [format_relaxation(each, modelled=modelled) for each in plan["relaxed"]]


def _nodes(plan: Document) -> list[str]:
    """A table for each NodePool would repeat its head: one table, with the pool first."""
    rows = [
        f"| {row.pool} | {row.count:,} | `{row.instance_type}` | {row.zone} | "
        f"{f'{row.capacity_type} {row.reservation}'.strip()} | {row.each} | {row.total} | "
        f"{row.pods:,} | {row.utilization('cpu')} | {row.utilization('memory')} |"
        for row in sorted(node_rows(plan["nodeClaims"]), key=lambda row: row.pool)
    ]
    head = (
        "| pool | nodes | type | zone | capacity | each | total | pods | cpu | memory |",
        "|---|--:|---|---|---|--:|--:|--:|--:|--:|",
    )
    notes = [line for note in price_notes(plan) for line in (note, "")]
    return [*head, *rows, "", *notes] if rows else notes


def _existing(plan: Document) -> list[str]:
    return [format_node_pods(node, f"`{node['name']}`") for node in plan["existingNodes"]]


def _reservations(summary: Document) -> list[str]:
    rows = [
        f"| `{use['id']}` | {' | '.join(reservation_counts(use))} |"
        for use in usable_reservations(summary["reservations"])
    ]
    head = (
        f"| {' | '.join(RESERVATION_HEADINGS).lower()} |",
        "|---|--:|--:|--:|--:|--:|",
    )
    return [*head, *rows, ""] if rows else []


def _failures(plan: Document) -> list[str]:
    lines: list[str] = []
    for row in unschedulable_rows(plan["unschedulable"]):
        lines.append(f"**{row.title}**")
        lines.append("")
        lines.extend(f"- {line}" for line in row.answer.lines())
        lines.append("")
        lines.extend(details("Every NodePool and node", row.details_with_legend))
    return lines


def details(title: str, lines: Sequence[str]) -> list[str]:
    """A list that is folded until somebody opens it."""
    if not lines:
        return []
    listed = [f"- {line}" for line in lines]
    return [f"<details><summary>{title}</summary>", "", *listed, "", "</details>", ""]
