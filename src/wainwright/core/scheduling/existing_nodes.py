"""Existing nodes and in-flight NodeClaims of the cluster: the first with room takes the pod."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Protocol, TypeAlias, TypeVar

from wainwright.core.scheduling.capacity_index import CapacityIndex
from wainwright.core.scheduling.daemonset_overhead import (
    daemon_alternatives,
    daemon_requests,
    is_repelled_by_taints,
)
from wainwright.core.scheduling.host_ports import HostPortUsage
from wainwright.core.scheduling.pod_requirements import (
    PodClass,
    PodRequirements,
    SchedulingRequirements,
)
from wainwright.core.scheduling.shallow_copy import shallow_copy
from wainwright.model.bitset import BitSet, LabelIndex, iter_bits, union
from wainwright.model.pod import DaemonSet, HostPort, Pod, VolumeAttachment
from wainwright.model.requirements import Requirements, ValueSet
from wainwright.model.resources import PODS, Resources, add_resources, subtract_resources
from wainwright.model.snapshot import Node
from wainwright.model.taints import Taint, Toleration, find_untolerated_taint

Row = TypeVar("Row")
RowOut = TypeVar("RowOut", covariant=True)
Attached: TypeAlias = dict[str, set[VolumeAttachment]]
"""The volumes of one node, by CSI driver."""


class _Rows(Protocol[RowOut]):
    """Something of every node, by its number."""

    def __getitem__(self, number: int, /) -> RowOut: ...


class _ForkedRows(dict[int, Row]):
    """The rows of another table, except for those that were replaced here.

    An unchanged row is read from the other table: a fork of thousands of nodes is made without
    copying one of them.
    """

    def __init__(self, rows: _Rows[Row]) -> None:
        self._rows = rows

    def __missing__(self, number: int) -> Row:
        return self._rows[number]


class ExistingNodes:
    """Initialized nodes first, then in-flight NodeClaims, each sorted by name."""

    def __init__(self, nodes: Iterable[Node], daemonsets: Sequence[DaemonSet]) -> None:
        usable = [node for node in nodes if not node.deleting]
        self.nodes = sorted(usable, key=lambda node: (not node.initialized, node.name))
        self.everything: BitSet = (1 << len(self.nodes)) - 1
        self.remaining = self.everything
        """The nodes that a simulation has not removed."""
        self.pods: dict[int, list[Pod]] = defaultdict(list)
        """The pods that were placed, by node number."""
        self._label_indexes = _label_columns(self.nodes, self.everything)
        self.by_taints = _by_taints(self.nodes)
        self._ports = HostPortUsage()
        self._attached: _Rows[Attached] = [_attached(node) for node in self.nodes]
        self._daemonset_requests = self._requests_of_daemonsets(daemonsets)
        for number, node in enumerate(self.nodes):
            for pod in node.pods:
                self._ports.add(1 << number, pod.constraints.ports)
        self._free: _Rows[list[int]] = []
        self._levels: list[list[int]] = []
        self._changed_free: _ForkedRows[list[int]] | None = None
        self._changed_attached: _ForkedRows[Attached] | None = None
        """Of a fork: what it has instead of the rows of the nodes that it comes from."""

    def fork(self, removed: BitSet) -> "ExistingNodes":
        """The same nodes without the removed ones; pods placed on the fork do not change these."""
        clone = shallow_copy(self)
        clone.remaining = self.remaining ^ (self.remaining & removed)
        clone._free = clone._changed_free = _ForkedRows(self._free)
        clone._attached = clone._changed_attached = _ForkedRows(self._attached)
        clone._ports = self._ports.fork()
        clone.pods = defaultdict(list)
        return clone

    def prepare(self, resources: Sequence[str], capacity_index: CapacityIndex) -> None:
        """Computes the free amounts of all requested resources."""
        self._capacity_index = capacity_index
        self._free = [
            [free.get(name, 0) for name in resources]
            for free in map(free_resources, self.nodes, self._daemonset_requests)
        ]
        for number in range(len(self.nodes)):
            self._levels.append(capacity_index.initial_levels())
            self._update_index(number, range(len(resources)))

    def compatible(self, scheduling: SchedulingRequirements) -> BitSet:
        """Nodes with compatible labels and taints; nodes do not gain labels within a plan."""
        return self.matching_labels(scheduling.requirements) & self.with_tolerated_taints(
            scheduling.tolerations
        )

    def with_tolerated_taints(self, tolerations: tuple[Toleration, ...]) -> BitSet:
        return union(
            nodes
            for taints, nodes in self.by_taints.items()
            if find_untolerated_taint(taints, tolerations) is None
        )

    def place(
        self, pod: Pod, pod_class: PodClass, pod_reqs: PodRequirements, among: BitSet = -1
    ) -> int | None:
        """Places the pod on the first node with room; returns its number."""
        candidates = pod_reqs.scheduling.compatible_nodes & among & self.remaining
        candidates ^= candidates & pod_reqs.full_nodes
        for too_full, position in pod_reqs.too_full_nodes:
            candidates ^= candidates & too_full[position]
        if candidates and pod_reqs.scheduling.ports:
            candidates ^= candidates & self._ports.with_conflict(pod_reqs.scheduling.ports)
        while candidates:
            # The lowest bit is the first node in order.
            lowest = candidates & -candidates
            number = lowest.bit_length() - 1
            if self._has_room(number, pod_reqs) and self.can_attach(number, pod_class.attachments):
                self._put(pod, pod_class, pod_reqs, number)
                return number
            if self._changed_free is None or number not in self._changed_free:
                # The node was full before any fork: that holds for all of them.
                pod_reqs.full_nodes |= lowest
            candidates ^= lowest
        return None

    def can_attach(self, number: int, wanted: tuple[VolumeAttachment, ...]) -> bool:
        """Whether the node can attach the volumes; those already attached do not count again."""
        limits = self.nodes[number].attach_limits
        if not wanted or not limits:
            return True
        attached = self._attached[number]
        for driver in {each.driver for each in wanted if each.driver in limits}:
            of_driver = {each for each in wanted if each.driver == driver}
            if len(of_driver | attached.get(driver, set())) > limits[driver]:
                return False
        return True

    def with_port_conflict(self, ports: Sequence[HostPort]) -> BitSet:
        """The nodes on which one of the ports is in use."""
        return self._ports.with_conflict(ports)

    def free(self, number: int) -> list[int]:
        """Free amounts of every resource on one node; must not be modified."""
        return self._free[number]

    def free_of(self, number: int, column: int) -> int:
        """The free amount of one resource on one node."""
        return self._free[number][column]

    def _has_room(self, number: int, pod_reqs: PodRequirements) -> bool:
        # A plain loop: runs for every node tried, and all() over a generator takes twice as long.
        available = self._free[number]
        for column, amount in pod_reqs.amounts:  # noqa: SIM110
            if amount > available[column]:
                return False
        return True

    def _put(self, pod: Pod, pod_class: PodClass, pod_reqs: PodRequirements, number: int) -> None:
        if self._changed_free is not None:
            self._own_rows(number)
        available = self._free[number]
        for column, amount in pod_reqs.amounts:
            available[column] -= amount
        self.pods[number].append(pod)
        self._ports.add(1 << number, pod_reqs.scheduling.ports)
        for each in pod_class.attachments:
            self._attached[number].setdefault(each.driver, set()).add(each)
        if self._changed_free is None:
            self._update_index(number, [column for column, _ in pod_reqs.amounts])

    def _own_rows(self, number: int) -> None:
        """Copies the rows of a node before a fork changes them.

        The capacity index is not updated by forks: it says which nodes were too full before, and
        they have not become emptier.
        """
        free, attached = self._changed_free, self._changed_attached
        assert free is not None
        assert attached is not None
        if number not in free:
            free[number] = list(free[number])
            attached[number] = {driver: set(own) for driver, own in attached[number].items()}

    def _update_index(self, number: int, columns: Iterable[int]) -> None:
        levels, available = self._levels[number], self._free[number]
        for column in columns:
            levels[column] = self._capacity_index.update(
                1 << number, column, available[column], levels[column]
            )

    def matching_labels(self, requirements: Requirements) -> BitSet:
        matching = self.everything
        for key, requirement in requirements.items():
            label_index = self._label_indexes.get(key)
            if label_index is not None:
                matching &= label_index.matching(requirement.allowed)
            elif not requirement.allowed.admits_absence:
                return 0
        return matching

    def _requests_of_daemonsets(self, daemonsets: Sequence[DaemonSet]) -> list[Resources]:
        """For each node the total requests of the daemonsets that run on it."""
        requests: list[Resources] = [{} for _ in self.nodes]
        for daemonset in daemonsets:
            tolerated = union(
                nodes
                for taints, nodes in self.by_taints.items()
                if not is_repelled_by_taints(daemonset, taints)
            )
            matching = union(self.matching_labels(each) for each in daemon_alternatives(daemonset))
            self._ports.add(tolerated & matching, daemonset.ports)
            for number in iter_bits(tolerated & matching):
                requests[number] = add_resources(requests[number], daemon_requests(daemonset))
        return requests


def free_resources(node: Node, daemonset_requests: Resources) -> dict[str, int]:
    """What new pods can use: allocatable without running pods and daemonset pods still to come."""
    free = dict(node.allocatable)
    running: dict[str, int] = {}
    for pod in node.pods:
        amounts = {**pod.requests, PODS: 1}
        free = subtract_resources(free, amounts)
        if pod.daemonset:
            running = add_resources(running, amounts)
    outstanding = {
        name: max(0, amount - running.get(name, 0)) for name, amount in daemonset_requests.items()
    }
    return subtract_resources(free, outstanding)


def _attached(node: Node) -> Attached:
    attached: Attached = {}
    for pod in node.pods:
        for each in pod.constraints.attachments:
            attached.setdefault(each.driver, set()).add(each)
    return attached


def _label_columns(nodes: Sequence[Node], everything: BitSet) -> dict[str, LabelIndex]:
    nodes_by_values: dict[str, dict[ValueSet, BitSet]] = {}
    for number, node in enumerate(nodes):
        for key, label in Requirements.from_labels(node.labels).items():
            same = nodes_by_values.setdefault(key, {})
            same[label.allowed] = same.get(label.allowed, 0) | 1 << number
    return {
        key: LabelIndex(sets, absent=everything ^ union(sets.values()), undecided=0)
        for key, sets in nodes_by_values.items()
    }


def _by_taints(nodes: Sequence[Node]) -> dict[tuple[Taint, ...], BitSet]:
    by_taints: dict[tuple[Taint, ...], BitSet] = {}
    for number, node in enumerate(nodes):
        taints = node.effective_taints
        by_taints[taints] = by_taints.get(taints, 0) | 1 << number
    return by_taints
