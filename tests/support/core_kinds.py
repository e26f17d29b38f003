"""Objects of core kinds: the table under tests/manifests/builtin, and values generated from the
table of fields, valid ones and ones with junk.
"""

import copy
from functools import cache
from pathlib import Path
from typing import Any, Literal

import msgspec
import yaml
from hypothesis import strategies as st

from wainwright.api.kubernetes.field_types import (
    SCALAR_TYPES,
    FieldType,
    ListFieldType,
    MapFieldType,
    ObjectFieldType,
    ScalarFieldType,
    kind_type,
)
from wainwright.api.kubernetes.object_reader import KUBERNETES_KINDS

CORE_KIND_FOLDER = Path(__file__).parents[1] / "manifests" / "builtin"


class ExpectedFault(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: str
    message: str


class CoreKindRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One object and its expected errors."""

    name: str
    verdict: Literal["accepted", "refused"]
    object: dict[str, Any]
    errors: list[ExpectedFault] = []
    warnings: list[ExpectedFault] = []
    beyond: str = ""
    """Why an API server rejects what we accept; empty where it does not."""


@cache
def core_kind_rows() -> list[CoreKindRow]:
    """Every row of every file, in order."""
    found: list[CoreKindRow] = []
    for file in sorted(CORE_KIND_FOLDER.glob("*.yaml")):
        found.extend(msgspec.convert(yaml.safe_load(file.read_bytes()), list[CoreKindRow]))
    return found


Strategy = st.SearchStrategy[Any]

WORDS = (
    *("", "a", "web", "app", "zone", "A", "a_b", "-a", "a.b", "a/b", "x.y/z", "a b", "é", "a" * 64),
    *("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Equal", "NoSchedule", "NoExecute"),
    *("DoNotSchedule", "ScheduleAnyway", "Honor", "Always", "OnFailure", "Never", "Indexed"),
    *("ReadWriteOnce", "ReadWriteOncePod", "Block", "TCP", "metadata.name", "50%", "101%", "4"),
)
KEYS = (
    *("app", "zone", "", "a b", "cpu", "memory", "storage", "pods", "gpu", "ephemeral-storage"),
    *("nvidia.com/gpu", "hugepages-2Mi", "x.kubernetes.io/y", "requests.x.y/z"),
)
NUMBERS = (-1, 0, 1, 2, 80, 100, 101, 65535, 65536, 10**9 + 1, 2**31 - 1)
AMOUNTS = (0, 1, -1, 0.5, "1", "500m", "1Gi", "2Mi", "3Mi", "1n", "-1", " 1 ", "1e3", "1.5")
TIMES = ("2026-01-31T12:00:00Z", "2026-01-31T1:00:00,5+01:00", "0000-02-29T00:00:00Z")
VALID_BY_TYPE = {
    "string": st.sampled_from(WORDS),
    "boolean": st.booleans(),
    "int32": st.sampled_from(NUMBERS),
    "int64": st.sampled_from((*NUMBERS, 2**63 - 1)),
    "intOrString": st.sampled_from((*NUMBERS, *WORDS)),
    "quantity": st.sampled_from(AMOUNTS),
    "time": st.sampled_from(TIMES),
    "any": st.just({"f:spec": {}}),
}
VALID_OBJECTS = [
    row.object for row in core_kind_rows() if row.verdict == "accepted" and not row.beyond
]
JUNK: Strategy = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=2)
    ),
    max_leaves=4,
)


@st.composite
def core_kind_values(draw: st.DrawFn, shape: FieldType, *, junk: bool = False) -> Any:
    """A value of this type; with junk, some part of it may be anything."""
    if junk and draw(st.integers(0, 9)) == 0:
        return draw(JUNK)
    match shape:
        case ScalarFieldType():
            name = next(name for name, one in SCALAR_TYPES.items() if one is shape.scalar)
            return draw(VALID_BY_TYPE[name])
        case ListFieldType():
            return draw(st.lists(core_kind_values(shape.item, junk=junk), max_size=2))
        case MapFieldType():
            one = core_kind_values(shape.item, junk=junk)
            return draw(st.dictionaries(st.sampled_from(KEYS), one, max_size=2))
        case ObjectFieldType():
            names = draw(st.lists(st.sampled_from(sorted(shape.fields)), max_size=3, unique=True))
            return {name: draw(core_kind_values(shape.fields[name], junk=junk)) for name in names}
        case _:
            raise TypeError(shape)


@st.composite
def core_kind_objects(draw: st.DrawFn, *, junk: bool = False) -> dict[str, Any]:
    """A whole object of some kind."""
    api_version, kind = draw(st.sampled_from(sorted(KUBERNETES_KINDS)))
    made = draw(core_kind_values(kind_type(api_version, kind)))
    for name in ("metadata", "spec", "status"):
        if name in kind_type(api_version, kind).fields:
            made[name] = draw(
                core_kind_values(kind_type(api_version, kind).fields[name], junk=junk)
            )
    return {**made, "apiVersion": api_version, "kind": kind}


@st.composite
def changed_objects(draw: st.DrawFn) -> dict[str, Any]:
    """A valid object of the table with one or two fields changed."""
    made: dict[str, Any] = copy.deepcopy(draw(st.sampled_from(VALID_OBJECTS)))
    for _ in range(draw(st.integers(1, 2))):
        _change(draw, made, kind_type(made["apiVersion"], made["kind"]), depth=0)
    return made


def _change(draw: st.DrawFn, value: Any, shape: FieldType, depth: int) -> None:
    """Replaces a random part of the value."""
    if isinstance(shape, ListFieldType) and isinstance(value, list) and value:
        index = draw(st.integers(0, len(value) - 1))
        _change(draw, value[index], shape.item, depth + 1)
    elif isinstance(shape, MapFieldType) and isinstance(value, dict):
        value[draw(st.sampled_from(KEYS))] = draw(core_kind_values(shape.item, junk=True))
    elif isinstance(shape, ObjectFieldType) and isinstance(value, dict):
        inner = sorted(name for name, item in value.items() if isinstance(item, (dict, list)))
        known = [name for name in inner if name in shape.fields]
        if known and draw(st.integers(0, 3)) > 0:
            name = draw(st.sampled_from(known))
            _change(draw, value[name], shape.fields[name], depth + 1)
        elif depth:
            name = draw(st.sampled_from(sorted(shape.fields)))
            value[name] = draw(core_kind_values(shape.fields[name], junk=True))
