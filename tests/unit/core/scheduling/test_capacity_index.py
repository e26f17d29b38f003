"""The slack index: whoever it calls too full is too full."""

from hypothesis import given
from hypothesis import strategies as st

from wainwright.core.scheduling import capacity_index as module
from wainwright.core.scheduling.capacity_index import CapacityIndex
from wainwright.core.scheduling.pod_requirements import PodRequirements, SchedulingRequirements
from wainwright.model.bitset import union
from wainwright.model.requirements import NO_REQUIREMENTS

ASK = SchedulingRequirements(NO_REQUIREMENTS, ())


def wish(amount: int) -> PodRequirements:
    return PodRequirements(ASK, ((0, amount),), (0,))


def too_full(slack: CapacityIndex, amount: int) -> int:
    return union(short[mark] for short, mark in slack.entries(((0, amount),)))


@given(
    st.sets(st.integers(1, 2000), min_size=1, max_size=4 * module.BLOCK_SIZE),
    st.lists(st.lists(st.integers(-5, 2100), min_size=1, max_size=4), max_size=12),
)
def test_it_is_exact_while_there_are_few_sizes(asked: set[int], free: list[list[int]]) -> None:
    slack = CapacityIndex([wish(amount) for amount in asked], 1)
    for number, shrinking in enumerate(free):
        [level] = slack.initial_levels()
        for left in sorted(shrinking, reverse=True):
            level = slack.update(1 << number, 0, left, level)
    for amount in asked:
        short = sum(1 << number for number, left in enumerate(free) if min(left) < amount)
        assert too_full(slack, amount) == short


@given(
    st.sets(st.integers(1, 2000), min_size=2 * module.BLOCK_SIZE, max_size=3 * module.BLOCK_SIZE)
)
def test_who_leaves_is_too_full_for_nothing(asked: set[int]) -> None:
    slack = CapacityIndex([wish(amount) for amount in asked], 1)
    for number in range(3):
        slack.update(1 << number, 0, 0, slack.initial_levels()[0])
    slack.remove(0b101)
    assert {too_full(slack, amount) for amount in asked} == {0b010}


@given(st.integers(-1, 3000), st.integers(1, 3 * module.MAX_SIZES))
def test_with_many_sizes_it_errs_only_towards_asking(left: int, amount: int) -> None:
    slack = CapacityIndex([wish(each) for each in range(1, 3 * module.MAX_SIZES + 1)], 1)
    slack.update(1, 0, left, slack.initial_levels()[0])
    assert not too_full(slack, amount) or left < amount


def test_room_that_shrinks_is_entered_where_it_was_not_before() -> None:
    slack = CapacityIndex([wish(10), wish(20)], 1)
    level = slack.update(1, 0, 25, slack.initial_levels()[0])
    assert (too_full(slack, 10), too_full(slack, 20)) == (0, 0)
    level = slack.update(1, 0, 15, level)
    assert (too_full(slack, 10), too_full(slack, 20)) == (0, 1)
    assert slack.update(1, 0, 5, level) == 0
    assert too_full(slack, 10) == 1
