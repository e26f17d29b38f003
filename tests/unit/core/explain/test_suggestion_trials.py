"""What trials of fixes may cost: no more with many pools, and packed plans only where needed."""

import pytest
from msgspec.structs import replace
from tests.support.model_builders import GIB, instance_type, label_requirement, offering

from wainwright.core.explain.suggested_changes import ChangeSet
from wainwright.core.explain.suggestion_trials import MIN_COST_TRIALS, Replanner, TrialRunner
from wainwright.core.plan import plan, solve_snapshot
from wainwright.core.scheduling.solver import Solution
from wainwright.messages.suggestions import describe_suggestion
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.labels import ZONE
from wainwright.model.plan import DEFAULT_PLAN_OPTIONS
from wainwright.model.pod import Pod, PodConstraints
from wainwright.model.snapshot import Pool, Snapshot
from wainwright.model.suggestions import LowerRequest

INDEX = InstanceTypeIndex(
    [instance_type(offerings=(offering(), offering(zone="zone-b", price=1.1)))]
)
LARGE = InstanceTypeIndex([instance_type(name=f"m{number}") for number in range(2600)])


class CountingPlanner:
    """The planner, with what it is asked for counted."""

    def __init__(self, snapshot: Snapshot, index: InstanceTypeIndex = INDEX) -> None:
        self.catalogs = {pool.name: index for pool in snapshot.pools}
        self.snapshot = snapshot
        self.packed = 0

    def solve(self, snapshot: Snapshot) -> Solution:
        return solve_snapshot(snapshot, self.catalogs, DEFAULT_PLAN_OPTIONS)

    def pack(self, snapshot: Snapshot) -> Solution:
        self.packed += 1
        return self.solve(snapshot)

    def trials(self, *, packing: bool = False) -> TrialRunner:
        before = self.solve(self.snapshot)
        again = Replanner(self.solve, self.pack if packing else None)
        return TrialRunner(self.snapshot, self.snapshot, before, again)


def pods(*cpu: int) -> tuple[Pod, ...]:
    requests = [{"cpu": each, "memory": GIB} for each in cpu]
    return tuple(Pod(namespace="d", name=str(n), requests=r) for n, r in enumerate(requests))


def lowered(pod: Pod, to: int = 1000) -> ChangeSet:
    now = pod.requests["cpu"]
    return (LowerRequest(resource="cpu", now=now, to=to, pool="p0"),)


def count_trials(pools: int) -> int:
    """How many trials there are for that many pools, each of a fix for another pod."""
    given = pods(*range(3000, 3300))
    every = tuple(Pool(name=f"p{n}", limits={"cpu": 10_000}) for n in range(pools))
    trials = CountingPlanner(Snapshot(pods=given[:30], pools=every)).trials()
    fixes = (trials.run_trial(lowered(given[0], to), given[:1]) for to in range(1, 500))
    return next(number for number, trial in enumerate(fixes) if trial is None)


def test_pools_cost_trials_but_never_all_of_them() -> None:
    assert count_trials(1) > 2 * count_trials(40) > 8
    assert count_trials(1100) == 2


def test_first_fit_is_proof_where_it_leaves_out_only_the_hopeless() -> None:
    given = pods(1500, 3000, 3001)
    counted = CountingPlanner(Snapshot(pods=given, pools=(Pool(name="p0"),)))
    trial = counted.trials(packing=True).run_trial(lowered(given[1]), given[1:2])
    assert trial is not None
    assert trial.without_place == {"d/2"}
    assert counted.packed == 0


def test_else_the_fix_is_packed_as_long_as_that_takes_no_longer_than_the_plan() -> None:
    given = pods(1500, 1600, 3000)
    limited = Pool(name="p0", limits={"cpu": 2000})
    counted = CountingPlanner(Snapshot(pods=given, pools=(limited,)), LARGE)
    trials = counted.trials(packing=True)
    found = [
        trials.run_trial(lowered(given[2], to), given[2:])
        for to in range(1900, 1900 + MIN_COST_TRIALS)
    ]
    assert None not in found
    assert trials.run_trial(lowered(given[2], 1800), given[2:]) is None
    assert counted.packed == MIN_COST_TRIALS


def test_where_the_plan_itself_packed_nothing_only_what_is_quick_is_packed() -> None:
    given = pods(1500, 1600)
    full = Pool(name="p0", limits={"cpu": 0})
    snapshot = Snapshot(pods=given, pools=(full,))
    counted = CountingPlanner(snapshot, LARGE)
    assert counted.trials(packing=True).run_trial(lowered(given[0]), given[:1]) is None
    assert counted.packed == 0
    small = CountingPlanner(snapshot)
    assert small.trials(packing=True).run_trial(lowered(given[0]), given[:1]) is not None
    assert small.packed == 1


def zoned(pod: Pod, *zones: str) -> Pod:
    """A pod with a volume in zone-b that selects these zones, if any."""
    constraints = PodConstraints(volume_topology=(label_requirement(ZONE, "In", "zone-b"),))
    asked = (label_requirement(ZONE, "In", *zones),) if zones else pod.alternatives
    return replace(pod, constraints=constraints, alternatives=asked)


@pytest.mark.parametrize("zones", [(), ("zone-a", "zone-b")])
@pytest.mark.parametrize("others", [0, 200])
def test_the_zone_of_a_volume_is_not_the_pods_to_give_up(
    others: int, zones: tuple[str, ...]
) -> None:
    """However many others fail, so that nothing more can be tried in a plan of everything."""
    [last] = pods(1000)
    bound = zoned(replace(last, name="zz"), *zones)
    pool = Pool(name="p0", requirements=label_requirement(ZONE, "In", "zone-a"))
    snapshot = Snapshot(pods=(*pods(*range(3000, 3000 + others)), bound), pools=(pool,))
    told = {
        key: group.suggestion
        for group in plan(snapshot, {"p0": INDEX}).unschedulable
        for key in group.pods
    }
    advice = told["d/zz"]
    assert advice is None or "do not select" not in describe_suggestion(advice)
    assert None not in (each for key, each in told.items() if key != "d/zz")


def test_what_the_pod_itself_selects_is_its_to_give_up() -> None:
    [last] = pods(1000)
    choosy = replace(last, name="zz", alternatives=(label_requirement(ZONE, "In", "zone-b"),))
    pool = Pool(name="p0", requirements=label_requirement(ZONE, "In", "zone-a"))
    snapshot = Snapshot(pods=(*pods(*range(3000, 3200)), choosy), pools=(pool,))
    [group] = [g for g in plan(snapshot, {"p0": INDEX}).unschedulable if "d/zz" in g.pods]
    assert group.suggestion is not None
    assert group.suggestion.alone
    assert describe_suggestion(group.suggestion).startswith(
        "do not select topology.kubernetes.io/zone"
    )
