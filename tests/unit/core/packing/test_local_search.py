"""Mending: loads only ever get cheaper, nobody is lost, and it ends when it is told to."""

from hypothesis import given
from hypothesis import strategies as st
from tests.support.packing_builders import (
    assert_packed,
    bin_type,
    item_type,
    packing_problem,
    total_price,
)

from wainwright.core.packing.bin_filling import BinFiller
from wainwright.core.packing.local_search import LocalSearch
from wainwright.core.packing.packing_problem import FilledBin, ItemType, PackingProblem
from wainwright.core.packing.pod_packing import fill_and_improve

ITEM_TYPES = st.lists(
    st.builds(
        ItemType,
        st.tuples(st.integers(1, 20), st.integers(1, 20)),
        st.integers(1, 6),
        st.integers(0, 1),
    ),
    min_size=1,
    max_size=6,
)
BIN_TYPES = [
    bin_type(1.0, 10, 10, usable_by=0b11),
    bin_type(1.7, 25, 12, usable_by=0b11),
    bin_type(1.6, 12, 25, usable_by=0b01),
    bin_type(3.0, 30, 30, usable_by=0b11),
]


def one_by_one(where: PackingProblem) -> list[FilledBin]:
    """The most wasteful way: a machine for every pod."""
    filler = BinFiller(where)
    found = []
    for number, each in enumerate(where.items):
        for _ in range(each.pods):
            left = [0] * len(where.items)
            left[number] = 1
            found += filler.filled_bins(left, [number])
    return found


@given(items=ITEM_TYPES)
def test_it_never_gets_dearer_and_loses_nobody(items: list[ItemType]) -> None:
    where = packing_problem(items, BIN_TYPES)
    before = one_by_one(where)
    search = LocalSearch(BinFiller(where), list(before))
    search.improve(3000)
    assert_packed(where, search.filled_bins)
    assert (
        total_price(search.filled_bins) <= total_price(before) * 1.01
    )  # a node less is worth a little


def test_pods_that_are_alone_are_brought_together() -> None:
    where = packing_problem([item_type(5, 5, pods=12), item_type(1, 1, pods=20)], BIN_TYPES)
    before = one_by_one(where)
    search = LocalSearch(BinFiller(where), before)
    search.improve(200_000)
    assert total_price(search.filled_bins) < total_price(before) / 2


def test_the_dice_fall_the_same_way() -> None:
    items = [item_type(n % 7 + 1, n % 5 + 1, pods=n % 3 + 1) for n in range(12)]
    assert fill_and_improve(packing_problem(items, BIN_TYPES), 20_000) == fill_and_improve(
        packing_problem(items, BIN_TYPES), 20_000
    )


def test_it_stops_when_enough_has_been_looked_at() -> None:
    where = packing_problem([item_type(3, 2, pods=30), item_type(2, 5, pods=30)], BIN_TYPES)
    filler = BinFiller(where)
    search = LocalSearch(filler, one_by_one(where))
    before = filler.work
    search.improve(1000)
    assert 1000 <= filler.work - before < 3000
    search.improve(0)
    assert filler.work - before < 3000


def test_a_single_load_is_left_alone() -> None:
    where = packing_problem([item_type(5, 5)], BIN_TYPES)
    filler = BinFiller(where)
    alone = one_by_one(where)
    search = LocalSearch(filler, alone)
    search.improve(10_000)
    assert search.filled_bins == alone
