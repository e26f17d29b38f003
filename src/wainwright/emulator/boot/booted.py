"""Booted: from user data to a node with its capacity, or to the reason why there is none.

    outcome = boot(decoded(build.user_data), Facts(…))

What comes out is what the user data says, laid over the defaults of the image. Memory is what the
machine really has. Flags that are maps (AL2, Windows) take the place of the image's own map, as
the kubelet has it; NodeConfigs and Bottlerocket's settings change it key by key.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import msgspec

from wainwright.api.quantity import Quantity
from wainwright.catalogue.density import HOST_NETWORK_PODS, WITHOUT_ENI_DENSITY
from wainwright.catalogue.figure import CPU, EPHEMERAL_STORAGE, GIB, MEMORY, PODS
from wainwright.catalogue.machine import Machine
from wainwright.catalogue.reserved import kube_cpu
from wainwright.catalogue.storage import GB
from wainwright.catalogue.threshold import Threshold
from wainwright.emulator.boot import kubelet
from wainwright.emulator.boot.facts import Facts, Family
from wainwright.emulator.boot.memory import true_memory
from wainwright.emulator.boot.read import read
from wainwright.emulator.boot.reasons import NeverJoins, Reason, Unbootable
from wainwright.emulator.boot.settings import Settings
from wainwright.model.taints import Taint

Amounts: TypeAlias = dict[str, int]

EVICTION: Final = {
    "memory.available": "100Mi",
    "nodefs.available": "10%",
    "nodefs.inodesFree": "5%",
}
SIGNALS: Final = {MEMORY: "memory.available", EPHEMERAL_STORAGE: "nodefs.available"}
"""The signals that take something from pods."""


class Booted(msgspec.Struct, frozen=True, kw_only=True):
    """A machine that joins; amounts are cpu in thousandths, everything else in whole units."""

    family: Family
    cluster_name: str
    endpoint: str
    labels: dict[str, str]
    """Those that the user data gives."""
    taints: tuple[Taint, ...]
    max_pods: int
    """As the kubelet was told; capacity has fewer where it was also told pods per core."""
    kube_reserved: Amounts
    system_reserved: Amounts
    eviction_hard: dict[str, str]
    eviction_soft: dict[str, str]
    eviction_soft_grace: dict[str, str]
    dns: tuple[str, ...]
    local_disks: bool
    rest: dict[str, Any]
    """Whatever else the kubelet was told."""
    capacity: Amounts
    allocatable: Amounts


def boot(user_data: str, facts: Facts) -> Booted | NeverJoins:
    """What becomes of a machine with this user data (decoded)."""
    try:
        return _joined(read(user_data, facts), facts)
    except Unbootable as failure:
        return NeverJoins(failure.reason, failure.detail)


def _joined(settings: Settings, facts: Facts) -> Booted:
    endpoint = _endpoint(settings, facts)
    kubelet.check_labels(settings.labels)
    kubelet.check_taints(settings.taints)
    soft = kubelet.thresholds("evictionSoft", settings.eviction_soft)
    kubelet.check_grace(soft, settings.eviction_soft_grace)
    max_pods = _max_pods(settings, facts.machine)
    capacity = _capacity(settings, facts, max_pods)
    kube = _reserved(settings, facts.machine, capacity[PODS])
    system = _amounts(kubelet.reserved("systemReserved", settings.system_reserved))
    hard = _over(EVICTION, settings.eviction_hard, "eviction_hard" in settings.replaced)
    kept = _evicted(kubelet.thresholds("evictionHard", hard), capacity)
    return Booted(
        family=settings.family,
        cluster_name=settings.cluster,
        endpoint=endpoint,
        labels=dict(settings.labels),
        taints=settings.taints,
        max_pods=max_pods,
        kube_reserved=kube,
        system_reserved=system,
        eviction_hard=hard,
        eviction_soft=dict(settings.eviction_soft),
        eviction_soft_grace=dict(settings.eviction_soft_grace),
        dns=settings.dns,
        local_disks=settings.local_disks,
        rest=dict(settings.rest),
        capacity=capacity,
        allocatable=_left(capacity, kube, system, kept),
    )


def _endpoint(settings: Settings, facts: Facts) -> str:
    """Scripts that are not told it ask EKS; whatever is told must be right."""
    if facts.clusters is None:
        return settings.endpoint
    known = facts.clusters.get(settings.cluster)
    if known is None:
        raise Unbootable(Reason.OTHER_CLUSTER, f"there is no cluster {settings.cluster!r}")
    if settings.endpoint not in ("", known.endpoint):
        raise Unbootable(Reason.OTHER_CLUSTER, f"nobody answers at {settings.endpoint}")
    if settings.certificate not in ("", known.certificate):
        raise Unbootable(Reason.OTHER_CLUSTER, "the cluster has another certificate authority")
    return known.endpoint


def _max_pods(settings: Settings, machine: Machine) -> int:
    if settings.max_pods is not None:
        return kubelet.check_number("maxPods", settings.max_pods)
    if settings.family is Family.WINDOWS:
        return WITHOUT_ENI_DENSITY
    return by_interfaces(machine)


def by_interfaces(machine: Machine) -> int:
    """What the image's own list says of the type."""
    each = machine.addresses_per_interface - 1
    return machine.network_interfaces * each + HOST_NETWORK_PODS


def _capacity(settings: Settings, facts: Facts, max_pods: int) -> Amounts:
    machine = facts.machine
    per_core = kubelet.check_number("podsPerCore", settings.pods_per_core)
    return {
        CPU: machine.vcpus * 1000,
        MEMORY: true_memory(machine),
        EPHEMERAL_STORAGE: _disk(settings, facts),
        PODS: min(max_pods, per_core * machine.vcpus) if per_core else max_pods,
    }


def _disk(settings: Settings, facts: Facts) -> int:
    if settings.local_disks and facts.machine.local_storage_gb:
        return facts.machine.local_storage_gb * GB
    family = settings.family
    return facts.disks.get(family.pod_device, family.pod_device_gib) * GIB


def _reserved(settings: Settings, machine: Machine, pods: int) -> Amounts:
    """Images that look the type up know neither maxPods nor anything else but its interfaces."""
    looked_up = settings.family in (Family.NODEADM, Family.SHELL)
    counted = by_interfaces(machine) if looked_up else pods
    reckoned = {
        CPU: f"{kube_cpu(machine.vcpus * 1000)}m",
        MEMORY: f"{255 + 11 * counted}Mi",
        EPHEMERAL_STORAGE: "1Gi",
    }
    said = _over(reckoned, settings.kube_reserved, "kube_reserved" in settings.replaced)
    return _amounts(kubelet.reserved("kubeReserved", said))


def _over(below: Mapping[str, str], above: Mapping[str, str], replaced: bool) -> dict[str, str]:
    return dict(above) if replaced else {**below, **above}


def _amounts(given: Mapping[str, Quantity]) -> Amounts:
    return {name: each.milli if name == CPU else each.units for name, each in given.items()}


def _evicted(hard: Mapping[str, Threshold], capacity: Amounts) -> Amounts:
    return {
        resource: hard[signal].of(capacity[resource])
        for resource, signal in SIGNALS.items()
        if signal in hard
    }


def _left(capacity: Amounts, *kept: Mapping[str, int]) -> Amounts:
    left: Amounts = {}
    for resource, amount in capacity.items():
        left[resource] = amount - sum(each.get(resource, 0) for each in kept)
        if left[resource] < 0:
            raise Unbootable(
                Reason.TOO_SMALL,
                f"{amount - left[resource]} of {resource} are reserved, and there are {amount}",
            )
    return left
