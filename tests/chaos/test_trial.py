"""The laws of a trial besides those of every simulation: each is broken once, and holds once."""

import msgspec
import pytest
from tests.chaos.random_cases import ChaosCase, Manifest
from tests.chaos.trial import (
    CONVERGES,
    CRASHES,
    FREE_LAUNCHES,
    LAUNCHES_BIND,
    LAUNCHES_PER_POD,
    LaunchCounts,
    LaunchStreak,
    run_case,
)
from tests.support.random_inputs.scenarios import CLASS
from tests.support.scripted_simulation import cloud

from wainwright.sim.fault_injection import FaultInjection

PODS = 4
ALLOWED = FREE_LAUNCHES + LAUNCHES_PER_POD * PODS


def judged(*history: tuple[int, int, int]) -> LaunchStreak:
    """Of launches, bound pods and deaths of the controllers, a minute apart."""
    streak = LaunchStreak()
    for minute, (launches, bound, deaths) in enumerate(history):
        streak.count(
            LaunchCounts(at=60.0 * minute, launches=launches, bound=bound, deaths=deaths, pods=PODS)
        )
    return streak


@pytest.mark.parametrize(
    "history",
    [
        [(ALLOWED, 0, 0)],
        [(ALLOWED, 0, 0), (ALLOWED + 1, 1, 0), (2 * ALLOWED + 1, 1, 0)],
        [(ALLOWED, 1, 0), (2 * ALLOWED, 1, 0)],
        [(ALLOWED, 0, 0), (ALLOWED + LAUNCHES_PER_POD * PODS, 0, 1)],
    ],
    ids=["as many as allowed", "a pod is bound", "bound at once", "the controllers died"],
)
def test_launches_bind_pods(history: list[tuple[int, int, int]]) -> None:
    assert judged(*history).broken is None


@pytest.mark.parametrize(
    ("history", "at", "launches"),
    [
        ([(3, 0, 0), (ALLOWED + 1, 0, 0), (2 * ALLOWED, 0, 0)], 60.0, ALLOWED + 1),
        ([(5, 1, 0), (5 + ALLOWED, 1, 0), (6 + ALLOWED, 1, 0)], 120.0, ALLOWED + 1),
        ([(5, 1, 1), (6 + ALLOWED, 1, 1)], 60.0, ALLOWED + 1),
    ],
    ids=["none is bound", "none is bound any more", "the death was before"],
)
def test_launches_that_bind_no_pod_break_a_law_once(
    history: list[tuple[int, int, int]], at: float, launches: int
) -> None:
    broken = judged(*history).broken
    assert broken is not None
    assert (broken.law, broken.held, broken.at) == (LAUNCHES_BIND, False, at)
    assert broken.message == f"{launches} launches, and no pod was bound since the first"


def test_pods_that_are_gone_for_a_moment_count_while_launches_do() -> None:
    """All of them are evicted at once where their node is drained."""
    streak = LaunchStreak()
    before, gone = (LaunchCounts(at=0.0, launches=0, bound=0, deaths=0, pods=n) for n in (PODS, 0))
    streak.count(before)
    streak.count(msgspec.structs.replace(gone, launches=ALLOWED))
    assert streak.broken is None
    streak.count(msgspec.structs.replace(gone, launches=ALLOWED + 1))
    assert streak.broken is not None


# Whole runs


def case(*, expire_after: str = "Never", never_join: float = 0.0) -> ChaosCase:
    """A pool and two pods, without faults."""
    pool: Manifest = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "pool"},
        "spec": {"template": {"spec": {"expireAfter": expire_after}}},
    }
    labels = {"app": "web"}
    requests = {"cpu": "1", "memory": "1Gi"}
    containers = [{"name": "main", "image": "app", "resources": {"requests": requests}}]
    web: Manifest = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}},
        },
    }
    return ChaosCase(
        seed=1,
        manifests=(CLASS, pool, web, dict(cloud())),
        spec={"until": "quiet", "seed": 1, "machines": {"neverJoin": never_join}},
        events=(),
        faults=FaultInjection(seed=1, until=60.0),
    )


def test_a_quiet_run_breaks_nothing() -> None:
    trial = run_case(case())
    assert trial.broken == ()
    assert trial.result is not None
    assert trial.result.totals.launches > 0


def test_a_world_that_never_comes_to_rest_does_not_converge() -> None:
    trial = run_case(case(expire_after="8m"))
    (broken,) = trial.broken
    assert (broken.law, broken.at) == (CONVERGES, None)
    assert broken.message == "still busy 4 hours after the last event and fault"


def test_instances_that_never_join_are_launches_that_bind_no_pod() -> None:
    trial = run_case(case(expire_after="3m", never_join=1.0))
    assert trial.laws == {LAUNCHES_BIND, CONVERGES}


def test_a_run_without_an_end_is_stopped_and_said() -> None:
    trial = run_case(case(expire_after="5m"), longest_run=0.02)
    (broken,) = trial.broken
    assert broken.law == CRASHES
    assert broken.message == "EndlessRunError: no end after 0.02 s of CPU"
    assert trial.result is None
