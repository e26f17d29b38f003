"""Capacity of a node, given its instance type and node class, and what of it is allocatable.

cpu, memory, ephemeral storage, pods and extended resources (GPUs, Neuron, EFA, branch network
interfaces), each as a derived amount. Types that agree in every input share one result.
"""

from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import cache
from typing import TypeAlias

import msgspec

from wainwright.catalogue.instancetypes.derived_amount import (
    GIB,
    MIB,
    DerivationInputs,
    DerivationRule,
    DerivedAmount,
    ceil_div,
    plain_amounts,
)
from wainwright.catalogue.instancetypes.instance_type_info import (
    AcceleratorInfo,
    GpuInfo,
    InstanceTypeInfo,
)
from wainwright.catalogue.instancetypes.max_pods import compute_max_pods, max_branch_enis
from wainwright.catalogue.instancetypes.node_class_settings import (
    FULL_SHARE,
    NO_OVERRIDE,
    AmiFamily,
    BlockDeviceSettings,
    EvictionThreshold,
    InstanceStorePolicy,
    NodeClassSettings,
    ResourceOverride,
)
from wainwright.catalogue.instancetypes.overhead import (
    Overhead,
    compute_overhead,
    eviction_hard_threshold,
    reserved_storage,
)
from wainwright.model.resources import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    PODS,
    Resources,
    sort_resources,
)

GB = 10**9
DEFAULT_VOLUME_SIZE = 20 * GIB


def compute_ephemeral_storage(info: InstanceTypeInfo, settings: NodeClassSettings) -> DerivedAmount:
    """Local disks where the class stripes them, else the volume of the class, else the family's."""
    if settings.instance_store_policy is InstanceStorePolicy.RAID0 and info.local_storage_gb:
        detail = {"local_storage_gb": info.local_storage_gb}
        return DerivedAmount(info.local_storage_gb * GB, DerivationRule.LOCAL_DISKS, detail)
    return _configured_volume(settings) or _default_volume(settings.ami_family)


def _configured_volume(settings: NodeClassSettings) -> DerivedAmount | None:
    devices = settings.block_devices
    root = next((device for device in devices if device.root), None)
    if root is not None and root.size is not None:
        return _volume_amount(root, DerivationRule.ROOT_VOLUME)
    if settings.ami_family is AmiFamily.CUSTOM:
        # Nobody knows where the user's own image keeps pods; the last device is the best guess.
        return _volume_amount(devices[-1], DerivationRule.LAST_VOLUME) if devices else None
    pod_device = settings.ami_family.traits.pod_device
    named = next((device for device in devices if device.device == pod_device), None)
    return _volume_amount(named, DerivationRule.EPHEMERAL_VOLUME) if named is not None else None


def _volume_amount(device: BlockDeviceSettings, rule: DerivationRule) -> DerivedAmount | None:
    return (
        None if device.size is None else DerivedAmount(device.size, rule, {"device": device.device})
    )


def _default_volume(family: AmiFamily) -> DerivedAmount:
    traits = family.traits
    if traits.pod_device_size is None:
        return DerivedAmount(DEFAULT_VOLUME_SIZE, DerivationRule.PLAIN_DEFAULT)
    return DerivedAmount(
        traits.pod_device_size, DerivationRule.DEFAULT_VOLUME, {"device": traits.pod_device}
    )


def grow_volume_for_pods(
    otherwise: DerivedAmount, *, pods: int, per_pod: int, reserved: int, kept: EvictionThreshold
) -> DerivedAmount:
    """The volume, grown until each of the pods has its share after what is reserved and kept free.

    Local disks are as large as they are.
    """
    wanted = pods * per_pod + reserved
    if (
        otherwise.rule is DerivationRule.LOCAL_DISKS
        or otherwise.amount - kept.of(otherwise.amount) >= wanted
    ):
        return otherwise
    free = kept.quantity.units if kept.quantity is not None else 0
    share = 0 if kept.off or kept.quantity is not None else kept.share
    size = ceil_div((wanted + free) * FULL_SHARE, (FULL_SHARE - share) * GIB) * GIB
    detail = {"pods": pods, "per_pod": per_pod, "otherwise": otherwise.amount}
    return DerivedAmount(size, DerivationRule.SIZED_TO_PODS, detail)


POD_ENI = "vpc.amazonaws.com/pod-eni"
EFA = "vpc.amazonaws.com/efa"
PRIVATE_IPV4_ADDRESS = "vpc.amazonaws.com/PrivateIPv4Address"
NEURON = "aws.amazon.com/neuron"
NEURON_CORE = "aws.amazon.com/neuroncore"
GPU_RESOURCES = {"nvidia": "nvidia.com/gpu", "amd": "amd.com/gpu", "habana": "habana.ai/gaudi"}


def extended_resources(
    info: InstanceTypeInfo, settings: NodeClassSettings
) -> dict[str, DerivedAmount]:
    """What the instance has of each; what it has none of is left out."""
    every = dict(_all_extended_resources(info, settings))
    return {name: derived for name, derived in every.items() if derived.amount}


def _all_extended_resources(
    info: InstanceTypeInfo, settings: NodeClassSettings
) -> Iterator[tuple[str, DerivedAmount]]:
    gpu = info.gpu
    if gpu is not None and gpu.manufacturer in GPU_RESOURCES:
        detail: DerivationInputs = {"count": gpu.count, "name": gpu.name}
        yield (
            GPU_RESOURCES[gpu.manufacturer],
            DerivedAmount(gpu.count, DerivationRule.DEVICES, detail),
        )
    if info.accelerator is not None and info.accelerator.neuron_cores:
        yield from _neuron_resources(info.accelerator)
    yield EFA, _efa_resource(info, settings)
    if branches := max_branch_enis(info):
        yield POD_ENI, branches
    if settings.ami_family.traits.windows_build and info.architecture == "amd64":
        addresses = info.addresses_per_interface
        yield (
            PRIVATE_IPV4_ADDRESS,
            DerivedAmount(
                addresses - 1, DerivationRule.WINDOWS_ADDRESSES, {"addresses": addresses}
            ),
        )


def _neuron_resources(device: AcceleratorInfo) -> Iterator[tuple[str, DerivedAmount]]:
    detail: DerivationInputs = {
        "count": device.count,
        "name": device.name,
        "cores": device.neuron_cores,
    }
    yield NEURON, DerivedAmount(device.count, DerivationRule.DEVICES, detail)
    yield (
        NEURON_CORE,
        DerivedAmount(device.count * device.neuron_cores, DerivationRule.NEURON_CORES, detail),
    )


def _efa_resource(info: InstanceTypeInfo, settings: NodeClassSettings) -> DerivedAmount:
    """A class that lists network interfaces has the EFA interfaces in its list, and no more."""
    if settings.network_interfaces:
        return DerivedAmount(settings.efa_only_interfaces, DerivationRule.EFA_OF_CLASS)
    return DerivedAmount(info.efa_interfaces, DerivationRule.EFA)


ARM64_RESERVED_MIB = 64  # arm64 kernels keep this much for contiguous allocations


def compute_capacity(
    info: InstanceTypeInfo, settings: NodeClassSettings, override: ResourceOverride = NO_OVERRIDE
) -> dict[str, DerivedAmount]:
    """Every resource of the node; what an InstanceType object declares stands as it is."""
    declared = {
        name: DerivedAmount(override.resources[name], DerivationRule.DECLARED)
        for name in sorted(override.resources)
    }
    cpu = declared.get(CPU) or DerivedAmount(
        info.vcpus * 1000, DerivationRule.VCPUS, {"vcpus": info.vcpus}
    )
    in_force = compute_max_pods(info, settings, override, cpu=cpu.amount)
    known = {
        CPU: cpu,
        MEMORY: compute_memory(
            info, settings.options.vm_memory_overhead, override.overhead.get(MEMORY)
        ),
        EPHEMERAL_STORAGE: _compute_storage(info, settings, in_force.amount),
        **extended_resources(info, settings),
    }
    # Pods are never just declared: the class may allow fewer.
    return known | declared | {PODS: in_force}


def compute_memory(
    info: InstanceTypeInfo, vm_share: Fraction, declared_overhead: int | None = None
) -> DerivedAmount:
    """What the kubelet will find, as far as one can know before the instance runs."""
    arm = info.architecture == "arm64"
    mib = info.memory_mib - (ARM64_RESERVED_MIB if arm else 0)
    detail: DerivationInputs = {"memory": info.memory_mib * MIB}
    if declared_overhead is not None:
        rule = DerivationRule.DECLARED_VM_MEMORY_ARM if arm else DerivationRule.DECLARED_VM_MEMORY
        left = max(mib * MIB - declared_overhead, 0)  # an overhead may be larger than the instance
        return DerivedAmount(left, rule, detail | {"overhead": declared_overhead})
    overhead = ceil_div(mib * vm_share.numerator, vm_share.denominator)
    detail |= {"percent": _format_percent(vm_share), "overhead": overhead * MIB}
    rule = DerivationRule.VM_MEMORY_ARM if arm else DerivationRule.VM_MEMORY
    return DerivedAmount((mib - overhead) * MIB, rule, detail)


@cache
def _format_percent(share: Fraction) -> str:
    return f"{float(share * 100):g}"


def _compute_storage(
    info: InstanceTypeInfo, settings: NodeClassSettings, in_force: int
) -> DerivedAmount:
    disk = compute_ephemeral_storage(info, settings)
    per_pod = settings.options.storage_per_pod
    if per_pod is None:
        return disk
    return grow_volume_for_pods(
        disk,
        pods=in_force,
        per_pod=per_pod,
        reserved=reserved_storage(settings.kubelet),
        kept=eviction_hard_threshold(settings.kubelet, EPHEMERAL_STORAGE),
    )


ResourceInputs: TypeAlias = tuple[
    int | str | bool | GpuInfo | AcceleratorInfo | DerivationRule | None, ...
]


class DerivedResources(msgspec.Struct, frozen=True, kw_only=True):
    """Every number with the rule that gave it."""

    capacity: Mapping[str, DerivedAmount]
    overhead: Overhead

    def allocatable(self) -> dict[str, int]:
        """What is left for pods. The smallest instances may end below zero: nothing fits them."""
        taken = self.overhead.total()
        return {
            name: derived.amount - taken.get(name, 0) for name, derived in self.capacity.items()
        }


class NodeResources(msgspec.Struct, frozen=True, kw_only=True):
    """The same as plain amounts, in the order of names."""

    derived: DerivedResources
    capacity: Resources
    overhead: Resources


def derive_resources(
    info: InstanceTypeInfo, settings: NodeClassSettings, override: ResourceOverride = NO_OVERRIDE
) -> DerivedResources:
    derived_amounts = compute_capacity(info, settings, override)
    return DerivedResources(
        capacity=derived_amounts,
        overhead=compute_overhead(info, settings, derived_amounts, override),
    )


def to_node_resources(made: DerivedResources) -> NodeResources:
    """What is kept of a resource that the instance lacks (process ids, say) is no debt."""
    taken = made.overhead.total()
    return NodeResources(
        derived=made,
        capacity=sort_resources(plain_amounts(made.capacity)),
        overhead=sort_resources({name: taken[name] for name in taken if name in made.capacity}),
    )


def node_resources_by_type(
    infos: Mapping[str, InstanceTypeInfo], settings: NodeClassSettings
) -> dict[str, NodeResources]:
    """All instances under one class. Those of equal build share one size: there are a third."""
    made: dict[str, NodeResources] = {}
    by_build: dict[ResourceInputs, NodeResources] = {}
    for name, info in infos.items():
        key = resource_inputs(info, settings)
        found = by_build.get(key)
        if found is None:
            found = by_build[key] = to_node_resources(derive_resources(info, settings))
        made[name] = found
    return made


def resource_inputs(info: InstanceTypeInfo, settings: NodeClassSettings) -> ResourceInputs:
    """Everything that a shape can depend on: instances that agree in this have the same shape."""
    striped = settings.instance_store_policy is not None
    branches = max_branch_enis(info)
    return (
        info.vcpus,
        info.memory_mib,
        info.architecture,
        info.hypervisor == "xen",
        info.addresses_per_interface,
        info.network_interfaces,
        info.all_network_interfaces,
        info.local_storage_gb if striped else 0,
        info.efa_interfaces,
        info.gpu,
        info.accelerator,
        None if branches is None else branches.amount,
        None if branches is None else branches.rule,
    )
