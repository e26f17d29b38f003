"""Reservation filters: selector terms as EC2 wants them, so that it does the looking."""

from typing import Any

from wainwright.api.selectors import ReservationTerm
from wainwright.catalogue.reservations import ANY_VALUE

Request = dict[str, Any]
"""Parameters of one DescribeCapacityReservations call."""


def requests(terms: list[ReservationTerm]) -> list[Request]:
    """One call for all ids together, and one for every other term: filters cannot be OR-ed."""
    ids = sorted({term.id for term in terms if term.id is not None})
    others = [_filtered(term) for term in terms if term.id is None]
    named = [{"CapacityReservationIds": ids, "Filters": [_filter("state", "active")]}]
    return [*(named if ids else []), *others]


def _filtered(term: ReservationTerm) -> Request:
    told = (
        ("owner-id", term.ownerID),
        ("instance-match-criteria", term.instanceMatchCriteria),
        ("instance-type", term.instanceType),
        ("availability-zone", term.availabilityZone),
    )
    tags = [
        _filter("tag-key", key) if value == ANY_VALUE else _filter(f"tag:{key}", value)
        for key, value in sorted((term.tags or {}).items())
    ]
    fields = [_filter(name, value) for name, value in told if value is not None]
    return {"Filters": [_filter("state", "active"), *fields, *tags]}


def _filter(name: str, value: str) -> dict[str, Any]:
    return {"Name": name, "Values": [value]}
