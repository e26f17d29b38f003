"""`wain explain pod NAME`: where a pod goes and what decided, or why it goes nowhere."""

from typing import Any

import click

from wainwright.cli.flags import PLANNING, with_flags
from wainwright.cli.inputs import inputs
from wainwright.cli.planning.run import Wish, planned_by
from wainwright.cli.planning.timings import Timings
from wainwright.report import jsonout
from wainwright.report.document import document
from wainwright.report.pod import has_place, lines


@click.command("pod")
@click.argument("name")
@inputs
@with_flags(PLANNING)
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text")
def explain_pod(name: str, output: str, **flags: Any) -> int:
    """Say where a pod goes and what decided; or the funnel of each pool, and the nearest miss.

    Exit code 0 when the pod has a place, 1 when it has none, 2 for bad input.
    """
    run = planned_by(Wish(**flags), Timings(), quietly=True)
    made = document(run.planned, now=run.now)
    told = lines(made, name)
    if output == "json":
        story = {"pod": name, "placed": has_place(made, name), "lines": told}
        click.echo(jsonout.dump(story))
    else:
        click.echo("\n".join(told))
    return 0 if has_place(made, name) else 1
