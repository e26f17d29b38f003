"""Branch interfaces: how many pods of a machine can have a network interface of their own."""

from typing import Final

from wainwright.catalogue.figure import Figure, Rule
from wainwright.catalogue.machine import Machine

BUDGETS: Final = ((1, 6), (2, 12), (4, 22), (12, 42), (24, 62))
"""Up to so many vCPUs, so many interfaces in all."""
LARGE: Final = ((36, 92), (48, 122))
"""The same for Intel and AMD machines from the sixth generation on; others have 62 there."""
MOST: Final = 122


def branch_interfaces(machine: Machine) -> Figure | None:
    """None where the machine cannot have any."""
    if machine.branch_interfaces is not None:
        return Figure(machine.branch_interfaces, Rule.BRANCH_LISTED)
    if not trunking(machine):
        return None
    allowed = budget(machine)
    amount = max(allowed - machine.all_network_interfaces, 0)
    detail = {
        "budget": allowed,
        "vcpus": machine.vcpus,
        "interfaces": machine.all_network_interfaces,
    }
    return Figure(amount, Rule.BRANCH_RULE, detail)


def trunking(machine: Machine) -> bool:
    """Nitro machines have it, bare or not, but for the burstable ones and one old giant."""
    return machine.hypervisor != "xen" and machine.category != "t" and machine.family != "u-6tb1"


def budget(machine: Machine) -> int:
    """All the interfaces that a machine of this size may have, its own included."""
    vcpus = machine.vcpus // 2 if machine.flex and machine.vcpus <= 32 else machine.vcpus
    for most, interfaces in BUDGETS:
        if vcpus <= most:
            return interfaces
    if vcpus > LARGE[-1][0]:
        return MOST
    if machine.cpu_manufacturer not in ("intel", "amd") or (machine.generation or 0) < 6:
        return BUDGETS[-1][1]
    return next(interfaces for most, interfaces in LARGE if vcpus <= most)
