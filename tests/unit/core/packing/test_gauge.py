"""The gauge: amounts in one integer say the same as amounts one by one."""

from hypothesis import given
from hypothesis import strategies as st

from wainwright.core.packing.gauge import copies, gauge_for

AMOUNTS = st.lists(st.integers(0, 5000), min_size=3, max_size=3)


@given(room=AMOUNTS, asked=AMOUNTS)
def test_it_holds_what_fits_in_every_resource(room: list[int], asked: list[int]) -> None:
    gauge = gauge_for([room, asked])
    fits = all(mine <= its for mine, its in zip(asked, room, strict=True))
    assert gauge.holds(gauge.packed(room), gauge.packed(asked)) is fits


@given(room=AMOUNTS, asked=AMOUNTS, most=st.integers(0, 40))
def test_copies_are_as_many_as_fit(room: list[int], asked: list[int], most: int) -> None:
    gauge = gauge_for([room], [asked])
    times = 0
    while times < most and all(
        amount * (times + 1) <= has for amount, has in zip(asked, room, strict=True)
    ):
        times += 1
    assert copies(gauge.packed(room), gauge.parts(asked), most) == times


@given(room=AMOUNTS, asked=AMOUNTS)
def test_what_is_left_is_the_difference(room: list[int], asked: list[int]) -> None:
    gauge = gauge_for([room], [asked])
    less = [min(mine, its) for mine, its in zip(asked, room, strict=True)]
    left = [has - mine for has, mine in zip(room, less, strict=True)]
    assert gauge.packed(room) - gauge.packed(less) == gauge.packed(left)
