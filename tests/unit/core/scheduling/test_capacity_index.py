"""The capacity index: drafts that it lists as too full are too full."""

from hypothesis import given
from hypothesis import strategies as st

from wainwright.core.scheduling import capacity_index as module
from wainwright.core.scheduling.capacity_index import CapacityIndex
from wainwright.core.scheduling.pod_classes import PodRequirements, SchedulingRequirements
from wainwright.model.bitset import union
from wainwright.model.requirements import NO_REQUIREMENTS

ANY_NODE = SchedulingRequirements(NO_REQUIREMENTS, ())


def requirements_of(amount: int) -> PodRequirements:
    return PodRequirements(ANY_NODE, ((0, amount),), (0,))


def too_full(index: CapacityIndex, amount: int) -> int:
    return union(drafts[position] for drafts, position in index.entries(((0, amount),)))


@given(
    st.sets(st.integers(1, 2000), min_size=1, max_size=4 * module.BLOCK_SIZE),
    st.lists(st.lists(st.integers(-5, 2100), min_size=1, max_size=4), max_size=12),
)
def test_the_index_is_exact_while_there_are_few_sizes(
    sizes: set[int], free: list[list[int]]
) -> None:
    index = CapacityIndex([requirements_of(amount) for amount in sizes], 1)
    for number, shrinking in enumerate(free):
        [level] = index.initial_levels()
        for left in sorted(shrinking, reverse=True):
            level = index.update(1 << number, 0, left, level)
    for amount in sizes:
        expected = sum(1 << number for number, left in enumerate(free) if min(left) < amount)
        assert too_full(index, amount) == expected


@given(
    st.sets(st.integers(1, 2000), min_size=2 * module.BLOCK_SIZE, max_size=3 * module.BLOCK_SIZE)
)
def test_removed_drafts_are_too_full_for_no_size(sizes: set[int]) -> None:
    index = CapacityIndex([requirements_of(amount) for amount in sizes], 1)
    for number in range(3):
        index.update(1 << number, 0, 0, index.initial_levels()[0])
    index.remove(0b101)
    assert {too_full(index, amount) for amount in sizes} == {0b010}


@given(st.integers(-1, 3000), st.integers(1, 3 * module.MAX_SIZES))
def test_with_many_sizes_a_listed_draft_is_really_too_full(left: int, amount: int) -> None:
    index = CapacityIndex([requirements_of(each) for each in range(1, 3 * module.MAX_SIZES + 1)], 1)
    index.update(1, 0, left, index.initial_levels()[0])
    assert not too_full(index, amount) or left < amount


def test_a_draft_that_gets_fuller_is_added_to_further_sizes() -> None:
    index = CapacityIndex([requirements_of(10), requirements_of(20)], 1)
    level = index.update(1, 0, 25, index.initial_levels()[0])
    assert (too_full(index, 10), too_full(index, 20)) == (0, 0)
    level = index.update(1, 0, 15, level)
    assert (too_full(index, 10), too_full(index, 20)) == (0, 1)
    assert index.update(1, 0, 5, level) == 0
    assert too_full(index, 10) == 1
