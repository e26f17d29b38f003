"""`wain convert`: kinds of the past into v1, and what could not be carried over."""

from typing import Any

import click
import msgspec

from wainwright.api.fault import Fault
from wainwright.cli.inputs import inputs, named, progress
from wainwright.cli.problems import counted, show_report
from wainwright.manifests.convert import Conversion, Note
from wainwright.manifests.convert import convert as converted
from wainwright.manifests.document import Document
from wainwright.manifests.load import load, located
from wainwright.manifests.problem import Problem, Report, in_order
from wainwright.manifests.yamlout import dump
from wainwright.report import jsonout

OUTPUTS = click.Choice(["yaml", "json"])


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What `-o json` prints: the documents of today, and the report."""

    documents: list[Any]
    errors: list[Problem]
    warnings: list[Problem]


@click.command()
@inputs
@click.option("-o", "--output", type=OUTPUTS, default="yaml", help="How to print the result.")
def convert(files: tuple[str, ...], more: tuple[str, ...], output: str) -> int:
    """Turn Provisioner, AWSNodeTemplate and v1beta1 manifests into v1.

    The new manifests go to standard output; what changed, what was assumed and what could not be
    carried over goes to standard error. Everything else passes through as it is. Nothing is
    printed when something is wrong with the input: exit code 2.
    """
    with progress() as report:
        loaded = load(named(files, more), report)
    made = converted([document.value for document in loaded.documents])
    told = _report(made, loaded.documents, loaded.problems)
    if output == "json":
        _print_json(made, told)
    else:
        _print_yaml(made, told)
    return 2 if told.errors else 0


def _report(made: Conversion, documents: list[Document], problems: list[Problem]) -> Report:
    faults = [located(documents[misfit.document], misfit.fault) for misfit in made.faults]
    notes = [located(documents[note.document], _fault(note)) for note in made.notes]
    return Report(errors=in_order([*problems, *faults]), warnings=in_order(notes))


def _fault(note: Note) -> Fault:
    return Fault(path=note.path, message=f"{note.effect}: {note.message}", warning=True)


def _print_json(made: Conversion, told: Report) -> None:
    documents = [] if told.errors else made.documents
    result = Result(documents=documents, errors=told.errors, warnings=told.warnings)
    click.echo(jsonout.dump(result))


def _print_yaml(made: Conversion, told: Report) -> None:
    show_report(told, word="note")
    if not told.errors:
        click.echo(dump(*made.documents), nl=False)
        origins = len(set(made.origins))
        read = counted(origins, "document")
        became = counted(len(made.documents), "document")
        click.echo(f"{read} became {became}, {counted(len(told.warnings), 'note')}", err=True)
