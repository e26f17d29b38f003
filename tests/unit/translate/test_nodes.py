"""A Node and its NodeClaim are one node."""

from typing import Any

import pytest
from tests.unit.translate.objects import (
    Value,
    claim,
    condition,
    node,
    paired_node,
    paired_nodes,
    requirement,
    typed_pool,
)

from wainwright.model.snapshot import Node
from wainwright.model.taints import Taint
from wainwright.translate.nodes import differing_hostnames
from wainwright.translate.nodes import translate_node as translate

GONE = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
POOLED = {"labels": {"karpenter.sh/nodepool": "web"}}


def test_a_claim_and_its_node_find_each_other_by_provider_id() -> None:
    found = paired_node(node(spec={"providerID": "i-1"}), claim(status={"providerID": "i-1"}))
    assert found.node is not None
    assert found.claim is not None


def test_a_claim_and_its_node_find_each_other_by_name() -> None:
    assert paired_node(node("n-1"), claim(status={"nodeName": "n-1"})).name == "n-1"


def test_an_unrelated_claim_and_node_are_two_nodes_sorted_by_name() -> None:
    found = paired_nodes(node("z"), claim("a-1"), node("b"))
    assert [each.name for each in found] == ["a-1", "b", "z"]


def test_two_claims_of_one_instance_are_one_node() -> None:
    launched = (claim("b", status={"providerID": "i"}), claim("a", status={"providerID": "i"}))
    assert paired_node(*launched).name == "a"
    both = (claim("b", status={"nodeName": "n"}), claim("a", status={"nodeName": "n"}))
    assert paired_node(node("n"), *both).name == "n"


def test_claims_that_have_nothing_yet_are_not_confused() -> None:
    assert len(paired_nodes(claim("a"), claim("b"), node("n"))) == 3


def test_a_node_goes_by_its_claims_name_until_it_is_registered() -> None:
    joined = node("n-1", spec={"providerID": "i-1"})
    fresh = claim("web-1", status={"providerID": "i-1"})
    known = {"providerID": "i-1", "conditions": [condition("Registered")]}
    assert paired_node(joined, fresh).name == "web-1"
    assert paired_node(joined, claim("web-1", status=known)).name == "n-1"


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
def test_the_pool_of_a_node_is_found(made: Value) -> None:
    assert paired_node(made).pool == "web"


def test_managed_nodes_have_a_pool_or_a_claim() -> None:
    assert paired_node(node(metadata=POOLED)).is_managed
    assert paired_node(claim(pool=None)).is_managed
    assert not paired_node(node()).is_managed


def test_a_node_is_initialized_by_label_or_condition_or_if_unmanaged() -> None:
    labels = {"karpenter.sh/nodepool": "web", "karpenter.sh/initialized": "true"}
    done = {"nodeName": "n", "conditions": [condition("Initialized")]}
    assert paired_node(node(metadata={"labels": labels})).is_initialized
    assert paired_node(node(), claim(status=done)).is_initialized
    assert paired_node(node()).is_initialized
    assert not paired_node(node(metadata=POOLED)).is_initialized
    assert not paired_node(
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
def test_nodes_being_deleted_are_recognised(made: Value) -> None:
    assert paired_node(made).is_deleting


def test_a_node_is_deleting_if_its_claim_is() -> None:
    assert paired_node(node("n"), claim(metadata=GONE, status={"nodeName": "n"})).is_deleting
    assert not paired_node(node("n"), claim(status={"nodeName": "n"})).is_deleting


def test_a_claim_is_launched_once_it_has_an_instance() -> None:
    assert not paired_node(claim()).is_launched
    assert paired_node(claim(status={"providerID": "i-1"})).is_launched
    assert paired_node(node("n"), claim(status={"nodeName": "n"})).is_launched


def sized(**amounts: Any) -> Value:
    return {"capacity": amounts, "allocatable": amounts}


def test_pods_may_use_all_where_a_node_does_not_say() -> None:
    found = paired_node(node(status={"capacity": {"cpu": "4"}}))
    assert found.allocatable == found.capacity == {"cpu": 4000}


def test_a_claim_without_a_node_has_what_its_status_says() -> None:
    status = {"capacity": {"cpu": "4"}, "allocatable": {"cpu": "3900m"}}
    found = paired_node(claim(status=status))
    assert (found.capacity, found.allocatable) == ({"cpu": 4000}, {"cpu": 3900})


def test_a_claim_without_an_instance_holds_at_least_its_requests() -> None:
    found = paired_node(claim(spec={"resources": {"requests": {"cpu": "1500m", "pods": "3"}}}))
    assert found.allocatable == found.capacity == {"cpu": 1500, "pods": 3}


def test_what_a_young_kubelet_reports_as_zero_or_not_at_all_is_what_the_claim_says() -> None:
    status = {"nodeName": "n", **sized(**{"cpu": "4", "nvidia.com/gpu": "1", "memory": "8"})}
    found = paired_node(node("n", status=sized(cpu="0", memory="6")), claim(status=status))
    assert found.allocatable == {"cpu": 4000, "memory": 6, "nvidia.com/gpu": 1}
    assert found.capacity == found.allocatable


def test_what_an_initialized_node_reports_counts_even_if_it_is_zero() -> None:
    status = {"nodeName": "n", "conditions": [condition("Initialized")], **sized(cpu="4")}
    assert paired_node(node("n", status=sized(cpu="0")), claim(status=status)).allocatable == {
        "cpu": 0
    }


ZONE = "topology.kubernetes.io/zone"
STARTUP = {"key": "cni", "effect": "NoSchedule"}
TO_COME = {"karpenter.sh/registered": "true", "karpenter.sh/initialized": "true"}
LASTING = {"key": "dedicated", "value": "web", "effect": "NoSchedule"}


def made(*values: Value, **pool: Any) -> Node:
    return translate(paired_node(*values), typed_pool(**pool) if pool else None, ())


def test_a_node_keeps_its_labels_under_their_stable_names() -> None:
    labels = {"failure-domain.beta.kubernetes.io/zone": "a", "team": "web"}
    found = made(node("n-1", metadata={"labels": labels}))
    assert found.labels == {"kubernetes.io/hostname": "n-1", "team": "web", ZONE: "a"}


def test_the_stable_name_counts_where_both_are_there() -> None:
    labels = {ZONE: "b", "failure-domain.beta.kubernetes.io/zone": "a"}
    assert made(node(metadata={"labels": labels})).labels[ZONE] == "b"


def test_a_claim_will_have_what_is_decided_already() -> None:
    found = made(
        claim(
            metadata={"labels": {"team": "own"}},
            spec={
                "requirements": [
                    requirement(ZONE, "a"),
                    requirement("kubernetes.io/arch", "amd64", "arm64"),
                    requirement("team", "required"),
                    requirement("tier", "back"),
                ]
            },
        ),
        labels={"team": "pool", "tier": "front", "colour": "blue"},
    )
    assert found.labels == {
        "karpenter.k8s.aws/ec2nodeclass": "default",
        "karpenter.sh/nodepool": "web",
        **TO_COME,
        "team": "own",
        "tier": "back",
        "colour": "blue",
        ZONE: "a",
    }


def test_a_claim_without_labels_is_labelled_with_its_pool_if_it_has_one() -> None:
    owner = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": "web", "uid": "1"}
    theirs = claim(pool=None, metadata={"ownerReferences": [owner]})
    assert made(theirs).labels["karpenter.sh/nodepool"] == "web"
    assert "karpenter.sh/nodepool" not in made(claim(pool=None)).labels


def test_a_hostname_that_differs_from_the_name_stays() -> None:
    labels = {"kubernetes.io/hostname": "ip-1"}
    assert made(node("n-1", metadata={"labels": labels})).labels == labels


def test_a_registered_node_has_only_its_own_labels() -> None:
    status = {"nodeName": "n"}
    found = made(node("n"), claim(metadata={"labels": {"team": "web"}}, status=status))
    assert found.labels == {"kubernetes.io/hostname": "n", **TO_COME}
    assert found.pool == "web"


def test_a_node_of_ours_counts_as_if_it_were_registered_and_initialized_already() -> None:
    pooled = {"labels": {"karpenter.sh/nodepool": "web"}}
    initialized = {"labels": {**pooled["labels"], "karpenter.sh/initialized": "true"}}
    own = {"labels": {**pooled["labels"], "karpenter.sh/registered": "false"}}
    under_way = [made(claim()), made(node(metadata=pooled))]
    assert [{key: each.labels.get(key) for key in TO_COME} for each in under_way] == [TO_COME] * 2
    assert "karpenter.sh/registered" not in made(node(metadata=initialized)).labels
    assert made(node(metadata=own)).labels["karpenter.sh/registered"] == "false"
    assert TO_COME.keys().isdisjoint(made(node()).labels)


def test_a_node_that_is_not_registered_has_its_claims_labels_beside_its_own() -> None:
    joined = node("n", metadata={"labels": {ZONE: "b"}}, spec={"providerID": "i"})
    wanted = {"requirements": [requirement(ZONE, "a"), requirement("team", "web")]}
    found = made(joined, claim(spec=wanted, status={"providerID": "i"}))
    assert (found.name, found.labels[ZONE], found.labels["team"]) == ("web-1", "b", "web")


def test_taints_are_the_nodes_once_it_is_registered_and_until_then_the_claims() -> None:
    joined = node("n", spec={"providerID": "i", "taints": [STARTUP]})
    spec = {"taints": [LASTING], "startupTaints": [STARTUP]}
    fresh = made(joined, claim(spec=spec, status={"providerID": "i"}))
    done = made(joined, claim(spec=spec, status={"providerID": "i", "nodeName": "n"}))
    assert [taint.key for taint in fresh.taints] == ["dedicated"]
    assert [taint.key for taint in done.taints] == ["cni"]
    assert fresh.startup_taints == done.startup_taints == (Taint(key="cni"),)


def test_startup_taints_are_the_pools_where_the_claim_is_not_in_the_input() -> None:
    labels = {"karpenter.sh/nodepool": "web"}
    found = made(
        node(metadata={"labels": labels}, spec={"taints": [STARTUP]}),
        template={"startupTaints": [STARTUP]},
    )
    assert found.effective_taints == ()


def test_a_cordoned_node_is_tainted_once() -> None:
    cordon = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    bare = made(node(spec={"unschedulable": True}))
    marked = made(node(spec={"unschedulable": True, "taints": [cordon]}))
    fresh = node(spec={"unschedulable": True, "providerID": "i"})
    joining = made(fresh, claim(status={"providerID": "i"}))
    assert bare.taints == marked.taints == (Taint(key="node.kubernetes.io/unschedulable"),)
    assert joining.taints == bare.taints


def test_the_fields_of_a_node_are_translated() -> None:
    found = made(claim(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}))
    assert (found.managed, found.initialized, found.deleting, found.launched) == (
        True,
        False,
        True,
        False,
    )
    stranger = made(node())
    assert (stranger.managed, stranger.initialized, stranger.launched, stranger.pool) == (
        False,
        True,
        True,
        None,
    )


def test_the_reservation_is_known_by_label_or_by_a_pinned_requirement() -> None:
    key = "karpenter.k8s.aws/capacity-reservation-id"
    labelled = node(metadata={"labels": {key: "cr-1"}})
    pinned = claim(spec={"requirements": [requirement(key, "cr-2")]})
    torn = claim(spec={"requirements": [requirement(key, "cr-2", "cr-3")]})
    assert made(labelled).reservation_id == "cr-1"
    assert made(pinned).reservation_id == "cr-2"
    assert made(torn).reservation_id is None


def test_hostnames_are_labels_that_differ_from_the_name() -> None:
    labelled = node("n-1", metadata={"labels": {"kubernetes.io/hostname": "ip-1"}})
    same = node("n-3", metadata={"labels": {"kubernetes.io/hostname": "n-3"}})
    nodes = [paired_node(each).node for each in (labelled, node("n-2"), same)]
    assert differing_hostnames(each for each in nodes if each) == {"n-1": "ip-1"}
