"""Volumes: where they can be reached, and when a pod cannot have them."""

import pytest
from tests.unit.manifests.translate.disks import (
    EBS,
    GONE,
    HOSTNAME,
    ZONE,
    attached,
    bonds,
    bound,
    claim,
    claimed,
    ephemeral,
    placed,
    places,
    problem,
    storage_class,
    term,
    topology,
    volume,
)
from tests.unit.manifests.translate.objects import Value, node, pod, translated

from wainwright.model.pod import ANYWHERE, NO_BONDS

IN_A, IN_B, IN_C = (term(ZONE, zone) for zone in "abc")


def test_a_bound_volume_is_reached_where_any_of_its_terms_holds() -> None:
    assert places(bound(), volume("pv", IN_A, IN_B)) == [f"{ZONE} In [a]", f"{ZONE} In [b]"]


def test_labels_of_a_term_hold_together() -> None:
    both = term(ZONE, "a", "b", rack=["7"])
    assert places(bound(), volume("pv", both)) == [f"rack In [7], {ZONE} In [a b]"]


def test_a_volume_without_affinity_is_reached_from_anywhere() -> None:
    assert bonds(bound(), volume()).volume_places is ANYWHERE


@pytest.mark.parametrize(
    "key", ["topology.ebs.csi.aws.com/zone", "failure-domain.beta.kubernetes.io/zone"]
)
def test_other_names_of_the_zone_mean_the_zone(key: str) -> None:
    assert places(bound(), volume("pv", term(key, "a"))) == [f"{ZONE} In [a]"]


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({"failure-domain.beta.kubernetes.io/zone": "a"}, [f"{ZONE} In [a]"]),
        ({ZONE: "a__b"}, [f"{ZONE} In [a b]"]),
        ({ZONE: "", "rack": "7"}, [""]),
        (
            {"topology.kubernetes.io/region": "r", ZONE: "a"},
            [f"topology.kubernetes.io/region In [r], {ZONE} In [a]"],
        ),
    ],
)
def test_labels_of_a_volume_bind_it_too(labels: dict[str, str], expected: list[str]) -> None:
    assert places(bound(), volume(metadata={"labels": labels})) == expected


def test_labels_and_affinity_of_a_volume_hold_together() -> None:
    labelled = volume("pv", IN_A, IN_B, metadata={"labels": {ZONE: "b"}})
    assert places(bound(), labelled) == [f"{ZONE} In [b]"]


@pytest.mark.parametrize("local", [{"local": {"path": "/"}}, {"hostPath": {"path": "/"}}])
def test_the_host_of_a_local_volume_does_not_matter(local: Value) -> None:
    there = term(HOSTNAME, "n", **{ZONE: ["a"]})
    assert places(bound(), volume("pv", there, **local)) == [f"{ZONE} In [a]"]
    only_host = volume("pv", term(HOSTNAME, "n"), **local)
    assert bonds(bound(), only_host) is NO_BONDS


def test_the_host_of_any_other_volume_does() -> None:
    assert places(bound(), volume("pv", term(HOSTNAME, "n"))) == [f"{HOSTNAME} In [n]"]


def test_where_one_term_asks_nothing_of_new_nodes_no_other_need_be_asked() -> None:
    local = volume("pv", term(HOSTNAME, "n"), IN_A, local={"path": "/"})
    assert bonds(bound(), local) is NO_BONDS


def test_a_volume_yet_to_be_made_may_be_where_its_class_allows() -> None:
    allowed = storage_class(allowedTopologies=[topology(ZONE, "a"), topology(ZONE, "b", "c")])
    assert places(claim(), allowed) == [f"{ZONE} In [a]", f"{ZONE} In [b c]"]
    assert bonds(claim(), storage_class()).volume_places is ANYWHERE


def test_several_volumes_must_be_reached_from_one_place() -> None:
    found = places(
        bound("x", "pv-x"),
        volume("pv-x", IN_A, IN_B),
        bound("y", "pv-y"),
        volume("pv-y", IN_B, IN_C, term("rack", "7")),
        spec=claimed("x", "y"),
    )
    assert found == [f"rack In [7], {ZONE} In [a]", f"{ZONE} In [b]", f"rack In [7], {ZONE} In [b]"]


def test_the_same_alternatives_twice_are_as_once() -> None:
    found = places(
        *(bound(name, f"pv-{name}") for name in "xyz"),
        *(volume(f"pv-{name}", IN_A, IN_B) for name in "xyz"),
        spec=claimed(*"xyz"),
    )
    assert found == [f"{ZONE} In [a]", f"{ZONE} In [b]"]


BIND_COMPLETED = {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
BOUND: dict[str, Value] = {
    "by phase": bound(),
    "by annotation": claim(metadata=BIND_COMPLETED, spec={"volumeName": "pv"}),
    "of a class that is gone": bound(spec={"storageClassName": "gone"}),
    "of an empty class": bound(spec={"storageClassName": ""}),
    "of no class": bound(spec={"storageClassName": None}),
}


@pytest.mark.parametrize("name", BOUND)
def test_a_bound_claim_needs_no_class(name: str) -> None:
    assert attached(BOUND[name], volume()) == [(EBS, "vol-pv")]


def test_a_pod_on_its_node_has_its_volumes_whatever_became_of_the_claims() -> None:
    there = pod(spec={**claimed("data", "gone"), "nodeName": "n"})
    [only] = translated(node("n"), there, bound(metadata=GONE), volume("pv", IN_A)).snapshot.nodes
    [found] = only.pods
    assert found.volume_problem is None
    assert [each.volume for each in found.bonds.attachments] == ["vol-pv"]


def test_a_pod_that_leaves_its_node_takes_its_volume_along() -> None:
    there = pod(spec={**claimed("data"), "nodeName": "n"})
    around = (node("n", metadata=GONE), there, bound(), volume("pv", IN_A))
    [found] = translated(*around).snapshot.pods
    assert [str(each) for each in found.bonds.volume_places] == [f"{ZONE} In [a]"]


@pytest.mark.parametrize(
    "harmless",
    [
        {"emptyDir": {}},
        {"hostPath": {"path": "/"}},
        {"configMap": {"name": "c"}},
        {"secret": {"secretName": "s"}},
        {"projected": {}},
        {"nfs": {"server": "s", "path": "/"}},
        {"csi": {"driver": "secrets-store.csi.k8s.io"}},
    ],
)
def test_other_volumes_have_no_say_in_where_a_pod_goes(harmless: Value) -> None:
    found = placed(spec={"volumes": [{"name": "v", **harmless}]})
    assert found.bonds is NO_BONDS
    assert found.volume_problem is None


def test_an_ephemeral_volume_hangs_on_its_own_claim() -> None:
    owner = {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "1"}]}
    around = (bound("a-scratch", metadata=owner), volume("pv", IN_A))
    assert places(*around, spec=ephemeral()) == [f"{ZONE} In [a]"]


def test_an_ephemeral_volume_does_not_take_the_claim_of_another() -> None:
    found = problem(bound("a-scratch"), volume(), spec=ephemeral())
    assert found.claim == "a-scratch"
    assert found.why.startswith("was not made for this pod")
    owner = {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "1"}]}
    same_name = placed(
        bound("a-scratch", metadata=owner),
        volume(),
        spec=ephemeral(),
        metadata={"namespace": "shop", "uid": "2"},
    )
    assert same_name.volume_problem is not None
