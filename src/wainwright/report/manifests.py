"""The plan as NodeClaim manifests: what the controller would write down before it launches."""

from typing import Any, Final

from wainwright.api.nodeclaim import NodeClaim, NodeClaimSpec, Resources
from wainwright.api.nodepool import NodePool
from wainwright.api.scheduling import ClaimRequirement
from wainwright.api.wire import Metadata, plain
from wainwright.catalogue.built import Built
from wainwright.core.launch import left_to
from wainwright.core.shortlist import CLAIMED, cut
from wainwright.model.labels import (
    CAPACITY_TYPE,
    INITIALIZED,
    INSTANCE_TYPE,
    NODEPOOL,
    REGISTERED,
    RESERVATION_ID,
    ZONE,
)
from wainwright.model.plan import PlannedClaim
from wainwright.offline import Planned
from wainwright.report.annotations import annotations
from wainwright.report.document import amounts

OURS: Final = (REGISTERED, INITIALIZED)  # every node gets these; no claim may ask for them


def node_claims(planned: Planned) -> list[dict[str, Any]]:
    """Every claim of the plan, in the order of creation."""
    pools = {pool.metadata.name: pool for pool in planned.prepared.world.pools}
    return [
        node_claim(claim, pools[claim.pool], planned.prepared.built[claim.pool])
        for claim in planned.plan.claims
    ]


def _cheapest(claim: PlannedClaim, built: Built) -> list[str]:
    """The types that a claim keeps, cheapest first, with minValues kept where they can be."""
    left = set(claim.choices.instance_types)
    kept = cut(left_to(claim, built.index), CLAIMED) or built.index.types
    return [kind.name for kind in kept if kind.name in left][:CLAIMED]


def node_claim(claim: PlannedClaim, pool: NodePool, built: Built) -> dict[str, Any]:
    """One claim, with its instance types cheapest first and cut to what a claim keeps."""
    template = pool.spec.template.spec
    cheapest = _cheapest(claim, built)
    made = NodeClaim(
        metadata=Metadata(
            name=claim.name,
            labels={**(_labels(pool)), NODEPOOL: claim.pool},
            annotations=_annotations(pool) | annotations(claim, built, cheapest) or None,
        ),
        spec=NodeClaimSpec(
            nodeClassRef=template.nodeClassRef,
            requirements=_requirements(claim, cheapest),
            resources=Resources(requests=dict(amounts(claim.requests))),
            taints=template.taints,
            startupTaints=template.startupTaints,
            expireAfter=template.expireAfter,
            terminationGracePeriod=template.terminationGracePeriod,
        ),
    )
    return plain(made)


def _labels(pool: NodePool) -> dict[str, str]:
    metadata = pool.spec.template.metadata
    return dict(metadata.labels or {}) if metadata is not None else {}


def _annotations(pool: NodePool) -> dict[str, str]:
    metadata = pool.spec.template.metadata
    return dict(metadata.annotations or {}) if metadata is not None else {}


def _requirements(claim: PlannedClaim, types: list[str]) -> list[ClaimRequirement]:
    decided = {
        INSTANCE_TYPE: tuple(types),
        ZONE: claim.choices.zones,
        CAPACITY_TYPE: claim.choices.capacity_types,
        RESERVATION_ID: claim.choices.reservation_ids,
    }
    rest = [
        ClaimRequirement(key=key, operator=operator, values=list(values) or None, minValues=least)
        for key, operator, values, least in claim.requirements.entries()
        if key not in decided and key not in OURS
    ]
    least = {
        key: claim.requirements[key].min_values for key in decided if key in claim.requirements
    }
    ours = [
        ClaimRequirement(key=key, operator="In", values=list(values), minValues=least.get(key))
        for key, values in decided.items()
        if values
    ]
    return sorted([*rest, *ours], key=lambda one: (one.key, one.operator))
