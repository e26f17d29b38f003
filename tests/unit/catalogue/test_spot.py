"""The spot model: repeatable, below on-demand, and shaped as it was measured."""

from statistics import median, quantiles

import pytest

from wainwright.catalogue import builtin, regions
from wainwright.catalogue.spot import draw, ratio, spot_prices


def ratios(region: str) -> list[float]:
    return [
        ratio(builtin.machines()[name], region, zone.name)
        for name, zones in regions.region(region).offered.items()
        for zone in zones
    ]


@pytest.mark.parametrize(("region", "measured"), [("us-east-1", 0.38), ("eu-north-1", 0.21)])
def test_the_median_of_a_region_is_near_the_measured_one(region: str, measured: float) -> None:
    assert median(ratios(region)) == pytest.approx(measured, rel=0.1)


def test_all_pools_together_spread_as_the_measured_ones_do() -> None:
    everywhere = [each for region in regions.names() for each in ratios(region)]
    twentieths = quantiles(everywhere, n=20)
    found = {percent: twentieths[percent // 5 - 1] for percent in (5, 25, 50, 75, 95)}
    assert found == pytest.approx({5: 0.11, 25: 0.23, 50: 0.32, 75: 0.41, 95: 0.57}, rel=0.2)


def test_spot_is_always_below_on_demand_and_never_free() -> None:
    assert all(0.10 <= each <= 0.95 for each in ratios("eu-west-1"))


def test_zones_of_one_type_have_prices_of_their_own() -> None:
    zones = [zone.name for zone in regions.region("us-west-2").zones]
    machine = builtin.machines()["m5.large"]
    found = spot_prices(machine, region="us-west-2", zones=zones, on_demand=0.096)
    assert sorted(found) == zones
    assert len(set(found.values())) == len(zones)


def test_a_price_hangs_on_type_region_and_zone_alone() -> None:
    machine = builtin.machines()["m5.large"]
    alone = spot_prices(machine, region="us-west-2", zones=["us-west-2c"], on_demand=0.096)
    zones = ["us-west-2a", "us-west-2b", "us-west-2c"]
    together = spot_prices(machine, region="us-west-2", zones=zones, on_demand=0.096)
    assert together["us-west-2c"] == alone["us-west-2c"] == 0.041961


def test_draws_are_like_those_of_the_normal_distribution() -> None:
    draws = [draw(f"name {number}") for number in range(2000)]
    assert abs(sum(draws) / len(draws)) < 0.1
    assert sum(each**2 for each in draws) / len(draws) == pytest.approx(1.0, abs=0.1)
    assert max(map(abs, draws)) < 3.5
