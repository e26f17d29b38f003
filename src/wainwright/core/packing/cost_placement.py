"""Placement by cost: the growth rule for all pods, nodes packed in advance for unconstrained ones,
and the cheapest of several plans.

Unconstrained pods go on existing nodes first, as in first-fit. The others are packed; each packed
node opens a draft as its first pod would have and lets the rest join, so that every check of
first-fit holds here. A pod that was not packed is placed by the growth rule.

First-fit is one of the plans that are compared, so that the result never costs more and never
has fewer pods placed.
"""

from collections.abc import Callable, Sequence
from math import fsum
from typing import Final, NamedTuple, TypeAlias

from wainwright.core.launch.launch_choice import hourly_cost
from wainwright.core.packing.growth_rule import GrowthRule
from wainwright.core.packing.lower_bound import lower_bound
from wainwright.core.packing.pod_packing import (
    PackablePods,
    PackedNode,
    PackingTarget,
    pack_pods,
    packing_target,
)
from wainwright.core.scheduling.draft_fit import try_fit
from wainwright.core.scheduling.drafts import Draft
from wainwright.core.scheduling.new_node import NewNodeCandidate
from wainwright.core.scheduling.pod_classes import OptionKind, PodClass, PodClasses
from wainwright.core.scheduling.queue import PodBatch, QueueSegment
from wainwright.core.scheduling.solver import Solution, Strategy
from wainwright.core.scheduling.state import SchedulingState
from wainwright.model.bitset import BitSet, iter_bits, union
from wainwright.model.plan import PackingResult
from wainwright.model.pod import Pod

MAX_WORK: Final = 3_000_000  # of the local search, in items looked at: about a second
MAX_WORK_PER_POD: Final = 10_000  # the same where there are few pods
MAX_PACKINGS: Final = 8  # in one plan, as pods can be packed again in every round


class CostPlacement:
    """A placement policy: packs nodes in advance, and lets drafts grow only while it pays."""

    def __init__(
        self, state: SchedulingState, classes: PodClasses, *, prepack: bool = True
    ) -> None:
        self.growth = GrowthRule(state.templates, classes.all, classes.resources)
        self.fit = self.growth.fit
        self._state = state
        self._classes = classes
        self._prepack = prepack
        """Whether nodes are packed in advance."""
        self._packings = 0
        self._deferred_nodes: list[PackedNode] = []
        """Packed nodes that limits did not allow yet."""
        self._deferred_pods: set[int] = set()
        """Ids of their pods, which wait for these nodes."""
        state.on_draft_changed = self.growth.update_cost_effective

    def begin_round(self, segments: Sequence[QueueSegment]) -> int:
        self.growth.clear_refusals()
        self._remeasure_pinned_drafts()
        batches = [batch for segment in segments for batch in segment.remaining_batches()]
        is_first = self._state.round == 1 and self._state.nodes.nodes
        placed = self._place_on_nodes(batches) if is_first else set()
        if self._prepack:
            placed |= self._place_packed_nodes(batches, placed)
        for batch in batches if placed else ():
            batch.pods = [pod for pod in batch.pods if id(pod) not in placed]
        return len(placed)

    def defers(self, pod: Pod) -> bool:
        return id(pod) in self._deferred_pods

    def _remeasure_pinned_drafts(self) -> None:
        """Indexes pinned drafts by the room of the type that they were pinned to.

        Until then the room of their cost-effective types counted, which may be less. The index
        assumes that drafts only get fuller, so that they leave it and enter it again.
        """
        table = self._state.table
        drafts = [table.drafts[number] for number in iter_bits(table.inflight)]
        limited = [draft for draft in drafts if draft.preferred_types]
        table.capacity_index.remove(union(draft.bit for draft in limited))
        for draft in limited:
            draft.preferred_types, draft.index_levels = 0, table.capacity_index.initial_levels()
            draft.largest_positions = [-1] * len(draft.largest_positions)
            table.update_capacity(draft)

    def _place_on_nodes(self, batches: Sequence[PodBatch]) -> set[int]:
        """Places pods without topology constraints on existing nodes, in the order of the queue."""
        placed: set[int] = set()
        for batch in batches:
            level = batch.pod_class.levels[0] if batch.pod_class.levels else None
            if level is not None and level.topology_constraints is None:
                for pod in batch.pods:
                    if not self._state.place_on_node(
                        pod, batch.pod_class, level.alternatives[0], -1
                    ):
                        break  # equal pods: none of the others fits either
                    placed.add(id(pod))
        return placed

    def _place_packed_nodes(self, batches: Sequence[PodBatch], excluded: set[int]) -> set[int]:
        """Opens as many packed nodes as limits allow, and returns the ids of the pods on them.

        The pods of the other packed nodes wait for a later round, when limits count drafts at what
        they will be launched as; but only if any node was opened, as otherwise nothing will change.
        """
        placed, waiting = self._open_packed_nodes(self._deferred_nodes)
        if not placed:
            waiting = []
        deferred = {id(pod) for packed_node in waiting for pod, _ in packed_node.members}
        packed_nodes = self._pack(batches, excluded | placed | deferred)
        newly_placed, refused = self._open_packed_nodes(packed_nodes)
        if newly_placed:
            waiting += refused
        self._deferred_nodes = waiting
        self._deferred_pods = {id(pod) for packed_node in waiting for pod, _ in packed_node.members}
        return placed | newly_placed

    def _pack(self, batches: Sequence[PodBatch], excluded: set[int]) -> list[PackedNode]:
        if self._packings == MAX_PACKINGS:
            return []
        waiting = self._packable_pods(batches, excluded)
        count = sum(len(each.pods) for each in waiting)
        if not count:
            return []
        self._packings += 1
        total = sum(len(pod_class.pods) for pod_class in self._classes.all)
        work = min(MAX_WORK * count // total, MAX_WORK_PER_POD * count)
        return pack_pods(waiting, self._state.templates, self._classes.resources, work)

    def _packable_pods(self, batches: Sequence[PodBatch], excluded: set[int]) -> list[PackablePods]:
        """The pods that can be packed, in the order of the queue."""
        by_class: dict[PodClass, PackablePods | None] = {}
        for batch in batches:
            pod_class = batch.pod_class
            if pod_class not in by_class:
                target = packing_target(pod_class, self._state.pool_selector)
                by_class[pod_class] = (
                    None if target is None else PackablePods(pod_class, target, [])
                )
            packable = by_class[pod_class]
            if packable is not None:
                packable.pods.extend(pod for pod in batch.pods if id(pod) not in excluded)
        return [each for each in by_class.values() if each is not None and each.pods]

    def _open_packed_nodes(
        self, packed_nodes: Sequence[PackedNode]
    ) -> tuple[set[int], list[PackedNode]]:
        """The ids of the pods on the nodes that could be opened, and the nodes that could not."""
        placed: set[int] = set()
        refused = []
        for packed_node in packed_nodes:
            candidate = self._new_node_candidate(packed_node)
            if candidate is None:
                refused.append(packed_node)
            else:
                placed |= self._open_packed_node(packed_node, candidate)
        return placed, refused

    def _new_node_candidate(self, packed_node: PackedNode) -> NewNodeCandidate | None:
        """The draft that the first pod of the packed node opens, if it can be of that type now."""
        first = packed_node.members[0][1].target
        candidate = self._state.pool_selector.select(first.level, first.pod_reqs)
        if candidate is None or candidate.option.kind is not OptionKind.UNRESERVED:
            return None
        for each in self._state.pool_selector.equal_candidates(candidate):
            if each.template is packed_node.bin_type.template:
                return each if each.option.types >> packed_node.bin_type.type_number & 1 else None
        return None

    def _open_packed_node(self, packed_node: PackedNode, candidate: NewNodeCandidate) -> set[int]:
        """Opens a draft with the pods that fit it, and returns their ids.

        Limits are charged once, when all pods have joined: charged for the first pod alone, the
        draft would count as the largest type that the pool has.
        """
        draft = self._state.create_draft(candidate)
        placed: set[int] = set()
        for pod, (pod_class, target, _) in packed_node.members:
            if not draft.pods:
                self._state.add_to_draft(pod, pod_class, target.pod_reqs, draft, narrowed=True)
            elif not self._try_join(pod, pod_class, target, draft):
                continue
            placed.add(id(pod))
        self._state.charge_limits(draft)
        return placed

    def _try_join(self, pod: Pod, pod_class: PodClass, target: PackingTarget, draft: Draft) -> bool:
        pod_reqs = target.pod_reqs
        rejected = pod_reqs.rejected_by | pod_reqs.scheduling.rejected_by
        if draft.bit & (rejected | self._forbidden_drafts(target)):
            return False
        change = try_fit(draft, pod_reqs)
        if change is not None:
            self._state.join_draft(pod, pod_class, pod_reqs, draft, change)
        return change is not None

    def _forbidden_drafts(self, target: PackingTarget) -> BitSet:
        """The drafts of pools that weights rule out for the pod."""
        level = target.level
        candidate = (
            self._state.pool_selector.select(level, target.pod_reqs)
            if self._state.strict_weights
            else None
        )
        return self._state.forbidden_drafts((level,), candidate)


class CostPolicy(NamedTuple):
    """The parameters of one placement by cost."""

    price_tolerance: float
    """As of the growth rule."""
    max_price_ratio: float
    """As of the growth rule."""
    prepack: bool
    """Whether nodes are packed in advance."""

    def create(self, state: SchedulingState, classes: PodClasses) -> CostPlacement:
        policy = CostPlacement(state, classes, prepack=self.prepack)
        policy.growth.price_tolerance = self.price_tolerance
        policy.growth.max_price_ratio = self.max_price_ratio
        return policy


COST_POLICIES: Final = (
    CostPolicy(price_tolerance=0.02, max_price_ratio=1.25, prepack=True),
    CostPolicy(price_tolerance=0.02, max_price_ratio=1.25, prepack=False),
    CostPolicy(price_tolerance=0.1, max_price_ratio=1.25, prepack=False),
    CostPolicy(price_tolerance=0.02, max_price_ratio=2.0, prepack=False),
)

SolveWith: TypeAlias = Callable[[Strategy], Solution]
"""Plans the same snapshot from the start with this strategy."""


AT_BOUND: Final = 1e-9
"""Sums of prices differ by their rounding."""


def cheapest_solution(first_fit: Solution, solve: SolveWith) -> tuple[Solution, PackingResult]:
    """The cheapest of first-fit and the plans by cost, with its cost and the lower bound."""
    best, price = first_fit, solution_cost(first_fit)
    before, bound = price, lower_bound(first_fit)
    if not first_fit.unplaced_count and price <= bound * (1 + AT_BOUND):
        # Nothing can cost less: with a node for each of thousands of pods the search takes long.
        return first_fit, PackingResult(first_fit=price, cost=price, lower_bound=bound)
    for policy in COST_POLICIES if first_fit.drafts else ():
        other = solve(Strategy(policy.create, first_fit.state.deferred_kinds))
        other_price = solution_cost(other)
        is_better = _solution_order(other, other_price) < _solution_order(best, price)
        if other_price <= before and is_better:
            best, price = other, other_price
    bound = bound if best is first_fit else lower_bound(best)
    return best, PackingResult(first_fit=before, cost=price, lower_bound=bound)


def solution_cost(solution: Solution) -> float:
    """USD per hour of all nodes that would be launched, with fees."""
    return fsum(
        hourly_cost(
            draft.template.index, draft.launch_choice.type_number, draft.launch_choice.offering
        )
        for draft in solution.drafts
        if draft.launch_choice is not None
    )


def _solution_order(solution: Solution, price: float) -> tuple[int, float]:
    return solution.unplaced_count, price
