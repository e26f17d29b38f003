"""`wain plan`: which nodes for which pods, at what price, and why some pod has no place."""

from typing import Any, Final

import click

from wainwright.cli.flags import PLANNING, with_flags
from wainwright.cli.inputs import inputs
from wainwright.cli.planning.notes import tell
from wainwright.cli.planning.run import Run, Wish, planned_by
from wainwright.cli.planning.timings import Timings
from wainwright.manifests.yamlout import dump
from wainwright.report import jsonout
from wainwright.report.document import beside, document

OUTPUTS: Final = click.Choice(["table", "json", "yaml", "markdown", "nodeclaims"])


@click.command()
@inputs
@with_flags(PLANNING)
@click.option("-o", "--output", type=OUTPUTS, default="table", help="How to print the plan.")
@click.option("--diff", is_flag=True, help="Two folders, OLD and NEW: what changes.")
@click.option("--timings", is_flag=True, help="One JSON line on standard error: seconds spent.")
def plan(output: str, diff: bool, timings: bool, **flags: Any) -> int:
    """Say which nodes would be launched, for which pods, at what price.

    Exit code 0 when every pod has a place, 1 when some pod has none, 2 for bad input. With --diff:
    0 no change, 1 a pod loses its place, 3 any other change.
    """
    wish, clock = Wish(**flags), Timings()
    if diff:
        from wainwright.cli.planning.compare import compare  # another command's work, seldom needed

        code = compare(wish, output, clock)
    else:
        code = _show(planned_by(wish, clock), output, clock)
    if timings:
        click.echo(clock.line(), err=True)
    return code


def _show(run: Run, output: str, clock: Timings) -> int:
    with clock.spent("explain"):
        made = document(run.planned, now=run.now)
    tell(beside(run.planned))
    PRINTERS[output](made, run)
    return 1 if made["unschedulable"] else 0


def _table(made: dict[str, Any], run: Run) -> None:
    from wainwright.cli.planning.table import show
    from wainwright.cli.screen import Console
    from wainwright.report.choices import launchable

    show(made, Console(markup=False, highlight=False), launchable(run.planned))


def _json(made: dict[str, Any], run: Run) -> None:  # noqa: ARG001
    click.echo(jsonout.dump(made))


def _yaml(made: dict[str, Any], run: Run) -> None:  # noqa: ARG001
    click.echo(dump(made), nl=False)


def _markdown(made: dict[str, Any], run: Run) -> None:  # noqa: ARG001
    from wainwright.report.markdown import markdown

    click.echo(markdown(made), nl=False)


def _node_claims(made: dict[str, Any], run: Run) -> None:  # noqa: ARG001
    from wainwright.report.manifests import node_claims

    click.echo(dump(*node_claims(run.planned)), nl=False)


PRINTERS: Final = {
    "table": _table,
    "json": _json,
    "yaml": _yaml,
    "markdown": _markdown,
    "nodeclaims": _node_claims,
}
