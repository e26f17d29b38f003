"""NodeClaims of a plan: the pool's template and the pods' requirements, nothing else."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from wainwright.cli.main import wain

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


def planned(file: Path, *items: dict[str, Any]) -> dict[str, Any]:
    """The only claim that these come to."""
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    arguments = ["plan", str(file), "-o", "nodeclaims", "--now", "2026-01-31T12:00:00Z"]
    result = CliRunner().invoke(wain, arguments, standalone_mode=False)
    (found,) = yaml.load_all(result.stdout, yaml.CSafeLoader)
    return dict(found)


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
