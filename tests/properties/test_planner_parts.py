"""Shortcuts of the planner against the plain questions that they stand for."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st
from tests.support.randomworlds import random_world
from tests.support.shop import cost

from wainwright.model.index import TypeIndex
from wainwright.model.labels import ARCH, INSTANCE_FAMILY, INSTANCE_SIZE, INSTANCE_TYPE
from wainwright.model.thresholds import largest
from wainwright.model.values import ANYTHING, ValueSet, none_of, one_of

SEEDS = st.integers(0, 10**6)
WANTED = (ANYTHING, one_of(["amd64", "c5", "m5", "large"]), none_of(["m5", "metal", "c5.large"]))


def an_index(seed: int) -> TypeIndex:
    types = random_world(seed).types
    return TypeIndex(types[min(types)])


@given(SEEDS, st.integers(1, 4), st.sampled_from(WANTED))
def test_witnesses_are_found_where_there_are_enough_values(
    seed: int, count: int, wanted: ValueSet
) -> None:
    index, dice = an_index(seed), Random(seed)
    rows = dice.getrandbits(len(index.types))
    for key in (INSTANCE_TYPE, INSTANCE_FAMILY, INSTANCE_SIZE, ARCH):
        found = index.witnesses(key, count, rows, wanted)
        assert (found is not None) == index.has_values(key, count, rows, 0, wanted)
        if found is not None:
            assert found & rows == found
            assert index.has_values(key, count, found, 0, wanted)


@given(SEEDS)
def test_the_largest_amount_is_found_without_looking_at_each(seed: int) -> None:
    index, dice = an_index(seed), Random(seed)
    rows = dice.getrandbits(len(index.types))
    for name in ("cpu", "memory", "pods", "nvidia.com/gpu", "unknown"):
        amounts = [
            kind.allocatable[name] for kind in index.members(rows) if name in kind.allocatable
        ]
        assert largest(index.own_thresholds.sizes(name), rows) == max(amounts, default=-1)


@given(SEEDS)
def test_the_best_buy_is_the_cheapest_of_all_offers(seed: int) -> None:
    index, dice = an_index(seed), Random(seed)
    rows, markets = dice.getrandbits(len(index.types)), dice.getrandbits(len(index.markets))
    offers = [
        (cost(index.types[row], offering), index.types[row].name, market)
        for row, market, offering in index.offers(rows, markets)
    ]
    found = index.best_buy(rows, markets)
    kind = found and index.types[found[0]]
    chosen = found and kind and (cost(kind, found[2]), kind.name, found[1])
    assert chosen == min(offers, default=None)
