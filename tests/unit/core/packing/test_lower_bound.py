"""The lower bound: what it takes into account, and what must not make it too high."""

from collections.abc import Sequence

import pytest
from tests.support.model_builders import GIB, instance_type, label_requirement, offering
from tests.support.packing_builders import GENERAL, packing_result, plan_by_cost

from wainwright.core.packing import linear_program, lower_bound
from wainwright.model.instance_type import InstanceType, Offering
from wainwright.model.labels import (
    ARCH,
    CAPACITY_TYPE,
    INSTANCE_SIZE,
    INSTANCE_TYPE,
    ON_DEMAND,
    RESERVED,
    SPOT,
    ZONE,
)
from wainwright.model.pod import (
    ALL_PODS,
    ANY_NODE_TERMS,
    NO_CONSTRAINTS,
    DaemonSet,
    Pod,
    PodConstraints,
    TopologySpread,
)
from wainwright.model.requirements import Requirements
from wainwright.model.snapshot import Node, Pool

EVEN = PodConstraints(spreads=(TopologySpread(key=ZONE, selector=ALL_PODS),))


def named_type(
    name: str, *offerings: Offering, cpu: int = 8, arch: str = "amd64", fee: float = 0.0
) -> InstanceType:
    size = name.partition(".")[2]
    return instance_type(
        name=name,
        labels={INSTANCE_TYPE: name, INSTANCE_SIZE: size, ARCH: arch},
        capacity={"cpu": cpu * 1000, "memory": 64 * GIB, "pods": 20},
        offerings=offerings or (offering(price=1.0),),
        fee=fee,
    )


def pods(
    count: int,
    name: str = "web",
    *,
    cpu: int = 4,
    alternatives: Sequence[Requirements] = ANY_NODE_TERMS,
    constraints: PodConstraints = NO_CONSTRAINTS,
) -> list[Pod]:
    return [
        Pod(
            namespace="shop",
            name=f"{name}-{number}",
            requests={"cpu": cpu * 1000},
            alternatives=tuple(alternatives),
            constraints=constraints,
        )
        for number in range(count)
    ]


def is_about(bound: float, expected: float) -> bool:
    return abs(bound - expected) < 1e-6


def test_the_bound_launches_nodes_in_fractions() -> None:
    result = packing_result(plan_by_cost(pods(3), [named_type("m.8")]))
    assert is_about(result.lower_bound, 1.5)
    assert result.cost == 2.0


def test_offerings_without_a_price_give_a_bound_of_zero() -> None:
    free = named_type("m.8", offering(price=0.0))
    result = packing_result(plan_by_cost(pods(3), [free, named_type("n.8")]))
    assert (result.cost, result.lower_bound) == (0.0, 0.0)


def test_capacity_that_no_sum_of_requests_reaches_is_not_usable() -> None:
    """With pods of three CPUs no more than six of eight are ever used."""
    assert is_about(
        packing_result(plan_by_cost(pods(4, cpu=3), [named_type("m.8")])).lower_bound, 2.0
    )


def test_fees_are_part_of_the_bound() -> None:
    assert is_about(
        packing_result(plan_by_cost(pods(2), [named_type("m.8", fee=0.25)])).lower_bound, 1.25
    )


def test_daemonset_overhead_raises_the_bound() -> None:
    agent = DaemonSet(namespace="system", name="agent", requests={"cpu": 4000})
    result = packing_result(plan_by_cost(pods(2), [named_type("m.8")], daemonsets=[agent]))
    assert is_about(result.lower_bound, 2.0)


def test_pods_that_require_an_expensive_zone_raise_the_bound() -> None:
    types = [
        named_type("m.8", offering(zone="zone-a", price=1.0), offering(zone="zone-b", price=3.0))
    ]
    zone_b_only = pods(2, "b", alternatives=(label_requirement(ZONE, "In", "zone-b"),))
    assert is_about(packing_result(plan_by_cost([*pods(2), *zone_b_only], types)).lower_bound, 4.0)


def test_pods_with_alternatives_count_at_the_cheapest() -> None:
    types = [named_type("m.8", offering(price=1.0), offering(capacity_type=SPOT, price=0.3))]
    either = (
        label_requirement(CAPACITY_TYPE, "In", ON_DEMAND),
        label_requirement(CAPACITY_TYPE, "In", SPOT),
    )
    assert is_about(
        packing_result(plan_by_cost(pods(2, alternatives=either), types)).lower_bound, 0.3
    )


def test_free_room_on_existing_nodes_lowers_the_bound() -> None:
    node = Node(name="n", allocatable={"cpu": 4000, "memory": GIB, "pods": 5})
    assert is_about(
        packing_result(plan_by_cost(pods(3), [named_type("m.8")], nodes=[node])).lower_bound, 1.0
    )


def test_reserved_capacity_lowers_the_bound_by_what_is_available() -> None:
    reserved = offering(capacity_type=RESERVED, price=1e-7, available=2, reservation_id="cr-1")
    result = packing_result(
        plan_by_cost(pods(6), [named_type("m.8", offering(price=1.0), reserved)])
    )
    assert is_about(result.lower_bound, 1.0)


def test_a_plan_that_launches_nothing_has_a_bound_of_zero() -> None:
    assert packing_result(plan_by_cost([], [named_type("m.8")])).lower_bound == 0.0
    assert packing_result(plan_by_cost(pods(1, cpu=9), [named_type("m.8")])).lower_bound == 0.0


def test_only_pods_with_a_place_count() -> None:
    result = packing_result(plan_by_cost([*pods(2), *pods(1, "huge", cpu=9)], [named_type("m.8")]))
    assert is_about(result.lower_bound, 1.0)


METAL = named_type("m.metal", offering(zone="zone-a", price=0.5))
"""Cheap, but launched only where no other type is possible."""
EXPENSIVE = named_type("m.8", offering(zone="zone-b", price=10.0))


def test_bare_metal_counts_only_where_it_would_be_launched() -> None:
    assert is_about(packing_result(plan_by_cost(pods(2), [METAL, EXPENSIVE])).lower_bound, 10.0)
    in_a = pods(2, alternatives=(label_requirement(ZONE, "In", "zone-a"),))
    assert is_about(packing_result(plan_by_cost(in_a, [METAL, EXPENSIVE])).lower_bound, 0.5)


def test_bare_metal_may_be_the_only_type_of_an_alternative() -> None:
    """Types of one alternative are not offered in the zones of the other."""
    amd = label_requirement(ARCH, "In", "amd64").narrow(label_requirement(ZONE, "In", "zone-a"))
    arm = label_requirement(ARCH, "In", "arm64").narrow(label_requirement(ZONE, "In", "zone-b"))
    result = packing_result(plan_by_cost(pods(2, alternatives=(amd, arm)), [METAL, EXPENSIVE]))
    assert result.lower_bound <= result.cost == 0.5


def test_bare_metal_may_be_the_only_type_in_a_zone_that_topology_requires() -> None:
    """Spread over zones, half of the pods have to be where no other type is offered."""
    result = packing_result(plan_by_cost(pods(2, cpu=8, constraints=EVEN), [METAL, EXPENSIVE]))
    assert result.lower_bound <= result.cost == 10.5


@pytest.mark.parametrize(
    "pool",
    [
        Pool(name="limited", limits={"nodes": 9}),
        Pool(name="diverse", requirements=label_requirement(INSTANCE_TYPE, min_values=1)),
        Pool(name="named", requirements=label_requirement(INSTANCE_SIZE, "In", "8", "metal")),
    ],
    ids=lambda pool: pool.name,
)
def test_bare_metal_may_be_the_only_type_that_a_pool_allows(pool: Pool) -> None:
    result = packing_result(plan_by_cost(pods(2), [METAL, EXPENSIVE], pools=[pool]))
    assert is_about(result.lower_bound, 0.5)


def test_pod_classes_beyond_the_maximum_count_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them count at the price of the cheapest: the bound is lower, and valid."""
    offers = [offering(zone=f"zone-{n}", price=1.0 + n) for n in range(6)]
    waiting = [
        pod
        for n in range(6)
        for pod in pods(
            2 + n % 2, f"app-{n}", alternatives=(label_requirement(ZONE, "In", f"zone-{n}"),)
        )
    ]
    exact = packing_result(plan_by_cost(waiting, [named_type("m.8", *offers)], pools=[GENERAL]))
    monkeypatch.setattr(lower_bound, "MAX_BOUND_CLASSES", 2)
    rough = packing_result(plan_by_cost(waiting, [named_type("m.8", *offers)], pools=[GENERAL]))
    assert 0 < rough.lower_bound < exact.lower_bound <= exact.cost == rough.cost


def test_bare_metal_may_be_the_only_type_of_merged_pod_classes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lower_bound, "MAX_BOUND_CLASSES", 1)
    waiting = [
        *pods(4, "a", alternatives=(label_requirement(ZONE, "In", "zone-a"),)),
        *pods(2, "b", alternatives=(label_requirement(ZONE, "In", "zone-b"),)),
    ]
    result = packing_result(plan_by_cost(waiting, [METAL, EXPENSIVE]))
    assert result.lower_bound <= result.cost == 11.0


@pytest.mark.parametrize("expensive", ["a", "b"])
def test_pools_that_share_a_reservation_may_all_use_its_capacity(expensive: str) -> None:
    """The reserved instance is worth most to the pods of the more expensive pool."""
    reserved = offering(capacity_type=RESERVED, price=1e-7, available=1, reservation_id="cr-1")
    types = {
        name: [named_type("m.8", offering(price=3.0 if name == expensive else 1.0), reserved)]
        for name in ("a", "b")
    }
    pools = [Pool(name=name, labels={"team": name}) for name in types]
    waiting = [
        p
        for name in types
        for p in pods(2, name, alternatives=(label_requirement("team", "In", name),))
    ]
    result = packing_result(plan_by_cost(waiting, types, pools=pools))
    assert is_about(result.lower_bound, 1.0)


def test_shadow_prices_that_are_not_optimal_give_a_valid_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The linear program may end early, at prices that are too high for the types offered."""
    types = [named_type("m.8"), named_type("m.4", offering(price=0.7), cpu=4)]
    waiting = [
        Pod(namespace="shop", name=f"web-{n}", requests={"cpu": 4000, "memory": 32 * GIB})
        for n in range(4)
    ]
    exact = packing_result(plan_by_cost(waiting, types))
    monkeypatch.setattr(linear_program, "MAX_PIVOTS", 0)
    rough = packing_result(plan_by_cost(waiting, types))
    assert 0 < rough.lower_bound < exact.lower_bound <= exact.cost
