"""Drift: NodeClaims that their NodePool or node class would not launch like this any more get the
condition Drifted, with the reason; it is removed when that is over.

A claim is compared when it, its pool, its class or the overrides change. What only the cloud knows
of an instance is asked for every half an hour besides.
"""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from wainwright.api.catalog_documents import InstanceType, NodeOverlay
from wainwright.api.karpenter.ec2nodeclass import EC2NodeClass
from wainwright.api.karpenter.nodeclaim import NodeClaim, NodeClaimStatus
from wainwright.api.karpenter.nodepool import NodePool
from wainwright.controllers import conditions as condition
from wainwright.controllers.conditions import ConditionSet, write_claim_conditions
from wainwright.controllers.context import ControllerContext
from wainwright.controllers.informer_cache import Change
from wainwright.controllers.live_state import is_ours
from wainwright.controllers.nodeclass.declared_objects import DeclaredObjectsTracker
from wainwright.controllers.runtime import (
    ACCOUNT,
    AFTER_CONFLICT,
    CATALOG,
    DONE,
    INSTANCES,
    Key,
    Poll,
    Result,
    WorkQueue,
)
from wainwright.core.disruption.drift import DRIFTED_CONDITION, MIN_AGE_OF_MISSING_TYPE, find_drift
from wainwright.errors import CloudProviderError, ConflictError, InstanceNotFoundError
from wainwright.messages.disruption import describe_requirement_drift
from wainwright.model.disruption import NodeClaimState
from wainwright.model.instance_type import OfferedTypes
from wainwright.model.snapshot import Node as ModelNode
from wainwright.translate.disruption import translate_claim_state
from wainwright.translate.node_claim_pairing import pool_of_claim
from wainwright.translate.nodeclaims import translate_node_claim
from wainwright.translate.pools import translate_pool

PERIOD: Final = 1800.0  # seconds
DEPENDS_ON: Final = {INSTANCES: PERIOD, ACCOUNT: PERIOD, CATALOG: 0.0}
"""Beside the objects that it watches. Classes tell of new images."""


class DriftDetection:
    name = "nodeclaim.drift"

    def __init__(self, context: ControllerContext, declared: DeclaredObjectsTracker) -> None:
        self._context, self._declared = context, declared
        self._cache, self._cloud = context.cache, context.cloud
        self._by_pool = context.cache.index(NodeClaim, lambda claim: pool_of_claim(claim) or "")
        self._by_class = context.cache.index(NodeClaim, lambda each: each.spec.nodeClassRef.name)

    def watch(self, queue: WorkQueue) -> None:
        def changed_claim(change: Change[NodeClaim]) -> None:
            if change.after is None:
                queue.forget(change.name)
            elif change.before is None or _compared(change.before) != _compared(change.after):
                queue.add(change.name)

        def compare(claims: Iterable[NodeClaim]) -> None:
            for claim in claims:
                queue.add(claim.metadata.name)

        subscribe = self._cache.subscribe
        subscribe(NodeClaim, changed_claim)
        subscribe(NodePool, lambda each: compare(self._of_pool(each)))
        subscribe(EC2NodeClass, lambda change: compare(self._by_class.get(change.name)))
        subscribe(InstanceType, lambda each: compare(self._of_override(each)))
        subscribe(NodeOverlay, lambda each: compare(self._of_override(each)))

    def _of_pool(self, change: Change[NodePool]) -> Iterable[NodeClaim]:
        return self._by_pool.get(change.name) if change.is_of_spec else ()

    def _of_override(self, change: Change[Any]) -> Iterable[NodeClaim]:
        return self._cache.all(NodeClaim) if change.is_of_spec else ()

    async def reconcile(self, key: Key) -> Result:
        claim = self._cache.get(NodeClaim, key)
        if (
            claim is None
            or claim.metadata.deletionTimestamp
            or not is_ours(claim.spec.nodeClassRef)
        ):
            return DONE
        conditions = ConditionSet(
            (claim.status or NodeClaimStatus()).conditions,
            now=self._context.clock.now(),
            generation=claim.metadata.generation,
        )
        found = await self._find(claim) if conditions.is_true(condition.LAUNCHED) else None
        if found is None:
            conditions.clear(condition.DRIFTED)
        else:
            conditions.set(condition.DRIFTED, condition.TRUE, *found)
        try:
            await write_claim_conditions(self._cache, claim, conditions)
        except ConflictError:
            return AFTER_CONFLICT
        return Poll(PERIOD, self._ripe_at(claim), depends_on=DEPENDS_ON)

    async def _find(self, claim: NodeClaim) -> tuple[str, str] | None:
        """Reason and message."""
        node_pool = self._cache.get(NodePool, pool_of_claim(claim) or "")
        if node_pool is None:
            return None
        self._declared.apply()
        offered = await self._offered(node_pool.metadata.name)
        now = self._context.clock.now()
        found = find_drift(_node_of(claim), translate_pool(node_pool), offered, now)
        if found is not None:
            conflict = found.conflict
            return found.reason, "" if conflict is None else describe_requirement_drift(conflict)
        try:
            reason = await self._cloud.drift(translate_node_claim(claim))
        except InstanceNotFoundError:
            return None  # its end is the business of garbage collection
        return None if reason is None else (reason, "")

    async def _offered(self, pool: str) -> OfferedTypes | None:
        """None where it is not known what exists: then nothing is missing."""
        try:
            return await self._cloud.offered_types(pool)
        except CloudProviderError:
            return None

    def _ripe_at(self, claim: NodeClaim) -> float | None:
        """When a missing instance type begins to count."""
        created = translate_claim_state(claim).created
        return None if created is None else created + MIN_AGE_OF_MISSING_TYPE


def _compared(claim: NodeClaim) -> object:
    """What drift depends on; the conditions that it writes itself are not part of it."""
    written = (claim.status or NodeClaimStatus()).conditions or ()
    launched = next((each.status for each in written if each.type == condition.LAUNCHED), None)
    return claim.metadata.labels, claim.metadata.annotations, launched


def _node_of(claim: NodeClaim) -> ModelNode:
    state: NodeClaimState = translate_claim_state(claim)
    stated = {key: each for key, each in state.conditions.items() if key != DRIFTED_CONDITION}
    return ModelNode(
        name=claim.metadata.name,
        labels=dict(state.labels),
        claim=msgspec.structs.replace(state, conditions=stated),
        created=state.created,
    )
