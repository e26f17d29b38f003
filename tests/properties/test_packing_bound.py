"""The lower bound of packing by cost, beside the cheapest plan that there is in a tiny world."""

from collections.abc import Callable
from random import Random

import msgspec
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.support.cheapest import Cheapest
from tests.support.model import asking
from tests.support.randomworlds import ZONES, World, random_world

from wainwright.core.plan import plan
from wainwright.model.labels import ARCH, ZONE
from wainwright.model.options import Packing
from wainwright.model.plan import PackingResult, Plan
from wainwright.model.pool import Pool
from wainwright.model.requirements import Requirements

SEEDS = st.integers(min_value=0, max_value=10**9)
UNSHRUNK = (Phase.explicit, Phase.reuse, Phase.generate)  # a smaller seed is no smaller world
WORLDS = settings().max_examples ** 2 // 10  # 250, and 1,000 where nobody waits
TINY = 1e-9
PODS = 5
TYPES = 4


def tiny(seed: int) -> World:
    """A random world with so few pods and types that all of its plans can be looked at."""
    dice, world = Random(seed), random_world(seed)
    pods = world.snapshot.pods
    some = tuple(dice.sample(pods, min(len(pods), dice.randint(1, PODS))))
    names = sorted({kind.name for kinds in world.types.values() for kind in kinds})
    kept = set(dice.sample(names, min(len(names), dice.randint(2, TYPES))))
    return msgspec.structs.replace(
        world,
        snapshot=msgspec.structs.replace(world.snapshot, pods=some),
        types={
            pool: tuple(kind for kind in kinds if kind.name in kept)
            for pool, kinds in world.types.items()
        },
        options=msgspec.structs.replace(world.options, packing=Packing.COST),
    )


def sparse(seed: int) -> World:
    """A tiny world with little to choose from, where pods would also be content with this or that.

    Types and zones of one alternative do not go with those of another; that shows where a type is
    sold in few places, some types cost many times as much as others, and the cheap ones are exotic.
    """
    dice, world = Random(seed), tiny(seed)
    offerings = {
        kind.name: tuple(
            msgspec.structs.replace(each, price=each.price * dice.choice((1, 1, 10)))
            for each in dice.sample(kind.offerings, min(len(kind.offerings), dice.randint(1, 2)))
        )
        for kinds in world.types.values()
        for kind in kinds
    }
    pods = tuple(
        msgspec.structs.replace(pod, alternatives=tuple(_somewhere(dice) for _ in range(2)))
        for pod in world.snapshot.pods
    )
    pools = tuple(Pool(name=pool.name, weight=pool.weight) for pool in world.snapshot.pools)
    return msgspec.structs.replace(
        world,
        snapshot=msgspec.structs.replace(world.snapshot, pods=pods, pools=pools),
        types={
            pool: tuple(
                msgspec.structs.replace(kind, offerings=offerings[kind.name]) for kind in kinds
            )
            for pool, kinds in world.types.items()
        },
    )


def _somewhere(dice: Random) -> Requirements:
    zone = asking(ZONE, "In", dice.choice(ZONES))
    return zone.narrow(asking(ARCH, "In", dice.choice(("amd64", "arm64"))))


def placed(made: Plan) -> list[str]:
    keys = [key for claim in made.claims for key in claim.pods]
    return keys + [key for home in made.placements for key in home.pods]


def result(made: Plan) -> PackingResult:
    assert made.packing is not None
    return made.packing


@pytest.mark.parametrize("world_of", [tiny, sparse], ids=lambda made: made.__name__)
@settings(max_examples=WORLDS, phases=UNSHRUNK)
@given(seed=SEEDS)
def test_law_28_no_plan_is_cheaper_than_the_bound(
    world_of: Callable[[int], World], seed: int
) -> None:
    world = world_of(seed)
    made = plan(world.snapshot, world.catalogs, world.options)
    packing, cheapest = result(made), cheapest_of(world, made)
    assert packing.lower_bound <= cheapest <= packing.cost + TINY


def cheapest_of(world: World, made: Plan) -> float:
    """What the pods of the plan would cost at the least, wherever they were put."""
    there = set(placed(made))
    return Cheapest(world, [pod for pod in world.snapshot.pods if pod.key in there]).cost


def test_the_worlds_are_not_all_alike() -> None:
    """A bound is easily kept where nothing is bought, and easily found where nothing is tight."""
    worlds = [tiny(seed) for seed in range(150)]
    plans = [plan(each.snapshot, each.catalogs, each.options) for each in worlds]
    dear = [(w, made) for w, made in zip(worlds, plans, strict=True) if result(made).cost > 0.01]
    bounds = [(result(made).lower_bound, cheapest_of(world, made)) for world, made in dear]
    assert len(dear) > 50
    assert sum(bound > 0.99 * cheapest for bound, cheapest in bounds) > 15
    assert sum(bool(made.placements) for made in plans) > 15
    assert sum(any(c.launch.reservation_id for c in made.claims) for made in plans) > 15
    assert sum(any(pool.limits for pool in world.snapshot.pools) for world in worlds) > 15
    assert sum(bool(world.snapshot.daemonsets) for world in worlds) > 15
