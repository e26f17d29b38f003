"""Writes docs/reference: the commands with their options, as `--help` has them, and the fields of
our own kinds, from the wire structs. `--check` says whether the pages are up to date.
"""

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import click

from wainwright.api.catalog_documents import Catalog, Cloud, InstanceType, NodeOverlay
from wainwright.api.karpenter.ec2nodeclass import EC2NodeClass
from wainwright.api.karpenter.nodepool import NodePool
from wainwright.api.wire import WireStruct, object_schema
from wainwright.cli.main import COMMAND_GROUPS, COMMANDS, wain

REFERENCE: Final = Path(__file__).parent.parent / "docs" / "reference"
KINDS: Final[Mapping[str, tuple[tuple[type[WireStruct], str], ...]]] = {
    "cloud": (
        (Cloud, "Read by offline commands, `wain emulator` and `wain run --provider emulator`."),
    ),
    "catalog": ((Catalog, "What `wain catalog -o json` prints; read by offline commands."),),
    "karpenter-kinds": (
        (NodePool, "Which nodes may be launched, and how they are disrupted."),
        (EC2NodeClass, "How the instances of a NodePool are launched on EC2."),
        (NodeOverlay, "Changes prices and resources of the instance types that it selects."),
        (InstanceType, "Overrides one instance type."),
    ),
}
TITLES: Final = {
    "cloud": "Cloud: region, zones, prices and capacity reservations for offline use",
    "catalog": "Catalog: instance types and offerings in place of the built-in ones",
    "karpenter-kinds": "NodePool, EC2NodeClass, NodeOverlay and InstanceType: every field",
}
MADE: Final = "<!-- made by scripts/make_reference.py -->"
SKIPPED: Final = frozenset({"apiVersion", "kind", "metadata", "status"})


def commands_page() -> str:
    lines = ["# Commands", "", MADE, "", "Every command has `--help`. Exit code 2 is bad input,"]
    lines += ["70 a bug in `wain` itself, 130 after Ctrl-C, 141 when the output pipe was closed;"]
    lines += ["other codes are listed with each command.", ""]
    for job, names in COMMAND_GROUPS.items():
        lines += [f"## {job}", ""]
        for name in names:
            lines += _command_lines(name)
    return "\n".join(lines).rstrip() + "\n"


def _command_lines(name: str) -> Iterator[str]:
    context = click.Context(wain, info_name="wain")
    command = wain.get_command(context, name)
    assert command is not None
    yield from _help_lines(command, f"wain {name}", COMMANDS[name])
    if isinstance(command, click.Group):
        for inner in command.list_commands(context):
            found = command.get_command(context, inner)
            assert found is not None
            yield from _help_lines(found, f"wain {name} {inner}", "")


def _help_lines(command: click.Command, name: str, summary: str) -> Iterator[str]:
    context = click.Context(command, info_name=name, terminal_width=100, max_content_width=100)
    yield from (f"### {name}", "")
    if summary:
        yield from (f"{summary[0].upper()}{summary[1:].rstrip('.?')}.", "")
    yield from ("```", *command.get_help(context).splitlines(), "```", "")


def kind_page(name: str) -> str:
    lines = [f"# {TITLES[name]}", "", MADE, ""]
    for kind, about in KINDS[name]:
        lines += [f"## {kind.__name__}", "", about, "", "| field | type | what it means |"]
        lines += ["|---|---|---|"]
        schema = object_schema(kind)
        for field, each in schema["properties"].items():
            if field not in SKIPPED:
                lines += _field_rows(field, each, field in schema.get("required", ()))
        lines += [""]
    return "\n".join(lines).rstrip() + "\n"


def _field_rows(path: str, schema: Mapping[str, Any], required: bool) -> Iterator[str]:
    items = schema.get("items", {})
    about = _escape(schema.get("description", "") or items.get("description", ""))
    about = f"**required**; {about}".rstrip("; ") if required else about
    limits = _limits(schema)
    yield f"| `{path}` | {_type(schema)} | {' '.join(filter(None, (about, limits)))} |"
    inner = items if items.get("properties") else schema
    below = f"{path}[]" if inner is items else path
    for name, each in inner.get("properties", {}).items():
        yield from _field_rows(f"{below}.{name}", each, name in inner.get("required", ()))


def _type(schema: Mapping[str, Any]) -> str:
    kind = schema.get("type", "any")
    if kind == "array":
        return f"list of {_type(schema.get('items', {}))}"
    return "map" if "additionalProperties" in schema else str(kind)


def _limits(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return "One of " + ", ".join(f"`{value}`" for value in schema["enum"]) + "."
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None:
        return f"{low} to {high}."
    return "" if low is None else f"At least {low}."


def _escape(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|").replace("<", "&lt;").strip()


def main() -> None:
    pages = {"commands": commands_page(), **{name: kind_page(name) for name in KINDS}}
    for name, text in pages.items():
        path = REFERENCE / f"{name}.md"
        if "--check" not in sys.argv:
            path.write_text(text, encoding="utf-8")
        elif not path.is_file() or text != path.read_text(encoding="utf-8"):
            sys.exit(
                f"docs/reference/{name}.md is old: run .venv/bin/python scripts/make_reference.py"
            )


if __name__ == "__main__":
    main()
