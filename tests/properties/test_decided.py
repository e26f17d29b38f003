"""What decided where a pod went: told of the very plan, in worlds where much gets in the way."""

from collections.abc import Callable

import pytest
from tests.support.randomworlds import World, random_world
from tests.support.tiedworlds import tied_world

from wainwright.core.plan import plan
from wainwright.core.why.decided import Decision, decided
from wainwright.model.plan import PlannedClaim

MAKERS = {"plain": random_world, "tied": tied_world}
SEEDS = range(1, 41)


def told(world: World) -> list[tuple[PlannedClaim, str, Decision | None]]:
    """Every claim with each of its pods."""
    made = plan(world.snapshot, world.catalogs, world.options)
    return [
        (claim, pod, decided(world.snapshot, world.catalogs, world.options, claim, pod))
        for claim in made.claims
        for pod in claim.pods
    ]


@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS)
def test_of_every_pod_on_a_new_node_it_is_known_what_decided(
    maker: Callable[[int], World],
) -> None:
    for seed in SEEDS:
        for claim, pod, found in told(maker(seed)):
            assert found is not None, (seed, pod)
            assert set(found.joined) < set(claim.pods), (seed, pod)
            assert pod not in found.joined
            assert found.round >= claim.round


@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS)
def test_each_node_was_opened_for_one_pod_and_joined_by_the_others_in_turn(
    maker: Callable[[int], World],
) -> None:
    for seed in SEEDS:
        before: dict[str, list[int]] = {}
        for claim, _, found in told(maker(seed)):
            assert found is not None
            before.setdefault(claim.name, []).append(len(found.joined))
        assert all(sorted(each) == list(range(len(each))) for each in before.values()), seed


@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS)
def test_where_a_node_was_opened_every_heavier_pool_has_a_reason(
    maker: Callable[[int], World],
) -> None:
    for seed in SEEDS:
        world = maker(seed)
        weights = {pool.name: pool.weight for pool in world.snapshot.pools}
        for claim, pod, found in told(world):
            assert found is not None
            heavier = {name for name in weights if weights[name] > weights[claim.pool]}
            reasons = {word.pool: word.reason for word in found.earlier}
            assert heavier <= set(reasons), (seed, pod)
            assert found.joined or all(reasons[name] for name in heavier), (seed, pod)
