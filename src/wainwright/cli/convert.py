"""`wain convert`: legacy kinds to v1, and what could not be carried over."""

from typing import Any

import click
import msgspec

from wainwright.api.field_error import FieldError
from wainwright.cli import printing
from wainwright.cli.options import (
    Choice,
    ReadingArguments,
    collect_files,
    file_arguments,
    show_progress,
)
from wainwright.cli.printing import pluralize, show_report
from wainwright.manifests.convert.conversion_draft import ConversionNote
from wainwright.manifests.convert.converter import Conversion, convert_documents
from wainwright.manifests.documents import LoadedManifests, load_manifests, locate_error
from wainwright.manifests.folder_scan import describe_skipped
from wainwright.manifests.manifest_validation import header_errors
from wainwright.manifests.problems import Problem, ProblemReport, sort_problems

OUTPUTS = Choice(["yaml", "json"])


class ConversionResult(msgspec.Struct, frozen=True, kw_only=True):
    """What `-o json` prints: the converted documents and the report."""

    documents: list[Any]
    errors: list[Problem]
    warnings: list[Problem]


@click.command()
@file_arguments
@click.option("-o", "--output", type=OUTPUTS, default="yaml", help="How to print the result.")
@click.option(
    "--ignore-defaults",
    is_flag=True,
    help="Leave out the requirements that a Provisioner implied, such as linux and on-demand.",
)
def convert(output: str, ignore_defaults: bool, **flags: Any) -> int:
    """Turn Provisioner, AWSNodeTemplate and v1beta1 manifests into v1.

    Requirements that a Provisioner implied (linux, amd64, on-demand; newer c, m and r types) are
    written down, so that the pool launches what it launched.

    The new manifests go to standard output; what changed, what was assumed and what could not be
    carried over goes to standard error. Other manifests pass through as they are; what is no
    manifest is skipped in folders and an error where it was named. Nothing is printed when
    something is wrong with the input: exit code 2.
    """
    arguments = ReadingArguments(**flags)
    with show_progress() as progress:
        loaded = load_manifests(collect_files(arguments), progress, render=arguments.render)
    conversion = convert_documents(
        [document.value for document in loaded.documents], ignore_defaults=ignore_defaults
    )
    skipped = describe_skipped(loaded.skipped, verbose=arguments.verbose)
    report = _report(conversion, loaded, [] if arguments.quiet else skipped)
    if output == "json":
        _print_json(conversion, report)
    else:
        _print_yaml(conversion, report)
    return 2 if report.errors else 0


def _report(
    conversion: Conversion, loaded: LoadedManifests, skipped: list[Problem]
) -> ProblemReport:
    documents = loaded.documents
    headers = [
        locate_error(document, field_error)
        for document in documents
        for field_error in header_errors(document.value)
    ]
    field_errors = [
        locate_error(documents[failed.document], failed.field_error)
        for failed in conversion.field_errors
    ]
    notes = [
        locate_error(documents[note.document], _note_as_warning(note)) for note in conversion.notes
    ]
    return ProblemReport(
        errors=sort_problems([*loaded.problems, *headers, *field_errors]),
        warnings=sort_problems([*loaded.warnings, *loaded.duplicate_keys, *notes]),
        notes=skipped,
    )


def _note_as_warning(note: ConversionNote) -> FieldError:
    return FieldError(path=note.path, message=f"{note.effect}: {note.message}", warning=True)


def _print_json(conversion: Conversion, report: ProblemReport) -> None:
    documents = [] if report.errors else conversion.documents
    result = ConversionResult(documents=documents, errors=report.errors, warnings=report.warnings)
    printing.echo_json(result)


def _print_yaml(conversion: Conversion, report: ProblemReport) -> None:
    show_report(report, word="note")
    if report.errors:
        errors = pluralize(len(report.errors), "error")
        printing.echo(f"error: {errors}; nothing converted", err=True)
    else:
        printing.echo_yaml(*conversion.documents)
        origins = len(set(conversion.origins))
        read = pluralize(origins, "document")
        became = pluralize(len(conversion.documents), "document")
        printing.echo(
            f"{read} became {became}, {pluralize(len(report.warnings), 'note')}", err=True
        )
