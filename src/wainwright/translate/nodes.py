"""Nodes as the planner sees them: those that stand, and claims that no node has joined yet."""

from collections.abc import Iterable, Mapping
from typing import Final

from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.karpenter.nodepool import NodePool
from wainwright.api.kubernetes.cluster import NodeSpec
from wainwright.model.labels import (
    EC2NODECLASS,
    HOSTNAME,
    NODE_STATE_LABELS,
    NODEPOOL,
    RESERVATION_ID,
    normalize_label,
)
from wainwright.model.pod import Pod
from wainwright.model.snapshot import Node
from wainwright.model.taints import Taint
from wainwright.translate.node_claim_pairing import LABEL_TRUE, NodeWithClaim
from wainwright.translate.requirements import (
    UNSCHEDULABLE_TAINT,
    translate_requirements,
    translate_taints,
)

NO_ATTACH_LIMITS: Final[Mapping[str, int]] = {}


def translate_node(
    paired_node: NodeWithClaim,
    pool: NodePool | None,
    pods: Iterable[Pod],
    attach_limits: Mapping[str, int] = NO_ATTACH_LIMITS,
) -> Node:
    """The machine with the pods that stay on it; `pool` is its NodePool, if the input has it."""
    labels = _node_labels(paired_node, pool)
    return Node(
        name=paired_node.name,
        labels=labels,
        taints=_node_taints(paired_node),
        startup_taints=_node_startup_taints(paired_node, pool),
        allocatable=paired_node.allocatable,
        pods=tuple(pods),
        managed=paired_node.is_managed,
        initialized=paired_node.is_initialized,
        deleting=paired_node.is_deleting,
        pool=paired_node.pool,
        launched=paired_node.is_launched,
        reservation_id=labels.get(RESERVATION_ID),
        attach_limits=dict(attach_limits),
    )


def node_hostnames(paired_nodes: Iterable[NodeWithClaim]) -> dict[str, str]:
    """The hostname of each node by its name; the kubelet sets it, to the name unless told so."""
    standing = [paired_node.node for paired_node in paired_nodes if paired_node.node is not None]
    return {
        each.metadata.name: (each.metadata.labels or {}).get(HOSTNAME, each.metadata.name)
        for each in standing
    }


def _node_labels(paired_node: NodeWithClaim, pool: NodePool | None) -> dict[str, str]:
    """The node's own; as long as they are not all there, those of the claim beside them."""
    found: dict[str, str] = {}
    if paired_node.claim is not None and (
        paired_node.node is None or not paired_node.is_registered
    ):
        found = _labels_from_claim(paired_node.claim, pool)
        if paired_node.pool is not None:
            found[NODEPOOL] = paired_node.pool
    if not paired_node.is_initialized:
        # It ends up with these, and until then counts as if it had them, like a node to be made.
        found |= dict.fromkeys(NODE_STATE_LABELS, LABEL_TRUE)
    if paired_node.node is not None:
        own = _normalise_labels(paired_node.node.metadata.labels or {})
        found = found | {HOSTNAME: paired_node.node.metadata.name} | own
    return dict(sorted(found.items()))


def _labels_from_claim(claim: NodeClaim, pool: NodePool | None) -> dict[str, str]:
    """What the node will be labelled with, as far as that is decided."""
    template = pool.spec.template.metadata if pool is not None else None
    promised = _normalise_labels((template.labels if template is not None else None) or {})
    wanted = translate_requirements(claim.spec.requirements)
    decided = {key: value for key in wanted if (value := wanted.single_value(key)) is not None}
    reference = {EC2NODECLASS: claim.spec.nodeClassRef.name}
    return promised | reference | decided | _normalise_labels(claim.metadata.labels or {})


def _normalise_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Labels under their stable names, which count where both are there."""
    renamed = {normalize_label(key): value for key, value in labels.items()}
    return renamed | {key: value for key, value in labels.items() if normalize_label(key) == key}


def _node_taints(paired_node: NodeWithClaim) -> tuple[Taint, ...]:
    """The node's own; until it is registered, those that its claim will give it."""
    own = paired_node.node.spec if paired_node.node is not None else NodeSpec()
    if paired_node.claim is not None and (
        paired_node.node is None or not paired_node.is_registered
    ):
        found = translate_taints(paired_node.claim.spec.taints)
    else:
        found = translate_taints(own.taints)
    return (
        (*found, UNSCHEDULABLE_TAINT)
        if own.unschedulable and UNSCHEDULABLE_TAINT not in found
        else found
    )


def _node_startup_taints(paired_node: NodeWithClaim, pool: NodePool | None) -> tuple[Taint, ...]:
    if paired_node.claim is not None:
        return translate_taints(paired_node.claim.spec.startupTaints)
    return translate_taints(pool.spec.template.spec.startupTaints if pool is not None else None)
