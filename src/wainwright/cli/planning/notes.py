"""Notes on a plan that are about no place in a file."""

from collections.abc import Iterable

import click


def tell(notes: Iterable[str]) -> None:
    """On standard error, so that what is printed stays what it is."""
    for note in notes:
        click.echo(click.style("note: ", fg="yellow", bold=True) + note, err=True)
