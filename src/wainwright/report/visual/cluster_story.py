"""A cluster as it is, for `wain top`: its nodes, the verdict on each, and why pods wait."""

from collections.abc import Iterator
from typing import Any

from wainwright.core.disruption.preview import DisruptionPreview
from wainwright.messages.formatting import format_count, format_hourly
from wainwright.model.plan import ExplainedPlan
from wainwright.report.consolidation_rows import has_modelled_prices
from wainwright.report.plan_input import PlanInput
from wainwright.report.visual.consolidation_story import verdict_records
from wainwright.report.visual.plan_story import pending_explanations
from wainwright.report.visual.preview_history import PreviewHistory, pool_infos
from wainwright.report.visual.story import MomentUnit, Story, StoryKind

Document = dict[str, Any]


def cluster_story(
    given: PlanInput,
    plan: ExplainedPlan,
    preview: DisruptionPreview,
    *,
    plan_document: Document,
    consolidation_document: Document,
) -> Story:
    """Nothing happens in it: moment 0 is the input. The documents are the JSON of both commands."""
    steps = PreviewHistory(given.snapshot, given.indexes)
    for pod, reason in _planned_pods(plan):
        number = steps.pod_numbers.get(pod)
        if number is not None:
            steps.history.pods[number].waits = [(0.0, reason)]
    steps.count_reservations(0)
    return Story(
        kind=StoryKind.CLUSTER,
        name="cluster",
        answer=_answer(given, consolidation_document),
        unit=MomentUnit.STEPS,
        start=given.now,
        end=0.0,
        pools=pool_infos(given.snapshot.pools),
        history=steps.history,
        verdicts=[*verdict_records(preview, consolidation_document, steps)],
        pending=[*pending_explanations(plan_document, steps)],
        warnings=list(given.warnings),
    )


def _planned_pods(plan: ExplainedPlan) -> Iterator[tuple[str, str]]:
    """Pods that the plan schedules, and where."""
    for claim in plan.claims:
        launch = claim.launch
        where = f"{launch.instance_type}, {launch.capacity_type}, {launch.zone}"
        for pod in claim.pods:
            yield pod, f"needs a new node of {claim.pool}: {where}"
    for placement in plan.placements:
        for pod in placement.pods:
            yield pod, f"fits on {placement.node}"


def _answer(given: PlanInput, document: Document) -> str:
    summary = document["summary"]
    if not any(node.managed for node in given.snapshot.nodes):
        return "there are no nodes of NodePools"
    if not document["commands"]:
        return "no node can be removed or replaced for less"
    saved = summary["savingsPerHour"]
    after, before = summary["nodesAfter"], summary["nodesBefore"]
    saving = format_hourly(saved, modelled=has_modelled_prices(document))
    return f"{format_count(before, 'node')} could be {after}, which saves {saving}"
