"""Simulation: what would happen to the pods of some nodes if these nodes were removed.

A cluster is compiled once and never changes. Each simulation works on a copy-on-write state with
only what it changes: free resources of nodes that took a pod, host ports and volumes there,
topology groups whose counts changed, and the one new node that may be opened. Every result equals a
plan of the changed cluster. Pending pods are not part of it: use it for a cluster without any.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from wainwright.core.launch.launch_choice import choose_offering
from wainwright.core.plan import is_placeable, plan
from wainwright.core.plan_builder import planned_claims
from wainwright.core.scheduling.capacity_index import CapacityIndex
from wainwright.core.scheduling.drafts import Draft, DraftTable, evaluate_fit
from wainwright.core.scheduling.existing_nodes import ExistingNodes
from wainwright.core.scheduling.host_ports import HostPortUsage
from wainwright.core.scheduling.new_node import NewNodeCandidate, NewNodeEvaluator, NodePoolSelector
from wainwright.core.scheduling.nodeclaim_template import NodeClaimTemplate, compile_templates
from wainwright.core.scheduling.placement import PlacementResult, PodPlacement
from wainwright.core.scheduling.pod_classes import PodClasses
from wainwright.core.scheduling.pod_requirements import PodClass, PodRequirements
from wainwright.core.scheduling.queue import build_queue
from wainwright.core.scheduling.reservation_manager import available_counts, without_in_flight
from wainwright.core.scheduling.solver import (
    classification_context,
    create_reservation_manager,
    evaluate_pools,
    prepare_tables,
)
from wainwright.core.scheduling.topology.allowed_domains import AllowedDomains
from wainwright.core.scheduling.topology.constraints import TopologyConstraints
from wainwright.core.scheduling.topology.groups import (
    AnyGroup,
    ConstraintKind,
    HostGroup,
    LabelGroup,
)
from wainwright.core.scheduling.topology.registry import TopologyRegistry
from wainwright.core.scheduling.topology.topology import Topology
from wainwright.model.bitset import BitSet
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.plan import (
    DEFAULT_PLAN_OPTIONS,
    NodeAssignment,
    PlannedNodeClaim,
    PlanOptions,
)
from wainwright.model.pod import Pod, VolumeAttachment
from wainwright.model.snapshot import Node, Snapshot


class NeedsSecondNode(Exception):
    """A simulation needs more than one new node."""


class SimulatedNodes(ExistingNodes):
    """The nodes of a cluster without some, with the pods that a simulation puts on the others."""

    def __init__(self, base: ExistingNodes, removed: BitSet) -> None:
        self.nodes = base.nodes
        self.everything = base.everything
        self.removed = removed
        self.remaining = base.everything ^ removed
        self.placed: list[tuple[Pod, int]] = []
        self._base = base
        self._changed: dict[int, list[int]] = {}
        self._added_ports = HostPortUsage()
        self._added_attachments: dict[int, set[VolumeAttachment]] = {}

    def place(
        self, pod: Pod, pod_class: PodClass, pod_reqs: PodRequirements, among: BitSet = -1
    ) -> int | None:
        candidates = pod_reqs.scheduling.compatible_nodes & among & self.remaining
        candidates ^= candidates & pod_reqs.full_nodes
        for too_full, position in pod_reqs.too_full_nodes:
            candidates ^= candidates & too_full[position]
        if candidates and pod_reqs.scheduling.ports:
            ports = pod_reqs.scheduling.ports
            candidates &= ~(
                self._base.with_port_conflict(ports) | self._added_ports.with_conflict(ports)
            )
        while candidates:
            lowest = candidates & -candidates
            number = lowest.bit_length() - 1
            if self._fits(number, pod_class, pod_reqs):
                self._add(pod, pod_class, pod_reqs, number)
                return number
            if number not in self._changed:
                # Valid for later simulations too: the unchanged node has no room either.
                pod_reqs.full_nodes |= lowest
            candidates ^= lowest
        return None

    def _fits(self, number: int, pod_class: PodClass, pod_reqs: PodRequirements) -> bool:
        free = self._changed.get(number)
        if free is None:
            free = self._base.free(number)
        for column, amount in pod_reqs.amounts:
            if amount > free[column]:
                return False
        if not pod_class.attachments:
            return True
        added = self._added_attachments.get(number, set())
        return self._base.can_attach(number, (*pod_class.attachments, *added))

    def _add(self, pod: Pod, pod_class: PodClass, pod_reqs: PodRequirements, number: int) -> None:
        free = self._changed.get(number)
        if free is None:
            free = self._changed[number] = list(self._base.free(number))
        for column, amount in pod_reqs.amounts:
            free[column] -= amount
        if pod_reqs.scheduling.ports:
            self._added_ports.add(1 << number, pod_reqs.scheduling.ports)
        if pod_class.attachments:
            self._added_attachments.setdefault(number, set()).update(pod_class.attachments)
        self.placed.append((pod, number))


class SimulatedTopology(Topology):
    """The topology groups of a cluster, copied when a simulation changes them."""

    def __init__(self, base: Topology, table: DraftTable, removed: BitSet) -> None:
        # Shares the state of the cluster: copying it would cost more than the simulation itself.
        self.__dict__.update(base.__dict__)
        self.domains = base.domains.fork()
        self._table = table
        self._removed = removed
        self._waiting_groups = {}
        self._forks: dict[int, AnyGroup] = {}

    def allowed_domains(self, constraints: TopologyConstraints) -> AllowedDomains | None:
        return super().allowed_domains(constraints.with_forks(self._forks))

    def drafts_with_affinity_pods(self, constraints: TopologyConstraints) -> AllowedDomains | None:
        return super().drafts_with_affinity_pods(constraints.with_forks(self._forks))

    def drafts_outside_spread(self, constraints: TopologyConstraints) -> AllowedDomains | None:
        return super().drafts_outside_spread(constraints.with_forks(self._forks))

    def count_on_draft(self, pod_class: PodClass, draft: Draft) -> None:
        for each in pod_class.counted_by:
            self._count_on_draft(self._fork(each), draft)

    def count_on_node(self, pod_class: PodClass, number: int) -> None:
        for each in pod_class.counted_by:
            self._count_on_node(self._fork(each), number)

    def remove_pod(self, pod: Pod, number: int) -> None:
        """Removes a pod of a removed node from the groups that count it."""
        for each in self.registry.matching_groups(pod).counting:
            if not (pod.terminating and each.kind is ConstraintKind.SPREAD):
                self._remove_from(each, number)
        for term in dict.fromkeys(pod.constraints.anti_affinity):
            self._remove_from(self.registry.inverse_anti_affinity_group(term), number)

    def refresh(self, group: LabelGroup) -> None:
        """Domains are those of the cluster, without those that only removed nodes had."""
        if group.domains_version is self:
            return
        group.domains_version = self
        nodes_by_value = self.domains.nodes_by_value[group.key].items()
        remaining = {
            value for value, nodes in nodes_by_value if nodes & group.nodes & ~self._removed
        }
        group.domains = tuple(sorted(remaining | group.launchable))

    def refresh_lost_domains(self) -> None:
        """Updates the domains of every spread that lost one with the removed nodes."""
        for group in self._label_groups():
            if group.spread is not None and self._has_lost_domain(group):
                self.refresh(self._label_fork(group))

    def _has_lost_domain(self, group: LabelGroup) -> bool:
        for value, nodes in self.domains.nodes_by_value[group.key].items():
            counted = nodes & group.nodes
            removed = counted & self._removed
            if removed and removed == counted and value not in group.launchable:
                return True
        return False

    def _remove_from(self, group: AnyGroup, number: int) -> None:
        if not group.nodes >> number & 1:
            return
        fork = self._fork(group)
        if isinstance(fork, HostGroup):
            fork.remove_one()
            return
        value = self._nodes.nodes[number].labels.get(fork.key)
        if value is not None:
            fork.add(value, -1)

    def _fork(self, group: AnyGroup) -> AnyGroup:
        fork = self._forks.get(group.number)
        if fork is None:
            fork = self._forks[group.number] = group.fork()
        return fork

    def _label_fork(self, group: LabelGroup) -> LabelGroup:
        fork = self._fork(group)
        assert isinstance(fork, LabelGroup)
        return fork


class SimulatedPlacement(PodPlacement):
    """Places the pods of removed nodes; opens at most one draft."""

    def __init__(
        self,
        templates: list[NodeClaimTemplate],
        nodes: SimulatedNodes,
        pool_selector: NodePoolSelector,
        classes: PodClasses,
        base: Topology | None,
    ) -> None:
        table = DraftTable(templates, CapacityIndex((), len(classes.resources)))
        topology = None if base is None else SimulatedTopology(base, table, nodes.removed)
        super().__init__(templates, nodes, table, pool_selector, classes, topology)
        self._fit = evaluate_fit
        self.simulated_nodes = nodes
        self.simulated_topology = topology

    def remove_pods_of(self, numbers: Iterable[int]) -> None:
        """Removes the pods of these nodes from all topology groups."""
        if self.simulated_topology is not None:
            for number in numbers:
                for pod in self.nodes.nodes[number].pods:
                    self.simulated_topology.remove_pod(pod, number)
            self.simulated_topology.refresh_lost_domains()

    def _open(self, pod: Pod, pod_class: PodClass, candidate: NewNodeCandidate) -> None:
        if self.table.drafts:
            raise NeedsSecondNode
        draft = Draft(0, 1, candidate.template, candidate.option)
        self.table.add(draft)
        if self.topology is not None:
            self.topology.draft_opened(draft)
        self._add_to_draft(pod, pod_class, candidate.pod_reqs, draft, narrowed=True)


class Simulation(msgspec.Struct, frozen=True, kw_only=True):
    """What would happen to the pods of some nodes if these nodes were removed."""

    placements: tuple[NodeAssignment, ...] = ()
    claim: PlannedNodeClaim | None = None
    """The node that would be launched; None if the existing nodes are enough."""
    unplaced: tuple[str, ...] = ()
    """Pods that could not be placed, or would need a second new node."""

    @property
    def is_possible(self) -> bool:
        return not self.unplaced


class ClusterSimulator:
    """A cluster without pending pods, on which node removals can be simulated."""

    def __init__(
        self,
        snapshot: Snapshot,
        catalogs: Mapping[str, InstanceTypeIndex],
        options: PlanOptions = DEFAULT_PLAN_OPTIONS,
    ) -> None:
        self._snapshot, self._catalogs, self._options = snapshot, catalogs, options
        gate = options.capacity_reservations
        self._templates = compile_templates(
            snapshot.pools, catalogs, snapshot.daemonsets, gate=gate
        )
        self._nodes = ExistingNodes(snapshot.nodes, snapshot.daemonsets)
        self._numbers = {node.name: n for n, node in enumerate(self._nodes.nodes)}
        registry = TopologyRegistry()
        running = [pod for node in self._nodes.nodes for pod in node.pods]
        movable = [pod for pod in running if is_reschedulable(pod) and is_placeable(pod)]
        registry.register(movable, running)
        self._classes = PodClasses(
            movable, registry, classification_context(self._templates, self._nodes, options)
        )
        catalog_counts = available_counts(template.index for template in self._templates)
        reservation_manager = create_reservation_manager(
            self._templates, without_in_flight(catalog_counts, snapshot.nodes), gate=gate
        )
        reservation_manager.begin_round()
        prepare_tables(self._classes, self._templates, self._nodes, None)
        self._pool_selector = NodePoolSelector(
            self._templates, NewNodeEvaluator(options.min_values_policy, reservation_manager)
        )
        self._topology = self._build_topology(registry)
        self._queue_positions, self._pod_classes = self._queue_order()

    def remove_nodes(self, names: Collection[str]) -> Simulation:
        """What would happen to their pods if the nodes of these names were removed."""
        numbers = [self._numbers[name] for name in names]
        if any(_awaits_reservation(self._nodes.nodes[number]) for number in numbers):
            return self.replan_without(names)  # one more reserved instance would be available
        pods = [
            pod
            for number in numbers
            for pod in self._nodes.nodes[number].pods
            if is_reschedulable(pod)
        ]
        if any(id(pod) not in self._queue_positions for pod in pods):
            stuck = tuple(sorted(pod.key for pod in pods if id(pod) not in self._queue_positions))
            return Simulation(unplaced=stuck)
        pods.sort(key=lambda pod: self._queue_positions[id(pod)])
        simulation = self._start_simulation(numbers)
        unplaced = self._place_all(simulation, pods)
        if unplaced and self._may_be_wrong(simulation, unplaced):
            return self.replan_without(names)
        return self._result(simulation, unplaced)

    def replan_without(self, names: Collection[str]) -> Simulation:
        """The same by planning from scratch: slow; the simulation must give the same result."""
        removed = set(names)
        nodes = tuple(_marked_deleting(each, removed) for each in self._snapshot.nodes)
        pods = tuple(
            pod
            for node in self._snapshot.nodes
            if node.name in removed
            for pod in node.pods
            if is_reschedulable(pod)
        )
        changed = msgspec.structs.replace(self._snapshot, nodes=nodes, pods=pods)
        replanned = plan(changed, self._catalogs, self._options, advise=False)
        lost = tuple(pod for group in replanned.unschedulable for pod in group.pods)
        second = tuple(pod for claim in replanned.claims[1:] for pod in claim.pods)
        if lost or second:
            return Simulation(unplaced=tuple(sorted((*lost, *second))))
        return Simulation(
            placements=replanned.placements, claim=replanned.claims[0] if replanned.claims else None
        )

    def _empty_capacity_index(self) -> CapacityIndex:
        return CapacityIndex((), len(self._classes.resources))

    def _build_topology(self, registry: TopologyRegistry) -> Topology | None:
        if not registry.groups:
            return None
        table = DraftTable(self._templates, self._empty_capacity_index())
        topology = Topology(
            registry, self._templates, self._nodes, table, self._pool_selector.reservation_manager
        )
        topology.refresh_all()
        return topology

    def _queue_order(self) -> tuple[dict[int, int], dict[int, PodClass]]:
        positions: dict[int, int] = {}
        pod_classes: dict[int, PodClass] = {}
        for batch in build_queue(self._classes.all):
            for pod in batch.pods:
                positions[id(pod)] = len(positions)
                pod_classes[id(pod)] = batch.pod_class
        return positions, pod_classes

    def _start_simulation(self, numbers: Sequence[int]) -> SimulatedPlacement:
        removed = 0
        for number in numbers:
            removed |= 1 << number
        nodes = SimulatedNodes(self._nodes, removed)
        simulation = SimulatedPlacement(
            self._templates, nodes, self._pool_selector, self._classes, self._topology
        )
        simulation.strict_weights = self._options.strict_weights
        simulation.evaluate_pools = lambda scheduling: evaluate_pools(scheduling, self._templates)
        simulation.remove_pods_of(numbers)
        return simulation

    def _place_all(self, simulation: SimulatedPlacement, pods: list[Pod]) -> list[Pod]:
        """The pods that are still unplaced after a pass that placed none."""
        unplaced, before = pods, -1
        while unplaced and len(unplaced) != before:
            before, waiting, unplaced = len(unplaced), unplaced, []
            for number, pod in enumerate(waiting):
                try:
                    is_placed = self._is_placed(simulation, pod)
                except NeedsSecondNode:
                    return [*unplaced, *waiting[number:]]
                if not is_placed:
                    unplaced.append(pod)
        return unplaced

    def _is_placed(self, simulation: SimulatedPlacement, pod: Pod) -> bool:
        return simulation.place(pod, self._pod_classes[id(pod)]) is PlacementResult.PLACED

    def _may_be_wrong(self, simulation: SimulatedPlacement, unplaced: Sequence[Pod]) -> bool:
        """Whether a later round could place more pods: because of limits or topology."""
        if any(template.pool.limits for template in self._templates):
            return bool(simulation.table.drafts)
        return any(
            level.topology_constraints is not None
            for p in unplaced
            for level in self._pod_classes[id(p)].levels
        )

    def _result(self, simulation: SimulatedPlacement, unplaced: Sequence[Pod]) -> Simulation:
        if unplaced:
            return Simulation(unplaced=tuple(sorted(pod.key for pod in unplaced)))
        taken: dict[int, list[str]] = {}
        for pod, number in simulation.simulated_nodes.placed:
            taken.setdefault(number, []).append(pod.key)
        placements = [
            NodeAssignment(node=self._nodes.nodes[number].name, pods=tuple(sorted(pods)))
            for number, pods in taken.items()
        ]
        return Simulation(
            placements=tuple(sorted(placements, key=lambda each: each.node)),
            claim=self._claim(simulation),
        )

    def _claim(self, simulation: SimulatedPlacement) -> PlannedNodeClaim | None:
        if not simulation.table.drafts:
            return None
        draft = simulation.table.drafts[0]
        draft.pin(
            choose_offering(
                draft.launch_options, self._pool_selector.reservation_manager.available_count
            )
        )
        taken = self._snapshot.taken_names
        return planned_claims([draft], self._classes.resources, taken)[0]


def is_reschedulable(pod: Pod) -> bool:
    """Whether its controller would create the pod again elsewhere if its node was removed."""
    return not pod.daemonset and not pod.terminating


def _awaits_reservation(node: Node) -> bool:
    return node.reservation_id is not None and not node.launched


def _marked_deleting(node: Node, removed: Collection[str]) -> Node:
    return msgspec.structs.replace(node, deleting=True) if node.name in removed else node
