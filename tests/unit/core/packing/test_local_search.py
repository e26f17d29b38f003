"""Local search: bins only get cheaper, no item is lost, and the work is limited."""

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


def one_bin_per_item(problem: PackingProblem) -> list[FilledBin]:
    """The most wasteful packing: a bin for every item."""
    filler = BinFiller(problem)
    filled_bins = []
    for number, each in enumerate(problem.items):
        for _ in range(each.pods):
            remaining = [0] * len(problem.items)
            remaining[number] = 1
            filled_bins += filler.fill(remaining, [number])
    return filled_bins


@given(items=ITEM_TYPES)
def test_local_search_never_costs_more_and_keeps_all_items(items: list[ItemType]) -> None:
    problem = packing_problem(items, BIN_TYPES)
    before = one_bin_per_item(problem)
    search = LocalSearch(BinFiller(problem), list(before))
    search.improve(3000)
    assert_packed(problem, search.filled_bins)
    assert (
        total_price(search.filled_bins) <= total_price(before) * 1.01
    )  # one node less may cost a little more


def test_items_that_have_bins_of_their_own_are_combined() -> None:
    problem = packing_problem([item_type(5, 5, pods=12), item_type(1, 1, pods=20)], BIN_TYPES)
    before = one_bin_per_item(problem)
    search = LocalSearch(BinFiller(problem), before)
    search.improve(200_000)
    assert total_price(search.filled_bins) < total_price(before) / 2


def test_local_search_is_deterministic() -> None:
    items = [item_type(n % 7 + 1, n % 5 + 1, pods=n % 3 + 1) for n in range(12)]
    assert fill_and_improve(packing_problem(items, BIN_TYPES), 20_000) == fill_and_improve(
        packing_problem(items, BIN_TYPES), 20_000
    )


def test_local_search_stops_after_its_work() -> None:
    problem = packing_problem([item_type(3, 2, pods=30), item_type(2, 5, pods=30)], BIN_TYPES)
    filler = BinFiller(problem)
    search = LocalSearch(filler, one_bin_per_item(problem))
    before = filler.work
    search.improve(1000)
    assert 1000 <= filler.work - before < 3000
    search.improve(0)
    assert filler.work - before < 3000


def test_a_single_bin_is_not_changed() -> None:
    problem = packing_problem([item_type(5, 5)], BIN_TYPES)
    filler = BinFiller(problem)
    alone = one_bin_per_item(problem)
    search = LocalSearch(filler, alone)
    search.improve(10_000)
    assert search.filled_bins == alone
