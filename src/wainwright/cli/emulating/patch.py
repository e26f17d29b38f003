"""Patches for a running emulator: a file, and flags such as `--stock instanceType=c5.*,free=3`."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import click

from wainwright.errors import BadInput, Usage
from wainwright.manifests.files import sources
from wainwright.manifests.problem import Problem
from wainwright.manifests.yamltext import Unreadable, documents

Command = TypeVar("Command", bound=Callable[..., Any])

WHOLE: Final = frozenset({"total", "available", "free", "status", "times"})
FRACTIONS: Final = frozenset({"price", "probability", "seconds", "start", "end"})
TRUTHS: Final = {"true": True, "false": False}
LISTS: Final = {
    "price": "prices",
    "unavailable": "unavailable",
    "reservation": "capacityReservations",
    "stock": "stock",
    "fault": "faults",
    "interrupt": "interruptions",
}
"""Flag to the field that it adds to."""
HELP: Final = {
    "price": "instanceType=m5.large,capacityType=spot,price=0.05[,zone=…]",
    "unavailable": "instanceType=p5.*[,zone=…][,capacityType=…]",
    "reservation": "id=cr-…,instanceType=…,availabilityZone=…,total=3[,tags.team=web]…",
    "stock": "instanceType=c5.*,free=3[,zone=…][,capacityType=…]",
    "fault": "operation=CreateFleet,code=InternalError[,status=500][,times=1]…",
    "interrupt": "instance=i-…,kind=spot[,seconds=120]",
}
FIXED: Final = ("zones", "instanceTypes", "fees")
"""What a Cloud has and a running emulator keeps."""
CLEARED: Final = click.Choice(["prices", "unavailable", "stock", "faults"])


def patch_flags(command: Command) -> Command:
    """Gives a command the flags that make up a patch."""
    command = click.option(
        "--throttle/--no-throttle", default=None, help="Limit calls as EC2 does, or not at all."
    )(command)
    command = click.option(
        "--clear", multiple=True, type=CLEARED, help="Empty this list; may be repeated."
    )(command)
    for flag, example in reversed(HELP.items()):
        command = click.option(f"--{flag}", multiple=True, metavar="K=V,…", help=example)(command)
    return command


def patch_of(file: str | None, flags: Mapping[str, Any]) -> dict[str, Any]:
    """What is to be changed. Of a field that the file has as well, a flag adds to the list."""
    patch = {} if file is None else from_file(file)
    for name in flags["clear"]:
        patch.setdefault(name, [])
    for flag, field in LISTS.items():
        given = [pairs(flag, text) for text in flags[flag]]
        if given:
            patch[field] = [*_listed(patch.get(field, []), field), *given]
    if flags["throttle"] is not None:
        patch["throttling"] = flags["throttle"]
    if not patch:
        raise Usage("nothing is to be changed", "name a file with a patch, or use flags")
    return patch


def _listed(value: Any, field: str) -> Sequence[Any]:
    if not isinstance(value, list):
        raise BadInput(f"{field} is no list, but {type(value).__name__}")
    return value


def from_file(file: str) -> dict[str, Any]:
    """A patch, a list of faults, or a Cloud, in YAML or JSON."""
    found = _document(file)
    if isinstance(found, list):
        return {"faults": found}
    if not isinstance(found, dict):
        raise BadInput(f"{file} is neither a patch nor a list of faults")
    return _of_cloud(found) if found.get("kind") == "Cloud" else found


def _of_cloud(cloud: Mapping[str, Any]) -> dict[str, Any]:
    """What of a Cloud can be changed, and its region, which must be the emulator's."""
    spec = cloud.get("spec")
    fields = dict(spec) if isinstance(spec, dict) else {}
    fixed = [name for name in fields if name in FIXED]
    if fixed:
        click.echo(f"note: {', '.join(fixed)} cannot change while the emulator runs", err=True)
    return {name: value for name, value in fields.items() if name not in FIXED}


def _document(file: str) -> Any:
    source = next(iter(sources([file])))
    if isinstance(source, Problem):
        raise BadInput(f"{source.file}: {source.message}", source.hint)
    try:
        found = [text.value for text, _ in documents(source.text)]
    except Unreadable as error:
        raise BadInput(f"{source.name}:{error.line}: {error.message}", error.hint) from None
    if len(found) != 1:
        raise BadInput(f"{source.name} has {len(found)} documents", "one is expected")
    return found[0]


def pairs(flag: str, text: str) -> dict[str, Any]:
    """`a=1,tags.team=web` as the fields of an object; numbers where the field is one."""
    found: dict[str, Any] = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if not name or not equals:
            raise Usage(f"--{flag}: {part!r} is no field with a value", f"as in {HELP[flag]}")
        outer, dot, inner = name.partition(".")
        if dot:
            found.setdefault(outer, {})[inner] = value
        else:
            found[name] = _value(flag, name, value)
    return found


def _value(flag: str, name: str, text: str) -> Any:
    if name == "interruptible":
        return TRUTHS.get(text, text)
    if name not in WHOLE | FRACTIONS:
        return text
    try:
        return int(text) if name in WHOLE else float(text)
    except ValueError:
        raise Usage(f"--{flag}: {name} is no number: {text!r}") from None
