"""The growth rule: drafts stay cost-effective, and their room is used in later rounds."""

from collections import Counter
from collections.abc import Sequence
from typing import TypeAlias

import pytest
from tests.support.model_builders import GIB, instance_type, label_requirement, offering
from tests.support.packing_builders import (
    GENERAL,
    ZONES,
    instance_families,
    packing_result,
    plan_by_cost,
    varied_pods,
)

from wainwright.core.packing.cost_placement import COST_POLICIES, CostPolicy
from wainwright.core.plan import solve_snapshot
from wainwright.core.scheduling.solver import Strategy
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.labels import CAPACITY_TYPE, INSTANCE_FAMILY, ON_DEMAND, SPOT, ZONE
from wainwright.model.plan import Plan, PlanOptions
from wainwright.model.pod import (
    ANY_NODE_TERMS,
    HostPort,
    Pod,
    PodConstraints,
    TopologySpread,
    pod_selector,
)
from wainwright.model.snapshot import Node, Pool, Snapshot

Requests: TypeAlias = dict[str, int]
SPREAD = PodConstraints(spreads=(TopologySpread(key=ZONE, selector=pod_selector({"app": "web"})),))
"""Pods with a topology spread are not packed: only the growth rule places them."""


def types_of(found_plan: Plan) -> Counter[str]:
    return Counter(claim.launch.instance_type for claim in found_plan.claims)


def test_drafts_do_not_grow_into_types_with_a_high_price_for_their_resources() -> None:
    waiting = varied_pods(300, constraints=SPREAD)
    found_plan = plan_by_cost(waiting, instance_families())
    assert not [name for name in types_of(found_plan) if name.endswith(".64")]
    assert packing_result(found_plan).cost < 0.9 * packing_result(found_plan).first_fit
    assert found_plan.scheduled == 300


def test_a_pod_that_fits_only_the_expensive_type_gets_it() -> None:
    found_plan = plan_by_cost(varied_pods(4, constraints=SPREAD, scale=40), instance_families())
    assert found_plan.scheduled == 4
    assert any(name.endswith(".64") for name in types_of(found_plan))


def test_a_pod_that_requires_an_expensive_zone_does_not_join_a_draft_of_others() -> None:
    """Zone c costs twice as much."""
    types = [
        instance_type(
            name=f"m.{cpus}",
            capacity={"cpu": cpus * 1000, "memory": cpus * 4 * GIB, "pods": 50},
            offerings=tuple(
                offering(zone=zone, price=cpus * factor)
                for zone, factor in (("zone-a", 0.04), ("zone-b", 0.04), ("zone-c", 0.08))
            ),
        )
        for cpus in (2, 8, 32)
    ]
    zone_c_only = (label_requirement(ZONE, "In", "zone-c"),)
    waiting = [
        pod
        for number in range(40)
        for pod in varied_pods(
            1,
            f"app-{number}",
            constraints=PodConstraints(ports=(HostPort(port=8000 + number),)),
            alternatives=ANY_NODE_TERMS if number % 8 else zone_c_only,
        )
    ]
    found_plan = plan_by_cost(waiting, types)
    expensive = [
        claim.launch.instance_type for claim in found_plan.claims if claim.launch.zone == "zone-c"
    ]
    assert expensive == ["m.2"]


def test_pods_refused_for_their_cost_join_the_draft_when_its_round_is_over() -> None:
    """No other node may be opened for them."""
    tight = Pool(name="tight", limits={"nodes": 1})
    waiting, types = varied_pods(12, constraints=SPREAD), instance_families(zones=("zone-a",))
    found_plan = plan_by_cost(waiting, types, pools=[tight])
    first_fit = plan_by_cost(waiting, types, pools=[tight], options=PlanOptions())
    assert found_plan.scheduled == first_fit.scheduled > 0
    assert len(found_plan.claims) == 1


@pytest.mark.parametrize("cheap", ["a", "b"])
def test_of_pools_of_equal_weight_the_cheapest_for_the_pod_is_used(cheap: str) -> None:
    capacity_types = {name: SPOT if name == cheap else ON_DEMAND for name in ("a", "b")}
    pools = [
        Pool(name=name, requirements=label_requirement(CAPACITY_TYPE, "In", each))
        for name, each in capacity_types.items()
    ]
    found_plan = plan_by_cost(varied_pods(60, constraints=SPREAD), instance_families(), pools=pools)
    assert {claim.pool for claim in found_plan.claims} == {cheap}


def test_a_draft_keeps_a_single_type_that_is_cost_effective_for_all_its_pods() -> None:
    """Many pods would need the CPU of one type and the memory of another: only a third has both."""
    shapes = {"cpu": (32, 64, 1.0), "memory": (8, 256, 1.0), "both": (64, 512, 20.0)}
    types = [
        instance_type(
            name=name,
            capacity={"cpu": cpus * 1000, "memory": gib * GIB, "pods": 200},
            offerings=tuple(offering(zone=zone, price=cost) for zone in ZONES),
        )
        for name, (cpus, gib, cost) in shapes.items()
    ]
    waiting = [
        Pod(
            namespace="shop",
            name=f"web-{n}",
            labels={"app": "web"},
            requests={"cpu": 3000, "memory": 24 * GIB},
            constraints=SPREAD,
        )
        for n in range(30)
    ]
    snapshot = Snapshot(pods=tuple(waiting), pools=(GENERAL,))
    policy = next(each for each in COST_POLICIES if not each.prepack)
    solution = solve_snapshot(
        snapshot,
        {"general": InstanceTypeIndex(types)},
        PlanOptions(),
        Strategy(policy.create),
    )
    launches = [draft.launch_choice for draft in solution.drafts if draft.launch_choice is not None]
    assert solution.unplaced_count == 0
    assert {each.offering.price for each in launches} == {1.0}


def test_a_pod_that_requires_an_expensive_family_does_not_fill_its_node_with_others() -> None:
    """Memory types cost more for each CPU: two pods that need them do not justify a full node."""
    memory_only = varied_pods(
        2,
        "picky",
        alternatives=(label_requirement(INSTANCE_FAMILY, "In", "r"),),
        constraints=SPREAD,
    )
    small = [
        Pod(namespace="shop", name=f"cpu-{n}", requests={"cpu": 1000, "memory": GIB // 4})
        for n in range(60)
    ]
    found_plan = plan_by_cost([*memory_only, *small], instance_families(), pools=[GENERAL])
    memory = [claim for claim in found_plan.claims if claim.launch.instance_type.startswith("r.")]
    assert sum(len(claim.pods) for claim in memory) < 12


DISK = "example.com/disk"


def left_out(
    policy: CostPolicy, types: Sequence[tuple[dict[str, int], float]], *requests: Requests
) -> int:
    """How many pods find no place where one node may be opened.

    An existing node holds many others, so that CPU and memory have their shadow prices.
    """
    full = Node(name="full", allocatable={"cpu": 64_000, "memory": 640, "pods": 80})
    others = [{"cpu": 4000}] * 16 + [{"memory": 10}] * 64
    waiting = [
        Pod(namespace="shop", name=f"pod-{number}", requests=each)
        for number, each in enumerate([*others, *requests])
    ]
    index = InstanceTypeIndex(
        instance_type(
            name=f"type-{number}",
            capacity={**capacity, "pods": 20},
            offerings=(offering(price=cost),),
        )
        for number, (capacity, cost) in enumerate(types)
    )
    tight = Pool(name="tight", limits={"nodes": 1})
    snapshot = Snapshot(pods=tuple(waiting), pools=(tight,), nodes=(full,))
    return solve_snapshot(
        snapshot, {"tight": index}, PlanOptions(), Strategy(policy.create)
    ).unplaced_count


@pytest.mark.parametrize("policy", COST_POLICIES, ids=str)
def test_a_pinned_draft_has_the_room_of_the_type_it_is_pinned_to(policy: CostPolicy) -> None:
    """While it grows the cost-effective type counts, which has less of one resource."""
    cost_effective = ({"cpu": 8000, "memory": 80, DISK: 2}, 1.6)
    small = ({"cpu": 2000, "memory": 10, DISK: 4}, 1.2)
    assert left_out(policy, [cost_effective, small], {"cpu": 1000}, {"cpu": 500, DISK: 3}) == 0


@pytest.mark.parametrize("policy", COST_POLICIES, ids=str)
def test_a_pod_refused_for_its_cost_is_tried_again_on_the_pinned_draft(policy: CostPolicy) -> None:
    """It would leave the draft no cost-effective type, but fits the type that is pinned."""
    cost_effective = [
        ({"cpu": 8000, "memory": 10, DISK: 2}, 0.9),
        ({"cpu": 4000, "memory": 60, DISK: 4}, 1.0),
    ]
    small = ({"cpu": 5000, "memory": 5, DISK: 4}, 0.85)
    first, second = {"cpu": 3000, DISK: 1}, {"cpu": 2000, DISK: 3}
    assert left_out(policy, [*cost_effective, small], first, second) == 0
