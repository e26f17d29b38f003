"""Conditions of our own objects: set one, and derive Ready from those that it depends on."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec

from wainwright.api.karpenter.nodeclaim import NodeClaim, NodeClaimStatus
from wainwright.api.wire import Condition
from wainwright.clock import format_timestamp
from wainwright.controllers.informer_cache import InformerCache
from wainwright.translate.object_metadata import parse_timestamp

NOTHING_MORE: Final[Mapping[str, Any]] = MappingProxyType({})
READY: Final = "Ready"
TRUE: Final = "True"
FALSE: Final = "False"
UNKNOWN: Final = "Unknown"

LAUNCHED: Final = "Launched"
REGISTERED: Final = "Registered"
INITIALIZED: Final = "Initialized"
CONSOLIDATABLE: Final = "Consolidatable"
DRIFTED: Final = "Drifted"
DRAINED: Final = "Drained"
VOLUMES_DETACHED: Final = "VolumesDetached"
INSTANCE_TERMINATING: Final = "InstanceTerminating"
CONSISTENT_STATE_FOUND: Final = "ConsistentStateFound"
DISRUPTION_REASON: Final = "DisruptionReason"
REBOOTING: Final = "Rebooting"
"""Set by others; nothing here reboots a node."""

VALIDATION_SUCCEEDED: Final = "ValidationSucceeded"
NODE_CLASS_READY: Final = "NodeClassReady"
NODE_REGISTRATION_HEALTHY: Final = "NodeRegistrationHealthy"

NODE_CLAIM_READINESS: Final = (LAUNCHED, REGISTERED, INITIALIZED)
"""A NodeClaim is Ready when all of these are True."""
NODE_POOL_READINESS: Final = (VALIDATION_SUCCEEDED, NODE_CLASS_READY)
OVERRIDE_READINESS: Final = (VALIDATION_SUCCEEDED,)
"""Of NodeOverlays and InstanceTypes."""


class ConditionSet:
    """The conditions of one object, to be changed and written back as a whole."""

    def __init__(
        self,
        written: Iterable[Condition] | None,
        *,
        now: float,
        generation: int | None,
        readiness: tuple[str, ...] = (),
    ) -> None:
        self._before = {each.type: each for each in written or ()}
        self._conditions = dict(self._before)
        self._now, self._generation, self._readiness = now, generation, readiness

    def status(self, kind: str) -> str:
        """Unknown where there is none."""
        found = self._conditions.get(kind)
        return UNKNOWN if found is None else found.status

    def is_true(self, kind: str) -> bool:
        return self.status(kind) == TRUE

    def set(self, kind: str, status: str, reason: str = "", message: str = "") -> None:
        """The time of the transition changes with the status only; without a reason it is the
        condition's own name, as an API server requires one.
        """
        known = self._conditions.get(kind)
        is_same = known is not None and known.status == status
        self._conditions[kind] = Condition(
            type=kind,
            status=status,
            reason=reason or kind,
            message=message,
            lastTransitionTime=known.lastTransitionTime
            if known is not None and is_same
            else format_timestamp(self._now),
            observedGeneration=self._generation,
        )

    def clear(self, kind: str) -> None:
        self._conditions.pop(kind, None)

    def since(self, kind: str) -> float | None:
        """When the condition last changed its status; None where there is none."""
        found = self._conditions.get(kind)
        return None if found is None else parse_timestamp(found.lastTransitionTime)

    def reason(self, kind: str) -> str:
        found = self._conditions.get(kind)
        return "" if found is None else found.reason

    def message(self, kind: str) -> str:
        found = self._conditions.get(kind)
        return "" if found is None else found.message

    def observe_generation(self) -> None:
        """Every condition holds for the present generation of the object too."""
        self._conditions = {
            kind: msgspec.structs.replace(each, observedGeneration=self._generation)
            for kind, each in self._conditions.items()
        }

    def patch(self) -> Mapping[str, Any] | None:
        """What to write into the status; None if nothing has changed."""
        if self._readiness:
            self._set_ready()
        if self._conditions == self._before:
            return None
        ordered = [self._conditions[kind] for kind in sorted(self._conditions)]
        return {"conditions": msgspec.to_builtins(ordered)}

    def on(self, written: Iterable[Condition] | None) -> "ConditionSet":
        """The same changes of what somebody else has written meanwhile: every condition has one
        controller that sets it.
        """
        moved = ConditionSet(
            written, now=self._now, generation=self._generation, readiness=self._readiness
        )
        for kind in self._before.keys() | self._conditions.keys():
            wanted = self._conditions.get(kind)
            if wanted is None:
                moved.clear(kind)
            elif wanted != self._before.get(kind):
                moved._conditions[kind] = wanted
        return moved

    def _set_ready(self) -> None:
        statuses = {kind: self.status(kind) for kind in self._readiness}
        if all(status == TRUE for status in statuses.values()):
            self.set(READY, TRUE)
            return
        status = FALSE if FALSE in statuses.values() else UNKNOWN
        lacking = [kind for kind, each in statuses.items() if each == status]
        found = self._conditions.get(lacking[0])
        message = "" if found is None else found.message
        self.set(READY, status, f"{lacking[0]}{status}" if found is None else found.reason, message)


def status_of(claim: NodeClaim) -> NodeClaimStatus:
    return claim.status or NodeClaimStatus()


def claim_conditions(claim: NodeClaim, now: float) -> ConditionSet:
    return ConditionSet(
        status_of(claim).conditions,
        now=now,
        generation=claim.metadata.generation,
        readiness=NODE_CLAIM_READINESS,
    )


async def write_claim_conditions(
    cache: InformerCache,
    claim: NodeClaim,
    conditions: ConditionSet,
    more: Mapping[str, Any] = NOTHING_MORE,
) -> NodeClaim:
    """Writes what has changed of them, and what `more` has of the status."""

    def patch_of(current: NodeClaim) -> Mapping[str, Any] | None:
        changed = conditions.on(status_of(current).conditions).patch()
        return {**more, **(changed or {})} or None

    return await cache.update(claim, patch_of, status=True)


def instance_id(claim: NodeClaim) -> str:
    """Empty before the launch."""
    return status_of(claim).providerID.rpartition("/")[2]


def is_initialized(claim: NodeClaim | None) -> bool:
    """Whether its node has come up; False where there is no claim."""
    written = () if claim is None else status_of(claim).conditions or ()
    return any(each.type == INITIALIZED and each.status == TRUE for each in written)
