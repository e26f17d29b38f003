"""Law 25: the simulation of a node removal equals the plan of the cluster without the nodes."""

from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st
from tests.support.kube_scheduler.binding import cluster_after_plan
from tests.support.random_inputs.constrained import (
    random_constrained_input,
    random_mixed_input,
    random_running_cluster,
)
from tests.support.random_inputs.shrinking import describe_input, shrink_input
from tests.support.random_inputs.unconstrained import PlannerInput, with_cluster_limits
from tests.support.reference_planner.node_removal import plan_without, solve_without

from wainwright.core.explain.unschedulable import explain_unschedulable
from wainwright.core.plan import plan
from wainwright.core.removal_simulation import ClusterSimulator, RemovalSimulation
from wainwright.model.instance_type import InstanceType
from wainwright.model.labels import HOSTNAME
from wainwright.model.plan import Plan, UnschedulableGroup
from wainwright.model.pod import Pod
from wainwright.model.snapshot import Snapshot
from wainwright.model.taints import Taint

SEEDS = st.integers(min_value=0, max_value=10**9)
UNSHRUNK = (Phase.explicit, Phase.reuse, Phase.generate)  # a smaller seed is no smaller input
QUESTIONS = 4
LEAVING: dict[str, Any] = {
    "taints": (Taint(key="karpenter.sh/disrupted"),),
    "allocatable": {},
    "pods": (),
}


@settings(max_examples=settings().max_examples * 4, phases=UNSHRUNK)
@example(seed=191019)  # nobody may have a draft settle for what only nodes that go could give him
@given(seed=SEEDS)
def test_law_25_the_overlay_equals_a_plan_of_the_changed_cluster(seed: int) -> None:
    assert_law(random_running_cluster(seed), seed)


@settings(max_examples=settings().max_examples * 2, phases=UNSHRUNK)
@given(seed=SEEDS)
def test_law_25_it_does_in_the_cluster_that_a_plan_ends_with(seed: int) -> None:
    planner_input = random_constrained_input(seed)
    made = plan(planner_input.snapshot, planner_input.catalogs, planner_input.options)
    assert_law(cluster_after_plan(planner_input, made), seed)


@settings(max_examples=settings().max_examples * 2, phases=UNSHRUNK)
@example(seed=6064)  # who waits for a reservation in one simulation tries nodes in the next
@example(seed=379644714)  # a node that is pinned to a reservation no longer counts outside it
@given(seed=SEEDS)
def test_law_25_it_does_with_pending_pods(seed: int) -> None:
    assert_law(running_cluster_with_pending_pods(seed), seed)


@settings(max_examples=settings().max_examples * 2, phases=UNSHRUNK)
@example(seed=775)  # a spread that no pod was tried with must know its domains all the same
@example(seed=733)  # equal terms of two pods, in the order of what they rule out
@example(seed=623947800)  # a term of the pod itself and of others is said once
@given(seed=SEEDS)
def test_law_25_a_node_is_kept_for_the_reasons_of_a_plan_without_it(seed: int) -> None:
    for maker in (random_running_cluster, running_cluster_with_pending_pods):
        planner_input = maker(seed)
        simulator = ClusterSimulator(
            planner_input.snapshot, planner_input.catalogs, planner_input.options
        )
        for names in questions(planner_input, seed):
            expected = explain_unschedulable(solve_without(planner_input, names))
            found = simulator.explain_removal(names)
            assert reasons_by_pod(found) == reasons_by_pod(expected), names


def reasons_by_pod(groups: tuple[UnschedulableGroup, ...]) -> dict[str, UnschedulableGroup]:
    """One by one: the simulator knows more pods, and may find fewer of them equal."""
    return {pod: msgspec.structs.replace(group, pods=()) for group in groups for pod in group.pods}


@settings(phases=UNSHRUNK)
@given(seed=SEEDS)
def test_law_25_simulations_do_not_change_the_state(seed: int) -> None:
    planner_input = random_running_cluster(seed)
    asked = questions(planner_input, seed)
    view = ClusterSimulator(planner_input.snapshot, planner_input.catalogs, planner_input.options)
    first = [view.remove_nodes(names) for names in asked]
    reasons = [view.explain_removal(names) for names in asked]
    assert [view.remove_nodes(names) for names in asked] == first
    assert [view.remove_nodes(names) for names in reversed(asked)] == first[::-1]
    assert [view.explain_removal(names) for names in reversed(asked)] == reasons[::-1]
    unplaced = [sorted(pod for group in groups for pod in group.pods) for groups in reasons]
    assert unplaced == [list(each.unplaced) for each in first]


@settings(phases=UNSHRUNK)
@given(seed=SEEDS)
def test_law_25_it_holds_with_limits_of_the_cluster(seed: int) -> None:
    assert_law(with_cluster_limits(random_running_cluster(seed), seed), seed)


def running_cluster_with_pending_pods(seed: int) -> PlannerInput:
    running, pending = random_running_cluster(seed), random_mixed_input(seed + 1)
    pods = tuple(
        msgspec.structs.replace(pod, name=f"pending-{pod.name}") for pod in pending.snapshot.pods
    )
    snapshot = msgspec.structs.replace(running.snapshot, pods=pods)
    return msgspec.structs.replace(running, snapshot=snapshot)


def assert_law(planner_input: PlannerInput, seed: int) -> None:
    asked = questions(planner_input, seed)
    if not holds(planner_input, asked):
        small = shrink_input(planner_input, lambda smaller: not holds(smaller, asked))
        pytest.fail(f"without one of {asked} in\n{describe_input(small)}")


def questions(planner_input: PlannerInput, seed: int) -> list[list[str]]:
    """Some sets of nodes, mostly of one."""
    rng = Random(seed)
    names = [node.name for node in planner_input.snapshot.nodes if not node.deleting]
    sizes = [min(len(names), rng.choice((1, 1, 2, 3))) for _ in range(QUESTIONS)]
    return [rng.sample(names, size) for size in sizes if size]


def holds(planner_input: PlannerInput, asked: list[list[str]]) -> bool:
    simulator = ClusterSimulator(
        planner_input.snapshot, planner_input.catalogs, planner_input.options
    )
    remaining = {node.name for node in planner_input.snapshot.nodes if not node.deleting}
    return all(
        simulator.remove_nodes(names) == plan_without(planner_input, names)
        for names in asked
        if remaining >= {*names}
    )


def test_the_clusters_are_not_all_alike() -> None:
    found = []
    for seed in range(150):
        planner_input = random_running_cluster(seed)
        view = ClusterSimulator(
            planner_input.snapshot, planner_input.catalogs, planner_input.options
        )
        found += [view.remove_nodes(names) for names in questions(planner_input, seed)]
    assert sum(len(each.claims) == 1 for each in found) > len(found) // 5
    assert sum(len(each.claims) > 1 for each in found) > len(found) // 20
    assert sum(each.is_possible and bool(each.placements) for each in found) > len(found) // 5
    assert sum(not each.is_possible for each in found) > len(found) // 10


@settings(phases=UNSHRUNK)
@given(seed=SEEDS)
def test_law_25_it_holds_in_any_order_of_nodes_and_with_nodes_that_take_nothing(seed: int) -> None:
    """As disruption asks: nodes in an order of its own, some closed, limits given back; spreads
    count the domains of removed nodes, or do not.
    """
    rng = Random(seed)
    planner_input = as_disrupted(random_running_cluster(seed))
    snapshot = planner_input.snapshot
    ranks = {node.name: f"{rng.randrange(10)}-{node.name}" for node in snapshot.nodes}
    simulator = ClusterSimulator(
        snapshot, planner_input.catalogs, planner_input.options, lambda node: (ranks[node.name],)
    )
    for names in questions(planner_input, seed):
        closed = {name for name in ranks if name not in names and rng.random() < 0.3}
        closed_nodes = simulator.nodes_where(lambda node: node.name in closed)  # noqa: B023
        for leaving in (False, True):
            solution = simulator.solve_without(names, closed_nodes, counts_leaving_nodes=leaving)
            made = plan(
                changed_snapshot(snapshot, names, closed, ranks, leaving=leaving),
                planner_input.catalogs,
                planner_input.options,
            )
            assert_same(simulator.simulation_of(solution), made, ranks)


@settings(max_examples=settings().max_examples * 2, phases=UNSHRUNK)
@given(seed=SEEDS)
def test_law_25_one_new_node_at_most_is_what_a_plan_of_the_changed_cluster_launches(
    seed: int,
) -> None:
    """`replace_by_one` ends as soon as it would need a second node; the plan goes on to its end,
    with or without what is free in reservations. Where that places all pods on one new node or
    none, both say the same; where it does not, neither finds anything to do.

    Full reservations may spare a type the pods of a DaemonSet that runs on reserved instances only.
    The simulation reckons with them on every new node of the type, as a plan does while there are
    free ones: then only that plan is compared.
    """
    rng = Random(seed)
    planner_input = as_disrupted(random_running_cluster(seed))
    snapshot, catalogs, options = (
        planner_input.snapshot,
        planner_input.catalogs,
        planner_input.options,
    )
    ranks = {node.name: f"{rng.randrange(10)}-{node.name}" for node in snapshot.nodes}
    simulator = ClusterSimulator(snapshot, catalogs, options, lambda node: (ranks[node.name],))
    is_comparable = _is_same_for_full_reservations(planner_input)
    for names in questions(planner_input, seed):
        closed = {name for name in ranks if name not in names and rng.random() < 0.3}
        closed_nodes = simulator.nodes_where(lambda node: node.name in closed)  # noqa: B023
        changed = changed_snapshot(snapshot, names, closed, ranks, leaving=True)
        for unreserved in (False, True) if is_comparable else (False,):
            sold = without_reservations(planner_input).catalogs if unreserved else catalogs
            made = plan(changed, sold, options)
            solution = simulator.replace_by_one(
                names, closed_nodes, without_reservations=unreserved
            )
            found = None if solution is None or solution.failed else solution
            hopeless = {pod.key for pod in changed.pods if simulator.is_hopeless(pod)}
            assert (found is not None) == (len(made.claims) <= 1 and hopeless >= {*made.unplaced})
            if found is not None:
                assert_same(simulator.simulation_of(found), made, ranks)


def _is_same_for_full_reservations(planner_input: PlannerInput) -> bool:
    """Whether DaemonSets run on the same types, whether or not reservations are full."""
    reservations = {
        each.reservation_id
        for kinds in planner_input.types.values()
        for kind in kinds
        for each in kind.offerings
        if each.reservation_id is not None
    }
    return ClusterSimulator(
        planner_input.snapshot,
        planner_input.catalogs,
        planner_input.options,
        withheld=reservations,
    ).ignores_withheld


def assert_same(found: RemovalSimulation, made: Plan, ranks: dict[str, str]) -> None:
    homes = {(ranks[each.node], each.pods) for each in found.placements}
    assert homes == {(each.node, each.pods) for each in made.placements}
    assert [each.pods for each in found.claims] == [each.pods for each in made.claims]
    assert [each.launch for each in found.claims] == [each.launch for each in made.claims]


def without_reservations(planner_input: PlannerInput) -> PlannerInput:
    """Every reservation is full."""
    types = {
        pool: tuple(map(_without_reserved, listed)) for pool, listed in planner_input.types.items()
    }
    return msgspec.structs.replace(planner_input, types=types)


def _without_reserved(kind: InstanceType) -> InstanceType:
    offerings = tuple(
        each if each.reservation_id is None else msgspec.structs.replace(each, available=0)
        for each in kind.offerings
    )
    return msgspec.structs.replace(kind, offerings=offerings)


def as_disrupted(planner_input: PlannerInput) -> PlannerInput:
    """Without nodes that are being deleted, and without spreads that only prefer, which do not
    count the domains of nodes that leave.
    """
    old = planner_input.snapshot
    nodes = tuple(
        msgspec.structs.replace(
            node,
            pool="p",
            capacity={"cpu": 1000},
            initialized=True,
            pods=tuple(map(_with_required_spreads, node.pods)),
        )
        for node in old.nodes
        if not node.deleting
    )
    pods = tuple(map(_with_required_spreads, old.pods))
    snapshot = msgspec.structs.replace(old, nodes=nodes, pods=pods)
    return msgspec.structs.replace(planner_input, snapshot=snapshot)


def _with_required_spreads(pod: Pod) -> Pod:
    spreads = tuple(each for each in pod.constraints.spreads if each.required)
    constraints = msgspec.structs.replace(pod.constraints, spreads=spreads)
    return msgspec.structs.replace(pod, constraints=constraints)


def changed_snapshot(
    snapshot: Snapshot,
    names: list[str],
    closed: set[str],
    ranks: dict[str, str],
    *,
    leaving: bool,
) -> Snapshot:
    """The nodes are gone, those closed have no room, and the names are in the order of ranks. Nodes
    that are still leaving stand there, tainted and without pods.
    """
    gone = [node for node in snapshot.nodes if node.name in names]
    moved = [pod for node in gone for pod in node.pods if pod.is_rescheduled]
    nodes = tuple(
        msgspec.structs.replace(
            node,
            name=ranks[node.name],
            labels={HOSTNAME: node.name, **node.labels},
            allocatable={} if node.name in closed else node.allocatable,
        )
        for node in snapshot.nodes
        if node.name not in names
    )
    if leaving:
        nodes += tuple(msgspec.structs.replace(node, **LEAVING) for node in gone)
    freed = {"cpu": 1000 * len(gone), "nodes": len(gone)}
    pools = tuple(
        msgspec.structs.replace(
            pool, limits={name: most + freed.get(name, 0) for name, most in pool.limits.items()}
        )
        if pool.name == "p"
        else pool
        for pool in snapshot.pools
    )
    return msgspec.structs.replace(
        snapshot, nodes=nodes, pods=(*snapshot.pods, *moved), pools=pools
    )
