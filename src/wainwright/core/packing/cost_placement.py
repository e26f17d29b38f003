"""Placement by cost: the growth rule for all pods, bins packed beforehand for unconstrained ones,
and the cheapest of several plans.

Unconstrained pods go on existing nodes first, as always. The others are packed; each bin opens
a draft as its first pod would have and lets the rest join, so that whatever holds for first-fit
holds here. A pod that is in no bin goes where the growth rule lets it.

First-fit is one of the plans that are compared, so that the result is never dearer and never
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
from wainwright.core.scheduling.drafts import Draft, DraftChange, DraftTable, try_fit
from wainwright.core.scheduling.existing_nodes import ExistingNodes
from wainwright.core.scheduling.new_node import NewNodeCandidate, NodePoolSelector
from wainwright.core.scheduling.nodeclaim_template import NodeClaimTemplate
from wainwright.core.scheduling.placement import PlacementResult, PodPlacement
from wainwright.core.scheduling.pod_classes import PodClasses
from wainwright.core.scheduling.pod_requirements import OptionKind, PodClass
from wainwright.core.scheduling.queue import PodBatch, QueueSegment
from wainwright.core.scheduling.solver import Solution, Strategy
from wainwright.core.scheduling.topology.topology import Topology
from wainwright.model.bitset import iter_bits, union
from wainwright.model.plan import PackingResult
from wainwright.model.pod import Pod

MAX_WORK: Final = 3_000_000  # items looked at for better bins: about a second
MAX_WORK_PER_POD: Final = 10_000  # the same where there are few pods
MAX_PACKINGS: Final = 8  # how often in one plan pods are packed anew


class CostPlacement(PodPlacement):
    """Places pods by cost."""

    def __init__(
        self,
        templates: Sequence[NodeClaimTemplate],
        nodes: ExistingNodes,
        table: DraftTable,
        ladder: NodePoolSelector,
        classes: PodClasses,
        topology: Topology | None = None,
    ) -> None:
        super().__init__(templates, nodes, table, ladder, classes, topology)
        self.growth = GrowthRule(templates, classes.all, classes.resources)
        self.prepack = True
        """Whether nodes are packed beforehand."""
        self._fit = self.growth.fit
        self._packings = 0
        self._deferred_nodes: list[PackedNode] = []
        """Packed nodes that limits did not allow yet."""
        self._deferred_pods: set[int] = set()
        """Their pods, which wait for that."""

    def place_together(self, stretches: Sequence[QueueSegment]) -> int:
        self.growth.clear_refusals()
        self._measure_pinned()
        runs = [run for stretch in stretches for run in stretch.remaining_batches()]
        placed = self._on_nodes(runs) if self.round == 1 and self.nodes.nodes else set()
        if self.prepack:
            placed |= self._place_packed_nodes(runs, placed)
        for run in runs if placed else ():
            run.pods = [pod for pod in run.pods if id(pod) not in placed]
        return len(placed)

    def place(self, pod: Pod, group: PodClass) -> PlacementResult:
        if id(pod) in self._deferred_pods:
            return PlacementResult.NOT_YET
        return super().place(pod, group)

    def _create_draft(self, step: NewNodeCandidate) -> Draft:
        draft = super()._create_draft(step)
        self.growth.update_cost_effective(draft)
        return draft

    def _apply_change(self, draft: Draft, change: DraftChange) -> bool:
        fewer = super()._apply_change(draft, change)
        self.growth.update_cost_effective(draft)
        return fewer

    def _open_or_wait(self, pod: Pod, group: PodClass, step: NewNodeCandidate) -> PlacementResult:
        if step.option.kind is OptionKind.UNRESERVED:
            equals = self.pool_selector.equal_candidates(step)
            step = min(equals, key=lambda each: self.growth.price(each.template, each.pod_reqs))
        return super()._open_or_wait(pod, group, step)

    def _measure_pinned(self) -> None:
        """What a draft was pinned to may have more room than its good buys, which no longer count.

        Looked at anew from the beginning: a draft is taken to get fuller, never to get larger.
        """
        table = self.table
        drafts = [table.drafts[number] for number in iter_bits(table.inflight)]
        mindful = [draft for draft in drafts if draft.preferred_types]
        table.capacity_index.remove(union(draft.bit for draft in mindful))
        for draft in mindful:
            draft.preferred_types, draft.index_levels = 0, table.capacity_index.initial_levels()
            draft.largest_positions = [-1] * len(draft.largest_positions)
            table.update_capacity(draft)

    def _on_nodes(self, runs: Sequence[PodBatch]) -> set[int]:
        """Lets the nodes of the cluster take whom they can, in the order of the queue."""
        placed: set[int] = set()
        for run in runs:
            stage = run.pod_class.levels[0] if run.pod_class.levels else None
            if stage is not None and stage.topology_constraints is None:
                for pod in run.pods:
                    if not self._place_on_node(pod, run.pod_class, stage.alternatives[0], -1):
                        break
                    placed.add(id(pod))
        return placed

    def _place_packed_nodes(self, runs: Sequence[PodBatch], elsewhere: set[int]) -> set[int]:
        """Opens as many nodes as limits allow; for the others their pods wait, if any was."""
        placed, waiting = self._open_packed_nodes(self._deferred_nodes)
        if not placed:
            waiting = []
        later = {id(pod) for packed_node in waiting for pod, _ in packed_node.members}
        fresh, refused = self._open_packed_nodes(self._pack(runs, elsewhere | placed | later))
        if fresh:
            waiting += refused
        self._deferred_nodes = waiting
        self._deferred_pods = {id(pod) for packed_node in waiting for pod, _ in packed_node.members}
        return placed | fresh

    def _pack(self, runs: Sequence[PodBatch], elsewhere: set[int]) -> list[PackedNode]:
        if self._packings == MAX_PACKINGS:
            return []
        waiting = self._waiting(runs, elsewhere)
        count = sum(len(each.pods) for each in waiting)
        if not count:
            return []
        self._packings += 1
        everybody = sum(len(group.pods) for group in self._classes.all)
        work = min(MAX_WORK * count // everybody, MAX_WORK_PER_POD * count)
        return pack_pods(waiting, self.templates, self._classes.resources, work)

    def _waiting(self, runs: Sequence[PodBatch], elsewhere: set[int]) -> list[PackablePods]:
        """The pods that could be packed, in the order of the queue."""
        found: dict[PodClass, PackablePods | None] = {}
        for run in runs:
            if run.pod_class not in found:
                where = packing_target(run.pod_class, self.pool_selector)
                found[run.pod_class] = (
                    None if where is None else PackablePods(run.pod_class, where, [])
                )
            mine = found[run.pod_class]
            if mine is not None:
                mine.pods.extend(pod for pod in run.pods if id(pod) not in elsewhere)
        return [each for each in found.values() if each is not None and each.pods]

    def _open_packed_nodes(
        self, packed_nodes: Sequence[PackedNode]
    ) -> tuple[set[int], list[PackedNode]]:
        """The pods of those that could be opened, and those that could not."""
        placed: set[int] = set()
        refused = []
        for packed_node in packed_nodes:
            step = self._step(packed_node)
            if step is None:
                refused.append(packed_node)
            else:
                placed |= self._open_packed_node(packed_node, step)
        return placed, refused

    def _step(self, packed_node: PackedNode) -> NewNodeCandidate | None:
        """How the first pod of the packed node would open such a draft."""
        first = packed_node.members[0][1].target
        step = self.pool_selector.select(first.stage, first.wish)
        if step is None or step.option.kind is not OptionKind.UNRESERVED:
            return None
        for each in self.pool_selector.equal_candidates(step):
            if each.template is packed_node.bin_type.template:
                return each if each.option.types >> packed_node.bin_type.row & 1 else None
        return None

    def _open_packed_node(self, packed_node: PackedNode, step: NewNodeCandidate) -> set[int]:
        """Opens a draft with the pods that can be on it, and counts it as what it then is."""
        draft = self._create_draft(step)
        placed: set[int] = set()
        for pod, (group, where, _) in packed_node.members:
            if not draft.pods:
                self._add_to_draft(pod, group, where.wish, draft, narrowed=True)
            elif not self._joins(pod, group, where, draft):
                continue
            placed.add(id(pod))
        draft.template.limits.charge(draft.types)
        self.reservation_manager.bump_version()
        return placed

    def _joins(self, pod: Pod, group: PodClass, where: PackingTarget, draft: Draft) -> bool:
        wish = where.wish
        if draft.bit & (wish.rejected_by | wish.scheduling.rejected_by | self._barred_from(where)):
            return False
        change = try_fit(draft, wish)
        if change is not None:
            self._apply_and_add(pod, group, wish, draft, change)
        return change is not None

    def _barred_from(self, where: PackingTarget) -> int:
        step = self.pool_selector.select(where.stage, where.wish) if self.strict_weights else None
        return self._forbidden((where.stage,), step)


class CostPolicy(NamedTuple):
    """How cost decides on placement."""

    price_tolerance: float
    """How much more than the best buy a good buy may cost for what it is worth."""
    max_price_ratio: float
    """How many times as much it may cost because of where or how somebody wants to buy."""
    prepack: bool
    """Whether nodes are packed beforehand."""

    def placing(
        self,
        templates: Sequence[NodeClaimTemplate],
        nodes: ExistingNodes,
        table: DraftTable,
        ladder: NodePoolSelector,
        classes: PodClasses,
        topology: Topology | None,
    ) -> PodPlacement:
        made = CostPlacement(templates, nodes, table, ladder, classes, topology)
        made.growth.price_tolerance, made.growth.max_price_ratio = (
            self.price_tolerance,
            self.max_price_ratio,
        )
        made.prepack = self.prepack
        return made


COST_POLICIES: Final = (
    CostPolicy(price_tolerance=0.02, max_price_ratio=1.25, prepack=True),
    CostPolicy(price_tolerance=0.02, max_price_ratio=1.25, prepack=False),
    CostPolicy(price_tolerance=0.1, max_price_ratio=1.25, prepack=False),
    CostPolicy(price_tolerance=0.02, max_price_ratio=2.0, prepack=False),
)

SolveWith: TypeAlias = Callable[[Strategy], Solution]
"""Plans the same from the beginning, in this manner."""


def cheapest_solution(first_fit: Solution, solve: SolveWith) -> tuple[Solution, PackingResult]:
    """The cheapest plan that was found, and what it came to."""
    best, price = first_fit, solution_cost(first_fit)
    before = price
    for policy in COST_POLICIES if first_fit.rounds.table.drafts else ():
        other = solve(Strategy(policy.placing, first_fit.placement.deferred_kinds))
        asked = solution_cost(other)
        if asked <= before and _solution_order(other, asked) < _solution_order(best, price):
            best, price = other, asked
    result = PackingResult(first_fit=before, cost=price, lower_bound=lower_bound(best))
    return best, result


def solution_cost(solution: Solution) -> float:
    """USD per hour of all that would be launched, with fees."""
    return fsum(
        hourly_cost(
            draft.template.index, draft.launch_choice.type_number, draft.launch_choice.offering
        )
        for draft in solution.rounds.table.drafts
        if draft.launch_choice is not None
    )


def _solution_order(solution: Solution, price: float) -> tuple[int, float]:
    return solution.unplaced_count, price
