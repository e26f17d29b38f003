"""The linear program of packing, beside one that looks at every corner."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.vertices import dearest

from wainwright.core.packing.linear import Supply, highest_prices, shadow_prices, worth

SHAPES = st.sampled_from([(1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (3, 1)])
"""Groups and resources; more than four prices have too many corners."""
TINY = 1e-6
few = settings(max_examples=settings().max_examples * 2)


@st.composite
def programs(draw: Any) -> tuple[list[list[int]], list[Supply]]:
    """Demands, and machines of which at least one covers each of them."""
    groups, resources = draw(SHAPES)
    amounts = st.lists(st.integers(0, 9), min_size=resources, max_size=resources)
    demands = draw(st.lists(amounts, min_size=groups, max_size=groups))
    takers = st.integers(1, (1 << groups) - 1)
    machines = st.builds(Supply, st.integers(0, 12), amounts.map(tuple), takers)
    supplies = draw(st.lists(machines, max_size=3))
    everything = tuple(draw(st.integers(1, 9)) for _ in range(resources))
    return demands, [*supplies, Supply(draw(st.integers(1, 30)), everything, (1 << groups) - 1)]


def total(demands: list[list[int]], prices: list[list[float]]) -> float:
    return sum(worth(own, price) for own, price in zip(demands, prices, strict=True))


@few
@given(program=programs())
def test_it_finds_what_covering_the_demands_costs(program: Any) -> None:
    demands, supplies = program
    prices = shadow_prices(demands, supplies)
    assert abs(total(demands, prices) - float(dearest(demands, supplies))) < TINY


@few
@given(program=programs())
def test_no_machine_is_worth_more_than_it_costs(program: Any) -> None:
    demands, supplies = program
    prices = shadow_prices(demands, supplies)
    for supply in supplies:
        assert worth(supply.room, highest_prices(prices, supply.takers)) <= supply.price + TINY


@given(program=programs(), factor=st.integers(2, 5))
def test_twice_the_demand_costs_twice_as_much(program: Any, factor: int) -> None:
    demands, supplies = program
    more = [[factor * amount for amount in own] for own in demands]
    once = total(demands, shadow_prices(demands, supplies))
    assert abs(total(more, shadow_prices(more, supplies)) - factor * once) < TINY


def test_what_nobody_sells_has_no_price() -> None:
    """It cannot be bought at any price: whoever asks for it is somewhere already."""
    supplies = [Supply(1.0, (4, 0), 0b01)]
    assert shadow_prices([[4, 0], [2, 2]], supplies) == [[0.25, 0.0], [0.0, 0.0]]


def test_what_nobody_asks_for_costs_nothing() -> None:
    assert shadow_prices([[8, 0]], [Supply(1.0, (4, 100), 1)]) == [[0.25, 0.0]]
    assert shadow_prices([], []) == []


def test_a_cut_machine_gives_its_cpu_to_one_group_and_its_memory_to_another() -> None:
    together = [Supply(1.0, (4, 4), 0b11)]
    demands = [[4, 0], [0, 4]]
    assert total(demands, shadow_prices(demands, together)) == 1.0
    apart = [Supply(1.0, (4, 4), 0b01), Supply(1.0, (4, 4), 0b10)]
    assert total(demands, shadow_prices(demands, apart)) == 2.0
