"""Simulation: what would happen to the pods of some nodes if these nodes were removed.

A cluster is compiled once. Each simulation runs the same scheduler on a fork of its state, which
copies only what it changes and is dropped afterwards: any number of nodes removed, any number of
new nodes, pending pods included. Every result equals a plan of the changed cluster, and so does
the explanation of pods that would have no place: why a node is kept.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from math import inf
from typing import Final, NamedTuple, TypeAlias

import msgspec

from wainwright.core.cluster_usage import remaining_cluster_limits
from wainwright.core.disruption.eviction import evict_from_deleting_nodes
from wainwright.core.explain.unschedulable import explain_unschedulable
from wainwright.core.launch.claims_within_limits import claims_within_limits
from wainwright.core.plan import (
    SolvedPlan,
    is_placeable,
    planned_claims,
    pods_on_existing_nodes,
    solve_with_fallbacks,
)
from wainwright.core.scheduling.daemonset_overhead import types_running
from wainwright.core.scheduling.draft_fit import evaluate_fit
from wainwright.core.scheduling.existing_nodes import ExistingNodes, NodeOrder
from wainwright.core.scheduling.new_node import fitting_types
from wainwright.core.scheduling.nodeclaim_template import compile_templates
from wainwright.core.scheduling.placement import FirstFit, PlacementPolicy
from wainwright.core.scheduling.pod_classes import PodClass, PodClasses
from wainwright.core.scheduling.queue import PodBatch, Queue
from wainwright.core.scheduling.reservation_manager import available_counts, in_flight_usage
from wainwright.core.scheduling.solver import CompiledCluster, Solution, Strategy
from wainwright.core.scheduling.state import SchedulingState, TooManyDraftsError
from wainwright.model.bitset import BitSet, iter_bits, union
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.plan import (
    DEFAULT_PLAN_OPTIONS,
    PRICE_LIMIT,
    NodeAssignment,
    Plan,
    PlannedNodeClaim,
    PlanOptions,
    UnschedulableGroup,
)
from wainwright.model.pod import Pod
from wainwright.model.resources import (
    CPU,
    MEMORY,
    Resources,
    add_resources,
    subtract_resources,
)
from wainwright.model.snapshot import NODES_LIMIT, Node, Snapshot

QueueKey: TypeAlias = tuple[int, int, float, str, str, str]
NODE_FIELDS: Final = (
    "labels",
    "taints",
    "startup_taints",
    "allocatable",
    "capacity",
    "highest_price",
    "managed",
    "initialized",
    "deleting",
    "pool",
    "launched",
    "reservation_id",
    "attach_limits",
)
"""What scheduling depends on besides the pods of a node."""


class SimulationPolicy(FirstFit):
    """First-fit that does not remember which drafts a pod does not fit: drafts of the next
    simulation have the same numbers.
    """

    fit = staticmethod(evaluate_fit)


SIMULATION_POLICY = SimulationPolicy()


class RemovalSimulation(msgspec.Struct, frozen=True, kw_only=True):
    """Where the pods of removed nodes, and pending pods, would go."""

    placements: tuple[NodeAssignment, ...] = ()
    claims: tuple[PlannedNodeClaim, ...] = ()
    """The nodes that would be launched."""
    unplaced: tuple[str, ...] = ()
    """Pods that could not be placed."""

    @property
    def is_possible(self) -> bool:
        return not self.unplaced


class _Removal(NamedTuple):
    """Nodes that are removed in a simulation, and what becomes free with them."""

    names: Collection[str]
    closed: BitSet = 0
    """Nodes on which no pod is placed."""
    returns_limits: bool = False
    without_reservations: bool = False
    """Whether new nodes use no reserved instance."""
    max_new_nodes: int | None = None
    """The simulation ends when it would need more."""
    released: str | None = None
    """The reservation of which one instance is given back before new nodes are launched."""
    counts_leaving_nodes: bool = False
    """Whether spreads count the domains of the nodes until these are gone."""


class SimulatorUpdate(msgspec.Struct, kw_only=True):
    """What an update of the cluster may have changed for other simulations."""

    freed: BitSet
    """Nodes that have more room than before."""
    groups: frozenset[int]
    """Numbers of topology groups whose counts changed."""
    affected: dict[int, bool] = {}
    """Whether a pod class may be affected, by its number; filled when asked."""


class ClusterSimulator:
    """A cluster on which node removals can be simulated."""

    def __init__(
        self,
        snapshot: Snapshot,
        catalogs: Mapping[str, InstanceTypeIndex],
        options: PlanOptions = DEFAULT_PLAN_OPTIONS,
        order: NodeOrder | None = None,
        withheld: Collection[str] = (),
    ) -> None:
        """`order`: in which order nodes are tried; by default as in a plan. `withheld`:
        reservations of which the catalogs have one available instance more than there is, so that
        a simulation may release one: offerings without any are not compiled.
        """
        snapshot = evict_from_deleting_nodes(snapshot).snapshot
        self._snapshot, self._catalogs, self._options = snapshot, catalogs, options
        self._order = order
        self._replaced_pods: list[tuple[Pod, ...]] = []
        """Pods of earlier snapshots: classes are found by the identity of pods, which must not be
        used for others."""
        self._queue_keys: dict[int, QueueKey] = {}
        self._taken_names = snapshot.taken_names
        gate = options.capacity_reservations
        limits = remaining_cluster_limits(snapshot, catalogs, options)
        templates = compile_templates(
            snapshot.pools, catalogs, snapshot.daemonsets, gate=gate, cluster_limits=limits
        )
        self._nodes = ExistingNodes(snapshot.nodes, snapshot.daemonsets, order)
        self._numbers = {node.name: n for n, node in enumerate(self._nodes.nodes)}
        self._withheld = frozenset(withheld)
        self._catalog_counts = available_counts(template.index for template in templates)
        self._in_flight = in_flight_usage(snapshot.nodes)
        pods = [*snapshot.pods, *(pod for node in self._nodes.nodes for pod in node.pods)]
        movable = [pod for pod in pods if pod.is_rescheduled and is_placeable(pod)]
        self._cluster = CompiledCluster(
            movable, templates, self._nodes, self._free_counts(Counter()), options, forkable=True
        )
        self._limited_pools = {
            each.pool.name: each.number for each in templates if each.pool.limits
        }
        """The numbers of their templates."""
        self._pod_classes = {
            id(pod): pod_class for pod_class in self._cluster.classes.all for pod in pod_class.pods
        }

    def update(self, snapshot: Snapshot, changed: Sequence[Node]) -> "SimulatorUpdate | None":
        """Takes over a snapshot in which some nodes have other pods, and nothing else has changed.

        None if that is not possible, and the cluster has to be compiled anew: nodes differ in
        more than their pods, or pods are of a class that is not known.
        """
        numbers = [self._numbers.get(node.name) for node in changed]
        classes: dict[int, PodClass] = {}
        for number, node in zip(numbers, changed, strict=True):
            if number is None or not _is_same_but_for_pods(self._nodes.nodes[number], node):
                return None
            for pod in node.pods:
                if pod.is_rescheduled and is_placeable(pod) and id(pod) not in self._pod_classes:
                    pod_class = self._cluster.classes.find(pod)
                    if pod_class is None:
                        return None
                    classes[id(pod)] = pod_class
        self._pod_classes |= classes
        self._snapshot = snapshot
        self.__dict__.pop("_of_real_pods", None)
        return self._replace_nodes([number for number in numbers if number is not None], changed)

    def _replace_nodes(self, numbers: Sequence[int], changed: Sequence[Node]) -> "SimulatorUpdate":
        state, freed, groups = self._cluster.state, 0, set[int]()
        for number, node in zip(numbers, changed, strict=True):
            before = state.nodes.resources.free(number)
            self._replaced_pods.append(state.nodes.nodes[number].pods)
            state.nodes.replace(number, node)
            after = state.nodes.resources.free(number)
            if any(new > old for new, old in zip(after, before, strict=True)):
                freed |= 1 << number
            if state.topology is not None:
                groups |= state.topology.replace_node(number)
        bits = union(1 << number for number in numbers)
        for pod_reqs in self._cluster.classes.pod_requirements:
            pod_reqs.full_nodes &= ~bits
        return SimulatorUpdate(freed=freed, groups=frozenset(groups))

    def is_affected(self, pod: Pod, update: "SimulatorUpdate") -> bool:
        """Whether the pod may have a place after the update that it had not before, or lost one
        by its topology constraints.
        """
        pod_class = self._pod_classes.get(id(pod))
        if pod_class is None:
            return False
        known = update.affected.get(pod_class.number)
        if known is None:
            known = update.affected[pod_class.number] = self._is_class_affected(pod_class, update)
        return known

    def _is_class_affected(self, pod_class: PodClass, update: "SimulatorUpdate") -> bool:
        if pod_class.has_topology and update.groups:
            return True
        resources = self._cluster.state.nodes.resources
        return any(
            resources.admits(number, pod_reqs.amounts)
            for pod_reqs in pod_class.alternatives
            for number in iter_bits(update.freed & pod_reqs.scheduling.compatible_nodes)
        )

    def remove_nodes(self, names: Collection[str]) -> RemovalSimulation:
        """What would happen to their pods, and to pending ones, if these nodes were removed."""
        pods = self._pods_of(names)
        return self._simulation(self._solve(_Removal(names), pods), pods)

    def solve_without(
        self,
        names: Collection[str],
        closed: BitSet = 0,
        left_out: Collection[str] = (),
        *,
        without_reservations: bool = False,
        released: str | None = None,
        counts_leaving_nodes: bool = True,
    ) -> Solution:
        """The state after a removal, for callers that look at many and need little of each.

        No pod is placed on the closed nodes, and the pods left out are not placed at all. What the
        nodes use does not count against the limits of their NodePools: replacements may stand
        beside them for a while. Of the released reservation new nodes may use one instance more.
        Pods that cannot be placed anywhere, whatever happens, are not part of it: see
        `is_hopeless`.

        Unlike in a plan, the domains of the nodes count in spreads: while they are drained, pods
        have to be scheduled beside them, or a PodDisruptionBudget may never let the last one go.
        """
        removal = _Removal(
            names,
            closed,
            returns_limits=True,
            without_reservations=without_reservations,
            released=released,
            counts_leaving_nodes=counts_leaving_nodes,
        )
        return self._solve_without(removal, left_out)

    def replace_by_one(
        self, names: Collection[str], closed: BitSet = 0, *, without_reservations: bool = False
    ) -> Solution | None:
        """The same, but None as soon as it would need several new nodes: most sets of nodes do, and
        placing the rest of their pods would take much longer.
        """
        removal = _Removal(
            names,
            closed,
            returns_limits=True,
            without_reservations=without_reservations,
            max_new_nodes=1,
            counts_leaving_nodes=True,
        )
        try:
            return self._solve_without(removal, ())
        except TooManyDraftsError:
            return None

    def _solve_without(self, removal: "_Removal", left_out: Collection[str]) -> Solution:
        names = removal.names
        pods = self._pods_of(names)
        if left_out:
            pods = [pod for pod in pods if pod.key not in left_out]
        return self._solve(removal, pods)

    def fits_in_room_of_buffers(self, names: Collection[str], closed: BitSet = 0) -> bool:
        """Whether the pods of the nodes have room on others once they take that of virtual pods,
        as the kube-scheduler may let them: it knows of no virtual pods.
        """
        real = self._of_real_pods
        if real is None:
            return False
        solution = real.solve_without(names, real.numbers_of(self.names_of(closed)))
        return not solution.failed and not solution.drafts

    @cached_property
    def _of_real_pods(self) -> "ClusterSimulator | None":
        """The same cluster without virtual pods; None where it has none."""
        real = self._snapshot.without_virtual_pods()
        if real is self._snapshot:
            return None
        return ClusterSimulator(real, self._catalogs, self._options, self._order, self._withheld)

    def is_limited(self, solution: Solution) -> bool:
        """Whether a pod is unplaced that a NodePool could launch a node for but for a limit."""
        return any(
            template.limits.is_limited
            and (types := fitting_types(template, pod_reqs))
            and not types & template.limits.admitted_at_start
            for batch in solution.failed
            for pod_reqs in batch.pod_class.alternatives
            for template in solution.state.templates
        )

    @property
    def has_free_reservations(self) -> bool:
        return bool(self._cluster.state.reservation_manager.available)

    def is_hopeless(self, pod: Pod) -> bool:
        """Whether the pod has no place on any node."""
        return id(pod) not in self._pod_classes

    @cached_property
    def occupied_reservations(self) -> frozenset[str]:
        """Those that nodes run in: each gives an instance back when it goes."""
        nodes = (node for node in self._nodes.nodes if node.launched)
        return frozenset(each.reservation_id for each in nodes if each.reservation_id is not None)

    @cached_property
    def lacking_reservations(self) -> frozenset[str]:
        """Reservations of the catalogs of which nothing is available: they are not compiled."""
        return frozenset(
            group.reservation_id
            for index in {*self._catalogs.values()}
            for group in index.offering_groups
            if group.reservation_id is not None and not group.available_types
        )

    @cached_property
    def ignores_withheld(self) -> bool:
        """Whether nothing but reservations depends on which withheld ones there are: neither the
        types that DaemonSets run on, nor what launches may cost under a limit of the price.
        """
        if PRICE_LIMIT in self._options.cluster_limits.amounts:
            return False
        return not any(
            types_running(each.pool, each.index, daemonset, disabled)
            != types_running(each.pool, each.index, daemonset, disabled | withheld)
            for each in self._cluster.state.templates
            for disabled in (each.disabled_groups,)
            for withheld in (each.index.groups_of_reservations(self._withheld),)
            for daemonset in each.daemonsets
        )

    def exceeds_limits(self, names: Collection[str], claims: Sequence[PlannedNodeClaim]) -> bool:
        """Whether NodeClaims that are launched together in place of the nodes may go beyond a
        limit, as what EC2 makes of them is not known before: see `claims_within_limits`. A command
        launches all of them or none, so that the later ones cannot wait.
        """
        if len(claims) < 2 or not (self._limited_pools or self._options.cluster_limits.amounts):
            return False
        without = _without_usage(self._snapshot, names)
        kept = claims_within_limits(claims, without, self._catalogs, self._options)
        return len(kept) < len(claims)

    @property
    def is_bounded(self) -> bool:
        """Whether limits bound what is launched."""
        return any(each.limits.is_limited for each in self._cluster.state.templates)

    @property
    def topology_groups(self) -> frozenset[int]:
        """Some number where pods of the cluster have topology constraints: any count may differ."""
        return frozenset() if self._cluster.state.topology is None else frozenset({0})

    def names_of(self, numbers: BitSet) -> set[str]:
        return {self._nodes.nodes[number].name for number in iter_bits(numbers)}

    def numbers_of(self, names: Collection[str]) -> BitSet:
        """Of those that exist."""
        return union(1 << self._numbers[name] for name in names if name in self._numbers)

    def nodes_where(self, predicate: Callable[[Node], bool]) -> BitSet:
        return union(1 << n for n, node in enumerate(self._nodes.nodes) if predicate(node))

    def simulation_of(self, solution: Solution) -> RemovalSimulation:
        """What a solution means, in names."""
        return self._simulation(solution, ())

    def explain_removal(
        self,
        names: Collection[str],
        pods: Collection[str] | None = None,
        *,
        closed: BitSet = 0,
        returns_limits: bool = False,
        counts_leaving_nodes: bool = False,
        with_suggestions: bool = False,
    ) -> tuple[UnschedulableGroup, ...]:
        """Why pods would be unschedulable if these nodes were removed: all such pods, or these.

        The reasons are those of a plan of the cluster without the nodes, and without the room of
        closed ones; if there are none and the nodes count in spreads until they are gone, those for
        which pods would have to wait for that. They are worked out on the fork, and only when asked
        for. Limits are returned where what the nodes use does not count against them.
        """
        moved_and_pending = self._pods_of(names)
        removal = _Removal(names, closed, returns_limits=returns_limits)
        counts = (False, True) if counts_leaving_nodes else (False,)
        for each in (removal._replace(counts_leaving_nodes=count) for count in counts):
            solution = self._solve(each, moved_and_pending)
            simulated = self._simulation(solution, moved_and_pending)
            if not simulated.is_possible:
                break
        else:
            return ()
        solution.free_counts = self._free_counts(self._returned_by(names))
        made = Plan(
            claims=simulated.claims,
            placements=simulated.placements,
            unplaced=simulated.unplaced,
            reservations=(),
        )
        unusable = {*names, *self.names_of(closed)}
        changed = _without_nodes(self._snapshot, unusable, moved_and_pending)
        if returns_limits:
            changed = _without_usage(changed, names)
        solved = SolvedPlan(made, solution, changed, self._catalogs, self._options)
        return explain_unschedulable(solved, pods, with_suggestions=with_suggestions)

    def _simulation(self, solution: Solution, pods: Sequence[Pod]) -> RemovalSimulation:
        drafts, resources = solution.drafts, solution.classes.resources
        unplaced = [pod.key for batch in solution.failed for pod in batch.pods]
        unplaced += [pod.key for pod in pods if id(pod) not in self._pod_classes]
        return RemovalSimulation(
            placements=pods_on_existing_nodes(solution.state.nodes),
            claims=planned_claims(drafts, resources, self._taken_names),
            unplaced=tuple(sorted(unplaced)),
        )

    def _solve(self, removal: "_Removal", pods: Sequence[Pod]) -> Solution:
        placeable = [pod for pod in pods if id(pod) in self._pod_classes]
        placeable.sort(key=self._queue_key)
        return solve_with_fallbacks(
            lambda strategy: self._cluster.prepare(
                self._fork(removal), self._queue(placeable), _simulated(strategy)
            )
        )

    def _queue_key(self, pod: Pod) -> QueueKey:
        """Computed once: a pod is in hundreds of simulations of a day."""
        key = self._queue_keys.get(id(pod))
        if key is None:
            key = self._queue_keys[id(pod)] = _queue_key(pod, self._pod_classes[id(pod)])
        return key

    def _pods_of(self, names: Collection[str]) -> list[Pod]:
        """Pending pods, and those that have to move."""
        moved = (
            pod
            for name in names
            for pod in self._nodes.nodes[self._numbers[name]].pods
            if pod.is_rescheduled
        )
        return [*self._snapshot.pods, *moved]

    def _fork(self, removal: "_Removal") -> SchedulingState:
        numbers = [self._numbers[name] for name in removal.names]
        fork = self._cluster.state.fork(union(1 << number for number in numbers))
        if removal.closed:
            fork.nodes.open ^= fork.nodes.open & removal.closed
        returned = self._returned_by(removal.names) if self._in_flight else Counter[str]()
        if removal.released is not None:
            returned[removal.released] += 1
        if returned:
            self._return_reservations(fork, returned)
        if removal.returns_limits:
            self._return_limits(fork, numbers)
        if removal.counts_leaving_nodes and fork.topology is not None:
            fork.topology.count_leaving_nodes()
        fork.max_drafts = removal.max_new_nodes
        if removal.without_reservations:
            fork.reservation_manager.withdraw_all()
        return fork

    def _return_limits(self, fork: SchedulingState, numbers: Sequence[int]) -> None:
        """Nodes of a command do not count against the limits of their NodePools."""
        for number in numbers:
            node = self._nodes.nodes[number]
            if node.pool in self._limited_pools:
                fork.return_limits(self._limited_pools[node.pool], node.capacity)

    def _returned_by(self, names: Collection[str]) -> Counter[str]:
        """Removed NodeClaims that were not launched yet will not need their reservations."""
        return in_flight_usage(self._nodes.nodes[self._numbers[name]] for name in names)

    def _return_reservations(self, fork: SchedulingState, returned: Counter[str]) -> None:
        before, after = self._free_counts(Counter()), self._free_counts(returned)
        for name in returned:
            if name in fork.reservation_manager.numbers and after[name] > before[name]:
                fork.reservation_manager.return_instances(name, after[name] - before[name])

    def _free_counts(self, returned: Counter[str]) -> dict[str, int]:
        """By reservation the available instances that no in-flight NodeClaim will need."""
        return {
            name: max(0, count - (name in self._withheld) - self._in_flight[name] + returned[name])
            for name, count in self._catalog_counts.items()
        }

    def _queue(self, pods: Sequence[Pod]) -> Queue:
        """The pods in the order of the queue, neighbours of one class in a batch."""
        queue: Queue = []
        for pod in pods:
            pod_class = self._pod_classes[id(pod)]
            if queue and queue[-1].pod_class is pod_class:
                queue[-1].pods.append(pod)
            else:
                queue.append(PodBatch(pod_class, [pod]))
        return queue


def _without_nodes(snapshot: Snapshot, names: Collection[str], pods: Sequence[Pod]) -> Snapshot:
    """The cluster after the removal: the nodes are being deleted, their pods are pending."""
    removed = set(names)
    nodes = tuple(
        msgspec.structs.replace(node, deleting=True) if node.name in removed else node
        for node in snapshot.nodes
    )
    return msgspec.structs.replace(snapshot, nodes=nodes, pods=tuple(pods))


def _without_usage(snapshot: Snapshot, names: Collection[str]) -> Snapshot:
    """As if what these nodes use were not in use."""
    used: dict[str, Resources] = {}
    for node in snapshot.nodes:
        if node.name in names and node.pool is not None:
            used[node.pool] = add_resources(
                used.get(node.pool, {}), {**node.capacity, NODES_LIMIT: 1}
            )
    pools = tuple(
        msgspec.structs.replace(
            pool, in_use=subtract_resources(pool.in_use, used.get(pool.name, {}))
        )
        for pool in snapshot.pools
    )
    return msgspec.structs.replace(snapshot, pools=pools)


def _simulated(strategy: Strategy) -> Strategy:
    return strategy._replace(policy=_simulation_policy)


def _simulation_policy(_: SchedulingState, __: PodClasses) -> PlacementPolicy:
    return SIMULATION_POLICY


def _queue_key(pod: Pod, pod_class: PodClass) -> QueueKey:
    """As in `queue.build_queue`: large pods first, then the oldest."""
    requests = pod_class.pods[0].requests
    age = inf if pod.created is None else pod.created
    size = (-requests.get(CPU, 0), -requests.get(MEMORY, 0))
    return *size, age, pod.uid, pod.namespace, pod.name


def _is_same_but_for_pods(one: Node, other: Node) -> bool:
    """Whether the nodes offer the same to pods, apart from what theirs use.

    Host ports and attached volumes are only ever added to: with pods that have any the node is
    another one.
    """
    if any(getattr(one, name) != getattr(other, name) for name in NODE_FIELDS):
        return False
    return not any(
        pod.constraints.ports or pod.constraints.attachments
        for node in (one, other)
        for pod in node.pods
    )
