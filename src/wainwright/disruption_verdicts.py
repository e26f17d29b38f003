"""Verdicts on nodes, from what a look at the cluster found to what sentences are made of."""

from collections.abc import Iterator

from wainwright.core.disruption.budgets import DisruptionReason, evaluate_budgets
from wainwright.core.disruption.candidates import Blocker, BlockerCode, Candidate
from wainwright.core.disruption.drift import Drift
from wainwright.core.disruption.preview import NodeOutcome
from wainwright.messages.disruption import (
    BlockerFacts,
    VerdictFacts,
    describe_requirement_drift,
)
from wainwright.model.labels import CAPACITY_TYPE, INSTANCE_TYPE, ZONE
from wainwright.translate.disruption import (
    PAUSE_ANNOTATION,
    describe_unreadable_pause,
    format_duration,
)


def verdict_facts(outcome: NodeOutcome, replacements: tuple[str, ...] = ()) -> VerdictFacts:
    candidate = outcome.candidate
    node, pool = candidate.node, candidate.pool
    after = None if pool is None else pool.disruption.consolidate_after
    return VerdictFacts(
        verdict=outcome.fate.value,
        code=outcome.code,
        node=node.name,
        pool=node.pool or "",
        instance_type=node.labels.get(INSTANCE_TYPE, ""),
        zone=node.labels.get(ZONE, ""),
        capacity_type=node.labels.get(CAPACITY_TYPE, ""),
        pods=len(candidate.pods),
        joined=node.joined and node.launched,
        drift="" if candidate.drift is None else describe_drift(candidate.drift),
        replacements=replacements,
        budget_problem=_budget_problem(candidate),
        pause_problem=_pause_problem(candidate),
        policy="" if pool is None else pool.disruption.policy,
        consolidate_after=None if after is None else format_duration(after),
        blockers=tuple(_blocker(each) for each in _blockers(outcome)),
        saving=outcome.saving,
        max_nodes=outcome.max_nodes,
        modelled=candidate.offering is not None and candidate.offering.modelled,
    )


def _budget_problem(candidate: Candidate) -> str:
    if candidate.pool is None:
        return ""
    return evaluate_budgets(candidate.pool, (), DisruptionReason.UNDERUTILIZED, 0.0).invalid


def _pause_problem(candidate: Candidate) -> str:
    annotations = {} if candidate.pool is None else candidate.pool.annotations
    problem = describe_unreadable_pause(annotations.get(PAUSE_ANNOTATION, ""))
    return f"{PAUSE_ANNOTATION}: {problem}" if problem else ""


def _blockers(outcome: NodeOutcome) -> Iterator[Blocker]:
    """Each once, the one that counts first. Those of a node that goes do not matter."""
    if outcome.blocker is None:
        return
    known = dict.fromkeys([outcome.blocker, *outcome.candidate.blockers, *outcome.rules])
    # An expired node is being deleted because of that.
    hidden = BlockerCode.DELETING if outcome.blocker.code is BlockerCode.EXPIRED else None
    yield from (each for each in known if each.code is not hidden)


def _blocker(blocker: Blocker) -> BlockerFacts:
    return BlockerFacts(
        code=blocker.code.text,
        kind=blocker.kind.value,
        name=blocker.name,
        until=blocker.until,
        budget=blocker.budget,
        message=blocker.message,
    )


def describe_drift(drift: Drift) -> str:
    """NodePoolDrifted; or RequirementsDrifted: kubernetes.io/arch is amd64, not In [arm64]."""
    if drift.message:
        return f"{drift.reason}: {drift.message}"
    conflict = drift.conflict
    if conflict is None:
        return drift.reason
    return f"{drift.reason}: {describe_requirement_drift(conflict)}"
