"""Reservations of a plan: what it uses, what stays idle and costs, and who could have used it."""

from typing import Any

from wainwright.catalogue.reservations import Selected
from wainwright.catalogue.selection import still_runs
from wainwright.core.idleness.idle import Idle, idle
from wainwright.model.obstacle import KeptOff, Place
from wainwright.offline import Planned
from wainwright.report.grouped import some
from wainwright.report.money import hourly
from wainwright.report.numbers import counted
from wainwright.report.obstacles import obstacle

Document = dict[str, Any]


def reservations(planned: Planned) -> list[Document]:
    """Every reservation that some class selects, those that nobody can use last."""
    prepared = planned.prepared
    indexes = {name: built.index for name, built in prepared.built.items()}
    options = prepared.conditions.options
    found = idle(prepared.snapshot, indexes, planned.plan, options)
    now = prepared.conditions.now
    unused = [_unusable(each, runs=still_runs(each, now)) for each in prepared.passed_over]
    return [*map(_document, found), *unused]


def _document(one: Idle) -> Document:
    return {
        "id": one.id,
        "instanceType": one.instance_type,
        "zone": one.zone,
        "total": one.total,
        "available": one.available,
        "promised": one.promised,
        "used": one.used,
        "idle": one.idle,
        "idlePricePerHour": None if one.worth is None else one.worth * one.idle,
        "unusable": None,
        "notUsedBy": [_kept(kept) for kept in one.kept],
    }


def _unusable(selected: Selected, *, runs: bool) -> Document:
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


def _kept(kept: KeptOff) -> Document:
    return {
        "nodePool": kept.pool,
        "place": kept.place.value,
        "reason": obstacle(kept.reason, len(kept.pods)),
        "pods": list(kept.pods),
    }


HEADINGS = (
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
COUNTS = ("total", "available", "promised", "used", "idle")
NUMBERS = len(COUNTS) + 1


def rows(found: list[Document]) -> list[tuple[str, ...]]:
    return [
        (
            one["id"],
            one["instanceType"],
            one["zone"],
            *(f"{one[count]:,}" for count in COUNTS),
            "-" if one["idlePricePerHour"] is None else hourly(one["idlePricePerHour"]),
        )
        for one in found
    ]


def remarks(found: list[Document]) -> list[str]:
    """Which cannot be used; who could have used what stays idle, and what kept them."""
    unusable = [
        f"{one['id']} cannot be used: {one['unusable']}" for one in found if one["unusable"]
    ]
    kept = [
        f"{one['id']}: {_pods(kept)} could not use it through {kept['nodePool']}: "
        f"{kept['reason']} ({some(kept['pods'])})"
        for one in found
        if one["idle"]
        for kept in one["notUsedBy"]
    ]
    return [*kept, *unusable]


def _pods(kept: Document) -> str:
    count = len(kept["pods"])
    pods = counted(count, "pod")
    if kept["place"] == Place.NONE.value:
        return f"{pods} without a place"
    if kept["place"] == Place.NEW.value:
        return f"{pods} on {'a new node' if count == 1 else 'new nodes'}"
    return pods
