"""The scheduling state: nodes, drafts, reservations, limits and topology of a plan being made.

It has the only operations that change them, each of which keeps all of them consistent. What is
tried, and in which order, is decided in `placement`.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import TypeAlias
from weakref import WeakMethod

from wainwright.core.launch.launch_choice import LaunchChoice, choose_offering, hourly_cost
from wainwright.core.scheduling.compiled_requirements import CompiledRequirements
from wainwright.core.scheduling.constraints.min_values import MinValues
from wainwright.core.scheduling.draft_fit import narrow_draft
from wainwright.core.scheduling.drafts import Draft, DraftChange, DraftTable
from wainwright.core.scheduling.existing_nodes import ExistingNodes
from wainwright.core.scheduling.new_node import NewNodeCandidate, NodePoolSelector
from wainwright.core.scheduling.nodeclaim_template import NodeClaimTemplate
from wainwright.core.scheduling.pod_classes import PodClass, PodRequirements, RelaxationLevel
from wainwright.core.scheduling.reservation_manager import ReservationManager
from wainwright.core.scheduling.reservation_wait import ReservationWait
from wainwright.core.scheduling.topology.domains import NoValue, launched_value
from wainwright.core.scheduling.topology.groups import ANTI_AFFINITY_KINDS, LabelGroup
from wainwright.core.scheduling.topology.topology import Topology
from wainwright.model.bitset import MAX_CACHED_RESULTS, BitSet
from wainwright.model.pod import Pod
from wainwright.model.requirements import Requirements, parse_requirement
from wainwright.model.resources import Resources

DraftCallback: TypeAlias = Callable[[Draft], None]


# Cached because drafts decide on the same few domains over and over.
@lru_cache(maxsize=4096)
def _in_domain(key: str, value: str) -> Requirements:
    return Requirements([parse_requirement(key, "In", (value,))])


class TooManyDraftsError(Exception):
    """A simulation would open more new nodes than its caller can use: it ends there."""


class SchedulingState:
    """Nodes, drafts and reservations, and the only operations that change them."""

    def __init__(
        self,
        templates: list[NodeClaimTemplate],
        nodes: ExistingNodes,
        table: DraftTable,
        pool_selector: NodePoolSelector,
        topology: Topology | None = None,
    ) -> None:
        self.templates = templates
        self.nodes = nodes
        self.table = table
        self.pool_selector = pool_selector
        self.reservation_manager: ReservationManager = pool_selector.reservation_manager
        self.reservation_wait = ReservationWait(pool_selector, table)
        self.deferred_kinds = ANTI_AFFINITY_KINDS
        """Groups of these kinds do not make drafts decide on a domain within their round."""
        self.on_draft_changed: DraftCallback | None = None
        """Called when a draft was opened or narrowed: the growth rule of cost packing needs it."""
        self.max_drafts: int | None = None
        """How many drafts may be opened; one more is a TooManyDraftsError."""
        self.strict_weights = False
        """Whether pods must not join drafts while a pool of higher weight could open a node."""
        self._cluster_limits = templates[0].limits.cluster if templates else None
        self._copied_templates: set[int] | None = None
        """Of a fork: the numbers of the templates that it has copied to change their limits."""
        self.round = 0
        self._choices: dict[tuple[CompiledRequirements, BitSet, MinValues], LaunchChoice] = {}
        self.topology = topology
        if topology is not None:
            # Weakly: simulations make thousands of forks while the garbage collector is paused.
            # With a cycle none is freed, and each has copies of all groups that count its pods.
            topology.decision = WeakMethod(self.decide_domain)

    def fork(self, removed: BitSet) -> "SchedulingState":
        """A state without the removed nodes, for simulations: what happens there changes nothing
        here.

        Only for a state without drafts and without a capacity index of drafts. Everything is shared
        until the fork changes it, templates included: of hundreds of NodePools with limits a
        simulation changes those of few.
        """
        templates = list(self.templates)
        reservation_manager = self.reservation_manager.fork()
        nodes = self.nodes.fork(removed)
        table = self.table.new_table(templates)
        pool_selector = self.pool_selector.fork(templates, reservation_manager)
        topology = None
        if self.topology is not None:
            topology = self.topology.fork(nodes, table, templates, reservation_manager)
        clone = SchedulingState(templates, nodes, table, pool_selector, topology)
        clone.deferred_kinds = self.deferred_kinds
        clone.strict_weights = self.strict_weights
        clone._copied_templates = set()
        if self._cluster_limits is not None:
            clone._cluster_limits = self._cluster_limits.copy()
        return clone

    def return_limits(self, number: int, capacity: Resources) -> None:
        """Of a fork: a node of that template does not count against its limits any longer."""
        template = self._changeable(self.templates[number])
        template.limits.release(capacity)
        # Before anything is placed this version is known in no other fork.
        template.limits.version = self.reservation_manager.version
        self.pool_selector.limits_changed(template)
        self.reservation_manager.limits_returned()

    def _changeable(self, template: NodeClaimTemplate) -> NodeClaimTemplate:
        """The template, whose limits may be changed: of a fork its own copy."""
        if self._copied_templates is None or not template.limits.is_limited:
            return template
        self._copy_templates([template.number])
        return self.templates[template.number]

    def _changed_by_launch(self, template: NodeClaimTemplate) -> NodeClaimTemplate:
        """The same where a node is to be launched: limits of the cluster change for all."""
        if self._copied_templates is not None and self._cluster_limits is not None:
            self._copy_templates(range(len(self.templates)))
        return self._changeable(template)

    def _copy_templates(self, numbers: Iterable[int]) -> None:
        copied = self._copied_templates
        assert copied is not None, "only forks copy templates"
        new = [number for number in numbers if number not in copied]
        for number in new:
            self.templates[number] = self.templates[number].copy(self._cluster_limits)
        if new:
            copied.update(new)
            self.pool_selector.templates_replaced(new)

    def place_on_node(
        self, pod: Pod, pod_class: PodClass, pod_reqs: PodRequirements, among: BitSet
    ) -> bool:
        number = self.nodes.place(pod, pod_class, pod_reqs, among)
        if number is None:
            return False
        if pod_class.counted_by and self.topology is not None:
            self.topology.count_on_node(pod_class, number)
        return True

    def open_draft(self, pod: Pod, pod_class: PodClass, candidate: NewNodeCandidate) -> None:
        """Opens a draft for the pod and counts it against the limits of its pool."""
        if self.max_drafts is not None and len(self.table.drafts) >= self.max_drafts:
            raise TooManyDraftsError
        draft = self.create_draft(candidate)
        self.charge_limits(draft)
        self.reservation_wait.draft_opened()
        self.add_to_draft(pod, pod_class, candidate.pod_reqs, draft, narrowed=True)

    def charge_limits(self, draft: Draft) -> None:
        """Counts the draft against the limits of its pool, as its largest type."""
        self.reservation_manager.draft_opened()
        # The cached options of other pools, and of those without limits, stay valid: these are
        # evaluated once a round.
        if draft.template.limits.charge(draft.types, reserved=bool(draft.held)):
            draft.template.limits.version = self.reservation_manager.version
            self.pool_selector.limits_changed(draft.template)
            if self._cluster_limits is not None:
                self._update_all_limits()

    def count_launch(self, draft: Draft, choice: LaunchChoice) -> None:
        """Counts the draft, whose round is over, as what would be launched."""
        index = draft.template.index
        capacity = index.types[choice.type_number].capacity
        draft.template.limits.count_launch(capacity)
        if self._cluster_limits is not None:
            cost = hourly_cost(index, choice.type_number, choice.offering)
            self._cluster_limits.count_launch(capacity, cost)

    def _update_all_limits(self) -> None:
        """The limits of the cluster are shared: a draft of one pool leaves less to all."""
        self.pool_selector.all_limits_charged()
        for template in self.templates:
            template.limits.update_admitted()
            template.limits.version = self.reservation_manager.version

    def end_round_of_limits(self) -> None:
        """Drafts of the round were counted as what they launch."""
        if self._cluster_limits is not None:
            self._cluster_limits.begin_round()
        copied = self._copied_templates
        changed = self.templates if copied is None else map(self.templates.__getitem__, copied)
        for template in changed:
            template.limits.begin_round()

    def create_draft(self, candidate: NewNodeCandidate) -> Draft:
        """A draft without pods that no limit has counted yet."""
        template = self._changed_by_launch(candidate.template)
        draft = Draft(len(self.table.drafts), self.round, template, candidate.option)
        self.table.add(draft)
        if draft.held:
            self.reservation_manager.hold(template.pool_reservations.reservations_in(draft.held))
        if self.topology is not None:
            self.topology.draft_opened(draft)
        if self.on_draft_changed is not None:
            self.on_draft_changed(draft)
        return draft

    def add_to_draft(
        self,
        pod: Pod,
        pod_class: PodClass,
        pod_reqs: PodRequirements,
        draft: Draft,
        *,
        narrowed: bool,
    ) -> None:
        self.table.add_pod(pod, pod_reqs, draft, narrowed=narrowed)
        if pod_class.counted_by and self.topology is not None:
            self.topology.count_on_draft(pod_class, draft)

    def join_draft(
        self,
        pod: Pod,
        pod_class: PodClass,
        pod_reqs: PodRequirements,
        draft: Draft,
        change: DraftChange,
    ) -> None:
        narrowed = self.change_draft(draft, change)
        self.add_to_draft(pod, pod_class, pod_reqs, draft, narrowed=narrowed)

    def change_draft(self, draft: Draft, change: DraftChange) -> bool:
        """Narrows the draft as the change says; returns whether it lost types."""
        if change.held != draft.held:
            self._release_reservations(draft, change)
        lost_types, compiled_before = change.types != draft.types, draft.compiled
        draft.types, draft.compiled = change.types, change.compiled
        draft.reserved_types, draft.witnesses = change.reserved_types, change.witnesses
        if self.topology is not None and compiled_before is not change.compiled:
            self.topology.draft_narrowed(draft)
        if self.on_draft_changed is not None:
            self.on_draft_changed(draft)
        return lost_types

    def _release_reservations(self, draft: Draft, change: DraftChange) -> None:
        """Releases the reservations that the draft can no longer use."""
        # Once pinned, it has released all but the one it is launched with.
        if not draft.pinned_type:
            pool_reservations = draft.template.pool_reservations
            before = pool_reservations.reservations_in(draft.held)
            released = before ^ (before & pool_reservations.reservations_in(change.held))
            self.reservation_manager.release(released)
            self.reservation_wait.reservations_released(released)
        draft.held = change.held

    def choose_launch(self, draft: Draft) -> LaunchChoice:
        """What the draft would be launched as now."""
        if draft.held:
            return choose_offering(draft.launch_options, self.reservation_manager.available_count)
        # Without held reservations it depends on these alone: drafts of one pool repeat them.
        key = (draft.compiled, draft.types, draft.min_values)
        choice = self._choices.get(key)
        if choice is None:
            if len(self._choices) >= MAX_CACHED_RESULTS:
                self._choices.clear()
            choice = self._choices[key] = choose_offering(
                draft.launch_options, self.reservation_manager.available_count
            )
        return choice

    def decide_domain(self, draft: Draft, group: LabelGroup) -> "str | NoValue | None":
        """Makes the draft decide on the domain it would be launched in."""
        if group.kind in self.deferred_kinds and not draft.pinned_type:
            return NoValue.UNDECIDED
        choice = draft.launch_choice or self.choose_launch(draft)
        value = launched_value(draft, choice, group.key)
        if value is None:
            return None
        change = narrow_draft(draft, _in_domain(group.key, value))
        if change is None:
            return value if draft.pinned_type else NoValue.UNDECIDED
        if self.change_draft(draft, change) and not draft.pinned_type:
            self.table.update_capacity(draft)
        return value

    def forbidden_drafts(
        self, levels: Sequence[RelaxationLevel], candidate: NewNodeCandidate | None
    ) -> BitSet:
        """The drafts that the pod must not join even if it fits."""
        forbidden = 0
        if self.reservation_manager.available and self.table.unreserved:
            reserved_weight = -1
            # A plain loop: runs for nearly every pod, and max() over a generator is slower.
            for level in levels:
                reserved_weight = max(reserved_weight, self.pool_selector.reserved_weight(level))
            if reserved_weight >= 0:
                forbidden = self._drafts_below(reserved_weight + 1) & self.table.unreserved
        return forbidden if candidate is None else forbidden | self._drafts_below(candidate.weight)

    def _drafts_below(self, weight: int) -> BitSet:
        drafts = 0
        for template in self.templates:
            if template.pool.weight < weight:
                drafts |= self.table.by_template[template.number]
        return drafts
