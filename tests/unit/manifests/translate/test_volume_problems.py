"""When a pod cannot have one of its volumes, and what is said of it."""

import pytest
from tests.unit.manifests.translate.disks import (
    GONE,
    ZONE,
    bound,
    claim,
    claimed,
    problem,
    storage_class,
    term,
    topology,
    volume,
)
from tests.unit.manifests.translate.objects import Value, pod, translated

from wainwright.model.pod import VolumeProblem

IN_A, IN_B = (term(ZONE, zone) for zone in "ab")
MISSING_CLASS = "has no volume yet, and its class gp3 is not in the input"
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
        (bound(), volume("pv", IN_A, metadata={"labels": {ZONE: "b"}})),
        "names volume pv, which no node can reach",
    ),
    "a volume of nodes that we do not make": (
        (bound(), volume("pv", csi={"driver": "ebs.csi.eks.amazonaws.com", "volumeHandle": "v"})),
        "names volume pv of ebs.csi.eks.amazonaws.com, which nodes of NodePools do not run",
    ),
    "no such class": ((claim(),), MISSING_CLASS),
    "an empty class": (
        (claim(spec={"storageClassName": ""}), storage_class()),
        "has no volume yet, and wants no class that would make one",
    ),
    "no class and no default": (
        (claim(spec={"storageClassName": None}), storage_class()),
        "has no volume yet, and names no class while there is no default",
    ),
    "made at once": (
        (claim(), storage_class(volumeBindingMode="Immediate")),
        "has no volume yet, and its class gp3 does not wait for a pod to make one",
    ),
    "made at once, as nothing else is said": (
        (claim(), storage_class(volumeBindingMode=None)),
        "has no volume yet, and its class gp3 does not wait for a pod to make one",
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
        volume("pv-x", IN_A),
        bound("y", "pv-y"),
        volume("pv-y", IN_B),
        spec=claimed("x", "y"),
    )
    assert found == VolumeProblem(
        claim="y", why="cannot be reached from where the pod's other volumes are"
    )


def test_one_bad_pod_does_not_keep_the_others() -> None:
    other = pod("b", spec=claimed("fine"))
    given = (pod(spec=claimed("data")), other, claim("fine"), storage_class())
    found = {each.name: each.volume_problem for each in translated(*given).snapshot.pods}
    assert found["b"] is None
    assert found["a"] is not None


def test_of_several_problems_the_first_is_told() -> None:
    found = problem(claim("y", metadata=GONE), spec=claimed("x", "y"))
    assert found == VolumeProblem(claim="x", why="is not in the input")
