"""Interruption: what EC2 announces about instances, and checks that they fail.

Announcements come from a queue, and are acknowledged once their NodeClaim is deleted: a process
that ends before leaves them to the next one. The NodeClaim is deleted first and events are written
after it: of a spot instance two minutes are left.
"""

import asyncio
import logging
from contextlib import aclosing
from typing import Final

from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.backoff import Backoff
from wainwright.controllers.conditions import instance_id
from wainwright.controllers.context import ControllerContext
from wainwright.controllers.live_state import is_ours
from wainwright.controllers.nodeclaim.claim_deletion import delete_claim, delete_claim_forcefully
from wainwright.controllers.runtime import (
    ACCOUNT,
    INSTANCES,
    WHOLE_CLUSTER,
    Again,
    Key,
    Poll,
    Result,
    WorkQueue,
)
from wainwright.errors import CloudProviderError, KubernetesError
from wainwright.model.labels import INSTANCE_TYPE, SPOT, ZONE
from wainwright.model.node_claim import Interruption, InterruptionKind

LOG: Final = logging.getLogger(__name__)

STATUS_PERIOD: Final = 60.0  # seconds between two looks at status checks
STATUS_DEPENDS_ON: Final = dict.fromkeys((INSTANCES, ACCOUNT), 0.0)
STATUS_RETRY: Final = 10.0
RETRY_WAITS: Final = (0.5, 1.0, 2.0)
"""Seconds between attempts; after the last one the queue delivers the message again."""
MAX_FAILING: Final = 1000
EVENT_REASONS: Final = {
    InterruptionKind.SPOT: "SpotInterrupted",
    InterruptionKind.REBALANCE: "SpotRebalanceRecommendation",
    InterruptionKind.SCHEDULED: "InstanceUnhealthy",
    InterruptionKind.STOPPING: "InstanceStopping",
    InterruptionKind.TERMINATING: "InstanceTerminating",
    InterruptionKind.RESERVATION: "CapacityReservationInstanceInterrupted",
    InterruptionKind.UNHEALTHY: "InstanceUnhealthy",
}
MESSAGES: Final = {
    InterruptionKind.SPOT: "EC2 reclaims the spot instance",
    InterruptionKind.REBALANCE: "The spot instance is at an elevated risk of interruption",
    InterruptionKind.SCHEDULED: "A change of the instance is scheduled",
    InterruptionKind.STOPPING: "The instance is stopping",
    InterruptionKind.TERMINATING: "The instance is terminating",
    InterruptionKind.RESERVATION: "The capacity of the instance is reclaimed by its reservation",
    InterruptionKind.UNHEALTHY: "The instance fails its status checks",
}
TERMINATING_EVENT: Final = "TerminatingOnInterruption"
TERMINATING_MESSAGE: Final = "Interruption triggered termination"


class InterruptionHandler:
    """Carries out one interruption; may be repeated."""

    def __init__(self, context: ControllerContext) -> None:
        self._context, self._state = context, context.state
        self._claims = context.cache.index(NodeClaim, instance_id)

    async def handle(self, interruption: Interruption) -> None:
        """One of an instance that is not ours is done with."""
        for claim in self._claims.get(interruption.instance):
            if is_ours(claim.spec.nodeClassRef):
                await self._interrupt(claim, interruption)

    async def _interrupt(self, claim: NodeClaim, interruption: Interruption) -> None:
        kind = interruption.kind
        if kind is InterruptionKind.SPOT:
            self._mark_unavailable(claim)
        if claim.metadata.deletionTimestamp and not kind.is_forceful:
            return  # also what EC2 says about our own terminations
        if kind.is_forceful:
            await delete_claim_forcefully(self._context, claim, kind.value)
        elif kind.ends_instance:
            await delete_claim(self._context, claim, kind.value)
        await self._report(claim, interruption)

    def _mark_unavailable(self, claim: NodeClaim) -> None:
        """What was just reclaimed would be reclaimed again."""
        labels = claim.metadata.labels or {}
        instance_type, zone = labels.get(INSTANCE_TYPE), labels.get(ZONE)
        if instance_type and zone:
            self._context.cloud.mark_unavailable(instance_type, zone, SPOT)

    async def _report(self, claim: NodeClaim, interruption: Interruption) -> None:
        events, kind = self._context.events, interruption.kind
        detail = f": {interruption.detail}" if interruption.detail else ""
        for about in (claim, *self._state.nodes_of_claim(claim)):
            record = events.warn if kind.ends_instance else events.inform
            await record(about, EVENT_REASONS[kind], f"{MESSAGES[kind]}{detail}")
            if kind.ends_instance:
                await events.warn(about, TERMINATING_EVENT, TERMINATING_MESSAGE)


class InterruptionQueueReader:
    """Reads announcements for ever, one after another: deleting a NodeClaim and acknowledging take
    two short calls, so that a thousand spot instances are dealt with well within their notice.
    """

    name = "interruption"

    def __init__(self, context: ControllerContext, handler: InterruptionHandler) -> None:
        self._context, self._handler = context, handler
        self._backoff = Backoff(self.name)
        self._failing: set[str] = set()
        """Instances whose interruption was given up: they get one attempt at each delivery."""

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            try:
                await self._read()
            except Exception:
                wait = self._backoff.failed(WHOLE_CLUSTER)
                LOG.exception("the interruption queue could not be read; retrying in %.1f s", wait)
                await self._context.clock.sleep(wait)

    async def _read(self) -> None:
        """One that cannot be dealt with stays in the queue, and the others are not held up: closing
        the generator instead would leave all of its batch until they are delivered again.
        """
        async with aclosing(self._context.cloud.interruptions()) as interruptions:
            interruption = await anext(interruptions)
            while True:
                is_handled = await self._attempt(interruption)
                self._backoff.succeeded(WHOLE_CLUSTER)
                interruption = await interruptions.asend(is_handled)

    async def _attempt(self, interruption: Interruption) -> bool:
        instance = interruption.instance
        try:
            await self._handle(interruption)
        except Exception:
            if instance not in self._failing:
                LOG.exception("the interruption of %s was not handled", instance)
            if len(self._failing) >= MAX_FAILING:
                self._failing.clear()
            self._failing.add(instance)
            return False
        self._failing.discard(instance)
        return True

    async def _handle(self, interruption: Interruption) -> None:
        for wait in () if interruption.instance in self._failing else RETRY_WAITS:
            try:
                return await self._handler.handle(interruption)
            except KubernetesError as error:
                LOG.warning("interruption of %s: %s", interruption.instance, error)
                await self._context.clock.sleep(wait)
        return await self._handler.handle(interruption)


class InstanceStatusChecks:
    """Looks for instances that fail status checks or are due for maintenance: the queue says
    nothing of the former, and not every cluster has one.
    """

    name = "interruption.instancestatus"

    def __init__(self, context: ControllerContext, handler: InterruptionHandler) -> None:
        self._cloud, self._handler = context.cloud, handler

    def watch(self, queue: WorkQueue) -> None:
        queue.add(WHOLE_CLUSTER)

    async def reconcile(self, _: Key) -> Result:
        try:
            unhealthy = await self._cloud.unhealthy_instances()
        except CloudProviderError as error:
            LOG.warning("status checks of instances could not be read: %s", error)
            return Again(STATUS_RETRY)
        await asyncio.gather(*map(self._handler.handle, unhealthy))
        return Poll(STATUS_PERIOD, self._cloud.next_unhealthy, STATUS_DEPENDS_ON)
