"""How many pods a node of an instance type can run, by its network interfaces and the node class.

Also here: how many pods can have a branch network interface of their own, and how many pods
kube-reserved memory is reckoned for.
"""

from typing import Final

from wainwright.catalogue.instancetypes.derived_amount import DerivationRule, DerivedAmount
from wainwright.catalogue.instancetypes.instance_type_info import InstanceTypeInfo
from wainwright.catalogue.instancetypes.node_class_settings import (
    NO_OVERRIDE,
    NodeClassSettings,
    ResourceOverride,
)
from wainwright.model.resources import PODS

ENI_BUDGETS: Final = ((1, 6), (2, 12), (4, 22), (12, 42), (24, 62))
"""Up to so many vCPUs, so many interfaces in all."""
LARGE_ENI_BUDGETS: Final = ((36, 92), (48, 122))
"""The same for Intel and AMD instances from the sixth generation on; others have 62 there."""
MAX_ENI_BUDGET: Final = 122


def max_branch_enis(info: InstanceTypeInfo) -> DerivedAmount | None:
    """None where the instance cannot have any."""
    if info.branch_interfaces is not None:
        return DerivedAmount(info.branch_interfaces, DerivationRule.BRANCH_LISTED)
    if not supports_trunking(info):
        return None
    allowed = eni_budget(info)
    amount = max(allowed - info.all_network_interfaces, 0)
    detail = {
        "budget": allowed,
        "vcpus": info.vcpus,
        "interfaces": info.all_network_interfaces,
    }
    return DerivedAmount(amount, DerivationRule.BRANCH_RULE, detail)


def supports_trunking(info: InstanceTypeInfo) -> bool:
    """Nitro instances have it, bare or not, but for the burstable ones and one old giant."""
    return info.hypervisor != "xen" and info.category != "t" and info.family != "u-6tb1"


def eni_budget(info: InstanceTypeInfo) -> int:
    """All the interfaces that an instance of this size may have, its own included."""
    vcpus = info.vcpus // 2 if info.flex and info.vcpus <= 32 else info.vcpus
    for most, interfaces in ENI_BUDGETS:
        if vcpus <= most:
            return interfaces
    if vcpus > LARGE_ENI_BUDGETS[-1][0]:
        return MAX_ENI_BUDGET
    if info.cpu_manufacturer not in ("intel", "amd") or (info.generation or 0) < 6:
        return ENI_BUDGETS[-1][1]
    return next(interfaces for most, interfaces in LARGE_ENI_BUDGETS if vcpus <= most)


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
    """The pods in force. `cpu` in thousandths, where it is not the instance's own."""
    allowed = _pod_limit(info, settings, override)
    per_core = settings.kubelet.pods_per_core
    if not per_core or not settings.ami_family.traits.pods_per_core:
        return allowed
    cores = (info.vcpus * 1000 if cpu is None else cpu) // 1000
    if per_core * cores >= allowed.amount:
        return allowed
    detail = {"pods_per_core": per_core, "vcpus": cores, "otherwise": allowed.amount}
    return DerivedAmount(per_core * cores, DerivationRule.PODS_PER_CORE, detail)


def _pod_limit(
    info: InstanceTypeInfo, settings: NodeClassSettings, override: ResourceOverride
) -> DerivedAmount:
    """The smaller of what class and InstanceType object say; interfaces where both are silent."""
    max_pods, declared = settings.kubelet.max_pods, override.resources.get(PODS)
    if max_pods is not None and declared is not None:
        detail = {"max_pods": max_pods, "declared": declared}
        return DerivedAmount(min(max_pods, declared), DerivationRule.FEWER_PODS, detail)
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
    detail = {"of": info.network_interfaces, "reserved": reserved, "efa_only": efa_only}
    if interfaces <= 0:
        return DerivedAmount(0, DerivationRule.NO_INTERFACES, detail)
    addresses = info.addresses_per_interface
    amount = interfaces * (addresses - 1) + HOST_NETWORK_PODS
    detail |= {"interfaces": interfaces, "addresses": addresses}
    return DerivedAmount(amount, DerivationRule.ENI_DENSITY, detail)


def prefix_delegation_pods(info: InstanceTypeInfo, settings: NodeClassSettings) -> DerivedAmount:
    """Sixteen pods per secondary address, up to what one node is advised to run."""
    plain = eni_limited_pods(info, settings, reserved=settings.options.reserved_enis)
    if plain.rule is DerivationRule.NO_INTERFACES:
        return plain
    most = 250 if info.vcpus > 30 else 110
    amount = (plain.amount - HOST_NETWORK_PODS) * ADDRESSES_PER_PREFIX + HOST_NETWORK_PODS
    detail = dict(plain.detail) | {"most": most, "vcpus": info.vcpus}
    return DerivedAmount(min(amount, most), DerivationRule.PREFIX_DENSITY, detail)


def pods_for_reserved_memory(
    info: InstanceTypeInfo,
    settings: NodeClassSettings,
    override: ResourceOverride,
    in_force: DerivedAmount,
) -> DerivedAmount:
    """The pods that kube-reserved memory is for.

    Images that reckon it themselves at boot look the type up in a table of interfaces: they know
    neither maxPods nor reserved interfaces. The others are told the pods in force.
    """
    if not settings.ami_family.traits.memory_by_eni_density:
        return in_force
    if PODS in override.resources:
        return DerivedAmount(override.resources[PODS], DerivationRule.DECLARED_PODS)
    return eni_limited_pods(info, settings, reserved=0)
