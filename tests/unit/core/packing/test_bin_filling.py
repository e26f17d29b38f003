"""Bin filling: every pod is in a bin that holds it, and what is scarce is valued."""

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


def test_the_same_seed_gives_the_same_numbers() -> None:
    assert [LinearCongruentialGenerator(7).below(1000) for _ in range(3)] == [
        LinearCongruentialGenerator(7).below(1000)
    ] * 3
    one, other = LinearCongruentialGenerator(), LinearCongruentialGenerator()
    assert [one.below(6) for _ in range(50)] == [other.below(6) for _ in range(50)]


def test_another_seed_gives_others() -> None:
    one, other = LinearCongruentialGenerator(1), LinearCongruentialGenerator(2)
    assert [one.below(100) for _ in range(20)] != [other.below(100) for _ in range(20)]


@pytest.mark.parametrize("sides", [1, 2, 6, 37])
def test_every_side_comes_up_about_as_often(sides: int) -> None:
    rng = LinearCongruentialGenerator()
    counts = Counter(rng.below(sides) for _ in range(sides * 500))
    assert set(counts) == set(range(sides))
    assert max(counts.values()) < 1.3 * 500
    assert min(counts.values()) > 0.7 * 500


def test_a_unit_is_from_nought_to_less_than_one() -> None:
    rng = LinearCongruentialGenerator()
    drawn = [rng.unit() for _ in range(2000)]
    assert all(0 <= each < 1 for each in drawn)
    assert 0.45 < sum(drawn) / len(drawn) < 0.55


def valuation_of(where: PackingProblem) -> Valuation:
    return Valuation(where, [each.pods for each in where.items])


def test_what_is_scarce_is_dear() -> None:
    """All memory is used up while most of the cpus stay idle."""
    where = packing_problem([item_type(1, 8, pods=10), item_type(2, 1)], [bin_type(1.0, 16, 16)])
    found = valuation_of(where)
    heavy, light = found.floors
    assert heavy > 5 * light
    assert all(value > 0 for value in found.values)


def test_floors_add_up_to_what_it_costs_at_the_least() -> None:
    where = packing_problem([item_type(4, 4, pods=6)], [bin_type(1.0, 8, 8)])
    assert abs(valuation_of(where).floors[0] * 6 - 3.0) < 1e-9


def test_the_two_resources_that_cost_most_are_the_main_ones() -> None:
    where = packing_problem([item_type(1, 9, 1, pods=4)], [bin_type(1.0, 100, 9, 100)])
    assert valuation_of(where).main[0] == 1


@given(
    sizes=st.lists(st.integers(1, 400), min_size=1, max_size=20),
    costs=st.lists(st.integers(1, 900), min_size=1, max_size=100),
)
def test_every_lot_has_a_machine_on_the_short_list(sizes: list[int], costs: list[int]) -> None:
    bin_types = [bin_type(float(cost), n + 1, n + 1) for n, cost in enumerate(costs)]
    where = packing_problem(
        [item_type(n, n) for n in sizes], [*bin_types, bin_type(1000.0, 400, 400)]
    )
    shortlist = valuation_of(where).shortlist
    assert all(any(where.takes(number, each) for number in shortlist) for each in range(len(sizes)))
    assert len(shortlist) <= SHORTLIST_SIZE + len(sizes)
    assert shortlist == sorted(set(shortlist))


def test_so_has_a_large_lot_among_many_sizes() -> None:
    """Where sizes are many all count as one, and what is best for most is too small for some."""
    rooms = (2, 4, 8, 16, 32, 64)
    bin_types = [bin_type(room**1.5, room, room) for room in rooms]
    where = packing_problem(
        [item_type(size, size, pods=9) for size in (1, 3, 6, 12, 24, 50)], bin_types
    )
    shortlist = valuation_of(where).shortlist
    assert all(any(where.takes(number, each) for number in shortlist) for each in range(6))


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


def fill_bins(where: PackingProblem) -> list[FilledBin]:
    left = [each.pods for each in where.items]
    filled_bins = BinFiller(where).filled_bins(left, range(len(left)))
    assert not any(left)
    return filled_bins


@given(items=ITEM_TYPES, bin_types=BIN_TYPES)
def test_every_pod_is_in_a_bin_that_holds_it(items: list[ItemType], bin_types: list) -> None:  # type: ignore[type-arg]
    where = packing_problem(items, [*bin_types, LAST_RESORT])
    assert_packed(where, fill_bins(where))


def test_machines_that_cost_least_for_what_is_needed_are_filled() -> None:
    small, large = bin_type(1.0, 4, 100), bin_type(3.0, 8, 100)
    where = packing_problem([item_type(2, 1, pods=8)], [small, large])
    assert [where.bin_types[filled_bin.bin_type] for filled_bin in fill_bins(where)] == [small] * 4


def test_what_is_heavy_in_one_resource_goes_with_what_is_heavy_in_the_other() -> None:
    """By size alone the heavy in cpu would come first, and leave the memory idle."""
    where = packing_problem(
        [item_type(6, 2, pods=10), item_type(2, 6, pods=10)], [bin_type(1.0, 8, 8)]
    )
    assert total_price(fill_bins(where)) == 10.0


def test_a_half_empty_machine_is_bought_as_a_smaller_one() -> None:
    where = packing_problem([item_type(3, 3)], [bin_type(1.0, 4, 4), bin_type(1.001, 40, 40)])
    assert total_price(fill_bins(where)) == 1.0


def test_only_the_customers_of_a_machine_are_on_it() -> None:
    items = [item_type(2, 2, pods=4), item_type(2, 2, pods=4, item_class=1)]
    cheap, dear = bin_type(1.0, 8, 8, usable_by=0b01), bin_type(5.0, 8, 8, usable_by=0b10)
    where = packing_problem(items, [cheap, dear])
    assert sorted(filled_bin.item_classes for filled_bin in fill_bins(where)) == [0b01, 0b10]


@given(items=ITEM_TYPES, bin_types=BIN_TYPES, seed=st.integers(0, 99))
def test_what_is_cheaper_holds_everybody_and_costs_less(
    items: list[ItemType],
    bin_types: list,  # type: ignore[type-arg]
    seed: int,
) -> None:
    where = packing_problem(items, [*bin_types, LAST_RESORT])
    filler, numbers = BinFiller(where), range(len(items))
    everything = [each.pods for each in items]
    cost = total_price(filler.filled_bins(list(everything), numbers))
    found = filler.refill_cheaper(
        list(everything),
        numbers,
        range(len(where.bin_types)),
        2 * cost,
        LinearCongruentialGenerator(seed),
    )
    if found is not None:
        assert_packed(where, found)
        assert total_price(found) < 2 * cost
    assert (
        filler.refill_cheaper(
            list(everything), numbers, [0], 0.0, LinearCongruentialGenerator(seed)
        )
        is None
    )


def test_what_does_not_fit_the_machines_in_question_is_not_cheaper() -> None:
    where = packing_problem([item_type(9, 9)], [bin_type(1.0, 4, 4), bin_type(2.0, 9, 9)])
    filler = BinFiller(where)
    assert filler.refill_cheaper([1], [0], [0], 100.0, LinearCongruentialGenerator()) is None
    assert filler.refill_cheaper([1], [0], [0, 1], 100.0, LinearCongruentialGenerator()) is not None


@given(items=ITEM_TYPES, balance=st.floats(0, 1))
def test_a_matched_order_has_everybody_once(items: list[ItemType], balance: float) -> None:
    filler = BinFiller(packing_problem(items, [LAST_RESORT]))
    order = list(range(len(items)))
    assert sorted(filler.matched(order, [each.pods for each in items], balance)) == order


def test_looks_are_counted() -> None:
    """They stand for time, so that packing ends at the same point on every machine."""
    few, many = (
        packing_problem([item_type(n % 5 + 1, 1) for n in range(count)], [bin_type(1.0, 9, 9)])
        for count in (5, 50)
    )
    spent = []
    for where in (few, many):
        filler = BinFiller(where)
        filler.filled_bins([each.pods for each in where.items], range(len(where.items)))
        spent.append(filler.work)
    assert 0 < spent[0] < spent[1]
