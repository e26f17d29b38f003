"""`wain validate`: would an API server with our CRDs accept these manifests?"""

import click

from wainwright.cli.inputs import inputs, named, progress
from wainwright.cli.problems import counted, show_report
from wainwright.manifests.check import Checked, check
from wainwright.report import jsonout

OUTPUTS = click.Choice(["text", "json"])


@click.command()
@inputs
@click.option("-o", "--output", type=OUTPUTS, default="text", help="How to print the report.")
def validate(files: tuple[str, ...], more: tuple[str, ...], output: str) -> int:
    """Check manifests offline by the very rules that the CRDs carry.

    Exit code 0 when everything would be accepted, 2 when something would not.
    """
    with progress() as report:
        checked = check(named(files, more), report)
    if output == "json":
        click.echo(jsonout.dump(checked.report))
    else:
        _print(checked)
    return 2 if checked.errors else 0


def _print(checked: Checked) -> None:
    report = checked.report
    show_report(report)
    files = len({document.file for document, _ in checked.objects})
    read = f"{counted(len(checked.objects), 'object')} in {counted(files, 'file')}"
    errors = counted(len(report.errors), "error")
    verdict = f"{errors}, {counted(len(report.warnings), 'warning')}"
    click.echo(f"{read}: {verdict if report.errors or report.warnings else 'all good'}")
