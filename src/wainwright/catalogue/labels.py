"""Labels: the well-known labels of a machine, by which pods and pools choose it."""

from typing import Final, TypeAlias

from wainwright.catalogue.ami import Traits
from wainwright.catalogue.machine import Accelerator, Gpu, Machine

ARCH: Final = "kubernetes.io/arch"
OS: Final = "kubernetes.io/os"
WINDOWS_BUILD: Final = "node.kubernetes.io/windows-build"
INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
REGION: Final = "topology.kubernetes.io/region"
ZONE: Final = "topology.kubernetes.io/zone"
ZONE_ID: Final = "topology.k8s.aws/zone-id"
CAPACITY_TYPE: Final = "karpenter.sh/capacity-type"
TENANCIES: Final = ("dedicated", "default")

CATEGORY: Final = "karpenter.k8s.aws/instance-category"
FAMILY: Final = "karpenter.k8s.aws/instance-family"
GENERATION: Final = "karpenter.k8s.aws/instance-generation"
SIZE: Final = "karpenter.k8s.aws/instance-size"
FLEX: Final = "karpenter.k8s.aws/instance-capability-flex"
HYPERVISOR: Final = "karpenter.k8s.aws/instance-hypervisor"
CPU: Final = "karpenter.k8s.aws/instance-cpu"
CPU_MANUFACTURER: Final = "karpenter.k8s.aws/instance-cpu-manufacturer"
CLOCK: Final = "karpenter.k8s.aws/instance-cpu-sustained-clock-speed-mhz"
MEMORY: Final = "karpenter.k8s.aws/instance-memory"
ENCRYPTION: Final = "karpenter.k8s.aws/instance-encryption-in-transit-supported"
EBS_BANDWIDTH: Final = "karpenter.k8s.aws/instance-ebs-bandwidth"
NETWORK_BANDWIDTH: Final = "karpenter.k8s.aws/instance-network-bandwidth"
LOCAL_NVME: Final = "karpenter.k8s.aws/instance-local-nvme"
GPU_NAME: Final = "karpenter.k8s.aws/instance-gpu-name"
GPU_MANUFACTURER: Final = "karpenter.k8s.aws/instance-gpu-manufacturer"
GPU_COUNT: Final = "karpenter.k8s.aws/instance-gpu-count"
GPU_MEMORY: Final = "karpenter.k8s.aws/instance-gpu-memory"
ACCELERATOR_NAME: Final = "karpenter.k8s.aws/instance-accelerator-name"
ACCELERATOR_MANUFACTURER: Final = "karpenter.k8s.aws/instance-accelerator-manufacturer"
ACCELERATOR_COUNT: Final = "karpenter.k8s.aws/instance-accelerator-count"
TENANCY: Final = "karpenter.k8s.aws/instance-tenancy"

Labels: TypeAlias = dict[str, tuple[str, ...]]


def machine_labels(machine: Machine, traits: Traits, region: str) -> Labels:
    """What is true of the type wherever it runs and however it is bought, by key.

    Zone, zone id and capacity type are left to the offerings. A label that a type does not have is
    not there; several values mean that a node of the type can be either.
    """
    return kin_labels(machine, traits, region) | own_labels(machine)


def kin_labels(machine: Machine, traits: Traits, region: str) -> Labels:
    """What the sizes of a family have in common, as long as they are equally `kin`."""
    labels = {
        ARCH: machine.architecture,
        REGION: region,
        FAMILY: machine.family,
        FLEX: _flag(machine.flex),
        HYPERVISOR: machine.hypervisor,
        CPU_MANUFACTURER: machine.cpu_manufacturer,
        CLOCK: str(machine.clock_mhz),
        ENCRYPTION: _flag(machine.encryption_in_transit),
    }
    if machine.category is not None:
        labels |= {CATEGORY: machine.category, GENERATION: str(machine.generation)}
    return _single(labels | _system(machine, traits)) | {TENANCY: TENANCIES}


def kin(machine: Machine) -> tuple[str | int, ...]:
    """Machines that agree in this agree in `kin_labels`."""
    return (
        machine.family,
        machine.architecture,
        machine.hypervisor,
        machine.cpu_manufacturer,
        machine.clock_mhz,
        machine.encryption_in_transit,
    )


def own_labels(machine: Machine) -> Labels:
    """What sets the type apart from its family."""
    labels = {
        INSTANCE_TYPE: machine.name,
        SIZE: machine.size,
        CPU: str(machine.vcpus),
        MEMORY: str(machine.memory_mib),
    }
    if machine.ebs_mbps is not None:
        labels[EBS_BANDWIDTH] = str(machine.ebs_mbps)
    if machine.network_mbps is not None:
        labels[NETWORK_BANDWIDTH] = str(machine.network_mbps)
    if machine.nvme:
        labels[LOCAL_NVME] = str(machine.local_storage_gb)
    if machine.gpu is not None:
        labels |= _gpu(machine.gpu)
    if machine.accelerator is not None:
        labels |= _accelerator(machine.accelerator)
    return _single(labels)


def _single(labels: dict[str, str]) -> Labels:
    return {key: (value,) for key, value in labels.items()}


def _gpu(gpu: Gpu) -> dict[str, str]:
    return {
        GPU_NAME: gpu.name,
        GPU_MANUFACTURER: gpu.manufacturer,
        GPU_COUNT: str(gpu.count),
        GPU_MEMORY: str(gpu.memory_mib),
    }


def _accelerator(accelerator: Accelerator) -> dict[str, str]:
    return {
        ACCELERATOR_NAME: accelerator.name,
        ACCELERATOR_MANUFACTURER: accelerator.manufacturer,
        ACCELERATOR_COUNT: str(accelerator.count),
    }


def _system(machine: Machine, traits: Traits) -> dict[str, str]:
    """Windows runs on amd64 only: other types have no operating system under such a class."""
    if not traits.windows_build:
        return {OS: "linux"}
    if machine.architecture != "amd64":
        return {WINDOWS_BUILD: traits.windows_build}
    return {WINDOWS_BUILD: traits.windows_build, OS: "windows"}


def _flag(value: bool) -> str:
    return "true" if value else "false"
