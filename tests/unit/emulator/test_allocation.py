"""In which order a fleet tries its pools."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wainwright.emulator.ec2.allocation import (
    ON_DEMAND_ORDERS,
    SPOT_ORDERS,
    Pool,
    shares,
    spread,
)

CHEAP_SHALLOW = Pool(index=0, price=0.1, priority=3.0, depth=4)
DEAR_DEEP = Pool(index=1, price=0.4, priority=1.0, depth=10)
MIDDLE_DEEP = Pool(index=2, price=0.3, priority=2.0, depth=5)
UNSOLD = Pool(index=3, price=None, depth=0)
POOLS = (CHEAP_SHALLOW, DEAR_DEEP, MIDDLE_DEEP, UNSOLD)


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [("lowest-price", [0, 2, 1, 3]), ("prioritized", [1, 2, 0, 3])],
)
def test_on_demand(strategy: str, expected: list[int]) -> None:
    assert [pool.index for pool in ON_DEMAND_ORDERS[strategy](POOLS)] == expected


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ("lowest-price", [0, 2, 1, 3]),
        ("diversified", [0, 2, 1, 3]),
        ("capacity-optimized", [1, 2, 0, 3]),
        # Half as deep as the deepest is deep enough: the cheaper one goes first.
        ("price-capacity-optimized", [2, 1, 0, 3]),
        ("capacity-optimized-prioritized", [1, 2, 0, 3]),
    ],
)
def test_spot(strategy: str, expected: list[int]) -> None:
    assert [pool.index for pool in SPOT_ORDERS[strategy](POOLS)] == expected


def test_without_an_end_of_stock_only_the_price_counts() -> None:
    pools = [Pool(index=n, price=price, depth=inf) for n, price in enumerate((0.3, 0.1, 0.2))]
    assert [pool.index for pool in SPOT_ORDERS["price-capacity-optimized"](pools)] == [1, 2, 0]


def test_equal_pools_keep_the_order_of_the_request() -> None:
    pools = [Pool(index=number, price=0.1, priority=1.0) for number in range(5)]
    for order in (*ON_DEMAND_ORDERS.values(), *SPOT_ORDERS.values()):
        assert order(pools) == pools


POOL = st.builds(
    Pool,
    index=st.integers(0, 99),
    price=st.none() | st.floats(0.01, 9),
    priority=st.none() | st.floats(0, 9),
    depth=st.sampled_from([0.0, 1.0, 5.0, inf]),
)


@given(st.lists(POOL), st.sampled_from([*ON_DEMAND_ORDERS.values(), *SPOT_ORDERS.values()]))
def test_no_pool_is_lost(pools: list[Pool], order: object) -> None:
    assert callable(order)
    found = order(pools)
    assert sorted(found, key=id) == sorted(pools, key=id)


@given(st.integers(0, 999), st.integers(1, 50))
def test_shares_are_even_and_make_up_the_whole(wanted: int, over: int) -> None:
    parts = shares(wanted, over)
    assert (sum(parts), len(parts)) == (wanted, over)
    assert max(parts) - min(parts) <= 1


@pytest.mark.parametrize(
    ("strategy", "asked", "available", "expected"),
    [
        ("diversified", None, 7, 7),
        ("diversified", None, 0, 1),
        ("lowest-price", None, 7, 1),
        ("lowest-price", 3, 7, 3),
        ("lowest-price", 9, 7, 7),
        ("price-capacity-optimized", 3, 7, 1),
    ],
)
def test_spread(strategy: str, asked: int | None, available: int, expected: int) -> None:
    assert spread(strategy, asked, available) == expected
