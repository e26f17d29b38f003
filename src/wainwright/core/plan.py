"""Planning: a snapshot in, a Plan out. The same input gives the same plan on every computer."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from wainwright.core.explain.suggestion_trials import Replanner
from wainwright.core.explain.unschedulable import UnschedulableExplainer
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
from wainwright.core.scheduling.topology.groups import ConstraintKind
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
    Strategy(deferred_kinds=frozenset(ConstraintKind)),
)
"""Drafts decide on a domain as soon as any pod depends on it, or only when their round is over."""


def plan(
    snapshot: Snapshot,
    catalogs: Mapping[str, InstanceTypeIndex],
    options: PlanOptions = DEFAULT_PLAN_OPTIONS,
    *,
    advise: bool = True,
) -> Plan:
    """Plans which nodes to launch for which pods; `catalogs` is by pool name.

    With `advise`, fixes for unschedulable pods are tried out by planning again. That takes about as
    long as the plan itself, or a fraction of a second.
    """
    solution = solve_with_fallbacks(partial(prepare_snapshot, snapshot, catalogs, options))
    packing: PackingResult | None = None
    if options.packing is PackingPolicy.COST:
        solution, packing = _cheapest(solution, snapshot, catalogs, options)
    taken = snapshot.taken_names
    claims = planned_claims(solution.drafts, solution.classes.resources, taken)
    assignments = pods_on_existing_nodes(solution.state.nodes)
    placed = {pod for claim in claims for pod in claim.pods}
    placed |= {pod for assignment in assignments for pod in assignment.pods}
    unplaced_pods = [pod for pod in snapshot.pods if pod.key not in placed]
    replanner = _create_replanner(catalogs, options) if advise else None
    explainer = (
        UnschedulableExplainer(snapshot, catalogs, options, solution, claims)
        if unplaced_pods
        else None
    )
    return Plan(
        claims=claims,
        placements=assignments,
        unschedulable=explainer.verdicts(unplaced_pods, replanner) if explainer is not None else (),
        reservations=reservation_usage(
            snapshot.reservations, solution.catalog_counts, claims, in_flight_usage(snapshot.nodes)
        ),
        relaxed=relaxed_preferences(solution),
        packing=packing,
    )


def _create_replanner(catalogs: Mapping[str, InstanceTypeIndex], options: PlanOptions) -> Replanner:
    def first_fit(snapshot: Snapshot) -> Solution:
        return solve_with_fallbacks(partial(prepare_snapshot, snapshot, catalogs, options))

    def by_cost(snapshot: Snapshot) -> Solution:
        return _cheapest(first_fit(snapshot), snapshot, catalogs, options)[0]

    return Replanner(
        first_fit=first_fit, by_cost=by_cost if options.packing is PackingPolicy.COST else None
    )


def _cheapest(
    first_fit: Solution,
    snapshot: Snapshot,
    catalogs: Mapping[str, InstanceTypeIndex],
    options: PlanOptions,
) -> tuple[Solution, PackingResult]:
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
    templates = compile_templates(snapshot.pools, catalogs, snapshot.daemonsets, gate=gate)
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
