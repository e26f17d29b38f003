"""`wain reservations`: capacity that is paid for: used, idle, and by whom it could be used."""

from typing import Any

import click

from wainwright.cli import printing
from wainwright.cli.options import PLAN_OPTIONS, add_options, file_arguments
from wainwright.cli.plan_run import PlanArguments, Timings, run_plan
from wainwright.cli.printing import print_table
from wainwright.report.reservation_usage import (
    NUMERIC_COLUMNS,
    USAGE_HEADINGS,
    usage_notes,
    usage_rows,
)
from wainwright.report.reservation_usage import reservation_usage as found_in


@click.command()
@file_arguments
@add_options(PLAN_OPTIONS)
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table")
def reservations(output: str, **flags: Any) -> int:
    """Say of each reservation what the plan would use and what stays idle."""
    run = run_plan(PlanArguments(**flags), Timings(), advise=False)
    found = found_in(run.planned)
    if output == "json":
        made = {"apiVersion": "wainwright.dev/v1alpha1", "kind": "Reservations", "items": found}
        click.echo(printing.dump_json(made))
        return 0
    if not found:
        gate = run.planned.prepared.conditions.gates.capacity_reservations
        none = "no class of the input selects a capacity reservation"
        click.echo(none if gate else "the feature gate CapacityReservations is off")
        return 0
    print_table(USAGE_HEADINGS, usage_rows(found), numbers=NUMERIC_COLUMNS)
    for line in usage_notes(found):
        click.echo(line)
    return 0
