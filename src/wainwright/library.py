"""`import wainwright`: read, plan and explain, for notebooks and scripts."""

from datetime import UTC, datetime
from pathlib import Path

from wainwright.manifests import cluster_manifests
from wainwright.manifests.cluster_manifests import ClusterManifests
from wainwright.model.plan import DEFAULT_PLAN_OPTIONS, ExplainedPlan, PlanOptions
from wainwright.offline import OfflinePlan, PlanSettings, make_plan, prepare_input
from wainwright.report.pod_explanation import explain_with_suggestions


def read(*paths: str | Path, scheduler_config: str | Path | None = None) -> ClusterManifests:
    """Every object of these files and folders; raises InvalidInput with all that is wrong.

    `scheduler_config` is the file whose default constraints the cluster's scheduler applies.
    """
    config = None if scheduler_config is None else str(scheduler_config)
    return cluster_manifests.read_manifests([str(path) for path in paths], scheduler_config=config)


def plan(
    manifests: ClusterManifests,
    *,
    now: datetime | None = None,
    options: PlanOptions = DEFAULT_PLAN_OPTIONS,
) -> ExplainedPlan:
    """Which nodes for which pods. Only reservations with a start or end depend on the time."""
    return _make_plan(manifests, now, options).plan


def explain(
    manifests: ClusterManifests,
    pod: str,
    *,
    now: datetime | None = None,
    options: PlanOptions = DEFAULT_PLAN_OPTIONS,
) -> str:
    """Where a pod goes and what decided, or why it goes nowhere."""
    planned = _make_plan(manifests, now, options, with_suggestions=False)
    at = planned.prepared.settings.now.isoformat()
    return "\n".join(explain_with_suggestions(planned, pod, now=at).lines)


def _make_plan(
    manifests: ClusterManifests,
    now: datetime | None,
    options: PlanOptions,
    *,
    with_suggestions: bool = True,
) -> OfflinePlan:
    at = datetime.now(UTC) if now is None else now
    return make_plan(
        prepare_input(manifests, PlanSettings(now=at, options=options)),
        with_suggestions=with_suggestions,
    )
