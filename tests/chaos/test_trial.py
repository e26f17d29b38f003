"""The laws of a trial besides those of every simulation: each is broken once, and holds once."""

import msgspec
import pytest
from tests.chaos.launch_laws import (
    BACKOFF_SECONDS,
    FREE_LAUNCHES,
    LAUNCHES_BACK_OFF,
    LAUNCHES_BIND,
    LAUNCHES_PER_POD,
    REFUSALS,
    REFUSALS_END,
    LaunchCounts,
    LaunchStreak,
    RefusedLaunches,
    RepeatedLaunches,
)
from tests.chaos.random_cases import ChaosCase, Manifest, random_case
from tests.chaos.trial import CONVERGES, CRASHES, SETTLES_WITHIN, run_case
from tests.support.planted_bugs import planted
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


# Nodes for a pod that is not bound to them


def repeated(
    *nodes: tuple[float, float], died_at: float | None = None, clock_error: float = 0.0
) -> RepeatedLaunches:
    """Of one NodePool for one pod: when each was created, and when it came up."""
    launches = RepeatedLaunches(clock_error=clock_error)
    for number, (created, initialized) in enumerate(nodes):
        if died_at is not None and died_at <= created:
            launches.died(died_at)
        claim = f"pool-{number}"
        launches.created(claim, "pool", created)
        launches.nominated("shop/web", "uid", claim)
        launches.nominated("shop/web", "uid", claim)  # the event is written again
        launches.initialized(claim, initialized)
    return launches


TWO = ((0.0, 50.0), (60.0, 100.0))
TOO_SOON = (100.0 + BACKOFF_SECONDS - 2, 450.0)
IN_TIME = (100.0 + BACKOFF_SECONDS, 450.0)


@pytest.mark.parametrize(
    "launches",
    [
        repeated(*TWO, IN_TIME),
        repeated(*TWO, IN_TIME, (450.0 + 2 * BACKOFF_SECONDS, 1200.0)),
        repeated(*TWO, (110.0, 150.0)),
        repeated((0.0, 50.0), (60.0, 900.0), TOO_SOON),
        repeated(*TWO, TOO_SOON, died_at=20.0),
        repeated(*TWO, TOO_SOON, clock_error=1.0),
    ],
    ids=[
        *("five minutes later", "then ten", "before it is known", "one has not come up"),
        *("the controllers died", "their clock is wrong"),
    ],
)
def test_a_pod_waits_for_a_third_node(launches: RepeatedLaunches) -> None:
    assert launches.broken is None


@pytest.mark.parametrize(
    ("launches", "at", "message"),
    [
        (repeated(*TWO, TOO_SOON), 398.0, "got 2 nodes of NodePool pool, and another one 298 s"),
        (
            repeated(*TWO, IN_TIME, (448.0 + 2 * BACKOFF_SECONDS, 1200.0)),
            1048.0,
            "got 3 nodes of NodePool pool, and another one 598 s",
        ),
    ],
    ids=["a third one", "a fourth one"],
)
def test_a_node_for_a_pod_that_should_wait_breaks_a_law(
    launches: RepeatedLaunches, at: float, message: str
) -> None:
    broken = launches.broken
    assert broken is not None
    assert (broken.law, broken.held, broken.at) == (LAUNCHES_BACK_OFF, False, at)
    assert broken.message == f"shop/web {message} after the last of them had come up"


def test_what_was_launched_before_a_pod_was_bound_does_not_count() -> None:
    launches = repeated(*TWO)
    launches.bound("uid")
    launches.created("pool-2", "pool", TOO_SOON[0])
    launches.nominated("shop/web", "uid", "pool-2")
    assert launches.broken is None


def test_nodes_of_another_pool_or_for_another_pod_do_not_count() -> None:
    launches = RepeatedLaunches()
    for number in range(6):
        launches.created(f"claim-{number}", f"pool-{number % 2}", 200.0 * number)
        launches.nominated("shop/web", f"uid-{number // 4}", f"claim-{number}")
        launches.initialized(f"claim-{number}", 200.0 * number + 40)
    assert launches.broken is None


# Launches that EC2 refuses


def refused(*requests: tuple[float, int]) -> RefusedLaunches:
    """Each with its moment and all the instances that were launched by then."""
    refusals = RefusedLaunches()
    for at, launches in requests:
        refusals.requested(at, launches)
    return refusals


def test_a_few_launches_are_refused() -> None:
    assert refused(*((3.0 * number, 0) for number in range(500))).broken is None
    assert refused(*((0.01 * number, number) for number in range(1, 500))).broken is None


def test_launches_that_are_refused_again_and_again_break_a_law() -> None:
    broken = refused(*((0.01 * number, 0) for number in range(500))).broken
    assert broken is not None
    assert (broken.law, broken.held, broken.at) == (REFUSALS_END, False, 0.01 * REFUSALS)
    assert broken.message == f"{REFUSALS + 1} launches were refused within 60 s"


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
    hours = SETTLES_WITHIN / 3600
    assert broken.message == f"still busy {hours:g} hours after the last event and fault"


def test_instances_that_never_join_are_launches_that_bind_no_pod() -> None:
    trial = run_case(case(expire_after="3m", never_join=1.0))
    assert trial.laws == {LAUNCHES_BIND, CONVERGES}


@pytest.mark.parametrize("cpu", ["0", "4"])
def test_a_pod_that_no_node_is_large_enough_for_waits_longer_and_longer(cpu: str) -> None:
    """All of them are too small for a while: without the guard it would get a dozen."""
    too_small = {"at": "0s", "for": "15m", "less": {"cpu": cpu}}
    trial = run_case(msgspec.structs.replace(case(), events=(too_small,)))
    assert trial.broken == ()
    assert trial.result is not None
    assert trial.result.totals.launches <= 4


def test_launches_that_are_refused_without_end_end_the_run() -> None:
    with planted("reservation-count-stale"):
        trial = run_case(random_case(5))
    assert trial.laws == {REFUSALS_END}
    assert trial.result is None


def test_a_run_without_an_end_is_stopped_and_said() -> None:
    trial = run_case(case(expire_after="5m"), longest_run=0.02)
    (broken,) = trial.broken
    assert broken.law == CRASHES
    assert broken.message == "EndlessRunError: no end after 0.02 s of CPU"
    assert trial.result is None
