"""Reservations of a plan: what it uses, what stays idle and costs, and who could have used it."""

from typing import Any

from wainwright.core.idle import Idle, Kept, idle
from wainwright.offline import Planned
from wainwright.report import words
from wainwright.report.grouped import some
from wainwright.report.money import hourly

Document = dict[str, Any]


def reservations(planned: Planned) -> list[Document]:
    """Every reservation that some class selects and that is offered."""
    indexes = {name: built.index for name, built in planned.prepared.built.items()}
    found = idle(planned.prepared.snapshot, indexes, planned.plan)
    return [_document(one) for one in found]


def _document(one: Idle) -> Document:
    return {
        "id": one.id,
        "instanceType": one.instance_type,
        "zone": one.zone,
        "total": one.total,
        "available": one.available,
        "used": one.used,
        "idle": one.idle,
        "idlePricePerHour": None if one.worth is None else one.worth * one.idle,
        "notUsedBy": [_kept(kept) for kept in one.kept],
    }


def _kept(kept: Kept) -> Document:
    reason = "found room on another node" if kept.reason is None else words.pool(kept.reason)
    return {"nodePool": kept.pool, "reason": reason, "pods": list(kept.pods)}


HEADINGS = ("RESERVATION", "TYPE", "ZONE", "TOTAL", "FREE", "USED", "IDLE", "IDLE COSTS")


def rows(found: list[Document]) -> list[tuple[str, ...]]:
    return [
        (
            one["id"],
            one["instanceType"],
            one["zone"],
            str(one["total"]),
            str(one["available"]),
            str(one["used"]),
            str(one["idle"]),
            "-" if one["idlePricePerHour"] is None else hourly(one["idlePricePerHour"]),
        )
        for one in found
    ]


def remarks(found: list[Document]) -> list[str]:
    """Who could have used what stays idle, and what kept them."""
    return [
        f"{one['id']}: {_pods(len(kept['pods']))} could not use it through {kept['nodePool']}: "
        f"{kept['reason']} ({some(kept['pods'])})"
        for one in found
        if one["idle"]
        for kept in one["notUsedBy"]
    ]


def _pods(count: int) -> str:
    return "1 pod" if count == 1 else f"{count:,} pods"
