"""`wain crds`: the CustomResourceDefinitions of our kinds, made from the wire types."""

from pathlib import Path

import click

from wainwright.api.kinds import CUSTOM_RESOURCES, custom_resource_definition
from wainwright.cli import printing
from wainwright.errors import StaleFileError, UsageError
from wainwright.manifests.yaml_writer import dump_yaml


def render_crds() -> dict[str, str]:
    """File name to text, one file a kind, in the order they are listed."""
    return {
        f"{item.group}_{item.plural}.yaml": dump_yaml(custom_resource_definition(item))
        for item in CUSTOM_RESOURCES
    }


@click.command()
@click.option("--output", "folder", type=click.Path(path_type=Path), help="Write them here.")
@click.option(
    "--check",
    "checked",
    type=click.Path(path_type=Path),
    help="Compare with the files in this folder; exit code 2 when they differ.",
)
@click.option("-o", "form", type=click.Choice(["yaml", "json"]), default="yaml", help="Form.")
def crds(folder: Path | None, checked: Path | None, form: str) -> int:
    """Print, write or compare the CRDs."""
    if folder is not None and checked is not None:
        raise UsageError("--output writes and --check compares", hint="use one of them")
    if checked is not None:
        _check(checked)
    elif folder is not None:
        _write(folder)
    elif form == "json":
        listed = [custom_resource_definition(item) for item in CUSTOM_RESOURCES]
        made = {"apiVersion": "v1", "kind": "List", "items": listed}
        click.echo(printing.dump_json(made))
    else:
        click.echo("---\n".join(render_crds().values()), nl=False)
    return 0


def _write(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in render_crds().items():
        (folder / name).write_text(text, encoding="utf-8")
        click.echo(f"wrote {folder / name}")


def _check(folder: Path) -> None:
    wanted = render_crds()
    found = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.yaml")}
    different = sorted(name for name in {*wanted, *found} if wanted.get(name) != found.get(name))
    if different:
        raise StaleFileError(
            f"{folder} is not what the wire types make: {', '.join(different)}",
            hint=f"write them anew with: wain crds --output {folder}",
        )
    click.echo(f"{len(wanted)} CRDs in {folder} are up to date")
