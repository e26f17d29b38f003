"""Sets as bits of integers."""

from hypothesis import given
from hypothesis import strategies as st

from wainwright.model.bitset import FEW_NAMES, NamedBits, iter_bits

NAMES = st.one_of(st.none(), st.sampled_from([f"name-{number}" for number in range(40)]))


@given(st.lists(NAMES, max_size=60), st.sets(NAMES, max_size=2 * FEW_NAMES))
def test_items_are_found_by_their_names_however_many_are_wanted(
    names: list[str | None], wanted: set[str | None]
) -> None:
    found = NamedBits(names).named(wanted)
    assert [*iter_bits(found)] == [at for at, name in enumerate(names) if name in wanted]
