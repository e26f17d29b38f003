"""Planning: a snapshot in, a Plan out. The same input gives the same plan on every computer.

Nothing is explained here: `core/explain` answers questions about a plan once it is made.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final, NamedTuple

from wainwright.core.cluster_usage import cluster_usage, remaining_cluster_limits
from wainwright.core.disruption.eviction import evict_from_deleting_nodes
from wainwright.core.plan_builder import planned_claims, pods_on_existing_nodes, relaxed_preferences
from wainwright.core.scheduling.existing_nodes import ExistingNodes
from wainwright.core.scheduling.nodeclaim_template import compile_templates
from wainwright.core.scheduling.queue import build_queue
from wainwright.core.scheduling.reservation_manager import (
    available_counts,
    in_flight_usage,
    reservation_usage,
    without_in_flight,
)
from wainwright.core.scheduling.solver import (
    FIRST_FIT,
    CompiledCluster,
    PreparedSolve,
    Solution,
    Strategy,
)
from wainwright.core.scheduling.topology.groups import TopologyKind
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.plan import (
    DEFAULT_PLAN_OPTIONS,
    PackingPolicy,
    PackingResult,
    Plan,
    PlanOptions,
)
from wainwright.model.pod import Pod
from wainwright.model.snapshot import Snapshot

FALLBACK_STRATEGIES: Final = (
    Strategy(deferred_kinds=frozenset()),
    Strategy(deferred_kinds=frozenset(TopologyKind)),
)
"""Drafts decide on a domain as soon as any pod depends on it, or only when their round is over."""


class SolvedPlan(NamedTuple):
    """A plan with all that it was made from: what explanations of its unplaced pods need."""

    plan: Plan
    solution: Solution
    snapshot: Snapshot
    catalogs: Mapping[str, InstanceTypeIndex]
    options: PlanOptions


def plan(
    snapshot: Snapshot,
    catalogs: Mapping[str, InstanceTypeIndex],
    options: PlanOptions = DEFAULT_PLAN_OPTIONS,
) -> Plan:
    """Plans which nodes to launch for which pods; `catalogs` is by pool name.

    Pods of nodes that are being deleted are planned as well, where they may be evicted.
    """
    return solve_plan(snapshot, catalogs, options).plan


def solve_plan(
    snapshot: Snapshot,
    catalogs: Mapping[str, InstanceTypeIndex],
    options: PlanOptions = DEFAULT_PLAN_OPTIONS,
) -> SolvedPlan:
    """The same, for a caller that may ask why pods are unplaced (`explain.unschedulable`)."""
    snapshot = evict_from_deleting_nodes(snapshot).snapshot
    solution = solve_with_fallbacks(partial(prepare_snapshot, snapshot, catalogs, options))
    packing: PackingResult | None = None
    if options.packing is PackingPolicy.COST:
        solution, packing = solve_by_cost(solution, snapshot, catalogs, options)
    claims = planned_claims(solution.drafts, solution.classes.resources, snapshot.taken_names)
    made = Plan(
        claims=claims,
        placements=pods_on_existing_nodes(solution.state.nodes),
        unplaced=tuple(sorted(_unplaced_pods(snapshot, solution))),
        reservations=reservation_usage(
            snapshot.reservations, solution.catalog_counts, claims, in_flight_usage(snapshot.nodes)
        ),
        relaxed=relaxed_preferences(solution),
        packing=packing,
        unpriced_nodes=_unpriced_nodes(snapshot, catalogs, options),
    )
    return SolvedPlan(made, solution, snapshot, catalogs, options)


def _unpriced_nodes(
    snapshot: Snapshot, catalogs: Mapping[str, InstanceTypeIndex], options: PlanOptions
) -> tuple[str, ...]:
    if options.cluster_limits.price_per_hour is None:
        return ()
    return cluster_usage(snapshot, catalogs).unpriced


def _unplaced_pods(snapshot: Snapshot, solution: Solution) -> Iterator[str]:
    yield from (pod.key for pod in snapshot.pods if not is_placeable(pod))
    yield from (pod.key for batch in solution.failed for pod in batch.pods)


def solve_by_cost(
    first_fit: Solution,
    snapshot: Snapshot,
    catalogs: Mapping[str, InstanceTypeIndex],
    options: PlanOptions,
) -> tuple[Solution, PackingResult]:
    """The cheapest solution that packing finds, starting from that of first-fit."""
    # Imported here because it is seldom needed and slow to load.
    from wainwright.core.packing.cost_placement import cheapest_solution

    return cheapest_solution(first_fit, partial(solve_snapshot, snapshot, catalogs, options))


def solve_with_fallbacks(prepare: Callable[[Strategy], PreparedSolve]) -> Solution:
    """If pods are unplaced only because of where others went, other strategies are tried too."""
    best: Solution | None = None
    for strategy in (FIRST_FIT, *FALLBACK_STRATEGIES):
        if best is not None and not best.is_blocked_by_topology:
            break
        prepared = prepare(strategy)
        prepared.rounds.run(prepared.queue)
        solution = prepared.solution()
        if best is None or solution.unplaced_count < best.unplaced_count:
            best = solution
    assert best is not None
    return best


def solve_snapshot(
    snapshot: Snapshot,
    catalogs: Mapping[str, InstanceTypeIndex],
    options: PlanOptions,
    strategy: Strategy = FIRST_FIT,
) -> Solution:
    """Solves the snapshot once with one strategy."""
    prepared = prepare_snapshot(snapshot, catalogs, options, strategy)
    prepared.rounds.run(prepared.queue)
    return prepared.solution()


def prepare_snapshot(
    snapshot: Snapshot,
    catalogs: Mapping[str, InstanceTypeIndex],
    options: PlanOptions,
    strategy: Strategy,
) -> PreparedSolve:
    """Compiles the snapshot, with the pods that can be scheduled at all."""
    gate = options.capacity_reservations
    limits = remaining_cluster_limits(snapshot, catalogs, options)
    templates = compile_templates(
        snapshot.pools, catalogs, snapshot.daemonsets, gate=gate, cluster_limits=limits
    )
    nodes = ExistingNodes(snapshot.nodes, snapshot.daemonsets)
    placeable = [pod for pod in snapshot.pods if is_placeable(pod)]
    catalog_counts = available_counts(template.index for template in templates)
    free_counts = without_in_flight(catalog_counts, snapshot.nodes)
    cluster = CompiledCluster(placeable, templates, nodes, free_counts, options)
    cluster.catalog_counts = catalog_counts
    return cluster.prepare(cluster.state, build_queue(cluster.classes.all), strategy)


def is_placeable(pod: Pod) -> bool:
    """Whether the scheduler should try to place the pod."""
    return bool(pod.alternatives) and not pod.unsupported and pod.volume_problem is None
