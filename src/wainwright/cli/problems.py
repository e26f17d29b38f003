"""Problems as text: the file and line first, so that editors and eyes can jump there."""

from collections.abc import Iterable

import click

from wainwright.manifests.problem import Problem, Report


def show_report(report: Report, *, word: str = "warning") -> None:
    """All errors, then what is only worth knowing."""
    show(report.errors, word="error", colour="red")
    show(report.warnings, word=word, colour="yellow")


def show(problems: Iterable[Problem], *, word: str, colour: str) -> None:
    """Each problem as: place and field, then what is wrong, then what to do."""
    for problem in problems:
        field = f": {problem.path}" if problem.path else ""
        click.echo(
            click.style(f"{word}: ", fg=colour, bold=True)
            + click.style(f"{problem.where}{field}", bold=True),
            err=True,
        )
        click.echo(f"    {problem.sentence}", err=True)
        if problem.hint:
            click.echo(click.style(f"    {problem.hint}", fg="cyan"), err=True)


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number:,} {noun}s"
