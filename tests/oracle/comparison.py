"""Both schedulers on many clusters: how often they agree, why not, and what each costs, by profile.

A difference that no known reason accounts for is shrunk to the least cluster that shows it.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from math import fsum
from typing import Any, Final

import msgspec
from msgspec.structs import replace
from tests.oracle.client import Oracle, OracleFailed
from tests.oracle.known_differences import known_difference
from tests.oracle.random_cluster import RandomCluster, random_cluster
from tests.oracle.runs import CatalogMismatch, Comparison, compare_schedulers

from wainwright.manifests.problems import InvalidInput
from wainwright.model.labels import CAPACITY_TYPE, ZONE

Predicate = Callable[[RandomCluster], bool]

KEPT_FIELDS: Final = frozenset(
    "apiVersion kind metadata name namespace uid creationTimestamp ownerReferences spec template"
    " containers cpu memory pods nodeClassRef requirements matchExpressions matchLabelExpressions"
    " labelSelector key operator values volumeBindingMode offerings labels price available"
    f" reservationID capacity overhead {ZONE} {CAPACITY_TYPE}".split()
)
"""Without these a document is not a smaller one but a wrong one."""
NEVER_EMPTY: Final = frozenset(
    {"matchExpressions", "matchLabelExpressions", "nodeSelectorTerms", "values"}
)
"""To ask for none of something is another thing than to ask for nothing."""


def shrink_cluster(cluster: RandomCluster, wrong: Predicate) -> RandomCluster:
    """The smallest cluster found that still shows the difference."""
    before = None
    while before != cluster:
        before = cluster
        for part in ("objects", "types"):
            cluster = _remove_objects(cluster, part, wrong)
        for part in ("objects", "types"):
            cluster = _remove_fields(cluster, part, wrong)
    return cluster


def _remove_objects(cluster: RandomCluster, part: str, wrong: Predicate) -> RandomCluster:
    """Leaves out many at a time first, then ever fewer."""
    size = len(getattr(cluster, part)) // 2
    while size:
        start = 0
        while start < len(getattr(cluster, part)):
            items = getattr(cluster, part)
            tried = replace(cluster, **{part: items[:start] + items[start + size :]})
            if wrong(tried):
                cluster = tried
            else:
                start += size
        size //= 2
    return cluster


def _remove_fields(cluster: RandomCluster, part: str, wrong: Predicate) -> RandomCluster:
    """Leaves out parts of single documents."""
    for number in range(len(getattr(cluster, part))):
        progress = True
        while progress:
            progress = False
            items = getattr(cluster, part)
            for smaller in _without_one(items[number]):
                tried = replace(cluster, **{part: (*items[:number], smaller, *items[number + 1 :])})
                if wrong(tried):
                    cluster, progress = tried, True
                    break
    return cluster


def _without_one(value: Any) -> Iterator[Any]:
    """The value with one thing in it left out, larger things first."""
    if isinstance(value, dict):
        yield from (
            {k: each for k, each in value.items() if k != key}
            for key in value
            if key not in KEPT_FIELDS
        )
        for key, each in value.items():
            filled = (
                _without_one(each) if key not in NEVER_EMPTY else filter(None, _without_one(each))
            )
            yield from ({**value, key: smaller} for smaller in filled)
    elif isinstance(value, list):
        numbers = range(len(value))
        yield from ([*value[:number], *value[number + 1 :]] for number in numbers)
        for number in numbers:
            head, tail = value[:number], value[number + 1 :]
            yield from ([*head, smaller, *tail] for smaller in _without_one(value[number]))


FAILURES: Final = (
    InvalidInput,
    CatalogMismatch,
    AssertionError,
    LookupError,
    TypeError,
    ValueError,
)
"""Failures that a long run counts and survives."""
MAX_TRIES: Final = 5  # until theirs, which is not repeatable, shows the difference again
UNEXPLAINED: Final = 0
"""The row of what no row accounts for."""


class ProfileResult:
    """The results of the clusters of one profile."""

    def __init__(self, profile: str) -> None:
        self.profile = profile
        self.clusters = 0
        self.rows: Counter[int] = Counter()
        self.unexplained: list[int] = []
        """Seeds of clusters with an unexplained difference."""
        self.further: Counter[str] = Counter()
        """Clusters in which only we schedule some pods, by the reference's reason."""
        self.costs: list[tuple[float, float]] = []
        self.broken: dict[int, str] = {}
        """What went wrong, by the seed of the cluster that could not be compared at all."""

    @property
    def agreed(self) -> float:
        """The part of the clusters in which nothing is missing, or a row accounts for it."""
        bad = len(self.unexplained) + len(self.broken)
        return 1 - bad / self.clusters if self.clusters else 1.0

    @property
    def ratio(self) -> float | None:
        """What ours costs for each dollar of theirs, over clusters with the same pods placed."""
        theirs = fsum(their for _, their in self.costs)
        return fsum(our for our, _ in self.costs) / theirs if theirs else None

    def give_up(self, seed: int, error: Exception) -> None:
        """Counts a cluster on which one side failed."""
        self.clusters += 1
        self.broken[seed] = f"{type(error).__name__}: {error}"

    def take(self, case: Comparison, row: int | None) -> None:
        """Counts a cluster; `row` accounts for what is missing in it, NOBODY if nothing does."""
        self.clusters += 1
        if row is not None:
            self.rows[row] += 1
        if row == UNEXPLAINED:
            self.unexplained.append(case.cluster.seed)
        if case.extra:
            self.further[_error_summary(case)] += 1
        if case.costs is not None:
            self.costs.append(case.costs)


def compare_profile(oracle: Oracle, profile: str, seeds: Iterable[int]) -> ProfileResult:
    """Compares the clusters of a profile."""
    made = ProfileResult(profile)
    for seed in seeds:
        try:
            case = compare_schedulers(oracle, random_cluster(profile, seed))
            made.take(case, explain_difference(case, oracle))
        except FAILURES as error:
            made.give_up(seed, error)
    return made


def explain_difference(case: Comparison, oracle: Oracle) -> int | None:
    """None where nothing is missing, else the row that accounts for it, or NOBODY."""
    return (known_difference(case, oracle) or UNEXPLAINED) if case.missing else None


class UnexplainedDifference(msgspec.Struct, frozen=True, kw_only=True):
    """The smallest cluster that still shows an unexplained difference."""

    case: Comparison

    def lines(self) -> list[str]:
        cluster, ours, theirs = self.case.cluster, self.case.ours, self.case.runs[0]
        objects = [each for each in cluster.objects if each["kind"] != "Namespace"]
        return [
            f"{cluster.profile}/{cluster.seed}: we alone miss: {sorted(self.case.missing)}",
            f"options: {cluster.options}",
            *(msgspec.json.encode(each).decode() for each in [*objects, *cluster.types]),
            *(f"ours launches   {each}" for each in ours.launched),
            *(f"ours refuses    {pod}: {why}" for pod, why in sorted(ours.errors.items())),
            *(f"theirs launches {each}" for each in theirs.launched),
        ]


def find_unexplained(oracle: Oracle, profile: str, seed: int) -> UnexplainedDifference:
    """A shrunk cluster with an unexplained difference."""
    small = shrink_cluster(
        random_cluster(profile, seed), lambda tried: _is_unexplained(oracle, tried)
    )
    tries = (compare_schedulers(oracle, small) for _ in range(MAX_TRIES))
    return UnexplainedDifference(
        case=next((case for case in tries if case.missing), compare_schedulers(oracle, small))
    )


def _is_unexplained(oracle: Oracle, tried: RandomCluster) -> bool:
    try:
        return explain_difference(compare_schedulers(oracle, tried), oracle) == UNEXPLAINED
    except (*FAILURES, OracleFailed):
        return False  # another matter, or no valid cluster any more


ERROR_SUMMARIES: Final = (
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


def _error_summary(case: Comparison) -> str:
    """The reference's reason for a pod that only we schedule, in a word or two."""
    said = " ".join(
        run.errors.get(pod, "not in all runs") for run in case.runs for pod in sorted(case.extra)
    )
    return next((gist for part, gist in ERROR_SUMMARIES if part in said), "other")
