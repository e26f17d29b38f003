"""Several nodes at once: the search for a set of nodes that can go together.

First the nodes whose pods fit on others, then nodes whose pods share one new node with them. A set
grows by chunks, which are halved when they do not fit: one node that cannot go keeps back nobody
but itself. Each set then loses the nodes without which it saves more, and the one with the largest
saving per disruption goes first. Simulating a large set takes as long as its pods are many, so that
the number of trials is bounded; what a search does not find is left for the next pass.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain, islice
from typing import Final

from wainwright.core.disruption.budgets import BudgetCounter, DisruptionReason
from wainwright.core.disruption.candidate_outcomes import RemovalEvaluator
from wainwright.core.disruption.candidates import Candidate
from wainwright.core.disruption.commands import Command, Outcome
from wainwright.core.disruption.disruption_input import Method

MAX_TRIALS: Final = 24  # simulated sets of each kind in a pass
MAX_FIRST_TRIALS: Final = 16  # of these until the first set is found: seven halvings, nine pairs
MAX_SHRINKING_TRIALS: Final = 12  # of the best of them without some of its nodes
MAX_GROUPS: Final = 4  # NodePools, those that cost most

STUCK: Final = frozenset(
    {Outcome.PODS_WOULD_BE_PENDING, Outcome.NEEDS_SEVERAL_NODES, Outcome.LIMITS}
)
"""Nodes that cannot go alone for one of these reasons cannot go with others either."""


class MultiNodeSearch:
    def __init__(self, removals: RemovalEvaluator, budgets: BudgetCounter, max_nodes: int) -> None:
        self._removals, self._budgets, self._max_nodes = removals, budgets, max_nodes

    def longest_prefix(self, candidates: Sequence[Candidate]) -> Command | None:
        """As many of the first candidates as can go together, by halving: as if fewer could go
        wherever more can. Karpenter's search.
        """
        within = self._budgets.within(candidates, DisruptionReason.UNDERUTILIZED)
        best: Command | None = None
        smallest, largest = 2, min(len(within), self._max_nodes)
        while smallest <= largest:
            size = (smallest + largest) // 2
            found = self._removals.consolidate(Method.MULTI_NODE, within[:size])
            if isinstance(found, Command):
                best, smallest = found, size + 1
            else:
                largest = size - 1
        return best

    def best_set(self, candidates: Sequence[Candidate]) -> Command | None:
        """The set of two or more with the largest saving per disruption, of those to which no other
        node could be added for a larger saving; sets grow by the candidates in their order.

        A set that is part of one that saves more is no other command, only less of it. If such
        parts were compared too, pairs would win over all that could go together with them, and the
        next commands would move their pods again: on 48 clusters of `make oracle-disruption`, each
        command chosen by itself, 15 % of all moves were repeated ones, where it is 9 %, and less
        was saved.

        Nodes that need no replacement are not always the best beginning: once they are gone the
        others are full, where one cheap new node could have taken the pods of all of them.
        """
        movable = [each for each in candidates if not self._is_stuck(each)]
        deletable = list(islice(self._deletable(movable), min(2 * self._max_nodes, len(movable))))
        removed = self._grow(self._alone(deletable), deletable, max_replacements=0)
        found = [removed, self._grow(None, movable), self._grow(removed, movable)]
        found += [self._grow(None, group) for group in self._groups(movable)]
        sets = [each for each in found if each is not None and len(each.candidates) > 1]
        best = map(self._shrink, _without_parts(sets))
        return max(best, key=lambda each: (each.saving_ratio, each.saving), default=None)

    def _is_stuck(self, candidate: Candidate) -> bool:
        alone = self._removals.single(candidate)
        return isinstance(alone, Outcome) and alone in STUCK

    def _deletable(self, candidates: Iterable[Candidate]) -> Iterable[Candidate]:
        """Nodes that need no replacement; each is simulated only when it is asked for."""
        for candidate in candidates:
            alone = self._removals.single(candidate)
            if isinstance(alone, Command) and not alone.replacements:
                yield candidate

    def _alone(self, deletable: Sequence[Candidate]) -> Command | None:
        """The first of them by itself, to which others are added."""
        alone = self._removals.single(deletable[0]) if deletable else None
        return alone if isinstance(alone, Command) else None

    def _groups(self, movable: Sequence[Candidate]) -> list[list[Candidate]]:
        """The nodes of each NodePool: pods of different ones seldom share a new node."""
        groups: dict[str | None, list[Candidate]] = defaultdict(list)
        for candidate in movable:
            groups[candidate.node.pool].append(candidate)
        found = [group for group in groups.values() if len(movable) > len(group) > 1]
        found.sort(key=lambda group: -sum(each.price for each in group))
        return found[:MAX_GROUPS]

    def _grow(
        self,
        best: Command | None,
        waiting: Sequence[Candidate],
        max_replacements: int | None = None,
    ) -> Command | None:
        """Adds as many of those waiting as save more than before."""
        size, trials = min(len(waiting), self._max_nodes), 0
        while waiting and trials < (MAX_FIRST_TRIALS if best is None else MAX_TRIALS):
            # Nodes that cannot go alone are not tried alone once more.
            smallest = 1 if best is not None else 2
            chosen = list(best.candidates) if best is not None else []
            chunk = self._chunk(chosen, waiting, max(size, smallest))
            if len(chunk) < smallest:
                break
            trials += 1
            found = self._removals.consolidate(Method.MULTI_NODE, [*chosen, *chunk])
            command = found if isinstance(found, Command) else None
            if command is not None and _is_better(command, best, max_replacements):
                best = command
            elif len(chunk) > smallest:
                size = len(chunk) // 2
                continue
            else:
                chunk = chunk[:1]  # of two that do not go together the second is tried with others
            tried = {each.name for each in chunk}
            waiting = [each for each in waiting if each.name not in tried]
        return best

    def _shrink(self, best: Command) -> Command:
        """Without those nodes that would have been better kept: the first set that is found may
        hide a smaller one that saves more. One without a replacement hides none.
        """
        size, trials, position = len(best.candidates) // 2, 0, 0
        while size and best.replacements and trials < MAX_SHRINKING_TRIALS:
            chosen = best.candidates
            rest = [*chosen[:position], *chosen[position + size :]]
            found = self._without(rest) if len(rest) > 1 else None
            trials += 1
            if found is not None and found.saving > best.saving:
                best, size, position = found, min(size, len(rest) // 2), 0
            elif position + size < len(chosen):
                position += size
            else:
                size, position = size // 2, 0
        return best

    def _without(self, rest: Sequence[Candidate]) -> Command | None:
        found = self._removals.consolidate(Method.MULTI_NODE, rest)
        return found if isinstance(found, Command) else None

    def _chunk(
        self, chosen: Sequence[Candidate], waiting: Sequence[Candidate], size: int
    ) -> list[Candidate]:
        """The next candidates, as many as size, budgets and the limit of a command allow."""
        room = min(size, self._max_nodes - len(chosen))
        names = {each.name for each in chosen}
        others = (each for each in waiting if each.name not in names)
        within = self._budgets.iter_within(chain(chosen, others), DisruptionReason.UNDERUTILIZED)
        return [*islice(within, len(chosen), len(chosen) + room)]


def _is_better(command: Command, best: Command | None, max_replacements: int | None) -> bool:
    if max_replacements is not None and len(command.replacements) > max_replacements:
        return False
    return best is None or command.saving > best.saving


def _without_parts(commands: Sequence[Command]) -> list[Command]:
    """Without those whose nodes are part of a command that saves as much; of equal ones one."""
    by_nodes = {frozenset(each.name for each in it.candidates): it for it in commands}
    return [
        command
        for nodes, command in by_nodes.items()
        if not any(
            nodes < others and command.saving <= other.saving for others, other in by_nodes.items()
        )
    ]
