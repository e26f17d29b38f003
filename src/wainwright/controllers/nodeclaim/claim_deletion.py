"""Deleting NodeClaims for a reason: gracefully, or without waiting for their pods."""

from contextlib import suppress
from enum import StrEnum
from typing import Final

from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.karpenter.nodepool import NodePool
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


class TerminationMode(StrEnum):
    """How a node is drained, as the metric has it."""

    GRACEFUL = "graceful"
    FORCEFUL = "forceful"
    """Its pods are gone by a deadline that whoever deleted it has set."""


async def delete_claim(
    context: ControllerContext,
    claim: NodeClaim,
    reason: str,
    mode: TerminationMode = TerminationMode.GRACEFUL,
) -> None:
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
    count_disrupted(context, claim, reason, mode)
    if pods:
        pool = (claim.metadata.labels or {}).get(NODEPOOL, "")
        context.metrics.add(PODS_DISRUPTION_INITIATED, pods, nodepool=pool, reason=reason)


def count_disrupted(
    context: ControllerContext, claim: NodeClaim, reason: str, mode: TerminationMode
) -> None:
    labels = claim.metadata.labels or {}
    pool = context.cache.get(NodePool, labels.get(NODEPOOL, ""))
    context.metrics.add(
        NODECLAIMS_DISRUPTED,
        reason=reason,
        nodepool=labels.get(NODEPOOL, ""),
        capacity_type=labels.get(CAPACITY_TYPE, ""),
        consolidation_policy="" if pool is None else pool.spec.disruption.consolidationPolicy,
        termination_mode=mode,
    )


async def delete_claim_forcefully(
    context: ControllerContext, claim: NodeClaim, reason: str
) -> None:
    """Its pods are deleted at once, also if it is being drained already."""
    now, deadline = context.clock.now(), drain_deadline(claim)
    if deadline is None or deadline > now:
        passed = {TERMINATION_TIMESTAMP_ANNOTATION: format_timestamp(now)}
        claim = await context.cache.patch(claim, {"metadata": {"annotations": passed}})
    await delete_claim(context, claim, reason, TerminationMode.FORCEFUL)


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
