"""Why machines ended: what the controllers said, else what the claim and EC2 show.

Reasons are Karpenter's: Empty, Drifted, Underutilized for commands of disruption (the condition
DisruptionReason of the claim); expired, interrupted, unhealthy, registration_timeout,
launch_timeout, garbage_collected, deleted for the others.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

import msgspec

from wainwright.api.karpenter.nodeclaim import NodeClaim, NodeClaimStatus
from wainwright.emulator.ec2.instance.lifecycle import USER_INITIATED_SHUTDOWN
from wainwright.model.node_claim import InterruptionKind
from wainwright.sim.api_server import InMemoryApiServer
from wainwright.sim.billed_instances import BilledInstance
from wainwright.translate.disruption import parse_duration

DISRUPTION_REASON: Final = "DisruptionReason"
INSUFFICIENT_CAPACITY: Final = "insufficient_capacity"
INTERRUPTED: Final = "interrupted"
REASONS: Final[Mapping[str, str]] = {
    **{kind.value: INTERRUPTED for kind in InterruptionKind},
    InterruptionKind.UNHEALTHY.value: "unhealthy",
    "Unhealthy": "unhealthy",
    "capacity_block_expiring": INTERRUPTED,
}
"""Reasons of the controllers that are one here."""
REGISTRATION_TIMEOUT: Final = 15 * 60.0
LAUNCH_TIMEOUT: Final = 5 * 60.0


class _EndingClaim(msgspec.Struct, kw_only=True):
    """What is known of a claim that ends or may end."""

    reason: str = ""
    is_stated: bool = False
    """Whether the reason is that of its condition, which may be taken back."""
    is_refused: bool = False
    """Whether EC2 would not sell what it asked for."""


class ClaimEndings:
    def __init__(self, api: InMemoryApiServer) -> None:
        self._api = api
        self._claims: dict[str, _EndingClaim] = {}
        self.by_reason: dict[str, int] = {}
        """Machines that ended."""
        self.launch_failures = 0

    def claim_disrupted(self, claim: str, reason: str) -> None:
        """A controller says why it deletes the claim."""
        if reason == INSUFFICIENT_CAPACITY:
            self._ending(claim).is_refused = True
        else:
            ending = self._ending(claim)
            ending.reason, ending.is_stated = REASONS.get(reason, reason), False

    def claim_changed(self, claim: NodeClaim, now: float) -> None:
        conditions = (claim.status or NodeClaimStatus()).conditions or ()
        stated = next((each for each in conditions if each.type == DISRUPTION_REASON), None)
        self._note_condition(claim, stated.reason if stated and stated.status == "True" else "")
        if claim.metadata.deletionTimestamp is not None:
            ending = self._ending(claim.metadata.name)
            ending.reason = ending.reason or _inferred_reason(claim, now)

    def _note_condition(self, claim: NodeClaim, reason: str) -> None:
        """A command that is given up takes its reason back."""
        known = self._claims.get(claim.metadata.name)
        if reason:
            ending = self._ending(claim.metadata.name)
            if not ending.reason or ending.is_stated:  # else it goes for another reason by now
                ending.reason, ending.is_stated = reason, True
        elif known is not None and known.is_stated:
            known.reason, known.is_stated = "", False

    def claim_removed(self, claim: NodeClaim, *, has_instance: bool) -> bool:
        """Whether it was given up because EC2 would not sell, which is counted."""
        ending = self._claims.get(claim.metadata.name)
        was_launched = bool((claim.status or NodeClaimStatus()).providerID)
        is_refused = ending is not None and ending.is_refused
        has_failed = is_refused and not (was_launched or has_instance)
        self.launch_failures += has_failed
        if not has_instance:
            self._claims.pop(claim.metadata.name, None)
        return has_failed

    def reason_of(self, claim: str) -> str:
        """Why the claim is being deleted, as far as it is known."""
        ending = self._claims.get(claim)
        return "" if ending is None else ending.reason

    def instance_ended(self, billed: BilledInstance) -> str:
        """The reason, which is counted."""
        reason = self._reason_of(billed)
        reason = REASONS.get(reason, reason)
        self.by_reason[reason] = self.by_reason.get(reason, 0) + 1
        self._claims.pop(billed.claim, None)
        return reason

    def _reason_of(self, billed: BilledInstance) -> str:
        ending = self._claims.get(billed.claim)
        if billed.was_killed:
            return "garbage_collected"
        if billed.was_noticed and (ending is None or ending.reason in ("", "deleted")):
            return INTERRUPTED
        if ending is not None and ending.reason:
            return ending.reason
        if billed.instance.reason != USER_INITIATED_SHUTDOWN:
            return INTERRUPTED
        exists = billed.claim and self._api.peek(NodeClaim, billed.claim) is not None
        return "deleted" if exists else "garbage_collected"

    def _ending(self, claim: str) -> _EndingClaim:
        return self._claims.setdefault(claim, _EndingClaim())


def _inferred_reason(claim: NodeClaim, now: float) -> str:
    """Why a claim is being deleted, where nobody says so: its age and its conditions tell."""
    created = claim.metadata.creationTimestamp
    age = 0.0 if created is None else now - datetime.fromisoformat(created).timestamp()
    lifetime = parse_duration(claim.spec.expireAfter)
    if lifetime is not None and age >= lifetime:
        return "expired"
    states = {
        each.type: each.status for each in (claim.status or NodeClaimStatus()).conditions or ()
    }
    if age >= LAUNCH_TIMEOUT and states.get("Launched") != "True":
        return "launch_timeout"
    if age >= REGISTRATION_TIMEOUT and states.get("Registered") != "True":
        return "registration_timeout"
    return "deleted"
