"""Reservations: the capacity reservations that a class selects, and which of them can be used."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import Enum
from typing import Final

import msgspec

from wainwright.api.cloud import Cloud, Reservation
from wainwright.api.ec2nodeclass import CapacityReservation, EC2NodeClass
from wainwright.api.selectors import ReservationTerm
from wainwright.catalogue.ami import AmiFamily
from wainwright.catalogue.remarks import Remark, refusal, warning

CAPACITY_BLOCK: Final = "capacity-block"
ENDING: Final = timedelta(minutes=40)  # EC2 begins to take a block's instances half an hour early
ANY_VALUE: Final = "*"


class Standing(Enum):
    """Whether a selected reservation is offered; the value is the rest of a sentence about it."""

    OFFERED = "is offered"
    NOT_ACTIVE = "is not active"
    NOT_BEGUN = "has not begun"
    ENDED = "has ended"
    ENDING = "is a capacity block in its last 40 minutes"
    OTHER_PLATFORM = "is for another operating system than the class's"
    OTHER_TENANCY = "is for dedicated hardware"
    OTHER_ZONE = "lies in a zone that is left out"
    NO_SUCH_ZONE = "lies in a zone that the region does not have"
    NO_SUCH_TYPE = "is for an instance type that is not in the catalogue"


class Selected(msgspec.Struct, frozen=True, kw_only=True):
    """A reservation that the terms of a class select."""

    reservation: Reservation
    standing: Standing

    @property
    def is_offered(self) -> bool:
        return self.standing is Standing.OFFERED

    @property
    def available(self) -> int:
        free = self.reservation.available
        return self.reservation.total if free is None else free


def selects(term: ReservationTerm, reservation: Reservation) -> bool:
    """Whether everything that the term says is true of the reservation."""
    told = (
        (term.id, reservation.id),
        (term.ownerID, reservation.ownerID),
        (term.instanceMatchCriteria, reservation.instanceMatchCriteria),
        (term.instanceType, reservation.instanceType),
        (term.availabilityZone, reservation.availabilityZone),
    )
    if any(wanted is not None and wanted != found for wanted, found in told):
        return False
    tags = reservation.tags or {}
    return all(
        key in tags and value in (ANY_VALUE, tags[key]) for key, value in (term.tags or {}).items()
    )


def selected(node_class: EC2NodeClass, cloud: Cloud) -> list[Reservation]:
    """What any of the terms selects, in the order of ids."""
    terms = node_class.spec.capacityReservationSelectorTerms or []
    found = [
        each
        for each in cloud.spec.capacityReservations or []
        if any(selects(term, each) for term in terms)
    ]
    return sorted(found, key=lambda each: each.id)


def idle_terms(node_class: EC2NodeClass, cloud: Cloud | None) -> list[Remark]:
    """Terms that select nothing, which is nearly always a slip of the pen."""
    known: Sequence[Reservation] = () if cloud is None else cloud.spec.capacityReservations or ()
    terms = node_class.spec.capacityReservationSelectorTerms or []
    message = "this term selects no capacity reservation of the Cloud"
    hint = "" if known else "list reservations in a Cloud under spec.capacityReservations"
    return [
        warning(
            node_class.kind,
            node_class.metadata.name,
            ("spec", "capacityReservationSelectorTerms", index),
            message,
            hint,
        )
        for index, term in enumerate(terms)
        if not any(selects(term, each) for each in known)
    ]


def timing(reservation: Reservation, now: datetime) -> Standing:
    """By state and time alone. Outside its window it is not offered, whatever its state says."""
    if reservation.state != "active":
        return Standing.NOT_ACTIVE
    if reservation.startTime is not None and now < moment(reservation.startTime):
        return Standing.NOT_BEGUN
    if reservation.endTime is None:
        return Standing.OFFERED
    end = moment(reservation.endTime)
    if now >= end:
        return Standing.ENDED
    block = reservation.reservationType == CAPACITY_BLOCK
    return Standing.ENDING if block and now >= end - ENDING else Standing.OFFERED


def moment(text: str) -> datetime:
    """A time as Kubernetes writes it; without a zone it is UTC."""
    found = datetime.fromisoformat(text)
    return found if found.tzinfo is not None else datetime.fromisoformat(f"{text}+00:00")


def serves(platform: str, family: AmiFamily) -> bool:
    """Whether instances of the family may run in a reservation for the platform."""
    windows = bool(family.traits.windows_build)
    if platform.startswith("Windows"):
        return windows
    return family is AmiFamily.CUSTOM or (platform == "Linux/UNIX" and not windows)


def status(found: Sequence[Selected]) -> list[CapacityReservation]:
    """What the status of the class lists: the active ones among those selected.

    A block whose end is near is still listed, as expiring: its nodes are to be drained.
    """
    listed = (Standing.OFFERED, Standing.ENDING)
    return [
        CapacityReservation(
            id=each.reservation.id,
            availabilityZone=each.reservation.availabilityZone,
            instanceType=each.reservation.instanceType,
            instanceMatchCriteria=each.reservation.instanceMatchCriteria,
            ownerID=each.reservation.ownerID or "",
            endTime=each.reservation.endTime,
            interruptible=each.reservation.interruptible,
            reservationType=each.reservation.reservationType,
            state="active" if each.standing is Standing.OFFERED else "expiring",
        )
        for each in found
        if each.standing in listed
    ]


def check_times(cloud: Cloud) -> None:
    """Refused where a start or an end is no time."""
    for index, each in enumerate(cloud.spec.capacityReservations or []):
        for field, text in (("startTime", each.startTime), ("endTime", each.endTime)):
            try:
                moment(text or "2000-01-01")
            except ValueError as error:
                path = ("spec", "capacityReservations", index, field)
                message = f"expected a time such as 2026-01-31T08:00:00Z, found {text!r}"
                raise refusal("Cloud", cloud.metadata.name, path, message) from error
