"""A plan as a story of one step: the cluster of the input, and with what would be launched."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from wainwright.core.disruption.eviction import evict_from_deleting_nodes
from wainwright.core.explain.idle_reservations.utilization import reservation_utilization
from wainwright.messages.formatting import format_cost, format_count, format_scheduled
from wainwright.model.plan import ExplainedPlan, PlannedNodeClaim
from wainwright.report.plan_input import PlanInput
from wainwright.report.plan_rows import format_reservation_use, unschedulable_rows
from wainwright.report.pod_explanation import DecidedPlan, decision_lines, launch_lines
from wainwright.report.reservation_usage import usage_document, usage_notes
from wainwright.report.visual.preview_history import PreviewHistory, pool_infos
from wainwright.report.visual.story import (
    MomentUnit,
    NodeNote,
    PendingExplanation,
    PoolRefusal,
    Story,
    StoryKind,
)

Document = dict[str, Any]
PLANNED: Final = 1.0
MAX_EXPLAINED_PODS: Final = 2_000
"""Pods of an input of which decisions are explained: each explanation makes the plan once more."""
MAX_EXPLAINED_CLAIMS: Final = 20


def plan_story(given: PlanInput, plan: ExplainedPlan, document: Document) -> Story:
    """`document` is the plan's JSON."""
    snapshot = evict_from_deleting_nodes(given.snapshot).snapshot
    preview = PreviewHistory(snapshot, given.indexes)
    numbers = [preview.launch(claim, PLANNED) for claim in plan.claims]
    for placement in plan.placements:
        for pod in placement.pods:
            preview.place(pod, preview.node_numbers[placement.node], PLANNED)
    _add_reservation_facts(given, plan, preview)
    summary = document["summary"]
    return Story(
        kind=StoryKind.PLAN,
        name="plan",
        answer=_answer(summary),
        unit=MomentUnit.STEPS,
        start=given.now,
        end=PLANNED,
        pools=pool_infos(given.snapshot.pools),
        history=preview.history,
        pending=[*pending_explanations(document, preview)],
        notes=[*_notes(given, plan, numbers)],
        totals=[*_totals(document)],
        warnings=list(document["warnings"]),
        figures=summary,
    )


def _answer(summary: Document) -> str:
    nodes, price, fees = (summary[key] for key in ("nodeClaims", "pricePerHour", "feesPerHour"))
    placed = format_scheduled(summary["scheduled"], summary["pods"])
    cost = format_cost(nodes, price, fees, modelled=summary["modelledPrices"])
    return f"{placed}; to be launched: {cost}"


def _totals(document: Document) -> Iterator[tuple[str, str]]:
    summary = document["summary"]
    price, fees = summary["pricePerHour"], summary["feesPerHour"]
    modelled = summary["modelledPrices"]
    yield "new nodes", format_cost(summary["nodeClaims"], price, fees, modelled=modelled)
    yield "pods", format_scheduled(summary["scheduled"], summary["pods"])
    for use in summary["reservations"]:
        yield f"reservation {use['id']}", use["unusable"] or format_reservation_use(use)


def pending_explanations(
    document: Document, preview: PreviewHistory
) -> Iterator[PendingExplanation]:
    for row in unschedulable_rows(document["unschedulable"]):
        yield PendingExplanation(
            pods=[preview.pod_numbers[pod] for pod in row.pods],
            reason=row.answer.cause,
            suggestion=row.answer.fix or "",
            pools=[
                PoolRefusal(
                    pool=each["nodePool"],
                    reason=each["reason"],
                    funnel=list(each["funnel"].values()),
                )
                for each in row.pools
            ],
            nodes=list(row.nodes),
        )


def _add_reservation_facts(given: PlanInput, plan: ExplainedPlan, preview: PreviewHistory) -> None:
    """Counts as the plan's JSON has them, the price of idle instances, and who could use them."""
    uses = {each.id: each for each in plan.reservations}
    utilization = reservation_utilization(given.snapshot, given.indexes, plan, given.options)
    rows = {row["id"]: row for row in map(usage_document, utilization)}
    prices = {each.id: each.on_demand_price for each in utilization}
    for record in preview.history.reservations:
        use, row = uses.get(record.id), rows.get(record.id)
        if use is not None:
            taken = use.total - use.available + use.in_flight + use.used
            record.counts = [*record.counts, (PLANNED, taken, use.total, use.remaining)]
        if row is not None:
            record.prices = [(0.0, prices[record.id])]
            record.notes = usage_notes([row])


def _notes(given: PlanInput, plan: ExplainedPlan, numbers: Iterable[int]) -> Iterator[NodeNote]:
    """Why each node is planned; equal ones are explained once."""
    decided = DecidedPlan(
        snapshot=given.snapshot, indexes=given.indexes, options=given.options, plan=plan
    )
    is_small = len(given.snapshot.pods) <= MAX_EXPLAINED_PODS
    known: dict[object, list[str]] = {}
    for claim, number in zip(plan.claims, numbers, strict=True):
        key = (claim.pool, claim.launch, claim.choices, claim.relaxed_min_values)
        if key not in known:
            is_explained = is_small and len(known) < MAX_EXPLAINED_CLAIMS
            known[key] = _explain(decided, claim, with_placement=is_explained)
        yield NodeNote(node=number, why=[_why(claim)], elsewhere=known[key])


def _explain(decided: DecidedPlan, claim: PlannedNodeClaim, *, with_placement: bool) -> list[str]:
    if with_placement and claim.pods:
        return [line.strip() for line in decision_lines(decided, claim, claim.pods[0])]
    return [line.strip() for line in launch_lines(decided, claim)]


def _why(claim: PlannedNodeClaim) -> str:
    pods = format_count(len(claim.pods), "pod")
    return (
        f"NodePool {claim.pool} would launch it for {pods}"
        if claim.pods
        else (f"NodePool {claim.pool} is static and lacks it")
    )
