"""Each planted bug breaks a law with a seed that found it: `make chaos-proof` finds them anew.

A change of the controllers changes the course of every seed. Where none of those here finds its bug
any more, `make chaos-proof BUG=…` says which one does.
"""

import pytest
from tests.chaos.random_cases import random_case
from tests.chaos.trial import run_case
from tests.support.planted_bugs import BUGS, planted

FOUND = {
    "launch-not-recorded": (99, 110),
    "eviction-ignores-budget": (38, 41, 83),
    "finalizer-lost": (19, 6, 0),
    "taint-left": (0, 19, 40),
    "budget-counted-late": (5, 6, 7),
    "orphan-not-collected": (89, 100, 127),
    "eviction-without-uid": (26, 27, 28),
    "watch-not-listed-again": (4, 0, 1),
    "claim-released-early": (160, 55),
    "replacement-not-awaited": (0, 5, 1),
    "node-not-drained": (0, 5, 19),
    "command-not-cleaned-up": (29, 58, 70),
    "reservation-count-stale": (5, 18, 6),
}
"""Seeds by bug: the first one found it when it was last looked for."""


def test_every_bug_is_looked_for() -> None:
    assert FOUND.keys() == BUGS.keys()


@pytest.mark.parametrize("bug", FOUND)
def test_a_planted_bug_breaks_a_law(bug: str) -> None:
    with planted(bug):
        assert any(run_case(random_case(seed)).broken for seed in FOUND[bug])
