"""Density: how many pods a machine takes, and how many of them its reserved memory counts."""

from wainwright.catalogue.figure import PODS, Figure, Rule
from wainwright.catalogue.machine import Machine
from wainwright.catalogue.settings import NO_OVERRIDE, ClassSettings, Override

WITHOUT_ENI_DENSITY = 110
ADDRESSES_PER_PREFIX = 16
HOST_NETWORK_PODS = 2  # kube-proxy and the network plugin use the node's own address


def pods(
    machine: Machine,
    settings: ClassSettings,
    override: Override = NO_OVERRIDE,
    *,
    cpu: int | None = None,
) -> Figure:
    """The pods in force. `cpu` in thousandths, where it is not the machine's own."""
    allowed = _allowed(machine, settings, override)
    per_core = settings.kubelet.pods_per_core
    if not per_core or not settings.ami_family.traits.pods_per_core:
        return allowed
    cores = (machine.vcpus * 1000 if cpu is None else cpu) // 1000
    if per_core * cores >= allowed.amount:
        return allowed
    detail = {"pods_per_core": per_core, "vcpus": cores, "otherwise": allowed.amount}
    return Figure(per_core * cores, Rule.PODS_PER_CORE, detail)


def _allowed(machine: Machine, settings: ClassSettings, override: Override) -> Figure:
    """The smaller of what class and InstanceType object say; interfaces where both are silent."""
    max_pods, declared = settings.kubelet.max_pods, override.resources.get(PODS)
    if max_pods is not None and declared is not None:
        detail = {"max_pods": max_pods, "declared": declared}
        return Figure(min(max_pods, declared), Rule.FEWER_PODS, detail)
    if max_pods is not None:
        return Figure(max_pods, Rule.MAX_PODS)
    if declared is not None:
        return Figure(declared, Rule.DECLARED_PODS)
    if not settings.ami_family.traits.eni_density:
        return Figure(WITHOUT_ENI_DENSITY, Rule.NO_ENI_DENSITY)
    if settings.options.prefix_delegation and machine.hypervisor != "xen":
        return prefix_density(machine, settings)
    return eni_density(machine, settings, reserved=settings.options.reserved_enis)


def eni_density(machine: Machine, settings: ClassSettings, *, reserved: int) -> Figure:
    """One pod per secondary address of the default card's interfaces."""
    efa_only = settings.efa_only_on_default_card
    interfaces = machine.network_interfaces - reserved - efa_only
    detail = {"of": machine.network_interfaces, "reserved": reserved, "efa_only": efa_only}
    if interfaces <= 0:
        return Figure(0, Rule.NO_INTERFACES, detail)
    addresses = machine.addresses_per_interface
    amount = interfaces * (addresses - 1) + HOST_NETWORK_PODS
    detail |= {"interfaces": interfaces, "addresses": addresses}
    return Figure(amount, Rule.ENI_DENSITY, detail)


def prefix_density(machine: Machine, settings: ClassSettings) -> Figure:
    """Sixteen pods per secondary address, up to what one node is advised to run."""
    plain = eni_density(machine, settings, reserved=settings.options.reserved_enis)
    if plain.rule is Rule.NO_INTERFACES:
        return plain
    most = 250 if machine.vcpus > 30 else 110
    amount = (plain.amount - HOST_NETWORK_PODS) * ADDRESSES_PER_PREFIX + HOST_NETWORK_PODS
    detail = dict(plain.detail) | {"most": most, "vcpus": machine.vcpus}
    return Figure(min(amount, most), Rule.PREFIX_DENSITY, detail)


def pods_counted_in_memory(
    machine: Machine, settings: ClassSettings, override: Override, in_force: Figure
) -> Figure:
    """The pods that kube-reserved memory is for.

    Images that reckon it themselves at boot look the type up in a table of interfaces: they know
    neither maxPods nor reserved interfaces. The others are told the pods in force.
    """
    if not settings.ami_family.traits.memory_by_eni_density:
        return in_force
    if PODS in override.resources:
        return Figure(override.resources[PODS], Rule.DECLARED_PODS)
    return eni_density(machine, settings, reserved=0)
