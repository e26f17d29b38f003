"""Commands: which nodes to remove now, what replaces them, and where their pods go.

The methods in their order: empty nodes, drifted nodes, several nodes at once, single nodes. The
first that finds something decides. Every simulation runs on a fork of one compiled cluster, in
which pending pods have been planned already: they are nobody's reason to keep a node, and none to
remove one.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final, TypeAlias

import msgspec

from wainwright.core.disruption.budgets import BudgetStatus, DisruptionReason, evaluate_budgets
from wainwright.core.disruption.candidates import (
    Blocker,
    BlockerCode,
    BlockerKind,
    Candidate,
    CandidateContext,
    find_candidates,
    is_initialized,
    settled_at,
)
from wainwright.core.disruption.cluster_changes import ClusterChanges
from wainwright.core.disruption.drift import OfferedTypes
from wainwright.core.disruption.eviction import evict_from_deleting_nodes
from wainwright.core.disruption.replacement import (
    NoReplacement,
    ReplacementRules,
    cheaper_replacement,
)
from wainwright.core.plan import plan
from wainwright.core.scheduling.solver import Solution
from wainwright.core.simulation import ClusterSimulator, Simulation
from wainwright.model.bitset import BitSet
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.plan import DEFAULT_PLAN_OPTIONS, PlannedNodeClaim, PlanOptions
from wainwright.model.snapshot import Node, Snapshot

MAX_NODES_PER_COMMAND: Final = 100

NodeRank: TypeAlias = tuple[bool, bool, float, str]


class Method(StrEnum):
    EMPTINESS = "emptiness"
    DRIFT = "drift"
    MULTI_NODE = "multi-node"
    SINGLE_NODE = "single-node"


class Outcome(StrEnum):
    """Why a candidate that nothing blocks is kept; the value is the code of the verdict."""

    PODS_WOULD_BE_PENDING = "pods-would-be-pending"
    NEEDS_SEVERAL_NODES = "needs-several-nodes"
    NO_SAVING = "no-saving"
    SPOT_TO_SPOT = "spot-to-spot"
    MIN_VALUES = "min-values"


class DisruptionOptions(msgspec.Struct, frozen=True, kw_only=True):
    plan: PlanOptions = DEFAULT_PLAN_OPTIONS
    rules: ReplacementRules = ReplacementRules()
    methods: tuple[Method, ...] = tuple(Method)
    max_nodes: int = MAX_NODES_PER_COMMAND
    ignore_budgets: bool = False
    static_capacity: bool = False


DEFAULT_DISRUPTION_OPTIONS: Final = DisruptionOptions()


class PodMove(msgspec.Struct, frozen=True, kw_only=True):
    pod: str
    source: str
    target: str
    """The name of a node, or of a replacement."""


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes to be removed, once their replacements are up."""

    method: Method
    reason: DisruptionReason
    candidates: tuple[Candidate, ...]
    replacements: tuple[PlannedNodeClaim, ...] = ()
    simulation: Simulation = Simulation()
    """Where the pods go."""

    @property
    def price_before(self) -> float:
        return sum(candidate.price for candidate in self.candidates)

    @property
    def price_after(self) -> float:
        return sum(claim.launch.price for claim in self.replacements)

    @property
    def saving(self) -> float:
        """USD per hour; negative where drift makes it necessary."""
        return self.price_before - self.price_after

    @property
    def cost(self) -> float:
        """Of the disruption."""
        return sum(candidate.cost for candidate in self.candidates)

    @property
    def evictions(self) -> int:
        return sum(len(candidate.pods) for candidate in self.candidates)

    def moves(self) -> Iterator[PodMove]:
        """Every pod that is evicted and created again elsewhere."""
        sources = {pod.key: each.name for each in self.candidates for pod in each.pods}
        targets = [(each.node, each.pods) for each in self.simulation.placements]
        targets += [(claim.name, claim.pods) for claim in self.replacements]
        for target, pods in targets:
            for pod in pods:
                yield PodMove(pod=pod, source=sources[pod], target=target)


class DisruptionInput(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster, and what can be launched for it."""

    snapshot: Snapshot
    catalogs: Mapping[str, InstanceTypeIndex]
    offered: Mapping[str, OfferedTypes] = {}
    """By NodePool what exists at all; without it nothing has drifted by its instance type."""


class DisruptionPass:
    """One look at a cluster: candidates are found once, and simulated when a method asks."""

    def __init__(
        self, given: DisruptionInput, options: DisruptionOptions = DEFAULT_DISRUPTION_OPTIONS
    ) -> None:
        evicted = evict_from_deleting_nodes(given.snapshot).snapshot
        pending = plan(evicted, given.catalogs, options.plan)
        changes = ClusterChanges(evicted.pools, given.catalogs)
        self.snapshot = changes.after_plan(evicted, pending)
        self._catalogs, self._options = given.catalogs, options
        context = CandidateContext(
            catalogs=given.catalogs,
            offered=given.offered,
            nominated=frozenset(each.node for each in pending.placements),
            static_capacity=options.static_capacity,
        )
        self.candidates = find_candidates(self.snapshot, context)
        self.outcomes: dict[str, Outcome] = {}
        """Why candidates that were simulated are kept, by name."""
        order = _destination_order(self.candidates)
        self._simulator = ClusterSimulator(self.snapshot, given.catalogs, options.plan, order)
        self._starting = self._simulator.nodes_where(_is_starting)
        self._unsettled = self._starting | self._simulator.nodes_where(self._is_unsettled)
        self._budgets = _BudgetCounter(self.snapshot, options)

    def find_command(self) -> Command | None:
        """The first command that one of the methods finds; None if there is nothing to do."""
        methods = {
            Method.EMPTINESS: self._remove_empty,
            Method.DRIFT: self._replace_drifted,
            Method.MULTI_NODE: self._merge_nodes,
            Method.SINGLE_NODE: self._replace_one,
        }
        for method in Method:
            if method in self._options.methods:
                command = methods[method]()
                if command is not None:
                    return command
        return None

    def saving_without_blockers(self, candidate: Candidate) -> float | None:
        """What removing the node alone would save if nothing blocked it; None where nothing."""
        if candidate.node.deleting or _is_starting(candidate.node):
            return None
        if candidate.is_empty:
            return candidate.price or None
        known = self.outcomes.get(candidate.name)
        command = self._consolidate(Method.SINGLE_NODE, [candidate])
        if known is None:
            self.outcomes.pop(candidate.name, None)
        return None if command is None else command.saving

    def budget_blockers(self, candidate: Candidate) -> list[Blocker]:
        """The budget that keeps a node which could go otherwise."""
        if candidate.blockers or candidate.pool is None:
            return []
        reason = DisruptionReason.EMPTY if candidate.is_empty else DisruptionReason.UNDERUTILIZED
        if self._budgets.any_of([candidate], reason):
            return []
        name = candidate.pool.name
        return [Blocker(code=BlockerCode.BUDGET, kind=BlockerKind.BUDGET, name=name)]

    def _is_unsettled(self, node: Node) -> bool:
        """Whether pods came or went too recently for others to be moved there."""
        pool = next((each for each in self.snapshot.pools if each.name == node.pool), None)
        after = pool.disruption.consolidate_after if pool is not None else None
        settled = None if after is None else settled_at(node, after)
        now = self.snapshot.now
        return settled is not None and now is not None and settled > now

    def _remove_empty(self) -> Command | None:
        empty = [each for each in self.candidates if each.is_empty and not each.blockers]
        chosen = self._budgets.within(empty, DisruptionReason.EMPTY)[: self._options.max_nodes]
        if not chosen:
            return None
        return Command(
            method=Method.EMPTINESS, reason=DisruptionReason.EMPTY, candidates=tuple(chosen)
        )

    def _replace_drifted(self) -> Command | None:
        """Empty ones together; then one at a time, the earliest drift first."""
        drifted = [each for each in self.candidates if each.drift and not each.blockers_of_drift()]
        drifted.sort(key=_drift_order)
        reason = DisruptionReason.DRIFTED
        empty = [each for each in drifted if each.is_empty]
        empty = self._budgets.within(empty, reason)[: self._options.max_nodes]
        if empty:
            return Command(
                method=Method.DRIFT, reason=DisruptionReason.DRIFTED, candidates=tuple(empty)
            )
        for candidate in self._budgets.any_of(drifted, reason):
            solution = self._simulate([candidate], self._starting)
            if solution is not None:
                simulation = self._simulator.simulation_of(solution)
                return Command(
                    method=Method.DRIFT,
                    reason=DisruptionReason.DRIFTED,
                    candidates=(candidate,),
                    replacements=simulation.claims,
                    simulation=simulation,
                )
        return None

    def _merge_nodes(self) -> Command | None:
        """The largest set that can go at once; members are added by dollars per disruption.

        Adding is tried in chunks, which are halved when they do not fit: one node that cannot go
        keeps back nobody but itself.
        """
        best: Command | None = None
        waiting = self._underutilized()
        size = min(len(waiting), self._options.max_nodes)
        while waiting and size:
            chosen = list(best.candidates) if best is not None else []
            chunk = self._chunk(chosen, waiting, size)
            command = self._consolidate(Method.MULTI_NODE, [*chosen, *chunk]) if chunk else None
            if command is not None and (best is None or command.saving > best.saving):
                best = command
            elif len(chunk) > 1:
                size = len(chunk) // 2
                continue
            tried = {each.name for each in chunk}
            waiting = [each for each in waiting if each.name not in tried] if chunk else []
        return best if best is not None and len(best.candidates) > 1 else None

    def _chunk(
        self, chosen: Sequence[Candidate], waiting: Sequence[Candidate], size: int
    ) -> list[Candidate]:
        """The next candidates, as many as size, budgets and the limit of a command allow."""
        room = min(size, self._options.max_nodes - len(chosen))
        within = self._budgets.within([*chosen, *waiting], DisruptionReason.UNDERUTILIZED)
        return within[len(chosen) : len(chosen) + room]

    def _replace_one(self) -> Command | None:
        """The single node with the largest saving per disruption."""
        found = (self._consolidate(Method.SINGLE_NODE, [each]) for each in self._underutilized())
        commands = [command for command in found if command is not None]
        return max(commands, key=lambda each: each.saving / each.cost, default=None)

    def _underutilized(self) -> list[Candidate]:
        free = [each for each in self.candidates if not each.blockers and not each.is_empty]
        ordered = sorted(free, key=lambda each: (-each.saving_ratio, each.name))
        return self._budgets.any_of(ordered, DisruptionReason.UNDERUTILIZED)

    def _consolidate(self, method: Method, candidates: Sequence[Candidate]) -> Command | None:
        """The command that removes all of them, if it saves anything."""
        solution = self._simulate(candidates, self._unsettled)
        if solution is None:
            return None
        replacement = self._replacement(solution, candidates)
        if isinstance(replacement, Outcome):
            self._keep(candidates, replacement)
            return None
        simulation = self._simulator.simulation_of(solution)
        return Command(
            method=method,
            reason=DisruptionReason.UNDERUTILIZED,
            candidates=tuple(candidates),
            replacements=() if replacement is None else (replacement,),
            simulation=simulation,
        )

    def _replacement(
        self, solution: Solution, candidates: Sequence[Candidate]
    ) -> PlannedNodeClaim | Outcome | None:
        drafts = solution.drafts
        if not drafts:
            return None
        if len(drafts) > 1:
            return Outcome.NEEDS_SEVERAL_NODES
        choice = drafts[0].launch_choice
        price = sum(candidate.price for candidate in candidates)
        # Most nodes end here: naming all types of a claim takes longer than the simulation.
        if choice is not None and choice.offering.price >= price:
            return Outcome.NO_SAVING
        [claim] = self._simulator.simulation_of(solution).claims
        index = self._catalogs[claim.pool]
        found = cheaper_replacement(claim, index, candidates, self._options.rules)
        return Outcome(found.value) if isinstance(found, NoReplacement) else found

    def _simulate(self, candidates: Sequence[Candidate], closed: BitSet) -> Solution | None:
        """None where pods would be pending."""
        if any(self._simulator.is_hopeless(pod) for each in candidates for pod in each.pods):
            self._keep(candidates, Outcome.PODS_WOULD_BE_PENDING)
            return None
        solution = self._simulator.solve_without([each.name for each in candidates], closed)
        if solution.failed:
            self._keep(candidates, Outcome.PODS_WOULD_BE_PENDING)
            return None
        return solution

    def _keep(self, candidates: Sequence[Candidate], outcome: Outcome) -> None:
        """Of a set nobody knows which of its members is to blame."""
        if len(candidates) == 1:
            self.outcomes[candidates[0].name] = outcome


def _is_starting(node: Node) -> bool:
    return not is_initialized(node)


def _drift_order(candidate: Candidate) -> tuple[float, float, str]:
    assert candidate.drift is not None
    since = candidate.drift.since
    return (float("inf") if since is None else since), candidate.cost, candidate.name


def _destination_order(candidates: Iterable[Candidate]) -> Callable[[Node], NodeRank]:
    """Pods move to nodes that are likely to stay: first those that are blocked, then those of which
    a removal would save least. Otherwise the next command would move them again.
    """
    ranks = {each.name: (not each.blockers, each.saving_ratio) for each in candidates}

    def order(node: Node) -> NodeRank:
        is_free, ratio = ranks.get(node.name, (False, 0.0))
        return not node.initialized, is_free, ratio, node.name

    return order


class _BudgetCounter:
    """How many nodes of each NodePool the budgets still allow, by reason."""

    def __init__(self, snapshot: Snapshot, options: DisruptionOptions) -> None:
        self._members: dict[str, list[Node]] = defaultdict(list)
        for node in snapshot.nodes:
            self._members[node.pool or ""].append(node)
        self._now = snapshot.now or 0.0
        self._ignored = options.ignore_budgets
        self._status: dict[tuple[str, DisruptionReason], BudgetStatus] = {}

    def within(self, candidates: Iterable[Candidate], reason: DisruptionReason) -> list[Candidate]:
        """The first candidates of each NodePool, as many as its budgets allow together."""
        taken: Counter[str] = Counter()
        chosen = []
        for candidate in self.any_of(candidates, reason):
            name = candidate.node.pool or ""
            if taken[name] < self._allowed(candidate, reason):
                taken[name] += 1
                chosen.append(candidate)
        return chosen

    def any_of(self, candidates: Iterable[Candidate], reason: DisruptionReason) -> list[Candidate]:
        """Those of NodePools whose budgets allow at least one."""
        return [each for each in candidates if self._allowed(each, reason) > 0]

    def _allowed(self, candidate: Candidate, reason: DisruptionReason) -> int:
        if self._ignored or candidate.pool is None:
            return len(self._members[candidate.node.pool or ""])
        key = (candidate.pool.name, reason)
        if key not in self._status:
            members = self._members[candidate.pool.name]
            self._status[key] = evaluate_budgets(candidate.pool, members, reason, self._now)
        return self._status[key].allowed
