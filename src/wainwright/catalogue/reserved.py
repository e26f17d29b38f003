"""Reserved resources: what kubelet, container runtime and system keep for themselves."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from wainwright.api.quantity import Quantity
from wainwright.catalogue.figure import (
    CPU,
    EPHEMERAL_STORAGE,
    GIB,
    MEMORY,
    MIB,
    Figure,
    Rule,
    ceiling,
)
from wainwright.catalogue.settings import Kubelet, MemoryStrategy

CPU_SHARES: Final = ((1000, 600), (1000, 100), (2000, 50))
"""Of the first so many thousandths of a core, so many ten-thousandths."""
FURTHER_CPU_SHARE: Final = 25
GKE_SHARES: Final = ((4 * GIB, 25), (4 * GIB, 20), (8 * GIB, 10), (112 * GIB, 6))
"""Of the first so many bytes, so many percent."""
FURTHER_GKE_SHARE: Final = 2
KUBE_STORAGE: Final = GIB
STORAGE: Final = Figure(KUBE_STORAGE, Rule.KUBE_STORAGE)
MEMORY_RULES: Final = {
    Rule.ENI_DENSITY: Rule.KUBE_MEMORY_INTERFACES,
    Rule.NO_INTERFACES: Rule.KUBE_MEMORY_INTERFACES,
    Rule.DECLARED_PODS: Rule.KUBE_MEMORY_DECLARED,
}


def kube_reserved(
    kubelet: Kubelet, capacity: Mapping[str, Figure], counted: Figure
) -> dict[str, Figure]:
    """What the class says, resource by resource; what it does not say goes by the node's size.

    `counted` are the pods to allow for.
    """
    reckoned = {
        CPU: _cpu(capacity[CPU].amount),
        MEMORY: _memory(kubelet.kube_reserved_memory_strategy, capacity[MEMORY].amount, counted),
        EPHEMERAL_STORAGE: STORAGE,
    }
    if not kubelet.kube_reserved:
        return reckoned
    return reckoned | _given(kubelet.kube_reserved, Rule.KUBE_RESERVED)


def system_reserved(kubelet: Kubelet) -> dict[str, Figure]:
    return _given(kubelet.system_reserved, Rule.SYSTEM_RESERVED)


def reserved_storage(kubelet: Kubelet) -> int:
    """Ephemeral storage that kubelet and system keep, whatever the size of the disk."""
    kube = kubelet.kube_reserved.get(EPHEMERAL_STORAGE)
    system = kubelet.system_reserved.get(EPHEMERAL_STORAGE)
    return (KUBE_STORAGE if kube is None else kube.units) + (0 if system is None else system.units)


def kube_cpu(cpu: int) -> int:
    """In thousandths; each share is rounded down by itself."""
    reserved = 0
    for width, share in CPU_SHARES:
        reserved += min(cpu, width) * share // 10_000
        cpu = max(cpu - width, 0)
    return reserved + cpu * FURTHER_CPU_SHARE // 10_000


def gke_memory(memory: int) -> int:
    """Bytes, rounded up to whole MiB."""
    if memory < GIB:
        return 255 * MIB
    percents = 0
    for width, share in GKE_SHARES:
        percents += min(memory, width) * share
        memory = max(memory - width, 0)
    return ceiling(percents + memory * FURTHER_GKE_SHARE, 100 * MIB) * MIB


def _memory(strategy: MemoryStrategy, memory: int, counted: Figure) -> Figure:
    if strategy is MemoryStrategy.GKE:
        return Figure(gke_memory(memory), Rule.KUBE_MEMORY_GKE, {"memory": memory})
    return _by_pods(counted.amount, MEMORY_RULES.get(counted.rule, Rule.KUBE_MEMORY_PODS))


@lru_cache(maxsize=4096)
def _by_pods(pods: int, rule: Rule) -> Figure:
    return Figure((255 + 11 * pods) * MIB, rule, {"pods": pods})


@lru_cache(maxsize=4096)
def _cpu(cpu: int) -> Figure:
    return Figure(kube_cpu(cpu), Rule.KUBE_CPU)


def _given(reserved: Mapping[str, Quantity], rule: Rule) -> dict[str, Figure]:
    return {name: Figure(_amount(name, reserved[name]), rule) for name in sorted(reserved)}


def _amount(name: str, quantity: Quantity) -> int:
    return quantity.milli if name == CPU else quantity.units
