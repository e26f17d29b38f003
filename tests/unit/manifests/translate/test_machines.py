"""A node and its claim are one machine."""

from typing import Any

import pytest
from tests.unit.manifests.translate.objects import (
    Value,
    claim,
    condition,
    machine,
    machines,
    node,
    requirement,
)

GONE = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
POOLED = {"labels": {"karpenter.sh/nodepool": "web"}}


def test_a_claim_and_its_node_find_each_other_by_provider_id() -> None:
    found = machine(node(spec={"providerID": "i-1"}), claim(status={"providerID": "i-1"}))
    assert found.node is not None
    assert found.claim is not None


def test_a_claim_and_its_node_find_each_other_by_name() -> None:
    assert machine(node("n-1"), claim(status={"nodeName": "n-1"})).name == "n-1"


def test_strangers_are_two_machines_in_the_order_of_names() -> None:
    found = machines(node("z"), claim("a-1"), node("b"))
    assert [each.name for each in found] == ["a-1", "b", "z"]


def test_two_claims_of_one_instance_are_one_machine() -> None:
    launched = (claim("b", status={"providerID": "i"}), claim("a", status={"providerID": "i"}))
    assert machine(*launched).name == "a"
    both = (claim("b", status={"nodeName": "n"}), claim("a", status={"nodeName": "n"}))
    assert machine(node("n"), *both).name == "n"


def test_claims_that_have_nothing_yet_are_not_confused() -> None:
    assert len(machines(claim("a"), claim("b"), node("n"))) == 3


def test_a_node_goes_by_its_claims_name_until_it_is_registered() -> None:
    joined = node("n-1", spec={"providerID": "i-1"})
    fresh = claim("web-1", status={"providerID": "i-1"})
    known = {"providerID": "i-1", "conditions": [condition("Registered")]}
    assert machine(joined, fresh).name == "web-1"
    assert machine(joined, claim("web-1", status=known)).name == "n-1"


@pytest.mark.parametrize(
    "made",
    [
        claim(pool="web"),
        claim(pool=None, spec={"requirements": [requirement("karpenter.sh/nodepool", "web")]}),
        claim(
            pool=None,
            metadata={
                "ownerReferences": [
                    {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": "web", "uid": "1"}
                ]
            },
        ),
        node(metadata=POOLED),
    ],
)
def test_a_machine_knows_its_pool(made: Value) -> None:
    assert machine(made).pool == "web"


def test_machines_of_ours_have_a_pool_or_a_claim() -> None:
    assert machine(node(metadata=POOLED)).is_managed
    assert machine(claim(pool=None)).is_managed
    assert not machine(node()).is_managed


def test_a_node_is_initialized_by_label_or_condition_or_as_a_stranger() -> None:
    labels = {"karpenter.sh/nodepool": "web", "karpenter.sh/initialized": "true"}
    done = {"nodeName": "n", "conditions": [condition("Initialized")]}
    assert machine(node(metadata={"labels": labels})).is_initialized
    assert machine(node(), claim(status=done)).is_initialized
    assert machine(node()).is_initialized
    assert not machine(node(metadata=POOLED)).is_initialized
    assert not machine(
        claim(status={"conditions": [condition("Initialized", "False")]})
    ).is_initialized


@pytest.mark.parametrize(
    "made",
    [
        node(metadata=GONE),
        claim(metadata=GONE),
        node(spec={"taints": [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]}),
    ],
)
def test_machines_on_their_way_out_are_known(made: Value) -> None:
    assert machine(made).is_deleting


def test_a_claim_on_its_way_out_takes_its_node_along() -> None:
    assert machine(node("n"), claim(metadata=GONE, status={"nodeName": "n"})).is_deleting
    assert not machine(node("n"), claim(status={"nodeName": "n"})).is_deleting


def test_a_claim_is_launched_once_it_has_an_instance() -> None:
    assert not machine(claim()).is_launched
    assert machine(claim(status={"providerID": "i-1"})).is_launched
    assert machine(node("n"), claim(status={"nodeName": "n"})).is_launched


def sized(**amounts: Any) -> Value:
    return {"capacity": amounts, "allocatable": amounts}


def test_pods_may_use_all_where_a_node_does_not_say() -> None:
    found = machine(node(status={"capacity": {"cpu": "4"}}))
    assert found.allocatable == found.capacity == {"cpu": 4000}


def test_a_claim_without_a_node_has_what_its_status_says() -> None:
    status = {"capacity": {"cpu": "4"}, "allocatable": {"cpu": "3900m"}}
    found = machine(claim(status=status))
    assert (found.capacity, found.allocatable) == ({"cpu": 4000}, {"cpu": 3900})


def test_a_claim_without_an_instance_holds_at_least_its_requests() -> None:
    found = machine(claim(spec={"resources": {"requests": {"cpu": "1500m", "pods": "3"}}}))
    assert found.allocatable == found.capacity == {"cpu": 1500, "pods": 3}


def test_what_a_young_kubelet_reports_as_zero_or_not_at_all_is_what_the_claim_says() -> None:
    status = {"nodeName": "n", **sized(**{"cpu": "4", "nvidia.com/gpu": "1", "memory": "8"})}
    found = machine(node("n", status=sized(cpu="0", memory="6")), claim(status=status))
    assert found.allocatable == {"cpu": 4000, "memory": 6, "nvidia.com/gpu": 1}
    assert found.capacity == found.allocatable


def test_what_an_initialized_node_reports_counts_even_if_it_is_zero() -> None:
    status = {"nodeName": "n", "conditions": [condition("Initialized")], **sized(cpu="4")}
    assert machine(node("n", status=sized(cpu="0")), claim(status=status)).allocatable == {"cpu": 0}
