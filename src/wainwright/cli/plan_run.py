"""From options and files to a plan, for plan, its difference, explain pod and reservations; and
where the seconds went.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import msgspec

from wainwright.catalogue.diagnostics import InvalidCatalogInput, ObjectDiagnostic
from wainwright.cli.catalog_input import (
    CatalogArguments,
    catalog_settings,
    locate_remarks,
    parse_feature_gates,
    parse_time,
)
from wainwright.cli.options import show_progress
from wainwright.cli.printing import print_problems
from wainwright.errors import UsageError
from wainwright.manifests.cluster_manifests import ClusterManifests, read_manifests
from wainwright.manifests.documents import ProgressCallback
from wainwright.manifests.problems import InvalidInput, Problem, ProblemReport
from wainwright.model.plan import MinValuesPolicy, PackingPolicy, PlanOptions, PreferencePolicy
from wainwright.offline import OfflinePlan, PlanSettings, PreparedInput, make_plan, prepare_input

TIMED_STEPS: Final = ("read", "compile", "plan", "explain")


class Timings:
    """Seconds by part, and in all since it was made."""

    def __init__(self) -> None:
        self._start = time.perf_counter()
        self._parts = dict.fromkeys(TIMED_STEPS, 0.0)

    @contextmanager
    def spent(self, part: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self._parts[part] += time.perf_counter() - start

    def line(self) -> str:
        total = time.perf_counter() - self._start
        rounded = {part: round(seconds, 6) for part, seconds in self._parts.items()}
        return msgspec.json.encode({**rounded, "total": round(total, 6)}).decode()


class PlanArguments(CatalogArguments, frozen=True, kw_only=True):
    """The flags and files of a command that plans."""

    min_values_policy: str = "Strict"
    preference_policy: str = "Respect"
    packing: str = "first-fit"
    strict_weights: bool = False
    scheduler_config: str | None = None

    @property
    def by_flag(self) -> list[str]:
        config = self.scheduler_config
        return [*super().by_flag, *([] if config is None else [config])]


class PlanRun(msgspec.Struct, frozen=True, kw_only=True):
    """A plan and the time it is made for."""

    planned: OfflinePlan
    now: str


def run_plan(
    wish: PlanArguments, clock: Timings, *, quietly: bool = False, advise: bool = True
) -> PlanRun:
    """Read, compile and plan; notes go to standard error, refusals name file and line."""
    if not wish.arguments:
        raise UsageError(
            "no files were named", hint="name a file or a folder, or - for standard input"
        )
    conditions = _plan_settings(wish)
    with clock.spent("read"), show_progress() as report:
        manifests = _read_input(wish, report)
    with clock.spent("compile"):
        prepared = _prepare(manifests, conditions, wish)
    with clock.spent("plan"):
        made = make_plan(prepared, advise=advise)
    if not quietly:
        print_problems(
            [*manifests.notes, *_locate(prepared.remarks, wish)], word="note", colour="yellow"
        )
    return PlanRun(planned=made, now=conditions.now.isoformat())


def _read_input(wish: PlanArguments, report: ProgressCallback) -> ClusterManifests:
    return read_manifests(
        wish.arguments,
        cloud=wish.cloud,
        catalog=wish.catalog,
        scheduler_config=wish.scheduler_config,
        progress=report,
    )


def _plan_settings(wish: PlanArguments) -> PlanSettings:
    switched = parse_feature_gates(wish.gates)
    return PlanSettings(
        now=parse_time(wish.now),
        region=wish.region,
        gates=switched,
        rules=catalog_settings(wish),
        options=PlanOptions(
            min_values_policy=MinValuesPolicy(wish.min_values_policy),
            preference_policy=PreferencePolicy(wish.preference_policy),
            packing=PackingPolicy(wish.packing),
            strict_weights=wish.strict_weights,
            capacity_reservations=switched.capacity_reservations,
        ),
    )


def _prepare(
    manifests: ClusterManifests, conditions: PlanSettings, wish: PlanArguments
) -> PreparedInput:
    try:
        return prepare_input(manifests, conditions)
    except InvalidCatalogInput as refused:
        errors = _locate(refused.diagnostics, wish)
        raise InvalidInput(ProblemReport(errors=errors, warnings=manifests.notes)) from refused


def _locate(remarks: Sequence[ObjectDiagnostic], wish: PlanArguments) -> list[Problem]:
    return locate_remarks(remarks, [*wish.by_flag, *wish.arguments])
