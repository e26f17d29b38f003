"""CSI drivers: what is attached to nodes, and how much of it they take."""

import pytest
from tests.unit.manifests.translate.disks import (
    EBS,
    attached,
    bound,
    claim,
    claimed,
    placed,
    storage_class,
    volume,
)
from tests.unit.manifests.translate.objects import (
    Value,
    node,
    pod,
    thing,
    translated,
)
from tests.unit.manifests.translate.objects import (
    claim as node_claim,
)

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
def test_disks_of_old_count_against_the_driver_that_took_them_over(name: str) -> None:
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
def test_a_volume_yet_to_be_made_counts_against_the_driver_of_its_class(
    provisioner: str, driver: str
) -> None:
    found = attached(claim(), storage_class(provisioner=provisioner))
    assert found == [(driver, "shop/data")]


def test_a_volume_that_several_pods_share_has_one_name() -> None:
    around = (bound(), volume(), pod("a", spec=claimed("data")), pod("b", spec=claimed("data")))
    one, other = translated(*around).snapshot.pods
    assert one.bonds is other.bonds


def test_claims_of_different_namespaces_are_different() -> None:
    away = {"namespace": "other"}
    around = (
        claim(),
        claim(metadata=away),
        storage_class(),
        pod("a", spec=claimed("data")),
        pod("a", metadata=away, spec=claimed("data")),
    )
    found = [each.bonds.attachments[0].volume for each in translated(*around).snapshot.pods]
    assert found == ["other/data", "shop/data"]


def test_attachments_are_in_order_and_each_is_there_once() -> None:
    found = attached(
        *(bound(name, f"pv-{name}") for name in "abcdef"),
        *(volume(f"pv-{name}") for name in "abcdef"),
        spec=claimed(*"fdbace", "a"),
    )
    assert found == [(EBS, f"vol-pv-{name}") for name in "abcdef"]


def test_nobody_attaches_what_a_class_does_not_make() -> None:
    by_hand = storage_class(provisioner="kubernetes.io/no-provisioner")
    assert placed(claim(), by_hand).bonds.attachments == ()


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


def test_of_a_machine_under_way_nothing_is_known_yet() -> None:
    [found] = translated(node_claim("web-1"), csi_node("web-1", ebs=25)).snapshot.nodes
    assert found.attach_limits == {}
