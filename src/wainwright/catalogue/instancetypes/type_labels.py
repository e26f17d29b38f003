"""The well-known labels of an instance type, by which pods and NodePools choose it.

Zone, zone id and capacity type are left to the offerings. Requirements made of the labels are
shared by all node classes with the same operating system.
"""

from collections.abc import Mapping
from functools import cache
from typing import Final, TypeAlias, TypeVar

from wainwright.catalogue import regions
from wainwright.catalogue.instancetypes import instance_type_info
from wainwright.catalogue.instancetypes.instance_type_info import (
    AcceleratorInfo,
    GpuInfo,
    InstanceTypeInfo,
    LazyMapping,
)
from wainwright.catalogue.instancetypes.node_class_settings import AmiFamilyTraits
from wainwright.model.labels import (
    ARCH,
    AUTO_MODE_LABELS,
    INSTANCE_ACCELERATOR_COUNT,
    INSTANCE_ACCELERATOR_MANUFACTURER,
    INSTANCE_ACCELERATOR_NAME,
    INSTANCE_CAPABILITY_FLEX,
    INSTANCE_CATEGORY,
    INSTANCE_CPU,
    INSTANCE_CPU_MANUFACTURER,
    INSTANCE_CPU_SPEED,
    INSTANCE_EBS_BANDWIDTH,
    INSTANCE_ENCRYPTION_IN_TRANSIT,
    INSTANCE_FAMILY,
    INSTANCE_GENERATION,
    INSTANCE_GPU_COUNT,
    INSTANCE_GPU_MANUFACTURER,
    INSTANCE_GPU_MEMORY,
    INSTANCE_GPU_NAME,
    INSTANCE_HYPERVISOR,
    INSTANCE_LOCAL_NVME,
    INSTANCE_MEMORY,
    INSTANCE_NETWORK_BANDWIDTH,
    INSTANCE_SIZE,
    INSTANCE_TENANCY,
    INSTANCE_TYPE,
    KARPENTER_ONLY_LABELS,
    OS,
    REGION,
    WINDOWS_BUILD,
)
from wainwright.model.requirements import Requirement, Requirements, one_of

TENANCIES: Final = ("dedicated", "default")

LabelValues: TypeAlias = dict[str, tuple[str, ...]]
NamedValue = TypeVar("NamedValue")


def instance_type_labels(
    info: InstanceTypeInfo, traits: AmiFamilyTraits, region: str
) -> LabelValues:
    """The labels of the type that do not depend on the offering, by key.

    Zone, zone id and capacity type are left to the offerings. A label that a type lacks is not in
    the mapping; several values mean that a node of the type can have either.
    """
    return family_labels(info, traits, region) | size_labels(info)


def family_labels(info: InstanceTypeInfo, traits: AmiFamilyTraits, region: str) -> LabelValues:
    """The labels that all sizes with the same `family_key` have in common."""
    labels = {
        ARCH: info.architecture,
        REGION: region,
        INSTANCE_FAMILY: info.family,
        INSTANCE_CAPABILITY_FLEX: _bool_label(info.is_flex),
        INSTANCE_HYPERVISOR: info.hypervisor,
        INSTANCE_CPU_MANUFACTURER: info.cpu_manufacturer,
        INSTANCE_CPU_SPEED: str(info.clock_mhz),
        INSTANCE_ENCRYPTION_IN_TRANSIT: _bool_label(info.encryption_in_transit),
    }
    if info.category is not None:
        labels |= {INSTANCE_CATEGORY: info.category, INSTANCE_GENERATION: str(info.generation)}
    return _single_values(labels | _os_labels(info, traits)) | {INSTANCE_TENANCY: TENANCIES}


def family_key(info: InstanceTypeInfo) -> tuple[str | int, ...]:
    """Types with the same key have the same `family_labels`."""
    return (
        info.family,
        info.architecture,
        info.hypervisor,
        info.cpu_manufacturer,
        info.clock_mhz,
        info.encryption_in_transit,
    )


def size_labels(info: InstanceTypeInfo) -> LabelValues:
    """The labels in which a type differs from others of its family."""
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
    """The labels of every type that the region offers, as requirements, in the order of names.

    Requirements of family labels are built once per family and shared by its sizes.
    """
    infos = instance_type_info.built_in_instance_types()
    by_family: dict[tuple[str | int, ...], list[Requirement]] = {}

    def build(name: str) -> Requirements:
        info = infos[name]
        key = family_key(info)
        shared = by_family.get(key)
        if shared is None:
            labels = family_labels(info, traits, region)
            shared = by_family[key] = _to_requirements(name_labels(labels, traits))
        return Requirements([*shared, *_to_requirements(name_labels(size_labels(info), traits))])

    return LazyMapping(regions.load_region(region).offered, build)


def name_labels(
    labels: Mapping[str, NamedValue], traits: AmiFamilyTraits
) -> Mapping[str, NamedValue]:
    """The labels under the names that nodes with such an image have."""
    if not traits.auto_mode:
        return labels
    return {
        AUTO_MODE_LABELS.get(key, key): value
        for key, value in labels.items()
        if key not in KARPENTER_ONLY_LABELS
    }


def _to_requirements(labels: Mapping[str, tuple[str, ...]]) -> list[Requirement]:
    return [_to_requirement(key, values) for key, values in labels.items()]


@cache  # most values are those of many types: one object each, whose hash is cached
def _to_requirement(key: str, values: tuple[str, ...]) -> Requirement:
    return Requirement(
        key=key, allowed=one_of(_valid_arch_values(values) if key == ARCH else values)
    )


def _valid_arch_values(architectures: tuple[str, ...]) -> tuple[str, ...]:
    """The architectures without the brackets of a Mac's, which are not valid in a label value."""
    return tuple(value.strip("[]") for value in architectures)
