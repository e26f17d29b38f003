"""Capacity: what a node of a type and class has before anything is kept back from pods."""

from fractions import Fraction
from functools import cache

from wainwright.catalogue.density import pods
from wainwright.catalogue.devices import devices
from wainwright.catalogue.eviction import hard_threshold
from wainwright.catalogue.figure import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    MIB,
    PODS,
    Detail,
    Figure,
    Rule,
    ceiling,
)
from wainwright.catalogue.machine import Machine
from wainwright.catalogue.reserved import reserved_storage
from wainwright.catalogue.settings import NO_OVERRIDE, ClassSettings, Override
from wainwright.catalogue.storage import ephemeral_storage, sized_to_pods

ARM_MIB = 64  # arm64 kernels keep this much for contiguous allocations


def capacity(
    machine: Machine, settings: ClassSettings, override: Override = NO_OVERRIDE
) -> dict[str, Figure]:
    """Every resource of the node; what an InstanceType object declares stands as it is."""
    declared = {
        name: Figure(override.resources[name], Rule.DECLARED) for name in sorted(override.resources)
    }
    cpu = declared.get(CPU) or Figure(machine.vcpus * 1000, Rule.VCPUS, {"vcpus": machine.vcpus})
    in_force = pods(machine, settings, override, cpu=cpu.amount)
    known = {
        CPU: cpu,
        MEMORY: memory(machine, settings.options.vm_memory_overhead, override.overhead.get(MEMORY)),
        EPHEMERAL_STORAGE: _storage(machine, settings, in_force.amount),
        **devices(machine, settings),
    }
    # Pods are never just declared: the class may allow fewer.
    return known | declared | {PODS: in_force}


def memory(machine: Machine, vm_share: Fraction, declared_overhead: int | None = None) -> Figure:
    """What the kubelet will find, as far as one can know before the machine runs."""
    arm = machine.architecture == "arm64"
    mib = machine.memory_mib - (ARM_MIB if arm else 0)
    detail: Detail = {"memory": machine.memory_mib * MIB}
    if declared_overhead is not None:
        rule = Rule.DECLARED_VM_MEMORY_ARM if arm else Rule.DECLARED_VM_MEMORY
        left = max(mib * MIB - declared_overhead, 0)  # an overhead may be larger than the machine
        return Figure(left, rule, detail | {"overhead": declared_overhead})
    overhead = ceiling(mib * vm_share.numerator, vm_share.denominator)
    detail |= {"percent": _percent(vm_share), "overhead": overhead * MIB}
    rule = Rule.VM_MEMORY_ARM if arm else Rule.VM_MEMORY
    return Figure((mib - overhead) * MIB, rule, detail)


@cache
def _percent(share: Fraction) -> str:
    return f"{float(share * 100):g}"


def _storage(machine: Machine, settings: ClassSettings, in_force: int) -> Figure:
    disk = ephemeral_storage(machine, settings)
    per_pod = settings.options.storage_per_pod
    if per_pod is None:
        return disk
    return sized_to_pods(
        disk,
        pods=in_force,
        per_pod=per_pod,
        reserved=reserved_storage(settings.kubelet),
        kept=hard_threshold(settings.kubelet, EPHEMERAL_STORAGE),
    )
