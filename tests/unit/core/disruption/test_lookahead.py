"""Sequences of commands, compared by where they end."""

from typing import Any

import msgspec
import pytest
from tests.properties.test_disruption_commands import disruption_input, options_for
from tests.support.random_inputs.disruptable import random_disruptable_cluster
from tests.unit.core.disruption.test_commands import WEB, node, types, with_budget

from wainwright.core.disruption.commands import ONE_LOOK, Command, Search, SearchStrategy
from wainwright.core.disruption.disruption_input import (
    LOOK_AHEAD_NODES,
    DisruptionInput,
    DisruptionOptions,
)
from wainwright.core.disruption.disruption_pass import DisruptionPass
from wainwright.core.disruption.lookahead import (
    CommandSequence,
    after_command,
    find_sequence,
)
from wainwright.core.disruption.preview import preview_disruption
from wainwright.model.disruption import Condition, DisruptionBudget, NodeClaimState
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.snapshot import Node, Pool, Snapshot

MERGED_TOO_SOON = (
    node("a", "huge", 1200, 2500),
    node("b", "small", 400),
    node("c", "large", 400),
)
"""Two nodes could go into the third, which then stays; better, it becomes smaller first."""
MOVED_TWICE = (
    node("a", "huge", 600, 1200),
    node("b", "medium", 300, 300),
    node("c", "medium", 1900),
)
"""One command has room left on b for a pod of a, and the next replaces b."""


def given(*nodes: Node, pool: Pool = WEB) -> DisruptionInput:
    snapshot = Snapshot(nodes=nodes, pools=(pool,), now=1000.0)
    return DisruptionInput(snapshot=snapshot, catalogs={"web": InstanceTypeIndex(types())})


def look(*nodes: Node, pool: Pool = WEB, **options: Any) -> DisruptionPass:
    return DisruptionPass(given(*nodes, pool=pool), DisruptionOptions(**options))


def one_by_one(looked: DisruptionPass) -> list[Command]:
    commands = []
    while (command := looked.find_command()) is not None:
        commands.append(command)
        looked = DisruptionPass(after_command(looked, command), looked.options)
    return commands


def names(sequence: CommandSequence) -> list[list[str]]:
    return [sorted(each.name for each in command.candidates) for command in sequence.commands]


def test_the_sequence_that_saves_most_in_the_end_is_chosen() -> None:
    looked = look(*MERGED_TOO_SOON)
    assert sum(each.saving for each in one_by_one(looked)) == pytest.approx(0.5)
    sequence = find_sequence(looked)
    assert sequence.saving == pytest.approx(0.7)
    assert names(sequence) == [["a"], ["b"]]
    assert (sequence.settled, sequence.compared) == (True, True)


def test_pods_do_not_move_to_nodes_that_go_next() -> None:
    looked = look(*MOVED_TWICE)
    commands = one_by_one(looked)
    moved = [move.pod for command in commands for move in command.moves()]
    assert len(moved) - len(set(moved)) == 1
    sequence = find_sequence(looked)
    assert sequence.saving == pytest.approx(sum(each.saving for each in commands))
    assert sequence.repeated_moves == 0
    assert sequence.evictions == 5


def test_sets_are_begun_with_expensive_nodes_too() -> None:
    nodes = (node("a", "large", 100), node("b", "huge", 300, 100, 1200), node("c", "huge", 2500))
    looked = look(*nodes)
    assert sum(each.saving for each in one_by_one(looked)) == pytest.approx(1.2)
    sequence = find_sequence(looked)
    assert names(sequence) == [["b", "c"]]
    assert sequence.saving == pytest.approx(1.5)
    assert sequence.repeated_moves == 0


def test_deciding_anew_after_every_command_comes_to_the_same_end() -> None:
    looked, saved = look(*MERGED_TOO_SOON), 0.0
    for _ in range(10):
        sequence = find_sequence(looked)
        if not sequence.commands:
            break
        saved += sequence.commands[0].saving
        looked = DisruptionPass(after_command(looked, sequence.commands[0]), looked.options)
    assert looked.find_command() is None
    assert saved == pytest.approx(0.7)


@pytest.mark.parametrize("look_ahead", [0, 29])
def test_too_many_nodes_are_not_looked_ahead_for(look_ahead: int) -> None:
    """Three nodes, and fewer than ten passes over them."""
    looked = look(*MERGED_TOO_SOON, look_ahead=look_ahead)
    sequence = find_sequence(looked)
    assert (sequence.commands, sequence.settled, sequence.compared) == ((), False, False)
    options = DisruptionOptions(look_ahead=look_ahead)
    found = preview_disruption(given(*MERGED_TOO_SOON), options)
    assert (found.settled, found.looked_ahead) == (True, False)
    assert found.price_before - found.price_after == pytest.approx(0.5)


def test_sequences_that_do_not_end_in_time_are_left_out() -> None:
    """Thirty nodes are looked at: enough for some sequences, too few for all of them."""
    sequence = find_sequence(look(*MOVED_TWICE, look_ahead=30))
    assert (sequence.settled, sequence.compared) == (True, False)
    assert sequence.saving == find_sequence(look(*MOVED_TWICE)).saving


def test_a_cluster_at_rest_has_nothing_to_compare() -> None:
    looked = look(node("a", "medium", 1900), look_ahead=0)
    sequence = find_sequence(looked)
    assert (sequence.commands, sequence.settled, sequence.compared) == ((), True, True)


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_fewer_steps_are_the_beginning_of_the_same_sequence(steps: int) -> None:
    everything = preview_disruption(given(*MERGED_TOO_SOON))
    found = preview_disruption(given(*MERGED_TOO_SOON), steps=steps)
    assert found.commands == everything.commands[:steps]
    assert found.settled == (steps >= 2)
    assert found.looked_ahead


def test_a_budget_is_kept_in_every_sequence() -> None:
    pool = with_budget(DisruptionBudget(nodes="1"))
    sequence = find_sequence(look(*MERGED_TOO_SOON, node("d", "large", 700), pool=pool))
    assert [len(command.candidates) for command in sequence.commands] == [1] * len(
        sequence.commands
    )


def drifted(name: str, size: str, *cpus: int) -> Node:
    condition = Condition(status="True", reason="NodePoolDrifted", since=100.0)
    return node(
        name, size, *cpus, claim=NodeClaimState(name=name, conditions={"Drifted": condition})
    )


def test_pods_of_a_drifted_node_do_not_move_to_another_that_goes_next() -> None:
    looked = look(drifted("a", "small", 600), drifted("b", "large", 100))
    moved = [move.pod for command in one_by_one(looked) for move in command.moves()]
    assert len(moved) == 3
    sequence = find_sequence(looked)
    assert (sequence.evictions, sequence.repeated_moves) == (2, 0)
    assert sequence.saving == pytest.approx(sum(each.saving for each in one_by_one(looked)))


def taken(strategy: SearchStrategy, *nodes: Node) -> list[str]:
    command = DisruptionPass(given(*nodes), strategy=strategy).find_command()
    return [] if command is None else sorted(each.name for each in command.candidates)


def test_no_pod_moves_to_nodes_that_are_avoided() -> None:
    nodes = (node("a", "small", 400), node("b", "large", 3500))
    assert taken(ONE_LOOK, *nodes) == ["a"]
    assert taken(SearchStrategy(avoided=frozenset({"b"})), *nodes) == []


def test_in_order_the_first_nodes_go_that_can_go_together() -> None:
    """The first two have no room elsewhere; that the first and the third could go is not seen."""
    nodes = (
        node("a", "medium", 900, 100),
        node("b", "huge", 3000, 3000),
        node("c", "small", 600),
    )
    assert taken(ONE_LOOK, *nodes) == ["a", "c"]
    assert taken(SearchStrategy(search=Search.IN_ORDER), *nodes) == ["a"]


@pytest.mark.parametrize("seed", [279, 1, 2, 3])
def test_no_search_that_goes_on_with_one_look_saves_more(seed: int) -> None:
    """In the first cluster a search finds nothing more where one look still does."""
    made = random_disruptable_cluster(seed)
    options = msgspec.structs.replace(options_for(seed, made.cluster), look_ahead=LOOK_AHEAD_NODES)
    first = DisruptionPass(disruption_input(made, made.cluster), options)
    best = max(_saving_of(first, SearchStrategy(search=search)) for search in Search)
    assert find_sequence(first).saving >= 0.99 * best


def _saving_of(first: DisruptionPass, strategy: SearchStrategy) -> float:
    state, saving = first.given, 0.0
    while True:
        looks = (DisruptionPass(state, first.options, strategy=s) for s in (strategy, ONE_LOOK))
        found = ((look, command) for look in looks if (command := look.find_command()) is not None)
        looked, command = next(found, (first, None))
        if command is None:
            return saving
        state, saving = after_command(looked, command), saving + command.saving
