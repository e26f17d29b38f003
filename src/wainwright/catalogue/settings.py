"""Class settings: what a node class, the controller and an InstanceType object add to a machine."""

from collections.abc import Mapping
from enum import Enum
from fractions import Fraction

import msgspec

from wainwright.api.quantity import Quantity
from wainwright.catalogue.ami import AmiFamily
from wainwright.catalogue.threshold import Threshold


class InstanceStorePolicy(Enum):
    RAID0 = "RAID0"


class MemoryStrategy(Enum):
    """How kube-reserved memory is reckoned: by pods, or by the memory of the machine."""

    EKS = "EKS"
    GKE = "GKE"


class Kubelet(msgspec.Struct, frozen=True, kw_only=True):
    """The kubelet settings of a class that change what a pod gets."""

    max_pods: int | None = None
    pods_per_core: int | None = None
    kube_reserved: Mapping[str, Quantity] = {}
    system_reserved: Mapping[str, Quantity] = {}
    eviction_hard: Mapping[str, Threshold] = {}
    eviction_soft: Mapping[str, Threshold] = {}
    """Carried along, and without effect here: a soft threshold warns, it does not reserve."""
    kube_reserved_memory_strategy: MemoryStrategy = MemoryStrategy.EKS


class BlockDevice(msgspec.Struct, frozen=True, kw_only=True):
    device: str
    size: int | None = None
    """Bytes; None leaves it to the image or snapshot."""
    root: bool = False


class NetworkInterface(msgspec.Struct, frozen=True, kw_only=True):
    card: int
    efa_only: bool = False
    """Such an interface carries EFA traffic and no addresses for pods."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What is set once for all classes."""

    vm_memory_overhead: Fraction = Fraction(75, 1000)
    reserved_enis: int = 0
    prefix_delegation: bool = False
    """Whether the network plugin hands out /28 prefixes in place of single addresses."""
    storage_per_pod: int | None = None
    """Bytes; the volume that holds pods grows until a full node has that much for each."""


class ClassSettings(msgspec.Struct, frozen=True, kw_only=True):
    ami_family: AmiFamily = AmiFamily.AL2023
    kubelet: Kubelet = Kubelet()
    block_devices: tuple[BlockDevice, ...] = ()
    instance_store_policy: InstanceStorePolicy | None = None
    network_interfaces: tuple[NetworkInterface, ...] = ()
    options: Options = Options()

    @property
    def efa_only_interfaces(self) -> int:
        return sum(interface.efa_only for interface in self.network_interfaces)

    @property
    def efa_only_on_default_card(self) -> int:
        return sum(each.efa_only and each.card == 0 for each in self.network_interfaces)


class Override(msgspec.Struct, frozen=True, kw_only=True):
    """What an InstanceType object says of a machine: cpu in thousandths, else whole units."""

    resources: Mapping[str, int] = {}
    overhead: Mapping[str, int] = {}


NO_OVERRIDE = Override()
