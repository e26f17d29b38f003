"""The well-known labels of an instance type, by which pods and NodePools choose it.

Zone, zone id and capacity type are left to the offerings. Requirements made of the labels are
shared by all node classes with the same operating system.
"""

from collections.abc import Mapping
from functools import cache
from typing import Final, TypeAlias

from wainwright.catalogue import regions
from wainwright.catalogue.instancetypes import instance_type_info
from wainwright.catalogue.instancetypes.instance_type_info import (
    AcceleratorInfo,
    GpuInfo,
    InstanceTypeInfo,
    LazyMapping,
)
from wainwright.catalogue.instancetypes.node_class_settings import AmiFamilyTraits
from wainwright.model.requirements import Requirement, Requirements, one_of

ARCH: Final = "kubernetes.io/arch"
OS: Final = "kubernetes.io/os"
WINDOWS_BUILD: Final = "node.kubernetes.io/windows-build"
INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
REGION: Final = "topology.kubernetes.io/region"
ZONE: Final = "topology.kubernetes.io/zone"
ZONE_ID: Final = "topology.k8s.aws/zone-id"
CAPACITY_TYPE: Final = "karpenter.sh/capacity-type"
TENANCIES: Final = ("dedicated", "default")

INSTANCE_CATEGORY: Final = "karpenter.k8s.aws/instance-category"
INSTANCE_FAMILY: Final = "karpenter.k8s.aws/instance-family"
INSTANCE_GENERATION: Final = "karpenter.k8s.aws/instance-generation"
INSTANCE_SIZE: Final = "karpenter.k8s.aws/instance-size"
INSTANCE_CAPABILITY_FLEX: Final = "karpenter.k8s.aws/instance-capability-flex"
INSTANCE_HYPERVISOR: Final = "karpenter.k8s.aws/instance-hypervisor"
INSTANCE_CPU: Final = "karpenter.k8s.aws/instance-cpu"
INSTANCE_CPU_MANUFACTURER: Final = "karpenter.k8s.aws/instance-cpu-manufacturer"
INSTANCE_CPU_SPEED: Final = "karpenter.k8s.aws/instance-cpu-sustained-clock-speed-mhz"
INSTANCE_MEMORY: Final = "karpenter.k8s.aws/instance-memory"
INSTANCE_ENCRYPTION_IN_TRANSIT: Final = "karpenter.k8s.aws/instance-encryption-in-transit-supported"
INSTANCE_EBS_BANDWIDTH: Final = "karpenter.k8s.aws/instance-ebs-bandwidth"
INSTANCE_NETWORK_BANDWIDTH: Final = "karpenter.k8s.aws/instance-network-bandwidth"
INSTANCE_LOCAL_NVME: Final = "karpenter.k8s.aws/instance-local-nvme"
INSTANCE_GPU_NAME: Final = "karpenter.k8s.aws/instance-gpu-name"
INSTANCE_GPU_MANUFACTURER: Final = "karpenter.k8s.aws/instance-gpu-manufacturer"
INSTANCE_GPU_COUNT: Final = "karpenter.k8s.aws/instance-gpu-count"
INSTANCE_GPU_MEMORY: Final = "karpenter.k8s.aws/instance-gpu-memory"
INSTANCE_ACCELERATOR_NAME: Final = "karpenter.k8s.aws/instance-accelerator-name"
INSTANCE_ACCELERATOR_MANUFACTURER: Final = "karpenter.k8s.aws/instance-accelerator-manufacturer"
INSTANCE_ACCELERATOR_COUNT: Final = "karpenter.k8s.aws/instance-accelerator-count"
INSTANCE_TENANCY: Final = "karpenter.k8s.aws/instance-tenancy"

LabelValues: TypeAlias = dict[str, tuple[str, ...]]


def instance_type_labels(
    info: InstanceTypeInfo, traits: AmiFamilyTraits, region: str
) -> LabelValues:
    """What is true of the type wherever it runs and however it is bought, by key.

    Zone, zone id and capacity type are left to the offerings. A label that a type does not have is
    not there; several values mean that a node of the type can be either.
    """
    return family_labels(info, traits, region) | size_labels(info)


def family_labels(info: InstanceTypeInfo, traits: AmiFamilyTraits, region: str) -> LabelValues:
    """What the sizes of a family have in common, as long as they are equally `kin`."""
    labels = {
        ARCH: info.architecture,
        REGION: region,
        INSTANCE_FAMILY: info.family,
        INSTANCE_CAPABILITY_FLEX: _bool_label(info.flex),
        INSTANCE_HYPERVISOR: info.hypervisor,
        INSTANCE_CPU_MANUFACTURER: info.cpu_manufacturer,
        INSTANCE_CPU_SPEED: str(info.clock_mhz),
        INSTANCE_ENCRYPTION_IN_TRANSIT: _bool_label(info.encryption_in_transit),
    }
    if info.category is not None:
        labels |= {INSTANCE_CATEGORY: info.category, INSTANCE_GENERATION: str(info.generation)}
    return _single_values(labels | _os_labels(info, traits)) | {INSTANCE_TENANCY: TENANCIES}


def family_key(info: InstanceTypeInfo) -> tuple[str | int, ...]:
    """Instances that agree in this agree in `kin_labels`."""
    return (
        info.family,
        info.architecture,
        info.hypervisor,
        info.cpu_manufacturer,
        info.clock_mhz,
        info.encryption_in_transit,
    )


def size_labels(info: InstanceTypeInfo) -> LabelValues:
    """What sets the type apart from its family."""
    labels = {
        INSTANCE_TYPE: info.name,
        INSTANCE_SIZE: info.size,
        INSTANCE_CPU: str(info.vcpus),
        INSTANCE_MEMORY: str(info.memory_mib),
    }
    if info.ebs_mbps is not None:
        labels[INSTANCE_EBS_BANDWIDTH] = str(info.ebs_mbps)
    if info.network_mbps is not None:
        labels[INSTANCE_NETWORK_BANDWIDTH] = str(info.network_mbps)
    if info.nvme:
        labels[INSTANCE_LOCAL_NVME] = str(info.local_storage_gb)
    if info.gpu is not None:
        labels |= _gpu_labels(info.gpu)
    if info.accelerator is not None:
        labels |= _accelerator_labels(info.accelerator)
    return _single_values(labels)


def _single_values(labels: dict[str, str]) -> LabelValues:
    return {key: (value,) for key, value in labels.items()}


def _gpu_labels(gpu: GpuInfo) -> dict[str, str]:
    return {
        INSTANCE_GPU_NAME: gpu.name,
        INSTANCE_GPU_MANUFACTURER: gpu.manufacturer,
        INSTANCE_GPU_COUNT: str(gpu.count),
        INSTANCE_GPU_MEMORY: str(gpu.memory_mib),
    }


def _accelerator_labels(accelerator: AcceleratorInfo) -> dict[str, str]:
    return {
        INSTANCE_ACCELERATOR_NAME: accelerator.name,
        INSTANCE_ACCELERATOR_MANUFACTURER: accelerator.manufacturer,
        INSTANCE_ACCELERATOR_COUNT: str(accelerator.count),
    }


def _os_labels(info: InstanceTypeInfo, traits: AmiFamilyTraits) -> dict[str, str]:
    """Windows runs on amd64 only: other types have no operating system under such a class."""
    if not traits.windows_build:
        return {OS: "linux"}
    if info.architecture != "amd64":
        return {WINDOWS_BUILD: traits.windows_build}
    return {WINDOWS_BUILD: traits.windows_build, OS: "windows"}


def _bool_label(value: bool) -> str:
    return "true" if value else "false"


@cache
def type_requirements(region: str, traits: AmiFamilyTraits) -> Mapping[str, Requirements]:
    """For every type that the region offers, what its labels can be, in the order of names."""
    infos = instance_type_info.built_in_instance_types()
    kindred: dict[tuple[str | int, ...], list[Requirement]] = {}

    def made(name: str) -> Requirements:
        info = infos[name]
        relation = family_key(info)
        shared = kindred.get(relation)
        if shared is None:
            shared = kindred[relation] = _to_requirements(family_labels(info, traits, region))
        return Requirements([*shared, *_to_requirements(size_labels(info))])

    return LazyMapping(regions.load_region(region).offered, made)


def _to_requirements(labels: LabelValues) -> list[Requirement]:
    return [_to_requirement(key, values) for key, values in labels.items()]


@cache
def _to_requirement(key: str, values: tuple[str, ...]) -> Requirement:
    return Requirement(
        key=key, allowed=one_of(_valid_arch_values(values) if key == ARCH else values)
    )


def _valid_arch_values(architectures: tuple[str, ...]) -> tuple[str, ...]:
    """The word that stands for a Mac's architecture is in brackets, which no label value may be."""
    return tuple(value.strip("[]") for value in architectures)
