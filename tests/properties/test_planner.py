"""The planner against an obvious slow one, on worlds that put everything together."""

import os

import pytest
from tests.support.slowplanner import SlowDraft, SlowPlanner
from tests.support.worlds import World, crowd, world

from wainwright.core.plan import plan
from wainwright.model.index import TypeIndex
from wainwright.model.plan import Plan, PlannedClaim

WORLDS = {"ci": 1200}.get(os.environ.get("HYPOTHESIS_PROFILE", ""), 180)
SHARES = 6


def planned(given: World) -> Plan:
    catalogs = {name: TypeIndex(types) for name, types in given.types.items()}
    return plan(given.snapshot, catalogs, given.options)


def slowly_planned(given: World) -> SlowPlanner:
    slow = SlowPlanner(given.snapshot, given.types, given.options)
    slow.left = slow.run()
    return slow


def of_claim(claim: PlannedClaim) -> dict[str, object]:
    return {
        "pool": claim.pool,
        "round": claim.round,
        "pods": list(claim.pods),
        "types": list(claim.choices.instance_types),
        "reservations": list(claim.choices.reservation_ids),
        "launch": (claim.launch.instance_type, claim.launch.price, claim.launch.reservation_id),
        "requirements": str(claim.requirements),
    }


def of_draft(draft: SlowDraft) -> dict[str, object]:
    assert draft.launch is not None
    kind, offering = draft.launch
    return {
        "pool": draft.pool.name,
        "round": draft.round,
        "pods": sorted(pod.key for pod in draft.pods),
        "types": sorted(kind.name for kind in draft.types),
        "reservations": sorted(draft.held),
        "launch": (kind.name, offering.price, offering.reservation_id),
        "requirements": str(draft.with_minimums()),
    }


def assert_agreement(given: World, seed: int) -> None:
    fast, slow = planned(given), slowly_planned(given)
    told = [pod for group in fast.unschedulable for pod in group.pods]
    assert [of_claim(each) for each in fast.claims] == [of_draft(d) for d in slow.drafts], seed
    assert {each.node: list(each.pods) for each in fast.placements} == {
        name: sorted(pod.key for pod in pods) for name, pods in slow.on_nodes.items()
    }, seed
    assert sorted(told) == sorted(pod.key for pod in slow.left), seed


@pytest.mark.parametrize("share", range(SHARES))
def test_the_slow_planner_comes_to_the_same_plan(share: int) -> None:
    for seed in range(share, WORLDS, SHARES):
        assert_agreement(world(seed), seed)


def test_the_slow_planner_comes_to_the_same_plan_for_a_crowd_that_waits_for_slots() -> None:
    for seed in range(WORLDS // 60):
        assert_agreement(crowd(seed), seed)


def test_the_worlds_are_not_all_alike() -> None:
    """Agreement would be worth little if nothing interesting ever happened in them."""
    plans = [planned(world(seed)) for seed in range(WORLDS)]
    claims = [claim for each in plans for claim in each.claims]
    assert sum(claim.launch.reservation_id is not None for claim in claims) > len(claims) // 6
    assert sum(claim.round > 1 for claim in claims) > len(claims) // 25
    assert sum(bool(each.placements) for each in plans) > len(plans) // 10
    assert sum(bool(each.unschedulable) for each in plans) > len(plans) // 4
    assert any(claim.relaxed for claim in claims)
