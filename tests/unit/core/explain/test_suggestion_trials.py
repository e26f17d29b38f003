"""Trials of suggestions have a budget, and plans by cost are made only where they are needed."""

from typing import Any

import pytest
from msgspec.structs import replace
from tests.support.model_builders import (
    GIB,
    affinity_term,
    existing_node,
    explained_plan,
    instance_type,
    label_requirement,
    labelled_pods,
    offering,
    spread_constraint,
)

from wainwright.core.explain.fix_search import ChangeSet
from wainwright.core.explain.suggestion_trials import MIN_COST_TRIALS, Replanner, TrialRunner
from wainwright.core.plan import solve_snapshot
from wainwright.core.scheduling.solver import Solution
from wainwright.messages.suggestions import describe_suggestion
from wainwright.messages.unschedulable_answer import answer_for
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.labels import ZONE
from wainwright.model.plan import DEFAULT_PLAN_OPTIONS
from wainwright.model.pod import (
    EvictionFacts,
    Pod,
    PodConstraints,
    PodVolume,
    VolumeProblem,
)
from wainwright.model.snapshot import Node, Pool, Snapshot
from wainwright.model.suggestions import ChangePodRequirement, LowerRequest, RaiseLimit

INDEX = InstanceTypeIndex(
    [instance_type(offerings=(offering(), offering(zone="zone-b", price=1.1)))]
)
LARGE = InstanceTypeIndex([instance_type(name=f"m{number}") for number in range(2600)])


class CountingPlanner:
    """The planner, which counts its plans by cost."""

    def __init__(self, snapshot: Snapshot, index: InstanceTypeIndex = INDEX) -> None:
        self.catalogs = {pool.name: index for pool in snapshot.pools}
        self.snapshot = snapshot
        self.cost_plans = 0

    def solve(self, snapshot: Snapshot, _: ChangeSet = ()) -> Solution:
        return solve_snapshot(snapshot, self.catalogs, DEFAULT_PLAN_OPTIONS)

    def solve_by_cost(self, snapshot: Snapshot, _: ChangeSet) -> Solution:
        self.cost_plans += 1
        return self.solve(snapshot)

    def trials(self, *, packing: bool = False) -> TrialRunner:
        before = self.solve(self.snapshot)
        replanner = Replanner(self.solve, self.solve_by_cost if packing else None)
        return TrialRunner(self.snapshot, self.snapshot, before, replanner)


def pods(*cpu: int) -> tuple[Pod, ...]:
    requests = [{"cpu": each, "memory": GIB} for each in cpu]
    return tuple(Pod(namespace="d", name=str(n), requests=r) for n, r in enumerate(requests))


def lowered(pod: Pod, to: int = 1000) -> ChangeSet:
    now = pod.requests["cpu"]
    return (LowerRequest(resource="cpu", now=now, to=to, pool="p0"),)


def count_trials(pools: int) -> int:
    """How many trials there are for that many pools, each with another change."""
    waiting = pods(*range(3000, 3300))
    every = tuple(Pool(name=f"p{n}", limits={"cpu": 10_000}) for n in range(pools))
    trials = CountingPlanner(Snapshot(pods=waiting[:30], pools=every)).trials()
    fixes = (trials.run_trial(lowered(waiting[0], to), waiting[:1]) for to in range(1, 500))
    return next(number for number, trial in enumerate(fixes) if trial is None)


def test_many_pools_leave_fewer_trials_but_never_none() -> None:
    assert count_trials(1) > 2 * count_trials(40) > 8
    assert count_trials(1100) == 2


def test_thousands_of_constraints_of_a_pod_leave_fewer_trials_but_never_none() -> None:
    """Every trial sets them up again."""

    def count(constraints: int) -> int:
        every = [spread_constraint(f"key-{n}").spreads[0] for n in range(constraints)]
        (pod,) = pods(3000)
        constrained = replace(pod, constraints=PodConstraints(spreads=tuple(every)))
        snapshot = Snapshot(pods=(constrained,), pools=(Pool(name="p0"),))
        trials = CountingPlanner(snapshot).trials()
        fixes = (trials.run_trial(lowered(constrained, to), (constrained,)) for to in range(1, 100))
        return next(number for number, trial in enumerate(fixes) if trial is None)

    assert count(1) == count(4) == 94
    assert count(1600) == 3
    assert count(5000) == 2


def test_first_fit_is_proof_where_it_leaves_out_only_pods_that_no_plan_places() -> None:
    waiting = pods(1500, 3000, 3001)
    counted = CountingPlanner(Snapshot(pods=waiting, pools=(Pool(name="p0"),)))
    trial = counted.trials(packing=True).run_trial(lowered(waiting[1]), waiting[1:2])
    assert trial is not None
    assert trial.unschedulable == {"d/2"}
    assert counted.cost_plans == 0


def test_otherwise_a_limited_number_of_trials_is_made_by_cost() -> None:
    waiting = pods(1500, 1600, 3000)
    limited = Pool(name="p0", limits={"cpu": 2000})
    counted = CountingPlanner(Snapshot(pods=waiting, pools=(limited,)), LARGE)
    trials = counted.trials(packing=True)
    found = [
        trials.run_trial(lowered(waiting[2], to), waiting[2:])
        for to in range(1900, 1900 + MIN_COST_TRIALS)
    ]
    assert None not in found
    assert trials.run_trial(lowered(waiting[2], 1800), waiting[2:]) is None
    assert counted.cost_plans == MIN_COST_TRIALS


def test_where_the_plan_packed_nothing_only_quick_trials_are_made_by_cost() -> None:
    waiting = pods(1500, 1600)
    full = Pool(name="p0", limits={"cpu": 0})
    snapshot = Snapshot(pods=waiting, pools=(full,))
    counted = CountingPlanner(snapshot, LARGE)
    assert counted.trials(packing=True).run_trial(lowered(waiting[0]), waiting[:1]) is None
    assert counted.cost_plans == 0
    small = CountingPlanner(snapshot)
    assert small.trials(packing=True).run_trial(lowered(waiting[0]), waiting[:1]) is not None
    assert small.cost_plans == 1


def zoned(pod: Pod, *zones: str) -> Pod:
    """A pod with a volume in zone-b that selects these zones, if any."""
    constraints = PodConstraints(volume_topology=(label_requirement(ZONE, "In", "zone-b"),))
    alternatives = (label_requirement(ZONE, "In", *zones),) if zones else pod.alternatives
    return replace(pod, constraints=constraints, alternatives=alternatives)


@pytest.mark.parametrize("zones", [(), ("zone-a", "zone-b")])
@pytest.mark.parametrize("others", [0, 200])
def test_dropping_the_zone_of_a_volume_is_not_suggested(
    others: int, zones: tuple[str, ...]
) -> None:
    """Also where so many other pods fail that the budget for trials is used up."""
    [last] = pods(1000)
    bound = zoned(replace(last, name="zz"), *zones)
    pool = Pool(name="p0", requirements=label_requirement(ZONE, "In", "zone-a"))
    snapshot = Snapshot(pods=(*pods(*range(3000, 3000 + others)), bound), pools=(pool,))
    suggestions = {
        key: group.suggestion
        for group in explained_plan(snapshot, {"p0": INDEX}).unschedulable
        for key in group.pods
    }
    advice = suggestions["d/zz"]
    assert advice is None or "requirement on" not in describe_suggestion(advice)
    assert None not in (each for key, each in suggestions.items() if key != "d/zz")


def test_a_value_is_allowed_before_a_selector_of_the_pod_is_dropped() -> None:
    [last] = pods(1000)
    selective = replace(last, name="zz", alternatives=(label_requirement(ZONE, "In", "zone-b"),))
    pool = Pool(name="p0", requirements=label_requirement(ZONE, "In", "zone-a"))
    snapshot = Snapshot(pods=(*pods(*range(3000, 3200)), selective), pools=(pool,))
    [group] = [g for g in explained_plan(snapshot, {"p0": INDEX}).unschedulable if "d/zz" in g.pods]
    assert group.suggestion is not None
    assert group.suggestion.alone
    assert describe_suggestion(group.suggestion).startswith(
        "allow topology.kubernetes.io/zone=zone-b in NodePool p0"
    )


def replicas(count: int, owner: str = "Deployment/web", **fields: Any) -> tuple[Pod, ...]:
    """Pods of one workload that exclude one another from their zones."""
    alone = PodConstraints(anti_affinity=(affinity_term(app="web"),))
    made = labelled_pods(count, "web", constraints=alone, **fields)
    return tuple(replace(each, eviction=EvictionFacts(owner=owner)) for each in made)


@pytest.mark.parametrize("running", [False, True])
def test_a_pod_is_changed_together_with_all_pods_of_its_workload(running: bool) -> None:
    """Anti-affinity that some replicas keep excludes the others all the same."""
    waiting = replicas(4)
    nodes: tuple[Node, ...] = ()
    if running:
        bound = [replace(each, name=f"bound-{each.name}") for each in replicas(2)]
        nodes = tuple(
            existing_node(zone, zone, pod, cpu=100)
            for zone, pod in zip(("zone-a", "zone-b"), bound, strict=True)
        )
    snapshot = Snapshot(pods=waiting, pools=(Pool(name="p0"),), nodes=nodes)
    [group] = explained_plan(snapshot, {"p0": INDEX}).unschedulable
    assert group.suggestion is not None
    assert group.suggestion.serves == len(group.pods) == (4 if running else 2)
    assert describe_suggestion(group.suggestion).startswith(
        "make the pod anti-affinity to app=web by topology.kubernetes.io/zone preferred instead of "
        "required in Deployment shop/web: "
    )


def test_the_price_of_a_change_is_that_of_the_whole_workload() -> None:
    """One pod fits into the limit of the cheap zone; changed, both go to the other zone."""
    selective = label_requirement(ZONE, "In", "zone-a")
    waiting = [
        replace(each, constraints=PodConstraints(), alternatives=(selective,))
        for each in replicas(2, cpu=1500)
    ]
    pools = (
        Pool(name="p0", requirements=selective, limits={"cpu": 2000}),
        Pool(name="p1", labels={"tier": "b"}, requirements=label_requirement(ZONE, "In", "zone-b")),
    )
    trials = CountingPlanner(Snapshot(pods=tuple(waiting), pools=pools)).trials()
    to_other_zone = (ChangePodRequirement(key=ZONE, now="zone-a", to="zone-b", pool="p1"),)
    trial = trials.run_trial(to_other_zone, waiting[1:])
    assert trial is not None
    assert (trials.before.cost, trial.cost) == (1.0, 2.2)


@pytest.mark.parametrize(
    ("owner", "labels", "workload"),
    [
        ("", {}, ""),
        ("StatefulSet/db", {}, "StatefulSet shop/db"),
        ("ReplicaSet/web-6f9", {"pod-template-hash": "6f9"}, "Deployment shop/web"),
        ("ReplicaSet/web-6f9", {}, "ReplicaSet shop/web-6f9"),
        ("ReplicaSet/web", {"pod-template-hash": ""}, "ReplicaSet shop/web"),
    ],
)
def test_a_pod_is_edited_in_the_workload_that_has_its_template(
    owner: str, labels: dict[str, str], workload: str
) -> None:
    facts = EvictionFacts(owner=owner)
    assert Pod(namespace="shop", name="a", labels=labels, eviction=facts).workload == workload


def in_zone(claim: str, zone: str) -> PodVolume:
    return PodVolume(
        claim=claim, volume=f"pv-{claim}", topology=(label_requirement(ZONE, "In", zone),)
    )


def test_a_selector_that_excludes_the_zone_of_a_volume_can_be_removed() -> None:
    [last] = pods(1000)
    elsewhere = replace(zoned(last, "zone-a"), volumes=(in_zone("data", "zone-b"),))
    snapshot = Snapshot(pods=(elsewhere,), pools=(Pool(name="p0"),))
    [group] = explained_plan(snapshot, {"p0": INDEX}).unschedulable
    assert group.suggestion is not None
    assert describe_suggestion(group.suggestion).startswith(
        "remove the pod's requirement on topology.kubernetes.io/zone: +$1.100/h for 1 "
    )


def test_volumes_in_two_zones_are_both_named() -> None:
    [last] = pods(1000)
    problem = VolumeProblem(claim="b", why="cannot be reached", is_apart=True)
    volumes = (in_zone("a", "zone-a"), in_zone("b", "zone-b"))
    apart = replace(last, volume_problem=problem, volumes=volumes)
    snapshot = Snapshot(pods=(apart,), pools=(Pool(name="p0"),))
    [group] = explained_plan(snapshot, {"p0": INDEX}).unschedulable
    assert answer_for(group).cause == (
        "the pod's volumes are in different zones: pv-a (claim a) in zone-a, pv-b (claim b) in "
        "zone-b"
    )


def test_without_a_node_pool_one_is_to_be_added() -> None:
    [group] = explained_plan(Snapshot(pods=pods(1000)), {}).unschedulable
    assert answer_for(group).lines() == [
        "there is no NodePool",
        "fix: add a NodePool, and the EC2NodeClass that it refers to",
    ]


def test_a_limit_is_raised_by_what_the_pods_request_where_that_is_enough() -> None:
    """Without a limit the plan would take one node of eight cpus for all pods of the zone."""
    sizes = ((2000, 1.0), (4000, 2.0), (8000, 4.0))
    zones = ("zone-a", "zone-b")
    types = [
        instance_type(
            name=f"m{cpu}",
            capacity={"cpu": cpu, "memory": 64 * GIB, "pods": 58},
            offerings=tuple(offering(zone=zone, price=price) for zone in zones),
        )
        for cpu, price in sizes
    ]
    waiting = labelled_pods(6, "web", cpu=1500, constraints=spread_constraint())
    pools = tuple(
        Pool(name=zone, requirements=label_requirement(ZONE, "In", zone), limits=limits)
        for zone, limits in (("zone-a", {}), ("zone-b", {"cpu": 2000}))
    )
    index = InstanceTypeIndex(types)
    found = explained_plan(
        Snapshot(pods=tuple(waiting), pools=pools), {pool.name: index for pool in pools}
    )
    [group] = found.unschedulable
    assert group.suggestion is not None
    assert group.suggestion.serves == len(group.pods) == 3
    assert group.suggestion.changes == (
        RaiseLimit(resource="cpu", now=2000, to=6000, pool="zone-b"),
    )
