"""Laws of disruption on random clusters, checked without the code that decides."""

from random import Random

import msgspec
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.support.kube_scheduler.binding import cluster_after_plan
from tests.support.random_inputs.constrained import random_constrained_input
from tests.support.random_inputs.disruptable import random_disruptable_cluster
from tests.support.random_inputs.unconstrained import PlannerInput, random_input

from wainwright.core.disruption.candidate_outcomes import ClosedNodes, RemovalEvaluator
from wainwright.core.disruption.cluster_changes import with_returned
from wainwright.core.disruption.commands import Command
from wainwright.core.disruption.disruption_input import (
    DisruptionInput,
    DisruptionOptions,
    Method,
    ReplacementRules,
)
from wainwright.core.disruption.disruption_pass import DisruptionPass
from wainwright.core.disruption.preview import DisruptionPreview, preview_disruption
from wainwright.core.plan import plan
from wainwright.core.removal_simulation import ClusterSimulator
from wainwright.model.disruption import DisruptionBudget, NodePoolDisruption
from wainwright.model.instance_type import Offering
from wainwright.model.labels import CAPACITY_TYPE, INSTANCE_TYPE, ZONE
from wainwright.model.snapshot import Node, Snapshot

SEEDS = st.integers(min_value=0, max_value=10**9)
UNSHRUNK = (Phase.explicit, Phase.reuse, Phase.generate)  # a smaller seed is no smaller input
STEPS = 40
OPTIONS = DisruptionOptions(rules=ReplacementRules(spot_to_spot=True, spot_to_spot_types=2))


def underutilized_cluster(seed: int) -> PlannerInput:
    """The cluster that a plan ends with, after every second pod has gone."""
    maker = random_input if seed % 2 else random_constrained_input
    planner_input = maker(seed)
    made = plan(planner_input.snapshot, planner_input.catalogs, planner_input.options)
    after = cluster_after_plan(planner_input, made)
    nodes = tuple(
        msgspec.structs.replace(node, pods=node.pods[::2]) for node in after.snapshot.nodes
    )
    freely = NodePoolDisruption(budgets=(DisruptionBudget(nodes="100%"),))
    pools = tuple(msgspec.structs.replace(pool, disruption=freely) for pool in after.snapshot.pools)
    snapshot = msgspec.structs.replace(after.snapshot, nodes=nodes, pools=pools, pods=(), now=0.0)
    return msgspec.structs.replace(after, snapshot=snapshot)


def previewed(planner_input: PlannerInput, snapshot: Snapshot) -> DisruptionPreview:
    given = DisruptionInput(snapshot=snapshot, catalogs=planner_input.catalogs)
    options = msgspec.structs.replace(OPTIONS, plan=planner_input.options)
    return preview_disruption(given, options, STEPS)


def pods_of(snapshot: Snapshot) -> set[str]:
    """Those that are created again when their node goes."""
    pods = (pod for node in snapshot.nodes if not node.deleting for pod in node.pods)
    return {pod.key for pod in pods if not pod.daemonset and not pod.terminating}


def price(node: Node, planner_input: PlannerInput) -> float | None:
    """By a search through everything that is sold."""
    for kind in planner_input.types.get(node.pool or "", ()):
        if kind.name == node.labels.get(INSTANCE_TYPE):
            for offering in kind.offerings:
                zone = offering.zone or node.labels.get(ZONE)
                capacity_type = offering.capacity_type or node.labels.get(CAPACITY_TYPE)
                place = (node.labels.get(ZONE), node.labels.get(CAPACITY_TYPE))
                is_reserved = (offering.reservation_id or None) == (node.reservation_id or None)
                if (zone, capacity_type) == place and is_reserved:
                    return offering.price
    return None


@settings(max_examples=settings().max_examples * 2, phases=UNSHRUNK)
@given(seed=SEEDS)
def test_no_pod_is_lost_and_every_move_has_a_source_and_a_target(seed: int) -> None:
    planner_input = underutilized_cluster(seed)
    found = previewed(planner_input, planner_input.snapshot)
    assert pods_of(found.after) >= pods_of(planner_input.snapshot)
    for command in found.commands:
        moved = [move.pod for move in command.moves()]
        evicted = [pod.key for candidate in command.candidates for pod in candidate.pods]
        assert sorted(moved) == sorted(evicted)
        assert not {move.target for move in command.moves()} & names(command)


def names(command: Command) -> set[str]:
    return {candidate.name for candidate in command.candidates}


@settings(max_examples=settings().max_examples * 2, phases=UNSHRUNK)
@given(seed=SEEDS)
def test_every_command_but_drift_saves_and_the_end_is_stable(seed: int) -> None:
    planner_input = underutilized_cluster(seed)
    found = previewed(planner_input, planner_input.snapshot)
    for command in found.commands:
        if command.method in (Method.MULTI_NODE, Method.SINGLE_NODE):
            known = [price(each.node, planner_input) for each in command.candidates]
            assert sum(each or 0.0 for each in known) > command.price_after
            assert command.saving > 0
            assert len(command.replacements) <= 1
    if found.settled:
        assert previewed(planner_input, found.after).commands == ()


@settings(max_examples=settings().max_examples * 2, phases=UNSHRUNK)
@given(seed=SEEDS)
def test_no_node_holds_more_than_it_has(seed: int) -> None:
    planner_input = underutilized_cluster(seed)
    found = previewed(planner_input, planner_input.snapshot)
    changed = {move.target for command in found.commands for move in command.moves()}
    for node in found.after.nodes:
        if node.name in changed:
            for resource, amount in node.allocatable.items():
                used = sum(pod.requests.get(resource, 0) for pod in node.pods)
                assert used <= amount or resource == "pods"


def with_other_pods(snapshot: Snapshot, rng: Random) -> tuple[Snapshot, list[Node]]:
    """Some pods are gone, and others of the same workload have come."""
    nodes = list(snapshot.nodes)
    changed = rng.sample(range(len(nodes)), k=min(len(nodes), 3))
    for number in changed:
        pods = list(nodes[number].pods)
        if pods and rng.random() < 0.7:
            pods.pop(rng.randrange(len(pods)))
        if pods and rng.random() < 0.5:
            twin = rng.choice(pods)
            pods.append(msgspec.structs.replace(twin, name=f"{twin.name}-new", uid=""))
        nodes[number] = msgspec.structs.replace(nodes[number], pods=tuple(pods))
    return msgspec.structs.replace(snapshot, nodes=tuple(nodes)), [nodes[n] for n in changed]


@settings(max_examples=settings().max_examples * 2, phases=UNSHRUNK)
@given(seed=SEEDS)
def test_an_updated_simulator_equals_a_new_one(seed: int) -> None:
    planner_input, rng = underutilized_cluster(seed), Random(seed)
    snapshot, options = planner_input.snapshot, planner_input.options
    updated = ClusterSimulator(snapshot, planner_input.catalogs, options)
    for node in snapshot.nodes[:3]:
        updated.remove_nodes([node.name])  # fills the caches that an update must not trust
    for _ in range(2):
        snapshot, changed = with_other_pods(snapshot, rng)
        if updated.update(snapshot, changed) is None:
            return
        fresh = ClusterSimulator(snapshot, planner_input.catalogs, options)
        for node in snapshot.nodes:
            if not node.deleting:
                assert updated.remove_nodes([node.name]) == fresh.remove_nodes([node.name])


@settings(max_examples=settings().max_examples * 2, phases=UNSHRUNK)
@given(seed=SEEDS)
def test_a_pass_that_goes_on_finds_as_much_as_one_from_nothing(seed: int) -> None:
    """The nodes keep their order in the one, so that commands may differ in where pods go."""
    planner_input, rng = underutilized_cluster(seed), Random(seed)
    options = msgspec.structs.replace(OPTIONS, plan=planner_input.options)
    current, snapshot = None, planner_input.snapshot
    for _ in range(3):
        given = DisruptionInput(snapshot=snapshot, catalogs=planner_input.catalogs)
        current, fresh = DisruptionPass(given, options, current), DisruptionPass(given, options)
        found, expected = current.find_command(), fresh.find_command()
        assert (found is None) == (expected is None)
        assert current.candidates == fresh.candidates
        if found is not None and expected is not None:
            assert (found.method, found.reason) == (expected.method, expected.reason)
        snapshot, _ = with_other_pods(snapshot, rng)


def with_full_reservations(made: PlannerInput) -> PlannerInput:
    """Nothing is available in the reservations that nodes run in."""
    nodes = tuple(
        msgspec.structs.replace(node, launched=True) if node.reservation_id is not None else node
        for node in made.snapshot.nodes
    )
    occupied = {node.reservation_id for node in nodes} - {None}

    def full(offering: Offering) -> Offering:
        is_full = offering.reservation_id in occupied
        return msgspec.structs.replace(offering, available=0) if is_full else offering

    kinds = {
        id(types): tuple(
            msgspec.structs.replace(each, offerings=tuple(map(full, each.offerings)))
            for each in types
        )
        for types in made.types.values()
    }
    types = {name: kinds[id(each)] for name, each in made.types.items()}
    snapshot = msgspec.structs.replace(made.snapshot, nodes=nodes)
    return msgspec.structs.replace(made, types=types, snapshot=snapshot)


@settings(max_examples=settings().max_examples * 4, phases=UNSHRUNK)
@given(seed=SEEDS)
def test_a_released_reservation_equals_a_catalogue_with_one_instance_more(seed: int) -> None:
    """On a fork of a cluster that is compiled once, and compiled anew for each node."""
    is_busy = seed % 3 == 0
    made = random_disruptable_cluster(seed).cluster if is_busy else underutilized_cluster(seed)
    cluster = with_full_reservations(made)
    options = DisruptionOptions(plan=cluster.options)
    given = DisruptionInput(snapshot=cluster.snapshot, catalogs=cluster.catalogs)
    looked = DisruptionPass(given, options)
    removals = RemovalEvaluator(
        lambda catalogs, withheld: ClusterSimulator(
            looked.snapshot, catalogs, options.plan, withheld=withheld
        ),
        cluster.catalogs,
        options,
        lambda _: ClosedNodes(starting=0, unsettled=0),
        {},
    )
    for candidate in looked.candidates:
        name = candidate.node.reservation_id
        if name is not None and not candidate.node.deleting:
            catalogs = with_returned(cluster.catalogs, {name: 1})
            anew = ClusterSimulator(looked.snapshot, catalogs, options.plan)
            solution = anew.solve_without([candidate.name], 0, candidate.blocked_pods)
            expected = None if solution.failed else anew.simulation_of(solution)
            pods = [pod for pod in candidate.pods if pod.key not in candidate.blocked_pods]
            if any(map(anew.is_hopeless, pods)):
                expected = None
            assert removals.simulate_released(candidate) == expected
