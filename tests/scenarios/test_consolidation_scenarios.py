"""Scenarios of `wain consolidate`, one file each: a cluster, the commands and verdicts expected.

`nodes` and `pods` are short for manifests; what they do not say is in `given`.
"""

import json
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
import yaml
from click.testing import CliRunner, Result

from wainwright.cli.main import wain
from wainwright.manifests.problems import InvalidInput

HERE = Path(__file__).parent
STORIES = sorted((HERE / "consolidation").glob("*.yaml"))
SCHEMA = json.loads((HERE.parent.parent / "docs" / "consolidation.schema.json").read_text())
NOW = "2026-01-31T12:00:00Z"
SIZES = {"large": 2, "xlarge": 4, "2xlarge": 8, "4xlarge": 16}


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """Of a story; a key that nobody reads would be an expectation that nobody checks."""


class NodeShort(Part, frozen=True, kw_only=True):
    name: str
    type: str = "m5.large"
    zone: str = "us-west-2a"
    capacity_type: str = "on-demand"
    reservation: str | None = None
    pool: str = "default"
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    provider_id: str | None = None
    claim: dict[str, Any] | None = None
    """Fields of its NodeClaim, if it has one; metadata, spec and status are merged."""


class PodShort(Part, frozen=True, kw_only=True):
    name: str
    node: str | None = None
    cpu: str = "500m"
    memory: str = "256Mi"
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    spec: dict[str, Any] = {}


class ExpectedCommand(Part, frozen=True, kw_only=True):
    method: str
    removed: list[str]
    launched: list[str] = []
    """type, or `type capacityType`, of each replacement."""


class Expect(Part, frozen=True, kw_only=True):
    commands: list[ExpectedCommand] = []
    """All of them."""
    nodes: dict[str, str] = {}
    """`verdict reason` by name; of all nodes."""
    messages: dict[str, str] = {}
    """Parts of messages by node."""
    held: dict[str, float] = {}
    """USD per hour by `kind name`; all that hold anything back."""
    warnings: list[str] = []
    """Parts of warnings."""
    refused: list[str] = []
    """Parts of what is said; nothing else may be expected then."""


class Story(Part, frozen=True, kw_only=True):
    why: str
    given: list[dict[str, Any]] = []
    nodes: list[NodeShort] = []
    pods: list[PodShort] = []
    flags: list[str] = []
    expect: Expect


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_story(path: Path, tmp_path: Path) -> None:
    story = msgspec.convert(yaml.load(path.read_text(encoding="utf-8"), yaml.CSafeLoader), Story)
    items = [*story.given, *(each for node in story.nodes for each in node_manifests(node))]
    items += map(pod_manifest, story.pods)
    file = tmp_path / "given.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    arguments = ["consolidate", str(file), "-o", "json", "--now", NOW, *story.flags]
    result = CliRunner().invoke(wain, arguments, standalone_mode=False)
    if story.expect.refused:
        check_refused(result, story.expect.refused)
        return
    if result.exception is not None:
        raise result.exception
    document = json.loads(result.stdout)
    jsonschema.validate(document, SCHEMA)
    check(document, story.expect)
    assert result.return_value == (3 if story.expect.commands else 0)


def node_manifests(short: NodeShort) -> list[dict[str, Any]]:
    labels = {
        "karpenter.sh/nodepool": short.pool,
        "karpenter.sh/capacity-type": short.capacity_type,
        "node.kubernetes.io/instance-type": short.type,
        "topology.kubernetes.io/zone": short.zone,
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        **short.labels,
    }
    if short.reservation is not None:
        labels["karpenter.k8s.aws/capacity-reservation-id"] = short.reservation
    cpu = SIZES[short.type.partition(".")[2]]
    amounts = {"cpu": str(cpu), "memory": f"{cpu * 4}Gi", "pods": "58"}
    metadata = {"name": short.name, "labels": labels, "annotations": short.annotations}
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata,
        "spec": {} if short.provider_id is None else {"providerID": short.provider_id},
        "status": {"capacity": amounts, "allocatable": amounts},
    }
    return [node] if short.claim is None else [node, claim_manifest(short, labels)]


def claim_manifest(short: NodeShort, labels: dict[str, str]) -> dict[str, Any]:
    given = short.claim or {}
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    metadata = {"name": f"{short.name}-claim", "labels": labels, **given.get("metadata", {})}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": metadata,
        "spec": {"nodeClassRef": reference, "requirements": [], **given.get("spec", {})},
        "status": {"nodeName": short.name, **given.get("status", {})},
    }


def pod_manifest(short: PodShort) -> dict[str, Any]:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u"}
    container = {
        "name": "c",
        "resources": {"requests": {"cpu": short.cpu, "memory": short.memory}},
    }
    bound = {} if short.node is None else {"nodeName": short.node}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": short.name,
            "namespace": "shop",
            "labels": short.labels,
            "annotations": short.annotations,
            "ownerReferences": [{**owner, "controller": True}],
        },
        "spec": {"containers": [container], **bound, **short.spec},
    }


def check(document: dict[str, Any], expect: Expect) -> None:
    commands = [
        (
            command["method"],
            sorted(each["node"] for each in command["candidates"]),
            [f"{each['instanceType']} {each['capacityType']}" for each in command["replacements"]],
        )
        for command in document["commands"]
    ]
    assert commands == [
        (
            each.method,
            sorted(each.removed),
            [name if " " in name else f"{name} on-demand" for name in each.launched],
        )
        for each in expect.commands
    ]
    nodes = {each["node"]: f"{each['verdict']} {each['reason']}" for each in document["nodes"]}
    assert nodes == expect.nodes
    messages = {each["node"]: each["message"] for each in document["nodes"]}
    for name, part in expect.messages.items():
        assert part in messages[name]
    held = {
        f"{each['kind']} {each['name']}": round(each["savingPerHour"], 6)
        for each in document["heldBy"]
    }
    assert held == expect.held
    for part in expect.warnings:
        assert any(part in warning for warning in document["warnings"]), document["warnings"]


def check_refused(result: Result, parts: list[str]) -> None:
    assert isinstance(result.exception, InvalidInput), result.exception
    said = "\n".join(
        f"{each.where}: {each.path}: {each.sentence} {each.hint}"
        for each in result.exception.report.errors
    )
    for part in parts:
        assert part in said
