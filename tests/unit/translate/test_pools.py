"""NodePools: requirements, limits, resources in use."""

from typing import Any

import pytest
from tests.support.model_builders import label_requirement
from tests.unit.translate.objects import (
    Value,
    claim,
    condition,
    node,
    paired_nodes,
    requirement,
    typed_pool,
)

from wainwright.model.snapshot import Pool
from wainwright.model.taints import Taint
from wainwright.translate.pools import translate_pool as translate

GIB = 2**30


def made(*held: Value, **fields: Any) -> Pool:
    return translate(typed_pool(**fields), paired_nodes(*held))


def status(cpu: str) -> Value:
    return {"capacity": {"cpu": cpu}}


def test_a_pool_says_what_may_be_launched() -> None:
    family = "karpenter.k8s.aws/instance-family"
    found = made(
        template={
            "requirements": [{**requirement(family, "m5", "c5"), "minValues": 2}],
            "taints": [{"key": "dedicated", "effect": "NoSchedule"}],
            "startupTaints": [{"key": "cni", "effect": "NoExecute"}],
        },
        labels={"team": "web"},
        spec={"weight": 7, "limits": {"cpu": "10", "memory": "1Gi", "nodes": 3}},
    )
    assert found.requirements == label_requirement(family, "In", "c5", "m5", min_values=2)
    assert (found.name, found.node_class, found.weight) == ("web", "default", 7)
    assert found.taints == (Taint(key="dedicated"),)
    assert found.startup_taints == (Taint(key="cni", effect="NoExecute"),)
    assert found.labels == {"team": "web"}
    assert found.limits == {"cpu": 10000, "memory": GIB, "nodes": 3}


def test_no_weight_is_the_lowest() -> None:
    assert made().weight == 0


def test_the_nodes_of_a_pool_are_in_use() -> None:
    found = made(node("n", status=status("4")), claim("web-2", status=status("8")))
    assert found.in_use == {"cpu": 12000, "nodes": 2}


def test_a_node_and_its_claim_count_once() -> None:
    held = {**status("8"), "nodeName": "n"}
    assert made(node("n", status=status("8")), claim(status=held)).in_use == {
        "cpu": 8000,
        "nodes": 1,
    }


def test_without_nodes_the_status_of_the_pool_counts() -> None:
    reported = {"resources": {"cpu": "4", "memory": "1Gi"}, "nodes": 2}
    assert made(status=reported).in_use == {"cpu": 4000, "memory": GIB, "nodes": 2}
    assert made(status={"resources": {"nodes": "3"}}).in_use == {"nodes": 3}
    assert made(status={"resources": {"nodes": "3"}, "nodes": 4}).in_use == {"nodes": 4}
    assert made(claim(status=status("8")), status=reported).in_use == {"cpu": 8000, "nodes": 1}
    assert made().in_use == {}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"spec": {"replicas": 0}}, "static"),
        ({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, "being deleted"),
        ({"status": {"conditions": [condition("Ready", "False", "no subnets")]}}, "no subnets"),
        ({"status": {"conditions": [condition("Ready", "False")]}}, "not ready"),
    ],
)
def test_some_pools_may_not_launch_anything(fields: dict[str, Any], expected: str) -> None:
    found = made(**fields).unusable
    assert found is not None
    assert expected in found


@pytest.mark.parametrize("ready", ["True", "Unknown"])
def test_other_pools_may(ready: str) -> None:
    conditions = [condition("Ready", ready), condition("NodeRegistrationHealthy", "False")]
    assert made(status={"conditions": conditions}).unusable is None
    assert made().unusable is None


def test_a_pool_that_contradicts_itself_launches_nothing() -> None:
    zone = "topology.kubernetes.io/zone"
    found = made(template={"requirements": [requirement(zone, "a"), requirement(zone, "b")]})
    assert found.unusable == f"its requirements contradict each other on {zone}"
