"""Plans by cost keep every constraint, and cost little more than the lower bound."""

from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec
import pytest
from tests.support.catalogue_builders import build_catalogue
from tests.support.model_builders import GIB, label_requirement, offering
from tests.support.packing_builders import (
    COST_OPTIONS,
    CPUS,
    MEMORY,
    ZONES,
    instance_families,
    packing_result,
    plan_by_cost,
    varied_pods,
)

from wainwright.model.instance_type import InstanceType
from wainwright.model.labels import (
    ARCH,
    CAPACITY_TYPE,
    INSTANCE_CATEGORY,
    INSTANCE_GENERATION,
    INSTANCE_SIZE,
    ON_DEMAND,
    RESERVED,
    SPOT,
    ZONE,
)
from wainwright.model.plan import Plan, PlannedNodeClaim, PlanOptions
from wainwright.model.pod import DaemonSet
from wainwright.model.requirements import Requirements
from wainwright.model.resources import Resources
from wainwright.model.snapshot import Node, Pool
from wainwright.model.taints import Taint, Toleration

TEAM = "example.com/team"
STRICT = msgspec.structs.replace(COST_OPTIONS, strict_weights=True)
CAPACITY = {f"{family}.{cpus}": cpus for family in MEMORY for cpus in CPUS}


def claims_of(found_plan: Plan, name: str) -> Iterator[PlannedNodeClaim]:
    """The claims that have pods of this app."""
    for claim in found_plan.claims:
        if any(key.startswith(f"shop/{name}-") for key in claim.pods):
            yield claim


def cpus(claims: Sequence[PlannedNodeClaim]) -> int:
    return sum(CAPACITY[claim.launch.instance_type] for claim in claims)


def assert_near_optimal(found_plan: Plan, count: int) -> None:
    """Otherwise the plan is that of first-fit, and nothing was tested."""
    assert found_plan.scheduled == count
    assert packing_result(found_plan).saved > 0


def test_pods_stay_in_their_zones_and_others_use_the_cheap_zone() -> None:
    """Zone c costs half as much, and only a third of the pods may go there."""
    factors = zip(ZONES, (1.0, 1.0, 0.5), strict=True)
    types = _priced(dict(factors))
    alternatives = {"a": "zone-a", "b": "zone-b"}
    waiting = [
        *(
            p
            for app, zone in alternatives.items()
            for p in varied_pods(30, app, alternatives=(label_requirement(ZONE, "In", zone),))
        ),
        *varied_pods(30, "any"),
    ]
    found_plan = plan_by_cost(waiting, types)
    assert_near_optimal(found_plan, 90)
    for app, zone in alternatives.items():
        assert {claim.choices.zones for claim in claims_of(found_plan, app)} == {(zone,)}
    assert "zone-c" in {claim.launch.zone for claim in claims_of(found_plan, "any")}


def _priced(factors: dict[str, float]) -> list[InstanceType]:
    """The instance families with other prices in some zones."""
    return [
        msgspec.structs.replace(
            kind,
            offerings=tuple(
                msgspec.structs.replace(each, price=each.price * factors[each.zone or ""])
                for each in kind.offerings
            ),
        )
        for kind in instance_families()
    ]


def test_pods_are_packed_within_their_node_selectors() -> None:
    """Arm costs less; and a node has one value of a label that the pool leaves open."""
    arm = [
        msgspec.structs.replace(kind, name=f"{kind.name}g", requirements=_arm(kind))
        for kind in instance_families(price_factors={ON_DEMAND: 0.7, SPOT: 0.3})
    ]
    either = Pool(name="either", requirements=label_requirement(TEAM, "In", "x", "y"))
    waiting = [
        *varied_pods(25, "amd", alternatives=(label_requirement(ARCH, "In", "amd64"),)),
        *varied_pods(25, "x", alternatives=(label_requirement(TEAM, "In", "x"),)),
        *varied_pods(25, "y", alternatives=(label_requirement(TEAM, "In", "y"),)),
        *varied_pods(25, "any"),
    ]
    found_plan = plan_by_cost(waiting, [*instance_families(), *arm], pools=[either])
    assert_near_optimal(found_plan, 100)
    assert not any(
        claim.launch.instance_type.endswith("g") for claim in claims_of(found_plan, "amd")
    )
    assert all(claim.requirements.single_value(TEAM) == "x" for claim in claims_of(found_plan, "x"))
    assert all(claim.requirements.single_value(TEAM) == "y" for claim in claims_of(found_plan, "y"))
    assert any(claim.launch.instance_type.endswith("g") for claim in claims_of(found_plan, "x"))


def _arm(kind: InstanceType) -> Requirements:
    return kind.requirements.without({ARCH, "node.kubernetes.io/instance-type"}).narrow(
        label_requirement(ARCH, "In", "arm64")
    )


def test_pods_that_require_on_demand_are_not_packed_on_spot() -> None:
    """Spot costs less than half, and half of the pods must not be interrupted."""
    on_demand_only = (label_requirement(CAPACITY_TYPE, "In", ON_DEMAND),)
    found_plan = plan_by_cost(
        [*varied_pods(45, "stable", alternatives=on_demand_only), *varied_pods(45, "any")],
        instance_families(),
    )
    assert_near_optimal(found_plan, 90)
    assert {claim.choices.capacity_types for claim in claims_of(found_plan, "stable")} == {
        (ON_DEMAND,)
    }
    assert SPOT in {claim.launch.capacity_type for claim in claims_of(found_plan, "any")}


def test_only_tolerating_pods_are_packed_into_the_tainted_pool() -> None:
    """The cheaper pool has a taint, and the same weight."""
    team = Taint(key=TEAM, value="a")
    expensive = Pool(
        name="expensive", requirements=label_requirement(CAPACITY_TYPE, "In", ON_DEMAND)
    )
    cheap = Pool(
        name="cheap", requirements=label_requirement(CAPACITY_TYPE, "In", SPOT), taints=(team,)
    )
    tolerant = (Toleration(key=TEAM, value="a"),)
    waiting = [*varied_pods(45, "any"), *varied_pods(45, "team", tolerations=tolerant)]
    found_plan = plan_by_cost(waiting, instance_families(), pools=[expensive, cheap])
    assert_near_optimal(found_plan, 90)
    assert {claim.pool for claim in claims_of(found_plan, "any")} == {"expensive"}
    assert "cheap" in {claim.pool for claim in claims_of(found_plan, "team")}


@pytest.mark.parametrize(
    ("limits", "in_use"),
    [({"cpu": 40_000}, {"cpu": 10_000}), ({"nodes": 4}, {"nodes": 2})],
    ids=["cpu", "nodes"],
)
def test_packed_nodes_stay_within_the_limits_of_a_pool(
    limits: Resources, in_use: Resources
) -> None:
    """The pool with the higher weight costs less, and may have 30 CPUs or two nodes more."""
    heavy = Pool(
        name="heavy",
        weight=10,
        requirements=label_requirement(CAPACITY_TYPE, "In", SPOT),
        limits=limits,
        in_use=in_use,
    )
    light = Pool(name="light", requirements=label_requirement(CAPACITY_TYPE, "In", ON_DEMAND))
    found_plan = plan_by_cost(varied_pods(90), instance_families(), pools=[heavy, light])
    assert_near_optimal(found_plan, 90)
    limited = [claim for claim in found_plan.claims if claim.pool == "heavy"]
    assert len(limited) < len(found_plan.claims)
    assert "cpu" not in limits or 20 < cpus(limited) <= 30
    assert "nodes" not in limits or len(limited) == 2


def test_a_limit_that_is_high_enough_costs_nothing() -> None:
    """Within a round drafts count as their largest type, and packed nodes wait until that ends."""
    spot = label_requirement(CAPACITY_TYPE, "In", SPOT)
    heavy = Pool(name="heavy", weight=10, requirements=spot, limits={"cpu": 80_000})
    light = Pool(name="light", requirements=label_requirement(CAPACITY_TYPE, "In", ON_DEMAND))
    found_plan = plan_by_cost(varied_pods(90), instance_families(), pools=[heavy, light])
    free = plan_by_cost(
        varied_pods(90), instance_families(), pools=[Pool(name="free", requirements=spot)]
    )
    assert {claim.pool for claim in found_plan.claims} == {"heavy"}
    assert packing_result(found_plan).cost < packing_result(free).cost * 1.01


def test_a_limit_that_is_too_low_leaves_no_more_pods_out_than_first_fit() -> None:
    """At least as many pods are placed as by first-fit, and the limit is used."""
    only = Pool(name="only", limits={"cpu": 32_000})
    found_plan = plan_by_cost(varied_pods(90), instance_families(), pools=[only])
    first_fit = plan_by_cost(
        varied_pods(90), instance_families(), pools=[only], options=PlanOptions()
    )
    assert cpus(found_plan.claims) <= 32
    assert found_plan.scheduled >= first_fit.scheduled > 0
    assert found_plan.unscheduled == 90 - found_plan.scheduled


def test_packed_claims_keep_enough_types_for_min_values() -> None:
    """A full node of one type would be cheaper than one that several sizes could replace."""
    diverse = Pool(name="diverse", requirements=label_requirement(INSTANCE_SIZE, min_values=4))
    found_plan = plan_by_cost(varied_pods(90), instance_families(), pools=[diverse])
    assert_near_optimal(found_plan, 90)
    for claim in found_plan.claims:
        assert len({name.partition(".")[2] for name in claim.choices.instance_types}) >= 4
    free = plan_by_cost(varied_pods(90), instance_families())
    assert packing_result(free).cost <= packing_result(found_plan).cost


def test_reserved_capacity_is_used_first_and_never_more_than_available() -> None:
    """Reserved instances are paid for: each is used once, by pods that fit."""
    reserved = {
        name: [
            offering(
                zone=zone, capacity_type=RESERVED, price=1e-7, available=count, reservation_id=cr
            )
        ]
        for name, zone, count, cr in (("m.16", "zone-a", 3, "cr-1"), ("c.8", "zone-b", 2, "cr-2"))
    }
    found_plan = plan_by_cost(varied_pods(90), instance_families(more=reserved))
    assert_near_optimal(found_plan, 90)
    used = Counter(claim.launch.reservation_id for claim in found_plan.claims)
    assert used["cr-1"] == 3
    assert used["cr-2"] == 2
    assert used[None] > 0


def test_pods_are_packed_into_the_pool_with_the_highest_weight() -> None:
    """That pool costs more than twice as much, and takes all pods but those that require arm."""
    heavy = Pool(
        name="heavy",
        weight=10,
        requirements=label_requirement(CAPACITY_TYPE, "In", ON_DEMAND).narrow(
            label_requirement(ARCH, "In", "amd64")
        ),
    )
    arm = [
        msgspec.structs.replace(kind, name=f"{kind.name}g", requirements=_arm(kind))
        for kind in instance_families()
    ]
    arm_only = (label_requirement(ARCH, "In", "arm64"),)
    waiting = [*varied_pods(60, "any"), *varied_pods(30, "arm", alternatives=arm_only)]
    found_plan = plan_by_cost(
        waiting, [*instance_families(), *arm], pools=[heavy, Pool(name="light")], options=STRICT
    )
    assert_near_optimal(found_plan, 90)
    assert {claim.pool for claim in claims_of(found_plan, "any")} == {"heavy"}
    assert {claim.pool for claim in claims_of(found_plan, "arm")} == {"light"}
    for claim in found_plan.claims:
        apps = {key.split("/")[1].split("-")[0] for key in claim.pods}
        assert len(apps) == 1


def test_existing_nodes_are_full_before_new_ones_are_launched() -> None:
    """They cost nothing more."""
    existing = [
        Node(name=f"n-{n}", allocatable={"cpu": 4000, "memory": 16 * GIB, "pods": 10})
        for n in range(5)
    ]
    found_plan = plan_by_cost(varied_pods(90), instance_families(), nodes=existing)
    assert_near_optimal(found_plan, 90)
    assert {placement.node for placement in found_plan.placements} == {
        node.name for node in existing
    }
    requests = {pod.key: pod.requests for pod in varied_pods(90)}
    for placement in found_plan.placements:
        assert sum(requests[key]["cpu"] for key in placement.pods) in range(3500, 4001)


def test_packed_nodes_leave_room_for_daemonsets() -> None:
    """Each node runs an agent: its requests count once for each node."""
    agent = DaemonSet(namespace="system", name="agent", requests={"cpu": 500, "memory": GIB})
    found_plan = plan_by_cost(varied_pods(90), instance_families(), daemonsets=[agent])
    assert_near_optimal(found_plan, 90)
    room = {kind.name: kind.allocatable for kind in instance_families()}
    for claim in found_plan.claims:
        has = room[claim.launch.instance_type]
        assert all(amount <= has[name] for name, amount in claim.requests.items())
    asked = sum(pod.requests["cpu"] for pod in varied_pods(90)) + 500 * len(found_plan.claims)
    assert sum(claim.requests["cpu"] for claim in found_plan.claims) == asked


def test_fees_per_node_lead_to_fewer_and_larger_nodes() -> None:
    """A fee is added to the price of every node."""
    agents = [msgspec.structs.replace(kind, fee=0.2) for kind in instance_families()]
    free, charged = (
        plan_by_cost(varied_pods(90), instance_families()),
        plan_by_cost(varied_pods(90), agents),
    )
    assert charged.scheduled == 90
    assert len(charged.claims) < len(free.claims)
    assert packing_result(charged).cost == pytest.approx(charged.price + charged.fees)


def test_three_hundred_unconstrained_pods_cost_little_more_than_the_bound() -> None:
    general = label_requirement(INSTANCE_CATEGORY, "In", "c", "m", "r").narrow(
        label_requirement(INSTANCE_GENERATION, "Gt", "2")
    )
    types = [kind for kind in build_catalogue().types if kind.offerings]
    found_plan = plan_by_cost(
        varied_pods(300), types, pools=[Pool(name="general", requirements=general)]
    )
    assert found_plan.scheduled == 300
    assert packing_result(found_plan).saved > 0
    above = packing_result(found_plan).above_bound
    assert above is not None
    assert above <= 0.05
