"""NodeClaims as objects and in the model: planned ones, and those that are launched.

A controller creates the object of a planned claim, and launches what it then reads back. The launch
record is an annotation, so that it survives the controller.
"""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

import msgspec

from wainwright.api.karpenter.nodeclaim import NodeClaim, NodeClaimSpec, NodeClaimStatus
from wainwright.api.karpenter.nodeclaim import NodeClaimResources as ClaimResources
from wainwright.api.karpenter.nodepool import NodePool
from wainwright.api.karpenter.shared_fields import ClaimRequirement, NodeClassRef, PoolTaint
from wainwright.api.wire import ObjectMeta
from wainwright.model import node_claim as model
from wainwright.model.labels import (
    CAPACITY_TYPE,
    INITIALIZED,
    INSTANCE_TYPE,
    NODEPOOL,
    REGISTERED,
    RESERVATION_ID,
    ZONE,
)
from wainwright.model.overlays import AppliedOverlays
from wainwright.model.plan import PlannedNodeClaim
from wainwright.model.resources import Resources, format_quantity, sort_resources
from wainwright.model.taints import Taint
from wainwright.translate.disruption import NEVER, format_duration, parse_duration
from wainwright.translate.node_claim_pairing import pool_of_claim
from wainwright.translate.pools import translate_pool
from wainwright.translate.requirements import translate_requirements, translate_taints
from wainwright.translate.resources import translate_requests

MIN_VALUES_RELAXED_ANNOTATION: Final = "karpenter.sh/nodeclaim-min-values-relaxed"
PRICE_OVERLAY_ANNOTATION: Final = "karpenter.sh/price-overlay-applied"
CAPACITY_OVERLAY_ANNOTATION: Final = "karpenter.sh/capacity-overlay-applied"
LAUNCH_RECORD_ANNOTATION: Final = "wainwright.dev/launch-record"
RESERVATION_REQUIRED_ANNOTATION: Final = "wainwright.dev/reservation-required"
OWN_ANNOTATIONS: Final = frozenset(
    {
        MIN_VALUES_RELAXED_ANNOTATION,
        LAUNCH_RECORD_ANNOTATION,
        RESERVATION_REQUIRED_ANNOTATION,
    }
)
"""Annotations that are fields of a claim in the model."""

NODE_ONLY_LABELS: Final = (
    REGISTERED,
    INITIALIZED,
)  # every node gets these; no claim may require them


def translate_planned_claim(
    claim: PlannedNodeClaim, pool: NodePool, types: Sequence[str], annotations: Mapping[str, str]
) -> NodeClaim:
    """The claim with these instance types, in this order, and these annotations added."""
    template = pool.spec.template.spec
    return NodeClaim(
        metadata=ObjectMeta(
            name=claim.name,
            labels={**(_template_labels(pool)), NODEPOOL: claim.pool},
            annotations={
                **_template_annotations(pool),
                **_reservation_annotation(claim),
                **annotations,
            }
            or None,
        ),
        spec=NodeClaimSpec(
            nodeClassRef=template.nodeClassRef,
            requirements=_claim_requirements(claim, types),
            resources=ClaimResources(requests=_quantities(claim.requests)),
            taints=template.taints,
            startupTaints=template.startupTaints,
            expireAfter=template.expireAfter,
            terminationGracePeriod=template.terminationGracePeriod,
        ),
    )


def template_claim(
    pool: NodePool, requests: Resources, annotations: Mapping[str, str]
) -> NodeClaim:
    """A claim that asks for no more than the template of the pool says: no types are listed."""
    template, translated = pool.spec.template.spec, translate_pool(pool)
    requirements = [
        ClaimRequirement(key=key, operator=operator, values=list(values) or None, minValues=least)
        for key, operator, values, least in translated.node_requirements.entries()
        if key not in NODE_ONLY_LABELS
    ]
    return NodeClaim(
        metadata=ObjectMeta(
            labels={
                **_template_labels(pool),
                **translated.node_class_labels,
                NODEPOOL: pool.metadata.name,
            },
            annotations={**_template_annotations(pool), **annotations},
        ),
        spec=NodeClaimSpec(
            nodeClassRef=template.nodeClassRef,
            requirements=requirements,
            resources=ClaimResources(requests=_quantities(requests)),
            taints=template.taints,
            startupTaints=template.startupTaints,
            expireAfter=template.expireAfter,
            terminationGracePeriod=template.terminationGracePeriod,
        ),
    )


def planned_claim_annotations(
    claim: PlannedNodeClaim,
    overlays: AppliedOverlays,
    types: Sequence[str],
    well_known: AbstractSet[str],
) -> dict[str, str]:
    """What the plan did beside the NodePool's template: minValues relaxed, overlays applied."""
    conditions = {
        MIN_VALUES_RELAXED_ANNOTATION: bool(claim.relaxed_min_values),
        PRICE_OVERLAY_ANNOTATION: overlays.set_price(claim.requirements, types, well_known),
        CAPACITY_OVERLAY_ANNOTATION: overlays.set_capacity(types),
    }
    return {key: "true" for key, holds in conditions.items() if holds}


def _reservation_annotation(claim: PlannedNodeClaim) -> dict[str, str]:
    """The requirement of the claim names the reservation in any case: it is pinned to it."""
    required = claim.choices.reservation_ids and RESERVATION_ID in claim.requirements
    return {RESERVATION_REQUIRED_ANNOTATION: "true"} if required else {}


def translate_node_claim(claim: NodeClaim) -> model.NodeClaim:
    """The claim as the cloud provider launches it."""
    annotations, spec = claim.metadata.annotations or {}, claim.spec
    status = claim.status or NodeClaimStatus()
    requests = spec.resources.requests if spec.resources is not None else None
    return model.NodeClaim(
        name=claim.metadata.name,
        uid=claim.metadata.uid,
        pool=pool_of_claim(claim) or "",
        node_class=spec.nodeClassRef.name,
        requirements=translate_requirements(spec.requirements),
        requests=translate_requests(requests),
        labels=claim.metadata.labels or {},
        annotations={key: annotations[key] for key in annotations if key not in OWN_ANNOTATIONS},
        taints=translate_taints(spec.taints),
        startup_taints=translate_taints(spec.startupTaints),
        expire_after=parse_duration(spec.expireAfter),
        termination_grace_period=parse_duration(spec.terminationGracePeriod),
        min_values_relaxed=annotations.get(MIN_VALUES_RELAXED_ANNOTATION) == "true",
        reservation_required=annotations.get(RESERVATION_REQUIRED_ANNOTATION) == "true",
        launch_record=launch_record_of(claim),
        instance=status.providerID.rpartition("/")[2],
    )


def node_claim_object(claim: model.NodeClaim) -> NodeClaim:
    """The object of a claim, without a status: that says what became of it."""
    expiry, grace_period = claim.expire_after, claim.termination_grace_period
    return NodeClaim(
        metadata=ObjectMeta(
            name=claim.name,
            uid=claim.uid,
            labels={**claim.labels, NODEPOOL: claim.pool},
            annotations={**claim.annotations, **_own_annotations(claim)} or None,
        ),
        spec=NodeClaimSpec(
            nodeClassRef=NodeClassRef(
                group="karpenter.k8s.aws", kind="EC2NodeClass", name=claim.node_class
            ),
            requirements=[
                ClaimRequirement(
                    key=key, operator=operator, values=list(values) or None, minValues=least
                )
                for key, operator, values, least in claim.requirements.entries()
            ],
            resources=ClaimResources(requests=_quantities(claim.requests)),
            taints=_wire_taints(claim.taints),
            startupTaints=_wire_taints(claim.startup_taints),
            expireAfter=NEVER if expiry is None else format_duration(expiry),
            terminationGracePeriod=None if grace_period is None else format_duration(grace_period),
        ),
    )


def _own_annotations(claim: model.NodeClaim) -> dict[str, str]:
    own = {MIN_VALUES_RELAXED_ANNOTATION: "true"} if claim.min_values_relaxed else {}
    if claim.reservation_required:
        own[RESERVATION_REQUIRED_ANNOTATION] = "true"
    if claim.launch_record is not None:
        own[LAUNCH_RECORD_ANNOTATION] = format_launch_record(claim.launch_record)
    return own


def format_launch_record(record: model.LaunchRecord) -> str:
    return msgspec.json.encode(record).decode()


def launch_record_of(claim: NodeClaim) -> model.LaunchRecord | None:
    return parse_launch_record((claim.metadata.annotations or {}).get(LAUNCH_RECORD_ANNOTATION))


def parse_launch_record(text: str | None) -> model.LaunchRecord | None:
    """The record; None where there is none, or where somebody made it unreadable.

    That is as if nothing had been launched: instances that belong to no claim are terminated.
    """
    if not text:
        return None
    try:
        return msgspec.json.decode(text, type=model.LaunchRecord)
    except msgspec.MsgspecError:
        return None


def _wire_taints(taints: Iterable[Taint]) -> list[PoolTaint] | None:
    return [
        PoolTaint(key=taint.key, value=taint.value or None, effect=taint.effect) for taint in taints
    ] or None


def _quantities(requests: Resources) -> dict[str, int | str]:
    return {
        name: format_quantity(name, amount) for name, amount in sort_resources(requests).items()
    }


def _template_labels(pool: NodePool) -> dict[str, str]:
    metadata = pool.spec.template.metadata
    return dict(metadata.labels or {}) if metadata is not None else {}


def _template_annotations(pool: NodePool) -> dict[str, str]:
    metadata = pool.spec.template.metadata
    return dict(metadata.annotations or {}) if metadata is not None else {}


MAX_REQUIREMENTS: Final = 100  # that an API server takes


def _claim_requirements(claim: PlannedNodeClaim, types: Sequence[str]) -> list[ClaimRequirement]:
    """The types, zones and so on that were chosen, and whatever else is required.

    An API server takes so many requirements; of more, only what was chosen is needed: that decides
    on the launch, and pool and pods were asked before it was chosen.
    """
    chosen = {
        INSTANCE_TYPE: tuple(types),
        ZONE: claim.choices.zones,
        CAPACITY_TYPE: claim.choices.capacity_types,
        RESERVATION_ID: claim.choices.reservation_ids,
    }
    other_requirements = [
        ClaimRequirement(key=key, operator=operator, values=list(values) or None, minValues=least)
        for key, operator, values, least in claim.requirements.entries()
        if key not in chosen and key not in NODE_ONLY_LABELS
    ]
    least = {key: claim.requirements[key].min_values for key in chosen if key in claim.requirements}
    chosen_requirements = [
        ClaimRequirement(key=key, operator="In", values=list(values), minValues=least.get(key))
        for key, values in chosen.items()
        if values
    ]
    most = MAX_REQUIREMENTS - len(chosen_requirements)
    return sorted(
        [*other_requirements[:most], *chosen_requirements],
        key=lambda requirement: (requirement.key, requirement.operator),
    )
