"""One look at a cluster: the first command that one of the methods finds, and why nodes are kept.

The methods in the order of `commands.Method`: empty nodes, drifted nodes of static NodePools, other
drifted nodes, several nodes at once, single nodes. The first that finds something decides. Pending
pods have been planned before: they are nobody's reason to keep a node, and none to remove one.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from enum import StrEnum
from functools import cached_property
from math import inf
from operator import is_
from typing import Final, TypeAlias

import msgspec

from wainwright.core.disruption.balanced import pool_totals
from wainwright.core.disruption.budgets import BudgetCounter, DisruptionReason
from wainwright.core.disruption.candidate_outcomes import (
    ClosedNodes,
    ExplainedRemoval,
    RemovalEvaluator,
)
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
from wainwright.core.disruption.commands import ONE_LOOK, Command, Outcome, Search, SearchStrategy
from wainwright.core.disruption.disruption_input import (
    DEFAULT_DISRUPTION_OPTIONS,
    DisruptionInput,
    DisruptionOptions,
    Method,
)
from wainwright.core.disruption.eviction import evict_from_deleting_nodes, with_stated_allowances
from wainwright.core.disruption.multi_node import MultiNodeSearch
from wainwright.core.disruption.repair import RepairSearch, UnhealthyNode
from wainwright.core.disruption.static_drift import StaticNodeReplacer
from wainwright.core.plan import plan
from wainwright.core.removal_simulation import ClusterSimulator
from wainwright.model.disruption import FailedStart
from wainwright.model.plan import Plan
from wainwright.model.snapshot import Node, Pool, Snapshot

NodeRank: TypeAlias = tuple[bool, bool, bool, float, str]
MAX_CHANGED_SHARE: Final = 0.1
"""With more changed nodes than this share, compiling the cluster anew is faster."""
MAX_ADOPTED_SHARE: Final = 0.5
"""With more changed nodes than this share there is little left that could be kept."""
SLICE: Final = 50
"""Nodes that are simulated in a row before others may work: about twenty milliseconds."""
QUICK_METHODS: Final = (Method.EMPTINESS, Method.STATIC_DRIFT, Method.DRIFT)
NOTHING_PLANNED: Final = Plan(claims=(), placements=(), unplaced=(), reservations=())


class FailedValidation(StrEnum):
    """Why a command no longer holds."""

    CANDIDATES = "candidates"
    """A node is gone, has got something that blocks it, or pods came."""
    BUDGET = "budget"
    COMMAND = "command"
    """It would not save as much, or would need something else."""


class DisruptionPass:
    """Candidates are found once, and simulated when a method asks."""

    def __init__(
        self,
        given: DisruptionInput,
        options: DisruptionOptions = DEFAULT_DISRUPTION_OPTIONS,
        previous: "DisruptionPass | None" = None,
        strategy: SearchStrategy = ONE_LOOK,
    ) -> None:
        """`previous` is the last pass over the same cluster: what did not change since is taken
        from it.
        """
        evicted = evict_from_deleting_nodes(with_stated_allowances(given.snapshot)).snapshot
        pending = _plan_pending(evicted, given, options)
        self.snapshot = evicted
        if evicted.pods:
            changes = ClusterChanges(evicted.pools, given.catalogs)
            self.snapshot = changes.after_plan(evicted, pending)
        self.given, self.options, self._strategy = given, options, strategy
        self._settling = _Settling(self.snapshot, strategy.avoided)
        context = CandidateContext(
            catalogs=given.catalogs,
            offered=given.offered,
            nominated=given.nominated.union(each.node for each in pending.placements),
            static_capacity=options.plan.static_capacity,
            managed_deletion_cost=options.managed_deletion_cost,
            paused=given.paused,
            failed_starts={each.name: each for each in given.failed_starts},
        )
        alike = previous if previous is not None and self._is_alike(previous) else None
        known: Sequence[Candidate] = alike.candidates if alike is not None else ()
        self.candidates: list[Candidate] = find_candidates(
            self.snapshot, context, {each.name: each for each in known}
        )
        self._removals = self._new_removals() if alike is None else self._reuse(alike)
        self._removals.begin_pass(options.max_repetitions)
        counted = _with_marked_leaving(self.snapshot, given.failed_starts)
        self._budgets = BudgetCounter(counted, ignored=options.ignore_budgets)
        self._found_nothing = previous is not None and self._is_at_rest(previous)
        self.is_at_rest = self._found_nothing
        """Whether nothing has changed since a pass that found nothing."""
        self.repairs = RepairSearch(
            given.repair_policies, self.candidates, self.snapshot.now or 0.0
        )
        self._found: Command | None = None
        self.is_complete = self._found_nothing
        """Whether every node was looked at as it is now; else the next pass goes on."""

    def _is_at_rest(self, previous: "DisruptionPass") -> bool:
        """Whether the previous pass found nothing, and nothing has changed since."""
        return (
            previous._found_nothing
            and previous.is_complete
            and self._is_unchanged(previous)
            and self.options == previous.options
            and self._removals is previous._removals
            and self._budgets.scheduled() == previous._budgets.scheduled()
        )

    def _is_unchanged(self, previous: "DisruptionPass") -> bool:
        """Whether nodes and candidates are the same objects: then time has changed nothing."""
        nodes, before = self.snapshot.nodes, previous.snapshot.nodes
        return (
            len(nodes) == len(before)
            and all(map(is_, nodes, before))
            and all(map(is_, self.candidates, previous.candidates))
        )

    def _changed_nodes(self, previous: "DisruptionPass") -> list[Node]:
        before = {node.name: node for node in previous.snapshot.nodes}
        return [node for node in self.snapshot.nodes if before.get(node.name) is not node]

    def _is_alike(self, previous: "DisruptionPass") -> bool:
        """Whether only nodes and the time may differ."""
        now, before = self.snapshot, previous.snapshot
        return (
            _without_pace(self.options) == _without_pace(previous.options)
            and self.given.paused == previous.given.paused
            and [*map(_without_usage, now.pools)] == [*map(_without_usage, before.pools)]
            and now.daemonsets == before.daemonsets
            and now.pod_disruption_budgets == before.pod_disruption_budgets
            and all(each.disruptions_allowed is not None for each in now.pod_disruption_budgets)
            and self.given.catalogs == previous.given.catalogs
            and self.given.offered == previous.given.offered
        )

    def _reuse(self, previous: "DisruptionPass") -> RemovalEvaluator:
        """The simulations of the previous pass, as far as what changed does not concern them."""
        removals, changed = previous._removals, self._changed_nodes(previous)
        if self._is_unchanged(previous):
            return removals
        if not removals.is_compiled:
            return self._new_removals()  # nothing is known that could be kept
        is_same_size = len(previous.snapshot.nodes) == len(self.snapshot.nodes)
        if is_same_size and not changed:
            removals.take_over(
                self._settling.closed_nodes, pool_totals(self.candidates), self.candidates
            )
            return removals
        is_small = len(changed) <= MAX_CHANGED_SHARE * len(self.snapshot.nodes)
        if (
            is_same_size
            and is_small
            and self.snapshot.pools == previous.snapshot.pools
            and removals.update(self.snapshot, changed, self.candidates)
        ):
            removals.take_over(
                self._settling.closed_nodes, pool_totals(self.candidates), self.candidates
            )
            return removals
        return self._adopt(previous, changed)

    def _adopt(self, previous: "DisruptionPass", changed: Sequence[Node]) -> RemovalEvaluator:
        """Compiled anew, with what is known of nodes that the changes do not concern."""
        made, earlier = self._new_removals(), previous._removals
        if len(changed) <= MAX_ADOPTED_SHARE * len(self.snapshot.nodes):
            names = {node.name for node in self.snapshot.nodes}
            gone = {node.name for node in previous.snapshot.nodes} - names
            made.adopt(earlier, {*gone, *(node.name for node in changed)}, self.candidates)
        return made

    def _new_removals(self) -> RemovalEvaluator:
        is_by_name = self._strategy.search is Search.IN_ORDER
        order = None if is_by_name else _destination_order(self.candidates)
        # Nothing of it knows the pass: with a cycle no pass would be freed while the garbage
        # collector is paused, and looking ahead makes dozens over the whole cluster.
        snapshot, options = self.snapshot, self.options.plan
        return RemovalEvaluator(
            lambda catalogs, withheld: ClusterSimulator(
                snapshot, catalogs, options, order, withheld
            ),
            self.given.catalogs,
            self.options,
            self._settling.closed_nodes,
            pool_totals(self.candidates),
        )

    def prepare(self) -> Iterator[None]:
        """Does the long part of `find_command`, a slice at a time: whoever iterates over it may let
        others work in between. Nothing where repair or a quick method finds something, or at rest.
        """
        if self._found_nothing or self._repair is not None or self._find_quickly() is not None:
            return
        candidates = self._underutilized()
        waiting = self._removals.longest_outdated(candidates)
        for number, candidate in enumerate([*waiting, *candidates], start=1):
            self._removals.single(candidate)
            if number % SLICE == 0:
                yield

    def _find_quickly(self) -> Command | None:
        """What is found without a look at every node."""
        quick = (self._remove_empty, self._replace_static, self._replace_drifted)
        wanted = zip(QUICK_METHODS, quick, strict=True)
        found = (find() for method, find in wanted if method in self.options.methods)
        return next((each for each in found if each is not None), None)

    def find_command(self) -> Command | None:
        """The first command that one of the methods finds; None if there is nothing to do."""
        if self._found is None:
            self._found = self._repair
        if self._found is None and not self._found_nothing:
            self._found = self._find_command()
            self._found_nothing = self._found is None
            self.is_complete = not self._removals.has_outdated(self._simulated())
        return self._found

    def _find_command(self) -> Command | None:
        methods: dict[Method, Callable[[], Command | None]] = {
            Method.EMPTINESS: self._remove_empty,
            Method.REPAIR: lambda: None,  # it is looked for also while the cluster is at rest
            Method.STATIC_DRIFT: self._replace_static,
            Method.DRIFT: self._replace_drifted,
            Method.MULTI_NODE: self._remove_several,
            Method.SINGLE_NODE: self._remove_one,
        }
        for method in Method:
            if method in self.options.methods:
                command = methods[method]()
                if command is not None:
                    return command
        return None

    @property
    def next_change(self) -> float | None:
        """When time alone may give another result: a blocker ends, a budget begins or ends."""
        ends = (each.valid_until for each in self.candidates)
        moments = [*(each for each in ends if each != inf), *self._budgets.changes()]
        repair = self.repairs.next_due
        return min([*moments, *([] if repair is None else [repair])], default=None)

    def confirm(self, command: Command) -> "Command | FailedValidation":
        """The command as it would be given now for the same nodes; why it no longer holds if it
        does not.

        Of empty nodes those that still are, and no more than one command may take by now; of others
        all, or none.
        """
        now = {each.name: each for each in self.candidates}
        current = [now[each.name] for each in command.candidates if each.name in now]
        if command.method is Method.EMPTINESS:
            free = [each for each in current if each.is_empty and not each.blockers_of_emptiness()]
            kept = self._budgets.within(free, DisruptionReason.EMPTY)[: self.options.max_nodes]
            if kept:
                return msgspec.structs.replace(command, candidates=tuple(kept))
            return FailedValidation.BUDGET if free else FailedValidation.CANDIDATES
        free = [each for each in current if not each.blockers]
        if len(free) < len(command.candidates):
            return FailedValidation.CANDIDATES
        within = self._budgets.within(free, DisruptionReason.UNDERUTILIZED)
        allowed = within[: self.options.max_nodes]
        if len(allowed) < len(command.candidates):
            return FailedValidation.BUDGET
        found = self._removals.consolidate(command.method, allowed)
        is_covered = isinstance(found, Command) and _covers(found, command)
        return found if isinstance(found, Command) and is_covered else FailedValidation.COMMAND

    def eligible(self) -> dict[DisruptionReason, int]:
        """How many nodes nothing but budgets keeps from being disrupted, by reason."""
        free = [each for each in self.candidates if not each.is_static]
        return {
            DisruptionReason.EMPTY: sum(
                each.is_empty and not each.blockers_of_emptiness() for each in free
            ),
            DisruptionReason.DRIFTED: sum(
                each.drift is not None and not each.blockers_of_drift() for each in self.candidates
            ),
            DisruptionReason.UNDERUTILIZED: sum(
                not each.is_empty and not each.blockers for each in free
            ),
        }

    def disruptable(self) -> list[Candidate]:
        """Nodes that nothing keeps from being disrupted, within the budgets of their NodePools:
        drifted ones first, then those that save most.
        """
        drifted = [(each, DisruptionReason.DRIFTED) for each in self._drifted(is_static=False)]
        others = [
            each
            for each in self.candidates
            if not each.blockers and not each.is_static and each.drift is None
        ]
        others.sort(key=lambda each: (-each.saving_ratio, each.name))
        reasons = [(each, _consolidation_reason(each)) for each in others]
        return [*self._budgets.iter_together([*drifted, *reasons])]

    def allowed(self, pool: Pool) -> dict[DisruptionReason, int]:
        """How many more nodes of the NodePool its budgets allow, by reason."""
        return {reason: self._budgets.allowed(pool, reason) for reason in DisruptionReason}

    def disrupted(self, pool: Pool) -> dict[DisruptionReason, int]:
        """How many nodes of the NodePool count against its budgets, by reason."""
        return {reason: self._budgets.disrupted(pool, reason) for reason in DisruptionReason}

    def outcome(self, candidate: Candidate) -> Command | Outcome:
        """What removing the node alone comes to, whatever blocks it."""
        return self._removals.single(candidate)

    def drift_outcome(self, candidate: Candidate) -> Command | Outcome | None:
        """What replacing a drifted node comes to, whatever it costs; None where it has not drifted
        or may not be disrupted for it.
        """
        if candidate.drift is None or candidate.blockers_of_drift():
            return None
        return self._removals.replace_drifted(candidate)

    def drift_without_blockers(self, candidate: Candidate) -> Command | Outcome | None:
        """What replacing a drifted node comes to, whatever blocks it; None where it has not."""
        if candidate.drift is None:
            return None
        return self._removals.replace_drifted(
            msgspec.structs.replace(candidate, blocked_pods=frozenset())
        )

    def explain_removal(self, candidate: Candidate) -> ExplainedRemoval:
        """Where its pods would go without it, and why not, as the method that would take it sees
        it: drift may move them to any node that has come up.
        """
        return self._removals.explain(candidate, is_drift=candidate.drift is not None)

    def saving_without_blockers(self, candidate: Candidate) -> float | None:
        """What removing the node alone would save if nothing blocked it; None where nothing."""
        if candidate.node.deleting or _is_starting(candidate.node):
            return None
        if candidate.is_empty:
            return candidate.price or None
        found = self._removals.single(candidate)
        return found.saving if isinstance(found, Command) else None

    def other_blockers(self, candidate: Candidate, *, reservations: bool = True) -> list[Blocker]:
        """The budget that keeps a node which could go otherwise, or its own reservation."""
        if candidate.pool is None:
            return []
        if candidate.drift is not None and not candidate.blockers_of_drift():
            if not reservations:
                return self._budget_blockers(candidate, DisruptionReason.DRIFTED)
            return self._drift_blockers(candidate, candidate.pool.name)
        if candidate.blockers:
            return []
        return self._budget_blockers(candidate, _consolidation_reason(candidate))

    def _drift_blockers(self, candidate: Candidate, pool: str) -> list[Blocker]:
        budgets = self._budget_blockers(candidate, DisruptionReason.DRIFTED)
        if budgets or self._removals.simulate_released(candidate) is None:
            return budgets
        name = candidate.node.reservation_id or pool
        return [Blocker(code=BlockerCode.RESERVATION, kind=BlockerKind.RESERVATION, name=name)]

    def _budget_blockers(self, candidate: Candidate, reason: DisruptionReason) -> list[Blocker]:
        if candidate.pool is None or self._budgets.any_of([candidate], reason):
            return []
        until = self._budgets.until(candidate.pool, reason)
        name = candidate.pool.name
        return [Blocker(code=BlockerCode.BUDGET, kind=BlockerKind.BUDGET, name=name, until=until)]

    def unsettled_until(self) -> dict[str, float]:
        """Nodes to which consolidation moves no pod as yet, and until when."""
        return {
            node.name: settled
            for node in self.snapshot.nodes
            if self._settling.is_unsettled(node)
            and (settled := self._settling.settled_at(node)) is not None
        }

    def waiting_for_room(self, found: Command) -> list[Candidate]:
        """Nodes that could go for the same reason, within budgets, and wait because the command has
        as many nodes as one may take.
        """
        if len(found.candidates) < self.options.max_nodes:
            return []
        taken = {each.name for each in found.candidates}
        others = [each for each in self._alike(found) if each.name not in taken]
        within = self._budgets.within([*found.candidates, *others], found.reason)
        return [each for each in within if each.name not in taken]

    def _alike(self, found: Command) -> list[Candidate]:
        """Candidates that a command of the same method could have taken as well."""
        match found.method:
            case Method.EMPTINESS:
                return self._empty()
            case Method.DRIFT if found.candidates[0].is_empty:  # others go one at a time
                return [each for each in self._drifted(is_static=False) if each.is_empty]
            case Method.MULTI_NODE | Method.SINGLE_NODE:
                removals = self._removals
                alone = ((each, removals.single(each)) for each in self._underutilized())
                return [each for each, single in alone if isinstance(single, Command)]
            case _:
                return []

    def _empty(self) -> list[Candidate]:
        return [
            each
            for each in self.candidates
            if each.is_empty and not each.blockers_of_emptiness() and not each.is_static
        ]

    def _remove_empty(self) -> Command | None:
        within = self._budgets.within(self._empty(), DisruptionReason.EMPTY)
        chosen = within[: self.options.max_nodes]
        if not chosen:
            return None
        return Command(
            method=Method.EMPTINESS, reason=DisruptionReason.EMPTY, candidates=tuple(chosen)
        )

    def _replace_static(self) -> Command | None:
        drifted = self._budgets.within(self._drifted(is_static=True), DisruptionReason.DRIFTED)
        replacer = StaticNodeReplacer(self.snapshot, self.given.catalogs, self.options)
        return replacer.replace(drifted, terminate_first=self.options.terminate_first_drift)

    @cached_property
    def _repair(self) -> Command | None:
        """Of the most urgent node that nothing blocks. Looked for before all else: a broken node
        does not wait until every other one has been simulated.
        """
        if Method.REPAIR not in self.options.methods:
            return None
        for unhealthy in self.repairs.due:
            if unhealthy.block is None and self._may_repair(unhealthy.candidate):
                found = self._repair_one(unhealthy)
                if found is not None:
                    return found
        return None

    def _may_repair(self, candidate: Candidate) -> bool:
        """A node that never came up uses no budget. One of which a command could not be begun lets
        others be repaired first.
        """
        if candidate.pool is None or candidate.failed_start is not None:
            return False
        is_within = self._budgets.any_of([candidate], DisruptionReason.UNHEALTHY)
        return not is_initialized(candidate.node) or bool(is_within)

    def _repair_one(self, unhealthy: UnhealthyNode) -> Command | None:
        candidate, reason = unhealthy.candidate, DisruptionReason.UNHEALTHY
        if candidate.is_static:
            replacer = StaticNodeReplacer(self.snapshot, self.given.catalogs, self.options)
            is_first = self.options.terminate_first_repair
            found = replacer.replace([candidate], terminate_first=is_first)
            if found is None:
                return None
            return msgspec.structs.replace(found, method=Method.REPAIR, reason=reason)
        if candidate.is_empty:
            return Command(method=Method.REPAIR, reason=reason, candidates=(candidate,))
        repaired = self._removals.repair(candidate)
        return repaired if isinstance(repaired, Command) else None

    def _drifted(self, *, is_static: bool) -> list[Candidate]:
        """The earliest drift first."""
        drifted = (each for each in self.candidates if each.drift and each.is_static == is_static)
        return sorted((each for each in drifted if not each.blockers_of_drift()), key=_drift_order)

    def _replace_drifted(self) -> Command | None:
        """Empty ones together; then one at a time, the earliest drift first."""
        drifted, reason = self._drifted(is_static=False), DisruptionReason.DRIFTED
        empty = [each for each in drifted if each.is_empty]
        empty = self._budgets.within(empty, reason)[: self.options.max_nodes]
        if empty:
            return Command(method=Method.DRIFT, reason=reason, candidates=tuple(empty))
        for candidate in self._budgets.any_of(drifted, reason):
            found = self._removals.replace_drifted(candidate)
            if isinstance(found, Command):
                return found
        return None

    def _remove_several(self) -> Command | None:
        self._repeat_simulations()
        search = MultiNodeSearch(self._removals, self._budgets, self.options.max_nodes)
        candidates = self._underutilized()
        match self._strategy.search:
            case Search.BEST:
                return search.best_set(candidates)
            case Search.EXPENSIVE_FIRST:
                return search.best_set(sorted(candidates, key=_most_expensive_first))
            case Search.IN_ORDER:
                return search.longest_prefix(candidates)

    def _repeat_simulations(self) -> None:
        """As many as the pass may: those that have waited longest, not those that are asked for
        first. While pods keep coming and going others would never have their turn.
        """
        for candidate in self._removals.longest_outdated(self._underutilized()):
            self._removals.single(candidate)

    def _remove_one(self) -> Command | None:
        """The single node with the largest saving per disruption, or the first that can go.

        No node saves more than it costs: the search ends once no other could be better.
        """
        best: Command | None = None
        self._repeat_simulations()
        for candidate in self._underutilized():
            if best is not None and self._is_enough(best, candidate):
                break
            found = self._removals.single(candidate)
            if isinstance(found, Command) and (
                best is None or found.saving_ratio > best.saving_ratio
            ):
                best = found
        return best

    def _is_enough(self, best: Command, following: Candidate) -> bool:
        is_first_taken = self._strategy.search is Search.IN_ORDER
        return is_first_taken or best.saving_ratio >= following.saving_ratio

    def _simulated(self) -> list[Candidate]:
        """Candidates that the methods of the pass look at one by one."""
        is_wanted = {Method.MULTI_NODE, Method.SINGLE_NODE} & {*self.options.methods}
        return self._underutilized() if is_wanted else []

    def _underutilized(self) -> list[Candidate]:
        free = [
            each
            for each in self.candidates
            if not each.blockers and not each.is_empty and not each.is_static
        ]
        ordered = sorted(free, key=lambda each: (-each.saving_ratio, each.name))
        return self._budgets.any_of(ordered, DisruptionReason.UNDERUTILIZED)


class _Settling:
    """To which nodes pods may be moved: not while they start, and not until they have settled."""

    def __init__(self, snapshot: Snapshot, avoided: Collection[str]) -> None:
        self._pools = {pool.name: pool for pool in snapshot.pools}
        self._now, self._avoided = snapshot.now, avoided

    def closed_nodes(self, simulator: ClusterSimulator) -> ClosedNodes:
        avoided = self._avoided
        starting = simulator.nodes_where(lambda node: node.name in avoided or _is_starting(node))
        return ClosedNodes(starting, starting | simulator.nodes_where(self.is_unsettled))

    def is_unsettled(self, node: Node) -> bool:
        """Whether pods came or went too recently for others to be moved there."""
        settled = self.settled_at(node)
        return settled is not None and self._now is not None and settled > self._now

    def settled_at(self, node: Node) -> float | None:
        pool = self._pools.get(node.pool or "")
        after = pool.disruption.consolidate_after if pool is not None else None
        return None if after is None else settled_at(node, after)


def _covers(found: Command, earlier: Command) -> bool:
    """Whether what was decided on can still be launched: the same number of replacements, each of
    any type that was meant then.
    """
    if len(found.replacements) != len(earlier.replacements):
        return False
    return all(
        {*before.choices.instance_types} <= {*now.choices.instance_types}
        for now, before in zip(found.replacements, earlier.replacements, strict=True)
    )


def _with_marked_leaving(snapshot: Snapshot, failed: Iterable[FailedStart]) -> Snapshot:
    """For budgets: nodes that could not be set free again count as if they were removed."""
    marked = {each.name for each in failed if each.is_marked}
    if not marked:
        return snapshot
    nodes = (
        msgspec.structs.replace(node, deleting=True) if node.name in marked else node
        for node in snapshot.nodes
    )
    return msgspec.structs.replace(snapshot, nodes=tuple(nodes))


def _without_usage(pool: Pool) -> Pool:
    return msgspec.structs.replace(pool, in_use={})


def _consolidation_reason(candidate: Candidate) -> DisruptionReason:
    return DisruptionReason.EMPTY if candidate.is_empty else DisruptionReason.UNDERUTILIZED


def _without_pace(options: DisruptionOptions) -> DisruptionOptions:
    """How many nodes may go at once decides what is done, not what removals come to."""
    return msgspec.structs.replace(options, max_nodes=0, max_repetitions=0, methods=())


def _plan_pending(snapshot: Snapshot, given: DisruptionInput, options: DisruptionOptions) -> Plan:
    """Without pending pods there is nothing to plan: compiling the cluster for it takes a while."""
    return plan(snapshot, given.catalogs, options.plan) if snapshot.pods else NOTHING_PLANNED


def _is_starting(node: Node) -> bool:
    return not is_initialized(node)


def _most_expensive_first(candidate: Candidate) -> tuple[float, str]:
    return -candidate.price, candidate.name


def _drift_order(candidate: Candidate) -> tuple[float, float, str]:
    assert candidate.drift is not None
    since = candidate.drift.since
    return (float("inf") if since is None else since), candidate.cost, candidate.name


def _is_drifting_away(candidate: Candidate) -> bool:
    return candidate.drift is not None and not candidate.blockers_of_drift()


def _destination_order(candidates: Iterable[Candidate]) -> Callable[[Node], NodeRank]:
    """Pods move to nodes that are likely to stay: first those that are blocked, then those of which
    a removal would save least, and last those that have drifted. Otherwise the next command would
    move them again.
    """
    ranks = {
        each.name: (_is_drifting_away(each), not each.blockers, each.saving_ratio)
        for each in candidates
    }

    def order(node: Node) -> NodeRank:
        is_leaving, is_free, ratio = ranks.get(node.name, (False, False, 0.0))
        return _is_starting(node), is_leaving, is_free, ratio, node.name

    return order
