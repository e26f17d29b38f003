"""`wain plan`: which nodes for which pods, at what price, and why some pod has no place.

`wain plan --diff OLD NEW` plans two inputs at the same moment and prints what changes.
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


def compare(wish: PlanArguments, output: str, clock: Timings) -> int:
    """Plan both inputs at the same moment and print the difference."""
    if len(wish.arguments) != 2:
        raise UsageError("--diff compares two inputs", "write: wain plan --diff OLD NEW")
    if "-" in wish.by_flag:
        raise UsageError(
            "standard input can be read once, and two plans need it", "put it into a file"
        )
    if output == "nodeclaims":
        raise UsageError(
            "a difference is no list of claims", "use -o table, json, yaml or markdown"
        )
    now = parse_time(wish.now).isoformat()
    old, new = (_plan_side(wish, one, now, clock) for one in wish.arguments)
    print_notes(merge_notes(old.notes, new.notes))
    made = diff_plans(old.plan, new.plan)
    DIFF_PRINTERS[output](made)
    return diff_exit_code(made)


class PlannedSide(msgspec.Struct, frozen=True, kw_only=True):
    """One of the two plans."""

    plan: Document
    notes: list[str]


def _plan_side(wish: PlanArguments, argument: str, now: str, clock: Timings) -> PlannedSide:
    one = msgspec.structs.replace(wish, files=(argument,), more=(), now=now)
    run = run_plan(one, clock)
    with clock.spent("explain"):
        made = plan_document(run.planned, now=run.now)
    return PlannedSide(plan=made, notes=plan_notes(run.planned))


def merge_notes(old: list[str], new: list[str]) -> list[str]:
    """What is to be known of both once, and of which one it holds where it holds of one."""
    both = [note for note in old if note in new]
    return [
        *both,
        *(f"OLD: {note}" for note in old if note not in both),
        *(f"NEW: {note}" for note in new if note not in both),
    ]


def _print_diff_text(made: Document) -> None:
    for line in diff_lines(made):
        click.echo(line)


def _print_diff_json(made: Document) -> None:
    click.echo(printing.dump_json(made))


def _print_diff_markdown(made: Document) -> None:
    click.echo("\n".join(diff_lines(made, bullet="- ")))


def _print_diff_yaml(made: Document) -> None:
    click.echo(dump_yaml(made), nl=False)


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
@click.option("--timings", is_flag=True, help="One JSON line on standard error: seconds spent.")
def plan(output: str, diff: bool, timings: bool, **flags: Any) -> int:
    """Say which nodes would be launched, for which pods, at what price.

    Exit code 0 when every pod has a place, 1 when some pod has none, 2 for bad input. With --diff:
    0 no change, 1 a pod loses its place, 3 any other change.
    """
    wish, clock = PlanArguments(**flags), Timings()
    if diff:
        code = compare(wish, output, clock)
    else:
        code = _print_plan(run_plan(wish, clock), output, clock)
    if timings:
        click.echo(clock.line(), err=True)
    return code


def _print_plan(run: PlanRun, output: str, clock: Timings) -> int:
    with clock.spent("explain"):
        made = plan_document(run.planned, now=run.now)
    print_notes(plan_notes(run.planned))
    PRINTERS[output](made, run)
    return 1 if made["unschedulable"] else 0


def _print_table(made: dict[str, Any], run: PlanRun) -> None:
    from wainwright.cli.plan_table import Console, print_plan
    from wainwright.report.plan_rows import launchable_type_count

    console = Console(markup=False, highlight=False)
    print_plan(made, console, launchable_type_count(run.planned))


def _print_json(made: dict[str, Any], run: PlanRun) -> None:  # noqa: ARG001
    click.echo(printing.dump_json(made))


def _print_yaml(made: dict[str, Any], run: PlanRun) -> None:  # noqa: ARG001
    click.echo(dump_yaml(made), nl=False)


def _print_markdown(made: dict[str, Any], run: PlanRun) -> None:  # noqa: ARG001
    from wainwright.report.plan_markdown import render_markdown

    click.echo(render_markdown(made), nl=False)


def _print_node_claims(made: dict[str, Any], run: PlanRun) -> None:  # noqa: ARG001
    from wainwright.report.nodeclaim_manifests import node_claim_manifests as node_claims

    click.echo(dump_yaml(*node_claims(run.planned)), nl=False)


PRINTERS: Final = {
    "table": _print_table,
    "json": _print_json,
    "yaml": _print_yaml,
    "markdown": _print_markdown,
    "nodeclaims": _print_node_claims,
}
