"""The table of pods by instance type: right for every type, short, and readable by a shell."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wainwright.aws.userdata.density import BEGIN, END, Row, Table, table
from wainwright.aws.userdata.lookup import in_powershell, in_shell
from wainwright.catalogue import builtin
from wainwright.catalogue.density import pods
from wainwright.catalogue.settings import ClassSettings, Options

FAMILIES = ["c5", "m5", "m5dn", "t3", "u-6tb1", "mac2-m2"]
SIZES = ["large", "xlarge", "2xlarge", "metal", "metal-24xl"]
NAMES = st.builds(lambda family, size: f"{family}.{size}", *map(st.sampled_from, (FAMILIES, SIZES)))
DENSITIES = st.dictionaries(NAMES, st.integers(1, 4) | st.just(110), min_size=1)


def rows(text: str) -> dict[str, int]:
    """What lies between the markers, read by somebody who knows only the format."""
    lines = text.splitlines()
    inside = lines[lines.index(BEGIN) + 1 : lines.index(END)]
    return {line.rpartition("=")[0]: int(line.rpartition("=")[2]) for line in inside}


@given(DENSITIES, st.none() | st.just(110))
def test_every_type_finds_its_own_number(densities: dict[str, int], max_pods: int | None) -> None:
    made = table(densities, max_pods)
    assert made is not None
    assert {name: made.of(name).pods for name in densities} == densities
    assert not made.reserves


@given(DENSITIES)
def test_an_unknown_type_takes_the_fewest(densities: dict[str, int]) -> None:
    made = table(densities)
    assert made is not None
    assert made.otherwise == made.of("").pods == min(densities.values())


@given(DENSITIES)
def test_the_order_of_types_makes_no_difference(densities: dict[str, int]) -> None:
    assert table(densities) == table(dict(reversed(densities.items())))


def test_nothing_is_said_where_nobody_has_said_anything() -> None:
    assert table({}) is None


def test_one_number_for_all_needs_no_table() -> None:
    assert table({"m5.large": 29, "c5.large": 29}) == Table((Row("*", 29),))
    assert table({}, 110) == Table((Row("*", 110),))


def test_the_class_stands_for_all_types_that_do_not_differ() -> None:
    made = table({"m5.large": 110, "c5.large": 20, "m5.xlarge": 110}, 110)
    assert made == Table((Row("c5.large", 20), Row("*", 110)))


def test_a_size_is_written_once() -> None:
    large = dict.fromkeys(["m5.large", "c5.large", "r5.large"], 29)
    made = table(large | {"t3.large": 35, "t3.nano": 4})
    assert made == Table((Row("t3.large", 35), Row("*.large", 29), Row("*", 4)))


KEPT = st.dictionaries(NAMES, st.sampled_from(["memory=475Mi", "cpu=70m,memory=1Gi"]))


@given(DENSITIES, st.none() | st.just(110), KEPT)
def test_only_those_who_are_told_to_keep_something_are(
    densities: dict[str, int], max_pods: int | None, reserved: dict[str, str]
) -> None:
    made = table(densities, max_pods, reserved)
    assert made is not None
    assert {name: made.of(name)[1:] for name in densities} == {
        name: (pods, reserved.get(name, "")) for name, pods in densities.items()
    }
    assert made.reserves == any(name in reserved for name in densities)
    assert made.of("").reserved == ""


def test_a_size_that_keeps_the_same_is_written_once() -> None:
    large = dict.fromkeys(["m5.large", "c5.large"], 20)
    told = dict.fromkeys(large, "memory=475Mi")
    made = table(large | {"t3.large": 20}, None, told)
    assert made is not None
    assert made.text.splitlines()[1:-1] == ["t3.large=20", "*.large=20=memory=475Mi", "*=20"]


@pytest.mark.parametrize("architecture", ["amd64", "arm64"])
@pytest.mark.parametrize("options", [Options(), Options(reserved_enis=1)])
def test_the_whole_catalogue_fits(architecture: str, options: Options) -> None:
    settings = ClassSettings(options=options)
    densities = {
        each.name: pods(each, settings).amount
        for each in builtin.machines().values()
        if each.architecture == architecture
    }
    made = table(densities)
    assert made is not None
    assert all(made.of(name).pods == amount for name, amount in densities.items())
    assert len(made.text) < 7_000


MIXED = {"m5.large": 29, "c5.large": 29, "t3.large": 35, "m5.xlarge": 58, "t3.nano": 4}


@pytest.mark.parametrize("written", [in_shell, in_powershell], ids=["shell", "powershell"])
def test_the_markers_hold_the_table(written: Callable[[Table], str]) -> None:
    made = table(MIXED)
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
    made = table(MIXED)
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
def test_a_shell_finds_what_is_kept(type_: str, expected: str, tmp_path: Path) -> None:
    made = table(MIXED, None, {"m5.large": "cpu=70m,memory=574Mi"})
    assert made is not None
    assert looked_up(made, type_, tmp_path) == f"{expected}\n"


def looked_up(made: Table, type_: str, where: Path) -> str:
    curl = where / "curl"
    curl.write_text(FAKE_CURL.replace("{type}", type_))
    curl.chmod(0o755)
    ran = subprocess.run(
        ["/bin/bash", "-c", f'{in_shell(made)}echo "$max_pods [$kube_reserved]"'],
        env={"PATH": f"{where}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    return ran.stdout
