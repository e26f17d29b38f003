"""A planned claim as a NodeClaim manifest: what a controller creates before it launches."""

from collections.abc import Mapping, Sequence
from typing import Final

from wainwright.api.karpenter.nodeclaim import NodeClaim, NodeClaimSpec
from wainwright.api.karpenter.nodeclaim import NodeClaimResources as ClaimResources
from wainwright.api.karpenter.nodepool import NodePool
from wainwright.api.karpenter.shared_fields import ClaimRequirement
from wainwright.api.wire import ObjectMeta
from wainwright.model.labels import (
    CAPACITY_TYPE,
    INITIALIZED,
    INSTANCE_TYPE,
    NODEPOOL,
    REGISTERED,
    RESERVATION_ID,
    ZONE,
)
from wainwright.model.plan import PlannedNodeClaim
from wainwright.model.resources import Resources, format_quantity, sort_resources

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
            annotations={**_template_annotations(pool), **annotations} or None,
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


def _claim_requirements(claim: PlannedNodeClaim, types: Sequence[str]) -> list[ClaimRequirement]:
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
    return sorted(
        [*other_requirements, *chosen_requirements],
        key=lambda requirement: (requirement.key, requirement.operator),
    )
