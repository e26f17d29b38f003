"""Law 22: the planner and the obvious one come to the same plan."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.obvious import Draft, ObviousPlanner, choices, launch
from tests.support.randomworlds import random_world

from wainwright.core.plan import plan
from wainwright.model.plan import PlannedClaim

SEEDS = st.integers(min_value=0, max_value=10**9)
thorough = settings(max_examples=settings().max_examples ** 2 // 10)  # 250, or 1,000


@thorough
@given(seed=SEEDS)
def test_law_22_the_planner_and_the_obvious_one_agree(seed: int) -> None:
    world = random_world(seed)
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


MEMORIES = {
    "wainwright.core.drafts.FEW": 1,
    "wainwright.core.narrowing.REMEMBERED": 1,
    "wainwright.core.reservations.REMEMBERED": 1,
    "wainwright.core.slack.MARKS": 2,
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
