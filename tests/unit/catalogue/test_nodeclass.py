"""EC2NodeClass objects as the rules of the catalogue see them."""

from typing import Any

import pytest
from tests.support.catalogue import node_class

from wainwright.catalogue.ami import AmiFamily
from wainwright.catalogue.figure import GIB
from wainwright.catalogue.nodeclass import MEMORY_STRATEGY, STORAGE_PER_POD, settings_of
from wainwright.catalogue.remarks import Refused
from wainwright.catalogue.settings import (
    BlockDevice,
    ClassSettings,
    InstanceStorePolicy,
    MemoryStrategy,
    NetworkInterface,
    Options,
)
from wainwright.catalogue.threshold import threshold


def settings(**spec: Any) -> ClassSettings:
    return settings_of(node_class(**spec), Options())


@pytest.mark.parametrize("family", [each for each in AmiFamily if each is not AmiFamily.CUSTOM])
def test_an_alias_names_the_family(family: AmiFamily) -> None:
    terms = [{"alias": f"{family.value.lower()}@latest"}]
    assert settings(amiSelectorTerms=terms).ami_family is family


def test_a_family_that_is_named_goes_before_the_alias() -> None:
    terms = [{"alias": "al2023@latest"}]
    assert settings(amiSelectorTerms=terms, amiFamily="Custom").ami_family is AmiFamily.CUSTOM


def test_images_by_id_without_a_family_are_al2023() -> None:
    assert settings(amiSelectorTerms=[{"id": "ami-1"}]).ami_family is AmiFamily.AL2023


def test_disks_keep_their_order_size_and_root() -> None:
    mappings = [
        {"deviceName": "/dev/xvda", "ebs": {"volumeSize": "100Gi"}, "rootVolume": True},
        {"deviceName": "/dev/xvdb", "ebs": {"snapshotID": "snap-1"}},
    ]
    assert settings(blockDeviceMappings=mappings).block_devices == (
        BlockDevice(device="/dev/xvda", size=100 * GIB, root=True),
        BlockDevice(device="/dev/xvdb"),
    )


def test_local_disks_and_interfaces_are_carried_over() -> None:
    interfaces = [
        {"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"},
        {"networkCardIndex": 1, "deviceIndex": 1, "interfaceType": "efa-only"},
    ]
    made = settings(instanceStorePolicy="RAID0", networkInterfaces=interfaces)
    assert made.instance_store_policy is InstanceStorePolicy.RAID0
    assert made.network_interfaces == (
        NetworkInterface(card=0),
        NetworkInterface(card=1, efa_only=True),
    )


def test_a_number_of_pods_may_be_written_as_text() -> None:
    assert settings(kubelet={"maxPods": "110"}).kubelet.max_pods == 110
    assert settings(kubelet={"maxPods": 30}).kubelet.max_pods == 30


@pytest.mark.parametrize(
    ("kubelet", "path"),
    [
        ({"maxPods": "max_pods - 2"}, "spec.kubelet.maxPods"),
        ({"kubeReserved": {"cpu": "vcpus * 10"}}, "spec.kubelet.kubeReserved.cpu"),
        ({"systemReserved": {"memory": "memory_mib / 100"}}, "spec.kubelet.systemReserved.memory"),
    ],
)
def test_expressions_are_refused_by_the_name_of_their_field(
    kubelet: dict[str, object], path: str
) -> None:
    with pytest.raises(Refused, match="expressions are not supported yet") as caught:
        settings(kubelet=kubelet)
    assert f"EC2NodeClass default: {path}: " in caught.value.message


def test_an_empty_threshold_sets_nothing() -> None:
    given = {"memory.available": "", "nodefs.available": "5%"}
    assert settings(kubelet={"evictionHard": given}).kubelet.eviction_hard == {
        "nodefs.available": threshold("5%")
    }


def test_annotations_choose_how_memory_and_disks_are_sized() -> None:
    made = settings(annotations={MEMORY_STRATEGY: "GKE", STORAGE_PER_POD: "1Gi"})
    assert made.kubelet.kube_reserved_memory_strategy is MemoryStrategy.GKE
    assert made.options.storage_per_pod == GIB


@pytest.mark.parametrize(
    ("key", "value"), [(MEMORY_STRATEGY, "gke"), (STORAGE_PER_POD, "much"), (STORAGE_PER_POD, "-1")]
)
def test_annotations_that_make_no_sense_are_refused(key: str, value: str) -> None:
    with pytest.raises(Refused, match="expected"):
        settings(annotations={key: value})
