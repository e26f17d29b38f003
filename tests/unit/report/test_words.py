"""Reasons and wishes as sentences: whose wish a spread was, and why a pool launches nothing."""

import pytest

from wainwright.model.preference import SpreadEvenly
from wainwright.model.reason import Count, NothingToBuy, PoolReason, PoolUnusable, Promised, Uneven
from wainwright.model.selector import selector
from wainwright.model.topology import Spread
from wainwright.report import words

BY_DEFAULT = {False: "", True: " (a default of the scheduler)"}


@pytest.mark.parametrize("by_default", BY_DEFAULT)
def test_a_spread_that_was_given_up(by_default: bool) -> None:
    wish = Spread(key="zone", selector=selector({"app": "web"}), max_skew=2, by_default=by_default)
    told = words.preference(SpreadEvenly(spread=wish))
    assert told == f"to be spread over zone with maxSkew 2{BY_DEFAULT[by_default]}"


@pytest.mark.parametrize("by_default", BY_DEFAULT)
def test_a_spread_that_leaves_few_places(by_default: bool) -> None:
    counts = (Count(place="a", pods=5), Count(place="b", pods=3))
    left = Uneven(key="zone", max_skew=1, counts=counts, left=("b",), by_default=by_default)
    whose = BY_DEFAULT[by_default]
    assert words.keeping(left) == f"zone: a has 5, b has 3, maxSkew 1{whose}: only b"


@pytest.mark.parametrize("by_default", BY_DEFAULT)
def test_a_spread_over_what_nobody_has(by_default: bool) -> None:
    nowhere = Uneven(key="rack", max_skew=1, counts=(), left=(), by_default=by_default)
    assert words.keeping(nowhere) == (
        f"it is to be spread over rack{BY_DEFAULT[by_default]}, which no pool, type or node has"
    )


IDLE: list[tuple[PoolReason, str]] = [
    (PoolUnusable(why="it is being deleted"), "it is being deleted"),
    (NothingToBuy(), "there is nothing that it could buy"),
    (Promised(), "what it could buy is promised to other pods"),
]


@pytest.mark.parametrize(("reason", "why"), IDLE, ids=[type(each).__name__ for each, _ in IDLE])
def test_a_pool_that_launches_nothing(reason: PoolReason, why: str) -> None:
    assert words.pool(reason) == f"it launches nothing: {why}"
