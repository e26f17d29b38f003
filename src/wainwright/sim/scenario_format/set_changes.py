"""`--set PATH=VALUE`: a Scenario, or a manifest of its world, with one value changed.

spec.settings.minimumSaving=5%
spec.events[0].at=2h
NodePool/default:spec.disruption.consolidationPolicy=WhenEmpty
Deployment/shop/web:metadata.annotations["example.com/team"]=shop
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from wainwright.api.field_error import (
    UNKNOWN_FIELD,
    FieldPath,
    PathStep,
    did_you_mean,
    format_field_path,
)
from wainwright.errors import UsageError
from wainwright.manifests.cluster_manifests import (
    DEFAULT_CLASS,
    NAMED_BY_DEFAULT,
    read_loaded_manifests,
)
from wainwright.manifests.documents import LoadedManifests, ManifestDocument, ReadOptions
from wainwright.manifests.problems import InvalidInput, Problem
from wainwright.manifests.yaml_reader import MAX_DEPTH, UnreadableDocument, parse_yaml

STEP: Final = re.compile(r'\.?([^.\[\]"=]+)|\[([0-9]{1,9})\]|\["([^"]+)"\]')
HINT: Final = (
    "write it as spec.settings.minimumSaving=5% or "
    "NodePool/default:spec.disruption.consolidationPolicy=WhenEmpty"
)

MAX_STEPS: Final = MAX_DEPTH
MAX_SHOWN: Final = 60
SWEEP_HINT: Final = "write it as spec.settings.minimumSaving=0,5%,10%"


class SetChange(msgspec.Struct, frozen=True, kw_only=True):
    """One value at one path; of a manifest where it names one."""

    text: str
    kind: str = ""
    """Empty: the Scenario."""
    namespace: str = ""
    name: str = ""
    path: FieldPath
    value: Any

    @property
    def object(self) -> str:
        return "/".join(part for part in (self.kind, self.namespace, self.name) if part)


def parse_change(text: str, option: str = "--set") -> SetChange:
    """Raises UsageError."""
    place, equals, value = _split(text)
    if not equals:
        raise UsageError(f"{option} {text} has no value", HINT)
    target, colon, path = place.rpartition(":")
    kind, namespace, name = _split_object(target) if colon else ("", "", "")
    if colon and not (kind and name):
        raise UsageError(f"{option} {text}: {target!r} is not an object", HINT)
    return SetChange(
        text=text,
        kind=kind,
        namespace=namespace,
        name=name,
        path=_parse_path(path, text),
        value=_parse_value(value, text),
    )


def _split(text: str) -> tuple[str, str, str]:
    """At the first equals sign that is in no quotes."""
    quoted = False
    for index, character in enumerate(text):
        if character == '"':
            quoted = not quoted
        elif character == "=" and not quoted:
            return text[:index], "=", text[index + 1 :]
    return text, "", ""


def _split_object(target: str) -> tuple[str, str, str]:
    parts = target.split("/")
    if len(parts) == 2:
        return parts[0], "", parts[1]
    return (parts[0], parts[1], parts[2]) if len(parts) == 3 else ("", "", "")


def _parse_path(path: str, text: str) -> FieldPath:
    steps: list[PathStep] = []
    position = 0
    while position < len(path):
        match = STEP.match(path, position)
        if match is None:
            raise UsageError(f"--set {text}: {path!r} is not a path", HINT)
        key, index, quoted = match.groups()
        steps.append(int(index) if index is not None else key or quoted)
        position = match.end()
        if len(steps) > MAX_STEPS:
            shown = f"{text[:MAX_SHOWN]}…"
            raise UsageError(f"--set {shown}: a path of more than {MAX_STEPS} segments", HINT)
    if not steps:
        raise UsageError(f"--set {text} names no field", HINT)
    return tuple(steps)


def _parse_value(value: str, text: str) -> Any:
    """As YAML reads it: numbers, true, null, [lists] and {mappings}; anything else is text."""
    try:
        documents = [document.value for document, _ in parse_yaml(value)]
    except UnreadableDocument as error:
        raise UsageError(f"--set {text}: {error.message}", "quote it if it is text") from None
    return documents[0] if documents else None


class SweepPath(msgspec.Struct, frozen=True, kw_only=True):
    """`--sweep PATH=VALUE,VALUE`: the values that a path takes, one after the other."""

    path: str
    values: tuple[str, ...]

    @property
    def changes(self) -> list[str]:
        """As `--set` takes them."""
        return [f"{self.path}={value}" for value in self.values]


def parse_sweep(text: str) -> SweepPath:
    """Raises UsageError."""
    place, _, values = _split(text)
    found = [each.strip() for each in _split_values(values)]
    if not place or not values or "" in found:
        raise UsageError(f"--sweep {text} has no list of values", SWEEP_HINT)
    if len(set(found)) < max(len(found), 2):
        raise UsageError(f"--sweep {text} does not name several values", SWEEP_HINT)
    sweep = SweepPath(path=place, values=tuple(found))
    for change in sweep.changes:
        parse_change(change, "--sweep")
    return sweep


def _split_values(text: str) -> list[str]:
    """At commas that are in no list, mapping or quoted text."""
    values, depth, quote = [""], 0, ""
    for character in text:
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        depth += (character in "[{") - (character in "]}") if not quote else 0
        if character == "," and not depth and not quote:
            values.append("")
        else:
            values[-1] += character
    return values


def apply_changes(
    changes: Sequence[SetChange], scenario: ManifestDocument, manifests: Sequence[ManifestDocument]
) -> None:
    """Changes the values of the documents; raises UsageError for what is not there."""
    for change in changes:
        targets = [scenario] if not change.kind else find_changed(change, manifests)
        for document in targets:
            document.value = _replaced(document.value, change.path, change)


def find_changed(
    change: SetChange, manifests: Sequence[ManifestDocument]
) -> list[ManifestDocument]:
    """The manifests that the change names; raises UsageError where there is none."""
    found = [each for each in manifests if _is_meant(change, each.value)]
    if not found:
        names = [f"{kind}/{name}" for kind, _, name in map(_identity, _objects(manifests))]
        hint = did_you_mean(f"{change.kind}/{change.name}", names)
        raise UsageError(f"--set {change.text}: there is no {change.object}", hint)
    return found


def unknown_changed_fields(change: SetChange, document: ManifestDocument) -> list[Problem]:
    """Fields on the path of the change that the kind does not have."""
    loaded = LoadedManifests()
    loaded.documents.append(document)
    try:
        read_loaded_manifests(loaded, ReadOptions(refuse_unknown_fields=True))
    except InvalidInput as error:
        path = format_field_path((*document.base, *change.path))
        return [
            given_by_change(each, change)
            for each in error.report.errors
            if each.message == UNKNOWN_FIELD and _is_on_path(each.path, path)
        ]
    return []


def _is_on_path(field: str, path: str) -> bool:
    """Whether one of them is the other, or within it."""
    shorter, longer = sorted((field, path), key=len)
    return longer == shorter or longer.startswith((f"{shorter}.", f"{shorter}["))


def given_by_change(problem: Problem, change: SetChange) -> Problem:
    hint = f"this value was given by --set {change.text}"
    text = f"{problem.hint}; {hint}" if problem.hint else hint
    return msgspec.structs.replace(problem, hint=text)


def _objects(manifests: Iterable[ManifestDocument]) -> list[dict[str, Any]]:
    return [each.value for each in manifests if isinstance(each.value, dict)]


def _identity(value: dict[str, Any]) -> tuple[str, str, str]:
    metadata = value.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    kind, name = str(value.get("kind") or ""), str(metadata.get("name") or "")
    if not name and kind in NAMED_BY_DEFAULT:
        name = DEFAULT_CLASS
    return kind, str(metadata.get("namespace") or "default"), name


def _is_meant(change: SetChange, value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    kind, namespace, name = _identity(value)
    is_named = (kind, name) == (change.kind, change.name)
    return is_named and change.namespace in ("", namespace)


def _replaced(value: Any, path: FieldPath, change: SetChange) -> Any:
    """A copy with the value at the path; mappings that are missing are made."""
    if not path:
        return change.value
    step, rest = path[0], path[1:]
    if isinstance(step, int):
        return _replaced_item(value, step, rest, change)
    if value is not None and not isinstance(value, dict):
        raise _no_such_field(change, path)
    entries = value or {}
    return {**entries, step: _replaced(entries.get(step), rest, change)}


def _replaced_item(value: Any, index: int, rest: FieldPath, change: SetChange) -> Any:
    if not isinstance(value, list) or index >= len(value):
        raise _no_such_field(change, (index, *rest))
    changed = _replaced(value[index], rest, change)
    return [changed if number == index else each for number, each in enumerate(value)]


def _no_such_field(change: SetChange, rest: FieldPath) -> UsageError:
    missing = change.path[: len(change.path) - len(rest) + 1]
    where = change.object or "the Scenario"
    return UsageError(f"--set {change.text}: {where} has no {format_field_path(missing)}")
