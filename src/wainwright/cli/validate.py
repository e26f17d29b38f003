"""`wain validate`: would an API server with our CRDs accept these manifests?"""

from typing import Any

import click
import msgspec

from wainwright.cli import printing
from wainwright.cli.options import (
    Choice,
    ReadingArguments,
    cluster_options,
    collect_files,
    file_arguments,
    show_progress,
)
from wainwright.cli.printing import pluralize, show_report
from wainwright.manifests.manifest_validation import ValidatedManifests, validate_manifests

OUTPUTS = Choice(["text", "json"])


@click.command()
@file_arguments
@cluster_options
@click.option("-o", "--output", type=OUTPUTS, default="text", help="How to print the report.")
@click.option("--strict", is_flag=True, help="Duplicate keys and objects are errors.")
def validate(output: str, strict: bool, **flags: Any) -> int:
    """Check manifests offline by the same rules as the CRDs.

    Exit code 0 when everything would be accepted, 2 when something would not. Unknown fields are
    refused, as kubectl does; an API server alone would drop them.
    """
    arguments = ReadingArguments(**flags)
    options = msgspec.structs.replace(arguments.read_options, strict=strict)
    with show_progress() as progress:
        checked = validate_manifests(collect_files(arguments), progress, options)
    if output == "json":
        printing.echo_json(checked.report)
    else:
        _print(checked)
    return 2 if checked.errors else 0


def _print(checked: ValidatedManifests) -> None:
    report = checked.report
    show_report(report, err=False)
    files = len({document.file for document, _ in checked.objects})
    read = f"{pluralize(len(checked.objects), 'object')} in {pluralize(files, 'file')}"
    errors = pluralize(len(report.errors), "error")
    verdict = f"{errors}, {pluralize(len(report.warnings), 'warning')}"
    printing.echo(f"{read}: {verdict if report.errors or report.warnings else 'all good'}")
