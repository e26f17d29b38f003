"""Whether the nodes of a NodePool join the cluster: the outcomes of its last four NodeClaims.

The outcomes are kept in memory, the verdict in the condition NodeRegistrationHealthy, from which a
new process goes on.
"""

from collections import deque
from contextlib import suppress
from typing import Final

from wainwright.api.karpenter.nodeclaim import NodeClaim, NodeClaimStatus
from wainwright.api.karpenter.nodepool import NodePool, NodePoolStatus
from wainwright.api.wire import Condition
from wainwright.clock import Clock
from wainwright.cluster import MergePatch
from wainwright.controllers import conditions as condition
from wainwright.controllers.conditions import ConditionSet
from wainwright.controllers.informer_cache import InformerCache
from wainwright.controllers.live_state import is_ours
from wainwright.errors import ConflictError, ObjectNotFoundError

REMEMBERED: Final = 4
UNHEALTHY_FAILURES: Final = 2
"""So many failures among the remembered outcomes make a NodePool unhealthy."""
REGISTRATION_FAILED: Final = ("RegistrationFailed", "Failed to register node")


class _Outcomes:
    """The last outcomes of one NodePool, each of one claim."""

    def __init__(self, stated: str) -> None:
        """`stated`: the status of the condition that an earlier process has left."""
        seeds = {condition.TRUE: (True,), condition.FALSE: (False, False)}.get(stated, ())
        self._last: deque[tuple[str, bool]] = deque(
            ((f"earlier {number}", each) for number, each in enumerate(seeds)), maxlen=REMEMBERED
        )

    def add(self, claim: str, *, succeeded: bool) -> None:
        """A claim counts once, also if what followed failed and is tried again."""
        if (claim, succeeded) not in self._last:
            self._last.append((claim, succeeded))

    @property
    def is_healthy(self) -> bool:
        return sum(not succeeded for _, succeeded in self._last) < UNHEALTHY_FAILURES


class RegistrationHealth:
    """The lifecycle of NodeClaims reports here; the verdict is written at once."""

    def __init__(self, cache: InformerCache, clock: Clock) -> None:
        self._cache, self._clock = cache, clock
        self._outcomes: dict[str, _Outcomes] = {}
        """By uid of the NodePool."""

    async def succeeded(self, claim: NodeClaim) -> None:
        """The node of the claim has registered."""
        pool = self._pool_of(claim)
        if pool is None:
            return
        outcomes = self._outcomes_of(pool)
        outcomes.add(claim.metadata.uid, succeeded=True)
        if outcomes.is_healthy:
            await self._write(pool, condition.TRUE)

    async def failed(self, claim: NodeClaim) -> None:
        """The claim was not launched, or its node has not registered, in time."""
        pool = self._pool_of(claim)
        if pool is None:
            return
        outcomes = self._outcomes_of(pool)
        outcomes.add(claim.metadata.uid, succeeded=False)
        if not outcomes.is_healthy:
            await self._write(pool, condition.FALSE, *_failure(claim))

    def forget(self, pool: NodePool) -> None:
        """Nothing is known any more: its nodes will be launched with other settings."""
        self._outcomes[pool.metadata.uid] = _Outcomes(condition.UNKNOWN)

    def drop(self, pool: NodePool) -> None:
        """The NodePool is gone."""
        self._outcomes.pop(pool.metadata.uid, None)

    def _pool_of(self, claim: NodeClaim) -> NodePool | None:
        """The very pool that the claim was made for, not a later one of the same name."""
        for owner in claim.metadata.ownerReferences or ():
            pool = self._cache.get(NodePool, owner.name) if owner.kind == "NodePool" else None
            if pool is not None and pool.metadata.uid == owner.uid:
                return pool if is_ours(pool.spec.template.spec.nodeClassRef) else None
        return None

    def _outcomes_of(self, pool: NodePool) -> _Outcomes:
        known = self._outcomes.get(pool.metadata.uid)
        if known is None:
            stated = find_condition(pool, condition.NODE_REGISTRATION_HEALTHY)
            status = condition.UNKNOWN if stated is None else stated.status
            known = self._outcomes[pool.metadata.uid] = _Outcomes(status)
        return known

    async def _write(
        self, pool: NodePool, status: str, reason: str = "", message: str = ""
    ) -> None:
        """The claim's own way does not depend on it: a pool that is gone is nobody's problem."""

        def patch_of(current: NodePool) -> MergePatch | None:
            conditions = pool_conditions(current, self._clock.now())
            conditions.set(condition.NODE_REGISTRATION_HEALTHY, status, reason, message)
            return conditions.patch()

        with suppress(ObjectNotFoundError, ConflictError):
            await self._cache.update(pool, patch_of, status=True)


def pool_conditions(pool: NodePool, now: float) -> ConditionSet:
    return ConditionSet(
        (pool.status or NodePoolStatus()).conditions,
        now=now,
        generation=pool.metadata.generation,
        readiness=condition.NODE_POOL_READINESS,
    )


def find_condition(obj: NodePool | NodeClaim, kind: str) -> Condition | None:
    stated = (obj.status.conditions if obj.status is not None else None) or ()
    return next((each for each in stated if each.type == kind), None)


def _failure(claim: NodeClaim) -> tuple[str, str]:
    """Why there is no node: what the launch says where it has not succeeded."""
    status = claim.status or NodeClaimStatus()
    launched = next((each for each in status.conditions or () if each.type == "Launched"), None)
    if launched is None or launched.status == condition.TRUE:
        return REGISTRATION_FAILED
    return launched.reason, launched.message
