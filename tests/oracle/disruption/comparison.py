"""Clusters of a profile, run by both until nothing is left to do, and the figures that count."""

from collections.abc import Iterable
from math import fsum
from typing import Final

import msgspec
from tests.oracle.client import Oracle
from tests.oracle.comparison import FAILURES
from tests.oracle.disruption.clusters import random_disruption_cluster
from tests.oracle.disruption.runs import DisruptionRun, run_ours, run_theirs
from tests.oracle.random_cluster import RandomCluster

RUNS: Final = 3  # theirs is not repeatable, so it is asked several times
TOLERANCE: Final = 0.01  # of a saving
CENT: Final = 1e-6  # USD per hour; a saving that is smaller is none


class DisruptionCase(msgspec.Struct, frozen=True, kw_only=True):
    cluster: RandomCluster
    ours: DisruptionRun
    theirs: tuple[DisruptionRun, ...]

    @property
    def least(self) -> float:
        """What their least saving run saves."""
        return min(run.saving for run in self.theirs)

    @property
    def is_worse(self) -> bool:
        """Whether we save less than any run of theirs."""
        return self.ours.saving < self.least - TOLERANCE * abs(self.least) - CENT


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """Sums over the clusters of a profile; of several runs the mean."""

    before: float = 0.0
    saving: float = 0.0
    evictions: float = 0.0
    repeated: float = 0.0
    commands: float = 0.0
    invalid: float = 0.0

    @property
    def evictions_per_dollar(self) -> float:
        return self.evictions / self.saving if self.saving > 0 else 0.0

    @property
    def repeated_share(self) -> float:
        return self.repeated / self.evictions if self.evictions else 0.0


class DisruptionResult:
    """The cases of one profile."""

    def __init__(self, profile: str) -> None:
        self.profile = profile
        self.cases: list[DisruptionCase] = []
        self.broken: dict[int, str] = {}

    @property
    def clusters(self) -> int:
        return len(self.cases) + len(self.broken)

    @property
    def worse(self) -> list[DisruptionCase]:
        return [case for case in self.cases if case.is_worse]

    @property
    def as_good(self) -> float:
        """The part of the clusters in which we save at least as much as their least saving run."""
        return 1 - (len(self.worse) + len(self.broken)) / self.clusters if self.clusters else 1.0

    @property
    def ours(self) -> Figures:
        return _figures([[case.ours] for case in self.cases])

    @property
    def theirs(self) -> Figures:
        return _figures([case.theirs for case in self.cases])


def _figures(cases: Iterable[Iterable[DisruptionRun]]) -> Figures:
    found = [_mean(list(runs)) for runs in cases]
    names = Figures.__struct_fields__
    return Figures(**{name: fsum(getattr(each, name) for each in found) for name in names})


def _mean(runs: list[DisruptionRun]) -> Figures:
    count = len(runs)
    return Figures(
        before=fsum(run.before for run in runs) / count,
        saving=fsum(run.saving for run in runs) / count,
        evictions=sum(run.evictions for run in runs) / count,
        repeated=sum(run.repeated for run in runs) / count,
        commands=sum(len(run.commands) for run in runs) / count,
        invalid=sum(bool(run.complaints) for run in runs) / count,
    )


def total(results: Iterable[DisruptionResult]) -> DisruptionResult:
    """All profiles together."""
    made = DisruptionResult("all")
    for each in results:
        made.cases += each.cases
        made.broken |= dict(enumerate(each.broken.values(), start=len(made.broken)))
    return made


def compare_cluster(oracle: Oracle, cluster: RandomCluster, runs: int = RUNS) -> DisruptionCase:
    return DisruptionCase(
        cluster=cluster,
        ours=run_ours(cluster),
        theirs=tuple(run_theirs(oracle, cluster) for _ in range(runs)),
    )


def compare_disruption(
    oracle: Oracle, profile: str, seeds: Iterable[int], runs: int = RUNS
) -> DisruptionResult:
    made = DisruptionResult(profile)
    for seed in seeds:
        try:
            cluster = random_disruption_cluster(profile, seed)
            made.cases.append(compare_cluster(oracle, cluster, runs))
        except FAILURES as error:
            made.broken[seed] = f"{type(error).__name__}: {error}"
    return made
