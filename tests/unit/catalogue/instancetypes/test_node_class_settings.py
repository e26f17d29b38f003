"""EC2NodeClass settings, and the types that a class cannot launch."""

from typing import Any

import pytest
from tests.support.catalogue_builders import node_class_object

from wainwright.catalogue.diagnostics import InvalidCatalogInput
from wainwright.catalogue.instancetypes import instance_type_info
from wainwright.catalogue.instancetypes.derived_amount import GIB
from wainwright.catalogue.instancetypes.node_class_settings import (
    AmiFamily,
    BlockDeviceSettings,
    CatalogOptions,
    Incompatibility,
    InstanceStorePolicy,
    NetworkInterfaceSettings,
    NodeClassSettings,
    find_incompatibility,
    parse_eviction_threshold,
    parse_node_class,
)
from wainwright.translate.annotations import (
    MEMORY_STRATEGY_ANNOTATION,
    STORAGE_PER_POD_ANNOTATION,
    KubeReservedMemoryStrategy,
)


def settings(**spec: Any) -> NodeClassSettings:
    return parse_node_class(node_class_object(**spec), CatalogOptions())


@pytest.mark.parametrize("family", [each for each in AmiFamily if each is not AmiFamily.CUSTOM])
def test_an_alias_determines_the_family(family: AmiFamily) -> None:
    terms = [{"alias": f"{family.value.lower()}@latest"}]
    assert settings(amiSelectorTerms=terms).ami_family is family


def test_ami_family_overrides_the_alias() -> None:
    terms = [{"alias": "al2023@latest"}]
    assert settings(amiSelectorTerms=terms, amiFamily="Custom").ami_family is AmiFamily.CUSTOM


def test_images_by_id_without_a_family_are_al2023() -> None:
    assert settings(amiSelectorTerms=[{"id": "ami-1"}]).ami_family is AmiFamily.AL2023


def test_block_devices_keep_order_size_and_root_flag() -> None:
    mappings = [
        {"deviceName": "/dev/xvda", "ebs": {"volumeSize": "100Gi"}, "rootVolume": True},
        {"deviceName": "/dev/xvdb", "ebs": {"snapshotID": "snap-1"}},
    ]
    assert settings(blockDeviceMappings=mappings).block_devices == (
        BlockDeviceSettings(device="/dev/xvda", size=100 * GIB, root=True),
        BlockDeviceSettings(device="/dev/xvdb"),
    )


def test_instance_store_policy_and_interfaces_are_parsed() -> None:
    interfaces = [
        {"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"},
        {"networkCardIndex": 1, "deviceIndex": 1, "interfaceType": "efa-only"},
    ]
    made = settings(instanceStorePolicy="RAID0", networkInterfaces=interfaces)
    assert made.instance_store_policy is InstanceStorePolicy.RAID0
    assert made.network_interfaces == (
        NetworkInterfaceSettings(card=0),
        NetworkInterfaceSettings(card=1, efa_only=True),
    )


def test_max_pods_may_be_a_string() -> None:
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
def test_expressions_are_an_error_with_their_field(kubelet: dict[str, object], path: str) -> None:
    with pytest.raises(InvalidCatalogInput, match="expressions are not supported yet") as caught:
        settings(kubelet=kubelet)
    assert f"EC2NodeClass default: {path}: " in caught.value.message


def test_an_empty_threshold_is_ignored() -> None:
    given = {"memory.available": "", "nodefs.available": "5%"}
    assert settings(kubelet={"evictionHard": given}).kubelet.eviction_hard == {
        "nodefs.available": parse_eviction_threshold("5%")
    }


def test_annotations_set_memory_strategy_and_storage_per_pod() -> None:
    made = settings(
        annotations={MEMORY_STRATEGY_ANNOTATION: "GKE", STORAGE_PER_POD_ANNOTATION: "1Gi"}
    )
    assert made.kubelet.kube_reserved_memory_strategy is KubeReservedMemoryStrategy.GKE
    assert made.options.storage_per_pod == GIB


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (MEMORY_STRATEGY_ANNOTATION, "gke"),
        (STORAGE_PER_POD_ANNOTATION, "much"),
        (STORAGE_PER_POD_ANNOTATION, "-1"),
    ],
)
def test_invalid_annotations_are_an_error(key: str, value: str) -> None:
    with pytest.raises(InvalidCatalogInput, match="expected"):
        settings(annotations={key: value})


def incompatibility(name: str, settings: NodeClassSettings) -> Incompatibility | None:
    return find_incompatibility(instance_type_info.built_in_instance_types()[name], settings)


def test_al2023_is_incompatible_with_a1() -> None:
    assert incompatibility("a1.large", NodeClassSettings()) is Incompatibility.NO_IMAGE


@pytest.mark.parametrize("family", [AmiFamily.AL2, AmiFamily.BOTTLEROCKET, AmiFamily.CUSTOM])
def test_other_families_are_compatible_with_a1(family: AmiFamily) -> None:
    assert incompatibility("a1.large", NodeClassSettings(ami_family=family)) is None


def test_windows_needs_amd64() -> None:
    settings = NodeClassSettings(ami_family=AmiFamily.WINDOWS2022)
    assert incompatibility("m6g.large", settings) is Incompatibility.NO_WINDOWS
    assert incompatibility("m5.large", settings) is None


def test_a_type_needs_the_efa_interfaces_that_the_class_attaches() -> None:
    settings = NodeClassSettings(
        network_interfaces=(NetworkInterfaceSettings(card=0, efa_only=True),)
    )
    assert incompatibility("m5.large", settings) is Incompatibility.TOO_FEW_EFA
    assert incompatibility("c5n.18xlarge", settings) is None


def test_a_type_needs_the_network_cards_that_the_class_uses() -> None:
    settings = NodeClassSettings(network_interfaces=(NetworkInterfaceSettings(card=1),))
    assert incompatibility("m5.large", settings) is Incompatibility.TOO_FEW_CARDS
    assert incompatibility("c6in.32xlarge", settings) is None
