"""Verdicts on nodes as sentences: what becomes of a node, what keeps it, and which change frees it.

Names in them can be looked up with kubectl. Each code has one entry here, and a test compares them
with the codes of the decisions.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec

from wainwright.messages.formatting import (
    format_count,
    format_hourly,
    join_first,
    join_with_and,
)
from wainwright.messages.suggestions import describe_fixes
from wainwright.model.disruption import (
    BlockingBudget,
    CommandWarning,
    FreeingChange,
    WarningCode,
)
from wainwright.model.requirements import RequirementConflict


class BlockerFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What keeps a node from being disrupted."""

    code: str
    kind: str
    name: str
    until: float | None = None
    """When it ceases by itself, in seconds since 1970."""
    budget: BlockingBudget | None = None
    """Of a PodDisruptionBudget."""
    message: str = ""
    """What the API server said; empty where it is not known."""


class VerdictFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a node and of what becomes of it."""

    verdict: str
    """removed, replaced, kept or blocked"""
    code: str
    node: str
    pool: str = ""
    instance_type: str = ""
    zone: str = ""
    capacity_type: str = ""
    pods: int = 0
    """Those that would have to be created again elsewhere."""
    joined: bool = True
    """False for a NodeClaim without a Node."""
    budget_problem: str = ""
    """Why a budget of the NodePool cannot be read, which stops all of them."""
    pause_problem: str = ""
    """What of the NodePool pauses everything because it cannot be read."""
    drift: str = ""
    replacements: tuple[str, ...] = ()
    policy: str = ""
    consolidate_after: str | None = None
    """A duration; None for Never."""
    blockers: tuple[BlockerFacts, ...] = ()
    saving: float | None = None
    """What would be saved but for the blockers, in USD per hour."""
    modelled: bool = False
    """Whether the price of the node is an estimate, and so is the saving."""
    max_nodes: int | None = None
    """How many nodes one command takes, where the node waits because of it."""

    def names(self, code: str) -> list[str]:
        """Of the blockers with this code, each once."""
        return list(dict.fromkeys(each.name for each in self.blockers if each.code == code))

    def until(self, code: str) -> float | None:
        """When the last blocker with this code ceases; None where one does not by itself."""
        moments = [each.until for each in self.blockers if each.code == code]
        known = [each for each in moments if each is not None]
        return max(known) if known and len(known) == len(moments) else None


def format_moment(seconds: float) -> str:
    """2026-01-31T12:00:00Z"""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def describe_verdict(facts: VerdictFacts) -> str:
    """Why the node goes or stays; where something holds it back, what to do and what it saves."""
    reason = describe_reason(facts)
    if facts.drift and facts.verdict in ("kept", "blocked") and facts.code not in GONE_REASONS:
        reason = f"it has drifted ({facts.drift}), but {reason}"
    others = len({each.code for each in facts.blockers} - {facts.code})
    more = f", and {format_count(others, 'other reason')}" if others else ""
    if not facts.saving or facts.verdict not in ("blocked", "kept"):
        return reason + more
    change = suggest_change(facts)
    saving = format_hourly(facts.saving, modelled=facts.modelled)
    if change is None or more:
        return f"{reason}{more}; without that, {saving} would be saved"
    return f"{reason}; {change} to save {saving}"


def describe_reason(facts: VerdictFacts) -> str:
    """The sentence of the code alone."""
    if facts.code in GONE_REASONS:
        return _describe_removal(facts)
    held = _own_reservation(facts)
    if held is not None:
        return f"its replacement would need its own instance of capacity reservation {held}"
    if facts.code == "pdb" and all(each.is_shared for each in _budgets(facts).values()):
        return SHARED_BUDGETS.format(**_values(facts))
    if facts.code == "consolidate-after" and facts.until(facts.code) is None:
        return "its NodeClaim does not have the condition Consolidatable"
    return REASONS[facts.code].format(**_values(facts))


def _own_reservation(facts: VerdictFacts) -> str | None:
    """The reservation in which there is room only once the node is gone."""
    is_pending = facts.code == "pods-would-be-pending"
    found = (each.name for each in facts.blockers if each.kind == "reservation")
    return next(found, None) if is_pending else None


def _describe_removal(facts: VerdictFacts) -> str:
    reason = GONE_REASONS[facts.code].format(**_values(facts))
    if facts.verdict == "kept" and facts.max_nodes is not None:
        most = format_count(facts.max_nodes, "node")
        return f"{reason}; it waits: a command takes at most {most} (--max-nodes)"
    if facts.verdict == "kept":
        return f"{reason}: a further step or another method would remove it"
    if facts.code == "empty" or facts.verdict == "blocked":
        return reason
    if not facts.replacements:
        them = "it" if facts.pods == 1 else "them"
        return f"{reason}, and other nodes have room for {them}" if facts.pods else reason
    replace = "replaces" if len(facts.replacements) == 1 else "replace"
    return f"{reason}, and {join_first(facts.replacements)} {replace} it"


def _pods(facts: VerdictFacts) -> str:
    return "its pod" if facts.pods == 1 else f"its {facts.pods:,} pods"


def suggest_change(facts: VerdictFacts) -> str | None:
    """The one change after which this code would not hold; None where nobody can change it."""
    until = facts.until(facts.code)
    if until is not None:
        return f"wait until {format_moment(until)}"
    if facts.code == "policy" and facts.consolidate_after is None:
        return f"set consolidateAfter of NodePool {facts.pool} to a duration"
    if _own_reservation(facts) is not None:
        return "terminate it first with --feature-gate TerminateFirstDrift=true"
    if facts.code == "pdb":
        return _suggest_budgets(facts)
    template = CHANGES.get(facts.code)
    return None if template is None else template.format(**_values(facts))


def describe_change(change: FreeingChange) -> str:
    """A change that was tried, with what it needs of whom."""
    if change.until is not None:
        nodes, moment = _join_names(change.nodes), format_moment(change.until)
        return f"wait until {moment}, when consolidateAfter lets its pods go to {nodes}"
    if change.fixes:
        return describe_fixes(change.fixes)
    if change.cluster_limits:
        return "raise --cluster-limit"
    if change.code == "spot-to-spot":
        return _suggest_spot_to_spot(change)
    pool = change.pool
    return CHANGES[change.code].format(pool=pool, rule_pool=pool)


def _suggest_spot_to_spot(change: FreeingChange) -> str:
    gate = ["allow spot to spot with --feature-gate SpotToSpotConsolidation=true"]
    types = (
        f"lower wainwright.dev/spot-to-spot-types of NodePool {change.pool}, or "
        f"--spot-to-spot-types, to {change.types}"
    )
    parts = [*(gate if change.gate else []), *([] if change.types is None else [types])]
    return ", and ".join(parts)


def describe_blocker(blocker: BlockerFacts, facts: VerdictFacts) -> str:
    """One blocker, named."""
    alone = msgspec.structs.replace(facts, code=blocker.code, blockers=(blocker,), verdict="kept")
    return describe_reason(alone)


GONE_REASONS: Final = {
    "empty": "it is empty: nothing but DaemonSet pods runs on it",
    "drifted": "it has drifted ({drift})",
    "underutilized": "it costs more than {its_pods} {need}",
    "unhealthy": "it is unhealthy",
}
"""Codes of nodes that a command takes."""

REASONS: Final[Mapping[str, str]] = {
    "no-saving": "no cheaper node can run {its_pods}",
    "pods-would-be-pending": (
        "without it, pods would be unschedulable (wain explain node {node} explains which and why)"
    ),
    "needs-several-nodes": "{its_pods} would need several new nodes, and a command launches one",
    "do-not-disrupt-node": "the node has the annotation karpenter.sh/do-not-disrupt",
    "do-not-disrupt-pod": "{pod} {names} {has} the annotation karpenter.sh/do-not-disrupt",
    "cannot-begin": "its disruption could not be begun, and is tried again later{refusal}",
    "pdb": "{budget} {names_and_counts} {allows} no eviction now",
    "budget": "the disruption budgets of NodePool {pool} allow no further node now{unreadable}",
    "consolidate-after": (
        "its pods changed within the last {after} (consolidateAfter of NodePool {pool})"
    ),
    "policy": "NodePool {pool} does not consolidate it ({policy})",
    "nominated": "pending pods are nominated to it",
    "not-initialized": "{not_up}",
    "deleting": "it is being deleted",
    "unknown-price": "the catalogue has no price for {type}",
    "spot-to-spot": (
        "it is spot, and so is every cheaper option: replacing it needs the feature gate "
        "SpotToSpotConsolidation and enough cheaper types"
    ),
    "min-values": "cheaper instance types do not meet the minValues of NodePool {rule_pool}",
    "min-saving": "its removal would save less than the minimum saving",
    "balanced-score": "policy Balanced: the saving is too small for what would be disrupted",
    "limits": "its replacement would exceed the limits",
    "static-pool": "NodePool {pool} is static: it keeps its number of nodes",
    "expired": "it is older than its expireAfter, and expiration deletes it without a command",
    "not-ours": "NodePool {pool} is not in the input",
    "paused": "disruption of NodePool {pool} is paused{unreadable_pause}",
    "breaker": "too many nodes were removed within a short time",
    "consolidation-backoff": (
        "consolidation removed its predecessor, and a node had to be launched again for the "
        "same pods"
    ),
}

CHANGES: Final[Mapping[str, str]] = {
    "needs-several-nodes": "allow several with --allow-split",
    "do-not-disrupt-node": "remove the annotation",
    "do-not-disrupt-pod": "remove the annotation",
    "budget": "{raise_budget} spec.disruption.budgets of NodePool {pool}",
    "policy": "set consolidationPolicy of NodePool {pool} to WhenEmptyOrUnderutilized",
    "unknown-price": "state its price in the Cloud, an InstanceType or a NodeOverlay",
    "spot-to-spot": (
        "allow spot-to-spot consolidation (--feature-gate SpotToSpotConsolidation=true) with fewer "
        "types (--spot-to-spot-types)"
    ),
    "min-values": "lower minValues of NodePool {rule_pool}",
    "min-saving": (
        "lower the minimum saving (--min-saving, or the annotation wainwright.dev/minimum-saving "
        "of NodePool {pool})"
    ),
    "balanced-score": "set consolidationPolicy of NodePool {pool} to WhenEmptyOrUnderutilized",
    "limits": "raise the limits for NodePool {rule_pool}",
    "static-pool": "lower spec.replicas of NodePool {pool}",
    "not-ours": "add NodePool {pool} to the input",
    "paused": "remove the annotation wainwright.dev/pause, or the setting",
    "consolidate-after": "wait until its NodeClaim has the condition Consolidatable",
    "consolidation-backoff": (
        "remove the annotation wainwright.dev/undone-consolidations of its NodeClaim"
    ),
}


def _values(facts: VerdictFacts) -> dict[str, str]:
    names = facts.names(facts.code)
    place = [facts.instance_type or "a node without an instance type"]
    place += [f"in {facts.zone}"] if facts.zone else []
    place += [f"as {facts.capacity_type}"] if facts.capacity_type else []
    is_waiting = facts.consolidate_after is None
    refusals = [f": {each.message}" for each in facts.blockers if each.message]
    return {
        "refusal": next(iter(refusals), ""),
        "node": facts.node,
        "pool": facts.pool,
        "rule_pool": next(iter(names), facts.pool),
        "names": _join_names(names),
        "names_and_counts": _join_names([*_budget_counts(facts)]),
        "pod": "pod" if len(names) == 1 else "pods",
        "budget": f"PodDisruptionBudget{'' if len(names) == 1 else 's'}",
        "has": "has" if len(names) == 1 else "have",
        "allows": "allows" if len(names) == 1 else "allow",
        "select": "selects" if len(names) == 1 else "select",
        "its_pods": _pods(facts) if facts.pods else "it",
        "unreadable": f": {facts.budget_problem}" if facts.budget_problem else "",
        "unreadable_pause": f" ({facts.pause_problem})" if facts.pause_problem else "",
        "raise_budget": "correct" if facts.budget_problem else "raise",
        "need": "needs" if facts.pods == 1 else "need",
        "after": facts.consolidate_after or "",
        "policy": "consolidateAfter: Never" if is_waiting else f"policy {facts.policy}",
        "type": " ".join(place),
        "drift": facts.drift,
        "not_up": "it is not initialized yet" if facts.joined else "its NodeClaim has no Node yet",
    }


def _join_names(names: Sequence[str]) -> str:
    return join_with_and(names) if len(names) <= 3 else join_first(names)


# PodDisruptionBudgets

SHARED_BUDGETS: Final = (
    "{budget} {names} {select} a pod that another one selects too, and Kubernetes evicts no such "
    "pod"
)


def _budgets(facts: VerdictFacts) -> dict[str, BlockingBudget]:
    return {
        each.name: each.budget or BlockingBudget() for each in facts.blockers if each.code == "pdb"
    }


def _budget_counts(facts: VerdictFacts) -> Iterator[str]:
    """shop/db (minAvailable 2, 2 of 2 pods healthy)"""
    for name, budget in _budgets(facts).items():
        if budget.field:
            healthy = f"{budget.healthy:,} of {format_count(budget.expected, 'pod')} healthy"
            yield f"{name} ({budget.field} {budget.value}, {healthy})"
        else:
            yield name


def _suggest_budgets(facts: VerdictFacts) -> str:
    budgets = _budgets(facts)
    shared = [name for name, budget in budgets.items() if budget.is_shared]
    changes = (
        [f"change the selectors so that only one of {join_with_and(shared)} selects each pod"]
        if shared
        else []
    )
    changes += [
        _suggest_budget(name, budget) for name, budget in budgets.items() if not budget.is_shared
    ]
    return join_with_and(changes)


def _suggest_budget(name: str, budget: BlockingBudget) -> str:
    """set minAvailable of PodDisruptionBudget shop/db to 1 (now 2), or run 3 replicas"""
    if budget.allowing_value is None:
        return f"wait until PodDisruptionBudget {name} allows an eviction (more healthy pods)"
    value = f"{budget.allowing_value} (now {budget.value})"
    change = f"set {budget.field} of PodDisruptionBudget {name} to {value}"
    if budget.replicas_needed is not None:
        return f"{change}, or run {budget.replicas_needed:,} replicas"
    if budget.healthy_needed is None:
        return change
    is_every = budget.healthy_needed == budget.expected
    every = "all" if is_every else f"{budget.healthy_needed:,}"
    return f"{change}, or wait until {every} of its {budget.expected:,} pods are healthy"


WARNINGS: Final = {
    WarningCode.FEW_TYPES: "step {step}: {node} can be launched as {types} only; EC2 may have no "
    "capacity for it",
    WarningCode.REPLICAS_TOGETHER: "step {step}: all {count} replicas of {workload} would be on "
    "{node}, a spot node; a topology spread constraint would keep them apart",
}


def describe_requirement_drift(conflict: RequirementConflict) -> str:
    has = "is missing" if conflict.offered is None else f"is {conflict.offered}"
    return f"label {conflict.key} {has}; the NodePool requires {conflict.wanted}"


def describe_warning(warning: CommandWarning) -> str:
    return WARNINGS[warning.code].format(
        step=warning.step,
        node=warning.node,
        count=warning.count,
        workload=warning.workload,
        types=format_count(warning.count, "instance type"),
    )
