"""Two plans, and what changes between them: nodes, price, pods that gain or lose a place."""

from collections import Counter
from typing import Any

from wainwright.report.grouped import node_rows, some
from wainwright.report.money import hourly, monthly

Document = dict[str, Any]
Node = tuple[str, ...]
"""Pool, type, zone, capacity type and reservation: nodes that are alike."""

NO_CHANGE, LOSS, OTHER_CHANGE = 0, 1, 3


def difference(old: Document, new: Document) -> Document:
    """What is new, what is gone, what it costs, and which pods gain or lose a place."""
    before, after = _places(old), _places(new)
    return {
        "apiVersion": "wainwright.dev/v1alpha1",
        "kind": "PlanDiff",
        "pricePerHour": _change(old, new, "pricePerHour"),
        "feesPerHour": _change(old, new, "feesPerHour"),
        "nodes": _nodes(old, new),
        "pods": {
            "gained": sorted(pod for pod in after if after[pod] and before.get(pod) is False),
            "lost": sorted(pod for pod in before if before[pod] and after.get(pod) is False),
            "added": sorted(pod for pod in after if pod not in before),
            "removed": sorted(pod for pod in before if pod not in after),
            "withoutPlace": sorted(pod for pod in after if not after[pod]),
        },
    }


def _change(old: Document, new: Document, field: str) -> dict[str, float]:
    before, after = old["summary"][field], new["summary"][field]
    return {"old": before, "new": after, "change": after - before}


def _places(plan: Document) -> dict[str, bool]:
    """Every pod of the plan, and whether it has a place."""
    homes = [*plan["nodeClaims"], *plan["existingNodes"]]
    placed = {pod: True for home in homes for pod in home["pods"]}
    return placed | {row["pod"]: False for row in plan["unschedulable"]}


def _nodes(old: Document, new: Document) -> list[Document]:
    before, after = _counted(old), _counted(new)
    rows = [
        {**dict(zip(FIELDS, node, strict=True)), "old": before[node], "new": after[node]}
        for node in sorted({*before, *after})
    ]
    return [row for row in rows if row["old"] != row["new"]]


FIELDS = ("nodePool", "instanceType", "zone", "capacityType", "reservationID")


def _counted(plan: Document) -> Counter[Node]:
    counts: Counter[Node] = Counter()
    for row in node_rows(plan["nodeClaims"]):
        key = (row.pool, row.instance_type, row.zone, row.capacity_type, row.reservation)
        counts[key] += row.count
    return counts


def verdict(made: Document) -> int:
    """The exit code: a lost place is what a build should stop for."""
    if made["pods"]["lost"]:
        return LOSS
    same = made["pricePerHour"]["change"] == 0 and made["feesPerHour"]["change"] == 0
    quiet = not any(made["pods"][key] for key in ("gained", "added", "removed"))
    return NO_CHANGE if same and quiet and not made["nodes"] else OTHER_CHANGE


def lines(made: Document, bullet: str = "") -> list[str]:
    """The difference as lines, each a sentence."""
    told = [bullet + _node_line(row) for row in made["nodes"]]
    for key, words in WORDS.items():
        pods = made["pods"][key]
        if pods:
            told.append(f"{bullet}{len(pods):,} {words}: {some(pods)}")
    price = made["pricePerHour"]
    if price["change"]:
        sign = "+" if price["change"] > 0 else "−"
        amount = abs(price["change"])
        told.append(
            f"{bullet}{hourly(price['old'])} becomes {hourly(price['new'])}: "
            f"{sign}{hourly(amount)}, {sign}{monthly(amount)}"
        )
    return told or [f"{bullet}nothing changes"]


WORDS = {
    "lost": "pods lose their place",
    "gained": "pods gain a place",
    "added": "pods are new",
    "removed": "pods are gone",
}


def _node_line(row: Document) -> str:
    what = " ".join(str(row[field]) for field in FIELDS if row[field])
    return f"{row['old']:,} → {row['new']:,} nodes of {what}"
