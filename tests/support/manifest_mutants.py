"""Changed manifests: valid objects with one value, or a few, made wrong, doubtful or unusual.
Every value of the seeds is changed in every way that fits its type, so the set is the same each
time; a seeded random choice of further ones has several changes in one object.
"""

import random
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Final

import yaml
from tests.support.manifest_tables import TESTS

from wainwright.api.field_error import FieldPath, format_field_path

Change = tuple[FieldPath, Any]

REMOVED: Final = object()
WRONG_TYPES: Final[tuple[Any, ...]] = (
    None,
    "",
    "text",
    0,
    7,
    1.5,
    True,
    [],
    ["text"],
    {},
    {"key": "text"},
    [None],
)
NUMBERS: Final = (-1, 0, 1, 50, 51, 100, 101, 2**31, 2**63 - 1, 2**63, 0.5, 2.0, "1")
TEXTS: Final = (
    *("a", "A b", " a", "a ", "a\n", "é", "-a", "a/b/c", "example.com/a", "*", "x" * 63, "x" * 64),
    *("x" * 317, "0", "007", "-1", "+1", "-0", "1.5", "99999999999999999999", "Never", "0s", "1d"),
    *(
        "1h",
        "1h30m0s",
        "90s",
        "1h1h",
        "-1h",
        "10%",
        "100%",
        "101%",
        "5.25%",
        "5.123%",
        "1Gi",
        "1 Gi",
    ),
    *(
        "1e3",
        "1E3",
        "1Ki",
        "0.5Gi",
        "Ti",
        "T",
        "18Ti",
        "58Ti",
        "64Ti",
        "59000Gi",
        "60000Gi",
        "64000G",
    ),
    *("@daily", "@dailyx", "* * * * *", "* * * *", "karpenter.sh/x", "x.karpenter.sh/y"),
    *("karpenter.sh/nodepool", "karpenter.k8s.aws/unknown", "kubernetes.io/hostname"),
    *("karpenter.k8s.aws/instance-tenancy", "karpenter.k8s.aws/capacity-reservation-id"),
    "karpenter.k8s.aws/nitro-sandbox",
    *("In", "NotIn", "Exists", "Gt", "Lte", "on-demand", "reserved", "Balanced", "Unhealthy"),
    *("al2@latest", "al2023@v20250101", "windows2022@latest", "windows2022@v1", "ubuntu@latest"),
    *("AL2", "Bottlerocket", "subnet-1", "xsubnet-1!", "sg-1", "ami-1", "cr-1", "cr-A", "pg-1"),
    *("open", "12345678901", "0.1", ".5", "1.", "+0.5", "-0.02", "+10%", "-100%", "-101%", "+.5%"),
    *("max_pods - 2", "vcpus * 10", "RAID0", "io2", "optional", "disabled", "interface"),
)
API_VERSIONS: Final = (
    "v1",
    "apps/v1",
    "karpenter.sh/v2",
    "example.com/v1",
    "karpenter/v1",
    "a/b/c",
)
UNKNOWN_FIELD: Final = "surprise"
TERMS: Final[tuple[Any, ...]] = (
    *({"id": "subnet-1"}, {"id": "sg-1"}, {"id": "ami-1"}, {"id": "cr-1"}),
    *({"tags": {}}, {"tags": {"a": ""}}, {"tags": {"": "a"}}, {"tags": {"a": "*"}}),
    *({"name": "a"}, {"name": ""}, {"name": "a", "tags": {"a": "b"}}, {"owner": "self"}),
    *({"id": "subnet-1", "tags": {"a": "b"}}, {"id": "sg-1", "name": "a"}),
    *({"id": "cr-1", "tags": {"a": "b"}}, {"id": "cr-1", "ownerID": "111122223333"}),
    *({"ownerID": "111122223333"}, {"instanceMatchCriteria": "targeted"}, {"type": "open"}),
    *({"alias": "al2023@latest", "ssmParameter": "/a"}, {"alias": "al2@latest", "name": "a"}),
    *({"id": "ami-1", "ssmParameter": "/a"}, {"instanceType": "m5.large"}),
    *({"availabilityZone": "us-west-2a"}, {}),
)


@dataclass(frozen=True)
class Mutant:
    """A changed object, and what was changed in it."""

    name: str
    value: dict[str, Any]


def seeds() -> list[dict[str, Any]]:
    text = (TESTS / "manifests" / "karpenter" / "seeds.yaml").read_text(encoding="utf-8")
    return list(yaml.safe_load_all(text))


def single_mutants() -> Iterator[Mutant]:
    """Every seed with each value changed in each way, one at a time."""
    for seed in seeds():
        for change in _changes(seed):
            yield _mutant(seed, [change])


def random_mutants(count: int, seed: int) -> Iterator[Mutant]:
    """Objects with two or three changes each."""
    choice = random.Random(seed)
    changes = [(value, list(_changes(value))) for value in seeds()]
    for _ in range(count):
        value, possible = choice.choice(changes)
        yield _mutant(value, choice.sample(possible, choice.randint(2, 3)))


def _mutant(seed: dict[str, Any], changes: list[Change]) -> Mutant:
    value = deepcopy(seed)
    for path, replacement in changes:
        _apply(value, path, replacement)
    summary = "; ".join(f"{format_field_path(path)} = {_show(item)}" for path, item in changes)
    return Mutant(f"{seed['kind']} {seed['metadata']['name']}: {summary}", value)


def _show(item: Any) -> str:
    return "removed" if item is REMOVED else repr(item)[:80]


def _apply(value: Any, path: FieldPath, replacement: Any) -> None:
    """Changes a value in place; nothing happens where an earlier change removed its parent."""
    *parents, last = path
    for step in parents:
        if not _has(value, step):
            return
        value = value[step]
    if replacement is REMOVED:
        if _has(value, last):
            del value[last]
    elif isinstance(value, dict) or _has(value, last):
        value[last] = deepcopy(replacement)
    elif isinstance(value, list):
        value.append(deepcopy(replacement))


def _has(value: Any, step: str | int) -> bool:
    if isinstance(value, dict):
        return step in value
    return isinstance(value, list) and isinstance(step, int) and step < len(value)


def _changes(value: Any, path: FieldPath = ()) -> Iterator[Change]:
    if path in (("metadata",), ("kind",)):
        return  # other tests are about metadata; another kind would be sent to another address
    if path:
        yield path, REMOVED
        yield from ((path, wrong) for wrong in WRONG_TYPES if wrong is None or wrong != value)
        yield from ((path, other) for other in _alternatives(value, path))
    for step, item in _entries(value):
        yield from _changes(item, (*path, step))
    if isinstance(value, dict):
        yield (*path, UNKNOWN_FIELD), "x"
    if isinstance(value, list):
        yield from _list_changes(value, path)


def _entries(value: Any) -> list[tuple[str | int, Any]]:
    if isinstance(value, dict):
        return list(value.items())
    return list(enumerate(value)) if isinstance(value, list) else []


def _alternatives(value: Any, path: FieldPath) -> tuple[Any, ...]:
    if path == ("apiVersion",):
        return API_VERSIONS
    if isinstance(value, str):
        return TEXTS
    return NUMBERS if isinstance(value, int) and not isinstance(value, bool) else ()


def _list_changes(value: list[Any], path: FieldPath) -> Iterator[Change]:
    yield path, value[:1]
    if value:
        yield path, [*value, value[0]]
        yield path, [value[0]] * 31
        yield path, [value[0]] * 151
    if "SelectorTerms" in str(path[-1]):
        for term in TERMS:
            yield path, [term]
            yield path, [*value, term]
