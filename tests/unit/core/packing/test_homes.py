"""Homes: who is packed, from which pools, and with whom he cannot be."""

from collections.abc import Sequence

import pytest
from tests.support.model import asking, offering
from tests.support.yards import GENERAL, fleet, pods

from wainwright.core.packing.homes import Customer, Home, customers_of, home, reach, strangers
from wainwright.core.plan import solved
from wainwright.core.solve import Solution
from wainwright.core.templates import Template
from wainwright.model.attachments import HostPort
from wainwright.model.columns import row_numbers
from wainwright.model.index import TypeIndex
from wainwright.model.instance_type import InstanceType
from wainwright.model.labels import INSTANCE_FAMILY, INSTANCE_SIZE, RESERVED, ZONE
from wainwright.model.options import Options
from wainwright.model.pod import ANYWHERE, NO_BONDS, Bonds, Pod
from wainwright.model.pool import Pool
from wainwright.model.requirements import Requirements
from wainwright.model.selector import selector
from wainwright.model.snapshot import Snapshot
from wainwright.model.topology import Spread

TEAM = "example.com/team"
RESOURCES = ["cpu", "memory", "pods"]
SPREAD = Bonds(spreads=(Spread(key=ZONE, selector=selector({"app": "web"})),))
SLOTS = offering(capacity_type=RESERVED, price=1e-7, available=100, reservation_id="cr-1")


def of(team: str) -> Requirements:
    return asking(TEAM, "In", team)


def solution(waiting: Sequence[Pod], *pools: Pool, types: Sequence[InstanceType] = ()) -> Solution:
    index = TypeIndex(types or fleet())
    snapshot = Snapshot(pods=tuple(waiting), pools=pools or (GENERAL,))
    return solved(snapshot, {pool.name: index for pool in pools or (GENERAL,)}, Options())


def homes(found: Solution) -> list[Home | None]:
    return [home(group, found.placing.ladder) for group in found.classes.all]


def customers(found: Solution) -> list[Customer]:
    return list(dict.fromkeys(each.customer for each in homes(found) if each is not None))


def names(template: Template, rows: int) -> set[str]:
    return {template.index.types[row].name for row in row_numbers(rows)}


def test_pods_are_at_home_in_the_heaviest_pools_that_serve_them() -> None:
    light, heavy = Pool(name="light"), Pool(name="heavy", weight=50)
    closed = Pool(
        name="closed", weight=90, labels={TEAM: "x"}, requirements=asking(ZONE, "In", "z")
    )
    found = solution(pods(1), light, heavy, closed)
    assert [each and each.weight for each in homes(found)] == [50]
    mine = reach(customers(found)[0], found.placing.templates, RESOURCES)
    bought = [t.pool.name for t in found.placing.templates if mine.rows[t.number]]
    assert bought == ["heavy"]


@pytest.mark.parametrize(
    ("bonds", "asks", "types"),
    [
        (SPREAD, ANYWHERE, fleet()),
        (Bonds(ports=(HostPort(port=80),)), ANYWHERE, fleet()),
        (NO_BONDS, (asking(ZONE, "In", "nowhere"),), fleet()),
        (NO_BONDS, ANYWHERE, fleet(more={"c.2": [SLOTS]})),
    ],
    ids=["tied", "port", "nobody serves them", "a slot comes first"],
)
def test_not_everybody_is_packed(
    bonds: Bonds, asks: Sequence[Requirements], types: list[InstanceType]
) -> None:
    found = solution(pods(1, bonds=bonds, asks=asks), types=types)
    assert homes(found) == [None]


def test_a_slot_that_is_too_small_or_of_a_lighter_pool_keeps_nobody_from_being_packed() -> None:
    types = fleet(more={"c.2": [SLOTS]})
    assert homes(solution(pods(1, scale=10), types=types)) != [None]
    heavy = Pool(name="heavy", weight=9, requirements=asking(INSTANCE_FAMILY, "In", "r"))
    assert homes(solution(pods(1), GENERAL, heavy, types=types)) != [None]


def test_nothing_is_filled_that_limits_forbid() -> None:
    found = solution(pods(1), Pool(name="small", limits={"cpu": 40_000}))
    template = found.placing.templates[0]
    mine = reach(customers(found)[0], [template], RESOURCES)
    assert "c.32" in names(template, mine.rows[0])
    assert "c.64" not in names(template, mine.rows[0])


def test_zones_and_selectors_are_part_of_what_may_be_bought() -> None:
    picky = asking(ZONE, "In", "zone-b").narrow(asking(INSTANCE_FAMILY, "In", "m"))
    found = solution(pods(1, asks=(picky,)))
    template = found.placing.templates[0]
    mine = reach(customers(found)[0], [template], RESOURCES)
    assert {name[0] for name in names(template, mine.rows[0])} == {"m"}
    markets = [template.index.markets[number] for number in row_numbers(mine.markets[0])]
    assert {market.requirements.only(ZONE) for market in markets} == {"zone-b"}


def test_only_what_leaves_enough_others_is_filled_to_the_brim() -> None:
    """Five sizes must be left: of the six the two smallest leave that many as large."""
    diverse = Pool(name="diverse", requirements=asking(INSTANCE_SIZE, min_values=5))
    found = solution(pods(1), diverse)
    template = found.placing.templates[0]
    mine = reach(customers(found)[0], [template], RESOURCES)
    sizes = {int(name.partition(".")[2]) for name in names(template, mine.rows[0])}
    assert sizes == {2, 4}


def test_of_a_label_that_the_pool_decides_a_node_has_but_one_value() -> None:
    either = Pool(name="either", requirements=asking(TEAM, "In", "x", "y"))
    waiting = [
        *pods(1, "x", asks=(of("x"),)),
        *pods(1, "y", asks=(of("y"),)),
        *pods(1, "both", asks=(asking(TEAM, "In", "x", "y"),)),
        *pods(1, "any"),
    ]
    found = solution(waiting, either)
    asked = customers(found)
    wanted = [each.ask.requirements for each in asked]
    one, other = wanted.index(of("x")), wanted.index(of("y"))
    apart = strangers(asked, found.placing.templates[0])
    assert apart[one] == 1 << other
    assert apart[other] == 1 << one
    assert sum(map(bool, apart)) == 2


def test_those_with_the_most_pods_come_first() -> None:
    asks = [(asking(ZONE, "In", zone),) for zone in ("zone-a", "zone-b", "zone-c")]
    waiting = [pod for n, each in enumerate(asks) for pod in pods(1, f"app-{n}", asks=each)]
    found = [each for each in homes(solution(waiting)) if each is not None]
    first, second, third = found
    counted = customers_of([(first, 3), (second, 9), (third, 3), (first, 1)], 2)
    assert counted == [second.customer, first.customer]
    assert customers_of([(first, 3), (third, 3)], 9) == [first.customer, third.customer]
