"""Law 31: limits of the cluster hold, whatever NodePools, nodes and reservations there are."""

from math import fsum

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.model_builders import explained_plan
from tests.support.random_inputs.constrained import random_constrained_input
from tests.support.random_inputs.unconstrained import (
    PlannerInput,
    random_input,
    random_packable_input,
    with_cluster_limits,
)
from tests.support.reference_planner.first_fit import ReferenceClusterLimits

from wainwright.core.plan import plan
from wainwright.model.plan import ClusterLimits, PackingPolicy, Plan
from wainwright.model.reasons import LimitExceeded

SEEDS = st.integers(min_value=0, max_value=10**9)
TOLERANCE = 1e-6
INPUTS = settings().max_examples ** 2 // 20  # 125, and 500 in long runs


def total_usage(planner_input: PlannerInput, made: Plan) -> dict[str, float]:
    """Of what was there and what the plan launches, by name of limit."""
    before = ReferenceClusterLimits(planner_input)
    left = before.left((), worst=False)
    types = {
        (pool, kind.name): kind for pool, kinds in planner_input.types.items() for kind in kinds
    }
    launched = [types[claim.pool, claim.launch.instance_type].capacity for claim in made.claims]
    added = {
        "cpu": sum(each.get("cpu", 0) for each in launched),
        "memory": sum(each.get("memory", 0) for each in launched),
        "nodes": len(made.claims),
        "price": fsum(claim.launch.price + claim.fees for claim in made.claims),
    }
    return {name: before.limits[name] - left[name] + added[name] for name in left}


def assert_limits_hold(planner_input: PlannerInput) -> None:
    made = plan(planner_input.snapshot, planner_input.catalogs, planner_input.options)
    if made.claims:
        limits = ReferenceClusterLimits(planner_input).limits
        usage = total_usage(planner_input, made)
        assert all(usage[name] <= limits[name] + TOLERANCE for name in limits), (usage, limits)


@settings(max_examples=INPUTS)
@given(seed=SEEDS)
def test_law_31_no_plan_exceeds_a_limit_of_the_cluster(seed: int) -> None:
    assert_limits_hold(with_cluster_limits(random_input(seed), seed))
    assert_limits_hold(with_cluster_limits(random_constrained_input(seed), seed))


@settings(max_examples=INPUTS // 5)
@given(seed=SEEDS)
def test_law_31_nor_does_one_that_is_packed_by_cost(seed: int) -> None:
    limited = with_cluster_limits(random_packable_input(seed), seed)
    options = msgspec.structs.replace(limited.options, packing=PackingPolicy.COST)
    assert_limits_hold(msgspec.structs.replace(limited, options=options))


@settings(max_examples=INPUTS // 5)
@given(seed=SEEDS)
def test_a_limit_of_the_cluster_is_the_reason_where_it_is_in_the_way(seed: int) -> None:
    """Whoever has a place without the limits and none with them is told which one."""
    limited = with_cluster_limits(random_input(seed), seed)
    without = msgspec.structs.replace(limited.options, cluster_limits=ClusterLimits())
    made = explained_plan(limited.snapshot, limited.catalogs, limited.options)
    if made.unplaced == plan(limited.snapshot, limited.catalogs, without).unplaced or made.claims:
        return
    for group in made.unschedulable:
        if group.pods[0] not in plan(limited.snapshot, limited.catalogs, without).unplaced:
            reasons = [verdict.reason for verdict in group.pools]
            named = [each for each in reasons if isinstance(each, LimitExceeded)]
            assert any(each.of_cluster for each in named), reasons


def test_the_limits_matter_in_the_random_inputs() -> None:
    """Agreement would be worth little if they were never in the way."""
    changed = 0
    for seed in range(60):
        limited = with_cluster_limits(random_input(seed), seed)
        without = msgspec.structs.replace(limited.options, cluster_limits=ClusterLimits())
        plans = [plan(limited.snapshot, limited.catalogs, o) for o in (limited.options, without)]
        changed += plans[0].unplaced != plans[1].unplaced
    assert changed > 12


def test_limits_that_are_not_reached_change_no_place() -> None:
    planner_input, limits = random_input(7), ClusterLimits(nodes=10**6, price_per_hour=1e6)
    options = msgspec.structs.replace(planner_input.options, cluster_limits=limits)
    made, other = (
        plan(planner_input.snapshot, planner_input.catalogs, each)
        for each in (planner_input.options, options)
    )
    assert made.claims == other.claims
    assert made.unplaced == other.unplaced
