"""Scenarios of `wain consolidate`, one file each: a cluster, the commands and verdicts expected.

`pools`, `types`, `nodes` and `pods` are short for manifests; what they do not say is in `given`.
Without a NodePool there is one called default, without a catalogue a few types of the family m5.
A file named CON-08 or 1.1-55 is of that row of rows.md or requirements.md in docs/internals.
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
DOCS = HERE.parent.parent / "docs"
SCHEMA = json.loads((DOCS / "consolidation.schema.json").read_text())
EXPLANATION_SCHEMA = json.loads((DOCS / "node-explanation.schema.json").read_text())
NOW = "2026-01-31T12:00:00Z"
SIZES = {"large": 2, "xlarge": 4, "2xlarge": 8, "4xlarge": 16, "48xlarge": 192}
CAPACITY_TYPE = "karpenter.sh/capacity-type"
ZONE = "topology.kubernetes.io/zone"
CLASS = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """Of a story; a key that nobody reads would be an expectation that nobody checks."""


class PoolShort(Part, frozen=True, kw_only=True):
    name: str = "default"
    annotations: dict[str, str] = {}
    capacity_types: tuple[str, ...] = ("on-demand",)
    requirements: list[dict[str, Any]] = []
    """More of them."""
    disruption: dict[str, Any] = {}
    """Merged into one that waits for nothing and allows everything."""
    template: dict[str, Any] = {}
    """More fields of `spec.template.spec`."""
    spec: dict[str, Any] = {}
    """More fields of `spec`: weight, limits, replicas."""


class TypeShort(Part, frozen=True, kw_only=True):
    """A type of a Catalog, in us-west-2a and wherever else prices are stated."""

    cpu: int
    count: int | None = None
    """So many alike, numbered from 01; each costs as many times the price as its number."""
    price: float | None = None
    """On demand."""
    spot: float | None = None
    elsewhere: dict[str, float] = {}
    """On demand, by other zones."""
    reserved: dict[str, int] = {}
    """Instances that are available, by reservation."""
    labels: dict[str, str] = {}


class NodeShort(Part, frozen=True, kw_only=True):
    name: str
    count: int | None = None
    """So many alike, numbered from 1."""
    type: str = "m5.large"
    zone: str = "us-west-2a"
    capacity_type: str = "on-demand"
    reservation: str | None = None
    pool: str | None = "default"
    """None for a node of nobody."""
    labels: dict[str, str | None] = {}
    """None for a label that it does not have."""
    annotations: dict[str, str] = {}
    provider_id: str | None = None
    metadata: dict[str, Any] = {}
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}
    claim: dict[str, Any] | None = None
    """Fields of its NodeClaim, if it has one; metadata, spec and status are merged, and
    conditions need no reason and no time.
    """
    pods: list[str] = []
    """The CPU of pods on it, which are called by its name and a number from 1."""


class PodShort(Part, frozen=True, kw_only=True):
    name: str
    node: str | None = None
    cpu: str = "500m"
    memory: str = "256Mi"
    owner: str = "ReplicaSet"
    """The kind; empty for a pod of nobody."""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    metadata: dict[str, Any] = {}
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}


class ExpectedCommand(Part, frozen=True, kw_only=True):
    """What is not said is not looked at, except for nodes and replacements."""

    method: str
    removed: list[str]
    launched: list[str] = []
    """type, or `type capacityType`, of each replacement."""
    types: list[str] | None = None
    """All that are left to the replacement."""
    type_count: int | None = None
    capacity_types: list[str] | None = None
    reservation: str | None = None
    pool: str | None = None
    zone: str | None = None
    moves: dict[str, str] | None = None
    """Where each pod goes; a replacement is called `new`."""
    saving: float | None = None


class Expect(Part, frozen=True, kw_only=True):
    commands: list[ExpectedCommand] = []
    """All of them."""
    nodes: dict[str, str] = {}
    """`verdict reason` by name; of all nodes."""
    messages: dict[str, str] = {}
    """Parts of messages by node."""
    blockers: dict[str, list[str]] = {}
    """All of a node, as `kind name`."""
    held: dict[str, float] = {}
    """USD per hour by `kind name`, or by `kind name reason`; all that hold anything back."""
    changes: dict[str, str] = {}
    """By node the whole change that would free it, as `wain explain node` says; empty for none."""
    change_savings: dict[str, float | None] = {}
    """What that saves, by node."""
    explained: dict[str, list[str]] = {}
    """By node parts of what `wain explain node` prints."""
    warnings: list[str] = []
    """Parts of warnings."""
    unwarned: list[str] = []
    """What no warning contains."""
    refused: list[str] = []
    """Parts of what is said; nothing else may be expected then."""


class Story(Part, frozen=True, kw_only=True):
    why: str
    given: list[dict[str, Any]] = []
    pools: list[PoolShort] = []
    types: dict[str, TypeShort] = {}
    nodes: list[NodeShort] = []
    pods: list[PodShort] = []
    account: list[dict[str, Any]] = []
    """Reservations as `aws ec2 describe-capacity-reservations` prints them, in another file."""
    flags: list[str] = []
    expect: Expect


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_story(path: Path, tmp_path: Path) -> None:
    story = msgspec.convert(yaml.load(path.read_text(encoding="utf-8"), yaml.CSafeLoader), Story)
    story = msgspec.structs.replace(story, types=numbered_types(story.types))
    items = manifests(story)
    file = tmp_path / "given.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    files = [str(file)]
    if story.account:
        answer = tmp_path / "reservations.json"
        answer.write_text(json.dumps({"CapacityReservations": story.account}))
        files.append(str(answer))
    arguments = ["consolidate", *files, "-o", "json", "--now", NOW, *story.flags]
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
    check_explanations(str(file), story)


GOING = {"empty", "drifted", "underutilized", "expired"}
"""Codes of nodes that go; all others are of nodes that stay, and have a change, or say why not."""
RECORDED = {"cannot-begin"}
"""Only decisions that controllers have recorded have it: no manifest says so."""


def test_every_code_of_a_verdict_has_a_story_and_of_those_that_stay_the_change() -> None:
    codes = {*SCHEMA["$defs"]["node"]["properties"]["reason"]["enum"]} - RECORDED
    stories = [
        msgspec.convert(yaml.load(path.read_text("utf-8"), yaml.CSafeLoader), Story).expect
        for path in STORIES
    ]
    verdicts = [
        (each, name, said.split()[1]) for each in stories for name, said in each.nodes.items()
    ]
    assert {code for _, _, code in verdicts} == codes
    assert {code for each, name, code in verdicts if name in each.changes} >= codes - GOING


def manifests(story: Story) -> list[dict[str, Any]]:
    items, kinds = list(story.given), {each["kind"] for each in story.given}
    pools = story.pools or ([] if "NodePool" in kinds else [PoolShort()])
    items += map(pool_manifest, pools)
    if story.types:
        items.append(catalog_manifest(story.types))
    elif not kinds & {"Cloud", "Catalog"}:
        items.append(cloud_manifest())
    nodes = [each for node in story.nodes for each in numbered(node)]
    for node in nodes:
        items += node_manifests(node, story.types)
    on_nodes = (
        PodShort(name=f"{node.name}-{number}", node=node.name, cpu=cpu)
        for node in nodes
        for number, cpu in enumerate(node.pods, start=1)
    )
    return [*items, *map(pod_manifest, [*on_nodes, *story.pods])]


def numbered(node: NodeShort) -> list[NodeShort]:
    if node.count is None:
        return [node]
    return [
        msgspec.structs.replace(node, name=f"{node.name}{number}", count=None)
        for number in range(1, node.count + 1)
    ]


def numbered_types(types: dict[str, TypeShort]) -> dict[str, TypeShort]:
    return {
        name if short.count is None else f"{name}{number:02}": msgspec.structs.replace(
            short,
            price=None if short.price is None else short.price * number,
            spot=None if short.spot is None else short.spot * number,
        )
        for name, short in types.items()
        for number in range(1, (short.count or 1) + 1)
    }


def pool_manifest(short: PoolShort) -> dict[str, Any]:
    bought = {"key": CAPACITY_TYPE, "operator": "In", "values": list(short.capacity_types)}
    requirements = [bought, *short.requirements]
    template = {"requirements": requirements, "nodeClassRef": CLASS, **short.template}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": short.name, "annotations": short.annotations},
        "spec": {
            "disruption": {
                "consolidateAfter": "0s",
                "budgets": [{"nodes": "100%"}],
                **short.disruption,
            },
            "template": {"spec": template},
            **short.spec,
        },
    }


def cloud_manifest() -> dict[str, Any]:
    types = ["m5.large", "m5.xlarge", "m5.2xlarge"]
    spec = {"region": "us-west-2", "zones": ["us-west-2a"], "instanceTypes": types}
    return {"apiVersion": "wainwright.dev/v1alpha1", "kind": "Cloud", "spec": spec}


def catalog_manifest(types: dict[str, TypeShort]) -> dict[str, Any]:
    listed = [
        {
            "name": name,
            "requirements": [
                {"key": key, "operator": "In", "values": [value]}
                for key, value in ({"kubernetes.io/arch": "amd64"} | short.labels).items()
            ],
            "capacity": amounts(short.cpu),
            "offerings": offerings(short),
        }
        for name, short in types.items()
    ]
    kind = {"apiVersion": "wainwright.dev/v1alpha1", "kind": "Catalog"}
    return {**kind, "region": "us-west-2", "instanceTypes": listed}


def offerings(short: TypeShort) -> list[dict[str, Any]]:
    prices = {("on-demand", "us-west-2a"): short.price, ("spot", "us-west-2a"): short.spot}
    prices |= {("on-demand", zone): price for zone, price in short.elsewhere.items()}
    bought = [
        {"labels": {CAPACITY_TYPE: kind, ZONE: zone}, "price": price}
        for (kind, zone), price in prices.items()
        if price is not None
    ]
    reserved = [
        {
            "labels": {CAPACITY_TYPE: "reserved", ZONE: "us-west-2a"},
            "price": (short.price or 1.0) / 10**7,
            "available": count,
            "reservationID": name,
        }
        for name, count in short.reserved.items()
    ]
    return [*bought, *reserved]


def amounts(cpu: int) -> dict[str, str]:
    return {"cpu": str(cpu), "memory": f"{cpu * 4}Gi", "pods": "58"}


def node_manifests(short: NodeShort, types: dict[str, TypeShort]) -> list[dict[str, Any]]:
    known = {
        "karpenter.sh/nodepool": short.pool,
        CAPACITY_TYPE: short.capacity_type,
        "node.kubernetes.io/instance-type": short.type,
        ZONE: short.zone,
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "karpenter.k8s.aws/capacity-reservation-id": short.reservation,
        **short.labels,
    }
    labels = {key: value for key, value in known.items() if value is not None}
    is_known = short.type in types
    cpu = types[short.type].cpu if is_known else SIZES[short.type.partition(".")[2]]
    metadata = {"name": short.name, "labels": labels, "annotations": short.annotations}
    provider = {} if short.provider_id is None else {"providerID": short.provider_id}
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata | short.metadata,
        "spec": provider | short.spec,
        "status": {"capacity": amounts(cpu), "allocatable": amounts(cpu), **short.status},
    }
    return [node] if short.claim is None else [node, claim_manifest(short, labels)]


def claim_manifest(short: NodeShort, labels: dict[str, str]) -> dict[str, Any]:
    given = short.claim or {}
    metadata = {"name": f"{short.name}-claim", "labels": labels, **given.get("metadata", {})}
    status = {"nodeName": short.name, **given.get("status", {})}
    noticed = {"reason": "Noticed", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    status["conditions"] = [noticed | each for each in status.get("conditions", ())]
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": metadata,
        "spec": {"nodeClassRef": CLASS, "requirements": [], **given.get("spec", {})},
        "status": status,
    }


def pod_manifest(short: PodShort) -> dict[str, Any]:
    version = "v1" if short.owner == "Node" else "apps/v1"
    owner = {"apiVersion": version, "kind": short.owner, "name": "web", "uid": "u"}
    owners = {"ownerReferences": [{**owner, "controller": True}]} if short.owner else {}
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
            **owners,
            **short.metadata,
        },
        "spec": {"containers": [container], **bound, **short.spec},
        "status": short.status,
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
    for command, expected in zip(document["commands"], expect.commands, strict=True):
        check_command(command, expected)
    nodes = {each["node"]: f"{each['verdict']} {each['reason']}" for each in document["nodes"]}
    assert nodes == expect.nodes
    messages = {each["node"]: each["message"] for each in document["nodes"]}
    for name, part in expect.messages.items():
        assert part in messages[name]
    for each in document["nodes"]:
        blockers = [f"{blocker['kind']} {blocker['name']}" for blocker in each["blockers"]]
        assert blockers == expect.blockers.get(each["node"], blockers)
    check_held(document["heldBy"], expect.held)
    for part in expect.warnings:
        assert any(part in warning for warning in document["warnings"]), document["warnings"]
    for part in expect.unwarned:
        assert not any(part in warning for warning in document["warnings"]), document["warnings"]


def check_held(rows: list[dict[str, Any]], expected: dict[str, float]) -> None:
    held = {}
    for each in rows:
        name = f"{each['kind']} {each['name']}"
        precise = f"{name} {each['reason']}"
        held[precise if precise in expected else name] = round(each["savingPerHour"], 6)
    assert held == expected
    assert len(held) == len(rows)
    assert [each["savingPerHour"] for each in rows] == sorted(
        (each["savingPerHour"] for each in rows), reverse=True
    )


def check_explanations(file: str, story: Story) -> None:
    expect = story.expect
    for name in sorted({*expect.changes, *expect.change_savings, *expect.explained}):
        arguments = ["explain", "node", name, file, "-o", "json", "--now", NOW, *story.flags]
        result = CliRunner().invoke(wain, arguments, standalone_mode=False)
        if result.exception is not None:
            raise result.exception
        found = json.loads(result.stdout)
        jsonschema.validate(found, EXPLANATION_SCHEMA)
        if name in expect.changes:
            assert (found["change"] or "") == expect.changes[name]
        if name in expect.change_savings:
            assert found["savingPerHour"] == pytest.approx(expect.change_savings[name], abs=1e-6)
        for part in expect.explained.get(name, ()):
            assert any(part in line for line in found["lines"]), found["lines"]


def check_command(command: dict[str, Any], expect: ExpectedCommand) -> None:
    if expect.moves is not None:
        new = {each["name"] for each in command["replacements"]}
        moves = {
            each["pod"].partition("/")[2]: "new" if each["to"] in new else each["to"]
            for each in command["moves"]
        }
        assert moves == expect.moves
    if expect.saving is not None:
        assert command["savingsPerHour"] == pytest.approx(expect.saving, abs=1e-6)
    for claim in command["replacements"]:
        options = claim["options"]
        found = {
            "types": options["instanceTypes"],
            "type_count": len(options["instanceTypes"]),
            "capacity_types": options["capacityTypes"],
            "reservation": claim["reservationID"],
            "pool": claim["nodePool"],
            "zone": claim["zone"],
        }
        wanted = {key: getattr(expect, key) for key in found}
        assert {key: found[key] for key in found if wanted[key] is not None} == {
            key: value for key, value in wanted.items() if value is not None
        }


def check_refused(result: Result, parts: list[str]) -> None:
    assert isinstance(result.exception, InvalidInput), result.exception
    said = "\n".join(
        f"{each.where}: {each.path}: {each.sentence} {each.hint}"
        for each in result.exception.report.errors
    )
    for part in parts:
        assert part in said
