"""Deleting NodeClaims for a reason: gracefully, or without waiting for their pods."""

from contextlib import suppress
from typing import Final

from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.kubernetes.workloads import Pod
from wainwright.clock import format_timestamp
from wainwright.controllers.context import ControllerContext
from wainwright.errors import ObjectNotFoundError
from wainwright.metrics import NODECLAIMS_DISRUPTED, PODS_DISRUPTION_INITIATED
from wainwright.model.labels import CAPACITY_TYPE, NODEPOOL
from wainwright.translate.object_metadata import has_owner_kind, parse_timestamp
from wainwright.translate.pods import is_terminal

TERMINATION_TIMESTAMP_ANNOTATION: Final = "karpenter.sh/nodeclaim-termination-timestamp"
"""By when the pods of a claim that is being deleted must be gone."""


def drain_deadline(claim: NodeClaim) -> float | None:
    """Seconds since 1970; None where its drain may take as long as it likes."""
    annotations = claim.metadata.annotations or {}
    return parse_timestamp(annotations.get(TERMINATION_TIMESTAMP_ANNOTATION))


async def delete_claim(context: ControllerContext, claim: NodeClaim, reason: str) -> None:
    """Its node is drained first; budgets of NodePools are not asked.

    It is read once more, so that the next look at it, which may come before the watch shows the
    deletion, does not take it for alive and count it twice.
    """
    if claim.metadata.deletionTimestamp:
        return
    pods = _reschedulable_pods(context, claim)
    context.reports.claim_disrupted(claim.metadata.name, reason)
    await context.cache.delete(claim)
    with suppress(ObjectNotFoundError):
        await context.cache.read(claim)
    labels = claim.metadata.labels or {}
    pool = labels.get(NODEPOOL, "")
    context.metrics.add(
        NODECLAIMS_DISRUPTED,
        reason=reason,
        nodepool=pool,
        capacity_type=labels.get(CAPACITY_TYPE, ""),
    )
    if pods:
        context.metrics.add(PODS_DISRUPTION_INITIATED, pods, nodepool=pool, reason=reason)


async def delete_claim_forcefully(
    context: ControllerContext, claim: NodeClaim, reason: str
) -> None:
    """Its pods are deleted at once, also if it is being drained already."""
    now, deadline = context.clock.now(), drain_deadline(claim)
    if deadline is None or deadline > now:
        passed = {TERMINATION_TIMESTAMP_ANNOTATION: format_timestamp(now)}
        claim = await context.cache.patch(claim, {"metadata": {"annotations": passed}})
    await delete_claim(context, claim, reason)


def _reschedulable_pods(context: ControllerContext, claim: NodeClaim) -> int:
    state = context.state
    return sum(
        is_reschedulable(pod)
        for node in state.nodes_of_claim(claim)
        for pod in state.pods_by_node.get(node.metadata.name)
    )


def is_reschedulable(pod: Pod) -> bool:
    """Whether the pod needs another node when its own goes."""
    owners = (has_owner_kind(pod.metadata, kind) for kind in ("DaemonSet", "Node"))
    return not (is_terminal(pod) or pod.metadata.deletionTimestamp or any(owners))
