"""A look that goes on from the one before comes to the same commands as one that begins anew: on
random clusters with several NodePools, topology, limits and budgets, whose pods and nodes change.

`DISRUPTION_CLUSTERS=5000` looks at a fifth of that many clusters.
"""

import os
from collections.abc import Sequence
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from tests.properties.test_disruption_commands import (
    SEEDS,
    UNSHRUNK,
    disruption_input,
    options_for,
)
from tests.support.random_inputs.disruptable import random_disruptable_cluster
from tests.unit.core.disruption.test_commands import WEB, node, types
from tests.unit.core.disruption.test_incremental_passes import summary

from wainwright.core.disruption.disruption_input import DisruptionInput, DisruptionOptions
from wainwright.core.disruption.disruption_pass import DisruptionPass
from wainwright.core.removal_simulation import ClusterSimulator
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.snapshot import Node, Snapshot

CLUSTERS = int(os.environ.get("DISRUPTION_CLUSTERS", "250")) // 5
LOOKS = 4
EVERY_REPETITION = 100_000
"""A look that puts some repetitions off would find their commands later."""


def with_known_allowances(given_: DisruptionInput) -> DisruptionInput:
    """PodDisruptionBudgets as an API server states them: others make each look begin anew."""
    snapshot = given_.snapshot
    budgets = tuple(
        msgspec.structs.replace(each, disruptions_allowed=1)
        if each.disruptions_allowed is None
        else each
        for each in snapshot.pod_disruption_budgets
    )
    changed = msgspec.structs.replace(snapshot, pod_disruption_budgets=budgets)
    return msgspec.structs.replace(given_, snapshot=changed)


def with_nodes(given_: DisruptionInput, nodes: Sequence[Node]) -> DisruptionInput:
    snapshot = msgspec.structs.replace(given_.snapshot, nodes=tuple(nodes))
    return msgspec.structs.replace(given_, snapshot=snapshot)


def change(given_: DisruptionInput, rng: Random) -> DisruptionInput | None:
    """A pod is gone, or on another node, or its node is gone; None if there is no pod left."""
    nodes = list(given_.snapshot.nodes)
    occupied = [number for number, each in enumerate(nodes) if each.pods]
    if not occupied:
        return None
    place = rng.choice(occupied)
    pods = list(nodes[place].pods)
    pod = pods.pop(rng.randrange(len(pods)))
    nodes[place] = msgspec.structs.replace(nodes[place], pods=tuple(pods))
    kind = rng.random()
    if kind < 0.4:
        target = rng.randrange(len(nodes))
        pods = [*nodes[target].pods, pod]
        nodes[target] = msgspec.structs.replace(nodes[target], pods=tuple(pods))
    elif kind < 0.6:
        nodes.pop(place)
    return with_nodes(given_, nodes)


@settings(max_examples=CLUSTERS, phases=UNSHRUNK)
@given(seed=SEEDS)
def test_looks_that_go_on_find_what_those_find_that_begin_anew(seed: int) -> None:
    made, rng = random_disruptable_cluster(seed), Random(seed)
    options = options_for(seed, made.cluster)
    options = msgspec.structs.replace(options, max_repetitions=EVERY_REPETITION)
    current: DisruptionInput | None = with_known_allowances(disruption_input(made, made.cluster))
    previous = None
    for look in range(LOOKS):
        if current is None:
            return
        previous = DisruptionPass(current, options, previous)
        expected = DisruptionPass(current, options).find_command()
        assert summary(previous.find_command()) == summary(expected), look
        current = change(current, rng)


@pytest.mark.parametrize("changed", [0, 57, 99])
def test_after_a_change_of_one_nodes_pods_the_others_are_not_simulated_again(
    changed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulated: list[str] = []
    solve = ClusterSimulator.solve_without

    def noted(self: ClusterSimulator, names: Sequence[str], *rest: Any, **more: Any) -> Any:
        simulated.extend(names)
        return solve(self, names, *rest, **more)

    monkeypatch.setattr(ClusterSimulator, "solve_without", noted)
    # Full nodes: nobody's pods fit elsewhere, and no cheaper type has room for them.
    nodes = [node(f"n{number:03}", "small", 500, 450) for number in range(100)]
    options = DisruptionOptions(max_repetitions=EVERY_REPETITION)
    looked_at = DisruptionInput(
        snapshot=Snapshot(nodes=tuple(nodes), pools=(WEB,), now=1.0),
        catalogs={"web": InstanceTypeIndex(types())},
    )
    first = DisruptionPass(looked_at, options)
    assert first.find_command() is None
    assert {*simulated} == {each.name for each in nodes}
    simulated.clear()
    fuller = node(nodes[changed].name, "small", 500, 460)
    nodes[changed] = msgspec.structs.replace(nodes[changed], pods=fuller.pods)
    following = DisruptionPass(with_nodes(looked_at, nodes), options, first)
    assert following.find_command() is None
    assert nodes[changed].name in simulated
    assert len({*simulated}) <= 10, "only what the change can affect"
