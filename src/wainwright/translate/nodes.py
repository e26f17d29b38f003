"""Nodes in the planner's model: existing ones, and claims whose node has not joined yet."""

from collections.abc import Iterable, Mapping
from typing import Final

from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.karpenter.nodepool import NodePool
from wainwright.api.kubernetes.cluster import Node as WireNode
from wainwright.api.kubernetes.cluster import NodeSpec
from wainwright.model.labels import (
    AUTO_MODE_DOMAIN,
    HOSTNAME,
    NODE_STATE_LABELS,
    NODEPOOL,
    RESERVATION_ID,
    node_class_labels,
    normalize_label,
)
from wainwright.model.pod import Pod
from wainwright.model.snapshot import Node
from wainwright.model.taints import REBOOTING_TAINT_KEY, Taint
from wainwright.translate.disruption import translate_claim_state, translate_conditions
from wainwright.translate.node_claim_pairing import LABEL_TRUE, NodeWithClaim
from wainwright.translate.object_metadata import parse_timestamp
from wainwright.translate.requirements import (
    UNSCHEDULABLE_TAINT,
    translate_requirements,
    translate_taints,
)

NO_ATTACH_LIMITS: Final[Mapping[str, int]] = {}


def translate_node(
    paired_node: NodeWithClaim,
    pool: NodePool | None,
    pods: Iterable[Pod] = (),
    attach_limits: Mapping[str, int] = NO_ATTACH_LIMITS,
) -> Node:
    """The node with the pods that are bound to it; `pool` is its NodePool, if the input has it."""
    labels = _node_labels(paired_node, pool)
    node, claim = paired_node.node, paired_node.claim
    metadata = paired_node.metadata
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
        joined=node is not None,
        reservation_id=labels.get(RESERVATION_ID),
        attach_limits=dict(attach_limits),
        capacity=paired_node.capacity,
        claim=None if claim is None else translate_claim_state(claim),
        provider_id=paired_node.provider_id,
        created=parse_timestamp(metadata.creationTimestamp),
        annotations=metadata.annotations or {},
        conditions={} if node is None else translate_conditions(node.status.conditions),
    )


def differing_hostnames(nodes: Iterable[WireNode]) -> dict[str, str]:
    """The hostname label by node name, where the two differ.

    The kubelet sets the label, by default to the node's name, so that this is mostly empty and
    does not change when nodes come and go: translated pods depend on it.
    """
    labels = ((node.metadata.name, (node.metadata.labels or {}).get(HOSTNAME)) for node in nodes)
    return {name: hostname for name, hostname in labels if hostname and hostname != name}


def _node_labels(paired_node: NodeWithClaim, pool: NodePool | None) -> dict[str, str]:
    """The node's labels; until it is registered, completed from its claim."""
    labels: dict[str, str] = {}
    if paired_node.claim is not None and (
        paired_node.node is None or not paired_node.is_registered
    ):
        labels = _labels_from_claim(paired_node.claim, pool)
        if paired_node.pool is not None:
            labels[NODEPOOL] = paired_node.pool
    if not paired_node.is_initialized:
        # It will get these labels and counts as if it had them, like a new node.
        labels |= dict.fromkeys(NODE_STATE_LABELS, LABEL_TRUE)
    if paired_node.node is not None:
        node_labels = _normalise_labels(paired_node.node.metadata.labels or {})
        labels = labels | {HOSTNAME: paired_node.node.metadata.name} | node_labels
    return dict(sorted(labels.items()))


def _labels_from_claim(claim: NodeClaim, pool: NodePool | None) -> dict[str, str]:
    """The labels that the node will get, as far as they are decided."""
    template = pool.spec.template.metadata if pool is not None else None
    template_labels = _normalise_labels((template.labels if template is not None else None) or {})
    requirements = translate_requirements(claim.spec.requirements)
    single_values = {
        key: value for key in requirements if (value := requirements.single_value(key)) is not None
    }
    reference = claim.spec.nodeClassRef
    class_label = node_class_labels(reference.name, auto_mode=reference.group == AUTO_MODE_DOMAIN)
    return (
        template_labels
        | class_label
        | single_values
        | _normalise_labels(claim.metadata.labels or {})
    )


def _normalise_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Labels under their stable names; where both spellings are set the stable one wins."""
    normalised = {normalize_label(key): value for key, value in labels.items()}
    return normalised | {key: value for key, value in labels.items() if normalize_label(key) == key}


def _node_taints(paired_node: NodeWithClaim) -> tuple[Taint, ...]:
    """The node's taints; until it is registered, those of its claim."""
    node_spec = paired_node.node.spec if paired_node.node is not None else NodeSpec()
    if paired_node.claim is not None and (
        paired_node.node is None or not paired_node.is_registered
    ):
        taints = translate_taints(paired_node.claim.spec.taints)
    else:
        taints = translate_taints(node_spec.taints)
        # The room of a node that is rebooted comes back.
        taints = tuple(each for each in taints if each.key != REBOOTING_TAINT_KEY)
    return (
        (*taints, UNSCHEDULABLE_TAINT)
        if node_spec.unschedulable and UNSCHEDULABLE_TAINT not in taints
        else taints
    )


def _node_startup_taints(paired_node: NodeWithClaim, pool: NodePool | None) -> tuple[Taint, ...]:
    if paired_node.claim is not None:
        return translate_taints(paired_node.claim.spec.startupTaints)
    return translate_taints(pool.spec.template.spec.startupTaints if pool is not None else None)
