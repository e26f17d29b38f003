"""Law 22: the planner and the obvious one come to the same plan."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.obvious import Draft, ObviousPlanner, choices, launch
from tests.support.randomworlds import World, crowd, random_world

from wainwright.core.plan import plan
from wainwright.model.plan import PlannedClaim

SEEDS = st.integers(min_value=0, max_value=10**9)
WORLDS = settings().max_examples ** 2 // 10  # 250, and 1,000 where nobody waits
thorough = settings(max_examples=WORLDS)


@thorough
@given(seed=SEEDS)
def test_law_22_the_planner_and_the_obvious_one_agree(seed: int) -> None:
    assert_agreement(random_world(seed))


@settings(max_examples=WORLDS // 80)  # such a world takes the obvious planner half a second
@given(seed=SEEDS)
def test_law_22_they_agree_on_a_crowd_that_waits_for_slots(seed: int) -> None:
    assert_agreement(crowd(seed))


def test_the_worlds_are_not_all_alike() -> None:
    """Agreement would be worth little if nothing interesting ever happened in them."""
    worlds = [random_world(seed) for seed in range(150)]
    plans = [plan(each.snapshot, each.catalogs, each.options) for each in worlds]
    claims = [claim for each in plans for claim in each.claims]
    assert len(claims) > len(plans)
    assert sum(claim.launch.reservation_id is not None for claim in claims) > len(claims) // 5
    assert sum(claim.round > 1 for claim in claims) > len(claims) // 20
    assert sum(claim.fees > 0 for claim in claims) > len(claims) // 5
    assert sum(bool(each.placements) for each in plans) > len(plans) // 10
    assert sum(bool(each.unschedulable) for each in plans) > len(plans) // 4
    assert any(claim.relaxed for claim in claims)
    assert any(each.relaxed for each in plans)


def assert_agreement(world: World) -> None:
    made = plan(world.snapshot, world.catalogs, world.options)
    obvious = ObviousPlanner(world)
    obvious.run()
    assert [told(claim) for claim in made.claims] == [found(draft) for draft in obvious.drafts]
    assert {each.node: list(each.pods) for each in made.placements} == {
        node: sorted(pod.key for pod in pods) for node, pods in obvious.received.items() if pods
    }
    placed = {key for claim in made.claims for key in claim.pods}
    placed |= {key for placement in made.placements for key in placement.pods}
    unplaced = [pod.key for pod in world.snapshot.pods if pod.key not in placed]
    assert sorted(unplaced) == sorted(pod.key for pod in obvious.unplaced)
    assert {key for group in made.relaxed for key in group.pods} == obvious.relaxed


MEMORIES = {
    "wainwright.core.drafts.LEVELS": 10**6,
    "wainwright.core.narrowing.REMEMBERED": 1,
    "wainwright.core.patience.FEW": 1,
    "wainwright.core.patience.LENGTH": 2,
    "wainwright.core.patience.PARTS": 2,
    "wainwright.core.reservations.REMEMBERED": 1,
    "wainwright.core.slack.BLOCK": 2,
    "wainwright.core.slack.MARKS": 11,
    "wainwright.model.columns.REMEMBERED": 1,
    "wainwright.model.markets.REMEMBERED": 1,
}
"""Sizes that only a large world would come up against."""


@given(seed=SEEDS)
def test_a_short_memory_changes_nothing(seed: int) -> None:
    world = random_world(seed)
    made = plan(world.snapshot, world.catalogs, world.options)
    with pytest.MonkeyPatch.context() as patch:
        for name, size in MEMORIES.items():
            patch.setattr(name, size)
        assert plan(world.snapshot, world.catalogs, world.options) == made


def told(claim: PlannedClaim) -> list[object]:
    asked = str(claim.requirements)
    made = [claim.pool, claim.round, list(claim.pods), asked]
    return [*made, claim.choices, claim.launch, claim.fees, claim.relaxed]


def found(draft: Draft) -> list[object]:
    assert draft.launch is not None
    pods = sorted(pod.key for pod in draft.pods)
    wanted, fee = draft.shop.minimums, draft.launch[0].fee
    relaxed = tuple(sorted(key for key, least in draft.minimums.items() if least < wanted[key]))
    made = [draft.shop.pool.name, draft.round, pods, str(draft.requirements)]
    return [*made, choices(draft), launch(draft), fee, relaxed]
