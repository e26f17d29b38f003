"""Mending: loads only ever get cheaper, nobody is lost, and it ends when it is told to."""

from hypothesis import given
from hypothesis import strategies as st
from tests.support.yards import assert_packed, lot, machine, price, yard

from wainwright.core.packing.filling import Filler
from wainwright.core.packing.loading import loads
from wainwright.core.packing.lots import Lot
from wainwright.core.packing.mending import Mender
from wainwright.core.packing.yard import Load, Yard

LOTS = st.lists(
    st.builds(
        Lot,
        st.tuples(st.integers(1, 20), st.integers(1, 20)),
        st.integers(1, 6),
        st.integers(0, 1),
    ),
    min_size=1,
    max_size=6,
)
MACHINES = [
    machine(1.0, 10, 10, takers=0b11),
    machine(1.7, 25, 12, takers=0b11),
    machine(1.6, 12, 25, takers=0b01),
    machine(3.0, 30, 30, takers=0b11),
]


def one_by_one(where: Yard) -> list[Load]:
    """The most wasteful way: a machine for every pod."""
    filler = Filler(where)
    found = []
    for number, each in enumerate(where.lots):
        for _ in range(each.pods):
            left = [0] * len(where.lots)
            left[number] = 1
            found += filler.loads(left, [number])
    return found


@given(lots=LOTS)
def test_it_never_gets_dearer_and_loses_nobody(lots: list[Lot]) -> None:
    where = yard(lots, MACHINES)
    before = one_by_one(where)
    mender = Mender(Filler(where), list(before))
    mender.mend(3000)
    assert_packed(where, mender.loads)
    assert price(mender.loads) <= price(before) * 1.01  # a node less is worth a little


def test_pods_that_are_alone_are_brought_together() -> None:
    where = yard([lot(5, 5, pods=12), lot(1, 1, pods=20)], MACHINES)
    before = one_by_one(where)
    mender = Mender(Filler(where), before)
    mender.mend(200_000)
    assert price(mender.loads) < price(before) / 2


def test_the_dice_fall_the_same_way() -> None:
    lots = [lot(n % 7 + 1, n % 5 + 1, pods=n % 3 + 1) for n in range(12)]
    assert loads(yard(lots, MACHINES), 20_000) == loads(yard(lots, MACHINES), 20_000)


def test_it_stops_when_enough_has_been_looked_at() -> None:
    where = yard([lot(3, 2, pods=30), lot(2, 5, pods=30)], MACHINES)
    filler = Filler(where)
    mender = Mender(filler, one_by_one(where))
    before = filler.looks
    mender.mend(1000)
    assert 1000 <= filler.looks - before < 3000
    mender.mend(0)
    assert filler.looks - before < 3000


def test_a_single_load_is_left_alone() -> None:
    where = yard([lot(5, 5)], MACHINES)
    filler = Filler(where)
    alone = one_by_one(where)
    mender = Mender(filler, alone)
    mender.mend(10_000)
    assert mender.loads == alone
