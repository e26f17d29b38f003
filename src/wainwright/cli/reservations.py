"""`wain reservations`: capacity that is paid for: used, idle, and by whom it could be used."""

from typing import Any

import click

from wainwright.cli.flags import PLANNING, with_flags
from wainwright.cli.inputs import inputs
from wainwright.cli.planning.run import Wish, planned_by
from wainwright.cli.planning.timings import Timings
from wainwright.cli.tables import show_table
from wainwright.report import jsonout
from wainwright.report.reservations import HEADINGS, NUMBERS, remarks, rows
from wainwright.report.reservations import reservations as found_in


@click.command()
@inputs
@with_flags(PLANNING)
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table")
def reservations(output: str, **flags: Any) -> int:
    """Say of each reservation what the plan would use and what stays idle."""
    run = planned_by(Wish(**flags), Timings(), advise=False)
    found = found_in(run.planned)
    if output == "json":
        made = {"apiVersion": "wainwright.dev/v1alpha1", "kind": "Reservations", "items": found}
        click.echo(jsonout.dump(made))
        return 0
    if not found:
        gate = run.planned.prepared.conditions.gates.capacity_reservations
        none = "no class of the input selects a capacity reservation"
        click.echo(none if gate else "the feature gate CapacityReservations is off")
        return 0
    show_table(HEADINGS, rows(found), numbers=NUMBERS)
    for line in remarks(found):
        click.echo(line)
    return 0
