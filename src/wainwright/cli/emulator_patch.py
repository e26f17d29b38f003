"""Changes to a running emulator: read from a file and from flags such as
`--stock instanceType=c5.*,free=3`, and sent to its admin API.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from http.client import HTTPException
from typing import Any, Final, TypeVar
from urllib.error import HTTPError, URLError
from urllib.request import ProxyHandler, Request, build_opener

import click

from wainwright.cli import printing
from wainwright.cli.options import Choice
from wainwright.errors import InvalidInputError, UsageError
from wainwright.manifests.source_files import UnreadableFile, read_source
from wainwright.manifests.yaml_reader import UnreadableDocument, parse_yaml

Command = TypeVar("Command", bound=Callable[..., Any])

INTEGER_FIELDS: Final = frozenset({"total", "available", "free", "status", "times"})
FLOAT_FIELDS: Final = frozenset({"price", "probability", "seconds", "start", "end"})
BOOLEANS: Final = {"true": True, "false": False}
LIST_FIELDS: Final = {
    "price": "prices",
    "unavailable": "unavailable",
    "reservation": "capacityReservations",
    "stock": "stock",
    "fault": "faults",
    "interrupt": "interruptions",
}
"""By flag, the list of the patch that it adds to."""
FLAG_EXAMPLES: Final = {
    "price": "instanceType=m5.large,capacityType=spot,price=0.05[,zone=…]",
    "unavailable": "instanceType=p5.*[,zone=…][,capacityType=…]",
    "reservation": "id=cr-…,instanceType=…,availabilityZone=…,total=3[,tags.team=web]…",
    "stock": "instanceType=c5.*,free=3[,zone=…][,capacityType=…]",
    "fault": "operation=CreateFleet,code=InternalError[,status=500][,times=1]…",
    "interrupt": "instance=i-…,kind=spot[,seconds=120]",
}
IMMUTABLE_FIELDS: Final = ("zones", "instanceTypes", "fees")
"""Fields of a Cloud that a running emulator cannot change."""
CLEARABLE_LISTS: Final = Choice(["prices", "unavailable", "stock", "faults"])


def patch_flags(command: Command) -> Command:
    """Adds the flags of a patch to a command."""
    command = click.option(
        "--throttle/--no-throttle", default=None, help="Limit calls as EC2 does, or not at all."
    )(command)
    command = click.option(
        "--clear", multiple=True, type=CLEARABLE_LISTS, help="Empty this list; may be repeated."
    )(command)
    for flag, example in reversed(FLAG_EXAMPLES.items()):
        command = click.option(f"--{flag}", multiple=True, metavar="K=V,…", help=example)(command)
    return command


def build_patch(file: str | None, flags: Mapping[str, Any]) -> dict[str, Any]:
    """The patch of file and flags; flags add to lists of the file."""
    patch = {} if file is None else read_patch(file)
    for name in flags["clear"]:
        patch.setdefault(name, [])
    for flag, field in LIST_FIELDS.items():
        entries = [parse_fields(flag, text) for text in flags[flag]]
        if entries:
            patch[field] = [*_require_list(patch.get(field, []), field), *entries]
    if flags["throttle"] is not None:
        patch["throttling"] = flags["throttle"]
    if not patch:
        raise UsageError("there is nothing to change", "name a file with a patch, or use flags")
    return patch


def _require_list(value: Any, field: str) -> Sequence[Any]:
    if not isinstance(value, list):
        raise InvalidInputError(f"{field} is not a list, but {type(value).__name__}")
    return value


def read_patch(file: str) -> dict[str, Any]:
    """A patch, a list of faults, or a Cloud, in YAML or JSON."""
    document = _read_document(file)
    if isinstance(document, list):
        return {"faults": document}
    if not isinstance(document, dict):
        raise InvalidInputError(f"{file} is neither a patch nor a list of faults")
    return _patch_from_cloud(document) if document.get("kind") == "Cloud" else document


def _patch_from_cloud(cloud: Mapping[str, Any]) -> dict[str, Any]:
    """The changeable fields of a Cloud, and its region, which must be that of the emulator."""
    spec = cloud.get("spec")
    fields = dict(spec) if isinstance(spec, dict) else {}
    fixed = [name for name in fields if name in IMMUTABLE_FIELDS]
    if fixed:
        printing.echo(f"note: {', '.join(fixed)} cannot change while the emulator runs", err=True)
    return {name: value for name, value in fields.items() if name not in IMMUTABLE_FIELDS}


def _read_document(file: str) -> Any:
    source = read_source(file)
    if isinstance(source, UnreadableFile):
        raise InvalidInputError(f"{source.problem.file}: {source.problem.message}")
    try:
        parsed = [document for document, _ in parse_yaml(source.text)]
    except UnreadableDocument as error:
        raise InvalidInputError(
            f"{source.name}:{error.line}: {error.message}", error.hint
        ) from None
    if len(parsed) != 1:
        raise InvalidInputError(f"{source.name} has {len(parsed)} documents", "one is expected")
    for duplicate in parsed[0].duplicate_keys:
        message = f"{source.name}:{duplicate.line}: the key {duplicate.path[-1]!r} is there twice"
        raise InvalidInputError(message, "keep one of them")
    return parsed[0].value


def parse_fields(flag: str, text: str) -> dict[str, Any]:
    """`a=1,tags.team=web` as the fields of an object; numbers where the field is one."""
    fields: dict[str, Any] = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if not name or not equals:
            raise UsageError(
                f"--{flag}: {part!r} is not a field with a value", f"as in {FLAG_EXAMPLES[flag]}"
            )
        outer, dot, inner = name.partition(".")
        if isinstance(fields.get(outer), dict) != bool(dot) and outer in fields:
            raise UsageError(
                f"--{flag}: {outer} is both a value and an object with fields", "keep one of them"
            )
        if dot:
            fields.setdefault(outer, {})[inner] = value
        else:
            fields[name] = _parse_value(flag, name, value)
    return fields


def _parse_value(flag: str, name: str, text: str) -> Any:
    if name == "interruptible":
        return BOOLEANS.get(text, text)
    if name not in INTEGER_FIELDS | FLOAT_FIELDS:
        return text
    try:
        return int(text) if name in INTEGER_FIELDS else float(text)
    except ValueError:
        raise UsageError(f"--{flag}: {name} is not a number: {text!r}") from None


def call_admin_api(endpoint: str, path: str, body: Any = None) -> Any:
    """The response; InvalidInputError with the emulator's error message."""
    data = None if body is None else json.dumps(body).encode()
    try:
        request = Request(f"{endpoint.rstrip('/')}/_wain/{path}", data)
        request.add_header("Content-Type", "application/json")
        # Never through a proxy of the environment: the emulator is on this host.
        with build_opener(ProxyHandler({})).open(request, timeout=30) as response:
            return json.load(response)
    except HTTPError as error:
        raise _admin_api_error(endpoint, error) from None
    except (URLError, OSError, ValueError, HTTPException) as error:
        reason = getattr(error, "reason", error)
        hint = "start one with: wain emulator, or name another with --endpoint"
        raise UsageError(f"no emulator answers at {endpoint}: {reason}", hint) from None


def _admin_api_error(endpoint: str, error: HTTPError) -> InvalidInputError:
    try:
        body = json.load(error)
        return InvalidInputError(str(body["error"]), str(body.get("hint", "")))
    except (ValueError, KeyError, TypeError):
        return InvalidInputError(
            f"what answers at {endpoint} is not a wain emulator (HTTP {error.code})"
        )
