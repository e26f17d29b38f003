"""Capacity of a node, given its instance type and node class, and what of it is allocatable.

cpu, memory, ephemeral storage, pods and extended resources (GPUs, Neuron, EFA, branch network
interfaces), each as a derived amount. Types that agree in every input share one result.
"""

from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import cache
from typing import TypeAlias

import msgspec

from wainwright.catalogue.instancetypes.attach_limits import (
    AttachLimitInputs,
    attach_limit_inputs,
    compute_attach_limits,
)
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
    HUGE_PAGES_PREFIX,
    MEMORY,
    PODS,
    Resources,
    sort_resources,
)

GB = 10**9
DEFAULT_VOLUME_SIZE = 20 * GIB


def compute_ephemeral_storage(info: InstanceTypeInfo, settings: NodeClassSettings) -> DerivedAmount:
    """Local disks where the class stripes them, else the volume of the class, else the default."""
    volume = _configured_volume(settings) or _default_volume(settings.ami_family)
    if settings.instance_store_policy is not InstanceStorePolicy.RAID0 or not info.local_storage_gb:
        return volume
    size = info.local_storage_gb * GB
    if settings.ami_family.traits.auto_mode and volume.amount >= size:
        return volume
    inputs = {"local_storage_gb": info.local_storage_gb}
    return DerivedAmount(size, DerivationRule.LOCAL_DISKS, inputs)


def _configured_volume(settings: NodeClassSettings) -> DerivedAmount | None:
    devices = settings.block_devices
    root = next((device for device in devices if device.root), None)
    if root is not None and root.size is not None:
        return _volume_amount(root, DerivationRule.ROOT_VOLUME)
    if settings.ami_family is AmiFamily.CUSTOM:
        # Where a custom image stores pods is unknown; the last device is the best guess.
        return _volume_amount(devices[-1], DerivationRule.LAST_VOLUME) if devices else None
    pod_device = settings.ami_family.traits.pod_device
    pod_volume = next((device for device in devices if device.device == pod_device), None)
    return (
        _volume_amount(pod_volume, DerivationRule.EPHEMERAL_VOLUME)
        if pod_volume is not None
        else None
    )


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
    volume: DerivedAmount, *, pods: int, per_pod: int, reserved: int, eviction: EvictionThreshold
) -> DerivedAmount:
    """The volume, grown until every pod has `per_pod` after reservations and eviction threshold.

    Local disks do not grow.
    """
    needed = pods * per_pod + reserved
    if (
        volume.rule is DerivationRule.LOCAL_DISKS
        or volume.amount - eviction.amount_of(volume.amount) >= needed
    ):
        return volume
    threshold = eviction.quantity.units if eviction.quantity is not None else 0
    share = 0 if eviction.is_off or eviction.quantity is not None else eviction.share
    size = ceil_div((needed + threshold) * FULL_SHARE, (FULL_SHARE - share) * GIB) * GIB
    inputs = {"pods": pods, "per_pod": per_pod, "otherwise": volume.amount}
    return DerivedAmount(size, DerivationRule.SIZED_TO_PODS, inputs)


POD_ENI = "vpc.amazonaws.com/pod-eni"
EFA = "vpc.amazonaws.com/efa"
PRIVATE_IPV4_ADDRESS = "vpc.amazonaws.com/PrivateIPv4Address"
NEURON = "aws.amazon.com/neuron"
NEURON_CORE = "aws.amazon.com/neuroncore"
GPU_RESOURCES = {"nvidia": "nvidia.com/gpu", "amd": "amd.com/gpu", "habana": "habana.ai/gaudi"}


def extended_resources(
    info: InstanceTypeInfo, settings: NodeClassSettings
) -> dict[str, DerivedAmount]:
    """The extended resources of a node; those with an amount of zero are left out."""
    resources = _all_extended_resources(info, settings)
    return {name: derived for name, derived in resources if derived.amount}


def _all_extended_resources(
    info: InstanceTypeInfo, settings: NodeClassSettings
) -> Iterator[tuple[str, DerivedAmount]]:
    gpu = info.gpu
    if gpu is not None and gpu.manufacturer in GPU_RESOURCES:
        inputs: DerivationInputs = {"count": gpu.count, "name": gpu.name}
        yield (
            GPU_RESOURCES[gpu.manufacturer],
            DerivedAmount(gpu.count, DerivationRule.DEVICES, inputs),
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
    inputs: DerivationInputs = {
        "count": device.count,
        "name": device.name,
        "cores": device.neuron_cores,
    }
    yield NEURON, DerivedAmount(device.count, DerivationRule.DEVICES, inputs)
    yield (
        NEURON_CORE,
        DerivedAmount(device.count * device.neuron_cores, DerivationRule.NEURON_CORES, inputs),
    )


def _efa_resource(info: InstanceTypeInfo, settings: NodeClassSettings) -> DerivedAmount:
    """EFA interfaces of the type, or of the class where it lists network interfaces."""
    if settings.network_interfaces:
        return DerivedAmount(settings.efa_only_interfaces, DerivationRule.EFA_OF_CLASS)
    return DerivedAmount(info.efa_interfaces, DerivationRule.EFA)


ARM64_RESERVED_MIB = 64  # arm64 kernels keep this much for contiguous allocations


def compute_capacity(
    info: InstanceTypeInfo, settings: NodeClassSettings, override: ResourceOverride = NO_OVERRIDE
) -> dict[str, DerivedAmount]:
    """Every resource of the node; amounts of an InstanceType object are used unchanged."""
    declared = {
        name: DerivedAmount(override.resources[name], DerivationRule.DECLARED)
        for name in sorted(override.resources)
    }
    cpu = declared.get(CPU) or DerivedAmount(
        info.vcpus * 1000, DerivationRule.VCPUS, {"vcpus": info.vcpus}
    )
    max_pods = compute_max_pods(info, settings, override, cpu=cpu.amount)
    computed = {
        CPU: cpu,
        MEMORY: compute_memory(
            info, settings.options.vm_memory_overhead, override.overhead.get(MEMORY)
        ),
        EPHEMERAL_STORAGE: _compute_storage(info, settings, max_pods.amount),
        **extended_resources(info, settings),
    }
    # Pods are never taken from the object alone: the class may allow fewer.
    return computed | declared | {PODS: max_pods}


def compute_memory(
    info: InstanceTypeInfo, vm_share: Fraction, declared_overhead: int | None = None
) -> DerivedAmount:
    """The memory that the kubelet will find, estimated before the instance runs."""
    arm = info.architecture == "arm64"
    mib = info.memory_mib - (ARM64_RESERVED_MIB if arm else 0)
    inputs: DerivationInputs = {"memory": info.memory_mib * MIB}
    if declared_overhead is not None:
        rule = DerivationRule.DECLARED_VM_MEMORY_ARM if arm else DerivationRule.DECLARED_VM_MEMORY
        # A declared overhead may be larger than the memory.
        remaining = max(mib * MIB - declared_overhead, 0)
        return DerivedAmount(remaining, rule, inputs | {"overhead": declared_overhead})
    overhead = ceil_div(mib * vm_share.numerator, vm_share.denominator)
    inputs |= {"percent": _format_percent(vm_share), "overhead": overhead * MIB}
    rule = DerivationRule.VM_MEMORY_ARM if arm else DerivationRule.VM_MEMORY
    return DerivedAmount((mib - overhead) * MIB, rule, inputs)


@cache  # one share for all types, and arithmetic with fractions is slow
def _format_percent(share: Fraction) -> str:
    return f"{float(share * 100):g}"


def _compute_storage(
    info: InstanceTypeInfo, settings: NodeClassSettings, max_pods: int
) -> DerivedAmount:
    volume = compute_ephemeral_storage(info, settings)
    per_pod = settings.options.storage_per_pod
    if per_pod is None:
        return volume
    return grow_volume_for_pods(
        volume,
        pods=max_pods,
        per_pod=per_pod,
        reserved=reserved_storage(settings.kubelet),
        eviction=eviction_hard_threshold(settings.kubelet, EPHEMERAL_STORAGE),
    )


ResourceInputs: TypeAlias = tuple[int | str | bool | GpuInfo | AcceleratorInfo | None, ...]


class DerivedResources(msgspec.Struct, frozen=True, kw_only=True):
    """Capacity and overhead of a node, every amount with the rule that gave it."""

    capacity: Mapping[str, DerivedAmount]
    overhead: Overhead
    declared_allocatable: Mapping[str, DerivedAmount] = {}
    """In place of capacity less overhead, where an InstanceType object states it."""
    attach_limits: Mapping[str, DerivedAmount] = {}
    """By CSI driver how many volumes of pods can be attached."""

    def allocatable(self) -> dict[str, int]:
        """Capacity less overhead; below zero on the smallest types, on which no pod fits."""
        overhead = self.overhead.total()
        computed = {
            name: derived.amount - overhead.get(name, 0) for name, derived in self.capacity.items()
        }
        return computed | plain_amounts(self.declared_allocatable)


class NodeResources(msgspec.Struct, frozen=True, kw_only=True):
    """The derived resources, and the same as plain amounts in the order of names."""

    derived: DerivedResources
    capacity: Resources
    overhead: Resources
    attach_limits: dict[str, int] = {}


def derive_resources(
    info: InstanceTypeInfo, settings: NodeClassSettings, override: ResourceOverride = NO_OVERRIDE
) -> DerivedResources:
    derived_amounts = compute_capacity(info, settings, override)
    return DerivedResources(
        capacity=derived_amounts,
        overhead=compute_overhead(info, settings, derived_amounts, override),
        # Pods are a limit of the kubelet: those of the object are in the capacity already.
        declared_allocatable=declared_allocatable(override, without=PODS),
        attach_limits=compute_attach_limits(info, settings),
    )


def declared_allocatable(
    override: ResourceOverride, *, without: str = ""
) -> dict[str, DerivedAmount]:
    return {
        name: DerivedAmount(override.allocatable[name], DerivationRule.DECLARED_ALLOCATABLE)
        for name in sorted(override.allocatable)
        if name != without
    }


def to_node_resources(derived: DerivedResources) -> NodeResources:
    """The plain amounts; overhead of a resource without capacity (such as pids) is left out."""
    overhead = derived.overhead.total()
    capacity = plain_amounts(derived.capacity)
    overhead = {name: overhead[name] for name in overhead if name in capacity}
    if derived.declared_allocatable:
        _apply_declared_allocatable(plain_amounts(derived.declared_allocatable), capacity, overhead)
    return NodeResources(
        derived=derived,
        capacity=sort_resources(capacity),
        overhead=sort_resources(overhead),
        attach_limits=plain_amounts(derived.attach_limits),
    )


def _apply_declared_allocatable(
    allocatable: Mapping[str, int], capacity: dict[str, int], overhead: dict[str, int]
) -> None:
    """Change overhead so that exactly this is left, and capacity where it is less than that.

    Memory comes last: huge pages are taken off it besides, as by the kubelet.
    """
    for name in sorted(allocatable, key=lambda each: each == MEMORY):
        pages = _huge_pages(capacity, overhead) if name == MEMORY else 0
        capacity[name] = max(capacity.get(name, 0), allocatable[name] + pages)
        overhead[name] = capacity[name] - allocatable[name] - pages


def _huge_pages(capacity: Mapping[str, int], overhead: Mapping[str, int]) -> int:
    pages = [name for name in capacity if name.startswith(HUGE_PAGES_PREFIX)]
    return sum(max(0, capacity[name] - overhead.get(name, 0)) for name in pages)


def node_resources_by_type(
    infos: Mapping[str, InstanceTypeInfo], settings: NodeClassSettings
) -> dict[str, NodeResources]:
    """The resources of all types under one class."""
    shared = _SharedResources(settings)
    return {name: shared.resources_of(info) for name, info in infos.items()}


class _SharedResources:
    """One result for types with the same inputs: two thirds of the computations are saved.

    Attach limits depend on other inputs than everything else; in one key with the others they
    would leave only half to be saved.
    """

    def __init__(self, settings: NodeClassSettings) -> None:
        self._settings = settings
        self._by_inputs: dict[ResourceInputs, NodeResources] = {}
        self._with_limits: dict[tuple[ResourceInputs, AttachLimitInputs], NodeResources] = {}

    def resources_of(self, info: InstanceTypeInfo) -> NodeResources:
        key = resource_inputs(info, self._settings), attach_limit_inputs(info)
        resources = self._with_limits.get(key)
        if resources is None:
            resources = self._with_limits[key] = self._compute(key[0], info)
        return resources

    def _compute(self, inputs: ResourceInputs, info: InstanceTypeInfo) -> NodeResources:
        known = self._by_inputs.get(inputs)
        if known is not None:
            return _with_attach_limits(known, compute_attach_limits(info, self._settings))
        computed = to_node_resources(derive_resources(info, self._settings))
        self._by_inputs[inputs] = computed
        return computed


def _with_attach_limits(
    resources: NodeResources, limits: Mapping[str, DerivedAmount]
) -> NodeResources:
    return NodeResources(
        derived=msgspec.structs.replace(resources.derived, attach_limits=limits),
        capacity=resources.capacity,
        overhead=resources.overhead,
        attach_limits=plain_amounts(limits),
    )


def resource_inputs(info: InstanceTypeInfo, settings: NodeClassSettings) -> ResourceInputs:
    """Everything about a type that its resources can depend on, attach limits aside.

    An input that is missing here would give a type the resources of another one.
    """
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
        info.branch_interfaces is None,  # and with it the rule; hashing an enum member is slow
    )
