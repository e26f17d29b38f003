"""`wain reservations`: used and idle capacity reservations, and pods that could use them."""

from typing import Any

import click

from wainwright.cli import printing
from wainwright.cli.options import (
    PLAN_OPTIONS,
    Choice,
    add_options,
    cluster_options,
    file_arguments,
)
from wainwright.cli.plan import PlanArguments, Timings, run_plan
from wainwright.cli.printing import print_problems, print_table
from wainwright.messages.formatting import MODELLED_PRICES
from wainwright.report.reservation_usage import (
    NUMERIC_COLUMNS,
    USAGE_HEADINGS,
    reservation_usage,
    usage_notes,
    usage_rows,
)


@click.command()
@file_arguments
@cluster_options
@add_options(PLAN_OPTIONS)
@click.option(
    "-o", "--output", type=Choice(["table", "json"]), default="table", help="How to print them."
)
def reservations(output: str, **flags: Any) -> int:
    """Show for each reservation what the plan would use and what stays idle."""
    run = run_plan(PlanArguments(**flags), Timings(), with_suggestions=False)
    usage = reservation_usage(run.planned)
    if output == "json":
        document = {"apiVersion": "wainwright.dev/v1alpha1", "kind": "Reservations", "items": usage}
        printing.echo_json(document)
    elif usage:
        print_table(USAGE_HEADINGS, usage_rows(usage), numbers=NUMERIC_COLUMNS)
        estimates = any(row["modelledPrice"] and row["idlePricePerHour"] for row in usage)
        printing.echo_lines([*([MODELLED_PRICES] if estimates else []), *usage_notes(usage)])
    else:
        is_enabled = run.planned.prepared.settings.gates.capacity_reservations
        message = "no class of the input selects a capacity reservation"
        printing.echo(message if is_enabled else "the feature gate CapacityReservations is off")
    print_problems(run.other_notes, word="note")
    return 0
