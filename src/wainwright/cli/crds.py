"""`wain crds`: the CustomResourceDefinitions of our kinds, generated from the wire types."""

from pathlib import Path

import click

from wainwright.api.kinds import CUSTOM_RESOURCES, custom_resource_definition
from wainwright.cli import printing
from wainwright.cli.options import Choice
from wainwright.errors import StaleFileError, UsageError
from wainwright.manifests.yaml_writer import dump_yaml


def render_crds() -> dict[str, str]:
    """The CRD files, one for each kind: name to text."""
    return {
        f"{item.group}_{item.plural}.yaml": dump_yaml(custom_resource_definition(item))
        for item in CUSTOM_RESOURCES
    }


@click.command()
@click.option(
    "--output",
    "folder",
    type=click.Path(path_type=Path),
    help="Write them to this folder, or as one file.",
)
@click.option(
    "--check",
    "check_folder",
    type=click.Path(path_type=Path),
    help="Compare with the files in this folder; exit code 2 when they differ.",
)
@click.option(
    "-o", "output_format", type=Choice(["yaml", "json"]), default="yaml", help="Output format."
)
def crds(folder: Path | None, check_folder: Path | None, output_format: str) -> int:
    """Print, write or compare the CRDs."""
    if folder is not None and check_folder is not None:
        raise UsageError("--output writes and --check compares", hint="use one of them")
    if check_folder is not None:
        _check(check_folder)
    elif folder is not None:
        _write(folder)
    elif output_format == "json":
        definitions = [custom_resource_definition(item) for item in CUSTOM_RESOURCES]
        document = {"apiVersion": "v1", "kind": "List", "items": definitions}
        printing.echo_json(document)
    else:
        printing.echo_text("---\n".join(render_crds().values()))
    return 0


def _write(folder: Path) -> None:
    for name, text in render_crds().items():
        try:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
        except OSError as error:
            raise UsageError(
                f"{folder / name} cannot be written: {error.strerror}",
                hint="name a folder that is there, or that can be created",
            ) from error
        printing.echo(f"wrote {folder / name}")


def _read_folder(folder: Path) -> dict[str, str]:
    try:
        return {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.yaml")}
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", "") or "a file is not UTF-8 text"
        raise UsageError(f"{folder} cannot be read: {reason}") from error


def _check(folder: Path) -> None:
    rendered = render_crds()
    files = _read_folder(folder)
    different = sorted(
        name for name in {*rendered, *files} if rendered.get(name) != files.get(name)
    )
    if different:
        raise StaleFileError(
            f"{folder} is not what the wire types make: {', '.join(different)}",
            hint=f"write them again with: wain crds --output {folder}",
        )
    printing.echo(f"{len(rendered)} CRDs in {folder} are up to date")
