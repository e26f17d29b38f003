"""Capacity reservations: which of them a node class selects, which it can use, and at what price.

A reserved offering costs on-demand price ÷ (highest price ÷ lowest spot price) ÷ 1,000,000: below
every other price, so that what is paid for already is used first, and above zero, so that a large
reserved instance is still given up for a small one.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from enum import Enum
from itertools import chain
from typing import Any, Final

import msgspec

from wainwright.api.catalog_documents import Cloud, CloudReservation
from wainwright.api.karpenter.ec2nodeclass import (
    CapacityReservation,
    CapacityReservationSelectorTerm,
    EC2NodeClass,
)
from wainwright.catalogue.diagnostics import ObjectDiagnostic, object_error, object_warning
from wainwright.catalogue.instancetypes.node_class_settings import AmiFamily
from wainwright.catalogue.offerings.layered_offering import (
    LayeredOffering,
    LayeredOfferings,
    PriceLayer,
    PriceStep,
    sort_offerings,
)
from wainwright.model.labels import (
    CAPACITY_TYPE,
    ON_DEMAND,
    RESERVATION_ID,
    RESERVATION_INTERRUPTIBLE,
    RESERVATION_TYPE,
    RESERVED,
    SPOT,
    ZONE,
    ZONE_ID,
)
from wainwright.model.requirements import Requirements

CAPACITY_BLOCK: Final = "capacity-block"
CAPACITY_BLOCK_ENDING: Final = timedelta(
    minutes=40
)  # EC2 begins to take a block's instances half an hour early
ANY_TAG_VALUE: Final = "*"


class ReservationStanding(Enum):
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


class SelectedReservation(msgspec.Struct, frozen=True, kw_only=True):
    """A reservation that the terms of a class select."""

    reservation: CloudReservation
    standing: ReservationStanding

    @property
    def is_offered(self) -> bool:
        return self.standing is ReservationStanding.OFFERED

    @property
    def available(self) -> int:
        free = self.reservation.available
        return self.reservation.total if free is None else free


def matches_reservation_term(
    term: CapacityReservationSelectorTerm, reservation: CloudReservation
) -> bool:
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
        key in tags and value in (ANY_TAG_VALUE, tags[key])
        for key, value in (term.tags or {}).items()
    )


def select_reservations(node_class: EC2NodeClass, cloud: Cloud) -> list[CloudReservation]:
    """What any of the terms selects, in the order of ids."""
    terms = node_class.spec.capacityReservationSelectorTerms or []
    found = [
        each
        for each in cloud.spec.capacityReservations or []
        if any(matches_reservation_term(term, each) for term in terms)
    ]
    return sorted(found, key=lambda each: each.id)


def unmatched_term_warnings(
    node_class: EC2NodeClass, cloud: Cloud | None
) -> list[ObjectDiagnostic]:
    """Terms that select nothing, which is nearly always a slip of the pen."""
    known: Sequence[CloudReservation] = (
        () if cloud is None else cloud.spec.capacityReservations or ()
    )
    terms = node_class.spec.capacityReservationSelectorTerms or []
    message = "this term selects no capacity reservation of the Cloud"
    hint = "" if known else "list reservations in a Cloud under spec.capacityReservations"
    return [
        object_warning(
            node_class.kind,
            node_class.metadata.name,
            ("spec", "capacityReservationSelectorTerms", index),
            message,
            hint,
        )
        for index, term in enumerate(terms)
        if not any(matches_reservation_term(term, each) for each in known)
    ]


def standing_by_time(reservation: CloudReservation, now: datetime) -> ReservationStanding:
    """By state and time alone. Outside its window it is not offered, whatever its state says."""
    if reservation.state != "active":
        return ReservationStanding.NOT_ACTIVE
    if reservation.startTime is not None and now < parse_reservation_time(reservation.startTime):
        return ReservationStanding.NOT_BEGUN
    if reservation.endTime is None:
        return ReservationStanding.OFFERED
    end = parse_reservation_time(reservation.endTime)
    if now >= end:
        return ReservationStanding.ENDED
    block = reservation.reservationType == CAPACITY_BLOCK
    return (
        ReservationStanding.ENDING
        if block and now >= end - CAPACITY_BLOCK_ENDING
        else ReservationStanding.OFFERED
    )


def parse_reservation_time(text: str) -> datetime:
    """A time as Kubernetes writes it; without a zone it is UTC."""
    found = datetime.fromisoformat(text)
    return found if found.tzinfo is not None else datetime.fromisoformat(f"{text}+00:00")


def is_platform_compatible(platform: str, family: AmiFamily) -> bool:
    """Whether instances of the family may run in a reservation for the platform."""
    windows = bool(family.traits.windows_build)
    if platform.startswith("Windows"):
        return windows
    return family is AmiFamily.CUSTOM or (platform == "Linux/UNIX" and not windows)


def reservation_status(found: Sequence[SelectedReservation]) -> list[CapacityReservation]:
    """What the status of the class lists: the active ones among those selected.

    A block whose end is near is still listed, as expiring: its nodes are to be drained.
    """
    listed = (ReservationStanding.OFFERED, ReservationStanding.ENDING)
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
            state="active" if each.standing is ReservationStanding.OFFERED else "expiring",
        )
        for each in found
        if each.standing in listed
    ]


def validate_reservation_times(cloud: Cloud) -> None:
    """Refused where a start or an end is no time."""
    for index, each in enumerate(cloud.spec.capacityReservations or []):
        for field, text in (("startTime", each.startTime), ("endTime", each.endTime)):
            try:
                parse_reservation_time(text or "2000-01-01")
            except ValueError as error:
                path = ("spec", "capacityReservations", index, field)
                message = f"expected a time such as 2026-01-31T08:00:00Z, found {text!r}"
                raise object_error("Cloud", cloud.metadata.name, path, message) from error


ReservationRequest = dict[str, Any]
"""Parameters of one DescribeCapacityReservations call."""


def describe_reservation_requests(
    terms: list[CapacityReservationSelectorTerm],
) -> list[ReservationRequest]:
    """One call for all ids together, and one for every other term: filters cannot be OR-ed."""
    ids = sorted({term.id for term in terms if term.id is not None})
    others = [_term_request(term) for term in terms if term.id is None]
    named = [{"CapacityReservationIds": ids, "Filters": [_ec2_filter("state", "active")]}]
    return [*(named if ids else []), *others]


def _term_request(term: CapacityReservationSelectorTerm) -> ReservationRequest:
    told = (
        ("owner-id", term.ownerID),
        ("instance-match-criteria", term.instanceMatchCriteria),
        ("instance-type", term.instanceType),
        ("availability-zone", term.availabilityZone),
    )
    tags = [
        _ec2_filter("tag-key", key) if value == ANY_TAG_VALUE else _ec2_filter(f"tag:{key}", value)
        for key, value in sorted((term.tags or {}).items())
    ]
    fields = [_ec2_filter(name, value) for name, value in told if value is not None]
    return {"Filters": [_ec2_filter("state", "active"), *fields, *tags]}


def _ec2_filter(name: str, value: str) -> dict[str, Any]:
    return {"Name": name, "Values": [value]}


MIN_RESERVED_PRICE: Final = sys.float_info.min
RESERVED_PRICE_DIVISOR: Final = 1_000_000


class PriceRange(msgspec.Struct, frozen=True, kw_only=True):
    """The two prices that the formula needs. Prices of zero count for neither."""

    dearest: float = 1.0
    """Of all offerings that are not reserved."""
    cheapest_spot: float = 1.0
    """The cheapest on-demand price stands in where nothing is sold as spot."""
    cheapest: float = 1.0

    def reserved(self, on_demand: float) -> float:
        """The price of a reserved offering whose on-demand price is this one.

        What costs nothing on demand counts as the cheapest: it is still the first to be used.
        """
        counted = on_demand or self.cheapest
        price = counted / (self.dearest / self.cheapest_spot) / RESERVED_PRICE_DIVISOR
        return max(price, MIN_RESERVED_PRICE)


def price_range(offerings: Iterable[LayeredOffering]) -> PriceRange:
    """Over all offerings of a catalogue, in stock or not."""
    prices: list[float] = []
    spot: list[float] = []
    on_demand: list[float] = []
    by_type = {SPOT: spot, ON_DEMAND: on_demand}
    for offering in offerings:
        if offering.price and not offering.reserved:
            prices.append(offering.price)
            by_type.get(offering.capacity_type or "", prices).append(offering.price)
    if not prices:
        return PriceRange()
    return PriceRange(
        dearest=max(prices),
        cheapest_spot=min(spot or on_demand or prices),
        cheapest=min(prices),
    )


def on_demand_price_in_zone(offerings: Iterable[LayeredOffering], zone: str) -> float | None:
    """What the type costs on demand in the zone, or where that is not said, wherever it is."""
    known = {
        offering.zone: offering.price
        for offering in offerings
        if _is_on_demand(offering) and offering.price is not None
    }
    if zone in known:
        return known[zone]
    return known[None] if None in known else max(known.values(), default=None)


def _is_on_demand(offering: LayeredOffering) -> bool:
    return offering.capacity_type == ON_DEMAND and not offering.reserved


class ReservationContext(msgspec.Struct, frozen=True, kw_only=True):
    """Where and when reservations are looked for."""

    cloud: Cloud
    family: AmiFamily
    zones: Mapping[str, str]
    all_zones: frozenset[str]
    now: datetime


def evaluate_reservations(
    place: ReservationContext, node_class: EC2NodeClass, offerings: LayeredOfferings
) -> list[SelectedReservation]:
    """Every reservation that the class selects, offered or not."""
    return [
        SelectedReservation(reservation=each, standing=_evaluate_standing(each, place, offerings))
        for each in select_reservations(node_class, place.cloud)
    ]


def _evaluate_standing(
    reservation: CloudReservation, place: ReservationContext, offerings: LayeredOfferings
) -> ReservationStanding:
    zone = reservation.availabilityZone
    tests = (
        (place.all_zones and zone not in place.all_zones, ReservationStanding.NO_SUCH_ZONE),
        (place.zones and zone not in place.zones, ReservationStanding.OTHER_ZONE),
        (reservation.instanceType not in offerings, ReservationStanding.NO_SUCH_TYPE),
        (reservation.tenancy != "default", ReservationStanding.OTHER_TENANCY),
        (
            not is_platform_compatible(reservation.platform, place.family),
            ReservationStanding.OTHER_PLATFORM,
        ),
    )
    failed = (standing for fails, standing in tests if fails)
    return next(failed, standing_by_time(reservation, place.now))


def add_reserved_offerings(
    place: ReservationContext, found: Sequence[SelectedReservation], offerings: LayeredOfferings
) -> tuple[LayeredOfferings, list[ObjectDiagnostic]]:
    """The offerings with those of the reservations; one that a Catalog has already is replaced."""
    if not found:
        return offerings, []
    replaced = {each.reservation.id for each in found}
    known = {name: _without_reservations(each, replaced) for name, each in offerings.items()}
    prices = price_range(chain.from_iterable(known.values()))
    remarks: list[ObjectDiagnostic] = []
    added: dict[str, list[LayeredOffering]] = {}
    for each in found:
        if each.standing is ReservationStanding.OFFERED:
            name = each.reservation.instanceType
            price = on_demand_price_in_zone(known[name], each.reservation.availabilityZone)
            if price is None:
                remarks.append(_unpriced_warning(place.cloud, each.reservation, prices))
            added.setdefault(name, []).append(_reserved_offering(each, place.zones, price, prices))
    return known | {
        name: sort_offerings([*known[name], *offerings]) for name, offerings in added.items()
    }, remarks


def catalog_reservations(offerings: LayeredOfferings) -> list[SelectedReservation]:
    """Reservations that a Catalog brings along: open to every class, and known by their count."""
    found: dict[str, list[tuple[str, LayeredOffering]]] = {}
    for name, each in offerings.items():
        for offering in each:
            if offering.reservation_id is not None:
                found.setdefault(offering.reservation_id, []).append((name, offering))
    return [_catalog_reservation(identity, found[identity]) for identity in sorted(found)]


def _catalog_reservation(
    identity: str, offerings: Sequence[tuple[str, LayeredOffering]]
) -> SelectedReservation:
    """Its offerings share one count: where they differ, the smallest of those that can be had."""
    name, first = offerings[0]
    reservation = CloudReservation(
        id=identity,
        instanceType=name,
        availabilityZone=first.zone or "",
        total=min(
            (offering.available for _, offering in offerings if offering.available), default=0
        ),
    )
    return SelectedReservation(reservation=reservation, standing=ReservationStanding.OFFERED)


def _without_reservations(
    offerings: tuple[LayeredOffering, ...], ids: set[str]
) -> tuple[LayeredOffering, ...]:
    if all(offering.reservation_id not in ids for offering in offerings):
        return offerings
    return tuple(offering for offering in offerings if offering.reservation_id not in ids)


def _reserved_offering(
    found: SelectedReservation,
    zones: Mapping[str, str],
    on_demand: float | None,
    prices: PriceRange,
) -> LayeredOffering:
    reservation = found.reservation
    counted = prices.dearest if on_demand is None else on_demand
    price = prices.reserved(counted)
    how = (
        f"{counted} on demand ÷ (dearest {prices.dearest} ÷ cheapest spot "
        f"{prices.cheapest_spot}) ÷ 1,000,000"
    )
    step = PriceStep(
        layer=PriceLayer.RESERVATION, source=reservation.id, before=None, after=price, how=how
    )
    return LayeredOffering(
        requirements=Requirements.from_labels(_reservation_labels(reservation, zones)),
        price=price,
        available=found.available,
        reservation_id=reservation.id,
        steps=(step,),
    )


def _reservation_labels(reservation: CloudReservation, zones: Mapping[str, str]) -> dict[str, str]:
    zone_id = zones.get(reservation.availabilityZone, "")
    return {
        CAPACITY_TYPE: RESERVED,
        ZONE: reservation.availabilityZone,
        RESERVATION_ID: reservation.id,
        RESERVATION_TYPE: reservation.reservationType,
        RESERVATION_INTERRUPTIBLE: "true" if reservation.interruptible else "false",
        **({ZONE_ID: zone_id} if zone_id else {}),
    }


def _unpriced_warning(
    cloud: Cloud, reservation: CloudReservation, prices: PriceRange
) -> ObjectDiagnostic:
    message = (
        f"{reservation.instanceType} has no on-demand price; the reservation {reservation.id} "
        f"counts as the dearest, {prices.dearest}"
    )
    hint = "give the type a price in the Cloud"
    path = ("spec", "capacityReservations", _reservation_position(cloud, reservation))
    return object_warning("Cloud", cloud.metadata.name, path, message, hint)


def _reservation_position(cloud: Cloud, reservation: CloudReservation) -> int:
    return [each.id for each in cloud.spec.capacityReservations or []].index(reservation.id)


def unusable_reservation_warnings(
    cloud: Cloud, found: Sequence[SelectedReservation]
) -> Iterator[ObjectDiagnostic]:
    """Selected reservations that name what does not exist."""
    fields = {
        ReservationStanding.NO_SUCH_ZONE: "availabilityZone",
        ReservationStanding.NO_SUCH_TYPE: "instanceType",
    }
    for each in found:
        if each.standing in fields:
            position = _reservation_position(cloud, each.reservation)
            path = ("spec", "capacityReservations", position, fields[each.standing])
            message = f"{each.reservation.id} {each.standing.value}, and is not offered"
            yield object_warning("Cloud", cloud.metadata.name, path, message)
