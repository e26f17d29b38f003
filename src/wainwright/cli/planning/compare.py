"""`wain plan --diff OLD NEW`: two inputs, planned at the same moment."""

from typing import Any

import click
import msgspec

from wainwright.cli.planning.notes import tell
from wainwright.cli.planning.run import Wish, planned_by
from wainwright.cli.planning.timings import Timings
from wainwright.cli.supplies import moment
from wainwright.errors import Usage
from wainwright.manifests.yamlout import dump
from wainwright.report import jsonout
from wainwright.report.diff import difference, lines, verdict
from wainwright.report.document import beside, document

Document = dict[str, Any]


def compare(wish: Wish, output: str, clock: Timings) -> int:
    """Plan both inputs at the same moment and print the difference."""
    if len(wish.arguments) != 2:
        raise Usage("--diff compares two inputs", "write: wain plan --diff OLD NEW")
    if "-" in wish.by_flag:
        raise Usage("standard input can be read once, and two plans need it", "put it into a file")
    if output == "nodeclaims":
        raise Usage("a difference is no list of claims", "use -o table, json, yaml or markdown")
    now = moment(wish.now).isoformat()
    old, new = (_planned(wish, one, now, clock) for one in wish.arguments)
    tell(apart(old.notes, new.notes))
    made = difference(old.plan, new.plan)
    PRINTERS[output](made)
    return verdict(made)


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """One of the two plans."""

    plan: Document
    notes: list[str]


def _planned(wish: Wish, argument: str, now: str, clock: Timings) -> Side:
    one = msgspec.structs.replace(wish, files=(argument,), more=(), now=now)
    run = planned_by(one, clock)
    with clock.spent("explain"):
        made = document(run.planned, now=run.now)
    return Side(plan=made, notes=beside(run.planned))


def apart(old: list[str], new: list[str]) -> list[str]:
    """What is to be known of both once, and of which one it holds where it holds of one."""
    both = [note for note in old if note in new]
    return [
        *both,
        *(f"OLD: {note}" for note in old if note not in both),
        *(f"NEW: {note}" for note in new if note not in both),
    ]


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
