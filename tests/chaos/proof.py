"""`make chaos-proof`: planted bugs, one by one, each of which must break its law with some seed."""

import argparse
import logging
import sys

from tests.chaos.random_cases import random_case
from tests.chaos.reports import describe_failure
from tests.chaos.trial import CRASHES, EndlessRunError, TrialResult, run_case
from tests.support.planted_bugs import BUGS, planted


def main() -> None:
    parser = argparse.ArgumentParser(prog="make chaos-proof", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, help="at most, for each bug")
    parser.add_argument("--bug", choices=list(BUGS), action="append", help="default all")
    wanted = parser.parse_args()
    logging.disable(logging.CRITICAL)
    missed = [bug for bug in wanted.bug or BUGS if not _find(bug, wanted.seeds)]
    _say(f"{len(missed)} not found: {', '.join(missed)}" if missed else "every bug was found")
    sys.exit(1 if missed else 0)


def _find(bug: str, seeds: int) -> bool:
    for seed in range(seeds):
        with planted(bug):
            trial = run_case(random_case(seed))
        if breaks_its_law(bug, trial):
            _say(f"{bug}: found after {seed + 1} seeds: {describe_failure(seed, trial, bug)}")
            return True
    _say(f"{bug}: not found by {seeds} seeds")
    return False


def breaks_its_law(bug: str, trial: TrialResult) -> bool:
    """BadlyPlantedError if the run ended with an error of the bug itself: that says nothing about
    laws. Going round in a circle is what a bug may bring about.
    """
    for each in trial.broken:
        if each.law == CRASHES and not each.message.startswith(EndlessRunError.__name__):
            raise BadlyPlantedError(f"{bug}: {each.message}")
    return BUGS[bug].law in trial.laws


class BadlyPlantedError(Exception):
    """A bug that ends the simulation."""


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
