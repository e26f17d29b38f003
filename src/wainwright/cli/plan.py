"""`wain plan`: which nodes for which pods, at what price, and why a pod is unschedulable.
`wain plan --diff OLD NEW` plans two inputs for the same time and prints what changes.
"""

from typing import Any, Final

import click
import msgspec

from wainwright.cli import printing
from wainwright.cli.catalog_input import parse_time
from wainwright.cli.options import PLAN_OPTIONS, add_options, file_arguments
from wainwright.cli.plan_run import PlanArguments, PlanRun, Timings, run_plan
from wainwright.cli.printing import print_notes
from wainwright.errors import UsageError
from wainwright.manifests.yaml_writer import dump_yaml
from wainwright.report.plan_diff import diff_exit_code, diff_lines, diff_plans
from wainwright.report.plan_json import plan_document, plan_notes

Document = dict[str, Any]


def compare(arguments: PlanArguments, output: str, timings: Timings) -> int:
    """Plan both inputs for the same time and print the difference."""
    if len(arguments.paths) != 2:
        raise UsageError("--diff compares two inputs", "write: wain plan --diff OLD NEW")
    if "-" in arguments.flag_files:
        raise UsageError(
            "standard input can be read once, and two plans need it", "put it into a file"
        )
    if output == "nodeclaims":
        raise UsageError(
            "a difference is no list of claims", "use -o table, json, yaml or markdown"
        )
    now = parse_time(arguments.now).isoformat()
    old, new = (_plan_side(arguments, path, now, timings) for path in arguments.paths)
    print_notes(merge_notes(old.notes, new.notes))
    diff = diff_plans(old.plan, new.plan)
    DIFF_PRINTERS[output](diff)
    return diff_exit_code(diff)


class PlannedSide(msgspec.Struct, frozen=True, kw_only=True):
    """One of the two plans."""

    plan: Document
    notes: list[str]


def _plan_side(arguments: PlanArguments, path: str, now: str, timings: Timings) -> PlannedSide:
    side_arguments = msgspec.structs.replace(arguments, files=(path,), more=(), now=now)
    run = run_plan(side_arguments, timings)
    with timings.measure("explain"):
        document = plan_document(run.planned, now=run.now)
    return PlannedSide(plan=document, notes=plan_notes(run.planned))


def merge_notes(old: list[str], new: list[str]) -> list[str]:
    """Notes of both plans once; those of one plan with a prefix."""
    both = [note for note in old if note in new]
    return [
        *both,
        *(f"OLD: {note}" for note in old if note not in both),
        *(f"NEW: {note}" for note in new if note not in both),
    ]


def _print_diff_text(diff: Document) -> None:
    for line in diff_lines(diff):
        click.echo(line)


def _print_diff_json(diff: Document) -> None:
    click.echo(printing.dump_json(diff))


def _print_diff_markdown(diff: Document) -> None:
    click.echo("\n".join(diff_lines(diff, bullet="- ")))


def _print_diff_yaml(diff: Document) -> None:
    click.echo(dump_yaml(diff), nl=False)


DIFF_PRINTERS = {
    "table": _print_diff_text,
    "json": _print_diff_json,
    "yaml": _print_diff_yaml,
    "markdown": _print_diff_markdown,
}


OUTPUTS: Final = click.Choice(["table", "json", "yaml", "markdown", "nodeclaims"])


@click.command()
@file_arguments
@add_options(PLAN_OPTIONS)
@click.option("-o", "--output", type=OUTPUTS, default="table", help="How to print the plan.")
@click.option("--diff", is_flag=True, help="Two folders, OLD and NEW: what changes.")
@click.option(
    "--timings",
    "print_timings",
    is_flag=True,
    help="One JSON line on standard error: seconds spent.",
)
def plan(output: str, diff: bool, print_timings: bool, **flags: Any) -> int:
    """Say which nodes would be launched, for which pods, at what price.

    Exit code 0 when every pod has a place, 1 when some pod has none, 2 for bad input. With --diff:
    0 no change, 1 a pod loses its place, 3 any other change.
    """
    arguments, timings = PlanArguments(**flags), Timings()
    if diff:
        code = compare(arguments, output, timings)
    else:
        code = _print_plan(run_plan(arguments, timings), output, timings)
    if print_timings:
        click.echo(timings.to_json(), err=True)
    return code


def _print_plan(run: PlanRun, output: str, timings: Timings) -> int:
    with timings.measure("explain"):
        document = plan_document(run.planned, now=run.now)
    print_notes(plan_notes(run.planned))
    PRINTERS[output](document, run)
    return 1 if document["unschedulable"] else 0


def _print_table(document: dict[str, Any], run: PlanRun) -> None:
    from wainwright.cli.plan_table import Console, print_plan
    from wainwright.report.plan_rows import launchable_type_count

    console = Console(markup=False, highlight=False)
    print_plan(document, console, launchable_type_count(run.planned))


def _print_json(document: dict[str, Any], run: PlanRun) -> None:  # noqa: ARG001
    click.echo(printing.dump_json(document))


def _print_yaml(document: dict[str, Any], run: PlanRun) -> None:  # noqa: ARG001
    click.echo(dump_yaml(document), nl=False)


def _print_markdown(document: dict[str, Any], run: PlanRun) -> None:  # noqa: ARG001
    from wainwright.report.plan_markdown import render_markdown

    click.echo(render_markdown(document), nl=False)


def _print_node_claims(document: dict[str, Any], run: PlanRun) -> None:  # noqa: ARG001
    from wainwright.report.nodeclaim_manifests import node_claim_manifests as node_claims

    click.echo(dump_yaml(*node_claims(run.planned)), nl=False)


PRINTERS: Final = {
    "table": _print_table,
    "json": _print_json,
    "yaml": _print_yaml,
    "markdown": _print_markdown,
    "nodeclaims": _print_node_claims,
}
