"""What removing nodes would come to: a command, or the reason why they are kept.

Every removal is simulated on a fork of one compiled cluster. Those of single nodes are kept: the
search for several nodes begins with them, and verdicts are made of them.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cached_property
from itertools import islice

import msgspec

from wainwright.core.disruption.balanced import PoolTotals, is_balanced
from wainwright.core.disruption.budgets import DisruptionReason
from wainwright.core.disruption.candidates import Candidate
from wainwright.core.disruption.cluster_changes import Catalogs, with_returned
from wainwright.core.disruption.commands import Command, Outcome
from wainwright.core.disruption.disruption_input import DisruptionOptions, Method, ReplacementRules
from wainwright.core.disruption.replacement import (
    NoReplacement,
    cheaper_replacement,
    cheaper_replacements,
)
from wainwright.core.removal_simulation import ClusterSimulator, RemovalSimulation, SimulatorUpdate
from wainwright.core.scheduling.solver import Solution
from wainwright.model.bitset import BitSet
from wainwright.model.plan import PlannedNodeClaim, UnschedulableGroup
from wainwright.model.snapshot import Node, Snapshot


class ClosedNodes(msgspec.Struct, frozen=True):
    """Nodes to which no pod is moved, by number in the simulator."""

    starting: BitSet
    """Not initialized: nobody knows whether they will come up. Or to be avoided."""
    unsettled: BitSet
    """These, and nodes where pods came or went too recently to add others."""


class ExplainedRemoval(msgspec.Struct, frozen=True):
    """Where the pods of a node would go without it, and why some would have no place."""

    simulation: RemovalSimulation
    unplaced: tuple[UnschedulableGroup, ...]


class RemovalEvaluator:
    def __init__(
        self,
        new_simulator: Callable[[Catalogs, Collection[str]], ClusterSimulator],
        catalogs: Catalogs,
        options: DisruptionOptions,
        closed: Callable[[ClusterSimulator], ClosedNodes],
        totals: dict[str, PoolTotals],
    ) -> None:
        self._new_simulator, self._find_closed = new_simulator, closed
        self._catalogs, self._options, self._totals = catalogs, options, totals
        self._singles: dict[str, Command | Outcome] = {}
        self._drifted: dict[str, Command | Outcome] = {}
        self._releasing: dict[frozenset[str], ClusterSimulator] = {}
        """By the reservations that nodes may give back: see `simulate_released`."""
        self._outdated: dict[str, None] = {}
        """Nodes of earlier passes whose removal may come to something else by now, those that have
        been for longest first; of equal ones those with the largest saving per disruption.
        """
        self._repetitions_left = 0
        """How many of them are simulated again in this pass."""

    @cached_property
    def _simulator(self) -> ClusterSimulator:
        """Compiled when it is first needed: empty nodes are removed without it."""
        return self._new_simulator(self._catalogs, ())

    @cached_property
    def _closed(self) -> ClosedNodes:
        return self._find_closed(self._simulator)

    @property
    def is_compiled(self) -> bool:
        return "_simulator" in self.__dict__

    def begin_pass(self, max_repetitions: int) -> None:
        self._repetitions_left = max_repetitions

    def longest_outdated(self, candidates: Iterable[Candidate]) -> list[Candidate]:
        """Those to be simulated again in this pass."""
        if not self._outdated or not self._repetitions_left:
            return []
        by_name = {each.name: each for each in candidates}
        waiting = (by_name[name] for name in self._outdated if name in by_name)
        return list(islice(waiting, self._repetitions_left))

    def single(self, candidate: Candidate) -> Command | Outcome:
        """What removing the node alone comes to; simulated once.

        A node that was kept is taken to be kept still once too many have been simulated again.
        """
        found, name = self._singles.get(candidate.name), candidate.name
        is_outdated = name in self._outdated
        if found is not None and not is_outdated:
            return found
        if isinstance(found, Outcome):
            if not self._repetitions_left:
                return found
            self._repetitions_left -= 1
        self._outdated.pop(name, None)
        found = self._singles[name] = self.consolidate(Method.SINGLE_NODE, [candidate])
        return found

    def has_outdated(self, candidates: Iterable[Candidate]) -> bool:
        return bool(self._outdated) and any(each.name in self._outdated for each in candidates)

    def update(
        self, snapshot: Snapshot, changed: Sequence[Node], candidates: Iterable[Candidate]
    ) -> bool:
        """Takes over a snapshot in which some nodes have other pods; False where that is not
        possible.
        """
        if not self.is_compiled:
            return False  # nothing is known that could be kept
        update = self._simulator.update(snapshot, changed)
        if update is None:
            return False
        self._releasing = {
            withheld: simulator
            for withheld, simulator in self._releasing.items()
            if simulator.update(snapshot, changed) is not None
        }
        self._drifted.clear()
        names = {node.name for node in changed}
        for name in names:
            self._singles.pop(name, None)
        self._mark_outdated(candidates, names, update)
        return True

    def take_over(
        self,
        closed: Callable[[ClusterSimulator], ClosedNodes],
        totals: dict[str, PoolTotals],
        candidates: Iterable[Candidate],
    ) -> None:
        """What else may have changed since the last pass."""
        before, self._find_closed = self._closed, closed
        self._closed = now = closed(self._simulator)
        self._totals = totals
        self._drifted.clear()
        if before != now:
            opened = before.unsettled & ~now.unsettled
            shut = self._simulator.names_of(now.unsettled & ~before.unsettled)
            update = SimulatorUpdate(freed=opened, groups=frozenset())
            self._mark_outdated(candidates, shut, update)

    def adopt(
        self, earlier: "RemovalEvaluator", changed: Collection[str], candidates: Iterable[Candidate]
    ) -> None:
        """Takes what is known over from an evaluator of a cluster that differed in these nodes,
        some of which may be new or gone: pods of others that have no business there are not
        simulated again.
        """
        if earlier.is_limited or self.is_limited:
            return  # what a node uses may be what another may launch
        kept = [each for each in candidates if each.name not in changed]
        self._singles = {
            each.name: earlier._singles[each.name] for each in kept if each.name in earlier._singles
        }
        self._outdated = {name: None for name in earlier._outdated if name in self._singles}
        was_shut = earlier._simulator.names_of(earlier._closed.unsettled)
        shut = self._simulator.names_of(self._closed.unsettled)
        freed = self._simulator.numbers_of({*changed, *(was_shut - shut)})
        update = SimulatorUpdate(freed=freed, groups=self._simulator.topology_groups)
        self._mark_outdated(kept, {*changed, *(shut - was_shut)}, update)

    @property
    def is_limited(self) -> bool:
        """Whether launches depend on what there is: limits, or reserved instances that are free."""
        return self._simulator.is_bounded or self._simulator.has_free_reservations

    def _mark_outdated(
        self, candidates: Iterable[Candidate], changed: Collection[str], update: SimulatorUpdate
    ) -> None:
        for candidate in sorted(candidates, key=lambda each: -each.saving_ratio):
            known = self._singles.get(candidate.name)
            if known is not None and self._may_differ(candidate, known, changed, update):
                self._outdated.setdefault(candidate.name)

    def _may_differ(
        self,
        candidate: Candidate,
        known: Command | Outcome,
        changed: Collection[str],
        update: SimulatorUpdate,
    ) -> bool:
        if isinstance(known, Command) and any(
            each.node in changed for each in known.simulation.placements
        ):
            return True
        return any(self._simulator.is_affected(pod, update) for pod in candidate.pods)

    def consolidate(self, method: Method, candidates: Sequence[Candidate]) -> Command | Outcome:
        """The command that removes all of them, if it saves enough.

        A free reservation that is too small for all pods would split them over several nodes:
        then one node is looked for without reservations.
        """
        found = self._consolidate(method, candidates)
        if found is Outcome.NEEDS_SEVERAL_NODES and self._simulator.has_free_reservations:
            unreserved = self._consolidate(method, candidates, without_reservations=True)
            if isinstance(unreserved, Command):
                return unreserved
        return found

    def _consolidate(
        self,
        method: Method,
        candidates: Sequence[Candidate],
        *,
        without_reservations: bool = False,
    ) -> Command | Outcome:
        # Of a single node it matters for its verdict whether pods would be unschedulable at all.
        by_one = method is Method.MULTI_NODE and not self._options.allow_split
        solution = self._simulate(
            candidates,
            self._closed.unsettled,
            without_reservations=without_reservations,
            by_one=by_one,
        )
        if isinstance(solution, Outcome):
            return solution
        too_expensive = self._reason_without_names(solution, candidates)
        if too_expensive is not None:
            return too_expensive
        simulation = self._simulator.simulation_of(solution)
        replacements = self._replacements(simulation.claims, candidates)
        if isinstance(replacements, Outcome):
            return replacements
        command = Command(
            method=method,
            reason=DisruptionReason.UNDERUTILIZED,
            candidates=tuple(candidates),
            replacements=replacements,
            simulation=simulation,
        )
        return self._reason_to_keep(command) or self._within_limits(command)

    def explain(self, candidate: Candidate, *, is_drift: bool) -> ExplainedRemoval:
        closed = self._closed.starting if is_drift else self._closed.unsettled
        simulator, names = self._simulator, [candidate.name]
        return ExplainedRemoval(
            simulator.simulation_of(simulator.solve_without(names, closed)),
            simulator.explain_removal(
                names,
                closed=closed,
                returns_limits=True,
                counts_leaving_nodes=True,
                with_suggestions=True,
            ),
        )

    def replace_drifted(self, candidate: Candidate) -> Command | Outcome:
        """Pods that may not be evicted are left out: they end with the node, at its deadline."""
        found = self._drifted.get(candidate.name)
        if found is None:
            found = self._drifted[candidate.name] = self._replace_drifted(candidate)
        return found

    def _replace_drifted(self, candidate: Candidate) -> Command | Outcome:
        solution = self._simulate([candidate], self._closed.starting, candidate.blocked_pods)
        if not isinstance(solution, Outcome):
            return self._within_limits(
                _drift_command(candidate, self._simulator.simulation_of(solution))
            )
        released = (
            self.simulate_released(candidate) if self._options.terminate_first_drift else None
        )
        if released is None:
            return solution
        return _drift_command(candidate, released, terminate_first=True)

    def repair(self, candidate: Candidate) -> Command | Outcome:
        """All its pods move, also those that may not be evicted or have to wait until it is gone:
        draining has its deadline.
        """
        solution = self._simulate([candidate], self._closed.starting, counts_leaving_nodes=False)
        if not isinstance(solution, Outcome):
            return self._within_limits(
                _repair_command(candidate, self._simulator.simulation_of(solution))
            )
        released = (
            self.simulate_released(candidate) if self._options.terminate_first_repair else None
        )
        if released is None:
            return solution
        return _repair_command(candidate, released, terminate_first=True)

    def _within_limits(self, command: Command) -> Command | Outcome:
        names = [each.name for each in command.candidates]
        is_beyond = self._simulator.exceeds_limits(names, command.replacements)
        return Outcome.LIMITS if is_beyond else command

    def simulate_released(self, candidate: Candidate) -> RemovalSimulation | None:
        """Where its pods would go if the node gave its reserved instance back first; None where
        that is no help.
        """
        reservation = candidate.node.reservation_id
        if reservation is None or not candidate.node.launched:
            return None
        simulator = self._simulator_releasing(reservation)
        pods = [pod for pod in candidate.pods if pod.key not in candidate.blocked_pods]
        if any(map(simulator.is_hopeless, pods)):
            return None
        solution = simulator.solve_without(
            [candidate.name],
            self._closed.starting,
            candidate.blocked_pods,
            released=reservation,
            counts_leaving_nodes=False,
        )
        return None if solution.failed else simulator.simulation_of(solution)

    def _simulator_releasing(self, reservation: str) -> ClusterSimulator:
        """The compiled cluster, if something is available in the reservation anyway. Else one that
        knows all full reservations that nodes run in: compiled once, not for every drifted node.

        Where DaemonSets run on other types because of such a reservation, one that knows it alone.
        """
        full = self._simulator.occupied_reservations & self._simulator.lacking_reservations
        if reservation not in full:
            return self._simulator
        shared = self._releasing_any_of(full)
        alone = frozenset({reservation})
        return shared if shared.ignores_withheld else self._releasing_any_of(alone)

    def _releasing_any_of(self, reservations: frozenset[str]) -> ClusterSimulator:
        if reservations not in self._releasing:
            catalogs = with_returned(self._catalogs, dict.fromkeys(reservations, 1))
            self._releasing[reservations] = self._new_simulator(catalogs, reservations)
        return self._releasing[reservations]

    def _simulate(
        self,
        candidates: Sequence[Candidate],
        closed: BitSet,
        left_out: Collection[str] = (),
        *,
        without_reservations: bool = False,
        by_one: bool = False,
        counts_leaving_nodes: bool = True,
    ) -> Solution | Outcome:
        pods = (pod for each in candidates for pod in each.pods if pod.key not in left_out)
        if any(map(self._simulator.is_hopeless, pods)):
            return Outcome.PODS_WOULD_BE_PENDING
        names = [each.name for each in candidates]
        simulator = self._simulator
        solution = (
            simulator.replace_by_one(names, closed, without_reservations=without_reservations)
            if by_one
            else simulator.solve_without(
                names,
                closed,
                left_out,
                without_reservations=without_reservations,
                counts_leaving_nodes=counts_leaving_nodes,
            )
        )
        if solution is None:
            return Outcome.NEEDS_SEVERAL_NODES
        if not solution.failed:
            return solution
        is_limited = self._simulator.is_limited(solution)
        return Outcome.LIMITS if is_limited else Outcome.PODS_WOULD_BE_PENDING

    def _reason_without_names(
        self, solution: Solution, candidates: Sequence[Candidate]
    ) -> Outcome | None:
        """Most nodes end here: naming all types of a claim takes longer than the simulation."""
        drafts = solution.drafts
        if len(drafts) > 1 and not self._options.allow_split:
            return Outcome.NEEDS_SEVERAL_NODES
        price = sum(candidate.price for candidate in candidates)
        choices = [draft.launch_choice for draft in drafts]
        if sum(each.offering.price for each in choices if each is not None) < price:
            return None
        return Outcome.NEEDS_SEVERAL_NODES if len(drafts) > 1 else Outcome.NO_SAVING

    def _replacements(
        self, claims: Sequence[PlannedNodeClaim], candidates: Sequence[Candidate]
    ) -> tuple[PlannedNodeClaim, ...] | Outcome:
        rules = self._rules(candidates)
        if len(claims) > 1:
            split = cheaper_replacements(claims, self._catalogs, candidates, rules)
            return Outcome(split.value) if isinstance(split, NoReplacement) else split
        found = [
            cheaper_replacement(claim, self._catalogs[claim.pool], candidates, rules)
            for claim in claims
        ]
        kept = [each for each in found if isinstance(each, PlannedNodeClaim)]
        refused = [each for each in found if isinstance(each, NoReplacement)]
        return Outcome(refused[0].value) if refused else tuple(kept)

    def _rules(self, candidates: Sequence[Candidate]) -> ReplacementRules:
        """The NodePools of the nodes may ask for another number of cheaper spot types."""
        rules = self._options.rules
        wanted = [
            rules.spot_to_spot_types
            if each.pool is None or each.pool.disruption.spot_to_spot_types is None
            else each.pool.disruption.spot_to_spot_types
            for each in candidates
        ]
        return msgspec.structs.replace(rules, spot_to_spot_types=max(wanted))

    def _reason_to_keep(self, command: Command) -> Outcome | None:
        """A command that saves too little, or too little for what it disturbs."""
        saving, price = command.saving, command.price_before
        if saving <= 0:
            return Outcome.NO_SAVING
        for candidate in command.candidates:
            own = candidate.pool.disruption.minimum_saving if candidate.pool is not None else None
            minimum = self._options.minimum_saving if own is None else own
            if not minimum.is_met(saving, price):
                return Outcome.MIN_SAVING
        if not is_balanced(command.candidates, saving, self._totals, self._options.balanced_k):
            return Outcome.BALANCED_SCORE
        return Outcome.NO_SAVING if self._may_stay_empty(command) else None

    def _may_stay_empty(self, command: Command) -> bool:
        """Whether its pods may be bound where capacity buffers have room, and not to a reserved
        replacement: that is not kept for a buffer, so that it goes, a node is launched for the
        buffer, and the next look finds the same command for another node.
        """
        if all(claim.launch.reservation_id is None for claim in command.replacements):
            return False
        names = [each.name for each in command.candidates]
        return self._simulator.fits_in_room_of_buffers(names, self._closed.starting)


def _drift_command(
    candidate: Candidate, simulation: RemovalSimulation, *, terminate_first: bool = False
) -> Command:
    return Command(
        method=Method.DRIFT,
        reason=DisruptionReason.DRIFTED,
        candidates=(candidate,),
        replacements=simulation.claims,
        simulation=simulation,
        terminate_first=terminate_first,
    )


def _repair_command(
    candidate: Candidate, simulation: RemovalSimulation, *, terminate_first: bool = False
) -> Command:
    moved = _drift_command(candidate, simulation, terminate_first=terminate_first)
    return msgspec.structs.replace(moved, method=Method.REPAIR, reason=DisruptionReason.UNHEALTHY)
