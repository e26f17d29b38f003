"""Static NodePools in the output of commands."""

import json
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner, Result

from wainwright.cli.main import wain

ROOT = Path(__file__).parents[3]
GATE = ("--feature-gate", "StaticCapacity=true")
NOW = ("--now", "2026-01-31T12:00:00Z", "--region", "us-west-2")
INPUT = """
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: static}
spec: {replicas: 2, template: {spec: {requirements: []}}}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: other}
spec: {template: {spec: {requirements: []}}}
---
apiVersion: v1
kind: Pod
metadata: {name: small}
spec: {containers: [{name: main, image: main, resources: {requests: {cpu: 100m}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: large}
spec: {containers: [{name: main, image: main, resources: {requests: {cpu: "30"}}}]}
"""


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(wain, arguments, standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result


@pytest.fixture
def given(tmp_path: Path) -> str:
    (tmp_path / "given.yaml").write_text(INPUT)
    return str(tmp_path / "given.yaml")


def test_a_saved_input_plans_the_same_static_nodes(given: str, tmp_path: Path) -> None:
    saved = str(tmp_path / "saved")
    first = run("plan", given, "-o", "json", *GATE, *NOW, "--save-input", saved)
    assert [claim["nodePool"] for claim in json.loads(first.stdout)["nodeClaims"]] == [
        *("static", "static"),
        "other",
    ]
    assert run("plan", saved, "-o", "json").stdout == first.stdout


def test_the_document_is_what_the_schema_says(given: str) -> None:
    schema = json.loads((ROOT / "docs" / "plan.schema.json").read_text())
    plan = json.loads(run("plan", given, "-o", "json", *GATE, *NOW).stdout)
    assert [len(claim["pods"]) for claim in plan["nodeClaims"]] == [1, 0, 1]
    jsonschema.validate(plan, schema)


@pytest.mark.parametrize("output", ["table", "markdown", "nodeclaims"])
def test_static_nodes_are_in_every_output(output: str, given: str) -> None:
    assert "static" in run("plan", given, "-o", output, *GATE, *NOW).stdout


def test_a_pod_on_a_static_node_is_explained(given: str) -> None:
    lines = run("explain", "pod", "small", given, *GATE, *NOW).stdout.splitlines()
    assert lines[0].startswith("default/small is scheduled on static-")
    assert "  static is static: its nodes are launched first, whatever pods need" in lines


def test_a_pod_that_found_no_room_on_static_nodes_is_explained(given: str) -> None:
    said = run("explain", "pod", "large", given, *GATE, *NOW).stdout
    assert "a new node of NodePool other" in said


def test_static_nodes_are_a_difference(given: str, tmp_path: Path) -> None:
    (tmp_path / "more.yaml").write_text(INPUT.replace("replicas: 2", "replicas: 3"))
    result = run("plan", "--diff", given, str(tmp_path / "more.yaml"), *GATE, *NOW)
    assert result.return_value == 3
    assert "2 → 3 nodes of static" in result.stdout
