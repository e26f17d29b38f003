"""Inputs: every example, scenario and manifest table, with a few values made odd or torn text."""

import json
import re
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Final

import yaml
from tests.fuzz.user_data import odd_user_data
from tests.support import consolidation_manifests as manifests
from tests.support.manifest_tables import TESTS

ROOT: Final = TESTS.parent
TABLES: Final = ("builtin", "custom", "changes", "convert", "karpenter")
SCENARIOS: Final = ("catalogue", "consolidation", "every-field", "planning")
SIMULATIONS: Final = ("refused", "simulation", "simulation-worlds")
LARGEST_FILE: Final = 60_000  # a scenario of ten thousand pods says nothing more, and takes long

HOSTILE_TEXTS: Final = (
    *(
        "",
        " ",
        "a\n::error file=x::hi",
        "::error::hi",
        "\x1b[31mred\x1b[0m",
        "\x1b]0;title\x07",
        "\u202egnp.exe",
    ),
    *(
        "\x9b2J",
        "\u2028",
        "\x7f",
        "é",
        "\U0001f600",
        "x" * 300,
        "x" * 5000,
        "x" * 70_000,
        "a\0b",
        "[bold]x[/bold]",
    ),
    *(
        "../../etc/passwd",
        "${ARCH}",
        "{{ .Values.x }}",
        "%s%n",
        "null",
        "~",
        "0x10",
        "1e400",
        "nan",
    ),
    *(
        "inf",
        "-inf",
        "NaN",
        "9" * 5000,
        "1e999999999",
        "-1",
        "0",
        "1.5",
        "1Gi",
        "1Ei",
        "100Ei",
        "1n",
    ),
    *("2026-01-31T08:00:00Z", "9999-12-31T23:59:59Z", "0000-00-00T00:00:00Z", "1h", "99999999h"),
    *(
        "-5m",
        "100%",
        "101%",
        "nan%",
        "-0%",
        "* * * * *",
        "@daily",
        "0 0 31 2 *",
        "a/b",
        "a/b/c",
        "*",
    ),
    *("m5.large", "us-west-2a", "spot", "In", "Gt", "Exists", "default", "kubernetes.io/hostname"),
    *("karpenter.sh/nodepool", "karpenter.sh/capacity-type", "topology.kubernetes.io/zone"),
)
HOSTILE_NUMBERS: Final = (
    *(-1, 0, 1, 2, 100, 101, 1000, 2**31 - 1, 2**31, 2**32, 2**53, 2**63 - 1, 2**63, 2**64, 2**80),
    *(-(2**31), -(2**63), 0.5, -0.5, 1e-300, 1e300, 1e21, 1e22, -0.0),
)
HOSTILE_VALUES: Final[tuple[Any, ...]] = (
    *(
        None,
        True,
        False,
        [],
        {},
        [None],
        [[]],
        [{}],
        {"": None},
        {"a": {"b": []}},
        "x",
        7,
        [1, "a"],
    ),
    *HOSTILE_TEXTS,
    *HOSTILE_NUMBERS,
)
INSTANCE_TYPE: Final = re.compile(r"\b[a-z][a-z0-9-]*\.[a-z0-9]*(?:large|metal)\b")
WORLD: Final = """\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: world}
spec: {template: {spec: {nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: world},
  requirements: [{key: karpenter.k8s.aws/instance-family, operator: In, values: [m5, c5]}]}}}
---
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: world}
spec: {role: r, amiSelectorTerms: [{alias: al2023@latest}], subnetSelectorTerms: [{tags: {a: b}}],
  securityGroupSelectorTerms: [{tags: {a: b}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: world}
spec: {containers: [{name: c, resources: {requests: {cpu: 1, memory: 1Gi}}}]}
"""


@dataclass(frozen=True)
class Source:
    """Documents that belong together, and whether they are a Scenario with its manifests."""

    name: str
    documents: tuple[Any, ...]
    is_scenario: bool = False
    is_table: bool = False


@cache
def sources() -> tuple[Source, ...]:
    """The same on every machine; files that are no YAML on purpose are left out."""
    found = [_folder_source(path) for path in sorted(ROOT.joinpath("examples").iterdir())]
    for folder in SCENARIOS:
        found += map(_file_source, _files(TESTS / "scenarios" / folder))
    for folder in SIMULATIONS:
        files = _files(TESTS / "scenarios" / folder)
        found += [_file_source(file, is_scenario=True) for file in files]
    for folder in TABLES:
        found += [
            _file_source(file, is_table=True) for file in _files(TESTS / "manifests" / folder)
        ]
    return tuple(each for each in found if each.documents)


@cache
def _groups() -> tuple[tuple[Source, ...], ...]:
    """Examples, scenarios, simulations, tables: each is as likely, however many files it has."""
    examples = ROOT.joinpath("examples")
    names = {path.name for path in examples.iterdir()}
    first = [each for each in sources() if each.name in names]
    rest = [each for each in sources() if each.name not in names]
    return (
        tuple(first),
        tuple(each for each in rest if not each.is_scenario and not each.is_table),
        tuple(each for each in rest if each.is_scenario),
        tuple(each for each in rest if each.is_table),
    )


@cache
def _values_by_key() -> dict[Any, tuple[Any, ...]]:
    """What the inputs have under each key: such a value is of the right type elsewhere, too."""
    found: dict[Any, dict[str, Any]] = {}
    for source in sources():
        for document in source.documents:
            for container, key in _places(document):
                found.setdefault(key, {})[json.dumps(container[key])] = container[key]
    return {key: tuple(values.values()) for key, values in found.items()}


def _files(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("*.yaml")) if path.stat().st_size < LARGEST_FILE]


def _folder_source(folder: Path) -> Source:
    documents = [each for file in sorted(folder.rglob("*.yaml")) for each in _documents(file)]
    is_scenario = any(each.get("kind") == "Scenario" for each in documents)
    return Source(folder.name, tuple(documents), is_scenario)


def _file_source(file: Path, *, is_scenario: bool = False, is_table: bool = False) -> Source:
    name = str(file.relative_to(ROOT))
    return Source(name, tuple(_documents(file)), is_scenario, is_table)


def _documents(file: Path) -> list[dict[str, Any]]:
    try:
        loaded = list(yaml.load_all(file.read_text("utf-8"), Loader=yaml.CSafeLoader))
    except yaml.YAMLError:
        return []
    plain = [json.loads(json.dumps(each, default=str)) for each in loaded]
    return [_with_absolute_paths(each, file) for found in plain for each in _objects(found)]


def _objects(document: Any) -> list[dict[str, Any]]:
    """The manifests of a document: of a table, or beside what a scenario expects of them."""
    if isinstance(document, list):
        return [inner for each in document for inner in _objects(each)]
    if not isinstance(document, dict):
        return []
    if "apiVersion" in document or "kind" in document:
        return [document]
    for key in ("given", "manifests", "object", "old", "new"):
        if key in document:
            return _objects(document[key])
    return []


def _with_absolute_paths(document: dict[str, Any], file: Path) -> dict[str, Any]:
    spec = document.get("spec")
    if document.get("kind") == "Scenario" and isinstance(spec, dict):
        names = spec.get("manifests")
        if isinstance(names, list) and all(isinstance(name, str) for name in names):
            spec["manifests"] = [str((file.parent / name).resolve()) for name in names]
    return document


@cache
def _nodes() -> list[Any]:
    """Two nodes with a pod each, for commands that are about nodes."""
    pods = [manifests.pod(f"pod-{name}", f"node-{name}", "1") for name in "ab"]
    return [*(manifests.node(f"node-{name}", "m5.large") for name in "ab"), *pods]


@cache
def _world() -> tuple[Any, ...]:
    return tuple(yaml.safe_load_all(WORLD))


@dataclass(frozen=True)
class FuzzInput:
    """One input: the file's text, and names of objects in it that commands can be called with."""

    source: Source
    text: str
    suffix: str
    names: tuple[str, ...]
    documents: tuple[Any, ...]
    """As they were before the text was torn."""

    def names_of(self, kinds: Sequence[str]) -> list[str]:
        return _names([each for each in self.documents if _kind(each) in kinds])

    def instance_types(self) -> list[str]:
        return sorted(set(INSTANCE_TYPE.findall(self.text))) or ["m5.large"]


def intact_input(random: Random) -> FuzzInput:
    """As it is in its folder, and not there to be refused: for options that are odd."""
    examples, scenarios, simulations, _ = _groups()
    usable = [each for each in simulations if "/refused/" not in each.name]
    source = random.choice(random.choice((examples, scenarios, usable)))
    documents = [*deepcopy(source.documents)]
    if not source.is_scenario and random.random() < 0.3:
        documents += deepcopy(_nodes())
    text, suffix = _render(documents, random)
    return FuzzInput(source, text, suffix, tuple(_names(documents)), tuple(documents))


def make_input(random: Random) -> FuzzInput:
    source = random.choice(random.choice(_groups()))
    documents = list(deepcopy(source.documents))
    if source.is_table:
        documents = [*random.sample(documents, min(len(documents), 2)), *deepcopy(_world())]
    elif not source.is_scenario and random.random() < 0.3:
        documents += deepcopy(_nodes())
    for _ in range(random.choice((0, 1, 1, 1, 1, 2, 3))):
        change_document(random.choice(documents), random)
    if random.random() < 0.1:
        change_header(random.choice(documents), random)
    if random.random() < 0.1:
        documents.append(deepcopy(random.choice(documents)))
    if random.random() < 0.1:
        _change_user_data(documents, random)
    text, suffix = _render(documents, random)
    if random.random() < 0.12:
        text = tear_text(text, random)
    return FuzzInput(source, text, suffix, tuple(_names(documents)), tuple(documents))


def _kind(document: Any) -> str:
    found = document.get("kind") if isinstance(document, dict) else None
    return found if isinstance(found, str) else ""


def _names(documents: Sequence[Any]) -> list[str]:
    found = []
    for each in documents:
        metadata = each.get("metadata") if isinstance(each, dict) else None
        name = metadata.get("name") if isinstance(metadata, dict) else None
        if isinstance(name, str) and name.isprintable() and name:
            found += [name, f"{name}-0"]
    return found or ["none"]


def change_document(document: Any, random: Random) -> None:
    """One value replaced, removed, doubled, or put where another one was."""
    places = list(_places(document))
    container, key = random.choice(places)
    match random.randrange(14):
        case 0:
            del container[key]
        case 1 if isinstance(container, dict):
            container[random.choice(HOSTILE_TEXTS)] = container.pop(key)
        case 2 if isinstance(container, list):
            container.extend(deepcopy(container[key]) for _ in range(random.choice((1, 2, 40))))
        case 3:
            other, place = random.choice(places)
            if place in other if isinstance(other, dict) else place < len(other):
                container[key] = deepcopy(other[place])
        case 4 | 5:
            container[key] = _alike(container[key], random)
        case 6 | 7:
            container[key] = deepcopy(random.choice(HOSTILE_VALUES))
        case _:
            container[key] = deepcopy(random.choice(_values_by_key().get(key, HOSTILE_VALUES)))


def change_header(document: Any, random: Random) -> None:
    """What every object has, and few changes of one value among hundreds would meet."""
    if not isinstance(document, dict):
        return
    if random.random() < 0.5:
        document[random.choice(("apiVersion", "kind"))] = random.choice(([], {}, None, 1, ["Pod"]))
    elif isinstance(metadata := document.get("metadata"), dict):
        metadata[random.choice(("labels", "annotations"))] = {"x": None, "": None}


def _change_user_data(documents: Sequence[Any], random: Random) -> None:
    for each in documents:
        spec = each.get("spec") if isinstance(each, dict) else None
        if _kind(each) == "EC2NodeClass" and isinstance(spec, dict):
            spec["userData"] = odd_user_data(random)
            family = random.choice(("", "al2023@latest", "bottlerocket@latest", "al2@latest"))
            if family:
                spec["amiSelectorTerms"] = [{"alias": family}]
                spec.pop("amiFamily", None)


def _alike(value: Any, random: Random) -> Any:
    if isinstance(value, bool | None):
        return not value
    if isinstance(value, int | float):
        return random.choice(HOSTILE_NUMBERS)
    if isinstance(value, str):
        return random.choice(HOSTILE_TEXTS)
    return [value, value] if isinstance(value, list) else {**value, "unknown": value}


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every container of the value with each of its keys."""
    found: list[tuple[Any, Any]] = []
    pending = [value]
    while pending:
        container = pending.pop()
        entries = container.items() if isinstance(container, dict) else enumerate(container)
        for key, inner in entries:
            found.append((container, key))
            if isinstance(inner, dict | list):
                pending.append(inner)
    return found or [({"a": 1}, "a")]


def _render(documents: list[Any], random: Random) -> tuple[str, str]:
    style = random.randrange(4)
    if style == 0:
        return "\n".join(json.dumps(each) for each in documents), "json"
    if style == 1:
        return json.dumps({"apiVersion": "v1", "kind": "List", "items": documents}), "json"
    if style == 2:
        return "---\n".join(json.dumps(each) + "\n" for each in documents), "yaml"
    dumped = yaml.dump_all(documents, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True)
    return str(dumped), "yaml"


def tear_text(text: str, random: Random) -> str:
    """Characters removed, put in or moved, as a broken merge or a slip of the hand leaves them."""
    for _ in range(random.choice((1, 1, 3))):
        start = random.randrange(len(text) + 1)
        end = min(len(text), start + random.choice((0, 1, 1, 10, 200)))
        piece = random.choice(
            (
                "",
                " ",
                "\t",
                "\n",
                ":",
                "- ",
                "{",
                "}",
                "[",
                '"',
                "&a ",
                "*a",
                "<<: ",
                "---\n",
                "\x00",
            )
        )
        text = text[:start] + piece + text[end:]
    return text
