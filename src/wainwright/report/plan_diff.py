"""The difference of two plans: nodes, price, pods that become schedulable or unschedulable."""

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from wainwright.messages.formatting import (
    HOURS_PER_MONTH,
    format_count,
    format_hourly,
    format_monthly,
    join_first,
)
from wainwright.report.drift_preview import NO_DRIFT, drift_lines
from wainwright.report.plan_rows import node_rows, unschedulable_rows

Document = dict[str, Any]
NodeGroup = tuple[str, ...]
"""Pool, instance type, zone, capacity type and reservation, which equal nodes share."""

SMALLEST_CHANGE: Final = 0.01
NO_CHANGE, LOSS, OTHER_CHANGE = 0, 1, 3


def diff_plans(old: Document, new: Document, drift: Document = NO_DRIFT) -> Document:
    """The PlanDiff document: changed nodes, prices and pods, and nodes that drift."""
    before, after = _scheduled_pods(old), _scheduled_pods(new)
    other_reasons = _pods_with_other_reasons(old, new)
    explained = {pod for pod in after if not after[pod] and before.get(pod, True)} | {
        *other_reasons
    }
    return {
        "apiVersion": "wainwright.dev/v1alpha1",
        "kind": "PlanDiff",
        "pricePerHour": _change(old, new, "pricePerHour"),
        "feesPerHour": _change(old, new, "feesPerHour"),
        "nodes": _node_changes(old, new),
        "pods": {
            "gained": sorted(pod for pod in after if after[pod] and before.get(pod) is False),
            "lost": sorted(pod for pod in before if before[pod] and after.get(pod) is False),
            "added": sorted(pod for pod in after if pod not in before),
            "removed": sorted(pod for pod in before if pod not in after),
            "otherwise": other_reasons,
            "withoutPlace": sorted(pod for pod in after if not after[pod]),
        },
        "unschedulable": [row for row in new["unschedulable"] if row["pod"] in explained],
        "drift": drift,
    }


def _change(old: Document, new: Document, field: str) -> dict[str, float]:
    before, after = old["summary"][field], new["summary"][field]
    return {"old": before, "new": after, "change": after - before}


def _scheduled_pods(plan: Document) -> dict[str, bool]:
    """Every pod of the plan, and whether it is scheduled."""
    nodes = [*plan["nodeClaims"], *plan["existingNodes"]]
    placed = {pod: True for node in nodes for pod in node["pods"]}
    return placed | {row["pod"]: False for row in plan["unschedulable"]}


def _pods_with_other_reasons(old: Document, new: Document) -> list[str]:
    """Pods that are unschedulable in both plans, for different reasons."""
    before, after = _reasons_by_pod(old), _reasons_by_pod(new)
    return sorted(pod for pod in after if before.get(pod, after[pod]) != after[pod])


def _reasons_by_pod(plan: Document) -> dict[str, tuple[str, ...]]:
    """The reasons by pod; the funnel's counts are not part of a reason."""
    return {
        row["pod"]: (row["reason"], *(f"{p['nodePool']}: {p['reason']}" for p in row["pools"]))
        for row in plan["unschedulable"]
    }


def _node_changes(old: Document, new: Document) -> list[Document]:
    before, after = _count_nodes(old), _count_nodes(new)
    rows = [
        {**dict(zip(NODE_FIELDS, node, strict=True)), "old": before[node], "new": after[node]}
        for node in sorted({*before, *after})
    ]
    return [row for row in rows if row["old"] != row["new"]]


NODE_FIELDS = ("nodePool", "instanceType", "zone", "capacityType", "reservationID")


def _count_nodes(plan: Document) -> Counter[NodeGroup]:
    counts: Counter[NodeGroup] = Counter()
    for row in node_rows(plan["nodeClaims"]):
        key = (row.pool, row.instance_type, row.zone, row.capacity_type, row.reservation)
        counts[key] += row.count
    return counts


def diff_exit_code(diff: Document) -> int:
    """The exit code; 1, on which a CI job fails, where a pod became unschedulable."""
    if diff["pods"]["lost"]:
        return LOSS
    cost_changed = any(_is_noticeable(diff[key]) for key in ("pricePerHour", "feesPerHour"))
    pods_changed = any(diff["pods"][key] for key in ("gained", "added", "removed", "otherwise"))
    others = (cost_changed, pods_changed, diff["nodes"], diff["drift"]["nodes"])
    return OTHER_CHANGE if any(others) else NO_CHANGE


def _is_noticeable(change: Document) -> bool:
    """Whether it is a cent a month or more, unlike the nominal price of a reserved instance."""
    return abs(float(change["change"])) * HOURS_PER_MONTH >= SMALLEST_CHANGE / 2


def diff_lines(diff: Document, bullet: str = "", *, every: bool = False) -> list[str]:
    """The difference as lines; answers for unschedulable pods are indented below, with the reasons
    of all NodePools and nodes if these are wanted.
    """
    lines = [bullet + _node_line(row) for row in diff["nodes"]]
    lines += [bullet + line for line in _pod_lines(diff["pods"])]
    reasons = _reason_lines(diff["unschedulable"], every=every)
    lines += ["  " * depth + bullet + line for depth, line in reasons]
    price, fees = diff["pricePerHour"], diff["feesPerHour"]
    lines += [f"{bullet}{_price_line(price, 'becomes')}"] if _is_noticeable(price) else []
    lines += [f"{bullet}fees: {_price_line(fees, 'become')}"] if _is_noticeable(fees) else []
    lines += ["  " * depth + bullet + line for depth, line in drift_lines(diff["drift"])]
    return lines or [f"{bullet}nothing changes"]


def _pod_lines(pods: Document) -> Iterator[str]:
    unscheduled = set(pods["withoutPlace"])
    groups = {
        ("becomes unschedulable", "become unschedulable"): pods["lost"],
        ("is new and unschedulable", "are new and unschedulable"): [
            pod for pod in pods["added"] if pod in unscheduled
        ],
        ("becomes schedulable", "become schedulable"): pods["gained"],
        ("is new", "are new"): [pod for pod in pods["added"] if pod not in unscheduled],
        ("is gone", "are gone"): pods["removed"],
        (
            "is still unschedulable, but for another reason",
            "are still unschedulable, but for other reasons",
        ): pods["otherwise"],
    }
    for (singular, plural), names in groups.items():
        if names:
            text = singular if len(names) == 1 else plural
            yield f"{format_count(len(names), 'pod')} {text}: {join_first(names)}"


def _reason_lines(rows: list[Document], *, every: bool) -> Iterator[tuple[int, str]]:
    """Indentation and text of the answers for newly unschedulable pods."""
    for row in unschedulable_rows(rows):
        yield 1, row.title
        yield from ((2, line) for line in row.answer.lines())
        yield from ((2, line) for line in (row.details if every else ()))


def _price_line(change: Document, becomes: str) -> str:
    sign = "+" if change["change"] > 0 else "−"
    amount = abs(change["change"])
    old, new = format_hourly(change["old"]), format_hourly(change["new"])
    if old == new:
        return f"{old} {becomes.replace('become', 'change')} by {sign}{format_monthly(amount)}"
    return f"{old} {becomes} {new}: {sign}{format_hourly(amount)}, {sign}{format_monthly(amount)}"


def _node_line(row: Document) -> str:
    what = " ".join(str(row[field]) for field in NODE_FIELDS if row[field])
    noun = "node" if row["new"] == 1 else "nodes"
    return f"{row['old']:,} → {row['new']:,} {noun} of {what}"
