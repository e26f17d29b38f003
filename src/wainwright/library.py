"""`import wainwright`: the verbs of the command line (read, plan, explain, consolidate, simulate),
for notebooks and scripts. Results are values; `to_dict()` is what the command prints with -o json.
"""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from wainwright.core.disruption.cluster_bound import cluster_lower_bound
from wainwright.core.disruption.commands import Command
from wainwright.core.disruption.disruption_input import MAX_STEPS, DisruptionOptions
from wainwright.core.disruption.preview import DisruptionPreview, preview_disruption
from wainwright.errors import InvalidInputError, UsageError, WainError
from wainwright.manifests import cluster_manifests
from wainwright.manifests.cluster_manifests import ClusterManifests
from wainwright.manifests.problems import InvalidInput
from wainwright.messages.formatting import format_count, format_hourly
from wainwright.model.plan import (
    DEFAULT_PLAN_OPTIONS,
    ClusterLimits,
    ExplainedPlan,
    MinValuesPolicy,
    NodeAssignment,
    PackingPolicy,
    PlannedNodeClaim,
    PlanOptions,
    PreferencePolicy,
    ReservationUsage,
    UnschedulableGroup,
)
from wainwright.model.simulation import SimulationResult
from wainwright.offline import OfflinePlan, PlanSettings, PreparedInput, make_plan, prepare_input
from wainwright.report import node_explanation
from wainwright.report.consolidation_json import consolidation_document
from wainwright.report.plan_input import PlanInput, plan_input, with_consolidation
from wainwright.report.plan_json import plan_document
from wainwright.report.pod_explanation import explain_with_suggestions

__all__ = [
    "ClusterLimits",
    "ConsolidationResult",
    "DisruptionOptions",
    "InvalidInput",
    "InvalidInputError",
    "MinValuesPolicy",
    "PackingPolicy",
    "PlanOptions",
    "PlanResult",
    "PreferencePolicy",
    "SimulationResult",
    "UsageError",
    "WainError",
    "consolidate",
    "explain",
    "plan",
    "read",
    "simulate",
]

Value = TypeVar("Value")


def read(
    *paths: str | Path,
    cloud: str | Path | None = None,
    catalog: str | Path | None = None,
    scheduler_config: str | Path | None = None,
) -> ClusterManifests:
    """Every object of these files and folders; raises InvalidInput with all that is wrong.

    `cloud` and `catalog` are files in place of the Cloud and Catalog of the input;
    `scheduler_config` is the file whose default constraints the cluster's scheduler applies.
    """
    if not paths:
        raise UsageError("read() was given no files", 'write read("FOLDER")')
    return cluster_manifests.read_manifests(
        [_path("read", path) for path in paths],
        cloud=None if cloud is None else _path("read", cloud),
        catalog=None if catalog is None else _path("read", catalog),
        scheduler_config=None if scheduler_config is None else _path("read", scheduler_config),
    )


class PlanResult:
    """Which nodes would be launched for which pods, and why some pods are unschedulable."""

    def __init__(self, plan: ExplainedPlan, given: PlanInput) -> None:
        self._plan = plan
        self._given = given

    @property
    def claims(self) -> tuple[PlannedNodeClaim, ...]:
        """The NodeClaims that would be created, each with its launch and its pods."""
        return self._plan.claims

    @property
    def placements(self) -> tuple[NodeAssignment, ...]:
        """Pods that existing nodes take."""
        return self._plan.placements

    @property
    def unplaced(self) -> tuple[str, ...]:
        """Names of unschedulable pods."""
        return self._plan.unplaced

    @property
    def unschedulable(self) -> tuple[UnschedulableGroup, ...]:
        """The same pods in groups that share their reasons."""
        return self._plan.unschedulable

    @property
    def reservations(self) -> tuple[ReservationUsage, ...]:
        return self._plan.reservations

    @property
    def price(self) -> float:
        """USD per hour of all claims, without fees."""
        return self._plan.price

    @property
    def fees(self) -> float:
        return self._plan.fees

    @property
    def scheduled(self) -> int:
        return self._plan.scheduled

    @property
    def warnings(self) -> tuple[str, ...]:
        return (*self._given.warnings, *self._plan.warnings)

    def to_dict(self) -> dict[str, Any]:
        """What `wain plan -o json` prints (docs/plan.schema.json)."""
        return plan_document(self._given, self._plan)

    def __repr__(self) -> str:
        price = format_hourly(self.price + self.fees, modelled=self._plan.has_modelled_prices)
        nodes = format_count(len(self.claims), "node")
        pods = format_count(len(self.unplaced), "pod")
        return f"<PlanResult: {nodes}, {price}, {pods} unschedulable>"


def plan(
    manifests: ClusterManifests,
    *,
    region: str | None = None,
    now: datetime | None = None,
    options: PlanOptions = DEFAULT_PLAN_OPTIONS,
) -> PlanResult:
    """Which nodes for which pods. Only reservations with a start or end depend on the time."""
    planned = make_plan(_prepare("plan", manifests, region, now, options))
    return PlanResult(planned.plan, _given(planned.prepared, is_time_given=now is not None))


def explain(
    manifests: ClusterManifests,
    pod: str | None = None,
    *,
    node: str | None = None,
    region: str | None = None,
    now: datetime | None = None,
    options: PlanOptions = DEFAULT_PLAN_OPTIONS,
) -> str:
    """Where a pod goes and what decided, or why it is unschedulable; with `node`, whether a node
    can be removed, or what keeps it.
    """
    if (pod is None) == (node is None):
        raise UsageError("explain() takes a pod or a node", 'write explain(world, "shop/web-0")')
    prepared = _prepare("explain", manifests, region, now, options)
    if node is not None:
        _checked("explain", "node", node, str)
        decided = _consolidate(
            prepared, DisruptionOptions(plan=options), MAX_STEPS, time_given=bool(now)
        )
        return "\n".join(node_explanation.explain_node(*decided, node)["lines"])
    _checked("explain", "pod", pod, str)
    planned: OfflinePlan = make_plan(prepared, with_suggestions=False)
    at = prepared.settings.now.isoformat()
    return "\n".join(explain_with_suggestions(planned, pod or "", now=at).lines)


class ConsolidationResult:
    """The disruption commands that would follow one another, and what they save."""

    def __init__(self, given: PlanInput, preview: DisruptionPreview) -> None:
        self._given = given
        self._preview = preview

    @property
    def commands(self) -> tuple[Command, ...]:
        return tuple(self._preview.commands)

    @property
    def saving(self) -> float:
        """USD per hour, of all commands together."""
        return sum(command.saving for command in self.commands)

    def to_dict(self) -> dict[str, Any]:
        """What `wain consolidate -o json` prints (docs/consolidation.schema.json)."""
        given = self._given
        bound = cluster_lower_bound(given.snapshot, given.indexes, given.options)
        return consolidation_document(given, self._preview, bound)

    def __repr__(self) -> str:
        saving = format_hourly(self.saving, modelled=self._preview.has_modelled_prices)
        commands = format_count(len(self.commands), "command")
        return f"<ConsolidationResult: {commands}, saving {saving}>"


def consolidate(
    manifests: ClusterManifests,
    *,
    region: str | None = None,
    now: datetime | None = None,
    options: DisruptionOptions | None = None,
    steps: int = MAX_STEPS,
) -> ConsolidationResult:
    """Which nodes disruption would remove or replace, command after command."""
    chosen = DisruptionOptions() if options is None else options
    _checked("consolidate", "options", chosen, DisruptionOptions)
    if not 1 <= _checked("consolidate", "steps", steps, int) <= MAX_STEPS:
        raise UsageError(f"consolidate(): steps is {steps}", f"expected 1 to {MAX_STEPS:,}")
    prepared = _prepare("consolidate", manifests, region, now, chosen.plan)
    return ConsolidationResult(*_consolidate(prepared, chosen, steps, time_given=bool(now)))


def simulate(
    scenario: str | Path, *, seed: int | None = None, changes: Sequence[str] = ()
) -> SimulationResult:
    """Run a Scenario on virtual time; `changes` are those of --set, as "spec.seed=7"."""
    # Loaded here: the other verbs need none of the controllers.
    from wainwright.sim.scenario_reader import read_scenario
    from wainwright.sim.simulation import Simulation

    _refuse_running_loop()
    if isinstance(changes, str):
        raise UsageError("simulate(): changes is one text", f"write changes=[{changes!r}]")
    run = Simulation(read_scenario(_path("simulate", scenario), changes=changes, seed=seed))
    try:
        return run.run()
    finally:
        run.close()


def _refuse_running_loop() -> None:
    """Virtual time has an event loop of its own, and asyncio runs one per thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise UsageError(
        "simulate() cannot run inside an event loop, as a notebook has it",
        "write: await asyncio.to_thread(wainwright.simulate, FILE)",
    )


def _consolidate(
    prepared: PreparedInput, options: DisruptionOptions, steps: int, *, time_given: bool
) -> tuple[PlanInput, DisruptionPreview]:
    given = with_consolidation(
        _given(prepared), prepared, options=options, steps=steps, time_given=time_given
    )
    return given, preview_disruption(given.disruption, options, steps)


def _given(prepared: PreparedInput, *, is_time_given: bool = False) -> PlanInput:
    manifests = prepared.manifests
    return plan_input(
        prepared,
        now=prepared.settings.now.isoformat(),
        is_time_given=is_time_given,
        file_notes=tuple(manifests.notes),
        other_notes=tuple(manifests.other_notes),
    )


def _prepare(
    verb: str,
    manifests: ClusterManifests,
    region: str | None,
    now: datetime | None,
    options: PlanOptions,
) -> PreparedInput:
    if not isinstance(manifests, ClusterManifests):
        raise UsageError(
            f"{verb}() takes what read() gives back, found {type(manifests).__name__}",
            f"write {verb}(wainwright.read(…))",
        )
    _checked(verb, "options", options, PlanOptions)
    if region is not None:
        _checked(verb, "region", region, str)
    settings = PlanSettings(now=_time(verb, now), region=region, options=options)
    return prepare_input(manifests, settings)


def _time(verb: str, now: datetime | None) -> datetime:
    if now is None:
        return datetime.now(UTC)
    if _checked(verb, "now", now, datetime).tzinfo is None:
        raise UsageError(
            f"{verb}(): now has no time zone: {now.isoformat()}",
            "write datetime(2026, 1, 31, tzinfo=UTC)",
        )
    return now


def _path(verb: str, path: str | Path) -> str:
    if not isinstance(path, str | Path):
        raise UsageError(
            f"{verb}() takes names of files, found {type(path).__name__}", "give text or a Path"
        )
    return str(path)


def _checked(verb: str, name: str, value: Value | None, expected: type[Value]) -> Value:
    if not isinstance(value, expected):
        raise UsageError(
            f"{verb}(): {name} is of type {type(value).__name__}", f"expected {expected.__name__}"
        )
    return value
