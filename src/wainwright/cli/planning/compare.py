"""`wain plan --diff OLD NEW`: two inputs, planned at the same moment."""

from typing import Any

import click
import msgspec

from wainwright.cli.planning.run import Wish, planned_by
from wainwright.cli.planning.timings import Timings
from wainwright.cli.supplies import moment
from wainwright.errors import Usage
from wainwright.manifests.yamlout import dump
from wainwright.report import jsonout
from wainwright.report.diff import difference, lines, verdict
from wainwright.report.document import document

Document = dict[str, Any]


def compare(wish: Wish, output: str) -> int:
    """Plan both inputs at the same moment and print the difference."""
    if len(wish.arguments) != 2:
        raise Usage("--diff compares two inputs", "write: wain plan --diff OLD NEW")
    if "-" in wish.by_flag:
        raise Usage("standard input can be read once, and two plans need it", "put it into a file")
    if output == "nodeclaims":
        raise Usage("a difference is no list of claims", "use -o table, json, yaml or markdown")
    now = moment(wish.now).isoformat()
    old, new = (_planned(wish, one, now) for one in wish.arguments)
    made = difference(old, new)
    PRINTERS[output](made)
    return verdict(made)


def _planned(wish: Wish, argument: str, now: str) -> Document:
    one = msgspec.structs.replace(wish, files=(argument,), more=(), now=now)
    run = planned_by(one, Timings())
    return document(run.planned, now=run.now)


def _text(made: Document) -> None:
    for line in lines(made):
        click.echo(line)


def _json(made: Document) -> None:
    click.echo(jsonout.dump(made))


def _markdown(made: Document) -> None:
    click.echo("\n".join(lines(made, bullet="- ")))


def _yaml(made: Document) -> None:
    click.echo(dump(made), nl=False)


PRINTERS = {"table": _text, "json": _json, "yaml": _yaml, "markdown": _markdown}
