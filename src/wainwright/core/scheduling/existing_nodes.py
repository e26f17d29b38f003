"""Existing nodes and in-flight NodeClaims of the cluster: the first with room takes the pod."""

from collections.abc import Iterable, Sequence

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
from wainwright.model.bitset import BitSet, LabelIndex, iter_bits, union
from wainwright.model.pod import DaemonSet, HostPort, Pod, VolumeAttachment
from wainwright.model.requirements import Requirements, ValueSet
from wainwright.model.resources import PODS, Resources, add_resources, subtract_resources
from wainwright.model.snapshot import Node
from wainwright.model.taints import Taint, Toleration, find_untolerated_taint


class ExistingNodes:
    """Initialized nodes first, then those under way, each in the order of names."""

    def __init__(self, nodes: Iterable[Node], daemonsets: Sequence[DaemonSet]) -> None:
        usable = [node for node in nodes if not node.deleting]
        self.nodes = sorted(usable, key=lambda node: (not node.initialized, node.name))
        self.everything: BitSet = (1 << len(self.nodes)) - 1
        self.standing = self.everything
        """Those that are not taken away in a rehearsal."""
        self.pods: list[list[Pod]] = [[] for _ in self.nodes]
        self._columns = _label_columns(self.nodes, self.everything)
        self.by_taints = _by_taints(self.nodes)
        self._ports = HostPortUsage()
        self._attached: list[dict[str, set[VolumeAttachment]]] = [
            _attached(node) for node in self.nodes
        ]
        self._awaited = self._daemonsets(daemonsets)
        for number, node in enumerate(self.nodes):
            for pod in node.pods:
                self._ports.take(1 << number, pod.constraints.ports)
        self._free: list[list[int]] = []
        self._levels: list[list[int]] = []

    def prepare(self, resources: Sequence[str], slack: CapacityIndex) -> None:
        """Measures what is free of the resources that are asked for."""
        self._slack = slack
        for number, node in enumerate(self.nodes):
            left = free_resources(node, self._awaited[number])
            self._free.append([left.get(name, 0) for name in resources])
            self._levels.append(slack.fresh())
            self._measure(number, range(len(resources)))

    def admitting(self, ask: SchedulingRequirements) -> BitSet:
        """The nodes whose labels and taints are fine; what a node lacks it lacks for good."""
        return self.labelled(ask.requirements) & self.tolerated(ask.tolerations)

    def tolerated(self, tolerations: tuple[Toleration, ...]) -> BitSet:
        return union(
            rows
            for taints, rows in self.by_taints.items()
            if find_untolerated_taint(taints, tolerations) is None
        )

    def take(
        self, pod: Pod, group: PodClass, wish: PodRequirements, among: BitSet = -1
    ) -> int | None:
        """Puts the pod on the first node with room for it, and says which."""
        left = wish.ask.nodes & among
        left ^= left & wish.full
        for short, mark in wish.short_nodes:
            left ^= left & short[mark]
        if left and wish.ask.ports:
            left ^= left & self._ports.clashing(wish.ask.ports)
        while left:
            lowest = left & -left
            number = lowest.bit_length() - 1
            if self._has_room(number, wish) and self.attachable(number, group.attachments):
                self._put(pod, group, wish, number)
                return number
            wish.full |= lowest
            left ^= lowest
        return None

    def attachable(self, number: int, wanted: tuple[VolumeAttachment, ...]) -> bool:
        """Whether the node takes the volumes; those it has already cost nothing."""
        limits = self.nodes[number].attach_limits
        if not wanted or not limits:
            return True
        attached = self._attached[number]
        for driver in {each.driver for each in wanted if each.driver in limits}:
            own = {each for each in wanted if each.driver == driver}
            if len(own | attached.get(driver, set())) > limits[driver]:
                return False
        return True

    def clashing(self, ports: Iterable[HostPort]) -> BitSet:
        """The nodes where one of the ports is taken."""
        return self._ports.clashing(ports)

    def free(self, number: int) -> list[int]:
        """What is left of every resource on one node; not to be changed."""
        return self._free[number]

    def free_of(self, number: int, column: int) -> int:
        """What is left of a resource on one node."""
        return self._free[number][column]

    def _has_room(self, number: int, wish: PodRequirements) -> bool:
        available = self._free[number]
        return all(amount <= available[column] for column, amount in wish.amounts)

    def _put(self, pod: Pod, group: PodClass, wish: PodRequirements, number: int) -> None:
        available = self._free[number]
        for column, amount in wish.amounts:
            available[column] -= amount
        self.pods[number].append(pod)
        self._ports.take(1 << number, wish.ask.ports)
        for each in group.attachments:
            self._attached[number].setdefault(each.driver, set()).add(each)
        self._measure(number, [column for column, _ in wish.amounts])

    def _measure(self, number: int, columns: Iterable[int]) -> None:
        levels, available = self._levels[number], self._free[number]
        for column in columns:
            levels[column] = self._slack.enter(
                1 << number, column, available[column], levels[column]
            )

    def labelled(self, requirements: Requirements) -> BitSet:
        found = self.everything
        for key, requirement in requirements.items():
            column = self._columns.get(key)
            if column is not None:
                found &= column.matching(requirement.allowed)
            elif not requirement.allowed.admits_absence:
                return 0
        return found

    def _daemonsets(self, daemonsets: Sequence[DaemonSet]) -> list[Resources]:
        """For each node what its daemonsets need together."""
        found: list[Resources] = [{} for _ in self.nodes]
        for daemonset in daemonsets:
            open_to = union(
                rows
                for taints, rows in self.by_taints.items()
                if not is_repelled_by_taints(daemonset, taints)
            )
            wanted = union(self.labelled(each) for each in daemon_alternatives(daemonset))
            self._ports.take(open_to & wanted, daemonset.ports)
            for number in iter_bits(open_to & wanted):
                found[number] = add_resources(found[number], daemon_requests(daemonset))
        return found


def free_resources(node: Node, awaited: Resources) -> dict[str, int]:
    """What new pods can have: not what runs there, nor what daemonsets still to come will need."""
    left = dict(node.allocatable)
    running: dict[str, int] = {}
    for pod in node.pods:
        amounts = {**pod.requests, PODS: 1}
        left = subtract_resources(left, amounts)
        if pod.daemonset:
            running = add_resources(running, amounts)
    still = {name: max(0, amount - running.get(name, 0)) for name, amount in awaited.items()}
    return subtract_resources(left, still)


def _attached(node: Node) -> dict[str, set[VolumeAttachment]]:
    found: dict[str, set[VolumeAttachment]] = {}
    for pod in node.pods:
        for each in pod.constraints.attachments:
            found.setdefault(each.driver, set()).add(each)
    return found


def _label_columns(nodes: Sequence[Node], everything: BitSet) -> dict[str, LabelIndex]:
    held: dict[str, dict[ValueSet, BitSet]] = {}
    for number, node in enumerate(nodes):
        for key, label in Requirements.from_labels(node.labels).items():
            same = held.setdefault(key, {})
            same[label.allowed] = same.get(label.allowed, 0) | 1 << number
    return {
        key: LabelIndex(sets, absent=everything ^ union(sets.values()), undecided=0)
        for key, sets in held.items()
    }


def _by_taints(nodes: Sequence[Node]) -> dict[tuple[Taint, ...], BitSet]:
    found: dict[tuple[Taint, ...], BitSet] = {}
    for number, node in enumerate(nodes):
        taints = node.effective_taints
        found[taints] = found.get(taints, 0) | 1 << number
    return found
