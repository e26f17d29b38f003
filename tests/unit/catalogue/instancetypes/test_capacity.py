"""Capacity of nodes: memory, volumes, extended resources, declared amounts, and their rules."""

import string
from fractions import Fraction
from typing import Final

import msgspec
import pytest

from wainwright.catalogue.instancetypes import instance_type_info
from wainwright.catalogue.instancetypes.capacity import (
    EFA,
    NEURON,
    NEURON_CORE,
    POD_ENI,
    PRIVATE_IPV4_ADDRESS,
    DerivedResources,
    compute_ephemeral_storage,
    compute_memory,
    derive_resources,
    extended_resources,
    node_resources_by_type,
    to_node_resources,
)
from wainwright.catalogue.instancetypes.derived_amount import (
    GIB,
    MIB,
    DerivationRule,
    DerivedAmount,
    plain_amounts,
)
from wainwright.catalogue.instancetypes.instance_type_info import GpuInfo, InstanceTypeInfo
from wainwright.catalogue.instancetypes.max_pods import eni_budget, max_branch_enis
from wainwright.catalogue.instancetypes.node_class_settings import (
    AmiFamily,
    BlockDeviceSettings,
    CatalogOptions,
    InstanceStorePolicy,
    KubeletSettings,
    NetworkInterfaceSettings,
    NodeClassSettings,
    ResourceOverride,
    parse_eviction_threshold,
)
from wainwright.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS


def resources_of(
    name: str, override: ResourceOverride, settings: NodeClassSettings | None = None
) -> DerivedResources:
    return derive_resources(
        instance_type_info.built_in_instance_types()[name],
        settings or NodeClassSettings(),
        override,
    )


def test_the_vm_memory_overhead_is_rounded_up() -> None:
    assert (
        compute_memory(
            instance_type_info.built_in_instance_types()["m5.xlarge"], Fraction(75, 1000)
        ).amount
        == 15155 * MIB
    )


def test_arm64_reserves_64_mebibytes_first() -> None:
    found = compute_memory(
        instance_type_info.built_in_instance_types()["m6g.large"], Fraction(75, 1000)
    )
    assert found.amount == (8192 - 64 - 610) * MIB
    assert found.rule is DerivationRule.VM_MEMORY_ARM


def test_the_vm_memory_overhead_can_be_set() -> None:
    settings = NodeClassSettings(options=CatalogOptions(vm_memory_overhead=Fraction(0)))
    assert (
        resources_of("m5.xlarge", ResourceOverride(), settings).capacity[MEMORY].amount == 16 * GIB
    )


def test_declared_memory_overhead_replaces_the_vm_memory_overhead() -> None:
    found = resources_of("c5.large", ResourceOverride(overhead={MEMORY: 200 * MIB}))
    assert found.capacity[MEMORY].amount == (4096 - 200) * MIB
    assert found.capacity[MEMORY].rule is DerivationRule.DECLARED_VM_MEMORY
    assert MEMORY not in found.overhead.declared


def test_declared_memory_overhead_keeps_the_arm64_reservation() -> None:
    found = resources_of("c6g.large", ResourceOverride(overhead={MEMORY: 200 * MIB}))
    assert found.capacity[MEMORY].amount == (4096 - 64 - 200) * MIB


def test_declared_memory_is_used_unchanged() -> None:
    found = resources_of("c5.large", ResourceOverride(resources={MEMORY: 3 * GIB}))
    assert found.capacity[MEMORY].amount == 3 * GIB


def test_declared_overhead_is_subtracted_from_declared_memory() -> None:
    resources = {MEMORY: 3 * GIB}
    without = resources_of("c5.large", ResourceOverride(resources=resources))
    found = resources_of(
        "c5.large", ResourceOverride(resources=resources, overhead={MEMORY: 200 * MIB})
    )
    assert found.capacity[MEMORY].amount == 3 * GIB
    assert found.allocatable()[MEMORY] == without.allocatable()[MEMORY] - 200 * MIB


def test_an_overhead_larger_than_the_memory_leaves_none() -> None:
    found = resources_of("c5.large", ResourceOverride(overhead={MEMORY: 1000 * GIB}))
    assert found.capacity[MEMORY].amount == 0


def test_other_declared_overhead_is_subtracted() -> None:
    found = resources_of("c5.large", ResourceOverride(overhead={CPU: 100, EPHEMERAL_STORAGE: GIB}))
    assert found.allocatable()[CPU] == 2000 - 70 - 100
    assert found.allocatable()[EPHEMERAL_STORAGE] == 16 * GIB


def test_declared_devices_are_added_to_the_known_ones() -> None:
    found = resources_of("c4.large", ResourceOverride(resources={"hardware-vendor.example/foo": 2}))
    assert found.allocatable()["hardware-vendor.example/foo"] == 2
    assert found.capacity["hardware-vendor.example/foo"].rule is DerivationRule.DECLARED
    assert found.capacity[CPU].amount == 2000


def test_a_declared_device_replaces_a_known_one() -> None:
    found = resources_of("g5.xlarge", ResourceOverride(resources={"nvidia.com/gpu": 4}))
    assert found.allocatable()["nvidia.com/gpu"] == 4


def test_kube_reserved_cpu_and_pods_per_core_follow_declared_cpu() -> None:
    settings = NodeClassSettings(kubelet=KubeletSettings(pods_per_core=10))
    found = resources_of("m5.xlarge", ResourceOverride(resources={CPU: 2000}), settings)
    assert found.allocatable()[CPU] == 1930
    assert found.capacity[PODS].amount == 20


def test_declared_pods_are_capped_by_the_class_and_count_in_reserved_memory() -> None:
    settings = NodeClassSettings(kubelet=KubeletSettings(max_pods=8))
    found = resources_of("m5.xlarge", ResourceOverride(resources={PODS: 10}), settings)
    assert found.capacity[PODS].amount == 8
    assert found.overhead.kube_reserved[MEMORY].amount == (255 + 110) * MIB
    assert found.overhead.kube_reserved[MEMORY].rule is DerivationRule.KUBE_MEMORY_DECLARED


def test_eviction_percentages_are_of_the_declared_capacity() -> None:
    settings = NodeClassSettings(
        kubelet=KubeletSettings(eviction_hard={"memory.available": parse_eviction_threshold("5%")})
    )
    found = resources_of("m5.xlarge", ResourceOverride(resources={MEMORY: 10 * GIB}), settings)
    assert found.overhead.eviction[MEMORY].amount == 512 * MIB


def test_the_default_eviction_threshold_is_of_declared_storage() -> None:
    found = resources_of("m5.xlarge", ResourceOverride(resources={EPHEMERAL_STORAGE: 100 * GIB}))
    assert found.allocatable()[EPHEMERAL_STORAGE] == 89 * GIB


def test_the_smallest_type_can_have_negative_allocatable_memory() -> None:
    settings = NodeClassSettings(ami_family=AmiFamily.WINDOWS2022)
    assert resources_of("t3.nano", ResourceOverride(), settings).allocatable()[MEMORY] < 0


ROOT = BlockDeviceSettings(device="/dev/sdx", size=70 * GIB, root=True)
FIRST = BlockDeviceSettings(device="/dev/xvda", size=30 * GIB)
SECOND = BlockDeviceSettings(device="/dev/xvdb", size=40 * GIB)


def disk(
    *devices: BlockDeviceSettings,
    family: AmiFamily = AmiFamily.AL2023,
    policy: InstanceStorePolicy | None = None,
    name: str = "m5d.large",
) -> DerivedAmount:
    settings = NodeClassSettings(
        ami_family=family, block_devices=devices, instance_store_policy=policy
    )
    return compute_ephemeral_storage(instance_type_info.built_in_instance_types()[name], settings)


def test_striped_local_disks_override_volumes() -> None:
    assert disk(ROOT, policy=InstanceStorePolicy.RAID0) == DerivedAmount(
        75 * 10**9, DerivationRule.LOCAL_DISKS, {"local_storage_gb": 75}
    )


def test_a_type_without_local_disks_ignores_raid0() -> None:
    found = disk(ROOT, policy=InstanceStorePolicy.RAID0, name="m5.large")
    assert found.rule is DerivationRule.ROOT_VOLUME


def test_local_disks_count_only_when_the_class_stripes_them() -> None:
    assert disk() == DerivedAmount(20 * GIB, DerivationRule.DEFAULT_VOLUME, {"device": "/dev/xvda"})


def test_the_root_volume_overrides_the_device_of_the_family() -> None:
    assert disk(FIRST, ROOT) == DerivedAmount(
        70 * GIB, DerivationRule.ROOT_VOLUME, {"device": "/dev/sdx"}
    )


def test_a_root_volume_without_size_is_ignored() -> None:
    unsized = BlockDeviceSettings(device="/dev/sdx", root=True)
    assert disk(unsized, FIRST).amount == 30 * GIB


def test_each_family_stores_pods_on_its_own_device() -> None:
    assert disk(FIRST, SECOND).amount == 30 * GIB
    assert disk(FIRST, SECOND, family=AmiFamily.BOTTLEROCKET).amount == 40 * GIB


def test_a_custom_image_is_assumed_to_use_the_last_device() -> None:
    found = disk(FIRST, SECOND, family=AmiFamily.CUSTOM)
    assert found == DerivedAmount(40 * GIB, DerivationRule.LAST_VOLUME, {"device": "/dev/xvdb"})


def test_a_custom_image_without_sizes_is_assumed_to_have_20_gib() -> None:
    assert disk(family=AmiFamily.CUSTOM) == DerivedAmount(20 * GIB, DerivationRule.PLAIN_DEFAULT)
    unsized = BlockDeviceSettings(device="/dev/xvda")
    assert disk(FIRST, unsized, family=AmiFamily.CUSTOM).rule is DerivationRule.PLAIN_DEFAULT


@pytest.mark.parametrize(
    ("family", "size"),
    [
        (AmiFamily.AL2, 20),
        (AmiFamily.AL2023, 20),
        (AmiFamily.BOTTLEROCKET, 20),
        (AmiFamily.WINDOWS2019, 50),
        (AmiFamily.WINDOWS2025, 50),
    ],
)
def test_without_devices_the_size_is_the_default_of_the_family(
    family: AmiFamily, size: int
) -> None:
    assert disk(family=family).amount == size * GIB


def test_a_device_without_size_keeps_the_default_of_the_family() -> None:
    assert disk(BlockDeviceSettings(device="/dev/xvda")).rule is DerivationRule.DEFAULT_VOLUME


def volume_for_pods(per_pod: int, nodefs: str = "10%") -> dict[str, int]:
    settings = NodeClassSettings(
        kubelet=KubeletSettings(
            eviction_hard={"nodefs.available": parse_eviction_threshold(nodefs)}
        ),
        options=CatalogOptions(storage_per_pod=per_pod),
    )
    derived = derive_resources(instance_type_info.built_in_instance_types()["m5.xlarge"], settings)
    return {
        "capacity": derived.capacity[EPHEMERAL_STORAGE].amount,
        "left": derived.allocatable()[EPHEMERAL_STORAGE],
    }


@pytest.mark.parametrize("nodefs", ["10%", "100%", "5Gi"])
def test_a_volume_grows_until_a_full_node_has_enough_for_each_pod(nodefs: str) -> None:
    found = volume_for_pods(2 * GIB, nodefs=nodefs)
    assert found["left"] >= 58 * 2 * GIB
    assert found["left"] - GIB < 58 * 2 * GIB
    assert found["capacity"] % GIB == 0


def test_a_volume_that_is_large_enough_does_not_grow() -> None:
    assert volume_for_pods(100)["capacity"] == 20 * GIB


def test_local_disks_do_not_grow() -> None:
    settings = NodeClassSettings(
        instance_store_policy=InstanceStorePolicy.RAID0,
        options=CatalogOptions(storage_per_pod=100 * GIB),
    )
    derived = derive_resources(instance_type_info.built_in_instance_types()["m5d.large"], settings)
    assert derived.capacity[EPHEMERAL_STORAGE].rule is DerivationRule.LOCAL_DISKS


def info_of(name: str) -> InstanceTypeInfo:
    return instance_type_info.built_in_instance_types()[name]


def resources(name: str, settings: NodeClassSettings | None = None) -> dict[str, int]:
    return plain_amounts(extended_resources(info_of(name), settings or NodeClassSettings()))


def test_an_ordinary_type_has_only_branch_interfaces() -> None:
    assert resources("m5.large") == {POD_ENI: 9}


@pytest.mark.parametrize("name", ["t3.large", "t4g.large", "m4.large", "u-6tb1.112xlarge"])
def test_burstable_xen_and_u_6tb1_types_have_no_branch_interfaces(name: str) -> None:
    assert max_branch_enis(info_of(name)) is None
    assert POD_ENI not in resources(name)


def test_exceptions_from_the_branch_rule_are_listed() -> None:
    listed = max_branch_enis(info_of("i4i.8xlarge"))
    assert listed is not None
    assert (listed.amount, listed.rule) == (112, DerivationRule.BRANCH_LISTED)


@pytest.mark.parametrize(
    ("name", "interfaces"),
    [
        ("m6g.medium", 6),
        ("m5.large", 12),
        ("m5.xlarge", 22),
        ("m5.2xlarge", 42),
        ("c5d.9xlarge", 62),
        ("m5.8xlarge", 62),
        ("m6i.8xlarge", 92),
        ("m7g.8xlarge", 62),
        ("m6i.12xlarge", 122),
        ("m5.12xlarge", 62),
        ("m7i-flex.large", 6),
        ("m7i-flex.xlarge", 12),
        ("m5.16xlarge", 122),
    ],
)
def test_the_eni_budget_depends_on_vcpus_generation_and_manufacturer(
    name: str, interfaces: int
) -> None:
    assert eni_budget(info_of(name)) == interfaces


def test_neuron_devices_come_with_their_cores() -> None:
    found = resources("inf1.xlarge")
    assert (found[NEURON], found[NEURON_CORE]) == (1, 4)


def test_an_accelerator_of_another_manufacturer_is_not_neuron() -> None:
    assert NEURON not in resources("dl2q.24xlarge")


@pytest.mark.parametrize(
    ("manufacturer", "resource"),
    [("nvidia", "nvidia.com/gpu"), ("amd", "amd.com/gpu"), ("habana", "habana.ai/gaudi")],
)
def test_each_gpu_manufacturer_has_its_own_resource(manufacturer: str, resource: str) -> None:
    info = msgspec.structs.replace(info_of("m5.large"), gpu=GpuInfo("any", manufacturer, 4, 1024))
    assert plain_amounts(extended_resources(info, NodeClassSettings()))[resource] == 4


def test_efa_interfaces_are_those_of_the_type() -> None:
    assert resources("p5.48xlarge")[EFA] == 32


def test_a_class_with_network_interfaces_has_only_its_efa_interfaces() -> None:
    attached = (NetworkInterfaceSettings(card=0), NetworkInterfaceSettings(card=1, efa_only=True))
    assert resources("p5.48xlarge", NodeClassSettings(network_interfaces=attached))[EFA] == 1


def test_windows_has_private_addresses_on_amd64() -> None:
    settings = NodeClassSettings(ami_family=AmiFamily.WINDOWS2022)
    assert resources("m5.large", settings)[PRIVATE_IPV4_ADDRESS] == 9
    assert PRIVATE_IPV4_ADDRESS not in resources("m6g.large", settings)


def test_capacity_is_explained_by_its_rules() -> None:
    derived = derive_resources(
        instance_type_info.built_in_instance_types()["m5.xlarge"], NodeClassSettings()
    )
    explanations = {name: derived.explain() for name, derived in derived.capacity.items()}
    assert explanations[CPU] == "the type has 4 vCPUs"
    assert explanations[MEMORY] == (
        "16Gi of the type, less 7.5 % for the virtual machine, rounded up to 1229Mi"
    )
    assert explanations[PODS] == (
        "4 network interfaces × (15 addresses each − 1) + 2; the type has 4 interfaces, "
        "0 of them reserved and 0 only for EFA"
    )
    assert explanations[EPHEMERAL_STORAGE].startswith("the default volume of this AMI family")


def test_overhead_is_explained_by_its_rules() -> None:
    overhead = derive_resources(
        instance_type_info.built_in_instance_types()["m5.xlarge"], NodeClassSettings()
    ).overhead
    assert overhead.kube_reserved[MEMORY].explain() == (
        "255Mi + 11Mi × 58 pods that the network interfaces allow"
    )
    assert overhead.eviction[EPHEMERAL_STORAGE].explain() == (
        "the kubelet's own threshold of nodefs.available: 10 % of 20Gi"
    )


@pytest.mark.parametrize("rule", DerivationRule)
def test_a_rule_is_a_sentence_without_its_amount(rule: DerivationRule) -> None:
    named = {name for _, name, _, _ in string.Formatter().parse(rule.value) if name}
    explanations = DerivedAmount(1, rule, dict.fromkeys(named, 7)).explain()
    assert explanations
    assert "{" not in explanations


def test_each_rule_has_its_own_sentence() -> None:
    assert len(DerivationRule.__members__) == len(set(DerivationRule))


DIFFERENT_INPUTS: Final = {
    "vcpus": 6,
    "memory_mib": 77_777,
    "architecture": "arm64",
    "hypervisor": "xen",
    "addresses_per_interface": 9,
    "network_interfaces": 5,
    "all_network_interfaces": 7,
    "ebs_attachments": 13,
    "dedicated_ebs_attachments": True,
    "local_storage_gb": 1_234,
    "efa_interfaces": 3,
    "gpu": None,
    "accelerator": None,
    "branch_interfaces": 11,
}
TYPES: Final = (
    "c4.large",
    "i3.large",
    "inf2.xlarge",
    "m5.large",
    "m7g.medium",
    "m7i.large",
    "p5.48xlarge",
)


OTHER_SETTINGS = NodeClassSettings(
    ami_family=AmiFamily.WINDOWS2022, instance_store_policy=InstanceStorePolicy.RAID0
)


@pytest.mark.parametrize("settings", [NodeClassSettings(), OTHER_SETTINGS])
def test_types_that_share_their_resources_have_those_of_their_own(
    settings: NodeClassSettings,
) -> None:
    """Each input that `resource_inputs` and `attach_limit_inputs` lack would show here, on types
    that differ in it alone.
    """
    by_name = {}
    for info in map(instance_type_info.built_in_instance_types().__getitem__, TYPES):
        by_name[info.name] = info
        for field, value in DIFFERENT_INPUTS.items():
            changed = msgspec.structs.replace(info, **{field: value})
            by_name[f"{info.name} with another {field}"] = changed
    shared = node_resources_by_type(by_name, settings)
    for name, info in by_name.items():
        assert shared[name] == to_node_resources(derive_resources(info, settings)), name
