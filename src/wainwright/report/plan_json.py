"""The plan as one JSON object: stable, versioned, described by docs/plan.schema.json."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from wainwright.messages import unschedulable
from wainwright.messages.input_remarks import describe_region_source
from wainwright.messages.unschedulable import describe_node_reason
from wainwright.messages.unschedulable_answer import answer_for
from wainwright.model.instance_type import InstanceType
from wainwright.model.plan import (
    ExplainedPlan,
    PackingResult,
    Plan,
    PlannedNodeClaim,
    RelaxedPods,
    RemainingOptions,
    UnschedulableGroup,
)
from wainwright.model.reasons import NearestMiss, PoolVerdict
from wainwright.model.resources import (
    CPU,
    MEMORY,
    Resources,
    format_quantity,
    sort_resources,
)
from wainwright.report.plan_input import PlanInput

Document = dict[str, Any]
MAX_RELAXED_OF_POD: Final = 100
"""Preferences of a pod that its claim names; `relaxed` of the plan has all, once for equal pods."""


def plan_document(given: PlanInput, plan: ExplainedPlan) -> Document:
    """What `wain plan -o json` prints."""
    warnings = [*given.input_notes, *plan_notes(given, plan)]
    return {
        "apiVersion": "wainwright.dev/v1alpha1",
        "kind": "Plan",
        **({"now": given.now} if given.shows_time else {}),
        "region": {
            "name": given.region.region,
            "reason": describe_region_source(given.region),
        },
        "nodeClaims": _claims(plan, given),
        "existingNodes": [
            {"name": placement.node, "pods": list(placement.pods)} for placement in plan.placements
        ],
        "unschedulable": _unschedulable(plan),
        "relaxed": [_relaxed(each) for each in plan.relaxed],
        "warnings": list(dict.fromkeys(warnings)),
        "summary": _summary(plan, len(given.snapshot.pods)),
    }


def plan_notes(given: PlanInput, plan: Plan) -> list[str]:
    """Warnings that do not refer to a place in a file."""
    return [*given.warnings, *plan.warnings]


def _claims(plan: Plan, given: PlanInput) -> list[Document]:
    # Were all of them named, a thousand nodes could repeat thousands of sentences each.
    relaxed = (
        (each, unschedulable.describe_preferences(each.preferences, MAX_RELAXED_OF_POD))
        for each in plan.relaxed
    )
    given_up = {pod: preferences for each, preferences in relaxed for pod in each.pods}
    types = {
        name: {each.name: each for each in given.indexes[name].types}
        for name in {claim.pool for claim in plan.claims}
    }
    return [
        {
            **claim_document(claim, given_up),
            "utilization": _utilization(claim, types[claim.pool][claim.launch.instance_type]),
        }
        for claim in plan.claims
    ]


def _utilization(claim: PlannedNodeClaim, instance_type: InstanceType) -> dict[str, float]:
    """The share of what pods can use on the node that its pods request, DaemonSets included."""
    allocatable = instance_type.allocatable
    return {
        name: round(claim.requests.get(name, 0) / allocatable[name], 4)
        for name in (CPU, MEMORY)
        if allocatable.get(name, 0) > 0
    }


def _relaxed(relaxed: RelaxedPods) -> Document:
    return {
        "pods": list(relaxed.pods),
        "givenUp": [unschedulable.describe_preference(each) for each in relaxed.preferences],
        "keptPricePerHour": relaxed.price_if_kept,
    }


def claim_document(
    claim: PlannedNodeClaim, given_up: Mapping[str, Sequence[str]] | None = None
) -> Document:
    """A planned node; `given_up` has the relaxed preferences of its pods, where they are known."""
    launch = claim.launch
    return {
        "name": claim.name,
        "nodePool": claim.pool,
        "instanceType": launch.instance_type,
        "zone": launch.zone,
        "capacityType": launch.capacity_type,
        "reservationID": launch.reservation_id,
        "pricePerHour": launch.price,
        "modelledPrice": launch.modelled_price,
        "feesPerHour": claim.fees,
        "round": claim.round,
        "options": options_document(claim.choices),
        "requests": format_resources(claim.requests),
        "pods": list(claim.pods),
        "relaxed": [
            *claim.relaxed_min_values,
            *sorted({each for pod in claim.pods for each in (given_up or {}).get(pod, ())}),
        ],
    }


def options_document(choices: RemainingOptions) -> Document:
    return {
        "instanceTypes": list(choices.instance_types),
        "zones": list(choices.zones),
        "capacityTypes": list(choices.capacity_types),
        "reservationIDs": list(choices.reservation_ids),
    }


def format_resources(resources: Resources) -> dict[str, str]:
    return {
        name: format_quantity(name, amount) for name, amount in sort_resources(resources).items()
    }


def _unschedulable(plan: ExplainedPlan) -> list[Document]:
    return unschedulable_documents(plan.unschedulable)


def unschedulable_documents(groups: Iterable[UnschedulableGroup]) -> list[Document]:
    """Why each of the pods has no place, in the order of their names."""
    rows = [
        {"pod": pod, **shared}
        for group, shared in ((group, _group(group)) for group in groups)
        for pod in group.pods
    ]
    return sorted(rows, key=lambda row: str(row["pod"]))


def _group(group: UnschedulableGroup) -> Document:
    """What equal pods share: the same objects, as thousands of pods times pools take memory."""
    answer = answer_for(group)
    return {
        "reason": answer.cause,
        "suggestion": answer.fix,
        "suggestionPricePerHour": None
        if group.suggestion is None
        else group.suggestion.price_change,
        "alternative": answer.alternative,
        "nearestPool": group.nearest_pool,
        "otherPools": answer.other_pools,
        "existingNodes": answer.nodes,
        "pools": [_verdict(verdict) for verdict in group.pools],
        "nodes": [
            {"nodes": each.nodes, "reason": describe_node_reason(each.reason)}
            for each in group.nodes
        ],
    }


def _verdict(verdict: PoolVerdict) -> Document:
    funnel = verdict.funnel
    return {
        "nodePool": verdict.pool,
        "reason": unschedulable.describe_pool_reason(verdict.reason),
        "funnel": {
            "types": funnel.types,
            "requirements": funnel.requirements,
            "resources": funnel.resources,
            "offerings": funnel.offerings,
            "minValues": funnel.min_values,
            "limits": funnel.limits,
        },
        "nearestMiss": _nearest_miss(verdict.nearest_miss),
    }


def _nearest_miss(miss: NearestMiss | None) -> Document | None:
    if miss is None:
        return None
    return {
        "what": miss.what,
        "needed": _format_amount(miss.what, miss.needed),
        "best": _format_amount(miss.what, miss.best),
        "instanceType": miss.instance_type,
    }


def _format_amount(what: str, amount: int | str) -> str:
    return format_quantity(what, amount) if isinstance(amount, int) else amount


def _packing(packing: PackingResult | None) -> Document | None:
    if packing is None:
        return None
    return {
        "firstFitPricePerHour": packing.first_fit,
        "savedPerHour": packing.saved,
        "lowerBoundPerHour": packing.lower_bound,
        "aboveBound": packing.above_bound,
    }


def _summary(plan: Plan, pods: int) -> Document:
    return {
        "pods": pods,
        "scheduled": plan.scheduled,
        "nodeClaims": len(plan.claims),
        "pricePerHour": plan.price,
        "modelledPrices": plan.has_modelled_prices,
        "feesPerHour": plan.fees,
        "reservations": [
            {
                "id": use.id,
                "total": use.total,
                "available": use.available,
                "promised": use.in_flight,
                "used": use.used,
                "unusable": use.unusable,
            }
            for use in plan.reservations
        ],
        "packing": _packing(plan.packing),
    }
