"""A node and the NodeClaim that it came from are one, never two: pairing, state, capacity."""

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
    """A node, a claim, or both; at least one of them is there."""

    node: Node | None = None
    claim: NodeClaim | None = None

    @cached_property
    def name(self) -> str:
        """The node's, once it has joined; until then the claim's."""
        if self.node is not None and (self.claim is None or self.is_registered):
            return self.node.metadata.name
        return self.claim.metadata.name if self.claim is not None else ""

    @property
    def node_name(self) -> str:
        """What pods say that are bound to it."""
        return self.node.metadata.name if self.node is not None else self._status.nodeName

    @cached_property
    def pool(self) -> str | None:
        stated = (_metadata_labels(each).get(NODEPOOL) for each in self._metadata)
        return next((name for name in stated if name), None) or self._claimed_pool

    @property
    def is_managed(self) -> bool:
        return self.claim is not None or self.pool is not None

    @property
    def is_registered(self) -> bool:
        """Whether the node has been given the labels and taints of its claim."""
        return bool(self._has(REGISTERED, "Registered") or self._status.nodeName)

    @cached_property
    def is_initialized(self) -> bool:
        return not self.is_managed or self._has(INITIALIZED, "Initialized")

    @property
    def is_deleting(self) -> bool:
        if any(each.deletionTimestamp for each in self._metadata):
            return True
        found = self.node.spec.taints if self.node is not None else None
        return any(each.key == DISRUPTED_TAINT.key for each in found or ())

    @property
    def is_launched(self) -> bool:
        return self.node is not None or bool(self._status.providerID)

    @cached_property
    def capacity(self) -> dict[str, int]:
        stated = self.node.status.capacity if self.node is not None else None
        return self._settled(translate_capacity(stated), translate_capacity(self._status.capacity))

    @cached_property
    def allocatable(self) -> dict[str, int]:
        status = self.node.status if self.node is not None else None
        stated = (status.allocatable or status.capacity) if status is not None else None
        return self._settled(
            translate_capacity(stated), translate_capacity(self._status.allocatable)
        )

    def _settled(self, own: dict[str, int], claimed: dict[str, int]) -> dict[str, int]:
        """What the node says, or the claim as long as the node is not to be relied on.

        A kubelet reports zero of what it has not found yet. Of a claim that has not been launched
        only its requests are known: it will hold these at least.
        """
        if self.node is None:
            return claimed or translate_capacity(_claim_requests(self.claim))
        if self.is_initialized:
            return own
        found = {name: amount for name, amount in claimed.items() if not own.get(name)}
        return sort_resources(own | found)

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

    @property
    def _claimed_pool(self) -> str | None:
        if self.claim is None:
            return None
        owners = self.claim.metadata.ownerReferences or ()
        owner = next((each.name for each in owners if each.kind == "NodePool"), None)
        return owner or translate_requirements(self.claim.spec.requirements).single_value(NODEPOOL)

    def _has(self, label: str, condition: str) -> bool:
        labelled = any(_metadata_labels(each).get(label) == LABEL_TRUE for each in self._metadata)
        return labelled or any(
            each.type == condition and each.status == "True"
            for each in self._status.conditions or ()
        )


def pair_nodes_with_claims(
    nodes: Iterable[Node], claims: Iterable[NodeClaim]
) -> list[NodeWithClaim]:
    """Each machine once, in the order of names; a claim's node is known by provider id or name."""
    standing = sorted(nodes, key=lambda node: node.metadata.name)
    by_name = {node.metadata.name: node for node in standing}
    by_provider = {node.spec.providerID: node for node in standing if node.spec.providerID}
    owners: dict[str, NodeClaim] = {}
    under_way: dict[str, NodeClaim] = {}
    for claim in sorted(claims, key=lambda claim: claim.metadata.name):
        status = claim.status or NodeClaimStatus()
        node = by_provider.get(status.providerID) or by_name.get(status.nodeName)
        if node is not None:
            owners.setdefault(node.metadata.name, claim)
        else:
            under_way.setdefault(status.providerID or claim.metadata.name, claim)
    made = [NodeWithClaim(node=node, claim=owners.get(node.metadata.name)) for node in standing]
    made += [NodeWithClaim(claim=claim) for claim in under_way.values()]
    return sorted(made, key=lambda paired_node: (paired_node.name, paired_node.node_name))


def is_duplicate_of_claim(
    paired_node: NodeWithClaim, pools_under_way: AbstractSet[str | None]
) -> bool:
    """Whether a node that just joined is probably counted already, as a claim under way.

    Before it has a provider id and an instance type nobody can tell which claim made it.
    """
    node = paired_node.node
    if node is None or paired_node.claim is not None or paired_node.is_initialized:
        return False
    anonymous = not node.spec.providerID or not _metadata_labels(node.metadata).get(INSTANCE_TYPE)
    return anonymous and paired_node.pool in pools_under_way


def _metadata_labels(metadata: ObjectMeta) -> dict[str, str]:
    return metadata.labels or {}


def _claim_requests(claim: NodeClaim | None) -> dict[str, int | str] | None:
    resources = claim.spec.resources if claim is not None else None
    return resources.requests if resources is not None else None
