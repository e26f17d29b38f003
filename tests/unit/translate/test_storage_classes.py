"""CSI drivers: volume attachments, attach limits and storage classes."""

from typing import Any

import pytest
from tests.unit.translate.objects import Value, node, owned, pod, thing, translated, typed
from tests.unit.translate.objects import claim as node_claim
from tests.unit.translate.volume_objects import (
    DEFAULT,
    EBS,
    GONE,
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
    topology,
    volume,
)

from wainwright.model.pod import ANY_NODE_TERMS, Pod, VolumeProblem
from wainwright.translate.cluster_state import ClusterState

DISKS: dict[str, tuple[Value, list[tuple[str, str]]]] = {
    "EBS": ({"awsElasticBlockStore": {"volumeID": "vol-1"}}, [(EBS, "vol-1")]),
    "EBS with its zone": (
        {"awsElasticBlockStore": {"volumeID": "aws://us-west-2a/vol-1"}},
        [(EBS, "vol-1")],
    ),
    "GCE": ({"gcePersistentDisk": {"pdName": "d"}}, [("pd.csi.storage.gke.io", "d")]),
    "Azure disk": (
        {"azureDisk": {"diskName": "d", "diskURI": "/s/d"}},
        [("disk.csi.azure.com", "/s/d")],
    ),
    "Azure file": (
        {"azureFile": {"shareName": "f", "secretName": "s"}},
        [("file.csi.azure.com", "s/f")],
    ),
    "Cinder": ({"cinder": {"volumeID": "c"}}, [("cinder.csi.openstack.org", "c")]),
    "vSphere": ({"vsphereVolume": {"volumePath": "p"}}, [("csi.vsphere.vmware.com", "p")]),
    "Portworx": ({"portworxVolume": {"volumeID": "x"}}, [("pxd.portworx.com", "x")]),
    "a disk without a name": ({"cinder": {}}, []),
    "NFS": ({"nfs": {"server": "s", "path": "/"}}, []),
    "a folder of the node": ({"hostPath": {"path": "/"}}, []),
}


@pytest.mark.parametrize("name", DISKS)
def test_in_tree_disks_count_against_the_csi_driver_that_replaced_them(name: str) -> None:
    disk, expected = DISKS[name]
    assert attached(spec={"volumes": [{"name": "v", **disk}]}) == expected
    assert attached(bound(), volume("pv", **disk)) == expected


@pytest.mark.parametrize(
    ("provisioner", "driver"),
    [
        ("kubernetes.io/aws-ebs", EBS),
        ("kubernetes.io/gce-pd", "pd.csi.storage.gke.io"),
        ("kubernetes.io/azure-disk", "disk.csi.azure.com"),
        ("kubernetes.io/azure-file", "file.csi.azure.com"),
        ("kubernetes.io/cinder", "cinder.csi.openstack.org"),
        ("kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com"),
        ("kubernetes.io/portworx-volume", "pxd.portworx.com"),
        ("csi.example.com", "csi.example.com"),
    ],
)
def test_an_unprovisioned_volume_counts_against_the_driver_of_its_class(
    provisioner: str, driver: str
) -> None:
    found = attached(claim(), storage_class(provisioner=provisioner))
    assert found == [(driver, "shop/data")]


def test_a_volume_that_several_pods_share_has_one_name() -> None:
    around = (bound(), volume(), pod("a", spec=claimed("data")), pod("b", spec=claimed("data")))
    one, other = translated(*around).snapshot.pods
    assert one.constraints is other.constraints


def test_claims_of_different_namespaces_are_different() -> None:
    away = {"namespace": "other"}
    around = (
        claim(),
        claim(metadata=away),
        storage_class(),
        pod("a", spec=claimed("data")),
        pod("a", metadata=away, spec=claimed("data")),
    )
    found = [each.constraints.attachments[0].volume for each in translated(*around).snapshot.pods]
    assert found == ["other/data", "shop/data"]


def test_attachments_are_in_order_and_each_is_there_once() -> None:
    found = attached(
        *(bound(name, f"pv-{name}") for name in "abcdef"),
        *(volume(f"pv-{name}") for name in "abcdef"),
        spec=claimed(*"fdbace", "a"),
    )
    assert found == [(EBS, f"vol-pv-{name}") for name in "abcdef"]


def test_volumes_without_a_provisioner_are_not_attached() -> None:
    by_hand = storage_class(provisioner="kubernetes.io/no-provisioner")
    assert placed(claim(), by_hand).constraints.attachments == ()


def csi_node(name: str, **counts: int | None) -> Value:
    drivers = [
        {"name": driver, "nodeID": "i", "allocatable": {"count": count}}
        for driver, count in counts.items()
    ]
    return thing("storage.k8s.io/v1", "CSINode", name, spec={"drivers": drivers})


def test_a_node_takes_as_many_volumes_as_its_drivers_say() -> None:
    given = (node("n"), node("m"), csi_node("n", ebs=25, nfs=None, efs=0))
    limits = {each.name: each.attach_limits for each in translated(*given).snapshot.nodes}
    assert limits == {"n": {"ebs": 25, "efs": 0}, "m": {}}


def test_of_a_driver_that_says_nothing_no_limit_is_known() -> None:
    silent = thing("storage.k8s.io/v1", "CSINode", "n", spec={"drivers": [{"name": "ebs"}]})
    [found] = translated(node("n"), silent).snapshot.nodes
    assert found.attach_limits == {}


def test_attach_limits_of_a_launching_node_are_unknown() -> None:
    [found] = translated(node_claim("web-1"), csi_node("web-1", ebs=25)).snapshot.nodes
    assert found.attach_limits == {}


UNNAMED = claim(spec={"storageClassName": None})


def in_zone(name: str, zone: str, **fields: Any) -> Value:
    return storage_class(name, allowedTopologies=[topology(ZONE, zone)], **fields)


def default(name: str, zone: str, created: str = "") -> Value:
    moment = {"creationTimestamp": f"{created}T00:00:00Z"} if created else {}
    return in_zone(name, zone, metadata={**DEFAULT, **moment})


@pytest.mark.parametrize("given", [{"spec": ephemeral()}, {"claim": UNNAMED}])
@pytest.mark.parametrize(
    ("classes", "zone"),
    [
        ([default("gp3", "a"), in_zone("other", "b")], "a"),
        ([default("old", "a", "2025-01-01"), default("new", "b", "2026-01-01")], "b"),
        ([default("new", "b", "2026-01-01"), default("old", "a", "2025-01-01")], "b"),
        ([default("fresh", "a"), default("new", "b", "2026-01-01")], "a"),
        ([default("y", "b", "2026-01-01"), default("x", "a", "2026-01-01")], "a"),
        (
            [
                in_zone(
                    "beta",
                    "c",
                    metadata={
                        "annotations": {"storageclass.beta.kubernetes.io/is-default-class": "true"}
                    },
                )
            ],
            "c",
        ),
    ],
)
def test_a_claim_without_a_class_gets_the_default_one(
    given: dict[str, Value], classes: list[Value], zone: str
) -> None:
    around = [*classes, *([given["claim"]] if "claim" in given else [])]
    assert places(*around, spec=given.get("spec")) == [f"{ZONE} In [{zone}]"]


def test_an_ephemeral_volume_may_name_its_class() -> None:
    around = (default("gp3", "a"), in_zone("fast", "b"))
    assert places(*around, spec=ephemeral(storageClassName="fast")) == [f"{ZONE} In [b]"]


NOT_DEFAULT = storage_class(
    metadata={"annotations": {"storageclass.kubernetes.io/is-default-class": "false"}}
)
ASSUMED = "so one of EBS with volumeBindingMode WaitForFirstConsumer is assumed: shop/a"
MISSING_CLASSES: dict[str, tuple[Value, str]] = {
    "that a claim names": (
        {"claim": claim(spec={"storageClassName": "fast"})},
        f"storage class fast is not in the input, {ASSUMED}",
    ),
    "that a claim leaves to the default": (
        {"claim": UNNAMED},
        f"no default storage class is in the input, {ASSUMED}",
    ),
    "that an ephemeral volume names": (
        {"spec": ephemeral(storageClassName="fast")},
        f"storage class fast is not in the input, {ASSUMED}",
    ),
    "that an ephemeral volume leaves to the default": (
        {"spec": ephemeral()},
        f"no default storage class is in the input, {ASSUMED}",
    ),
}


@pytest.mark.parametrize("case", MISSING_CLASSES)
def test_a_class_that_is_not_in_the_input_is_assumed_to_be_of_ebs(case: str) -> None:
    given, remark = MISSING_CLASSES[case]
    around = (NOT_DEFAULT, *([given["claim"]] if "claim" in given else []))
    found = translated(*around, pod(spec=given.get("spec", claimed("data"))))
    [written] = found.snapshot.pods
    assert (written.volume_problem, found.warnings) == (None, (remark,))
    assert [each.driver for each in written.constraints.attachments] == [EBS]
    assert written.constraints.volume_topology is ANY_NODE_TERMS


def test_a_missing_class_is_one_remark_for_all_pods() -> None:
    pods = [pod(name, spec=claimed("data")) for name in "cab"]
    assert translated(claim(), *pods).warnings == (
        f"storage class gp3 is not in the input, {ASSUMED}, shop/b, shop/c",
    )


def test_a_missing_class_does_not_matter_to_a_bound_volume() -> None:
    assert translated(bound(), volume(), pod(spec=claimed("data"))).warnings == ()
    assert translated(bound(), pod(spec=claimed("data"))).warnings == ()


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (claim(), "has no volume yet, and its class gp3 is not in the input"),
        (UNNAMED, "has no volume yet, and names no class while there is no default"),
    ],
)
def test_of_a_whole_cluster_no_class_is_assumed(asked: Value, why: str) -> None:
    state = ClusterState()
    for item in (asked, pod(spec=claimed("data"))):
        state.apply(typed(item))
    found = state.snapshot()
    [written] = found.snapshot.pods
    assert (written.volume_problem, found.remarks) == (VolumeProblem(claim="data", why=why), ())


def test_an_ephemeral_volume_that_wants_no_class_is_never_made() -> None:
    found = problem(NOT_DEFAULT, spec=ephemeral(storageClassName=""))
    assert found.claim == "a-scratch"


def test_a_claim_may_name_its_class_by_the_beta_annotation() -> None:
    annotated = {"annotations": {"volume.beta.kubernetes.io/storage-class": "fast"}}
    asked = claim(metadata=annotated, spec={"storageClassName": None})
    assert places(asked, default("gp3", "a"), in_zone("fast", "b")) == [f"{ZONE} In [b]"]


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"zone": "a"}, [f"{ZONE} In [a]"]),
        ({"zones": "a, b"}, [f"{ZONE} In [a b]"]),
        ({"Zones": "a"}, [f"{ZONE} In [a]"]),
        ({"type": "gp3"}, [""]),
    ],
)
def test_in_tree_classes_name_their_zones_as_parameters(
    parameters: dict[str, str], expected: list[str]
) -> None:
    old = storage_class(provisioner="kubernetes.io/aws-ebs", parameters=parameters)
    assert places(claim(), old) == expected


def test_to_a_driver_the_same_parameter_means_nothing() -> None:
    assert (
        constraints(claim(), storage_class(parameters={"zone": "a"})).volume_topology
        is ANY_NODE_TERMS
    )


def stateful_pods(*around: Value, name: str = "db", **metadata: Any) -> tuple[Pod, ...]:
    templates = [{"metadata": {"name": "data"}, "spec": {"storageClassName": "gp3"}}]
    spec = {
        "replicas": 2,
        "template": {"spec": {"containers": [{"name": "c"}]}},
        "volumeClaimTemplates": templates,
    }
    metadata = {"namespace": "shop", **metadata}
    made = thing("apps/v1", "StatefulSet", name, metadata=metadata, spec=spec)
    return translated(made, *around).snapshot.pods


def test_a_stateful_set_makes_the_claims_of_its_pods() -> None:
    found = stateful_pods(in_zone("gp3", "a"))
    assert [each.volume_problem for each in found] == [None, None]
    assert [each.constraints.attachments[0].volume for each in found] == [
        "shop/data-db-0",
        "shop/data-db-1",
    ]
    assert [str(each.constraints.volume_topology[0]) for each in found] == [f"{ZONE} In [a]"] * 2


def test_a_claim_that_is_there_already_counts_before_its_template() -> None:
    there = claim("data-db-1", spec={"storageClassName": "other"})
    first, second = stateful_pods(in_zone("gp3", "a"), in_zone("other", "b"), there)
    assert str(first.constraints.volume_topology[0]) == f"{ZONE} In [a]"
    assert str(second.constraints.volume_topology[0]) == f"{ZONE} In [b]"


def test_a_stateful_set_with_generate_name_creates_claims_too() -> None:
    found = stateful_pods(storage_class(), name="", generateName="db-")
    assert [each.name for each in found] == ["db-0", "db-1"]
    assert [each.volume_problem for each in found] == [None, None]


def test_a_pod_that_replaces_a_terminating_one_gets_its_claim() -> None:
    going = pod("db-0", metadata={**owned("StatefulSet", "db"), **GONE}, spec=claimed("data-db-0"))
    found = stateful_pods(in_zone("gp3", "a"), going)
    assert [(each.name, each.constraints.attachments[0].volume) for each in found] == [
        ("db-1", "shop/data-db-0"),
        ("db-2", "shop/data-db-1"),
    ]


@pytest.mark.parametrize(
    "name", ["data-db", "data-db-", "data-db-x", "other-db-0", "data-dba-0", "7"]
)
def test_a_stateful_set_makes_no_other_claims(name: str) -> None:
    stranger = pod("x", metadata=owned("StatefulSet", "db"), spec=claimed(name))
    found = {each.name: each.volume_problem for each in stateful_pods(storage_class(), stranger)}
    assert found["x"] is not None


def test_only_a_stateful_set_creates_claims_from_templates() -> None:
    namesake = pod("db-x", metadata=owned("ReplicaSet", "db"), spec=claimed("data-db-7"))
    found = {each.name: each.volume_problem for each in stateful_pods(storage_class(), namesake)}
    assert found["db-0"] is None
    assert found["db-x"] is not None


def test_the_class_of_a_claim_template_is_assumed_as_well() -> None:
    assert [each.volume_problem for each in stateful_pods()] == [None, None]


def test_a_template_may_name_its_class_by_annotation() -> None:
    annotated = {"annotations": {"volume.beta.kubernetes.io/storage-class": "fast"}}
    template = {"volumeClaimTemplate": {"metadata": annotated, "spec": {}}}
    spec = {"volumes": [{"name": "scratch", "ephemeral": template}]}
    assert places(in_zone("fast", "b"), spec=spec) == [f"{ZONE} In [b]"]
