"""`make oracle`: random clusters scheduled by Karpenter and by us, and the differences."""

import argparse
import sys
from collections.abc import Iterable

from tests.oracle.client import Oracle
from tests.oracle.comparison import UNEXPLAINED, ProfileResult, compare_profile, find_unexplained
from tests.oracle.profiles import PROFILES
from tests.support.processes import MissingTool

HEAD = (
    f"{'profile':<14}{'worlds':>7}{'agree':>9}{'unexplained':>13}{'cost':>8}  by row; beyond theirs"
)
SHOWN = 3  # puzzles of each profile that are shrunk and printed


def main() -> None:
    wanted = _arguments()
    try:
        with Oracle.start() as oracle:
            _compare(oracle, wanted.profile, range(wanted.first, wanted.first + wanted.seeds))
    except MissingTool as missing:
        sys.exit(str(missing))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make oracle", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, help="worlds of each profile")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--profile", nargs="*", help=f"of {', '.join(PROFILES)}; default all")
    found = parser.parse_args()
    found.profile = found.profile or list(PROFILES)
    unknown = [name for name in found.profile if name not in PROFILES]
    if unknown:
        parser.error(f"no profile {', '.join(unknown)}; there are {', '.join(PROFILES)}")
    return found


def _compare(oracle: Oracle, profiles: Iterable[str], seeds: range) -> None:
    _say(HEAD)
    tallies = []
    for profile in profiles:
        tallies.append(compare_profile(oracle, profile, seeds))
        _say(_row(tallies[-1]))
    for each in tallies:
        for seed, error in each.broken.items():
            _say("", f"{each.profile}/{seed} broke down: {error}")
        for seed in each.unexplained[:SHOWN]:
            _say("", *find_unexplained(oracle, each.profile, seed).lines())
    sys.exit(1 if any(each.unexplained or each.broken for each in tallies) else 0)


def _row(found: ProfileResult) -> str:
    rows = ", ".join(
        f"{row}: {count}" for row, count in sorted(found.rows.items()) if row != UNEXPLAINED
    )
    further = ", ".join(f"{gist} {count}" for gist, count in found.further.most_common())
    ratio = "-" if found.ratio is None else f"{found.ratio:.3f}"
    return (
        f"{found.profile:<14}{found.clusters:>7}{found.agreed:>9.1%}{len(found.unexplained):>13}"
        f"{ratio:>8}  {rows or '-'}; {further or '-'}"
    )


def _say(*lines: str) -> None:
    for line in lines:
        sys.stdout.write(line + "\n")
    sys.stdout.flush()


main()
