"""Existing nodes and in-flight NodeClaims of the cluster: the first with room takes the pod."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from wainwright.core.scheduling.capacity_index import CapacityIndex
from wainwright.core.scheduling.constraints.host_ports import HostPortUsage
from wainwright.core.scheduling.constraints.node_affinity import NodeLabels
from wainwright.core.scheduling.constraints.resource_fit import NodeResourceTable
from wainwright.core.scheduling.constraints.taint_toleration import NodeTaints
from wainwright.core.scheduling.constraints.volume_limits import NodeVolumes
from wainwright.core.scheduling.daemonset_overhead import daemon_alternatives, daemon_requests
from wainwright.core.scheduling.forks import shallow_copy
from wainwright.core.scheduling.pod_classes import PodClass, PodRequirements, SchedulingRequirements
from wainwright.model.bitset import BitSet, iter_bits, union
from wainwright.model.pod import DaemonSet, Pod
from wainwright.model.resources import Resources, add_resources
from wainwright.model.snapshot import Node

NodeOrder: TypeAlias = Callable[[Node], tuple[int | float | bool | str, ...]]
"""The sort key of nodes: pods go to the first that has room."""


def _by_state_and_name(node: Node) -> tuple[bool, str]:
    return not node.initialized, node.name


class ExistingNodes:
    """Initialized nodes first, then in-flight NodeClaims, each sorted by name."""

    resources: NodeResourceTable
    """Set by `prepare`, when it is known which resources are requested."""

    def __init__(
        self,
        nodes: Iterable[Node],
        daemonsets: Sequence[DaemonSet],
        order: NodeOrder | None = None,
    ) -> None:
        usable = [node for node in nodes if not node.deleting]
        self.nodes = sorted(usable, key=order or _by_state_and_name)
        self.remaining: BitSet = (1 << len(self.nodes)) - 1
        """The nodes that a simulation has not removed."""
        self.open: BitSet = self.remaining
        """Those of them that take pods; the others still count as domains of topology spread."""
        self.pods: dict[int, list[Pod]] = defaultdict(list)
        """The pods that were placed, by node number."""
        self.labels = NodeLabels(self.nodes)
        self.taints = NodeTaints(self.nodes)
        self.ports = HostPortUsage()
        self.volumes = NodeVolumes(self.nodes)
        self._daemonset_requests = self._requests_of_daemonsets(daemonsets)
        for number, node in enumerate(self.nodes):
            for pod in node.pods:
                self.ports.add(1 << number, pod.constraints.ports)

    def fork(self, removed: BitSet) -> "ExistingNodes":
        """The same nodes without the removed ones; pods placed on the fork do not change these."""
        clone = shallow_copy(self)
        clone.remaining = self.remaining ^ (self.remaining & removed)
        clone.open = clone.remaining
        clone.resources = self.resources.fork()
        clone.volumes = self.volumes.fork()
        clone.ports = self.ports.fork()
        clone.pods = defaultdict(list)
        return clone

    def replace(self, number: int, node: Node) -> None:
        """The node has other pods now, and is otherwise the same; not for forks."""
        self.nodes[number] = node
        self.resources.replace(number, node, self._daemonset_requests[number])

    def prepare(self, resources: Sequence[str], capacity_index: CapacityIndex) -> None:
        """Computes the free amounts of all requested resources."""
        self.resources = NodeResourceTable(
            self.nodes, self._daemonset_requests, resources, capacity_index
        )

    def compatible(self, scheduling: SchedulingRequirements) -> BitSet:
        """Nodes with compatible labels and taints, neither of which changes within a plan."""
        return self.labels.admits(scheduling.requirements) & self.taints.admits(
            scheduling.tolerations
        )

    def place(
        self, pod: Pod, pod_class: PodClass, pod_reqs: PodRequirements, among: BitSet = -1
    ) -> int | None:
        """Places the pod on the first node with room; returns its number."""
        candidates = pod_reqs.scheduling.compatible_nodes & among & self.open
        candidates ^= candidates & pod_reqs.full_nodes
        for too_full, position in pod_reqs.too_full_nodes:
            candidates ^= candidates & too_full[position]
        if candidates and pod_reqs.scheduling.ports:
            candidates = self.ports.admits(pod_reqs.scheduling.ports, candidates)
        resources, attachments = self.resources, pod_class.attachments
        while candidates:
            # The lowest bit is the first node in order.
            lowest = candidates & -candidates
            number = lowest.bit_length() - 1
            if resources.admits(number, pod_reqs.amounts) and (
                not attachments or self.volumes.admits(number, attachments)
            ):
                self._put(pod, pod_class, pod_reqs, number)
                return number
            if not resources.is_changed_by_fork(number):
                # The node was full before any fork: that holds for all of them.
                pod_reqs.full_nodes |= lowest
            candidates ^= lowest
        return None

    def _put(self, pod: Pod, pod_class: PodClass, pod_reqs: PodRequirements, number: int) -> None:
        self.resources.take(number, pod_reqs.amounts)
        self.pods[number].append(pod)
        self.ports.add(1 << number, pod_reqs.scheduling.ports)
        if pod_class.attachments:
            self.volumes.attach(number, pod_class.attachments)

    def _requests_of_daemonsets(self, daemonsets: Sequence[DaemonSet]) -> list[Resources]:
        """For each node the total requests of the daemonsets that run on it."""
        requests: list[Resources] = [{} for _ in self.nodes]
        for daemonset in daemonsets:
            tolerated = self.taints.admits_without_preferences(daemonset.tolerations)
            matching = union(self.labels.admits(each) for each in daemon_alternatives(daemonset))
            self.ports.add(tolerated & matching, daemonset.ports)
            for number in iter_bits(tolerated & matching):
                requests[number] = add_resources(requests[number], daemon_requests(daemonset))
        return requests
