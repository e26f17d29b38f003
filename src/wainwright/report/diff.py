"""Two plans, and what changes between them: nodes, price, pods that gain or lose a place."""

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from wainwright.report.grouped import failure_rows, node_rows, some
from wainwright.report.money import HOURS_A_MONTH, hourly, monthly
from wainwright.report.numbers import counted

Document = dict[str, Any]
Node = tuple[str, ...]
"""Pool, type, zone, capacity type and reservation: nodes that are alike."""

CENT: Final = 0.01
NO_CHANGE, LOSS, OTHER_CHANGE = 0, 1, 3


def difference(old: Document, new: Document) -> Document:
    """What is new, what is gone, what it costs, and which pods gain or lose a place."""
    before, after = _places(old), _places(new)
    otherwise = _otherwise(old, new)
    news = {pod for pod in after if not after[pod] and before.get(pod, True)} | {*otherwise}
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
            "otherwise": otherwise,
            "withoutPlace": sorted(pod for pod in after if not after[pod]),
        },
        "unschedulable": [row for row in new["unschedulable"] if row["pod"] in news],
    }


def _change(old: Document, new: Document, field: str) -> dict[str, float]:
    before, after = old["summary"][field], new["summary"][field]
    return {"old": before, "new": after, "change": after - before}


def _places(plan: Document) -> dict[str, bool]:
    """Every pod of the plan, and whether it has a place."""
    homes = [*plan["nodeClaims"], *plan["existingNodes"]]
    placed = {pod: True for home in homes for pod in home["pods"]}
    return placed | {row["pod"]: False for row in plan["unschedulable"]}


def _otherwise(old: Document, new: Document) -> list[str]:
    """Pods that have no place in either plan, but not for the same reasons."""
    before, after = _reasons_told(old), _reasons_told(new)
    return sorted(pod for pod in after if before.get(pod, after[pod]) != after[pod])


def _reasons_told(plan: Document) -> dict[str, tuple[str, ...]]:
    """By pod what it is told; how many types were left at which step is no reason."""
    return {
        row["pod"]: (row["reason"], *(f"{p['nodePool']}: {p['reason']}" for p in row["pools"]))
        for row in plan["unschedulable"]
    }


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
    paid = any(_is_felt(made[key]) for key in ("pricePerHour", "feesPerHour"))
    moved = any(made["pods"][key] for key in ("gained", "added", "removed", "otherwise"))
    return OTHER_CHANGE if paid or moved or made["nodes"] else NO_CHANGE


def _is_felt(change: Document) -> bool:
    """Whether it makes a cent a month; a slot of a reservation has a price, but does not."""
    return abs(float(change["change"])) * HOURS_A_MONTH >= CENT / 2


def lines(made: Document, bullet: str = "") -> list[str]:
    """The difference as lines, each a sentence; why pods have no place is set in below."""
    told = [bullet + _node_line(row) for row in made["nodes"]]
    told += [bullet + line for line in _moved(made["pods"])]
    told += ["  " * depth + bullet + line for depth, line in _reasons(made["unschedulable"])]
    price, fees = made["pricePerHour"], made["feesPerHour"]
    told += [f"{bullet}{_money(price, 'becomes')}"] if _is_felt(price) else []
    told += [f"{bullet}fees: {_money(fees, 'become')}"] if _is_felt(fees) else []
    return told or [f"{bullet}nothing changes"]


def _moved(pods: Document) -> Iterator[str]:
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
            yield f"{counted(len(moved), 'pod')} {what}: {some(moved)}"


def _reasons(rows: list[Document]) -> Iterator[tuple[int, str]]:
    """Why pods have no place of which that is news; and how far each line is set in."""
    for row in failure_rows(rows):
        yield 1, f"no place for {some(row.pods)}: {row.reason}"
        yield from ((2, f"{pool['nodePool']}: {pool['reason']}") for pool in row.pools)
        yield from ((2, said) for said in row.nodes)
        if row.suggestion:
            yield 2, f"try: {row.suggestion}"


def _money(change: Document, becomes: str) -> str:
    sign = "+" if change["change"] > 0 else "−"
    amount = abs(change["change"])
    old, new = hourly(change["old"]), hourly(change["new"])
    if old == new:
        return f"{old} {becomes.replace('become', 'change')} by {sign}{monthly(amount)}"
    return f"{old} {becomes} {new}: {sign}{hourly(amount)}, {sign}{monthly(amount)}"


def _node_line(row: Document) -> str:
    what = " ".join(str(row[field]) for field in FIELDS if row[field])
    noun = "node" if row["new"] == 1 else "nodes"
    return f"{row['old']:,} → {row['new']:,} {noun} of {what}"
