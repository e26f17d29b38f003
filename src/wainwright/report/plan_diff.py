"""The difference of two plans: nodes, price, pods that become schedulable or unschedulable."""

from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator
from functools import partial
from typing import Any, Final

from wainwright.messages.formatting import (
    HOURS_PER_MONTH,
    MODELLED_PRICES,
    format_count,
    format_hourly,
    format_monthly,
    format_price_change,
    join_first,
)
from wainwright.model.plan import UnschedulableGroup
from wainwright.model.reasons import cause_of
from wainwright.report.drift_preview import NO_DRIFT, drift_lines
from wainwright.report.plan_markdown import details
from wainwright.report.plan_rows import funnel_legend, node_rows, unschedulable_rows

Document = dict[str, Any]
NodeGroup = tuple[str, ...]
"""Pool, instance type, zone, capacity type and reservation, which equal nodes share."""

SMALLEST_CHANGE: Final = 0.01
NO_CHANGE, LOSS, OTHER_CHANGE = 0, 1, 3


def diff_plans(
    old: Document,
    new: Document,
    drift: Document = NO_DRIFT,
    other_causes: Collection[str] = (),
) -> Document:
    """The PlanDiff document: changed nodes, prices and pods, and nodes that drift.

    `other_causes` are pods that both plans leave unschedulable, for different causes.
    """
    before, after = _scheduled_pods(old), _scheduled_pods(new)
    explained = {pod for pod in after if not after[pod] and before.get(pod, True)} | {*other_causes}
    sides = {"old": old, "new": new}
    return {
        "apiVersion": "wainwright.dev/v1alpha1",
        "kind": "PlanDiff",
        "pricePerHour": _change(old, new, "pricePerHour"),
        "feesPerHour": _change(old, new, "feesPerHour"),
        "modelledPrices": any(plan["summary"]["modelledPrices"] for plan in sides.values()),
        "scheduled": {side: plan["summary"]["scheduled"] for side, plan in sides.items()},
        "pools": _pool_changes(old, new),
        "nodes": _node_changes(old, new),
        "pods": {
            "gained": sorted(pod for pod in after if after[pod] and before.get(pod) is False),
            "lost": sorted(pod for pod in before if before[pod] and after.get(pod) is False),
            "added": sorted(pod for pod in after if pod not in before),
            "removed": sorted(pod for pod in before if pod not in after),
            "otherwise": sorted(other_causes),
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


def pods_with_other_causes(
    old: Iterable[UnschedulableGroup], new: Iterable[UnschedulableGroup]
) -> list[str]:
    """Pods that are unschedulable in both plans, for different causes: not those whose cause is the
    same with other amounts.
    """
    before, after = _causes_by_pod(old), _causes_by_pod(new)
    return sorted(pod for pod in after if before.get(pod, after[pod]) != after[pod])


def _causes_by_pod(groups: Iterable[UnschedulableGroup]) -> dict[str, Hashable]:
    """The causes by pod; the funnel's counts are not part of them."""
    return {
        pod: (cause_of(group.reason), *((each.pool, cause_of(each.reason)) for each in group.pools))
        for group in groups
        for pod in group.pods
    }


def _pool_changes(old: Document, new: Document) -> list[Document]:
    """By NodePool how many new nodes each plan has, and what they cost."""
    before, after = _pool_totals(old), _pool_totals(new)
    return [
        {
            "nodePool": name,
            "nodes": {"old": before[name][0], "new": after[name][0]},
            "pricePerHour": {
                "old": before[name][1],
                "new": after[name][1],
                "change": after[name][1] - before[name][1],
            },
        }
        for name in sorted({*before, *after})
    ]


def _pool_totals(plan: Document) -> dict[str, tuple[int, float]]:
    totals: dict[str, tuple[int, float]] = defaultdict(lambda: (0, 0.0))
    for claim in plan["nodeClaims"]:
        nodes, price = totals[claim["nodePool"]]
        totals[claim["nodePool"]] = nodes + 1, price + claim["pricePerHour"]
    return totals


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


def diff_lines(diff: Document, *, every: bool = False) -> list[str]:
    """The difference as lines; answers for unschedulable pods are indented below, with the reasons
    of all NodePools and nodes if these are wanted.
    """
    if diff_exit_code(diff) == NO_CHANGE:
        return ["nothing changes"]
    lines = [diff_headline(diff)]
    lines += [_node_line(row) for row in diff["nodes"]]
    lines += _pod_lines(diff["pods"])
    reasons = _reason_lines(diff["unschedulable"], every=every)
    lines += ["  " * depth + line for depth, line in reasons]
    price, fees = diff["pricePerHour"], diff["feesPerHour"]
    modelled = diff["modelledPrices"]
    lines += [_price_line(price, "becomes", modelled=modelled)] if _is_noticeable(price) else []
    lines += [f"fees: {_price_line(fees, 'become')}"] if _is_noticeable(fees) else []
    lines += ["  " * depth + line for depth, line in drift_lines(diff["drift"])]
    return [*lines, *_estimate_notes(lines)]


def _estimate_notes(lines: Iterable[str]) -> list[str]:
    return [MODELLED_PRICES] if any("~$" in line for line in lines) else []


def diff_headline(diff: Document) -> str:
    """+$20.50/h (+75 %): gpu-training +$21.96, general −$1.46; 2 more pods scheduled"""
    pods = diff["pods"]
    lost, new = len(pods["lost"]), len({*pods["added"]} & {*pods["withoutPlace"]})
    verdicts = [f"{format_count(lost, 'pod')} {_become(lost)} unschedulable"] if lost else []
    verdicts += [f"{format_count(new, 'new pod')} unschedulable"] if new else []
    verdicts.append(_cost_headline(diff))
    more = diff["scheduled"]["new"] - diff["scheduled"]["old"]
    verdicts += [f"{_more(more)} scheduled"] if more else []
    drifted = len(diff["drift"]["nodes"])
    verdicts += [f"{format_count(drifted, 'node')} would drift"] if drifted else []
    return "; ".join(verdicts)


def _more(change: int) -> str:
    count = abs(change)
    return f"{count:,} {'more' if change > 0 else 'fewer'} {'pod' if count == 1 else 'pods'}"


def _become(count: int) -> str:
    return "becomes" if count == 1 else "become"


def _cost_headline(diff: Document) -> str:
    price = diff["pricePerHour"]
    if not _is_noticeable(price):
        return "the price stays the same"
    modelled = diff["modelledPrices"]
    share = f" ({price['change'] / price['old']:+.0%})" if price["old"] >= 0.0005 else ""
    pools = [
        f"{each['nodePool']} {_signed_amount(each['pricePerHour']['change'], modelled=modelled)}"
        for each in sorted(
            diff["pools"], key=lambda each: -abs(float(each["pricePerHour"]["change"]))
        )
        if _is_noticeable(each["pricePerHour"])
    ]
    shown = f": {join_first(pools)}" if pools else ""
    total = _signed_amount(price["change"], modelled=modelled)
    return f"{total}/h{share.replace('%', ' %').replace('-', '−')}{shown}"


def _signed_amount(amount: float, *, modelled: bool) -> str:
    digits, mark = 2 if abs(amount) >= 1 else 3, "~" if modelled else ""
    return f"{'+' if amount > 0 else '−'}{mark}${abs(amount):,.{digits}f}"


def diff_markdown(diff: Document) -> list[str]:
    """For a pull request: verdict and cost, then a table by NodePool; the rest is folded."""
    if diff_exit_code(diff) == NO_CHANGE:
        return ["**nothing changes**"]
    table = _pool_table(diff["pools"], modelled=diff["modelledPrices"])
    lines = [f"**{diff_headline(diff)}**", "", *table]
    for row in unschedulable_rows(diff["unschedulable"]):
        lines += [f"**{row.title}**", "", *(f"- {line}" for line in row.answer.lines()), ""]
        lines += details("Every NodePool and node", row.details_with_legend)
    lines += details("Nodes", [_node_line(row) for row in diff["nodes"]])
    lines += details("Pods", list(_pod_lines(diff["pods"])))
    drift = [f"{'  ' * depth}{line}" for depth, line in drift_lines(diff["drift"])]
    lines += details("Drift", drift)
    return [*lines, *_estimate_notes(lines)]


def _pool_table(pools: list[Document], *, modelled: bool) -> list[str]:
    hourly = partial(format_hourly, modelled=modelled)
    rows = [
        f"| {each['nodePool']} | {each['nodes']['old']:,} → {each['nodes']['new']:,} | "
        f"{hourly(each['pricePerHour']['old'])} | {hourly(each['pricePerHour']['new'])} | "
        f"{format_price_change(each['pricePerHour']['change'], modelled=modelled)} |"
        for each in pools
    ]
    head = ("| pool | new nodes | before | after | change |", "|---|--:|--:|--:|--:|")
    return [*head, *rows, ""] if rows else []


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
    answers = unschedulable_rows(rows)
    for row in answers:
        yield 1, row.title
        yield from ((2, line) for line in row.answer.lines())
        yield from ((2, line) for line in (row.details if every else ()))
    yield from ((1, line) for line in (funnel_legend(answers) if every else ()))


def _price_line(change: Document, becomes: str, *, modelled: bool = False) -> str:
    sign = "+" if change["change"] > 0 else "−"
    amount = abs(change["change"])
    hourly, monthly = (partial(each, modelled=modelled) for each in (format_hourly, format_monthly))
    old, new = hourly(change["old"]), hourly(change["new"])
    if old == new:
        return f"{old} {becomes.replace('become', 'change')} by {sign}{monthly(amount)}"
    return f"{old} {becomes} {new}: {sign}{hourly(amount)}, {sign}{monthly(amount)}"


def _node_line(row: Document) -> str:
    what = " ".join(str(row[field]) for field in NODE_FIELDS if row[field])
    noun = "node" if row["new"] == 1 else "nodes"
    return f"{row['old']:,} → {row['new']:,} {noun} of {what}"
