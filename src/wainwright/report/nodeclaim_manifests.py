"""Claims of a plan as NodeClaim manifests: instance types cheapest first, and Karpenter's
annotations for relaxed minValues and applied overlays.
"""

from typing import Any

from wainwright.api.wire import to_manifest
from wainwright.core.launch.instance_type_truncation import claim_instance_types
from wainwright.model.overlays import no_overlays
from wainwright.model.plan import Plan, PlannedNodeClaim
from wainwright.report.plan_input import PlanInput
from wainwright.translate.nodeclaims import planned_claim_annotations, translate_planned_claim


def node_claim_manifests(given: PlanInput, plan: Plan) -> list[dict[str, Any]]:
    """Every claim of the plan, in order of creation."""
    return [_node_claim_manifest(claim, given) for claim in plan.claims]


def _node_claim_manifest(claim: PlannedNodeClaim, given: PlanInput) -> dict[str, Any]:
    """One claim, with its instance types cheapest first, truncated to the maximum of a claim."""
    index, overlays = given.indexes[claim.pool], given.overlays.get(claim.pool) or no_overlays()
    types = claim_instance_types(claim, index)
    annotations = planned_claim_annotations(claim, overlays, types, index.keys)
    pool = given.node_pools[claim.pool]
    return to_manifest(translate_planned_claim(claim, pool, types, annotations))
