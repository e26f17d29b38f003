"""Many worlds compared: how often both sides agree, why not, and what each costs, by profile."""

from collections import Counter
from collections.abc import Iterable
from math import fsum
from typing import Final

import msgspec
from tests.support.oracle import Oracle, Unanswered
from tests.support.oraclecompare import Case, compare
from tests.support.oracleloop import Quarrel
from tests.support.oraclerows import reason
from tests.support.oracleshrink import shrunk
from tests.support.oracleworlds import World, world

from wainwright.manifests.refused import InputRefused

BREAKDOWNS: Final = (InputRefused, Quarrel, AssertionError, LookupError, TypeError, ValueError)
"""What a world must never lead to, and the rest of a long run should survive."""
MOST_TRIES: Final = 5  # until theirs, which is not repeatable, shows the difference again
NOBODY: Final = 0
"""The row of what no row accounts for."""


class Tally:
    """What the worlds of one profile came to."""

    def __init__(self, profile: str) -> None:
        self.profile = profile
        self.worlds = 0
        self.rows: Counter[int] = Counter()
        self.unexplained: list[int] = []
        """Seeds of worlds in which we miss pods and nobody knows why."""
        self.further: Counter[str] = Counter()
        """Worlds in which we place pods that no run of theirs does, by what theirs says of them."""
        self.costs: list[tuple[float, float]] = []
        self.broken: dict[int, str] = {}
        """What went wrong, by the seed of the world that could not be compared at all."""

    @property
    def agreed(self) -> float:
        """The part of the worlds in which nothing is missing, or a row accounts for it."""
        bad = len(self.unexplained) + len(self.broken)
        return 1 - bad / self.worlds if self.worlds else 1.0

    @property
    def ratio(self) -> float | None:
        """What ours costs for each dollar of theirs, over worlds with the same pods placed."""
        theirs = fsum(their for _, their in self.costs)
        return fsum(our for our, _ in self.costs) / theirs if theirs else None

    def give_up(self, seed: int, error: Exception) -> None:
        """Counts a world that one side broke down over."""
        self.worlds += 1
        self.broken[seed] = f"{type(error).__name__}: {error}"

    def take(self, case: Case, row: int | None) -> None:
        """Counts a world; `row` accounts for what is missing in it, NOBODY if nothing does."""
        self.worlds += 1
        if row is not None:
            self.rows[row] += 1
        if row == NOBODY:
            self.unexplained.append(case.world.seed)
        if case.extra:
            self.further[_gist(case)] += 1
        if case.costs is not None:
            self.costs.append(case.costs)


def tally(oracle: Oracle, profile: str, seeds: Iterable[int]) -> Tally:
    """Compares the worlds of a profile."""
    made = Tally(profile)
    for seed in seeds:
        try:
            case = compare(oracle, world(profile, seed))
            made.take(case, accounted(case, oracle))
        except BREAKDOWNS as error:
            made.give_up(seed, error)
    return made


def accounted(case: Case, oracle: Oracle) -> int | None:
    """None where nothing is missing, else the row that accounts for it, or NOBODY."""
    return (reason(case, oracle) or NOBODY) if case.missing else None


class Puzzle(msgspec.Struct, frozen=True, kw_only=True):
    """The least world that still shows a difference that nobody can account for."""

    case: Case

    def lines(self) -> list[str]:
        world, ours, theirs = self.case.world, self.case.ours, self.case.runs[0]
        told = [each for each in world.objects if each["kind"] != "Namespace"]
        return [
            f"{world.profile}/{world.seed}: we alone miss: {sorted(self.case.missing)}",
            f"options: {world.options}",
            *(msgspec.json.encode(each).decode() for each in [*told, *world.types]),
            *(f"ours launches   {each}" for each in ours.launched),
            *(f"ours refuses    {pod}: {why}" for pod, why in sorted(ours.errors.items())),
            *(f"theirs launches {each}" for each in theirs.launched),
        ]


def puzzle(oracle: Oracle, profile: str, seed: int) -> Puzzle:
    """A world nobody can account for, with all left out that does not matter."""
    small = shrunk(world(profile, seed), lambda tried: _puzzling(oracle, tried))
    tries = (compare(oracle, small) for _ in range(MOST_TRIES))
    return Puzzle(case=next((case for case in tries if case.missing), compare(oracle, small)))


def _puzzling(oracle: Oracle, tried: World) -> bool:
    try:
        return accounted(compare(oracle, tried), oracle) == NOBODY
    except (*BREAKDOWNS, Unanswered):
        return False  # another matter, or no valid world any more


GISTS: Final = (
    ("topology spread", "spread"),
    ("pod anti-affinity", "anti-affinity"),
    ("pod affinity", "affinity"),
    ("reserved offering", "reservation"),
    ("limits", "limits"),
    ("minValues", "minValues"),
    ("is not allowed", "restricted label"),
    ("no nodepools", "no pools"),
    ("taint", "taints"),
    ("no instance type", "no type fits"),
)


def _gist(case: Case) -> str:
    """What the reference says of a pod that only we place, in a word or two."""
    said = " ".join(
        run.errors.get(pod, "not in all runs") for run in case.runs for pod in sorted(case.extra)
    )
    return next((gist for part, gist in GISTS if part in said), "other")
