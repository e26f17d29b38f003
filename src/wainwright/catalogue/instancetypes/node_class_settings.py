"""What an EC2NodeClass says that changes what its instance types offer to pods.

AMI family, kubelet configuration, block devices and network interfaces, read from the object
once; the rules for capacity and overhead use only these settings. Also here: which types the
class can never launch.
"""

from collections.abc import Mapping
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import cached_property
from typing import Final

import msgspec

from wainwright.api.field_error import FieldPath
from wainwright.api.karpenter import ec2nodeclass as wire
from wainwright.api.karpenter import kubelet as kubelet_wire
from wainwright.api.karpenter.auto_mode import AUTO_MODE_AMI_FAMILY, AUTO_MODE_POD_DEVICE
from wainwright.api.quantity import NANO, InvalidQuantity, Quantity, parse_quantity
from wainwright.catalogue.diagnostics import InvalidCatalogInput, object_error
from wainwright.catalogue.instancetypes.derived_amount import GIB, ceil_div
from wainwright.catalogue.instancetypes.instance_type_info import InstanceTypeInfo
from wainwright.model.resources import PODS
from wainwright.translate.annotations import (
    EXPECTED_ANNOTATIONS,
    MEMORY_STRATEGY_ANNOTATION,
    STORAGE_PER_POD_ANNOTATION,
    KubeReservedMemoryStrategy,
)
from wainwright.whole_numbers import parse_whole_number


class AmiFamily(Enum):
    """The AMI families, as in amiFamily of an EC2NodeClass."""

    AL2 = "AL2"
    AL2023 = "AL2023"
    BOTTLEROCKET = "Bottlerocket"
    WINDOWS2019 = "Windows2019"
    WINDOWS2022 = "Windows2022"
    WINDOWS2025 = "Windows2025"
    CUSTOM = "Custom"
    AUTO_MODE = AUTO_MODE_AMI_FAMILY

    @cached_property  # asked for every instance type, and hashing a member of an enum is slow
    def traits(self) -> "AmiFamilyTraits":
        return TRAITS_BY_FAMILY[self]


class AmiFamilyTraits(msgspec.Struct, frozen=True, kw_only=True):
    windows_build: str = ""
    """Empty on Linux."""
    eni_density: bool = True
    """Whether network interfaces limit the number of pods; otherwise it is 110."""
    memory_by_eni_density: bool = True
    """Whether kube-reserved memory is for the pods that interfaces allow, or for max pods."""
    pods_per_core: bool = True
    """Whether the kubelet setting of that name has an effect."""
    pods_per_type: bool = True
    """Whether a node can be told the number of pods of its instance type."""
    pod_device: str = ""
    """The device of the volume for pods; unknown for custom images."""
    pod_device_size: int | None = None
    """The size of that volume where the class has none."""
    auto_mode: bool = False
    """EKS Auto Mode: label names of its own, at most 110 pods, only some instance types, and the
    larger of local disks and volume for pods. Its class has no settings of the kubelet."""

    @property
    def operating_system(self) -> str:
        return "windows" if self.windows_build else "linux"


def _windows_traits(build: str) -> AmiFamilyTraits:
    return AmiFamilyTraits(
        windows_build=build,
        eni_density=False,
        memory_by_eni_density=False,
        pod_device="/dev/sda1",
        pod_device_size=50 * GIB,
    )


LINUX_TRAITS = AmiFamilyTraits(pod_device="/dev/xvda", pod_device_size=20 * GIB)
TRAITS_BY_FAMILY = {
    AmiFamily.AL2: LINUX_TRAITS,
    AmiFamily.AL2023: LINUX_TRAITS,
    AmiFamily.BOTTLEROCKET: AmiFamilyTraits(
        memory_by_eni_density=False,
        pods_per_core=False,
        pods_per_type=False,
        pod_device="/dev/xvdb",
        pod_device_size=20 * GIB,
    ),
    AmiFamily.WINDOWS2019: _windows_traits("10.0.17763"),
    AmiFamily.WINDOWS2022: _windows_traits("10.0.20348"),
    AmiFamily.WINDOWS2025: _windows_traits("10.0.26100"),
    AmiFamily.CUSTOM: AmiFamilyTraits(),
    AmiFamily.AUTO_MODE: AmiFamilyTraits(
        memory_by_eni_density=False,
        pod_device=AUTO_MODE_POD_DEVICE,
        pod_device_size=80 * GIB,
        auto_mode=True,
    ),
}


FULL_SHARE = 100 * NANO


class EvictionThreshold(msgspec.Struct, frozen=True, kw_only=True):
    """A quantity or a share. A share is in billionths of a percent, so that "7.5%" is exact."""

    quantity: Quantity | None = None
    share: int = 0

    @property
    def is_off(self) -> bool:
        """Whether it is 100 %: for the kubelet that is no threshold."""
        return self.quantity is None and self.share == FULL_SHARE

    @property
    def percent(self) -> str:
        return f"{Decimal(self.share) / NANO:f}"

    def amount_of(self, capacity: int) -> int:
        """The threshold of a capacity, as an amount."""
        if self.quantity is not None:
            return self.quantity.units
        return 0 if self.is_off else ceil_div(capacity * self.share, FULL_SHARE)


def parse_eviction_threshold(text: str) -> EvictionThreshold:
    """A quantity or a percentage; raises InvalidQuantity."""
    if text.endswith("%"):
        return EvictionThreshold(share=parse_quantity(text[:-1]).nano)
    return EvictionThreshold(quantity=parse_quantity(text))


class InstanceStorePolicy(Enum):
    RAID0 = "RAID0"


class KubeletSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The kubelet settings of a class that change allocatable resources."""

    max_pods: int | None = None
    pods_per_core: int | None = None
    kube_reserved: Mapping[str, Quantity] = {}
    system_reserved: Mapping[str, Quantity] = {}
    eviction_hard: Mapping[str, EvictionThreshold] = {}
    eviction_soft: Mapping[str, EvictionThreshold] = {}
    """Without effect on capacity: a soft threshold reserves nothing."""
    kube_reserved_memory_strategy: KubeReservedMemoryStrategy = KubeReservedMemoryStrategy.EKS


class BlockDeviceSettings(msgspec.Struct, frozen=True, kw_only=True):
    device: str
    size: int | None = None
    """Bytes; None is the size of the image or snapshot."""
    root: bool = False


class NetworkInterfaceSettings(msgspec.Struct, frozen=True, kw_only=True):
    card: int
    efa_only: bool = False
    """Whether it carries EFA traffic only, without addresses for pods."""


class CatalogOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Settings for all node classes."""

    vm_memory_overhead: Fraction = Fraction(75, 1000)
    reserved_enis: int = 0
    prefix_delegation: bool = False
    """Whether the CNI plugin assigns /28 prefixes in place of single addresses."""
    storage_per_pod: int | None = None
    """Bytes; the volume for pods grows until a full node has that much for each pod."""


class NodeClassSettings(msgspec.Struct, frozen=True, kw_only=True):
    ami_family: AmiFamily = AmiFamily.AL2023
    kubelet: KubeletSettings = KubeletSettings()
    block_devices: tuple[BlockDeviceSettings, ...] = ()
    instance_store_policy: InstanceStorePolicy | None = None
    network_interfaces: tuple[NetworkInterfaceSettings, ...] = ()
    options: CatalogOptions = CatalogOptions()

    @property
    def efa_only_interfaces(self) -> int:
        return sum(interface.efa_only for interface in self.network_interfaces)

    @property
    def efa_only_on_default_card(self) -> int:
        return sum(each.efa_only and each.card == 0 for each in self.network_interfaces)


class ResourceOverride(msgspec.Struct, frozen=True, kw_only=True):
    """Resources of an InstanceType object: cpu in thousandths, everything else in whole units."""

    resources: Mapping[str, int] = {}
    overhead: Mapping[str, int] = {}
    allocatable: Mapping[str, int] = {}

    @property
    def pods(self) -> int | None:
        """The kubelet's limit is both what a node has and what is allocatable."""
        return self.allocatable.get(PODS, self.resources.get(PODS))


NO_OVERRIDE = ResourceOverride()


AMI_FAMILIES_BY_ALIAS: Final = {family.value.lower(): family for family in AmiFamily}


def parse_node_class(node_class: wire.EC2NodeClass, options: CatalogOptions) -> NodeClassSettings:
    """Parse the class; raises InvalidCatalogInput where a field is not supported."""
    spec = node_class.spec
    policy = spec.instanceStorePolicy
    return NodeClassSettings(
        ami_family=resolve_ami_family(spec),
        kubelet=_parse_kubelet(node_class),
        block_devices=tuple(map(_parse_block_device, spec.blockDeviceMappings or ())),
        instance_store_policy=None if policy is None else InstanceStorePolicy(policy),
        network_interfaces=tuple(
            NetworkInterfaceSettings(
                card=each.networkCardIndex, efa_only=each.interfaceType == "efa-only"
            )
            for each in spec.networkInterfaces or ()
        ),
        options=_class_options(node_class, options),
    )


def resolve_ami_family(spec: wire.EC2NodeClassSpec) -> AmiFamily:
    """amiFamily where it is set, else the family of the alias."""
    if spec.amiFamily is not None:
        return AmiFamily(spec.amiFamily)
    aliases = [term.alias for term in spec.amiSelectorTerms if term.alias is not None]
    return (
        AMI_FAMILIES_BY_ALIAS[aliases[0].partition("@")[0].lower()] if aliases else AmiFamily.AL2023
    )


def _parse_block_device(mapping: wire.BlockDeviceMapping) -> BlockDeviceSettings:
    size = None if mapping.ebs is None else mapping.ebs.volumeSize
    return BlockDeviceSettings(
        device=mapping.deviceName or "",
        size=None if size is None else parse_quantity(size).units,
        root=mapping.rootVolume is True,
    )


def _parse_kubelet(node_class: wire.EC2NodeClass) -> KubeletSettings:
    configuration = node_class.spec.kubelet or kubelet_wire.KubeletConfiguration()
    return KubeletSettings(
        max_pods=_parse_max_pods(configuration.maxPods, node_class),
        pods_per_core=configuration.podsPerCore,
        kube_reserved=_parse_reserved(configuration.kubeReserved, "kubeReserved", node_class),
        system_reserved=_parse_reserved(configuration.systemReserved, "systemReserved", node_class),
        eviction_hard=_parse_thresholds(configuration.evictionHard),
        eviction_soft=_parse_thresholds(configuration.evictionSoft),
        kube_reserved_memory_strategy=_parse_memory_strategy(node_class),
    )


def _parse_max_pods(max_pods: int | str | None, node_class: wire.EC2NodeClass) -> int | None:
    if not isinstance(max_pods, str):
        return max_pods
    number = parse_whole_number(max_pods)
    if number is None:
        raise _unsupported_expression(node_class, ("spec", "kubelet", "maxPods"), max_pods)
    return number


def _parse_reserved(
    reserved: Mapping[str, str] | None, field: str, node_class: wire.EC2NodeClass
) -> dict[str, Quantity]:
    amounts = {}
    for name, text in sorted((reserved or {}).items()):
        try:
            amounts[name] = parse_quantity(text)
        except InvalidQuantity as error:
            raise _unsupported_expression(
                node_class, ("spec", "kubelet", field, name), text
            ) from error
    return amounts


def _unsupported_expression(
    node_class: wire.EC2NodeClass, path: FieldPath, text: str
) -> InvalidCatalogInput:
    return object_error(
        node_class.kind,
        node_class.metadata.name,
        path,
        f"expressions are not supported yet; found {text!r}",
        "write a number, or give the number per type in an InstanceType object",
    )


def _parse_thresholds(thresholds: Mapping[str, str] | None) -> dict[str, EvictionThreshold]:
    """The thresholds by signal; an empty one is ignored, as in the kubelet's configuration."""
    return {
        signal: parse_eviction_threshold(text)
        for signal, text in sorted((thresholds or {}).items())
        if text
    }


def _parse_memory_strategy(node_class: wire.EC2NodeClass) -> KubeReservedMemoryStrategy:
    text = _readable_annotation(node_class, MEMORY_STRATEGY_ANNOTATION)
    return KubeReservedMemoryStrategy.EKS if text is None else KubeReservedMemoryStrategy(text)


def _class_options(node_class: wire.EC2NodeClass, options: CatalogOptions) -> CatalogOptions:
    """The options for all classes, with those that an annotation of the class overrides."""
    text = _readable_annotation(node_class, STORAGE_PER_POD_ANNOTATION)
    if text is None:
        return options
    return msgspec.structs.replace(options, storage_per_pod=parse_quantity(text).units)


def _readable_annotation(node_class: wire.EC2NodeClass, key: str) -> str | None:
    """The value; None without one. Raises InvalidCatalogInput where it cannot be read."""
    text = (node_class.metadata.annotations or {}).get(key)
    value = EXPECTED_ANNOTATIONS["EC2NodeClass"][key]
    if text is None or value.is_readable(text):
        return text
    path: FieldPath = ("metadata", "annotations", key)
    message = f"expected {value.expected}, found {text!r}"
    raise object_error(node_class.kind, node_class.metadata.name, path, message)


class Incompatibility(Enum):
    """Why a class cannot launch a type; the value is the rest of a sentence about the type."""

    NO_IMAGE = "has a CPU that Amazon Linux 2023 does not run on"
    NOT_AUTO_MODE = "is not one that EKS Auto Mode launches"
    NO_WINDOWS = "is not amd64, and Windows runs on nothing else"
    TOO_FEW_EFA = "has fewer EFA interfaces than the class attaches"
    TOO_FEW_CARDS = "has fewer network cards than the class names"
    PODS_OF_TYPE = (
        "has pods of its own in an InstanceType object, and Bottlerocket has one number for all"
    )


AUTO_MODE_GENERATIONS: Final = {
    "c": "4 5 5a 5ad 5d 5n 6a 6g 6gd 6gn 6i 6id 6in 7a 7g 7gd 7gn 7i 7i-flex 8a 8g 8gb 8gd 8gn 8i "
    "8i-flex 8id",
    "m": "4 5 5a 5ad 5d 5dn 5n 5zn 6a 6g 6gd 6i 6id 6idn 6in 7a 7g 7gd 7i 7i-flex 8a 8azn 8g 8gb "
    "8gd 8gn 8i 8i-flex 8id",
    "r": "4 5 5a 5ad 5b 5d 5dn 5n 6a 6g 6gd 6i 6id 6idn 6in 7a 7g 7gd 7i 7iz 8a 8g 8gb 8gd 8gn 8i "
    "8i-flex 8id",
    "t": "2 3 3a 4g",
    "x": "2gd 2idn 2iedn 2iezn 8aedz 8g 8i",
    "z": "1d",
    "d": "3 3en",
    "i": "3 3en 4g 4i 7i 7ie 8g 8ge",
    "im": "4gn",
    "is": "4gen",
    "p": "3dn 4d 4de 5 5e 5en 6-b200 6-b300",
    "g": "4ad 4dn 5 5g 6 6e 7e",
    "gr": "6",
    "inf": "1 2",
    "trn": "1 1n 2",
    "hpc": "8a",
}
AUTO_MODE_FAMILIES: Final = frozenset(
    f"{category}{generation}"
    for category, generations in AUTO_MODE_GENERATIONS.items()
    for generation in generations.split()
)
"""As the documentation of EKS Auto Mode lists them."""
AUTO_MODE_EXCLUDED_SIZES: Final = ("nano", "micro", "small")


def is_launched_by_auto_mode(info: InstanceTypeInfo) -> bool:
    is_large_enough = info.vcpus > 1 and info.size not in AUTO_MODE_EXCLUDED_SIZES
    return info.family in AUTO_MODE_FAMILIES and is_large_enough


def find_incompatibility(
    info: InstanceTypeInfo, settings: NodeClassSettings
) -> Incompatibility | None:
    """The first reason, if any: the type is listed, but all of its offerings are unavailable."""
    family = settings.ami_family
    if family is AmiFamily.AL2023 and info.family == "a1":
        return Incompatibility.NO_IMAGE
    if family.traits.auto_mode and not is_launched_by_auto_mode(info):
        return Incompatibility.NOT_AUTO_MODE
    if family.traits.windows_build and info.architecture != "amd64":
        return Incompatibility.NO_WINDOWS
    return _too_few_interfaces(info, settings) if settings.network_interfaces else None


def _too_few_interfaces(
    info: InstanceTypeInfo, settings: NodeClassSettings
) -> Incompatibility | None:
    if settings.efa_only_interfaces > info.efa_interfaces:
        return Incompatibility.TOO_FEW_EFA
    if any(each.card >= info.network_cards for each in settings.network_interfaces):
        return Incompatibility.TOO_FEW_CARDS
    return None
