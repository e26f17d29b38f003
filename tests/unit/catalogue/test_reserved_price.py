"""The price of reserved capacity, at its edges."""

import pytest
from tests.support.catalogue import lot

from wainwright.catalogue.reserved_price import Extremes, extremes, on_demand_price

LOTS = (
    lot(price=2.0, zone="zone-a"),
    lot(price=3.0, zone="zone-b"),
    lot(price=0.5, capacity_type="spot"),
    lot(price=0.0, capacity_type="spot", zone="zone-b"),
    lot(price=None, capacity_type="spot", zone="zone-c"),
    lot(price=1e-9, capacity_type="reserved", reservation_id="cr-1"),
    lot(price=8.0, capacity_type=None, available=0),
)


def test_zero_missing_and_reserved_prices_do_not_count() -> None:
    assert extremes(LOTS) == Extremes(dearest=8.0, cheapest_spot=0.5, cheapest=0.5)


def test_the_formula_divides_as_it_is_written() -> None:
    assert Extremes(dearest=407.68, cheapest_spot=0.0015, cheapest=0.0015).reserved(0.085) == (
        0.085 / (407.68 / 0.0015) / 1_000_000
    )


def test_what_is_free_on_demand_counts_as_the_cheapest() -> None:
    found = extremes(LOTS)
    assert found.reserved(0.0) == found.reserved(0.5)


def test_without_any_price_there_is_still_one() -> None:
    assert extremes(()).reserved(1.0) == 1e-6


def test_a_price_too_small_for_a_number_is_not_zero() -> None:
    assert Extremes(dearest=1e300, cheapest_spot=1e-300, cheapest=1e-300).reserved(1e-300) > 0


@pytest.mark.parametrize(("zone", "price"), [("zone-a", 2.0), ("zone-b", 3.0), ("zone-c", 3.0)])
def test_the_zones_own_on_demand_price_goes_first(zone: str, price: float) -> None:
    assert on_demand_price(LOTS, zone) == price


def test_a_price_for_any_zone_goes_before_that_of_another_zone() -> None:
    anywhere = lot(price=1.5, zone=None)
    assert on_demand_price([*LOTS, anywhere], "zone-c") == 1.5


def test_no_on_demand_price_is_none() -> None:
    assert on_demand_price([lot(capacity_type="spot")], "zone-a") is None
