"""Derived amounts: a number together with the rule that gave it and the inputs of that rule.

Everything that `wain` shows about capacity and overhead can be explained from these.
"""

from collections.abc import Mapping
from enum import Enum
from typing import TypeAlias

import msgspec

from wainwright.api.quantity import NANO, Quantity, QuantityFormat

MIB = 2**20
GIB = 2**30


class DerivationRule(Enum):
    """Every rule that gives an amount; the value is a sentence, filled in with its inputs."""

    VCPUS = "the type has {vcpus} vCPUs"
    VM_MEMORY = (
        "{memory} of the type, less {percent} % for the virtual machine, rounded up to {overhead}"
    )
    VM_MEMORY_ARM = (
        "{memory} of the type, less 64Mi that arm64 keeps back, and of the rest {percent} % for "
        "the virtual machine, rounded up to {overhead}"
    )
    DECLARED_VM_MEMORY = (
        "{memory} of the type, less {overhead} of overhead that its InstanceType object gives in "
        "place of the percentage"
    )
    DECLARED_VM_MEMORY_ARM = (
        "{memory} of the type, less 64Mi that arm64 keeps back, less {overhead} of overhead that "
        "its InstanceType object gives in place of the percentage"
    )
    DECLARED = "the type's InstanceType object says so"
    DECLARED_ALLOCATABLE = (
        "allocatable of the type's InstanceType object, in place of capacity less overhead"
    )
    NOT_LESS_THAN_ALLOCATABLE = (
        "as much as allocatable of the type's InstanceType object; otherwise {otherwise}"
    )

    ENI_DENSITY = (
        "{interfaces} network interfaces × ({addresses} addresses each − 1) + 2; the type has {of} "
        "interfaces, {reserved} of them reserved and {efa_only} only for EFA"
    )
    PREFIX_DENSITY = (
        "{interfaces} network interfaces × ({addresses} addresses each − 1) × 16 + 2, at most "
        "{most} with {vcpus} vCPUs"
    )
    NO_INTERFACES = (
        "no network interface is left: {of}, {reserved} reserved, {efa_only} only for EFA"
    )
    NO_ENI_DENSITY = "what this AMI family allows, whatever the network interfaces"
    AUTO_MODE_PODS = "the most that EKS Auto Mode allows on a node"
    MAX_PODS = "maxPods of the class"
    DECLARED_PODS = "pods of the type's InstanceType object"
    FEWER_PODS = "the smaller of maxPods {max_pods} and the InstanceType object's {declared}"
    PODS_PER_CORE = "podsPerCore {pods_per_core} × {vcpus} vCPUs, fewer than {otherwise}"

    LOCAL_DISKS = "{local_storage_gb} GB of local disks, striped (instanceStorePolicy RAID0)"
    ROOT_VOLUME = "the volume {device}, flagged rootVolume"
    LAST_VOLUME = "the last volume of the class, {device} (AMI family Custom)"
    EPHEMERAL_VOLUME = "the volume {device}, which holds pods with this AMI family"
    DEFAULT_VOLUME = "the default volume of this AMI family; the class gives {device} no size"
    PLAIN_DEFAULT = "20Gi, as nothing says how large the volume is"
    SIZED_TO_PODS = (
        "{pods} pods × {per_pod}, and what is reserved, in whole GiB; otherwise {otherwise}"
    )

    DEVICES = "{count} × {name}"
    NEURON_CORES = "{count} × {name}, {cores} cores each"
    EFA = "EFA interfaces of the type"
    EFA_OF_CLASS = "EFA-only interfaces that the class attaches"
    BRANCH_RULE = "{budget} interfaces for {vcpus} vCPUs, less {interfaces} of the machine's own"
    BRANCH_LISTED = "listed for the type"
    WINDOWS_ADDRESSES = "{addresses} addresses of the first interface, less its own"

    SHARED_ATTACHMENTS = (
        "{attachments} attachments of the type, less {interfaces} for further network interfaces "
        "and {volumes} for volumes of the node itself"
    )
    DEDICATED_ATTACHMENTS = (
        "{attachments} EBS volumes of the type, less {volumes} of the node itself; network "
        "interfaces do not count"
    )

    KUBE_CPU = "6 % of the first core, 1 % of the second, 0.5 % of two more, 0.25 % of the others"
    KUBE_MEMORY_INTERFACES = "255Mi + 11Mi × {pods} pods that the network interfaces allow"
    KUBE_MEMORY_DECLARED = "255Mi + 11Mi × {pods} pods of the type's InstanceType object"
    KUBE_MEMORY_PODS = "255Mi + 11Mi × {pods} pods in effect"
    KUBE_MEMORY_GKE = "by the share of memory that GKE keeps, of {memory}, rounded up to Mi"
    KUBE_STORAGE = "1Gi on every node"
    KUBE_RESERVED = "kubeReserved of the class"
    SYSTEM_RESERVED = "systemReserved of the class"
    EVICTION_DEFAULT = "the kubelet's own threshold of {signal}"
    EVICTION_DEFAULT_SHARE = "the kubelet's own threshold of {signal}: {percent} % of {capacity}"
    EVICTION_HARD = "evictionHard {signal} of the class"
    EVICTION_HARD_SHARE = "evictionHard {signal} of the class: {percent} % of {capacity}"
    EVICTION_OFF = "evictionHard {signal} of the class is 100 %, which switches it off"
    DECLARED_OVERHEAD = "overhead of the type's InstanceType object"

    STATED = "the Catalog says so"
    OVERLAID = "capacity of the NodeOverlay {overlay}"


DerivationInputs: TypeAlias = dict[str, int | str]


class DerivedAmount(msgspec.Struct, frozen=True, gc=False):
    """An amount with its rule: cpu in thousandths, everything else in whole units."""

    amount: int
    rule: DerivationRule
    inputs: Mapping[str, int | str] = {}

    def explain(self) -> str:
        """The rest of a sentence that starts with the amount."""
        return self.rule.value.format_map(
            {name: _format_input(self.inputs[name]) for name in self.inputs}
        )


def _format_input(value: int | str) -> str:
    """The input as text; only bytes come in millions, and are printed as quantities."""
    if isinstance(value, int) and value >= MIB:
        return str(Quantity(value * NANO, QuantityFormat.BINARY))
    return str(value)


def plain_amounts(derived_amounts: Mapping[str, DerivedAmount]) -> dict[str, int]:
    return {name: derived.amount for name, derived in derived_amounts.items()}


def ceil_div(numerator: int, denominator: int) -> int:
    """The quotient, rounded up, without floats: these are not exact for large amounts of bytes."""
    return -(-numerator // denominator)
