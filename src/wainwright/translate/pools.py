"""NodePools in the planner's model: requirements, limits, resources in use."""

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Final

import msgspec

from wainwright.api.karpenter.nodepool import NodePool
from wainwright.model.labels import AUTO_MODE_DOMAIN
from wainwright.model.resources import sort_resources
from wainwright.model.snapshot import NODES_LIMIT, STATIC_POOL, Pool
from wainwright.translate.disruption import translate_pool_disruption
from wainwright.translate.node_claim_pairing import NodeWithClaim
from wainwright.translate.requirements import (
    contradictory_labels,
    translate_requirements,
    translate_taints,
)
from wainwright.translate.resources import translate_capacity


def translate_pool(node_pool: NodePool, paired_nodes: Iterable[NodeWithClaim] = ()) -> Pool:
    """The pool with its resources in use; `paired_nodes` are the nodes of this pool."""
    template = node_pool.spec.template
    return Pool(
        name=node_pool.metadata.name,
        node_class=template.spec.nodeClassRef.name,
        auto_mode=template.spec.nodeClassRef.group == AUTO_MODE_DOMAIN,
        weight=node_pool.spec.weight or 0,
        requirements=translate_requirements(template.spec.requirements),
        labels=dict((template.metadata.labels if template.metadata is not None else None) or {}),
        taints=translate_taints(template.spec.taints),
        startup_taints=translate_taints(template.spec.startupTaints),
        limits=translate_capacity(node_pool.spec.limits),
        in_use=resources_in_use(node_pool, list(paired_nodes)),
        unusable=_unusable_reason(node_pool),
        disruption=translate_pool_disruption(node_pool),
        annotations=node_pool.metadata.annotations or {},
        hash=pool_hash(node_pool),
        replicas=node_pool.spec.replicas,
    )


def pool_hash(node_pool: NodePool) -> str:
    """Sixteen digits that differ where nodes of the pool would be launched with other settings.

    Requirements are not part of it: they are compared with the labels of each node, so that a
    pool that allows more than before replaces nothing. Limits, weight, disruption and replicas
    change no node.
    """
    template = msgspec.to_builtins(node_pool.spec.template)
    static = {key: value for key, value in template["spec"].items() if key != "requirements"}
    metadata = {key: value for key, value in (template.get("metadata") or {}).items() if value}
    written = {key: value for key, value in static.items() if value not in (None, [])}
    text = msgspec.json.encode([written, metadata], order="sorted")
    return sha256(text).hexdigest()[:16]


def resources_in_use(node_pool: NodePool, paired_nodes: Sequence[NodeWithClaim]) -> dict[str, int]:
    """The total capacity of the pool's nodes; what its status reports where there are none."""
    if not paired_nodes:
        return _reported_usage(node_pool)
    total = {NODES_LIMIT: len(paired_nodes)}
    # In one dict: add_resources makes a new one for every node, which takes three times as long.
    for paired_node in paired_nodes:
        for name, amount in paired_node.capacity.items():
            total[name] = total.get(name, 0) + amount
    return sort_resources(total)


def _reported_usage(node_pool: NodePool) -> dict[str, int]:
    """The pool's status.resources, used where the input has none of its nodes."""
    if node_pool.status is None:
        return {}
    reported = translate_capacity(node_pool.status.resources)
    nodes = node_pool.status.nodes or reported.get(NODES_LIMIT, 0)
    return sort_resources(reported | ({NODES_LIMIT: nodes} if nodes else {}))


MAX_LABEL_VALUE: Final = 63  # characters that a label value may have


def _unusable_reason(node_pool: NodePool) -> str | None:
    name = node_pool.metadata.name
    if len(name) > MAX_LABEL_VALUE:  # an API server rejects a NodeClaim with such a label
        return f"its name has {len(name)} characters, and a label value at most {MAX_LABEL_VALUE}"
    contradictory = contradictory_labels(node_pool.spec.template.spec.requirements)
    if contradictory:
        return f"its requirements contradict each other on {', '.join(contradictory)}"
    return _not_launching_reason(node_pool)


def _not_launching_reason(node_pool: NodePool) -> str | None:
    """Why the pool launches no nodes, as a sentence; None where it does."""
    if node_pool.metadata.deletionTimestamp:
        return "it is being deleted"
    conditions = (node_pool.status.conditions if node_pool.status is not None else None) or ()
    for condition in conditions:
        if condition.type == "Ready" and condition.status == "False":
            why = condition.message or condition.reason
            return f"it is not ready ({why})" if why else "it is not ready"
    return None if node_pool.spec.replicas is None else STATIC_POOL
