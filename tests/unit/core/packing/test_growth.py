"""The growth rule: drafts stay good buys, and what is left on them is used all the same."""

from collections import Counter
from collections.abc import Sequence
from typing import TypeAlias

import pytest
from tests.support.model import GIB, asking, instance_type, offering
from tests.support.yards import GENERAL, ZONES, fleet, packing, planned, pods

from wainwright.core.packing.candidates import RECIPES
from wainwright.core.packing.thrifty import Recipe
from wainwright.core.plan import solved
from wainwright.core.solve import Manner
from wainwright.model.attachments import HostPort
from wainwright.model.index import TypeIndex
from wainwright.model.labels import CAPACITY_TYPE, INSTANCE_FAMILY, ON_DEMAND, SPOT, ZONE
from wainwright.model.node import Node
from wainwright.model.options import Options
from wainwright.model.plan import Plan
from wainwright.model.pod import ANYWHERE, Bonds, Pod
from wainwright.model.pool import Pool
from wainwright.model.selector import selector
from wainwright.model.snapshot import Snapshot
from wainwright.model.topology import Spread

Asked: TypeAlias = dict[str, int]
SPREAD = Bonds(spreads=(Spread(key=ZONE, selector=selector({"app": "web"})),))
"""Who is spread is in no load: for him there is only the growth rule."""


def types_of(made: Plan) -> Counter[str]:
    return Counter(claim.launch.instance_type for claim in made.claims)


def test_drafts_do_not_grow_into_what_is_dear_for_what_it_has() -> None:
    waiting = pods(300, bonds=SPREAD)
    made = planned(waiting, fleet())
    assert not [name for name in types_of(made) if name.endswith(".64")]
    assert packing(made).cost < 0.9 * packing(made).first_fit
    assert made.scheduled == 300


def test_a_pod_that_only_the_dear_type_holds_gets_it() -> None:
    made = planned(pods(4, bonds=SPREAD, scale=40), fleet())
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
    insisting = (asking(ZONE, "In", "zone-c"),)
    waiting = [
        pod
        for number in range(40)
        for pod in pods(
            1,
            f"app-{number}",
            bonds=Bonds(ports=(HostPort(port=8000 + number),)),
            asks=ANYWHERE if number % 8 else insisting,
        )
    ]
    made = planned(waiting, types)
    dear = [claim.launch.instance_type for claim in made.claims if claim.launch.zone == "zone-c"]
    assert dear == ["m.2"]


def test_what_is_left_when_a_round_is_over_is_for_whoever_fits() -> None:
    """Refused for the sake of the cost, pods ask again where nothing else may be opened."""
    tight = Pool(name="tight", limits={"nodes": 1})
    waiting, types = pods(12, bonds=SPREAD), fleet(zones=("zone-a",))
    made = planned(waiting, types, pools=[tight])
    first_fit = planned(waiting, types, pools=[tight], options=Options())
    assert made.scheduled == first_fit.scheduled > 0
    assert len(made.claims) == 1


@pytest.mark.parametrize("cheap", ["a", "b"])
def test_of_pools_of_one_weight_the_one_with_the_best_buy_is_asked(cheap: str) -> None:
    sold = {name: SPOT if name == cheap else ON_DEMAND for name in ("a", "b")}
    pools = [
        Pool(name=name, requirements=asking(CAPACITY_TYPE, "In", each))
        for name, each in sold.items()
    ]
    made = planned(pods(60, bonds=SPREAD), fleet(), pools=pools)
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
            bonds=SPREAD,
        )
        for n in range(30)
    ]
    snapshot = Snapshot(pods=tuple(waiting), pools=(GENERAL,))
    recipe = next(each for each in RECIPES if not each.fills)
    found = solved(snapshot, {"general": TypeIndex(types)}, Options(), Manner(recipe.placing))
    bought = [draft.buy for draft in found.rounds.table.drafts if draft.buy is not None]
    assert found.left_out == 0
    assert {each.offering.price for each in bought} == {1.0}


def test_a_pod_that_would_have_a_family_of_its_own_is_not_put_with_the_others() -> None:
    """Memory types cost more for each cpu: one pod that asks for them is not worth a whole node."""
    picky = pods(2, "picky", asks=(asking(INSTANCE_FAMILY, "In", "r"),), bonds=SPREAD)
    small = [
        Pod(namespace="shop", name=f"cpu-{n}", requests={"cpu": 1000, "memory": GIB // 4})
        for n in range(60)
    ]
    made = planned([*picky, *small], fleet(), pools=[GENERAL])
    memory = [claim for claim in made.claims if claim.launch.instance_type.startswith("r.")]
    assert sum(len(claim.pods) for claim in memory) < 12


DISK = "example.com/disk"


def left_out(recipe: Recipe, types: Sequence[tuple[dict[str, int], float]], *asked: Asked) -> int:
    """How many pods find no place where one node may be opened.

    Nodes of the cluster hold many others, who make sure that cpus and memory have their price.
    """
    full = Node(name="full", allocatable={"cpu": 64_000, "memory": 640, "pods": 80})
    others = [{"cpu": 4000}] * 16 + [{"memory": 10}] * 64
    waiting = [
        Pod(namespace="shop", name=f"pod-{number}", requests=each)
        for number, each in enumerate([*others, *asked])
    ]
    index = TypeIndex(
        instance_type(
            name=f"type-{number}",
            capacity={**capacity, "pods": 20},
            offerings=(offering(price=cost),),
        )
        for number, (capacity, cost) in enumerate(types)
    )
    tight = Pool(name="tight", limits={"nodes": 1})
    snapshot = Snapshot(pods=tuple(waiting), pools=(tight,), nodes=(full,))
    return solved(snapshot, {"tight": index}, Options(), Manner(recipe.placing)).left_out


@pytest.mark.parametrize("recipe", RECIPES, ids=str)
def test_a_pinned_draft_has_the_room_of_its_own_type(recipe: Recipe) -> None:
    """While it grows it minds the good buy, which has less of one thing than what it becomes."""
    good = ({"cpu": 8000, "memory": 80, DISK: 2}, 1.6)
    small = ({"cpu": 2000, "memory": 10, DISK: 4}, 1.2)
    assert left_out(recipe, [good, small], {"cpu": 1000}, {"cpu": 500, DISK: 3}) == 0


@pytest.mark.parametrize("recipe", RECIPES, ids=str)
def test_who_was_refused_for_the_sake_of_the_cost_asks_again(recipe: Recipe) -> None:
    """He would leave a draft neither good buy; what it is pinned to holds him all the same."""
    good = [
        ({"cpu": 8000, "memory": 10, DISK: 2}, 0.9),
        ({"cpu": 4000, "memory": 60, DISK: 4}, 1.0),
    ]
    small = ({"cpu": 5000, "memory": 5, DISK: 4}, 0.85)
    first, second = {"cpu": 3000, DISK: 1}, {"cpu": 2000, DISK: 3}
    assert left_out(recipe, [*good, small], first, second) == 0
