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


def claims_of(made: Plan, name: str) -> Iterator[PlannedNodeClaim]:
    """The claims that have pods of this app."""
    for claim in made.claims:
        if any(key.startswith(f"shop/{name}-") for key in claim.pods):
            yield claim


def cpus(claims: Sequence[PlannedNodeClaim]) -> int:
    return sum(CAPACITY[claim.launch.instance_type] for claim in claims)


def assert_near_optimal(made: Plan, count: int) -> None:
    """Else the plan is first-fit's, and nothing was put to the test."""
    assert made.scheduled == count
    assert packing_result(made).saved > 0


def test_zones() -> None:
    """Zone c costs half as much, and only a third of the pods may go there."""
    factors = zip(ZONES, (1.0, 1.0, 0.5), strict=True)
    types = _priced(dict(factors))
    asks = {"a": "zone-a", "b": "zone-b"}
    waiting = [
        *(
            p
            for app, zone in asks.items()
            for p in varied_pods(30, app, asks=(label_requirement(ZONE, "In", zone),))
        ),
        *varied_pods(30, "any"),
    ]
    made = plan_by_cost(waiting, types)
    assert_near_optimal(made, 90)
    for app, zone in asks.items():
        assert {claim.choices.zones for claim in claims_of(made, app)} == {(zone,)}
    assert "zone-c" in {claim.launch.zone for claim in claims_of(made, "any")}


def _priced(factors: dict[str, float]) -> list[InstanceType]:
    """A fleet with other prices in some zones."""
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


def test_selectors() -> None:
    """Arm costs less; and of a label that the pool leaves open a node has one value."""
    arm = [
        msgspec.structs.replace(kind, name=f"{kind.name}g", requirements=_arm(kind))
        for kind in instance_families(sold={ON_DEMAND: 0.7, SPOT: 0.3})
    ]
    either = Pool(name="either", requirements=label_requirement(TEAM, "In", "x", "y"))
    waiting = [
        *varied_pods(25, "amd", asks=(label_requirement(ARCH, "In", "amd64"),)),
        *varied_pods(25, "x", asks=(label_requirement(TEAM, "In", "x"),)),
        *varied_pods(25, "y", asks=(label_requirement(TEAM, "In", "y"),)),
        *varied_pods(25, "any"),
    ]
    made = plan_by_cost(waiting, [*instance_families(), *arm], pools=[either])
    assert_near_optimal(made, 100)
    assert not any(claim.launch.instance_type.endswith("g") for claim in claims_of(made, "amd"))
    assert all(claim.requirements.single_value(TEAM) == "x" for claim in claims_of(made, "x"))
    assert all(claim.requirements.single_value(TEAM) == "y" for claim in claims_of(made, "y"))
    assert any(claim.launch.instance_type.endswith("g") for claim in claims_of(made, "x"))


def _arm(kind: InstanceType) -> Requirements:
    return kind.requirements.without({ARCH, "node.kubernetes.io/instance-type"}).narrow(
        label_requirement(ARCH, "In", "arm64")
    )


def test_capacity_types() -> None:
    """Spot costs less than half, and half of the pods must not be taken back."""
    steady = (label_requirement(CAPACITY_TYPE, "In", ON_DEMAND),)
    made = plan_by_cost(
        [*varied_pods(45, "steady", asks=steady), *varied_pods(45, "any")], instance_families()
    )
    assert_near_optimal(made, 90)
    assert {claim.choices.capacity_types for claim in claims_of(made, "steady")} == {(ON_DEMAND,)}
    assert SPOT in {claim.launch.capacity_type for claim in claims_of(made, "any")}


def test_taints() -> None:
    """The cheaper pool is for those who tolerate it, and of the same weight."""
    team = Taint(key=TEAM, value="a")
    dear = Pool(name="dear", requirements=label_requirement(CAPACITY_TYPE, "In", ON_DEMAND))
    cheap = Pool(
        name="cheap", requirements=label_requirement(CAPACITY_TYPE, "In", SPOT), taints=(team,)
    )
    tolerant = (Toleration(key=TEAM, value="a"),)
    waiting = [*varied_pods(45, "any"), *varied_pods(45, "team", tolerations=tolerant)]
    made = plan_by_cost(waiting, instance_families(), pools=[dear, cheap])
    assert_near_optimal(made, 90)
    assert {claim.pool for claim in claims_of(made, "any")} == {"dear"}
    assert "cheap" in {claim.pool for claim in claims_of(made, "team")}


@pytest.mark.parametrize(
    ("limits", "in_use"),
    [({"cpu": 40_000}, {"cpu": 10_000}), ({"nodes": 4}, {"nodes": 2})],
    ids=["cpu", "nodes"],
)
def test_limits(limits: Resources, in_use: Resources) -> None:
    """The heavy pool costs less, and may have 30 cpus or two nodes more."""
    heavy = Pool(
        name="heavy",
        weight=10,
        requirements=label_requirement(CAPACITY_TYPE, "In", SPOT),
        limits=limits,
        in_use=in_use,
    )
    light = Pool(name="light", requirements=label_requirement(CAPACITY_TYPE, "In", ON_DEMAND))
    made = plan_by_cost(varied_pods(90), instance_families(), pools=[heavy, light])
    assert_near_optimal(made, 90)
    limited = [claim for claim in made.claims if claim.pool == "heavy"]
    assert len(limited) < len(made.claims)
    assert "cpu" not in limits or 20 < cpus(limited) <= 30
    assert "nodes" not in limits or len(limited) == 2


def test_a_limit_that_is_wide_enough_costs_nothing() -> None:
    """Within a round drafts count at their worst, and loads wait until they no longer do."""
    spot = label_requirement(CAPACITY_TYPE, "In", SPOT)
    heavy = Pool(name="heavy", weight=10, requirements=spot, limits={"cpu": 80_000})
    light = Pool(name="light", requirements=label_requirement(CAPACITY_TYPE, "In", ON_DEMAND))
    made = plan_by_cost(varied_pods(90), instance_families(), pools=[heavy, light])
    free = plan_by_cost(
        varied_pods(90), instance_families(), pools=[Pool(name="free", requirements=spot)]
    )
    assert {claim.pool for claim in made.claims} == {"heavy"}
    assert packing_result(made).cost < packing_result(free).cost * 1.01


def test_limits_that_leave_some_without_a_place() -> None:
    """Then as many are placed as first-fit would, and the limit is used."""
    only = Pool(name="only", limits={"cpu": 32_000})
    made = plan_by_cost(varied_pods(90), instance_families(), pools=[only])
    first_fit = plan_by_cost(
        varied_pods(90), instance_families(), pools=[only], options=PlanOptions()
    )
    assert cpus(made.claims) <= 32
    assert made.scheduled >= first_fit.scheduled > 0
    assert made.unscheduled == 90 - made.scheduled


def test_min_values() -> None:
    """A full node of one type would be cheaper than one that five sizes could stand in for."""
    diverse = Pool(name="diverse", requirements=label_requirement(INSTANCE_SIZE, min_values=4))
    made = plan_by_cost(varied_pods(90), instance_families(), pools=[diverse])
    assert_near_optimal(made, 90)
    for claim in made.claims:
        assert len({name.partition(".")[2] for name in claim.choices.instance_types}) >= 4
    free = plan_by_cost(varied_pods(90), instance_families())
    assert packing_result(free).cost <= packing_result(made).cost


def test_reservations() -> None:
    """Slots are paid for: they are used first, once each, by whom they hold."""
    slots = {
        name: [
            offering(
                zone=zone, capacity_type=RESERVED, price=1e-7, available=count, reservation_id=cr
            )
        ]
        for name, zone, count, cr in (("m.16", "zone-a", 3, "cr-1"), ("c.8", "zone-b", 2, "cr-2"))
    }
    made = plan_by_cost(varied_pods(90), instance_families(more=slots))
    assert_near_optimal(made, 90)
    used = Counter(claim.launch.reservation_id for claim in made.claims)
    assert used["cr-1"] == 3
    assert used["cr-2"] == 2
    assert used[None] > 0


def test_weights() -> None:
    """The heavy pool costs more than twice as much, and serves all but those who insist on arm."""
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
    picky = (label_requirement(ARCH, "In", "arm64"),)
    waiting = [*varied_pods(60, "any"), *varied_pods(30, "arm", asks=picky)]
    made = plan_by_cost(
        waiting, [*instance_families(), *arm], pools=[heavy, Pool(name="light")], options=STRICT
    )
    assert_near_optimal(made, 90)
    assert {claim.pool for claim in claims_of(made, "any")} == {"heavy"}
    assert {claim.pool for claim in claims_of(made, "arm")} == {"light"}
    for claim in made.claims:
        apps = {key.split("/")[1].split("-")[0] for key in claim.pods}
        assert len(apps) == 1


def test_nodes_of_the_cluster() -> None:
    """They cost nothing more, and are full before anything is bought."""
    standing = [
        Node(name=f"n-{n}", allocatable={"cpu": 4000, "memory": 16 * GIB, "pods": 10})
        for n in range(5)
    ]
    made = plan_by_cost(varied_pods(90), instance_families(), nodes=standing)
    assert_near_optimal(made, 90)
    assert {placement.node for placement in made.placements} == {node.name for node in standing}
    requests = {pod.key: pod.requests for pod in varied_pods(90)}
    for placement in made.placements:
        assert sum(requests[key]["cpu"] for key in placement.pods) in range(3500, 4001)


def test_daemonsets() -> None:
    """Each node has an agent: the more nodes there are, the more of them."""
    agent = DaemonSet(namespace="system", name="agent", requests={"cpu": 500, "memory": GIB})
    made = plan_by_cost(varied_pods(90), instance_families(), daemonsets=[agent])
    assert_near_optimal(made, 90)
    room = {kind.name: kind.allocatable for kind in instance_families()}
    for claim in made.claims:
        has = room[claim.launch.instance_type]
        assert all(amount <= has[name] for name, amount in claim.requests.items())
    asked = sum(pod.requests["cpu"] for pod in varied_pods(90)) + 500 * len(made.claims)
    assert sum(claim.requests["cpu"] for claim in made.claims) == asked


def test_fees() -> None:
    """Where a node costs something beside its price, fewer and larger ones are bought."""
    agents = [msgspec.structs.replace(kind, fee=0.2) for kind in instance_families()]
    free, charged = (
        plan_by_cost(varied_pods(90), instance_families()),
        plan_by_cost(varied_pods(90), agents),
    )
    assert charged.scheduled == 90
    assert len(charged.claims) < len(free.claims)
    assert packing_result(charged).cost == pytest.approx(charged.price + charged.fees)


def test_three_hundred_plain_pods_cost_little_more_than_the_bound() -> None:
    general = label_requirement(INSTANCE_CATEGORY, "In", "c", "m", "r").narrow(
        label_requirement(INSTANCE_GENERATION, "Gt", "2")
    )
    types = [kind for kind in build_catalogue().types if kind.offerings]
    made = plan_by_cost(varied_pods(300), types, pools=[Pool(name="general", requirements=general)])
    assert made.scheduled == 300
    assert packing_result(made).saved > 0
    above = packing_result(made).above_bound
    assert above is not None
    assert above <= 0.05
