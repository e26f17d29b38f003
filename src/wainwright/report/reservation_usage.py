"""Capacity reservations of a plan: what it uses, what stays idle and costs, and which pods could
have used it.
"""

from typing import Any

from wainwright.catalogue.class_catalog import is_reservation_active
from wainwright.catalogue.offerings.capacity_reservations import SelectedReservation
from wainwright.core.explain.idle_reservations.utilization import (
    ReservationUtilization,
    reservation_utilization,
)
from wainwright.messages.formatting import format_count, format_hourly, join_first
from wainwright.messages.unused_reservations import describe_obstacle
from wainwright.model.reasons import CurrentPlacement, PodsOffReservation
from wainwright.offline import OfflinePlan

Document = dict[str, Any]


def reservation_usage(planned: OfflinePlan) -> list[Document]:
    """Every reservation that some class selects, those that nobody can use last."""
    prepared = planned.prepared
    indexes = {name: built.index for name, built in prepared.built.items()}
    options = prepared.conditions.options
    found = reservation_utilization(prepared.snapshot, indexes, planned.plan, options)
    now = prepared.conditions.now
    unused = [
        _unusable(each, runs=is_reservation_active(each, now)) for each in prepared.passed_over
    ]
    return [*map(_usage, found), *unused]


def _usage(one: ReservationUtilization) -> Document:
    return {
        "id": one.id,
        "instanceType": one.instance_type,
        "zone": one.zone,
        "total": one.total,
        "available": one.available,
        "promised": one.promised,
        "used": one.used,
        "idle": one.idle,
        "idlePricePerHour": None if one.on_demand_price is None else one.on_demand_price * one.idle,
        "unusable": None,
        "notUsedBy": [_unused_by(kept) for kept in one.obstacles],
    }


def _unusable(selected: SelectedReservation, *, runs: bool) -> Document:
    """Idle as a whole as long as it is there; what that costs depends on what it is for."""
    one = selected.reservation
    return {
        "id": one.id,
        "instanceType": one.instanceType,
        "zone": one.availabilityZone,
        "total": one.total,
        "available": selected.available,
        "promised": 0,
        "used": 0,
        "idle": selected.available if runs else 0,
        "idlePricePerHour": None,
        "unusable": f"it {selected.standing.value}",
        "notUsedBy": [],
    }


def _unused_by(kept: PodsOffReservation) -> Document:
    return {
        "nodePool": kept.pool,
        "place": kept.placement.value,
        "reason": describe_obstacle(kept.reason, len(kept.pods)),
        "pods": list(kept.pods),
    }


USAGE_HEADINGS = (
    "RESERVATION",
    "TYPE",
    "ZONE",
    "TOTAL",
    "FREE",
    "PROMISED",
    "USED",
    "IDLE",
    "IDLE COSTS",
)
COUNT_FIELDS = ("total", "available", "promised", "used", "idle")
NUMERIC_COLUMNS = len(COUNT_FIELDS) + 1


def usage_rows(found: list[Document]) -> list[tuple[str, ...]]:
    return [
        (
            one["id"],
            one["instanceType"],
            one["zone"],
            *(f"{one[count]:,}" for count in COUNT_FIELDS),
            "-" if one["idlePricePerHour"] is None else format_hourly(one["idlePricePerHour"]),
        )
        for one in found
    ]


def usage_notes(found: list[Document]) -> list[str]:
    """Which cannot be used; who could have used what stays idle, and what kept them."""
    unusable = [
        f"{one['id']} cannot be used: {one['unusable']}" for one in found if one["unusable"]
    ]
    kept = [
        f"{one['id']}: {_pods_phrase(kept)} could not use it through {kept['nodePool']}: "
        f"{kept['reason']} ({join_first(kept['pods'])})"
        for one in found
        if one["idle"]
        for kept in one["notUsedBy"]
    ]
    return [*kept, *unusable]


def _pods_phrase(kept: Document) -> str:
    count = len(kept["pods"])
    pods = format_count(count, "pod")
    if kept["place"] == CurrentPlacement.NONE.value:
        return f"{pods} without a place"
    if kept["place"] == CurrentPlacement.NEW.value:
        return f"{pods} on {'a new node' if count == 1 else 'new nodes'}"
    return pods
