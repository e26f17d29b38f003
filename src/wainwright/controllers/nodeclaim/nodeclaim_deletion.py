"""The end of a NodeClaim: its nodes, then its instance, then the claim itself."""

from typing import Final

from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.clock import format_timestamp
from wainwright.controllers import conditions as condition
from wainwright.controllers.conditions import (
    ConditionSet,
    claim_conditions,
    instance_id,
    write_claim_conditions,
)
from wainwright.controllers.context import ControllerContext
from wainwright.controllers.informer_cache import without_finalizer
from wainwright.controllers.nodeclaim.claim_deletion import TERMINATION_TIMESTAMP_ANNOTATION
from wainwright.controllers.nodeclaim.node_registration import TERMINATION_FINALIZER
from wainwright.controllers.nodeclaim.nodeclaim_launch import NodeClaimLaunch
from wainwright.controllers.runtime import DONE, Again, Result
from wainwright.errors import CloudProviderError, InstanceNotFoundError
from wainwright.metrics import (
    INSTANCE_TERMINATION_SECONDS,
    NODECLAIMS_TERMINATED,
    NODECLAIMS_TERMINATION_SECONDS,
)
from wainwright.model.labels import CAPACITY_TYPE, NODEPOOL, ZONE
from wainwright.translate.disruption import parse_duration
from wainwright.translate.nodeclaims import translate_node_claim
from wainwright.translate.object_metadata import parse_timestamp

TERMINATION_POLL: Final = 5.0
"""Seconds between two looks at an instance that is being terminated, or not yet visible."""


class NodeClaimDeletion:
    def __init__(self, context: ControllerContext, launches: NodeClaimLaunch) -> None:
        self._context, self._launches = context, launches
        self._cache, self._state, self._cloud = context.cache, context.state, context.cloud

    async def step(self, claim: NodeClaim) -> Result:
        """The next thing to be done for a claim that is being deleted."""
        if TERMINATION_FINALIZER not in (claim.metadata.finalizers or ()):
            return DONE
        claim = await self._set_deadline(claim)
        conditions = self._conditions(claim)
        conditions.observe_generation()
        claim = await self._write(claim, conditions)
        if conditions.is_true(condition.REGISTERED):
            nodes = self._state.nodes_of_claim(claim)
            for node in nodes:
                if not node.metadata.deletionTimestamp:
                    await self._cache.delete(node)
            if nodes:
                return DONE  # looked at again when the last of them is gone
        return await self._end_instance(claim)

    def _conditions(self, claim: NodeClaim) -> ConditionSet:
        return claim_conditions(claim, self._context.clock.now())

    async def _set_deadline(self, claim: NodeClaim) -> NodeClaim:
        """Until when its node may be drained; one that is there is kept as it is."""
        grace_period = parse_duration(claim.spec.terminationGracePeriod)
        deleted = parse_timestamp(claim.metadata.deletionTimestamp)
        if grace_period is None or deleted is None:
            return claim
        if TERMINATION_TIMESTAMP_ANNOTATION in (claim.metadata.annotations or {}):
            return claim
        deadline = format_timestamp(deleted + grace_period)
        await self._context.events.warn(
            claim, "TerminationGracePeriodExpiring", f"All pods will be deleted by {deadline}"
        )
        added = {TERMINATION_TIMESTAMP_ANNOTATION: deadline}
        return await self._cache.patch(claim, {"metadata": {"annotations": added}})

    async def _end_instance(self, claim: NodeClaim) -> Result:
        if not instance_id(claim) and translate_node_claim(claim).has_pending_launch:
            recovered = await self._recover(claim)
            if isinstance(recovered, Again):
                return recovered
            claim = recovered
        if not instance_id(claim):
            return await self._release(claim)
        try:
            await self._cloud.terminate(instance_id(claim))
        except InstanceNotFoundError:
            return await self._release(claim)
        except CloudProviderError as error:
            await self._context.events.warn(claim, "FailedTermination", str(error))
            raise
        conditions = self._conditions(claim)
        conditions.set(condition.INSTANCE_TERMINATING, condition.TRUE)
        await self._write(claim, conditions)
        return Again(TERMINATION_POLL)

    async def _recover(self, claim: NodeClaim) -> NodeClaim | Again:
        """The claim with the instance that a lost launch may have left; it is written down first,
        so that whoever goes on from here knows what to wait for.
        """
        known = translate_node_claim(claim)
        recovered = await self._cloud.recover([known])
        if known.uid in recovered.unclear:
            return Again(TERMINATION_POLL)
        found = recovered.instances.get(known.uid)
        return claim if found is None else await self._launches.record(known.name, found)

    async def _release(self, claim: NodeClaim) -> Result:
        await self._cache.update(claim, without_finalizer(TERMINATION_FINALIZER))
        self._count(claim)
        return DONE

    def _count(self, claim: NodeClaim) -> None:
        metrics, now = self._context.metrics, self._context.clock.now()
        labels = claim.metadata.labels or {}
        pool = labels.get(NODEPOOL, "")
        metrics.add(
            NODECLAIMS_TERMINATED,
            nodepool=pool,
            capacity_type=labels.get(CAPACITY_TYPE, ""),
            zone=labels.get(ZONE, ""),
        )
        deleted = parse_timestamp(claim.metadata.deletionTimestamp)
        if deleted is not None:
            metrics.observe(NODECLAIMS_TERMINATION_SECONDS, now - deleted, nodepool=pool)
        asked = self._conditions(claim).since(condition.INSTANCE_TERMINATING)
        if asked is not None:
            metrics.observe(INSTANCE_TERMINATION_SECONDS, now - asked, nodepool=pool)

    async def _write(self, claim: NodeClaim, conditions: ConditionSet) -> NodeClaim:
        return await write_claim_conditions(self._cache, claim, conditions)
