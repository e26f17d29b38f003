"""The solver: compiles pods, NodePools and nodes for one plan, and places the pods in rounds."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from wainwright.core.scheduling.capacity_index import CapacityIndex
from wainwright.core.scheduling.constraints.taint_toleration import TolerablePools
from wainwright.core.scheduling.constraints.volume_limits import ExpectedLimits, TypeVolumeLimits
from wainwright.core.scheduling.drafts import Draft, DraftTable
from wainwright.core.scheduling.existing_nodes import ExistingNodes
from wainwright.core.scheduling.new_node import NewNodeEvaluator, NodePoolSelector, fitting_types
from wainwright.core.scheduling.nodeclaim_template import NodeClaimTemplate
from wainwright.core.scheduling.placement import (
    FIRST_FIT_POLICY,
    PlacementObserver,
    PlacementPolicy,
    PlacementResult,
    PodPlacement,
)
from wainwright.core.scheduling.pod_classes import (
    ClassificationContext,
    PodClass,
    PodClasses,
    SchedulingRequirements,
)
from wainwright.core.scheduling.queue import PodBatch, Queue, QueueSegment
from wainwright.core.scheduling.reservation_manager import (
    PoolReservations,
    ReservationManager,
    number_reservations,
)
from wainwright.core.scheduling.state import SchedulingState
from wainwright.core.scheduling.topology.groups import ANTI_AFFINITY_KINDS, TopologyKind
from wainwright.core.scheduling.topology.registry import TopologyRegistry
from wainwright.core.scheduling.topology.topology import Topology
from wainwright.model.bitset import iter_bits
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.offering_groups import OfferingGroupSet
from wainwright.model.plan import PlanOptions
from wainwright.model.pod import Pod
from wainwright.model.taints import PREFER_NO_SCHEDULE, Taint

PolicyFactory: TypeAlias = Callable[[SchedulingState, PodClasses], PlacementPolicy]
ObserverFactory: TypeAlias = Callable[[PodPlacement], PlacementObserver]


def _first_fit(_: SchedulingState, __: PodClasses) -> PlacementPolicy:
    return FIRST_FIT_POLICY


class Strategy(NamedTuple):
    """Which placement policy is used, and when drafts decide on a topology domain."""

    policy: PolicyFactory = _first_fit
    deferred_kinds: frozenset[TopologyKind] = ANTI_AFFINITY_KINDS
    """Topology groups of these kinds do not make drafts decide on a domain within their round."""
    observer: ObserverFactory | None = None


FIRST_FIT: Final = Strategy()


class Rounds:
    """Places pods until no further pod can be.

    A round is a single provisioning loop: passes over the pending pods until one pass changes
    nothing. When it is over its drafts become in-flight nodes, pinned to the offering they would be
    launched with. That releases reservations and limits, which the next round can use.
    """

    def __init__(self, placement: PodPlacement) -> None:
        self.placement = placement
        self.state = placement.state
        self.table = placement.state.table
        self.reservation_manager = placement.state.reservation_manager
        self.failed: Queue = []
        self._reservation_wait = placement.state.reservation_wait
        self._placed = 0

    def run(self, queue: Queue) -> None:
        """Places every pod that can be placed; the others end up in `failed`."""
        self._reservation_wait.can_wait_untried = not self.state.nodes.nodes
        if self.state.nodes.nodes:
            # Who waited in another simulation was tried on the nodes there, and not yet here.
            for batch in queue:
                batch.pod_class.awaited_reservations = None
        segments = self._reservation_wait.build_segments(queue)
        while segments:
            self.state.round += 1
            if self.state.round > 1:
                self.table.begin_round()
                self.reservation_manager.begin_round()
            self._reservation_wait.begin_round()
            self._placed = self.placement.begin_round(segments)
            before = -1
            while self._placed != before:
                before = self._placed
                self._reservation_wait.begin_pass()
                segments = [segment for segment in segments if self._pass(segment)]
                if not self._reservation_wait.needs_another_pass:
                    break
            self._end_round()
            if not self._placed:
                self.failed += [
                    batch for segment in segments for batch in segment.remaining_batches()
                ]
                return

    def _pass(self, group: QueueSegment) -> bool:
        """Tries each pod of the segments once; keeps those that may be placed later."""
        if self._reservation_wait.can_skip(group):
            return True
        kept: list[QueueSegment] = []
        for segment in group.children or (group,):
            if segment is not group and self._reservation_wait.can_skip(segment):
                kept.append(segment)
                continue
            remaining: Queue = []
            for batch in self._tried_batches(segment, remaining):
                self._try(batch, remaining)
            segment.batches = remaining
            if remaining:
                kept.append(segment)
        if group.children:
            group.children = kept
        return bool(kept)

    def _tried_batches(self, segment: QueueSegment, remaining: Queue) -> Iterable[PodBatch]:
        self.placement.skip_inflight = self._reservation_wait.can_skip_inflight(segment)
        if self.reservation_manager.available:
            return self._not_skipped(segment, remaining)
        return segment.batches  # without any, no pod waits for a reservation

    def _not_skipped(self, segment: QueueSegment, remaining: Queue) -> Iterator[PodBatch]:
        """The batches that may be placed now; skipped ones go to `remaining`, in queue order."""
        batches, number = segment.batches, 0
        while number < len(batches):
            next_tried = number + self._reservation_wait.count_skippable(segment, number)
            remaining += batches[number:next_tried]
            if next_tried < len(batches):
                yield batches[next_tried]
            number = next_tried + 1

    def _try(self, batch: PodBatch, remaining: Queue) -> None:
        """Places pods of the batch until one cannot be placed; the others cannot be either."""
        pod_class, pods, reservation_manager, place = (
            batch.pod_class,
            batch.pods,
            self.reservation_manager,
            self.placement.place,
        )
        for number, pod in enumerate(pods):
            if (
                pod_class.failed_version == reservation_manager.version
                and pod_class.failed_topology_version == self._topology_version(pod_class)
            ):
                # A pod of this class failed and nothing has changed since: saves trying again.
                result = PlacementResult.NOT_YET
            else:
                result = place(pod, pod_class)
            if result is not PlacementResult.PLACED:
                self._placed += number
                self._keep_unplaced(batch, number, result, remaining)
                return
        self._placed += len(pods)

    def _keep_unplaced(
        self, batch: PodBatch, number: int, result: PlacementResult, remaining: Queue
    ) -> None:
        batch.pods = batch.pods[number:]
        if result is PlacementResult.NEVER:
            self.failed.append(batch)
            return
        batch.pod_class.failed_version = self.reservation_manager.version
        batch.pod_class.failed_topology_version = self._topology_version(batch.pod_class)
        self._reservation_wait.record_unplaced(batch)
        remaining.append(batch)

    def _topology_version(self, pod_class: PodClass) -> int:
        topology = self.state.topology
        if topology is None or not pod_class.has_topology:
            return 0
        return topology.version_of(pod_class)

    def _end_round(self) -> None:
        """Ends the round: every draft of it is pinned to the offering it would be launched with."""
        for number in iter_bits(self.table.current):
            draft = self.table.drafts[number]
            choice = self.state.choose_launch(draft)
            if draft.held:
                held = draft.template.pool_reservations.reservations_in(draft.held)
                self.reservation_manager.commit(held, choice.offering.reservation_id or "")
            draft.pin(choice)
            self.state.count_launch(draft, choice)
        self.state.end_round_of_limits()
        self.table.end_round()
        if self.state.topology is not None:
            self.state.topology.end_round()


class Solution:
    """The result of a solve: the state of all nodes and drafts, and the pods that are unplaced."""

    __slots__ = ("catalog_counts", "classes", "failed", "free_counts", "given_up", "state")

    def __init__(self, classes: PodClasses, rounds: Rounds, free_counts: Mapping[str, int]) -> None:
        self.classes = classes
        self.state = rounds.placement.state
        self.given_up = rounds.placement.given_up
        """Pods that were placed only after these preferences were given up."""
        self.failed = rounds.failed
        """The batches of pods that are unplaced."""
        self.free_counts = free_counts
        """Available instances of each reservation before anything was planned."""
        self.catalog_counts: Mapping[str, int] = free_counts
        """The same, including the instances that in-flight NodeClaims will use."""

    @property
    def drafts(self) -> list[Draft]:
        return self.state.table.drafts

    @property
    def unplaced_count(self) -> int:
        """How many pods are unplaced."""
        return sum(len(batch.pods) for batch in self.failed)

    @property
    def is_blocked_by_topology(self) -> bool:
        """Whether any unplaced pod could have been placed if other pods had gone elsewhere."""
        return any(
            batch.pod_class.has_topology and self._is_servable(batch.pod_class)
            for batch in self.failed
        )

    @property
    def all_unplaced_impossible(self) -> bool:
        """Whether no unplaced pod fits on any node or instance type, wherever other pods go."""
        return all(self._is_impossible(batch.pod_class) for batch in self.failed)

    def _is_impossible(self, pod_class: PodClass) -> bool:
        """Whether taints, labels or size exclude every existing node and every instance type."""
        return not any(
            pod_reqs.scheduling.compatible_nodes
            or any(fitting_types(template, pod_reqs) for template in self.state.templates)
            for pod_reqs in pod_class.alternatives
        )

    def _is_servable(self, pod_class: PodClass) -> bool:
        """Whether a pool would launch a node for the pods if there were no other pods."""
        select = self.state.pool_selector.select
        return any(
            select(level, pod_reqs) for level in pod_class.levels for pod_reqs in level.alternatives
        )


class CompiledCluster:
    """Pods, NodePools and nodes compiled for scheduling: the part that no placement changes."""

    def __init__(
        self,
        pods: Sequence[Pod],
        templates: list[NodeClaimTemplate],
        nodes: ExistingNodes,
        free_counts: Mapping[str, int],
        options: PlanOptions,
        *,
        forkable: bool = False,
    ) -> None:
        """`free_counts` has the available instances of each reservation by its id.

        A forkable cluster has no capacity index of drafts: simulations open few drafts, and a fork
        could not share it.
        """
        registry = TopologyRegistry()
        registry.register(pods, (pod for node in nodes.nodes for pod in node.pods))
        expect_attach_limits(templates, nodes, options)
        context = classification_context(templates, nodes, options)
        self.classes = PodClasses(pods, registry, context, updatable=forkable)
        self.free_counts = free_counts
        self.catalog_counts = free_counts
        """The same, including the instances that in-flight NodeClaims will use."""
        requirements = () if forkable else self.classes.pod_requirements
        capacity_index = CapacityIndex(requirements, len(self.classes.resources))
        reservation_manager = create_reservation_manager(
            templates, free_counts, gate=options.capacity_reservations
        )
        prepare_tables(self.classes, templates, nodes, capacity_index)
        pool_selector = NodePoolSelector(
            templates, NewNodeEvaluator(options.min_values_policy, reservation_manager)
        )
        table = DraftTable(templates, capacity_index)
        topology = (
            Topology(registry, templates, nodes, table, reservation_manager)
            if registry.groups
            else None
        )
        if topology is not None and forkable:
            topology.prepare_forks()
        self.state = SchedulingState(templates, nodes, table, pool_selector, topology)
        self.state.strict_weights = options.strict_weights

    def prepare(self, state: SchedulingState, queue: Queue, strategy: Strategy) -> "PreparedSolve":
        """Everything to place the pods of the queue on the cluster's state, or on a fork of it."""
        state.deferred_kinds = strategy.deferred_kinds
        templates = self.state.templates
        placement = PodPlacement(
            state,
            self.classes,
            lambda scheduling: evaluate_pools(scheduling, templates),
            policy=strategy.policy(state, self.classes),
        )
        if strategy.observer is not None:
            placement.observer = strategy.observer(placement)
        return PreparedSolve(self, Rounds(placement), queue)


class PreparedSolve(NamedTuple):
    """A solve that is about to run: `rounds.run(queue)`, then `solution()`."""

    cluster: CompiledCluster
    rounds: Rounds
    queue: Queue

    def solution(self) -> Solution:
        solution = Solution(self.cluster.classes, self.rounds, self.cluster.free_counts)
        solution.catalog_counts = self.cluster.catalog_counts
        return solution


def evaluate_pools(
    scheduling: SchedulingRequirements,
    templates: Sequence[NodeClaimTemplate],
    tolerable: TolerablePools | None = None,
) -> None:
    """Stores on the requirements how compatible each pool is with them.

    With `tolerable`, pools with a taint that nothing tolerates are not looked at one by one.
    """
    numbers = None if tolerable is None else tolerable.of(scheduling.tolerations)
    if numbers is None:
        scheduling.compatibility = [template.compatibility(scheduling) for template in templates]
    else:
        scheduling.compatibility = [None] * len(templates)
        for number in numbers:
            scheduling.compatibility[number] = templates[number].compatibility(scheduling)
    scheduling.incompatible_pools = tuple(
        n for n, compatible in enumerate(scheduling.compatibility) if compatible is None
    )
    scheduling.compatible_pools = tuple(
        n for n, compatible in enumerate(scheduling.compatibility) if compatible is not None
    )


def classification_context(
    templates: Sequence[NodeClaimTemplate], nodes: ExistingNodes, options: PlanOptions
) -> ClassificationContext:
    """The properties of the cluster and the options that decide which pods share a class."""
    taints = [template.pool.taints for template in templates]
    taints += [node.effective_taints for node in nodes.nodes]
    return ClassificationContext(
        options=options,
        has_soft_taints=any(map(_has_prefer_no_schedule, taints)),
        limited_drivers=limited_drivers(templates, nodes),
    )


def expect_attach_limits(
    templates: Sequence[NodeClaimTemplate], nodes: ExistingNodes, options: PlanOptions
) -> None:
    """Gives templates, and nodes that have not reported theirs, the limits that they are expected
    to have. Templates that share a catalogue share the tables."""
    expected = ExpectedLimits(options)
    shared: dict[InstanceTypeIndex, TypeVolumeLimits] = {}
    for template in templates:
        if template.index not in shared:
            shared[template.index] = TypeVolumeLimits(template.index, expected)
        template.volume_limits = shared[template.index]
    by_pool = {template.pool.name: template.volume_limits for template in templates}
    nodes.volumes.expect(nodes.nodes, by_pool, expected)


def limited_drivers(templates: Sequence[NodeClaimTemplate], nodes: ExistingNodes) -> frozenset[str]:
    """CSI drivers of whose volumes any node or instance type attaches only so many."""
    by_catalogue = {template.volume_limits for template in templates}
    return nodes.volumes.drivers.union(*(each.drivers for each in by_catalogue))


def _has_prefer_no_schedule(taints: Iterable[Taint]) -> bool:
    return any(taint.effect == PREFER_NO_SCHEDULE for taint in taints)


def create_reservation_manager(
    templates: Sequence[NodeClaimTemplate], free_counts: Mapping[str, int], *, gate: bool
) -> ReservationManager:
    """Creates the reservation manager, and gives each template the reservations it may use.

    Templates that share a catalogue and admit the same offering groups share one PoolReservations.
    """
    numbers = number_reservations(template.index for template in templates) if gate else {}
    shared: dict[tuple[InstanceTypeIndex, OfferingGroupSet], PoolReservations] = {}
    for template in templates if gate else ():
        index, admitted = template.index, template.base.reserved
        if (index, admitted) not in shared:
            shared[index, admitted] = PoolReservations(index, admitted, numbers)
        template.pool_reservations = shared[index, admitted]
    return ReservationManager({name: free_counts[name] for name in numbers}, numbers)


def prepare_tables(
    classes: PodClasses,
    templates: Sequence[NodeClaimTemplate],
    nodes: ExistingNodes,
    capacity_index: CapacityIndex,
) -> None:
    """Prepares templates, nodes and capacity indexes for the requirements of all pod classes."""
    resources = classes.resources
    for template in templates:
        template.number_resources(resources)
    node_index = CapacityIndex(classes.pod_requirements if nodes.nodes else (), len(resources))
    nodes.prepare(resources, node_index)
    tolerable = TolerablePools([template.pool.taints for template in templates])
    for scheduling in classes.scheduling.values():
        evaluate_pools(scheduling, templates, tolerable)
        scheduling.compatible_nodes = nodes.compatible(scheduling)
    for pod_reqs in classes.pod_requirements:
        pod_reqs.too_full_drafts = capacity_index.entries(pod_reqs.amounts)
        pod_reqs.too_full_nodes = node_index.entries(pod_reqs.amounts) if nodes.nodes else ()
