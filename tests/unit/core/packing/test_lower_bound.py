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


def kind(
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
    asks: Sequence[Requirements] = ANY_NODE_TERMS,
    constraints: PodConstraints = NO_CONSTRAINTS,
) -> list[Pod]:
    return [
        Pod(
            namespace="shop",
            name=f"{name}-{number}",
            requests={"cpu": cpu * 1000},
            alternatives=tuple(asks),
            constraints=constraints,
        )
        for number in range(count)
    ]


def is_about(bound: float, expected: float) -> bool:
    return abs(bound - expected) < 1e-6


def test_machines_can_be_cut_to_measure() -> None:
    found = packing_result(plan_by_cost(pods(3), [kind("m.8")]))
    assert is_about(found.lower_bound, 1.5)
    assert found.cost == 2.0


def test_what_is_free_costs_nothing() -> None:
    free = kind("m.8", offering(price=0.0))
    found = packing_result(plan_by_cost(pods(3), [free, kind("n.8")]))
    assert (found.cost, found.lower_bound) == (0.0, 0.0)


def test_what_pods_cannot_add_up_to_is_no_use() -> None:
    """Three cpus each: of eight no more than six are ever used."""
    assert is_about(packing_result(plan_by_cost(pods(4, cpu=3), [kind("m.8")])).lower_bound, 2.0)


def test_fees_count() -> None:
    assert is_about(
        packing_result(plan_by_cost(pods(2), [kind("m.8", fee=0.25)])).lower_bound, 1.25
    )


def test_daemonsets_take_their_share() -> None:
    agent = DaemonSet(namespace="system", name="agent", requests={"cpu": 4000})
    found = packing_result(plan_by_cost(pods(2), [kind("m.8")], daemonsets=[agent]))
    assert is_about(found.lower_bound, 2.0)


def test_who_insists_on_a_dear_zone_pays_for_it() -> None:
    types = [kind("m.8", offering(zone="zone-a", price=1.0), offering(zone="zone-b", price=3.0))]
    insisting = pods(2, "b", asks=(label_requirement(ZONE, "In", "zone-b"),))
    assert is_about(packing_result(plan_by_cost([*pods(2), *insisting], types)).lower_bound, 4.0)


def test_who_has_the_choice_pays_the_least() -> None:
    types = [kind("m.8", offering(price=1.0), offering(capacity_type=SPOT, price=0.3))]
    either = (
        label_requirement(CAPACITY_TYPE, "In", ON_DEMAND),
        label_requirement(CAPACITY_TYPE, "In", SPOT),
    )
    assert is_about(packing_result(plan_by_cost(pods(2, asks=either), types)).lower_bound, 0.3)


def test_room_on_nodes_need_not_be_bought() -> None:
    node = Node(name="n", allocatable={"cpu": 4000, "memory": GIB, "pods": 5})
    assert is_about(
        packing_result(plan_by_cost(pods(3), [kind("m.8")], nodes=[node])).lower_bound, 1.0
    )


def test_slots_are_nearly_free_but_there_are_only_so_many() -> None:
    slot = offering(capacity_type=RESERVED, price=1e-7, available=2, reservation_id="cr-1")
    found = packing_result(plan_by_cost(pods(6), [kind("m.8", offering(price=1.0), slot)]))
    assert is_about(found.lower_bound, 1.0)


def test_a_plan_that_buys_nothing_has_no_bound() -> None:
    assert packing_result(plan_by_cost([], [kind("m.8")])).lower_bound == 0.0
    assert packing_result(plan_by_cost(pods(1, cpu=9), [kind("m.8")])).lower_bound == 0.0


def test_only_those_who_have_a_place_count() -> None:
    found = packing_result(plan_by_cost([*pods(2), *pods(1, "huge", cpu=9)], [kind("m.8")]))
    assert is_about(found.lower_bound, 1.0)


METAL = kind("m.metal", offering(zone="zone-a", price=0.5))
"""Cheap, but launched only where nothing else will do."""
DEAR = kind("m.8", offering(zone="zone-b", price=10.0))


def test_a_whole_machine_counts_only_where_it_would_be_launched() -> None:
    assert is_about(packing_result(plan_by_cost(pods(2), [METAL, DEAR])).lower_bound, 10.0)
    in_a = pods(2, asks=(label_requirement(ZONE, "In", "zone-a"),))
    assert is_about(packing_result(plan_by_cost(in_a, [METAL, DEAR])).lower_bound, 0.5)


def test_a_whole_machine_may_be_all_that_an_alternative_leaves() -> None:
    """Types of the one alternative are not for sale in the zones of the other."""
    amd = label_requirement(ARCH, "In", "amd64").narrow(label_requirement(ZONE, "In", "zone-a"))
    arm = label_requirement(ARCH, "In", "arm64").narrow(label_requirement(ZONE, "In", "zone-b"))
    found = packing_result(plan_by_cost(pods(2, asks=(amd, arm)), [METAL, DEAR]))
    assert found.lower_bound <= found.cost == 0.5


def test_a_whole_machine_may_be_all_that_others_leave() -> None:
    """Spread over zones half of the pods have to be where nothing else is sold."""
    found = packing_result(plan_by_cost(pods(2, cpu=8, constraints=EVEN), [METAL, DEAR]))
    assert found.lower_bound <= found.cost == 10.5


@pytest.mark.parametrize(
    "pool",
    [
        Pool(name="limited", limits={"nodes": 9}),
        Pool(name="diverse", requirements=label_requirement(INSTANCE_TYPE, min_values=1)),
        Pool(name="named", requirements=label_requirement(INSTANCE_SIZE, "In", "8", "metal")),
    ],
    ids=lambda pool: pool.name,
)
def test_a_whole_machine_may_be_all_that_a_pool_leaves(pool: Pool) -> None:
    found = packing_result(plan_by_cost(pods(2), [METAL, DEAR], pools=[pool]))
    assert is_about(found.lower_bound, 0.5)


def test_many_kinds_of_pods_count_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of them who would have to pay more are taken not to: the bound is lower, and true."""
    offers = [offering(zone=f"zone-{n}", price=1.0 + n) for n in range(6)]
    waiting = [
        pod
        for n in range(6)
        for pod in pods(2 + n % 2, f"app-{n}", asks=(label_requirement(ZONE, "In", f"zone-{n}"),))
    ]
    exact = packing_result(plan_by_cost(waiting, [kind("m.8", *offers)], pools=[GENERAL]))
    monkeypatch.setattr(lower_bound, "MAX_BOUND_CLASSES", 2)
    rough = packing_result(plan_by_cost(waiting, [kind("m.8", *offers)], pools=[GENERAL]))
    assert 0 < rough.lower_bound < exact.lower_bound <= exact.cost == rough.cost


def test_whole_machines_may_be_left_to_some_of_many_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lower_bound, "MAX_BOUND_CLASSES", 1)
    waiting = [
        *pods(4, "a", asks=(label_requirement(ZONE, "In", "zone-a"),)),
        *pods(2, "b", asks=(label_requirement(ZONE, "In", "zone-b"),)),
    ]
    found = packing_result(plan_by_cost(waiting, [METAL, DEAR]))
    assert found.lower_bound <= found.cost == 11.0


@pytest.mark.parametrize("dear", ["a", "b"])
def test_pools_that_share_a_reservation_may_all_use_its_slots(dear: str) -> None:
    """The slot is worth most to those who would have to pay more."""
    slot = offering(capacity_type=RESERVED, price=1e-7, available=1, reservation_id="cr-1")
    types = {
        name: [kind("m.8", offering(price=3.0 if name == dear else 1.0), slot)]
        for name in ("a", "b")
    }
    pools = [Pool(name=name, labels={"team": name}) for name in types]
    waiting = [
        p for name in types for p in pods(2, name, asks=(label_requirement("team", "In", name),))
    ]
    found = packing_result(plan_by_cost(waiting, types, pools=pools))
    assert is_about(found.lower_bound, 1.0)


def test_prices_that_are_not_the_best_still_give_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program may end early, at prices that are too high for what is sold."""
    types = [kind("m.8"), kind("m.4", offering(price=0.7), cpu=4)]
    waiting = [
        Pod(namespace="shop", name=f"web-{n}", requests={"cpu": 4000, "memory": 32 * GIB})
        for n in range(4)
    ]
    exact = packing_result(plan_by_cost(waiting, types))
    monkeypatch.setattr(linear_program, "MAX_PIVOTS", 0)
    rough = packing_result(plan_by_cost(waiting, types))
    assert 0 < rough.lower_bound < exact.lower_bound <= exact.cost
