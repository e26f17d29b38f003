"""Every claim of a plan as a NodeClaim manifest, with its instance types cheapest first, and the
annotations that tell of relaxed minValues and of overlays on the types that are left.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from wainwright.api.karpenter.nodepool import NodePool
from wainwright.api.wire import to_manifest
from wainwright.catalogue.class_catalog import NodeClassCatalog
from wainwright.catalogue.instancetypes.derived_amount import DerivationRule
from wainwright.catalogue.offerings.layered_offering import LayeredOffering, PriceLayer
from wainwright.core.launch.instance_type_truncation import MAX_TYPES_PER_CLAIM, truncate_types
from wainwright.core.launch.launch_choice import options_of_claim
from wainwright.model.plan import PlannedNodeClaim
from wainwright.offline import OfflinePlan
from wainwright.translate.nodeclaims import translate_planned_claim


def node_claim_manifests(planned: OfflinePlan) -> list[dict[str, Any]]:
    """Every claim of the plan, in the order of creation."""
    pools = {pool.metadata.name: pool for pool in planned.prepared.manifests.pools}
    return [
        _node_claim_manifest(claim, pools[claim.pool], planned.prepared.built[claim.pool])
        for claim in planned.plan.claims
    ]


def _node_claim_manifest(
    claim: PlannedNodeClaim, pool: NodePool, built: NodeClassCatalog
) -> dict[str, Any]:
    """One claim, with its instance types cheapest first and cut to what a claim keeps."""
    types = _kept_instance_types(claim, built)
    return to_manifest(
        translate_planned_claim(claim, pool, types, claim_annotations(claim, built, types))
    )


def _kept_instance_types(claim: PlannedNodeClaim, built: NodeClassCatalog) -> list[str]:
    """The types that a claim keeps, cheapest first, with minValues kept where they can be."""
    left = set(claim.choices.instance_types)
    kept = (
        truncate_types(options_of_claim(claim, built.index), MAX_TYPES_PER_CLAIM)
        or built.index.types
    )
    return [kind.name for kind in kept if kind.name in left][:MAX_TYPES_PER_CLAIM]


MIN_VALUES_RELAXED_ANNOTATION: Final = "karpenter.sh/nodeclaim-min-values-relaxed"
PRICE_OVERLAY_ANNOTATION: Final = "karpenter.sh/price-overlay-applied"
CAPACITY_OVERLAY_ANNOTATION: Final = "karpenter.sh/capacity-overlay-applied"


def claim_annotations(
    claim: PlannedNodeClaim, built: NodeClassCatalog, types: Iterable[str]
) -> dict[str, str]:
    """By the instance types that are left to the claim."""
    kept = list(types)
    true = {
        MIN_VALUES_RELAXED_ANNOTATION: bool(claim.relaxed_min_values),
        PRICE_OVERLAY_ANNOTATION: any(
            map(_has_price_overlay, _allowed_offerings(claim, built, kept))
        ),
        CAPACITY_OVERLAY_ANNOTATION: any(_has_capacity_overlay(built, name) for name in kept),
    }
    return {key: "true" for key, found in true.items() if found}


def _allowed_offerings(
    claim: PlannedNodeClaim, built: NodeClassCatalog, types: Iterable[str]
) -> Iterator[LayeredOffering]:
    """The ways to buy these types that the claim allows."""
    known, wanted = built.index.keys, claim.requirements
    return (
        lot
        for name in types
        for lot in built.offerings[name]
        if lot.steps and wanted.is_compatible(lot.requirements, known)
    )


def _has_price_overlay(lot: LayeredOffering) -> bool:
    return any(step.layer is PriceLayer.OVERLAY for step in lot.steps)


def _has_capacity_overlay(built: NodeClassCatalog, name: str) -> bool:
    figures = built.resources[name].derived.capacity.values()
    return any(figure.rule is DerivationRule.OVERLAID for figure in figures)
