"""Capacity reservations after the launch: labels of nodes that have left theirs, and the end of
capacity blocks.

EC2 keeps an instance running when its reservation ends, and bills it as on-demand: only its labels
change, and nothing drifts by that alone. The instances of a capacity block are terminated with it,
so that their nodes are drained before.
"""

import logging
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

from wainwright.api.karpenter.nodeclaim import NodeClaim, NodeClaimStatus
from wainwright.api.kubernetes.cluster import Node
from wainwright.api.wire import WireStruct
from wainwright.cloud import LabelChange, ReservedNode
from wainwright.controllers.context import ControllerContext
from wainwright.controllers.informer_cache import metadata_of
from wainwright.controllers.live_state import is_ours
from wainwright.controllers.nodeclaim.claim_deletion import delete_claim
from wainwright.controllers.runtime import (
    INSTANCES,
    WHOLE_CLUSTER,
    Again,
    Key,
    Poll,
    Result,
    WorkQueue,
    existence_of,
)
from wainwright.errors import CloudProviderError, ObjectNotFoundError
from wainwright.model.labels import CAPACITY_TYPE, RESERVATION_TYPE, RESERVED

LOG: Final = logging.getLogger(__name__)

PERIOD: Final = 60.0  # seconds between two looks
DEPENDS_ON: Final = dict.fromkeys(
    (INSTANCES, existence_of("NodeClaim"), existence_of("Node"), "Node"), 2 * PERIOD
)
RETRY: Final = 10.0
"""Seconds until EC2 is called again after it has failed."""
CAPACITY_BLOCK: Final = "capacity-block"
KINDS: Final[dict[str, type[NodeClaim] | type[Node]]] = {
    kind.__name__: kind for kind in (NodeClaim, Node)
}


class CapacityReservationLabels:
    """Relabels NodeClaims and Nodes whose instance has left its reservation, each by itself: one of
    them may be gone, or relabelled before a restart.
    """

    name = "capacityreservation.capacitytype"

    def __init__(self, context: ControllerContext) -> None:
        self._cache, self._state, self._cloud = context.cache, context.state, context.cloud
        self._claims = context.cache.index(NodeClaim, _capacity_type)
        self._nodes = context.cache.index(Node, _capacity_type)

    def watch(self, queue: WorkQueue) -> None:
        queue.add(WHOLE_CLUSTER)

    async def reconcile(self, _: Key) -> Result:
        reserved = [*self._reserved()]
        if not reserved:
            return Poll(PERIOD, depends_on=DEPENDS_ON)
        try:
            changes = await self._cloud.reservation_label_changes(reserved)
        except CloudProviderError as error:
            LOG.warning("reservations of instances could not be read: %s", error)
            return Again(RETRY)
        for change in changes:
            await self._relabel(change)
        return Poll(PERIOD, depends_on=DEPENDS_ON)

    def _reserved(self) -> Iterator[ReservedNode]:
        for claim in self._claims.get(RESERVED):
            if is_ours(claim.spec.nodeClassRef):
                yield _reserved_node(claim, (claim.status or NodeClaimStatus()).providerID)
        for node in self._nodes.get(RESERVED):
            claims = self._state.claims_of_node(node)
            if all(is_ours(claim.spec.nodeClassRef) for claim in claims):
                yield _reserved_node(node, node.spec.providerID)

    async def _relabel(self, change: LabelChange) -> None:
        obj = self._cache.get(KINDS[change.kind], change.name)
        if obj is None:
            return
        labels: dict[str, Any] = {**dict.fromkeys(change.remove), **change.change}
        LOG.info("%s %s has left its reservation: %s", change.kind, change.name, labels)
        with suppress(ObjectNotFoundError):
            await self._cache.patch(obj, {"metadata": {"labels": labels}})


class CapacityBlockExpiration:
    """Deletes the NodeClaims of capacity blocks that are about to end."""

    name = "capacityreservation.expiration"

    def __init__(self, context: ControllerContext) -> None:
        self._context, self._cache, self._cloud = context, context.cache, context.cloud
        self._claims = context.cache.index(NodeClaim, _reservation_type)

    def watch(self, queue: WorkQueue) -> None:
        queue.add(WHOLE_CLUSTER)

    async def reconcile(self, _: Key) -> Result:
        claims = [
            claim
            for claim in self._claims.get(CAPACITY_BLOCK)
            if is_ours(claim.spec.nodeClassRef) and not claim.metadata.deletionTimestamp
        ]
        if not claims:
            return Poll(PERIOD, depends_on=DEPENDS_ON)
        nodes = [_reserved_node(claim) for claim in claims]
        ending = frozenset(await self._cloud.nodes_to_drain(nodes))
        for claim in claims:
            if claim.metadata.name in ending:
                await self._drain(claim)
        # That a block ends comes by time alone, and only the cloud provider knows when.
        return Poll(PERIOD, due=self._context.clock.now())

    async def _drain(self, claim: NodeClaim) -> None:
        message = "Draining the node: its capacity block ends soon"
        await delete_claim(self._context, claim, "capacity_block_expiring")
        await self._context.events.warn(claim, "CapacityReservationExpiring", message)


def _reserved_node(obj: NodeClaim | Node, provider_id: str = "") -> ReservedNode:
    return ReservedNode(
        kind=type(obj).__name__,
        name=obj.metadata.name,
        instance_id=provider_id.rpartition("/")[2],
        labels=obj.metadata.labels or {},
    )


def _capacity_type(obj: WireStruct) -> str:
    return (metadata_of(obj).labels or {}).get(CAPACITY_TYPE, "")


def _reservation_type(claim: NodeClaim) -> str:
    return (claim.metadata.labels or {}).get(RESERVATION_TYPE, "")
