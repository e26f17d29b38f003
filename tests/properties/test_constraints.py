"""Each constraint has a fast half, for the scheduler, and a slow one, for explanations: they agree
on which nodes and which NodePools take a pod.
"""

from collections.abc import Callable, Iterable, Iterator

import pytest
from msgspec.structs import replace
from tests.support.random_inputs.constrained import random_constrained_input
from tests.support.random_inputs.unconstrained import PlannerInput, random_input

from wainwright.core.explain.instance_type_funnel import FunnelContext, run_funnel
from wainwright.core.plan import prepare_snapshot
from wainwright.core.scheduling.constraints import NodeRejection
from wainwright.core.scheduling.existing_nodes import ExistingNodes
from wainwright.core.scheduling.new_node import NewNodeEvaluator
from wainwright.core.scheduling.pod_classes import OptionKind, PodClass, PodRequirements
from wainwright.core.scheduling.solver import FIRST_FIT, PreparedSolve
from wainwright.core.scheduling.state import SchedulingState
from wainwright.model.bitset import BitSet, union
from wainwright.model.plan import MinValuesPolicy
from wainwright.model.pod import Pod
from wainwright.model.reasons import (
    InsufficientResource,
    NodeAffinityMismatch,
    NodeHostPortsTaken,
    NodeReason,
    UntoleratedTaint,
    VolumeLimitExceeded,
)

SEEDS = range(1, 61)
MAKERS = {"plain": random_input, "constrained": random_constrained_input}
every_input = pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS)
Maker = Callable[[int], PlannerInput]


def prepared_solves(maker: Maker) -> Iterator[tuple[PlannerInput, PreparedSolve]]:
    """Each before and after its pods are placed."""
    for seed in SEEDS:
        made = maker(seed)
        solve = prepare_snapshot(made.snapshot, made.catalogs, made.options, FIRST_FIT)
        yield made, solve
        solve.rounds.run(solve.queue)
        yield made, solve


def requirements(solve: PreparedSolve) -> Iterator[tuple[PodClass, PodRequirements]]:
    for pod_class in solve.cluster.classes.all:
        for pod_reqs in pod_class.alternatives:
            yield pod_class, pod_reqs


@every_input
def test_both_halves_of_a_constraint_agree_on_every_existing_node(maker: Maker) -> None:
    found: set[type[NodeReason]] = set()
    for _, solve in prepared_solves(maker):
        nodes, everything = solve.cluster.state.nodes, solve.cluster.state.nodes.remaining
        for pod_class, pod_reqs in requirements(solve):
            for admitted, rejections in both_halves(nodes, pod_class, pod_reqs):
                rejected = list(rejections)
                assert rejected_nodes(rejected) == everything ^ admitted
                found |= {type(reason) for nodes_, reason in rejected if nodes_}
    assert {UntoleratedTaint, NodeAffinityMismatch, InsufficientResource} <= found
    if maker is random_constrained_input:
        assert {NodeHostPortsTaken, VolumeLimitExceeded} <= found


def both_halves(
    nodes: ExistingNodes, pod_class: PodClass, pod_reqs: PodRequirements
) -> Iterator[tuple[BitSet, Iterable[NodeRejection]]]:
    """By constraint the nodes that it admits, and why it does not admit the others."""
    scheduling, everything = pod_reqs.scheduling, nodes.remaining
    tolerations, wanted, ports = scheduling.tolerations, scheduling.requirements, scheduling.ports
    amounts, volumes = pod_reqs.amounts, pod_class.attachments
    numbers = range(len(nodes.nodes))
    with_room = union(1 << n for n in numbers if nodes.resources.admits(n, amounts))
    attachable = union(1 << n for n in numbers if nodes.volumes.admits(n, volumes))
    yield nodes.taints.admits(tolerations), nodes.taints.why(tolerations, everything)
    yield nodes.labels.admits(wanted), nodes.labels.why(wanted, everything)
    yield with_room, nodes.resources.why(amounts, everything)
    yield nodes.ports.admits(ports, everything), nodes.ports.why(ports, everything)
    yield attachable, nodes.volumes.why(volumes, everything)


def rejected_nodes(rejections: Iterable[NodeRejection]) -> BitSet:
    """All of them; no node is rejected twice by one constraint."""
    rejected = 0
    for nodes, _ in rejections:
        assert not rejected & nodes
        rejected |= nodes
    return rejected


@every_input
def test_the_funnel_has_a_reason_exactly_where_the_pool_opens_no_node(maker: Maker) -> None:
    outcomes: set[bool] = set()
    for made, solve in prepared_solves(maker):
        if solve.cluster.state.table.drafts:
            continue  # limits count drafts as their largest type: another state than the funnel's
        state, policy = solve.cluster.state, made.options.min_values_policy
        evaluator = NewNodeEvaluator(policy, state.reservation_manager)
        context = funnel_context(made, state)
        for pod_class in solve.cluster.classes.all:
            for level in pod_class.levels:
                for pod_reqs in level.alternatives:
                    pod = as_tried(pod_class.pods[0], pod_reqs)
                    for template in state.templates:
                        option = evaluator.evaluate(template, pod_reqs)
                        opens = option.kind is not OptionKind.INCOMPATIBLE
                        reason = run_funnel(template, pod, context).reason
                        assert (reason is None) is opens, (pod, template.pool, reason)
                        outcomes.add(opens)
    assert outcomes == {True, False}


def funnel_context(made: PlannerInput, state: SchedulingState) -> FunnelContext:
    manager = state.reservation_manager
    return FunnelContext(
        available_counts={name: manager.available_count(name) for name in manager.numbers},
        strict_min_values=made.options.min_values_policy is MinValuesPolicy.STRICT,
        reservations=made.options.capacity_reservations,
    )


def as_tried(pod: Pod, pod_reqs: PodRequirements) -> Pod:
    scheduling = pod_reqs.scheduling
    return replace(pod, alternatives=(scheduling.requirements,), tolerations=scheduling.tolerations)
