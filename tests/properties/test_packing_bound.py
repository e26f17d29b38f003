"""The lower bound of packing by cost against the cheapest plan of a tiny input, and its linear
program against one that looks at every vertex.
"""

from collections.abc import Callable
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.support.model_builders import label_requirement
from tests.support.random_inputs.unconstrained import ZONES, PlannerInput, random_input
from tests.support.reference_planner.optimum import CheapestPlan, maximum_value

from wainwright.core.packing.linear_program import Supply, highest_prices, shadow_prices, value_of
from wainwright.core.plan import plan
from wainwright.model.labels import ARCH, ZONE
from wainwright.model.plan import PackingPolicy, PackingResult, Plan
from wainwright.model.requirements import Requirements
from wainwright.model.snapshot import Pool

SEEDS = st.integers(min_value=0, max_value=10**9)
UNSHRUNK = (Phase.explicit, Phase.reuse, Phase.generate)  # a smaller seed is no smaller input
INPUTS = settings().max_examples ** 2 // 10  # 250, and 1,000 in the thorough profile
TOLERANCE = 1e-9
PODS = 5
TYPES = 4


def tiny(seed: int) -> PlannerInput:
    """A random input with so few pods and types that all of its plans can be looked at."""
    rng, world = Random(seed), random_input(seed)
    pods = world.snapshot.pods
    some = tuple(rng.sample(pods, min(len(pods), rng.randint(1, PODS))))
    names = sorted({kind.name for kinds in world.types.values() for kind in kinds})
    kept = set(rng.sample(names, min(len(names), rng.randint(2, TYPES))))
    return msgspec.structs.replace(
        world,
        snapshot=msgspec.structs.replace(world.snapshot, pods=some),
        types={
            pool: tuple(kind for kind in kinds if kind.name in kept)
            for pool, kinds in world.types.items()
        },
        options=msgspec.structs.replace(world.options, packing=PackingPolicy.COST),
    )


def sparse(seed: int) -> PlannerInput:
    """A tiny input with few offerings, where pods have two alternatives.

    Types and zones of one alternative do not go with those of another; that matters where a type
    is offered in few zones, some types cost many times as much, and the cheap ones are exotic.
    """
    rng, world = Random(seed), tiny(seed)
    offerings = {
        kind.name: tuple(
            msgspec.structs.replace(each, price=each.price * rng.choice((1, 1, 10)))
            for each in rng.sample(kind.offerings, min(len(kind.offerings), rng.randint(1, 2)))
        )
        for kinds in world.types.values()
        for kind in kinds
    }
    pods = tuple(
        msgspec.structs.replace(pod, alternatives=tuple(_random_alternative(rng) for _ in range(2)))
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


def _random_alternative(rng: Random) -> Requirements:
    zone = label_requirement(ZONE, "In", rng.choice(ZONES))
    return zone.narrow(label_requirement(ARCH, "In", rng.choice(("amd64", "arm64"))))


def placed(made: Plan) -> list[str]:
    keys = [key for claim in made.claims for key in claim.pods]
    return keys + [key for home in made.placements for key in home.pods]


def result(made: Plan) -> PackingResult:
    assert made.packing is not None
    return made.packing


@pytest.mark.parametrize("world_of", [tiny, sparse], ids=lambda made: made.__name__)
@settings(max_examples=INPUTS, phases=UNSHRUNK)
@given(seed=SEEDS)
def test_law_28_no_plan_is_cheaper_than_the_bound(
    world_of: Callable[[int], PlannerInput], seed: int
) -> None:
    world = world_of(seed)
    made = plan(world.snapshot, world.catalogs, world.options)
    packing, cheapest = result(made), cheapest_of(world, made)
    assert packing.lower_bound <= cheapest <= packing.cost + TOLERANCE


def cheapest_of(world: PlannerInput, made: Plan) -> float:
    """The least that the pods of the plan cost, wherever they are placed."""
    placed_keys = set(placed(made))
    return CheapestPlan(world, [pod for pod in world.snapshot.pods if pod.key in placed_keys]).cost


def test_the_inputs_differ_enough() -> None:
    """A bound is easily kept where nothing is launched or nothing is scarce."""
    worlds = [tiny(seed) for seed in range(150)]
    plans = [plan(each.snapshot, each.catalogs, each.options) for each in worlds]
    with_cost = [
        (w, made) for w, made in zip(worlds, plans, strict=True) if result(made).cost > 0.01
    ]
    bounds = [(result(made).lower_bound, cheapest_of(world, made)) for world, made in with_cost]
    assert len(with_cost) > 50
    assert sum(bound > 0.99 * cheapest for bound, cheapest in bounds) > 15
    assert sum(bool(made.placements) for made in plans) > 15
    assert sum(any(c.launch.reservation_id for c in made.claims) for made in plans) > 15
    assert sum(any(pool.limits for pool in world.snapshot.pools) for world in worlds) > 15
    assert sum(bool(world.snapshot.daemonsets) for world in worlds) > 15


SHAPES = st.sampled_from([(1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (3, 1)])
"""Groups and resources; more than four prices have too many vertices."""
LINEAR_TOLERANCE = 1e-6
few = settings(max_examples=settings().max_examples * 2)


@st.composite
def programs(draw: Any) -> tuple[list[list[int]], list[Supply]]:
    """Demands, and bin types of which at least one covers each of them."""
    groups, resources = draw(SHAPES)
    amounts = st.lists(st.integers(0, 9), min_size=resources, max_size=resources)
    demands = draw(st.lists(amounts, min_size=groups, max_size=groups))
    usable_by = st.integers(1, (1 << groups) - 1)
    bin_types = st.builds(Supply, st.integers(0, 12), amounts.map(tuple), usable_by)
    supplies = draw(st.lists(bin_types, max_size=3))
    everything = tuple(draw(st.integers(1, 9)) for _ in range(resources))
    return demands, [*supplies, Supply(draw(st.integers(1, 30)), everything, (1 << groups) - 1)]


def total(demands: list[list[int]], prices: list[list[float]]) -> float:
    return sum(value_of(own, price) for own, price in zip(demands, prices, strict=True))


@few
@given(program=programs())
def test_shadow_prices_add_up_to_the_cost_of_covering_the_demands(program: Any) -> None:
    demands, supplies = program
    prices = shadow_prices(demands, supplies)
    assert abs(total(demands, prices) - float(maximum_value(demands, supplies))) < LINEAR_TOLERANCE


@few
@given(program=programs())
def test_no_bin_type_is_worth_more_than_it_costs(program: Any) -> None:
    demands, supplies = program
    prices = shadow_prices(demands, supplies)
    for supply in supplies:
        assert (
            value_of(supply.room, highest_prices(prices, supply.usable_by))
            <= supply.price + LINEAR_TOLERANCE
        )


@given(program=programs(), factor=st.integers(2, 5))
def test_twice_the_demand_costs_twice_as_much(program: Any, factor: int) -> None:
    demands, supplies = program
    more = [[factor * amount for amount in own] for own in demands]
    once = total(demands, shadow_prices(demands, supplies))
    assert abs(total(more, shadow_prices(more, supplies)) - factor * once) < LINEAR_TOLERANCE


def test_a_resource_that_no_bin_type_has_gets_no_price() -> None:
    """It cannot be launched at any price: the pods that request it have a place already."""
    supplies = [Supply(1.0, (4, 0), 0b01)]
    assert shadow_prices([[4, 0], [2, 2]], supplies) == [[0.25, 0.0], [0.0, 0.0]]


def test_a_resource_without_demand_gets_no_price() -> None:
    assert shadow_prices([[8, 0]], [Supply(1.0, (4, 100), 1)]) == [[0.25, 0.0]]
    assert shadow_prices([], []) == []


def test_a_bin_may_give_its_cpu_to_one_group_and_its_memory_to_another() -> None:
    together = [Supply(1.0, (4, 4), 0b11)]
    demands = [[4, 0], [0, 4]]
    assert total(demands, shadow_prices(demands, together)) == 1.0
    apart = [Supply(1.0, (4, 4), 0b01), Supply(1.0, (4, 4), 0b10)]
    assert total(demands, shadow_prices(demands, apart)) == 2.0
