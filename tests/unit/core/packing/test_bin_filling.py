"""Bin filling: every pod is in a bin that holds it, and scarce resources have a higher value."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.packing_builders import (
    assert_packed,
    bin_type,
    item_type,
    packing_problem,
    total_price,
)

from wainwright.core.packing.bin_filling import (
    SHORTLIST_SIZE,
    BinFiller,
    LinearCongruentialGenerator,
    Valuation,
)
from wainwright.core.packing.packing_problem import FilledBin, ItemType, PackingProblem


def test_the_same_seed_gives_the_same_random_numbers() -> None:
    assert [LinearCongruentialGenerator(7).below(1000) for _ in range(3)] == [
        LinearCongruentialGenerator(7).below(1000)
    ] * 3
    one, other = LinearCongruentialGenerator(), LinearCongruentialGenerator()
    assert [one.below(6) for _ in range(50)] == [other.below(6) for _ in range(50)]


def test_another_seed_gives_other_random_numbers() -> None:
    one, other = LinearCongruentialGenerator(1), LinearCongruentialGenerator(2)
    assert [one.below(100) for _ in range(20)] != [other.below(100) for _ in range(20)]


@pytest.mark.parametrize("limit", [1, 2, 6, 37])
def test_every_number_below_the_limit_is_about_equally_frequent(limit: int) -> None:
    rng = LinearCongruentialGenerator()
    counts = Counter(rng.below(limit) for _ in range(limit * 500))
    assert set(counts) == set(range(limit))
    assert max(counts.values()) < 1.3 * 500
    assert min(counts.values()) > 0.7 * 500


def test_a_random_unit_is_at_least_zero_and_below_one() -> None:
    rng = LinearCongruentialGenerator()
    drawn = [rng.unit() for _ in range(2000)]
    assert all(0 <= each < 1 for each in drawn)
    assert 0.45 < sum(drawn) / len(drawn) < 0.55


def valuation_of(problem: PackingProblem) -> Valuation:
    return Valuation(problem, [each.pods for each in problem.items])


def test_items_that_need_the_scarce_resource_have_a_higher_value() -> None:
    """All memory is used while most of the CPU stays idle."""
    problem = packing_problem([item_type(1, 8, pods=10), item_type(2, 1)], [bin_type(1.0, 16, 16)])
    found = valuation_of(problem)
    heavy, light = found.floors
    assert heavy > 5 * light
    assert all(value > 0 for value in found.values)


def test_floors_add_up_to_the_least_cost_of_all_items() -> None:
    problem = packing_problem([item_type(4, 4, pods=6)], [bin_type(1.0, 8, 8)])
    assert abs(valuation_of(problem).floors[0] * 6 - 3.0) < 1e-9


def test_the_main_resources_are_those_with_the_most_valuable_demand() -> None:
    problem = packing_problem([item_type(1, 9, 1, pods=4)], [bin_type(1.0, 100, 9, 100)])
    assert valuation_of(problem).main_resources[0] == 1


@given(
    sizes=st.lists(st.integers(1, 400), min_size=1, max_size=20),
    costs=st.lists(st.integers(1, 900), min_size=1, max_size=100),
)
def test_every_item_fits_a_bin_type_of_the_shortlist(sizes: list[int], costs: list[int]) -> None:
    bin_types = [bin_type(float(cost), n + 1, n + 1) for n, cost in enumerate(costs)]
    problem = packing_problem(
        [item_type(n, n) for n in sizes], [*bin_types, bin_type(1000.0, 400, 400)]
    )
    shortlist = valuation_of(problem).shortlist
    assert all(
        any(problem.fits(number, each) for number in shortlist) for each in range(len(sizes))
    )
    assert len(shortlist) <= SHORTLIST_SIZE + len(sizes)
    assert shortlist == sorted(set(shortlist))


def test_a_large_item_among_many_sizes_fits_a_bin_type_of_the_shortlist() -> None:
    """Many sizes count as one demand group, whose best bin types are too small for some items."""
    rooms = (2, 4, 8, 16, 32, 64)
    bin_types = [bin_type(room**1.5, room, room) for room in rooms]
    problem = packing_problem(
        [item_type(size, size, pods=9) for size in (1, 3, 6, 12, 24, 50)], bin_types
    )
    shortlist = valuation_of(problem).shortlist
    assert all(any(problem.fits(number, each) for number in shortlist) for each in range(6))


ITEM_TYPES = st.lists(
    st.builds(
        ItemType,
        st.tuples(st.integers(0, 20), st.integers(0, 20), st.just(1)),
        st.integers(1, 12),
        st.integers(0, 2),
    ),
    min_size=1,
    max_size=8,
)
BIN_TYPES = st.lists(
    st.builds(
        lambda cost, cpu, memory, who: bin_type(float(cost), cpu, memory, 10, usable_by=who),
        st.integers(0, 20),
        st.integers(1, 40),
        st.integers(1, 40),
        st.integers(1, 7),
    ),
    max_size=5,
)
LAST_RESORT = bin_type(50.0, 40, 40, 20, usable_by=0b111)


def fill_bins(problem: PackingProblem) -> list[FilledBin]:
    left = [each.pods for each in problem.items]
    filled_bins = BinFiller(problem).fill(left, range(len(left)))
    assert not any(left)
    return filled_bins


@given(items=ITEM_TYPES, bin_types=BIN_TYPES)
def test_every_pod_is_in_a_bin_that_holds_it(items: list[ItemType], bin_types: list) -> None:  # type: ignore[type-arg]
    problem = packing_problem(items, [*bin_types, LAST_RESORT])
    assert_packed(problem, fill_bins(problem))


def test_bin_types_with_the_lowest_price_for_the_demand_are_used() -> None:
    small, large = bin_type(1.0, 4, 100), bin_type(3.0, 8, 100)
    problem = packing_problem([item_type(2, 1, pods=8)], [small, large])
    assert [problem.bin_types[filled_bin.bin_type] for filled_bin in fill_bins(problem)] == [
        small
    ] * 4


def test_cpu_heavy_and_memory_heavy_items_share_bins() -> None:
    """By size alone the CPU-heavy items would come first, and leave the memory idle."""
    problem = packing_problem(
        [item_type(6, 2, pods=10), item_type(2, 6, pods=10)], [bin_type(1.0, 8, 8)]
    )
    assert total_price(fill_bins(problem)) == 10.0


def test_a_half_empty_bin_becomes_a_smaller_bin_type() -> None:
    problem = packing_problem([item_type(3, 3)], [bin_type(1.0, 4, 4), bin_type(1.001, 40, 40)])
    assert total_price(fill_bins(problem)) == 1.0


def test_a_bin_has_only_item_classes_that_may_use_its_type() -> None:
    items = [item_type(2, 2, pods=4), item_type(2, 2, pods=4, item_class=1)]
    cheap, expensive = bin_type(1.0, 8, 8, usable_by=0b01), bin_type(5.0, 8, 8, usable_by=0b10)
    problem = packing_problem(items, [cheap, expensive])
    assert sorted(filled_bin.item_classes for filled_bin in fill_bins(problem)) == [0b01, 0b10]


@given(items=ITEM_TYPES, bin_types=BIN_TYPES, seed=st.integers(0, 99))
def test_refilled_bins_hold_all_items_and_cost_less_than_the_maximum(
    items: list[ItemType],
    bin_types: list,  # type: ignore[type-arg]
    seed: int,
) -> None:
    problem = packing_problem(items, [*bin_types, LAST_RESORT])
    filler, numbers = BinFiller(problem), range(len(items))
    everything = [each.pods for each in items]
    cost = total_price(filler.fill(list(everything), numbers))
    found = filler.refill_cheaper(
        list(everything),
        numbers,
        range(len(problem.bin_types)),
        2 * cost,
        LinearCongruentialGenerator(seed),
    )
    if found is not None:
        assert_packed(problem, found)
        assert total_price(found) < 2 * cost
    assert (
        filler.refill_cheaper(
            list(everything), numbers, [0], 0.0, LinearCongruentialGenerator(seed)
        )
        is None
    )


def test_refilling_fails_where_an_item_fits_none_of_the_bin_types() -> None:
    problem = packing_problem([item_type(9, 9)], [bin_type(1.0, 4, 4), bin_type(2.0, 9, 9)])
    filler = BinFiller(problem)
    assert filler.refill_cheaper([1], [0], [0], 100.0, LinearCongruentialGenerator()) is None
    assert filler.refill_cheaper([1], [0], [0, 1], 100.0, LinearCongruentialGenerator()) is not None


@given(items=ITEM_TYPES, balance=st.floats(0, 1))
def test_a_balanced_order_has_every_item_once(items: list[ItemType], balance: float) -> None:
    filler = BinFiller(packing_problem(items, [LAST_RESORT]))
    order = list(range(len(items)))
    assert sorted(filler.balanced_order(order, [each.pods for each in items], balance)) == order


def test_items_looked_at_are_counted_as_work() -> None:
    """Work stands for time, so that packing ends at the same point on every computer."""
    few, many = (
        packing_problem([item_type(n % 5 + 1, 1) for n in range(count)], [bin_type(1.0, 9, 9)])
        for count in (5, 50)
    )
    work = []
    for problem in (few, many):
        filler = BinFiller(problem)
        filler.fill([each.pods for each in problem.items], range(len(problem.items)))
        work.append(filler.work)
    assert 0 < work[0] < work[1]
