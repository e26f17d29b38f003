"""How many pods a node of an instance type can run, by its network interfaces and the node class.

Also here: how many pods can have a branch network interface of their own, and how many pods
kube-reserved memory is computed for.
"""

from typing import Final

from wainwright.catalogue.instancetypes.derived_amount import DerivationRule, DerivedAmount
from wainwright.catalogue.instancetypes.instance_type_info import InstanceTypeInfo
from wainwright.catalogue.instancetypes.node_class_settings import (
    NO_OVERRIDE,
    NodeClassSettings,
    ResourceOverride,
)

ENI_BUDGETS: Final = ((1, 6), (2, 12), (4, 22), (12, 42), (24, 62))
"""Pairs: up to this number of vCPUs, this number of interfaces in total."""
LARGE_ENI_BUDGETS: Final = ((36, 92), (48, 122))
"""The same for Intel and AMD types of generation 6 and later; others have 62 there."""
MAX_ENI_BUDGET: Final = 122


def max_branch_enis(info: InstanceTypeInfo) -> DerivedAmount | None:
    """How many pods can have a branch interface; None where the type does not support them."""
    if info.branch_interfaces is not None:
        return DerivedAmount(info.branch_interfaces, DerivationRule.BRANCH_LISTED)
    if not supports_trunking(info):
        return None
    budget = eni_budget(info)
    amount = max(budget - info.all_network_interfaces, 0)
    inputs = {
        "budget": budget,
        "vcpus": info.vcpus,
        "interfaces": info.all_network_interfaces,
    }
    return DerivedAmount(amount, DerivationRule.BRANCH_RULE, inputs)


def supports_trunking(info: InstanceTypeInfo) -> bool:
    """Whether ENI trunking is supported: by Nitro types, except burstable ones and u-6tb1."""
    return info.hypervisor != "xen" and info.category != "t" and info.family != "u-6tb1"


def eni_budget(info: InstanceTypeInfo) -> int:
    """The total interfaces of an instance of this size, its own included."""
    vcpus = info.vcpus // 2 if info.is_flex and info.vcpus <= 32 else info.vcpus
    for max_vcpus, interfaces in ENI_BUDGETS:
        if vcpus <= max_vcpus:
            return interfaces
    if vcpus > LARGE_ENI_BUDGETS[-1][0]:
        return MAX_ENI_BUDGET
    if info.cpu_manufacturer not in ("intel", "amd") or (info.generation or 0) < 6:
        return ENI_BUDGETS[-1][1]
    return next(interfaces for max_vcpus, interfaces in LARGE_ENI_BUDGETS if vcpus <= max_vcpus)


DEFAULT_MAX_PODS = 110
ADDRESSES_PER_PREFIX = 16
HOST_NETWORK_PODS = 2  # kube-proxy and the network plugin use the node's own address


def compute_max_pods(
    info: InstanceTypeInfo,
    settings: NodeClassSettings,
    override: ResourceOverride = NO_OVERRIDE,
    *,
    cpu: int | None = None,
) -> DerivedAmount:
    """The maximum number of pods. `cpu` in thousandths, where it is not that of the type."""
    limit = _pod_limit(info, settings, override)
    if settings.ami_family.traits.auto_mode and limit.amount > DEFAULT_MAX_PODS:
        limit = DerivedAmount(DEFAULT_MAX_PODS, DerivationRule.AUTO_MODE_PODS)
    per_core = settings.kubelet.pods_per_core
    if not per_core or not settings.ami_family.traits.pods_per_core:
        return limit
    cores = (info.vcpus * 1000 if cpu is None else cpu) // 1000
    if per_core * cores >= limit.amount:
        return limit
    inputs = {"pods_per_core": per_core, "vcpus": cores, "otherwise": limit.amount}
    return DerivedAmount(per_core * cores, DerivationRule.PODS_PER_CORE, inputs)


def _pod_limit(
    info: InstanceTypeInfo, settings: NodeClassSettings, override: ResourceOverride
) -> DerivedAmount:
    """The smaller of class and InstanceType object; what the interfaces allow without both."""
    max_pods, declared = settings.kubelet.max_pods, override.pods
    if max_pods is not None and declared is not None:
        inputs = {"max_pods": max_pods, "declared": declared}
        return DerivedAmount(min(max_pods, declared), DerivationRule.FEWER_PODS, inputs)
    if max_pods is not None:
        return DerivedAmount(max_pods, DerivationRule.MAX_PODS)
    if declared is not None:
        return DerivedAmount(declared, DerivationRule.DECLARED_PODS)
    if not settings.ami_family.traits.eni_density:
        return DerivedAmount(DEFAULT_MAX_PODS, DerivationRule.NO_ENI_DENSITY)
    if settings.options.prefix_delegation and info.hypervisor != "xen":
        return prefix_delegation_pods(info, settings)
    return eni_limited_pods(info, settings, reserved=settings.options.reserved_enis)


def eni_limited_pods(
    info: InstanceTypeInfo, settings: NodeClassSettings, *, reserved: int
) -> DerivedAmount:
    """One pod per secondary address of the default card's interfaces."""
    efa_only = settings.efa_only_on_default_card
    interfaces = info.network_interfaces - reserved - efa_only
    inputs = {"of": info.network_interfaces, "reserved": reserved, "efa_only": efa_only}
    if interfaces <= 0:
        return DerivedAmount(0, DerivationRule.NO_INTERFACES, inputs)
    addresses = info.addresses_per_interface
    amount = interfaces * (addresses - 1) + HOST_NETWORK_PODS
    inputs |= {"interfaces": interfaces, "addresses": addresses}
    return DerivedAmount(amount, DerivationRule.ENI_DENSITY, inputs)


def prefix_delegation_pods(info: InstanceTypeInfo, settings: NodeClassSettings) -> DerivedAmount:
    """Sixteen pods per secondary address, up to the recommended maximum of a node."""
    eni_limited = eni_limited_pods(info, settings, reserved=settings.options.reserved_enis)
    if eni_limited.rule is DerivationRule.NO_INTERFACES:
        return eni_limited
    limit = 250 if info.vcpus > 30 else 110
    amount = (eni_limited.amount - HOST_NETWORK_PODS) * ADDRESSES_PER_PREFIX + HOST_NETWORK_PODS
    inputs = dict(eni_limited.inputs) | {"most": limit, "vcpus": info.vcpus}
    return DerivedAmount(min(amount, limit), DerivationRule.PREFIX_DENSITY, inputs)


def pods_for_reserved_memory(
    info: InstanceTypeInfo,
    settings: NodeClassSettings,
    override: ResourceOverride,
    max_pods: DerivedAmount,
) -> DerivedAmount:
    """The number of pods that kube-reserved memory is computed for.

    Images that compute it at boot look the type up in a table of interfaces: they know neither
    maxPods nor reserved interfaces. The others get the maximum number of pods.
    """
    if not settings.ami_family.traits.memory_by_eni_density:
        return max_pods
    if override.pods is not None:
        return DerivedAmount(override.pods, DerivationRule.DECLARED_PODS)
    return eni_limited_pods(info, settings, reserved=0)
