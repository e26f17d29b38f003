"""Claims of a plan as NodeClaim manifests: instance types cheapest first, and Karpenter's
annotations for relaxed minValues and applied overlays.
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

from wainwright.api.wire import to_manifest
from wainwright.core.launch.instance_type_truncation import MAX_TYPES_PER_CLAIM, truncate_types
from wainwright.core.launch.launch_choice import options_of_claim
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.plan import Plan, PlannedNodeClaim
from wainwright.report.plan_input import AppliedOverlays, PlanInput
from wainwright.translate.nodeclaims import MIN_VALUES_RELAXED_ANNOTATION, translate_planned_claim


def node_claim_manifests(given: PlanInput, plan: Plan) -> list[dict[str, Any]]:
    """Every claim of the plan, in order of creation."""
    return [_node_claim_manifest(claim, given) for claim in plan.claims]


def _node_claim_manifest(claim: PlannedNodeClaim, given: PlanInput) -> dict[str, Any]:
    """One claim, with its instance types cheapest first, truncated to the maximum of a claim."""
    index, overlays = given.indexes[claim.pool], given.overlays.get(claim.pool, NO_OVERLAYS)
    types = _kept_instance_types(claim, index)
    annotations = claim_annotations(claim, overlays, types, index.keys)
    pool = given.node_pools[claim.pool]
    return to_manifest(translate_planned_claim(claim, pool, types, annotations))


def _kept_instance_types(claim: PlannedNodeClaim, index: InstanceTypeIndex) -> list[str]:
    """The claim's instance types, cheapest first, truncated so that minValues hold if possible."""
    remaining_names = set(claim.choices.instance_types)
    kept = truncate_types(options_of_claim(claim, index), MAX_TYPES_PER_CLAIM) or index.types
    return [instance_type.name for instance_type in kept if instance_type.name in remaining_names][
        :MAX_TYPES_PER_CLAIM
    ]


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
