"""What removing nodes would come to: a command, or the reason why they are kept.

Every removal is simulated on a fork of one compiled cluster. Those of single nodes are kept: the
search for several nodes begins with them, and verdicts are made of them.
"""

from collections.abc import Callable, Collection, Sequence

import msgspec

from wainwright.core.disruption.balanced import PoolTotals, is_balanced
from wainwright.core.disruption.budgets import DisruptionReason
from wainwright.core.disruption.candidates import Candidate
from wainwright.core.disruption.cluster_changes import Catalogs, with_returned
from wainwright.core.disruption.commands import Command, DisruptionOptions, Method, Outcome
from wainwright.core.disruption.replacement import (
    NoReplacement,
    ReplacementRules,
    cheaper_replacement,
    cheaper_replacements,
)
from wainwright.core.scheduling.solver import Solution
from wainwright.core.simulation import ClusterSimulator, Simulation
from wainwright.model.bitset import BitSet
from wainwright.model.plan import PlannedNodeClaim


class ClosedNodes(msgspec.Struct, frozen=True):
    """Nodes to which no pod is moved, by number in the simulator."""

    starting: BitSet
    """Not initialized: nobody knows whether they will come up."""
    unsettled: BitSet
    """These, and nodes where pods came or went too recently to add others."""


class RemovalEvaluator:
    def __init__(
        self,
        new_simulator: Callable[[Catalogs], ClusterSimulator],
        catalogs: Catalogs,
        options: DisruptionOptions,
        closed: Callable[[ClusterSimulator], ClosedNodes],
        totals: dict[str, PoolTotals],
    ) -> None:
        self._new_simulator, self._simulator = new_simulator, new_simulator(catalogs)
        self._catalogs, self._options = catalogs, options
        self._closed, self._totals = closed(self._simulator), totals
        self._singles: dict[str, Command | Outcome] = {}

    def single(self, candidate: Candidate) -> Command | Outcome:
        """What removing the node alone comes to; simulated once."""
        found = self._singles.get(candidate.name)
        if found is None:
            found = self.consolidate(Method.SINGLE_NODE, [candidate])
            self._singles[candidate.name] = found
        return found

    def consolidate(self, method: Method, candidates: Sequence[Candidate]) -> Command | Outcome:
        """The command that removes all of them, if it saves enough."""
        solution = self._simulate(candidates, self._closed.unsettled)
        if isinstance(solution, Outcome):
            return solution
        replacements = self._replacements(solution, candidates)
        if isinstance(replacements, Outcome):
            return replacements
        command = Command(
            method=method,
            reason=DisruptionReason.UNDERUTILIZED,
            candidates=tuple(candidates),
            replacements=replacements,
            simulation=self._simulator.simulation_of(solution),
        )
        return self._reason_to_keep(command) or command

    def replace_drifted(self, candidate: Candidate) -> Command | Outcome:
        """Pods that may not be evicted are left out: they end with the node, at its deadline."""
        solution = self._simulate([candidate], self._closed.starting, candidate.blocked_pods)
        if not isinstance(solution, Outcome):
            return _drift_command(candidate, self._simulator.simulation_of(solution))
        released = (
            self.simulate_released(candidate) if self._options.terminate_first_drift else None
        )
        if released is None:
            return solution
        return _drift_command(candidate, released, terminate_first=True)

    def simulate_released(self, candidate: Candidate) -> Simulation | None:
        """Where its pods would go if the node gave its reserved instance back first; None where
        that is no help.

        Compiled anew, as another catalogue is used: only drifted nodes of full reservations
        need it.
        """
        reservation = candidate.node.reservation_id
        if reservation is None or not candidate.node.launched:
            return None
        simulator = self._new_simulator(with_returned(self._catalogs, {reservation: 1}))
        pods = [pod for pod in candidate.pods if pod.key not in candidate.blocked_pods]
        if any(map(simulator.is_hopeless, pods)):
            return None
        solution = simulator.solve_without(
            [candidate.name], self._closed.starting, candidate.blocked_pods
        )
        return None if solution.failed else simulator.simulation_of(solution)

    def _simulate(
        self, candidates: Sequence[Candidate], closed: BitSet, left_out: Collection[str] = ()
    ) -> Solution | Outcome:
        pods = (pod for each in candidates for pod in each.pods if pod.key not in left_out)
        if any(map(self._simulator.is_hopeless, pods)):
            return Outcome.PODS_WOULD_BE_PENDING
        names = [each.name for each in candidates]
        solution = self._simulator.solve_without(names, closed, left_out)
        if not solution.failed:
            return solution
        is_limited = self._simulator.is_limited(solution)
        return Outcome.LIMITS if is_limited else Outcome.PODS_WOULD_BE_PENDING

    def _replacements(
        self, solution: Solution, candidates: Sequence[Candidate]
    ) -> tuple[PlannedNodeClaim, ...] | Outcome:
        drafts = solution.drafts
        if not drafts:
            return ()
        if len(drafts) > 1 and not self._options.allow_split:
            return Outcome.NEEDS_SEVERAL_NODES
        price = sum(candidate.price for candidate in candidates)
        choices = [draft.launch_choice for draft in drafts]
        # Most nodes end here: naming all types of a claim takes longer than the simulation.
        if sum(each.offering.price for each in choices if each is not None) >= price:
            return Outcome.NEEDS_SEVERAL_NODES if len(drafts) > 1 else Outcome.NO_SAVING
        claims = self._simulator.simulation_of(solution).claims
        rules = self._rules(candidates)
        if len(claims) > 1:
            split = cheaper_replacements(claims, self._catalogs, candidates, rules)
            return Outcome(split.value) if isinstance(split, NoReplacement) else split
        index = self._catalogs[claims[0].pool]
        found = cheaper_replacement(claims[0], index, candidates, rules)
        return Outcome(found.value) if isinstance(found, NoReplacement) else (found,)

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
        return None


def _drift_command(
    candidate: Candidate, simulation: Simulation, *, terminate_first: bool = False
) -> Command:
    return Command(
        method=Method.DRIFT,
        reason=DisruptionReason.DRIFTED,
        candidates=(candidate,),
        replacements=simulation.claims,
        simulation=simulation,
        terminate_first=terminate_first,
    )
