"""One pod of the input explained: where it goes and what decided, or why it goes nowhere.

A pod without a place is planned once more with suggestions; pods that no plan is for (bound,
finished, gated, being deleted) are told so.
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
from wainwright.errors import UsageError
from wainwright.manifests.cluster_manifests import ClusterManifests
from wainwright.messages import unschedulable
from wainwright.messages.formatting import format_count, format_hourly, join_first, join_with_and
from wainwright.messages.unschedulable import describe_node_reason
from wainwright.model.labels import ON_DEMAND, RESERVED, SPOT
from wainwright.model.plan import PlannedNodeClaim
from wainwright.model.reasons import SUITABLE_NODE_REASONS, LimitExceeded
from wainwright.model.snapshot import Pool, Snapshot
from wainwright.offline import OfflinePlan, make_plan
from wainwright.report.plan_json import plan_document
from wainwright.report.plan_rows import format_node_reason
from wainwright.translate.object_metadata import assign_names, namespace_of
from wainwright.translate.pods import is_terminal
from wainwright.translate.workload_expansion import expand_workloads


def excluded_pods(manifests: ClusterManifests, planned: frozenset[str]) -> Mapping[str, Pod]:
    """Every pod of the input, by namespace and name, that is not among the planned ones."""
    found = {
        f"{namespace_of(pod.metadata)}/{pod.metadata.name}": pod
        for pod in assign_names(expand_workloads(manifests.objects))
    }
    return {key: pod for key, pod in found.items() if key not in planned}


def exclusion_reason(pod: Pod) -> str:
    """Why nobody looks for a place for it."""
    if is_terminal(pod):
        return f"it has finished ({pod.status.phase})"
    if pod.spec.nodeName:
        return f"it is on node {pod.spec.nodeName} already, and stays there"
    if pod.metadata.deletionTimestamp:
        return "it is being deleted"
    if pod.spec.schedulingGates:
        gates = ", ".join(gate.name for gate in pod.spec.schedulingGates)
        return f"it waits until its scheduling gates are taken off: {gates}"
    return "it belongs to a DaemonSet or to its node, and counts as what a node needs for itself"


def decision_lines(planned: OfflinePlan, claim: PlannedNodeClaim, pod: str) -> list[str]:
    """From where it could not go to what is bought and what was given up."""
    prepared = planned.prepared
    indexes = {name: built.index for name, built in prepared.built.items()}
    options = prepared.conditions.options
    found = explain_placement(prepared.snapshot, indexes, options, claim, pod)
    pools = {pool.name: pool for pool in prepared.snapshot.pools}
    pool = pools[claim.pool]
    offered = launch_alternatives(claim, pool, indexes[claim.pool])
    after = snapshot_after_plan(prepared.snapshot, indexes, planned.plan.claims)
    return [
        *(_placement_lines(found, pool, after) if found is not None else [PACKED_BY_COST]),
        *_launch_lines(claim, offered, planned),
        *_relaxation_lines(planned, claim, pod),
    ]


PACKED_BY_COST = "packed with others for the lowest price; pools are asked by weight all the same"


def _placement_lines(found: PlacementDecision, pool: Pool, snapshot: Snapshot) -> Iterator[str]:
    if snapshot.nodes:
        would = any(isinstance(each.reason, SUITABLE_NODE_REASONS) for each in found.nodes)
        yield "it goes to no node of the input" if would else "no node of the input takes it"
        for each in found.nodes:
            yield f"  {format_count(each.nodes, 'node')}: {describe_node_reason(each.reason)}"
    if found.joined:
        yield from _joined_node_lines(found, pool)
    else:
        yield from _new_node_lines(found, pool, snapshot.pools)
    if found.round > 1:
        yield f"it found its place in round {found.round}: before, {_why_not_earlier(found)}"


def _joined_node_lines(found: PlacementDecision, pool: Pool) -> Iterator[str]:
    since = "under way" if found.joined_earlier_round else "planned"
    yield (
        f"the node was {since} for {join_first(found.joined)} and has room: "
        "it is filled before another is opened"
    )
    for word in found.earlier_pools:
        if word.reason is None and word.weight > pool.weight:
            yield (
                f"{_pool_with_weight(word)} could have opened a node for it; "
                "with --strict-weights that goes first"
            )


def _new_node_lines(found: PlacementDecision, pool: Pool, pools: Sequence[Pool]) -> Iterator[str]:
    """Why no other pool did; `pools` are those after the plan."""
    if len(pools) == 1:
        yield f"opened for it by {pool.name}, the only pool"
        return
    weight = f" (weight {pool.weight})" if pool.weight else ""
    could = " that could" if found.earlier_pools else ""
    yield f"opened for it by {pool.name}{weight}, the first pool by weight{could}"
    for word in found.earlier_pools:
        said = (
            _why_not_equal_pool(found)
            if word.reason is None
            else unschedulable.describe_pool_reason(word.reason)
        )
        yield f"  {_pool_with_weight(word)}: {said}"
        if any(_counted_at_largest_type(word, each) for each in pools):
            yield "    nodes planned in the same round counted as the largest type left to them"


def _counted_at_largest_type(word: EarlierPool, after: Pool) -> bool:
    """Whether more counted against a limit then than the plan uses in the end."""
    reason = word.reason
    if word.pool != after.name or not isinstance(reason, LimitExceeded):
        return False
    return reason.in_use > after.in_use.get(reason.resource, 0)


def _why_not_equal_pool(found: PlacementDecision) -> str:
    """Why it was not a pool of the same weight that comes first in the order of these."""
    if found.for_reservation:
        return "it could as well, but among pools of one weight a reserved slot goes first"
    return "it could as well, but where more pods are that it is kept from, or at more cost"


def _pool_with_weight(word: EarlierPool) -> str:
    return f"{word.pool} (weight {word.weight})" if word.weight else word.pool


def _why_not_earlier(found: PlacementDecision) -> str:
    """What may change between rounds, as far as it matters to the pod."""
    held = [
        *(["a slot of a reservation"] if found.has_reservations else []),
        *(["room under a limit"] if found.has_limits else []),
    ]
    reasons = ["it was open where other pods would be"] if found.has_topology or not held else []
    reasons += [f"{' or '.join(held)} was held for others"] if held else []
    return ", or ".join(reasons)


def _launch_lines(
    claim: PlannedNodeClaim, offered: LaunchAlternatives, planned: OfflinePlan
) -> Iterator[str]:
    yield _type_count_line(claim, offered)
    if offered.exotic_types:
        number = f"{offered.exotic_types:,}"
        yield f"  beside {number} with accelerators or of bare metal, which nobody asks for"
    chosen = claim.launch.capacity_type
    if offered.allowed == (chosen,):
        only = offered.by_pool == (chosen,)
        yield f"{chosen}: {f'{claim.pool} allows' if only else 'its pods allow'} nothing else"
        return
    for kind in (
        CAPACITY_TYPE_ORDER[: CAPACITY_TYPE_ORDER.index(chosen)]
        if chosen in CAPACITY_TYPE_ORDER
        else ()
    ):
        yield f"not {kind}: {_why_not_capacity_type(kind, claim, offered, planned)}"
    if chosen == RESERVED:
        yield f"reserved goes before {join_with_and(offered.allowed[1:])}"
    if chosen == SPOT and ON_DEMAND in offered.allowed and offered.on_demand is not None:
        yield f"spot goes before on-demand, which would cost {format_hourly(offered.on_demand)}"


def _type_count_line(claim: PlannedNodeClaim, offered: LaunchAlternatives) -> str:
    slot = " with a slot" if claim.launch.reservation_id is not None else ""
    if offered.types == 1:
        return f"1 instance type{slot} is left that holds all its pods"
    return (
        f"{offered.types:,} instance types{slot} are left that hold all its pods; "
        "the cheapest is taken"
    )


def _why_not_capacity_type(
    kind: str, claim: PlannedNodeClaim, offered: LaunchAlternatives, planned: OfflinePlan
) -> str:
    if kind not in offered.by_pool:
        return f"{claim.pool} does not allow it"
    if kind not in offered.allowed:
        return "its pods do not allow it"
    if kind == RESERVED:
        return _why_no_reservation(offered, planned)
    if offered.spot is None:
        return "none of these types can be had as spot now"
    return f"the cheapest costs {format_hourly(offered.spot)}, which is more than on demand"


def _why_no_reservation(offered: LaunchAlternatives, planned: OfflinePlan) -> str:
    if not planned.prepared.conditions.options.capacity_reservations:
        return "the feature gate CapacityReservations is off"
    if not offered.reservations:
        return "no reservation is selected that would do"
    names = set(offered.reservations)
    if any(use.remaining for use in planned.plan.reservations if use.id in names):
        return (
            f"with a slot of {join_with_and(offered.reservations)} limits or minValues do not hold"
        )
    return f"{join_with_and(offered.reservations)} had no slot left"


def _relaxation_lines(planned: OfflinePlan, claim: PlannedNodeClaim, pod: str) -> Iterator[str]:
    for key in claim.relaxed_min_values:
        yield f"minValues of {key} are lowered to what there is"
    for each in planned.plan.relaxed:
        if pod in each.pods:
            yield from (
                f"given up: {unschedulable.describe_preference(what)}" for what in each.preferences
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
    """What there is to tell of a pod."""

    pod: str
    """Its namespace and name."""
    evaluated: bool
    """Whether a place was looked for."""
    placed: bool
    lines: tuple[str, ...]


def explain_with_suggestions(made: OfflinePlan, name: str, *, now: str) -> PodExplanation:
    """The same for a plan without advice: fixes are tried only for a pod that has no place."""
    told = explain_in_plan(made, plan_document(made, now=now), name)
    if told.placed or not told.evaluated:
        return told
    advised = make_plan(made.prepared)
    return explain_in_plan(advised, plan_document(advised, now=now), name)


def explain_in_plan(planned: OfflinePlan, plan: Document, name: str) -> PodExplanation:
    """The pod that is meant; an unknown name is a usage error with a suggestion."""
    of_plan = [pod.key for pod in planned.prepared.snapshot.pods]
    found = find_pod(of_plan, name)
    if found is None:
        return _explain_excluded(planned, of_plan, name)
    told = tuple(_explanation_lines(planned, plan, found))
    placed = all(row["pod"] != found for row in plan["unschedulable"])
    return PodExplanation(pod=found, evaluated=True, placed=placed, lines=told)


def find_pod(known: Iterable[str], name: str) -> str | None:
    """namespace/name of the pod that is meant; the namespace may be left out where it is clear."""
    found = [pod for pod in known if name in (pod, _without_namespace(pod))]
    if len(found) > 1 and name not in found:
        raise UsageError(
            f"several pods are called {name}", f"write one of {', '.join(sorted(found))}"
        )
    return found[0] if found else None


def _explain_excluded(planned: OfflinePlan, of_plan: list[str], name: str) -> PodExplanation:
    others = excluded_pods(planned.prepared.manifests, frozenset(of_plan))
    found = find_pod(others, name)
    if found is None:
        raise UsageError(
            f"the input has no pod {name}", suggest_pod_name(name, [*of_plan, *others])
        )
    line = f"{found} is not planned: {exclusion_reason(others[found])}"
    return PodExplanation(pod=found, evaluated=False, placed=False, lines=(line,))


def suggest_pod_name(name: str, known: list[str]) -> str:
    """The pod that was probably meant. Who writes no namespace is compared without one."""
    close = closest_match(name, known) if "/" in name else ""
    if not close:
        by_name = {_without_namespace(pod): pod for pod in reversed(known)}
        close = by_name.get(closest_match(_without_namespace(name), list(by_name)), "")
    return f"did you mean {close}?" if close else ""


def _without_namespace(pod: str) -> str:
    return pod.rpartition("/")[2]


def _explanation_lines(planned: OfflinePlan, plan: Document, pod: str) -> Iterator[str]:
    for claim in planned.plan.claims:
        if pod in claim.pods:
            yield from _new_claim_lines(planned, claim, pod)
            return
    for placement in planned.plan.placements:
        if pod in placement.pods:
            yield f"{pod} goes to {placement.node}, which is there already and has room"
            yield "  what is there is filled before anything new is planned"
            return
    yield from _unschedulable_lines(next(row for row in plan["unschedulable"] if row["pod"] == pod))


def _new_claim_lines(planned: OfflinePlan, claim: PlannedNodeClaim, pod: str) -> Iterator[str]:
    launch, beside = claim.launch, len(claim.pods) - 1
    others = f", beside {_other_pods(beside)}" if beside else ", alone"
    reserved = f" from {launch.reservation_id}" if launch.reservation_id else ""
    yield f"{pod} goes to {claim.name}, a new node of {claim.pool}{others}"
    yield (
        f"  bought as {launch.instance_type} in {launch.zone or 'any zone'}, "
        f"{launch.capacity_type}{reserved}, {format_hourly(launch.price)}"
    )
    yield from (f"  {line}" for line in decision_lines(planned, claim, pod))


def _other_pods(count: int) -> str:
    return "another pod" if count == 1 else f"{count:,} other pods"


def _unschedulable_lines(row: Document) -> Iterator[str]:
    yield f"{row['pod']} has no place: {row['reason']}"
    for pool in row["pools"]:
        yield f"  {pool['nodePool']}: {pool['reason']}"
        yield from (
            f"    {pool['funnel'][step]:>6,} {words}" for step, words in FUNNEL_STEPS.items()
        )
    yield from (f"  {format_node_reason(each)}" for each in row["nodes"])
    if row["suggestion"]:
        yield f"  try: {row['suggestion']}"
