"""Nodes and claims under way as places for pods."""

from typing import Any

from tests.unit.manifests.translate.objects import (
    Value,
    claim,
    condition,
    machine,
    node,
    requirement,
    typed_pool,
)

from wainwright.manifests.translate.machines import Machine
from wainwright.manifests.translate.nodes import hostnames
from wainwright.manifests.translate.nodes import node as translate
from wainwright.model.node import Node
from wainwright.model.taints import Taint

ZONE = "topology.kubernetes.io/zone"
STARTUP = {"key": "cni", "effect": "NoSchedule"}
TO_COME = {"karpenter.sh/registered": "true", "karpenter.sh/initialized": "true"}
LASTING = {"key": "dedicated", "value": "web", "effect": "NoSchedule"}


def made(*values: Value, **pool: Any) -> Node:
    return translate(machine(*values), typed_pool(**pool) if pool else None, ())


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
    assert found.lasting_taints == ()


def test_a_cordoned_node_is_tainted_once() -> None:
    cordon = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    bare = made(node(spec={"unschedulable": True}))
    marked = made(node(spec={"unschedulable": True, "taints": [cordon]}))
    fresh = node(spec={"unschedulable": True, "providerID": "i"})
    joining = made(fresh, claim(status={"providerID": "i"}))
    assert bare.taints == marked.taints == (Taint(key="node.kubernetes.io/unschedulable"),)
    assert joining.taints == bare.taints


def test_what_a_machine_is_goes_over() -> None:
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


def test_hostnames_are_labels_or_else_names() -> None:
    labelled = machine(node("n-1", metadata={"labels": {"kubernetes.io/hostname": "ip-1"}}))
    conditions = {"conditions": [condition("Launched")]}
    found: list[Machine] = [labelled, machine(node("n-2")), machine(claim(status=conditions))]
    assert hostnames(found) == {"n-1": "ip-1", "n-2": "n-2"}
