"""Reserving: a lot for every capacity reservation that a class may use."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain

import msgspec

from wainwright.api.cloud import Cloud, Reservation
from wainwright.api.ec2nodeclass import EC2NodeClass
from wainwright.catalogue.ami import AmiFamily
from wainwright.catalogue.lots import Layer, Lot, Lots, Step, ordered
from wainwright.catalogue.remarks import Remark, warning
from wainwright.catalogue.reservations import Selected, Standing, selected, serves, timing
from wainwright.catalogue.reserved_price import Extremes, extremes, on_demand_price
from wainwright.model.labels import (
    CAPACITY_TYPE,
    RESERVATION_ID,
    RESERVATION_INTERRUPTIBLE,
    RESERVATION_TYPE,
    RESERVED,
    ZONE,
    ZONE_ID,
)
from wainwright.model.requirements import Requirements


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where and when reservations are looked for."""

    cloud: Cloud
    family: AmiFamily
    zones: Mapping[str, str]
    all_zones: frozenset[str]
    now: datetime


def standings(place: Place, node_class: EC2NodeClass, lots: Lots) -> list[Selected]:
    """Every reservation that the class selects, offered or not."""
    return [
        Selected(reservation=each, standing=_standing(each, place, lots))
        for each in selected(node_class, place.cloud)
    ]


def _standing(reservation: Reservation, place: Place, lots: Lots) -> Standing:
    zone = reservation.availabilityZone
    tests = (
        (place.all_zones and zone not in place.all_zones, Standing.NO_SUCH_ZONE),
        (place.zones and zone not in place.zones, Standing.OTHER_ZONE),
        (reservation.instanceType not in lots, Standing.NO_SUCH_TYPE),
        (reservation.tenancy != "default", Standing.OTHER_TENANCY),
        (not serves(reservation.platform, place.family), Standing.OTHER_PLATFORM),
    )
    failed = (standing for fails, standing in tests if fails)
    return next(failed, timing(reservation, place.now))


def reserved_lots(place: Place, found: Sequence[Selected], lots: Lots) -> tuple[Lots, list[Remark]]:
    """The lots with those of the reservations; one that a Catalog has already is replaced."""
    if not found:
        return lots, []
    replaced = {each.reservation.id for each in found}
    known = {name: _without(each, replaced) for name, each in lots.items()}
    prices = extremes(chain.from_iterable(known.values()))
    remarks: list[Remark] = []
    added: dict[str, list[Lot]] = {}
    for each in found:
        if each.standing is Standing.OFFERED:
            name = each.reservation.instanceType
            price = on_demand_price(known[name], each.reservation.availabilityZone)
            if price is None:
                remarks.append(_unpriced(place.cloud, each.reservation, prices))
            added.setdefault(name, []).append(_lot(each, place.zones, price, prices))
    return known | {name: ordered([*known[name], *lots]) for name, lots in added.items()}, remarks


def brought(lots: Lots) -> list[Selected]:
    """Reservations that a Catalog brings along: open to every class, and known by their count."""
    found: dict[str, list[tuple[str, Lot]]] = {}
    for name, each in lots.items():
        for lot in each:
            if lot.reservation_id is not None:
                found.setdefault(lot.reservation_id, []).append((name, lot))
    return [_brought(identity, found[identity]) for identity in sorted(found)]


def _brought(identity: str, lots: Sequence[tuple[str, Lot]]) -> Selected:
    """Its lots share one count: where they differ, the smallest of those that can be had."""
    name, first = lots[0]
    reservation = Reservation(
        id=identity,
        instanceType=name,
        availabilityZone=first.zone or "",
        total=min((lot.available for _, lot in lots if lot.available), default=0),
    )
    return Selected(reservation=reservation, standing=Standing.OFFERED)


def _without(lots: tuple[Lot, ...], ids: set[str]) -> tuple[Lot, ...]:
    if all(lot.reservation_id not in ids for lot in lots):
        return lots
    return tuple(lot for lot in lots if lot.reservation_id not in ids)


def _lot(
    found: Selected, zones: Mapping[str, str], on_demand: float | None, prices: Extremes
) -> Lot:
    reservation = found.reservation
    counted = prices.dearest if on_demand is None else on_demand
    price = prices.reserved(counted)
    how = (
        f"{counted} on demand ÷ (dearest {prices.dearest} ÷ cheapest spot "
        f"{prices.cheapest_spot}) ÷ 1,000,000"
    )
    step = Step(layer=Layer.RESERVATION, source=reservation.id, before=None, after=price, how=how)
    return Lot(
        requirements=Requirements.from_labels(_labels(reservation, zones)),
        price=price,
        available=found.available,
        reservation_id=reservation.id,
        steps=(step,),
    )


def _labels(reservation: Reservation, zones: Mapping[str, str]) -> dict[str, str]:
    zone_id = zones.get(reservation.availabilityZone, "")
    return {
        CAPACITY_TYPE: RESERVED,
        ZONE: reservation.availabilityZone,
        RESERVATION_ID: reservation.id,
        RESERVATION_TYPE: reservation.reservationType,
        RESERVATION_INTERRUPTIBLE: "true" if reservation.interruptible else "false",
        **({ZONE_ID: zone_id} if zone_id else {}),
    }


def _unpriced(cloud: Cloud, reservation: Reservation, prices: Extremes) -> Remark:
    message = (
        f"{reservation.instanceType} has no on-demand price; the reservation {reservation.id} "
        f"counts as the dearest, {prices.dearest}"
    )
    hint = "give the type a price in the Cloud"
    path = ("spec", "capacityReservations", _position(cloud, reservation))
    return warning("Cloud", cloud.metadata.name, path, message, hint)


def _position(cloud: Cloud, reservation: Reservation) -> int:
    return [each.id for each in cloud.spec.capacityReservations or []].index(reservation.id)


def left_out(cloud: Cloud, found: Sequence[Selected]) -> Iterator[Remark]:
    """Selected reservations that name what does not exist."""
    fields = {Standing.NO_SUCH_ZONE: "availabilityZone", Standing.NO_SUCH_TYPE: "instanceType"}
    for each in found:
        if each.standing in fields:
            position = _position(cloud, each.reservation)
            path = ("spec", "capacityReservations", position, fields[each.standing])
            message = f"{each.reservation.id} {each.standing.value}, and is not offered"
            yield warning("Cloud", cloud.metadata.name, path, message)
