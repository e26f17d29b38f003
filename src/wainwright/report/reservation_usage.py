"""Capacity reservations of a plan: used and idle instances, their cost, and pods that could use
them.
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
from wainwright.report.plan_rows import RESERVATION_HEADINGS, reservation_counts

Document = dict[str, Any]


def reservation_usage(planned: OfflinePlan) -> list[Document]:
    """Every reservation that a class selects, unusable ones last."""
    prepared = planned.prepared
    indexes = {name: catalog.index for name, catalog in prepared.catalogs.items()}
    options = prepared.settings.options
    utilization = reservation_utilization(prepared.snapshot, indexes, planned.plan, options)
    now = prepared.settings.now
    unusable = [
        _unusable(each, is_active=is_reservation_active(each, now))
        for each in prepared.unusable_reservations
    ]
    return [*map(usage_document, utilization), *unusable]


def usage_document(utilization: ReservationUtilization) -> Document:
    return {
        "id": utilization.id,
        "instanceType": utilization.instance_type,
        "zone": utilization.zone,
        "total": utilization.total,
        "available": utilization.available,
        "promised": utilization.promised,
        "used": utilization.used,
        "idle": utilization.idle,
        "idlePricePerHour": None
        if utilization.on_demand_price is None
        else utilization.on_demand_price * utilization.idle,
        "modelledPrice": utilization.modelled_price,
        "unusable": None,
        "notUsedBy": [_unused_by(kept) for kept in utilization.obstacles],
    }


def _unusable(selected: SelectedReservation, *, is_active: bool) -> Document:
    """Fully idle while it is active; its price is unknown, because nothing is offered from it."""
    reservation = selected.reservation
    return {
        "id": reservation.id,
        "instanceType": reservation.instanceType,
        "zone": reservation.availabilityZone,
        "total": reservation.total,
        "available": selected.available,
        "promised": 0,
        "used": 0,
        "idle": selected.available if is_active else 0,
        "idlePricePerHour": None,
        "modelledPrice": False,
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
    *RESERVATION_HEADINGS[1:],
    "IDLE COSTS",
)
NUMERIC_COLUMNS = len(RESERVATION_HEADINGS)


def usage_rows(rows: list[Document]) -> list[tuple[str, ...]]:
    return [
        (
            row["id"],
            row["instanceType"],
            row["zone"],
            *reservation_counts(row),
            _idle_costs(row),
        )
        for row in rows
    ]


def _idle_costs(row: Document) -> str:
    price = row["idlePricePerHour"]
    return "-" if price is None else format_hourly(price, modelled=row["modelledPrice"])


def usage_notes(rows: list[Document]) -> list[str]:
    """Pods that could have used idle instances and why they do not, then unusable reservations."""
    unusable = [f"{row['id']} cannot be used: {row['unusable']}" for row in rows if row["unusable"]]
    kept = [
        f"{row['id']}: {_pods_phrase(kept)} could not use it through {kept['nodePool']}: "
        f"{kept['reason']} ({join_first(kept['pods'])})"
        for row in rows
        if row["idle"]
        for kept in row["notUsedBy"]
    ]
    return [*kept, *unusable]


def _pods_phrase(kept: Document) -> str:
    count = len(kept["pods"])
    pods = format_count(count, "pod")
    if kept["place"] == CurrentPlacement.NONE.value:
        return f"{pods} that are unschedulable" if count > 1 else "1 pod that is unschedulable"
    if kept["place"] == CurrentPlacement.NEW.value:
        return f"{pods} on {'a new node' if count == 1 else 'new nodes'}"
    return pods
