"""Law 25: what would become of pods without some nodes is what a plan without them says."""

from random import Random

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st
from tests.support.kube_scheduler.binding import cluster_after_plan
from tests.support.random_inputs.constrained import random_constrained_input, random_running_cluster
from tests.support.random_inputs.shrinking import describe_input, shrink_input
from tests.support.random_inputs.unconstrained import PlannerInput

from wainwright.core.plan import plan
from wainwright.core.simulation import ClusterSimulator, Simulation

SEEDS = st.integers(min_value=0, max_value=10**9)
UNSHRUNK = (Phase.explicit, Phase.reuse, Phase.generate)  # a smaller seed is no smaller world
QUESTIONS = 4


@settings(max_examples=settings().max_examples * 4, phases=UNSHRUNK)
@example(seed=191019)  # nobody may have a draft settle for what only nodes that go could give him
@given(seed=SEEDS)
def test_law_25_the_overlay_equals_a_plan_of_the_changed_cluster(seed: int) -> None:
    assert_law(random_running_cluster(seed), seed)


@settings(max_examples=settings().max_examples * 2, phases=UNSHRUNK)
@given(seed=SEEDS)
def test_law_25_it_does_in_the_cluster_that_a_plan_ends_with(seed: int) -> None:
    world = random_constrained_input(seed)
    made = plan(world.snapshot, world.catalogs, world.options)
    assert_law(cluster_after_plan(world, made), seed)


@settings(phases=UNSHRUNK)
@given(seed=SEEDS)
def test_law_25_no_question_leaves_a_trace(seed: int) -> None:
    world = random_running_cluster(seed)
    asked = questions(world, seed)
    view = ClusterSimulator(world.snapshot, world.catalogs, world.options)
    first = [view.remove_nodes(names) for names in asked]
    assert [view.remove_nodes(names) for names in asked] == first
    assert [view.remove_nodes(names) for names in reversed(asked)] == first[::-1]


def assert_law(world: PlannerInput, seed: int) -> None:
    asked = questions(world, seed)
    if not holds(world, asked):
        small = shrink_input(world, lambda smaller: not holds(smaller, asked))
        pytest.fail(f"without one of {asked} in\n{describe_input(small)}")


def questions(world: PlannerInput, seed: int) -> list[list[str]]:
    """Some sets of nodes, mostly of one."""
    dice = Random(seed)
    names = [node.name for node in world.snapshot.nodes if not node.deleting]
    sizes = [min(len(names), dice.choice((1, 1, 2, 3))) for _ in range(QUESTIONS)]
    return [dice.sample(names, size) for size in sizes if size]


def holds(world: PlannerInput, asked: list[list[str]]) -> bool:
    view = ClusterSimulator(world.snapshot, world.catalogs, world.options)
    standing = {node.name for node in world.snapshot.nodes if not node.deleting}
    return all(
        agrees(view.remove_nodes(names), view.replan_without(names))
        for names in asked
        if standing >= {*names}
    )


def agrees(quick: Simulation, rebuilt: Simulation) -> bool:
    """Who is left over is not the same: the quick way gives up at the second new node."""
    if quick.is_possible and rebuilt.is_possible:
        return quick == rebuilt
    return quick.is_possible == rebuilt.is_possible


def test_the_clusters_are_not_all_alike() -> None:
    found = []
    for seed in range(150):
        world = random_running_cluster(seed)
        view = ClusterSimulator(world.snapshot, world.catalogs, world.options)
        found += [view.remove_nodes(names) for names in questions(world, seed)]
    assert sum(each.claim is not None for each in found) > len(found) // 5
    assert sum(each.is_possible and bool(each.placements) for each in found) > len(found) // 5
    assert sum(not each.is_possible for each in found) > len(found) // 10
