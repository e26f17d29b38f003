"""`wain explain pod NAME`: where a pod goes and what decided, or why it goes nowhere."""

from typing import Any

import click

from wainwright.cli.flags import PLANNING, with_flags
from wainwright.cli.inputs import inputs
from wainwright.cli.planning.run import Wish, planned_by
from wainwright.cli.planning.timings import Timings
from wainwright.report import jsonout
from wainwright.report.pod import full_story


@click.command("pod")
@click.argument("name")
@inputs
@with_flags(PLANNING)
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text")
def explain_pod(name: str, output: str, **flags: Any) -> int:
    """Say where a pod goes and what decided; or the funnel of each pool, and the nearest miss.

    Exit code 0 when the pod has a place, 1 when it has none or none was looked for, 2 for bad
    input.
    """
    run = planned_by(Wish(**flags), Timings(), quietly=True, advise=False)
    told = full_story(run.planned, name, now=run.now)
    click.echo(jsonout.dump(told) if output == "json" else "\n".join(told.lines))
    return 0 if told.placed else 1
