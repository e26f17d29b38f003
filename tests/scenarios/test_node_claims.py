"""NodeClaims of a plan: the pool's template and the pods' requirements, nothing else; and nothing
that an API server would reject.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from tests.scenarios.test_examples import STORIES as EXAMPLES
from tests.scenarios.test_planning_scenarios import STORIES
from tests.support.node_claim_manifests import claim_errors

from wainwright.cli.main import wain

NOW = "2026-01-31T12:00:00Z"
MOST_CLAIMS = 1000

STARTING = {"key": "example.com/starting", "effect": "NoSchedule"}
DEDICATED = {"key": "team", "value": "red", "effect": "NoSchedule"}
OFFERED = {"karpenter.sh/capacity-type": "on-demand", "topology.kubernetes.io/zone": "test-a"}
CATALOG: dict[str, Any] = {
    "apiVersion": "wainwright.dev/v1alpha1",
    "kind": "Catalog",
    "region": "us-west-2",
    "instanceTypes": [
        {
            "name": name,
            "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}],
            "capacity": {"cpu": "2", "memory": "8Gi", "pods": "10"},
            "offerings": [{"labels": OFFERED, "price": price}],
        }
        for name, price in (("small", 0.1), ("other", 0.2))
    ],
}
POOL: dict[str, Any] = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodePool",
    "metadata": {"name": "general"},
    "spec": {
        "template": {
            "metadata": {"labels": {"team": "red"}, "annotations": {"example.com/note": "x"}},
            "spec": {
                "nodeClassRef": {
                    "group": "karpenter.k8s.aws",
                    "kind": "EC2NodeClass",
                    "name": "default",
                },
                "taints": [DEDICATED],
                "startupTaints": [STARTING],
                "requirements": [
                    {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64", "arm64"]}
                ],
                "expireAfter": "48h",
                "terminationGracePeriod": "1h",
            },
        }
    },
}


def container(cpu: str) -> dict[str, Any]:
    return {"name": "main", "image": "main", "resources": {"requests": {"cpu": cpu}}}


POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web-0"},
    "spec": {"containers": [container("500m")], "tolerations": [{"operator": "Exists"}]},
}
AGENT: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "DaemonSet",
    "metadata": {"name": "agent"},
    "spec": {
        "selector": {"matchLabels": {"app": "agent"}},
        "template": {
            "metadata": {"labels": {"app": "agent"}},
            "spec": {"containers": [container("250m")], "tolerations": [{"operator": "Exists"}]},
        },
    },
}


def printed(path: Path, *flags: str) -> list[str]:
    """All claims that are printed for the file or folder."""
    arguments = ["plan", str(path), "-o", "nodeclaims", "--now", NOW, *flags]
    result = CliRunner().invoke(wain, arguments, standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return [each for each in re.split(r"^---\n", result.stdout, flags=re.MULTILINE) if each]


def errors_of(claims: list[str]) -> list[str]:
    """Why an API server would not create them."""
    read = [yaml.load(text, yaml.CSafeLoader) for text in claims]
    return [error for claim in read for error in claim_errors(claim)]


def planned(file: Path, *items: dict[str, Any]) -> dict[str, Any]:
    """The only claim that these come to."""
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    (found,) = printed(file)
    return dict(yaml.load(found, yaml.CSafeLoader))


@pytest.fixture(scope="module")
def claim(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    file: Path = tmp_path_factory.mktemp("claims") / "given.json"
    return planned(file, CATALOG, POOL, AGENT, POD)


def asked(claim: dict[str, Any]) -> dict[str, list[str]]:
    return {each["key"]: each.get("values") for each in claim["spec"]["requirements"]}


def test_tnt_2_taints_are_those_of_the_template_and_no_others(claim: dict[str, Any]) -> None:
    assert claim["spec"]["taints"] == [DEDICATED]
    assert claim["spec"]["startupTaints"] == [STARTING]


def test_sel_8_daemonsets_are_requested_once(claim: dict[str, Any]) -> None:
    assert claim["spec"]["resources"]["requests"] == {"cpu": "750m", "pods": "2"}


def test_sel_8_types_and_zones_are_requirements(claim: dict[str, Any]) -> None:
    wanted = asked(claim)
    assert wanted["node.kubernetes.io/instance-type"] == ["small", "other"]
    assert wanted["topology.kubernetes.io/zone"] == ["test-a"]
    assert wanted["kubernetes.io/arch"] == ["amd64", "arm64"]


def test_sel_8_labels_are_those_of_the_template_and_the_pool(claim: dict[str, Any]) -> None:
    """What a requirement leaves open is no label yet."""
    assert claim["metadata"]["labels"] == {"team": "red", "karpenter.sh/nodepool": "general"}
    assert claim["metadata"]["annotations"] == {"example.com/note": "x"}


def test_sel_8_class_and_lifetime_are_the_pools(claim: dict[str, Any]) -> None:
    assert claim["spec"]["nodeClassRef"]["name"] == "default"
    assert claim["spec"]["expireAfter"] == "48h"
    assert claim["spec"]["terminationGracePeriod"] == "1h"


def test_rsv_7_a_reserved_claim_is_pinned_to_its_reservation(tmp_path: Path) -> None:
    labels = {**OFFERED, "karpenter.sh/capacity-type": "reserved"}
    offering = {"labels": labels, "price": 0.0000001, "available": 1, "reservationID": "cr-1"}
    small, other = CATALOG["instanceTypes"]
    reserved = {**CATALOG, "instanceTypes": [{**small, "offerings": [offering]}, other]}
    wanted = asked(planned(tmp_path / "given.json", reserved, POOL, POD))
    assert wanted["karpenter.sh/capacity-type"] == ["reserved"]
    assert wanted["karpenter.k8s.aws/capacity-reservation-id"] == ["cr-1"]


@pytest.mark.parametrize("required", [False, True])
def test_a_claim_says_whether_its_reservation_is_required(tmp_path: Path, required: bool) -> None:
    labels = {**OFFERED, "karpenter.sh/capacity-type": "reserved"}
    offering = {"labels": labels, "price": 0.0000001, "available": 1, "reservationID": "cr-1"}
    small, other = CATALOG["instanceTypes"]
    reserved = {**CATALOG, "instanceTypes": [{**small, "offerings": [offering]}, other]}
    key = "karpenter.k8s.aws/capacity-reservation-id"
    pool = pool_with({"key": key, "operator": "In", "values": ["cr-1"]}) if required else POOL
    claim = planned(tmp_path / "given.json", reserved, pool, POD)
    annotation = claim["metadata"]["annotations"].get("wainwright.dev/reservation-required")
    assert annotation == ("true" if required else None)


@pytest.mark.parametrize("folder", EXAMPLES, ids=lambda folder: folder.name)
def test_an_api_server_would_create_every_claim_of_an_example(folder: Path) -> None:
    claims = printed(folder)
    assert claims
    assert errors_of(claims) == []


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_an_api_server_would_create_every_claim_of_a_story(path: Path, tmp_path: Path) -> None:
    story = yaml.load(path.read_text(encoding="utf-8"), yaml.CSafeLoader)
    if "refused" in story["expect"] or "schedulerConfig" in story:
        return  # such a story has no claims, or needs another file for them
    file = tmp_path / "given.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": story["given"]}))
    expected = sum(each.get("count", 1) for each in story["expect"].get("nodes", ()))
    if expected > MOST_CLAIMS:
        return  # thousands that are alike take long to print, and other stories have such claims
    claims = printed(file, *story.get("flags", ()))
    assert (len(claims), errors_of(claims)) == (expected, [])


def pool_with(*requirements: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    """The pool, with these requirements in place of its own."""
    template = {
        "metadata": POOL["spec"]["template"]["metadata"],
        "spec": {**POOL["spec"]["template"]["spec"], "requirements": list(requirements)},
    }
    return {**POOL, "metadata": {**POOL["metadata"], **metadata}, "spec": {"template": template}}


def test_a_reserved_claim_carries_no_min_values_that_it_cannot_meet(tmp_path: Path) -> None:
    """D21: capacity-type In [reserved] with minValues 2 would be rejected."""
    labels = {**OFFERED, "karpenter.sh/capacity-type": "reserved"}
    offering = {"labels": labels, "price": 0.0000001, "available": 1, "reservationID": "cr-1"}
    small, other = CATALOG["instanceTypes"]
    offerings = [*small["offerings"], offering]
    reserved = {**CATALOG, "instanceTypes": [{**small, "offerings": offerings}, other]}
    capacity_type = {
        "key": "karpenter.sh/capacity-type",
        "operator": "In",
        "values": ["on-demand", "reserved"],
        "minValues": 2,
    }
    claim = planned(tmp_path / "given.json", reserved, pool_with(capacity_type), POD)
    assert claim_errors(claim) == []
    assert claim["metadata"]["annotations"]["karpenter.sh/nodeclaim-min-values-relaxed"] == "true"
    assert {
        "key": "karpenter.sh/capacity-type",
        "operator": "In",
        "values": ["reserved"],
    } in claim["spec"]["requirements"]


def test_a_claim_has_no_more_requirements_than_an_api_server_takes(tmp_path: Path) -> None:
    many = [
        {"key": f"example.com/label-{number}", "operator": "NotIn", "values": ["x"]}
        for number in range(100)
    ]
    claim = planned(tmp_path / "given.json", CATALOG, pool_with(*many), POD)
    assert claim_errors(claim) == []
    wanted = asked(claim)
    assert wanted["node.kubernetes.io/instance-type"] == ["small", "other"]
    assert wanted["topology.kubernetes.io/zone"] == ["test-a"]
    assert wanted["karpenter.sh/capacity-type"] == ["on-demand"]


def test_a_pool_whose_name_is_no_label_value_launches_nothing(tmp_path: Path) -> None:
    """Every node of a pool has a label with its name, which has at most 63 characters."""
    file = tmp_path / "given.json"
    items = [CATALOG, pool_with(name="p" * 64), POD]
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    assert printed(file) == []
    result = CliRunner().invoke(wain, ["plan", str(file)], standalone_mode=False)
    assert "its name has 64 characters, and a label value at most 63" in " ".join(
        result.stdout.split()
    )
