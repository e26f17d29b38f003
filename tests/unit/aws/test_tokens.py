"""How launches are named: the same launch always the same, another attempt another."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from tests.support.awslaunches import claim

from wainwright.aws.tokens import BATCH_TAG, batch_of, marks
from wainwright.model.claim import Claim


def again(wanted: Claim, *others: Claim) -> Claim:
    """The claim as it is after a launch together with others."""
    return msgspec.structs.replace(wanted, mark=marks([wanted, *others], 0.0)[0])


def test_claims_of_a_batch_share_its_name_and_stand_in_order() -> None:
    found = marks([claim(1), claim(2), claim(3)], 7.0)
    assert len({mark.batch for mark in found}) == 1
    assert [mark.index for mark in found] == [0, 1, 2]
    assert len({mark.token for mark in found}) == 3
    assert {(mark.attempt, mark.at) for mark in found} == {(1, 7.0)}


def test_the_same_launch_has_the_same_name_whenever_it_is_asked_for() -> None:
    first, second = (marks([claim(1), claim(2)], moment) for moment in (1.0, 2.0))
    assert [mark.batch for mark in first] == [mark.batch for mark in second]


def test_another_attempt_is_another_launch() -> None:
    (first,) = marks([claim(1)], 0.0)
    (second,) = marks([again(claim(1))], 0.0)
    assert second.attempt == 2
    assert first.batch != second.batch
    assert first.token != second.token


@given(st.sets(st.integers(1, 9), min_size=1), st.sets(st.integers(1, 9), min_size=1))
def test_other_claims_are_another_launch(one: set[int], other: set[int]) -> None:
    left, right = (marks([claim(number) for number in sorted(each)], 0.0) for each in (one, other))
    assert (left[0].batch == right[0].batch) is (one == other)


def test_ec2_takes_them_as_client_token_and_tag() -> None:
    (mark,) = marks([claim(1)], 0.0)
    assert len(mark.batch) <= 64
    assert batch_of({BATCH_TAG: mark.batch}) == mark.batch
    assert batch_of({"team": "web"}) == ""
