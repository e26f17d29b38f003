"""`wain explain node`: whether a node can go, where its pods would go, and what would free it."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from click.testing import CliRunner, Result
from tests.support.consolidation_manifests import cloud, node, node_pool, pod
from tests.support.manifest_tables import TESTS

from wainwright.cli.main import wain
from wainwright.errors import InvalidInputError
from wainwright.messages.formatting import MODELLED_PRICES

ROOT = TESTS.parent
EXAMPLE = str(ROOT / "examples" / "consolidate")
SCHEMA = json.loads((ROOT / "docs" / "node-explanation.schema.json").read_text())
DOMAIN = "us-west-2.compute.internal"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(wain, ["explain", "node", *arguments], standalone_mode=False)


def explained(*arguments: str) -> dict[str, Any]:
    result = run(*arguments, "-o", "json")
    if result.exception is not None:
        raise result.exception
    document: dict[str, Any] = json.loads(result.stdout)
    jsonschema.validate(document, SCHEMA)
    assert result.return_value == (0 if document["removable"] else 1)
    return document


def lines(*arguments: str) -> list[str]:
    result = run(*arguments)
    if result.exception is not None:
        raise result.exception
    return result.stdout.splitlines()


@pytest.fixture
def write(tmp_path: Path) -> Any:
    def write_file(*objects: dict[str, Any], **disruption: Any) -> str:
        path = tmp_path / "input.yaml"
        given = [node_pool(**disruption), cloud(), *objects]
        path.write_text(yaml.safe_dump_all(given), encoding="utf-8")
        return str(path)

    return write_file


def test_a_node_that_can_go_names_its_command_and_where_its_pods_go() -> None:
    said = lines(f"ip-10-0-1-11.{DOMAIN}", EXAMPLE)
    assert said[0].endswith("can be removed: it costs more than its 2 pods need, and other "
                            "nodes have "
                            "room for them")  # fmt: skip
    assert said[1] == "  by command 2 (multi-node), with 2 other nodes, which saves ~$0.864/h"
    assert said[-2] == f"    shop/web-0, shop/web-1 move to ip-10-0-1-15.{DOMAIN}"


def test_a_node_that_can_be_replaced_names_what_is_launched(write: Any) -> None:
    file = write(node("n1", "m5.4xlarge"), pod("a", "n1", "1"))
    document = explained("n1", file)
    assert (document["verdict"], document["removable"]) == ("replaced", True)
    [moved] = document["pods"]
    assert (moved["pod"], moved["newNode"]) == ("shop/a", True)
    assert "a new m5.large on-demand in us-west-2a for ~$0.096/h" in document["lines"][-2]


def test_what_blocks_a_node_is_the_change_that_frees_it() -> None:
    document = explained(f"ip-10-0-1-14.{DOMAIN}", EXAMPLE)
    assert document["change"] == "remove the annotation"
    assert document["savingPerHour"] == pytest.approx(0.672)
    said = document["lines"]
    assert (
        said[1] == "  m5.4xlarge on-demand us-west-2a of NodePool default: ~$0.768/h, ~$561/month"
    )
    assert said[-2] == "  to free it (saves ~$0.672/h): remove the annotation"


def test_pods_on_a_node_that_stays_are_those_after_the_commands() -> None:
    said = lines(f"ip-10-0-1-15.{DOMAIN}", EXAMPLE)
    assert "  pods after 2 commands: 6 to reschedule" in said


def test_two_blockers_are_both_to_be_removed(write: Any) -> None:
    protected = {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}
    file = write(
        node("n1", "m5.4xlarge"), pod("a", "n1", "1", **protected), consolidateAfter="Never"
    )
    document = explained("n1", file)
    assert document["reason"] == "do-not-disrupt-pod"
    assert document["change"] == (
        "remove the annotation and set consolidateAfter of NodePool default to a duration"
    )


def test_pods_without_a_place_have_a_funnel_and_a_fix(write: Any) -> None:
    """The pod runs, but it was changed since: no type has room for it any more."""
    large = node("n1", "m5.4xlarge")
    large["status"]["allocatable"] = {"cpu": "64", "memory": "64Gi", "pods": "58"}
    document = explained("n1", write(large, pod("a", "n1", "40")))
    assert (document["verdict"], document["reason"]) == ("kept", "pods-would-be-pending")
    [unplaced] = document["pods"]
    assert unplaced["to"] is None
    assert unplaced["unschedulable"]["pools"][0]["funnel"]["resources"] == 0
    assert "    shop/a is unschedulable" in document["lines"]
    assert document["change"] is None
    last = next(line for line in document["lines"] if "no single change" in line)
    assert "if you request 15890m cpu" in last
    assert last.endswith("it is kept because no cheaper node can run its pod")


def test_a_split_is_tried_before_it_is_suggested(write: Any) -> None:
    pods = [pod(name, "n1", "500m") for name in "ab"]
    for each in pods:
        each["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80}]
    document = explained("n1", write(node("n1", "m5.4xlarge"), *pods))
    assert document["reason"] == "needs-several-nodes"
    assert document["change"] == "allow several with --allow-split"
    assert document["savingPerHour"] == pytest.approx(0.768 - 2 * 0.096)


def test_a_minimum_saving_is_lowered_to_be_met(write: Any) -> None:
    file = write(node("n1", "m5.4xlarge"), pod("a", "n1", "7"))
    document = explained("n1", file, "--min-saving", "60%")
    assert document["reason"] == "min-saving"
    assert document["change"].startswith("lower the minimum saving (--min-saving, or")
    assert document["savingPerHour"] == pytest.approx(0.384)


def test_a_node_that_nothing_improves_says_so(write: Any) -> None:
    said = lines("n1", write(node("n1", "m5.large"), pod("a", "n1", "1500m")))
    assert said[0] == "n1 is kept: no cheaper node can run its pod"
    assert said[-2] == (
        "  nothing to change: a new node for its pod costs ~$0.096/h, and this node costs ~$0.096/h"
    )
    assert said[-1] == f"  {MODELLED_PRICES}"


def test_a_claim_names_its_node_too(tmp_path: Path) -> None:
    claim = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": "default-x2k", "labels": {"karpenter.sh/nodepool": "default"}},
        "spec": {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "x"},
            "requirements": [],
        },
        "status": {"nodeName": "n1"},
    }
    file = tmp_path / "input.yaml"
    given = [node_pool(), cloud(), node("n1", "m5.large"), claim]
    file.write_text(yaml.safe_dump_all(given), encoding="utf-8")
    document = explained("default-x2k", str(file))
    assert (document["node"], document["nodeClaim"]) == ("n1", "default-x2k")


def test_an_unknown_name_suggests_similar_ones() -> None:
    error = run(f"ip-10-0-1-99.{DOMAIN}", EXAMPLE).exception
    assert isinstance(error, InvalidInputError)
    assert f"the input has no node ip-10-0-1-99.{DOMAIN}" in str(error)
    assert "did you mean ip-10-0-1-1" in str(error)


def test_a_name_that_is_like_no_other_gets_the_nodes_of_the_input(write: Any) -> None:
    error = run("zz", write(node("n1", "m5.large"))).exception
    assert "the input has n1" in str(error)
    error = run("zz", write()).exception
    assert "no Node of the input belongs to a NodePool" in str(error)


def test_a_node_of_no_pool_is_not_ours(write: Any) -> None:
    other = node("n1", "m5.large")
    del other["metadata"]["labels"]["karpenter.sh/nodepool"]
    error = run("n1", write(other)).exception
    assert isinstance(error, InvalidInputError)
    assert "belongs to no NodePool" in str(error)


def test_a_saved_input_is_explained_alike(tmp_path: Path) -> None:
    file = str(tmp_path / "input.json")
    arguments = ["consolidate", EXAMPLE, "--save-input", file]
    CliRunner().invoke(wain, arguments, standalone_mode=False)
    name = f"ip-10-0-1-14.{DOMAIN}"
    assert lines(name, file) == lines(name, EXAMPLE)
