"""Lines and figures of a consolidation's JSON object, shared by the table and Markdown."""

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, Final

import msgspec

from wainwright.messages.formatting import format_count, format_hourly, format_monthly, join_first

Document = dict[str, Any]

MAX_SHOWN_COMMANDS: Final = 20  # the JSON has all of them
MAX_SHOWN_NODES: Final = 5  # of one command
SMALLEST_SHOWN: Final = 0.0005  # USD per hour; less is printed as nothing


def answer(document: Document) -> str:
    """3 of 12 nodes can be removed: saves $1.240/h (31 %), 14 pods move"""
    summary, commands = document["summary"], document["commands"]
    before = summary["nodesBefore"]
    if not commands:
        cost = format_hourly(summary["pricePerHourBefore"], modelled=has_modelled_prices(document))
        return f"nothing to do: {format_count(before, 'node')} for {cost}"
    removed = sum(map(_is_taken, document["nodes"]))
    launched = summary["nodesAfter"] - before + removed
    instead = f", {format_count(launched, 'node')} launched instead" if launched > 0 else ""
    go = f"{removed:,} of {format_count(before, 'node')} can be removed{instead}"
    moved = _pods_move(summary["evictions"])
    if any(map(_has_unavailable, commands)):
        return f"{go}: price unknown, as nothing is offered for it now, {moved}"
    return f"{go}: {_saves(summary, modelled=has_modelled_prices(document))}, {moved}"


def _has_unavailable(command: Document) -> bool:
    return any(each["pricePerHour"] is None for each in command["replacements"])


def _is_taken(node: Document) -> bool:
    """Whether a command takes it; an expired node goes without one."""
    return node["verdict"] in ("removed", "replaced") and node["reason"] != "expired"


def has_modelled_prices(document: Document) -> bool:
    """Whether a price of a node, now or afterwards, is an estimate: so are the sums."""
    return bool(document["summary"]["modelledPrices"])


def answer_notes(document: Document) -> list[str]:
    """What else the answer depends on: expired nodes, commands that are not all, or that were not
    compared with others.
    """
    expired = sum(node["reason"] == "expired" for node in document["nodes"])
    has = "1 node has" if expired == 1 else f"{expired:,} nodes have"
    notes = [f"{has} expired: expiration deletes without a command"] if expired else []
    if not document["summary"]["settled"]:
        steps = len(document["commands"])
        shown = "this one" if steps == 1 else f"these {steps:,}"
        notes.append(f"more commands would follow after {shown}")
    if not document["summary"]["lookedAhead"]:
        notes.append(
            "too many nodes to compare all sequences of commands; --look-ahead allows more"
        )
    return notes


def _saves(summary: Document, *, modelled: bool) -> str:
    saved, before = summary["savingsPerHour"], summary["pricePerHourBefore"]
    if saved < -SMALLEST_SHOWN:
        return f"costs {format_hourly(-saved, modelled=modelled)} more"
    if saved < SMALLEST_SHOWN:
        return "saves nothing"
    return f"saves {format_hourly(saved, modelled=modelled)} ({saved / before * 100:.0f} %)"


def _pods_move(count: int) -> str:
    if not count:
        return "no pod moves"
    return "1 pod moves" if count == 1 else f"{count:,} pods move"


class CommandLines(msgspec.Struct, frozen=True, kw_only=True):
    """One command, for people."""

    title: str
    removed: tuple[str, ...]
    launched: tuple[str, ...]
    moved: tuple[str, ...]


def command_lines(command: Document) -> CommandLines:
    return CommandLines(
        title=_command_title(command),
        removed=_first_nodes(command["candidates"], "node"),
        launched=_first_nodes(command["replacements"], "name"),
        moved=tuple(_destinations(command)),
    )


REASON_WORDS: Final = {
    "Empty": "empty",
    "Drifted": "drifted",
    "Underutilized": "underutilized",
}


def _command_title(command: Document) -> str:
    nodes, launched = len(command["candidates"]), len(command["replacements"])
    instead = f", {format_count(launched, 'node')} launched instead" if launched else ""
    money = money_of_command(command)
    reason = REASON_WORDS[command["reason"]]
    moved = _pods_move(command["evictions"])
    return f"{reason}: {format_count(nodes, 'node')} removed{instead}, {moved}, {money}"


def money_of_command(command: Document) -> str:
    """saves $0.384/h"""
    if _has_unavailable(command):
        return "nothing that its template allows is available now"
    saved = command["savingsPerHour"]
    modelled = has_modelled_price(command)
    if saved < -SMALLEST_SHOWN:
        return f"costs {format_hourly(-saved, modelled=modelled)} more"
    return f"saves {format_hourly(max(saved, 0.0), modelled=modelled)}"


def has_modelled_price(command: Document) -> bool:
    """Whether a price of its nodes is an estimate."""
    nodes = (*command["candidates"], *command["replacements"])
    return any(node["modelledPrice"] for node in nodes)


def _first_nodes(nodes: list[Document], key: str) -> tuple[str, ...]:
    lines = [f"{node[key]}  {_instance(node)}" for node in nodes[:MAX_SHOWN_NODES]]
    rest = nodes[MAX_SHOWN_NODES:]
    if rest:
        types = Counter(node["instanceType"] or "unknown" for node in rest)
        listed = join_first(f"{count:,} {name}" for name, count in types.most_common())
        lines.append(f"and {len(rest):,} more: {listed}")
    return tuple(lines)


def _instance(node: Document) -> str:
    price = node["pricePerHour"]
    keys = ("instanceType", "capacityType", "reservationID", "zone")
    parts = [str(node[key]) for key in keys if node[key]]
    modelled = node["modelledPrice"]
    shown = "price unknown" if price is None else format_hourly(price, modelled=modelled)
    return " ".join([shown, *parts])


def _destinations(command: Document) -> Iterator[str]:
    counts = Counter(move["to"] for move in command["moves"])
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    for name, count in ordered[:MAX_SHOWN_NODES]:
        yield f"{format_count(count, 'pod')} to {name}"
    rest = ordered[MAX_SHOWN_NODES:]
    if rest:
        pods = sum(count for _, count in rest)
        yield f"{format_count(pods, 'pod')} to {format_count(len(rest), 'other node')}"


def more_commands(document: Document) -> str | None:
    """What is not shown one by one."""
    rest = document["commands"][MAX_SHOWN_COMMANDS:]
    if not rest:
        return None
    saved = sum(command["savingsPerHour"] for command in rest)
    moved = _pods_move(sum(command["evictions"] for command in rest))
    count = format_count(len(rest), "more command")
    saving = format_hourly(saved, modelled=has_modelled_prices(document))
    return f"and {count}: {saving} saved, {moved} (-o json has them all)"


HELD_WORDS: Final = {
    "pod": "pod {} (do-not-disrupt)",
    "pdb": "PodDisruptionBudget {}",
    "budget": "budgets of NodePool {}",
    "annotation": "annotation {} on the node",
    "policy": "consolidation policy of NodePool {}",
    "nodepool": "NodePool {}",
    "type": "no price for {}",
    "condition": "condition of {}",
    "reservation": "reservation {}",
}
RULE_WORDS: Final = {
    "consolidate-after": "consolidateAfter of NodePool {}",
    "static-pool": "replicas of NodePool {}",
    "cannot-begin": "API server, for node {}",
    "balanced-score": "policy Balanced of NodePool {}",
    "spot-to-spot": "spot-to-spot rule for NodePool {}",
    "min-values": "minValues of NodePool {}",
    "min-saving": "minimum saving for NodePool {}",
    "limits": "limits for NodePool {}",
}
"""Where the kind alone would not say what it is."""


def held_words(held: Document) -> str:
    words = RULE_WORDS.get(held["reason"]) or HELD_WORDS[held["kind"]]
    return words.format(held["name"])


class HeldRow(msgspec.Struct, frozen=True, kw_only=True):
    saving: str
    what: str
    nodes: str


def held_rows(document: Document) -> list[HeldRow]:
    modelled = has_modelled_prices(document)
    return [
        HeldRow(
            saving=format_hourly(held["savingPerHour"], modelled=modelled),
            what=held_words(held),
            nodes=format_count(held["nodes"], "node"),
        )
        for held in document["heldBy"]
    ]


def held_title(document: Document) -> str:
    held = document["heldBy"]
    saving = sum(each["savingPerHour"] for each in held)
    nodes = format_count(sum(each["nodes"] for each in held), "node")
    shown = format_hourly(saving, modelled=has_modelled_prices(document))
    return f"blocked savings: {shown} on {nodes}, each counted alone"


STAY_WORDS: Final = {
    "no-saving": "no cheaper node can run {their} pods",
    "pods-would-be-pending": "pods would be unschedulable",
    "needs-several-nodes": "{their} pods would need several new nodes",
    "spot-to-spot": "spot is not replaced by spot",
    "min-values": "minValues would not be met",
    "min-saving": "{they} would save less than the minimum",
    "balanced-score": "{they} would save too little for the disruption",
    "limits": "a replacement would exceed limits",
}


def stay_lines(document: Document) -> list[str]:
    """Why nodes that nothing holds back stay, and how many: 9 nodes stay: nothing cheaper …

    Nothing where more commands would follow: nobody knows who stays then.
    """
    if not document["summary"]["settled"]:
        return []
    counts = Counter(
        node["reason"]
        for node in document["nodes"]
        if node["verdict"] in ("kept", "blocked") and not node["savingPerHour"]
    )
    free = [(code, count) for code, count in counts.most_common() if code in STAY_WORDS]
    return [_nodes_stay(code, count) for code, count in free]


def _nodes_stay(code: str, count: int) -> str:
    """9 nodes stay: no cheaper node can run their pods"""
    if count == 1:
        return f"1 node stays: {STAY_WORDS[code].format(their='its', they='it')}"
    return f"{count:,} nodes stay: {STAY_WORDS[code].format(their='their', they='they')}"


FIGURE_HEADINGS: Final = ("", "now", "fully consolidated", "lower bound")


def figure_rows(document: Document) -> list[tuple[str, ...]]:
    """The three figures side by side; the first row has the headings."""
    summary = document["summary"]
    prices = (summary["pricePerHourBefore"], summary["pricePerHourAfter"])
    bound = summary["lowerBoundPerHour"]
    steps = format_count(len(document["commands"]), "command")
    after = FIGURE_HEADINGS[2] if summary["settled"] else f"after {steps}"
    nodes = (f"{summary['nodesBefore']:,}", f"{summary['nodesAfter']:,}")
    modelled = has_modelled_prices(document)
    hourly = partial(format_hourly, modelled=modelled)
    monthly = partial(format_monthly, modelled=modelled)
    rows = [
        ("", "now", after, "lower bound"),
        ("nodes", *nodes, ""),
        ("price", *map(hourly, prices), _or_unknown(bound, hourly)),
        ("a month", *map(monthly, prices), _or_unknown(bound, monthly)),
    ]
    if bound and bound > SMALLEST_SHOWN:
        rows.append(("above the bound", *(_above(price, bound) for price in prices), ""))
    return rows


def _or_unknown(bound: float | None, formatted: Any) -> str:
    return "unknown" if bound is None else str(formatted(bound))


def _above(price: float, bound: float) -> str:
    return f"{max(0.0, price / bound - 1) * 100:.0f} %"


def shown_commands(commands: Iterable[Document]) -> list[Document]:
    return list(commands)[:MAX_SHOWN_COMMANDS]
