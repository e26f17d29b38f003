"""Discovered capacity: the memory that a node really has replaces the estimate for its type."""

from typing import Final

from wainwright.api.karpenter.nodeclaim import NodeClaim, NodeClaimStatus
from wainwright.api.kubernetes.cluster import Node
from wainwright.controllers.context import ControllerContext
from wainwright.controllers.informer_cache import Change
from wainwright.controllers.live_state import is_ours
from wainwright.controllers.runtime import DONE, Key, Result, WorkQueue
from wainwright.model.labels import CAPACITY_TYPE, INITIALIZED, INSTANCE_TYPE, ZONE, ZONE_ID
from wainwright.model.node_claim import Instance
from wainwright.model.resources import MEMORY
from wainwright.translate.object_metadata import parse_timestamp
from wainwright.translate.resources import translate_capacity

UNKNOWN_TIME: Final = 0.0


class CapacityDiscovery:
    """Records the memory of each node once it is initialized, and after a restart of all nodes."""

    name = "providers.instancetype.capacity"

    def __init__(self, context: ControllerContext) -> None:
        self._cache, self._state, self._cloud = context.cache, context.state, context.cloud

    def watch(self, queue: WorkQueue) -> None:
        def changed_node(change: Change[Node]) -> None:
            if _is_initialized(change.after) and not _is_initialized(change.before):
                queue.add(change.name)

        self._cache.subscribe(Node, changed_node)

    async def reconcile(self, key: Key) -> Result:
        node = self._cache.get(Node, key)
        claims = [] if node is None else self._state.claims_of_node(node)
        if node is None or len(claims) != 1 or not is_ours(claims[0].spec.nodeClassRef):
            return DONE
        memory = translate_capacity(node.status.capacity).get(MEMORY, 0)
        instance = _instance(claims[0])
        if memory and instance.instance_type and instance.image_id:
            self._cloud.record_discovered_capacity(instance, memory)
        return DONE


def _is_initialized(node: Node | None) -> bool:
    return node is not None and (node.metadata.labels or {}).get(INITIALIZED) == "true"


def _instance(claim: NodeClaim) -> Instance:
    """As the claim describes it: asking EC2 for every node would cost a call each."""
    labels, status = claim.metadata.labels or {}, claim.status or NodeClaimStatus()
    return Instance(
        id=status.providerID.rpartition("/")[2],
        provider_id=status.providerID,
        instance_type=labels.get(INSTANCE_TYPE, ""),
        zone=labels.get(ZONE, ""),
        zone_id=labels.get(ZONE_ID, ""),
        capacity_type=labels.get(CAPACITY_TYPE, ""),
        image_id=status.imageID,
        launched=parse_timestamp(claim.metadata.creationTimestamp) or UNKNOWN_TIME,
    )
