"""Which nodes would drift because of a change, in which order they would go, and what that costs.

Both inputs are compared as if every node had been launched from the old one: what its claim states,
and hashes that another controller wrote, do not count.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from wainwright.core.disruption.budgets import DisruptionReason, evaluate_budgets
from wainwright.core.disruption.disruption_input import DisruptionOptions, Method
from wainwright.core.disruption.drift import (
    DRIFTED_CONDITION,
    Drift,
    find_drift,
    pool_hash_annotations,
)
from wainwright.core.disruption.preview import DisruptionPreview, Fate, preview_disruption
from wainwright.disruption_verdicts import describe_drift, verdict_facts
from wainwright.messages.disruption import describe_verdict
from wainwright.messages.formatting import format_count, format_hourly, join_first
from wainwright.model.disruption import NodeClaimState
from wainwright.model.labels import CAPACITY_TYPE, RESERVATION_ID, RESERVED
from wainwright.model.snapshot import Node, Pool, Snapshot
from wainwright.offline_disruption import (
    NODE_CLASS_DRIFT,
    RESERVATION_DRIFT,
    with_drifted_condition,
)
from wainwright.report.consolidation_json import claim_name
from wainwright.report.plan_input import PlanInput

Document = dict[str, Any]

WHAT_CHANGED: Final = {
    "NodePoolDrifted": "the template of NodePool {pool} changed",
    "InstanceTypeNotFound": "its instance type is gone",
    NODE_CLASS_DRIFT: "the EC2NodeClass of NodePool {pool} changed",
    RESERVATION_DRIFT: "its reservation is no longer selected",
}


NO_DRIFT: Final[Document] = {
    "nodes": [],
    "surgePerHour": 0.0,
    "pricePerHourChange": 0.0,
    "modelledPrices": False,
}


def preview_drift(old: PlanInput, new: PlanInput) -> Document:
    """The part of a PlanDiff about nodes of the new input, or of the old one if it has none."""
    source = new if any(node.managed for node in new.snapshot.nodes) else old
    drifts = dict(_find_drifts(source.snapshot, old, new))
    if not drifts:
        return NO_DRIFT
    preview = _preview(source.snapshot, new, drifts)
    waves, held = _waves(preview, new), _held_back(preview)
    nodes: list[Document] = [
        {
            "node": node.name,
            "nodeClaim": claim_name(node),
            "nodePool": node.pool,
            "reason": drift.reason,
            "message": _describe(drift, node.pool or ""),
            "wave": waves.get(node.name),
            "heldBy": held.get(node.name),
        }
        for node in source.snapshot.nodes
        if (drift := drifts.get(node.name)) is not None
    ]
    order = {name: number for number, name in enumerate(_order(preview))}
    nodes.sort(key=lambda each: (order.get(each["node"], len(order)), each["node"]))
    return {
        "nodes": nodes,
        "surgePerHour": _surge(preview, waves),
        "pricePerHourChange": preview.price_after - preview.price_before,
        "modelledPrices": any(command.has_modelled_prices for command in preview.commands),
    }


def _find_drifts(snapshot: Snapshot, old: PlanInput, new: PlanInput) -> Iterator[tuple[str, Drift]]:
    old_pools = {pool.name: pool for pool in old.snapshot.pools}
    new_pools = {pool.name: pool for pool in new.snapshot.pools}
    old_offered, new_offered = old.disruption.offered, new.disruption.offered
    now = snapshot.now
    for node in snapshot.nodes:
        name = node.pool or ""
        before, after = old_pools.get(name), new_pools.get(name)
        if not node.managed or before is None or after is None:
            continue
        launched = _as_launched_from(before, node)
        drift = find_drift(launched, after, new_offered.get(name), now)
        drift = drift or _class_drift(node, old, new)
        if drift is not None and not find_drift(launched, before, old_offered.get(name), now):
            yield node.name, drift


def _as_launched_from(pool: Pool, node: Node) -> Node:
    claim = node.claim or NodeClaimState(name=node.name, created=node.created)
    conditions = {key: each for key, each in claim.conditions.items() if key != DRIFTED_CONDITION}
    annotations = claim.annotations | pool_hash_annotations(pool)
    stated = msgspec.structs.replace(claim, conditions=conditions, annotations=annotations)
    return msgspec.structs.replace(node, claim=stated)


def _class_drift(node: Node, old: PlanInput, new: PlanInput) -> Drift | None:
    before, after = old.classes.get(node.pool or ""), new.classes.get(node.pool or "")
    if before is None or after is None:
        return None
    if before.hash != after.hash:
        return Drift(reason=NODE_CLASS_DRIFT)
    reservation = node.labels.get(RESERVATION_ID)
    is_deselected = reservation in after.deselected and reservation not in before.deselected
    if node.labels.get(CAPACITY_TYPE) == RESERVED and is_deselected:
        return Drift(reason=RESERVATION_DRIFT)
    return None


def _preview(snapshot: Snapshot, new: PlanInput, drifts: dict[str, Drift]) -> DisruptionPreview:
    """What drift alone would do to the cluster under the new settings."""

    def stated(node: Node) -> Node:
        drift = drifts.get(node.name)
        return with_drifted_condition(node, None if drift is None else drift.reason)

    nodes = tuple(stated(node) if node.managed else node for node in snapshot.nodes)
    changed = msgspec.structs.replace(new.snapshot, nodes=nodes)
    given = msgspec.structs.replace(new.disruption, snapshot=changed)
    options = DisruptionOptions(plan=new.options, methods=(Method.STATIC_DRIFT, Method.DRIFT))
    return preview_disruption(given, options)


def _order(preview: DisruptionPreview) -> list[str]:
    return [each.name for command in preview.commands for each in command.candidates]


def _waves(preview: DisruptionPreview, new: PlanInput) -> dict[str, int]:
    """By node how many groups go before its own, as many at a time as the budgets allow now. Those
    of static NodePools as their commands take them: limits.nodes counts what stands beside them.
    """
    members: dict[str, list[Node]] = {}
    for outcome in preview.outcomes:
        node = outcome.candidate.node
        members.setdefault(node.pool or "", []).append(node)
    allowed = {
        pool.name: evaluate_budgets(
            pool, members.get(pool.name, ()), DisruptionReason.DRIFTED, new.snapshot.now or 0.0
        ).allowed
        for pool in new.snapshot.pools
    }
    gone: Counter[str] = Counter()
    waves: dict[str, int] = {}
    for command in preview.commands:
        is_static = command.method is Method.STATIC_DRIFT
        for candidate in command.candidates:
            pool = candidate.node.pool or ""
            waves[candidate.name] = 1 + gone[pool] // (1 if is_static else max(1, allowed[pool]))
            gone[pool] += not is_static
        gone[command.candidates[0].node.pool or ""] += is_static  # all its nodes are of one pool
    return waves


def _surge(preview: DisruptionPreview, waves: dict[str, int]) -> float:
    """The most that replacements cost beside the nodes that they replace, in USD per hour."""
    by_wave: dict[int, float] = {}
    for command in preview.commands:
        wave = waves[command.candidates[0].name]
        by_wave[wave] = by_wave.get(wave, 0.0) + command.price_after
    return max(by_wave.values(), default=0.0)


def _held_back(preview: DisruptionPreview) -> dict[str, str]:
    return {
        each.candidate.name: describe_verdict(
            msgspec.structs.replace(verdict_facts(each), saving=None)
        )
        for each in preview.outcomes
        if each.fate in (Fate.BLOCKED, Fate.KEPT)
    }


def _describe(drift: Drift, pool: str) -> str:
    template = WHAT_CHANGED.get(drift.reason)
    return describe_drift(drift) if template is None else template.format(pool=pool)


def drift_lines(drift: Document) -> Iterator[tuple[int, str]]:
    """Indentation and text."""
    nodes = drift["nodes"]
    for message, names in _by_message(nodes).items():
        verb = "drifts" if len(names) == 1 else "drift"
        yield 0, f"{format_count(len(names), 'node')} {verb}: {message}: {join_first(names)}"
    waves: dict[int, list[str]] = {}
    for node in nodes:
        if node["wave"] is not None:
            waves.setdefault(node["wave"], []).append(node["node"])
    if waves:
        yield from ((1, line) for line in [*_wave_lines(waves), _surge_line(drift)])
    for node in nodes:
        if node["wave"] is None:
            yield 1, f"{node['node']} is not replaced: {node['heldBy']}"


def _wave_lines(waves: dict[int, list[str]]) -> Iterator[str]:
    for number, names in sorted(waves.items())[:MAX_SHOWN_WAVES]:
        yield f"{number}. {join_first(names)}"
    if len(waves) > MAX_SHOWN_WAVES:
        yield f"and so on, {len(waves):,} times in all"


MAX_SHOWN_WAVES: Final = 5
SMALLEST_SHOWN: Final = 0.0005  # USD per hour; less is printed as nothing


def _by_message(nodes: Iterable[Document]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for node in nodes:
        groups.setdefault(node["message"], []).append(node["node"])
    return groups


def _surge_line(drift: Document) -> str:
    change, modelled = drift["pricePerHourChange"], drift["modelledPrices"]
    sign = "less" if change < 0 else "more"
    after = (
        f"afterwards the cluster costs {format_hourly(abs(change), modelled=modelled)} {sign}"
        if abs(change) >= SMALLEST_SHOWN
        else "afterwards the cluster costs the same"
    )
    surge = drift["surgePerHour"]
    if surge < SMALLEST_SHOWN:
        return f"no replacement runs at the same time; {after}"
    most = format_hourly(surge, modelled=modelled)
    return f"while both run, replacements cost up to {most}; {after}"
