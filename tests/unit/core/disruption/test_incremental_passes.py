"""A pass that goes on from the one before finds the same commands as one that begins anew."""

from collections.abc import Sequence
from random import Random
from typing import Any

import msgspec
import pytest
from tests.unit.core.disruption.test_commands import WEB, node, pods, types

from wainwright.core.disruption.commands import Command
from wainwright.core.disruption.disruption_input import DisruptionInput
from wainwright.core.disruption.disruption_pass import SLICE, DisruptionPass
from wainwright.core.removal_simulation import ClusterSimulator
from wainwright.model.disruption import NodeClaimState, NodePoolDisruption
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.snapshot import Node, Snapshot

CATALOGS = {"web": InstanceTypeIndex(types())}
SIZES = ("small", "medium", "large", "huge")
ROOM = {"small": 1000, "medium": 2000, "large": 4000, "huge": 8000}
POOL = msgspec.structs.replace(
    WEB,
    disruption=NodePoolDisruption(budgets=WEB.disruption.budgets, consolidate_after=30.0),
)


class ChangingCluster:
    """Nodes come and go, pods come and go, some are pending, and time passes."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._now, self._number = 1000.0, 0
        self._nodes: list[Node] = []
        for _ in range(12):
            self._add_node()

    def step(self) -> Snapshot:
        self._now += self._random.choice([1.0, 10.0, 40.0])
        for _ in range(self._random.randrange(3)):
            change = self._random.choice([self._change_pods, self._add_node, self._remove_node])
            change()
        pending = self._random.choice([(), (), pods("pending", 700)])
        return Snapshot(nodes=tuple(self._nodes), pools=(POOL,), pods=pending, now=self._now)

    def _cpus(self, size: str) -> list[int]:
        room, found = ROOM[size], []
        while self._random.random() < 0.75 and room > 300:
            found.append(self._random.randrange(100, room))
            room -= found[-1]
        return found

    def _add_node(self) -> None:
        self._number += 1
        size, name = self._random.choice(SIZES), f"n{self._number:03}"
        claim = NodeClaimState(name=name, last_pod_event=self._now)
        self._nodes.append(node(name, size, *self._cpus(size), claim=claim))

    def _remove_node(self) -> None:
        if len(self._nodes) > 6:
            self._nodes.pop(self._random.randrange(len(self._nodes)))

    def _change_pods(self) -> None:
        place = self._random.randrange(len(self._nodes))
        old = self._nodes[place]
        size = old.labels["node.kubernetes.io/instance-type"]
        assert old.claim is not None
        claim = msgspec.structs.replace(old.claim, last_pod_event=self._now)
        changed = pods(old.name, *self._cpus(size))
        self._nodes[place] = msgspec.structs.replace(old, pods=changed, claim=claim)


def summary(command: Command | None) -> object:
    if command is None:
        return None
    return (
        command.method,
        sorted(each.name for each in command.candidates),
        [claim.launch.instance_type for claim in command.replacements],
        round(command.saving, 6),
    )


@pytest.mark.parametrize("seed", range(25))
def test_the_same_commands_as_a_pass_that_begins_anew(seed: int) -> None:
    cluster, previous = ChangingCluster(seed), None
    for step in range(12):
        given = DisruptionInput(snapshot=cluster.step(), catalogs=CATALOGS)
        previous = DisruptionPass(given, previous=previous)
        expected = DisruptionPass(given).find_command()
        assert summary(previous.find_command()) == summary(expected), step


@pytest.mark.parametrize("count", [30, 130])
def test_a_look_is_done_in_slices_between_which_others_may_work(count: int) -> None:
    nodes = tuple(node(f"n{number:03}", "small", 900) for number in range(count))
    given = DisruptionInput(
        snapshot=Snapshot(nodes=nodes, pools=(WEB,), now=1.0), catalogs=CATALOGS
    )
    looked = DisruptionPass(given)
    assert len(list(looked.prepare())) == count // SLICE
    assert summary(looked.find_command()) == summary(DisruptionPass(given).find_command())


def test_con_14_a_look_that_was_ended_early_is_gone_on_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    simulated: list[str] = []
    solve = ClusterSimulator.solve_without

    def noted(self: ClusterSimulator, names: Sequence[str], *rest: Any, **more: Any) -> Any:
        simulated.extend(names)
        return solve(self, names, *rest, **more)

    monkeypatch.setattr(ClusterSimulator, "solve_without", noted)
    nodes = tuple(node(f"n{number:03}", "small", 900) for number in range(2 * SLICE + 30))
    given = DisruptionInput(
        snapshot=Snapshot(nodes=nodes, pools=(WEB,), now=1.0), catalogs=CATALOGS
    )
    ended = DisruptionPass(given)
    next(ended.prepare())
    assert len(simulated) == SLICE
    following = DisruptionPass(given, previous=ended)
    list(following.prepare())
    assert sorted(simulated) == [each.name for each in nodes], "each of them once"


def test_where_something_is_empty_no_node_is_simulated_first() -> None:
    nodes = tuple(node(f"n{number:03}", "small", 900) for number in range(60))
    given = DisruptionInput(
        snapshot=Snapshot(nodes=(*nodes, node("e", "small")), pools=(WEB,), now=1.0),
        catalogs=CATALOGS,
    )
    assert list(DisruptionPass(given).prepare()) == []


def test_con_18_an_unchanged_cluster_is_not_evaluated_again_until_time_changes_something() -> None:
    claim = NodeClaimState(name="c", last_pod_event=1000.0)
    full = node("a", "medium", 1900, claim=claim)
    others = [node(f"n{number}", "huge", 7900) for number in range(3)]
    changed = NodeClaimState(name="d", last_pod_event=1005.0)
    others.append(node("later", "huge", 7900, claim=changed))
    at = Snapshot(nodes=(full, *others), pools=(POOL,), now=1010.0)
    first = DisruptionPass(DisruptionInput(snapshot=at, catalogs=CATALOGS))
    assert first.find_command() is None
    assert first.next_change == 1030.0, (
        "consolidateAfter of the first node is over, before the last one's"
    )
    later = msgspec.structs.replace(at, now=1029.0)
    second = DisruptionPass(DisruptionInput(snapshot=later, catalogs=CATALOGS), previous=first)
    assert second.is_at_rest
    settled = msgspec.structs.replace(at, now=1030.0)
    third = DisruptionPass(DisruptionInput(snapshot=settled, catalogs=CATALOGS), previous=second)
    assert not third.is_at_rest
