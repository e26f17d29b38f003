"""Pairs each Node with its NodeClaim, so that the two count once: state, capacity, labels."""

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from functools import cached_property
from typing import Final

import msgspec

from wainwright.api.karpenter.nodeclaim import NodeClaim, NodeClaimStatus
from wainwright.api.kubernetes.cluster import Node
from wainwright.api.wire import ObjectMeta
from wainwright.model.labels import INITIALIZED, INSTANCE_TYPE, NODEPOOL, REGISTERED
from wainwright.model.resources import sort_resources
from wainwright.model.taints import DISRUPTED_TAINT
from wainwright.translate.requirements import translate_requirements
from wainwright.translate.resources import translate_capacity

LABEL_TRUE: Final = "true"


class NodeWithClaim(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A Node, its NodeClaim, or both; at least one of them is set."""

    node: Node | None = None
    claim: NodeClaim | None = None

    @cached_property
    def name(self) -> str:
        """The Node's name once it is registered; until then the NodeClaim's."""
        if self.node is not None and (self.claim is None or self.is_registered):
            return self.node.metadata.name
        return self.claim.metadata.name if self.claim is not None else ""

    @property
    def node_name(self) -> str:
        """The name in spec.nodeName of the pods bound to it."""
        return self.node.metadata.name if self.node is not None else self._status.nodeName

    @property
    def metadata(self) -> ObjectMeta:
        """Of the Node; of the NodeClaim as long as there is no Node."""
        return next(self._metadata)

    @property
    def provider_id(self) -> str:
        stated = self.node.spec.providerID if self.node is not None else ""
        return stated or self._status.providerID

    @cached_property
    def pool(self) -> str | None:
        stated = (_metadata_labels(each).get(NODEPOOL) for each in self._metadata)
        named = next((name for name in stated if name), None)
        return named or (pool_of_claim(self.claim) if self.claim is not None else None)

    @property
    def is_managed(self) -> bool:
        return self.claim is not None or self.pool is not None

    @property
    def is_registered(self) -> bool:
        """Whether the labels and taints of the claim have been copied to the node."""
        return bool(self._has_state(REGISTERED, "Registered") or self._status.nodeName)

    @cached_property
    def is_initialized(self) -> bool:
        return not self.is_managed or self._has_state(INITIALIZED, "Initialized")

    @property
    def is_deleting(self) -> bool:
        if any(each.deletionTimestamp for each in self._metadata):
            return True
        taints = self.node.spec.taints if self.node is not None else None
        return any(each.key == DISRUPTED_TAINT.key for each in taints or ())

    @property
    def is_launched(self) -> bool:
        return self.node is not None or bool(self._status.providerID)

    @cached_property
    def capacity(self) -> dict[str, int]:
        stated = self.node.status.capacity if self.node is not None else None
        return self._merge_resources(
            translate_capacity(stated), translate_capacity(self._status.capacity)
        )

    @cached_property
    def allocatable(self) -> dict[str, int]:
        status = self.node.status if self.node is not None else None
        stated = (status.allocatable or status.capacity) if status is not None else None
        return self._merge_resources(
            translate_capacity(stated), translate_capacity(self._status.allocatable)
        )

    def _merge_resources(
        self, node_resources: dict[str, int], claim_resources: dict[str, int]
    ) -> dict[str, int]:
        """The node's amounts, completed from the claim until the node is initialized.

        A kubelet reports zero for resources that it has not detected yet. For a claim without an
        instance only its requests are known, which the instance will hold at least.
        """
        if self.node is None:
            return claim_resources or translate_capacity(_claim_requests(self.claim))
        if self.is_initialized:
            return node_resources
        unreported = {
            name: amount for name, amount in claim_resources.items() if not node_resources.get(name)
        }
        return sort_resources(node_resources | unreported)

    @property
    def _status(self) -> NodeClaimStatus:
        status = self.claim.status if self.claim is not None else None
        return status or NodeClaimStatus()

    @property
    def _metadata(self) -> Iterator[ObjectMeta]:
        if self.node is not None:
            yield self.node.metadata
        if self.claim is not None:
            yield self.claim.metadata

    def _has_state(self, label: str, condition: str) -> bool:
        labelled = any(_metadata_labels(each).get(label) == LABEL_TRUE for each in self._metadata)
        return labelled or any(
            each.type == condition and each.status == "True"
            for each in self._status.conditions or ()
        )


def pool_of_claim(claim: NodeClaim) -> str | None:
    """By label, owner or requirement, the first that names a NodePool."""
    owners = claim.metadata.ownerReferences or ()
    owner = next((each.name for each in owners if each.kind == "NodePool"), None)
    named = _metadata_labels(claim.metadata).get(NODEPOOL) or owner
    return named or translate_requirements(claim.spec.requirements).single_value(NODEPOOL)


def pair_nodes_with_claims(
    nodes: Iterable[Node], claims: Iterable[NodeClaim]
) -> list[NodeWithClaim]:
    """Each node once, sorted by name; a claim's node is found by provider ID or node name."""
    sorted_nodes = sorted(nodes, key=lambda node: node.metadata.name)
    by_name = {node.metadata.name: node for node in sorted_nodes}
    by_provider = {node.spec.providerID: node for node in sorted_nodes if node.spec.providerID}
    owners: dict[str, NodeClaim] = {}
    launching: dict[str, NodeClaim] = {}
    for claim in sorted(claims, key=lambda claim: claim.metadata.name):
        status = claim.status or NodeClaimStatus()
        node = by_provider.get(status.providerID) or by_name.get(status.nodeName)
        if node is not None:
            owners.setdefault(node.metadata.name, claim)
        else:
            launching.setdefault(status.providerID or claim.metadata.name, claim)
    paired = [
        NodeWithClaim(node=node, claim=owners.get(node.metadata.name)) for node in sorted_nodes
    ]
    paired += [NodeWithClaim(claim=claim) for claim in launching.values()]
    return sorted(paired, key=lambda paired_node: (paired_node.name, paired_node.node_name))


def is_duplicate_of_claim(
    paired_node: NodeWithClaim, launching_pools: AbstractSet[str | None]
) -> bool:
    """Whether a node that just joined is probably counted already, as a launching claim.

    Before it has a provider ID and an instance type it cannot be matched with its claim.
    """
    node = paired_node.node
    if node is None or paired_node.claim is not None or paired_node.is_initialized:
        return False
    is_unidentified = not node.spec.providerID or not _metadata_labels(node.metadata).get(
        INSTANCE_TYPE
    )
    return is_unidentified and paired_node.pool in launching_pools


def _metadata_labels(metadata: ObjectMeta) -> dict[str, str]:
    return metadata.labels or {}


def _claim_requests(claim: NodeClaim | None) -> dict[str, int | str] | None:
    resources = claim.spec.resources if claim is not None else None
    return resources.requests if resources is not None else None
