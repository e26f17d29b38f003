"""Two plans, and what changes between them: nodes, price, pods that gain or lose a place."""

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
from wainwright.report.plan_rows import node_rows, unschedulable_rows

Document = dict[str, Any]
NodeGroup = tuple[str, ...]
"""Pool, type, zone, capacity type and reservation: nodes that are alike."""

SMALLEST_CHANGE: Final = 0.01
NO_CHANGE, LOSS, OTHER_CHANGE = 0, 1, 3


def diff_plans(old: Document, new: Document) -> Document:
    """What is new, what is gone, what it costs, and which pods gain or lose a place."""
    before, after = _scheduled_pods(old), _scheduled_pods(new)
    otherwise = _pods_with_other_reasons(old, new)
    news = {pod for pod in after if not after[pod] and before.get(pod, True)} | {*otherwise}
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
            "otherwise": otherwise,
            "withoutPlace": sorted(pod for pod in after if not after[pod]),
        },
        "unschedulable": [row for row in new["unschedulable"] if row["pod"] in news],
    }


def _change(old: Document, new: Document, field: str) -> dict[str, float]:
    before, after = old["summary"][field], new["summary"][field]
    return {"old": before, "new": after, "change": after - before}


def _scheduled_pods(plan: Document) -> dict[str, bool]:
    """Every pod of the plan, and whether it has a place."""
    homes = [*plan["nodeClaims"], *plan["existingNodes"]]
    placed = {pod: True for home in homes for pod in home["pods"]}
    return placed | {row["pod"]: False for row in plan["unschedulable"]}


def _pods_with_other_reasons(old: Document, new: Document) -> list[str]:
    """Pods that have no place in either plan, but not for the same reasons."""
    before, after = _reasons_by_pod(old), _reasons_by_pod(new)
    return sorted(pod for pod in after if before.get(pod, after[pod]) != after[pod])


def _reasons_by_pod(plan: Document) -> dict[str, tuple[str, ...]]:
    """By pod what it is told; how many types were left at which step is no reason."""
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


def diff_exit_code(made: Document) -> int:
    """The exit code: a lost place is what a build should stop for."""
    if made["pods"]["lost"]:
        return LOSS
    paid = any(_is_noticeable(made[key]) for key in ("pricePerHour", "feesPerHour"))
    moved = any(made["pods"][key] for key in ("gained", "added", "removed", "otherwise"))
    return OTHER_CHANGE if paid or moved or made["nodes"] else NO_CHANGE


def _is_noticeable(change: Document) -> bool:
    """Whether it makes a cent a month; a slot of a reservation has a price, but does not."""
    return abs(float(change["change"])) * HOURS_PER_MONTH >= SMALLEST_CHANGE / 2


def diff_lines(made: Document, bullet: str = "") -> list[str]:
    """The difference as lines, each a sentence; why pods have no place is set in below."""
    told = [bullet + _node_line(row) for row in made["nodes"]]
    told += [bullet + line for line in _pod_lines(made["pods"])]
    told += ["  " * depth + bullet + line for depth, line in _reason_lines(made["unschedulable"])]
    price, fees = made["pricePerHour"], made["feesPerHour"]
    told += [f"{bullet}{_price_line(price, 'becomes')}"] if _is_noticeable(price) else []
    told += [f"{bullet}fees: {_price_line(fees, 'become')}"] if _is_noticeable(fees) else []
    return told or [f"{bullet}nothing changes"]


def _pod_lines(pods: Document) -> Iterator[str]:
    without = set(pods["withoutPlace"])
    groups = {
        ("loses its place", "lose their place"): pods["lost"],
        ("is new and has no place", "are new and have no place"): [
            pod for pod in pods["added"] if pod in without
        ],
        ("gains a place", "gain a place"): pods["gained"],
        ("is new", "are new"): [pod for pod in pods["added"] if pod not in without],
        ("is gone", "are gone"): pods["removed"],
        (
            "still has no place, but for another reason",
            "still have no place, but for other reasons",
        ): pods["otherwise"],
    }
    for (one, many), moved in groups.items():
        if moved:
            what = one if len(moved) == 1 else many
            yield f"{format_count(len(moved), 'pod')} {what}: {join_first(moved)}"


def _reason_lines(rows: list[Document]) -> Iterator[tuple[int, str]]:
    """Why pods have no place of which that is news; and how far each line is set in."""
    for row in unschedulable_rows(rows):
        yield 1, f"no place for {join_first(row.pods)}: {row.reason}"
        yield from ((2, f"{pool['nodePool']}: {pool['reason']}") for pool in row.pools)
        yield from ((2, said) for said in row.nodes)
        if row.suggestion:
            yield 2, f"try: {row.suggestion}"


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
