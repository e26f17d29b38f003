"""Deleting NodeClaims for a reason: gracefully, or without waiting for their pods."""

from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.controllers.conditions import format_timestamp
from wainwright.controllers.context import ControllerContext
from wainwright.controllers.nodeclaim_lifecycle import TERMINATION_TIMESTAMP_ANNOTATION
from wainwright.metrics import NODECLAIMS_DISRUPTED
from wainwright.model.labels import CAPACITY_TYPE, NODEPOOL
from wainwright.translate.object_metadata import parse_timestamp


async def delete_claim(context: ControllerContext, claim: NodeClaim, reason: str) -> None:
    """Its node is drained first; budgets of NodePools are not asked."""
    if claim.metadata.deletionTimestamp:
        return
    await context.cache.delete(claim)
    labels = claim.metadata.labels or {}
    context.metrics.add(
        NODECLAIMS_DISRUPTED,
        reason=reason,
        nodepool=labels.get(NODEPOOL, ""),
        capacity_type=labels.get(CAPACITY_TYPE, ""),
    )


async def delete_claim_forcefully(
    context: ControllerContext, claim: NodeClaim, reason: str
) -> None:
    """Its pods are deleted at once, also if it is being drained already."""
    now = context.clock.now()
    annotations = claim.metadata.annotations or {}
    deadline = parse_timestamp(annotations.get(TERMINATION_TIMESTAMP_ANNOTATION))
    if deadline is None or deadline > now:
        passed = {TERMINATION_TIMESTAMP_ANNOTATION: format_timestamp(now)}
        claim = await context.cache.patch(claim, {"metadata": {"annotations": passed}})
    await delete_claim(context, claim, reason)
