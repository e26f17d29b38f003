"""Packing by cost keeps every rule: for each a plan that would be cheaper if it were broken."""

from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec
import pytest
from tests.support.model import GIB, asking, offering
from tests.support.yards import COST, CPUS, MEMORY, ZONES, fleet, packing, planned, pods

from wainwright.model.instance_type import InstanceType
from wainwright.model.labels import (
    ARCH,
    CAPACITY_TYPE,
    INSTANCE_SIZE,
    ON_DEMAND,
    RESERVED,
    SPOT,
    ZONE,
)
from wainwright.model.node import Node
from wainwright.model.options import Options
from wainwright.model.plan import Plan, PlannedClaim
from wainwright.model.pod import DaemonSet
from wainwright.model.pool import Pool
from wainwright.model.requirements import Requirements
from wainwright.model.resources import Resources
from wainwright.model.taints import Taint, Toleration

TEAM = "example.com/team"
STRICT = msgspec.structs.replace(COST, strict_weights=True)
CAPACITY = {f"{family}.{cpus}": cpus for family in MEMORY for cpus in CPUS}


def of(made: Plan, name: str) -> Iterator[PlannedClaim]:
    """The claims that have pods of this app."""
    for claim in made.claims:
        if any(key.startswith(f"shop/{name}-") for key in claim.pods):
            yield claim


def cpus(claims: Sequence[PlannedClaim]) -> int:
    return sum(CAPACITY[claim.launch.instance_type] for claim in claims)


def assert_thrifty(made: Plan, count: int) -> None:
    """Else the plan is first-fit's, and nothing was put to the test."""
    assert made.scheduled == count
    assert packing(made).saved > 0


def test_zones() -> None:
    """Zone c costs half as much, and only a third of the pods may go there."""
    factors = zip(ZONES, (1.0, 1.0, 0.5), strict=True)
    types = _priced(dict(factors))
    asks = {"a": "zone-a", "b": "zone-b"}
    waiting = [
        *(p for app, zone in asks.items() for p in pods(30, app, asks=(asking(ZONE, "In", zone),))),
        *pods(30, "any"),
    ]
    made = planned(waiting, types)
    assert_thrifty(made, 90)
    for app, zone in asks.items():
        assert {claim.choices.zones for claim in of(made, app)} == {(zone,)}
    assert "zone-c" in {claim.launch.zone for claim in of(made, "any")}


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
        for kind in fleet()
    ]


def test_selectors() -> None:
    """Arm costs less; and of a label that the pool leaves open a node has one value."""
    arm = [
        msgspec.structs.replace(kind, name=f"{kind.name}g", requirements=_arm(kind))
        for kind in fleet(sold={ON_DEMAND: 0.7, SPOT: 0.3})
    ]
    either = Pool(name="either", requirements=asking(TEAM, "In", "x", "y"))
    waiting = [
        *pods(25, "amd", asks=(asking(ARCH, "In", "amd64"),)),
        *pods(25, "x", asks=(asking(TEAM, "In", "x"),)),
        *pods(25, "y", asks=(asking(TEAM, "In", "y"),)),
        *pods(25, "any"),
    ]
    made = planned(waiting, [*fleet(), *arm], pools=[either])
    assert_thrifty(made, 100)
    assert not any(claim.launch.instance_type.endswith("g") for claim in of(made, "amd"))
    assert all(claim.requirements.only(TEAM) == "x" for claim in of(made, "x"))
    assert all(claim.requirements.only(TEAM) == "y" for claim in of(made, "y"))
    assert any(claim.launch.instance_type.endswith("g") for claim in of(made, "x"))


def _arm(kind: InstanceType) -> Requirements:
    return kind.requirements.without({ARCH, "node.kubernetes.io/instance-type"}).narrow(
        asking(ARCH, "In", "arm64")
    )


def test_capacity_types() -> None:
    """Spot costs less than half, and half of the pods must not be taken back."""
    steady = (asking(CAPACITY_TYPE, "In", ON_DEMAND),)
    made = planned([*pods(45, "steady", asks=steady), *pods(45, "any")], fleet())
    assert_thrifty(made, 90)
    assert {claim.choices.capacity_types for claim in of(made, "steady")} == {(ON_DEMAND,)}
    assert SPOT in {claim.launch.capacity_type for claim in of(made, "any")}


def test_taints() -> None:
    """The cheaper pool is for those who tolerate it, and of the same weight."""
    team = Taint(key=TEAM, value="a")
    dear = Pool(name="dear", requirements=asking(CAPACITY_TYPE, "In", ON_DEMAND))
    cheap = Pool(name="cheap", requirements=asking(CAPACITY_TYPE, "In", SPOT), taints=(team,))
    tolerant = (Toleration(key=TEAM, value="a"),)
    waiting = [*pods(45, "any"), *pods(45, "team", tolerations=tolerant)]
    made = planned(waiting, fleet(), pools=[dear, cheap])
    assert_thrifty(made, 90)
    assert {claim.pool for claim in of(made, "any")} == {"dear"}
    assert "cheap" in {claim.pool for claim in of(made, "team")}


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
        requirements=asking(CAPACITY_TYPE, "In", SPOT),
        limits=limits,
        in_use=in_use,
    )
    light = Pool(name="light", requirements=asking(CAPACITY_TYPE, "In", ON_DEMAND))
    made = planned(pods(90), fleet(), pools=[heavy, light])
    assert_thrifty(made, 90)
    limited = [claim for claim in made.claims if claim.pool == "heavy"]
    assert len(limited) < len(made.claims)
    assert "cpu" not in limits or 20 < cpus(limited) <= 30
    assert "nodes" not in limits or len(limited) == 2


def test_a_limit_that_is_wide_enough_costs_nothing() -> None:
    """Within a round drafts count at their worst, and loads wait until they no longer do."""
    spot = asking(CAPACITY_TYPE, "In", SPOT)
    heavy = Pool(name="heavy", weight=10, requirements=spot, limits={"cpu": 80_000})
    light = Pool(name="light", requirements=asking(CAPACITY_TYPE, "In", ON_DEMAND))
    made = planned(pods(90), fleet(), pools=[heavy, light])
    free = planned(pods(90), fleet(), pools=[Pool(name="free", requirements=spot)])
    assert {claim.pool for claim in made.claims} == {"heavy"}
    assert packing(made).cost < packing(free).cost * 1.01


def test_limits_that_leave_some_without_a_place() -> None:
    """Then as many are placed as first-fit would, and the limit is used."""
    only = Pool(name="only", limits={"cpu": 32_000})
    made = planned(pods(90), fleet(), pools=[only])
    first_fit = planned(pods(90), fleet(), pools=[only], options=Options())
    assert cpus(made.claims) <= 32
    assert made.scheduled >= first_fit.scheduled > 0
    assert made.unscheduled == 90 - made.scheduled


def test_min_values() -> None:
    """A full node of one type would be cheaper than one that five sizes could stand in for."""
    diverse = Pool(name="diverse", requirements=asking(INSTANCE_SIZE, min_values=4))
    made = planned(pods(90), fleet(), pools=[diverse])
    assert_thrifty(made, 90)
    for claim in made.claims:
        assert len({name.partition(".")[2] for name in claim.choices.instance_types}) >= 4
    free = planned(pods(90), fleet())
    assert packing(free).cost <= packing(made).cost


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
    made = planned(pods(90), fleet(more=slots))
    assert_thrifty(made, 90)
    used = Counter(claim.launch.reservation_id for claim in made.claims)
    assert used["cr-1"] == 3
    assert used["cr-2"] == 2
    assert used[None] > 0


def test_weights() -> None:
    """The heavy pool costs more than twice as much, and serves all but those who insist on arm."""
    heavy = Pool(
        name="heavy",
        weight=10,
        requirements=asking(CAPACITY_TYPE, "In", ON_DEMAND).narrow(asking(ARCH, "In", "amd64")),
    )
    arm = [
        msgspec.structs.replace(kind, name=f"{kind.name}g", requirements=_arm(kind))
        for kind in fleet()
    ]
    picky = (asking(ARCH, "In", "arm64"),)
    waiting = [*pods(60, "any"), *pods(30, "arm", asks=picky)]
    made = planned(waiting, [*fleet(), *arm], pools=[heavy, Pool(name="light")], options=STRICT)
    assert_thrifty(made, 90)
    assert {claim.pool for claim in of(made, "any")} == {"heavy"}
    assert {claim.pool for claim in of(made, "arm")} == {"light"}
    for claim in made.claims:
        apps = {key.split("/")[1].split("-")[0] for key in claim.pods}
        assert len(apps) == 1


def test_nodes_of_the_cluster() -> None:
    """They cost nothing more, and are full before anything is bought."""
    standing = [
        Node(name=f"n-{n}", allocatable={"cpu": 4000, "memory": 16 * GIB, "pods": 10})
        for n in range(5)
    ]
    made = planned(pods(90), fleet(), nodes=standing)
    assert_thrifty(made, 90)
    assert {placement.node for placement in made.placements} == {node.name for node in standing}
    requests = {pod.key: pod.requests for pod in pods(90)}
    for placement in made.placements:
        assert sum(requests[key]["cpu"] for key in placement.pods) in range(3500, 4001)


def test_daemonsets() -> None:
    """Each node has an agent: the more nodes there are, the more of them."""
    agent = DaemonSet(namespace="system", name="agent", requests={"cpu": 500, "memory": GIB})
    made = planned(pods(90), fleet(), daemonsets=[agent])
    assert_thrifty(made, 90)
    room = {kind.name: kind.allocatable for kind in fleet()}
    for claim in made.claims:
        has = room[claim.launch.instance_type]
        assert all(amount <= has[name] for name, amount in claim.requests.items())
    asked = sum(pod.requests["cpu"] for pod in pods(90)) + 500 * len(made.claims)
    assert sum(claim.requests["cpu"] for claim in made.claims) == asked
