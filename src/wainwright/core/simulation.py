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
        self.standing = base.everything ^ removed
        self.taken: list[tuple[Pod, int]] = []
        self._base = base
        self._changed: dict[int, list[int]] = {}
        self._own_ports = HostPortUsage()
        self._own_attached: dict[int, set[VolumeAttachment]] = {}

    def take(
        self, pod: Pod, group: PodClass, wish: PodRequirements, among: BitSet = -1
    ) -> int | None:
        left = wish.ask.nodes & among & self.standing
        left ^= left & wish.full
        for short, mark in wish.short_nodes:
            left ^= left & short[mark]
        if left and wish.ask.ports:
            ports = wish.ask.ports
            left &= ~(self._base.clashing(ports) | self._own_ports.clashing(ports))
        while left:
            lowest = left & -left
            number = lowest.bit_length() - 1
            if self._fits(number, group, wish):
                self._use(pod, group, wish, number)
                return number
            if number not in self._changed:
                wish.full |= lowest  # not even the base has room
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
        own = self._own_attached.get(number, set())
        return self._base.attachable(number, (*group.attachments, *own))

    def _use(self, pod: Pod, group: PodClass, wish: PodRequirements, number: int) -> None:
        free = self._changed.get(number)
        if free is None:
            free = self._changed[number] = list(self._base.free(number))
        for column, amount in wish.amounts:
            free[column] -= amount
        if wish.ask.ports:
            self._own_ports.take(1 << number, wish.ask.ports)
        if group.attachments:
            self._own_attached.setdefault(number, set()).update(group.attachments)
        self.taken.append((pod, number))


class SimulatedTopology(Topology):
    """The groups of a base, copied as soon as a rehearsal changes them."""

    def __init__(self, base: Topology, table: DraftTable, removed: BitSet) -> None:
        self.__dict__.update(base.__dict__)
        self.domains = base.domains.fork()
        self._table = table
        self._removed = removed
        self._waiting = {}
        self._forks: dict[int, AnyGroup] = {}

    def restriction(self, bound: TopologyConstraints) -> AllowedDomains | None:
        return super().restriction(bound.through(self._forks))

    def company(self, bound: TopologyConstraints) -> AllowedDomains | None:
        return super().company(bound.through(self._forks))

    def steering(self, bound: TopologyConstraints) -> AllowedDomains | None:
        return super().steering(bound.through(self._forks))

    def put_on_draft(self, group: PodClass, draft: Draft) -> None:
        for each in group.counted:
            self._count_on_draft(self._fork(each), draft)

    def put_on_node(self, group: PodClass, number: int) -> None:
        for each in group.counted:
            self._count_on_node(self._fork(each), number)

    def leave(self, pod: Pod, number: int) -> None:
        """A pod is no longer on a node that goes: the reverse of how it was counted."""
        for each in self.registry.standing(pod).counted:
            if not (pod.terminating and each.kind is ConstraintKind.SPREAD):
                self._leave(each, number)
        for term in dict.fromkeys(pod.constraints.anti_affinity):
            self._leave(self.registry.shunned(term), number)

    def refresh(self, group: LabelGroup) -> None:
        """The base's domains hold, unless nodes that made one are gone."""
        if group.stamp is self:
            return
        group.stamp = self
        standing = self.domains.of_nodes[group.key].items()
        left = {value for value, rows in standing if rows & group.nodes & ~self._removed}
        group.domains = tuple(sorted(left | group.launchable))

    def lose_domains(self) -> None:
        """Every spread looks anew at where it can go, as a value may have gone with its nodes."""
        for group in self._labels():
            if group.spread is not None and self._is_lost(group):
                self.refresh(self._label_fork(group))

    def _is_lost(self, group: LabelGroup) -> bool:
        for value, rows in self.domains.of_nodes[group.key].items():
            here = rows & group.nodes
            gone = here & self._removed
            if gone and gone == here and value not in group.launchable:
                return True
        return False

    def _leave(self, group: AnyGroup, number: int) -> None:
        if not group.nodes >> number & 1:
            return
        fork = self._fork(group)
        if isinstance(fork, HostGroup):
            fork.forget()
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
        self.overlay = nodes
        self.forked = forked

    def take_away(self, numbers: Iterable[int]) -> None:
        """The pods of nodes that go are not counted there any more."""
        if self.forked is not None:
            for number in numbers:
                for pod in self.nodes.nodes[number].pods:
                    self.forked.leave(pod, number)
            self.forked.lose_domains()

    def _open(self, pod: Pod, group: PodClass, step: NewNodeCandidate) -> None:
        if self.table.drafts:
            raise NeedsSecondNode
        draft = Draft(0, 1, step.template, step.answer)
        self.table.add(draft)
        if self.topology is not None:
            self.topology.opened(draft)
        self._put(pod, group, step.wish, draft, narrowed=True)


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
        registry.introduce(movable, running)
        self._classes = PodClasses(
            movable, registry, classification_context(self._templates, self._nodes, options)
        )
        on_offer = available_counts(template.index for template in self._templates)
        stock = create_reservation_manager(
            self._templates, without_in_flight(on_offer, snapshot.nodes), gate=gate
        )
        stock.begin_round()
        prepare_tables(self._classes, self._templates, self._nodes, None)
        self._ladder = NodePoolSelector(
            self._templates, NewNodeEvaluator(options.min_values_policy, stock)
        )
        self._topology = self._counted(registry)
        self._ranks, self._groups = self._in_order()

    def without(self, names: Collection[str]) -> Simulation:
        """What would become of their pods if the nodes of these names were not there."""
        numbers = [self._numbers[name] for name in names]
        if any(_awaits_reservation(self._nodes.nodes[number]) for number in numbers):
            return self.rebuilt(names)  # there would be one slot more
        pods = [
            pod
            for number in numbers
            for pod in self._nodes.nodes[number].pods
            if is_reschedulable(pod)
        ]
        if any(id(pod) not in self._ranks for pod in pods):
            stuck = tuple(sorted(pod.key for pod in pods if id(pod) not in self._ranks))
            return Simulation(unplaced=stuck)
        pods.sort(key=lambda pod: self._ranks[id(pod)])
        rehearsal = self._rehearsal(numbers)
        left = self._placed(rehearsal, pods)
        if left and self._may_be_wrong(rehearsal, left):
            return self.rebuilt(names)
        return self._told(rehearsal, left)

    def rebuilt(self, names: Collection[str]) -> Simulation:
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

    def _no_slack(self) -> CapacityIndex:
        return CapacityIndex((), len(self._classes.resources))

    def _counted(self, registry: TopologyRegistry) -> Topology | None:
        if not registry.groups:
            return None
        table = DraftTable(self._templates, self._no_slack())
        topology = Topology(registry, self._templates, self._nodes, table, self._ladder.stock)
        topology.refresh_all()
        return topology

    def _in_order(self) -> tuple[dict[int, int], dict[int, PodClass]]:
        ranks: dict[int, int] = {}
        groups: dict[int, PodClass] = {}
        for run in build_queue(self._classes.all):
            for pod in run.pods:
                ranks[id(pod)] = len(ranks)
                groups[id(pod)] = run.group
        return ranks, groups

    def _rehearsal(self, numbers: Sequence[int]) -> SimulatedPlacement:
        removed = 0
        for number in numbers:
            removed |= 1 << number
        overlay = SimulatedNodes(self._nodes, removed)
        found = SimulatedPlacement(
            self._templates, overlay, self._ladder, self._classes, self._topology
        )
        found.strict_weights = self._options.strict_weights
        found.introduce = lambda ask: evaluate_pools(ask, self._templates)
        found.take_away(numbers)
        return found

    def _placed(self, rehearsal: SimulatedPlacement, pods: list[Pod]) -> list[Pod]:
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
        return rehearsal.place(pod, self._groups[id(pod)]) is PlacementResult.PLACE

    def _may_be_wrong(self, rehearsal: SimulatedPlacement, left: Sequence[Pod]) -> bool:
        """Whether a later round could help: limits, or slots hidden behind them."""
        if any(template.pool.limits for template in self._templates):
            return bool(rehearsal.table.drafts)
        return any(stage.bound is not None for p in left for stage in self._groups[id(p)].stages)

    def _told(self, rehearsal: SimulatedPlacement, left: Sequence[Pod]) -> Simulation:
        if left:
            return Simulation(unplaced=tuple(sorted(pod.key for pod in left)))
        taken: dict[int, list[str]] = {}
        for pod, number in rehearsal.overlay.taken:
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
        draft.pin(choose_offering(draft.left, self._ladder.stock.free))
        taken = self._snapshot.taken_names
        return planned_claims([draft], self._classes.resources, taken)[0]


def is_reschedulable(pod: Pod) -> bool:
    """Whether somebody makes it anew elsewhere when its node goes."""
    return not pod.daemonset and not pod.terminating


def _awaits_reservation(node: Node) -> bool:
    return node.reservation_id is not None and not node.launched


def _marked_deleting(node: Node, gone: Collection[str]) -> Node:
    return msgspec.structs.replace(node, deleting=True) if node.name in gone else node
