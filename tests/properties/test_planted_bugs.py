"""Each planted bug breaks a law with the seed that found it: `make chaos-proof` finds them anew."""

import pytest
from tests.chaos.random_cases import random_case
from tests.chaos.trial import run_case
from tests.support.planted_bugs import BUGS, planted

FOUND = {
    "launch-not-recorded": 0,
    "eviction-ignores-budget": 25,
    "finalizer-lost": 0,
    "taint-left": 0,
    "budget-counted-late": 5,
    "orphan-not-collected": 40,
    "eviction-without-uid": 26,
    "watch-not-listed-again": 1,
    "claim-released-early": 0,
    "replacement-not-awaited": 0,
    "node-not-drained": 0,
    "command-not-cleaned-up": 0,
    "reservation-count-stale": 5,
}
"""The first seed of each."""


def test_every_bug_is_looked_for() -> None:
    assert FOUND.keys() == BUGS.keys()


@pytest.mark.parametrize("bug", FOUND)
def test_a_planted_bug_breaks_a_law(bug: str) -> None:
    with planted(bug):
        assert run_case(random_case(FOUND[bug])).broken
