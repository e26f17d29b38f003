"""Machines: who may use what, which of it is worth a look, and who cannot be together."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st
from tests.support.model import instance_type, offering
from tests.support.yards import EMPTY, machine, template

from wainwright.core.packing.gauge import gauge_for
from wainwright.core.packing.machines import Machine, Reach, on_sale, parted, peaceful, undominated
from wainwright.model.columns import row_numbers
from wainwright.model.index import TypeIndex
from wainwright.model.labels import INSTANCE_SIZE, INSTANCE_TYPE

EVERYWHERE = -1
MACHINES = st.lists(
    st.builds(
        Machine,
        st.just(EMPTY),
        st.integers(0, 3),
        st.integers(1, 6).map(float),
        st.tuples(st.integers(0, 4), st.integers(0, 4)),
        st.integers(1, 7),
    ),
    max_size=12,
)


def reach(rows: int, markets: int = EVERYWHERE) -> Reach:
    return Reach((rows,), (markets if markets != EVERYWHERE else 0b11,))


def is_as_good(other: Machine, than: Machine) -> bool:
    """Whether nobody would miss it."""
    roomy = all(a >= b for a, b in zip(other.room, than.room, strict=True))
    return roomy and other.price <= than.price and not than.takers & ~other.takers


@given(machines=MACHINES)
def test_of_what_is_left_out_there_is_something_as_good(machines: list[Machine]) -> None:
    gauge = gauge_for([(4, 4)])
    kept = undominated(machines, gauge)
    assert [each.price for each in kept] == sorted(each.price for each in kept)
    for each in machines:
        assert any(is_as_good(other, each) for other in kept)
    for one, other in combinations(kept, 2):
        assert not is_as_good(one, other)
        assert not is_as_good(other, one)


@given(sets=st.lists(st.integers(0, 255), max_size=4))
def test_parts_are_told_by_which_sets_have_them(sets: list[int]) -> None:
    parts = parted(sets)
    members = [bit for _, rows in parts for bit in row_numbers(rows)]
    assert len(members) == len(set(members))
    for who, rows in parts:
        for bit in row_numbers(rows):
            assert who == sum(1 << n for n, each in enumerate(sets) if each >> bit & 1)
    assert sorted(members) == [bit for bit in range(8) if any(each >> bit & 1 for each in sets)]


@given(
    takers=st.integers(1, 31),
    quarrels=st.sets(st.sampled_from(list(combinations(range(5), 2))), max_size=3),
)
def test_nobody_is_with_whom_he_cannot_be(takers: int, quarrels: set[tuple[int, int]]) -> None:
    apart = [0] * 5
    for one, other in quarrels:
        apart[one] |= 1 << other
        apart[other] |= 1 << one
    found = peaceful(takers, apart)
    for together in found:
        assert not together & ~takers
        assert not any(together >> a & 1 and together >> b & 1 for a, b in quarrels)
    for number in row_numbers(takers):
        with_him = takers ^ (takers & apart[number])
        friends = [n for n in row_numbers(with_him) if n != number]
        assert any(each >> number & 1 for each in found)
        for friend in friends:  # and no two are kept apart that get along
            assert any(each >> number & 1 and each >> friend & 1 for each in found)


def test_each_is_bought_where_it_is_cheapest_for_those_who_may() -> None:
    kind = instance_type(offerings=(offering(zone="zone-a", price=2.0), offering(zone="zone-b")))
    sold = on_sale([template(kind)], [reach(1), reach(1, 0b01)], ["cpu"])
    assert {(each.takers, each.price) for each in sold} == {(0b11, 2.0), (0b01, 1.0)}


def test_fees_are_part_of_the_price_and_daemonsets_take_their_share() -> None:
    kind = instance_type(capacity={"cpu": 4000}, overhead={"cpu": 100}, fee=0.5)
    found = on_sale([template(kind)], [reach(1, 0b1)], ["cpu", "memory"])
    assert [(each.price, each.room) for each in found] == [(1.5, (3900, 0))]


def metal_and_other(cpu: int) -> list[str]:
    """What is for sale where a whole machine of 8 cpus is offered beside one of so many."""
    types = [
        instance_type(
            name=name,
            labels={INSTANCE_TYPE: name, INSTANCE_SIZE: name.partition(".")[2]},
            capacity={"cpu": cpus},
            offerings=(offering(price=cost),),
        )
        for name, cpus, cost in (("m5.metal", 8, 1.0), ("m5.xlarge", cpu, 9.0))
    ]
    index = TypeIndex(types)
    sold = on_sale([template(*types)], [reach(0b11, 0b1)], ["cpu"])
    return sorted(index.types[each.row].name for each in sold)


def test_a_whole_machine_is_for_sale_where_nothing_else_is_as_large() -> None:
    """Else it would never be launched, however cheap it is."""
    assert metal_and_other(8) == ["m5.xlarge"]
    assert metal_and_other(7) == ["m5.metal", "m5.xlarge"]


def test_one_machine_is_offered_to_every_set_that_gets_along() -> None:
    kind = instance_type()
    sold = on_sale([template(kind)], [reach(1, 0b1)] * 3, ["cpu"], {0: [0b010, 0b001, 0b000]})
    assert sorted(each.takers for each in sold) == [0b101, 0b110]


def test_the_cheapest_comes_first_and_of_equals_the_roomiest() -> None:
    machines = [machine(2.0, 9), machine(1.0, 3), machine(1.0, 5), machine(3.0, 9)]
    kept = undominated(machines, gauge_for([(9,)]))
    assert [(each.price, each.room) for each in kept] == [(1.0, (5,)), (2.0, (9,))]
