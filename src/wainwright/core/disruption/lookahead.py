"""Looking ahead: what sequences of commands come to, and which is the best of them.

A command that saves most by itself may lead to an arrangement that only a larger change would
improve, or move pods to nodes that go next. So the cluster is taken to rest in several ways, each
command applied before the next is sought, and the ways are compared by where they end. In every
one the methods keep their order, and every command stands by itself: after its first command a
sequence may be dropped for another.

Nothing here depends on time or chance. How many nodes are looked at is bounded; beyond, commands
are chosen one by one.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from wainwright.core.disruption.cluster_changes import ClusterChanges, with_returned
from wainwright.core.disruption.commands import ONE_LOOK, Command, Search, SearchStrategy
from wainwright.core.disruption.disruption_input import MAX_STEPS, DisruptionInput
from wainwright.core.disruption.disruption_pass import DisruptionPass
from wainwright.core.disruption.replacement import ROUNDING
from wainwright.model.plan import NodeAssignment

NEARLY_AS_MUCH: Final = 0.01
"""The share of a saving that is given up for fewer moves of pods."""
MIN_PASSES: Final = 10
"""A cluster over which fewer passes can be made is not looked ahead for: none would end."""


class CommandSequence(msgspec.Struct, frozen=True, kw_only=True):
    """Commands one after the other, until nothing was left to do or to look at."""

    commands: tuple[Command, ...]
    states: tuple[DisruptionInput, ...]
    """Before each command, and after the last."""
    settled: bool
    """Whether one look at the last state finds nothing."""
    compared: bool = False
    """Whether every way that there is was taken to its end."""

    @property
    def saving(self) -> float:
        return sum(command.saving for command in self.commands)

    @property
    def evictions(self) -> int:
        return self._moves().total()

    @property
    def repeated_moves(self) -> int:
        """Moves of pods that had been moved before."""
        moves = self._moves()
        return moves.total() - len(moves)

    @property
    def removed(self) -> frozenset[str]:
        """Nodes, replacements of earlier commands included."""
        return frozenset(each.name for command in self.commands for each in command.candidates)

    @property
    def intermediate(self) -> frozenset[str]:
        """Those of them to which pods had been moved."""
        targets = {move.target for command in self.commands for move in command.moves()}
        return self.removed & targets

    def _moves(self) -> Counter[str]:
        return Counter(move.pod for command in self.commands for move in command.moves())


def find_sequence(first: DisruptionPass) -> CommandSequence:
    """Of the sequences that save most, or nearly as much, the one that moves the fewest pods; a pod
    that moves again counts twice.

    `first` is one look at the cluster. Where there are too many nodes to look ahead the sequence
    ends early, with commands that were chosen by themselves.
    """
    if first.find_command() is None:
        return CommandSequence(commands=(), states=(first.given,), settled=True, compared=True)
    rollouts = _Rollouts(first)
    one_by_one = rollouts.roll_out(ONE_LOOK)
    if not one_by_one.settled:
        return one_by_one
    found = [one_by_one, *rollouts.others(one_by_one)]
    settled = [each for each in found if each.settled]
    return msgspec.structs.replace(_best(settled), compared=len(settled) == len(found))


def _best(sequences: Sequence[CommandSequence]) -> CommandSequence:
    most = max(each.saving for each in sequences)
    enough = most - NEARLY_AS_MUCH * abs(most) - ROUNDING
    near = (each for each in sequences if each.saving >= enough)
    return min(near, key=lambda each: (each.evictions + each.repeated_moves, -each.saving))


class _Rollouts:
    """Sequences that begin at one cluster, and how many nodes may still be looked at."""

    def __init__(self, first: DisruptionPass) -> None:
        self._first = first
        allowed = first.options.look_ahead
        is_small = len(first.snapshot.nodes) * MIN_PASSES <= allowed
        self._nodes_left = allowed if is_small else 0

    def others(self, one_by_one: CommandSequence) -> Iterator[CommandSequence]:
        """Of every search, and where pods moved again, once without moves to nodes that went in the
        end, and once without moves to those of them that had taken pods.
        """
        if not one_by_one.evictions:
            return
        for search in Search:
            found = one_by_one
            if search is not ONE_LOOK.search:
                found = self.roll_out(SearchStrategy(search=search))
                yield found
            if found.settled and found.repeated_moves:
                for avoided in dict.fromkeys((found.removed, found.intermediate)):
                    yield self.roll_out(SearchStrategy(search=search, avoided=avoided))

    def roll_out(self, strategy: SearchStrategy) -> CommandSequence:
        states, commands = [self._first.given], list[Command]()
        while self._nodes_left > 0 and len(commands) < MAX_STEPS:
            looked = self._look(states[-1], strategy)
            command = looked.find_command()
            if command is None and strategy != ONE_LOOK:
                looked = self._look(states[-1], ONE_LOOK)
                command = looked.find_command()
            if command is None:
                return _sequence(commands, states, settled=True)
            commands.append(command)
            states.append(after_command(looked, command))
        return _sequence(commands, states, settled=False)

    def _look(self, state: DisruptionInput, strategy: SearchStrategy) -> DisruptionPass:
        if state is self._first.given and strategy == ONE_LOOK:
            return self._first
        self._nodes_left -= len(state.snapshot.nodes)
        return DisruptionPass(state, self._first.options, strategy=strategy)


def _sequence(
    commands: Sequence[Command], states: Sequence[DisruptionInput], *, settled: bool
) -> CommandSequence:
    return CommandSequence(commands=tuple(commands), states=tuple(states), settled=settled)


def after_command(looked: DisruptionPass, command: Command) -> DisruptionInput:
    """The cluster when the command has been carried out: nothing else has happened."""
    given = looked.given
    changes = ClusterChanges(given.snapshot.pools, given.catalogs)
    removed = [candidate.name for candidate in command.candidates]
    unavailable = [NodeAssignment(node=each.name, pods=each.pods) for each in command.unavailable]
    snapshot = changes.after_removal(
        looked.snapshot,
        removed,
        [*command.simulation.placements, *unavailable],
        command.replacements,
        [each.node for each in command.unavailable],
    )
    taken = looked.snapshot.taken_names.union(command.replacement_names)
    return msgspec.structs.replace(
        given,
        snapshot=msgspec.structs.replace(snapshot, claims=taken),
        catalogs=with_returned(given.catalogs, _returned_reservations(command)),
    )


def _returned_reservations(command: Command) -> Counter[str]:
    """By reservation the instances of nodes that ran in it and are removed."""
    nodes = (candidate.node for candidate in command.candidates)
    return Counter(
        node.reservation_id for node in nodes if node.reservation_id is not None and node.launched
    )
