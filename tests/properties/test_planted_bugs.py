"""Each planted bug breaks its law with a seed that found it: `make chaos-proof` finds them anew.

A change of the controllers changes the course of every seed. Where none of those here finds its bug
any more, `make chaos-proof BUG=…` says which one does.
"""

import pytest
from tests.chaos.proof import BadlyPlantedError, breaks_its_law
from tests.chaos.random_cases import random_case
from tests.chaos.trial import CRASHES, TrialResult, run_case
from tests.support.planted_bugs import BUGS, planted

from wainwright.model.simulation import LawResult

FOUND = {
    "launch-not-recorded": (0, 21, 110),
    "eviction-ignores-budget": (38, 83),
    "finalizer-lost": (19, 6),
    "taint-left": (0, 19, 40),
    "budget-counted-late": (5, 6, 7),
    "budget-by-reason": (6, 19, 29),
    "orphan-not-collected": (40, 63, 89, 100, 127),
    "eviction-without-uid": (26, 27, 28),
    "watch-not-listed-again": (7, 95, 4, 0, 1),
    "claim-released-early": (160, 55),
    "replacement-not-awaited": (0, 5, 1),
    "node-not-drained": (0, 19, 5),
    "no-launch-backoff": (87, 134),
    "spot-prices-stale": (92, 146, 163),
    "command-not-cleaned-up": (0, 29, 58, 70),
    "reservation-count-stale": (5, 24, 18, 6),
}
"""Seeds by bug: the first one found it when it was last looked for."""


def test_every_bug_is_looked_for() -> None:
    assert FOUND.keys() == BUGS.keys()


@pytest.mark.parametrize("bug", FOUND)
def test_a_planted_bug_breaks_its_law(bug: str) -> None:
    with planted(bug):
        assert any(breaks_its_law(bug, run_case(random_case(seed))) for seed in FOUND[bug])


def test_a_bug_that_ends_the_simulation_or_breaks_another_law_is_not_found() -> None:
    def broken(law: str, message: str) -> TrialResult:
        return TrialResult(broken=(LawResult(law=law, held=False, message=message),))

    assert breaks_its_law("taint-left", broken("no-taint-left", "Node a still has the taint"))
    assert not breaks_its_law("taint-left", broken("converges", "still busy"))
    assert not breaks_its_law("taint-left", broken(CRASHES, "EndlessRunError: no end"))
    with pytest.raises(BadlyPlantedError, match="taint-left: KeyError: 7"):
        breaks_its_law("taint-left", broken(CRASHES, "KeyError: 7"))
