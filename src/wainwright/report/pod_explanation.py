"""One pod of the input explained: its node and why, or why it is unschedulable.
An unschedulable pod is planned once more with suggestions; for pods that are not planned (bound,
finished, gated, being deleted) the explanation says so.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from wainwright.api.field_error import closest_match
from wainwright.api.kubernetes.workloads import Pod
from wainwright.core.explain.placed_pod import (
    CAPACITY_TYPE_ORDER,
    EarlierPool,
    LaunchAlternatives,
    PlacementDecision,
    explain_placement,
    launch_alternatives,
)
from wainwright.core.explain.unschedulable import snapshot_after_plan
from wainwright.core.static_capacity import plan_static_capacity
from wainwright.errors import UsageError
from wainwright.messages import unschedulable
from wainwright.messages.formatting import (
    MODELLED_PRICES,
    format_count,
    format_hourly,
    join_first,
    join_with_and,
)
from wainwright.messages.unschedulable import describe_node_reason
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.labels import ON_DEMAND, RESERVED, SPOT
from wainwright.model.plan import Plan, PlannedNodeClaim, PlanOptions
from wainwright.model.reasons import SUITABLE_NODE_REASONS, LimitExceeded
from wainwright.model.snapshot import Pool, Snapshot
from wainwright.offline import OfflinePlan, PreparedInput, make_plan
from wainwright.report.plan_input import plan_input
from wainwright.report.plan_json import plan_document
from wainwright.report.plan_rows import format_node_reason, row_answer
from wainwright.translate.object_metadata import assign_names, namespace_of
from wainwright.translate.pods import is_terminal
from wainwright.translate.workload_expansion import expand_workloads


def excluded_pods(prepared: PreparedInput, planned: frozenset[str]) -> Mapping[str, Pod]:
    """The pods of the input that are not planned, by namespace and name."""
    objects, maximum = prepared.manifests.objects, prepared.settings.maximum_replicas
    all_pods = {
        f"{namespace_of(pod.metadata)}/{pod.metadata.name}": pod
        for pod in assign_names(expand_workloads(objects, maximum=maximum))
    }
    return {key: pod for key, pod in all_pods.items() if key not in planned}


def exclusion_reason(pod: Pod) -> str:
    """Why the pod is not planned."""
    if is_terminal(pod):
        return f"it has finished ({pod.status.phase})"
    if pod.spec.nodeName:
        return f"it is bound to node {pod.spec.nodeName}"
    if pod.metadata.deletionTimestamp:
        return "it is being deleted"
    if pod.spec.schedulingGates:
        gates = ", ".join(gate.name for gate in pod.spec.schedulingGates)
        return f"it waits until its scheduling gates are removed: {gates}"
    return "it belongs to a DaemonSet or to its node (static), and counts as overhead of the node"


class DecidedPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A plan and what it was decided on."""

    snapshot: Snapshot
    indexes: Mapping[str, InstanceTypeIndex]
    options: PlanOptions
    plan: Plan


def _decided(planned: OfflinePlan) -> DecidedPlan:
    prepared = planned.prepared
    return DecidedPlan(
        snapshot=prepared.snapshot,
        indexes={name: catalog.index for name, catalog in prepared.catalogs.items()},
        options=prepared.settings.options,
        plan=planned.plan,
    )


def decision_lines(decided: DecidedPlan, claim: PlannedNodeClaim, pod: str) -> list[str]:
    """Why not elsewhere, why this offering, and which preferences were relaxed."""
    indexes, options = decided.indexes, decided.options
    pools = {pool.name: pool for pool in decided.snapshot.pools}
    pool = pools[claim.pool]
    if pool.keeps_replicas:
        return [f"{pool.name} is static: its nodes are launched first, whatever pods need"]
    snapshot = plan_static_capacity(decided.snapshot, indexes, options).snapshot
    decision = explain_placement(snapshot, indexes, options, claim, pod)
    after = snapshot_after_plan(decided.snapshot, indexes, decided.plan.claims)
    return [
        *(_placement_lines(decision, pool, after) if decision is not None else [PACKED_BY_COST]),
        *launch_lines(decided, claim),
        *_relaxation_lines(decided.plan, claim, pod),
    ]


PACKED_BY_COST = "packed with other pods for the lowest price; NodePools are still tried by weight"


def _placement_lines(decision: PlacementDecision, pool: Pool, snapshot: Snapshot) -> Iterator[str]:
    if snapshot.nodes:
        has_suitable = any(
            isinstance(each.reason, SUITABLE_NODE_REASONS) for each in decision.nodes
        )
        yield "no existing node is used" if has_suitable else "it fits no existing node"
        for each in decision.nodes:
            yield f"  {format_count(each.nodes, 'node')}: {describe_node_reason(each.reason)}"
    if decision.joined:
        yield from _joined_node_lines(decision, pool)
    else:
        yield from _new_node_lines(decision, pool, snapshot.pools)
    if decision.round > 1:
        before = _why_not_earlier(decision)
        yield f"it was scheduled in round {decision.round}: before that, {before}"


def _joined_node_lines(decision: PlacementDecision, pool: Pool) -> Iterator[str]:
    since = "launching" if decision.joined_earlier_round else "planned"
    yield (
        f"the node was {since} for {join_first(decision.joined)} and has room: "
        "it is filled before another node is launched"
    )
    for earlier in decision.earlier_pools:
        if earlier.reason is None and earlier.weight > pool.weight:
            yield (
                f"{_pool_with_weight(earlier)} could have launched a node for it; "
                "with --strict-weights it comes first"
            )


def _new_node_lines(
    decision: PlacementDecision, pool: Pool, pools: Sequence[Pool]
) -> Iterator[str]:
    """Why no other pool opened the node; `pools` are those after the plan."""
    if len(pools) == 1:
        yield f"launched for it by NodePool {pool.name}, the only NodePool"
        return
    weight = f" (weight {pool.weight})" if pool.weight else ""
    equal = {each.pool for each in decision.equal_pools}
    earlier_pools = [each for each in decision.earlier_pools if each.pool not in equal]
    if any(each.weight != pool.weight for each in pools):
        why = f", the first NodePool by weight{' that could' if earlier_pools else ''}"
    else:
        why = f"; no NodePool has {'another' if pool.weight else 'a'} weight"
    yield f"launched for it by NodePool {pool.name}{weight}{why}"
    yield from _equal_pool_lines(decision, pool)
    for earlier in earlier_pools:
        reason = (
            _why_not_equal_pool(decision)
            if earlier.reason is None
            else unschedulable.describe_pool_reason(earlier.reason)
        )
        yield f"  {_pool_with_weight(earlier)}: {reason}"
        if any(_counted_at_largest_type(earlier, each) for each in pools):
            yield "    nodes planned in the same round counted as the largest type left to them"


def _equal_pool_lines(decision: PlacementDecision, pool: Pool) -> Iterator[str]:
    """Why none of the other pools of its weight; one line for all of them."""
    if not decision.equal_pools or decision.price is None:
        return
    others = [
        f"{each.pool} ({format_hourly(each.price, modelled=each.modelled)})"
        for each in decision.equal_pools
    ]
    price = format_hourly(decision.price, modelled=decision.modelled_price)
    cost_more = all(each.price > decision.price for each in decision.equal_pools)
    compared = "of its weight" if pool.weight else "that could"
    yield (
        f"  of the NodePools {compared} its node costs {'least' if cost_more else 'no more'}: "
        f"{price}, "
        f"before {join_with_and(others)}"
    )


def _counted_at_largest_type(earlier: EarlierPool, pool_after: Pool) -> bool:
    """Whether more counted against the limit during the round than in the finished plan."""
    reason = earlier.reason
    if earlier.pool != pool_after.name or not isinstance(reason, LimitExceeded):
        return False
    if reason.of_cluster:
        return False
    return reason.in_use > pool_after.in_use.get(reason.resource, 0)


def _why_not_equal_pool(decision: PlacementDecision) -> str:
    """Why an earlier pool of the same weight was not used."""
    if decision.for_reservation:
        return "it could launch one too, but at equal weight reserved capacity comes first"
    return (
        "it could launch one too, but at a higher price, or where topology constraints allow less"
    )


def _pool_with_weight(earlier: EarlierPool) -> str:
    return f"{earlier.pool} (weight {earlier.weight})" if earlier.weight else earlier.pool


def _why_not_earlier(decision: PlacementDecision) -> str:
    """What could have changed between rounds that matters to the pod."""
    held_capacity = [
        *(["an instance of a capacity reservation"] if decision.has_reservations else []),
        *(["room under a limit"] if decision.has_limits else []),
    ]
    reasons = (
        ["it was not known where other pods would be"]
        if decision.has_topology or not held_capacity
        else []
    )
    reasons += [f"{' or '.join(held_capacity)} was held for others"] if held_capacity else []
    return ", or ".join(reasons)


def launch_lines(decided: DecidedPlan, claim: PlannedNodeClaim) -> Iterator[str]:
    """Why this instance type and this capacity type."""
    pool = next(each for each in decided.snapshot.pools if each.name == claim.pool)
    alternatives = launch_alternatives(claim, pool, decided.indexes[claim.pool])
    yield _type_count_line(claim, alternatives)
    if alternatives.exotic_types:
        number = f"{alternatives.exotic_types:,}"
        yield f"  {number} with accelerators or of bare metal are left out: no pod requires them"
    chosen = claim.launch.capacity_type
    if alternatives.allowed == (chosen,):
        only = alternatives.by_pool == (chosen,)
        yield f"{chosen}: {f'{claim.pool} allows' if only else 'its pods allow'} nothing else"
        return
    for capacity_type in (
        CAPACITY_TYPE_ORDER[: CAPACITY_TYPE_ORDER.index(chosen)]
        if chosen in CAPACITY_TYPE_ORDER
        else ()
    ):
        reason = _why_not_capacity_type(capacity_type, claim, alternatives, decided)
        yield f"not {capacity_type}: {reason}"
    if chosen == RESERVED:
        yield f"reserved capacity comes before {join_with_and(alternatives.allowed[1:])}"
    if chosen == SPOT and ON_DEMAND in alternatives.allowed and alternatives.on_demand is not None:
        on_demand = alternatives.on_demand
        price = format_hourly(on_demand.usd, modelled=on_demand.modelled)
        yield f"spot comes before on-demand, which would cost {price}"


def _type_count_line(claim: PlannedNodeClaim, alternatives: LaunchAlternatives) -> str:
    reserved_note = (
        " with a free reserved instance" if claim.launch.reservation_id is not None else ""
    )
    if alternatives.types == 1:
        return f"1 instance type{reserved_note} fits all its pods"
    return (
        f"{alternatives.types:,} instance types{reserved_note} fit all its pods; "
        "the cheapest is launched"
    )


def _why_not_capacity_type(
    capacity_type: str,
    claim: PlannedNodeClaim,
    alternatives: LaunchAlternatives,
    decided: DecidedPlan,
) -> str:
    if capacity_type not in alternatives.by_pool:
        return f"{claim.pool} does not allow it"
    if capacity_type not in alternatives.allowed:
        return "its pods do not allow it"
    if capacity_type == RESERVED:
        return _why_no_reservation(alternatives, decided)
    if alternatives.spot is None:
        return "none of these types has spot capacity now"
    price = format_hourly(alternatives.spot.usd, modelled=alternatives.spot.modelled)
    return f"the cheapest costs {price}, which is more than on demand"


def _why_no_reservation(alternatives: LaunchAlternatives, decided: DecidedPlan) -> str:
    if not decided.options.capacity_reservations:
        return "the feature gate CapacityReservations is off"
    if not alternatives.reservations:
        return "no capacity reservation that fits is selected"
    names, listed = set(alternatives.reservations), join_with_and(alternatives.reservations)
    if any(use.remaining for use in decided.plan.reservations if use.id in names):
        return f"with an instance of {listed} the limits would be exceeded"
    return f"{listed} has no free instance"


def _relaxation_lines(plan: Plan, claim: PlannedNodeClaim, pod: str) -> Iterator[str]:
    for key in claim.relaxed_min_values:
        yield (
            f"minValues of {key} do not apply: a capacity reservation needs no flexibility"
            if claim.launch.reservation_id
            else f"minValues of {key} are lowered to what is left"
        )
    for each in plan.relaxed:
        if pod in each.pods:
            yield from (
                f"preference relaxed: {what}"
                for what in unschedulable.describe_preferences(each.preferences)
            )


Document = dict[str, Any]

FUNNEL_STEPS = {
    "types": "types in the catalogue",
    "requirements": "after requirements",
    "resources": "after resources",
    "offerings": "after offerings",
    "minValues": "after minValues",
    "limits": "after limits",
}


class PodExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """The explanation of one pod."""

    pod: str
    """namespace/name."""
    evaluated: bool
    """Whether the pod was planned."""
    placed: bool
    lines: tuple[str, ...]


def explain_with_suggestions(
    planned: OfflinePlan, name: str, *, now: str, every: bool = False
) -> PodExplanation:
    """The explanation for a plan made without suggestions.

    Fixes are tried in a second plan, and only for an unschedulable pod: for all others that saves
    the time of trying them.
    """
    document = plan_document(plan_input(planned.prepared, now=now), planned.plan)
    explanation = explain_in_plan(planned, document, name, every=every)
    if explanation.placed or not explanation.evaluated:
        return explanation
    with_suggestions = make_plan(planned.prepared)
    given = plan_input(with_suggestions.prepared, now=now)
    document = plan_document(given, with_suggestions.plan)
    return explain_in_plan(with_suggestions, document, name, every=every)


def explain_in_plan(
    planned: OfflinePlan, plan: Document, name: str, *, every: bool = False
) -> PodExplanation:
    """The explanation of the named pod; raises UsageError with a suggestion for an unknown name.

    With `every`, an unschedulable pod gets the funnel of every NodePool.
    """
    planned_pods = [pod.key for pod in planned.prepared.snapshot.pods]
    pod = find_pod(planned_pods, name)
    if pod is None:
        return _explain_excluded(planned, planned_pods, name)
    lines = tuple(_explanation_lines(planned, plan, pod, every=every))
    if any("~$" in line for line in lines):
        lines = (*lines, f"  {MODELLED_PRICES}")
    placed = all(row["pod"] != pod for row in plan["unschedulable"])
    return PodExplanation(pod=pod, evaluated=True, placed=placed, lines=lines)


def find_pod(pods: Iterable[str], name: str) -> str | None:
    """namespace/name of the named pod; the namespace may be omitted where it is unambiguous."""
    matches = [pod for pod in pods if name in (pod, _without_namespace(pod))]
    if len(matches) > 1 and name not in matches:
        raise UsageError(
            f"several pods are called {name}", f"write one of {', '.join(sorted(matches))}"
        )
    return matches[0] if matches else None


def _explain_excluded(planned: OfflinePlan, planned_pods: list[str], name: str) -> PodExplanation:
    excluded = excluded_pods(planned.prepared, frozenset(planned_pods))
    pod = find_pod(excluded, name)
    if pod is None:
        raise UsageError(
            f"the input has no pod {name}", suggest_pod_name(name, [*planned_pods, *excluded])
        )
    line = f"{pod} is not planned: {exclusion_reason(excluded[pod])}"
    return PodExplanation(pod=pod, evaluated=False, placed=False, lines=(line,))


def suggest_pod_name(name: str, pods: list[str]) -> str:
    """The most similar pod name; a name without namespace is compared without one."""
    close = closest_match(name, pods) if "/" in name else ""
    if not close:
        by_name = {_without_namespace(pod): pod for pod in reversed(pods)}
        close = by_name.get(closest_match(_without_namespace(name), list(by_name)), "")
    return f"did you mean {close}?" if close else ""


def _without_namespace(pod: str) -> str:
    return pod.rpartition("/")[2]


def _explanation_lines(
    planned: OfflinePlan, plan: Document, pod: str, *, every: bool
) -> Iterator[str]:
    for claim in planned.plan.claims:
        if pod in claim.pods:
            yield from _new_claim_lines(planned, claim, pod)
            return
    for placement in planned.plan.placements:
        if pod in placement.pods:
            yield f"{pod} is scheduled on {placement.node}, an existing node with room"
            yield "  existing nodes are filled before new ones are launched"
            return
    row = next(row for row in plan["unschedulable"] if row["pod"] == pod)
    yield from unschedulable_lines(row, every=every)


def _new_claim_lines(planned: OfflinePlan, claim: PlannedNodeClaim, pod: str) -> Iterator[str]:
    launch, other_count = claim.launch, len(claim.pods) - 1
    others = f", with {_other_pods(other_count)}" if other_count else ", alone"
    reserved = f" from {launch.reservation_id}" if launch.reservation_id else ""
    yield f"{pod} is scheduled on {claim.name}, a new node of NodePool {claim.pool}{others}"
    yield (
        f"  launched as {launch.instance_type} in {launch.zone or 'any zone'}, "
        f"{launch.capacity_type}{reserved}, "
        f"{format_hourly(launch.price, modelled=launch.modelled_price)}"
    )
    yield from (f"  {line}" for line in decision_lines(_decided(planned), claim, pod))


def _other_pods(count: int) -> str:
    return "another pod" if count == 1 else f"{count:,} other pods"


def unschedulable_lines(row: Document, *, every: bool = False) -> Iterator[str]:
    """The answer for one pod; if wanted, the funnel of every NodePool and the reasons of nodes."""
    yield f"{row['pod']} is unschedulable"
    yield from (f"  {line}" for line in row_answer(row).lines())
    if not every:
        return
    for pool in row["pools"]:
        yield f"  NodePool {pool['nodePool']}: {pool['reason']}"
        yield from (
            f"    {pool['funnel'][step]:>6,} {label}" for step, label in FUNNEL_STEPS.items()
        )
    yield from (f"  {format_node_reason(each)}" for each in row["nodes"])
