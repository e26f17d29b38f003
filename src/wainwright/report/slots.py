"""Slots of reservations in words: how many a plan takes, and why a pool has none."""

from collections.abc import Iterable, Sequence
from typing import Any

from wainwright.catalogue.reservations import Selected
from wainwright.report.grouped import some

Document = dict[str, Any]


def usable(uses: Iterable[Document]) -> list[Document]:
    """Of the others a note says why nobody can use them."""
    return [use for use in uses if use["unusable"] is None]


def slots_said(use: Document) -> str:
    """3 of 5 free slots used, 1 promised to claims under way."""
    if not use["available"]:
        return f"none of {use['total']:,} slots is free"
    under_way = f"{use['promised']:,} promised to claims under way"
    promised = f", {under_way}" if use["promised"] else ""
    return f"{use['used']:,} of {use['available']:,} free slots used{promised}"


def no_slots(selected: Sequence[Selected]) -> str:
    """Why a pool whose class selects these finds no reserved capacity."""
    if not selected:
        return "its class selects no capacity reservation"
    full = [each.reservation.id for each in selected if each.is_offered and not each.available]
    if full:
        return f"no slot of {some(full)} is free"
    if len(selected) == 1 and not selected[0].is_offered:
        return f"{selected[0].reservation.id} {selected[0].standing.value}"
    return f"nothing can be had from {some(each.reservation.id for each in selected)}"
