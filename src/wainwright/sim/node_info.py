"""What a pod needs of a node, and what is left of one, as the simulated kube-scheduler counts.

Amounts are whole numbers as in the kube-scheduler: cpu in thousandths, all else in units.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from wainwright.api.kubernetes.cluster import Node, Taint
from wainwright.api.kubernetes.meta import to_quantity
from wainwright.api.kubernetes.workloads import (
    Affinity,
    Container,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodSpec,
    ResourceRequirements,
)
from wainwright.controllers.runtime import Key
from wainwright.sim.node_matching import first_untolerated, matches_node_affinity, named_nodes

CPU: Final = "cpu"
MEMORY: Final = "memory"
PODS: Final = "pods"
DEFAULT_SCORED_CPU: Final = 100
DEFAULT_SCORED_MEMORY: Final = 200 * 1024 * 1024
"""What a pod without requests counts as when nodes are scored; nothing is reserved for it."""
UNSCHEDULABLE_TAINT: Final = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
ANY_ADDRESS: Final = ("", "0.0.0.0")
POD_LEVEL_RESOURCES: Final = (CPU, MEMORY)

Amounts: TypeAlias = dict[str, int]
HostPort: TypeAlias = tuple[str, int, str]
"""Protocol, port, address."""


def amounts(resources: Mapping[str, Any] | None) -> Amounts:
    found = {}
    for name, written in (resources or {}).items():
        quantity = to_quantity(written)
        found[name] = quantity.milli if name == CPU else quantity.units
    return found


def pod_requests(spec: PodSpec) -> Amounts:
    """Containers side by side; init containers in turn, each beside the sidecars before it."""
    running: Amounts = {}
    for container in spec.containers or ():
        _add(running, _container_requests(container.resources))
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in spec.initContainers or ():
        own = _container_requests(container.resources)
        if _is_sidecar(container):
            _add(sidecars, own)
            _raise_to(peak, sidecars)
        else:
            _add(own, sidecars)
            _raise_to(peak, own)
    _add(running, sidecars)
    _raise_to(running, peak)
    _set_pod_level(running, spec.resources)
    _add(running, amounts(spec.overhead))
    return {name: amount for name, amount in running.items() if amount}


def _is_sidecar(container: Container) -> bool:
    return container.restartPolicy == "Always"


def _container_requests(resources: ResourceRequirements) -> Amounts:
    """The API server sets a request that is absent to the limit."""
    return {**amounts(resources.limits), **amounts(resources.requests)}


def _set_pod_level(total: Amounts, stated: ResourceRequirements | None) -> None:
    """Requests of the pod as a whole count instead of those of its containers."""
    if stated is None:
        return
    limits = {name: each for name, each in amounts(stated.limits).items() if name not in total}
    for name, amount in {**limits, **amounts(stated.requests)}.items():
        if name in POD_LEVEL_RESOURCES or name.startswith("hugepages-"):
            total[name] = amount


def _add(total: Amounts, more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise_to(total: Amounts, other: Mapping[str, int]) -> None:
    for name, amount in other.items():
        if amount > total.get(name, 0):
            total[name] = amount


class PlacementNeeds:
    """The part of a pod that decides on a node by itself: requests, ports, selectors, tolerations.

    Pods of one template share it, and so do pods that differ only in labels and volumes.
    """

    __slots__ = (
        "named_nodes",
        "ports",
        "preferred_terms",
        "requests",
        "scored_cpu",
        "scored_memory",
        "spec",
    )

    def __init__(self, spec: PodSpec) -> None:
        self.spec = spec
        self.requests = pod_requests(spec)
        self.ports = _host_ports(spec)
        self.scored_cpu = self.requests.get(CPU, 0) or DEFAULT_SCORED_CPU
        self.scored_memory = self.requests.get(MEMORY, 0) or DEFAULT_SCORED_MEMORY
        self.named_nodes = named_nodes(spec)
        affinity = spec.affinity.nodeAffinity if spec.affinity is not None else None
        self.preferred_terms = (
            tuple(affinity.preferredDuringSchedulingIgnoredDuringExecution or ())
            if affinity is not None
            else ()
        )


def _host_ports(spec: PodSpec) -> tuple[HostPort, ...]:
    return tuple(
        (port.protocol or "TCP", port.hostPort, port.hostIP)
        for container in (*(spec.containers or ()), *_sidecars(spec))
        for port in container.ports or ()
        if port.hostPort
    )


def _sidecars(spec: PodSpec) -> list[Container]:
    return [each for each in spec.initContainers or () if _is_sidecar(each)]


def placement_spec(spec: PodSpec) -> PodSpec:
    """The spec without what does not bear on a node by itself."""
    affinity = spec.affinity
    node_affinity = None if affinity is None else affinity.nodeAffinity
    return msgspec.structs.replace(
        spec,
        nodeName="",
        volumes=None,
        topologySpreadConstraints=None,
        schedulingGates=None,
        priority=None,
        priorityClassName="",
        preemptionPolicy=None,
        restartPolicy="",
        terminationGracePeriodSeconds=None,
        schedulerName="",
        affinity=None if node_affinity is None else Affinity(nodeAffinity=node_affinity),
    )


def required_terms(affinity: PodAffinity | None) -> tuple[PodAffinityTerm, ...]:
    if affinity is None:
        return ()
    return tuple(affinity.requiredDuringSchedulingIgnoredDuringExecution or ())


class NodeInfo:
    """A node and what its pods use of it."""

    __slots__ = (
        "allocatable",
        "labels",
        "name",
        "node",
        "pods",
        "ports",
        "scored_cpu",
        "scored_memory",
        "taints",
        "used",
        "version",
        "volumes",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.node: Node | None = None
        """None while only its pods are known."""
        self.labels: Mapping[str, str] = {}
        self.taints: list[Taint] = []
        self.allocatable: Amounts = {}
        self.used: Amounts = {}
        self.scored_cpu = 0
        self.scored_memory = 0
        self.pods: dict[Key, Any] = {}
        self.ports: dict[HostPort, int] = {}
        self.volumes: dict[str, dict[str, int]] = {}
        """By driver: how many pods use each attached volume."""
        self.version = 0
        """Goes up with every change."""

    def set_node(self, node: Node | None) -> None:
        self.node = node
        self.version += 1
        if node is None:
            return
        self.labels = node.metadata.labels or {}
        self.taints = node.spec.taints or []
        self.allocatable = amounts(node.status.allocatable or node.status.capacity)

    def count(self, needs: PlacementNeeds, sign: int) -> None:
        """Adds the requests of a pod, or takes them away."""
        used = self.used
        for name, amount in needs.requests.items():
            used[name] = used.get(name, 0) + sign * amount
        used[PODS] = used.get(PODS, 0) + sign
        self.scored_cpu += sign * needs.scored_cpu
        self.scored_memory += sign * needs.scored_memory
        for port in needs.ports:
            self.ports[port] = self.ports.get(port, 0) + sign
        self.version += 1

    def count_volumes(self, attached: Iterable[tuple[str, str]], sign: int) -> None:
        for driver, volume in attached:
            volumes = self.volumes.setdefault(driver, {})
            volumes[volume] = volumes.get(volume, 0) + sign
            if not volumes[volume]:
                del volumes[volume]

    def misfit(self, needs: PlacementNeeds) -> str | None:
        """Why the node by itself is nothing for such a pod, as the kube-scheduler says it.

        In the order of its filters, cheapest differences aside: the first reason counts.
        """
        if self._is_cordoned(needs):
            return "node(s) were unschedulable"
        taint = first_untolerated(self.taints, needs.spec.tolerations)
        if taint is not None:
            return f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}"
        if not matches_node_affinity(needs.spec, self.labels, self.name):
            return "node(s) didn't match Pod's node affinity/selector"
        if needs.ports and any(self._is_port_taken(port) for port in needs.ports):
            return "node(s) didn't have free ports for the requested pod ports"
        return self._lack(needs)

    def _lack(self, needs: PlacementNeeds) -> str | None:
        allocatable, used = self.allocatable, self.used
        if used.get(PODS, 0) + 1 > allocatable.get(PODS, 0):
            return "Too many pods"
        for name, amount in needs.requests.items():
            if used.get(name, 0) + amount > allocatable.get(name, 0):
                return f"Insufficient {name}"
        return None

    def _is_cordoned(self, needs: PlacementNeeds) -> bool:
        """A pod that tolerates the taint of cordoned nodes passes, whether or not it is there."""
        if self.node is None or not self.node.spec.unschedulable:
            return False
        return first_untolerated([UNSCHEDULABLE_TAINT], needs.spec.tolerations) is not None

    def _is_port_taken(self, wanted: HostPort) -> bool:
        protocol, port, address = wanted
        return any(
            count
            and used_protocol == protocol
            and used_port == port
            and (address == used or address in ANY_ADDRESS or used in ANY_ADDRESS)
            for (used_protocol, used_port, used), count in self.ports.items()
        )

    def least_allocated(self, needs: PlacementNeeds) -> float:
        """0 to 100: how much of cpu and memory would be left, on average."""
        return (
            _share_left(self.allocatable.get(CPU, 0), self.scored_cpu + needs.scored_cpu)
            + _share_left(self.allocatable.get(MEMORY, 0), self.scored_memory + needs.scored_memory)
        ) / 2


def _share_left(capacity: int, used: int) -> float:
    return 100.0 * (capacity - used) / capacity if 0 < used <= capacity else 0.0


def is_finished(pod: Pod) -> bool:
    """Whether its containers have ended for good, so that it uses nothing of its node."""
    return pod.status.phase in ("Succeeded", "Failed")
