"""Claims of a plan as NodeClaim manifests: instance types cheapest first, and Karpenter's
annotations for relaxed minValues and applied overlays.
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
    """Every claim of the plan, in order of creation."""
    pools = {pool.metadata.name: pool for pool in planned.prepared.manifests.pools}
    return [
        _node_claim_manifest(claim, pools[claim.pool], planned.prepared.catalogs[claim.pool])
        for claim in planned.plan.claims
    ]


def _node_claim_manifest(
    claim: PlannedNodeClaim, pool: NodePool, catalog: NodeClassCatalog
) -> dict[str, Any]:
    """One claim, with its instance types cheapest first, truncated to the maximum of a claim."""
    types = _kept_instance_types(claim, catalog)
    return to_manifest(
        translate_planned_claim(claim, pool, types, claim_annotations(claim, catalog, types))
    )


def _kept_instance_types(claim: PlannedNodeClaim, catalog: NodeClassCatalog) -> list[str]:
    """The claim's instance types, cheapest first, truncated so that minValues hold if possible."""
    remaining_names = set(claim.choices.instance_types)
    kept = (
        truncate_types(options_of_claim(claim, catalog.index), MAX_TYPES_PER_CLAIM)
        or catalog.index.types
    )
    return [instance_type.name for instance_type in kept if instance_type.name in remaining_names][
        :MAX_TYPES_PER_CLAIM
    ]


MIN_VALUES_RELAXED_ANNOTATION: Final = "karpenter.sh/nodeclaim-min-values-relaxed"
PRICE_OVERLAY_ANNOTATION: Final = "karpenter.sh/price-overlay-applied"
CAPACITY_OVERLAY_ANNOTATION: Final = "karpenter.sh/capacity-overlay-applied"


def claim_annotations(
    claim: PlannedNodeClaim, catalog: NodeClassCatalog, types: Iterable[str]
) -> dict[str, str]:
    """The annotations that hold for a claim with these instance types."""
    kept = list(types)
    conditions = {
        MIN_VALUES_RELAXED_ANNOTATION: bool(claim.relaxed_min_values),
        PRICE_OVERLAY_ANNOTATION: any(
            map(_has_price_overlay, _allowed_offerings(claim, catalog, kept))
        ),
        CAPACITY_OVERLAY_ANNOTATION: any(_has_capacity_overlay(catalog, name) for name in kept),
    }
    return {key: "true" for key, holds in conditions.items() if holds}


def _allowed_offerings(
    claim: PlannedNodeClaim, catalog: NodeClassCatalog, types: Iterable[str]
) -> Iterator[LayeredOffering]:
    """The offerings of these types that the claim's requirements allow."""
    well_known, requirements = catalog.index.keys, claim.requirements
    return (
        offering
        for name in types
        for offering in catalog.offerings[name]
        if offering.steps and requirements.is_compatible(offering.requirements, well_known)
    )


def _has_price_overlay(offering: LayeredOffering) -> bool:
    return any(step.layer is PriceLayer.OVERLAY for step in offering.steps)


def _has_capacity_overlay(catalog: NodeClassCatalog, name: str) -> bool:
    amounts = catalog.resources[name].derived.capacity.values()
    return any(amount.rule is DerivationRule.OVERLAID for amount in amounts)
