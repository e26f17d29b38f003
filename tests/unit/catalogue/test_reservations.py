"""Capacity reservations: terms, times, platforms, and what EC2 is asked."""

from datetime import UTC, datetime, timedelta, timezone

import msgspec
import pytest
from tests.support.catalogue import cloud

from wainwright.api.cloud import Reservation
from wainwright.api.selectors import ReservationTerm
from wainwright.catalogue.ami import AmiFamily
from wainwright.catalogue.remarks import Refused
from wainwright.catalogue.reservation_filters import requests
from wainwright.catalogue.reservations import Standing, check_times, moment, selects, serves, timing

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def reservation(**fields: object) -> Reservation:
    stated = {
        "id": "cr-1",
        "instanceType": "c5.large",
        "availabilityZone": "us-west-2a",
        "total": 1,
    }
    return msgspec.convert(stated | fields, Reservation)


def term(**fields: object) -> ReservationTerm:
    return msgspec.convert(fields, ReservationTerm)


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
def test_a_term_selects_where_all_it_says_is_true(
    fields: dict[str, object], selected: bool
) -> None:
    known = reservation(ownerID="111122223333", tags={"team": "web"}, instanceMatchCriteria="open")
    assert selects(term(**fields), known) is selected


def test_an_unknown_owner_is_nobody() -> None:
    assert not selects(term(ownerID="111122223333"), reservation())


@pytest.mark.parametrize("family", AmiFamily)
def test_every_family_has_the_platforms_that_it_runs_on(family: AmiFamily) -> None:
    windows = family.value.startswith("Windows")
    assert serves("Linux/UNIX", family) is not windows
    assert serves("Windows", family) is windows
    assert serves("Windows with SQL Server Web", family) is windows
    assert serves("SUSE Linux", family) is (family is AmiFamily.CUSTOM)


def test_times_are_compared_across_time_zones() -> None:
    ends = (NOW + timedelta(hours=1)).astimezone(timezone(timedelta(hours=9))).isoformat()
    assert timing(reservation(endTime=ends), NOW) is Standing.OFFERED
    assert timing(reservation(endTime=ends), NOW + timedelta(hours=1)) is Standing.ENDED


def test_a_time_without_zone_is_utc() -> None:
    assert moment("2026-03-01T12:00:00") == NOW


def test_what_is_no_time_is_refused_with_its_place() -> None:
    wrong = {
        "id": "cr-1",
        "instanceType": "a",
        "availabilityZone": "b",
        "total": 1,
        "endTime": "soon",
    }
    with pytest.raises(Refused, match=r"spec\.capacityReservations\[0\]\.endTime: expected a time"):
        check_times(cloud(capacityReservations=[wrong]))


def test_no_terms_ask_ec2_nothing() -> None:
    assert requests([]) == []
