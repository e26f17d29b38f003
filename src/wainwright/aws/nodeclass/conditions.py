"""Conditions: what was found out about a class, and how its status says so."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final, Generic, TypeVar

import msgspec

from wainwright.api.wire import Condition

AMIS: Final = "AMIsReady"
SUBNETS: Final = "SubnetsReady"
SECURITY_GROUPS: Final = "SecurityGroupsReady"
INSTANCE_PROFILE: Final = "InstanceProfileReady"
CAPACITY_RESERVATIONS: Final = "CapacityReservationsReady"
PLACEMENT_GROUP: Final = "PlacementGroupReady"
VALIDATION: Final = "ValidationSucceeded"
AMI_DEPRECATED: Final = "AMIDeprecated"
READY: Final = "Ready"
INFORMATIVE: Final = frozenset({AMI_DEPRECATED})
"""Those on which readiness does not hang."""

TRUE, FALSE, UNKNOWN = "True", "False", "Unknown"
LONGEST: Final = 1000  # characters of a message; refusals of EC2 can carry an encoded page

Value = TypeVar("Value")


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One aspect of a class, as it looks now."""

    type: str
    status: str
    reason: str
    message: str = ""

    @property
    def good(self) -> bool:
        return self.status == TRUE


class Part(msgspec.Struct, Generic[Value], frozen=True, kw_only=True):
    """What one kind of term found, with what is to be said about it."""

    value: Value
    finding: Finding
    again: float
    """Seconds after which it is worth looking again."""


def good(kind: str, message: str = "") -> Finding:
    return Finding(type=kind, status=TRUE, reason=kind, message=_cut(message))


def bad(kind: str, reason: str, message: str) -> Finding:
    return Finding(type=kind, status=FALSE, reason=reason, message=_cut(message))


def unknown(kind: str, reason: str, message: str) -> Finding:
    return Finding(type=kind, status=UNKNOWN, reason=reason, message=_cut(message))


def readiness(findings: Sequence[Finding]) -> Finding:
    """All of them together: one that is bad goes before one that is not known yet."""
    counted = [each for each in findings if each.type not in INFORMATIVE]
    for status, reason in ((FALSE, "UnhealthyDependents"), (UNKNOWN, "ReconcilingDependents")):
        told = [f"{each.type}={status}" for each in counted if each.status == status]
        if told:
            return Finding(type=READY, status=status, reason=reason, message=", ".join(told))
    return good(READY)


def conditions(
    findings: Iterable[Finding], before: Iterable[Condition], generation: int | None, now: float
) -> tuple[Condition, ...]:
    """As the status has them; one whose status stays keeps the time of its last change."""
    known = {each.type: each for each in before}
    return tuple(_condition(each, known.get(each.type), generation, now) for each in findings)


def _condition(
    finding: Finding, before: Condition | None, generation: int | None, now: float
) -> Condition:
    unchanged = before is not None and before.status == finding.status
    return Condition(
        type=finding.type,
        status=finding.status,
        lastTransitionTime=before.lastTransitionTime if before and unchanged else timestamp(now),
        reason=finding.reason,
        message=finding.message,
        observedGeneration=generation,
    )


def timestamp(moment: float) -> str:
    """As Kubernetes writes times: UTC, whole seconds."""
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _cut(message: str) -> str:
    return message if len(message) <= LONGEST else message[: LONGEST - 1] + "…"
