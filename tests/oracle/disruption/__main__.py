"""`make oracle-disruption`: random clusters through Karpenter's own disruption methods and ours,
each run until nothing is left to do. Ends with exit code 1, and says why, if a target is missed.
"""

import argparse
import sys
from collections.abc import Iterable, Sequence

from tests.oracle.client import Oracle
from tests.oracle.disruption.clusters import DISRUPTION_PROFILES
from tests.oracle.disruption.comparison import (
    RUNS,
    DisruptionCase,
    DisruptionResult,
    Figures,
    compare_disruption,
    total,
)
from tests.oracle.disruption.targets import missed_targets
from tests.support.processes import MissingTool

COLUMNS = (
    "profile",
    "clusters",
    "saves as much",
    "$/h before",
    "$/h saved, ours",
    "theirs",
    "evictions per $/h, ours",
    "theirs",
    "moved again, ours",
    "theirs",
    "invalid, ours",
    "theirs",
)
SHOWN = 3  # clusters of each profile in which we save less


def main() -> None:
    wanted = _arguments()
    seeds = range(wanted.first, wanted.first + wanted.seeds)
    try:
        with Oracle.start() as oracle:
            results = _compare(oracle, wanted.profile, seeds, wanted.runs)
        sys.exit(judge(results))
    except MissingTool as missing:
        sys.exit(str(missing))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make oracle-disruption", description=__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="clusters of each profile")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--runs", type=int, default=RUNS, help="runs of Karpenter's methods")
    names = ", ".join(DISRUPTION_PROFILES)
    parser.add_argument("--profile", nargs="*", help=f"of {names}; default all")
    found = parser.parse_args()
    found.profile = found.profile or list(DISRUPTION_PROFILES)
    unknown = [name for name in found.profile if name not in DISRUPTION_PROFILES]
    if unknown:
        parser.error(f"no profile {', '.join(unknown)}; there are {names}")
    return found


def _compare(
    oracle: Oracle, profiles: Iterable[str], seeds: range, runs: int
) -> list[DisruptionResult]:
    _say(f"| {' | '.join(COLUMNS)} |", f"|---{'|--:' * (len(COLUMNS) - 1)}|")
    results = []
    for profile in profiles:
        results.append(compare_disruption(oracle, profile, seeds, runs))
        _say(_row(results[-1]))
    return results


def judge(results: Sequence[DisruptionResult]) -> int:
    """Prints the sums, what was worse and which targets are missed; the exit code."""
    everything = total(results)
    _say(_row(everything), "")
    for each in results:
        _say(*(f"{each.profile}/{seed} broke down: {why}" for seed, why in each.broken.items()))
        for case in each.worse[:SHOWN]:
            _say(*_lines(case))
        for case in each.cases:
            _say(*(f"{each.profile}/{case.cluster.seed} ours: {w}" for w in case.ours.complaints))
    missed = list(missed_targets(everything))
    _say(*(f"missed: {each}" for each in missed))
    return 1 if missed else 0


def _row(found: DisruptionResult) -> str:
    ours, theirs = found.ours, found.theirs
    cells = [
        found.profile,
        str(found.clusters),
        f"{found.as_good:.1%}",
        f"{ours.before:.2f}",
        f"{ours.saving:.2f}",
        f"{theirs.saving:.2f}",
        f"{ours.evictions_per_dollar:.2f}",
        f"{theirs.evictions_per_dollar:.2f}",
        _repeated(ours),
        _repeated(theirs),
        f"{ours.invalid:.0f}",
        f"{theirs.invalid:.1f}",
    ]
    return f"| {' | '.join(cells)} |"


def _repeated(of: Figures) -> str:
    return f"{of.repeated:.0f} of {of.evictions:.0f} ({of.repeated_share:.1%})"


def _lines(case: DisruptionCase) -> list[str]:
    worst = min(case.theirs, key=lambda run: run.saving)
    return [
        f"{case.cluster.profile}/{case.cluster.seed}: {case.ours.before:.4f} $/h before, we save"
        f" {case.ours.saving:.4f}, their least saving run {worst.saving:.4f}",
        *(f"  ours   {line}" for line in case.ours.lines()),
        *(f"  theirs {line}" for line in worst.lines()),
    ]


def _say(*lines: str) -> None:
    for line in lines:
        sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
