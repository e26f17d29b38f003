"""Filling: everybody gets on a machine that holds him, and money buys what it can."""

from hypothesis import given
from hypothesis import strategies as st
from tests.support.yards import assert_packed, lot, machine, price, yard

from wainwright.core.packing.dice import Dice
from wainwright.core.packing.filling import Filler
from wainwright.core.packing.lots import Lot
from wainwright.core.packing.yard import Load, Yard

LOTS = st.lists(
    st.builds(
        Lot,
        st.tuples(st.integers(0, 20), st.integers(0, 20), st.just(1)),
        st.integers(1, 12),
        st.integers(0, 2),
    ),
    min_size=1,
    max_size=8,
)
MACHINES = st.lists(
    st.builds(
        lambda cost, cpu, memory, who: machine(float(cost), cpu, memory, 10, takers=who),
        st.integers(0, 20),
        st.integers(1, 40),
        st.integers(1, 40),
        st.integers(1, 7),
    ),
    max_size=5,
)
LAST_RESORT = machine(50.0, 40, 40, 20, takers=0b111)


def filled(where: Yard) -> list[Load]:
    left = [each.pods for each in where.lots]
    loads = Filler(where).loads(left, range(len(left)))
    assert not any(left)
    return loads


@given(lots=LOTS, machines=MACHINES)
def test_everybody_is_in_a_load_that_its_machine_holds(lots: list[Lot], machines: list) -> None:  # type: ignore[type-arg]
    where = yard(lots, [*machines, LAST_RESORT])
    assert_packed(where, filled(where))


def test_machines_that_cost_least_for_what_is_needed_are_filled() -> None:
    small, large = machine(1.0, 4, 100), machine(3.0, 8, 100)
    where = yard([lot(2, 1, pods=8)], [small, large])
    assert [where.machines[load.machine] for load in filled(where)] == [small] * 4


def test_what_is_heavy_in_one_resource_goes_with_what_is_heavy_in_the_other() -> None:
    """By size alone the heavy in cpu would come first, and leave the memory idle."""
    where = yard([lot(6, 2, pods=10), lot(2, 6, pods=10)], [machine(1.0, 8, 8)])
    assert price(filled(where)) == 10.0


def test_a_half_empty_machine_is_bought_as_a_smaller_one() -> None:
    where = yard([lot(3, 3)], [machine(1.0, 4, 4), machine(1.001, 40, 40)])
    assert price(filled(where)) == 1.0


def test_only_the_customers_of_a_machine_are_on_it() -> None:
    lots = [lot(2, 2, pods=4), lot(2, 2, pods=4, customer=1)]
    cheap, dear = machine(1.0, 8, 8, takers=0b01), machine(5.0, 8, 8, takers=0b10)
    where = yard(lots, [cheap, dear])
    assert sorted(load.customers for load in filled(where)) == [0b01, 0b10]


@given(lots=LOTS, machines=MACHINES, seed=st.integers(0, 99))
def test_what_is_cheaper_holds_everybody_and_costs_less(
    lots: list[Lot],
    machines: list,  # type: ignore[type-arg]
    seed: int,
) -> None:
    where = yard(lots, [*machines, LAST_RESORT])
    filler, numbers = Filler(where), range(len(lots))
    everything = [each.pods for each in lots]
    cost = price(filler.loads(list(everything), numbers))
    found = filler.cheaper(
        list(everything), numbers, range(len(where.machines)), 2 * cost, Dice(seed)
    )
    if found is not None:
        assert_packed(where, found)
        assert price(found) < 2 * cost
    assert filler.cheaper(list(everything), numbers, [0], 0.0, Dice(seed)) is None


def test_what_does_not_fit_the_machines_in_question_is_not_cheaper() -> None:
    where = yard([lot(9, 9)], [machine(1.0, 4, 4), machine(2.0, 9, 9)])
    filler = Filler(where)
    assert filler.cheaper([1], [0], [0], 100.0, Dice()) is None
    assert filler.cheaper([1], [0], [0, 1], 100.0, Dice()) is not None


@given(lots=LOTS, balance=st.floats(0, 1))
def test_a_matched_order_has_everybody_once(lots: list[Lot], balance: float) -> None:
    filler = Filler(yard(lots, [LAST_RESORT]))
    order = list(range(len(lots)))
    assert sorted(filler.matched(order, [each.pods for each in lots], balance)) == order


def test_looks_are_counted() -> None:
    """They stand for time, so that packing ends at the same point on every machine."""
    few, many = (
        yard([lot(n % 5 + 1, 1) for n in range(count)], [machine(1.0, 9, 9)]) for count in (5, 50)
    )
    spent = []
    for where in (few, many):
        filler = Filler(where)
        filler.loads([each.pods for each in where.lots], range(len(where.lots)))
        spent.append(filler.looks)
    assert 0 < spent[0] < spent[1]
