"""Pools as the planner sees them: what they allow, what they hold already, what they cost."""

from collections.abc import Iterable

from wainwright.api.karpenter.nodepool import NodePool
from wainwright.model.resources import add_resources, sort_resources
from wainwright.model.snapshot import NODES_LIMIT, Pool
from wainwright.translate.node_claim_pairing import NodeWithClaim
from wainwright.translate.requirements import (
    contradictory_labels,
    translate_requirements,
    translate_taints,
)
from wainwright.translate.resources import translate_capacity


def translate_pool(written: NodePool, paired_nodes: Iterable[NodeWithClaim]) -> Pool:
    """The pool with what it holds; `machines` are its own."""
    template = written.spec.template
    return Pool(
        name=written.metadata.name,
        node_class=template.spec.nodeClassRef.name,
        weight=written.spec.weight or 0,
        requirements=translate_requirements(template.spec.requirements),
        labels=dict((template.metadata.labels if template.metadata is not None else None) or {}),
        taints=translate_taints(template.spec.taints),
        startup_taints=translate_taints(template.spec.startupTaints),
        limits=translate_capacity(written.spec.limits),
        in_use=_in_use(written, list(paired_nodes)),
        unusable=_unusable_reason(written),
    )


def _in_use(written: NodePool, paired_nodes: list[NodeWithClaim]) -> dict[str, int]:
    if not paired_nodes:
        return _reported_usage(written)
    total: dict[str, int] = {}
    for paired_node in paired_nodes:
        total = add_resources(total, paired_node.capacity)
    return sort_resources(total | {NODES_LIMIT: len(paired_nodes)})


def _reported_usage(written: NodePool) -> dict[str, int]:
    """What the pool itself says, where the input shows none of its machines."""
    if written.status is None:
        return {}
    found = translate_capacity(written.status.resources)
    nodes = written.status.nodes or found.get(NODES_LIMIT, 0)
    return sort_resources(found | ({NODES_LIMIT: nodes} if nodes else {}))


def _unusable_reason(written: NodePool) -> str | None:
    clashing = contradictory_labels(written.spec.template.spec.requirements)
    if clashing:
        return f"its requirements contradict each other on {', '.join(clashing)}"
    return _not_launching_reason(written)


def _not_launching_reason(written: NodePool) -> str | None:
    """Why it may not launch anything, as a sentence about it."""
    if written.metadata.deletionTimestamp:
        return "it is being deleted"
    if written.spec.replicas is not None:
        return "it is static and keeps its replicas, whatever pods need"
    conditions = (written.status.conditions if written.status is not None else None) or ()
    for condition in conditions:
        if condition.type == "Ready" and condition.status == "False":
            why = condition.message or condition.reason
            return f"it is not ready ({why})" if why else "it is not ready"
    return None
