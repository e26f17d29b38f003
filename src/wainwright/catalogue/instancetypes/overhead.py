"""Overhead: kube-reserved, system-reserved and eviction thresholds, which pods cannot use."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

import msgspec

from wainwright.api.quantity import NANO, Quantity
from wainwright.catalogue.instancetypes.derived_amount import (
    GIB,
    MIB,
    DerivationInputs,
    DerivationRule,
    DerivedAmount,
    ceil_div,
)
from wainwright.catalogue.instancetypes.instance_type_info import InstanceTypeInfo
from wainwright.catalogue.instancetypes.max_pods import pods_for_reserved_memory
from wainwright.catalogue.instancetypes.node_class_settings import (
    NO_OVERRIDE,
    EvictionThreshold,
    KubeletSettings,
    NodeClassSettings,
    ResourceOverride,
)
from wainwright.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS
from wainwright.translate.annotations import KubeReservedMemoryStrategy

CPU_SHARES: Final = ((1000, 600), (1000, 100), (2000, 50))
"""Pairs: of this many thousandths of a core, in order, so many ten-thousandths are reserved."""
REMAINING_CPU_SHARE: Final = 25
GKE_SHARES: Final = ((4 * GIB, 25), (4 * GIB, 20), (8 * GIB, 10), (112 * GIB, 6))
"""Pairs: of this many bytes, in order, so many percent are reserved."""
REMAINING_GKE_SHARE: Final = 2
KUBE_RESERVED_STORAGE: Final = GIB
KUBE_RESERVED_STORAGE_AMOUNT: Final = DerivedAmount(
    KUBE_RESERVED_STORAGE, DerivationRule.KUBE_STORAGE
)
KUBE_MEMORY_RULES: Final = {
    DerivationRule.ENI_DENSITY: DerivationRule.KUBE_MEMORY_INTERFACES,
    DerivationRule.NO_INTERFACES: DerivationRule.KUBE_MEMORY_INTERFACES,
    DerivationRule.DECLARED_PODS: DerivationRule.KUBE_MEMORY_DECLARED,
}


def kube_reserved(
    kubelet: KubeletSettings, capacity: Mapping[str, DerivedAmount], pods: DerivedAmount
) -> dict[str, DerivedAmount]:
    """kubeReserved of the class, resource by resource; else the default for the node's size.

    `pods` is the number of pods that memory is reserved for.
    """
    defaults = {
        CPU: _kube_reserved_cpu(capacity[CPU].amount),
        MEMORY: _kube_reserved_memory(
            kubelet.kube_reserved_memory_strategy, capacity[MEMORY].amount, pods
        ),
        EPHEMERAL_STORAGE: KUBE_RESERVED_STORAGE_AMOUNT,
    }
    if not kubelet.kube_reserved:
        return defaults
    return defaults | _configured_reserved(kubelet.kube_reserved, DerivationRule.KUBE_RESERVED)


def system_reserved(kubelet: KubeletSettings) -> dict[str, DerivedAmount]:
    return _configured_reserved(kubelet.system_reserved, DerivationRule.SYSTEM_RESERVED)


def reserved_storage(kubelet: KubeletSettings) -> int:
    """Ephemeral storage of kube-reserved and system-reserved, which no volume size changes."""
    kube = kubelet.kube_reserved.get(EPHEMERAL_STORAGE)
    system = kubelet.system_reserved.get(EPHEMERAL_STORAGE)
    return (KUBE_RESERVED_STORAGE if kube is None else kube.units) + (
        0 if system is None else system.units
    )


def kube_reserved_cpu(cpu: int) -> int:
    """In thousandths; each share is rounded down on its own."""
    reserved = 0
    for width, share in CPU_SHARES:
        reserved += min(cpu, width) * share // 10_000
        cpu = max(cpu - width, 0)
    return reserved + cpu * REMAINING_CPU_SHARE // 10_000


def gke_reserved_memory(memory: int) -> int:
    """Bytes, rounded up to whole MiB."""
    if memory < GIB:
        return 255 * MIB
    percents = 0
    for width, share in GKE_SHARES:
        percents += min(memory, width) * share
        memory = max(memory - width, 0)
    return ceil_div(percents + memory * REMAINING_GKE_SHARE, 100 * MIB) * MIB


def _kube_reserved_memory(
    strategy: KubeReservedMemoryStrategy, memory: int, pods: DerivedAmount
) -> DerivedAmount:
    if strategy is KubeReservedMemoryStrategy.GKE:
        return DerivedAmount(
            gke_reserved_memory(memory), DerivationRule.KUBE_MEMORY_GKE, {"memory": memory}
        )
    return _memory_for_pods(
        pods.amount, KUBE_MEMORY_RULES.get(pods.rule, DerivationRule.KUBE_MEMORY_PODS)
    )


@lru_cache(maxsize=4096)  # types share a few pod counts and CPU sizes: one object for all of them
def _memory_for_pods(pods: int, rule: DerivationRule) -> DerivedAmount:
    return DerivedAmount((255 + 11 * pods) * MIB, rule, {"pods": pods})


@lru_cache(maxsize=4096)  # as above
def _kube_reserved_cpu(cpu: int) -> DerivedAmount:
    return DerivedAmount(kube_reserved_cpu(cpu), DerivationRule.KUBE_CPU)


def _configured_reserved(
    reserved: Mapping[str, Quantity], rule: DerivationRule
) -> dict[str, DerivedAmount]:
    return {
        name: DerivedAmount(_to_amount(name, reserved[name]), rule) for name in sorted(reserved)
    }


def _to_amount(name: str, quantity: Quantity) -> int:
    return quantity.milli if name == CPU else quantity.units


EVICTION_SIGNALS: Final = {MEMORY: "memory.available", EPHEMERAL_STORAGE: "nodefs.available"}
"""The signals that reduce allocatable resources; inodes, images and pids do not."""
DEFAULT_EVICTION_HARD: Final = {
    MEMORY: EvictionThreshold(quantity=Quantity(100 * MIB * NANO)),
    EPHEMERAL_STORAGE: EvictionThreshold(share=10 * NANO),
}


def eviction_hard_threshold(kubelet: KubeletSettings, resource: str) -> EvictionThreshold:
    """evictionHard of the class, signal by signal, else the default of the kubelet."""
    return kubelet.eviction_hard.get(EVICTION_SIGNALS[resource], DEFAULT_EVICTION_HARD[resource])


def eviction_reserved(
    kubelet: KubeletSettings, capacity: Mapping[str, DerivedAmount]
) -> dict[str, DerivedAmount]:
    return {
        resource: _eviction_amount(
            signal,
            eviction_hard_threshold(kubelet, resource),
            signal in kubelet.eviction_hard,
            capacity[resource].amount,
        )
        for resource, signal in EVICTION_SIGNALS.items()
    }


@lru_cache(maxsize=4096)
def _eviction_amount(
    signal: str, threshold: EvictionThreshold, is_configured: bool, capacity: int
) -> DerivedAmount:
    """The amount of a threshold; cached, as most types of a class have the same volume size."""
    inputs: DerivationInputs = {"signal": signal}
    if threshold.is_off:
        return DerivedAmount(0, DerivationRule.EVICTION_OFF, inputs)
    if threshold.quantity is not None:
        rule = DerivationRule.EVICTION_HARD if is_configured else DerivationRule.EVICTION_DEFAULT
        return DerivedAmount(threshold.amount_of(capacity), rule, inputs)
    rule = (
        DerivationRule.EVICTION_HARD_SHARE
        if is_configured
        else DerivationRule.EVICTION_DEFAULT_SHARE
    )
    inputs |= {"percent": threshold.percent, "capacity": capacity}
    return DerivedAmount(threshold.amount_of(capacity), rule, inputs)


class Overhead(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of the overhead, each by resource."""

    kube_reserved: Mapping[str, DerivedAmount]
    system_reserved: Mapping[str, DerivedAmount]
    eviction: Mapping[str, DerivedAmount]
    declared: Mapping[str, DerivedAmount]
    from_catalog: Mapping[str, DerivedAmount] = {}
    """The overhead of a Catalog, which replaces all others except the declared one."""

    @property
    def parts(self) -> tuple[Mapping[str, DerivedAmount], ...]:
        return (
            self.kube_reserved,
            self.system_reserved,
            self.eviction,
            self.declared,
            self.from_catalog,
        )

    def total(self) -> dict[str, int]:
        total: dict[str, int] = {}
        for part in self.parts:
            for resource, derived in part.items():
                total[resource] = total.get(resource, 0) + derived.amount
        return total


def compute_overhead(
    info: InstanceTypeInfo,
    settings: NodeClassSettings,
    capacity: Mapping[str, DerivedAmount],
    override: ResourceOverride = NO_OVERRIDE,
) -> Overhead:
    pods = pods_for_reserved_memory(info, settings, override, capacity[PODS])
    return Overhead(
        kube_reserved=kube_reserved(settings.kubelet, capacity, pods),
        system_reserved=system_reserved(settings.kubelet),
        eviction=eviction_reserved(settings.kubelet, capacity),
        declared=declared_overheads(override) if override.overhead else {},
    )


def declared_overheads(override: ResourceOverride) -> dict[str, DerivedAmount]:
    """The overhead of an InstanceType object, except what is subtracted from capacity already.

    Memory overhead replaces the percentage for the virtual machine, which capacity does not
    include; only where the object declares the memory as well is it still to be subtracted.
    """
    return {
        resource: DerivedAmount(override.overhead[resource], DerivationRule.DECLARED_OVERHEAD)
        for resource in sorted(override.overhead)
        if resource != MEMORY or MEMORY in override.resources
    }
