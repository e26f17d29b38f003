"""Capacity reservations: selection, status, and the price of reserved offerings."""

from datetime import UTC, datetime, timedelta, timezone

import msgspec
import pytest
from tests.support.catalogue_builders import cloud_object, layered_offering

from wainwright.api.catalog_documents import CloudReservation
from wainwright.api.karpenter.ec2nodeclass import CapacityReservationSelectorTerm
from wainwright.catalogue.diagnostics import InvalidCatalogInput
from wainwright.catalogue.instancetypes.node_class_settings import AmiFamily
from wainwright.catalogue.offerings.capacity_reservations import (
    PriceRange,
    ReservationStanding,
    catalog_reservations,
    describe_reservation_requests,
    is_platform_compatible,
    matches_reservation_term,
    on_demand_price_in_zone,
    parse_reservation_time,
    price_range,
    standing_by_time,
    validate_reservation_times,
)

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def reservation(**fields: object) -> CloudReservation:
    defaults = {
        "id": "cr-1",
        "instanceType": "c5.large",
        "availabilityZone": "us-west-2a",
        "total": 1,
    }
    return msgspec.convert(defaults | fields, CloudReservation)


def term(**fields: object) -> CapacityReservationSelectorTerm:
    return msgspec.convert(fields, CapacityReservationSelectorTerm)


@pytest.mark.parametrize(
    ("fields", "selected"),
    [
        ({"id": "cr-1"}, True),
        ({"id": "cr-2"}, False),
        ({"ownerID": "111122223333"}, True),
        ({"ownerID": "444455556666"}, False),
        ({"tags": {"team": "web"}}, True),
        ({"tags": {"team": "*"}}, True),
        ({"tags": {"team": "db"}}, False),
        ({"tags": {"team": "*", "stage": "*"}}, False),
        ({"instanceMatchCriteria": "open"}, True),
        ({"instanceMatchCriteria": "targeted"}, False),
        ({"instanceType": "c5.large", "availabilityZone": "us-west-2a"}, True),
        ({"instanceType": "c5.large", "availabilityZone": "us-west-2b"}, False),
    ],
)
def test_a_term_matches_a_reservation_with_all_of_its_properties(
    fields: dict[str, object], selected: bool
) -> None:
    known = reservation(ownerID="111122223333", tags={"team": "web"}, instanceMatchCriteria="open")
    assert matches_reservation_term(term(**fields), known) is selected


def test_a_term_with_an_owner_does_not_match_an_unknown_owner() -> None:
    assert not matches_reservation_term(term(ownerID="111122223333"), reservation())


@pytest.mark.parametrize("family", AmiFamily)
def test_every_ami_family_is_compatible_with_its_platforms(family: AmiFamily) -> None:
    windows = family.value.startswith("Windows")
    assert is_platform_compatible("Linux/UNIX", family) is not windows
    assert is_platform_compatible("Windows", family) is windows
    assert is_platform_compatible("Windows with SQL Server Web", family) is windows
    assert is_platform_compatible("SUSE Linux", family) is (family is AmiFamily.CUSTOM)


def test_times_are_compared_across_time_zones() -> None:
    ends = (NOW + timedelta(hours=1)).astimezone(timezone(timedelta(hours=9))).isoformat()
    assert standing_by_time(reservation(endTime=ends), NOW) is ReservationStanding.OFFERED
    assert (
        standing_by_time(reservation(endTime=ends), NOW + timedelta(hours=1))
        is ReservationStanding.ENDED
    )


def test_a_time_without_zone_is_utc() -> None:
    assert parse_reservation_time("2026-03-01T12:00:00") == NOW


def test_an_invalid_time_is_an_error_with_its_field_path() -> None:
    wrong = {
        "id": "cr-1",
        "instanceType": "a",
        "availabilityZone": "b",
        "total": 1,
        "endTime": "soon",
    }
    with pytest.raises(
        InvalidCatalogInput, match=r"spec\.capacityReservations\[0\]\.endTime: expected a time"
    ):
        validate_reservation_times(cloud_object(capacityReservations=[wrong]))


def test_without_terms_there_is_no_ec2_request() -> None:
    assert describe_reservation_requests([]) == []


OFFERINGS = (
    layered_offering(price=2.0, zone="zone-a"),
    layered_offering(price=3.0, zone="zone-b"),
    layered_offering(price=0.5, capacity_type="spot"),
    layered_offering(price=0.0, capacity_type="spot", zone="zone-b"),
    layered_offering(price=None, capacity_type="spot", zone="zone-c"),
    layered_offering(price=1e-9, capacity_type="reserved", reservation_id="cr-1"),
    layered_offering(price=8.0, capacity_type=None, available=0),
)


def test_zero_missing_and_reserved_prices_do_not_count() -> None:
    assert price_range(OFFERINGS) == PriceRange(highest=8.0, lowest_spot=0.5, lowest=0.5)


def test_the_reserved_price_follows_the_formula() -> None:
    assert PriceRange(highest=407.68, lowest_spot=0.0015, lowest=0.0015).reserved_price(0.085) == (
        0.085 / (407.68 / 0.0015) / 1_000_000
    )


def test_an_on_demand_price_of_zero_counts_as_the_lowest() -> None:
    found = price_range(OFFERINGS)
    assert found.reserved_price(0.0) == found.reserved_price(0.5)


def test_without_any_price_the_range_has_defaults() -> None:
    assert price_range(()).reserved_price(1.0) == 1e-6


def test_a_reserved_price_below_the_smallest_float_is_not_zero() -> None:
    assert PriceRange(highest=1e300, lowest_spot=1e-300, lowest=1e-300).reserved_price(1e-300) > 0


@pytest.mark.parametrize(("zone", "price"), [("zone-a", 2.0), ("zone-b", 3.0), ("zone-c", 3.0)])
def test_the_on_demand_price_of_the_zone_is_preferred(zone: str, price: float) -> None:
    assert on_demand_price_in_zone(OFFERINGS, zone) == price


def test_a_price_for_any_zone_is_preferred_to_that_of_another_zone() -> None:
    anywhere = layered_offering(price=1.5, zone=None)
    assert on_demand_price_in_zone([*OFFERINGS, anywhere], "zone-c") == 1.5


def test_no_on_demand_price_is_none() -> None:
    assert on_demand_price_in_zone([layered_offering(capacity_type="spot")], "zone-a") is None


def test_a_reservation_of_a_catalog_has_the_smallest_count_that_is_not_zero() -> None:
    counts = {"m5.large": (0, 4), "m5.xlarge": (3,), "c5.large": (0,)}
    ids = {"m5.large": "cr-1", "m5.xlarge": "cr-1", "c5.large": "cr-2"}
    offerings = {
        name: tuple(
            layered_offering(capacity_type="reserved", reservation_id=ids[name], available=count)
            for count in each
        )
        for name, each in counts.items()
    }
    found = {each.reservation.id: each.available for each in catalog_reservations(offerings)}
    assert found == {"cr-1": 3, "cr-2": 0}
