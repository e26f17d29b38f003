"""Volumes: where they can be reached, and when a pod cannot have them."""

import pytest
from tests.unit.translate.objects import Value, node, pod, translated
from tests.unit.translate.volume_objects import (
    EBS,
    GONE,
    HOSTNAME,
    ZONE,
    attached,
    bound,
    claim,
    claimed,
    constraints,
    ephemeral,
    placed,
    places,
    problem,
    storage_class,
    term,
    topology,
    volume,
)

from wainwright.model.pod import ANY_NODE_TERMS, NO_CONSTRAINTS, VolumeProblem

IN_A, IN_B, IN_C = (term(ZONE, zone) for zone in "abc")


def test_a_bound_volume_is_reached_where_any_of_its_terms_holds() -> None:
    assert places(bound(), volume("pv", IN_A, IN_B)) == [f"{ZONE} In [a]", f"{ZONE} In [b]"]


def test_labels_of_a_term_hold_together() -> None:
    both = term(ZONE, "a", "b", rack=["7"])
    assert places(bound(), volume("pv", both)) == [f"rack In [7], {ZONE} In [a b]"]


def test_a_volume_without_affinity_is_reached_from_anywhere() -> None:
    assert constraints(bound(), volume()).volume_topology is ANY_NODE_TERMS


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
    assert constraints(bound(), only_host) is NO_CONSTRAINTS


def test_the_host_of_any_other_volume_does() -> None:
    assert places(bound(), volume("pv", term(HOSTNAME, "n"))) == [f"{HOSTNAME} In [n]"]


def test_an_unconstrained_term_makes_the_other_terms_irrelevant() -> None:
    local = volume("pv", term(HOSTNAME, "n"), IN_A, local={"path": "/"})
    assert constraints(bound(), local) is NO_CONSTRAINTS


def test_an_unprovisioned_volume_may_be_where_its_class_allows() -> None:
    allowed = storage_class(allowedTopologies=[topology(ZONE, "a"), topology(ZONE, "b", "c")])
    assert places(claim(), allowed) == [f"{ZONE} In [a]", f"{ZONE} In [b c]"]
    assert constraints(claim(), storage_class()).volume_topology is ANY_NODE_TERMS


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
    assert [each.volume for each in found.constraints.attachments] == ["vol-pv"]


def test_a_pod_that_leaves_its_node_takes_its_volume_along() -> None:
    there = pod(spec={**claimed("data"), "nodeName": "n"})
    around = (node("n", metadata=GONE), there, bound(), volume("pv", IN_A))
    [found] = translated(*around).snapshot.pods
    assert [str(each) for each in found.constraints.volume_topology] == [f"{ZONE} In [a]"]


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
def test_other_volumes_do_not_constrain_a_pod(harmless: Value) -> None:
    found = placed(spec={"volumes": [{"name": "v", **harmless}]})
    assert found.constraints is NO_CONSTRAINTS
    assert found.volume_problem is None


def test_an_ephemeral_volume_uses_its_own_claim() -> None:
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


PROBLEM_IN_A, PROBLEM_IN_B = (term(ZONE, zone) for zone in "ab")
PROBLEMS: dict[str, tuple[tuple[Value, ...], str]] = {
    "no claim": ((), "is not in the input"),
    "a claim of another namespace": (
        (claim(metadata={"namespace": "other"}), storage_class()),
        "is not in the input",
    ),
    "a claim being deleted": (
        (claim(metadata=GONE), storage_class()),
        "is being deleted",
    ),
    "a bound claim being deleted": ((bound(metadata=GONE), volume()), "is being deleted"),
    "a lost claim": (
        (claim(spec={"volumeName": "pv"}, status={"phase": "Lost"}),),
        "has lost its volume pv",
    ),
    "a volume that is gone": ((bound(),), "names volume pv, which is not in the input"),
    "a volume being deleted": (
        (bound(), volume(metadata=GONE)),
        "names volume pv, which is being deleted",
    ),
    "named but not bound": (
        (claim(spec={"volumeName": "pv"}, status={"phase": "Pending"}), volume()),
        "names volume pv, but is not bound to it yet",
    ),
    "terms that contradict themselves": (
        (bound(), volume("pv", PROBLEM_IN_A, metadata={"labels": {ZONE: "b"}})),
        "names volume pv, which no node can reach",
    ),
    "a volume of nodes that we do not make": (
        (bound(), volume("pv", csi={"driver": "ebs.csi.eks.amazonaws.com", "volumeHandle": "v"})),
        "names volume pv of ebs.csi.eks.amazonaws.com, which nodes of NodePools do not run",
    ),
    "an empty class": (
        (claim(spec={"storageClassName": ""}), storage_class()),
        "has no volume yet, and wants no class that would make one",
    ),
    "made at once": (
        (claim(), storage_class(volumeBindingMode="Immediate")),
        "has no volume yet, and its class gp3 does not wait for a pod to make one "
        "(volumeBindingMode Immediate)",
    ),
    "made at once, as nothing else is said": (
        (claim(), storage_class(volumeBindingMode=None)),
        "has no volume yet, and its class gp3 does not wait for a pod to make one "
        "(volumeBindingMode Immediate, as none is stated)",
    ),
    "made by hand": (
        (claim(), storage_class(provisioner="kubernetes.io/no-provisioner")),
        "has no volume yet, and its class gp3 makes none",
    ),
    "made for nodes that we do not make": (
        (claim(), storage_class(provisioner="ebs.csi.eks.amazonaws.com")),
        "has no volume yet, and its class gp3 needs ebs.csi.eks.amazonaws.com, "
        "which nodes of NodePools do not run",
    ),
    "made where our nodes never are": (
        (
            claim(),
            storage_class(allowedTopologies=[topology("eks.amazonaws.com/compute-type", "auto")]),
        ),
        "has no volume yet, and its class gp3 needs the label eks.amazonaws.com/compute-type, "
        "which nodes of NodePools do not have",
    ),
    "made nowhere": (
        (claim(), storage_class(allowedTopologies=[{"matchLabelExpressions": []}])),
        "has no volume yet, and its class gp3 allows none anywhere",
    ),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_pod_cannot_be_placed_without_its_volume(name: str) -> None:
    around, why = PROBLEMS[name]
    assert problem(*around) == VolumeProblem(claim="data", why=why)


def test_volumes_that_are_apart_leave_the_pod_nowhere() -> None:
    found = problem(
        bound("x", "pv-x"),
        volume("pv-x", PROBLEM_IN_A),
        bound("y", "pv-y"),
        volume("pv-y", PROBLEM_IN_B),
        spec=claimed("x", "y"),
    )
    assert found == VolumeProblem(
        claim="y", why="cannot be reached from where the pod's other volumes are", is_apart=True
    )


def test_one_bad_pod_does_not_keep_the_others() -> None:
    other = pod("b", spec=claimed("fine"))
    given = (pod(spec=claimed("data")), other, claim("fine"), storage_class())
    found = {each.name: each.volume_problem for each in translated(*given).snapshot.pods}
    assert found["b"] is None
    assert found["a"] is not None


def test_of_several_volume_problems_the_first_is_reported() -> None:
    found = problem(claim("y", metadata=GONE), spec=claimed("x", "y"))
    assert found == VolumeProblem(claim="x", why="is not in the input")
