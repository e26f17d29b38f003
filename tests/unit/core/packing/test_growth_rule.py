"""The growth rule: drafts stay good buys, and what is left on them is used all the same."""

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
"""Who is spread is in no load: for him there is only the growth rule."""


def types_of(made: Plan) -> Counter[str]:
    return Counter(claim.launch.instance_type for claim in made.claims)


def test_drafts_do_not_grow_into_what_is_dear_for_what_it_has() -> None:
    waiting = varied_pods(300, constraints=SPREAD)
    made = plan_by_cost(waiting, instance_families())
    assert not [name for name in types_of(made) if name.endswith(".64")]
    assert packing_result(made).cost < 0.9 * packing_result(made).first_fit
    assert made.scheduled == 300


def test_a_pod_that_only_the_dear_type_holds_gets_it() -> None:
    made = plan_by_cost(varied_pods(4, constraints=SPREAD, scale=40), instance_families())
    assert made.scheduled == 4
    assert any(name.endswith(".64") for name in types_of(made))


def test_nobody_makes_a_draft_much_dearer_for_the_others() -> None:
    """Zone c costs twice as much: whoever insists on it does not drag the others there."""
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
    insisting = (label_requirement(ZONE, "In", "zone-c"),)
    waiting = [
        pod
        for number in range(40)
        for pod in varied_pods(
            1,
            f"app-{number}",
            constraints=PodConstraints(ports=(HostPort(port=8000 + number),)),
            asks=ANY_NODE_TERMS if number % 8 else insisting,
        )
    ]
    made = plan_by_cost(waiting, types)
    dear = [claim.launch.instance_type for claim in made.claims if claim.launch.zone == "zone-c"]
    assert dear == ["m.2"]


def test_what_is_left_when_a_round_is_over_is_for_whoever_fits() -> None:
    """Refused for the sake of the cost, pods ask again where nothing else may be opened."""
    tight = Pool(name="tight", limits={"nodes": 1})
    waiting, types = varied_pods(12, constraints=SPREAD), instance_families(zones=("zone-a",))
    made = plan_by_cost(waiting, types, pools=[tight])
    first_fit = plan_by_cost(waiting, types, pools=[tight], options=PlanOptions())
    assert made.scheduled == first_fit.scheduled > 0
    assert len(made.claims) == 1


@pytest.mark.parametrize("cheap", ["a", "b"])
def test_of_pools_of_one_weight_the_one_with_the_best_buy_is_asked(cheap: str) -> None:
    sold = {name: SPOT if name == cheap else ON_DEMAND for name in ("a", "b")}
    pools = [
        Pool(name=name, requirements=label_requirement(CAPACITY_TYPE, "In", each))
        for name, each in sold.items()
    ]
    made = plan_by_cost(varied_pods(60, constraints=SPREAD), instance_families(), pools=pools)
    assert {claim.pool for claim in made.claims} == {cheap}


def test_a_draft_keeps_one_type_that_is_a_good_buy_in_every_respect() -> None:
    """Two pods need the cpus of the one and the memory of the other; for more there is one type."""
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
    found = solve_snapshot(
        snapshot, {"general": InstanceTypeIndex(types)}, PlanOptions(), Strategy(policy.placing)
    )
    bought = [
        draft.launch_choice
        for draft in found.rounds.table.drafts
        if draft.launch_choice is not None
    ]
    assert found.unplaced_count == 0
    assert {each.offering.price for each in bought} == {1.0}


def test_a_pod_that_would_have_a_family_of_its_own_is_not_put_with_the_others() -> None:
    """Memory types cost more for each cpu: one pod that asks for them is not worth a whole node."""
    picky = varied_pods(
        2, "picky", asks=(label_requirement(INSTANCE_FAMILY, "In", "r"),), constraints=SPREAD
    )
    small = [
        Pod(namespace="shop", name=f"cpu-{n}", requests={"cpu": 1000, "memory": GIB // 4})
        for n in range(60)
    ]
    made = plan_by_cost([*picky, *small], instance_families(), pools=[GENERAL])
    memory = [claim for claim in made.claims if claim.launch.instance_type.startswith("r.")]
    assert sum(len(claim.pods) for claim in memory) < 12


DISK = "example.com/disk"


def left_out(
    policy: CostPolicy, types: Sequence[tuple[dict[str, int], float]], *asked: Requests
) -> int:
    """How many pods find no place where one node may be opened.

    Nodes of the cluster hold many others, who make sure that cpus and memory have their price.
    """
    full = Node(name="full", allocatable={"cpu": 64_000, "memory": 640, "pods": 80})
    others = [{"cpu": 4000}] * 16 + [{"memory": 10}] * 64
    waiting = [
        Pod(namespace="shop", name=f"pod-{number}", requests=each)
        for number, each in enumerate([*others, *asked])
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
        snapshot, {"tight": index}, PlanOptions(), Strategy(policy.placing)
    ).unplaced_count


@pytest.mark.parametrize("policy", COST_POLICIES, ids=str)
def test_a_pinned_draft_has_the_room_of_its_own_type(policy: CostPolicy) -> None:
    """While it grows it minds the good buy, which has less of one thing than what it becomes."""
    good = ({"cpu": 8000, "memory": 80, DISK: 2}, 1.6)
    small = ({"cpu": 2000, "memory": 10, DISK: 4}, 1.2)
    assert left_out(policy, [good, small], {"cpu": 1000}, {"cpu": 500, DISK: 3}) == 0


@pytest.mark.parametrize("policy", COST_POLICIES, ids=str)
def test_who_was_refused_for_the_sake_of_the_cost_asks_again(policy: CostPolicy) -> None:
    """He would leave a draft neither good buy; what it is pinned to holds him all the same."""
    good = [
        ({"cpu": 8000, "memory": 10, DISK: 2}, 0.9),
        ({"cpu": 4000, "memory": 60, DISK: 4}, 1.0),
    ]
    small = ({"cpu": 5000, "memory": 5, DISK: 4}, 0.85)
    first, second = {"cpu": 3000, DISK: 1}, {"cpu": 2000, DISK: 3}
    assert left_out(policy, [*good, small], first, second) == 0
