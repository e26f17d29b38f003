"""Simulation: what would become of the pods of some nodes if these nodes were removed.

A cluster is compiled once and never changes. Each simulation works on a copy-on-write state with
only what it changes: free resources of nodes that took a pod, host ports and volumes there,
topology groups whose counts moved, and the one new node that may be opened. Every answer equals a
plan of the changed cluster. Pending pods are not part of it: ask it of a cluster that is quiet.
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
    """A rehearsal needs more than one new node."""


class SimulatedNodes(ExistingNodes):
    """The nodes of a base without some, and with what a rehearsal puts on the others."""

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
        self, pod: Pod, group: PodClass, wish: PodRequirements, among: BitSet = -1
    ) -> int | None:
        left = wish.scheduling.compatible_nodes & among & self.remaining
        left ^= left & wish.full_nodes
        for short, mark in wish.too_full_nodes:
            left ^= left & short[mark]
        if left and wish.scheduling.ports:
            ports = wish.scheduling.ports
            left &= ~(self._base.with_port_conflict(ports) | self._added_ports.with_conflict(ports))
        while left:
            lowest = left & -left
            number = lowest.bit_length() - 1
            if self._fits(number, group, wish):
                self._add(pod, group, wish, number)
                return number
            if number not in self._changed:
                wish.full_nodes |= lowest  # not even the base has room
            left ^= lowest
        return None

    def _fits(self, number: int, group: PodClass, wish: PodRequirements) -> bool:
        free = self._changed.get(number)
        if free is None:
            free = self._base.free(number)
        for column, amount in wish.amounts:
            if amount > free[column]:
                return False
        if not group.attachments:
            return True
        own = self._added_attachments.get(number, set())
        return self._base.can_attach(number, (*group.attachments, *own))

    def _add(self, pod: Pod, group: PodClass, wish: PodRequirements, number: int) -> None:
        free = self._changed.get(number)
        if free is None:
            free = self._changed[number] = list(self._base.free(number))
        for column, amount in wish.amounts:
            free[column] -= amount
        if wish.scheduling.ports:
            self._added_ports.add(1 << number, wish.scheduling.ports)
        if group.attachments:
            self._added_attachments.setdefault(number, set()).update(group.attachments)
        self.placed.append((pod, number))


class SimulatedTopology(Topology):
    """The groups of a base, copied as soon as a rehearsal changes them."""

    def __init__(self, base: Topology, table: DraftTable, removed: BitSet) -> None:
        self.__dict__.update(base.__dict__)
        self.domains = base.domains.fork()
        self._table = table
        self._removed = removed
        self._waiting_groups = {}
        self._forks: dict[int, AnyGroup] = {}

    def allowed_domains(self, bound: TopologyConstraints) -> AllowedDomains | None:
        return super().allowed_domains(bound.with_forks(self._forks))

    def drafts_with_affinity_pods(self, bound: TopologyConstraints) -> AllowedDomains | None:
        return super().drafts_with_affinity_pods(bound.with_forks(self._forks))

    def drafts_outside_spread(self, bound: TopologyConstraints) -> AllowedDomains | None:
        return super().drafts_outside_spread(bound.with_forks(self._forks))

    def count_on_draft(self, group: PodClass, draft: Draft) -> None:
        for each in group.counted_by:
            self._count_on_draft(self._fork(each), draft)

    def count_on_node(self, group: PodClass, number: int) -> None:
        for each in group.counted_by:
            self._count_on_node(self._fork(each), number)

    def remove_pod(self, pod: Pod, number: int) -> None:
        """A pod is no longer on a node that goes: the reverse of how it was counted."""
        for each in self.registry.matching_groups(pod).counting:
            if not (pod.terminating and each.kind is ConstraintKind.SPREAD):
                self._remove_from(each, number)
        for term in dict.fromkeys(pod.constraints.anti_affinity):
            self._remove_from(self.registry.inverse_anti_affinity_group(term), number)

    def refresh(self, group: LabelGroup) -> None:
        """The base's domains hold, unless nodes that made one are gone."""
        if group.domains_version is self:
            return
        group.domains_version = self
        standing = self.domains.nodes_by_value[group.key].items()
        left = {value for value, rows in standing if rows & group.nodes & ~self._removed}
        group.domains = tuple(sorted(left | group.launchable))

    def refresh_lost_domains(self) -> None:
        """Every spread looks anew at where it can go, as a value may have gone with its nodes."""
        for group in self._label_groups():
            if group.spread is not None and self._has_lost_domain(group):
                self.refresh(self._label_fork(group))

    def _has_lost_domain(self, group: LabelGroup) -> bool:
        for value, rows in self.domains.nodes_by_value[group.key].items():
            here = rows & group.nodes
            gone = here & self._removed
            if gone and gone == here and value not in group.launchable:
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
        found = self._forks.get(group.number)
        if found is None:
            found = self._forks[group.number] = group.fork()
        return found

    def _label_fork(self, group: LabelGroup) -> LabelGroup:
        fork = self._fork(group)
        assert isinstance(fork, LabelGroup)
        return fork


class SimulatedPlacement(PodPlacement):
    """Places the pods of the nodes that go; opens one draft at most."""

    def __init__(
        self,
        templates: list[NodeClaimTemplate],
        nodes: SimulatedNodes,
        ladder: NodePoolSelector,
        classes: PodClasses,
        base: Topology | None,
    ) -> None:
        table = DraftTable(templates, CapacityIndex((), len(classes.resources)))
        forked = None if base is None else SimulatedTopology(base, table, nodes.removed)
        super().__init__(templates, nodes, table, ladder, classes, forked)
        self._fit = evaluate_fit
        self.simulated_nodes = nodes
        self.simulated_topology = forked

    def remove_pods_of(self, numbers: Iterable[int]) -> None:
        """The pods of nodes that go are not counted there any more."""
        if self.simulated_topology is not None:
            for number in numbers:
                for pod in self.nodes.nodes[number].pods:
                    self.simulated_topology.remove_pod(pod, number)
            self.simulated_topology.refresh_lost_domains()

    def _open(self, pod: Pod, group: PodClass, step: NewNodeCandidate) -> None:
        if self.table.drafts:
            raise NeedsSecondNode
        draft = Draft(0, 1, step.template, step.option)
        self.table.add(draft)
        if self.topology is not None:
            self.topology.draft_opened(draft)
        self._add_to_draft(pod, group, step.pod_reqs, draft, narrowed=True)


class Simulation(msgspec.Struct, frozen=True, kw_only=True):
    """What would become of the pods of some nodes if these were not there."""

    placements: tuple[NodeAssignment, ...] = ()
    claim: PlannedNodeClaim | None = None
    """The node that would be launched; None where what stands is enough."""
    unplaced: tuple[str, ...] = ()
    """Pods that would have no place, or would need a second new node."""

    @property
    def is_possible(self) -> bool:
        return not self.unplaced


class ClusterSimulator:
    """A cluster without pending pods, seen by whoever wonders which nodes it needs."""

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
        on_offer = available_counts(template.index for template in self._templates)
        stock = create_reservation_manager(
            self._templates, without_in_flight(on_offer, snapshot.nodes), gate=gate
        )
        stock.begin_round()
        prepare_tables(self._classes, self._templates, self._nodes, None)
        self._pool_selector = NodePoolSelector(
            self._templates, NewNodeEvaluator(options.min_values_policy, stock)
        )
        self._topology = self._build_topology(registry)
        self._queue_positions, self._pod_classes = self._queue_order()

    def remove_nodes(self, names: Collection[str]) -> Simulation:
        """What would become of their pods if the nodes of these names were not there."""
        numbers = [self._numbers[name] for name in names]
        if any(_awaits_reservation(self._nodes.nodes[number]) for number in numbers):
            return self.replan_without(names)  # there would be one slot more
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
        rehearsal = self._start_simulation(numbers)
        left = self._place_all(rehearsal, pods)
        if left and self._may_be_wrong(rehearsal, left):
            return self.replan_without(names)
        return self._result(rehearsal, left)

    def replan_without(self, names: Collection[str]) -> Simulation:
        """The same, worked out from nothing: slow, and what the quick way must agree with."""
        gone = set(names)
        nodes = tuple(_marked_deleting(each, gone) for each in self._snapshot.nodes)
        pods = tuple(
            pod
            for node in self._snapshot.nodes
            if node.name in gone
            for pod in node.pods
            if is_reschedulable(pod)
        )
        changed = msgspec.structs.replace(self._snapshot, nodes=nodes, pods=pods)
        made = plan(changed, self._catalogs, self._options, advise=False)
        lost = tuple(pod for group in made.unschedulable for pod in group.pods)
        second = tuple(pod for claim in made.claims[1:] for pod in claim.pods)
        if lost or second:
            return Simulation(unplaced=tuple(sorted((*lost, *second))))
        return Simulation(placements=made.placements, claim=made.claims[0] if made.claims else None)

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
        ranks: dict[int, int] = {}
        groups: dict[int, PodClass] = {}
        for run in build_queue(self._classes.all):
            for pod in run.pods:
                ranks[id(pod)] = len(ranks)
                groups[id(pod)] = run.pod_class
        return ranks, groups

    def _start_simulation(self, numbers: Sequence[int]) -> SimulatedPlacement:
        removed = 0
        for number in numbers:
            removed |= 1 << number
        overlay = SimulatedNodes(self._nodes, removed)
        found = SimulatedPlacement(
            self._templates, overlay, self._pool_selector, self._classes, self._topology
        )
        found.strict_weights = self._options.strict_weights
        found.evaluate_pools = lambda ask: evaluate_pools(ask, self._templates)
        found.remove_pods_of(numbers)
        return found

    def _place_all(self, rehearsal: SimulatedPlacement, pods: list[Pod]) -> list[Pod]:
        """Those left over after passes in which nobody gained a place any more."""
        left, before = pods, -1
        while left and len(left) != before:
            before, waiting, left = len(left), left, []
            for number, pod in enumerate(waiting):
                try:
                    found = self._is_placed(rehearsal, pod)
                except NeedsSecondNode:
                    return [*left, *waiting[number:]]
                if not found:
                    left.append(pod)
        return left

    def _is_placed(self, rehearsal: SimulatedPlacement, pod: Pod) -> bool:
        return rehearsal.place(pod, self._pod_classes[id(pod)]) is PlacementResult.PLACED

    def _may_be_wrong(self, rehearsal: SimulatedPlacement, left: Sequence[Pod]) -> bool:
        """Whether a later round could help: limits, or slots hidden behind them."""
        if any(template.pool.limits for template in self._templates):
            return bool(rehearsal.table.drafts)
        return any(
            stage.topology_constraints is not None
            for p in left
            for stage in self._pod_classes[id(p)].levels
        )

    def _result(self, rehearsal: SimulatedPlacement, left: Sequence[Pod]) -> Simulation:
        if left:
            return Simulation(unplaced=tuple(sorted(pod.key for pod in left)))
        taken: dict[int, list[str]] = {}
        for pod, number in rehearsal.simulated_nodes.placed:
            taken.setdefault(number, []).append(pod.key)
        placements = [
            NodeAssignment(node=self._nodes.nodes[number].name, pods=tuple(sorted(pods)))
            for number, pods in taken.items()
        ]
        return Simulation(
            placements=tuple(sorted(placements, key=lambda each: each.node)),
            claim=self._claim(rehearsal),
        )

    def _claim(self, rehearsal: SimulatedPlacement) -> PlannedNodeClaim | None:
        if not rehearsal.table.drafts:
            return None
        draft = rehearsal.table.drafts[0]
        draft.pin(
            choose_offering(
                draft.launch_options, self._pool_selector.reservation_manager.available_count
            )
        )
        taken = self._snapshot.taken_names
        return planned_claims([draft], self._classes.resources, taken)[0]


def is_reschedulable(pod: Pod) -> bool:
    """Whether somebody makes it anew elsewhere when its node goes."""
    return not pod.daemonset and not pod.terminating


def _awaits_reservation(node: Node) -> bool:
    return node.reservation_id is not None and not node.launched


def _marked_deleting(node: Node, gone: Collection[str]) -> Node:
    return msgspec.structs.replace(node, deleting=True) if node.name in gone else node
