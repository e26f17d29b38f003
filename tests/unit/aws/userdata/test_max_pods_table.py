"""The max-pods table: right for every instance type, short, and readable by a shell."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wainwright.aws.userdata.bootstrap_options import (
    TABLE_BEGIN,
    TABLE_END,
    MaxPodsEntry,
    MaxPodsTable,
    build_max_pods_table,
    powershell_lookup,
    shell_lookup,
)
from wainwright.catalogue.instancetypes import instance_type_info
from wainwright.catalogue.instancetypes.max_pods import compute_max_pods
from wainwright.catalogue.instancetypes.node_class_settings import CatalogOptions, NodeClassSettings

FAMILIES = ["c5", "m5", "m5dn", "t3", "u-6tb1", "mac2-m2"]
SIZES = ["large", "xlarge", "2xlarge", "metal", "metal-24xl"]
NAMES = st.builds(lambda family, size: f"{family}.{size}", *map(st.sampled_from, (FAMILIES, SIZES)))
DENSITIES = st.dictionaries(NAMES, st.integers(1, 4) | st.just(110), min_size=1)


def rows(text: str) -> dict[str, int]:
    """The lines between the markers, parsed independently of the code under test."""
    lines = text.splitlines()
    inside = lines[lines.index(TABLE_BEGIN) + 1 : lines.index(TABLE_END)]
    return {line.rpartition("=")[0]: int(line.rpartition("=")[2]) for line in inside}


@given(DENSITIES, st.none() | st.just(110))
def test_every_type_finds_its_own_max_pods(
    max_pods_by_type: dict[str, int], max_pods: int | None
) -> None:
    made = build_max_pods_table(max_pods_by_type, max_pods)
    assert made is not None
    assert {name: made.entry_for(name).pods for name in max_pods_by_type} == max_pods_by_type
    assert not made.has_kube_reserved


@given(DENSITIES)
def test_an_unknown_type_gets_the_smallest_max_pods(max_pods_by_type: dict[str, int]) -> None:
    made = build_max_pods_table(max_pods_by_type)
    assert made is not None
    assert made.default_pods == made.entry_for("").pods == min(max_pods_by_type.values())


@given(DENSITIES)
def test_the_order_of_types_makes_no_difference(max_pods_by_type: dict[str, int]) -> None:
    assert build_max_pods_table(max_pods_by_type) == build_max_pods_table(
        dict(reversed(max_pods_by_type.items()))
    )


def test_without_max_pods_there_is_no_table() -> None:
    assert build_max_pods_table({}) is None


def test_one_number_for_all_needs_no_table() -> None:
    assert build_max_pods_table({"m5.large": 29, "c5.large": 29}) == MaxPodsTable(
        (MaxPodsEntry("*", 29),)
    )
    assert build_max_pods_table({}, 110) == MaxPodsTable((MaxPodsEntry("*", 110),))


def test_max_pods_of_the_class_covers_all_types_that_do_not_differ() -> None:
    made = build_max_pods_table({"m5.large": 110, "c5.large": 20, "m5.xlarge": 110}, 110)
    assert made == MaxPodsTable((MaxPodsEntry("c5.large", 20), MaxPodsEntry("*", 110)))


def test_a_size_is_written_once() -> None:
    large = dict.fromkeys(["m5.large", "c5.large", "r5.large"], 29)
    made = build_max_pods_table(large | {"t3.large": 35, "t3.nano": 4})
    assert made == MaxPodsTable(
        (MaxPodsEntry("t3.large", 35), MaxPodsEntry("*.large", 29), MaxPodsEntry("*", 4))
    )


KEPT = st.dictionaries(NAMES, st.sampled_from(["memory=475Mi", "cpu=70m,memory=1Gi"]))


@given(DENSITIES, st.none() | st.just(110), KEPT)
def test_only_types_with_kube_reserved_have_it_in_the_table(
    max_pods_by_type: dict[str, int], max_pods: int | None, reserved: dict[str, str]
) -> None:
    made = build_max_pods_table(max_pods_by_type, max_pods, reserved)
    assert made is not None
    assert {name: made.entry_for(name)[1:] for name in max_pods_by_type} == {
        name: (pods, reserved.get(name, "")) for name, pods in max_pods_by_type.items()
    }
    assert made.has_kube_reserved == any(name in reserved for name in max_pods_by_type)
    assert made.entry_for("").kube_reserved == ""


def test_a_size_with_equal_kube_reserved_is_written_once() -> None:
    large = dict.fromkeys(["m5.large", "c5.large"], 20)
    options = dict.fromkeys(large, "memory=475Mi")
    made = build_max_pods_table(large | {"t3.large": 20}, None, options)
    assert made is not None
    assert made.text.splitlines()[1:-1] == ["t3.large=20", "*.large=20=memory=475Mi", "*=20"]


@pytest.mark.parametrize("architecture", ["amd64", "arm64"])
@pytest.mark.parametrize("options", [CatalogOptions(), CatalogOptions(reserved_enis=1)])
def test_the_whole_catalogue_fits(architecture: str, options: CatalogOptions) -> None:
    settings = NodeClassSettings(options=options)
    max_pods_by_type = {
        each.name: compute_max_pods(each, settings).amount
        for each in instance_type_info.built_in_instance_types().values()
        if each.architecture == architecture
    }
    made = build_max_pods_table(max_pods_by_type)
    assert made is not None
    assert all(made.entry_for(name).pods == amount for name, amount in max_pods_by_type.items())
    assert len(made.text) < 7_000


MIXED = {"m5.large": 29, "c5.large": 29, "t3.large": 35, "m5.xlarge": 58, "t3.nano": 4}


@pytest.mark.parametrize("written", [shell_lookup, powershell_lookup], ids=["shell", "powershell"])
def test_the_markers_hold_the_table(written: Callable[[MaxPodsTable], str]) -> None:
    made = build_max_pods_table(MIXED)
    assert made is not None
    assert rows(written(made)) == {"m5.xlarge": 58, "t3.large": 35, "*.large": 29, "*": 4}


FAKE_CURL = """#!/bin/bash
for last; do :; done
case "$last" in
  */latest/api/token) [[ "$*" == *"-X PUT"*"token-ttl-seconds: "* ]] && echo -n SECRET ;;
  */meta-data/instance-type) [[ "$*" == *"X-aws-ec2-metadata-token: SECRET"* ]] && echo -n {type} ;;
esac
"""


@pytest.mark.parametrize(("type_", "expected"), [*MIXED.items(), ("x9.huge", 4), ("", 4)])
def test_a_shell_finds_the_row(type_: str, expected: int, tmp_path: Path) -> None:
    made = build_max_pods_table(MIXED)
    assert made is not None
    assert looked_up(made, type_, tmp_path) == f"{expected} []\n"


@pytest.mark.parametrize(
    ("type_", "expected"),
    [
        ("m5.large", "29 [cpu=70m,memory=574Mi]"),
        ("c5.large", "29 []"),
        ("x9.huge", "4 []"),
        ("", "4 []"),
    ],
)
def test_a_shell_finds_the_kube_reserved_value(type_: str, expected: str, tmp_path: Path) -> None:
    made = build_max_pods_table(MIXED, None, {"m5.large": "cpu=70m,memory=574Mi"})
    assert made is not None
    assert looked_up(made, type_, tmp_path) == f"{expected}\n"


def looked_up(made: MaxPodsTable, type_: str, where: Path) -> str:
    curl = where / "curl"
    curl.write_text(FAKE_CURL.replace("{type}", type_))
    curl.chmod(0o755)
    ran = subprocess.run(
        ["/bin/bash", "-c", f'{shell_lookup(made)}echo "$max_pods [$kube_reserved]"'],
        env={"PATH": f"{where}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    return ran.stdout
