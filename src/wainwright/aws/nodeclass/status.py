"""The resolved EC2NodeClass: what its selectors have found, its conditions, and its status.

A value that launches and drift work from; `to_status` writes it as the object in the cluster has
it.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, Generic, TypeVar

import msgspec

from wainwright.api.karpenter import ec2nodeclass as wire
from wainwright.api.wire import Condition
from wainwright.catalogue.offerings.capacity_reservations import (
    ReservationStanding,
    SelectedReservation,
    reservation_status,
)
from wainwright.model.requirements import Requirements

AMIS_READY: Final = "AMIsReady"
SUBNETS_READY: Final = "SubnetsReady"
SECURITY_GROUPS_READY: Final = "SecurityGroupsReady"
INSTANCE_PROFILE_READY: Final = "InstanceProfileReady"
CAPACITY_RESERVATIONS_READY: Final = "CapacityReservationsReady"
PLACEMENT_GROUP_READY: Final = "PlacementGroupReady"
VALIDATION_SUCCEEDED: Final = "ValidationSucceeded"
AMI_DEPRECATED: Final = "AMIDeprecated"
READY: Final = "Ready"
INFORMATIONAL_CONDITIONS: Final = frozenset({AMI_DEPRECATED})
"""Those on which readiness does not hang."""

TRUE, FALSE, UNKNOWN = "True", "False", "Unknown"
MAX_MESSAGE_LENGTH: Final = (
    1000  # characters of a message; refusals of EC2 can carry an encoded page
)

Value = TypeVar("Value")


class ConditionState(msgspec.Struct, frozen=True, kw_only=True):
    """One aspect of a class, as it looks now."""

    type: str
    status: str
    reason: str
    message: str = ""

    @property
    def good(self) -> bool:
        return self.status == TRUE


class ResolvedPart(msgspec.Struct, Generic[Value], frozen=True, kw_only=True):
    """What one kind of term found, with what is to be said about it."""

    value: Value
    finding: ConditionState
    requeue_after: float
    """Seconds after which it is worth looking again."""


def condition_true(kind: str, message: str = "") -> ConditionState:
    return ConditionState(type=kind, status=TRUE, reason=kind, message=_truncate_message(message))


def condition_false(kind: str, reason: str, message: str) -> ConditionState:
    return ConditionState(
        type=kind, status=FALSE, reason=reason, message=_truncate_message(message)
    )


def condition_unknown(kind: str, reason: str, message: str) -> ConditionState:
    return ConditionState(
        type=kind, status=UNKNOWN, reason=reason, message=_truncate_message(message)
    )


def ready_condition(findings: Sequence[ConditionState]) -> ConditionState:
    """All of them together: one that is bad goes before one that is not known yet."""
    counted = [each for each in findings if each.type not in INFORMATIONAL_CONDITIONS]
    for status, reason in ((FALSE, "UnhealthyDependents"), (UNKNOWN, "ReconcilingDependents")):
        told = [f"{each.type}={status}" for each in counted if each.status == status]
        if told:
            return ConditionState(type=READY, status=status, reason=reason, message=", ".join(told))
    return condition_true(READY)


def to_conditions(
    findings: Iterable[ConditionState],
    before: Iterable[Condition],
    generation: int | None,
    now: float,
) -> tuple[Condition, ...]:
    """As the status has them; one whose status stays keeps the time of its last change."""
    known = {each.type: each for each in before}
    return tuple(_to_condition(each, known.get(each.type), generation, now) for each in findings)


def _to_condition(
    finding: ConditionState, before: Condition | None, generation: int | None, now: float
) -> Condition:
    unchanged = before is not None and before.status == finding.status
    return Condition(
        type=finding.type,
        status=finding.status,
        lastTransitionTime=before.lastTransitionTime
        if before and unchanged
        else format_timestamp(now),
        reason=finding.reason,
        message=finding.message,
        observedGeneration=generation,
    )


def format_timestamp(moment: float) -> str:
    """As Kubernetes writes times: UTC, whole seconds."""
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _truncate_message(message: str) -> str:
    return (
        message if len(message) <= MAX_MESSAGE_LENGTH else message[: MAX_MESSAGE_LENGTH - 1] + "…"
    )


MAX_LISTED_RESERVATIONS: Final = 500
"""How many capacity reservations a status lists.

An entry takes about 250 bytes and an object of Kubernetes at most a megabyte and a half, which all
watchers get again at every change. Nothing here depends on the list: launches and drift work from
the whole of `ResolvedNodeClass.reservations`. What is cut is the end in the order of ids, so that
the list does not change with the free counts; the condition says how many there are.
"""


class ResolvedSubnet(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    zone: str
    zone_id: str
    free: int
    """Addresses that nobody has."""


class ResolvedSecurityGroup(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    name: str


class ResolvedImage(msgspec.Struct, frozen=True, kw_only=True):
    """An image, and the instances that it is for."""

    id: str
    name: str
    requirements: Requirements
    created: float = 0.0
    deprecated: bool = False


class ResolvedPlacementGroup(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    name: str
    strategy: str
    partitions: int = 0


class ResolvedNodeClass(msgspec.Struct, frozen=True, kw_only=True):
    """A class as the account has it now. Lists are in the order in which they are to be used."""

    name: str
    uid: str
    generation: int | None = None
    subnets: tuple[ResolvedSubnet, ...] = ()
    """Those with most free addresses first."""
    security_groups: tuple[ResolvedSecurityGroup, ...] = ()
    images: tuple[ResolvedImage, ...] = ()
    """Newest first; the same id can be there for several kinds of instances."""
    profile: str = ""
    reservations: tuple[SelectedReservation, ...] = ()
    """All that the terms select and that are active, offered to this class or not."""
    placement_group: ResolvedPlacementGroup | None = None
    cluster_cidr: str = ""
    conditions: tuple[Condition, ...] = ()
    requeue_after: float = 60.0
    """Seconds after which something of it is to be looked at again."""

    @property
    def ready(self) -> bool:
        return self.condition(READY) == TRUE

    def condition(self, kind: str) -> str:
        """True, False or Unknown; empty where nobody has said anything."""
        return next((each.status for each in self.conditions if each.type == kind), "")

    @property
    def zones(self) -> Mapping[str, str]:
        """Zones in which instances can be placed, with their ids."""
        return {each.zone: each.zone_id for each in sorted(self.subnets, key=lambda one: one.zone)}

    @property
    def usable(self) -> frozenset[str]:
        """Ids of the reservations whose instances belong where they are."""
        stay = (ReservationStanding.OFFERED, ReservationStanding.ENDING)
        return frozenset(each.reservation.id for each in self.reservations if each.standing in stay)

    def image_for(self, kind: Requirements) -> ResolvedImage | None:
        """The image that an instance with these labels boots."""
        return select_image(self.images, kind)


def select_image(images: Iterable[ResolvedImage], kind: Requirements) -> ResolvedImage | None:
    """The first that is for such instances; None where they cannot be booted at all."""
    return next((each for each in images if kind.is_compatible(each.requirements)), None)


def to_status(resolved: ResolvedNodeClass) -> wire.EC2NodeClassStatus:
    """As the object in the cluster has it."""
    return wire.EC2NodeClassStatus(
        subnets=[
            wire.Subnet(id=each.id, zone=each.zone, zoneID=each.zone_id)
            for each in resolved.subnets
        ],
        securityGroups=[
            wire.SecurityGroup(id=each.id, name=each.name) for each in resolved.security_groups
        ],
        capacityReservations=reservation_status(resolved.reservations)[:MAX_LISTED_RESERVATIONS]
        or None,
        amis=[_status_image(each) for each in resolved.images],
        instanceProfile=resolved.profile,
        conditions=list(resolved.conditions),
    )


def _status_image(image: ResolvedImage) -> wire.AMI:
    return wire.AMI(
        id=image.id,
        name=image.name,
        deprecated=image.deprecated,
        requirements=[
            wire.AMIRequirement(key=key, operator=operator, values=list(values) or None)
            for key, operator, values, _ in image.requirements.entries()
        ],
    )


def reservations_message(reservations: Sequence[SelectedReservation]) -> str:
    """What the condition says about the reservations; nothing special where all are listed."""
    found = len(reservation_status(reservations))
    if found <= MAX_LISTED_RESERVATIONS:
        return ""
    shown = f"{MAX_LISTED_RESERVATIONS} of them listed here"
    return f"{found} capacity reservations are in use by this class, {shown}"
