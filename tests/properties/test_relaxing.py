"""Law 26: preferences are given up in a fixed order, and change nothing that they need not."""

from collections.abc import Iterator
from typing import Any

import msgspec
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.support.model import asking
from tests.support.randomworlds import World
from tests.support.slowoutcome import planned
from tests.support.tiedworlds import tied_world

from wainwright.core.plan import plan
from wainwright.model.options import PreferencePolicy
from wainwright.model.pod import Bonds, Pod, PreferredNodes
from wainwright.model.preference import (
    AwayFromPods,
    GivenUp,
    NearPods,
    OnNodes,
    OnUntainted,
    SpreadEvenly,
)

SEEDS = st.integers(min_value=0, max_value=10**9)
UNSHRUNK = (Phase.explicit, Phase.reuse, Phase.generate)  # a smaller seed is no smaller world
NOWHERE = asking("example.com/nobody", "In", "has-it")
worlds = settings(max_examples=settings().max_examples * 2, phases=UNSHRUNK)


def in_order(bonds: Bonds) -> Iterator[GivenUp]:
    """Everything that a pod may give up, first things first."""
    for near in bonds.preferred_affinity:
        yield NearPods(term=near.term, weight=near.weight)
    for away in bonds.preferred_anti_affinity:
        yield AwayFromPods(term=away.term, weight=away.weight)
    for nodes in bonds.preferred_nodes:
        yield OnNodes(requirements=str(nodes.requirements), weight=nodes.weight)
    for spread in bonds.spreads:
        if not spread.required:
            yield SpreadEvenly(spread=spread)
    yield OnUntainted()


@worlds
@given(seed=SEEDS)
def test_law_26_they_go_in_the_fixed_order(seed: int) -> None:
    world = tied_world(seed)
    pods = {pod.key: pod for pod in world.snapshot.pods}
    made = plan(world.snapshot, world.catalogs, world.options)
    for group in made.relaxed:
        for key in group.pods:
            order = list(in_order(pods[key].bonds))
            if world.options.preference_policy is PreferencePolicy.IGNORE:
                order = order[-1:]
            assert list(group.given_up) == order[: len(group.given_up)] != []


@worlds
@given(seed=SEEDS)
def test_law_26_whoever_ignores_them_plans_as_if_there_were_none(seed: int) -> None:
    world = tied_world(seed)
    ignoring = msgspec.structs.replace(world.options, preference_policy=PreferencePolicy.IGNORE)
    heedless = msgspec.structs.replace(world, options=ignoring)
    assert planned(heedless) == planned(changed(heedless, without_preferences))


@worlds
@given(seed=SEEDS)
def test_law_26_what_nobody_can_have_changes_no_place(seed: int) -> None:
    """A preference for nodes that there cannot be is given up, and all is as before.

    Unless others come before it: they would have to be given up first.
    """
    world = changed(tied_world(seed), without_earlier_preferences)
    wishful = planned(changed(world, wishing))
    assert places(wishful) == places(planned(world))
    if world.options.preference_policy is PreferencePolicy.RESPECT:
        placed = len(world.snapshot.pods) - len(wishful["unplaced"])
        assert len(wishful["relaxed"]) == placed


def places(outcome: Any) -> Any:
    return [outcome[subject] for subject in ("claims", "nodes", "unplaced")]


def wishing(bonds: Bonds) -> Bonds:
    nowhere = PreferredNodes(weight=1, requirements=NOWHERE)
    return msgspec.structs.replace(bonds, preferred_nodes=(nowhere,))


def without_preferences(bonds: Bonds) -> Bonds:
    required = tuple(each for each in bonds.spreads if each.required)
    return msgspec.structs.replace(without_earlier_preferences(bonds), spreads=required)


def without_earlier_preferences(bonds: Bonds) -> Bonds:
    return msgspec.structs.replace(
        bonds, preferred_affinity=(), preferred_anti_affinity=(), preferred_nodes=()
    )


def changed(world: World, change: Any) -> World:
    pods = tuple(_changed(pod, change) for pod in world.snapshot.pods)
    snapshot = msgspec.structs.replace(world.snapshot, pods=pods)
    return msgspec.structs.replace(world, snapshot=snapshot)


def _changed(pod: Pod, change: Any) -> Pod:
    return msgspec.structs.replace(pod, bonds=change(pod.bonds))
