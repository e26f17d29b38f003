"""The configuration of a scheduler: both forms, and everything that can be wrong with them."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from wainwright.api.kubernetes.workloads import TopologySpreadConstraint
from wainwright.manifests.problems import Problem
from wainwright.manifests.scheduler_config import (
    SchedulerConfig,
    default_constraints,
    read_scheduler_config,
)

Value = dict[str, Any]

ZONE = "topology.kubernetes.io/zone"
HARD: Value = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
SOFT: Value = {**HARD, "whenUnsatisfiable": "ScheduleAnyway"}
VERSION = "kubescheduler.config.k8s.io/v1"
LISTED: Value = {"defaultingType": "List", "defaultConstraints": [HARD]}


def short(*constraints: Any) -> Value:
    return {"podTopologySpread": {"defaultConstraints": list(constraints)}}


def profile(args: Any, **fields: Any) -> Value:
    plugins = [
        {"name": "NodeResourcesFit", "args": {}},
        {"name": "PodTopologySpread", "args": args},
    ]
    return {"pluginConfig": plugins, **fields}


def whole(*profiles: Any, **fields: Any) -> Value:
    head = {"apiVersion": VERSION, "kind": "KubeSchedulerConfiguration"}
    return {**head, "profiles": list(profiles), **fields}


def read_config(value: Any, folder: Path) -> SchedulerConfig:
    file = folder / "scheduler.yaml"
    file.write_text(yaml.safe_dump(value, sort_keys=False), encoding="utf-8")
    return read_scheduler_config(str(file))


def typed(*values: Value) -> tuple[TopologySpreadConstraint, ...]:
    return tuple(msgspec.convert(each, TopologySpreadConstraint) for each in values)


OTHER = {"defaultingType": "List", "defaultConstraints": [SOFT]}
REAL = {
    "parallelism": 16,
    "leaderElection": {"leaderElect": True},
    "clientConnection": {"kubeconfig": "/etc/kubernetes/scheduler.conf"},
}
SYSTEM = (
    {**SOFT, "topologyKey": "kubernetes.io/hostname", "maxSkew": 3},
    {**SOFT, "maxSkew": 5},
)
GOOD: dict[str, tuple[Value, tuple[Value, ...]]] = {
    "the short form": (short(HARD), (HARD,)),
    "hard and soft over one label": (short(HARD, SOFT), (HARD, SOFT)),
    "a null selector is none": (short({**HARD, "labelSelector": None}), (HARD,)),
    "every field": (
        short(
            {**HARD, "minDomains": 2, "nodeAffinityPolicy": "Ignore", "nodeTaintsPolicy": "Honor"}
        ),
        ({**HARD, "minDomains": 2, "nodeAffinityPolicy": "Ignore", "nodeTaintsPolicy": "Honor"},),
    ),
    "all of a scheduler's configuration": (whole(profile(LISTED), **REAL), (HARD,)),
    "the only profile, whatever its name": (
        whole(profile(LISTED, schedulerName="batch")),
        (HARD,),
    ),
    "the profile of the default scheduler": (
        whole(
            profile(OTHER, schedulerName="batch"),
            profile(LISTED, schedulerName="default-scheduler"),
        ),
        (HARD,),
    ),
    "arguments that say what they are": (
        whole(profile({"apiVersion": VERSION, "kind": "PodTopologySpreadArgs", **LISTED})),
        (HARD,),
    ),
    "the system's own, where they are asked for": (
        whole(profile({"defaultingType": "System"})),
        SYSTEM,
    ),
}


@pytest.mark.parametrize("name", GOOD)
def test_a_configuration_is_read(name: str, tmp_path: Path) -> None:
    value, expected = GOOD[name]
    assert read_config(value, tmp_path) == SchedulerConfig(constraints=typed(*expected))


def test_json_is_read_as_well(tmp_path: Path) -> None:
    file = tmp_path / "scheduler.json"
    file.write_bytes(msgspec.json.encode(short(HARD)))
    assert read_scheduler_config(str(file)).constraints == typed(HARD)


@pytest.mark.parametrize(
    "value",
    [
        {"podTopologySpread": {}},
        {"podTopologySpread": None},
        {},
        short(),
        whole(),
        whole({"schedulerName": "default-scheduler"}),
        whole(profile(None)),
        whole(profile({"defaultingType": "List"})),
        whole({"pluginConfig": [{"name": "NodeResourcesFit", "args": {"anything": 1}}]}),
    ],
)
def test_a_file_without_defaults_is_noted(value: Value, tmp_path: Path) -> None:
    found = read_config(value, tmp_path)
    assert (found.constraints, found.errors) == ((), ())
    [note] = found.notes
    assert note.message == "there are no default constraints in this configuration"
    assert "defaultingType: System" in note.hint


LIST = "podTopologySpread.defaultConstraints"
ARGS = "profiles[0].pluginConfig[1].args"
BAD: dict[str, tuple[Any, dict[str, str]]] = {
    "a list": ([HARD], {"": "expected podTopologySpread: …, or a KubeSchedulerConfiguration"}),
    "an unknown field": ({"podTopologySpreads": {}}, {"podTopologySpreads": "unknown field"}),
    "an unknown field below": (
        {"podTopologySpread": {"defaultingType": "List"}},
        {"podTopologySpread.defaultingType": "unknown field"},
    ),
    "an unknown field of a constraint": (
        short({**HARD, "maxskew": 1}),
        {f"{LIST}[0].maxskew": "unknown field"},
    ),
    "no mapping": ({"podTopologySpread": [HARD]}, {"podTopologySpread": "expected a mapping"}),
    "no list": ({"podTopologySpread": {"defaultConstraints": HARD}}, {LIST: "expected a list"}),
    "no constraint": (short("zone"), {f"{LIST}[0]": "expected a mapping"}),
    "a selector": (
        short({**HARD, "labelSelector": {"matchLabels": {"app": "web"}}}),
        {
            f"{LIST}[0].labelSelector": "a default constraint has no selector: it is deduced for "
            "each pod"
        },
    ),
    "an empty selector": (
        short({**HARD, "labelSelector": {}}),
        {
            f"{LIST}[0].labelSelector": "a default constraint has no selector: it is deduced for "
            "each pod"
        },
    ),
    "keys of labels": (
        short({**HARD, "matchLabelKeys": ["pod-template-hash"]}),
        {f"{LIST}[0].matchLabelKeys": "matchLabelKeys have no effect on a default constraint"},
    ),
    "one twice": (
        short(HARD, SOFT, {**HARD, "maxSkew": 2}),
        {f"{LIST}[2]": "an earlier constraint has the same topologyKey and whenUnsatisfiable"},
    ),
    "no skew": (
        short({**HARD, "maxSkew": 0}, {**SOFT, "maxSkew": -1}),
        {f"{LIST}[0].maxSkew": "expected 1 or more", f"{LIST}[1].maxSkew": "expected 1 or more"},
    ),
    "a skew in quotes": (
        short({**HARD, "maxSkew": "1"}),
        {f"{LIST}[0].maxSkew": "expected a whole number"},
    ),
    "no label": (
        short({**HARD, "topologyKey": ""}),
        {f"{LIST}[0].topologyKey": "required field is missing"},
    ),
    "a label that cannot be": (
        short({**HARD, "topologyKey": "a b"}),
        {f"{LIST}[0].topologyKey": "expected a label key such as team or example.com/team"},
    ),
    "another action": (
        short({**HARD, "whenUnsatisfiable": "DoNotScedule"}),
        {f"{LIST}[0].whenUnsatisfiable": "expected one of DoNotSchedule, ScheduleAnyway"},
    ),
    "no action": (
        short({"maxSkew": 1, "topologyKey": ZONE}),
        {f"{LIST}[0].whenUnsatisfiable": "required field is missing"},
    ),
    "domains of a preference": (
        short({**SOFT, "minDomains": 2}),
        {f"{LIST}[0].minDomains": "minDomains is only for whenUnsatisfiable: DoNotSchedule"},
    ),
    "too few domains": (
        short({**HARD, "minDomains": 0}),
        {f"{LIST}[0].minDomains": "expected 1 or more"},
    ),
    "another policy": (
        short({**HARD, "nodeTaintsPolicy": "Respect"}),
        {f"{LIST}[0].nodeTaintsPolicy": "expected one of Honor, Ignore"},
    ),
    "several entries": (
        short({**HARD, "maxSkew": []}, {**SOFT, "maxSkew": 0}),
        {
            f"{LIST}[0].maxSkew": "expected a whole number",
            f"{LIST}[1].maxSkew": "expected 1 or more",
        },
    ),
    "another version": (
        {**whole(profile(LISTED)), "apiVersion": "kubescheduler.config.k8s.io/v1beta3"},
        {"apiVersion": f"expected {VERSION}"},
    ),
    "another kind": (
        {"apiVersion": "v1", "kind": "ConfigMap", "data": {}},
        {"apiVersion": f"expected {VERSION}", "kind": "expected KubeSchedulerConfiguration"},
    ),
    "no version": (
        {"kind": "KubeSchedulerConfiguration"},
        {"apiVersion": "required field is missing"},
    ),
    "a slip in the profiles": (
        {**whole(), "profile": [profile(LISTED)]},
        {"profile": "unknown field"},
    ),
    "a slip in a profile": (
        whole({"pluginsConfig": []}),
        {"profiles[0].pluginsConfig": "unknown field"},
    ),
    "an unknown field of a plugin": (
        whole({"pluginConfig": [{"name": "PodTopologySpread", "arguments": {}}]}),
        {"profiles[0].pluginConfig[0].arguments": "unknown field"},
    ),
    "an unknown argument": (
        whole(profile({**LISTED, "defaultConstraint": []})),
        {f"{ARGS}.defaultConstraint": "unknown field"},
    ),
    "profiles that are no list": (
        {**whole(), "profiles": {"default": {}}},
        {"profiles": "expected a list"},
    ),
    "one profile twice": (
        whole(profile(LISTED), profile(LISTED, schedulerName="default-scheduler")),
        {"profiles[1].schedulerName": '"default-scheduler" is there already'},
    ),
    "no profile of the default scheduler": (
        whole(profile(LISTED, schedulerName="a"), profile(LISTED, schedulerName="b")),
        {"profiles": "several profiles, and none is called default-scheduler"},
    ),
    "one plugin twice": (
        whole({"pluginConfig": [*profile(LISTED)["pluginConfig"], {"name": "PodTopologySpread"}]}),
        {"profiles[0].pluginConfig[2].name": '"PodTopologySpread" is there already'},
    ),
    "arguments of another plugin": (
        whole(profile({**LISTED, "kind": "NodeAffinityArgs"})),
        {f"{ARGS}.kind": "expected PodTopologySpreadArgs"},
    ),
    "another way of defaulting": (
        whole(profile({**LISTED, "defaultingType": "list"})),
        {f"{ARGS}.defaultingType": "expected one of List, System"},
    ),
    "constraints beside the system's": (
        whole(profile({**LISTED, "defaultingType": "System"})),
        {f"{ARGS}.defaultingType": "beside defaultConstraints the defaultingType must be List"},
    ),
    "constraints without a way of defaulting": (
        whole(profile({"defaultConstraints": [HARD]})),
        {f"{ARGS}.defaultingType": "beside defaultConstraints the defaultingType must be List"},
    ),
    "a constraint of a profile": (
        whole(profile({**LISTED, "defaultConstraints": [{**HARD, "maxSkew": 0}]})),
        {f"{ARGS}.defaultConstraints[0].maxSkew": "expected 1 or more"},
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_every_error_is_reported_with_its_path(name: str, tmp_path: Path) -> None:
    value, expected = BAD[name]
    found = read_config(value, tmp_path).errors
    assert {each.path: each.message for each in found} == expected
    assert all(each.found and each.expected and each.line for each in found)


def test_a_line_is_where_the_value_is(tmp_path: Path) -> None:
    [error] = read_config(short(SOFT, {**HARD, "maxSkew": 0}), tmp_path).errors
    text = (tmp_path / "scheduler.yaml").read_text(encoding="utf-8").splitlines()
    assert error.line is not None
    assert text[error.line - 1].strip() == "- maxSkew: 0"


def test_fields_of_a_newer_scheduler_are_only_noted(tmp_path: Path) -> None:
    value = whole(profile(LISTED, queueSeed=1), wholeNewThing=True)
    found = read_config(value, tmp_path)
    assert found.constraints == typed(HARD)
    assert [each.path for each in found.notes] == ["wholeNewThing", "profiles[0].queueSeed"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("# nothing\n", "no document in this file"),
        ("podTopologySpread: [", ""),
        ("podTopologySpread: {}\n---\npodTopologySpread: {}\n", "a second document"),
        ("apiVersion: v1\nkind: List\nitems: []\n", "an empty list is not a configuration"),
    ],
)
def test_a_file_that_is_no_document_is_refused(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "scheduler.yaml"
    file.write_text(text, encoding="utf-8")
    [error] = read_scheduler_config(str(file)).errors
    assert message in error.message
    assert error.file == str(file)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    file = str(tmp_path / "none.yaml")
    assert read_scheduler_config(file).errors == (
        Problem(file=file, message="cannot be read: No such file or directory"),
    )


NAMES = (
    *("podTopologySpread", "defaultConstraints", "profiles", "pluginConfig", "args", "name"),
    *("defaultingType", "schedulerName", "maxSkew", "topologyKey", "kind", "labelSelector"),
)
JUNK: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(("", "List", "PodTopologySpread")),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(JUNK, JUNK)
def test_whatever_is_in_it_a_configuration_is_judged(outer: Any, inner: Any) -> None:
    for value in (outer, whole(outer), whole(profile(inner)), short(inner)):
        made, field_errors = default_constraints(value)
        assert made or field_errors
