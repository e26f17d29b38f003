"""`wain crds`: the CustomResourceDefinitions of our kinds, made from the wire types."""

from pathlib import Path

import click

from wainwright.api.crd import DEFINITIONS, definition
from wainwright.errors import Stale, Usage
from wainwright.manifests.yamlout import dump
from wainwright.report import jsonout


def rendered() -> dict[str, str]:
    """File name to text, one file a kind, in the order they are listed."""
    return {f"{item.group}_{item.plural}.yaml": dump(definition(item)) for item in DEFINITIONS}


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
        raise Usage("--output writes and --check compares", hint="use one of them")
    if checked is not None:
        _compare(checked)
    elif folder is not None:
        _write(folder)
    elif form == "json":
        listed = [definition(item) for item in DEFINITIONS]
        made = {"apiVersion": "v1", "kind": "List", "items": listed}
        click.echo(jsonout.dump(made))
    else:
        click.echo("---\n".join(rendered().values()), nl=False)
    return 0


def _write(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in rendered().items():
        (folder / name).write_text(text, encoding="utf-8")
        click.echo(f"wrote {folder / name}")


def _compare(folder: Path) -> None:
    wanted = rendered()
    found = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.yaml")}
    different = sorted(name for name in {*wanted, *found} if wanted.get(name) != found.get(name))
    if different:
        raise Stale(
            f"{folder} is not what the wire types make: {', '.join(different)}",
            hint=f"write them anew with: wain crds --output {folder}",
        )
    click.echo(f"{len(wanted)} CRDs in {folder} are up to date")
