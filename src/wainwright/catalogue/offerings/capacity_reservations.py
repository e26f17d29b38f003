"""Capacity reservations: which of them a node class selects, which it can use, and at what price.

A reserved offering costs on-demand price ÷ (highest price ÷ lowest spot price) ÷ 1,000,000: below
every other price, so that capacity that is paid for already is used first, and above zero, so that
a smaller reserved instance is preferred to a larger one. Highest and lowest are over the offerings
of all NodePools, so that the order holds between them as well.
"""

import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from enum import Enum
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
from wainwright.catalogue.offerings.capacity_state import CapacityState
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
CAPACITY_BLOCK_ENDING: Final = timedelta(minutes=40)
"""EC2 begins to terminate the instances of a block half an hour before its end."""
ANY_TAG_VALUE: Final = "*"


class ReservationStanding(Enum):
    """Whether a selected reservation is offered; the value is the rest of a sentence."""

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
    """A reservation that the selector terms of a class match."""

    reservation: CloudReservation
    standing: ReservationStanding

    @property
    def is_offered(self) -> bool:
        return self.standing is ReservationStanding.OFFERED

    @property
    def available(self) -> int:
        available = self.reservation.available
        return self.reservation.total if available is None else available


def matches_reservation_term(
    term: CapacityReservationSelectorTerm, reservation: CloudReservation
) -> bool:
    """Whether the reservation has every property that the term names."""
    properties = (
        (term.id, reservation.id),
        (term.ownerID, reservation.ownerID),
        (term.instanceMatchCriteria, reservation.instanceMatchCriteria),
        (term.instanceType, reservation.instanceType),
        (term.availabilityZone, reservation.availabilityZone),
    )
    if any(wanted is not None and wanted != actual for wanted, actual in properties):
        return False
    if term.reservationGroup not in (None, *(reservation.groups or ())):
        return False
    tags = reservation.tags or {}
    return all(
        key in tags and value in (ANY_TAG_VALUE, tags[key])
        for key, value in (term.tags or {}).items()
    )


def select_reservations(
    node_class: EC2NodeClass, reservations: Iterable[CloudReservation]
) -> list[CloudReservation]:
    """The reservations that any of the terms matches, in the order of ids."""
    terms = node_class.spec.capacityReservationSelectorTerms or []
    selected = [
        each for each in reservations if any(matches_reservation_term(term, each) for term in terms)
    ]
    return sorted(selected, key=lambda each: each.id)


def unmatched_term_warnings(
    node_class: EC2NodeClass, capacity: CapacityState
) -> list[ObjectDiagnostic]:
    """Warnings about terms that match no reservation, which is nearly always a mistake."""
    known, terms = capacity.reservations, node_class.spec.capacityReservationSelectorTerms or []
    where = "account" if capacity.from_account else "Cloud"
    message = f"this term selects no capacity reservation of the {where}"
    is_empty_cloud = not known and not capacity.from_account
    hint = "list reservations in a Cloud under spec.capacityReservations" if is_empty_cloud else ""
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
    """The standing by state and time alone; outside its window a reservation is not offered."""
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
    """A time in the format of Kubernetes; UTC without a time zone."""
    time = datetime.fromisoformat(text)
    return time if time.tzinfo is not None else datetime.fromisoformat(f"{text}+00:00")


def is_platform_compatible(platform: str, family: AmiFamily) -> bool:
    """Whether instances of the AMI family may run in a reservation for the platform."""
    windows = bool(family.traits.windows_build)
    if platform.startswith("Windows"):
        return windows
    return family is AmiFamily.CUSTOM or (platform == "Linux/UNIX" and not windows)


def reservation_status(selected: Sequence[SelectedReservation]) -> list[CapacityReservation]:
    """The active ones of the selected reservations, for the status of the class.

    A capacity block near its end is still listed, as expiring: its nodes are to be drained.
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
            reservationGroups=each.reservation.groups,
        )
        for each in selected
        if each.standing in listed
    ]


def validate_reservation_times(cloud: Cloud) -> None:
    """Raise InvalidCatalogInput where a start or end is not a time."""
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
GroupMembers = Mapping[str, frozenset[str]]
"""The ids of the reservations in each group, by the ARN of the group."""
MAX_IDS_PER_REQUEST: Final = 200


def describe_reservation_requests(
    terms: list[CapacityReservationSelectorTerm], members: GroupMembers | None = None
) -> list[ReservationRequest]:
    """One call for all ids together, and one for every other term: filters cannot be OR-ed.

    EC2 has no filter for groups: a term with one names the members of the group by id.
    """
    ids = {term.id for term in terms if term.id is not None}
    active_only = {"Filters": [_ec2_filter("state", "active")]}
    requests = _named_requests(active_only, ids)
    for term in terms:
        if term.id is None and term.reservationGroup is None:
            requests.append(_term_request(term))
        elif term.reservationGroup is not None:
            group = (members or {}).get(term.reservationGroup, frozenset())
            requests += _named_requests(_term_request(term), group)
    return requests


def _named_requests(request: ReservationRequest, ids: Collection[str]) -> list[ReservationRequest]:
    """The request for these reservations only; none where there are no ids."""
    in_order = sorted(ids)
    return [
        {"CapacityReservationIds": in_order[start : start + MAX_IDS_PER_REQUEST], **request}
        for start in range(0, len(in_order), MAX_IDS_PER_REQUEST)
    ]


def _term_request(term: CapacityReservationSelectorTerm) -> ReservationRequest:
    properties = (
        ("owner-id", term.ownerID),
        ("instance-match-criteria", term.instanceMatchCriteria),
        ("instance-type", term.instanceType),
        ("availability-zone", term.availabilityZone),
    )
    tags = [
        _ec2_filter("tag-key", key) if value == ANY_TAG_VALUE else _ec2_filter(f"tag:{key}", value)
        for key, value in sorted((term.tags or {}).items())
    ]
    fields = [_ec2_filter(name, value) for name, value in properties if value is not None]
    return {"Filters": [_ec2_filter("state", "active"), *fields, *tags]}


def _ec2_filter(name: str, value: str) -> dict[str, Any]:
    return {"Name": name, "Values": [value]}


MIN_RESERVED_PRICE: Final = sys.float_info.min
RESERVED_PRICE_DIVISOR: Final = 1_000_000


class PriceRange(msgspec.Struct, frozen=True, kw_only=True):
    """The two prices that the formula needs. Prices of zero count for neither."""

    highest: float = 1.0
    """Of all offerings that are not reserved."""
    lowest_spot: float = 1.0
    """The lowest on-demand price where there are no spot offerings."""
    lowest: float = 1.0

    def reserved_price(self, on_demand: float) -> float:
        """The price of a reserved offering with this on-demand price.

        An on-demand price of zero counts as the lowest price, so that the result is not zero.
        """
        counted = on_demand or self.lowest
        price = counted / (self.highest / self.lowest_spot) / RESERVED_PRICE_DIVISOR
        return max(price, MIN_RESERVED_PRICE)


def price_range(offerings: Iterable[LayeredOffering]) -> PriceRange:
    """The price range over all of the offerings, available or not."""
    prices: list[float] = []
    spot: list[float] = []
    on_demand: list[float] = []
    by_type = {SPOT: spot, ON_DEMAND: on_demand}
    for offering in offerings:
        if offering.price and not offering.is_reserved:
            prices.append(offering.price)
            by_type.get(offering.capacity_type or "", prices).append(offering.price)
    if not prices:
        return PriceRange()
    return PriceRange(
        highest=max(prices),
        lowest_spot=min(spot or on_demand or prices),
        lowest=min(prices),
    )


def on_demand_price_in_zone(offerings: Iterable[LayeredOffering], zone: str) -> float | None:
    """The on-demand price in the zone, else that for any zone, else the highest of the others."""
    prices = {
        offering.zone: offering.price
        for offering in offerings
        if _is_on_demand(offering) and offering.price is not None
    }
    if zone in prices:
        return prices[zone]
    return prices[None] if None in prices else max(prices.values(), default=None)


def _is_on_demand(offering: LayeredOffering) -> bool:
    return offering.capacity_type == ON_DEMAND and not offering.is_reserved


class ReservationContext(msgspec.Struct, frozen=True, kw_only=True):
    """What decides whether a reservation can be used: its state and time, AMI family, zones."""

    capacity: CapacityState
    family: AmiFamily
    zones: Mapping[str, str]
    all_zones: frozenset[str]


def evaluate_reservations(
    context: ReservationContext, node_class: EC2NodeClass, offerings: LayeredOfferings
) -> list[SelectedReservation]:
    """Every reservation that the class selects, offered or not."""
    return [
        SelectedReservation(reservation=each, standing=_evaluate_standing(each, context, offerings))
        for each in select_reservations(node_class, context.capacity.reservations)
    ]


def _evaluate_standing(
    reservation: CloudReservation, context: ReservationContext, offerings: LayeredOfferings
) -> ReservationStanding:
    zone = reservation.availabilityZone
    tests = (
        (context.all_zones and zone not in context.all_zones, ReservationStanding.NO_SUCH_ZONE),
        (context.zones and zone not in context.zones, ReservationStanding.OTHER_ZONE),
        (reservation.instanceType not in offerings, ReservationStanding.NO_SUCH_TYPE),
        (reservation.tenancy != "default", ReservationStanding.OTHER_TENANCY),
        (
            not is_platform_compatible(reservation.platform, context.family),
            ReservationStanding.OTHER_PLATFORM,
        ),
    )
    failed = (standing for fails, standing in tests if fails)
    return next(failed, standing_by_time(reservation, context.capacity.now))


def add_reserved_offerings(
    context: ReservationContext,
    selected: Sequence[SelectedReservation],
    offerings: LayeredOfferings,
    prices: PriceRange,
) -> tuple[LayeredOfferings, list[ObjectDiagnostic]]:
    """The offerings with those of the reservations; one that a Catalog has as well is replaced."""
    replaced = {each.reservation.id for each in selected}
    remaining = {name: _without_reservations(each, replaced) for name, each in offerings.items()}
    diagnostics: list[ObjectDiagnostic] = []
    added: dict[str, list[LayeredOffering]] = {}
    for each in selected:
        if each.standing is ReservationStanding.OFFERED:
            name = each.reservation.instanceType
            price = on_demand_price_in_zone(remaining[name], each.reservation.availabilityZone)
            if price is None:
                diagnostics.append(_unpriced_warning(context.capacity, each.reservation, prices))
            added.setdefault(name, []).append(
                _reserved_offering(each, context.zones, price, prices)
            )
    return remaining | {
        name: sort_offerings([*remaining[name], *offerings]) for name, offerings in added.items()
    }, diagnostics


def catalog_reservations(offerings: LayeredOfferings) -> list[SelectedReservation]:
    """The reservations of a Catalog: every class can use them, and only their count is known."""
    by_id: dict[str, list[tuple[str, LayeredOffering]]] = {}
    for name, each in offerings.items():
        for offering in each:
            if offering.reservation_id is not None and not offering.is_excluded:
                by_id.setdefault(offering.reservation_id, []).append((name, offering))
    return [
        _catalog_reservation(reservation_id, by_id[reservation_id])
        for reservation_id in sorted(by_id)
    ]


def _catalog_reservation(
    reservation_id: str, offerings: Sequence[tuple[str, LayeredOffering]]
) -> SelectedReservation:
    """The offerings of one id share a count: where they differ, the smallest that is not zero."""
    name, first = offerings[0]
    reservation = CloudReservation(
        id=reservation_id,
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
    selected: SelectedReservation,
    zones: Mapping[str, str],
    on_demand: float | None,
    prices: PriceRange,
) -> LayeredOffering:
    reservation = selected.reservation
    counted = prices.highest if on_demand is None else on_demand
    price = prices.reserved_price(counted)
    how = (
        f"{counted} on demand ÷ (highest price {prices.highest} ÷ cheapest spot "
        f"{prices.lowest_spot}) ÷ 1,000,000"
    )
    step = PriceStep(
        layer=PriceLayer.RESERVATION, source=reservation.id, before=None, after=price, how=how
    )
    return LayeredOffering(
        requirements=Requirements.from_labels(_reservation_labels(reservation, zones)),
        price=price,
        available=selected.available,
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
    capacity: CapacityState, reservation: CloudReservation, prices: PriceRange
) -> ObjectDiagnostic:
    message = (
        f"{reservation.instanceType} has no on-demand price; the reservation {reservation.id} "
        f"counts as the most expensive, {prices.highest}"
    )
    hint = "give the type a price in the Cloud"
    return capacity.reservation_warning(reservation, (), message, hint)


def unusable_reservation_warnings(
    capacity: CapacityState, selected: Sequence[SelectedReservation]
) -> Iterator[ObjectDiagnostic]:
    """Warnings about selected reservations with an unknown zone or instance type."""
    fields = {
        ReservationStanding.NO_SUCH_ZONE: "availabilityZone",
        ReservationStanding.NO_SUCH_TYPE: "instanceType",
    }
    for each in selected:
        if each.standing in fields:
            message = f"{each.reservation.id} {each.standing.value}, and is not offered"
            yield capacity.reservation_warning(each.reservation, (fields[each.standing],), message)
