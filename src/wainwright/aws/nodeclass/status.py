"""The resolved EC2NodeClass: the resources that it selects, its conditions, and its status.

A value that launches and drift work from; `to_status` converts it to the status of the object in
the cluster.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Generic, TypeVar

import msgspec

from wainwright.api.karpenter import ec2nodeclass as wire
from wainwright.api.wire import Condition
from wainwright.catalogue.offerings.capacity_reservations import (
    ReservationStanding,
    SelectedReservation,
    reservation_status,
)
from wainwright.clock import format_timestamp
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
"""Conditions that do not affect readiness."""

TRUE, FALSE, UNKNOWN = "True", "False", "Unknown"
MAX_MESSAGE_LENGTH: Final = 1000
"""Characters of a message; errors of EC2 can contain a long encoded authorization message."""

Value = TypeVar("Value")


class ConditionState(msgspec.Struct, frozen=True, kw_only=True):
    """The current state of one condition of a class."""

    type: str
    status: str
    reason: str
    message: str = ""

    @property
    def is_true(self) -> bool:
        return self.status == TRUE


class ResolvedPart(msgspec.Struct, Generic[Value], frozen=True, kw_only=True):
    """The result of one kind of selector, with its condition."""

    value: Value
    condition: ConditionState
    requeue_after: float
    """Seconds after which it may have changed."""
    outdated: bool = False
    """Whether it is an earlier result, because AWS could not be asked."""


def condition_true(condition_type: str, message: str = "") -> ConditionState:
    return ConditionState(
        type=condition_type,
        status=TRUE,
        reason=condition_type,
        message=_truncate_message(message),
    )


def condition_false(condition_type: str, reason: str, message: str) -> ConditionState:
    return ConditionState(
        type=condition_type, status=FALSE, reason=reason, message=_truncate_message(message)
    )


def condition_unknown(condition_type: str, reason: str, message: str) -> ConditionState:
    return ConditionState(
        type=condition_type, status=UNKNOWN, reason=reason, message=_truncate_message(message)
    )


def ready_condition(conditions: Sequence[ConditionState]) -> ConditionState:
    """The Ready condition: False takes precedence over Unknown."""
    counted = [each for each in conditions if each.type not in INFORMATIONAL_CONDITIONS]
    for status, reason in ((FALSE, "UnhealthyDependents"), (UNKNOWN, "ReconcilingDependents")):
        causes = [f"{each.type}={status}" for each in counted if each.status == status]
        if causes:
            message = ", ".join(causes)
            return ConditionState(type=READY, status=status, reason=reason, message=message)
    return condition_true(READY)


def to_conditions(
    conditions: Iterable[ConditionState],
    before: Iterable[Condition],
    generation: int | None,
    now: float,
) -> tuple[Condition, ...]:
    """Conditions for the status; lastTransitionTime stays if the status is unchanged."""
    known = {each.type: each for each in before}
    return tuple(_to_condition(each, known.get(each.type), generation, now) for each in conditions)


def _to_condition(
    condition: ConditionState, before: Condition | None, generation: int | None, now: float
) -> Condition:
    unchanged = before is not None and before.status == condition.status
    return Condition(
        type=condition.type,
        status=condition.status,
        lastTransitionTime=before.lastTransitionTime
        if before and unchanged
        else format_timestamp(now),
        reason=condition.reason,
        message=condition.message,
        observedGeneration=generation,
    )


def _truncate_message(message: str) -> str:
    return (
        message if len(message) <= MAX_MESSAGE_LENGTH else message[: MAX_MESSAGE_LENGTH - 1] + "…"
    )


MAX_LISTED_RESERVATIONS: Final = 500
"""How many capacity reservations a status lists.

An entry takes about 250 bytes, and a Kubernetes object may have at most about 1.5 MB, which all
watchers receive at every change. Nothing depends on the list: launches and drift use the whole of
`ResolvedNodeClass.reservations`. The list is truncated in the order of ids, so that it does not
change with the available counts; the condition has the total number.
"""


class ResolvedSubnet(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    zone: str
    zone_id: str
    free_addresses: int


class ResolvedSecurityGroup(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    name: str


class ResolvedImage(msgspec.Struct, frozen=True, kw_only=True):
    """An AMI, and the instance types that it is for."""

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
    """A class with the resources that it selects now. Lists are in the order of preference."""

    name: str
    uid: str
    generation: int | None = None
    subnets: tuple[ResolvedSubnet, ...] = ()
    """Most free addresses first."""
    security_groups: tuple[ResolvedSecurityGroup, ...] = ()
    images: tuple[ResolvedImage, ...] = ()
    """Newest first; the same id can occur with several requirements."""
    profile: str = ""
    reservations: tuple[SelectedReservation, ...] = ()
    """All active reservations that the terms select, usable by this class or not."""
    placement_group: ResolvedPlacementGroup | None = None
    cluster_cidr: str = ""
    conditions: tuple[Condition, ...] = ()
    requeue_after: float = 60.0
    """Seconds after which it is to be resolved again."""
    outdated: bool = False
    """Whether a part of it is an earlier result, because AWS could not be asked."""

    @property
    def is_ready(self) -> bool:
        return self.condition_status(READY) == TRUE

    def condition_status(self, condition_type: str) -> str:
        """True, False or Unknown; empty if there is no such condition."""
        return next((each.status for each in self.conditions if each.type == condition_type), "")

    @property
    def zones(self) -> Mapping[str, str]:
        """Zones with a subnet, with their ids."""
        return {each.zone: each.zone_id for each in sorted(self.subnets, key=lambda one: one.zone)}

    @property
    def usable_reservations(self) -> frozenset[str]:
        """Ids of the reservations whose instances are not drifted."""
        usable = (ReservationStanding.OFFERED, ReservationStanding.ENDING)
        return frozenset(
            each.reservation.id for each in self.reservations if each.standing in usable
        )

    def image_for(self, type_requirements: Requirements) -> ResolvedImage | None:
        """The image that an instance type with these labels boots."""
        return select_image(self.images, type_requirements)


def select_image(
    images: Iterable[ResolvedImage], type_requirements: Requirements
) -> ResolvedImage | None:
    """The first compatible image; None if the instance type cannot boot any."""
    return next(
        (each for each in images if type_requirements.is_compatible(each.requirements)), None
    )


def to_status(resolved: ResolvedNodeClass) -> wire.EC2NodeClassStatus:
    """The status of the object in the cluster."""
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
    """The message of the condition; empty if the status lists all reservations."""
    count = len(reservation_status(reservations))
    if count <= MAX_LISTED_RESERVATIONS:
        return ""
    shown = f"{MAX_LISTED_RESERVATIONS} of them listed here"
    return f"{count} capacity reservations are in use by this class, {shown}"
