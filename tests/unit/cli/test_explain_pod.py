"""`wain explain pod`: what decided where a pod goes, and pods that no plan is for."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.support.explaining import CLOUD, LARGE, NODE, NOW, ON_DEMAND, explained, pod, pool, told
from tests.support.table import TESTS

from wainwright.cli.main import wain
from wainwright.errors import Usage

EXAMPLES = TESTS.parent / "examples"


def test_a_pod_that_joined_is_told_so_and_what_a_heavier_pool_could_have_done() -> None:
    line = ("explain", "pod", "custom-0", str(EXAMPLES / "weights-joined-node"), *NOW)
    said = CliRunner().invoke(wain, line, standalone_mode=False).stdout
    assert "the node was planned for shop/web-0 and has room" in said
    assert "custom (weight 100) could have opened a node for it; with --strict-weights" in said
    assert "first pool" not in said


def test_each_heavier_pool_says_why_it_opened_no_node() -> None:
    said = told(
        "big",
        pool("small", 100, LARGE),
        pool("full", 50, limits="limits: {cpu: 1}, "),
        pool("tainted", 20).replace(
            "{spec: {", "{spec: {taints: [{key: team, value: x, effect: NoSchedule}], "
        ),
        pool("last"),
        pod("big", "3"),
    )
    assert "opened for it by last (weight 1), the first pool by weight that could" in said
    assert "small (weight 100): needs 3 cpu, the largest left offers 1930m (m5.large)" in said
    assert any(line.startswith("full (weight 50): the limit of 1 cpu is reached") for line in said)
    assert any(line.startswith("tainted (weight 20): the pod does not tolerate") for line in said)


def test_a_limit_that_this_plan_has_used_up_is_told_with_what_it_uses() -> None:
    limited = pool("limited", 100, LARGE, limits="limits: {cpu: 2}, ")
    said = told("b", limited, pool("rest"), pod("a", "1500m"), pod("b", "1400m"))
    reached = "the limit of 2 cpu is reached: 2 in use, and m5.large would add 2"
    assert f"limited (weight 100): {reached}" in said
    assert not any("counted as the largest" in line for line in said)


def test_a_limit_is_told_with_how_nodes_count_that_may_still_be_large() -> None:
    limited = pool("limited", 100, limits="limits: {cpu: 5}, ")
    apart = (
        "affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: "
        "[{topologyKey: kubernetes.io/hostname, labelSelector: {}}]}}, "
    )
    pods = [pod(name, more=apart) for name in "ab"]
    said = told("b", limited, pool("rest"), *pods)
    assert any(line.startswith("limited (weight 100): the limit of 5 cpu") for line in said)
    assert "nodes planned in the same round counted as the largest type left to them" in said


def test_without_nodes_in_the_input_none_is_spoken_of() -> None:
    said = told("a", pool("only"), pod("a"))
    assert not any("node of the input" in line for line in said)
    assert "opened for it by only, the only pool" in said


def test_nodes_of_the_input_say_why_they_do_not_take_it() -> None:
    said = told("a", NODE, pool("only"), pod("a", "1500m"))
    assert "no node of the input takes it" in said
    assert "1 node: too little cpu, best 500m short (here)" in said


def test_a_pool_that_allows_one_capacity_type_is_named_for_it() -> None:
    said = told("a", pool("only", requirements=ON_DEMAND), pod("a"))
    assert "on-demand: only allows nothing else" in said
    assert not any("spot" in line for line in said)


def test_a_pod_that_allows_one_capacity_type_is_named_for_it() -> None:
    selector = "nodeSelector: {karpenter.sh/capacity-type: on-demand}, "
    assert "on-demand: its pods allow nothing else" in told("a", pool("p"), pod("a", more=selector))


def test_spot_that_is_dearer_is_told_with_its_price() -> None:
    said = told("a", pool("only"), pod("a"))
    assert "not reserved: no reservation is selected that would do" in said
    assert "not spot: the cheapest costs $0.500/h, which is more than on demand" in said


def test_one_instance_type_is_one() -> None:
    said = told("a", pool("only", requirements=LARGE), pod("a"))
    assert "1 instance type is left that holds all its pods" in said


def test_what_is_packed_by_cost_is_told_so_where_first_fit_does_otherwise(tmp_path: Path) -> None:
    dear = "{instanceType: m5.xlarge, capacityType: on-demand, price: 1.0}"
    file = tmp_path / "all.yaml"
    file.write_text(
        CLOUD.replace("prices: [", f"prices: [{dear}, ") + pool("only") + pod("a") + pod("b")
    )
    line = ("explain", "pod", "a", str(file), *NOW)
    first_fit, by_cost = (
        CliRunner().invoke(wain, (*line, "--packing", packing), standalone_mode=False).stdout
        for packing in ("first-fit", "cost")
    )
    assert "opened for it by only" in first_fit
    assert "packed with others for the lowest price" in by_cost


@pytest.mark.parametrize(
    ("more", "status", "why"),
    [
        (
            "schedulingGates: [{name: example.com/wait}], ",
            "",
            "it waits until its scheduling gates are taken off: example.com/wait",
        ),
        ("nodeName: here, ", "", "it is on node here already, and stays there"),
        ("", "status: {phase: Succeeded}\n", "it has finished (Succeeded)"),
    ],
    ids=["gated", "bound", "finished"],
)
def test_a_pod_that_no_plan_is_for_is_told_why_with_exit_code_one(
    more: str, status: str, why: str
) -> None:
    documents = (NODE, pool("only"), pod("other"), pod("quiet", more=more) + status)
    result = explained("quiet", *documents)
    assert (result.return_value, result.stdout) == (1, f"default/quiet is not planned: {why}\n")
    made = json.loads(explained("quiet", *documents, flags=("-o", "json")).stdout)
    assert (made["pod"], made["evaluated"], made["placed"]) == ("default/quiet", False, False)


def test_a_misspelt_pod_is_a_usage_error_with_a_suggestion() -> None:
    error = explained("wbe-0", pool("only"), pod("web-0")).exception
    assert isinstance(error, Usage)
    assert (error.message, error.hint) == (
        "the input has no pod wbe-0",
        "did you mean default/web-0?",
    )


def test_a_pod_without_a_place_shows_the_funnel(tmp_path: Path) -> None:
    file = tmp_path / "all.yaml"
    file.write_text(CLOUD + pool("only") + pod("whale", "100"))
    line = ("explain", "pod", "whale", str(file), *NOW)
    result = CliRunner().invoke(wain, line, standalone_mode=False)
    assert result.return_value == 1
    assert "default/whale has no place: no pool can launch a node for it" in result.stdout
    assert "     0 after resources\n" in result.stdout


def test_amounts_side_by_side_are_in_one_unit() -> None:
    said = told("whale", pool("only"), pod("whale").replace('cpu: "1"', "memory: 64Gi"))
    assert "only: needs 64Gi memory, the largest left offers 13.8Gi (m5.xlarge)" in said


def test_one_value_is_left() -> None:
    flexible = LARGE.replace("In, values: [m5.large]", "Exists, minValues: 2")
    said = told("a", pool("only", requirements=flexible), pod("a", "3"))
    key = "node.kubernetes.io/instance-type"
    assert f"only: minValues asks for 2 values of {key}, and 1 is left" in said
