"""Claims of a plan as NodeClaim manifests: instance types cheapest first, and Karpenter's
annotations for relaxed minValues and applied overlays.
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

from wainwright.api.wire import to_manifest
from wainwright.core.launch.instance_type_truncation import claim_instance_types
from wainwright.model.plan import Plan, PlannedNodeClaim
from wainwright.report.plan_input import AppliedOverlays, PlanInput
from wainwright.translate.nodeclaims import MIN_VALUES_RELAXED_ANNOTATION, translate_planned_claim


def node_claim_manifests(given: PlanInput, plan: Plan) -> list[dict[str, Any]]:
    """Every claim of the plan, in order of creation."""
    return [_node_claim_manifest(claim, given) for claim in plan.claims]


def _node_claim_manifest(claim: PlannedNodeClaim, given: PlanInput) -> dict[str, Any]:
    """One claim, with its instance types cheapest first, truncated to the maximum of a claim."""
    index, overlays = given.indexes[claim.pool], given.overlays.get(claim.pool, NO_OVERLAYS)
    types = claim_instance_types(claim, index)
    annotations = claim_annotations(claim, overlays, types, index.keys)
    pool = given.node_pools[claim.pool]
    return to_manifest(translate_planned_claim(claim, pool, types, annotations))


PRICE_OVERLAY_ANNOTATION: Final = "karpenter.sh/price-overlay-applied"
CAPACITY_OVERLAY_ANNOTATION: Final = "karpenter.sh/capacity-overlay-applied"


NO_OVERLAYS: Final = AppliedOverlays()


def claim_annotations(
    claim: PlannedNodeClaim,
    overlays: AppliedOverlays,
    types: Sequence[str],
    well_known: AbstractSet[str],
) -> dict[str, str]:
    """The annotations that hold for a claim with these instance types."""
    conditions = {
        MIN_VALUES_RELAXED_ANNOTATION: bool(claim.relaxed_min_values),
        PRICE_OVERLAY_ANNOTATION: any(
            claim.requirements.is_compatible(offering, well_known)
            for name in types
            for offering in overlays.price.get(name, ())
        ),
        CAPACITY_OVERLAY_ANNOTATION: not set(overlays.capacity).isdisjoint(types),
    }
    return {key: "true" for key, holds in conditions.items() if holds}
