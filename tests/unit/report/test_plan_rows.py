"""Reservation usage in words."""

from typing import Any

import pytest

from wainwright.api.catalog_documents import CloudReservation
from wainwright.catalogue.offerings.capacity_reservations import (
    ReservationStanding,
    SelectedReservation,
)
from wainwright.report.plan_rows import (
    format_relaxation,
    format_reservation_use,
    usable_reservations,
)
from wainwright.report.pool_warnings import why_no_reserved_capacity

USES = [
    ((10, 5, 0, 2), "10 instances: 5 in use, 5 free, 2 taken by the plan, 3 idle"),
    ((10, 3, 3, 0), "10 instances: 10 in use, 0 free, 0 taken by the plan, 0 idle"),
    ((10, 0, 0, 0), "10 instances: 10 in use, 0 free, 0 taken by the plan, 0 idle"),
]


@pytest.mark.parametrize(("counts", "expected"), USES)
def test_in_flight_instances_and_a_full_reservation_are_reported(
    counts: tuple[int, int, int, int], expected: str
) -> None:
    keys = ("total", "available", "promised", "used")
    assert format_reservation_use(dict(zip(keys, counts, strict=True))) == expected


@pytest.mark.parametrize(("count", "end"), [(10, "p9"), (3010, "p9; and 3,000 more preferences")])
def test_of_many_relaxed_preferences_the_first_are_named(count: int, end: str) -> None:
    given_up = [f"p{number}" for number in range(count)]
    relaxed = {"pods": ["shop/web"], "givenUp": given_up, "keptPricePerHour": None}
    text = format_relaxation(relaxed)
    assert text.startswith("preferences relaxed for shop/web: p0; p1; ")
    assert text.endswith(f"; p8; {end} (no node meets them)")


def test_unusable_reservations_are_left_to_a_note() -> None:
    uses: list[dict[str, Any]] = [
        {"id": "cr-a", "unusable": None},
        {"id": "cr-b", "unusable": "it has ended"},
    ]
    assert [use["id"] for use in usable_reservations(uses)] == ["cr-a"]


def selected(name: str, standing: ReservationStanding, available: int = 1) -> SelectedReservation:
    one = CloudReservation(
        id=name,
        instanceType="c5.large",
        availabilityZone="us-west-2a",
        total=1,
        available=available,
    )
    return SelectedReservation(reservation=one, standing=standing)


WITHOUT = [
    ([], "its class selects no capacity reservation"),
    ([selected("cr-a", ReservationStanding.OFFERED, 0)], "cr-a has no free instance"),
    ([selected("cr-a", ReservationStanding.ENDED)], "cr-a has ended"),
    (
        [
            selected("cr-a", ReservationStanding.ENDED),
            selected("cr-b", ReservationStanding.OTHER_TENANCY),
        ],
        "nothing can be launched from cr-a, cr-b",
    ),
    (
        [
            selected("cr-a", ReservationStanding.ENDED),
            selected("cr-b", ReservationStanding.OFFERED, 0),
        ],
        "cr-b has no free instance",
    ),
]


@pytest.mark.parametrize(("found", "expected"), WITHOUT, ids=lambda each: str(len(each)))
def test_a_pool_without_reserved_capacity_has_a_reason(
    found: list[SelectedReservation], expected: str
) -> None:
    assert why_no_reserved_capacity(found) == expected
