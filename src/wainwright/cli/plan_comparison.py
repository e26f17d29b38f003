"""`wain plan --diff OLD NEW`: plans two inputs for the same time and prints what changes, and which
nodes drift by it.
"""

from typing import Any

import msgspec

from wainwright.cli import printing
from wainwright.cli.catalog_input import parse_time
from wainwright.cli.plan import PlanArguments, Timings, plan_of
from wainwright.cli.printing import print_notes, print_problems
from wainwright.errors import UsageError
from wainwright.manifests.problems import Problem
from wainwright.model.plan import UnschedulableGroup
from wainwright.report.drift_preview import preview_drift
from wainwright.report.plan_diff import (
    diff_exit_code,
    diff_lines,
    diff_markdown,
    diff_plans,
    pods_with_other_causes,
)
from wainwright.report.plan_input import PlanInput
from wainwright.report.plan_json import plan_document, plan_notes

Document = dict[str, Any]


def compare(arguments: PlanArguments, output: str, timings: Timings, *, every: bool = False) -> int:
    """Plan both inputs for the same time and print the difference."""
    if len(arguments.paths) != 2:
        raise UsageError("--diff compares two inputs", "write: wain plan --diff OLD NEW")
    if "-" in arguments.flag_files:
        raise UsageError(
            "standard input can be read once, and two plans need it", "put it into a file"
        )
    if output not in DIFF_PRINTERS:
        raise UsageError(
            f"a difference cannot be printed as {output}", "use -o table, json, yaml or markdown"
        )
    now = parse_time(arguments.now).isoformat()
    old, new = (_plan_side(arguments, path, now, timings) for path in arguments.paths)
    print_notes(merge_notes(old.notes, new.notes))
    with timings.measure("explain"):
        other_causes = pods_with_other_causes(old.unschedulable, new.unschedulable)
        drift = preview_drift(old.given, new.given)
        diff = diff_plans(old.plan, new.plan, drift, other_causes)
    DIFF_PRINTERS[output](diff, every)
    print_problems(dict.fromkeys([*old.other_notes, *new.other_notes]), word="note")
    return diff_exit_code(diff)


class PlannedSide(msgspec.Struct, frozen=True, kw_only=True):
    """One of the two plans."""

    given: PlanInput
    plan: Document
    unschedulable: tuple[UnschedulableGroup, ...]
    notes: list[str]
    other_notes: tuple[Problem, ...]


def _plan_side(arguments: PlanArguments, path: str, now: str, timings: Timings) -> PlannedSide:
    side_arguments = msgspec.structs.replace(arguments, files=(path,), more=(), now=now)
    given, result = plan_of(side_arguments, timings, needs_classes=True)
    with timings.measure("explain"):
        document = plan_document(given, result)
    return PlannedSide(
        given=given,
        plan=document,
        unschedulable=result.unschedulable,
        notes=[*given.warnings] if arguments.quiet else plan_notes(given, result),
        other_notes=given.other_notes,
    )


def merge_notes(old: list[str], new: list[str]) -> list[str]:
    """Notes of both plans once; those of one plan with a prefix."""
    both = [note for note in old if note in new]
    return [
        *both,
        *(f"OLD: {note}" for note in old if note not in both),
        *(f"NEW: {note}" for note in new if note not in both),
    ]


def _print_diff_text(diff: Document, every: bool) -> None:
    printing.echo_lines(diff_lines(diff, every=every))


def _print_diff_json(diff: Document, _: bool) -> None:
    printing.echo_json(diff)


def _print_diff_markdown(diff: Document, _: bool) -> None:
    printing.echo_lines(diff_markdown(diff))


def _print_diff_yaml(diff: Document, _: bool) -> None:
    printing.echo_yaml(diff)


DIFF_PRINTERS = {
    "table": _print_diff_text,
    "json": _print_diff_json,
    "yaml": _print_diff_yaml,
    "markdown": _print_diff_markdown,
}
